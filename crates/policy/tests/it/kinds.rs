//! Each kind of rule by itself, and the selectors.

use crate::fixtures::{call, call_of, decide, outcome, rules};
use serde_json::{Value, json};
use sluicegate_policy::{
    CallerId, LocalTime, Origin, PolicyContext, Role, Tier, Weekday, ZoneName, evaluate,
};

/// A rule of that kind with conditions on `s` and `t`, beside an allow rule for all if it is not one itself.
fn kind_table(kind: &str) -> Vec<String> {
    let when = json!([
        { "argument": "s", "op": "equals", "value": "x" },
        { "argument": "t", "op": "range", "value": { "max": 5 } },
    ]);
    let mut written = vec![json!({ "id": "r", "kind": kind, "when": when })];
    if kind != "allow_tool" {
        written.push(json!({ "id": "all", "kind": "allow_tool" }));
    }
    // s and t: true, false, unevaluable, in every pair.
    let (s, t) = ([json!("x"), json!("y"), json!(1)], [json!(5), json!(6), json!("5")]);
    let mut table = Vec::new();
    for s in &s {
        for t in &t {
            table.push(decide(json!(written), &call(json!({ "s": s, "t": t }))));
        }
    }
    table
}

#[test]
fn conditions_of_each_kind() {
    let (allowed, none) = ("allow/rule by r", "deny/no_rule");
    assert_eq!(kind_table("allow_tool"), [allowed, none, none, none, none, none, none, none, none]);
    let (rule, unclear, all) = ("deny/rule by r", "deny/unevaluable by r", "allow/rule by all");
    assert_eq!(kind_table("block_tool"), [rule, all, unclear, all, all, all, unclear, all, unclear]);
    let (rule, unclear) = ("require_approval/rule by r", "require_approval/unevaluable by r");
    assert_eq!(kind_table("require_approval"), [rule, all, unclear, all, all, all, unclear, all, unclear]);
    let (rule, unclear) = ("deny/rule by r", "deny/unevaluable by r");
    assert_eq!(
        kind_table("input_validation"),
        [all, rule, unclear, rule, rule, rule, unclear, rule, unclear]
    );
}

#[test]
fn without_conditions_a_rule_always_matches() {
    let rule = |kind: &str| json!([{ "id": "r", "kind": kind }]);
    assert_eq!(decide(rule("allow_tool"), &call(json!({}))), "allow/rule by r");
    assert_eq!(decide(rule("block_tool"), &call(json!({}))), "deny/rule by r");
    assert_eq!(decide(rule("require_approval"), &call(json!({}))), "require_approval/rule by r");
}

#[test]
fn a_satisfied_check_or_limit_allows_nothing() {
    let check =
        json!([{ "id": "r", "kind": "input_validation", "when": [{ "argument": "s", "op": "present" }] }]);
    assert_eq!(decide(check, &call(json!({ "s": 1 }))), "deny/no_rule");
    let budget =
        json!([{ "id": "r", "kind": "token_budget", "limit": { "tokens": 10, "per": "conversation" } }]);
    assert_eq!(decide(budget, &call(json!({}))), "deny/no_rule");
}

#[test]
fn f22_no_rule_means_deny() {
    assert_eq!(decide(json!([]), &call(json!({}))), "deny/no_rule");
    assert_eq!(outcome(&evaluate(&call(json!({})), &sluicegate_policy::RuleSet::default())), "deny/no_rule");
    let other = json!([{ "id": "r", "kind": "allow_tool", "match": { "server": "files", "tool": "read" } }]);
    for (server, tool) in [
        ("files", "write"),
        ("other", "read"),
        ("files", "files__read"),
        ("files", "Read"),
        ("files", "read "),
    ] {
        assert_eq!(
            decide(other.clone(), &call_of(server, tool, json!({}))),
            "deny/no_rule",
            "{server} {tool}"
        );
    }
    assert_eq!(decide(other, &call_of("files", "read", json!({}))), "allow/rule by r");
}

