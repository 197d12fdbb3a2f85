//! What changed, told after it is durable.

use sluicegate_gateway::{ApprovalId, CallId, RevisionId};
use sluicegate_policy::ConversationId;
use tokio::sync::broadcast;

/// Changes kept for a slow subscriber; one that falls further behind is told so and reads the present state.
const BACKLOG: usize = 1_024;

/// Something changed. It names the thing and says nothing of it: whoever cares reads its present state.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Change {
    /// A call.
    Call {
        /// Which.
        call: CallId,
        /// In which conversation.
        conversation: Option<ConversationId>,
    },
    /// An approval.
    Approval {
        /// Which.
        approval: ApprovalId,
        /// Of which call.
        call: CallId,
    },
    /// The policy: its new revision.
    Policy(RevisionId),
    /// A conversation, its messages or its turns.
    Conversation(ConversationId),
    /// The audit trail: its last row.
    Audit(i64),
    /// People.
    People,
}

/// Tells what this process changed.
#[derive(Clone, Debug)]
pub struct Feed {
    sender: broadcast::Sender<Change>,
}

impl Feed {
    pub(crate) fn new() -> Self {
        Self { sender: broadcast::Sender::new(BACKLOG) }
    }

    /// Everything published from now on. A receiver that lags has missed changes: read the present state.
    #[must_use]
    pub fn subscribe(&self) -> broadcast::Receiver<Change> {
        self.sender.subscribe()
    }

    /// Never blocks.
    pub(crate) fn publish(&self, change: Change) {
        // An error only says that nobody listens.
        self.sender.send(change).ok();
    }
}
