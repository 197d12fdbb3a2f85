//! The port's contract: votes, closings, and what becomes of an approved call.

use crate::support::{House, LIMIT_MS, START_MS, vote};
use serde_json::{Value, json};
use sluicegate_gateway::{
    ActionDigest, ApprovalId, ApprovalStatus, ApprovalTerms, Begun, CallState, CallStore as _, Closed,
    Closing, Held, ReasonCode, RevisionId, StoreError, Verdict, VoteOutcome,
};
use sluicegate_policy::Role;

const YES: Verdict = Verdict::Approve;
const NO: Verdict = Verdict::Deny;

#[tokio::test]
async fn an_approved_call_runs_under_its_approval_once() {
    let house = House::new().await;
    let (call, approval) = house.held().await;
    let story = house.story(call).await;
    assert_eq!(house.kinds(call).await, ["tool_requested", "policy_decided", "approval_required"]);
    assert_eq!((story.call.state, story.call.decided_ms), (CallState::Pending, None));

    house.clock.advance(2_500);
    let mut yes = vote(approval, 1, "boss", Role::Approver, YES);
    yes.note = Some("fine with me".to_owned());
    let VoteOutcome::Decided(record) = house.calls.vote(yes).await.unwrap() else { panic!() };
    assert_eq!((record.status, record.decided_by.as_deref()), (ApprovalStatus::Approved, Some("boss")));
    assert_eq!(
        (record.decided_at_ms, record.note.as_deref()),
        (Some(START_MS + 2_500), Some("fine with me"))
    );
    assert_eq!((record.votes.len(), record.asked_by.as_str()), (1, "asker"));
    assert_eq!(house.story(call).await.call.state, CallState::Approved);

    assert_eq!(house.begin_approved(approval).await.unwrap(), Begun::Started);
    let story = house.story(call).await;
    assert_eq!(story.approval.unwrap().status, ApprovalStatus::Consumed);
    assert_eq!(story.evaluations.len(), 2);
    assert_eq!(
        house.kinds(call).await,
        [
            "tool_requested",
            "policy_decided",
            "approval_required",
            "approval_decided",
            "policy_decided",
            "execution_started"
        ]
    );
    assert_eq!(house.begin_approved(approval).await.unwrap(), Begun::Lost(CallState::Executing));
    let again = house.calls.vote(vote(approval, 1, "boss", Role::Approver, YES)).await.unwrap();
    assert!(matches!(again, VoteOutcome::AlreadyDecided(_)), "{again:?}");
    house.assert_whole().await;
}

#[tokio::test]
async fn one_no_is_enough_and_its_reason_is_kept() {
    let house = House::new().await;
    let (call, approval) = house.held_for(2).await;
    let first = house.calls.vote(vote(approval, 1, "one", Role::Approver, YES)).await.unwrap();
    assert!(matches!(first, VoteOutcome::Counted(_)), "{first:?}");
    let mut no = vote(approval, 1, "two", Role::Admin, NO);
    no.note = Some("wrong file".to_owned());
    let VoteOutcome::Decided(record) = house.calls.vote(no).await.unwrap() else { panic!() };
    assert_eq!((record.status, record.note.as_deref()), (ApprovalStatus::Denied, Some("wrong file")));
    let story = house.story(call).await;
    assert_eq!((story.call.state, story.call.code), (CallState::Denied, Some(ReasonCode::DeniedByPerson)));
    assert_eq!(house.begin_approved(approval).await.unwrap(), Begun::Lost(CallState::Denied));
    // Both votes are in the trail, with what they led to.
    let facts: Vec<Value> = story
        .trail
        .iter()
        .filter(|row| row.kind == "approval_decided")
        .map(|row| serde_json::from_str(&row.facts).unwrap())
        .collect();
    assert_eq!((&facts[0]["status"], &facts[0]["verdict"]), (&json!("pending"), &json!("approve")));
    assert_eq!((&facts[1]["status"], &facts[1]["verdict"]), (&json!("denied"), &json!("deny")));
    assert!(story.payloads.iter().any(|(_, payload)| payload.name == "note" && payload.text == "wrong file"));
}

