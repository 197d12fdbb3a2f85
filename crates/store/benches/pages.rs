//! How long the pages of the trail take to read, on a generated store of a million calls.
//!
//! The goal is 50 ms or less for each page, whatever is asked for: the first page and one deep in the past, filters by an
//! index, filters that meet, texts that are everywhere and texts that are nowhere. Each is read 100 times; median, 99th
//! percentile and the longest are printed.
//!
//! A folder as argument keeps the generated store, or has it from an earlier run; else it is made anew and removed.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::indexing_slicing,
    clippy::disallowed_types,
    reason = "a bench that fills a store by itself, prints, and fails where it cannot go on"
)]

use sluicegate_gateway::audit::EventKind;
use sluicegate_gateway::{CallId, CallState, ManualClock, ReasonCode};
use sluicegate_policy::{CallerId, Effect};
use sluicegate_store::{AuditFilter, AuditStart, CallFilter, Store, StoreOptions};
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{AssertSqlSafe, ConnectOptions as _, Connection as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

const CALLS: i64 = 1_000_000;
const FIRST_MS: i64 = 1_800_000_000_000;
/// One call every 7.8 s: 90 days.
const STEP_MS: i64 = 7_776;
const DAY_MS: i64 = 86_400_000;
const ROUNDS: usize = 100;

/// Calls as a busy house has them, in SQL, because writing them one by one would take hours.
fn generate() -> String {
    let numbers =
        format!("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {CALLS})");
    let id = "printf('%08x-0000-7000-8000-%012x', i, i)";
    let effect = "CASE WHEN i % 17 = 0 THEN 'deny' WHEN i % 9 = 0 THEN 'require_approval' ELSE 'allow' END";
    let state = "CASE WHEN i % 17 = 0 THEN 'denied' WHEN i % 100003 = 0 THEN 'unknown' WHEN i % 29 = 0 THEN 'failed' \
                 ELSE 'completed' END";
    let at = format!("{FIRST_MS} + i * {STEP_MS}");
    format!(
        "PRAGMA synchronous = OFF; PRAGMA cache_size = -400000; BEGIN; DROP TRIGGER audit_only_append; \
         INSERT INTO calls (id, state, server, tool, tier, caller, role, owner, origin, conversation, code, rules, \
         sentence, flags, requested_seq, requested_ms, decided_ms, started_ms, ended_ms, decision) {numbers} \
         SELECT {id}, {state}, 'server-' || (i % 12), 'tool_' || (i % 97), 'moderate', 'client-' || (i % 40), \
         'approver', 'admin', 'mcp', 'c-' || (i / 50), CASE WHEN i % 17 = 0 THEN 'no_rule' END, \
         '[\"rule-' || (i % 60) || '\"]', 'decided by rule `rule-' || (i % 60) || '`: as it is written there for all', \
         '[]', i * 2, {at}, {at} + 1, {at} + 1, {at} + 40, {effect} FROM n; \
         INSERT INTO call_times SELECT requested_ms / 600000, min(requested_seq), max(requested_seq) FROM calls \
         GROUP BY 1; \
         INSERT INTO evaluations (call, n, seq, revision, effect, rules, sentence, at_ms) {numbers} SELECT {id}, 1, i * 2 + 1, 1, {effect}, '[\"rule-' || (i % 60) || '\"]', \
         'as it is written', {at} FROM n; \
         INSERT INTO audit {numbers} SELECT i * 2, 1, {at}, 'tool_requested', {id}, 'client-' || (i % 40), \
         '{{\"origin\":\"mcp\",\"server\":\"server-' || (i % 12) || '\",\"tool\":\"tool_' || (i % 97) || '\"}}', '{{}}', \
         printf('%064x', i * 2 - 1), printf('%064x', i * 2) FROM n; \
         INSERT INTO audit {numbers} SELECT i * 2 + 1, 1, {at}, CASE WHEN i % 100003 = 0 THEN 'execution_unknown' ELSE \
         'policy_decided' END, {id}, 'policy', '{{\"effect\":\"allow\",\"rules\":[\"rule-' || (i % 60) || '\"]}}', '{{}}', \
         printf('%064x', i * 2), printf('%064x', i * 2 + 1) FROM n; \
         UPDATE audit_head SET seq = {last}, hash = printf('%064x', {last}); COMMIT; PRAGMA wal_checkpoint(TRUNCATE);",
        last = CALLS * 2 + 1,
    )
}

async fn open(folder: &Path) -> Store {
    let url = format!("sqlite://{}", folder.join("gate.db").display());
    Store::open_server(&url, Arc::new(ManualClock::at(FIRST_MS)), StoreOptions::default()).await.unwrap()
}

fn main() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(measure());
}

