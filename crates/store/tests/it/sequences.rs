//! Any sequence of commands on one held call, against a model of what may happen.

use crate::support::{House, LIMIT_MS, completed, vote};
use proptest::prelude::*;
use serde_json::json;
use sluicegate_gateway::{
    ApprovalStatus, ApprovalTerms, Begun, CallState, CallStore as _, Closing, Held, Verdict, VoteOutcome,
};
use sluicegate_policy::Role;

#[derive(Clone, Copy, Debug)]
enum Step {
    Vote { person: u8, verdict: Verdict, version: i64 },
    Close(Closing),
    Begin,
    Refuse,
    AskAgain,
    Finish,
    Wait(i64),
    Reconcile,
}

fn step() -> impl Strategy<Value = Step> {
    let closing = prop_oneof![Just(Closing::Expired), Just(Closing::Withdrawn), Just(Closing::ToolChanged)];
    prop_oneof![
        6 => (0..4_u8, prop_oneof![4 => Just(Verdict::Approve), 1 => Just(Verdict::Deny)], 1..3_i64)
            .prop_map(|(person, verdict, version)| Step::Vote { person, verdict, version }),
        2 => closing.prop_map(Step::Close),
        4 => Just(Step::Begin),
        1 => Just(Step::Refuse),
        2 => Just(Step::AskAgain),
        2 => Just(Step::Finish),
        1 => (0..LIMIT_MS / 2).prop_map(Step::Wait),
        1 => Just(Step::Reconcile),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn whatever_is_tried_a_call_runs_at_most_once_and_only_when_approved(
        approvers in 1..3_u32,
        steps in prop::collection::vec(step(), 1..24),
    ) {
        tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap()
            .block_on(walk(approvers, &steps));
    }
}

async fn walk(approvers: u32, steps: &[Step]) {
    let house = House::new().await;
    let (call, approval) = house.held_for(approvers).await;
    let mut state = CallState::Pending;
    let mut begun = 0;
    for step in steps {
        let status = house.calls.approval(approval).await.unwrap().status;
        let over = house
            .calls
            .approval(approval)
            .await
            .unwrap()
            .stamp
            .passed(&sluicegate_gateway::Clock::now(&house.clock));
        match *step {
            Step::Vote { person, verdict, version } => {
                let cast = vote(approval, version, &format!("p{person}"), Role::Approver, verdict);
                let outcome = house.calls.vote(cast).await.unwrap();
                let counted = matches!(outcome, VoteOutcome::Decided(_) | VoteOutcome::Counted(_));
                assert!(!counted || (status == ApprovalStatus::Pending && !over), "{outcome:?}");
            }
            Step::Close(closing) => drop(house.calls.close(approval, closing).await.unwrap()),
            Step::Begin => {
                let outcome = house.begin_approved(approval).await.unwrap();
                assert_eq!(
                    outcome == Begun::Started,
                    status == ApprovalStatus::Approved,
                    "{outcome:?} at {status}"
                );
                begun += usize::from(outcome == Begun::Started);
            }
            Step::Refuse => {
                let ruling = house.gate.asks("delete", json!({})).await.ruling;
                let refused = house.calls.refuse_approved(approval, ruling).await;
                let open = matches!(status, ApprovalStatus::Pending | ApprovalStatus::Consumed);
                assert_eq!(refused.is_err(), open, "{refused:?} at {status}");
            }
            Step::AskAgain => {
                let ruling = house.gate.asks("write", json!({"path": "a"})).await.ruling;
                let terms = ApprovalTerms { roles: [Role::Approver].into(), approvers: 3 };
                let asked = house.calls.ask_again(approval, ruling, terms).await;
                assert_eq!(matches!(asked, Ok(Held::Pending)), status == ApprovalStatus::Approved);
            }
            Step::Finish => {
                let finished = house.calls.finish(call, completed("done")).await;
                assert_eq!(finished.is_ok(), state == CallState::Executing);
            }
            Step::Wait(ms) => house.clock.advance(ms),
            Step::Reconcile => drop(house.calls.reconcile().await.unwrap()),
        }
        let story = house.story(call).await;
        let now = story.call.state;
        assert!(now == state || state.may_become(now), "{step:?}: from {state} to {now}");
        state = now;
        let expected = match story.approval.unwrap().status {
            ApprovalStatus::Pending => vec![CallState::Pending],
            ApprovalStatus::Approved => vec![CallState::Approved],
            ApprovalStatus::Expired => vec![CallState::Expired],
            ApprovalStatus::Withdrawn => vec![CallState::Withdrawn],
            ApprovalStatus::Denied => vec![CallState::Denied],
            ApprovalStatus::Void => vec![CallState::Denied, CallState::Withdrawn],
            ApprovalStatus::Consumed => vec![CallState::Executing, CallState::Completed, CallState::Unknown],
        };
        assert!(expected.contains(&state), "{step:?}: {state}");
        let intents = story.trail.iter().filter(|row| row.kind == "execution_started").count();
        assert_eq!(intents, begun);
        assert!(begun <= 1);
    }
    house.assert_whole().await;
}
