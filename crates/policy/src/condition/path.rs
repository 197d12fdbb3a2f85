//! Is a path within a directory, judged from its text alone.
//!
//! The operand is a directory relative to the tool's root (`.` is that root), or an absolute one. A relative path is
//! judged against a relative directory, an absolute path against an absolute one; how one lies to the other cannot be
//! known from the text. What a path names must follow from its text whatever the tool does with it, so a text that
//! different programs read differently is refused (unevaluable) rather than guessed at:
//!
//! - `~`, drive letters, two slashes at the start, and schemes such as `file:`: they name another root;
//! - any `..`: with links on the way, what it names cannot be known from the text;
//! - a backslash: a separator for some, a character for others;
//! - percent-encoded dots, slashes, backslashes, NUL and percent signs: a reader that decodes sees another path;
//! - control characters, NUL among them; the empty text.
//!
//! What every program reads alike is normalised: a `.` component, a doubled slash inside, and a trailing slash are
//! dropped. Then components are compared, byte for byte: `docs-old/f` is not within `docs`.
//!
//! Links are not seen here. A tool that serves files must confine itself (and the shipped one does).

use alloc::string::String;
use alloc::vec::Vec;

/// A directory.
#[derive(Debug, Clone)]
pub(super) struct Directory {
    absolute: bool,
    components: Vec<String>,
}

/// A path that was read.
#[derive(Debug)]
pub(super) struct Plain<'a> {
    absolute: bool,
    components: Vec<&'a str>,
}

impl Directory {
    pub(super) fn new(text: &str) -> Option<Self> {
        let Plain { absolute, components } = Plain::new(text)?;
        Some(Self { absolute, components: components.into_iter().map(String::from).collect() })
    }

    /// Whether the path is this directory or something in it; `None` if one is absolute and the other is not.
    pub(super) fn contains(&self, path: &Plain<'_>) -> Option<bool> {
        let start = path.components.get(..self.components.len());
        (self.absolute == path.absolute)
            .then(|| start.is_some_and(|start| start == self.components.as_slice()))
    }
}

impl<'a> Plain<'a> {
    /// Reads a path; `None` if what it names does not follow from its text.
    pub(super) fn new(path: &'a str) -> Option<Self> {
        if path.is_empty() || path.starts_with("//") || path.chars().any(|c| c == '\\' || c.is_control()) {
            return None;
        }
        let components: Vec<&str> = path.split('/').filter(|c| !c.is_empty() && *c != ".").collect();
        let plain = !components.contains(&"..")
            && !components.first().copied().is_some_and(names_a_root)
            && !hides_a_separator(path);
        plain.then_some(Self { absolute: path.starts_with('/'), components })
    }
}

/// A first component such as `C:`, `C:notes` or `file:`.
fn names_a_root(first: &str) -> bool {
    let drive = first.as_bytes().first().is_some_and(u8::is_ascii_alphabetic) && first.get(1..2) == Some(":");
    drive || first.ends_with(':') || first.starts_with('~')
}

fn hides_a_separator(path: &str) -> bool {
    path.split('%').skip(1).any(|after| {
        after.get(..2).is_some_and(|code| {
            ["2e", "2f", "5c", "25", "00"].iter().any(|hidden| code.eq_ignore_ascii_case(hidden))
        })
    })
}
