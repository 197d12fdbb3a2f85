//! What changed, told after it is durable.

use sluicegate_gateway::{ApprovalId, CallId, RevisionId};
use sluicegate_policy::ConversationId;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
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
    /// Anything: another process has written to the store.
    Elsewhere,
    /// Keys of MCP clients.
    Keys,
}

/// Tells what this process changed, and that another one changed something.
#[derive(Clone, Debug)]
pub struct Feed {
    sender: broadcast::Sender<Change>,
    /// The trail's last row that was told. Whoever changes anything that pages show writes to the trail.
    told: Arc<AtomicI64>,
}

impl Feed {
    pub(crate) fn new() -> Self {
        Self { sender: broadcast::Sender::new(BACKLOG), told: Arc::default() }
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

    /// This process has written the trail up to here.
    pub(crate) fn written(&self, head: i64) {
        self.told.fetch_max(head, Ordering::SeqCst);
    }

    /// The trail was found to end here.
    pub(crate) fn found(&self, head: i64) {
        if self.told.fetch_max(head, Ordering::SeqCst) < head {
            self.publish(Change::Elsewhere);
        }
    }
}
