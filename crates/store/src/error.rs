//! Errors: of opening a store, and the driver's as the gateway's port names them.

use sluicegate_gateway::StoreError;
use std::path::PathBuf;

/// Why a store cannot be opened. One line each, with what to do.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The address has another form.
    #[error("`{0}` is not the address of a store: write sqlite://PATH, for example sqlite://sluicegate.db")]
    Address(String),
    /// The address names a store that would not survive the process.
    #[error("`{0}` names a store in memory, which would forget every decision: write sqlite://PATH")]
    Memory(String),
    /// There is no such file.
    #[error("there is no store at `{}`: check the path", .0.display())]
    Missing(PathBuf),
    /// It cannot be created or written.
    #[error("the store `{}` cannot be written ({why}): check the permissions of the file and of its folder", .path.display())]
    NotWritable {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        why: String,
    },
    /// The file holds something else.
    #[error("`{}` is not a store of this program: give another path, or move that file away", .0.display())]
    NotAStore(PathBuf),
    /// A newer version of the program wrote it.
    #[error(
        "the store `{}` was written by a newer version of this program (schema {found}, this one knows {known}): run that version, or restore an older backup",
        .path.display()
    )]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its schema.
        found: i64,
        /// The newest schema this program knows.
        known: i64,
    },
    /// Its schema is not the one that the steps known to this program make.
    #[error("the schema of the store `{}` differs from this program's at step {step}: run the version that made it, or restore a backup", .path.display())]
    OtherSchema {
        /// The file.
        path: PathBuf,
        /// The step.
        step: i64,
    },
    /// A server runs on it.
    #[error("another server is running on the store `{}`: stop it first, or give this one another --database-url", .0.display())]
    Running(PathBuf),
    /// A server of an older version runs on it, so that its schema cannot be brought up to date.
    #[error("the store `{}` has an older schema and a server is running on it: restart that server with this version first", .0.display())]
    OlderInUse(PathBuf),
    /// Another process kept it locked.
    #[error("the store `{}` is locked by another process: try again when that one is done", .0.display())]
    Locked(PathBuf),
    /// Something else.
    #[error("the store `{}` cannot be opened: {why}", .path.display())]
    Other {
        /// The file.
        path: PathBuf,
        /// The driver's reason.
        why: String,
    },
}

/// The driver's error as the port names it: a record that cannot be read, or no store.
pub(crate) fn failed(error: sqlx::Error) -> StoreError {
    match error {
        sqlx::Error::Decode(_)
        | sqlx::Error::ColumnDecode { .. }
        | sqlx::Error::ColumnNotFound(_)
        | sqlx::Error::TypeNotFound { .. } => StoreError::Corrupt(error.to_string()),
        other => StoreError::Unavailable(other.to_string()),
    }
}

/// SQLite's primary result code, if the error came from SQLite.
pub(crate) fn sqlite_code(error: &sqlx::Error) -> Option<i64> {
    let code: i64 = error.as_database_error()?.code()?.parse().ok()?;
    Some(code & 0xff)
}

/// SQLite's code for "another connection holds the lock".
pub(crate) const SQLITE_BUSY: i64 = 5;
