//! The JSON Schema of policy files, for editors: names, words and shapes. What only the whole document can tell is left to
//! `policy check`; nothing that is a policy is refused by the schema.

use serde_json::{Map, Value, json};
use sluicegate_policy::{
    Effect, Elements, Label, Mode, OnViolation, Op, Origin, Per, PolicyDocument, Role, RuleKind, Tier,
    Weekday,
};

/// The schema. Its words are those of the reader, so that the two cannot differ.
#[must_use]
pub fn schema() -> Value {
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Sluicegate policy",
        "description": "Rules for the tool calls of agents. The strictest matching rule wins; without one the call is denied.",
        "type": "object",
        "additionalProperties": false,
        "required": ["version", "rules"],
        "properties": {
            "version": { "const": PolicyDocument::VERSION },
            "tiers": { "type": "array", "items": { "$ref": "#/$defs/tier_line" } },
            "rules": { "type": "array", "items": { "$ref": "#/$defs/rule" } },
            "tests": { "type": "array", "items": { "$ref": "#/$defs/test" } },
        },
        "$defs": {
            "rule_id": {
                "description": "Stable and unique; stands in the trail.",
                "type": "string",
                "pattern": "^[a-z0-9-]{1,64}$",
            },
            "names": {
                "description": "A name or a list of names. `*` stands for any run of characters; a pattern matches the whole name, by case.",
                "oneOf": [
                    { "type": "string", "minLength": 1 },
                    { "type": "array", "minItems": 1, "items": { "type": "string", "minLength": 1 } },
                ],
            },
            "span": {
                "description": "A whole number and a unit: 300s, 5m, 1h, 1d.",
                "type": "string",
                "pattern": "^[0-9]+[smhd]$",
            },
            "time_of_day": { "type": "string", "pattern": "^(([01][0-9]|2[0-3]):[0-5][0-9]|24:00)$" },
            "bounds": object(&[], json!({ "min": { "type": "number" }, "max": { "type": "number" } })),
            "tier_line": tier_line(),
            "match": selector(),
            "condition": condition(),
            "hours": hours(),
            "rule": rule(),
            "given": given(),
            "test": test(),
        },
    })
}

/// An object of these keys and no others.
fn object(required: &[&str], properties: Value) -> Value {
    json!({ "type": "object", "additionalProperties": false, "required": required, "properties": properties })
}

fn about(what: &str, mut schema: Value) -> Value {
    if let Some(map) = schema.as_object_mut() {
        map.insert("description".to_owned(), what.into());
    }
    schema
}

fn words<T: ToString>(all: &[T]) -> Value {
    json!({ "enum": all.iter().map(ToString::to_string).collect::<Vec<_>>() })
}

/// A word, `*` for all of them, or a list.
fn choice<T: ToString>(all: &[T]) -> Value {
    let each = words(&all.iter().map(ToString::to_string).chain(["*".to_owned()]).collect::<Vec<_>>());
    json!({ "oneOf": [each, { "type": "array", "minItems": 1, "items": each }] })
}

fn tier_line() -> Value {
    // The other label is the anomaly detector's.
    let marks: Vec<Label> = Label::ALL.iter().copied().filter(|label| *label != Label::Anomalous).collect();
    let line = json!({
        "server": { "$ref": "#/$defs/names" },
        "tool": { "$ref": "#/$defs/names" },
        "tier": words(Tier::ALL),
        "read_only": about("It changes nothing: it may be tried again after a time-out.", json!({ "type": "boolean" })),
        "idempotent": about("Running it twice is the same as running it once.", json!({ "type": "boolean" })),
        "marks": about("What using it says about a conversation from then on.", json!({ "type": "array", "items": words(&marks) })),
    });
    let what = "How much harm tools can do. A tool on no line is high. A tier is not a permission.";
    about(what, object(&["server", "tool", "tier"], line))
}

fn selector() -> Value {
    let names = json!({ "$ref": "#/$defs/names" });
    let keys = json!({
        "server": names,
        "tool": names,
        "tier": choice(Tier::ALL),
        "caller": names,
        "role": choice(Role::ALL),
        "origin": choice(Origin::ALL),
    });
    about("Which calls the rule is about. What is left out matches all.", object(&[], keys))
}

