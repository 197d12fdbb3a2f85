//! The audit trail, for reading: pages by sequence, filters, payloads.

use crate::conversations::like;
use crate::error::failed;
use crate::page::{CHUNK, MAX_PAGE, PATIENCE, Page, rows_to_read};
use crate::verify::{self, Verified};
use sluicegate_gateway::audit::{AuditRow, ChainHead, EventKind, Payload};
use sluicegate_gateway::{CallId, CallState, StoreError};
use sluicegate_policy::{CallerId, ConversationId};
use sqlx::sqlite::{SqliteConnection, SqlitePool};
use std::time::Instant;

/// Rows of one call that its story shows at most.
const MAX_OF_CALL: i64 = 1_000;

/// Reads and verifies the audit trail. It changes nothing.
#[derive(Clone, Debug)]
pub struct AuditReader {
    reads: SqlitePool,
}

/// Which rows are wanted. Empty fields select everything; fields about calls select rows of calls alone.
#[derive(Clone, Debug, Default)]
pub struct AuditFilter {
    /// Rows of this kind.
    pub kind: Option<EventKind>,
    /// Rows of this call.
    pub call: Option<CallId>,
    /// Rows of calls to this server.
    pub server: Option<String>,
    /// Rows of calls to tools of this name.
    pub tool: Option<String>,
    /// Rows of calls that are in this state now.
    pub state: Option<CallState>,
    /// Rows of this caller's calls.
    pub caller: Option<CallerId>,
    /// Rows of calls of this conversation.
    pub conversation: Option<ConversationId>,
    /// At or after this; wall clock in milliseconds.
    pub from_ms: Option<i64>,
    /// Before this; wall clock in milliseconds.
    pub until_ms: Option<i64>,
    /// Text within the facts or the actor, without regard to upper and lower case of ASCII letters. Payloads are not
    /// searched: what is masked where it is shown must not be found by guessing.
    pub text: Option<String>,
}

/// Where a page begins, and which way it goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum AuditStart {
    /// The latest rows, going back.
    #[default]
    Latest,
    /// Rows before this one, going back.
    Before(i64),
    /// Rows after this one, going forward: for exports.
    After(i64),
}

macro_rules! select_rows {
    ($($rest:literal),+ $(,)?) => {
        concat!(
            "SELECT a.seq, a.version, a.at_ms, a.kind, a.call, a.actor, a.facts, a.commitments, a.prev_hash, a.hash ",
            "FROM audit a ",
            $($rest),+
        )
    };
}

macro_rules! select_filtered {
    ($lead:literal, $order:literal) => {
        select_rows!(
            "LEFT JOIN calls c ON c.id = a.call WHERE ",
            $lead,
            " AND a.seq > $1 AND a.seq < $2 ",
            "AND (CAST($4 AS TEXT) IS NULL OR a.kind = $4) ",
            "AND (CAST($5 AS TEXT) IS NULL OR c.server = $5) ",
            "AND (CAST($6 AS TEXT) IS NULL OR c.tool = $6) ",
            "AND (CAST($7 AS TEXT) IS NULL OR c.state = $7) ",
            "AND (CAST($8 AS TEXT) IS NULL OR c.caller = $8) ",
            "AND (CAST($9 AS TEXT) IS NULL OR c.conversation = $9) ",
            "AND a.at_ms >= $10 AND a.at_ms < $11 ",
            "AND (CAST($12 AS TEXT) IS NULL OR lower(a.facts) LIKE lower($12) ESCAPE '\\' ",
            "OR lower(a.actor) LIKE lower($12) ESCAPE '\\') ",
            "ORDER BY a.seq ",
            $order,
            " LIMIT $13"
        )
    };
}

macro_rules! select_place {
    ($lead:literal, $order:literal) => {
        concat!(
            "SELECT a.seq FROM audit a WHERE ",
            $lead,
            " AND a.seq > $1 AND a.seq < $2 ORDER BY a.seq ",
            $order,
            " LIMIT 1 OFFSET $4"
        )
    };
}

