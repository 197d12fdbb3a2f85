//! Calls by filters, a page at a time, in the order of the trail.
//!
//! No page reads all calls: one filter with an index leads, and the others are asked of each call that it gives. After
//! a moment the page ends with what it has and says from where to go on.

use crate::call_reader::CallReader;
use crate::call_row::{CallRow, RawCall, select_calls};
use crate::conversations::like;
use crate::error::failed;
use crate::page::{CHUNK, MAX_PAGE, PATIENCE, Page, rows_to_read};
use sluicegate_gateway::{CallState, ReasonCode, StoreError};
use sluicegate_policy::{CallerId, ConversationId, Effect};
use sqlx::sqlite::SqliteConnection;
use std::time::{Duration, Instant};

/// Values that a list of suggestions has at most.
const MAX_CALLERS: usize = 50;
/// Length of a slot of `call_times`.
const SLOT_MS: i64 = 600_000;

/// Which calls a list shows. Empty fields select everything.
#[derive(Clone, Debug, Default)]
pub struct CallFilter {
    /// Calls of this server.
    pub server: Option<String>,
    /// Calls of tools of this name.
    pub tool: Option<String>,
    /// Calls in this state.
    pub state: Option<CallState>,
    /// Calls of which the rules said this first.
    pub decision: Option<Effect>,
    /// Calls that did not run, or did not end well, for this reason.
    pub code: Option<ReasonCode>,
    /// Calls of this caller.
    pub caller: Option<CallerId>,
    /// Calls in whose results phrases were seen that may be meant for the agent.
    pub flagged: bool,
    /// Calls of this conversation.
    pub conversation: Option<ConversationId>,
    /// Requested at or after this; wall clock in milliseconds.
    pub from_ms: Option<i64>,
    /// Requested before this; wall clock in milliseconds.
    pub until_ms: Option<i64>,
    /// Text within server and tool, caller, deciding rules, reason code or sentence, without regard to upper and lower
    /// case of ASCII letters. Arguments and results are not searched: what is masked where it is shown must not be
    /// found by guessing.
    pub text: Option<String>,
}

/// One page of calls, the latest first.
#[derive(Clone, Debug)]
pub struct CallPage {
    /// The calls.
    pub rows: Vec<CallRow>,
    /// The next page begins before this; `None` if this is the last one.
    pub next: Option<i64>,
    /// Present if looking ended before the page was full: so far back it came. Wall clock in milliseconds.
    pub searched_to_ms: Option<i64>,
}

/// The filter whose index is walked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Lead {
    Trail,
    Server,
    Tool,
    State,
    Decision,
    Caller,
    Conversation,
}

macro_rules! select_place {
    ($lead:literal) => {
        concat!(
            "SELECT c.requested_seq, c.requested_ms FROM calls c WHERE ",
            $lead,
            " AND c.requested_seq < $1 AND c.requested_seq >= $2 ORDER BY c.requested_seq DESC LIMIT 1 OFFSET $4"
        )
    };
}

macro_rules! select_page {
    ($lead:literal) => {
        select_calls!(
            "WHERE ",
            $lead,
            " AND c.requested_seq < $1 AND c.requested_seq >= $2 ",
            "AND (CAST($4 AS TEXT) IS NULL OR c.server = $4) ",
            "AND (CAST($5 AS TEXT) IS NULL OR c.tool = $5) ",
            "AND (CAST($6 AS TEXT) IS NULL OR c.state = $6) ",
            "AND (CAST($7 AS TEXT) IS NULL OR c.decision = $7) ",
            "AND (CAST($8 AS TEXT) IS NULL OR c.caller = $8) ",
            "AND (CAST($9 AS TEXT) IS NULL OR c.conversation = $9) ",
            "AND (CAST($10 AS TEXT) IS NULL OR c.code = $10) ",
            "AND c.requested_ms >= $11 AND c.requested_ms < $12 ",
            "AND (CAST($13 AS TEXT) IS NULL OR lower(c.server || '/' || c.tool || ' ' || c.caller || ' ' || c.rules ",
            "|| ' ' || coalesce(c.code, '') || ' ' || c.sentence) LIKE lower($13) ESCAPE '\\') ",
            "AND ($14 = 0 OR c.flags <> '[]') ",
            "ORDER BY c.requested_seq DESC LIMIT $15"
        )
    };
}

impl Lead {
    const ALL: [Self; 7] = [
        Self::Trail,
        Self::Server,
        Self::Tool,
        Self::State,
        Self::Decision,
        Self::Caller,
        Self::Conversation,
    ];

