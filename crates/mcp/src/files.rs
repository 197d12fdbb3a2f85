//! The sandbox file server: five tools on the files of one directory, over stdin and stdout.
//!
//! It is confined by handles and knows nothing of rules: whatever a policy may say, nothing outside its root can be
//! reached through it. Its type is private to this file, so that nobody in this program can call its tools
//! except as any other MCP server's: through the gate, in a process of its own.

mod error;
mod jail;
mod operations;
#[cfg(test)]
mod race_tests;
mod root;
mod tools;

use std::error::Error;
use std::path::Path;
use std::sync::Arc;

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, CustomRequest, CustomResult,
    ErrorCode, ErrorData, Implementation, ListToolsResult, PaginatedRequestParams, ServerCapabilities,
    ServerConfig, Tool,
};
use rmcp::service::{QuitReason, RequestContext, RoleServer, ServerInitializeError};
use rmcp::{ServerHandler, ServiceExt};
use thiserror::Error;
use tokio::sync::Semaphore;
use tokio::task::{JoinError, spawn_blocking};

use self::jail::Jail;
use self::operations::Operation;
pub use self::root::{RootError, check_root};

/// Operations on the file system at the same time.
const RUNNING: usize = 4;
/// Calls taken on at the same time, running ones included; more are turned away.
const ACCEPTED: usize = 64;

const INSTRUCTIONS: &str = "Files of one sandbox directory. All paths are relative to it, with `/` between the parts; nothing outside \
                            it can be reached. Look with list_files before you read, move or delete.";

/// Why serving the sandbox did not begin, or ended before the end of input.
#[derive(Debug, Error)]
pub enum ServeError {
    /// The directory must not be served, or cannot be.
    #[error(transparent)]
    Root(#[from] RootError),
    /// The directory could not be opened, or the path of the running program could not be found out.
    #[error("the sandbox could not be opened: {0}")]
    Open(#[from] std::io::Error),
    /// The client and this server could not agree, or the connection broke.
    #[error("the session with the client failed: {0}")]
    Session(#[source] Box<dyn Error + Send + Sync>),
}

/// Serves the files of `root` as an MCP server on stdin and stdout until the end of input. `root` is created if it
/// is missing and refused if it contains the running program; see [`check_root`] for the rest of the product.
///
/// # Errors
///
/// [`ServeError`] if the root is refused or cannot be opened, or if the session fails.
pub async fn serve_files(root: &Path) -> Result<(), ServeError> {
    let root = root.to_owned();
    let jail = spawn_blocking(move || {
        check_root(&root, &[std::env::current_exe()?])?;
        Ok::<_, ServeError>(Jail::open(&root)?)
    })
    .await
    .map_err(session_failed)??;
    let running = match FileServer::new(jail).serve(rmcp::transport::stdio_pipes()).await {
        Ok(running) => running,
        // The input ended before a client said anything.
        Err(ServerInitializeError::ConnectionClosed(_)) => return Ok(()),
        Err(error) => return Err(session_failed(error)),
    };
    match running.waiting().await.map_err(session_failed)? {
        QuitReason::Closed => Ok(()),
        QuitReason::JoinError(error) => Err(session_failed(error)),
        other => Err(ServeError::Session(format!("it ended before the end of input: {other:?}").into())),
    }
}

fn session_failed(error: impl Error + Send + Sync + 'static) -> ServeError {
    ServeError::Session(Box::new(error))
}

struct FileServer {
    jail: Arc<Jail>,
    tools: [Tool; 5],
    accepted: Semaphore,
    running: Arc<Semaphore>,
}

impl FileServer {
    fn new(jail: Jail) -> Self {
        Self {
            jail: Arc::new(jail),
            tools: tools::all(),
            accepted: Semaphore::new(ACCEPTED),
            running: Arc::new(Semaphore::new(RUNNING)),
        }
    }

    /// Runs `operation` on a thread that may block. The place among the running ones goes with the operation and
    /// not with whoever waits for it: a cancelled call still counts until it is done.
    async fn run(&self, operation: Operation) -> CallToolResult {
        let Ok(_accepted) = self.accepted.try_acquire() else {
            return failed("too many calls at the same time; nothing was done, try again later");
        };
        let Ok(place) = Arc::clone(&self.running).acquire_owned().await else {
            return failed("the file server is stopping; nothing was done");
        };
        let jail = Arc::clone(&self.jail);
        let done = spawn_blocking(move || {
            let result = operation.run(&jail);
            drop(place);
            result
        });
        done.await.unwrap_or_else(|error: JoinError| {
            tracing::error!(%error, "a file operation broke off");
            failed("the file server failed; whether the operation was done is not known")
        })
    }
}

fn failed(why: &str) -> CallToolResult {
    CallToolResult::error(vec![ContentBlock::text(why)])
}

impl ServerHandler for FileServer {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
            .with_server_info(Implementation::new("sandbox-files", env!("CARGO_PKG_VERSION")))
            .with_instructions(INSTRUCTIONS)
    }

    async fn list_tools(
        &self,
        _page: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(self.tools.to_vec()))
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        self.tools.iter().find(|tool| tool.name == name).cloned()
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let operation = Operation::parse(&request.name, request.arguments)?;
        Ok(self.run(operation).await.into())
    }

    /// Also what becomes of a call whose parameters are not those of a call: rmcp does not take it for one.
    async fn on_custom_request(
        &self,
        request: CustomRequest,
        _context: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        Err(if request.method == "tools/call" {
            ErrorData::invalid_params(
                "a call has a `name` and, if it has `arguments`, they are an object",
                None,
            )
        } else {
            ErrorData::new(
                ErrorCode::METHOD_NOT_FOUND,
                format!("there is no method `{}`", request.method),
                None,
            )
        })
    }
}
