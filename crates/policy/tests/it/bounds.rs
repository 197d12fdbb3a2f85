//! Large rule sets, long lists and hostile patterns: what cannot be judged in bounded work is not judged, and never
//! loosens.

use serde_json::{Value, json};
use sluicegate_policy::{Arguments, ArgumentsError, Effect, PolicyContext, Reason, evaluate};

use crate::fixtures::{call, faults, outcome, rules};

#[test]
fn ten_thousand_rules_are_judged_and_explained() {
    let mut many: Vec<Value> = (0..10_000)
        .map(|n| {
            json!({ "id": format!("r{n}"), "kind": "allow_tool", "match": { "server": "files" },
                "when": [{ "argument": "path", "op": "path_within", "value": format!("d{n}") }] })
        })
        .collect();
    many.push(json!({ "id": "block", "kind": "block_tool", "when": [{ "argument": "path", "op": "path_within", "value": "d7" }] }));
    let set = rules(json!(many));
    let decision = evaluate(&call(json!({ "path": "d9999/x" })), &set);
    assert_eq!((outcome(&decision).as_str(), decision.considered.len()), ("allow/rule by r9999", 10_001));
    assert_eq!(outcome(&evaluate(&call(json!({ "path": "d7/x" })), &set)), "deny/rule by block");
    let ids: Vec<String> = decision.considered.iter().map(|c| c.rule.to_string()).collect();
    assert!(ids.is_sorted());
}

#[test]
fn a_list_of_a_million_elements_is_no_arguments_of_a_call() {
    let million = format!("{{\"p\":[{}0]}}", "0,".repeat(999_999));
    assert_eq!(Arguments::from_json(&million).unwrap_err(), ArgumentsError::TooLarge);
}

/// The longest list that can be, times many rules: the rules that come after the work is used up cannot be judged.
#[test]
fn f30_the_longest_list_times_many_rules_never_loosens() {
    let list: Vec<Value> = vec![json!(1); 250_000];
    let context: PolicyContext = call(json!({ "p": list }));
    let check = |n: usize| json!({ "id": format!("r{n:03}"), "kind": "input_validation", "when": [{ "argument": "p", "op": "range", "value": { "max": 10 + n } }] });
    let allowed = |count: usize| {
        let mut all: Vec<Value> = (0..count).map(check).collect();
        all.push(json!({ "id": "all", "kind": "allow_tool" }));
        evaluate(&context, &rules(json!(all)))
    };
    assert_eq!(outcome(&allowed(1)), "allow/rule by all");
    let many = allowed(20);
    assert_eq!((many.effect, many.reason), (Effect::Deny, Reason::Unevaluable));
    // The same question, however many ask it, is work once.
    let mut same: Vec<Value> = (0..20)
        .map(|n| {
            let mut rule = check(0);
            rule["id"] = json!(format!("r{n}"));
            rule
        })
        .collect();
    same.push(json!({ "id": "all", "kind": "allow_tool" }));
    assert_eq!(outcome(&evaluate(&context, &rules(json!(same)))), "allow/rule by all");
}

#[test]
fn f30_patterns_that_explode_elsewhere_are_refused_or_linear() {
    let one = |pattern: &str| json!([{ "id": "r", "kind": "allow_tool", "when": [{ "argument": "s", "op": "matches", "value": pattern }] }]);
    for pattern in ["(a+)+", "(a|a)*b", "(a|aa)+c", "(.*a){12}", "([a-zA-Z]+)*x"] {
        let set = rules(one(pattern));
        let decision = evaluate(&call(json!({ "s": "a".repeat(20_000) + "!" })), &set);
        assert_eq!(decision.effect, Effect::Deny, "{pattern}");
    }
    for pattern in ["(((a{100}){100}){100}){100}", "\\w{5000}", "(?:(?:(?:x{50}){50}){50}){50}"] {
        let found = faults(one(pattern));
        assert!(found[0].message.contains("too large"), "{pattern}: {found:?}");
    }
    for pattern in ["(?=a)", "(a)\\1", "(?<!a)b"] {
        let found = faults(one(pattern));
        assert!(found[0].message.contains("broken"), "{pattern}: {found:?}");
    }
}
