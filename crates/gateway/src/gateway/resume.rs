//! Detached calls that an earlier process left: their callers were told to come back, so they are still there.

use super::flight::{Flight, HeldCall, Landing};
use super::flights::{Kept, too_large};
use super::held::Holding;
use super::{moving, not_run};
use crate::call::FrozenCall;
use crate::catalogue::ToolDefinition;
use crate::clock::written;
use crate::core::{Core, Waiting};
use crate::facts::{Subject, refusal, store_refusal};
use crate::notice::Notices;
use crate::outcome::{CallAnswer, ReasonCode};
use crate::scope::Scope;
use crate::state::ApprovalStatus;
use crate::store::{Closed, Closing, DetachedCall, KeptAnswer, Ruling, StoreError};
use std::sync::Arc;
use std::time::Duration;

/// Longest time between two looks at the clock.
const LOOK: Duration = Duration::from_secs(1);

/// Takes up what may still be decided, and keeps what may still be collected.
pub(super) async fn resume(core: &Arc<Core>) -> Result<(), StoreError> {
    let left = core.store().detached().await?;
    let now = core.clock.now().wall_ms;
    for KeptAnswer { action, caller, answer, asked_ms, ended_ms, whole } in left.kept {
        let answer = Box::new(if whole { answer } else { too_large(answer) });
        let kept = Kept { answer, caller, asked_at: written(asked_ms), ended_at: written(ended_ms) };
        let age = u64::try_from(now.saturating_sub(ended_ms)).unwrap_or_default();
        core.flights.restore(action, kept, Duration::from_millis(age));
    }
    for detached in left.open {
        let flight = Flight::new(detached.call, core.stopping.child_token());
        flight.set_detached();
        flight.tell_held(HeldCall {
            call: detached.call,
            approval: detached.approval.id,
            tool: detached.tool.clone(),
            tier: detached.tier,
            asked_at: detached.approval.stamp.began_text(),
            expires_at: detached.approval.stamp.deadline_text(),
            limit_ms: detached.approval.stamp.limit_ms,
        });
        core.flights.lead(core, detached.approval.action, &flight, &detached.caller.principal.caller);
        // Before anybody can decide; and what was decided already is looked at first.
        let waiting = core.wait_for(detached.approval.id);
        if detached.approval.status != ApprovalStatus::Pending {
            core.wake(detached.approval.id);
        }
        let core = Arc::clone(core);
        let task = Arc::clone(&core);
        task.tasks.spawn(async move {
            let landing = Landing { flight: Arc::clone(&flight) };
            let action = detached.approval.action;
            let answer = see_to_end(&core, &flight, detached, waiting).await;
            core.flights.land(action, &flight, Some(&answer), &core.clock.now());
            landing.end(answer);
        });
    }
    Ok(())
}

async fn see_to_end(
    core: &Arc<Core>,
    flight: &Arc<Flight>,
    detached: DetachedCall,
    waiting: Waiting,
) -> CallAnswer {
    let DetachedCall {
        call,
        approval,
        tool,
        tier: _,
        server,
        definition,
        caller,
        origin,
        conversation,
        arguments,
    } = detached;
    let frozen = FrozenCall::freeze(call, &caller, tool, server, definition, arguments);
    let id = approval.id;
    if frozen.action() != approval.action {
        tracing::error!(%call, "a held call is not stored as it was asked for; it is not run");
        return closed(core, call, id, Closing::ToolChanged).await;
    }
    let found = loop {
        let current = core.catalogue.snapshot().get(frozen.tool()).cloned();
        match current {
            Some(now) if same(&now, &frozen) => break Some(now),
            Some(_) => break None,
            // Its server is still being started.
            None if approval.stamp.passed(&core.clock.now()) => break None,
            None => {}
        }
        tokio::select! {
            () = flight.cancel.cancelled() => {
                if core.stopping.is_cancelled() {
                    return not_run(call, moving());
                }
                return closed(core, call, id, Closing::Withdrawn).await;
            }
            () = tokio::time::sleep(LOOK) => {}
        }
    };
    let Some(definition) = found else {
        return closed(core, call, id, Closing::ToolChanged).await;
    };
    let subject = Subject {
        frozen,
        definition,
        caller,
        origin,
        conversation,
        scope: Scope::default(),
        notices: Notices::default(),
    };
    let stamp = approval.stamp.clone();
    Holding { core, subject: &subject, flight, id: call, approval: id, stamp, waiting }.see_to_end().await
}

fn same(now: &ToolDefinition, frozen: &FrozenCall) -> bool {
    now.digest() == frozen.definition() && now.server() == frozen.server()
}

async fn closed(
    core: &Core,
    call: crate::call::CallId,
    approval: crate::approvals::ApprovalId,
    closing: Closing,
) -> CallAnswer {
    let changed = refusal(
        ReasonCode::ToolChanged,
        "the tool changed or went away after the call was proposed, so it cannot run as it was shown",
        true,
    );
    match core.store().close(approval, closing).await {
        Ok(Closed::Won | Closed::Lost(_)) => not_run(call, changed),
        Err(error) => {
            super::persist(|| core.store().refuse_approved(approval, Ruling::refused(moving()))).await;
            not_run(call, store_refusal(&error))
        }
    }
}
