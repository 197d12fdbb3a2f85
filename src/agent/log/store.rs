//! The port on the program's store.

use super::{Conversation, ConversationLog, Transcript, UnfinishedTurn};
use crate::agent::entry::Entry;
use crate::conversation::{Message, Usage};
use async_trait::async_trait;
use sluicegate_gateway::audit::AuditEvent;
use sluicegate_gateway::{CallId, CallState, Caller, StoreError};
use sluicegate_policy::{ConversationId, PolicyDocument, TokenUsage};
use sluicegate_store::{Appended, AuditLog, CallReader, Conversations, NewMessage, Policies};
use std::fmt;
use std::sync::Arc;

/// Entries read at once.
const PAGE: u32 = 500;

/// The program's store as the agent may use it.
#[derive(Clone, Debug)]
pub struct StoreLog {
    conversations: Conversations,
    calls: CallReader,
    audit: AuditLog,
    rules: Arc<dyn CurrentRules>,
}

/// The rules in force, and no way to change them.
#[async_trait]
trait CurrentRules: Send + Sync + fmt::Debug {
    async fn current_rules(&self) -> Result<Option<PolicyDocument>, StoreError>;
}

#[async_trait]
impl CurrentRules for Policies {
    async fn current_rules(&self) -> Result<Option<PolicyDocument>, StoreError> {
        Ok(self.current().await?.map(|entry| entry.revision.document))
    }
}

impl StoreLog {
    /// Uses these handles. Of `policies` only the rules in force can be read from here on.
    #[must_use]
    pub fn new(conversations: Conversations, calls: CallReader, audit: AuditLog, policies: Policies) -> Self {
        Self { conversations, calls, audit, rules: Arc::new(policies) }
    }
}

#[async_trait]
impl ConversationLog for StoreLog {
    async fn conversation(&self, id: &ConversationId) -> Result<Option<Conversation>, StoreError> {
        let found = self.conversations.get(id).await?;
        Ok(found.map(|found| Conversation {
            owner: found.owner,
            provider: found.provider,
            model: found.model,
            system: found.system,
        }))
    }

    async fn transcript(&self, id: &ConversationId) -> Result<Transcript, StoreError> {
        let mut transcript = Transcript { entries: Vec::new(), last: 0 };
        loop {
            let page = self.conversations.messages(id, transcript.last, PAGE).await?;
            for message in page.rows {
                let entry = read_entry(message.position, &message.body)?;
                transcript.entries.push(entry);
                transcript.last = message.position;
            }
            if page.next.is_none() {
                return Ok(transcript);
            }
        }
    }

    async fn append(&self, id: &ConversationId, last: i64, entries: &[Entry]) -> Result<i64, StoreError> {
        let messages = entries.iter().map(written).collect::<Result<Vec<_>, _>>()?;
        match self.conversations.append(id, last, messages).await? {
            Appended::Done(position) => Ok(position),
            Appended::Conflict(_) => {
                Err(StoreError::Unavailable(format!("somebody else has written to conversation `{id}`")))
            }
            Appended::NotFound => Err(StoreError::Unavailable(format!("conversation `{id}` is gone"))),
        }
    }

    async fn turn_started(&self, id: &ConversationId, turn: &str) -> Result<(), StoreError> {
        self.conversations.turn_started(id, turn).await
    }

    async fn turn_ended(&self, id: &ConversationId, turn: &str, ending: &str) -> Result<(), StoreError> {
        self.conversations.turn_ended(id, turn, ending).await.map(drop)
    }

    async fn unfinished_turns(&self) -> Result<Vec<UnfinishedTurn>, StoreError> {
        let turns = self.conversations.unfinished_turns().await?;
        Ok(turns
            .into_iter()
            .map(|turn| UnfinishedTurn { conversation: turn.conversation, turn: turn.id })
            .collect())
    }

    async fn add_usage(&self, id: &ConversationId, caller: &Caller, usage: &Usage) -> Result<(), StoreError> {
        let output = usage.output.saturating_add(usage.thinking);
        // A total above the sum of its parts is counted in full: the rest was read.
        let input = usage.input.max(usage.total.saturating_sub(output));
        self.conversations.add_usage(id, &caller.principal.caller, input, output, usage.estimated).await
    }

    async fn usage(&self, id: &ConversationId, caller: &Caller) -> Result<TokenUsage, StoreError> {
        self.conversations.budget_usage(id, &caller.principal.caller).await
    }

    async fn rules(&self) -> Result<Option<PolicyDocument>, StoreError> {
        self.rules.current_rules().await
    }

    async fn call_state(&self, call: CallId) -> Result<Option<CallState>, StoreError> {
        Ok(self.calls.call(call).await?.map(|story| story.call.state))
    }

    async fn record(&self, event: AuditEvent) -> Result<(), StoreError> {
        self.audit.append(event).await.map(drop)
    }
}

/// An entry as the store keeps it.
fn written(entry: &Entry) -> Result<NewMessage, StoreError> {
    let kind = match entry {
        Entry::Said(Message::User { .. }) => "user",
        Entry::Said(Message::Model(_)) => "model",
        Entry::Said(Message::ToolResults { .. }) => "tool_results",
        Entry::Proposed { .. } => "proposed",
        Entry::Note(_) => "note",
        Entry::Replaced { .. } => "replaced",
    };
    let body = serde_json::to_string(entry)
        .map_err(|error| StoreError::Corrupt(format!("an entry cannot be written: {error}")))?;
    Ok(NewMessage { kind: kind.to_owned(), body })
}

/// An entry from its stored form.
///
/// # Errors
/// When it makes no sense.
pub(crate) fn read_entry(position: i64, body: &str) -> Result<Entry, StoreError> {
    serde_json::from_str(body).map_err(|error| {
        StoreError::Corrupt(format!("the message at position {position} cannot be read: {error}"))
    })
}