#[tokio::test]
async fn votes_are_refused_that_may_not_count() {
    let house = House::new().await;
    let not_allowed = async |approval: ApprovalId, name: &str, role: Role, verdict: Verdict| {
        let outcome = house.calls.vote(vote(approval, 1, name, role, verdict)).await.unwrap();
        let VoteOutcome::NotAllowed(record, why) = outcome else { panic!("{name}: {outcome:?}") };
        assert_eq!(record.status, ApprovalStatus::Pending);
        why
    };
    let (_, two) = house.held_for(2).await;
    for role in [Role::Viewer, Role::Client] {
        for verdict in [YES, NO] {
            assert!(not_allowed(two, "eve", role, verdict).await.contains("approver or admin"));
        }
    }
    assert!(not_allowed(two, "asker", Role::Admin, YES).await.contains("whoever asked"));
    let counted = house.calls.vote(vote(two, 1, "one", Role::Approver, YES)).await.unwrap();
    assert!(matches!(counted, VoteOutcome::Counted(_)));
    assert!(not_allowed(two, "one", Role::Approver, YES).await.contains("already"));
    // A yes can be taken back.
    let taken_back = house.calls.vote(vote(two, 1, "one", Role::Approver, NO)).await.unwrap();
    let VoteOutcome::Decided(record) = taken_back else { panic!("{taken_back:?}") };
    assert_eq!((record.status, record.votes.len()), (ApprovalStatus::Denied, 1));

    // Where one is enough, whoever asked may decide, but not with another role than the rule names.
    let asked = house.gate.asks("write", json!({"path": "a"})).await;
    let approval = house.approval(1, &[Role::Admin]);
    let id = approval.id;
    house.calls.hold(asked.call, asked.ruling, approval, RevisionId(1)).await.unwrap();
    assert!(not_allowed(id, "asker", Role::Approver, YES).await.contains("role"));
    let decided = house.calls.vote(vote(id, 1, "asker", Role::Admin, YES)).await.unwrap();
    assert!(matches!(decided, VoteOutcome::Decided(_)), "{decided:?}");

    let nowhere = house.calls.vote(vote(ApprovalId::random(), 1, "one", Role::Admin, YES)).await.unwrap();
    assert!(matches!(nowhere, VoteOutcome::NotFound));
    assert!(matches!(house.calls.approval(ApprovalId::random()).await, Err(StoreError::Corrupt(_))));
    house.assert_whole().await;
}

#[tokio::test]
async fn a_vote_for_an_earlier_version_does_not_count() {
    let house = House::new().await;
    let (_, approval) = house.held().await;
    for version in [0, 2, i64::MAX] {
        let outcome = house.calls.vote(vote(approval, version, "boss", Role::Admin, YES)).await.unwrap();
        assert!(matches!(outcome, VoteOutcome::Stale(_)), "{outcome:?}");
    }
    assert_eq!(house.calls.approval(approval).await.unwrap().status, ApprovalStatus::Pending);
}

#[tokio::test]
async fn time_is_judged_by_the_stores_clock_inside_the_transaction() {
    // At the deadline, one before it, after a long suspension, and with the clock set back before the beginning.
    type Change = fn(&House);
    let cases: [(&str, Change, bool); 4] = [
        ("one millisecond before the deadline", |house| house.clock.advance(LIMIT_MS - 1), false),
        ("at the deadline", |house| house.clock.advance(LIMIT_MS), true),
        (
            "wall clock set back while the time ran",
            |house| {
                house.clock.advance(LIMIT_MS);
                house.clock.step_wall(-LIMIT_MS / 2);
            },
            true,
        ),
        ("wall clock before the beginning", |house| house.clock.step_wall(-1), true),
    ];
    for (name, change, over) in cases {
        let house = House::new().await;
        let (call, approval) = house.held().await;
        change(&house);
        let outcome = house.calls.vote(vote(approval, 1, "boss", Role::Admin, YES)).await.unwrap();
        let state = house.story(call).await.call.state;
        if over {
            let VoteOutcome::Expired(record) = outcome else { panic!("{name}: {outcome:?}") };
            assert_eq!(
                (record.status, record.decided_by.as_deref()),
                (ApprovalStatus::Expired, Some("timer"))
            );
            assert_eq!(state, CallState::Expired, "{name}");
            assert_eq!(house.story(call).await.call.code, Some(ReasonCode::Expired));
        } else {
            assert!(matches!(outcome, VoteOutcome::Decided(_)), "{name}: {outcome:?}");
            assert_eq!(state, CallState::Approved, "{name}");
        }
        house.assert_whole().await;
    }
}

