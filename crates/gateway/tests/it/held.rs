//! Held calls: people, clocks, edits and leaving callers.

use crate::support::{House, rules};
use serde_json::json;
use sluicegate_gateway::{ApprovalStatus, CallState, ReasonCode, ResolveError, Resolved, Verdict};

#[tokio::test]
async fn an_approved_call_runs_once_and_the_approval_is_spent() {
    let house = House::new().await;
    let call = house.call("write", json!({"path": "a"}));
    let held = house.held().await;
    assert_eq!(house.world.effects(), 0);
    let approver = House::approver("admin");
    let resolved =
        house.approvals.resolve(&approver, held.id, held.version, Verdict::Approve, None).await.unwrap();
    assert!(matches!(resolved, Resolved::Decided(record) if record.status == ApprovalStatus::Approved));
    let answer = call.outcome().await;
    assert_eq!((answer.state, house.world.effects()), (CallState::Completed, 1));
    let again = house.approvals.resolve(&approver, held.id, held.version, Verdict::Approve, None).await;
    let Err(ResolveError::AlreadyDecided(record)) = again else { panic!("{again:?}") };
    assert_eq!((record.status, record.decided_by.as_deref()), (ApprovalStatus::Consumed, Some("admin")));
    let story = house.store.call_reader().call(answer.call).await.unwrap().unwrap();
    let kinds: Vec<&str> = story.trail.iter().map(|row| row.kind.as_str()).collect();
    assert_eq!(
        kinds,
        [
            "tool_requested",
            "policy_decided",
            "approval_required",
            "approval_decided",
            "policy_decided",
            "execution_started",
            "execution_completed",
        ]
    );
}

/// The kind: no memory of refusals lets a model ask until the person gives in.
#[tokio::test]
async fn f29_the_same_call_after_a_refusal_is_refused_by_itself() {
    let house = House::new().await;
    let call = house.call("write", json!({"path": "a"}));
    let held = house.held().await;
    let note = Some("not this file".to_owned());
    house
        .approvals
        .resolve(&House::approver("admin"), held.id, held.version, Verdict::Deny, note)
        .await
        .unwrap();
    let refusal = call.outcome().await.refusal.unwrap();
    assert_eq!(refusal.code, ReasonCode::DeniedByPerson);
    assert!(refusal.sentence.contains("not this file"));

    let again = house.call("write", json!({"path": "a"})).outcome().await;
    assert_eq!(again.refusal.unwrap().code, ReasonCode::RepeatedDenial);
    let other = house.call("write", json!({"path": "b"}));
    house.held().await;
    other.cancel();
    assert_eq!((other.outcome().await.state, house.world.effects()), (CallState::Withdrawn, 0));
}

#[tokio::test]
async fn a_rule_edited_while_an_approval_is_pending_beats_the_approval() {
    let house = House::new().await;
    let call = house.call("write", json!({"path": "a"}));
    let held = house.held().await;
    let mut stricter = rules();
    stricter["rules"]
        .as_array_mut()
        .unwrap()
        .push(json!({"id": "freeze", "kind": "block_tool", "match": {"server": "files", "tool": "write"}}));
    house.set_rules(stricter).await;
    house
        .approvals
        .resolve(&House::approver("admin"), held.id, held.version, Verdict::Approve, None)
        .await
        .unwrap();
    let answer = call.outcome().await;
    assert_eq!((answer.state, house.world.effects()), (CallState::Denied, 0));
    assert_eq!(answer.refusal.unwrap().rules[0].as_str(), "freeze");
    let story = house.store.call_reader().call(answer.call).await.unwrap().unwrap();
    assert_eq!(story.approval.unwrap().status, ApprovalStatus::Void);
}

#[tokio::test]
async fn an_unrelated_edit_does_not_disturb_a_held_call() {
    let house = House::new().await;
    let call = house.call("write", json!({"path": "a"}));
    let held = house.held().await;
    let mut other = rules();
    other["rules"]
        .as_array_mut()
        .unwrap()
        .push(json!({"id": "unrelated", "kind": "block_tool", "match": {"server": "files", "tool": "move"}}));
    house.set_rules(other).await;
    house
        .approvals
        .resolve(&House::approver("admin"), held.id, held.version, Verdict::Approve, None)
        .await
        .unwrap();
    assert_eq!((call.outcome().await.state, house.world.effects()), (CallState::Completed, 1));
}

