//! What the shipped rules decide, as a table in a file: every declared tool × origin × shape of the facts. A change of the
//! rules shows as a change of `decisions.txt`, which a person reads. Run with UPDATE_DECISIONS=1 to write it anew.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use serde_json::{Value, json};
use sluicegate::rules::{SHIPPED, parse};
use sluicegate_policy::{
    ApprovalDefaults, Effect, Given, Origin, PolicyDocument, RuleSet, ServerName, TokenUsage, ToolName,
    Verdict, evaluate,
};

const DEFAULTS: ApprovalDefaults = ApprovalDefaults { timeout_s: 300, high_tier_timeout_s: 60 };

/// A shape of the facts: what differs from an ordinary call.
struct Shape {
    name: &'static str,
    arguments: Value,
    tokens: u64,
}

fn shapes() -> Vec<Shape> {
    let ordinary = json!({ "path": "notes/a.txt", "content": "text" });
    let with = |name, arguments| Shape { name, arguments, tokens: 0 };
    vec![
        with("ordinary", ordinary.clone()),
        with("no arguments", json!({})),
        with("path outside", json!({ "path": "../a.txt", "content": "text" })),
        with("path absolute", json!({ "path": "/etc/passwd", "content": "text" })),
        with("path a list", json!({ "path": ["a.txt", "../b.txt"], "content": "text" })),
        with("path null", json!({ "path": null, "content": "text" })),
        with("content at its limit", json!({ "path": "a.txt", "content": "x".repeat(100_000) })),
        with("content too long", json!({ "path": "a.txt", "content": "x".repeat(100_001) })),
        Shape { name: "budget nearly used", arguments: ordinary.clone(), tokens: 119_999 },
        Shape { name: "budget used", arguments: ordinary, tokens: 120_000 },
    ]
}

/// Every tool on a tier line, and two that are on none.
fn tools(document: &PolicyDocument) -> Vec<(String, String)> {
    let mut tools: Vec<_> = document
        .tiers
        .iter()
        .flat_map(|line| {
            line.server
                .iter()
                .flat_map(|server| line.tool.iter().map(move |tool| (server.clone(), tool.clone())))
        })
        .collect();
    tools.push(("sandbox-files".into(), "a_new_tool".into()));
    tools.push(("a-new-server".into(), "read_file".into()));
    tools
}

struct Row {
    tool: String,
    origin: Origin,
    shape: &'static str,
    decision: String,
}

fn decide(
    rules: &RuleSet,
    tool: &(String, String),
    origin: Origin,
    shape: &Shape,
    matched: &mut BTreeSet<String>,
) -> Row {
    let given = Given {
        server: ServerName::new(&tool.0).unwrap(),
        tool: ToolName::new(&tool.1).unwrap(),
        arguments: shape.arguments.as_object().unwrap().clone(),
        caller: None,
        role: None,
        origin: Some(origin),
        tokens: Some(TokenUsage { conversation: shape.tokens, caller_day: shape.tokens }),
        calls: Default::default(),
        at: None,
    };
    let context = given.context(rules).unwrap();
    let decision = evaluate(&context, rules);
    for considered in decision.considered.iter() {
        if matches!(considered.verdict, Verdict::Matched(_)) {
            matched.insert(considered.rule.to_string());
        }
    }
    let deciding: Vec<_> = decision.deciding.iter().map(ToString::to_string).collect();
    let hold = decision.hold.as_ref().map(|hold| format!(" {} s", hold.timeout_s)).unwrap_or_default();
    let by = format!("{} {}", decision.reason, deciding.join(" + "));
    assert_eq!(decision.effect == Effect::RequireApproval, decision.hold.is_some());
    Row {
        tool: format!("{}/{} ({})", tool.0, tool.1, context.tier),
        origin,
        shape: shape.name,
        decision: format!("{}{hold}, {}", decision.effect, by.trim_end()),
    }
}

/// Rows that differ in shape alone and decide alike stand in one line; most shapes together are `otherwise`.
fn table(rows: &[Row]) -> String {
    let mut out = String::from("# What the shipped rules decide. Written by tests/it/decisions.rs.\n");
    let mut seen: Vec<(&str, &str)> = Vec::new();
    for row in rows {
        let origins = rows.iter().filter(|r| r.tool == row.tool && r.shape == row.shape);
        assert!(origins.clone().all(|r| r.decision == row.decision), "the origin matters for {}", row.tool);
        if seen.contains(&(&row.tool, &row.decision)) || row.origin != Origin::Chat {
            continue;
        }
        if seen.iter().all(|(tool, _)| *tool != row.tool) {
            writeln!(out, "\n{}", row.tool).unwrap();
        }
        seen.push((&row.tool, &row.decision));
        let same = rows
            .iter()
            .filter(|r| r.tool == row.tool && r.origin == row.origin && r.decision == row.decision);
        let shapes: Vec<_> = same.map(|r| r.shape).collect();
        let when = if shapes.len() > 6 { "otherwise".to_owned() } else { shapes.join(", ") };
        writeln!(out, "  {} ({when})", row.decision).unwrap();
    }
    out
}

#[test]
#[expect(clippy::disallowed_methods, reason = "a developer's switch of this test")]
fn the_shipped_rules_decide_what_the_table_says() {
    let (document, rules) = parse(SHIPPED, DEFAULTS).unwrap();
    let mut matched = BTreeSet::new();
    let mut rows = Vec::new();
    for tool in tools(&document) {
        for shape in shapes() {
            for origin in [Origin::Chat, Origin::Mcp] {
                rows.push(decide(&rules, &tool, origin, &shape, &mut matched));
            }
        }
    }
    let all: BTreeSet<String> = document.rules.iter().map(|rule| rule.id.to_string()).collect();
    assert_eq!(matched, all, "a rule that no row of the table matches");

    let found = table(&rows);
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/decisions.txt");
    if std::env::var_os("UPDATE_DECISIONS").is_some() {
        std::fs::write(path, &found).unwrap();
    }
    let expected = std::fs::read_to_string(path).unwrap_or_default();
    assert!(found == expected, "decisions.txt says something else; the rules decide:\n{found}");
}
