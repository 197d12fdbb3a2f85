//! The chain: refused changes, and changes that are found.

use crate::support::{House, completed, url, vote};
use serde_json::json;
use sluicegate_gateway::audit::{AuditEvent, Broken, EventKind};
use sluicegate_gateway::{CallStore as _, ManualClock, StoreError, Verdict};
use sluicegate_policy::Role;
use sluicegate_store::{AuditFilter, AuditStart, Store, StoreOptions, Verified, verify_file};
use sqlx::AssertSqlSafe;
use std::sync::Arc;

/// A store with a denied, a held and denied, and a completed call.
async fn lived_in() -> House {
    let house = House::new().await;
    let asked = house.gate.asks("delete", json!({"path": "a"})).await;
    house.calls.record_denied(asked.call, asked.ruling).await.unwrap();
    let (_, approval) = house.held().await;
    let mut no = vote(approval, 1, "boss", Role::Admin, Verdict::Deny);
    no.note = Some("no".to_owned());
    house.calls.vote(no).await.unwrap();
    let asked = house.gate.asks("read", json!({"path": "notes.txt"})).await;
    let id = asked.call.id;
    house.calls.begin(asked.call, asked.ruling, asked.expect).await.unwrap();
    house.calls.finish(id, completed("hello")).await.unwrap();
    house
}

async fn broken(house: &House) -> Broken {
    let within = house.store.audit().verify(|_, _| ()).await.unwrap();
    let outside = verify_file(&url(&house.folder), |_, _| ()).await.unwrap();
    assert_eq!(within, outside);
    match within {
        Verified::Broken(broken) => broken,
        Verified::Whole(head) => panic!("nothing was found up to {head:?}"),
    }
}

#[tokio::test]
async fn the_database_itself_refuses_to_change_or_remove_what_is_recorded() {
    let house = lived_in().await;
    let mut outside = house.outside().await;
    let columns = "seq, version, at_ms, kind, call, actor, facts, commitments, prev_hash, hash";
    let statements = [
        "UPDATE audit SET actor = 'nobody' WHERE seq = 1".to_owned(),
        "UPDATE OR REPLACE audit SET seq = 2 WHERE seq = 1".to_owned(),
        "DELETE FROM audit WHERE seq = 1".to_owned(),
        "DELETE FROM audit".to_owned(),
        // Conflict resolution deletes without any delete trigger.
        format!(
            "INSERT OR REPLACE INTO audit ({columns}) SELECT seq, version, at_ms, kind, call, 'nobody', facts, \
             commitments, prev_hash, hash FROM audit WHERE seq = 2"
        ),
        format!(
            "INSERT OR REPLACE INTO audit ({columns}) SELECT 1000, version, at_ms, kind, call, 'nobody', facts, \
             commitments, prev_hash, hash FROM audit WHERE seq = 2"
        ),
        "UPDATE audit_payloads SET text = '{}'".to_owned(),
        "INSERT OR REPLACE INTO audit_payloads SELECT seq, name, salt, '{}' FROM audit_payloads".to_owned(),
        "UPDATE audit_head SET seq = 1".to_owned(),
        "DELETE FROM audit_head".to_owned(),
        format!("INSERT OR REPLACE INTO audit_head VALUES (1, 1, '{}')", "0".repeat(64)),
        "UPDATE policy_revisions SET author = 'nobody'".to_owned(),
        "DELETE FROM policy_revisions".to_owned(),
        "INSERT OR REPLACE INTO policy_revisions SELECT id, '{}', digest, source, author, reason, at_ms, remarks \
         FROM policy_revisions"
            .to_owned(),
    ];
    for statement in statements {
        let refused = sqlx::query(AssertSqlSafe(statement.clone())).execute(&mut outside).await;
        let message = refused.expect_err(&statement).to_string();
        assert!(
            message.contains("cannot be") || message.contains("only") || message.contains("one end"),
            "{statement}: {message}"
        );
    }
    house.assert_whole().await;
}

