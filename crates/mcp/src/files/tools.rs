//! The five tools as a client sees them.
//!
//! Annotations are true, and no louder than needed: `destructiveHint` is said of `delete_file` alone. Writing
//! (it may replace a file) and moving (a file is no longer where it was) are not purely additive either; for
//! them the hint is left out, which means true by the protocol.

use std::sync::Arc;

use rmcp::model::Tool;
use rmcp::object;
use serde_json::{Value, json};

use super::jail::MAX_PATH_BYTES;
use super::operations::{MAX_ENTRIES, MAX_TEXT_BYTES};
use crate::shipped::{closed_world, tool};

/// All tools, always in this order.
pub(super) fn all() -> [Tool; 5] {
    [list_files(), read_file(), write_file(), move_file(), delete_file()]
}

fn list_files() -> Tool {
    let input = object!({
        "type": "object",
        "properties": { "path": path("Directory to list; the sandbox itself if left out.") },
        "additionalProperties": false,
    });
    let output = object!({
        "type": "object",
        "properties": {
            "path": { "type": "string", "description": "The directory that was listed; `.` is the sandbox itself." },
            "entries": {
                "type": "array",
                "maxItems": MAX_ENTRIES,
                "items": {
                    "type": "object",
                    "properties": {
                        "path": { "type": "string", "description": "As the other tools take it." },
                        "kind": { "type": "string", "enum": ["file", "directory", "link", "other"] },
                        "bytes": { "type": "integer", "minimum": 0, "description": "Size of a file; absent for others." },
                    },
                    "required": ["path", "kind"],
                    "additionalProperties": false,
                },
            },
            "total": { "type": "integer", "minimum": 0, "description": "How many entries the directory has." },
            "cut": { "type": "boolean", "description": "True if `entries` holds only the first of them by name." },
        },
        "required": ["path", "entries", "total", "cut"],
        "additionalProperties": false,
    });
    let description = format!(
        "List one directory of the sandbox: its files, directories and links in order of name, with the size of each file. \
         Does not go into directories: list those one by one. At most {MAX_ENTRIES} entries; `cut` tells that there are more. \
         Use it to find out which files exist before reading, moving or deleting one."
    );
    tool("list_files", "List files", description, input)
        .with_raw_output_schema(Arc::new(output))
        .with_annotations(closed_world().read_only(true))
}

fn read_file() -> Tool {
    let input = object!({
        "type": "object",
        "properties": { "path": path("File to read.") },
        "required": ["path"],
        "additionalProperties": false,
    });
    let description = format!(
        "Read a text file of the sandbox. Returns the text exactly as it is in the file. Only UTF-8 text can be read. Of a \
         file with more than {MAX_TEXT_BYTES} bytes only the beginning is returned, followed by a second text that says so."
    );
    tool("read_file", "Read a file", description, input).with_annotations(closed_world().read_only(true))
}

fn write_file() -> Tool {
    let input = object!({
        "type": "object",
        "properties": {
            "path": path("File to write. Missing directories on the way are created."),
            "content": { "type": "string", "maxLength": MAX_TEXT_BYTES, "description": "The whole text of the file." },
        },
        "required": ["path", "content"],
        "additionalProperties": false,
    });
    let description = format!(
        "Write a text file in the sandbox, at most {MAX_TEXT_BYTES} bytes of UTF-8. Creates the file, or replaces all that was \
         in it: to change a part of a file, read it first and write the whole text."
    );
    tool("write_file", "Write a file", description, input)
        .with_annotations(closed_world().read_only(false).idempotent(true))
}

fn move_file() -> Tool {
    let input = object!({
        "type": "object",
        "properties": {
            "from": path("File to move."),
            "to": path("Where to, file name included. Missing directories on the way are created."),
        },
        "required": ["from", "to"],
        "additionalProperties": false,
    });
    let description = "Move or rename a file within the sandbox. Never overwrites: if something exists at `to`, nothing is moved. \
                       Does not move directories.";
    tool("move_file", "Move a file", description, input)
        .with_annotations(closed_world().read_only(false).idempotent(true))
}

fn delete_file() -> Tool {
    let input = object!({
        "type": "object",
        "properties": { "path": path("File to delete.") },
        "required": ["path"],
        "additionalProperties": false,
    });
    let description = "Delete a file of the sandbox. It cannot be brought back. Does not delete directories. If it is a link, the \
                       link is deleted and not what it points to.";
    tool("delete_file", "Delete a file", description, input)
        .with_annotations(closed_world().read_only(false).destructive(true).idempotent(true))
}

fn path(what: &str) -> Value {
    json!({
        "type": "string",
        "maxLength": MAX_PATH_BYTES,
        "description": format!(
            "{what} A path relative to the sandbox, such as `notes/today.txt`; absolute paths and paths that lead out of the \
             sandbox are refused."
        ),
    })
}
