//! What the shipped servers have in common: a set of tools, served over stdin and stdout until the end of input.
//!
//! A set of tools is a private type of its own file, so that nobody in this program can call its tools except as any
//! other MCP server's: through the gate, in a process of its own.

mod schema;

use std::error::Error;
use std::sync::Arc;

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, CustomRequest, CustomResult,
    ErrorCode, ErrorData, Implementation, JsonObject, ListToolsResult, PaginatedRequestParams,
    ServerCapabilities, ServerConfig, Tool,
};
use rmcp::service::{QuitReason, RequestContext, RoleServer, ServerInitializeError};
use rmcp::{ServerHandler, ServiceExt};
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::sync::Semaphore;
use tokio::task::{JoinError, spawn_blocking};

pub(crate) use schema::{closed_world, tool};

/// Operations at the same time.
const RUNNING: usize = 4;
/// Calls taken on at the same time, running ones included; more are turned away.
const ACCEPTED: usize = 64;

/// The tools of one shipped server.
pub(crate) trait ToolSet: Send + Sync + 'static {
    /// One call of one tool, with its arguments in the right shape.
    type Operation: Send + 'static;

    /// The server's own name.
    const NAME: &'static str;
    /// What a client is told about the whole.
    const INSTRUCTIONS: &'static str;

    /// All tools, always in this order.
    fn tools() -> Vec<Tool>;

    /// Reads a call. An unknown tool and arguments of another shape than the tool's schema are the caller's errors in
    /// the protocol.
    fn parse(tool: &str, arguments: Value) -> Result<Self::Operation, ErrorData>;

    /// Does it, on a thread that may wait. A refusal or a failure is a result too, marked as an error, for the model to
    /// read.
    fn run(&self, operation: Self::Operation) -> CallToolResult;
}

/// The client and the server could not agree, or the connection broke.
#[derive(Debug, thiserror::Error)]
#[error("the session with the client failed: {0}")]
pub struct SessionError(#[source] pub(crate) Box<dyn Error + Send + Sync>);

impl SessionError {
    pub(crate) fn new(error: impl Error + Send + Sync + 'static) -> Self {
        Self(Box::new(error))
    }
}

/// Serves the tools on stdin and stdout until the end of input.
pub(crate) async fn serve<T: ToolSet>(tools: T) -> Result<(), SessionError> {
    let running = match Server::new(tools).serve(rmcp::transport::stdio_pipes()).await {
        Ok(running) => running,
        // The input ended before a client said anything.
        Err(ServerInitializeError::ConnectionClosed(_)) => return Ok(()),
        Err(error) => return Err(SessionError::new(error)),
    };
    match running.waiting().await.map_err(SessionError::new)? {
        QuitReason::Closed => Ok(()),
        QuitReason::JoinError(error) => Err(SessionError::new(error)),
        other => Err(SessionError(format!("it ended before the end of input: {other:?}").into())),
    }
}

/// Arguments in the shape that a tool takes.
pub(crate) fn shaped<T: DeserializeOwned>(tool: &str, arguments: Value) -> Result<T, ErrorData> {
    serde_json::from_value(arguments)
        .map_err(|error| ErrorData::invalid_params(format!("arguments of `{tool}`: {error}"), None))
}

pub(crate) fn unknown_tool(tool: &str) -> ErrorData {
    ErrorData::invalid_params(format!("there is no tool `{tool}`"), None)
}

/// An answer in words.
pub(crate) fn said(text: impl Into<String>) -> CallToolResult {
    CallToolResult::success(vec![ContentBlock::text(text.into())])
}

/// Why it was not done, for the model to read.
pub(crate) fn failed(why: impl Into<String>) -> CallToolResult {
    CallToolResult::error(vec![ContentBlock::text(why.into())])
}

struct Server<T> {
    set: Arc<T>,
    tools: Vec<Tool>,
    accepted: Semaphore,
    running: Arc<Semaphore>,
}

impl<T: ToolSet> Server<T> {
    fn new(set: T) -> Self {
        Self {
            set: Arc::new(set),
            tools: T::tools(),
            accepted: Semaphore::new(ACCEPTED),
            running: Arc::new(Semaphore::new(RUNNING)),
        }
    }

    /// Runs `operation` on a thread that may block. The place among the running ones goes with the operation and
    /// not with whoever waits for it: a cancelled call still counts until it is done.
    async fn run(&self, operation: T::Operation) -> CallToolResult {
        let Ok(_accepted) = self.accepted.try_acquire() else {
            return failed("too many calls at the same time; nothing was done, try again later");
        };
        let Ok(place) = Arc::clone(&self.running).acquire_owned().await else {
            return failed("the server is stopping; nothing was done");
        };
        let set = Arc::clone(&self.set);
        let done = spawn_blocking(move || {
            let result = set.run(operation);
            drop(place);
            result
        });
        done.await.unwrap_or_else(|error: JoinError| {
            tracing::error!(%error, "an operation broke off");
            failed("the server failed; whether the operation was done is not known")
        })
    }
}

impl<T: ToolSet> ServerHandler for Server<T> {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
            .with_server_info(Implementation::new(T::NAME, env!("CARGO_PKG_VERSION")))
            .with_instructions(T::INSTRUCTIONS)
    }

    async fn list_tools(
        &self,
        _page: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(self.tools.clone()))
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        self.tools.iter().find(|tool| tool.name == name).cloned()
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        // Absent arguments are an empty object.
        let arguments: JsonObject = request.arguments.unwrap_or_default();
        let operation = T::parse(&request.name, Value::Object(arguments))?;
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
