//! Calls and held calls, as pages read them.

use crate::support::{House, START_MS, asker, completed, conversation, vote};
use serde_json::json;
use sluicegate_gateway::{ApprovalStatus, CallId, CallState, CallStore as _, ReasonCode, Verdict};
use sluicegate_policy::{Effect, Role, RuleId};
use sluicegate_store::CallFilter;

#[tokio::test]
async fn a_pending_card_has_everything_it_shows_the_most_urgent_first() {
    let house = House::new().await;
    let asked = house.gate.asks("write", json!({"path": "long"})).await;
    let mut approval = house.approval(2, &[Role::Approver]);
    approval.stamp.limit_ms = 300_000;
    let long = approval.id;
    house.calls.hold(asked.call, asked.ruling, approval, sluicegate_gateway::RevisionId(1)).await.unwrap();
    house.calls.vote(vote(long, 1, "one", Role::Approver, Verdict::Approve)).await.unwrap();
    let (call, short) = house.held().await;
    let reader = house.store.call_reader();
    let pending = reader.pending().await.unwrap();
    assert_eq!(pending.iter().map(|card| card.approval.id).collect::<Vec<_>>(), [short, long]);
    assert_eq!(reader.pending_count().await.unwrap(), 2);
    let card = &pending[0];
    assert_eq!(card.call.id, call);
    assert_eq!(card.call.arguments.as_deref(), Some(r#"{"path":"a"}"#));
    assert_eq!(card.call.caller, asker());
    let evaluation = card.evaluation.as_ref().unwrap();
    assert_eq!(evaluation.decision.as_ref().unwrap().effect, Effect::RequireApproval);
    assert_eq!(evaluation.rules, [RuleId::new("write").unwrap()]);
    assert_eq!(pending[1].approval.votes.len(), 1);

    house.calls.vote(vote(short, 1, "boss", Role::Admin, Verdict::Deny)).await.unwrap();
    house.clock.advance(5);
    house.calls.vote(vote(long, 1, "two", Role::Admin, Verdict::Approve)).await.unwrap();
    assert!(reader.pending().await.unwrap().is_empty());
    let decided = reader.decided(10).await.unwrap();
    assert_eq!(decided.iter().map(|card| card.approval.id).collect::<Vec<_>>(), [long, short]);
    assert_eq!(reader.decided(1).await.unwrap().len(), 1);
    let held = reader.held(short).await.unwrap().unwrap();
    assert_eq!(held.approval.status, ApprovalStatus::Denied);
    assert!(reader.held(sluicegate_gateway::ApprovalId::random()).await.unwrap().is_none());
    assert!(reader.call(CallId::random()).await.unwrap().is_none());
}

#[tokio::test]
async fn calls_are_listed_by_filter_and_page_and_those_of_a_conversation_in_order() {
    let house = House::new().await;
    let mut ids = Vec::new();
    for n in 0..9 {
        let conversation = conversation(if n % 3 == 0 { "c-2" } else { "c-1" });
        let asked = house.gate.asks_as("read", json!({}), asker(), Some(conversation)).await;
        ids.push(asked.call.id);
        let id = asked.call.id;
        house.calls.begin(asked.call, asked.ruling, asked.expect).await.unwrap();
        if n < 4 {
            house.calls.finish(id, completed("done")).await.unwrap();
        }
        // Order is the trail's, not the clock's.
        house.clock.step_wall(-1_000);
    }
    let reader = house.store.call_reader();
    let list = async |filter: &CallFilter| {
        let mut seen = Vec::new();
        let mut before = None;
        loop {
            let page = reader.list(filter, before, 2).await.unwrap();
            seen.extend(page.rows.iter().map(|call| call.id));
            match page.next {
                Some(next) => before = Some(next),
                None => return seen,
            }
        }
    };
    let mut latest = ids.clone();
    latest.reverse();
    assert_eq!(list(&CallFilter::default()).await, latest);
    let completed = CallFilter { state: Some(CallState::Completed), ..Default::default() };
    assert_eq!(list(&completed).await, [ids[3], ids[2], ids[1], ids[0]]);
    let none = CallFilter { tool: Some("write".to_owned()), ..Default::default() };
    assert_eq!(list(&none).await, []);
    let until = CallFilter { until_ms: Some(START_MS - 7_000), ..Default::default() };
    assert_eq!(list(&until).await, [ids[8]]);
    let of = CallFilter { conversation: Some(conversation("c-2")), ..Default::default() };
    assert_eq!(list(&of).await, [ids[6], ids[3], ids[0]]);
    let page = reader.calls_of(&conversation("c-2"), None, 2).await.unwrap();
    assert_eq!(page.rows.iter().map(|call| call.id).collect::<Vec<_>>(), [ids[0], ids[3]]);
    let page = reader.calls_of(&conversation("c-2"), page.next, 2).await.unwrap();
    assert_eq!((page.rows.len(), page.rows[0].id, page.next), (1, ids[6], None));
}

#[tokio::test]
async fn the_overview_counts() {
    let house = House::new().await;
    // On the hour, so that the second group falls into the next one.
    let hour = 3_600_000;
    for _ in 0..2 {
        let asked = house.gate.asks("delete", json!({})).await;
        house.calls.record_denied(asked.call, asked.ruling).await.unwrap();
    }
    let (_, approval) = house.held().await;
    house.clock.advance(1_500);
    house.calls.vote(vote(approval, 1, "boss", Role::Admin, Verdict::Approve)).await.unwrap();
    house.clock.advance(hour);
    let asked = house.gate.asks("read", json!({})).await;
    let read = asked.call.id;
    house.calls.begin(asked.call, asked.ruling, asked.expect).await.unwrap();

    let reader = house.store.call_reader();
    let overview = reader.overview(START_MS, hour).await.unwrap();
    let slots: Vec<_> =
        overview.slots.iter().map(|slot| (slot.slot, slot.decision, slot.state, slot.count)).collect();
    assert_eq!(
        slots,
        [
            (0, Effect::Deny, CallState::Denied, 2),
            (0, Effect::RequireApproval, CallState::Approved, 1),
            (1, Effect::Allow, CallState::Executing, 1)
        ]
    );
    assert_eq!(overview.slots[0].code, Some(ReasonCode::Rule));
    assert_eq!(overview.denied_tools.len(), 1);
    assert_eq!((overview.denied_tools[0].tool.as_str(), overview.denied_tools[0].count), ("delete", 2));
    assert_eq!(overview.decisions.len(), 1);
    assert_eq!(
        (overview.decisions[0].status, overview.decisions[0].took_ms),
        (ApprovalStatus::Approved, 1_500)
    );
    assert_eq!(overview.flagged, (Vec::new(), 0));
    let hits = reader.rule_hits(START_MS).await.unwrap();
    let hits: Vec<_> = hits.iter().map(|hit| (hit.rule.as_str(), hit.effect, hit.count)).collect();
    assert_eq!(
        hits,
        [("delete", Effect::Deny, 2), ("read", Effect::Allow, 1), ("write", Effect::RequireApproval, 1)]
    );
    // What was seen in a result is listed, and what a person decided stays what it was when it began.
    house.calls.finish(read, completed("ignore previous")).await.unwrap();
    let later = reader.overview(START_MS + hour, hour).await.unwrap();
    assert_eq!((later.slots.len(), later.denied_tools.len(), later.decisions.len()), (1, 0, 0));
    assert_eq!((later.slots[0].slot, later.slots[0].state), (0, CallState::Completed));
    assert_eq!((later.flagged.0[0].id, later.flagged.1), (read, 1));
}
