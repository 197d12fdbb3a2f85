//! Advice about rules that are valid and probably not meant.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use sluicegate_policy::{Hints, Offered, PolicyDocument, RuleSet, findings};

use crate::fixtures::{DEFAULTS, rules, tool};
use crate::seed::shipped;

fn offered(server: &str, name: &str, arguments: Option<&[&str]>) -> Offered {
    Offered {
        tool: tool(server, name),
        hints: Hints::default(),
        arguments: arguments
            .map(|names| names.iter().map(|name| (*name).to_string()).collect::<BTreeSet<_>>()),
    }
}

fn here() -> Vec<Offered> {
    vec![
        offered("files", "read", Some(&["path"])),
        offered("files", "write", Some(&["path", "content"])),
        offered("web", "fetch", None),
    ]
}

/// `rule kind [other]` of each finding.
fn found(written: Value, offered: &[Offered]) -> Vec<String> {
    listed(&rules(written), offered)
}

fn listed(rules: &RuleSet, offered: &[Offered]) -> Vec<String> {
    findings(rules, offered)
        .iter()
        .map(|one| {
            let other = one.other.as_ref().map(|id| format!(" {id}")).unwrap_or_default();
            format!("{} {}{other}", one.rule, one.kind)
        })
        .collect()
}

#[test]
fn f31_a_rule_that_can_match_nothing_is_said() {
    let one = |rule: Value| found(json!([rule]), &here());
    let selects = |selects: Value| one(json!({ "id": "r", "kind": "block_tool", "match": selects }));
    assert_eq!(selects(json!({ "server": "fiels" })), ["r dead"]);
    assert_eq!(selects(json!({ "server": "files", "tool": "READ" })), ["r dead"]);
    assert_eq!(selects(json!({ "server": "files", "tool": "rea*" })), [""; 0]);
    assert_eq!(selects(json!({ "role": "client", "origin": "chat" })), ["r dead"]);
    assert_eq!(selects(json!({ "role": "admin", "origin": "mcp" })), ["r dead"]);
    // A tool on no line is high.
    assert_eq!(selects(json!({ "server": "files", "tier": "safe" })), ["r dead"]);
    assert_eq!(selects(json!({ "server": "files", "tier": "high" })), [""; 0]);
    // With nothing on offer, nothing is known of names.
    assert_eq!(found(json!([{ "id": "r", "kind": "block_tool", "match": { "server": "x" } }]), &[]), [""; 0]);
    let when = |when: Value| one(json!({ "id": "r", "kind": "block_tool", "when": when }));
    for impossible in [
        json!([{ "argument": "content", "op": "present" }, { "argument": "content", "op": "absent" }]),
        json!([{ "argument": "content", "op": "equals", "value": "a" }, { "argument": "content", "op": "equals", "value": "b" }]),
        json!([{ "argument": "content", "op": "range", "value": { "min": 2 } }, { "argument": "content", "op": "range", "value": { "max": 1 } }]),
        json!([{ "argument": "content", "op": "length", "value": { "min": 2 } }, { "argument": "content", "op": "length", "value": { "max": 1 } }]),
        json!([{ "argument": "content", "op": "one_of", "value": [1, 2] }, { "argument": "content", "op": "range", "value": { "min": 3 } }]),
        json!([{ "argument": "content", "op": "equals", "value": 1 }, { "argument": "content", "op": "length", "value": { "min": 0 } }]),
    ] {
        assert_eq!(when(impossible.clone()), ["r dead"], "{impossible}");
    }
    for possible in [
        json!([{ "argument": "content", "op": "range", "value": { "min": 1 } }, { "argument": "content", "op": "range", "value": { "max": 1 } }]),
        json!([{ "argument": "content", "op": "one_of", "value": ["a", "b"] }, { "argument": "content", "op": "equals", "value": "b" }]),
        json!([{ "argument": "content", "op": "equals", "value": "a", "elements": "any" }, { "argument": "content", "op": "equals", "value": "b", "elements": "any" }]),
    ] {
        assert_eq!(when(possible.clone()), [""; 0], "{possible}");
    }
}

