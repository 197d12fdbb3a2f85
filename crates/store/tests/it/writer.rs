//! The writer: commits shared, failures apart, locks waited for and given up on.

use crate::support::{House, START_MS};
use serde_json::json;
use sluicegate_gateway::audit::{AuditEvent, EventKind};
use sluicegate_gateway::{Begun, CallStore as _, StoreError};
use sluicegate_store::{Change, Store, StoreOptions};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::task::JoinSet;

fn note(n: usize) -> AuditEvent {
    AuditEvent::new(EventKind::ModelFailed, None, "test").fact("n", n).payload("note", format!("note {n}"))
}

/// Lets everything that is ready run, so that spawned commands have reached the writer's queue.
async fn settle() {
    for _ in 0..200 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn waiting_commands_share_one_commit_and_a_failing_one_undoes_itself_alone() {
    let house = House::new().await;
    let taken = house.gate.asks("read", json!({})).await;
    house.calls.begin(taken.call.clone(), taken.ruling.clone(), taken.expect.clone()).await.unwrap();
    let before = house.store.audit().head().await.unwrap();
    let mut fresh = Vec::new();
    for _ in 0..20 {
        fresh.push(house.gate.asks("read", json!({})).await);
    }
    let mut feed = house.store.feed().subscribe();

    let mut outside = house.outside().await;
    sqlx::query("BEGIN IMMEDIATE").execute(&mut outside).await.unwrap();
    let mut good = JoinSet::new();
    let mut bad = JoinSet::new();
    for asked in fresh {
        let calls = Arc::clone(&house.calls);
        good.spawn(async move { (asked.call.id, calls.begin(asked.call, asked.ruling, asked.expect).await) });
        // The same id again: its audit rows are made, and then the row of the call is refused.
        let (calls, taken) =
            (Arc::clone(&house.calls), (taken.call.clone(), taken.ruling.clone(), taken.expect.clone()));
        bad.spawn(async move { calls.begin(taken.0, taken.1, taken.2).await });
    }
    settle().await;
    sqlx::query("ROLLBACK").execute(&mut outside).await.unwrap();

    for (id, begun) in good.join_all().await {
        assert_eq!(begun.unwrap(), Begun::Started);
        assert_eq!(house.kinds(id).await.len(), 3);
    }
    for begun in bad.join_all().await {
        assert!(matches!(begun, Err(StoreError::Unavailable(_))), "{begun:?}");
    }
    assert_eq!(house.store.audit().head().await.unwrap().seq, before.seq + 20 * 3);
    house.assert_whole().await;
    // One commit moves the end of the trail once.
    let mut ends = Vec::new();
    while let Ok(change) = feed.try_recv() {
        if let Change::Audit(seq) = change {
            ends.push(seq);
        }
    }
    assert!(ends.len() <= 2, "40 commands took {} commits", ends.len());
}

#[tokio::test]
async fn a_batch_that_cannot_commit_records_nothing_of_any_command() {
    let house = House::new().await;
    let before = house.store.audit().head().await.unwrap();
    house
        .tamper(
            "CREATE TRIGGER undo BEFORE INSERT ON calls WHEN NEW.tool = 'ping' \
             BEGIN SELECT RAISE(ROLLBACK, 'the disk is on fire'); END",
        )
        .await;
    let mut feed = house.store.feed().subscribe();
    let mut outside = house.outside().await;
    sqlx::query("BEGIN IMMEDIATE").execute(&mut outside).await.unwrap();
    let mut commands = JoinSet::new();
    for n in 0..6 {
        let asked = house.gate.asks(if n == 3 { "ping" } else { "read" }, json!({})).await;
        let calls = Arc::clone(&house.calls);
        commands.spawn(async move { calls.begin(asked.call, asked.ruling, asked.expect).await });
    }
    settle().await;
    sqlx::query("ROLLBACK").execute(&mut outside).await.unwrap();
    for begun in commands.join_all().await {
        assert!(matches!(begun, Err(StoreError::Unavailable(_))), "{begun:?}");
    }
    assert_eq!(house.store.audit().head().await.unwrap(), before);
    assert!(house.store.call_reader().list(&Default::default(), None, 10).await.unwrap().rows.is_empty());
    assert!(feed.try_recv().is_err(), "nothing happened, so nothing is told");

    // The writer goes on with a fresh connection.
    let asked = house.gate.asks("read", json!({})).await;
    assert_eq!(house.calls.begin(asked.call, asked.ruling, asked.expect).await.unwrap(), Begun::Started);
    house.assert_whole().await;
}

/// The kind: best-effort recording. A store that is locked for long answers no, within its time, and keeps nothing.
#[tokio::test]
async fn f34_f37_a_locked_store_is_waited_for_and_then_refuses_with_nothing_recorded() {
    let house = House::new().await;
    let before = house.store.audit().head().await.unwrap();
    let mut outside = house.outside().await;
    sqlx::query("BEGIN IMMEDIATE").execute(&mut outside).await.unwrap();
    let asked = house.gate.asks("read", json!({})).await;
    let id = asked.call.id;
    let began = Instant::now();
    let begun = house.calls.begin(asked.call, asked.ruling, asked.expect).await;
    let waited = began.elapsed();
    assert!(matches!(begun, Err(StoreError::Unavailable(_))), "{begun:?}");
    assert!((Duration::from_millis(4_900)..Duration::from_secs(8)).contains(&waited), "{waited:?}");
    // Readers were never held up.
    assert_eq!(house.store.audit().head().await.unwrap(), before);
    assert!(house.store.call_reader().call(id).await.unwrap().is_none());
    sqlx::query("ROLLBACK").execute(&mut outside).await.unwrap();
    // It ran out of time; it does not come true later.
    let asked = house.gate.asks("read", json!({})).await;
    house.calls.begin(asked.call, asked.ruling, asked.expect).await.unwrap();
    assert!(house.store.call_reader().call(id).await.unwrap().is_none());
    house.assert_whole().await;
}

/// The kind: a deferred transaction that turns writer. Many callers, readers that page, and another writer outside.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn f37_ordinary_load_with_readers_and_another_process_meets_no_busy_error() {
    let house = House::new().await;
    let tool = Store::open_tool(
        &crate::support::url(&house.folder),
        Arc::new(house.clock.clone()),
        StoreOptions::default(),
    )
    .await
    .unwrap();
    let mut load = JoinSet::new();
    for caller in 0..20 {
        let mut proposals = Vec::new();
        for _ in 0..10 {
            proposals.push(house.gate.asks("read", json!({})).await);
        }
        let calls = Arc::clone(&house.calls);
        let conversations = house.store.conversations();
        let by = crate::support::asker().principal.caller;
        load.spawn(async move {
            for asked in proposals {
                let id = asked.call.id;
                let begun = calls.begin(asked.call, asked.ruling, asked.expect).await.unwrap();
                assert_eq!(begun, Begun::Started);
                calls.finish(id, crate::support::completed("done")).await.unwrap();
                let elsewhere = crate::support::conversation(&format!("u-{caller}"));
                // Counted for another day's caller, so that no expectation moves.
                let other = sluicegate_policy::CallerId::new(&format!("{by}-{caller}")).unwrap();
                conversations.add_usage(&elsewhere, &other, 10, 5, false).await.unwrap();
            }
        });
    }
    for reader in 0..3 {
        let audit = house.store.audit();
        let pages = house.store.call_reader();
        load.spawn(async move {
            for _ in 0..20 {
                audit.rows(&Default::default(), Default::default(), 100 + reader).await.unwrap();
                pages.list(&Default::default(), None, 100).await.unwrap();
                pages.pending().await.unwrap();
            }
        });
    }
    let log = tool.audit_log();
    load.spawn(async move {
        for n in 0..50 {
            log.append(note(n)).await.unwrap();
        }
    });
    load.join_all().await;
    let calls = house.store.call_reader().list(&Default::default(), None, 500).await.unwrap().rows;
    assert_eq!(calls.len(), 200);
    for call in calls {
        let kinds = house.kinds(call.id).await;
        assert_eq!(kinds, ["tool_requested", "policy_decided", "execution_started", "execution_completed"]);
    }
    house.assert_whole().await;
    tool.close().await;
}