/// The kind: a record changed by hand that nobody notices. Each way of changing it, and the row that is named.
#[tokio::test]
async fn f34_verifying_names_the_first_row_that_was_changed_removed_moved_or_cut_off() {
    let free = "DROP TRIGGER audit_no_update; DROP TRIGGER audit_no_delete; DROP TRIGGER audit_only_append; \
                DROP TRIGGER audit_payloads_no_update; DROP TRIGGER audit_head_only_forward; ";
    let payload = |seq| Broken::Payload { seq, name: "arguments".to_owned() };
    let cases = [
        ("UPDATE audit SET actor = 'nobody' WHERE seq = 5", Broken::Changed(5)),
        ("UPDATE audit SET at_ms = at_ms - 1 WHERE seq = 5", Broken::Changed(5)),
        ("UPDATE audit SET facts = '{}' WHERE seq = 5", Broken::Changed(5)),
        ("UPDATE audit SET commitments = '{}' WHERE seq = 3", Broken::Changed(3)),
        ("UPDATE audit SET call = NULL WHERE seq = 5", Broken::Changed(5)),
        ("DELETE FROM audit WHERE seq = 5", Broken::Order { expected: 5, found: 6 }),
        ("DELETE FROM audit WHERE seq <= 2", Broken::Order { expected: 1, found: 3 }),
        // Two rows change places.
        (
            "UPDATE audit SET seq = -1 WHERE seq = 5; UPDATE audit SET seq = 5 WHERE seq = 6; \
             UPDATE audit SET seq = 6 WHERE seq = -1",
            Broken::Unlinked(5),
        ),
        // One is taken out and the rest moved up.
        (
            "DELETE FROM audit WHERE seq = 5; UPDATE audit SET seq = seq - 1 WHERE seq > 5",
            Broken::Unlinked(5),
        ),
        ("DELETE FROM audit WHERE seq > 10", Broken::Truncated { expected: 12, found: 10 }),
        ("DELETE FROM audit", Broken::Truncated { expected: 12, found: 0 }),
        ("UPDATE audit_payloads SET text = '{}' WHERE seq = 3 AND name = 'arguments'", payload(3)),
        ("UPDATE audit_payloads SET salt = '00' WHERE seq = 3 AND name = 'arguments'", payload(3)),
        // The same payload under another name or at another row.
        (
            "UPDATE audit_payloads SET name = 'other' WHERE seq = 3 AND name = 'arguments'",
            Broken::Payload { seq: 3, name: "other".to_owned() },
        ),
        ("UPDATE audit_payloads SET seq = 2 WHERE seq = 3 AND name = 'arguments'", payload(2)),
        // A row put at the end by hand.
        (
            "INSERT INTO audit SELECT 13, version, at_ms, kind, call, actor, facts, commitments, 'x', 'y' \
             FROM audit WHERE seq = 5",
            Broken::Unlinked(13),
        ),
    ];
    for (sql, expected) in cases {
        let house = lived_in().await;
        assert_eq!(house.store.audit().head().await.unwrap().seq, 12);
        house.tamper(&format!("{free}{sql}")).await;
        assert_eq!(broken(&house).await, expected, "{sql}");
    }
}

#[tokio::test]
async fn an_erased_payload_is_gone_and_the_trail_is_whole() {
    let house = lived_in().await;
    house.tamper("DELETE FROM audit_payloads WHERE name IN ('arguments', 'context')").await;
    house.assert_whole().await;
    let calls = house.store.call_reader().list(&Default::default(), None, 10).await.unwrap().rows;
    assert_eq!(calls.len(), 3);
    for call in calls {
        let story = house.story(call.id).await;
        assert_eq!(story.call.arguments, None);
        assert!(story.evaluations.iter().all(|evaluation| evaluation.context.is_none()));
        assert!(story.evaluations.iter().all(|evaluation| evaluation.decision.is_some()));
    }
}

/// The kind: a short value that an erased payload's commitment, or a digest beside it, lets one guess.
#[tokio::test]
async fn facts_hold_neither_arguments_nor_a_digest_of_them() {
    let house = lived_in().await;
    let rows = house.store.audit().rows(&Default::default(), Default::default(), 100).await.unwrap().rows;
    let asked = house.gate.asks("read", json!({"path": "notes.txt"})).await;
    let action = asked.call.frozen.unwrap().action().to_string();
    for row in &rows {
        assert!(!row.facts.contains("notes.txt") && !row.facts.contains(&action), "{}", row.facts);
        assert!(!row.facts.contains("hello"), "{}", row.facts);
    }
    let twice: Vec<_> =
        rows.iter().filter(|row| row.kind == "tool_requested").map(|row| &row.commitments).collect();
    assert_eq!(twice.len(), 3);
    assert!(twice[0] != twice[1] && twice[1] != twice[2]);
}

/// The kind: two processes that append to one chain.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn two_processes_append_to_one_chain() {
    let folder = tempfile::tempdir().unwrap();
    let clock = Arc::new(ManualClock::at(crate::support::START_MS));
    let url = url(&folder);
    let open = || Store::open_tool(&url, clock.clone(), StoreOptions::default());
    let (one, two) = (open().await.unwrap(), open().await.unwrap());
    let mut appending = tokio::task::JoinSet::new();
    for store in [&one, &two] {
        for n in 0..100 {
            let log = store.audit_log();
            appending.spawn(async move {
                let event =
                    AuditEvent::new(EventKind::ModelFailed, None, "test").payload("note", n.to_string());
                log.append(event).await.unwrap()
            });
        }
    }
    let mut seqs = appending.join_all().await;
    seqs.sort_unstable();
    // The first row is the first person's.
    assert_eq!(seqs, (2..=201).collect::<Vec<i64>>());
    let Verified::Whole(head) = one.audit().verify(|_, _| ()).await.unwrap() else { panic!() };
    assert_eq!(head.seq, 201);
    one.close().await;
    two.close().await;
}

