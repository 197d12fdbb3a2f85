//! `list_files`: one directory, by name, bounded.

use std::collections::BinaryHeap;
use std::ffi::{OsStr, OsString};
use std::io;

use cap_std::fs::{Dir, Metadata};
use rmcp::model::CallToolResult;
use serde::Serialize;

use crate::files::error::FileError;
use crate::files::jail::{Jail, LastLink, Place};

/// Entries in one answer.
pub(in crate::files) const MAX_ENTRIES: usize = 1000;

#[derive(Serialize)]
struct Listing {
    path: String,
    entries: Vec<Listed>,
    total: usize,
    cut: bool,
}

#[derive(Serialize)]
struct Listed {
    path: String,
    kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes: Option<u64>,
}

pub(super) fn list(jail: &Jail, path: &str) -> Result<CallToolResult, FileError> {
    let dir = match jail.resolve(path, LastLink::Follow)? {
        Place::Directory(dir) => dir,
        Place::Entry(_) => return Err(FileError::NotDirectory(path.to_owned())),
        Place::Missing(_) => return Err(FileError::NotFound(path.to_owned())),
    };
    let failed = |error| FileError::from_io(path, error);
    let (names, total) = first_names(&dir).map_err(failed)?;
    let base = tidied(path);
    let mut entries = Vec::with_capacity(names.len());
    for name in &names {
        match dir.symlink_metadata(name) {
            Ok(metadata) => entries.push(listed(&base, name, &metadata)),
            // Deleted since its name was read.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(failed(error)),
        }
    }
    let listing = Listing {
        path: if base.is_empty() { ".".to_owned() } else { base },
        entries,
        total,
        cut: total > names.len(),
    };
    let listing = serde_json::to_value(listing).map_err(|error| failed(error.into()))?;
    Ok(CallToolResult::structured(listing))
}

/// The first names in order, at most [`MAX_ENTRIES`], and how many there are in all. Holds no more than it
/// returns, however large the directory is.
fn first_names(dir: &Dir) -> io::Result<(Vec<OsString>, usize)> {
    let mut names = BinaryHeap::new();
    let mut total = 0;
    for entry in dir.entries()? {
        total += 1;
        names.push(entry?.file_name());
        if names.len() > MAX_ENTRIES {
            names.pop();
        }
    }
    Ok((names.into_sorted_vec(), total))
}

fn listed(base: &str, name: &OsStr, metadata: &Metadata) -> Listed {
    let name = name.to_string_lossy();
    let path = if base.is_empty() { name.into_owned() } else { format!("{base}/{name}") };
    let kind = metadata.file_type();
    if kind.is_file() {
        Listed { path, kind: "file", bytes: Some(metadata.len()) }
    } else if kind.is_dir() {
        Listed { path, kind: "directory", bytes: None }
    } else if kind.is_symlink() {
        Listed { path, kind: "link", bytes: None }
    } else {
        Listed { path, kind: "other", bytes: None }
    }
}

/// The path as asked for, without parts that say nothing; empty for the sandbox itself.
fn tidied(path: &str) -> String {
    path.split('/').filter(|part| !matches!(*part, "" | ".")).collect::<Vec<_>>().join("/")
}