/// The kind: a backup taken by the online method while calls are written.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn f37_an_online_copy_under_load_is_a_whole_store() {
    let house = House::new().await;
    let log = house.store.audit_log();
    let writing = tokio::spawn(async move {
        for n in 0..60 {
            log.append(note(n)).await.unwrap();
        }
    });
    let copy = house.folder.path().join("copy.db");
    house.tamper(&format!("VACUUM INTO '{}'", copy.display())).await;
    writing.await.unwrap();
    let verified =
        sluicegate_store::verify_file(&format!("sqlite://{}", copy.display()), |_, _| ()).await.unwrap();
    assert!(matches!(verified, sluicegate_store::Verified::Whole(_)), "{verified:?}");
}

#[tokio::test]
async fn closing_commits_what_waits_and_takes_nothing_more() {
    let house = House::new().await;
    let log = house.store.audit_log();
    let mut waiting = JoinSet::new();
    for n in 0..40 {
        let log = log.clone();
        waiting.spawn(async move { log.append(note(n)).await });
    }
    settle().await;
    house.store.close().await;
    for appended in waiting.join_all().await {
        appended.unwrap();
    }
    assert!(matches!(log.append(note(99)).await, Err(StoreError::Unavailable(_))));
    let left: Vec<_> =
        std::fs::read_dir(house.folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(!left.iter().any(|name| name.to_string_lossy().ends_with("-wal")), "{left:?}");
    let url = crate::support::url(&house.folder);
    let again = Store::open_server(
        &url,
        Arc::new(sluicegate_gateway::ManualClock::at(START_MS)),
        StoreOptions::default(),
    )
    .await
    .unwrap();
    let rows = again.audit().rows(&Default::default(), Default::default(), 500).await.unwrap().rows;
    assert_eq!(rows.iter().filter(|row| row.kind == "model_failed").count(), 40);
    again.close().await;
}

#[tokio::test]
async fn a_full_queue_refuses_at_once() {
    let house = House::new().await;
    let log = house.store.audit_log();
    let mut outside = house.outside().await;
    sqlx::query("BEGIN IMMEDIATE").execute(&mut outside).await.unwrap();
    let mut waiting = JoinSet::new();
    for n in 0..2_000 {
        let log = log.clone();
        waiting.spawn(async move { log.append(note(n)).await });
    }
    // The first one that is refused shows that the queue is full.
    assert!(waiting.join_next().await.unwrap().unwrap().is_err());
    let began = Instant::now();
    let refused = log.append(note(9_999)).await;
    assert!(matches!(refused, Err(StoreError::Unavailable(_))));
    assert!(began.elapsed() < Duration::from_secs(1));
    sqlx::query("ROLLBACK").execute(&mut outside).await.unwrap();
    let kept = waiting.join_all().await.iter().filter(|appended| appended.is_ok()).count();
    assert!((1_024..2_000).contains(&kept), "{kept}");
    let rows = house.store.audit().head().await.unwrap().seq;
    // Two rows were there: the first person and the first policy.
    assert_eq!(rows, i64::try_from(kept).unwrap() + 2);
    house.assert_whole().await;
}

#[tokio::test]
async fn what_is_told_is_durable_already() {
    let house = House::new().await;
    let mut feed = house.store.feed().subscribe();
    let (call, approval) = house.held().await;
    let mut told = Vec::new();
    while let Ok(change) = feed.try_recv() {
        told.push(change);
    }
    let conversation = Some(crate::support::conversation("c-1"));
    assert!(told.contains(&Change::Call { call, conversation }));
    assert!(told.contains(&Change::Approval { approval, call }));
    let head = house.store.audit().head().await.unwrap();
    assert_eq!(told.last(), Some(&Change::Audit(head.seq)));
    // Facts that moved change nothing, and nothing is told.
    let mut asked = house.gate.asks("read", json!({})).await;
    asked.expect.revision = sluicegate_gateway::RevisionId(9);
    house.calls.begin(asked.call, asked.ruling, asked.expect).await.unwrap();
    assert!(feed.try_recv().is_err());
}
