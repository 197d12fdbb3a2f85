//! Facts for a decision, and whether they still hold when it is acted upon.

use crate::codec;
use crate::error::failed;
use crate::writer::Tx;
use sluicegate_gateway::{Caller, Expect, FactQuery, ReasonCode, RevisionId, StoreError, StoredFacts};
use sluicegate_policy::{CallerId, ConversationId, Counters, Mode, RateQuery, Role, TokenUsage};
use sqlx::sqlite::SqliteConnection;

/// Counted starts are kept at least this long, so that a longer window finds what a shorter one left.
const KEEP_MS: i64 = 3_600_000;

pub(super) async fn read(
    conn: &mut SqliteConnection,
    query: &FactQuery,
    now_ms: i64,
) -> Result<StoredFacts, StoreError> {
    let (revision, usage) =
        present(conn, &query.caller.principal.caller, query.conversation.as_ref(), now_ms).await?;
    let mut counters = Counters::new();
    for rate in &query.rates {
        counters.insert(rate.rule.clone(), codec::unsigned(count(conn, rate, now_ms).await?));
    }
    let refused_before = match &query.action {
        None => false,
        Some(action) => sqlx::query_scalar(
            "SELECT EXISTS (SELECT 1 FROM calls WHERE action = $1 AND code = $2 \
             AND (conversation = $3 OR (CAST($3 AS TEXT) IS NULL AND caller = $4)))",
        )
        .bind(action.to_string())
        .bind(ReasonCode::DeniedByPerson.as_str())
        .bind(query.conversation.as_ref().map(ConversationId::as_str))
        .bind(query.caller.principal.caller.as_str())
        .fetch_one(&mut *conn)
        .await
        .map_err(failed)?,
    };
    let caller_gone = revoked(conn, &query.caller).await?;
    Ok(StoredFacts { revision, usage, counters, refused_before, caller_gone })
}

/// The current revision, and the usage of a conversation and of a caller's present UTC day.
pub(crate) async fn present(
    conn: &mut SqliteConnection,
    caller: &CallerId,
    conversation: Option<&ConversationId>,
    now_ms: i64,
) -> Result<(Option<RevisionId>, TokenUsage), StoreError> {
    let (revision, conversation, caller_day): (Option<i64>, i64, i64) = sqlx::query_as(
        "SELECT (SELECT max(id) FROM policy_revisions), \
         (SELECT CAST(coalesce(sum(input + output), 0) AS BIGINT) FROM token_usage WHERE conversation = $1), \
         (SELECT CAST(coalesce(sum(input + output), 0) AS BIGINT) FROM token_usage WHERE caller = $2 AND day = $3)",
    )
    .bind(conversation.map(ConversationId::as_str))
    .bind(caller.as_str())
    .bind(codec::day(now_ms))
    .fetch_one(conn)
    .await
    .map_err(failed)?;
    let usage =
        TokenUsage { conversation: codec::unsigned(conversation), caller_day: codec::unsigned(caller_day) };
    Ok((revision.map(RevisionId), usage))
}

/// Starts that a rate rule counts. What lies in the future, after the clock was set back, counts too.
async fn count(conn: &mut SqliteConnection, rate: &RateQuery, now_ms: i64) -> Result<i64, StoreError> {
    sqlx::query_scalar("SELECT count(*) FROM rate_events WHERE rule = $1 AND subject = $2 AND at_ms > $3")
        .bind(rate.rule.as_str())
        .bind(rate.subject.key())
        .bind(now_ms.saturating_sub(codec::signed(rate.window_ms)))
        .fetch_one(conn)
        .await
        .map_err(failed)
}

/// Whether the revision is still the current one.
pub(super) async fn is_current(tx: &mut Tx, revision: RevisionId) -> Result<bool, StoreError> {
    let current: Option<i64> = sqlx::query_scalar("SELECT max(id) FROM policy_revisions")
        .fetch_one(tx.conn())
        .await
        .map_err(failed)?;
    Ok(current == Some(revision.0))
}

/// Whether the caller is a key that has been revoked.
async fn revoked(conn: &mut SqliteConnection, caller: &Caller) -> Result<bool, StoreError> {
    if caller.principal.role != Role::Client {
        return Ok(false);
    }
    sqlx::query_scalar("SELECT EXISTS (SELECT 1 FROM keys WHERE caller = $1 AND revoked_ms IS NOT NULL)")
        .bind(caller.principal.caller.as_str())
        .fetch_one(conn)
        .await
        .map_err(failed)
}

/// Whether what a ruling was made from still holds. If so, counts the start in each of its counters; if not, nothing
/// is written.
pub(super) async fn reserve(
    tx: &mut Tx,
    expect: &Expect,
    caller: &Caller,
    conversation: Option<&ConversationId>,
) -> Result<bool, StoreError> {
    let now_ms = tx.now_ms();
    let (revision, usage) = present(tx.conn(), &caller.principal.caller, conversation, now_ms).await?;
    if revision != Some(expect.revision)
        || usage.conversation > expect.usage.conversation
        || usage.caller_day > expect.usage.caller_day
        || revoked(tx.conn(), caller).await?
    {
        return Ok(false);
    }
    for rate in expect.rates.iter().filter(|rate| rate.mode == Mode::Enforce) {
        if codec::unsigned(count(tx.conn(), rate, now_ms).await?) >= rate.limit {
            return Ok(false);
        }
    }
    for rate in &expect.rates {
        let keep = codec::signed(rate.window_ms).max(KEEP_MS);
        sqlx::query("DELETE FROM rate_events WHERE rule = $1 AND subject = $2 AND at_ms <= $3")
            .bind(rate.rule.as_str())
            .bind(rate.subject.key())
            .bind(now_ms.saturating_sub(keep))
            .execute(tx.conn())
            .await
            .map_err(failed)?;
        sqlx::query("INSERT INTO rate_events (rule, subject, at_ms) VALUES ($1, $2, $3)")
            .bind(rate.rule.as_str())
            .bind(rate.subject.key())
            .bind(now_ms)
            .execute(tx.conn())
            .await
            .map_err(failed)?;
    }
    Ok(true)
}
