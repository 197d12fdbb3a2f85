//! How long a decision takes, by the number of rules.
//!
//! Four shapes: `spread`, where rules name many tools and most are about others; `crowded`, where every rule is about the
//! called tool and asks one of a few questions; `distinct`, where besides each asks a question of its own; and `open`,
//! where each names its tools by a pattern. Beside the means, the 99th percentile is printed: the goal is 50 µs or less
//! over 1,000 rules.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a bench that cannot go on fails")]

use std::collections::BTreeMap;
use std::hint::black_box;
use std::time::Instant;

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use serde_json::{Value, json};
use sluicegate_policy::{
    ApprovalDefaults, Arguments, CallerId, Labels, LocalTimes, Origin, PolicyContext, PolicyDocument,
    Principal, Role, RuleSet, ServerName, Tier, Timestamp, TokenUsage, ToolName, ToolRef, evaluate,
};

fn rule(n: usize, shape: &str) -> Value {
    let condition = match n % 4 {
        0 if shape == "distinct" => {
            json!({ "argument": "path", "op": "path_within", "value": format!("docs/{n}") })
        }
        1 if shape == "distinct" => {
            json!({ "argument": "content", "op": "length", "value": { "max": 100_000 + n } })
        }
        2 if shape == "distinct" => {
            json!({ "argument": "path", "op": "starts_with", "value": format!("docs/{n}") })
        }
        3 if shape == "distinct" => {
            json!({ "argument": "url", "op": "host_within", "value": format!("example{n}.com") })
        }
        0 => json!({ "argument": "path", "op": "path_within", "value": "docs" }),
        1 => json!({ "argument": "content", "op": "length", "value": { "max": 100_000 } }),
        2 => json!({ "argument": "path", "op": "starts_with", "value": "docs/" }),
        _ => json!({ "argument": "url", "op": "host_within", "value": "example.com" }),
    };
    let tool = match (shape, n % 10) {
        ("crowded" | "distinct", _) => "write_file".to_string(),
        ("open", _) => "write_*".to_string(),
        (_, 0) => "write_*".to_string(),
        _ => format!("tool_{}", n % 300),
    };
    let kind = if n.is_multiple_of(2) { "allow_tool" } else { "require_approval" };
    json!({ "id": format!("rule-{n}"), "kind": kind, "match": { "server": "files", "tool": tool }, "when": [condition] })
}

fn rule_set(count: usize, shape: &str) -> RuleSet {
    let rules: Vec<Value> = (0..count).map(|n| rule(n, shape)).collect();
    let document: PolicyDocument = serde_json::from_value(json!({ "version": 1, "rules": rules })).unwrap();
    document.compile(ApprovalDefaults { timeout_s: 300, high_tier_timeout_s: 60 }).unwrap()
}

fn context() -> PolicyContext {
    let arguments =
        json!({ "path": "docs/plan.txt", "content": "x".repeat(2000), "url": "https://www.example.com/a" });
    PolicyContext {
        tool: ToolRef::new(ServerName::new("files").unwrap(), ToolName::new("write_file").unwrap()),
        tier: Tier::Moderate,
        arguments: Arguments::from_value(arguments).unwrap(),
        principal: Principal { caller: CallerId::new("someone").unwrap(), role: Role::Approver },
        origin: Origin::Chat,
        conversation: None,
        token_usage: TokenUsage::default(),
        counters: BTreeMap::new(),
        labels: Labels::new(),
        now: Timestamp(0),
        local_times: LocalTimes::new(),
    }
}

#[expect(clippy::print_stderr, reason = "the percentile is what the bench is for")]
fn percentile(shape: &str, count: usize, context: &PolicyContext, rules: &RuleSet) {
    let mut times: Vec<u128> = (0..5_000)
        .map(|_| {
            let start = Instant::now();
            black_box(evaluate(black_box(context), black_box(rules)));
            start.elapsed().as_nanos()
        })
        .collect();
    times.sort_unstable();
    eprintln!("{shape}/{count}: p50 {} ns, p99 {} ns", times[times.len() / 2], times[times.len() * 99 / 100]);
}

fn bench(criterion: &mut Criterion) {
    let context = context();
    let mut group = criterion.benchmark_group("evaluate");
    for shape in ["spread", "crowded", "distinct", "open"] {
        for count in [10, 1000, 10_000] {
            let rules = rule_set(count, shape);
            percentile(shape, count, &context, &rules);
            group.bench_with_input(BenchmarkId::new(shape, count), &rules, |bencher, rules| {
                bencher.iter(|| evaluate(black_box(&context), black_box(rules)));
            });
        }
    }
    group.finish();
}

criterion_group!(benches, bench);
criterion_main!(benches);
