//! The models: one trait, and one file for each provider behind it.
//!
//! A provider turns a transcript into one answer. It runs nothing: a call in an answer is a proposal, and an
//! answer that did not arrive whole and end well has none. Each answer is [`Ok`] or one kind of error, whatever
//! went wrong; what had arrived by then is in [`LlmError::partial`].

pub mod demo;
mod error;
pub mod gemini;
pub mod names;
mod retry;
pub mod wire;

pub use error::{LlmError, LlmErrorKind, Service};

use crate::conversation::{Message, ModelTurn, Usage};
use serde_json::Value;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// A tool as it is offered to a model.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolDeclaration {
    /// The model-side name, from [`names::ToolNames`].
    pub name: String,
    /// What the tool does, as its server says.
    pub description: String,
    /// JSON Schema of its arguments, as its server gave it.
    pub schema: Value,
}

/// What a model is asked.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// The system prompt.
    pub system: &'a str,
    /// The transcript, oldest first, ending with what is to be answered.
    pub history: &'a [Message],
    /// The tools on offer.
    pub tools: &'a [ToolDeclaration],
    /// Most tokens the answer may have, thinking included.
    pub max_output_tokens: u32,
}

/// What is worth showing while an answer arrives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Delta {
    /// The next piece of the text.
    Text(String),
    /// The next piece of visible thinking.
    Thinking(String),
    /// An attempt failed before anything was shown; the next one starts after a wait.
    Retrying {
        /// Number of the coming attempt; the first retry is 2.
        attempt: u32,
        /// Most attempts that there will be for this failure.
        of: u32,
        /// How long the wait is.
        wait: Duration,
        /// What the failed attempt died of.
        kind: LlmErrorKind,
    },
}

/// Where deltas go, in order. Must not block.
pub type Sink<'a> = &'a mut (dyn FnMut(Delta) + Send);

/// One whole answer.
#[derive(Clone, Debug, PartialEq)]
pub struct Reply {
    /// What the model said and asks for. In an `Ok` its ending is `Stop` or `ToolCalls`.
    pub turn: ModelTurn,
    /// Tokens used, failed attempts included. `None`: the provider did not say; see [`estimate`].
    pub usage: Option<Usage>,
    /// The model that answered, by the provider's word; it may not be the one asked.
    pub model_version: Option<String>,
    /// Calls in an answer that ended badly: for the record, never to be run.
    pub unfinished: Vec<UnfinishedCall>,
}

/// A call of an answer that ended badly.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnfinishedCall {
    /// The tool's name, as far as it came.
    pub name: String,
    /// The arguments' text, as far as it came.
    pub arguments: String,
}

/// A model that can be asked.
#[async_trait::async_trait]
pub trait LlmProvider: Send + Sync + std::fmt::Debug {
    /// The provider's name: `gemini`, `demo`. Stored with its turns.
    fn name(&self) -> &str;

    /// The model's name, as the provider knows it.
    fn model(&self) -> &str;

    /// Whether this is the built-in script, which is no language model.
    fn is_demo(&self) -> bool {
        false
    }

    /// Asks for one answer and sends its pieces to `sink` as they arrive.
    ///
    /// Tries again by itself where that is safe: nothing was shown yet, and the failure may pass. Ends soon
    /// after `cancel`.
    ///
    /// # Errors
    /// Every end but a good one, see [`LlmErrorKind`].
    async fn stream(
        &self,
        request: Request<'_>,
        sink: Sink<'_>,
        cancel: &CancellationToken,
    ) -> Result<Reply, LlmError>;
}

/// Our estimate of the tokens of a request and its answer, for a provider that reports none: one token for each
/// three bytes, which errs upwards for all common tokenizers.
#[must_use]
pub fn estimate(request: &Request<'_>, turn: &ModelTurn) -> Usage {
    let history: usize = request.history.iter().map(message_bytes).sum();
    let tools: usize = request
        .tools
        .iter()
        .map(|tool| tool.name.len() + tool.description.len() + tool.schema.to_string().len())
        .sum();
    let input = tokens(request.system.len() + history + tools);
    let output = tokens(turn.text.len() + calls_bytes(turn));
    let thinking = tokens(turn.thinking.len());
    Usage {
        input,
        output,
        thinking,
        total: input.saturating_add(output).saturating_add(thinking),
        estimated: true,
    }
}

fn tokens(bytes: usize) -> u64 {
    u64::try_from(bytes.div_ceil(3)).unwrap_or(u64::MAX)
}

fn message_bytes(message: &Message) -> usize {
    match message {
        Message::User { text } => text.len(),
        Message::Model(turn) => turn.text.len() + calls_bytes(turn),
        Message::ToolResults { results } => {
            results.iter().map(|result| result.name.len() + result.output.to_string().len()).sum()
        }
    }
}

fn calls_bytes(turn: &ModelTurn) -> usize {
    turn.calls.iter().map(|call| call.name.len() + call.arguments.as_deref().map_or(0, str::len)).sum()
}
