//! How long a decision takes, by the number of rules; and how long it takes to judge 10,000 recorded calls by two sets of
//! 200 rules, which should be a second at most.
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
    ApprovalDefaults, Arguments, CallerId, Hints, KnownCall, Labels, LocalTimes, Origin, PolicyContext,
    PolicyDocument, Principal, Role, RuleSet, ServerName, Tier, Timestamp, TokenUsage, ToolName, ToolRef,
    compare, evaluate,
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
        for count in [10, 100, 1000, 10_000] {
            let rules = rule_set(count, shape);
            percentile(shape, count, &context, &rules);
            group.bench_with_input(BenchmarkId::new(shape, count), &rules, |bencher, rules| {
                bencher.iter(|| evaluate(black_box(&context), black_box(rules)));
            });
        }
    }
    group.finish();
}

/// Calls of many tools with arguments on both sides of the conditions, and an edit that changes some of them.
fn backtest(criterion: &mut Criterion) {
    let calls: Vec<KnownCall> = (0..10_000)
        .map(|n| {
            let (path, host) =
                (format!("docs/{}/{n}.txt", n % 250), format!("https://example{}.com/", n % 250));
            let arguments = json!({ "path": path, "content": "x".repeat(n % 500), "url": host });
            let tool = if n % 2 == 0 { "write_file".to_owned() } else { format!("tool_{}", n % 300) };
            let base = context();
            let context = PolicyContext {
                tool: ToolRef::new(base.tool.server().clone(), ToolName::new(&tool).unwrap()),
                arguments: Arguments::from_value(arguments).unwrap(),
                now: Timestamp(i64::try_from(n).unwrap() * 1000),
                ..base
            };
            KnownCall { context, hints: Hints::default(), ran: n % 3 == 0 }
        })
        .collect();
    let mut group = criterion.benchmark_group("backtest");
    group.sample_size(10);
    for shape in ["spread", "crowded", "distinct", "open"] {
        let (before, after) = (rule_set(200, shape), rule_set(199, shape));
        group.bench_function(BenchmarkId::new(shape, "10000 calls, 200 rules"), |bencher| {
            bencher.iter(|| compare(black_box(&calls), &before, &after));
        });
    }
    group.finish();
}

criterion_group!(benches, bench, backtest);
criterion_main!(benches);
