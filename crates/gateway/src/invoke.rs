//! Port: how the gateway makes a tool run. Implemented by the upstream pool alone.

use crate::catalogue::ToolCatalogue;
use crate::gateway::Permit;
use crate::notice::Notices;
use crate::store::StoreError;
use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

/// A tool's answer: the result object as the server sent it, plus what the gateway needs to know of it.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct ToolOutput {
    /// The MCP `CallToolResult`, unchanged.
    pub result: Value,
    /// Whether the tool reported an error.
    pub is_error: bool,
}

/// What a running call tells the gateway: a further attempt under the same permit, which is not made unless it was
/// recorded, and what the tool says meanwhile.
#[async_trait]
pub trait Attempts: Send + Sync {
    /// Writes `execution_retried` with the reason.
    ///
    /// # Errors
    /// The store's, when the attempt could not be recorded.
    async fn retrying(&self, why: &str) -> Result<(), StoreError>;

    /// Where what the tool says while it runs goes.
    fn notices(&self) -> Notices {
        Notices::default()
    }
}

/// Runs permitted calls and knows which tools there are.
#[async_trait]
pub trait Invoke: Send + Sync + 'static {
    /// The live catalogue of tools.
    fn catalogue(&self) -> ToolCatalogue;

    /// Runs the one call that the permit holds, once; for tools marked read-only at most once more, after
    /// [`Attempts::retrying`] has been recorded. Bounded in time. When `cancel` fires after sending, the server
    /// is told and the answer is [`InvokeError::Cancelled`].
    ///
    /// # Errors
    /// What is known of the call when no answer came.
    async fn invoke(
        &self,
        permit: Permit,
        attempts: &dyn Attempts,
        cancel: &CancellationToken,
    ) -> Result<ToolOutput, InvokeError>;
}

/// No answer. Whether the call was sent is the difference that matters.
#[derive(Debug, thiserror::Error)]
pub enum InvokeError {
    /// It was certainly not run.
    #[error("the server `{server}` is not available: {why}")]
    NotSent {
        /// The server.
        server: String,
        /// Why, safe to show.
        why: String,
    },
    /// The caller cancelled before it was sent; it was certainly not run.
    #[error("whoever asked for the call went away before it was sent to `{server}`")]
    Withdrawn {
        /// The server.
        server: String,
    },
    /// The server refused the request with a protocol error; the tool did not run.
    #[error("the server `{server}` refused the request: {why}")]
    Refused {
        /// The server.
        server: String,
        /// Its message, cut to a safe length.
        why: String,
    },
    /// It was sent and the connection ended before an answer.
    #[error("the connection to `{server}` ended before the answer: {why}")]
    AnswerLost {
        /// The server.
        server: String,
        /// Why, safe to show.
        why: String,
    },
    /// It was sent and no answer came in time.
    #[error("the server `{server}` did not answer within {seconds} s")]
    TimedOut {
        /// The server.
        server: String,
        /// The limit.
        seconds: u64,
    },
    /// It was sent, then the caller cancelled; the server has been told.
    #[error("the call to `{server}` was cancelled while it ran")]
    Cancelled {
        /// The server.
        server: String,
    },
}
