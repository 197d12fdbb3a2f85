//! token_budget and rate_limit: at the edge, at zero, unknown; and what must be counted.

use crate::fixtures::{call, decide, id, outcome, rules, tool};
use serde_json::{Value, json};
use sluicegate_policy::{
    CallerId, Decision, Mode, Origin, PolicyContext, Principal, RateSubject, Role, Tier, TokenUsage, evaluate,
};

fn all() -> Value {
    json!({ "id": "all", "kind": "allow_tool" })
}

fn budget(tokens: u64, per: &str) -> Value {
    json!([all(), { "id": "b", "kind": "token_budget", "limit": { "tokens": tokens, "per": per } }])
}

fn used(conversation: u64, caller_day: u64) -> PolicyContext {
    PolicyContext { token_usage: TokenUsage { conversation, caller_day }, ..call(json!({})) }
}

#[test]
fn f30_a_budget_ends_at_its_limit_and_zero_is_a_limit() {
    let (open, shut) = ("allow/rule by all", "deny/over_budget by b");
    for (limit, usage, expected) in [
        (10, 0, open),
        (10, 9, open),
        (10, 10, shut),
        (10, 11, shut),
        (0, 0, shut),
        (1, 0, open),
        (u64::MAX, u64::MAX, shut),
    ] {
        assert_eq!(decide(budget(limit, "conversation"), &used(usage, 0)), expected, "{usage} of {limit}");
        assert_eq!(
            decide(budget(limit, "caller_day"), &used(0, usage)),
            expected,
            "{usage} of {limit} a day"
        );
    }
    assert_eq!(decide(budget(10, "conversation"), &used(0, 1000)), open);
    assert_eq!(decide(budget(10, "caller_day"), &used(1000, 0)), open);
}

fn rate(calls: u64, extra: Value) -> Value {
    let mut rule = json!({ "id": "r", "kind": "rate_limit", "limit": { "calls": calls, "window": "1h", "per": "caller" } });
    for (key, value) in extra.as_object().unwrap() {
        rule[key] = value.clone();
    }
    json!([all(), rule])
}

fn ran(calls: u64, arguments: Value) -> PolicyContext {
    let mut context = call(arguments);
    context.counters.insert(id("r"), calls);
    context
}

fn judged(written: Value, context: &PolicyContext) -> Decision {
    evaluate(context, &rules(written))
}

#[test]
fn f30_a_rate_ends_at_its_limit_and_zero_is_a_limit() {
    let (open, shut) = ("allow/rule by all", "deny/over_rate by r");
    for (limit, calls, expected) in
        [(10, 0, open), (10, 9, open), (10, 10, shut), (10, 11, shut), (0, 0, shut), (1, 0, open)]
    {
        assert_eq!(decide(rate(limit, json!({})), &ran(calls, json!({}))), expected, "{calls} of {limit}");
    }
    assert_eq!(
        decide(rate(1, json!({ "on_violation": "require_approval" })), &ran(1, json!({}))),
        "require_approval/over_rate by r"
    );
}

#[test]
fn a_count_that_is_not_known_counts_as_reached() {
    assert_eq!(decide(rate(10, json!({})), &call(json!({}))), "deny/unevaluable by r");
}

#[test]
fn a_limit_with_conditions_is_about_calls_that_may_satisfy_them() {
    let when = json!({ "when": [{ "argument": "s", "op": "equals", "value": "x" }] });
    assert_eq!(decide(rate(1, when.clone()), &ran(1, json!({ "s": "x" }))), "deny/over_rate by r");
    assert_eq!(decide(rate(1, when.clone()), &ran(1, json!({ "s": "y" }))), "allow/rule by all");
    assert_eq!(decide(rate(1, when.clone()), &ran(1, json!({}))), "deny/unevaluable by r");
    // Under the limit it does not matter; and the call is counted unless it is surely not meant.
    for (arguments, counted) in [(json!({ "s": "x" }), 1), (json!({}), 1), (json!({ "s": "y" }), 0)] {
        let decision = judged(rate(1, when.clone()), &ran(0, arguments.clone()));
        assert_eq!(outcome(&decision), "allow/rule by all", "{arguments}");
        assert_eq!(decision.reserve.len(), counted, "{arguments}");
    }
}

