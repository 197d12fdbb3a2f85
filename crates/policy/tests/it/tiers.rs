//! Tiers and marks: the operator's word, and hints that can only tighten.

use crate::fixtures::{DEFAULTS, tool};
use serde_json::{Value, json};
use sluicegate_policy::{Hints, Label, PolicyDocument, RuleError, RuleSet, Tier};

fn compile(tiers: Value) -> Result<RuleSet, Vec<RuleError>> {
    let document: PolicyDocument =
        serde_json::from_value(json!({ "version": 1, "tiers": tiers, "rules": [] })).unwrap();
    document.compile(DEFAULTS)
}

fn lines() -> RuleSet {
    compile(json!([
        { "server": "files", "tool": ["list", "read"], "tier": "safe", "read_only": true, "marks": ["sensitive_data"] },
        { "server": "files", "tool": "write", "tier": "moderate", "idempotent": true },
        { "server": "web", "tool": "*", "tier": "moderate", "read_only": true, "marks": ["untrusted_content"] },
        { "server": "web", "tool": "post_*", "tier": "high", "marks": ["reaches_outside"] },
    ]))
    .unwrap()
}

#[test]
fn a_tool_on_no_line_is_high() {
    for (server, name) in [("files", "delete"), ("other", "read"), ("files", "READ"), ("files", "read2")] {
        let tool = tool(server, name);
        assert_eq!(lines().tier(&tool, Hints::default()), Tier::High, "{tool}");
        assert!(
            !lines().is_read_only(&tool) && !lines().is_idempotent(&tool) && lines().marks(&tool).is_empty()
        );
    }
}

#[test]
fn the_strictest_of_all_lines_counts() {
    let (set, read, post) = (lines(), tool("files", "read"), tool("web", "post_form"));
    assert_eq!(set.tier(&read, Hints::default()), Tier::Safe);
    assert!(set.is_read_only(&read) && !set.is_idempotent(&read));
    assert!(set.is_idempotent(&tool("files", "write")) && !set.is_read_only(&tool("files", "write")));
    assert_eq!(set.tier(&post, Hints::default()), Tier::High);
    assert!(!set.is_read_only(&post), "one of its two lines does not say so");
    assert_eq!(
        set.marks(&post).into_iter().collect::<Vec<_>>(),
        [Label::UntrustedContent, Label::ReachesOutside]
    );
    assert!(set.is_read_only(&tool("web", "get")));
}

#[test]
fn f24_hints_raise_a_tier_and_never_lower_it() {
    let set = lines();
    for (name, own) in [("read", Tier::Safe), ("write", Tier::Moderate), ("delete", Tier::High)] {
        let tool = tool("files", name);
        for read_only in [None, Some(true), Some(false)] {
            for destructive in [None, Some(true), Some(false)] {
                let tier = set.tier(&tool, Hints { read_only, destructive });
                let expected = match (read_only, destructive) {
                    (_, Some(true)) => Tier::High,
                    (Some(false), _) => own.max(Tier::Moderate),
                    _ => own,
                };
                assert_eq!(tier, expected, "{tool} {read_only:?} {destructive:?}");
                assert!(tier >= own);
            }
        }
    }
}

#[test]
fn f31_mistakes_in_tier_lines() {
    let faults =
        |tiers| -> Vec<String> { compile(tiers).unwrap_err().into_iter().map(|error| error.field).collect() };
    let line = |server: &str, name: Value| json!({ "server": server, "tool": name, "tier": "safe" });
    assert_eq!(faults(json!([line("", json!("a"))])), ["tiers[0].server"]);
    assert_eq!(faults(json!([line("a b", json!("a"))])), ["tiers[0].server"]);
    assert_eq!(faults(json!([line("a", json!([]))])), ["tiers[0].tool"]);
    assert_eq!(faults(json!([line("a", json!("x\n"))])), ["tiers[0].tool"]);
    assert_eq!(faults(json!([line("a", json!("x")), line("a", json!(["y", "x"]))])), ["tiers[1]"]);
    assert_eq!(faults(json!([line("a", json!(["x", "x"]))])), ["tiers[0]"]);
    let marked = json!([{ "server": "a", "tool": "b", "tier": "safe", "marks": ["anomalous"] }]);
    assert_eq!(faults(marked), ["tiers[0].marks"]);
}