fn condition() -> Value {
    let takes = |ops: &[Op], value: Value| {
        json!({
            "if": { "properties": { "op": words(ops) } },
            "then": { "required": ["value"], "properties": { "value": value } },
        })
    };
    let scalar = json!({ "type": ["string", "number", "boolean"] });
    let keys = json!({
        "argument": about("Keys joined by dots, such as options.path.", json!({ "type": "string", "minLength": 1 })),
        "op": words(Op::ALL),
        "value": {},
        "elements": words(Elements::ALL),
    });
    let mut condition = object(&["argument", "op"], keys);
    if let Some(map) = condition.as_object_mut() {
        let texts = [Op::StartsWith, Op::Matches, Op::PathWithin, Op::HostIs, Op::HostWithin];
        let nothing = json!({
            "if": { "properties": { "op": words(&[Op::Present, Op::Absent]) } },
            "then": { "properties": { "value": false } },
        });
        let by_op = json!([
            takes(&[Op::Equals], scalar.clone()),
            takes(&[Op::OneOf], json!({ "type": "array", "minItems": 1, "items": scalar })),
            takes(&texts, json!({ "type": "string" })),
            takes(&[Op::Length, Op::Range], json!({ "$ref": "#/$defs/bounds" })),
            nothing,
        ]);
        map.insert("allOf".to_owned(), by_op);
    }
    about("A typed question about one argument. One that cannot be judged never loosens.", condition)
}

fn hours() -> Value {
    let keys = json!({
        "from": { "$ref": "#/$defs/time_of_day" },
        "to": { "$ref": "#/$defs/time_of_day" },
        "days": { "type": "array", "items": words(Weekday::ALL) },
        "zone": { "type": "string", "pattern": "^[A-Za-z0-9_+/-]{1,64}$" },
    });
    about(
        "Only at these times. Over midnight if `to` is earlier than `from`.",
        object(&["from", "to", "zone"], keys),
    )
}

fn limit(required: &[&str], per: &[Per]) -> Value {
    let of = |key: &str| match key {
        "per" => words(per),
        "window" => json!({ "$ref": "#/$defs/span" }),
        _ => about("Zero is a limit: none.", json!({ "type": "integer", "minimum": 0 })),
    };
    let keys: Map<String, Value> = required.iter().map(|key| ((*key).to_owned(), of(key))).collect();
    object(required, Value::Object(keys))
}

fn rule() -> Value {
    let limits = [RuleKind::TokenBudget, RuleKind::RateLimit];
    let violates = [RuleKind::InputValidation, RuleKind::TokenBudget, RuleKind::RateLimit];
    let holds = [&[RuleKind::RequireApproval][..], &violates].concat();
    let approval = json!({
        "timeout": { "$ref": "#/$defs/span" },
        "role": words(&[Role::Approver, Role::Admin]),
        "count": { "type": "integer", "minimum": 1 },
    });
    let conditions = json!({ "type": "array", "items": { "$ref": "#/$defs/condition" } });
    let keys = json!({
        "id": { "$ref": "#/$defs/rule_id" },
        "kind": words(RuleKind::ALL),
        "description": { "type": "string" },
        "enabled": { "type": "boolean" },
        "mode": about("A rule in shadow mode records what it would have done, and decides nothing.", words(Mode::ALL)),
        "match": { "$ref": "#/$defs/match" },
        "when": about("All must be true. For input_validation: what must hold.", conditions),
        "hours": { "$ref": "#/$defs/hours" },
        "approval": about("Terms of the hold.", object(&[], approval)),
        "limit": { "type": "object" },
        "on_violation": words(OnViolation::ALL),
    });
    let only = |kinds: &[RuleKind], key: &str| json!({ "if": { "required": [key] }, "then": { "properties": { "kind": words(kinds) } } });
    let needs = |kind: RuleKind, key: &str, value: Value| {
        json!({
            "if": { "properties": { "kind": words(&[kind]) } },
            "then": { "required": [key], "properties": { key: value } },
        })
    };
    let mut rule = object(&["id", "kind"], keys);
    if let Some(map) = rule.as_object_mut() {
        let tokens = limit(&["tokens", "per"], &[Per::Conversation, Per::CallerDay]);
        let calls = limit(&["calls", "window", "per"], &[Per::Caller, Per::Tool, Per::Server]);
        let by_kind = json!([
            only(&limits, "limit"),
            only(&violates, "on_violation"),
            only(&holds, "approval"),
            needs(RuleKind::InputValidation, "when", json!({ "minItems": 1 })),
            needs(RuleKind::TokenBudget, "limit", tokens),
            needs(RuleKind::RateLimit, "limit", calls),
        ]);
        map.insert("allOf".to_owned(), by_kind);
    }
    rule
}