#[tokio::test]
async fn closing_takes_what_it_may_and_no_more() {
    let house = House::new().await;
    let close = async |id, closing| house.calls.close(id, closing).await.unwrap();
    let approve = async |id| {
        let outcome = house.calls.vote(vote(id, 1, "boss", Role::Admin, YES)).await.unwrap();
        assert!(matches!(outcome, VoteOutcome::Decided(_)));
    };
    // Not yet due.
    let (call, early) = house.held().await;
    let Closed::Lost(record) = close(early, Closing::Expired).await else { panic!() };
    assert_eq!(record.status, ApprovalStatus::Pending);
    assert_eq!(house.story(call).await.call.state, CallState::Pending);

    for (closing, approved, status, state, code) in [
        (Closing::Withdrawn, false, ApprovalStatus::Withdrawn, CallState::Withdrawn, ReasonCode::Withdrawn),
        (Closing::Withdrawn, true, ApprovalStatus::Void, CallState::Withdrawn, ReasonCode::Withdrawn),
        (Closing::ToolChanged, false, ApprovalStatus::Denied, CallState::Denied, ReasonCode::ToolChanged),
        (Closing::ToolChanged, true, ApprovalStatus::Void, CallState::Denied, ReasonCode::ToolChanged),
    ] {
        let (call, id) = house.held().await;
        if approved {
            approve(id).await;
        }
        assert!(matches!(close(id, closing).await, Closed::Won));
        let story = house.story(call).await;
        assert_eq!(story.approval.unwrap().status, status, "{closing:?} {approved}");
        assert_eq!((story.call.state, story.call.code), (state, Some(code)));
        // It is closed for good.
        assert!(matches!(close(id, closing).await, Closed::Lost(_)));
        assert_eq!(house.begin_approved(id).await.unwrap(), Begun::Lost(state));
        let late = house.calls.vote(vote(id, 1, "boss", Role::Admin, YES)).await.unwrap();
        assert!(matches!(late, VoteOutcome::AlreadyDecided(_)));
    }

    // What was approved in time does not expire; what runs cannot be closed.
    let (_, id) = house.held().await;
    approve(id).await;
    house.clock.advance(LIMIT_MS);
    assert!(matches!(close(id, Closing::Expired).await, Closed::Lost(_)));
    assert_eq!(house.begin_approved(id).await.unwrap(), Begun::Started);
    for closing in [Closing::Expired, Closing::Withdrawn, Closing::ToolChanged] {
        let Closed::Lost(record) = close(id, closing).await else { panic!() };
        assert_eq!(record.status, ApprovalStatus::Consumed);
    }
    house.assert_whole().await;
}

#[tokio::test]
async fn an_approval_covers_its_own_action_alone() {
    let house = House::new().await;
    let (call, id) = house.held().await;
    house.calls.vote(vote(id, 1, "boss", Role::Admin, YES)).await.unwrap();
    let other = house.gate.asks("write", json!({"path": "b"})).await;
    let action = other.call.frozen.as_ref().unwrap().action();
    let begun = house.calls.begin_approved(id, action, other.ruling, other.expect).await.unwrap();
    assert_eq!(begun, Begun::Lost(CallState::Approved));
    assert_eq!(house.story(call).await.call.state, CallState::Approved);
}

/// The kind: what was approved is not what runs, because the record changed in between.
#[tokio::test]
async fn f25_a_row_altered_by_hand_between_question_and_answer_is_not_run() {
    let house = House::new().await;
    let (call, id) = house.held().await;
    let asked = house.gate.asks("write", json!({"path": "a"})).await;
    let action: ActionDigest = asked.call.frozen.as_ref().unwrap().action();
    let zeros = "0".repeat(64);
    house.tamper(&format!("UPDATE approvals SET action = '{zeros}' WHERE id = '{id}'")).await;
    house.calls.vote(vote(id, 1, "boss", Role::Admin, YES)).await.unwrap();
    let begun = house.calls.begin_approved(id, action, asked.ruling, asked.expect).await.unwrap();
    assert_eq!(begun, Begun::Lost(CallState::Approved));

    // The arguments that the person was shown.
    let (shown, id) = house.held().await;
    let row = house.story(shown).await.call.requested_seq;
    house
        .tamper(&format!(
            "DROP TRIGGER audit_payloads_no_update; \
             UPDATE audit_payloads SET text = '{{\"path\":\"harmless\"}}' WHERE seq = {row} AND name = 'arguments'"
        ))
        .await;
    house.calls.vote(vote(id, 1, "boss", Role::Admin, YES)).await.unwrap();
    assert!(matches!(house.begin_approved(id).await, Err(StoreError::Corrupt(_))));
    for call in [call, shown] {
        assert!(!house.kinds(call).await.contains(&"execution_started".to_owned()));
    }
}