/// What leads to the rows: an index, or the trail itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Lead {
    Trail,
    Kind,
    Call,
}

impl Lead {
    /// The statement that finds where looking ends, and the one that reads the page.
    const fn statements(self, forward: bool) -> (&'static str, &'static str) {
        match (self, forward) {
            (Self::Trail, false) => (
                select_place!("CAST($3 AS TEXT) IS NULL", "DESC"),
                select_filtered!("CAST($3 AS TEXT) IS NULL", "DESC"),
            ),
            (Self::Trail, true) => (
                select_place!("CAST($3 AS TEXT) IS NULL", "ASC"),
                select_filtered!("CAST($3 AS TEXT) IS NULL", "ASC"),
            ),
            (Self::Kind, false) => {
                (select_place!("a.kind = $3", "DESC"), select_filtered!("a.kind = $3", "DESC"))
            }
            (Self::Kind, true) => {
                (select_place!("a.kind = $3", "ASC"), select_filtered!("a.kind = $3", "ASC"))
            }
            (Self::Call, false) => {
                (select_place!("a.call = $3", "DESC"), select_filtered!("a.call = $3", "DESC"))
            }
            (Self::Call, true) => {
                (select_place!("a.call = $3", "ASC"), select_filtered!("a.call = $3", "ASC"))
            }
        }
    }
}

#[derive(sqlx::FromRow)]
struct RawRow {
    seq: i64,
    version: i64,
    at_ms: i64,
    kind: String,
    call: Option<String>,
    actor: String,
    facts: String,
    commitments: String,
    prev_hash: String,
    hash: String,
}

impl From<RawRow> for AuditRow {
    fn from(raw: RawRow) -> Self {
        Self {
            seq: raw.seq,
            version: raw.version,
            at_ms: raw.at_ms,
            kind: raw.kind,
            call: raw.call,
            actor: raw.actor,
            facts: raw.facts,
            commitments: raw.commitments,
            prev_hash: raw.prev_hash,
            hash: raw.hash,
        }
    }
}

impl AuditReader {
    pub(crate) fn new(reads: SqlitePool) -> Self {
        Self { reads }
    }

    /// One page of rows in the direction of `start`; give [`Page::next`] to the same direction for the next page. A page
    /// looks for a moment and no longer, so it may end with fewer rows than asked for, even none, before the last one.
    ///
    /// # Errors
    /// When they cannot be read.
    pub async fn rows(
        &self,
        filter: &AuditFilter,
        start: AuditStart,
        limit: u32,
    ) -> Result<Page<AuditRow>, StoreError> {
        let mut snapshot = self.reads.begin().await.map_err(failed)?;
        let page = find(&mut snapshot, filter, start, limit).await;
        snapshot.commit().await.map_err(failed)?;
        page
    }

    /// The payloads that are still stored for a row, by name.
    ///
    /// # Errors
    /// When they cannot be read.
    pub async fn payloads(&self, seq: i64) -> Result<Vec<Payload>, StoreError> {
        let rows: Vec<(String, String, String)> =
            sqlx::query_as("SELECT name, salt, text FROM audit_payloads WHERE seq = $1 ORDER BY name")
                .bind(seq)
                .fetch_all(&self.reads)
                .await
                .map_err(failed)?;
        Ok(rows.into_iter().map(|(name, salt, text)| Payload { name, salt, text }).collect())
    }

    /// Where the trail ends.
    ///
    /// # Errors
    /// When it cannot be read.
    pub async fn head(&self) -> Result<ChainHead, StoreError> {
        let mut conn = self.reads.acquire().await.map_err(failed)?;
        head_and_last(&mut conn).await.map(|(head, _)| head)
    }

