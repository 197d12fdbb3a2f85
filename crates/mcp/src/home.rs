//! The home server: a demo smart home with reminders, messages, lights, a heating and a door, eight tools in all.
//!
//! It knows nothing of rules: it unlocks the door for whoever calls. Its state stays in a folder.

mod house;
mod operations;
mod state;
mod tools;

use std::path::Path;

use rmcp::model::{CallToolResult, ErrorData, Tool};
use serde_json::Value;
use sluicegate_gateway::{Clock as _, SystemClock};

pub use self::house::{Device, DeviceState, House, Message, Reminder};
use self::operations::Operation;
use self::state::Folder;
pub use self::state::HomeStateError;
use crate::shipped::{self, SessionError, ToolSet};

/// Why serving the home did not begin, or ended before the end of input.
#[derive(Debug, thiserror::Error)]
pub enum ServeHomeError {
    /// Its folder cannot be used.
    #[error(transparent)]
    State(#[from] HomeStateError),
    /// The session broke.
    #[error(transparent)]
    Session(#[from] SessionError),
}

/// Serves the home whose state is in `folder` as an MCP server on stdin and stdout until the end of input. The folder
/// is made if it is missing.
///
/// # Errors
///
/// [`ServeHomeError`] if the folder cannot be used, or if the session fails.
pub async fn serve_home(folder: &Path) -> Result<(), ServeHomeError> {
    let home = Home { folder: Folder::open(folder)?, clock: SystemClock::new() };
    Ok(shipped::serve(home).await?)
}

/// The house as it stands in a folder, for people to look at; a new one if nothing was done in it yet. Nothing can be
/// changed through it.
///
/// # Errors
///
/// [`HomeStateError`] if the folder cannot be read.
pub fn look_at_home(folder: &Path) -> Result<House, HomeStateError> {
    Folder::read(folder)
}

struct Home {
    folder: Folder,
    clock: SystemClock,
}

impl ToolSet for Home {
    type Operation = Operation;

    const NAME: &'static str = "home";
    const INSTRUCTIONS: &'static str = "A home with reminders, messages, lights, a heating and a door. Look up ids with list_reminders and \
                            list_devices before you use them.";

    fn tools() -> Vec<Tool> {
        tools::all()
    }

    fn parse(tool: &str, arguments: Value) -> Result<Operation, ErrorData> {
        Operation::parse(tool, arguments)
    }

    fn run(&self, operation: Operation) -> CallToolResult {
        operation.run(&self.folder, self.clock.now().wall_ms)
    }
}
