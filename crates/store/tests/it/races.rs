//! Races, on the real file, through the real writer.

use crate::support::{House, LIMIT_MS, completed, vote};
use serde_json::json;
use sluicegate_gateway::{
    ApprovalStatus, Begun, CallState, CallStore as _, Closed, Closing, RevisionId, Verdict, VoteOutcome,
};
use sluicegate_policy::Role;
use std::sync::Arc;
use tokio::task::JoinSet;

/// The kind: read-then-write on the decision. 50 people press at once.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn f26_of_fifty_votes_at_once_one_decides() {
    let house = House::new().await;
    let (call, approval) = house.held().await;
    let mut votes = JoinSet::new();
    for n in 0..50 {
        let calls = Arc::clone(&house.calls);
        let verdict = if n % 2 == 0 { Verdict::Approve } else { Verdict::Deny };
        votes.spawn(async move {
            let cast = vote(approval, 1, &format!("person-{n}"), Role::Approver, verdict);
            (verdict, calls.vote(cast).await.unwrap())
        });
    }
    let mut decided = Vec::new();
    let mut told = Vec::new();
    for (verdict, outcome) in votes.join_all().await {
        match outcome {
            VoteOutcome::Decided(record) => decided.push((verdict, record)),
            VoteOutcome::AlreadyDecided(record) => told.push(record),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!((decided.len(), told.len()), (1, 49));
    let (verdict, winner) = &decided[0];
    let expected =
        if *verdict == Verdict::Approve { ApprovalStatus::Approved } else { ApprovalStatus::Denied };
    assert_eq!(winner.status, expected);
    // The losers are told by whom and when it was decided.
    assert!(told.iter().all(|record| record.decided_by == winner.decided_by
        && record.decided_at_ms == winner.decided_at_ms
        && record.decided_by.is_some()));
    let verdicts = house.kinds(call).await.into_iter().filter(|kind| kind == "approval_decided").count();
    assert_eq!(verdicts, 1);
    house.assert_whole().await;
}

/// The kind: approve against deny, expiry and withdrawal in the same instant, with dispatch right behind. 200 rounds.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn f26_two_hundred_rounds_of_everything_at_once_run_each_call_at_most_once() {
    let house = House::new().await;
    let mut ends = std::collections::BTreeMap::<String, usize>::new();
    for round in 0..200 {
        let (call, approval) = house.held().await;
        let action = house.calls.approval(approval).await.unwrap().action;
        let asked = house.gate.asks("write", json!({"path": "a"})).await;
        // In half of the rounds the time is over for those who look late.
        let clock = house.clock.clone();
        let calls = Arc::clone(&house.calls);
        let cast = |name, verdict| calls.vote(vote(approval, 1, name, Role::Admin, verdict));
        let run = async || {
            let ruling = asked.ruling.clone();
            let begun = calls.begin_approved(approval, action, ruling, asked.expect.clone()).await.unwrap();
            begun == Begun::Started
        };
        let approve = async || {
            let first = cast("boss", Verdict::Approve).await.unwrap();
            (matches!(first, VoteOutcome::Decided(_)), run().await)
        };
        let expire = async || {
            if round % 2 == 0 {
                clock.advance(LIMIT_MS);
            }
            calls.close(approval, Closing::Expired).await.unwrap()
        };
        let ((approved, ran), deny, expired, withdrawn, again) = tokio::join!(
            approve(),
            cast("chief", Verdict::Deny),
            expire(),
            calls.close(approval, Closing::Withdrawn),
            run(),
        );
        let runs = usize::from(ran) + usize::from(again);
        let denied = matches!(deny.unwrap(), VoteOutcome::Decided(_));
        let expired = matches!(expired, Closed::Won);
        let withdrawn = matches!(withdrawn.unwrap(), Closed::Won);
        assert!(runs <= 1, "round {round}");
        assert!(runs == 0 || (approved && !denied && !expired && !withdrawn), "round {round}");
        let story = house.story(call).await;
        let started = story.trail.iter().filter(|row| row.kind == "execution_started").count();
        assert_eq!(started, runs, "round {round}: runs and written intents");
        match story.call.state {
            CallState::Executing => assert_eq!(runs, 1, "round {round}"),
            CallState::Denied => assert!(denied && runs == 0, "round {round}"),
            CallState::Expired => assert_eq!(runs, 0, "round {round}"),
            CallState::Withdrawn => assert!(withdrawn && runs == 0, "round {round}"),
            other => panic!("round {round}: {other}"),
        }
        if story.call.state == CallState::Executing {
            house.calls.finish(call, completed("done")).await.unwrap();
        }
        *ends.entry(story.call.state.to_string()).or_default() += 1;
    }
    assert_eq!(ends.values().sum::<usize>(), 200, "{ends:?}");
    house.assert_whole().await;
}

/// The kind: a counter that is checked before it is counted.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_fifty_begins_at_once_against_a_limit_of_ten_ten_start() {
    let house = House::new().await;
    let mut begins = JoinSet::new();
    for _ in 0..50 {
        let asked = house.gate.asks("ping", json!({})).await;
        let calls = Arc::clone(&house.calls);
        begins.spawn(async move { calls.begin(asked.call, asked.ruling, asked.expect).await.unwrap() });
    }
    let begun = begins.join_all().await;
    let started = begun.iter().filter(|begun| **begun == Begun::Started).count();
    let moved = begun.iter().filter(|begun| **begun == Begun::Moved).count();
    assert_eq!((started, moved), (10, 40));
    house.assert_whole().await;
}

/// The kind: a policy that changes between its reading and the intent.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn no_call_begins_under_a_revision_that_is_no_longer_current() {
    let house = House::new().await;
    let policies = house.store.policies();
    let mut begins = JoinSet::new();
    for _ in 0..40 {
        let asked = house.gate.asks("read", json!({})).await;
        let id = asked.call.id;
        let calls = Arc::clone(&house.calls);
        begins.spawn(async move { (id, calls.begin(asked.call, asked.ruling, asked.expect).await.unwrap()) });
        if begins.len() == 20 {
            let added =
                policies.append(crate::support::rules(), Some(RevisionId(1)), "admin", "next", "test").await;
            assert!(added.is_ok());
        }
    }
    let changed = house
        .store
        .audit()
        .rows(&Default::default(), sluicegate_store::AuditStart::Latest, 500)
        .await
        .unwrap()
        .rows
        .into_iter()
        .find(|row| row.kind == "policy_changed")
        .unwrap()
        .seq;
    for (id, begun) in begins.join_all().await {
        let story = house.store.call_reader().call(id).await.unwrap();
        match begun {
            Begun::Started => assert!(story.unwrap().trail[0].seq < changed),
            Begun::Moved => assert!(story.is_none()),
            Begun::Lost(state) => panic!("{state}"),
        }
    }
}
