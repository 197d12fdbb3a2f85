//! Writing calls: new ones with their first decision, later decisions, and moves between states.

use super::facts;
use crate::call_list;
use crate::codec;
use crate::error::failed;
use crate::events::{self, Ruled};
use crate::feed::Change;
use crate::writer::Tx;
use sluicegate_gateway::{
    Begun, CallId, CallState, Expect, Held, NewApproval, NewCall, ReasonCode, RevisionId, Ruling, StoreError,
};
use sluicegate_policy::ConversationId;

/// Version of what a new approval asks.
const FIRST: i64 = 1;

pub(super) async fn denied(tx: &mut Tx, call: &NewCall, ruling: &Ruling) -> Result<(), StoreError> {
    insert(tx, call, ruling, CallState::Denied).await
}

pub(super) async fn begin(
    tx: &mut Tx,
    call: &NewCall,
    ruling: &Ruling,
    expect: &Expect,
) -> Result<Begun, StoreError> {
    if !facts::reserve(tx, expect, &call.caller, call.conversation.as_ref()).await? {
        return Ok(Begun::Moved);
    }
    insert(tx, call, ruling, CallState::Executing).await?;
    tx.record(&events::started(call.id, None))?;
    Ok(Begun::Started)
}

pub(super) async fn hold(
    tx: &mut Tx,
    call: &NewCall,
    ruling: &Ruling,
    approval: &NewApproval,
    revision: RevisionId,
) -> Result<Held, StoreError> {
    if !facts::is_current(tx, revision).await? {
        return Ok(Held::Moved);
    }
    let Some(frozen) = &call.frozen else {
        return Err(StoreError::Corrupt(format!(
            "the call `{}` is not frozen, so it cannot be held",
            call.id
        )));
    };
    insert(tx, call, ruling, CallState::Pending).await?;
    sqlx::query(
        "INSERT INTO approvals (id, call, status, version, action, roles, approvers, began_wall_ms, began_boot_ms, boot, \
         limit_ms, asked_by) VALUES ($1, $2, 'pending', $3, $4, $5, $6, $7, $8, $9, $10, $11)",
    )
    .bind(approval.id.to_string())
    .bind(call.id.to_string())
    .bind(FIRST)
    .bind(frozen.action().to_string())
    .bind(codec::json(&approval.terms.roles)?)
    .bind(i64::from(approval.terms.approvers))
    .bind(approval.stamp.began.wall_ms)
    .bind(approval.stamp.began.boot_ms)
    .bind(approval.stamp.began.boot.to_string())
    .bind(approval.stamp.limit_ms)
    .bind(call.caller.owner.as_str())
    .execute(tx.conn())
    .await
    .map_err(failed)?;
    let deadline = approval.stamp.deadline_ms();
    tx.record(&events::approval_required(call.id, approval.id, FIRST, &approval.terms, deadline))?;
    tx.publish(Change::Approval { approval: approval.id, call: call.id });
    Ok(Held::Pending)
}

/// A new call with its first decision.
async fn insert(tx: &mut Tx, call: &NewCall, ruling: &Ruling, state: CallState) -> Result<(), StoreError> {
    let now = tx.now_ms();
    let ruled = Ruled::of(ruling);
    let frozen = call.frozen.as_ref();
    let requested = tx.record(&events::requested(call))?;
    let when = |at: bool| at.then_some(now);
    sqlx::query(
        "INSERT INTO calls (id, state, server, tool, tier, caller, role, owner, origin, conversation, server_identity, \
         definition, action, code, rules, sentence, flags, requested_seq, requested_ms, decided_ms, started_ms, ended_ms, \
         decision) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, '[]', $17, $18, $19, \
         $20, $21, $22)",
    )
    .bind(call.id.to_string())
    .bind(state.as_str())
    .bind(call.server.clone())
    .bind(call.tool.clone())
    .bind(ruling.context.as_ref().map(|context| context.tier.as_str()))
    .bind(call.caller.principal.caller.as_str())
    .bind(call.caller.principal.role.as_str())
    .bind(call.caller.owner.as_str())
    .bind(call.origin.as_str())
    .bind(call.conversation.as_ref().map(ConversationId::as_str))
    .bind(frozen.map(|frozen| frozen.server().to_string()))
    .bind(frozen.map(|frozen| frozen.definition().to_string()))
    .bind(frozen.map(|frozen| frozen.action().to_string()))
    .bind(ruled.code.map(ReasonCode::as_str))
    .bind(codec::json(&ruled.rules)?)
    .bind(ruling.sentence.clone())
    .bind(requested)
    .bind(now)
    .bind(when(state != CallState::Pending))
    .bind(when(state == CallState::Executing))
    .bind(when(state.is_end()))
    .bind(ruled.effect.as_str())
    .execute(tx.conn())
    .await
    .map_err(failed)?;
    call_list::timed(tx.conn(), now, requested).await?;
    evaluated(tx, call.id, ruling).await?;
    tx.publish(Change::Call { call: call.id, conversation: call.conversation.clone() });
    Ok(())
}

