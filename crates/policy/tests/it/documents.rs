//! Documents: read strictly, checked as a whole, written as they were.

use crate::fixtures::{DEFAULTS, document, faults, rules};
use serde_json::{Value, json};
use sluicegate_policy::{PolicyDocument, Rule, Span, TimeOfDay, ZoneName};

fn read(value: Value) -> Result<PolicyDocument, String> {
    serde_json::from_value(value).map_err(|error| error.to_string())
}

fn whole() -> Value {
    json!({
        "version": 1,
        "tiers": [{ "server": "files", "tool": ["list", "read"], "tier": "safe", "read_only": true, "marks": ["sensitive_data"] }],
        "rules": [
            {
                "id": "reads-are-free",
                "kind": "allow_tool",
                "description": "Reading is free",
                "match": { "server": "files", "tool": ["list", "read"], "tier": "safe", "caller": "*", "role": "*", "origin": ["chat", "mcp"] },
                "when": [{ "argument": "path", "op": "path_within", "value": "." }],
                "hours": { "from": "08:00", "to": "18:00", "days": ["mon", "tue"], "zone": "Europe/Berlin" },
            },
            { "id": "writes-ask", "kind": "require_approval", "mode": "shadow", "match": { "tool": "write" },
              "approval": { "timeout": "300s", "role": "admin", "count": 2 } },
            { "id": "short", "kind": "input_validation", "enabled": false, "on_violation": "require_approval",
              "approval": { "timeout": "1h" },
              "when": [{ "argument": "tags", "op": "length", "value": { "max": 3 }, "elements": "any" }, { "argument": "x", "op": "absent" }] },
            { "id": "tokens", "kind": "token_budget", "limit": { "tokens": 120_000, "per": "conversation" } },
            { "id": "calls", "kind": "rate_limit", "limit": { "calls": 20, "window": "1h", "per": "caller" }, "on_violation": "deny" },
        ],
        "tests": [{
            "name": "notes can be read",
            "given": { "server": "files", "tool": "read", "arguments": { "path": "notes.txt" }, "calls": { "calls": 3 },
                       "tokens": { "conversation": 5, "caller_day": 0 }, "at": { "day": "mon", "time": "09:00" } },
            "expect": "allow",
            "by": "reads-are-free",
        }],
    })
}

#[test]
fn a_document_is_written_as_it_was_read() {
    let document = read(whole()).unwrap();
    assert_eq!(serde_json::to_value(&document).unwrap(), whole());
    let text = serde_json::to_string(&document).unwrap();
    assert_eq!(serde_json::from_str::<PolicyDocument>(&text).unwrap(), document);
    document.compile(DEFAULTS).unwrap();
}

#[test]
fn the_tests_of_a_document_run() {
    let document = read(whole()).unwrap();
    let set = document.compile(DEFAULTS).unwrap();
    let test = &document.tests[0];
    test.run(&set).unwrap();

    let mut late = test.clone();
    late.given.at.as_mut().unwrap().time = "18:00".parse().unwrap();
    let failure = late.run(&set).unwrap_err().to_string();
    assert!(failure.contains("expected allow, came deny"), "{failure}");
    assert!(
        failure.contains("`reads-are-free` does not apply: it is not in force at this time"),
        "{failure}"
    );

    let mut busy = test.clone();
    busy.given.calls.insert(crate::fixtures::id("calls"), 20);
    assert!(busy.run(&set).unwrap_err().message.contains("20 of 20 calls are used"));

    let mut spent = test.clone();
    spent.given.tokens.as_mut().unwrap().conversation = 120_000;
    assert!(spent.run(&set).unwrap_err().message.contains("120000 of 120000 tokens are used"));

    let mut by_other = test.clone();
    by_other.by = Some(crate::fixtures::id("tokens"));
    assert!(by_other.run(&set).unwrap_err().message.contains("expected `tokens` to decide"));

    let mut unknown_time = test.clone();
    unknown_time.given.at = None;
    unknown_time.run(&set).unwrap_err();
}

