//! `execute_tool`: the only way from a proposed call to a running tool.

mod flight;
pub(crate) mod flights;
mod freeze;
mod held;
mod permit;
mod resume;

use crate::approvals::Approvals;
use crate::call::{CallId, Caller, FrozenCall, ProposedCall};
use crate::catalogue::ToolCatalogue;
use crate::clock::Clock;
use crate::core::Core;
use crate::facts::{self, judge, refusal, store_refusal};
use crate::invoke::{Attempts, Invoke, InvokeError, ToolOutput};
use crate::notice::Notices;
use crate::outcome::{CallAnswer, ReasonCode, Refusal};
use crate::scan::injection_phrases;
use crate::state::CallState;
use crate::store::{Begun, CallOutcome, CallStore, NewCall, Reconciled, Ruling, StoreError};
use crate::times::{GateTimes, outside};
use async_trait::async_trait;
pub use flight::{CallHandle, HeldCall, Stage};
use flight::{Flight, Landing};
use flights::Found;
pub use flights::{Detached, Kept};
use futures::FutureExt;
pub use permit::Permit;
use sluicegate_policy::{ApprovalDefaults, CallerId, Effect, Origin, Tier, ToolRef};
use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// Evaluations of one call before giving up on facts that move faster than they can be acted upon.
const MAX_EVALUATIONS: usize = 32;
/// Attempts to write an end that must not be lost, with growing pauses: about 12 s beside the store's own waits.
const MAX_WRITES: u32 = 7;

macro_rules! crash_point {
    ($name:literal) => {
        #[cfg(feature = "crash-points")]
        crate::crash::point($name);
    };
}
pub(crate) use crash_point;

/// What the gateway is set up with.
#[derive(Clone, Copy, Debug)]
pub struct GatewaySettings {
    /// Time limits of approvals whose rule names none.
    pub approval_defaults: ApprovalDefaults,
    /// Calls in flight at once, held ones included; further ones are refused with `over_rate`.
    pub max_in_flight: usize,
}

/// The handle that proposes calls. It can neither answer a held call nor run one by itself.
#[derive(Clone)]
pub struct ToolExecutionGateway {
    core: Arc<Core>,
}

impl fmt::Debug for ToolExecutionGateway {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ToolExecutionGateway")
    }
}

/// Start-up and shut-down of the gateway's own tasks. Held by the program alone.
pub struct Running {
    core: Arc<Core>,
}

impl fmt::Debug for Running {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Running")
    }
}

impl ToolExecutionGateway {
    /// Builds the gateway over the one pool of servers and the one store. Both are moved in: a second gateway with
    /// softer rules would have nothing to call.
    #[must_use]
    pub fn new(
        invoke: impl Invoke,
        store: impl CallStore,
        clock: Arc<dyn Clock>,
        settings: GatewaySettings,
    ) -> (Self, Approvals, Running) {
        let core = Arc::new(Core::new(invoke, store, clock, &settings));
        (Self { core: Arc::clone(&core) }, Approvals::new(Arc::clone(&core)), Running { core })
    }

    /// The tools that calls can be proposed for.
    #[must_use]
    pub fn catalogue(&self) -> ToolCatalogue {
        self.core.catalogue.clone()
    }

    /// How long the gate itself takes for calls.
    #[must_use]
    pub fn times(&self) -> GateTimes {
        self.core.times.clone()
    }

    /// The tier of each tool by the rules in force.
    ///
    /// # Errors
    /// When the rules cannot be read: every tool is then to be taken for one of the high tier.
    pub async fn tiers(&self, caller: &Caller) -> Result<BTreeMap<ToolRef, Tier>, Refusal> {
        facts::tiers(&self.core, caller).await
    }

    /// The detached call of this caller with this id; an ended one's result is kept 10 minutes. `None` as well for one
    /// of somebody else.
    #[must_use]
    pub fn detached(&self, caller: &CallerId, call: CallId) -> Option<Detached> {
        self.core.flights.detached(caller, call)
    }

    /// Collects the result of a detached call that has ended. It is given once, and kept no longer.
    pub async fn collect(&self, caller: &CallerId, call: CallId) -> Option<CallAnswer> {
        let answer = self.core.flights.take(caller, call)?;
        self.core.collected(call).await;
        Some(*answer)
    }

    /// Withdraws a detached call on behalf of its caller. `false`: there is none of this id that is still open.
    pub fn withdraw(&self, caller: &CallerId, call: CallId) -> bool {
        self.core.flights.withdraw(caller, call)
    }

    /// Proposes a call. It is judged, perhaps held, perhaps run, in a task of the gateway's own.
    pub fn execute_tool(&self, proposed: ProposedCall) -> CallHandle {
        let id = CallId::random();
        let flight = Flight::new(id, self.core.stopping.child_token());
        let handle = CallHandle::of(&self.core, &flight);
        let core = Arc::clone(&self.core);
        self.core.tasks.spawn(async move {
            let landing = Landing { flight: Arc::clone(&flight) };
            let answer = core.times.measure(&*core.clock, execute(&core, &flight, id, proposed)).await;
            landing.end(answer);
        });
        handle
    }
}

