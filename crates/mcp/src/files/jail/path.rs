//! The path rules that need no file system: what a path asks for, and where a link points. Pure.

use std::ffi::OsString;
use std::path::{Component, Path, PathBuf};

use crate::files::error::FileError;

/// The longest path that is looked at; Linux takes no longer one either.
pub(in crate::files) const MAX_PATH_BYTES: usize = 4096;
/// The longest name of one file or directory on the common file systems.
pub(in crate::files) const MAX_NAME_BYTES: usize = 255;
/// Directories one inside the other. Each is an open handle while a path is walked.
pub(in crate::files) const MAX_DEPTH: usize = 64;

/// One step of a walk.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Part {
    Name(OsString),
    Up,
}

/// A path as asked for by a caller.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Request {
    pub(super) parts: Vec<Part>,
    /// Written as a directory: it ends in `/`, `.` or `..`.
    pub(super) names_directory: bool,
}

/// Where a link points.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct LinkTarget {
    /// True: the parts start at the root. False: at the directory that holds the link.
    pub(super) from_root: bool,
    pub(super) parts: Vec<Part>,
}

impl Request {
    /// Reads a path. Refused as outside, before anything is looked up: an absolute path, one that counts
    /// more `..` than names at any point, one that starts at `~` (a home directory to those who write it), and
    /// one with a NUL, which no file can have. Everything else is taken by the letter.
    pub(super) fn parse(path: &str) -> Result<Self, FileError> {
        if path.is_empty() {
            return Err(FileError::EmptyPath);
        }
        if path.starts_with('/') || path == "~" || path.starts_with("~/") || path.contains('\0') {
            return Err(FileError::Outside);
        }
        let mut parts = Vec::new();
        let mut depth = 0_usize;
        let mut deepest = 0;
        let mut longest = 0;
        let mut names_directory = false;
        for part in path.split('/') {
            names_directory = matches!(part, "" | "." | "..");
            match part {
                "" | "." => {}
                ".." => {
                    depth = depth.checked_sub(1).ok_or(FileError::Outside)?;
                    parts.push(Part::Up);
                }
                name => {
                    depth += 1;
                    deepest = deepest.max(depth);
                    longest = longest.max(name.len());
                    parts.push(Part::Name(name.into()));
                }
            }
        }
        if path.len() > MAX_PATH_BYTES {
            return Err(FileError::PathTooLong);
        }
        if longest > MAX_NAME_BYTES {
            return Err(FileError::NameTooLong);
        }
        if deepest > MAX_DEPTH {
            return Err(FileError::TooDeep);
        }
        Ok(Self { parts, names_directory })
    }
}

/// Where a link with this content points; None for an absolute one that does not start with one of the
/// root's own `spellings`.
pub(super) fn link_target(content: &Path, spellings: &[PathBuf]) -> Option<LinkTarget> {
    let from_root = content.has_root();
    let relative = if from_root {
        spellings.iter().find_map(|spelling| content.strip_prefix(spelling).ok())?
    } else {
        content
    };
    let mut parts = Vec::new();
    for component in relative.components() {
        match component {
            Component::Normal(name) => parts.push(Part::Name(name.to_owned())),
            Component::ParentDir => parts.push(Part::Up),
            Component::CurDir => {}
            Component::RootDir | Component::Prefix(_) => return None,
        }
    }
    Some(LinkTarget { from_root, parts })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> Part {
        Part::Name(text.into())
    }

    #[test]
    fn parts_are_taken_by_the_letter() {
        let parse = |path| Request::parse(path).unwrap();
        assert_eq!(
            parse("a/b.txt"),
            Request { parts: vec![name("a"), name("b.txt")], names_directory: false }
        );
        assert_eq!(parse("./a//b"), Request { parts: vec![name("a"), name("b")], names_directory: false });
        assert_eq!(
            parse("a/../b"),
            Request { parts: vec![name("a"), Part::Up, name("b")], names_directory: false }
        );
        assert_eq!(parse("a/"), Request { parts: vec![name("a")], names_directory: true });
        assert_eq!(parse("."), Request { parts: vec![], names_directory: true });
        assert_eq!(parse("a/.."), Request { parts: vec![name("a"), Part::Up], names_directory: true });
        for literal in
            ["...", "..a", "~a", "a~", " ", "-rf", "C:\\x", "%2e%2e", "..\\..\\x", "\u{202e}x", "\n"]
        {
            assert_eq!(parse(literal).parts, vec![name(literal)], "{literal:?}");
        }
    }

    #[test]
    fn outside_is_said_before_anything_else() {
        let too_long_a_name = format!("../{}", "n".repeat(300));
        let too_long_a_path = format!("../{}", "n/".repeat(MAX_PATH_BYTES));
        let outside = [
            "/",
            "/etc/passwd",
            "//x",
            "..",
            "../",
            "../x",
            "./../x",
            "a/../../a",
            "a/b/../../../a/b",
            "~",
            "~/f",
            "a\0b",
            "\0",
            &too_long_a_name,
            &too_long_a_path,
        ];
        for path in outside {
            assert!(matches!(Request::parse(path), Err(FileError::Outside)), "{path:?}");
        }
    }

    #[test]
    fn lengths_have_limits() {
        let parse = |path: String| Request::parse(&path);
        assert!(matches!(parse(String::new()), Err(FileError::EmptyPath)));
        assert!(parse("n".repeat(255)).is_ok());
        assert!(matches!(parse("n".repeat(256)), Err(FileError::NameTooLong)));
        // 255 bytes, not characters: 64 emoji are 256 bytes.
        assert!(matches!(parse("\u{1f980}".repeat(64)), Err(FileError::NameTooLong)));
        assert!(parse("d/".repeat(64)).is_ok());
        assert!(matches!(parse("d/".repeat(65)), Err(FileError::TooDeep)));
        assert!(parse("d/../".repeat(800)).is_ok());
        assert!(matches!(parse("./".repeat(2049)), Err(FileError::PathTooLong)));
    }

    #[test]
    fn an_absolute_link_counts_from_the_root_only_below_its_own_path() {
        let spellings = [PathBuf::from("/srv/box"), PathBuf::from("/mnt/real")];
        let target = |content: &str| link_target(Path::new(content), &spellings);
        let from_root = |parts| Some(LinkTarget { from_root: true, parts });
        assert_eq!(target("/srv/box/a"), from_root(vec![name("a")]));
        assert_eq!(target("/mnt/real/a/b"), from_root(vec![name("a"), name("b")]));
        assert_eq!(target("/srv/box"), from_root(vec![]));
        // The walk refuses this one: there is nothing above the root to go up to.
        assert_eq!(target("/srv/box/../x"), from_root(vec![Part::Up, name("x")]));
        assert_eq!(target("/srv/box-evil/a"), None);
        assert_eq!(target("/srv"), None);
        assert_eq!(target("/etc/passwd"), None);
        assert_eq!(target("../a"), Some(LinkTarget { from_root: false, parts: vec![Part::Up, name("a")] }));
    }
}