#[test]
fn f31_unknown_keys_and_words_are_errors() {
    let rule = |extra: Value| {
        let mut rule = json!({ "id": "r", "kind": "allow_tool" });
        for (key, value) in extra.as_object().unwrap() {
            rule[key] = value.clone();
        }
        json!({ "version": 1, "rules": [rule] })
    };
    let cases = [
        (rule(json!({ "aproval": {} })), "aproval"),
        (rule(json!({ "tool": "x" })), "tool"),
        (rule(json!({ "kind": "Block" })), "Block"),
        (rule(json!({ "kind": "ALLOW_TOOL" })), "ALLOW_TOOL"),
        (rule(json!({ "kind": "label_flow" })), "label_flow"),
        (rule(json!({ "mode": "off" })), "off"),
        (rule(json!({ "enabled": "no" })), "boolean"),
        (rule(json!({ "id": "Upper" })), "Upper"),
        (rule(json!({ "id": "" })), "rule id"),
        (rule(json!({ "id": "x".repeat(65) })), "rule id"),
        (rule(json!({ "id": 1 })), "rule id"),
        (rule(json!({ "match": { "tools": "x" } })), "tools"),
        (rule(json!({ "match": { "tool": 1 } })), "a word or a list of words"),
        (rule(json!({ "match": { "tool": ["x", 1] } })), "invalid type"),
        (rule(json!({ "match": { "tier": "Safe" } })), "Safe"),
        (rule(json!({ "match": { "tier": ["safe", "low"] } })), "low"),
        (rule(json!({ "match": { "role": "owner" } })), "owner"),
        (rule(json!({ "match": { "origin": "web" } })), "web"),
        (rule(json!({ "when": { "argument": "a" } })), "sequence"),
        (rule(json!({ "when": [{ "argument": "a", "op": "is" }] })), "is"),
        (rule(json!({ "when": [{ "argument": "a", "op": "present", "not": true }] })), "not"),
        (rule(json!({ "when": [{ "op": "present" }] })), "argument"),
        (rule(json!({ "when": [{ "argument": "a", "op": "present", "elements": "all" }] })), "all"),
        (rule(json!({ "hours": { "from": "8:00", "to": "18:00", "zone": "UTC" } })), "8:00"),
        (rule(json!({ "hours": { "from": "08:00", "to": "24:01", "zone": "UTC" } })), "24:01"),
        (rule(json!({ "hours": { "from": "08:00", "to": "18:00" } })), "zone"),
        (
            rule(json!({ "hours": { "from": "08:00", "to": "18:00", "zone": "UTC", "days": ["monday"] } })),
            "monday",
        ),
        (rule(json!({ "hours": { "from": "08:00", "to": "18:00", "zone": "../etc" } })), "time zone name"),
        (rule(json!({ "approval": { "timeout": 300 } })), "with its unit"),
        (rule(json!({ "approval": { "timeout": "300" } })), "300"),
        (rule(json!({ "approval": { "timeout": "0s" } })), "0s"),
        (rule(json!({ "approval": { "role": "boss" } })), "boss"),
        (rule(json!({ "approval": { "count": -1 } })), "-1"),
        (rule(json!({ "approval": { "people": 1 } })), "people"),
        (rule(json!({ "limit": { "tokens": 1 } })), "per"),
        (rule(json!({ "limit": { "tokens": 1, "per": "day" } })), "day"),
        (rule(json!({ "limit": { "tokens": "1", "per": "caller" } })), "invalid type"),
        (rule(json!({ "on_violation": "allow" })), "allow"),
        (json!({ "version": 1 }), "rules"),
        (json!({ "rules": [] }), "version"),
        (json!({ "version": "1", "rules": [] }), "invalid type"),
        (json!({ "version": 1, "rules": null }), "null"),
        (json!({ "version": 1, "rules": [], "rule": [] }), "rule"),
        (json!({ "version": 1, "rules": [], "tiers": [{ "server": "a", "tool": "b" }] }), "tier"),
        (
            json!({ "version": 1, "rules": [], "tiers": [{ "server": "a", "tool": "b", "tier": "safe", "readonly": true }] }),
            "readonly",
        ),
        (
            json!({ "version": 1, "rules": [], "tests": [{ "name": "x", "given": { "server": "a", "tool": "b" }, "expect": "ask" }] }),
            "ask",
        ),
        (json!(null), "null"),
        (json!({}), "version"),
    ];
    for (value, named) in cases {
        let shown = value.to_string();
        let error = read(value).unwrap_err();
        assert!(error.contains(named), "{shown}: {error}");
    }
}