impl Running {
    /// Settles what an earlier process left open. Must have returned before any traffic is let in.
    ///
    /// # Errors
    /// When the store could not do it; the program then does not start.
    pub async fn reconcile(&self) -> Result<Reconciled, StoreError> {
        let reconciled = self.core.store().reconcile().await?;
        resume::resume(&self.core).await?;
        Ok(reconciled)
    }

    /// Withdraws held calls, cancels running ones, and waits until each has written its end, at most `limit`.
    /// Returns whether all did; the others are settled at the next start.
    pub async fn shutdown(&self, limit: Duration) -> bool {
        self.core.stopping.cancel();
        self.core.tasks.close();
        tokio::time::timeout(limit, self.core.tasks.wait()).await.is_ok()
    }
}

/// The steps of one call, top to bottom.
async fn execute(core: &Arc<Core>, flight: &Arc<Flight>, id: CallId, proposed: ProposedCall) -> CallAnswer {
    let cancel = &flight.cancel;
    crash_point!("proposed");
    let (subject, call) = match freeze::freeze(core, id, proposed) {
        Ok(frozen) => frozen,
        Err((call, refusal)) => return refuse(core, *call, Ruling::refused(refusal)).await,
    };
    // Only MCP clients come back for an answer; a chat's turn waits for it.
    if subject.origin == Origin::Mcp {
        match core.flights.find(core, subject.frozen.action()) {
            Some(Found::Open(leader)) => return outside(flight.follow(leader)).await,
            Some(Found::Kept(answer)) => {
                core.collected(answer.call).await;
                return *answer;
            }
            None => {}
        }
    }
    let Ok(_place) = Arc::clone(&core.in_flight).try_acquire_owned() else {
        let busy = refusal(
            ReasonCode::OverRate,
            "too many calls are in flight; try again when some have ended",
            true,
        );
        return refuse(core, call, Ruling::refused(busy)).await;
    };
    for _ in 0..MAX_EVALUATIONS {
        let judged = match judge(core, &subject).await {
            Ok(judged) => judged,
            Err(refusal) => return refuse(core, call, Ruling::refused(refusal)).await,
        };
        crash_point!("judged");
        if cancel.is_cancelled() {
            return refuse(core, call, judged.ruling.refused_as(withdrawn())).await;
        }
        match judged.decision.effect {
            Effect::Deny => return refuse(core, call, judged.ruling).await,
            Effect::Allow => {
                let frozen = subject.frozen.clone().marked_read_only(judged.read_only);
                match core.store().begin(call.clone(), judged.ruling, judged.expect).await {
                    Ok(Begun::Started) => return run(core, frozen, &subject.notices, cancel).await,
                    Ok(Begun::Moved) => {}
                    Ok(Begun::Lost(state)) => return ended_elsewhere(id, state),
                    Err(error) => return not_run(id, store_refusal(&error)),
                }
            }
            Effect::RequireApproval if judged.refused_before => {
                let again = refusal(
                    ReasonCode::RepeatedDenial,
                    "a person has refused this same call before in this conversation; do not repeat it",
                    false,
                );
                return refuse(core, call, judged.ruling.refused_as(again)).await;
            }
            Effect::RequireApproval => {
                if let Some(answer) = held::hold(core, flight, &subject, call.clone(), judged).await {
                    return answer;
                }
            }
        }
    }
    refuse(core, call, Ruling::refused(moving())).await
}

/// Records a refusal. If even that fails, the call is refused all the same, for that reason.
async fn refuse(core: &Core, call: NewCall, ruling: Ruling) -> CallAnswer {
    let id = call.id;
    let refusal = ruling.refusal.clone();
    match core.store().record_denied(call, ruling).await {
        Ok(()) => not_run(id, refusal.unwrap_or_else(moving)),
        Err(error) => not_run(id, store_refusal(&error)),
    }
}

/// Runs a call whose intent is durable. The only place where a permit is made.
async fn run(core: &Core, frozen: FrozenCall, notices: &Notices, cancel: &CancellationToken) -> CallAnswer {
    crash_point!("intent_written");
    let (id, read_only) = (frozen.id(), frozen.read_only());
    let attempts = Recorded { core, id, notices };
    let permit = Permit::mint(frozen);
    // A panic in the pool must not leave the call without an end: the tool may have run.
    let invoked = AssertUnwindSafe(core.invoke().invoke(permit, &attempts, cancel)).catch_unwind();
    let result = outside(invoked).await;
    crash_point!("effect_done");
    let outcome = match result {
        Ok(Ok(output)) => answered(output),
        Ok(Err(error)) => unanswered(&error, read_only),
        Err(_) => CallOutcome::Unknown {
            code: ReasonCode::OutcomeLost,
            sentence: "the gate failed while the tool ran; it may have run".to_owned(),
        },
    };
    let answer = answer_of(id, &outcome);
    if !persist(|| core.store().finish(id, outcome.clone())).await {
        return unknown(
            id,
            ReasonCode::OutcomeLost,
            "the tool was run, and its outcome could not be recorded; do not repeat the call",
        );
    }
    crash_point!("outcome_written");
    answer
}

