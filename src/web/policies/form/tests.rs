use super::*;
use serde_json::json;

/// The fields that the form sends for a draft.
fn sent(draft: &Draft) -> Vec<(String, String)> {
    let mut fields: Vec<(&str, String)> = vec![
        ("id", draft.id.clone()),
        ("kind", draft.kind.to_string()),
        ("description", draft.description.clone()),
        ("mode", if draft.shadow { "shadow" } else { "enforce" }.to_owned()),
        ("server", draft.server.replace('\n', "\r\n")),
        ("tool", draft.tool.replace('\n', "\r\n")),
        ("caller", draft.caller.clone()),
        ("from", draft.from.clone()),
        ("to", draft.to.clone()),
        ("zone", draft.zone.clone()),
        ("timeout", draft.timeout.clone()),
        ("approver", draft.approver.clone()),
        ("count", draft.count.clone()),
        ("tokens", draft.tokens.clone()),
        ("calls", draft.calls.clone()),
        ("window", draft.window.clone()),
        ("revision", draft.revision.to_string()),
        ("on_violation", if draft.holds { "require_approval" } else { "deny" }.to_owned()),
    ];
    fields.extend(draft.enabled.then(|| ("enabled", "yes".to_owned())));
    fields.extend(draft.timed.then(|| ("timed", "yes".to_owned())));
    fields.extend(draft.per.map(|per| ("per", per.to_string())));
    fields.extend(draft.tiers.iter().map(|tier| ("tier", tier.to_string())));
    fields.extend(draft.roles.iter().map(|role| ("role", role.to_string())));
    fields.extend(draft.origins.iter().map(|origin| ("origin", origin.to_string())));
    fields.extend(draft.days.iter().map(|day| ("day", day.to_string())));
    for condition in &draft.conditions {
        fields.push(("argument", condition.argument.clone()));
        fields.push(("op", condition.asks.as_word().to_owned()));
        fields.push(("value", condition.value.replace('\n', "\r\n")));
        fields.push(("elements", if condition.any { "any" } else { "every" }.to_owned()));
    }
    fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// A rule that went through the form unchanged is the same rule.
#[test]
fn the_form_keeps_every_kind_of_rule() {
    let rules = [
        json!({"id": "a", "kind": "allow_tool", "description": "x \u{202e} <b>", "enabled": false, "mode": "shadow",
            "match": {"server": ["s", "t"], "tool": "read_*", "tier": ["safe", "high"], "caller": "me", "role": "client",
            "origin": ["mcp"]}}),
        json!({"id": "b", "kind": "block_tool", "hours": {"from": "22:00", "to": "06:00", "days": ["mon"], "zone": "UTC"},
            "when": [
                {"argument": "a.b", "op": "equals", "value": 5, "elements": "any"},
                {"argument": "a", "op": "equals", "value": "5"},
                {"argument": "a", "op": "equals", "value": "two\nlines"},
                {"argument": "a", "op": "equals", "value": false},
                {"argument": "a", "op": "one_of", "value": ["x", "y z"]},
                {"argument": "a", "op": "one_of", "value": ["x", 1.5, true]},
                {"argument": "a", "op": "one_of", "value": ["two\nlines"]},
                {"argument": "a", "op": "starts_with", "value": " x"},
                {"argument": "a", "op": "matches", "value": "[a-z]+"},
                {"argument": "a", "op": "length", "value": {"max": 100_000}},
                {"argument": "a", "op": "range", "value": {"min": -5, "max": 10.25}},
                {"argument": "a", "op": "present"},
                {"argument": "a", "op": "absent"},
                {"argument": "a", "op": "path_within", "value": "."},
                {"argument": "a", "op": "host_is", "value": "example.org"},
                {"argument": "a", "op": "host_within", "value": "example.org"}]}),
        json!({"id": "c", "kind": "require_approval", "approval": {"timeout": "60s", "role": "admin", "count": 2}}),
        json!({"id": "d", "kind": "input_validation", "when": [{"argument": "a", "op": "present"}], "on_violation": "deny"}),
        json!({"id": "e", "kind": "token_budget", "limit": {"tokens": 120_000, "per": "caller_day"},
            "on_violation": "require_approval", "approval": {"timeout": "5m"}}),
        json!({"id": "f", "kind": "rate_limit", "limit": {"calls": 20, "window": "1h", "per": "tool"}, "on_violation": "deny"}),
    ];
    for rule in rules {
        let rule: Rule = serde_json::from_value(rule).unwrap();
        let draft = Draft::of(&rule, 7);
        assert_eq!(draft.rule().as_ref(), Ok(&rule));
        assert_eq!(Draft::read(&sent(&draft)), draft, "{}", rule.id);
    }
}

#[test]
fn mistakes_are_told_at_their_fields() {
    let mut draft = Draft::new(RuleKind::RateLimit, 1);
    draft.id = "Not An Id".to_owned();
    (draft.calls, draft.window) = ("many".to_owned(), "soon".to_owned());
    (draft.timed, draft.from) = (true, "8".to_owned());
    draft.conditions = vec![
        DraftCondition::default(),
        DraftCondition { asks: Asks::Number, value: "five".to_owned(), ..DraftCondition::default() },
        DraftCondition {
            asks: Asks::Other(sluicegate_policy::Op::Range),
            value: "1-2".to_owned(),
            ..DraftCondition::default()
        },
    ];
    let errors = draft.rule().unwrap_err();
    let fields: Vec<&str> = errors.iter().map(|error| error.field.as_str()).collect();
    let wanted = [
        "id",
        "when[1].value",
        "when[2].value",
        "hours.from",
        "hours.to",
        "hours.zone",
        "limit.calls",
        "limit.window",
    ];
    assert_eq!(fields, wanted, "{errors:?}");
    draft = Draft::new(RuleKind::AllowTool, 1);
    draft.id = "history".to_owned();
    assert_eq!(draft.rule().unwrap_err()[0].field, "id");
}