#[test]
fn rules_beside_a_stricter_or_an_equal_one_are_said() {
    let pair = |a: Value, b: Value| found(json!([a, b]), &[]);
    let allow = json!({ "id": "a", "kind": "allow_tool", "match": { "server": "files", "tool": "read" } });
    let block = |selects: Value| json!({ "id": "b", "kind": "block_tool", "match": selects });
    assert_eq!(pair(allow.clone(), block(json!({ "server": "fil*" }))), ["a outranked b"]);
    assert_eq!(pair(allow.clone(), block(json!({}))), ["a outranked b"]);
    assert_eq!(pair(allow.clone(), block(json!({ "server": "files", "tool": "write" }))), [""; 0]);
    assert_eq!(pair(allow.clone(), block(json!({ "tier": ["safe", "moderate"] }))), [""; 0]);
    assert_eq!(
        pair(allow.clone(), block(json!({ "tier": ["safe", "moderate", "high"] }))),
        ["a outranked b"]
    );
    assert_eq!(pair(allow.clone(), block(json!({ "caller": "ada" }))), [""; 0]);
    let mut off = block(json!({}));
    off["enabled"] = json!(false);
    assert_eq!(pair(allow.clone(), off), [""; 0]);
    let mut shadow = block(json!({}));
    shadow["mode"] = json!("shadow");
    assert_eq!(pair(allow.clone(), shadow), [""; 0]);
    let mut some = block(json!({}));
    some["when"] = json!([{ "argument": "x", "op": "present" }]);
    assert_eq!(pair(allow.clone(), some.clone()), [""; 0]);
    // The same calls, and something else said of them.
    let mut same = allow.clone();
    same["match"] = json!({});
    same["when"] = some["when"].clone();
    assert_eq!(pair(same, some), ["a contradictory b"]);
    let wider = json!({ "id": "b", "kind": "allow_tool", "match": { "server": "files" } });
    assert_eq!(pair(allow.clone(), wider), ["a redundant b"]);
    let twin = json!({ "id": "b", "kind": "allow_tool", "match": { "server": "files", "tool": "read" } });
    assert_eq!(pair(allow, twin), ["b redundant a"]);
}

#[test]
fn f31_a_wide_allow_is_said() {
    let one = |rule: Value| found(json!([rule]), &here());
    assert_eq!(one(json!({ "id": "r", "kind": "allow_tool" })), ["r over_broad"]);
    assert_eq!(
        one(json!({ "id": "r", "kind": "allow_tool", "match": { "server": "*", "tool": "*" } })),
        ["r over_broad"]
    );
    assert_eq!(
        one(json!({ "id": "r", "kind": "allow_tool", "match": { "server": "files" } })),
        ["r over_broad"]
    );
    let narrow = json!({ "id": "r", "kind": "allow_tool", "match": { "server": "files" }, "when": [{ "argument": "path", "op": "path_within", "value": "." }] });
    assert_eq!(one(narrow), [""; 0]);
    assert_eq!(one(json!({ "id": "r", "kind": "require_approval" })), [""; 0]);
}

#[test]
fn f32_a_text_where_a_path_or_a_host_is_meant_is_said() {
    let one = |kind: &str, argument: &str, op: &str, value: Value| {
        let rule = json!({ "id": "r", "kind": kind, "match": { "server": "web" }, "when": [{ "argument": argument, "op": op, "value": value }] });
        found(json!([rule]), &here())
    };
    let texts = ["r text_comparison"];
    assert_eq!(one("allow_tool", "path", "starts_with", json!("docs/")), texts);
    assert_eq!(one("allow_tool", "options.targetPath", "matches", json!("docs/.*")), texts);
    assert_eq!(one("block_tool", "file_name", "equals", json!("secret")), texts);
    assert_eq!(one("block_tool", "paths", "one_of", json!(["a", "b"])), texts);
    assert_eq!(one("input_validation", "u", "starts_with", json!("https://example.com")), texts);
    assert_eq!(one("block_tool", "url", "equals", json!("x")), texts);
    assert_eq!(one("require_approval", "t", "starts_with", json!("/etc")), texts);
    // One value that is allowed is one value.
    assert_eq!(one("allow_tool", "path", "equals", json!("notes.txt")), [""; 0]);
    assert_eq!(one("block_tool", "title", "starts_with", json!("Re")), [""; 0]);
    assert_eq!(one("allow_tool", "path", "path_within", json!("docs")), [""; 0]);
    assert_eq!(one("allow_tool", "profile", "starts_with", json!("a")), [""; 0]);
}

#[test]
fn f30_a_condition_on_an_argument_that_no_tool_takes_is_said() {
    let rule = |argument: &str, tool: &str| json!([{ "id": "r", "kind": "input_validation", "match": { "tool": tool }, "when": [{ "argument": argument, "op": "length", "value": { "max": 9 } }] }]);
    assert_eq!(found(rule("paths", "read"), &here()), ["r unknown_argument"]);
    assert_eq!(found(rule("path", "read"), &here()), [""; 0]);
    assert_eq!(found(rule("content", "*"), &here()), [""; 0]);
    // A tool whose schema does not say takes anything.
    assert_eq!(found(rule("paths", "fetch"), &here()), [""; 0]);
}

#[test]
fn the_shipped_rules_show_the_one_conflict_that_they_mean() {
    let document: PolicyDocument = shipped();
    let set = document.compile(DEFAULTS).unwrap();
    let names = |tier: &sluicegate_policy::ToolMark| {
        tier.server
            .iter()
            .flat_map(|s| tier.tool.iter().map(move |t| offered(s, t, None)))
            .collect::<Vec<_>>()
    };
    let all: Vec<Offered> = document.tiers.iter().flat_map(names).collect();
    assert_eq!(listed(&set, &all), ["files-delete-asks outranked files-delete-blocked"]);
    let off: RuleSet = {
        let mut document = document;
        document.rules.iter_mut().find(|rule| rule.id.as_str() == "files-delete-blocked").unwrap().enabled =
            false;
        document.compile(DEFAULTS).unwrap()
    };
    assert!(listed(&off, &all).is_empty());
}
