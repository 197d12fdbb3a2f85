//! What the five tools do, on the jail. Blocking: for threads that may wait.

mod listing;
mod writing;

use std::io::Read;

use cap_std::fs::{File, OpenOptions, OpenOptionsExt};
use rmcp::model::{CallToolResult, ContentBlock, ErrorData};
use rustix::fs::{OFlags, RenameFlags};
use rustix::io::Errno;
use serde::Deserialize;
use serde_json::Value;

use super::error::FileError;
use super::jail::{self, Entry, Jail, LastLink, Place};
use crate::shipped::{failed, said, shaped, unknown_tool};
pub(super) use listing::MAX_ENTRIES;

/// The most text that is read or written at a time, in bytes.
pub(super) const MAX_TEXT_BYTES: usize = 1024 * 1024;

/// One call of one tool, with its arguments in the right shape.
pub(super) enum Operation {
    List(ListFiles),
    Read(OnePath),
    Write(WriteFile),
    Move(MoveFile),
    Delete(OnePath),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ListFiles {
    path: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct OnePath {
    path: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct WriteFile {
    path: String,
    content: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct MoveFile {
    from: String,
    to: String,
}

impl Operation {
    /// Reads a call.
    pub(super) fn parse(tool: &str, arguments: Value) -> Result<Self, ErrorData> {
        match tool {
            "list_files" => shaped(tool, arguments).map(Self::List),
            "read_file" => shaped(tool, arguments).map(Self::Read),
            "write_file" => shaped(tool, arguments).map(Self::Write),
            "move_file" => shaped(tool, arguments).map(Self::Move),
            "delete_file" => shaped(tool, arguments).map(Self::Delete),
            _ => Err(unknown_tool(tool)),
        }
    }

    /// Does it. A refusal or a failure is a result too, marked as an error, for the model to read.
    pub(super) fn run(self, jail: &Jail) -> CallToolResult {
        let done = match self {
            Self::List(ListFiles { path }) => listing::list(jail, path.as_deref().unwrap_or(".")),
            Self::Read(OnePath { path }) => read(jail, &path),
            Self::Write(WriteFile { path, content }) => writing::write(jail, &path, &content),
            Self::Move(MoveFile { from, to }) => move_file(jail, &from, &to),
            Self::Delete(OnePath { path }) => delete(jail, &path),
        };
        done.unwrap_or_else(|refusal| failed(refusal.to_string()))
    }
}

fn read(jail: &Jail, path: &str) -> Result<CallToolResult, FileError> {
    let failed = |error| FileError::from_io(path, error);
    let entry = existing(jail, path, LastLink::Follow)?;
    let file = open_to_read(&entry).map_err(failed)?;
    let metadata = file.metadata().map_err(failed)?;
    if !metadata.is_file() {
        return Err(FileError::NotRegular(path.to_owned()));
    }
    let mut bytes = Vec::new();
    // One byte more than is shown tells a file that was cut from one that just fits.
    let read = file.take(MAX_TEXT_BYTES as u64 + 1).read_to_end(&mut bytes).map_err(failed)?;
    let cut = read > MAX_TEXT_BYTES;
    bytes.truncate(MAX_TEXT_BYTES);
    let text = whole_characters(bytes, cut).ok_or_else(|| FileError::NotText(path.to_owned()))?;
    let mut content = vec![ContentBlock::text(text.as_str())];
    if cut {
        content.push(ContentBlock::text(format!(
            "[cut here: these are the first {} of {} bytes of `{path}`; the rest cannot be read with this tool]",
            text.len(),
            metadata.len(),
        )));
    }
    Ok(CallToolResult::success(content))
}

/// Opens without waiting: a pipe with nobody at its other end would otherwise hold the thread for good.
fn open_to_read(entry: &Entry) -> std::io::Result<File> {
    let flags = i32::try_from(OFlags::NONBLOCK.bits()).map_err(std::io::Error::other)?;
    entry.dir.open_with(&entry.name, OpenOptions::new().read(true).custom_flags(flags))
}

/// The bytes as text; a character that a cut went through is left out. None if they are not UTF-8.
fn whole_characters(bytes: Vec<u8>, cut: bool) -> Option<String> {
    match String::from_utf8(bytes) {
        Ok(text) => Some(text),
        Err(error) => {
            let fault = error.utf8_error();
            if !cut || fault.error_len().is_some() {
                return None;
            }
            let mut bytes = error.into_bytes();
            bytes.truncate(fault.valid_up_to());
            String::from_utf8(bytes).ok()
        }
    }
}

fn move_file(jail: &Jail, from: &str, to: &str) -> Result<CallToolResult, FileError> {
    // A link that leaves is refused at both ends, as it is everywhere; one that stays is moved as a link.
    jail.resolve(from, LastLink::Follow)?;
    jail.resolve(to, LastLink::Follow)?;
    let source = existing(jail, from, LastLink::Keep)?;
    let Place::Missing(missing) = jail.resolve(to, LastLink::Keep)? else {
        return Err(FileError::Exists(to.to_owned()));
    };
    let (dir, name) = missing.create_parents().map_err(|error| FileError::from_io(to, error))?;
    // The system call itself refuses to overwrite: whatever came to be at `to` meanwhile stays.
    rustix::fs::renameat_with(&source.dir, &source.name, &dir, &name, RenameFlags::NOREPLACE).map_err(
        |error| match error {
            Errno::EXIST => FileError::Exists(to.to_owned()),
            other => FileError::from_io(from, other.into()),
        },
    )?;
    jail::sync(&dir).map_err(|error| FileError::from_io(to, error))?;
    jail::sync(&source.dir).map_err(|error| FileError::from_io(from, error))?;
    Ok(said(format!("moved `{from}` to `{to}`")))
}

fn delete(jail: &Jail, path: &str) -> Result<CallToolResult, FileError> {
    let failed = |error| FileError::from_io(path, error);
    let entry = existing(jail, path, LastLink::Keep)?;
    entry.dir.remove_file(&entry.name).map_err(failed)?;
    jail::sync(&entry.dir).map_err(failed)?;
    let what = if entry.metadata.is_symlink() { "the link " } else { "" };
    Ok(said(format!("deleted {what}`{path}`")))
}

/// The file at `path`: something that is there and no directory.
fn existing(jail: &Jail, path: &str, last_link: LastLink) -> Result<Entry, FileError> {
    match jail.resolve(path, last_link)? {
        Place::Entry(entry) => Ok(entry),
        Place::Directory(_) => Err(FileError::IsDirectory(path.to_owned())),
        Place::Missing(_) => Err(FileError::NotFound(path.to_owned())),
    }
}
