//! Is a path within a directory, judged from its text alone.
//!
//! The text is a path relative to the tool's root. What it names must follow from the text whatever the tool does with
//! it, so a text that different programs read differently is refused (unevaluable) rather than guessed at:
//!
//! - absolute paths, `~`, drive letters, and schemes such as `file:`: the root does not bound them;
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

/// A directory below the root, in components. The root itself has none.
#[derive(Debug, Clone)]
pub(super) struct Directory(Vec<String>);

impl Directory {
    pub(super) fn new(text: &str) -> Option<Self> {
        Some(Self(components(text)?.into_iter().map(String::from).collect()))
    }

    /// Whether the path of these components is this directory or something in it.
    pub(super) fn contains(&self, path: &[&str]) -> bool {
        path.get(..self.0.len()).is_some_and(|start| start == self.0.as_slice())
    }
}

/// The components of a plain relative path; `None` if what it names does not follow from its text.
pub(super) fn components(path: &str) -> Option<Vec<&str>> {
    if path.is_empty() || path.starts_with('/') || path.chars().any(|c| c == '\\' || c.is_control()) {
        return None;
    }
    let components: Vec<&str> = path.split('/').filter(|c| !c.is_empty() && *c != ".").collect();
    let plain = !components.contains(&"..")
        && !components.first().copied().is_some_and(names_a_root)
        && !hides_a_separator(path);
    plain.then_some(components)
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
