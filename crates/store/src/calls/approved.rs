//! What becomes of an approved call: its intent, a refusal after all, or another question.

use super::approval::{Decided, HeldCall, leave, load};
use super::facts;
use super::record::{decide, end, evaluated, start};
use crate::codec;
use crate::error::failed;
use crate::events::{self, actor};
use crate::feed::Change;
use crate::writer::Tx;
use serde_json::{Map, Value};
use sluicegate_gateway::audit::Payload;
use sluicegate_gateway::{
    ActionDigest, ApprovalId, ApprovalStatus, ApprovalTerms, Begun, CallState, Caller, Expect, Held,
    ReasonCode, Ruling, StoreError,
};
use sluicegate_policy::Principal;

pub(super) async fn begin(
    tx: &mut Tx,
    id: ApprovalId,
    action: ActionDigest,
    ruling: &Ruling,
    expect: &Expect,
) -> Result<Begun, StoreError> {
    let held = load(tx.conn(), id).await?;
    if held.approval.status != ApprovalStatus::Approved
        || held.state != CallState::Approved
        || held.approval.action != action
    {
        return Ok(Begun::Lost(held.state));
    }
    check_what_was_shown(tx, &held).await?;
    let caller = caller_of(tx, &held).await?;
    if !facts::reserve(tx, expect, &caller, held.conversation.as_ref()).await? {
        return Ok(Begun::Moved);
    }
    let done = sqlx::query(
        "UPDATE approvals SET status = 'consumed' WHERE id = $1 AND status = 'approved' AND action = $2",
    )
    .bind(id.to_string())
    .bind(action.to_string())
    .execute(tx.conn())
    .await
    .map_err(failed)?;
    if done.rows_affected() != 1 {
        return Err(moved(id));
    }
    evaluated(tx, held.approval.call, ruling).await?;
    start(tx, &held.to(CallState::Executing), ruling).await?;
    tx.record(&events::started(held.approval.call, Some(id)))?;
    tx.publish(Change::Approval { approval: id, call: held.approval.call });
    Ok(Begun::Started)
}

pub(super) async fn refuse(tx: &mut Tx, id: ApprovalId, ruling: &Ruling) -> Result<(), StoreError> {
    let held = load(tx.conn(), id).await?;
    match held.approval.status {
        ApprovalStatus::Approved => {}
        // It has ended without running already, and that is recorded.
        ApprovalStatus::Denied
        | ApprovalStatus::Expired
        | ApprovalStatus::Withdrawn
        | ApprovalStatus::Void => return Ok(()),
        ApprovalStatus::Pending | ApprovalStatus::Consumed => return Err(moved(id)),
    }
    evaluated(tx, held.approval.call, ruling).await?;
    let code = ruling.refusal.as_ref().map_or(ReasonCode::PolicyFailed, |refusal| refusal.code);
    let approval = &held.approval;
    let event =
        events::approval_decided(approval.call, id, approval.version, ApprovalStatus::Void, actor::POLICY);
    let event = events::because(event, code);
    let decided = Decided { status: ApprovalStatus::Void, by: actor::POLICY, note: None, event };
    leave(tx, &held, &decided).await?;
    end(tx, &held.to(CallState::Denied), code, &ruling.sentence).await
}

pub(super) async fn ask_again(
    tx: &mut Tx,
    id: ApprovalId,
    ruling: &Ruling,
    terms: &ApprovalTerms,
) -> Result<Held, StoreError> {
    let held = load(tx.conn(), id).await?;
    if held.approval.status != ApprovalStatus::Approved {
        return Err(moved(id));
    }
    if let Some(revision) = ruling.revision
        && !facts::is_current(tx, revision).await?
    {
        return Ok(Held::Moved);
    }
    let version = held.approval.version.saturating_add(1);
    let done = sqlx::query(
        "UPDATE approvals SET status = 'pending', version = $1, roles = $2, approvers = $3, decided_ms = NULL, \
         decided_by = NULL, note = NULL WHERE id = $4 AND status = 'approved' AND version = $5",
    )
    .bind(version)
    .bind(codec::json(&terms.roles)?)
    .bind(i64::from(terms.approvers))
    .bind(id.to_string())
    .bind(held.approval.version)
    .execute(tx.conn())
    .await
    .map_err(failed)?;
    if done.rows_affected() != 1 {
        return Err(moved(id));
    }
    // Who said yes to this very action need not say it again.
    sqlx::query(
        "INSERT INTO votes (approval, version, person, role, verdict, at_ms) \
         SELECT approval, $1, person, role, verdict, at_ms FROM votes WHERE approval = $2 AND version = $3",
    )
    .bind(version)
    .bind(id.to_string())
    .bind(held.approval.version)
    .execute(tx.conn())
    .await
    .map_err(failed)?;
    evaluated(tx, held.approval.call, ruling).await?;
    decide(tx, &held.to(CallState::Pending)).await?;
    let deadline = held.approval.stamp.deadline_ms();
    tx.record(&events::approval_required(held.approval.call, id, version, terms, deadline))?;
    tx.publish(Change::Approval { approval: id, call: held.approval.call });
    Ok(Held::Pending)
}

fn moved(id: ApprovalId) -> StoreError {
    StoreError::Unavailable(format!("the approval `{id}` is not approved any more"))
}

/// What a person was shown came from the store. If it was changed there by hand, it is not what they approved.
async fn check_what_was_shown(tx: &mut Tx, held: &HeldCall) -> Result<(), StoreError> {
    let stored: Option<(String, String, String)> = sqlx::query_as(
        "SELECT p.salt, p.text, a.commitments FROM calls c JOIN audit a ON a.seq = c.requested_seq \
         JOIN audit_payloads p ON p.seq = a.seq AND p.name = 'arguments' WHERE c.id = $1",
    )
    .bind(held.approval.call.to_string())
    .fetch_optional(tx.conn())
    .await
    .map_err(failed)?;
    let shown = stored.is_some_and(|(salt, text, commitments)| {
        let commitment = Payload { name: "arguments".to_owned(), salt, text }.commitment().to_string();
        let commitments: Map<String, Value> = serde_json::from_str(&commitments).unwrap_or_default();
        commitments.get("arguments").and_then(Value::as_str) == Some(commitment.as_str())
    });
    if shown {
        return Ok(());
    }
    Err(StoreError::Corrupt(format!(
        "the stored arguments of the call `{}` are not those it was asked with",
        held.approval.call
    )))
}

async fn caller_of(tx: &mut Tx, held: &HeldCall) -> Result<Caller, StoreError> {
    let (caller, role): (String, String) = sqlx::query_as("SELECT caller, role FROM calls WHERE id = $1")
        .bind(held.approval.call.to_string())
        .fetch_one(tx.conn())
        .await
        .map_err(failed)?;
    let principal = Principal { caller: codec::caller(&caller)?, role: codec::role(&role)? };
    Ok(Caller { principal, owner: held.approval.asked_by.clone() })
}
