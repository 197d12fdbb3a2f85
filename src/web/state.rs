//! What the pages hold. They can read, answer held calls and start turns; nothing here can make a tool run.

use super::audit::chain::ChainCheck;
use super::events::Streams;
use super::headers::Hosts;
use super::session::Attempts;
use crate::agent::AgentHandle;
use crate::config::Setting;
use crate::rules::Rules;
use sluicegate_gateway::{Approvals, Clock, GateTimes, Leftovers, StoreError, ToolCatalogue};
use sluicegate_policy::{Mode, Per, PolicyDocument, RuleKind};
use sluicegate_store::{
    AuditReader, CallReader, Conversations, Feed, Keys, People, PolicyEntry, Resolutions,
};
use std::ops::Deref;
use std::sync::{Arc, Mutex, PoisonError};
use tokio_util::sync::CancellationToken;

/// The handles that the pages are made of.
#[derive(Debug)]
pub struct WebParts {
    /// Starts and stops turns of the chat.
    pub agent: AgentHandle,
    /// Answers held calls.
    pub approvals: Approvals,
    /// Reads calls.
    pub calls: CallReader,
    /// Reads and keeps conversations.
    pub conversations: Conversations,
    /// Reads the trail.
    pub audit: AuditReader,
    /// People and their sessions.
    pub people: People,
    /// Keys of MCP clients.
    pub keys: Keys,
    /// The rules: edited, imported, explained.
    pub rules: Rules,
    /// The settings in force, for the page that shows them.
    pub settings: Vec<Setting>,
    /// Settles unknown outcomes.
    pub resolutions: Resolutions,
    /// Reads which servers and tools there are.
    pub catalogue: ToolCatalogue,
    /// Server processes that an earlier run left behind.
    pub leftovers: Leftovers,
    /// Tells what changed.
    pub feed: Feed,
    /// How long the gate itself takes.
    pub times: GateTimes,
    /// Tells the time.
    pub clock: Arc<dyn Clock>,
    /// The names under which the product is reached.
    pub hosts: Hosts,
    /// Ends the streams when the product stops.
    pub shutdown: CancellationToken,
}

/// The state of the router. Cheap to clone.
#[derive(Clone, Debug)]
pub struct WebState(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    parts: WebParts,
    streams: Streams,
    attempts: Attempts,
    chain: ChainCheck,
    started_ms: i64,
    /// The policy that was read last. Revisions never change.
    policy: Mutex<Option<Arc<PolicyEntry>>>,
}

impl Deref for WebState {
    type Target = WebParts;

    fn deref(&self) -> &WebParts {
        &self.0.parts
    }
}

impl WebState {
    /// Takes the handles.
    #[must_use]
    pub fn new(parts: WebParts) -> Self {
        Self(Arc::new(Inner {
            started_ms: parts.clock.now().wall_ms,
            parts,
            streams: Streams::default(),
            attempts: Attempts::default(),
            chain: ChainCheck::default(),
            policy: Mutex::default(),
        }))
    }

    pub(crate) fn streams(&self) -> &Streams {
        &self.0.streams
    }

    pub(crate) fn attempts(&self) -> &Attempts {
        &self.0.attempts
    }

    /// When the program started; wall clock in milliseconds.
    pub(crate) fn started_ms(&self) -> i64 {
        self.0.started_ms
    }

    pub(crate) fn chain(&self) -> &ChainCheck {
        &self.0.chain
    }

    /// The wall clock in milliseconds since 1970.
    pub(crate) fn now_ms(&self) -> i64 {
        self.clock.now().wall_ms
    }

    /// The policy in force, read anew when its revision is another one. One that cannot be read is none: the gate
    /// denies every call then, too.
    pub(crate) async fn policy(&self) -> Result<Option<Arc<PolicyEntry>>, StoreError> {
        let Some(id) = self.rules.current_id().await? else { return Ok(None) };
        let known = self.0.policy.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(known) = known.filter(|known| known.revision.id == id) {
            return Ok(Some(known));
        }
        match self.rules.revision(id).await {
            Ok(Some(entry)) => {
                let entry = Arc::new(entry);
                *self.0.policy.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(&entry));
                Ok(Some(entry))
            }
            Ok(None) => Ok(None),
            Err(StoreError::Corrupt(why)) => {
                tracing::error!(why, "the policy in force cannot be read");
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }
}

/// The lowest token limit of a conversation as such; `None` if there is none.
pub(crate) fn conversation_budget(document: &PolicyDocument) -> Option<u64> {
    document
        .rules
        .iter()
        .filter(|rule| rule.kind == RuleKind::TokenBudget && rule.enabled && rule.mode == Mode::Enforce)
        .filter(|rule| {
            rule.selects.server.is_none() && rule.selects.tool.is_none() && rule.selects.tier.is_none()
        })
        .filter_map(|rule| rule.limit.as_ref().filter(|limit| limit.per == Per::Conversation)?.tokens)
        .min()
}
