//! Approve, deny, expire and withdraw in the same instant: one winner, and the effect is what the winner says.

use crate::support::House;
use serde_json::json;
use sluicegate_gateway::{ApprovalStatus, CallState, Resolved, Verdict};

/// The kind: read-then-write on the decision.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn f26_two_hundred_rounds_have_one_winner_each() {
    let house = House::new().await;
    let mut seen = std::collections::BTreeMap::<CallState, usize>::new();
    for round in 0..200_u32 {
        let before = house.world.effects();
        let call = house.call("write", json!({"path": format!("{round}")}));
        let held = house.held().await;
        let answer = |name: &'static str, verdict| {
            let approvals = house.approvals.clone();
            async move { approvals.resolve(&House::approver(name), held.id, held.version, verdict, None).await }
        };
        let clock = house.clock.clone();
        let (approve, deny) = match round % 4 {
            0 => tokio::join!(
                tokio::spawn(answer("one", Verdict::Approve)),
                tokio::spawn(answer("two", Verdict::Deny))
            ),
            1 => {
                clock.advance(299_999);
                let race = tokio::spawn(async move { clock.advance(1) });
                let both = tokio::join!(
                    tokio::spawn(answer("one", Verdict::Approve)),
                    tokio::spawn(answer("two", Verdict::Deny))
                );
                race.await.unwrap();
                both
            }
            2 => {
                let approve = tokio::spawn(answer("one", Verdict::Approve));
                call.cancel();
                tokio::join!(approve, tokio::spawn(answer("two", Verdict::Deny)))
            }
            _ => tokio::join!(
                tokio::spawn(answer("one", Verdict::Approve)),
                tokio::spawn(answer("two", Verdict::Approve))
            ),
        };
        let winners = [approve.unwrap(), deny.unwrap()]
            .into_iter()
            .filter(|outcome| matches!(outcome, Ok(Resolved::Decided(_))))
            .count();
        assert!(winners <= 1, "round {round}");
        let answer = call.outcome().await;
        let story = house.store.call_reader().call(answer.call).await.unwrap().unwrap();
        assert_eq!(story.call.state, answer.state, "round {round}");
        let ran = house.world.effects() - before;
        let status = story.approval.unwrap().status;
        let expected = match answer.state {
            CallState::Completed => (1, ApprovalStatus::Consumed),
            CallState::Denied => (0, ApprovalStatus::Denied),
            CallState::Expired => (0, ApprovalStatus::Expired),
            CallState::Withdrawn => (0, ApprovalStatus::Withdrawn),
            other => panic!("round {round}: {other}"),
        };
        let void = status == ApprovalStatus::Void && answer.state == CallState::Withdrawn;
        assert!(
            (ran, status) == expected || (ran == 0 && void),
            "round {round}: {ran} {status} {}",
            answer.state
        );
        *seen.entry(answer.state).or_default() += 1;
    }
    assert!(seen.len() >= 2, "the rounds should end in more than one way: {seen:?}");
}
