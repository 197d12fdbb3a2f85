//! A call on its way, as those see it who wait for it: how many they are, where it stands, and whether it goes on
//! without them.
//!
//! A call that is *attached* is withdrawn when the last of them goes. One that is *detached* was answered with a way to
//! collect its result: it stays, and its result is kept for a while.

use super::{unknown, withdrawn};
use crate::action::ActionDigest;
use crate::approvals::ApprovalId;
use crate::call::CallId;
use crate::core::Core;
use crate::outcome::{CallAnswer, ReasonCode};
use crate::state::CallState;
use crate::store::StoreError;
use sluicegate_policy::{Tier, ToolRef};
use std::fmt;
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// A held call, as its caller may know it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HeldCall {
    /// The call; also its confirmation id.
    pub call: CallId,
    /// The approval: where a person decides.
    pub approval: ApprovalId,
    /// Server and tool.
    pub tool: ToolRef,
    /// The tier it was judged with.
    pub tier: Tier,
    /// When it was asked for; RFC 3339.
    pub asked_at: String,
    /// When it is denied by itself; RFC 3339.
    pub expires_at: String,
    /// How long a person has, in milliseconds.
    pub limit_ms: i64,
}

/// Where a call stands.
#[derive(Clone, Debug)]
pub enum Stage {
    /// It waits for a person.
    Held(HeldCall),
    /// It has come to its end, which is durable.
    Ended(Box<CallAnswer>),
}

#[derive(Debug, Default)]
struct Waits {
    waiters: usize,
    detached: bool,
    /// It is out of the list of held calls: too late to detach it.
    landed: bool,
}

/// One call in the gateway.
#[derive(Debug)]
pub(crate) struct Flight {
    pub(super) id: CallId,
    stage: watch::Sender<Option<Stage>>,
    pub(super) cancel: CancellationToken,
    waits: Mutex<Waits>,
    /// The held call that this one turned out to repeat.
    leader: OnceLock<Arc<Flight>>,
    /// What it does, once it is held.
    pub(super) action: OnceLock<ActionDigest>,
}

impl Flight {
    pub(super) fn new(id: CallId, cancel: CancellationToken) -> Arc<Self> {
        let stage = watch::Sender::new(None);
        let (leader, action) = (OnceLock::new(), OnceLock::new());
        Arc::new(Self { id, stage, cancel, waits: Mutex::default(), leader, action })
    }

    fn waits(&self) -> MutexGuard<'_, Waits> {
        self.waits.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From here on it goes on without a caller. `false`: it is over already.
    pub(super) fn set_detached(&self) -> bool {
        let mut waits = self.waits();
        waits.detached |= !waits.landed;
        !waits.landed
    }

    /// Out of the list of held calls, for good if it has ended. Whether it is detached.
    pub(super) fn land(&self, ended: bool) -> bool {
        let mut waits = self.waits();
        waits.landed = ended;
        waits.detached
    }

    pub(super) fn is_detached(&self) -> bool {
        self.waits().detached
    }

    pub(super) fn tell_held(&self, held: HeldCall) {
        self.stage.send_replace(Some(Stage::Held(held)));
    }

    pub(super) fn held(&self) -> Option<HeldCall> {
        match &*self.stage.borrow() {
            Some(Stage::Held(held)) => Some(held.clone()),
            _ => None,
        }
    }

    fn has_ended(&self) -> bool {
        matches!(&*self.stage.borrow(), Some(Stage::Ended(_)))
    }

    fn target(self: &Arc<Self>) -> Arc<Self> {
        self.leader.get().map_or_else(|| Arc::clone(self), Arc::clone)
    }

    /// Waits for a call on behalf of one that repeats it, and tells it all that happens.
    pub(super) async fn follow(self: &Arc<Self>, mut handle: CallHandle) -> CallAnswer {
        // Set once: a call follows one other.
        self.leader.set(Arc::clone(&handle.flight)).ok();
        loop {
            tokio::select! {
                biased;
                () = self.cancel.cancelled() => {
                    return CallAnswer { call: handle.id(), state: CallState::Withdrawn, refusal: Some(withdrawn()), output: None };
                }
                stage = handle.stage() => match stage {
                    Stage::Held(held) => self.tell_held(held),
                    Stage::Ended(answer) => {
                        // If nobody waits for the repeat any more, the result stays to be collected.
                        if self.waits().waiters > 0 {
                            handle.collect(&answer).await;
                        }
                        return *answer;
                    }
                }
            }
        }
    }
}

/// Sees to it that a flight ends, whatever becomes of its task.
pub(super) struct Landing {
    pub(super) flight: Arc<Flight>,
}

impl Landing {
    pub(super) fn end(self, answer: CallAnswer) {
        self.flight.stage.send_replace(Some(Stage::Ended(Box::new(answer))));
    }
}