#[tokio::test]
async fn facts_that_moved_after_the_yes_send_it_back_to_the_rules() {
    let house = House::new().await;
    let (call, id) = house.held().await;
    house.calls.vote(vote(id, 1, "boss", Role::Admin, YES)).await.unwrap();
    house.store.policies().append(crate::support::rules(), None, "admin", "again", "test").await.unwrap();
    let head = house.store.audit().head().await.unwrap();
    assert_eq!(house.begin_approved(id).await.unwrap(), Begun::Moved);
    assert_eq!(house.store.audit().head().await.unwrap(), head);
    assert_eq!(house.story(call).await.approval.unwrap().status, ApprovalStatus::Approved);
}

#[tokio::test]
async fn an_approved_call_can_still_be_refused_by_the_rules_of_the_moment() {
    let house = House::new().await;
    let (call, id) = house.held().await;
    house.calls.vote(vote(id, 1, "boss", Role::Admin, YES)).await.unwrap();
    let denied = house.gate.asks("delete", json!({})).await.ruling;
    house.calls.refuse_approved(id, denied.clone()).await.unwrap();
    let story = house.story(call).await;
    assert_eq!((story.call.state, story.call.code), (CallState::Denied, Some(ReasonCode::Rule)));
    let approval = story.approval.unwrap();
    assert_eq!((approval.status, approval.decided_by.as_deref()), (ApprovalStatus::Void, Some("policy")));
    assert_eq!(story.evaluations.len(), 2);
    let rows = house.kinds(call).await.len();
    // It is refused already; nothing more is recorded.
    house.calls.refuse_approved(id, denied.clone()).await.unwrap();
    assert_eq!(house.kinds(call).await.len(), rows);

    let (_, running) = house.held().await;
    house.calls.vote(vote(running, 1, "boss", Role::Admin, YES)).await.unwrap();
    house.begin_approved(running).await.unwrap();
    assert!(house.calls.refuse_approved(running, denied).await.is_err(), "what runs cannot be refused");
}

#[tokio::test]
async fn more_approval_can_be_asked_for_with_the_votes_kept_and_the_deadline_too() {
    let house = House::new().await;
    let (call, id) = house.held().await;
    let ruling = house.gate.asks("write", json!({"path": "a"})).await.ruling;
    let terms = ApprovalTerms { roles: [Role::Approver].into(), approvers: 2 };
    let early = house.calls.ask_again(id, ruling.clone(), terms.clone()).await;
    assert!(early.is_err(), "nothing was approved yet");
    house.calls.vote(vote(id, 1, "one", Role::Approver, YES)).await.unwrap();
    let before = house.calls.approval(id).await.unwrap();
    house.clock.advance(1_000);
    assert_eq!(house.calls.ask_again(id, ruling.clone(), terms.clone()).await.unwrap(), Held::Pending);
    let after = house.calls.approval(id).await.unwrap();
    assert_eq!((after.status, after.version, &after.terms), (ApprovalStatus::Pending, 2, &terms));
    assert_eq!((&after.stamp, &after.votes), (&before.stamp, &before.votes));
    assert_eq!((after.decided_at_ms, &after.decided_by), (None, &None));
    let story = house.story(call).await;
    assert_eq!((story.call.state, story.call.decided_ms), (CallState::Pending, None));
    assert_eq!(house.begin_approved(id).await.unwrap(), Begun::Lost(CallState::Pending));

    let stale = house.calls.vote(vote(id, 1, "two", Role::Approver, YES)).await.unwrap();
    assert!(matches!(stale, VoteOutcome::Stale(_)));
    let same = house.calls.vote(vote(id, 2, "one", Role::Approver, YES)).await.unwrap();
    assert!(matches!(same, VoteOutcome::NotAllowed(..)));
    let VoteOutcome::Decided(record) =
        house.calls.vote(vote(id, 2, "two", Role::Approver, YES)).await.unwrap()
    else {
        panic!()
    };
    assert_eq!((record.status, record.votes.len()), (ApprovalStatus::Approved, 2));
    assert_eq!(house.begin_approved(id).await.unwrap(), Begun::Started);

    // Rules that moved meanwhile are evaluated again first.
    let (_, id) = house.held().await;
    house.calls.vote(vote(id, 1, "one", Role::Approver, YES)).await.unwrap();
    house.store.policies().append(crate::support::rules(), None, "admin", "again", "test").await.unwrap();
    assert_eq!(house.calls.ask_again(id, ruling, terms).await.unwrap(), Held::Moved);
    assert_eq!(house.calls.approval(id).await.unwrap().status, ApprovalStatus::Approved);
    house.assert_whole().await;
}
