//! Two sets of rules compared: over known calls, and over calls made up from the rules themselves.

use serde_json::{Value, json};
use sluicegate_policy::{
    Arguments, Comparison, Effect, Hints, KnownCall, MAX_PROBES, PolicyContext, PolicyDocument, RuleSet,
    Timestamp, compare, evaluate, probes,
};

use crate::fixtures::{DEFAULTS, call, call_of, rules, tool};
use crate::seed::shipped;

fn known(context: PolicyContext) -> KnownCall {
    KnownCall { context, hints: Hints::default(), ran: true }
}

fn made_up(before: &RuleSet, after: &RuleSet) -> Comparison {
    compare(&probes(&[before, after], &[]), before, after)
}

/// Every selector, operator, limit and window, each in a rule of its own on a tool of its own; all in one document.
fn rich() -> Value {
    let when = |op: &str, value: Value| json!([{ "argument": "a", "op": op, "value": value }]);
    let mut list = Vec::new();
    let mut rule = |tool: &str, more: Value| {
        let mut rule = json!({ "id": format!("{}-{}", tool.replace('*', "x"), list.len()), "match": { "server": "s", "tool": tool } });
        for (key, value) in more.as_object().unwrap() {
            match key.as_str() {
                "match" => value
                    .as_object()
                    .unwrap()
                    .iter()
                    .for_each(|(key, value)| rule["match"][key] = value.clone()),
                _ => rule[key] = value.clone(),
            }
        }
        list.push(rule);
    };
    for (tool, op, value) in [
        ("equals", "equals", json!("x")),
        ("one-of", "one_of", json!(["x", "y"])),
        ("begins", "starts_with", json!("ab")),
        ("matches", "matches", json!("[a-f]{2}")),
        ("length", "length", json!({ "max": 10 })),
        ("range", "range", json!({ "min": 0, "max": 10 })),
        ("path", "path_within", json!("docs")),
        ("host", "host_is", json!("example.com")),
        ("within", "host_within", json!("example.com")),
    ] {
        rule(tool, json!({ "kind": "allow_tool", "when": when(op, value) }));
    }
    rule("present", json!({ "kind": "allow_tool", "when": [{ "argument": "o.a", "op": "present" }] }));
    rule("checked", json!({ "kind": "allow_tool" }));
    rule("checked", json!({ "kind": "input_validation", "when": when("path_within", json!(".")) }));
    rule("blocked", json!({ "kind": "allow_tool" }));
    rule("blocked", json!({ "kind": "block_tool", "when": when("range", json!({ "min": 5 })) }));
    rule("held", json!({ "kind": "allow_tool" }));
    rule("held", json!({ "kind": "require_approval", "approval": { "count": 2, "role": "admin" } }));
    rule("tiered", json!({ "kind": "allow_tool", "match": { "tier": "high" } }));
    rule(
        "asked",
        json!({ "kind": "allow_tool", "match": { "caller": "key-1*", "role": "client", "origin": "mcp" } }),
    );
    rule("spends", json!({ "kind": "allow_tool" }));
    rule("spends", json!({ "kind": "token_budget", "limit": { "tokens": 100, "per": "conversation" } }));
    rule("rated", json!({ "kind": "allow_tool" }));
    rule("rated", json!({ "kind": "rate_limit", "limit": { "calls": 3, "window": "1h", "per": "caller" } }));
    let hours = json!({ "from": "08:00", "to": "18:00", "days": ["mon"], "zone": "UTC" });
    rule("timed", json!({ "kind": "allow_tool", "hours": hours }));
    rule("star*", json!({ "kind": "allow_tool" }));
    json!(list)
}

fn edited(n: usize, key: &str, value: Value) -> Value {
    let mut all = rich();
    *all[n].pointer_mut(key).unwrap() = value;
    all
}

/// The place of the rule of that id.
fn place(id: &str) -> usize {
    rich().as_array().unwrap().iter().position(|rule| rule["id"] == id).unwrap()
}

#[test]
fn the_same_rules_differ_in_nothing() {
    let set = rules(rich());
    let found = made_up(&set, &set);
    assert!(found.changes.is_empty() && found.calls > 300, "{}", found.calls);
    let mut shuffled = rich().as_array().unwrap().clone();
    shuffled.reverse();
    assert!(made_up(&set, &rules(json!(shuffled))).changes.is_empty());
}

