//! The sandbox file server: five tools on the files of one directory.
//!
//! It is confined by handles and knows nothing of rules: whatever a policy may say, nothing outside its root can be
//! reached through it.

mod error;
mod jail;
mod operations;
#[cfg(test)]
mod race_tests;
mod root;
mod tools;

use std::path::Path;

use rmcp::model::{CallToolResult, ErrorData, Tool};
use serde_json::Value;
use thiserror::Error;
use tokio::task::spawn_blocking;

use self::jail::Jail;
use self::operations::Operation;
pub use self::root::{RootError, check_root};
use crate::shipped::{self, SessionError, ToolSet};

/// Why serving the sandbox did not begin, or ended before the end of input.
#[derive(Debug, Error)]
pub enum ServeFilesError {
    /// The directory must not be served, or cannot be.
    #[error(transparent)]
    Root(#[from] RootError),
    /// The directory could not be opened, or the path of the running program could not be found out.
    #[error("the sandbox could not be opened: {0}")]
    Open(#[from] std::io::Error),
    /// The session broke.
    #[error(transparent)]
    Session(#[from] SessionError),
}

/// Serves the files of `root` as an MCP server on stdin and stdout until the end of input. `root` is created if it
/// is missing and refused if it contains the running program; see [`check_root`] for the rest of the product.
///
/// # Errors
///
/// [`ServeFilesError`] if the root is refused or cannot be opened, or if the session fails.
pub async fn serve_files(root: &Path) -> Result<(), ServeFilesError> {
    let root = root.to_owned();
    let jail = spawn_blocking(move || {
        check_root(&root, &[std::env::current_exe()?])?;
        Ok::<_, ServeFilesError>(Jail::open(&root)?)
    })
    .await
    .map_err(SessionError::new)??;
    Ok(shipped::serve(Files(jail)).await?)
}

struct Files(Jail);

impl ToolSet for Files {
    type Operation = Operation;

    const NAME: &'static str = "sandbox-files";
    const INSTRUCTIONS: &'static str = "Files of one sandbox directory. All paths are relative to it, with `/` between the parts; nothing outside \
                            it can be reached. Look with list_files before you read, move or delete.";

    fn tools() -> Vec<Tool> {
        tools::all().to_vec()
    }

    fn parse(tool: &str, arguments: Value) -> Result<Operation, ErrorData> {
        Operation::parse(tool, arguments)
    }

    fn run(&self, operation: Operation) -> CallToolResult {
        operation.run(&self.0)
    }
}
