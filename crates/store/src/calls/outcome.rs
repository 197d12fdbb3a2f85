//! How an executing call ended.

use super::record::{Moved, settled};
use crate::codec;
use crate::error::failed;
use crate::events;
use crate::writer::Tx;
use sluicegate_gateway::{CallId, CallOutcome, CallState, ReasonCode, StoreError};

pub(super) async fn retried(tx: &mut Tx, call: CallId, why: &str) -> Result<(), StoreError> {
    executing(tx, call).await?;
    tx.record(&events::retried(call, why))?;
    Ok(())
}

pub(super) async fn finish(tx: &mut Tx, call: CallId, outcome: &CallOutcome) -> Result<(), StoreError> {
    let (started_ms, conversation) = executing(tx, call).await?;
    let conversation = codec::maybe(conversation.as_deref(), codec::conversation)?;
    let (to, code, sentence, flags): (_, Option<ReasonCode>, Option<&str>, &[&str]) = match outcome {
        CallOutcome::Completed { flags, .. } => (CallState::Completed, None, None, flags),
        CallOutcome::Failed { code, sentence, flags, .. } => {
            (CallState::Failed, Some(*code), Some(sentence), flags)
        }
        CallOutcome::Unknown { code, sentence } => (CallState::Unknown, Some(*code), Some(sentence), &[]),
    };
    let now = tx.now_ms();
    let done = sqlx::query(
        "UPDATE calls SET state = $1, code = $2, sentence = coalesce($3, sentence), flags = $4, ended_ms = $5 \
         WHERE id = $6 AND state = 'executing'",
    )
    .bind(to.as_str())
    .bind(code.map(ReasonCode::as_str))
    .bind(sentence.map(str::to_owned))
    .bind(codec::json(&flags)?)
    .bind(now)
    .bind(call.to_string())
    .execute(tx.conn())
    .await
    .map_err(failed)?;
    // A clock that was set back gives no negative duration.
    let duration = now.saturating_sub(started_ms.unwrap_or(now)).max(0);
    tx.record(&events::finished(call, outcome, duration)?)?;
    let moved = Moved { call, conversation: conversation.as_ref(), from: CallState::Executing, to };
    settled(tx, &moved, done.rows_affected())
}

/// When an executing call began, and its conversation. Any other state is an error: there is nothing to end.
async fn executing(tx: &mut Tx, call: CallId) -> Result<(Option<i64>, Option<String>), StoreError> {
    sqlx::query_as("SELECT started_ms, conversation FROM calls WHERE id = $1 AND state = 'executing'")
        .bind(call.to_string())
        .fetch_optional(tx.conn())
        .await
        .map_err(failed)?
        .ok_or_else(|| StoreError::Corrupt(format!("the call `{call}` is not executing")))
}