struct Recorded<'a> {
    core: &'a Core,
    id: CallId,
    notices: &'a Notices,
}

#[async_trait]
impl Attempts for Recorded<'_> {
    async fn retrying(&self, why: &str) -> Result<(), StoreError> {
        self.core.store().retried(self.id, why).await
    }

    fn notices(&self) -> Notices {
        self.notices.clone()
    }
}

fn answered(output: ToolOutput) -> CallOutcome {
    let flags = injection_phrases(&output);
    if output.is_error {
        let sentence = "the tool reported an error".to_owned();
        return CallOutcome::Failed { code: ReasonCode::ToolError, sentence, output: Some(output), flags };
    }
    CallOutcome::Completed { output, flags }
}

/// What is known of a call without an answer. Sent and unanswered is unknown, except for a tool that an operator
/// marked as read-only: there is no effect to be unsure of.
fn unanswered(error: &InvokeError, read_only: bool) -> CallOutcome {
    let sentence = error.to_string();
    let failed =
        |code| CallOutcome::Failed { code, sentence: sentence.clone(), output: None, flags: Vec::new() };
    match error {
        InvokeError::NotSent { .. } => failed(ReasonCode::UpstreamUnavailable),
        InvokeError::Withdrawn { .. } => failed(ReasonCode::Withdrawn),
        InvokeError::Refused { .. } => failed(ReasonCode::ToolError),
        InvokeError::TimedOut { .. } if read_only => failed(ReasonCode::TimedOut),
        InvokeError::AnswerLost { .. } if read_only => failed(ReasonCode::UpstreamUnavailable),
        InvokeError::TimedOut { .. } => CallOutcome::Unknown { code: ReasonCode::TimedOut, sentence },
        InvokeError::AnswerLost { .. } | InvokeError::Cancelled { .. } => {
            CallOutcome::Unknown { code: ReasonCode::OutcomeLost, sentence }
        }
    }
}

fn answer_of(id: CallId, outcome: &CallOutcome) -> CallAnswer {
    match outcome {
        CallOutcome::Completed { output, .. } => {
            CallAnswer { call: id, state: CallState::Completed, refusal: None, output: Some(output.clone()) }
        }
        CallOutcome::Failed { code, sentence, output, .. } => CallAnswer {
            call: id,
            state: CallState::Failed,
            refusal: Some(refusal(*code, sentence, *code == ReasonCode::UpstreamUnavailable)),
            output: output.clone(),
        },
        CallOutcome::Unknown { code, sentence } => {
            let sentence =
                format!("{sentence}; the tool may have run, so do not repeat the call by yourself");
            unknown(id, *code, &sentence)
        }
    }
}

fn unknown(id: CallId, code: ReasonCode, sentence: &str) -> CallAnswer {
    CallAnswer {
        call: id,
        state: CallState::Unknown,
        refusal: Some(refusal(code, sentence, false)),
        output: None,
    }
}

fn not_run(id: CallId, refusal: Refusal) -> CallAnswer {
    let state = match refusal.code {
        ReasonCode::Expired => CallState::Expired,
        _ => CallState::Denied,
    };
    CallAnswer { call: id, state, refusal: Some(refusal), output: None }
}

/// Another hand has moved the call on; it is not run by us.
fn ended_elsewhere(id: CallId, state: CallState) -> CallAnswer {
    tracing::error!(call = %id, %state, "the call is not in the state it should be in; it is not run");
    CallAnswer { call: id, state, refusal: Some(moving()), output: None }
}

fn withdrawn() -> Refusal {
    refusal(ReasonCode::Withdrawn, "whoever asked for the call went away before it ran", true)
}

fn moving() -> Refusal {
    refusal(
        ReasonCode::StoreUnavailable,
        "the facts behind the call kept moving, so it was not run; try again",
        true,
    )
}

/// Writes an end that must not be lost, trying again while the store is not available. `false` when it could not be.
async fn persist<F, T>(write: impl Fn() -> F) -> bool
where
    F: Future<Output = Result<T, StoreError>>,
{
    for attempt in 0..MAX_WRITES {
        match write().await {
            Ok(_) => return true,
            Err(error) => tracing::error!(%error, attempt, "an outcome could not be recorded"),
        }
        tokio::time::sleep(Duration::from_millis(100 << attempt)).await;
    }
    false
}