async fn measure() {
    let made = tempfile::tempdir().unwrap();
    let folder = std::env::args().skip(1).find(|word| !word.starts_with("--"));
    let folder = folder.map_or_else(|| made.path().to_owned(), PathBuf::from);
    if !folder.join("gate.db").exists() {
        println!("generating {CALLS} calls in {}", folder.display());
        open(&folder).await.close().await;
        let file = SqliteConnectOptions::new().filename(folder.join("gate.db"));
        let mut conn = file.connect().await.unwrap();
        sqlx::raw_sql(AssertSqlSafe(generate())).execute(&mut conn).await.unwrap();
        conn.close().await.unwrap();
    }
    let store = open(&folder).await;
    let reader = store.call_reader();
    let some = |text: &str| Some(text.to_owned());
    let default = CallFilter::default;
    let caller = || CallerId::new("client-7").ok();
    let last_ms = FIRST_MS + CALLS * STEP_MS;
    let filters = [
        ("no filter", default(), None),
        ("no filter, deep in the past", default(), Some(20_000)),
        ("one tool", CallFilter { tool: some("tool_5"), ..default() }, None),
        ("a tool that does not exist", CallFilter { tool: some("none"), ..default() }, None),
        ("unknown outcomes", CallFilter { state: Some(CallState::Unknown), ..default() }, None),
        (
            "denied by no rule",
            CallFilter { decision: Some(Effect::Deny), code: Some(ReasonCode::NoRule), ..default() },
            None,
        ),
        (
            "server and caller that never meet",
            CallFilter { server: some("server-2"), caller: caller(), ..default() },
            None,
        ),
        (
            "tool, state and caller",
            CallFilter {
                tool: some("tool_5"),
                state: Some(CallState::Failed),
                caller: caller(),
                ..default()
            },
            None,
        ),
        (
            "one hour, two months ago",
            CallFilter {
                from_ms: Some(last_ms - 60 * DAY_MS),
                until_ms: Some(last_ms - 60 * DAY_MS + 3_600_000),
                ..default()
            },
            None,
        ),
        ("text that is everywhere", CallFilter { text: some("decided by"), ..default() }, None),
        ("text that is nowhere", CallFilter { text: some("never said"), ..default() }, None),
        (
            "text that is nowhere, of one caller",
            CallFilter { text: some("never said"), caller: caller(), ..default() },
            None,
        ),
        (
            "text within one day",
            CallFilter { text: some("rule-59"), from_ms: Some(last_ms - DAY_MS), ..default() },
            None,
        ),
    ];
    println!("{:<40} {:>8} {:>9} {:>9} {:>9}", "page", "calls", "p50 ms", "p99 ms", "max ms");
    for (name, filter, before) in &filters {
        let found = reader.list(filter, *before, 50).await.unwrap().rows.len();
        let mut times = Vec::with_capacity(ROUNDS);
        for _ in 0..ROUNDS {
            let began = Instant::now();
            reader.list(filter, *before, 50).await.unwrap();
            times.push(began.elapsed());
        }
        print(name, found, times);
    }
    let kind = |kind| AuditFilter { kind: Some(kind), ..AuditFilter::default() };
    let text = AuditFilter { text: some("never said"), ..AuditFilter::default() };
    let of_caller = AuditFilter { caller: CallerId::new("nobody").ok(), ..AuditFilter::default() };
    for (name, filter) in [
        ("all events", AuditFilter::default()),
        ("events of a rare kind", kind(EventKind::ExecutionUnknown)),
        ("events of a kind that never was", kind(EventKind::AnomalyRaised)),
        ("events, text that is nowhere", text),
        ("events of a caller that is nowhere", of_caller),
    ] {
        let found = store.audit().rows(&filter, AuditStart::Latest, 100).await.unwrap().rows.len();
        let mut times = Vec::with_capacity(ROUNDS);
        for _ in 0..ROUNDS {
            let began = Instant::now();
            store.audit().rows(&filter, AuditStart::Latest, 100).await.unwrap();
            times.push(began.elapsed());
        }
        print(name, found, times);
    }
    let id = CallId::parse("0007a120-0000-7000-8000-00000007a120").unwrap();
    let mut times = Vec::with_capacity(ROUNDS);
    let mut day = Vec::with_capacity(ROUNDS);
    for _ in 0..ROUNDS {
        let began = Instant::now();
        reader.call(id).await.unwrap().unwrap();
        times.push(began.elapsed());
        let began = Instant::now();
        reader.overview(last_ms - DAY_MS, 3_600_000).await.unwrap();
        day.push(began.elapsed());
    }
    print("one call's story", 1, times);
    print("overview of a day", 1, day);
    store.close().await;
}

fn print(name: &str, found: usize, mut times: Vec<Duration>) {
    times.sort();
    let ms = |at: usize| times[at.min(times.len() - 1)].as_secs_f64() * 1_000.0;
    let (p50, p99, max) = (ms(times.len() / 2), ms(times.len() * 99 / 100 - 1), ms(times.len() - 1));
    println!("{name:<40} {found:>8} {p50:>9.2} {p99:>9.2} {max:>9.2}");
}