#[test]
fn f31_patterns_match_whole_names_by_case() {
    let rule = |server: Value, tool: Value| json!([{ "id": "r", "kind": "allow_tool", "match": { "server": server, "tool": tool } }]);
    let allowed = |server: Value, pattern: Value, name: &str| {
        decide(rule(server, pattern), &call_of("files", name, json!({}))) == "allow/rule by r"
    };
    for (pattern, name, expected) in [
        ("read_*", "read_", true),
        ("read_*", "read_file", true),
        ("read_*", "READ_x", false),
        ("read_*", "bread_x", false),
        ("*", "anything at all", true),
        ("*_file", "read_file", true),
        ("*_file", "read_files", false),
        ("r*d*e", "read_file", true),
        ("r*d*e", "read_fil", false),
        ("read.file", "read_file", false),
        ("read", "read_file", false),
    ] {
        for server in [json!("files"), json!("*"), json!(["other", "f*s"])] {
            assert_eq!(
                allowed(server.clone(), json!(pattern), name),
                expected,
                "{pattern} on {name} at {server}"
            );
            assert_eq!(allowed(server, json!(["other", pattern]), name), expected, "{pattern} on {name}");
        }
        assert!(!allowed(json!("file"), json!(pattern), name));
    }
}

#[test]
fn selectors_narrow_a_rule() {
    let base = || call(json!({}));
    let other_caller = || {
        let mut context = base();
        context.principal.caller = CallerId::new("key-7").unwrap();
        context.principal.role = Role::Client;
        PolicyContext { origin: Origin::Mcp, tier: Tier::High, ..context }
    };
    // The first call is a moderate one by ada, an approver, from the chat; the second a high one by key-7 from MCP.
    for (selects, first, second) in [
        (json!({}), true, true),
        (json!({ "tier": "moderate" }), true, false),
        (json!({ "tier": ["safe", "high"] }), false, true),
        (json!({ "tier": "*" }), true, true),
        (json!({ "caller": "ada" }), true, false),
        (json!({ "caller": "key-*" }), false, true),
        (json!({ "caller": ["ada", "key-*"] }), true, true),
        (json!({ "role": "approver" }), true, false),
        (json!({ "role": ["client", "admin"] }), false, true),
        (json!({ "role": ["client", "*"] }), true, true),
        (json!({ "origin": "chat" }), true, false),
        (json!({ "origin": ["mcp"] }), false, true),
        (json!({ "origin": ["mcp"], "tier": "moderate" }), false, false),
        (
            json!({ "server": "files", "tool": "*", "caller": "*", "role": "*", "origin": ["chat", "mcp"] }),
            true,
            true,
        ),
    ] {
        let written = json!([{ "id": "r", "kind": "allow_tool", "match": selects }]);
        let expect = |allowed| if allowed { "allow/rule by r" } else { "deny/no_rule" };
        assert_eq!(decide(written.clone(), &base()), expect(first), "{selects} on the first");
        assert_eq!(decide(written, &other_caller()), expect(second), "{selects} on the second");
    }
}

#[test]
fn switched_off_and_shadow_rules_decide_nothing() {
    let rule = |id: &str, kind: &str, enabled: bool, mode: &str| json!({ "id": id, "kind": kind, "enabled": enabled, "mode": mode });
    let written = json!([
        rule("off-block", "block_tool", false, "enforce"),
        rule("shadow-block", "block_tool", true, "shadow"),
        rule("off-allow", "allow_tool", false, "enforce"),
        rule("shadow-allow", "allow_tool", true, "shadow"),
    ]);
    let set = rules(written.clone());
    let decision = evaluate(&call(json!({})), &set);
    assert_eq!(outcome(&decision), "deny/no_rule");
    let shadowed: Vec<String> = decision.shadowed().map(|(id, effect)| format!("{id} {effect}")).collect();
    assert_eq!(shadowed, ["shadow-allow allow", "shadow-block deny"]);
    let missed: Vec<&str> = decision.would_allow().map(|c| c.rule.as_str()).collect();
    assert_eq!(missed, ["off-allow", "shadow-allow"]);

    let mut with_allow = written.as_array().unwrap().clone();
    with_allow.push(rule("allow", "allow_tool", true, "enforce"));
    assert_eq!(decide(json!(with_allow), &call(json!({}))), "allow/rule by allow");
}

fn at(weekday: Weekday, minute_of_day: u16) -> PolicyContext {
    let mut context = call(json!({}));
    context.local_times.insert(ZoneName::new("Europe/Berlin").unwrap(), LocalTime { weekday, minute_of_day });
    context
}

