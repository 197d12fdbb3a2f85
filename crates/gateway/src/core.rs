//! What both handles share.

use crate::approvals::ApprovalId;
use crate::call::CallId;
use crate::catalogue::ToolCatalogue;
use crate::clock::Clock;
use crate::gateway::GatewaySettings;
use crate::gateway::flights::Flights;
use crate::invoke::Invoke;
use crate::rule_book::RuleBook;
use crate::store::CallStore;
use crate::times::GateTimes;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::{Notify, Semaphore};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub(crate) struct Core {
    store: Box<dyn CallStore>,
    invoke: Box<dyn Invoke>,
    pub(crate) catalogue: ToolCatalogue,
    pub(crate) rules: RuleBook,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) tasks: TaskTracker,
    pub(crate) stopping: CancellationToken,
    pub(crate) in_flight: Arc<Semaphore>,
    pub(crate) times: GateTimes,
    pub(crate) flights: Flights,
    waiting: Mutex<HashMap<ApprovalId, Arc<Notify>>>,
}

impl Core {
    pub(crate) fn new(
        invoke: impl Invoke,
        store: impl CallStore,
        clock: Arc<dyn Clock>,
        settings: &GatewaySettings,
    ) -> Self {
        Self {
            catalogue: invoke.catalogue(),
            store: Box::new(store),
            invoke: Box::new(invoke),
            rules: RuleBook::new(settings.approval_defaults),
            clock,
            tasks: TaskTracker::new(),
            stopping: CancellationToken::new(),
            in_flight: Arc::new(Semaphore::new(settings.max_in_flight)),
            times: GateTimes::default(),
            flights: Flights::default(),
            waiting: Mutex::new(HashMap::new()),
        }
    }

    pub(crate) fn store(&self) -> &dyn CallStore {
        self.store.as_ref()
    }

    pub(crate) fn invoke(&self) -> &dyn Invoke {
        self.invoke.as_ref()
    }

    /// The result of a detached call is about to be given. Should this not be recorded, it may be given once more.
    pub(crate) async fn collected(&self, call: CallId) {
        if let Err(error) = self.store().collected(call).await {
            tracing::warn!(%error, %call, "a collected result could not be recorded as such");
        }
    }

    /// Registers the call that waits for an approval, before anybody can see the approval. Ends with the guard.
    pub(crate) fn wait_for(self: &Arc<Self>, approval: ApprovalId) -> Waiting {
        let notify = Arc::new(Notify::new());
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).insert(approval, Arc::clone(&notify));
        Waiting { core: Arc::clone(self), approval, notify }
    }

    /// Wakes the call that waits for an approval; it then reads the approval's true state from the store.
    pub(crate) fn wake(&self, approval: ApprovalId) {
        let waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(notify) = waiting.get(&approval) {
            notify.notify_one();
        }
    }
}

/// A place in the list of waiting calls, given up when dropped.
pub(crate) struct Waiting {
    core: Arc<Core>,
    approval: ApprovalId,
    notify: Arc<Notify>,
}

impl Waiting {
    pub(crate) async fn woken(&self) {
        self.notify.notified().await;
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.core.waiting.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.approval);
    }
}
