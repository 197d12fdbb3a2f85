//! Precedence, exhaustively: every sequence of up to four matching rules of every kind and strength.

use serde_json::{Value, json};
use sluicegate_policy::{Effect, Reason, Verdict, evaluate};

use crate::fixtures::{call, id, rules};

/// A rule that matches `{ "s": "x" }`, its effect, and the reason that it gives.
fn matching() -> Vec<(Value, Effect, Reason)> {
    let holds = json!([{ "argument": "s", "op": "equals", "value": "x" }]);
    let fails = json!([{ "argument": "s", "op": "equals", "value": "y" }]);
    let unclear = json!([{ "argument": "t", "op": "equals", "value": "x" }]);
    let spent = json!({ "tokens": 0, "per": "conversation" });
    let busy = json!({ "calls": 0, "window": "1h", "per": "caller" });
    vec![
        (json!({ "kind": "allow_tool", "when": holds }), Effect::Allow, Reason::Rule),
        (json!({ "kind": "require_approval", "when": holds }), Effect::RequireApproval, Reason::Rule),
        (
            json!({ "kind": "require_approval", "when": unclear }),
            Effect::RequireApproval,
            Reason::Unevaluable,
        ),
        (json!({ "kind": "block_tool", "when": holds }), Effect::Deny, Reason::Rule),
        (json!({ "kind": "block_tool", "when": unclear }), Effect::Deny, Reason::Unevaluable),
        (json!({ "kind": "input_validation", "when": fails }), Effect::Deny, Reason::Rule),
        (
            json!({ "kind": "input_validation", "when": fails, "on_violation": "require_approval" }),
            Effect::RequireApproval,
            Reason::Rule,
        ),
        (json!({ "kind": "token_budget", "limit": spent }), Effect::Deny, Reason::OverBudget),
        (
            json!({ "kind": "token_budget", "limit": spent, "on_violation": "require_approval" }),
            Effect::RequireApproval,
            Reason::OverBudget,
        ),
        (json!({ "kind": "rate_limit", "limit": busy }), Effect::Deny, Reason::OverRate),
    ]
}

/// The precedence as the specification states it, in so many words.
fn expected(matched: &[(Effect, Reason)]) -> (Effect, Reason) {
    let strongest = if matched.iter().any(|(effect, _)| *effect == Effect::Deny) {
        Effect::Deny
    } else if matched.iter().any(|(effect, _)| *effect == Effect::RequireApproval) {
        Effect::RequireApproval
    } else if matched.iter().any(|(effect, _)| *effect == Effect::Allow) {
        Effect::Allow
    } else {
        return (Effect::Deny, Reason::NoRule);
    };
    let given: Vec<Reason> =
        matched.iter().filter(|(effect, _)| *effect == strongest).map(|(_, r)| *r).collect();
    let order = [Reason::Rule, Reason::OverBudget, Reason::OverRate, Reason::Unevaluable];
    (strongest, order.into_iter().find(|reason| given.contains(reason)).unwrap())
}

#[test]
fn the_strongest_of_up_to_four_matching_rules_wins() {
    let kinds = matching();
    let mut context = call(json!({ "s": "x" }));
    for n in 0..4 {
        context.counters.insert(id(&format!("r{n}")), 0);
    }
    let mut tried = 0;
    for count in 0..=4u32 {
        for combination in 0..kinds.len().pow(count) {
            let mut left = combination;
            let mut chosen = Vec::new();
            for _ in 0..count {
                chosen.push(&kinds[left % kinds.len()]);
                left /= kinds.len();
            }
            let written: Vec<Value> = chosen
                .iter()
                .enumerate()
                .map(|(n, (rule, _, _))| {
                    let mut rule = rule.clone();
                    rule["id"] = json!(format!("r{n}"));
                    rule
                })
                .collect();
            let decision = evaluate(&context, &rules(json!(written)));
            let matched: Vec<(Effect, Reason)> =
                chosen.iter().map(|(_, effect, reason)| (*effect, *reason)).collect();
            let (effect, reason) = expected(&matched);
            assert_eq!((decision.effect, decision.reason), (effect, reason), "{written:?}");
            let deciding: Vec<String> =
                (0..chosen.len()).filter(|n| chosen[*n].1 == effect).map(|n| format!("r{n}")).collect();
            assert_eq!(decision.deciding.iter().map(ToString::to_string).collect::<Vec<_>>(), deciding);
            assert_eq!(decision.hold.is_some(), effect == Effect::RequireApproval);
            for (considered, (_, effect, _)) in decision.considered.iter().zip(&chosen) {
                assert_eq!(considered.verdict, Verdict::Matched(*effect));
            }
            tried += 1;
        }
    }
    assert_eq!(tried, 1 + 10 + 100 + 1000 + 10_000);
}

#[test]
fn effects_are_ordered_by_strength() {
    assert!(Effect::Deny > Effect::RequireApproval && Effect::RequireApproval > Effect::Allow);
}
