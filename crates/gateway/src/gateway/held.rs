//! A held call: it waits for a person, the clock, or its caller's leaving, then faces the rules once more.

use super::flight::{Flight, HeldCall};
use super::flights::Led;
use super::{crash_point, ended_elsewhere, moving, not_run, persist, run, withdrawn};
use crate::approvals::{ApprovalId, ApprovalTerms, Quorum, quorum};
use crate::call::CallId;
use crate::clock::Stamp;
use crate::core::{Core, Waiting};
use crate::facts::{Judged, Subject, judge, refusal, store_refusal};
use crate::outcome::{CallAnswer, ReasonCode, Refusal};
use crate::state::{ApprovalStatus, CallState};
use crate::store::{Begun, Closed, Closing, Held, NewApproval, NewCall, Ruling, StoreError, StoredApproval};
use crate::times::outside;
use sluicegate_policy::{Effect, Origin, Tier};
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// Longest time between two looks at the clock: a timer alone would sleep through a suspended machine.
const LOOK: Duration = Duration::from_secs(1);

/// Holds a call and sees it to its end. `None` when the facts moved before the hold was written: judge again.
pub(super) async fn hold(
    core: &Arc<Core>,
    flight: &Arc<Flight>,
    subject: &Subject,
    call: NewCall,
    judged: Judged,
) -> Option<CallAnswer> {
    let action = subject.frozen.action();
    if subject.origin == Origin::Mcp {
        match core.flights.lead(core, action, flight, &subject.caller.principal.caller) {
            Led::Leads => {}
            Led::Follows(leader) => return Some(outside(flight.follow(leader)).await),
            Led::TooMany => {
                let many = refusal(
                    ReasonCode::OverRate,
                    "too many calls of this caller wait for a person; try again when some are decided",
                    true,
                );
                return Some(super::refuse(core, call, judged.ruling.refused_as(many)).await);
            }
        }
    }
    let answer = hold_leading(core, flight, subject, call, judged).await;
    core.flights.land(action, flight, answer.as_ref(), &core.clock.now());
    answer
}

async fn hold_leading(
    core: &Arc<Core>,
    flight: &Arc<Flight>,
    subject: &Subject,
    call: NewCall,
    judged: Judged,
) -> Option<CallAnswer> {
    let id = call.id;
    let Some(terms) = judged.decision.hold.as_ref() else {
        return Some(super::refuse(core, call, judged.ruling.refused_as(moving())).await);
    };
    let approval = NewApproval {
        id: ApprovalId::random(),
        terms: ApprovalTerms::from(terms),
        stamp: Stamp { began: core.clock.now(), limit_ms: i64::from(terms.timeout_s).saturating_mul(1000) },
    };
    let (approval_id, stamp) = (approval.id, approval.stamp.clone());
    let held = HeldCall {
        call: id,
        approval: approval_id,
        tool: subject.frozen.tool().clone(),
        tier: judged.ruling.context.as_ref().map_or(Tier::High, |context| context.tier),
        asked_at: stamp.began_text(),
        expires_at: stamp.deadline_text(),
        limit_ms: stamp.limit_ms,
    };
    // Before the approval can be seen, so that no answer can come too early to be heard.
    let waiting = core.wait_for(approval_id);
    match core.store().hold(call, judged.ruling, approval, judged.expect.revision).await {
        Ok(Held::Pending) => {}
        Ok(Held::Moved) => return None,
        Err(error) => return Some(not_run(id, store_refusal(&error))),
    }
    crash_point!("hold_written");
    flight.tell_held(held);
    Some(Holding { core, subject, flight, id, approval: approval_id, stamp, waiting }.see_to_end().await)
}

pub(super) struct Holding<'a> {
    pub(super) core: &'a Arc<Core>,
    pub(super) subject: &'a Subject,
    pub(super) flight: &'a Arc<Flight>,
    pub(super) id: CallId,
    pub(super) approval: ApprovalId,
    pub(super) stamp: Stamp,
    pub(super) waiting: Waiting,
}