#[tokio::test]
async fn rules_that_ask_for_more_people_send_the_call_back_for_the_rest() {
    let house = House::new().await;
    let call = house.call("write", json!({"path": "a"}));
    let held = house.held().await;
    let mut two = rules();
    two["rules"][1]["approval"] = json!({"count": 2});
    house.set_rules(two).await;
    let mut feed = house.store.feed().subscribe();
    let admin = House::approver("other-admin");
    house.approvals.resolve(&admin, held.id, held.version, Verdict::Approve, None).await.unwrap();
    let again = loop {
        let pending = house.store.call_reader().pending().await.unwrap();
        match pending.as_slice() {
            [one] if one.approval.version > held.version => break one.approval.clone(),
            _ => feed.recv().await.unwrap(),
        };
    };
    assert_eq!((again.terms.approvers, house.world.effects()), (2, 0));
    // Whoever asked does not count where two are needed.
    let own = house
        .approvals
        .resolve(&House::approver("admin"), again.id, again.version, Verdict::Approve, None)
        .await;
    assert!(matches!(own, Err(ResolveError::NotAllowed(..))), "{own:?}");
    let old = house
        .approvals
        .resolve(&House::approver("third"), again.id, held.version, Verdict::Approve, None)
        .await;
    assert!(matches!(old, Err(ResolveError::Stale(_))), "{old:?}");
    let third = House::approver("third");
    house.approvals.resolve(&third, again.id, again.version, Verdict::Approve, None).await.unwrap();
    assert_eq!((call.outcome().await.state, house.world.effects()), (CallState::Completed, 1));
}

#[tokio::test]
async fn three_clocks_end_an_approval_and_none_lengthens_it() {
    // Time goes on; the wall clock is stepped past the deadline; it is stepped back before the beginning.
    let moves: [fn(&House); 3] = [
        |house| house.clock.advance(300_000),
        |house| house.clock.step_wall(300_000),
        |house| house.clock.step_wall(-1),
    ];
    for change in moves {
        let house = House::new().await;
        let call = house.call("write", json!({"path": "a"}));
        let held = house.held().await;
        change(&house);
        let admin = House::approver("admin");
        let late = house.approvals.resolve(&admin, held.id, held.version, Verdict::Approve, None).await;
        match late {
            Err(ResolveError::Expired(_) | ResolveError::AlreadyDecided(_)) => {}
            other => panic!("{other:?}"),
        }
        let answer = call.outcome().await;
        assert_eq!((answer.state, house.world.effects()), (CallState::Expired, 0));
        assert_eq!(answer.refusal.unwrap().code, ReasonCode::Expired);
    }
    let house = House::new().await;
    let call = house.call("write", json!({"path": "a"}));
    let held = house.held().await;
    house.clock.advance(299_999);
    house
        .approvals
        .resolve(&House::approver("admin"), held.id, held.version, Verdict::Approve, None)
        .await
        .unwrap();
    assert_eq!(call.outcome().await.state, CallState::Completed);
}

/// The kind: a definition that changes under an open approval.
#[tokio::test]
async fn f13_f24_a_tool_that_changes_while_its_call_is_held_closes_the_approval() {
    let house = House::new().await;
    let call = house.call("write", json!({"path": "a"}));
    let held = house.held().await;
    house.world.describe("a tool that does something else");
    let late = house
        .approvals
        .resolve(&House::approver("admin"), held.id, held.version, Verdict::Approve, None)
        .await;
    let answer = call.outcome().await;
    assert_eq!((answer.state, house.world.effects()), (CallState::Denied, 0), "{late:?}");
    assert_eq!(answer.refusal.unwrap().code, ReasonCode::ToolChanged);
}

/// The kind: the caller gives up, and the approval outlives it.
#[tokio::test]
async fn f21_a_caller_who_leaves_takes_the_approval_along() {
    let house = House::new().await;
    let call = house.call("write", json!({"path": "a"}));
    let held = house.held().await;
    drop(call);
    let mut feed = house.store.feed().subscribe();
    while !house.store.call_reader().pending().await.unwrap().is_empty() {
        feed.recv().await.unwrap();
    }
    let late = house
        .approvals
        .resolve(&House::approver("admin"), held.id, held.version, Verdict::Approve, None)
        .await;
    let Err(ResolveError::AlreadyDecided(record)) = late else { panic!("{late:?}") };
    assert_eq!((record.status, house.world.effects()), (ApprovalStatus::Withdrawn, 0));
}
