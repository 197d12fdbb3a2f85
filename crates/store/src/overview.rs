//! Numbers for the overview.

use crate::call_reader::CallReader;
use crate::codec;
use crate::error::failed;
use crate::events::Shadow;
use sluicegate_gateway::{ApprovalStatus, CallId, CallState, ReasonCode, StoreError};
use sluicegate_policy::{Effect, RuleId};
use sqlx::sqlite::SqliteConnection;
use std::collections::BTreeMap;

/// Tools with the most denials that are listed.
const TOP_TOOLS: i64 = 6;
/// Decisions of people that are looked at: the latest.
const MAX_DECISIONS: i64 = 10_000;
/// Calls with flagged results that are listed.
const LISTED_FLAGGED: i64 = 3;

const SLOTS: &str = "SELECT (requested_ms - $1) / $2 AS slot, decision, state, code, count(*) FROM calls \
    WHERE requested_ms >= $1 GROUP BY (requested_ms - $1) / $2, decision, state, code \
    ORDER BY slot, decision, state, code";
/// The time leads, not the state: most of a trail lies before it.
const DENIED_TOOLS: &str = "WITH recent AS MATERIALIZED \
    (SELECT server, tool, state FROM calls WHERE requested_ms >= $1) \
    SELECT server, tool, count(*) AS denied FROM recent WHERE state = 'denied' GROUP BY server, tool \
    ORDER BY denied DESC, server, tool LIMIT $2";

/// What happened since a time.
#[derive(Clone, Debug, Default)]
pub struct Overview {
    /// Calls by span of time, decision, state and reason, the oldest span first; what has no calls is missing.
    pub slots: Vec<SlotCount>,
    /// The tools with the most calls that were denied, by a rule, a person or for another reason.
    pub denied_tools: Vec<DeniedTool>,
    /// The latest approvals that a person or the clock decided, by how long it took, the latest first; at most 10,000.
    pub decisions: Vec<DecisionTime>,
    /// The latest calls whose results were flagged, and how many there are.
    pub flagged: (Vec<FlaggedCall>, u64),
    /// Calls whose outcome is not known and that no admin has resolved, of all times.
    pub unresolved: u64,
}

/// Calls of one span of time that went the same way.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SlotCount {
    /// Which span, counting from 0.
    pub slot: i64,
    /// What the rules said first.
    pub decision: Effect,
    /// The state.
    pub state: CallState,
    /// Why they did not run, or did not end well.
    pub code: Option<ReasonCode>,
    /// How many.
    pub count: u64,
}

/// A tool and how many of its calls were denied.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DeniedTool {
    /// Server.
    pub server: String,
    /// Tool.
    pub tool: String,
    /// How many.
    pub count: u64,
}

/// How long one decision took.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DecisionTime {
    /// What the approval became.
    pub status: ApprovalStatus,
    /// Milliseconds from asking to deciding.
    pub took_ms: i64,
}

/// A call in whose result phrases were seen that may be meant for the agent.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FlaggedCall {
    /// The call.
    pub id: CallId,
    /// Server.
    pub server: String,
    /// Tool.
    pub tool: String,
}

/// How often a rule decided with an effect.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RuleHits {
    /// The rule.
    pub rule: RuleId,
    /// The effect.
    pub effect: Effect,
    /// How often.
    pub count: u64,
}

impl CallReader {
    /// What happened since a time, in spans of so many milliseconds from there, from one snapshot.
    ///
    /// # Errors
    /// When it cannot be read.
    pub async fn overview(&self, since_ms: i64, span_ms: i64) -> Result<Overview, StoreError> {
        let mut snapshot = self.reads().begin().await.map_err(failed)?;
        let overview = read(&mut snapshot, since_ms, span_ms.max(1)).await;
        snapshot.commit().await.map_err(failed)?;
        overview
    }

    /// How often each rule decided since a time, by effect.
    ///
    /// # Errors
    /// When it cannot be read.
    pub async fn rule_hits(&self, since_ms: i64) -> Result<Vec<RuleHits>, StoreError> {
        let rows: Vec<(String, String, i64)> = sqlx::query_as(
            "SELECT rules, effect, count(*) FROM evaluations WHERE at_ms >= $1 GROUP BY rules, effect",
        )
        .bind(since_ms)
        .fetch_all(self.reads())
        .await
        .map_err(failed)?;
        let mut hits: BTreeMap<(RuleId, Effect), u64> = BTreeMap::new();
        for (rules, effect, count) in rows {
            let effect = codec::effect(&effect)?;
            for rule in codec::from_json::<Vec<RuleId>>(&rules)? {
                let hit = hits.entry((rule, effect)).or_default();
                *hit = hit.saturating_add(codec::unsigned(count));
            }
        }
        Ok(listed(hits))
    }

    /// How often each rule in shadow mode would have matched since a time, by effect.
    ///
    /// # Errors
    /// When it cannot be read.
    pub async fn shadow_hits(&self, since_ms: i64) -> Result<Vec<RuleHits>, StoreError> {
        let rows: Vec<(String, i64)> = sqlx::query_as(
            "SELECT shadows, count(*) FROM evaluations WHERE at_ms >= $1 AND shadows <> '[]' GROUP BY shadows",
        )
        .bind(since_ms)
        .fetch_all(self.reads())
        .await
        .map_err(failed)?;
        let mut hits: BTreeMap<(RuleId, Effect), u64> = BTreeMap::new();
        for (shadows, count) in rows {
            for Shadow { rule, effect } in codec::from_json::<Vec<Shadow>>(&shadows)? {
                let hit = hits.entry((rule, effect)).or_default();
                *hit = hit.saturating_add(codec::unsigned(count));
            }
        }
        Ok(listed(hits))
    }
}