/// Fields and messages of the mistakes in one rule.
fn mistakes(rule: Value) -> Vec<String> {
    faults(json!([rule])).into_iter().map(|error| error.field.replace("rules[0].", "")).collect()
}

#[test]
fn f31_what_a_kind_does_not_take_is_a_mistake() {
    let tokens = json!({ "tokens": 1, "per": "conversation" });
    let calls = json!({ "calls": 1, "window": "1h", "per": "caller" });
    let when = json!([{ "argument": "a", "op": "present" }]);
    for (rule, expected) in [
        (json!({ "id": "r", "kind": "allow_tool", "approval": {} }), vec!["approval"]),
        (json!({ "id": "r", "kind": "allow_tool", "limit": tokens }), vec!["limit"]),
        (json!({ "id": "r", "kind": "allow_tool", "on_violation": "deny" }), vec!["on_violation"]),
        (
            json!({ "id": "r", "kind": "block_tool", "approval": {}, "limit": tokens }),
            vec!["approval", "limit"],
        ),
        (json!({ "id": "r", "kind": "require_approval", "on_violation": "deny" }), vec!["on_violation"]),
        (json!({ "id": "r", "kind": "require_approval", "limit": calls }), vec!["limit"]),
        (json!({ "id": "r", "kind": "input_validation" }), vec!["when"]),
        (json!({ "id": "r", "kind": "input_validation", "when": when, "limit": calls }), vec!["limit"]),
        (json!({ "id": "r", "kind": "input_validation", "when": when, "approval": {} }), vec!["approval"]),
        (
            json!({ "id": "r", "kind": "input_validation", "when": when, "approval": {}, "on_violation": "deny" }),
            vec!["approval"],
        ),
        (json!({ "id": "r", "kind": "token_budget" }), vec!["limit"]),
        (json!({ "id": "r", "kind": "rate_limit" }), vec!["limit"]),
        (
            json!({ "id": "r", "kind": "token_budget", "limit": { "per": "conversation" } }),
            vec!["limit.tokens"],
        ),
        (
            json!({ "id": "r", "kind": "token_budget", "limit": { "tokens": 1, "per": "caller" } }),
            vec!["limit.per"],
        ),
        (
            json!({ "id": "r", "kind": "token_budget", "limit": { "tokens": 1, "per": "tool" } }),
            vec!["limit.per"],
        ),
        (
            json!({ "id": "r", "kind": "token_budget", "limit": calls }),
            vec!["limit.calls", "limit.window", "limit.tokens", "limit.per"],
        ),
        (
            json!({ "id": "r", "kind": "rate_limit", "limit": { "per": "tool" } }),
            vec!["limit.calls", "limit.window"],
        ),
        (
            json!({ "id": "r", "kind": "rate_limit", "limit": { "calls": 1, "window": "1h", "per": "conversation" } }),
            vec!["limit.per"],
        ),
        (
            json!({ "id": "r", "kind": "rate_limit", "limit": { "calls": 1, "window": "1h", "per": "caller_day" } }),
            vec!["limit.per"],
        ),
        (
            json!({ "id": "r", "kind": "rate_limit", "limit": { "calls": 1, "window": "1h", "per": "caller", "tokens": 1 } }),
            vec!["limit.tokens"],
        ),
        (
            json!({ "id": "r", "kind": "require_approval", "approval": { "count": 0 } }),
            vec!["approval.count"],
        ),
        (
            json!({ "id": "r", "kind": "require_approval", "approval": { "role": "viewer" } }),
            vec!["approval.role"],
        ),
        (
            json!({ "id": "r", "kind": "require_approval", "approval": { "role": "client" } }),
            vec!["approval.role"],
        ),
        (json!({ "id": "r", "kind": "allow_tool", "match": { "tool": [] } }), vec!["match.tool"]),
        (json!({ "id": "r", "kind": "allow_tool", "match": { "tool": "" } }), vec!["match.tool"]),
        (json!({ "id": "r", "kind": "allow_tool", "match": { "server": "a/b" } }), vec!["match.server"]),
        (
            json!({ "id": "r", "kind": "allow_tool", "match": { "server": ["ok", "a b", "c d"] } }),
            vec!["match.server", "match.server"],
        ),
        (json!({ "id": "r", "kind": "allow_tool", "match": { "caller": "a b" } }), vec!["match.caller"]),
        (json!({ "id": "r", "kind": "allow_tool", "match": { "tier": [] } }), vec!["match.tier"]),
        (
            json!({ "id": "r", "kind": "allow_tool", "match": { "role": [], "origin": [] } }),
            vec!["match.role", "match.origin"],
        ),
        (
            json!({ "id": "r", "kind": "allow_tool", "hours": { "from": "08:00", "to": "08:00", "zone": "UTC" } }),
            vec!["hours.to"],
        ),
        (
            json!({ "id": "r", "kind": "allow_tool", "hours": { "from": "24:00", "to": "08:00", "zone": "UTC" } }),
            vec!["hours.from"],
        ),
    ] {
        assert_eq!(mistakes(rule.clone()), expected, "{rule}");
    }
}