#[test]
fn what_runs_under_a_rate_is_reserved() {
    let decision = judged(rate(10, json!({})), &ran(9, json!({})));
    let [query] = decision.reserve.as_slice() else { panic!("{decision:?}") };
    assert_eq!(query.rule, id("r"));
    assert_eq!(query.subject, RateSubject::Caller(CallerId::new("ada").unwrap()));
    assert_eq!((query.window_ms, query.limit, query.mode), (3_600_000, 10, Mode::Enforce));

    // Denied: nothing. Held for another reason: reserved. Held by the rate itself: not.
    let mut denied = rate(10, json!({})).as_array().unwrap().clone();
    denied.push(json!({ "id": "x", "kind": "block_tool" }));
    assert!(judged(json!(denied), &ran(9, json!({}))).reserve.is_empty());
    let mut held = rate(10, json!({})).as_array().unwrap().clone();
    held.push(json!({ "id": "x", "kind": "require_approval" }));
    assert_eq!(judged(json!(held), &ran(9, json!({}))).reserve.len(), 1);
    let by_rate = judged(rate(10, json!({ "on_violation": "require_approval" })), &ran(10, json!({})));
    assert!(by_rate.reserve.is_empty() && by_rate.hold.is_some());
    // A shadow rule is counted, and says so; a switched-off one is not.
    let shadow = judged(rate(10, json!({ "mode": "shadow" })), &ran(9, json!({})));
    assert_eq!(shadow.reserve.iter().map(|query| query.mode).collect::<Vec<_>>(), [Mode::Shadow]);
    assert!(judged(rate(10, json!({ "enabled": false })), &ran(9, json!({}))).reserve.is_empty());
    assert_eq!(decide(rate(10, json!({ "mode": "shadow" })), &ran(10, json!({}))), "allow/rule by all");
}

#[test]
fn rate_rules_names_what_to_count_before_deciding() {
    let limit = |per: &str| json!({ "calls": 3, "window": "90s", "per": per });
    let set = rules(json!([
        { "id": "by-caller", "kind": "rate_limit", "match": { "server": "files" }, "limit": limit("caller") },
        { "id": "by-tool", "kind": "rate_limit", "match": { "tool": "wr*" }, "limit": limit("tool") },
        { "id": "by-server", "kind": "rate_limit", "mode": "shadow", "limit": limit("server") },
        { "id": "off", "kind": "rate_limit", "enabled": false, "limit": limit("server") },
        { "id": "elsewhere", "kind": "rate_limit", "match": { "server": "home" }, "limit": limit("server") },
        { "id": "high", "kind": "rate_limit", "match": { "tier": "high" }, "limit": limit("server") },
        { "id": "mcp", "kind": "rate_limit", "match": { "origin": "mcp" }, "limit": limit("server") },
        { "id": "admins", "kind": "rate_limit", "match": { "role": "admin" }, "limit": limit("server") },
        { "id": "bob", "kind": "rate_limit", "match": { "caller": "bob" }, "limit": limit("server") },
        { "id": "allow", "kind": "allow_tool" },
    ]));
    let principal = Principal { caller: CallerId::new("ada").unwrap(), role: Role::Approver };
    let queries = set.rate_rules(&tool("files", "write"), Tier::Safe, &principal, Origin::Chat);
    let listed: Vec<String> = queries
        .iter()
        .map(|q| format!("{} {} {} {} {}", q.rule, q.subject.key(), q.window_ms, q.limit, q.mode))
        .collect();
    assert_eq!(
        listed,
        [
            "by-caller caller:ada 90000 3 enforce",
            "by-server server:files 90000 3 shadow",
            "by-tool tool:files/write 90000 3 enforce",
        ]
    );
    // All that evaluation will ask for is in the list: with these counted, nothing is unevaluable.
    let mut context = call(json!({}));
    context.tier = Tier::Safe;
    context.counters = queries.into_iter().map(|query| (query.rule, 0)).collect();
    let decision = evaluate(&context, &set);
    assert_eq!(outcome(&decision), "allow/rule by allow");
    assert_eq!(decision.reserve.len(), 3);
}