fn listed(hits: BTreeMap<(RuleId, Effect), u64>) -> Vec<RuleHits> {
    hits.into_iter().map(|((rule, effect), count)| RuleHits { rule, effect, count }).collect()
}

async fn read(conn: &mut SqliteConnection, since_ms: i64, span_ms: i64) -> Result<Overview, StoreError> {
    let unresolved: i64 =
        sqlx::query_scalar("SELECT count(*) FROM calls WHERE state = 'unknown' AND resolution IS NULL")
            .fetch_one(&mut *conn)
            .await
            .map_err(failed)?;
    Ok(Overview {
        slots: slots(conn, since_ms, span_ms).await?,
        denied_tools: denied_tools(conn, since_ms).await?,
        decisions: decisions(conn, since_ms).await?,
        flagged: flagged(conn, since_ms).await?,
        unresolved: codec::unsigned(unresolved),
    })
}

async fn slots(
    conn: &mut SqliteConnection,
    since_ms: i64,
    span_ms: i64,
) -> Result<Vec<SlotCount>, StoreError> {
    let rows: Vec<(i64, String, String, Option<String>, i64)> =
        sqlx::query_as(SLOTS).bind(since_ms).bind(span_ms).fetch_all(conn).await.map_err(failed)?;
    rows.into_iter()
        .map(|(slot, decision, state, code, count)| {
            Ok(SlotCount {
                slot,
                decision: codec::effect(&decision)?,
                state: codec::call_state(&state)?,
                code: codec::maybe(code.as_deref(), codec::reason_code)?,
                count: codec::unsigned(count),
            })
        })
        .collect()
}

async fn denied_tools(conn: &mut SqliteConnection, since_ms: i64) -> Result<Vec<DeniedTool>, StoreError> {
    let rows: Vec<(String, String, i64)> =
        sqlx::query_as(DENIED_TOOLS).bind(since_ms).bind(TOP_TOOLS).fetch_all(conn).await.map_err(failed)?;
    Ok(rows
        .into_iter()
        .map(|(server, tool, count)| DeniedTool { server, tool, count: codec::unsigned(count) })
        .collect())
}

async fn decisions(conn: &mut SqliteConnection, since_ms: i64) -> Result<Vec<DecisionTime>, StoreError> {
    let rows: Vec<(String, i64)> = sqlx::query_as(
        "SELECT status, decided_ms - began_wall_ms FROM approvals WHERE decided_ms >= $1 \
         AND status IN ('approved', 'denied', 'expired', 'consumed', 'void') ORDER BY decided_ms DESC, id LIMIT $2",
    )
    .bind(since_ms)
    .bind(MAX_DECISIONS)
    .fetch_all(conn)
    .await
    .map_err(failed)?;
    rows.into_iter()
        .map(|(status, took)| {
            Ok(DecisionTime { status: codec::approval_status(&status)?, took_ms: took.max(0) })
        })
        .collect()
}

async fn flagged(conn: &mut SqliteConnection, since_ms: i64) -> Result<(Vec<FlaggedCall>, u64), StoreError> {
    let count: i64 =
        sqlx::query_scalar("SELECT count(*) FROM calls WHERE requested_ms >= $1 AND flags <> '[]'")
            .bind(since_ms)
            .fetch_one(&mut *conn)
            .await
            .map_err(failed)?;
    let rows: Vec<(String, String, String)> = sqlx::query_as(
        "SELECT id, server, tool FROM calls WHERE requested_ms >= $1 AND flags <> '[]' \
         ORDER BY requested_ms DESC LIMIT $2",
    )
    .bind(since_ms)
    .bind(LISTED_FLAGGED)
    .fetch_all(conn)
    .await
    .map_err(failed)?;
    let listed = rows
        .into_iter()
        .map(|(id, server, tool)| Ok(FlaggedCall { id: codec::call_id(&id)?, server, tool }))
        .collect::<Result<Vec<_>, StoreError>>()?;
    Ok((listed, codec::unsigned(count)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Store, StoreOptions};
    use sluicegate_gateway::ManualClock;
    use sqlx::Row as _;
    use std::sync::Arc;

    /// What is counted is the calls of the span, and no index leads to others.
    #[tokio::test]
    async fn what_lies_before_the_span_is_not_read() {
        let folder = tempfile::tempdir().unwrap();
        let url = format!("sqlite://{}", folder.path().join("gate.db").display());
        let store =
            Store::open_server(&url, Arc::new(ManualClock::at(1)), StoreOptions::default()).await.unwrap();
        for sql in [SLOTS, DENIED_TOOLS] {
            let explain: &'static str = Box::leak(format!("EXPLAIN QUERY PLAN {sql}").into_boxed_str());
            let rows = sqlx::query(explain).fetch_all(store.call_reader().reads()).await.unwrap();
            let plan: Vec<String> = rows.iter().map(|row| row.get::<String, _>("detail")).collect();
            let of_calls: Vec<&String> = plan.iter().filter(|step| step.contains(" calls ")).collect();
            assert_eq!(
                of_calls,
                ["SEARCH calls USING COVERING INDEX calls_by_time (requested_ms>?)"],
                "{plan:?}"
            );
        }
        store.close().await;
    }
}
