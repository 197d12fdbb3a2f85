//! `write_file`: whole files, never half of one.

use std::ffi::OsStr;
use std::io::{self, Write};
use std::sync::atomic::{AtomicU64, Ordering};

use cap_std::fs::{Dir, File, OpenOptions, Permissions};
use rmcp::model::CallToolResult;

use super::{MAX_TEXT_BYTES, said};
use crate::files::error::FileError;
use crate::files::jail::{self, Jail, LastLink, Place};

/// Names of temporary files tried before giving up. Each can be taken only by what an earlier, killed
/// process with the same id left behind.
const TEMPORARY_NAMES: usize = 100;

pub(super) fn write(jail: &Jail, path: &str, content: &str) -> Result<CallToolResult, FileError> {
    let failed = |error| FileError::from_io(path, error);
    let place = jail.resolve(path, LastLink::Follow)?;
    if content.len() > MAX_TEXT_BYTES {
        return Err(FileError::ContentTooLarge(content.len()));
    }
    let (dir, name, permissions) = match place {
        Place::Directory(_) => return Err(FileError::IsDirectory(path.to_owned())),
        Place::Entry(entry) if !entry.metadata.is_file() => {
            return Err(FileError::NotRegular(path.to_owned()));
        }
        Place::Entry(entry) => {
            let permissions = entry.metadata.permissions();
            if permissions.readonly() {
                return Err(FileError::WriteProtected(path.to_owned()));
            }
            (entry.dir, entry.name, Some(permissions))
        }
        Place::Missing(missing) => {
            let (dir, name) = missing.create_parents().map_err(failed)?;
            (dir, name, None)
        }
    };
    replace(&dir, &name, content.as_bytes(), permissions).map_err(failed)?;
    Ok(said(format!("wrote {} bytes to `{path}`", content.len())))
}

/// Puts `content` at `name` in one step: whoever looks, now or after a crash at any point, finds the old file or
/// the new one, whole. Killed before the rename it leaves the temporary file, and the old file untouched.
fn replace(dir: &Dir, name: &OsStr, content: &[u8], permissions: Option<Permissions>) -> io::Result<()> {
    let (file, temporary) = create_temporary(dir)?;
    let written = fill(file, content, permissions).and_then(|()| dir.rename(&temporary, dir, name));
    if let Err(error) = written {
        if let Err(left) = dir.remove_file(&temporary) {
            tracing::warn!(error = %left, file = %temporary, "a temporary file of a failed write is left behind");
        }
        return Err(error);
    }
    jail::sync(dir)
}

fn fill(mut file: File, content: &[u8], permissions: Option<Permissions>) -> io::Result<()> {
    if let Some(permissions) = permissions {
        file.set_permissions(permissions)?;
    }
    file.write_all(content)?;
    file.sync_all()
}

fn create_temporary(dir: &Dir) -> io::Result<(File, String)> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    for _ in 0..TEMPORARY_NAMES {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!(".sluicegate-write-{}-{number}", std::process::id());
        match dir.open_with(&name, OpenOptions::new().write(true).create_new(true)) {
            Ok(file) => return Ok((file, name)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    Err(io::Error::new(io::ErrorKind::AlreadyExists, "every name for a temporary file is taken"))
}
