use super::*;
use crate::{Store, StoreOptions};
use sluicegate_gateway::ManualClock;
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions as _, Row as _};
use std::sync::Arc;

const FIRST_MS: i64 = 1_800_000_000_000;
const CALLS: i64 = 3_000;
/// So few, that looking ends often.
const CHUNK_OF_TEST: i64 = 150;

/// A store of calls that are spread over servers, tools, states and callers. The clock steps back in their middle.
async fn store() -> (tempfile::TempDir, SqliteConnection) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("gate.db");
    let clock = Arc::new(ManualClock::at(FIRST_MS));
    let url = format!("sqlite://{}", file.display());
    Store::open_server(&url, clock, StoreOptions::default()).await.unwrap().close().await;
    let mut conn = SqliteConnectOptions::new().filename(&file).connect().await.unwrap();
    let calls = format!(
        "INSERT INTO calls (id, state, server, tool, tier, caller, role, owner, origin, conversation, code, rules, \
         sentence, flags, requested_seq, requested_ms, decision) \
         WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {CALLS}) \
         SELECT printf('%08x-0000-7000-8000-000000000000', i), \
         CASE WHEN i % 11 = 0 THEN 'denied' WHEN i % 251 = 0 THEN 'unknown' ELSE 'completed' END, \
         's' || (i % 3), 't' || (i % 7), 'safe', 'client-' || (i % 5), 'approver', 'owner', 'mcp', 'c-' || (i % 400), \
         CASE WHEN i % 11 = 0 THEN 'no_rule' END, '[\"rule-' || (i % 13) || '\"]', \
         CASE WHEN i IN (2, 1501) THEN 'a needle 100%' ELSE 'hay' END, CASE WHEN i % 19 = 0 THEN '[\"ignore previous\"]' ELSE '[]' END, i * 3, \
         {FIRST_MS} + i * 60000 - CASE WHEN i > 1500 THEN 7200000 ELSE 0 END, \
         CASE WHEN i % 11 = 0 THEN 'deny' ELSE 'allow' END FROM n"
    );
    sqlx::raw_sql(fixed(calls)).execute(&mut conn).await.unwrap();
    let calls: Vec<(i64, i64)> =
        sqlx::query_as("SELECT requested_ms, requested_seq FROM calls ORDER BY requested_seq")
            .fetch_all(&mut conn)
            .await
            .unwrap();
    for (at_ms, seq) in calls {
        timed(&mut conn, at_ms, seq).await.unwrap();
    }
    (folder, conn)
}

/// A text for the rest of the test, as the driver wants it.
fn fixed(text: String) -> &'static str {
    Box::leak(text.into_boxed_str())
}

/// Every page of a filter, one after the other, and how many ended before they were full.
async fn pages(
    conn: &mut SqliteConnection,
    filter: &CallFilter,
    patience: Duration,
) -> (Vec<CallRow>, usize) {
    let (mut rows, mut before, mut cut) = (Vec::new(), i64::MAX, 0);
    loop {
        let page = find(conn, filter, before, 20, CHUNK_OF_TEST, patience).await.unwrap();
        rows.extend(page.rows);
        cut += usize::from(page.searched_to_ms.is_some());
        match page.next {
            Some(next) => {
                assert!(next < before, "each page is further back than the one before");
                before = next;
            }
            None => return (rows, cut),
        }
    }
}

fn fits(filter: &CallFilter, call: &CallRow) -> bool {
    let text = format!(
        "{}/{} {} {} {} {}",
        call.server,
        call.tool,
        call.caller.principal.caller,
        call.rules.iter().map(ToString::to_string).collect::<Vec<_>>().join(" "),
        call.code.map(|code| code.as_str()).unwrap_or_default(),
        call.sentence
    );
    filter.server.as_ref().is_none_or(|server| *server == call.server)
        && filter.tool.as_ref().is_none_or(|tool| *tool == call.tool)
        && filter.state.is_none_or(|state| state == call.state)
        && filter.decision.is_none_or(|decision| decision == call.decision)
        && filter.code.is_none_or(|code| Some(code) == call.code)
        && filter.caller.as_ref().is_none_or(|caller| *caller == call.caller.principal.caller)
        && filter.conversation.as_ref().is_none_or(|id| Some(id) == call.conversation.as_ref())
        && filter.from_ms.is_none_or(|from| call.requested_ms >= from)
        && filter.until_ms.is_none_or(|until| call.requested_ms < until)
        && (!filter.flagged || !call.flags.is_empty())
        && filter.text.as_ref().is_none_or(|wanted| text.to_lowercase().contains(&wanted.to_lowercase()))
}