#[test]
fn f31_every_mistake_is_found_and_nothing_is_compiled() {
    let mut value = whole();
    value["version"] = json!(2);
    value["rules"][0]["id"] = json!("calls");
    value["rules"][1]["match"]["tool"] = json!("");
    value["tests"] = json!([
        { "name": "x", "given": { "server": "a", "tool": "b", "calls": { "cals": 1 } }, "expect": "deny", "by": "tokenz" },
        { "name": "x", "given": { "server": "a", "tool": "b" }, "expect": "deny" },
        { "name": " ", "given": { "server": "a", "tool": "b" }, "expect": "deny" },
    ]);
    let found: Vec<String> =
        read(value).unwrap().compile(DEFAULTS).unwrap_err().iter().map(ToString::to_string).collect();
    assert_eq!(
        found,
        [
            "`version`: version 2 is not known: write `version: 1`",
            "rule `writes-ask`: `rules[1].match.tool`: `` can fit no tool name",
            "rule `calls`: `rules[4].id`: another rule has this id: ids are unique",
            "`tests[0].by`: there is no rule `tokenz`; did you mean `tokens`?",
            "`tests[0].given.calls`: there is no rule `cals`; did you mean `calls`?",
            "`tests[1].name`: another test has this name",
            "`tests[2].name`: a test needs a name",
        ]
    );
}

#[test]
fn f31_two_rules_with_one_id_are_refused_whatever_they_say() {
    let twice =
        json!([{ "id": "r", "kind": "allow_tool" }, { "id": "r", "kind": "block_tool", "enabled": false }]);
    assert_eq!(faults(twice)[0].field, "rules[1].id");
}

#[test]
fn an_empty_list_of_rules_is_valid() {
    assert!(rules(json!([])).rules().is_empty());
}