    /// Verifies the whole trail, payloads included, while it grows: up to where it ended when this began.
    /// `progress` is told rows done and rows in all from time to time.
    ///
    /// # Errors
    /// When it cannot be read. What is wrong with it is an answer, not an error.
    pub async fn verify(&self, progress: impl FnMut(i64, i64) + Send) -> Result<Verified, StoreError> {
        verify::pool(&self.reads, progress).await
    }
}

async fn find(
    conn: &mut SqliteConnection,
    filter: &AuditFilter,
    start: AuditStart,
    limit: u32,
) -> Result<Page<AuditRow>, StoreError> {
    let (forward, mut after, mut before) = match start {
        AuditStart::Latest => (false, 0, i64::MAX),
        AuditStart::Before(seq) => (false, 0, seq),
        AuditStart::After(seq) => (true, seq, i64::MAX),
    };
    let (lead, value) = match (filter.call, filter.kind) {
        (Some(call), _) => (Lead::Call, Some(call.to_string())),
        (None, Some(kind)) => (Lead::Kind, Some(kind.as_str().to_owned())),
        (None, None) => (Lead::Trail, None),
    };
    let began = Instant::now();
    let limit = limit.clamp(1, MAX_PAGE);
    let (place, page) = lead.statements(forward);
    let mut found: Vec<AuditRow> = Vec::new();
    loop {
        let end: Option<i64> = sqlx::query_scalar(place)
            .bind(after)
            .bind(before)
            .bind(value.clone())
            .bind(CHUNK.saturating_sub(1))
            .fetch_optional(&mut *conn)
            .await
            .map_err(failed)?;
        let (from, upto) = match end {
            Some(end) if forward => (after, end.saturating_add(1)),
            Some(end) => (end.saturating_sub(1), before),
            None => (after, before),
        };
        let missing = limit.saturating_sub(u32::try_from(found.len()).unwrap_or(limit));
        let rows: Vec<RawRow> = sqlx::query_as(page)
            .bind(from)
            .bind(upto)
            .bind(value.clone())
            .bind(filter.kind.map(EventKind::as_str))
            .bind(filter.server.clone())
            .bind(filter.tool.clone())
            .bind(filter.state.map(CallState::as_str))
            .bind(filter.caller.as_ref().map(CallerId::as_str))
            .bind(filter.conversation.as_ref().map(ConversationId::as_str))
            .bind(filter.from_ms.unwrap_or(i64::MIN))
            .bind(filter.until_ms.unwrap_or(i64::MAX))
            .bind(filter.text.as_deref().map(like))
            .bind(rows_to_read(missing))
            .fetch_all(&mut *conn)
            .await
            .map_err(failed)?;
        let part =
            Page::cut(rows.into_iter().map(AuditRow::from).collect(), missing, |row: &AuditRow| row.seq);
        found.extend(part.rows);
        let full = found.len() >= usize::try_from(limit).unwrap_or(usize::MAX);
        match (part.next, end) {
            (None, Some(end)) if !full && began.elapsed() < PATIENCE => {
                if forward {
                    after = end;
                } else {
                    before = end;
                }
            }
            (next, end) => return Ok(Page { rows: found, next: next.or(end) }),
        }
    }
}

/// Where the trail should end, and the number of the last row there is, from one snapshot.
pub(crate) async fn head_and_last(conn: &mut SqliteConnection) -> Result<(ChainHead, i64), StoreError> {
    let head: Option<(i64, String, i64)> = sqlx::query_as(
        "SELECT seq, hash, (SELECT coalesce(max(seq), 0) FROM audit) FROM audit_head WHERE one = 1",
    )
    .fetch_optional(conn)
    .await
    .map_err(failed)?;
    let (seq, hash, last) =
        head.ok_or_else(|| StoreError::Corrupt("where the audit trail ends is not recorded".to_owned()))?;
    Ok((ChainHead { seq, hash }, last))
}

