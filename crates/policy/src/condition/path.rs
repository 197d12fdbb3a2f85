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
//! - letters that turn into dots or separators when a program brings them into a compatible form, such as `．．／`.
//!
//! What every program reads alike is normalised: a `.` component, a doubled slash inside, and a trailing slash are
//! dropped. Then components are compared, byte for byte: `docs-old/f` is not within `docs`.
//!
//! Whether `Docs` is `docs` depends on the file system, and so it does for two Unicode forms of one name and for dots and
//! spaces at the end of one. Names that differ in this alone are neither the same nor safely different: unevaluable.
//!
//! Links are not seen here. A tool that serves files must confine itself (and the shipped one does).

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;

use icu_normalizer::ComposingNormalizerBorrowed;

/// A directory.
#[derive(Debug, Clone)]
pub(super) struct Directory {
    absolute: bool,
    /// Components joined by single slashes; empty for the root.
    text: Box<str>,
    /// As in [`Plain`].
    folded: Option<Box<str>>,
}

/// A path that was read.
#[derive(Debug)]
pub(super) struct Plain<'a> {
    absolute: bool,
    /// Components joined by single slashes; empty for the root.
    text: Cow<'a, str>,
    /// The same as a file system sees it that knows neither case nor Unicode forms, where that is another text.
    folded: Option<String>,
}

impl Directory {
    pub(super) fn new(text: &str) -> Option<Self> {
        let Plain { absolute, text, folded } = Plain::new(text)?;
        Some(Self { absolute, text: text.into(), folded: folded.map(String::into_boxed_str) })
    }

    /// Whether the path is this directory or something in it; `None` if the text does not tell.
    pub(super) fn contains(&self, path: &Plain<'_>) -> Option<bool> {
        if self.absolute != path.absolute {
            return None;
        }
        if is_within(&self.text, &path.text) {
            return Some(true);
        }
        (!is_within(self.folded.as_deref().unwrap_or(&self.text), path.folded())).then_some(false)
    }
}

/// Whether the first components are those of the directory.
fn is_within(directory: &str, path: &str) -> bool {
    directory.is_empty()
        || path.strip_prefix(directory).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

impl<'a> Plain<'a> {
    /// Reads a path; `None` if what it names does not follow from its text.
    pub(super) fn new(path: &'a str) -> Option<Self> {
        if path.is_empty() || path.starts_with("//") || path.chars().any(|c| c == '\\' || c.is_control()) {
            return None;
        }
        let absolute = path.starts_with('/');
        let body = path.strip_prefix('/').unwrap_or(path);
        let tidy = body.is_empty() || body.split('/').all(|component| !matches!(component, "" | "."));
        let text = if tidy { Cow::Borrowed(body) } else { Cow::Owned(components(body).join("/")) };
        if !is_plain(&text) || hides_a_separator(path) {
            return None;
        }
        let folded = match fold(&text)? {
            Cow::Borrowed(_) => None,
            Cow::Owned(folded) => Some(folded),
        };
        Some(Self { absolute, text, folded })
    }

    fn folded(&self) -> &str {
        self.folded.as_deref().unwrap_or(&self.text)
    }
}

fn components(path: &str) -> Vec<&str> {
    path.split('/').filter(|component| !matches!(*component, "" | ".")).collect()
}

/// Whether joined components name something below the place where they begin, for every program.
fn is_plain(text: &str) -> bool {
    let mut components = text.split('/');
    let first = components.next().unwrap_or("");
    first != ".." && !names_a_root(first) && components.all(|component| component != "..")
}

/// As the most forgiving file system sees the names: without case, in one Unicode form, without dots and spaces at their
/// ends. `None` if there the text would have another structure.
fn fold(text: &str) -> Option<Cow<'_, str>> {
    let at_end = |component: &str| component.ends_with(['.', ' ']);
    if text.bytes().all(|b| b.is_ascii() && !b.is_ascii_uppercase()) && !text.split('/').any(at_end) {
        return Some(Cow::Borrowed(text));
    }
    let compatible = ComposingNormalizerBorrowed::new_nfkc().normalize(text);
    let separators = |text: &str| text.bytes().filter(|b| matches!(b, b'/' | b'\\')).count();
    if separators(&compatible) != separators(text) || !is_plain(&compatible) || hides_a_separator(&compatible)
    {
        return None;
    }
    // There and back, so that letters with several small forms become one.
    let lower: String =
        compatible.chars().flat_map(char::to_uppercase).flat_map(char::to_lowercase).collect();
    let one_form = ComposingNormalizerBorrowed::new_nfkc().normalize(&lower);
    let trimmed: Vec<&str> =
        one_form.split('/').map(|component| component.trim_end_matches(['.', ' '])).collect();
    Some(Cow::Owned(trimmed.join("/")))
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
