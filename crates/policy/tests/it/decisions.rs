//! What a decision says of itself: terms of the hold, what was considered, the sentence.

use crate::fixtures::{DEFAULTS, call, document, id, rules};
use serde_json::{Value, json};
use sluicegate_policy::{
    ApprovalDefaults, Because, Decision, Effect, Part, PolicyContext, Role, Tier, TokenUsage, Verdict, Why,
    evaluate,
};

fn hold(id: &str, terms: Value) -> Value {
    json!({ "id": id, "kind": "require_approval", "approval": terms })
}

fn terms(written: Value, tier: Tier) -> (u32, Vec<Role>, u32) {
    let decision = evaluate(&PolicyContext { tier, ..call(json!({})) }, &rules(written));
    assert_eq!(decision.effect, Effect::RequireApproval);
    let hold = decision.hold.unwrap();
    (hold.timeout_s, hold.roles.into_iter().collect(), hold.approvers)
}

#[test]
fn several_holds_give_the_shortest_time_all_roles_and_the_most_approvers() {
    use Role::{Admin, Approver};
    assert_eq!(terms(json!([hold("a", json!({}))]), Tier::Safe), (300, vec![Approver], 1));
    assert_eq!(terms(json!([hold("a", json!({}))]), Tier::High), (60, vec![Approver], 1));
    let two = json!([
        hold("a", json!({ "timeout": "10m", "role": "admin" })),
        hold("b", json!({ "timeout": "5m", "count": 2 })),
    ]);
    assert_eq!(terms(two, Tier::Moderate), (300, vec![Admin], 2));
    let three = json!([
        hold("a", json!({ "timeout": "30s", "role": "admin" })),
        hold("b", json!({ "role": "approver", "count": 3 })),
        hold("c", json!({ "count": 2 })),
    ]);
    assert_eq!(terms(three, Tier::High), (30, vec![Approver, Admin], 3));
    // A rule's own time is its own, also beyond the usual; another rule's usual time still bounds it.
    assert_eq!(terms(json!([hold("a", json!({ "timeout": "1h" }))]), Tier::High).0, 3600);
    assert_eq!(terms(json!([hold("a", json!({ "timeout": "1h" })), hold("b", json!({}))]), Tier::High).0, 60);
    let check = json!({ "id": "v", "kind": "input_validation", "on_violation": "require_approval",
        "when": [{ "argument": "s", "op": "present" }], "approval": { "timeout": "20s", "role": "admin" } });
    assert_eq!(terms(json!([check, hold("a", json!({ "count": 2 }))]), Tier::Safe), (20, vec![Admin], 2));
}

#[test]
fn the_high_tier_time_is_never_the_longer_one() {
    let defaults = ApprovalDefaults { timeout_s: 30, high_tier_timeout_s: 60 };
    let set = document(json!([hold("a", json!({}))])).compile(defaults).unwrap();
    let decision = evaluate(&PolicyContext { tier: Tier::High, ..call(json!({})) }, &set);
    assert_eq!(decision.hold.unwrap().timeout_s, 30);
}

fn considered(written: Value, context: &PolicyContext) -> Vec<(String, Verdict, Because)> {
    let decision = evaluate(context, &rules(written));
    decision.considered.iter().map(|c| (c.rule.to_string(), c.verdict, c.because)).collect()
}

#[test]
fn every_rule_about_the_tool_is_listed_with_its_cause() {
    let when = |op: &str, argument: &str| json!({ "argument": argument, "op": op });
    let hours = json!({ "from": "08:00", "to": "09:00", "zone": "UTC" });
    let written = json!([
        { "id": "a", "kind": "allow_tool" },
        { "id": "b", "kind": "allow_tool", "when": [when("present", "s"), when("absent", "s")] },
        { "id": "c", "kind": "block_tool", "when": [when("present", "s"), when("present", "n.x")] },
        { "id": "d", "kind": "allow_tool", "match": { "tier": "safe" } },
        { "id": "e", "kind": "allow_tool", "match": { "caller": "bob" } },
        { "id": "f", "kind": "allow_tool", "match": { "role": "admin" } },
        { "id": "g", "kind": "allow_tool", "match": { "origin": "mcp" } },
        { "id": "h", "kind": "allow_tool", "enabled": false },
        { "id": "i", "kind": "allow_tool", "hours": hours },
        { "id": "j", "kind": "token_budget", "limit": { "tokens": 9, "per": "conversation" } },
        { "id": "k", "kind": "rate_limit", "mode": "shadow", "limit": { "calls": 9, "window": "1h", "per": "tool" } },
        { "id": "l", "kind": "input_validation", "when": [when("present", "s")] },
        { "id": "m", "kind": "input_validation", "mode": "shadow", "when": [when("present", "s"), when("absent", "s")] },
        { "id": "n", "kind": "block_tool", "match": { "tool": "other" } },
    ]);
    let context = PolicyContext {
        token_usage: TokenUsage { conversation: 7, caller_day: 0 },
        ..call(json!({ "s": 1, "n": 2 }))
    };
    let listed = considered(written, &context);
    let expected = [
        ("a", Verdict::Matched(Effect::Allow), Because::Satisfied),
        ("b", Verdict::NotMatched, Because::ConditionFalse(1)),
        (
            "c",
            Verdict::Matched(Effect::Deny),
            Because::Unevaluable { part: Part::Condition(1), why: Why::WrongType },
        ),
        ("d", Verdict::NotMatched, Because::Tier),
        ("e", Verdict::NotMatched, Because::Caller),
        ("f", Verdict::NotMatched, Because::Role),
        ("g", Verdict::NotMatched, Because::Origin),
        ("h", Verdict::Disabled, Because::SwitchedOff),
        ("i", Verdict::NotMatched, Because::Unevaluable { part: Part::Hours, why: Why::Missing }),
        ("j", Verdict::NotMatched, Because::Usage { used: 7, limit: 9 }),
        ("k", Verdict::Shadow(Effect::Deny), Because::Unevaluable { part: Part::Counter, why: Why::Missing }),
        ("l", Verdict::NotMatched, Because::Satisfied),
        ("m", Verdict::Shadow(Effect::Deny), Because::ConditionFalse(1)),
    ];
    assert_eq!(listed, expected.map(|(id, verdict, because)| (id.to_string(), verdict, because)));
}