/// Rows after `after` up to and including `upto`, in order.
pub(crate) async fn rows_between(
    conn: &mut SqliteConnection,
    after: i64,
    upto: i64,
    limit: i64,
) -> Result<Vec<AuditRow>, StoreError> {
    let rows: Vec<RawRow> =
        sqlx::query_as(select_rows!("WHERE a.seq > $1 AND a.seq <= $2 ORDER BY a.seq LIMIT $3"))
            .bind(after)
            .bind(upto)
            .bind(limit)
            .fetch_all(conn)
            .await
            .map_err(failed)?;
    Ok(rows.into_iter().map(AuditRow::from).collect())
}

/// Payloads of the rows from `from` to `upto`, both included, in order.
pub(crate) async fn payloads_between(
    conn: &mut SqliteConnection,
    from: i64,
    upto: i64,
) -> Result<Vec<(i64, Payload)>, StoreError> {
    let rows: Vec<(i64, String, String, String)> = sqlx::query_as(
        "SELECT seq, name, salt, text FROM audit_payloads WHERE seq >= $1 AND seq <= $2 ORDER BY seq, name",
    )
    .bind(from)
    .bind(upto)
    .fetch_all(conn)
    .await
    .map_err(failed)?;
    Ok(rows.into_iter().map(|(seq, name, salt, text)| (seq, Payload { name, salt, text })).collect())
}

pub(crate) async fn rows_of_call(
    conn: &mut SqliteConnection,
    call: CallId,
) -> Result<Vec<AuditRow>, StoreError> {
    let rows: Vec<RawRow> = sqlx::query_as(select_rows!("WHERE a.call = $1 ORDER BY a.seq LIMIT $2"))
        .bind(call.to_string())
        .bind(MAX_OF_CALL)
        .fetch_all(conn)
        .await
        .map_err(failed)?;
    Ok(rows.into_iter().map(AuditRow::from).collect())
}

pub(crate) async fn payloads_of_call(
    conn: &mut SqliteConnection,
    call: CallId,
) -> Result<Vec<(i64, Payload)>, StoreError> {
    let rows: Vec<(i64, String, String, String)> = sqlx::query_as(
        "SELECT p.seq, p.name, p.salt, p.text FROM audit a JOIN audit_payloads p ON p.seq = a.seq \
         WHERE a.call = $1 ORDER BY p.seq, p.name LIMIT $2",
    )
    .bind(call.to_string())
    .bind(MAX_OF_CALL)
    .fetch_all(conn)
    .await
    .map_err(failed)?;
    Ok(rows.into_iter().map(|(seq, name, salt, text)| (seq, Payload { name, salt, text })).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Store, StoreOptions};
    use sluicegate_gateway::ManualClock;
    use sqlx::Row as _;
    use std::sync::Arc;

    /// Each statement walks the index that is meant for it and reads no table from end to end.
    #[tokio::test]
    async fn no_statement_reads_the_whole_trail() {
        let folder = tempfile::tempdir().unwrap();
        let url = format!("sqlite://{}", folder.path().join("gate.db").display());
        let store =
            Store::open_server(&url, Arc::new(ManualClock::at(1)), StoreOptions::default()).await.unwrap();
        for (lead, index) in [
            (Lead::Trail, "INTEGER PRIMARY KEY"),
            (Lead::Kind, "audit_by_kind"),
            (Lead::Call, "audit_by_call"),
        ] {
            for forward in [false, true] {
                let (place, page) = lead.statements(forward);
                for sql in [place, page] {
                    let explain: &'static str =
                        Box::leak(format!("EXPLAIN QUERY PLAN {sql}").into_boxed_str());
                    let rows = sqlx::query(explain).fetch_all(&store.audit().reads).await.unwrap();
                    let plan: Vec<String> = rows.iter().map(|row| row.get::<String, _>("detail")).collect();
                    assert!(plan[0].starts_with("SEARCH a USING") && plan[0].contains(index), "{plan:?}");
                    let whole = |step: &String| step.starts_with("SCAN") || step.contains("TEMP B-TREE");
                    assert!(!plan.iter().any(whole), "{plan:?}");
                }
            }
        }
        store.close().await;
    }
}
