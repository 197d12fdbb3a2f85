//! Reading the trail.

use crate::support::{House, asker, completed, conversation, vote};
use serde_json::json;
use sluicegate_gateway::audit::EventKind;
use sluicegate_gateway::{CallState, CallStore as _, Verdict};
use sluicegate_policy::Role;
use sluicegate_store::{AuditFilter, AuditStart};

#[tokio::test]
async fn pages_go_back_from_the_latest_and_forward_for_exports_without_gap_or_repeat() {
    let house = House::new().await;
    for _ in 0..5 {
        let asked = house.gate.asks("read", json!({})).await;
        house.calls.begin(asked.call, asked.ruling, asked.expect).await.unwrap();
    }
    let audit = house.store.audit();
    let all = AuditFilter::default();
    let mut back = Vec::new();
    let mut start = AuditStart::Latest;
    loop {
        let page = audit.rows(&all, start, 4).await.unwrap();
        assert!(page.rows.len() <= 4);
        back.extend(page.rows.iter().map(|row| row.seq));
        match page.next {
            Some(next) => start = AuditStart::Before(next),
            None => break,
        }
    }
    let mut forward = Vec::new();
    let mut start = AuditStart::After(0);
    loop {
        let page = audit.rows(&all, start, 3).await.unwrap();
        forward.extend(page.rows.iter().map(|row| row.seq));
        match page.next {
            Some(next) => start = AuditStart::After(next),
            None => break,
        }
    }
    assert_eq!(forward, (1..=17).collect::<Vec<i64>>());
    back.reverse();
    assert_eq!(back, forward);
    // A page has a bound of its own.
    assert_eq!(audit.rows(&all, AuditStart::Latest, u32::MAX).await.unwrap().rows.len(), 17);
    assert_eq!(audit.rows(&all, AuditStart::Latest, 0).await.unwrap().rows.len(), 1);
}

#[tokio::test]
async fn each_filter_finds_its_rows_and_no_others() {
    let house = House::new().await;
    let asked = house.gate.asks("delete", json!({"path": "secret-value"})).await;
    let denied = asked.call.id;
    house.calls.record_denied(asked.call, asked.ruling).await.unwrap();
    house.clock.advance(1_000);
    let other = conversation("c-2");
    let asked = house.gate.asks_as("read", json!({}), asker(), Some(other.clone())).await;
    let read = asked.call.id;
    house.calls.begin(asked.call, asked.ruling, asked.expect).await.unwrap();
    house.calls.finish(read, completed("secret-value")).await.unwrap();
    house.clock.advance(1_000);
    let (held, approval) = house.held().await;
    house.calls.vote(vote(approval, 1, "boss", Role::Admin, Verdict::Deny)).await.unwrap();

    let start = crate::support::START_MS;
    let kinds = |filter: AuditFilter| {
        let audit = house.store.audit();
        async move {
            let mut rows = audit.rows(&filter, AuditStart::After(0), 100).await.unwrap().rows;
            rows.retain(|row| row.kind != "person_changed" && row.kind != "policy_changed");
            rows.into_iter().map(|row| (row.call.unwrap_or_default(), row.kind)).collect::<Vec<_>>()
        }
    };
    let of = |call: sluicegate_gateway::CallId| {
        let house = &house;
        async move { house.kinds(call).await.into_iter().map(|kind| (call.to_string(), kind)).collect::<Vec<_>>() }
    };
    let default = AuditFilter::default;
    let cases = [
        (AuditFilter { call: Some(denied), ..default() }, vec![denied]),
        (AuditFilter { tool: Some("read".to_owned()), ..default() }, vec![read]),
        (AuditFilter { server: Some("files".to_owned()), ..default() }, vec![denied, read, held]),
        (AuditFilter { server: Some("file".to_owned()), ..default() }, vec![]),
        (AuditFilter { state: Some(CallState::Denied), ..default() }, vec![denied, held]),
        (AuditFilter { caller: Some(asker().principal.caller), ..default() }, vec![denied, read, held]),
        (AuditFilter { conversation: Some(other), ..default() }, vec![read]),
        (AuditFilter { from_ms: Some(start + 1), until_ms: Some(start + 2_000), ..default() }, vec![read]),
        (AuditFilter { from_ms: Some(start + 2_000), ..default() }, vec![held]),
    ];
    for (filter, calls) in cases {
        let mut expected = Vec::new();
        for call in calls {
            expected.extend(of(call).await);
        }
        assert_eq!(kinds(filter.clone()).await, expected, "{filter:?}");
    }
    let votes = kinds(AuditFilter { kind: Some(EventKind::ApprovalDecided), ..default() }).await;
    assert_eq!(votes, [(held.to_string(), "approval_decided".to_owned())]);
    // Text is found in facts and actors, with its own wildcards taken literally; payloads are not searched.
    let text = |text: &str| AuditFilter { text: Some(text.to_owned()), ..default() };
    assert_eq!(kinds(text("BOSS")).await, votes);
    assert_eq!(kinds(text("\"no_such")).await, []);
    assert_eq!(kinds(text("b%s")).await, []);
    assert_eq!(kinds(text("secret-value")).await, []);
}

#[tokio::test]
async fn payloads_of_a_row_are_read_apart() {
    let house = House::new().await;
    let asked = house.gate.asks("read", json!({"path": "a"})).await;
    let id = asked.call.id;
    house.calls.begin(asked.call, asked.ruling, asked.expect).await.unwrap();
    let trail = house.story(id).await.trail;
    let audit = house.store.audit();
    let names = async |seq| {
        let payloads = audit.payloads(seq).await.unwrap();
        payloads.into_iter().map(|payload| payload.name).collect::<Vec<_>>()
    };
    assert_eq!(names(trail[0].seq).await, ["arguments"]);
    assert_eq!(names(trail[1].seq).await, ["context", "decision"]);
    assert_eq!(names(trail[2].seq).await, Vec::<String>::new());
    assert_eq!(names(999).await, Vec::<String>::new());
}