/// Whatever is asked for, the pages together are exactly the calls that fit, in the order of the trail, none twice: also
/// where looking ends early, where the clock stepped back, and where several filters meet.
#[tokio::test]
async fn pages_leave_nothing_out_and_show_nothing_twice() {
    let (_folder, mut conn) = store().await;
    let (all, cut) = pages(&mut conn, &CallFilter::default(), Duration::ZERO).await;
    assert_eq!((all.len(), cut), (usize::try_from(CALLS).unwrap(), 0));
    assert!(all.is_sorted_by(|a, b| a.requested_seq > b.requested_seq));
    let some = |text: &str| Some(text.to_owned());
    let server = [None, some("s1"), some("nowhere")];
    let tool = [None, some("t3")];
    let state = [None, Some(CallState::Denied), Some(CallState::Unknown)];
    let decision = [None, Some(Effect::Deny)];
    let code = [None, Some(ReasonCode::NoRule)];
    let caller = [None, Some(CallerId::new("client-2").unwrap())];
    let conversation = [None, Some(ConversationId::new("c-44").unwrap())];
    let hour = 3_600_000;
    let time = [(None, None), (Some(24), Some(26)), (Some(49), None), (None, Some(1)), (Some(900), None)];
    let text = [None, some("NEEDLE 100%"), some("s1/t"), some("rule-12"), some("%")];
    let mut tried = 0_usize;
    let mut cuts = 0;
    for n in 0..3 * 2 * 3 * 2 * 2 * 2 * 2 * 5 * 5 * 2 {
        // A sample that meets every pair of values.
        if n % 47 != 0 {
            continue;
        }
        let mut rest = n;
        let mut pick = |of: usize| {
            let at = rest % of;
            rest /= of;
            at
        };
        let (from, until) = time[pick(5)];
        let filter = CallFilter {
            text: text[pick(5)].clone(),
            server: server[pick(3)].clone(),
            tool: tool[pick(2)].clone(),
            state: state[pick(3)],
            decision: decision[pick(2)],
            code: code[pick(2)],
            caller: caller[pick(2)].clone(),
            conversation: conversation[pick(2)].clone(),
            flagged: pick(2) == 1,
            from_ms: from.map(|hours| FIRST_MS + hours * hour + 61_000),
            until_ms: until.map(|hours| FIRST_MS + hours * hour + 61_000),
        };
        // Without patience a page ends after each chunk; with all of it, only when it is full.
        let patience = if n % 2 == 0 { Duration::ZERO } else { Duration::MAX };
        let (found, cut) = pages(&mut conn, &filter, patience).await;
        let found: Vec<_> = found.iter().map(|call| call.id).collect();
        let wanted: Vec<_> = all.iter().filter(|call| fits(&filter, call)).map(|call| call.id).collect();
        assert_eq!(found, wanted, "{filter:?}");
        tried += 1;
        cuts += cut;
    }
    assert!(tried > 300 && cuts > 10, "{tried} filters, {cuts} pages that ended early");
}

/// Each statement walks the index that is meant for it and reads no table from end to end.
#[tokio::test]
async fn no_statement_reads_all_calls() {
    let (_folder, mut conn) = store().await;
    for lead in Lead::ALL {
        for sql in [lead.place(), lead.page()] {
            let explain = fixed(format!("EXPLAIN QUERY PLAN {sql}"));
            let rows = sqlx::query(explain).fetch_all(&mut conn).await.unwrap();
            let plan: Vec<String> = rows.iter().map(|row| row.get::<String, _>("detail")).collect();
            let index = match lead {
                Lead::Trail => "sqlite_autoindex_calls_2",
                Lead::Server => "calls_by_server",
                Lead::Tool => "calls_by_tool",
                Lead::State => "calls_by_state",
                Lead::Decision => "calls_by_decision",
                Lead::Caller => "calls_by_caller",
                Lead::Conversation => "calls_by_conversation",
            };
            assert!(plan[0].starts_with("SEARCH c USING") && plan[0].contains(index), "{lead:?}: {plan:?}");
            assert!(
                !plan.iter().any(|step| step.starts_with("SCAN") || step.contains("TEMP B-TREE")),
                "{plan:?}"
            );
        }
    }
}