fn given() -> Value {
    let name = json!({ "type": "string", "minLength": 1 });
    let count = json!({ "type": "integer", "minimum": 0 });
    let at = object(
        &["day", "time"],
        json!({ "day": words(Weekday::ALL), "time": { "$ref": "#/$defs/time_of_day" } }),
    );
    let calls = json!({ "type": "object", "additionalProperties": count });
    let keys = json!({
        "server": name,
        "tool": name,
        "arguments": { "type": "object" },
        "caller": name,
        "role": words(Role::ALL),
        "origin": words(Origin::ALL),
        "tokens": object(&[], json!({ "conversation": count, "caller_day": count })),
        "calls": about("Calls that already ran, per rate_limit rule.", calls),
        "at": about("When, in every zone. If left out, hours cannot be judged.", at),
    });
    about(
        "A call. What is left out is usual: an approver's first call from the chat.",
        object(&["server", "tool"], keys),
    )
}

fn test() -> Value {
    let keys = json!({
        "name": { "type": "string", "minLength": 1 },
        "given": { "$ref": "#/$defs/given" },
        "expect": words(Effect::ALL),
        "by": { "$ref": "#/$defs/rule_id", "description": "A rule that must be among those that decide." },
    });
    about("A call, and what the rules must make of it.", object(&["name", "given", "expect"], keys))
}

#[cfg(test)]
mod tests {
    use super::schema;
    use crate::rules::{SHIPPED, parse};
    use serde_json::{Value, json};
    use sluicegate_policy::{ApprovalDefaults, PolicyDocument};

    const DEFAULTS: ApprovalDefaults = ApprovalDefaults { timeout_s: 300, high_tier_timeout_s: 60 };

    /// Whether the schema takes a document, and whether it is a policy.
    fn judged(document: &Value) -> (bool, bool) {
        let taken = jsonschema::draft202012::new(&schema()).unwrap().is_valid(document);
        let read: Result<PolicyDocument, _> = serde_json::from_value(document.clone());
        (taken, read.is_ok_and(|document| document.compile(DEFAULTS).is_ok()))
    }

    fn with_rule(rule: Value) -> Value {
        json!({ "version": 1, "rules": [rule] })
    }

    #[test]
    fn it_is_a_schema_and_takes_the_shipped_rules() {
        assert!(jsonschema::meta::is_valid(&schema()));
        let (document, _) = parse(SHIPPED, DEFAULTS).unwrap();
        assert_eq!(judged(&serde_json::to_value(document).unwrap()), (true, true));
    }