fn sentence(written: Value, context: &PolicyContext) -> String {
    let set = rules(written);
    evaluate(context, &set).sentence(&set)
}

#[test]
fn a_decision_is_one_plain_sentence() {
    let path = json!([{ "argument": "path", "op": "path_within", "value": "." }]);
    let allow =
        json!({ "id": "reads", "kind": "allow_tool", "description": "Reading is free", "when": path });
    let ok = call(json!({ "path": "a" }));
    assert_eq!(sentence(json!([allow]), &ok), "allowed by rule `reads`: Reading is free");
    assert_eq!(
        sentence(json!([allow]), &call(json!({ "path": "/etc/passwd" }))),
        "denied: no rule allows this call; rule `reads` does not apply: its condition `path path_within \".\"` cannot be \
         judged, since the argument is not in a form that can be judged"
    );
    assert_eq!(sentence(json!([]), &ok), "denied: no rule allows this call");
    let elsewhere = json!({ "id": "r", "kind": "allow_tool", "match": { "origin": "mcp" } });
    assert_eq!(
        sentence(json!([elsewhere]), &ok),
        "denied: no rule allows this call; rule `r` does not apply: it is about calls from elsewhere"
    );
    let block = |id: &str| json!({ "id": id, "kind": "block_tool" });
    assert_eq!(sentence(json!([allow, block("a")]), &ok), "denied by rule `a`");
    assert_eq!(sentence(json!([allow, block("a"), block("b")]), &ok), "denied by rule `a` and one other");
    assert_eq!(sentence(json!([block("c"), block("a"), block("b")]), &ok), "denied by rule `a` and 2 others");
    let check = json!({ "id": "v", "kind": "input_validation", "when": [{ "argument": "n", "op": "range", "value": { "max": 5 } }] });
    assert_eq!(
        sentence(json!([check]), &call(json!({ "n": 6 }))),
        "denied by rule `v`: its condition `n range {\"max\":5}` is not satisfied"
    );
    assert_eq!(
        sentence(json!([check]), &call(json!({ "n": "6" }))),
        "denied by rule `v`: its condition `n range {\"max\":5}` cannot be judged, since the argument has the wrong type"
    );
    let budget =
        json!({ "id": "t", "kind": "token_budget", "limit": { "tokens": 0, "per": "conversation" } });
    assert_eq!(sentence(json!([budget]), &ok), "denied by rule `t`: 0 of 0 tokens are used");
    let hold = json!({ "id": "h", "kind": "require_approval", "description": "Ask first" });
    assert_eq!(sentence(json!([allow, hold]), &ok), "held for a person by rule `h`: Ask first");
    let wordy = json!({ "id": "w", "kind": "block_tool", "description": format!("Line one\n  and {}", "more ".repeat(200)) });
    let said = sentence(json!([wordy]), &ok);
    assert!(said.starts_with("denied by rule `w`: Line one and more more") && said.ends_with('…'), "{said}");
    assert!(said.chars().count() < 250, "{said}");
    // The rule that gave the reason speaks, though another comes first by name.
    let unclear =
        json!({ "id": "a", "kind": "block_tool", "when": [{ "argument": "x", "op": "equals", "value": 1 }] });
    assert_eq!(sentence(json!([unclear, block("z")]), &ok), "denied by rule `z` and one other");
}

#[test]
fn the_sentence_holds_nothing_of_the_arguments() {
    let conditions = json!([{ "argument": "path", "op": "starts_with", "value": "a" }, { "argument": "n", "op": "range", "value": { "min": 0 } }]);
    for kind in ["allow_tool", "block_tool", "require_approval", "input_validation"] {
        for arguments in [
            json!({ "path": "s3cret", "n": 1 }),
            json!({ "path": "a", "n": "s3cret" }),
            json!({ "path": ["s3cret"] }),
        ] {
            let said = sentence(json!([{ "id": "r", "kind": kind, "when": conditions }]), &call(arguments));
            assert!(!said.contains("s3cret"), "{said}");
        }
    }
}

#[test]
fn a_decision_is_stored_and_read_back() {
    let written = json!([
        hold("h", json!({ "role": "admin" })),
        { "id": "r", "kind": "rate_limit", "limit": { "calls": 9, "window": "1h", "per": "tool" } },
        { "id": "s", "kind": "block_tool", "mode": "shadow", "when": [{ "argument": "x", "op": "equals", "value": 1 }] },
        { "id": "t", "kind": "allow_tool", "enabled": false },
    ]);
    let mut context = call(json!({}));
    context.counters.insert(id("r"), 1);
    let decision = evaluate(&context, &rules(written));
    assert_eq!(decision.reserve.len(), 1);
    let text = serde_json::to_string(&decision).unwrap();
    assert_eq!(serde_json::from_str::<Decision>(&text).unwrap(), decision, "{text}");
    assert_eq!(DEFAULTS.timeout_s, 300);
}
