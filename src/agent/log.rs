//! Port: what the agent needs of durable storage. It can append and read; it can decide nothing.

mod store;

pub use store::StoreLog;
pub(crate) use store::read_entry;

use crate::agent::entry::Entry;
use crate::conversation::Usage;
use async_trait::async_trait;
use sluicegate_gateway::audit::AuditEvent;
use sluicegate_gateway::{CallId, CallState, Caller, PersonId, StoreError};
use sluicegate_policy::{ConversationId, PolicyDocument, TokenUsage};

/// A conversation as the agent needs to know it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conversation {
    /// Whose it is.
    pub owner: PersonId,
    /// Name of the provider that answers in it.
    pub provider: String,
    /// The model asked there.
    pub model: String,
    /// Its system prompt; empty for [`crate::agent::prompt::SYSTEM`].
    pub system: String,
}

/// A conversation's entries, oldest first.
#[derive(Clone, Debug, PartialEq)]
pub struct Transcript {
    /// The entries.
    pub entries: Vec<Entry>,
    /// Position of the last one; 0 if there is none.
    pub last: i64,
}

/// A turn that began and has no end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnfinishedTurn {
    /// In which conversation.
    pub conversation: ConversationId,
    /// Its id.
    pub turn: String,
}

/// Durable storage of conversations. When a method that writes returns `Ok`, it is on disk.
#[async_trait]
pub trait ConversationLog: Send + Sync + std::fmt::Debug + 'static {
    /// The conversation; `None` if there is none of that id.
    ///
    /// # Errors
    /// When it cannot be read.
    async fn conversation(&self, id: &ConversationId) -> Result<Option<Conversation>, StoreError>;

    /// Its transcript.
    ///
    /// # Errors
    /// When it cannot be read, or an entry of it makes no sense.
    async fn transcript(&self, id: &ConversationId) -> Result<Transcript, StoreError>;

    /// Appends entries after position `last`, all or none; gives the position of the last one.
    ///
    /// # Errors
    /// When they could not be written, also because somebody else has appended or the conversation is gone.
    async fn append(&self, id: &ConversationId, last: i64, entries: &[Entry]) -> Result<i64, StoreError>;

    /// A turn begins.
    ///
    /// # Errors
    /// When it could not be written.
    async fn turn_started(&self, id: &ConversationId, turn: &str) -> Result<(), StoreError>;

    /// A turn ended, with the word for how.
    ///
    /// # Errors
    /// When it could not be written.
    async fn turn_ended(&self, id: &ConversationId, turn: &str, ending: &str) -> Result<(), StoreError>;

    /// Turns without an end.
    ///
    /// # Errors
    /// When they cannot be read.
    async fn unfinished_turns(&self) -> Result<Vec<UnfinishedTurn>, StoreError>;

    /// Counts tokens to the conversation and to the caller's day.
    ///
    /// # Errors
    /// When it could not be written: then nothing is counted.
    async fn add_usage(&self, id: &ConversationId, caller: &Caller, usage: &Usage) -> Result<(), StoreError>;

    /// Tokens counted so far.
    ///
    /// # Errors
    /// When it cannot be read.
    async fn usage(&self, id: &ConversationId, caller: &Caller) -> Result<TokenUsage, StoreError>;

    /// The rules of this moment; `None` while there are none.
    ///
    /// # Errors
    /// When they cannot be read.
    async fn rules(&self) -> Result<Option<PolicyDocument>, StoreError>;

    /// How a call stands; `None` if there is none of that id.
    ///
    /// # Errors
    /// When it cannot be read.
    async fn call_state(&self, call: CallId) -> Result<Option<CallState>, StoreError>;

    /// Adds to the audit trail.
    ///
    /// # Errors
    /// When it could not be written.
    async fn record(&self, event: AuditEvent) -> Result<(), StoreError>;
}