    /// What is looked for in its index; `None` if the filter does not ask for it.
    fn value(self, filter: &CallFilter) -> Option<String> {
        match self {
            Self::Trail => None,
            Self::Server => filter.server.clone(),
            Self::Tool => filter.tool.clone(),
            Self::State => filter.state.map(|state| state.as_str().to_owned()),
            Self::Decision => filter.decision.map(|decision| decision.as_str().to_owned()),
            Self::Caller => filter.caller.as_ref().map(ToString::to_string),
            Self::Conversation => filter.conversation.as_ref().map(ToString::to_string),
        }
    }

    const fn place(self) -> &'static str {
        match self {
            Self::Trail => select_place!("CAST($3 AS TEXT) IS NULL"),
            Self::Server => select_place!("c.server = $3"),
            Self::Tool => select_place!("c.tool = $3"),
            Self::State => select_place!("c.state = $3"),
            Self::Decision => select_place!("c.decision = $3"),
            Self::Caller => select_place!("c.caller = $3"),
            Self::Conversation => select_place!("c.conversation = $3"),
        }
    }

    const fn page(self) -> &'static str {
        match self {
            Self::Trail => select_page!("CAST($3 AS TEXT) IS NULL"),
            Self::Server => select_page!("c.server = $3"),
            Self::Tool => select_page!("c.tool = $3"),
            Self::State => select_page!("c.state = $3"),
            Self::Decision => select_page!("c.decision = $3"),
            Self::Caller => select_page!("c.caller = $3"),
            Self::Conversation => select_page!("c.conversation = $3"),
        }
    }
}

/// A part of the trail: from `from` on, before `before`.
#[derive(Clone, Copy, Debug)]
struct Span {
    from: i64,
    before: i64,
}

/// Where looking ends.
#[derive(Clone, Copy, Debug)]
struct Place {
    seq: i64,
    at_ms: i64,
}

impl CallReader {
    /// Calls, the latest first; the next page begins before [`CallPage::next`].
    ///
    /// # Errors
    /// When they cannot be read.
    pub async fn list(
        &self,
        filter: &CallFilter,
        before: Option<i64>,
        limit: u32,
    ) -> Result<CallPage, StoreError> {
        let mut snapshot = self.reads().begin().await.map_err(failed)?;
        let page = find(&mut snapshot, filter, before.unwrap_or(i64::MAX), limit, CHUNK, PATIENCE).await;
        snapshot.commit().await.map_err(failed)?;
        page
    }

    /// Who has asked for calls, in alphabetical order; at most 50.
    ///
    /// # Errors
    /// When they cannot be read.
    pub async fn callers(&self) -> Result<Vec<String>, StoreError> {
        let mut callers: Vec<String> = Vec::new();
        // From one value of the index to the next, past all calls that share it.
        while callers.len() < MAX_CALLERS {
            let after = callers.last().cloned().unwrap_or_default();
            let next: Option<String> = sqlx::query_scalar(
                "SELECT c.caller FROM calls c WHERE c.caller > $1 ORDER BY c.caller LIMIT 1",
            )
            .bind(after)
            .fetch_optional(self.reads())
            .await
            .map_err(failed)?;
            match next {
                Some(next) => callers.push(next),
                None => break,
            }
        }
        Ok(callers)
    }
}

/// Notes in which ten minutes a call was asked for. Inside the transaction that writes the call.
pub(crate) async fn timed(conn: &mut SqliteConnection, at_ms: i64, seq: i64) -> Result<(), StoreError> {
    sqlx::query(
        "INSERT INTO call_times (slot, first_seq, last_seq) VALUES ($1, $2, $2) \
         ON CONFLICT (slot) DO UPDATE SET last_seq = excluded.last_seq",
    )
    .bind(at_ms.div_euclid(SLOT_MS))
    .bind(seq)
    .execute(conn)
    .await
    .map_err(failed)?;
    Ok(())
}

async fn find(
    conn: &mut SqliteConnection,
    filter: &CallFilter,
    before: i64,
    limit: u32,
    chunk: i64,
    patience: Duration,
) -> Result<CallPage, StoreError> {
    let began = Instant::now();
    let limit = limit.clamp(1, MAX_PAGE);
    let mut found = CallPage { rows: Vec::new(), next: None, searched_to_ms: None };
    let Some(mut span) = within(conn, filter, before).await? else { return Ok(found) };
    let (lead, mut end) = lead(conn, filter, span, chunk).await?;
    loop {
        let missing = limit.saturating_sub(u32::try_from(found.rows.len()).unwrap_or(limit));
        let part = Span { from: end.map_or(span.from, |place| place.seq), before: span.before };
        let page = read(conn, lead, filter, part, missing).await?;
        found.rows.extend(page.rows);
        if page.next.is_some() {
            found.next = page.next;
            return Ok(found);
        }
        let Some(place) = end else { return Ok(found) };
        let full = found.rows.len() >= usize::try_from(limit).unwrap_or(usize::MAX);
        if full || began.elapsed() >= patience {
            found.next = Some(place.seq);
            found.searched_to_ms = (!full).then_some(place.at_ms);
            return Ok(found);
        }
        span.before = place.seq;
        end = self::place(conn, lead, filter, span, chunk).await?;
    }
}

