//! Start-up: settles what an earlier process left open.

use super::approval::{Decided, expire, leave, load};
use super::record::{Moved, end};
use crate::codec;
use crate::error::failed;
use crate::events::{self, actor};
use crate::writer::Tx;
use sluicegate_gateway::{ApprovalStatus, CallState, ReasonCode, Reconciled, StoreError};

pub(super) async fn reconcile(tx: &mut Tx) -> Result<Reconciled, StoreError> {
    let mut settled = Reconciled::default();
    let executing: Vec<(String, Option<String>)> =
        sqlx::query_as("SELECT id, conversation FROM calls WHERE state = 'executing' ORDER BY requested_seq")
            .fetch_all(tx.conn())
            .await
            .map_err(failed)?;
    for (call, conversation) in executing {
        let call = codec::call_id(&call)?;
        let conversation = codec::maybe(conversation.as_deref(), codec::conversation)?;
        tx.record(&events::lost(call))?;
        let moved = Moved {
            call,
            conversation: conversation.as_ref(),
            from: CallState::Executing,
            to: CallState::Unknown,
        };
        end(tx, &moved, ReasonCode::OutcomeLost, "the product stopped while the tool ran; it may have run")
            .await?;
        settled.unknown.push(call);
    }
    let held: Vec<String> = sqlx::query_scalar(
        "SELECT id FROM approvals WHERE status IN ('pending', 'approved') ORDER BY began_wall_ms, id",
    )
    .fetch_all(tx.conn())
    .await
    .map_err(failed)?;
    for id in held {
        let held = load(tx.conn(), codec::approval_id(&id)?).await?;
        let approval = &held.approval;
        if approval.detached {
            // Its caller was told to come back, and may.
            if approval.status == ApprovalStatus::Pending && approval.stamp.passed(tx.now()) {
                expire(tx, &held).await?;
            }
            continue;
        }
        let status = match approval.status {
            ApprovalStatus::Pending => ApprovalStatus::Denied,
            _ => ApprovalStatus::Void,
        };
        let event =
            events::approval_decided(approval.call, approval.id, approval.version, status, actor::RESTART);
        let event = events::because(event, ReasonCode::Orphaned);
        leave(tx, &held, &Decided { status, by: actor::RESTART, note: None, event }).await?;
        let sentence = "the product restarted while the call was held, so whoever asked is gone";
        end(tx, &held.to(CallState::Denied), ReasonCode::Orphaned, sentence).await?;
        settled.orphaned.push(approval.call);
    }
    tx.record(&events::reconciled(settled.unknown.len(), settled.orphaned.len()))?;
    Ok(settled)
}