#[test]
fn each_boundary_that_is_widened_is_noticed_as_loosening_and_back_as_tightening() {
    let table: Vec<(&str, &str, Value)> = vec![
        ("equals-0", "/when/0/value", json!("xx")),
        ("one-of-1", "/when/0/value", json!(["x", "y", "z"])),
        ("begins-2", "/when/0/value", json!("a")),
        ("matches-3", "/when/0/value", json!("[a-f]{1,2}")),
        ("length-4", "/when/0/value/max", json!(11)),
        ("range-5", "/when/0/value/max", json!(11)),
        ("range-5", "/when/0/value/min", json!(-1)),
        ("range-5", "/when/0/value/max", json!(10.5)),
        ("path-6", "/when/0/value", json!(".")),
        ("host-7", "/when/0/op", json!("host_within")),
        ("within-8", "/when/0/value", json!("com")),
        ("present-9", "/when/0/op", json!("absent")),
        ("checked-11", "/when/0/value", json!("/")),
        ("blocked-13", "/when/0/value/min", json!(6)),
        ("held-15", "/approval/count", json!(1)),
        ("tiered-16", "/match/tier", json!(["safe", "high"])),
        ("asked-17", "/match/caller", json!("key-*")),
        ("asked-17", "/match/role", json!("*")),
        ("asked-17", "/match/origin", json!("*")),
        ("spends-19", "/limit/tokens", json!(101)),
        ("rated-21", "/limit/calls", json!(4)),
        ("timed-22", "/hours/from", json!("07:59")),
        ("timed-22", "/hours/to", json!("18:01")),
        ("timed-22", "/hours/days", json!(["mon", "sun"])),
        ("starx-23", "/match/tool", json!("sta*")),
    ];
    let marked = |list: Value| {
        let tiers = json!([{ "server": "s", "tool": "safe*", "tier": "safe" }, { "server": "s", "tool": "tiered", "tier": "safe" }]);
        let with = |list: Value, tiers: Value| -> PolicyDocument {
            serde_json::from_value(json!({ "version": 1, "rules": list, "tiers": tiers })).unwrap()
        };
        with(list, tiers).compile(DEFAULTS).unwrap()
    };
    for (id, key, value) in table {
        let (before, after) = (marked(rich()), marked(edited(place(id), key, value.clone())));
        let found = made_up(&before, &after);
        assert!(found.looser().next().is_some(), "{id} {key} {value}: {} calls tried", found.calls);
        let back = made_up(&after, &before);
        assert!(
            back.changes.iter().any(|change| !change.looser || change.before.effect < change.after.effect)
        );
    }
}

#[test]
fn a_rule_that_restrains_is_missed_when_it_goes() {
    for (n, rule) in rich().as_array().unwrap().iter().enumerate() {
        if rule["kind"] == "allow_tool" {
            continue;
        }
        let id = rule["id"].as_str().unwrap();
        let before = rules(rich());
        let mut gone = rich();
        gone.as_array_mut().unwrap().remove(n);
        let mut off = rich();
        off[n]["enabled"] = json!(false);
        let mut shadow = rich();
        shadow[n]["mode"] = json!("shadow");
        for after in [gone, off, shadow] {
            let found = made_up(&before, &rules(after));
            assert!(found.looser().any(|change| change.before.by.iter().any(|by| by.as_str() == id)), "{id}");
        }
    }
}

#[test]
fn a_lowered_tier_loosens_as_far_as_rules_look_at_it() {
    let with = |tier: &str, read_only: bool| -> RuleSet {
        let document: PolicyDocument = serde_json::from_value(json!({
            "version": 1,
            "tiers": [{ "server": "s", "tool": "t", "tier": tier, "read_only": read_only }],
            "rules": [{ "id": "safe", "kind": "allow_tool", "match": { "tier": "safe" } }],
        }))
        .unwrap();
        document.compile(DEFAULTS).unwrap()
    };
    let found = made_up(&with("high", false), &with("safe", false));
    let looser: Vec<_> = found.looser().collect();
    assert!(!looser.is_empty());
    // What the server states holds it up.
    let raised = KnownCall {
        hints: Hints { destructive: Some(true), read_only: None },
        ..known(call_of("s", "t", json!({})))
    };
    assert!(compare(&[raised], &with("high", false), &with("safe", false)).changes.is_empty());
}