impl Holding<'_> {
    /// Waits, faces the rules once more, and runs or not.
    pub(super) async fn see_to_end(&self) -> CallAnswer {
        let cancel = &self.flight.cancel;
        loop {
            let record = match outside(self.decided(cancel)).await {
                Ok(record) => record,
                Err(answer) => return answer,
            };
            crash_point!("approval_seen");
            if let Some(answer) = self.approved(record, cancel).await {
                return answer;
            }
        }
    }

    /// Waits until the approval is approved; any other end is the answer.
    async fn decided(&self, cancel: &CancellationToken) -> Result<StoredApproval, CallAnswer> {
        loop {
            let left = u64::try_from(self.stamp.left_ms(&self.core.clock.now())).unwrap_or_default();
            let look = Duration::from_millis(left).min(LOOK);
            let mut looked = false;
            tokio::select! {
                biased;
                () = cancel.cancelled() => return Err(self.withdraw().await),
                () = self.waiting.woken() => {}
                () = tokio::time::sleep(look) => looked = true,
            }
            if self.tool_changed() {
                // The person would approve something that can no longer run as it was shown.
                match self.core.store().close(self.approval, Closing::ToolChanged).await {
                    Ok(Closed::Won) => return Err(not_run(self.id, tool_changed())),
                    Ok(Closed::Lost(_)) => {}
                    Err(error) => {
                        tracing::error!(%error, call = %self.id, "an approval could not be closed yet")
                    }
                }
            }
            if looked {
                if !self.stamp.passed(&self.core.clock.now()) {
                    continue;
                }
                // The store judges by its own reading of the clock; if it wins, the record below says so.
                if let Err(error) = self.core.store().close(self.approval, Closing::Expired).await {
                    tracing::error!(%error, call = %self.id, "an expired approval could not be closed yet");
                    tokio::time::sleep(LOOK).await;
                    continue;
                }
            }
            match self.core.store().approval(self.approval).await {
                Ok(record) => match record.status {
                    ApprovalStatus::Pending => {}
                    ApprovalStatus::Approved => return Ok(record),
                    _ => return Err(self.ended(&record)),
                },
                Err(StoreError::Unavailable(_)) => tokio::time::sleep(LOOK).await,
                Err(error @ StoreError::Corrupt(_)) => return Err(not_run(self.id, store_refusal(&error))),
            }
        }
    }

    fn tool_changed(&self) -> bool {
        let frozen = &self.subject.frozen;
        let current = self.core.catalogue.snapshot().get(frozen.tool()).cloned();
        current.is_none_or(|now| now.digest() != frozen.definition() || now.server() != frozen.server())
    }

    /// The second evaluation. `None` when more approval is needed: the call waits again.
    async fn approved(&self, record: StoredApproval, cancel: &CancellationToken) -> Option<CallAnswer> {
        for _ in 0..super::MAX_EVALUATIONS {
            if cancel.is_cancelled() {
                return Some(self.withdraw().await);
            }
            let frozen = &self.subject.frozen;
            if self.tool_changed() {
                return Some(self.refuse(Ruling::refused(tool_changed())).await);
            }
            let judged = match judge(self.core, self.subject).await {
                Ok(judged) => judged,
                Err(refusal) => return Some(self.refuse(Ruling::refused(refusal)).await),
            };
            crash_point!("approved_judged");
            match judged.decision.effect {
                Effect::Deny => return Some(self.refuse(judged.ruling).await),
                Effect::Allow => {}
                Effect::RequireApproval => {
                    let terms = judged.decision.hold.as_ref().map(ApprovalTerms::from)?;
                    if quorum(&terms, &record.votes, &record.asked_by) != Quorum::Met {
                        return self.ask_again(judged.ruling, terms).await;
                    }
                }
            }
            let call = frozen.clone().marked_read_only(judged.read_only);
            let begun = self.core.store().begin_approved(
                self.approval,
                frozen.action(),
                judged.ruling,
                judged.expect,
            );
            match begun.await {
                Ok(Begun::Started) => {
                    return Some(run(self.core, call, &self.subject.notices, cancel).await);
                }
                Ok(Begun::Moved) => {}
                Ok(Begun::Lost(state)) => return Some(ended_elsewhere(self.id, state)),
                Err(error) => return Some(self.refuse(Ruling::refused(store_refusal(&error))).await),
            }
        }
        Some(self.refuse(Ruling::refused(moving())).await)
    }

    /// The rules of this moment ask for more than was given: the call goes back to waiting for the rest.
    async fn ask_again(&self, ruling: Ruling, terms: ApprovalTerms) -> Option<CallAnswer> {
        let more = refusal(
            ReasonCode::InsufficientApproval,
            "the rules now ask for more approval than was given; the call waits for the rest",
            true,
        );
        match self.core.store().ask_again(self.approval, ruling.refused_as(more), terms).await {
            Ok(Held::Pending) => None,
            Ok(Held::Moved) => Some(self.refuse(Ruling::refused(moving())).await),
            Err(error) => Some(self.refuse(Ruling::refused(store_refusal(&error))).await),
        }
    }

    /// Voids the approval: the call does not run.
    async fn refuse(&self, ruling: Ruling) -> CallAnswer {
        let refusal = ruling.refusal.clone().unwrap_or_else(moving);
        persist(|| self.core.store().refuse_approved(self.approval, ruling.clone())).await;
        not_run(self.id, refusal)
    }

    /// The caller is gone. Whatever the store can still write, the call is not run.
    async fn withdraw(&self) -> CallAnswer {
        if self.flight.is_detached() && self.core.stopping.is_cancelled() {
            // Its caller was told to come back: it outlives the process.
            return not_run(self.id, withdrawn());
        }
        let mut lost = None;
        for _ in 0..super::MAX_WRITES {
            match self.core.store().close(self.approval, Closing::Withdrawn).await {
                Ok(Closed::Won) => break,
                Ok(Closed::Lost(record)) => {
                    lost = Some(record);
                    break;
                }
                Err(error) => {
                    tracing::error!(%error, call = %self.id, "a withdrawn approval could not be closed yet");
                    tokio::time::sleep(LOOK).await;
                }
            }
        }
        match lost {
            Some(record) => self.ended(&record),
            None => CallAnswer {
                call: self.id,
                state: CallState::Withdrawn,
                refusal: Some(withdrawn()),
                output: None,
            },
        }
    }

    /// The answer for an approval that ended without the call running.
    fn ended(&self, record: &StoredApproval) -> CallAnswer {
        let (state, refusal) = ending(record);
        CallAnswer { call: self.id, state, refusal: Some(refusal), output: None }
    }
}

fn tool_changed() -> Refusal {
    refusal(
        ReasonCode::ToolChanged,
        "the tool changed or went away after the call was proposed, so it cannot run as it was shown",
        true,
    )
}

fn ending(record: &StoredApproval) -> (CallState, Refusal) {
    match record.status {
        ApprovalStatus::Denied => {
            let sentence = match &record.note {
                Some(note) => format!("a person refused the call and said: {note}"),
                None => "a person refused the call".to_owned(),
            };
            (CallState::Denied, refusal(ReasonCode::DeniedByPerson, &sentence, false))
        }
        ApprovalStatus::Expired => {
            let sentence = "nobody decided about the call in time, so it was denied";
            (CallState::Expired, refusal(ReasonCode::Expired, sentence, true))
        }
        ApprovalStatus::Withdrawn => (CallState::Withdrawn, withdrawn()),
        ApprovalStatus::Pending
        | ApprovalStatus::Approved
        | ApprovalStatus::Consumed
        | ApprovalStatus::Void => (CallState::Denied, moving()),
    }
}