    #[test]
    fn it_takes_every_form_of_every_part() {
        let limits = json!({ "tokens": 0, "per": "caller_day" });
        for rule in [
            json!({ "id": "a", "kind": "allow_tool", "match": { "server": "*", "tool": ["a", "b*"], "tier": "*",
                "caller": "k*", "role": ["client"], "origin": "mcp" }, "enabled": false, "mode": "shadow" }),
            json!({ "id": "a", "kind": "block_tool", "hours": { "from": "22:00", "to": "24:00", "days": ["mon"], "zone": "UTC" } }),
            json!({ "id": "a", "kind": "require_approval", "approval": { "timeout": "5m", "role": "admin", "count": 2 } }),
            json!({ "id": "a", "kind": "token_budget", "limit": limits, "on_violation": "require_approval", "approval": {} }),
            json!({ "id": "a", "kind": "rate_limit", "limit": { "calls": 3, "window": "1h", "per": "tool" } }),
            json!({ "id": "a", "kind": "input_validation", "when": [
                { "argument": "a", "op": "equals", "value": 1 }, { "argument": "a", "op": "one_of", "value": ["x", true] },
                { "argument": "a", "op": "length", "value": { "min": 1 } }, { "argument": "a", "op": "range", "value": { "max": 1.5 } },
                { "argument": "a", "op": "present" }, { "argument": "a", "op": "absent", "elements": "any" },
                { "argument": "a", "op": "path_within", "value": "." }, { "argument": "a", "op": "host_is", "value": "x.org" },
                { "argument": "a", "op": "host_within", "value": "x.org" }, { "argument": "a", "op": "matches", "value": "x+" },
                { "argument": "a", "op": "starts_with", "value": "x" }] }),
        ] {
            let document = json!({ "version": 1, "rules": [rule],
                "tiers": [{ "server": "s", "tool": ["t"], "tier": "safe", "read_only": true, "idempotent": true, "marks": ["reaches_outside"] }],
                "tests": [{ "name": "t", "expect": "deny", "by": "a", "given": { "server": "s", "tool": "t", "arguments": { "x": [1] },
                    "caller": "c", "role": "client", "origin": "mcp", "tokens": { "conversation": 1 }, "calls": { "a": 1 },
                    "at": { "day": "mon", "time": "08:00" } } }] });
            assert_eq!(judged(&document), (true, true), "{document}");
        }
    }

    /// The kind: an editor that shows no mistake where the reader finds one of form.
    #[test]
    fn f31_it_refuses_what_the_reader_refuses_by_form() {
        let when = |condition: Value| json!({ "id": "a", "kind": "block_tool", "when": [condition] });
        for rule in [
            json!({ "id": "a", "kind": "require_approval", "aproval": {} }),
            json!({ "id": "a", "kind": "Block" }),
            json!({ "id": "A b", "kind": "block_tool" }),
            json!({ "kind": "block_tool" }),
            json!({ "id": "a", "kind": "block_tool", "match": { "tools": "x" } }),
            json!({ "id": "a", "kind": "block_tool", "match": { "tool": [] } }),
            json!({ "id": "a", "kind": "block_tool", "match": { "tier": "save" } }),
            json!({ "id": "a", "kind": "block_tool", "limit": { "tokens": 1, "per": "conversation" } }),
            json!({ "id": "a", "kind": "allow_tool", "approval": { "count": 1 } }),
            json!({ "id": "a", "kind": "allow_tool", "on_violation": "deny" }),
            json!({ "id": "a", "kind": "require_approval", "approval": { "count": 0 } }),
            json!({ "id": "a", "kind": "require_approval", "approval": { "role": "viewer" } }),
            json!({ "id": "a", "kind": "require_approval", "approval": { "timeout": 60 } }),
            json!({ "id": "a", "kind": "input_validation" }),
            json!({ "id": "a", "kind": "token_budget" }),
            json!({ "id": "a", "kind": "token_budget", "limit": { "tokens": 1, "per": "caller" } }),
            json!({ "id": "a", "kind": "rate_limit", "limit": { "calls": 1, "per": "caller" } }),
            json!({ "id": "a", "kind": "block_tool", "hours": { "from": "8:00", "to": "18:00", "zone": "UTC" } }),
            when(json!({ "argument": "a", "op": "within", "value": "." })),
            when(json!({ "argument": "a", "op": "equals" })),
            when(json!({ "argument": "a", "op": "present", "value": 1 })),
            when(json!({ "argument": "a", "op": "length", "value": 5 })),
            when(json!({ "argument": "a", "op": "length", "value": { "most": 5 } })),
            when(json!({ "argument": "a", "op": "one_of", "value": [] })),
            when(json!({ "argument": "", "op": "absent" })),
        ] {
            let document = with_rule(rule);
            assert_eq!(judged(&document), (false, false), "{document}");
        }
        for document in [
            json!({ "version": 2, "rules": [] }),
            json!({ "version": 1 }),
            json!([]),
            json!({ "version": 1, "rules": [], "rulez": [] }),
        ] {
            assert_eq!(judged(&document), (false, false), "{document}");
        }
    }
}