impl Drop for Landing {
    fn drop(&mut self) {
        if !self.flight.has_ended() {
            // The task ended without an answer, which only a fault of ours can do.
            let lost = "the gate lost track of the call; it may have run";
            let answer = unknown(self.flight.id, ReasonCode::OutcomeLost, lost);
            self.flight.stage.send_replace(Some(Stage::Ended(Box::new(answer))));
        }
    }
}

/// A call on its way, in a task of the gateway's own. Dropping the last handle of a call tells the gateway that nobody
/// waits any more: unless it was detached, a held call is withdrawn, a running one is cancelled at its server and
/// recorded as unknown. It never aborts the task.
pub struct CallHandle {
    core: Arc<Core>,
    flight: Arc<Flight>,
    news: watch::Receiver<Option<Stage>>,
    _waits: Waiter,
}

impl fmt::Debug for CallHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("CallHandle").field(&self.flight.id).finish()
    }
}

struct Waiter(Arc<Flight>);

impl Drop for Waiter {
    fn drop(&mut self) {
        let alone = {
            let mut waits = self.0.waits();
            waits.waiters = waits.waiters.saturating_sub(1);
            waits.waiters == 0 && !waits.detached
        };
        if alone {
            self.0.cancel.cancel();
        }
    }
}

impl CallHandle {
    pub(super) fn of(core: &Arc<Core>, flight: &Arc<Flight>) -> Self {
        flight.waits().waiters += 1;
        let mut news = flight.stage.subscribe();
        // What was told before is news to whoever asks now.
        news.mark_changed();
        Self { core: Arc::clone(core), flight: Arc::clone(flight), news, _waits: Waiter(Arc::clone(flight)) }
    }

    /// Our id of the call.
    #[must_use]
    pub fn id(&self) -> CallId {
        self.flight.id
    }

    /// Whether the call goes on without whoever asked for it.
    #[must_use]
    pub fn is_detached(&self) -> bool {
        self.flight.target().is_detached()
    }

    /// Says that the caller no longer wants it. A detached call that nobody else waits for is withdrawn too.
    pub fn cancel(&self) {
        let target = self.flight.target();
        let alone = {
            let waits = target.waits();
            waits.detached && waits.waiters <= 1
        };
        if alone {
            target.cancel.cancel();
        }
        self.flight.cancel.cancel();
    }

    /// Waits until the call is held or has ended. May be dropped and called again.
    pub async fn next_stage(&mut self) -> Stage {
        let stage = self.stage().await;
        if let Stage::Ended(answer) = &stage {
            self.collect(answer).await;
        }
        stage
    }

    /// A detached call's result is given to somebody: it is kept no longer.
    async fn collect(&self, answer: &CallAnswer) {
        if self.flight.is_detached() {
            self.core.collected(answer.call).await;
            if let Some(action) = self.flight.action.get() {
                self.core.flights.give_away(*action, answer.call);
            }
        }
    }

    async fn stage(&mut self) -> Stage {
        loop {
            if self.news.changed().await.is_err() {
                // The flight, which this handle holds, sends; so this does not happen.
                std::future::pending::<()>().await;
            }
            let stage = self.news.borrow_and_update().clone();
            if matches!(stage, Some(Stage::Ended(_))) {
                // Whoever asks again, since the first asking was dropped halfway, is told again.
                self.news.mark_changed();
            }
            if let Some(stage) = stage {
                return stage;
            }
        }
    }

    /// Lets a held call go on without its caller. `true`: that is durable; `false`: it is not held (any more), so its
    /// end is near.
    ///
    /// # Errors
    /// When it could not be recorded: the call then stays attached.
    pub async fn detach(&mut self) -> Result<bool, StoreError> {
        let target = self.flight.target();
        let Some(held) = target.held() else { return Ok(false) };
        if !target.is_detached() {
            if !self.core.store().detach(held.approval).await? {
                return Ok(false);
            }
            return Ok(target.set_detached());
        }
        Ok(true)
    }

    /// Waits for the end; when `unwanted` comes first, cancels and waits on for the end that this leads to.
    pub async fn outcome_or_cancel(self, unwanted: impl Future<Output = ()>) -> CallAnswer {
        let flight = Arc::clone(&self.flight);
        let outcome = std::pin::pin!(self.outcome());
        let unwanted = std::pin::pin!(unwanted);
        match futures::future::select(outcome, unwanted).await {
            futures::future::Either::Left((answer, _)) => answer,
            futures::future::Either::Right(((), outcome)) => {
                flight.cancel.cancel();
                outcome.await
            }
        }
    }

    /// Waits for the end, which is durable when this returns.
    pub async fn outcome(mut self) -> CallAnswer {
        loop {
            if let Stage::Ended(answer) = self.next_stage().await {
                return *answer;
            }
        }
    }
}
