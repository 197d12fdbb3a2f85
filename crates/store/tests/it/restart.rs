//! What a new process finds and settles.

use crate::support::{House, LIMIT_MS, completed, url, vote};
use serde_json::{Value, json};
use sluicegate_gateway::{
    ApprovalStatus, Begun, CallState, CallStore as _, Clock as _, ManualClock, ReasonCode, Verdict,
    VoteOutcome,
};
use sluicegate_policy::Role;
use sluicegate_store::{AuditFilter, AuditStart, ResolutionOutcome};

/// A new process on the store of one that ended without any farewell.
async fn restarted(house: House) -> House {
    let House { store, calls, clock, folder, .. } = house;
    let later = ManualClock::at(clock.now().wall_ms);
    drop((store, calls));
    House::at(folder, later).await
}

/// The kind: half of the state in memory, half on disk. (a), (b): open; (c): after the click, before dispatch;
/// (d), (e): after dispatch, before the outcome's record.
#[tokio::test]
async fn f27_what_was_open_is_closed_and_what_ran_is_unknown() {
    let house = House::new().await;
    let (open, open_approval) = house.held().await;
    let (clicked, clicked_approval) = house.held().await;
    house.calls.vote(vote(clicked_approval, 1, "boss", Role::Admin, Verdict::Approve)).await.unwrap();
    let (dispatched, dispatched_approval) = house.held().await;
    house.calls.vote(vote(dispatched_approval, 1, "boss", Role::Admin, Verdict::Approve)).await.unwrap();
    assert_eq!(house.begin_approved(dispatched_approval).await.unwrap(), Begun::Started);
    let asked = house.gate.asks("read", json!({})).await;
    let running = asked.call.id;
    house.calls.begin(asked.call, asked.ruling, asked.expect).await.unwrap();
    let asked = house.gate.asks("read", json!({})).await;
    let ended = asked.call.id;
    house.calls.begin(asked.call, asked.ruling, asked.expect).await.unwrap();
    house.calls.finish(ended, completed("done")).await.unwrap();
    let (overdue, overdue_approval) = house.held().await;
    house.clock.advance(LIMIT_MS * 10);

    let house = restarted(house).await;
    let settled = house.calls.reconcile().await.unwrap();
    assert_eq!(settled.unknown, [dispatched, running]);
    assert_eq!(settled.orphaned, [open, clicked, overdue]);

    for (call, approval, status) in [
        (open, open_approval, ApprovalStatus::Denied),
        (clicked, clicked_approval, ApprovalStatus::Void),
        (overdue, overdue_approval, ApprovalStatus::Denied),
    ] {
        let story = house.story(call).await;
        assert_eq!((story.call.state, story.call.code), (CallState::Denied, Some(ReasonCode::Orphaned)));
        let record = story.approval.unwrap();
        assert_eq!((record.status, record.decided_by.as_deref()), (status, Some("restart")));
        // A ghost that does nothing when pressed is told so.
        let late = house.calls.vote(vote(approval, 1, "boss", Role::Admin, Verdict::Approve)).await.unwrap();
        assert!(matches!(late, VoteOutcome::AlreadyDecided(_)), "{late:?}");
        assert_eq!(house.begin_approved(approval).await.unwrap(), Begun::Lost(CallState::Denied));
        assert!(!house.kinds(call).await.contains(&"execution_started".to_owned()));
    }
    for call in [dispatched, running] {
        let story = house.story(call).await;
        assert_eq!((story.call.state, story.call.code), (CallState::Unknown, Some(ReasonCode::OutcomeLost)));
        assert_eq!(story.trail.last().unwrap().kind, "execution_unknown");
    }
    assert_eq!(house.story(ended).await.call.state, CallState::Completed);
    assert!(house.store.call_reader().pending().await.unwrap().is_empty());

    let last = house.store.audit().rows(&AuditFilter::default(), AuditStart::Latest, 1).await.unwrap().rows;
    assert_eq!(last[0].kind, "reconciled");
    let facts: Value = serde_json::from_str(&last[0].facts).unwrap();
    assert_eq!(facts, json!({"unknown": 2, "orphaned": 3}));
    house.assert_whole().await;

    // A second start finds nothing to settle.
    let house = restarted(house).await;
    assert_eq!(house.calls.reconcile().await.unwrap(), Default::default());
    house.assert_whole().await;
}

/// The kind: a crash between a commit and its answer. What was committed is there, whole.
#[tokio::test]
async fn f27_a_store_that_was_never_closed_opens_again_with_all_that_was_answered() {
    let house = House::new().await;
    let mut answered = Vec::new();
    for n in 0..30 {
        let asked = house.gate.asks("read", json!({"path": n.to_string()})).await;
        answered.push(asked.call.id);
        house.calls.begin(asked.call, asked.ruling, asked.expect).await.unwrap();
    }
    // As a crash leaves it: files copied while the store is open.
    let copy = tempfile::tempdir().unwrap();
    for suffix in ["", "-wal"] {
        let name = format!("gate.db{suffix}");
        std::fs::copy(house.folder.path().join(&name), copy.path().join(&name)).unwrap();
    }
    let after = House::at(copy, ManualClock::at(house.clock.now().wall_ms)).await;
    for call in answered {
        assert_eq!(after.story(call).await.call.state, CallState::Executing);
    }
    after.assert_whole().await;
    assert_ne!(url(&house.folder), url(&after.folder));
}

#[tokio::test]
async fn an_admin_says_what_became_of_an_unknown_call_once() {
    let house = House::new().await;
    let asked = house.gate.asks("read", json!({})).await;
    let call = asked.call.id;
    house.calls.begin(asked.call, asked.ruling, asked.expect).await.unwrap();
    let resolutions = house.store.resolutions();
    let boss = crate::support::person("boss");
    let early = resolutions.resolve_unknown(call, true, "", &boss).await.unwrap();
    assert_eq!(early, ResolutionOutcome::NotUnknown(CallState::Executing));
    house.calls.reconcile().await.unwrap();
    assert_eq!(house.store.call_reader().overview(0, 1).await.unwrap().unresolved, 1);
    let resolved = resolutions.resolve_unknown(call, true, "the file is there", &boss).await.unwrap();
    assert_eq!(resolved, ResolutionOutcome::Recorded);
    let again = resolutions.resolve_unknown(call, false, "no", &boss).await.unwrap();
    assert_eq!(again, ResolutionOutcome::AlreadyResolved);
    let nowhere = sluicegate_gateway::CallId::random();
    assert_eq!(
        resolutions.resolve_unknown(nowhere, true, "", &boss).await.unwrap(),
        ResolutionOutcome::NotFound
    );

    let story = house.story(call).await;
    assert_eq!(story.call.state, CallState::Unknown);
    let resolution = story.call.resolution.unwrap();
    assert!(resolution.happened && resolution.by == boss);
    assert_eq!(story.trail.last().unwrap().kind, "execution_resolved");
    assert!(story.payloads.iter().any(|(_, payload)| payload.text == "the file is there"));
    assert_eq!(house.store.call_reader().overview(0, 1).await.unwrap().unresolved, 0);
    house.assert_whole().await;
}
