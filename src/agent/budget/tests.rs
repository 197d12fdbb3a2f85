use super::*;
use serde_json::json;
use sluicegate_policy::{CallerId, Role};

fn document(rules: serde_json::Value) -> PolicyDocument {
    serde_json::from_value(json!({ "version": 1, "rules": rules })).unwrap()
}

fn ids(document: &PolicyDocument, conversation: u64, caller_day: u64) -> Vec<String> {
    let principal = Principal { caller: CallerId::new("chat:ann").unwrap(), role: Role::Approver };
    let usage = TokenUsage { conversation, caller_day };
    let id = ConversationId::new("c1").unwrap();
    reached(document, &id, &principal, usage).unwrap().iter().map(ToString::to_string).collect()
}

#[test]
fn f08_a_budget_is_reached_at_its_limit_and_zero_means_none() {
    let rules = document(json!([
        { "id": "chat", "kind": "token_budget", "limit": { "tokens": 1000, "per": "conversation" } },
        { "id": "day", "kind": "token_budget", "limit": { "tokens": 5000, "per": "caller_day" } },
    ]));
    assert_eq!(ids(&rules, 999, 4_999), [""; 0]);
    assert_eq!(ids(&rules, 1_000, 0), ["chat"]);
    assert_eq!(ids(&rules, 0, 5_000), ["day"]);
    let zero = document(json!([
        { "id": "none", "kind": "token_budget", "limit": { "tokens": 0, "per": "conversation" } },
    ]));
    assert_eq!(ids(&zero, 0, 0), ["none"]);
}

#[test]
fn only_budgets_that_surely_are_about_an_answer_end_a_turn() {
    let limit = json!({ "tokens": 10, "per": "conversation" });
    let about = |extra: serde_json::Value| {
        let mut rule = json!({ "id": "r", "kind": "token_budget", "limit": limit });
        for (key, value) in extra.as_object().unwrap() {
            rule[key] = value.clone();
        }
        ids(&document(json!([rule])), 10, 10).len()
    };
    assert_eq!(about(json!({})), 1);
    assert_eq!(about(json!({ "match": { "caller": "chat:*" } })), 1);
    assert_eq!(about(json!({ "match": { "role": "approver", "origin": "chat" } })), 1);
    assert_eq!(about(json!({ "match": { "caller": "chat:bob" } })), 0);
    assert_eq!(about(json!({ "match": { "origin": "mcp" } })), 0);
    assert_eq!(about(json!({ "match": { "tool": "send_message" } })), 0);
    assert_eq!(about(json!({ "enabled": false })), 0);
    assert_eq!(about(json!({ "mode": "shadow" })), 0);
    assert_eq!(about(json!({ "on_violation": "require_approval" })), 0);
}

#[test]
fn the_line_names_rule_and_numbers() {
    let rules = document(json!([
        { "id": "chat", "kind": "token_budget", "limit": { "tokens": 1000, "per": "conversation" } },
    ]));
    let usage = TokenUsage { conversation: 1_234, caller_day: 9_999 };
    let line = line(&rules, &[RuleId::new("chat").unwrap()], usage);
    assert!(line.contains("rule `chat`: 1234 of 1000 tokens used in this conversation"), "{line}");
}

#[test]
fn f08_of_twenty_chats_that_start_at_once_each_sees_those_before_it() {
    let reservations = Reservations::default();
    let barrier = std::sync::Barrier::new(20);
    let reserved: Vec<Reserved> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..20)
            .map(|_| {
                scope.spawn(|| {
                    barrier.wait();
                    reservations.reserve("chat:ann", 500)
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let mut earlier: Vec<_> = reserved.iter().map(Reserved::earlier).collect();
    earlier.sort_unstable();
    assert_eq!(earlier, (0..20).map(|n| n * 1_500).collect::<Vec<_>>(), "of all, exactly one is first");
    assert_eq!(reservations.reserve("chat:bob", 1).earlier(), 0, "others do not count");
    drop(reserved);
    assert_eq!(reservations.reserve("chat:ann", 1).earlier(), 0, "given back");
}
