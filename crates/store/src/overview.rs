//! Numbers for the overview.

use crate::call_reader::CallReader;
use crate::codec;
use crate::error::failed;
use crate::events::Shadow;
use sluicegate_gateway::{ApprovalStatus, CallState, StoreError};
use sluicegate_policy::{Effect, RuleId};
use sqlx::sqlite::SqliteConnection;
use std::collections::BTreeMap;

const HOUR_MS: i64 = 3_600_000;
/// Tools with the most denials that are listed.
const TOP_TOOLS: i64 = 10;

/// What happened since a time.
#[derive(Clone, Debug, Default)]
pub struct Overview {
    /// Calls by hour and state, oldest hour first; hours without calls are missing.
    pub hours: Vec<HourCount>,
    /// The tools with the most calls that were not run.
    pub denied_tools: Vec<DeniedTool>,
    /// Every approval that a person or the clock decided, by how long it took, oldest first.
    pub decisions: Vec<DecisionTime>,
    /// How often each rule decided, by effect.
    pub rules: Vec<RuleHits>,
    /// How often each rule in shadow mode would have matched, by effect.
    pub shadows: Vec<RuleHits>,
    /// Calls whose outcome is not known and that no admin has resolved, of all times.
    pub unresolved: u64,
}

/// Calls of one hour in one state.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HourCount {
    /// Beginning of the hour in UTC; wall clock in milliseconds.
    pub hour_ms: i64,
    /// The state.
    pub state: CallState,
    /// How many.
    pub count: u64,
}

/// A tool and how many of its calls were not run.
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
    /// When it was decided; wall clock in milliseconds.
    pub decided_ms: i64,
    /// Milliseconds from asking to deciding.
    pub took_ms: i64,
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
    /// What happened since a time, from one snapshot.
    ///
    /// # Errors
    /// When it cannot be read.
    pub async fn overview(&self, since_ms: i64) -> Result<Overview, StoreError> {
        let mut snapshot = self.reads().begin().await.map_err(failed)?;
        let overview = read(&mut snapshot, since_ms).await;
        snapshot.commit().await.map_err(failed)?;
        overview
    }
}

async fn read(conn: &mut SqliteConnection, since_ms: i64) -> Result<Overview, StoreError> {
    let unresolved: i64 =
        sqlx::query_scalar("SELECT count(*) FROM calls WHERE state = 'unknown' AND resolution IS NULL")
            .fetch_one(&mut *conn)
            .await
            .map_err(failed)?;
    Ok(Overview {
        hours: hours(conn, since_ms).await?,
        denied_tools: denied_tools(conn, since_ms).await?,
        decisions: decisions(conn, since_ms).await?,
        rules: rules(conn, since_ms).await?,
        shadows: shadows(conn, since_ms).await?,
        unresolved: codec::unsigned(unresolved),
    })
}

async fn hours(conn: &mut SqliteConnection, since_ms: i64) -> Result<Vec<HourCount>, StoreError> {
    let rows: Vec<(i64, String, i64)> = sqlx::query_as(
        "SELECT requested_ms / $1 AS hour, state, count(*) FROM calls WHERE requested_ms >= $2 \
         GROUP BY requested_ms / $1, state ORDER BY hour, state",
    )
    .bind(HOUR_MS)
    .bind(since_ms)
    .fetch_all(conn)
    .await
    .map_err(failed)?;
    rows.into_iter()
        .map(|(hour, state, count)| {
            Ok(HourCount {
                hour_ms: hour.saturating_mul(HOUR_MS),
                state: codec::call_state(&state)?,
                count: codec::unsigned(count),
            })
        })
        .collect()
}

async fn denied_tools(conn: &mut SqliteConnection, since_ms: i64) -> Result<Vec<DeniedTool>, StoreError> {
    let rows: Vec<(String, String, i64)> = sqlx::query_as(
        "SELECT server, tool, count(*) AS denied FROM calls WHERE requested_ms >= $1 AND state = 'denied' \
         GROUP BY server, tool ORDER BY denied DESC, server, tool LIMIT $2",
    )
    .bind(since_ms)
    .bind(TOP_TOOLS)
    .fetch_all(conn)
    .await
    .map_err(failed)?;
    Ok(rows
        .into_iter()
        .map(|(server, tool, count)| DeniedTool { server, tool, count: codec::unsigned(count) })
        .collect())
}

async fn decisions(conn: &mut SqliteConnection, since_ms: i64) -> Result<Vec<DecisionTime>, StoreError> {
    let rows: Vec<(String, i64, i64)> = sqlx::query_as(
        "SELECT status, decided_ms, decided_ms - began_wall_ms FROM approvals WHERE decided_ms >= $1 \
         AND status IN ('approved', 'denied', 'expired', 'consumed', 'void') ORDER BY decided_ms, id",
    )
    .bind(since_ms)
    .fetch_all(conn)
    .await
    .map_err(failed)?;
    rows.into_iter()
        .map(|(status, decided_ms, took)| {
            Ok(DecisionTime { status: codec::approval_status(&status)?, decided_ms, took_ms: took.max(0) })
        })
        .collect()
}

async fn rules(conn: &mut SqliteConnection, since_ms: i64) -> Result<Vec<RuleHits>, StoreError> {
    let rows: Vec<(String, String, i64)> = sqlx::query_as(
        "SELECT rules, effect, count(*) FROM evaluations WHERE at_ms >= $1 GROUP BY rules, effect",
    )
    .bind(since_ms)
    .fetch_all(conn)
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

async fn shadows(conn: &mut SqliteConnection, since_ms: i64) -> Result<Vec<RuleHits>, StoreError> {
    let rows: Vec<(String, i64)> = sqlx::query_as(
        "SELECT shadows, count(*) FROM evaluations WHERE at_ms >= $1 AND shadows <> '[]' GROUP BY shadows",
    )
    .bind(since_ms)
    .fetch_all(conn)
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

fn listed(hits: BTreeMap<(RuleId, Effect), u64>) -> Vec<RuleHits> {
    hits.into_iter().map(|((rule, effect), count)| RuleHits { rule, effect, count }).collect()
}
