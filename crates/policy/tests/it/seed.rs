//! The rules that are shipped, as far as their shape matters to this crate: what they must decide.

use crate::fixtures::{DEFAULTS, call_of, outcome};
use serde_json::{Value, json};
use sluicegate_policy::{Hints, PolicyContext, PolicyDocument, RuleSet, TokenUsage, evaluate};

pub(crate) fn shipped() -> PolicyDocument {
    let line = |server: &str, tools: Value, tier: &str, read_only: bool| json!({ "server": server, "tool": tools, "tier": tier, "read_only": read_only });
    let within = json!({ "argument": "path", "op": "path_within", "value": "." });
    let about = |server: &str, tools: Value| json!({ "server": server, "tool": tools });
    serde_json::from_value(json!({
        "version": 1,
        "tiers": [
            line("sandbox-files", json!(["list_files", "read_file"]), "safe", true),
            line("sandbox-files", json!(["write_file", "move_file"]), "moderate", false),
            line("sandbox-files", json!("delete_file"), "high", false),
            line("context7", json!(["resolve-library-id", "query-docs"]), "safe", true),
            line("home", json!(["list_reminders", "list_devices"]), "safe", true),
            line("home", json!(["create_reminder", "set_device", "lock_door"]), "moderate", false),
            line("home", json!(["delete_reminder", "send_message", "unlock_door"]), "high", false),
        ],
        "rules": [
            { "id": "files-read", "kind": "allow_tool", "match": about("sandbox-files", json!(["list_files", "read_file"])) },
            { "id": "files-write-asks", "kind": "require_approval", "match": about("sandbox-files", json!("write_file")), "approval": { "timeout": "300s" } },
            { "id": "files-write-shape", "kind": "input_validation", "match": about("sandbox-files", json!("write_file")),
              "when": [within, { "argument": "content", "op": "length", "value": { "max": 100_000 } }] },
            { "id": "files-delete-blocked", "kind": "block_tool", "match": about("sandbox-files", json!("delete_file")) },
            { "id": "files-delete-asks", "kind": "require_approval", "match": about("sandbox-files", json!("delete_file")) },
            { "id": "docs", "kind": "allow_tool", "match": about("context7", json!(["resolve-library-id", "query-docs"])) },
            { "id": "home-low", "kind": "allow_tool", "match": { "server": "home", "tier": ["safe", "moderate"] } },
            { "id": "home-high", "kind": "require_approval", "match": { "server": "home", "tier": "high" }, "approval": { "timeout": "60s" } },
            { "id": "budget", "kind": "token_budget", "limit": { "tokens": 120_000, "per": "conversation" } },
        ],
    }))
    .unwrap()
}

fn decided(
    rules: &RuleSet,
    server: &str,
    name: &str,
    arguments: Value,
    tokens: u64,
) -> (String, Option<u32>) {
    let mut context = call_of(server, name, arguments);
    context.tier = rules.tier(&context.tool, Hints::default());
    let context =
        PolicyContext { token_usage: TokenUsage { conversation: tokens, caller_day: tokens }, ..context };
    let decision = evaluate(&context, rules);
    (outcome(&decision), decision.hold.map(|hold| hold.timeout_s))
}

#[test]
fn the_seed_decides_as_documented() {
    let rules = shipped().compile(DEFAULTS).unwrap();
    let write = |path: &str, content: usize| json!({ "path": path, "content": "x".repeat(content) });
    let shape = "deny/rule by files-write-shape";
    for (server, name, arguments, expected, timeout) in [
        ("sandbox-files", "list_files", json!({}), "allow/rule by files-read", None),
        ("sandbox-files", "read_file", json!({ "path": "a" }), "allow/rule by files-read", None),
        (
            "sandbox-files",
            "write_file",
            write("a/b.txt", 100_000),
            "require_approval/rule by files-write-asks",
            Some(300),
        ),
        ("sandbox-files", "write_file", write("a/b.txt", 100_001), shape, None),
        ("sandbox-files", "write_file", write("../b.txt", 1), "deny/unevaluable by files-write-shape", None),
        (
            "sandbox-files",
            "write_file",
            json!({ "path": "a" }),
            "deny/unevaluable by files-write-shape",
            None,
        ),
        ("sandbox-files", "delete_file", json!({ "path": "a" }), "deny/rule by files-delete-blocked", None),
        ("sandbox-files", "move_file", json!({}), "deny/no_rule", None),
        ("sandbox-files", "format_disk", json!({}), "deny/no_rule", None),
        ("context7", "resolve-library-id", json!({}), "allow/rule by docs", None),
        ("context7", "query-docs", json!({}), "allow/rule by docs", None),
        ("home", "list_reminders", json!({}), "allow/rule by home-low", None),
        ("home", "list_devices", json!({}), "allow/rule by home-low", None),
        ("home", "create_reminder", json!({}), "allow/rule by home-low", None),
        ("home", "set_device", json!({}), "allow/rule by home-low", None),
        ("home", "lock_door", json!({}), "allow/rule by home-low", None),
        ("home", "delete_reminder", json!({}), "require_approval/rule by home-high", Some(60)),
        ("home", "send_message", json!({}), "require_approval/rule by home-high", Some(60)),
        ("home", "unlock_door", json!({}), "require_approval/rule by home-high", Some(60)),
        ("home", "brand_new_tool", json!({}), "require_approval/rule by home-high", Some(60)),
        ("unknown", "read_file", json!({}), "deny/no_rule", None),
    ] {
        assert_eq!(
            decided(&rules, server, name, arguments.clone(), 119_999),
            (expected.to_string(), timeout),
            "{server} {name}"
        );
        let spent = decided(&rules, server, name, arguments, 120_000).0;
        assert!(spent.starts_with("deny/") && spent.contains("budget"), "{server} {name}: {spent}");
    }
}