#[test]
fn edits_of_the_shipped_rules_are_said_as_they_are() {
    let before = shipped().compile(DEFAULTS).unwrap();
    let edit = |change: &dyn Fn(&mut PolicyDocument)| {
        let mut document = shipped();
        document.tests.clear();
        change(&mut document);
        made_up(&before, &document.compile(DEFAULTS).unwrap())
    };
    let off = |id: &'static str| {
        edit(&move |document| {
            document.rules.iter_mut().find(|rule| rule.id.as_str() == id).unwrap().enabled = false;
        })
    };
    // A held write without its hold is denied, since nothing allows it: tighter, not looser.
    assert_eq!(off("files-write-asks").looser().count(), 0);
    assert!(off("files-write-shape").looser().next().is_some());
    let deletes = off("files-delete-blocked");
    assert!(deletes.looser().all(|change| change.after.effect == Effect::RequireApproval));
    assert!(deletes.looser().next().is_some());
    assert!(off("budget").looser().next().is_some());
    assert_eq!(off("files-read").looser().count(), 0);
}

#[test]
fn a_backtest_counts_a_new_rate_along_the_calls() {
    let open = json!([{ "id": "all", "kind": "allow_tool" }]);
    let mut limited = open.as_array().unwrap().clone();
    limited.push(
        json!({ "id": "r", "kind": "rate_limit", "limit": { "calls": 2, "window": "1m", "per": "caller" } }),
    );
    let at = |seconds: i64| known(PolicyContext { now: Timestamp(seconds * 1000), ..call(json!({})) });
    let calls: Vec<KnownCall> = [0, 10, 20, 59, 60, 70, 71].map(at).into();
    let found = compare(&calls, &rules(open), &rules(json!(limited)));
    // The third and fourth come too soon; the first two are forgotten by the fifth and sixth.
    let changed: Vec<usize> = found.changes.iter().map(|change| change.call).collect();
    assert_eq!(changed, [2, 3, 6]);
    assert_eq!(found.counts(), [(Effect::Allow, Effect::Deny, 3)]);
    assert!(found.changes[0].after.sentence.contains("2 of 2 calls"), "{:?}", found.changes[0]);
}

#[test]
fn a_backtest_takes_the_recorded_count_where_the_rate_counts_the_same_calls() {
    let rate = |calls: u32, per: &str| {
        rules(json!([
            { "id": "all", "kind": "allow_tool" },
            { "id": "r", "kind": "rate_limit", "limit": { "calls": calls, "window": "1m", "per": per } },
        ]))
    };
    let mut context = call(json!({}));
    context.counters.insert("r".parse().unwrap(), 5);
    let calls = [known(context)];
    assert_eq!(
        compare(&calls, &rate(10, "caller"), &rate(5, "caller")).counts(),
        [(Effect::Allow, Effect::Deny, 1)]
    );
    // Five calls of the caller say nothing about calls of the tool.
    assert!(compare(&calls, &rate(10, "caller"), &rate(5, "tool")).changes.is_empty());
}

#[test]
fn what_is_made_up_is_bounded_and_the_same_each_time() {
    let many: Vec<Value> = (0..1_000)
        .map(|n| {
            json!({ "id": format!("r{n}"), "kind": "allow_tool", "match": { "server": "s", "tool": format!("t{}*", n % 700) },
                "when": [{ "argument": "a", "op": "equals", "value": n }, { "argument": "b", "op": "length", "value": { "max": 100 } }] })
        })
        .collect();
    let set = rules(json!(many));
    let found = probes(&[&set, &set], &[]);
    assert_eq!(found.len(), MAX_PROBES);
    assert_eq!(found, probes(&[&set, &set], &[]));
    for one in &found {
        let _: Effect = evaluate(&one.context, &set).effect;
    }
}

#[test]
fn tools_on_offer_are_tried_by_their_own_names() {
    let hints = Hints { destructive: Some(true), read_only: None };
    let set = rules(json!([{ "id": "a", "kind": "allow_tool", "match": { "tool": "rem*" } }]));
    let offered = [(tool("real", "remove_everything"), hints)];
    let found = probes(&[&set], &offered);
    assert!(found.iter().any(|one| one.context.tool == offered[0].0 && one.hints == hints));
    let arguments: Vec<&Arguments> = found.iter().map(|one| &one.context.arguments).collect();
    assert!(!arguments.is_empty());
}