#[tokio::test]
async fn verifying_works_beside_a_server_after_it_and_on_a_store_it_would_not_start_on() {
    let house = lived_in().await;
    let url = url(&house.folder);
    let mut told = Vec::new();
    let verified = verify_file(&url, |done, all| told.push((done, all))).await.unwrap();
    assert!(matches!(verified, Verified::Whole(head) if head.seq == 12));
    assert_eq!(told, [(12, 12)]);
    house
        .tamper("INSERT INTO _sqlx_migrations VALUES (9999, 'later', CURRENT_TIMESTAMP, TRUE, x'00', 0)")
        .await;
    house.store.close().await;
    drop(house.calls);
    assert!(matches!(verify_file(&url, |_, _| ()).await.unwrap(), Verified::Whole(_)));
    let file = house.folder.path().join("gate.db");
    std::fs::write(&file, b"this is no database at all, not even a short one").unwrap();
    assert!(verify_file(&url, |_, _| ()).await.is_err());
    std::fs::remove_file(&file).unwrap();
    let missing = verify_file(&url, |_, _| ()).await.unwrap_err().to_string();
    assert!(missing.starts_with("there is no store at"), "{missing}");
    assert!(!file.exists(), "verifying creates nothing");
}

#[tokio::test]
async fn a_long_trail_is_verified_in_pieces_while_it_grows() {
    let house = House::new().await;
    let mut appending = tokio::task::JoinSet::new();
    for n in 0..900_usize {
        let log = house.store.audit_log();
        let event = AuditEvent::new(EventKind::ModelFailed, None, "test").fact("n", n).payload("note", "n");
        appending.spawn(async move { log.append(event).await.unwrap() });
    }
    appending.join_all().await;
    for n in 0..300_usize {
        let log = house.store.audit_log();
        let event = AuditEvent::new(EventKind::ModelFailed, None, "test").fact("n", n);
        log.append(event).await.unwrap();
    }
    let (log, audit) = (house.store.audit_log(), house.store.audit());
    let mut told = Vec::new();
    let (verified, appended) = tokio::join!(
        audit.verify(|done, all| told.push((done, all))),
        log.append(AuditEvent::new(EventKind::ModelFailed, None, "test"))
    );
    assert!(matches!(verified.unwrap(), Verified::Whole(_)));
    appended.unwrap();
    assert!(told.len() >= 3, "{told:?}");
    assert!(told.windows(2).all(|pair| pair[0].0 < pair[1].0));
}

#[tokio::test]
async fn a_missing_end_of_the_trail_is_an_error_and_no_call_runs_on_it() {
    let house = lived_in().await;
    house.tamper("DROP TRIGGER audit_head_no_delete; DELETE FROM audit_head").await;
    assert!(matches!(house.store.audit().verify(|_, _| ()).await, Err(StoreError::Corrupt(_))));
    let asked = house.gate.asks("read", json!({})).await;
    let id = asked.call.id;
    let begun = house.calls.begin(asked.call, asked.ruling, asked.expect).await;
    assert!(matches!(begun, Err(StoreError::Corrupt(_))), "{begun:?}");
    assert!(house.store.call_reader().call(id).await.unwrap().is_none());
}

#[tokio::test]
async fn the_log_takes_no_events_of_calls() {
    let house = House::new().await;
    for kind in [EventKind::ToolRequested, EventKind::ExecutionStarted, EventKind::Reconciled] {
        let appended = house.store.audit_log().append(AuditEvent::new(kind, None, "test")).await;
        assert!(appended.is_err(), "{kind}");
    }
    let seq = house
        .store
        .audit_log()
        .append(AuditEvent::new(EventKind::ServerChanged, None, "test"))
        .await
        .unwrap();
    assert_eq!(house.store.audit().head().await.unwrap().seq, seq);
}

/// F34: the trail is ordered by its numbers, not by a clock that somebody sets back.
#[tokio::test]
async fn f34_a_clock_that_is_set_back_changes_neither_order_nor_proof() {
    let house = House::new().await;
    let mut calls = Vec::new();
    for step in [0, -3_600_000, 7_200_000, -86_400_000] {
        house.clock.step_wall(step);
        let asked = house.gate.asks("read", json!({"path": "notes.txt"})).await;
        let id = asked.call.id;
        house.calls.begin(asked.call, asked.ruling, asked.expect).await.unwrap();
        house.calls.finish(id, completed("hello")).await.unwrap();
        calls.push(id);
    }
    house.assert_whole().await;
    let rows =
        house.store.audit().rows(&AuditFilter::default(), AuditStart::After(0), 100).await.unwrap().rows;
    assert!(rows.windows(2).all(|pair| pair[0].seq + 1 == pair[1].seq));
    assert!(rows.windows(2).any(|pair| pair[0].at_ms > pair[1].at_ms), "the clock did go back");
    let started = rows.iter().filter(|row| row.kind == "execution_started");
    let order: Vec<_> = started.map(|row| row.call.clone().unwrap().to_string()).collect();
    assert_eq!(order, calls.iter().map(ToString::to_string).collect::<Vec<_>>());
    // No duration is less than nothing.
    for row in rows.iter().filter(|row| row.kind == "execution_completed") {
        let facts: serde_json::Value = serde_json::from_str(&row.facts).unwrap();
        assert!(facts["duration_ms"].as_i64().is_some_and(|ms| ms >= 0), "{facts}");
    }
}
