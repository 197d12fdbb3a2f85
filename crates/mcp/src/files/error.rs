//! Why a file operation was not done. Each is an answer for the model, never a protocol error.

use std::io;

use thiserror::Error;

use super::{jail, operations};

/// The one refusal for every place that is not ours to touch. It says nothing about the place, so that
/// asking about an outside path tells nobody whether something is there.
pub(super) const OUTSIDE: &str = "that path is not inside the sandbox";

#[derive(Debug, Error)]
pub(super) enum FileError {
    #[error("{OUTSIDE}")]
    Outside,
    #[error(
        "the path is empty; give a path below the sandbox, such as `notes.txt`, or `.` for the sandbox itself"
    )]
    EmptyPath,
    #[error("the path is longer than {} bytes", jail::MAX_PATH_BYTES)]
    PathTooLong,
    #[error("a name in the path is longer than {} bytes", jail::MAX_NAME_BYTES)]
    NameTooLong,
    #[error("the path goes through more than {} directories", jail::MAX_DEPTH)]
    TooDeep,
    #[error("the path goes through more than {} links", jail::MAX_LINKS)]
    TooManyLinks,
    #[error("`{0}` does not exist in the sandbox")]
    NotFound(String),
    #[error("`{0}` names a directory; this tool takes a file")]
    IsDirectory(String),
    #[error("`{0}` is not a directory, or goes through something that is not one")]
    NotDirectory(String),
    #[error("`{0}` is neither a file nor a directory, so its content is not available")]
    NotRegular(String),
    #[error("`{0}` is write-protected, so it was not changed")]
    WriteProtected(String),
    #[error(
        "`{0}` already exists and nothing is overwritten by a move; take another name, or delete it first"
    )]
    Exists(String),
    #[error("`{0}` is not UTF-8 text, so it cannot be read as text")]
    NotText(String),
    #[error("the content has {0} bytes and at most {limit} are written at a time; nothing was written", limit = operations::MAX_TEXT_BYTES)]
    ContentTooLarge(usize),
    #[error("`{path}` could not be used: {source}")]
    Io { path: String, source: io::Error },
}

impl FileError {
    /// What an error of the operating system means for `path`, which stands in the message as it was given.
    pub(super) fn from_io(path: &str, error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::NotFound => Self::NotFound(path.to_owned()),
            io::ErrorKind::NotADirectory => Self::NotDirectory(path.to_owned()),
            io::ErrorKind::IsADirectory => Self::IsDirectory(path.to_owned()),
            io::ErrorKind::InvalidFilename => Self::NameTooLong,
            // cap-std's own refusal to leave a directory carries no error number; the system's does.
            io::ErrorKind::PermissionDenied if error.raw_os_error().is_none() => Self::Outside,
            _ => Self::Io { path: path.to_owned(), source: error },
        }
    }
}