#[test]
fn spans_and_times_have_one_reading() {
    for (text, seconds) in [("1s", 1), ("300s", 300), ("5m", 300), ("1h", 3600), ("31d", 31 * 86_400)] {
        assert_eq!(text.parse::<Span>().unwrap().as_seconds(), seconds, "{text}");
    }
    for text in [
        "",
        "s",
        "0s",
        "-1s",
        "+1s",
        "1.5h",
        "1 h",
        "1H",
        "32d",
        "99999999999s",
        "5000000000m",
        "1ms",
        "h1",
        "１s",
    ] {
        assert!(text.parse::<Span>().is_err(), "{text}");
    }
    for seconds in [1, 59, 300, 3600, 7200, 86_400, Span::MAX_SECONDS] {
        let span = Span::from_seconds(seconds).unwrap();
        assert_eq!(span.to_string().parse::<Span>().unwrap(), span);
    }
    assert!(Span::from_seconds(0).is_none() && Span::from_seconds(Span::MAX_SECONDS + 1).is_none());
    for (text, minutes) in [("00:00", 0), ("08:05", 485), ("23:59", 1439), ("24:00", 1440)] {
        let time: TimeOfDay = text.parse().unwrap();
        assert_eq!((time.minutes(), time.to_string()), (minutes, text.to_string()));
    }
    for text in ["", ":", "8:00", "08:0", "24:01", "25:00", "12:60", "12:00:00", "+1:00", "noon", "１2:00"] {
        assert!(text.parse::<TimeOfDay>().is_err(), "{text}");
    }
}

#[test]
fn a_rule_set_tells_what_it_needs_and_is_about() {
    let hours = |zone: &str| json!({ "from": "08:00", "to": "18:00", "zone": zone });
    let when = json!([{ "argument": "a", "op": "present" }]);
    let set = rules(json!([
        { "id": "b", "kind": "allow_tool", "match": { "server": "one", "tool": "x" }, "hours": hours("UTC"), "when": when },
        { "id": "a", "kind": "allow_tool", "match": { "server": "t*" }, "hours": hours("Europe/Berlin"), "description": "hi" },
        { "id": "c", "kind": "block_tool", "hours": hours("UTC"), "mode": "shadow", "when": when },
        { "id": "d", "kind": "block_tool", "enabled": false, "when": when },
    ]));
    let zone = |name: &str| ZoneName::new(name).unwrap();
    assert_eq!(set.zones(), [zone("Europe/Berlin"), zone("UTC")]);
    let about = |server: &str, name: &str| -> Vec<String> {
        set.about(&crate::fixtures::tool(server, name)).map(|rule| rule.id().to_string()).collect()
    };
    assert_eq!(about("one", "x"), ["b", "c", "d"]);
    assert_eq!(about("two", "x"), ["a", "c", "d"]);
    assert_eq!(about("one", "y"), ["c", "d"]);
    assert!(set.inspects_arguments(&crate::fixtures::tool("one", "x")));
    assert!(
        !set.inspects_arguments(&crate::fixtures::tool("two", "x")),
        "shadow and switched-off rules do not count"
    );
    let rule = set.rule(&crate::fixtures::id("a")).unwrap();
    assert_eq!((rule.description(), rule.is_enabled(), rule.written().id.as_str()), ("hi", true, "a"));
    assert!(set.rule(&crate::fixtures::id("zz")).is_none());
    let server = |name: &str| sluicegate_policy::ServerName::new(name).unwrap();
    assert!(rule.is_about_server(&server("two")) && !rule.is_about_server(&server("one")));
}

#[test]
fn a_rule_needs_its_id_and_kind_alone() {
    let rule: Rule = serde_json::from_value(json!({ "id": "r", "kind": "allow_tool" })).unwrap();
    assert!(rule.enabled && rule.selects.is_all());
    assert_eq!(serde_json::to_value(&rule).unwrap(), json!({ "id": "r", "kind": "allow_tool" }));
    assert!(document(json!([])).rules.is_empty());
}