/// The calls of a part of the trail that fit.
async fn read(
    conn: &mut SqliteConnection,
    lead: Lead,
    filter: &CallFilter,
    part: Span,
    limit: u32,
) -> Result<Page<CallRow>, StoreError> {
    let rows: Vec<RawCall> = sqlx::query_as(lead.page())
        .bind(part.before)
        .bind(part.from)
        .bind(lead.value(filter))
        .bind(filter.server.clone())
        .bind(filter.tool.clone())
        .bind(filter.state.map(CallState::as_str))
        .bind(filter.decision.map(Effect::as_str))
        .bind(filter.caller.as_ref().map(CallerId::as_str))
        .bind(filter.conversation.as_ref().map(ConversationId::as_str))
        .bind(filter.code.map(ReasonCode::as_str))
        .bind(filter.from_ms.unwrap_or(i64::MIN))
        .bind(filter.until_ms.unwrap_or(i64::MAX))
        .bind(filter.text.as_deref().map(like))
        .bind(i64::from(filter.flagged))
        .bind(rows_to_read(limit))
        .fetch_all(conn)
        .await
        .map_err(failed)?;
    let rows = rows.into_iter().map(RawCall::read).collect::<Result<Vec<_>, _>>()?;
    Ok(Page::cut(rows, limit, |call| call.requested_seq))
}

/// The part of the trail that holds the calls of the asked time; `None` if there are none.
async fn within(
    conn: &mut SqliteConnection,
    filter: &CallFilter,
    before: i64,
) -> Result<Option<Span>, StoreError> {
    let mut span = Span { from: i64::MIN, before };
    if let Some(from_ms) = filter.from_ms {
        let first: Option<i64> = sqlx::query_scalar("SELECT min(first_seq) FROM call_times WHERE slot >= $1")
            .bind(from_ms.div_euclid(SLOT_MS))
            .fetch_one(&mut *conn)
            .await
            .map_err(failed)?;
        match first {
            Some(first) => span.from = first,
            None => return Ok(None),
        }
    }
    if let Some(until_ms) = filter.until_ms {
        let last: Option<i64> = sqlx::query_scalar("SELECT max(last_seq) FROM call_times WHERE slot <= $1")
            .bind(until_ms.div_euclid(SLOT_MS))
            .fetch_one(&mut *conn)
            .await
            .map_err(failed)?;
        match last {
            Some(last) => span.before = span.before.min(last.saturating_add(1)),
            None => return Ok(None),
        }
    }
    Ok(Some(span))
}

/// The filter to lead, and where looking ends. Of those with an index, the one whose calls reach furthest back.
async fn lead(
    conn: &mut SqliteConnection,
    filter: &CallFilter,
    span: Span,
    chunk: i64,
) -> Result<(Lead, Option<Place>), StoreError> {
    let asked: Vec<Lead> = Lead::ALL.into_iter().filter(|lead| lead.value(filter).is_some()).collect();
    // One filter that its index answers whole needs no end: each call looked at is one of the page.
    let whole = filter.text.is_none()
        && filter.code.is_none()
        && !filter.flagged
        && filter.from_ms.is_none()
        && filter.until_ms.is_none();
    match asked.as_slice() {
        [] if whole => return Ok((Lead::Trail, None)),
        [one] if whole => return Ok((*one, None)),
        _ => {}
    }
    let mut best: Option<(Lead, Place)> = None;
    let trail = [Lead::Trail];
    for lead in if asked.is_empty() { trail.as_slice() } else { asked.as_slice() } {
        match place(conn, *lead, filter, span, chunk).await? {
            None => return Ok((*lead, None)),
            Some(place) if best.is_none_or(|(_, found)| place.seq < found.seq) => best = Some((*lead, place)),
            Some(_) => {}
        }
    }
    Ok(best.map_or((Lead::Trail, None), |(lead, place)| (lead, Some(place))))
}

/// The last of so many calls that a filter leads to; `None` if there are fewer.
async fn place(
    conn: &mut SqliteConnection,
    lead: Lead,
    filter: &CallFilter,
    span: Span,
    chunk: i64,
) -> Result<Option<Place>, StoreError> {
    let found: Option<(i64, i64)> = sqlx::query_as(lead.place())
        .bind(span.before)
        .bind(span.from)
        .bind(lead.value(filter))
        .bind(chunk.saturating_sub(1))
        .fetch_optional(conn)
        .await
        .map_err(failed)?;
    Ok(found.map(|(seq, at_ms)| Place { seq, at_ms }))
}

#[cfg(test)]
mod tests;