/// A decision on a call: its event, and the evaluation that points at the event's payloads.
pub(super) async fn evaluated(tx: &mut Tx, call: CallId, ruling: &Ruling) -> Result<(), StoreError> {
    let ruled = Ruled::of(ruling);
    let seq = tx.record(&events::decided(call, ruling)?)?;
    let now = tx.now_ms();
    sqlx::query(
        "INSERT INTO evaluations (call, n, seq, revision, effect, rules, sentence, at_ms, shadows) VALUES \
         ($1, (SELECT coalesce(max(n), 0) + 1 FROM evaluations WHERE call = $1), $2, $3, $4, $5, $6, $7, $8)",
    )
    .bind(call.to_string())
    .bind(seq)
    .bind(ruling.revision.map(|revision| revision.0))
    .bind(ruled.effect.as_str())
    .bind(codec::json(&ruled.rules)?)
    .bind(ruling.sentence.clone())
    .bind(now)
    .bind(codec::json(&ruled.shadows)?)
    .execute(tx.conn())
    .await
    .map_err(failed)?;
    Ok(())
}

/// A call as it is moved: only from the state it is believed to be in.
pub(crate) struct Moved<'a> {
    pub(crate) call: CallId,
    pub(crate) conversation: Option<&'a ConversationId>,
    pub(crate) from: CallState,
    pub(crate) to: CallState,
}

/// Ends a call that did not run, or whose outcome is not known.
pub(super) async fn end(
    tx: &mut Tx,
    moved: &Moved<'_>,
    code: ReasonCode,
    sentence: &str,
) -> Result<(), StoreError> {
    let now = tx.now_ms();
    let done = sqlx::query(
        "UPDATE calls SET state = $1, code = $2, sentence = $3, decided_ms = coalesce(decided_ms, $4), ended_ms = $4 \
         WHERE id = $5 AND state = $6",
    )
    .bind(moved.to.as_str())
    .bind(code.as_str())
    .bind(sentence.to_owned())
    .bind(now)
    .bind(moved.call.to_string())
    .bind(moved.from.as_str())
    .execute(tx.conn())
    .await
    .map_err(failed)?;
    settled(tx, moved, done.rows_affected())
}

/// Moves a call between `pending` and `approved`.
pub(super) async fn decide(tx: &mut Tx, moved: &Moved<'_>) -> Result<(), StoreError> {
    let decided = (moved.to == CallState::Approved).then_some(tx.now_ms());
    let done = sqlx::query("UPDATE calls SET state = $1, decided_ms = $2 WHERE id = $3 AND state = $4")
        .bind(moved.to.as_str())
        .bind(decided)
        .bind(moved.call.to_string())
        .bind(moved.from.as_str())
        .execute(tx.conn())
        .await
        .map_err(failed)?;
    settled(tx, moved, done.rows_affected())
}

/// Writes the intent of an approved call, with what the rules said last.
pub(super) async fn start(tx: &mut Tx, moved: &Moved<'_>, ruling: &Ruling) -> Result<(), StoreError> {
    let now = tx.now_ms();
    let ruled = Ruled::of(ruling);
    let done = sqlx::query(
        "UPDATE calls SET state = $1, started_ms = $2, tier = coalesce($3, tier), rules = $4, sentence = $5 \
         WHERE id = $6 AND state = $7",
    )
    .bind(moved.to.as_str())
    .bind(now)
    .bind(ruling.context.as_ref().map(|context| context.tier.as_str()))
    .bind(codec::json(&ruled.rules)?)
    .bind(ruling.sentence.clone())
    .bind(moved.call.to_string())
    .bind(moved.from.as_str())
    .execute(tx.conn())
    .await
    .map_err(failed)?;
    settled(tx, moved, done.rows_affected())
}

/// A move that found the call elsewhere undoes the whole command.
pub(super) fn settled(tx: &mut Tx, moved: &Moved<'_>, rows: u64) -> Result<(), StoreError> {
    if rows != 1 || !moved.from.may_become(moved.to) {
        return Err(StoreError::Corrupt(format!(
            "the call `{}` is not `{}`, so it cannot become `{}`",
            moved.call, moved.from, moved.to
        )));
    }
    tx.publish(Change::Call { call: moved.call, conversation: moved.conversation.cloned() });
    Ok(())
}