#[test]
fn hours_open_and_close_to_the_minute() {
    let hours = |from: &str, to: &str, days: Value| json!({ "from": from, "to": to, "days": days, "zone": "Europe/Berlin" });
    let office = hours("08:00", "18:00", json!(["mon", "tue"]));
    let night = hours("22:00", "06:00", json!(["fri"]));
    let day = hours("00:00", "24:00", json!([]));
    let to_midnight = hours("20:00", "00:00", json!(["sat"]));
    use Weekday::{Friday, Monday, Saturday, Sunday, Tuesday, Wednesday};
    for (window, weekday, minute, open) in [
        (&office, Monday, 479, false),
        (&office, Monday, 480, true),
        (&office, Tuesday, 1079, true),
        (&office, Tuesday, 1080, false),
        (&office, Wednesday, 600, false),
        (&night, Friday, 1319, false),
        (&night, Friday, 1320, true),
        (&night, Friday, 1439, true),
        (&night, Saturday, 0, true),
        (&night, Saturday, 359, true),
        (&night, Saturday, 360, false),
        (&night, Saturday, 1320, false),
        (&night, Friday, 100, false),
        (&day, Sunday, 0, true),
        (&day, Sunday, 1439, true),
        (&to_midnight, Saturday, 1439, true),
        (&to_midnight, Sunday, 0, false),
    ] {
        let allow = json!([{ "id": "r", "kind": "allow_tool", "hours": window }]);
        let expected = if open { "allow/rule by r" } else { "deny/no_rule" };
        assert_eq!(decide(allow, &at(weekday, minute)), expected, "{window} {weekday} {minute}");
        let block = json!([{ "id": "a", "kind": "allow_tool" }, { "id": "r", "kind": "block_tool", "hours": window }]);
        let expected = if open { "deny/rule by r" } else { "allow/rule by a" };
        assert_eq!(decide(block, &at(weekday, minute)), expected, "{window} {weekday} {minute}");
    }
}

#[test]
fn an_unknown_local_time_never_loosens() {
    let hours = json!({ "from": "08:00", "to": "18:00", "zone": "Europe/Berlin" });
    let all = json!({ "id": "a", "kind": "allow_tool" });
    let check = json!([{ "argument": "s", "op": "present" }]);
    let limit = json!({ "tokens": 0, "per": "conversation" });
    // No time at all; a time in another zone; a minute that does not exist.
    let mut elsewhere = call(json!({}));
    let noon = LocalTime { weekday: Weekday::Monday, minute_of_day: 720 };
    elsewhere.local_times.insert(ZoneName::new("Europe/Paris").unwrap(), noon);
    for context in [call(json!({})), elsewhere, at(Weekday::Monday, 1440)] {
        assert_eq!(
            decide(json!([{ "id": "r", "kind": "allow_tool", "hours": hours }]), &context),
            "deny/no_rule"
        );
        for (rule, expected) in [
            (json!({ "id": "r", "kind": "block_tool", "hours": hours }), "deny/unevaluable by r"),
            (
                json!({ "id": "r", "kind": "require_approval", "hours": hours }),
                "require_approval/unevaluable by r",
            ),
            (
                json!({ "id": "r", "kind": "input_validation", "hours": hours, "when": check }),
                "deny/unevaluable by r",
            ),
            (
                json!({ "id": "r", "kind": "token_budget", "hours": hours, "limit": limit }),
                "deny/unevaluable by r",
            ),
        ] {
            assert_eq!(decide(json!([all, rule]), &context), expected, "{rule}");
        }
    }
}

/// F14: a rule is about the pair of server and tool, never about a name that the two could be joined to.
#[test]
fn f14_a_rule_for_one_server_is_not_about_another_that_sounds_the_same() {
    let pairs =
        [("home", "lights_off"), ("home_lights", "off"), ("home__lights", "off"), ("home", "_lights__off")];
    for named in pairs {
        let allow =
            json!([{ "id": "a", "kind": "allow_tool", "match": { "server": named.0, "tool": named.1 } }]);
        for (server, tool) in pairs {
            let expected = if (server, tool) == named { "allow/rule by a" } else { "deny/no_rule" };
            assert_eq!(
                decide(allow.clone(), &call_of(server, tool, json!({}))),
                expected,
                "{named:?} {server} {tool}"
            );
        }
    }
    // A rule stays with the name it was written for: under another alias the same tool has none.
    let allow = json!([{ "id": "a", "kind": "allow_tool", "match": { "server": "home", "tool": "*" } }]);
    assert_eq!(decide(allow.clone(), &call_of("home", "off", json!({}))), "allow/rule by a");
    for other in ["house", "Home", "home2", "hom"] {
        let decided = sluicegate_policy::ServerName::new(other)
            .map(|_| decide(allow.clone(), &call_of(other, "off", json!({}))));
        assert!(
            decided.as_ref().is_ok_and(|decided| decided == "deny/no_rule") || decided.is_err(),
            "{other}: {decided:?}"
        );
    }
}
