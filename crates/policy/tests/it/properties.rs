//! The promises of the engine, for any rules and any call.

use proptest::prelude::*;
use proptest::sample::{Index, select};
use serde_json::{Map, Value, json};
use sluicegate_policy::{
    Arguments, CallerId, Decision, Effect, LocalTime, Mode, Origin, PolicyContext, PolicyDocument, Principal,
    Reason, Role, Rule, RuleKind, Tier, Timestamp, TokenUsage, Truth, Verdict, Weekday, ZoneName, evaluate,
};

use crate::fixtures::{DEFAULTS, id, tool};

// A small world, so that rules and calls often meet.

fn condition() -> impl Strategy<Value = Value> {
    let argument = select(vec!["p", "q", "o.p"]);
    let test = prop_oneof![
        select(vec![json!("a"), json!("a/b"), json!(1), json!(true)])
            .prop_map(|v| json!({ "op": "equals", "value": v })),
        Just(json!({ "op": "one_of", "value": ["a", 2] })),
        select(vec!["a", "a/"]).prop_map(|v| json!({ "op": "starts_with", "value": v })),
        (0..3u32, 0..3u32)
            .prop_map(|(min, more)| json!({ "op": "length", "value": { "min": min, "max": min + more } })),
        (-1..2i32).prop_map(|min| json!({ "op": "range", "value": { "min": min } })),
        select(vec!["present", "absent"]).prop_map(|op| json!({ "op": op })),
        select(vec![".", "a", "a/b"]).prop_map(|v| json!({ "op": "path_within", "value": v })),
    ];
    (argument, test, prop::bool::weighted(0.2)).prop_map(|(argument, mut condition, any)| {
        condition["argument"] = json!(argument);
        if any {
            condition["elements"] = json!("any");
        }
        condition
    })
}

fn selector() -> impl Strategy<Value = Value> {
    let names = |some: Vec<Value>| prop::option::weighted(0.5, select(some));
    (
        names(vec![json!("s"), json!("t"), json!("*"), json!(["s", "u"])]),
        names(vec![
            json!("read"),
            json!("re*"),
            json!("*d"),
            json!(["read", "write"]),
            json!("r*a*"),
            json!("*"),
        ]),
        prop::option::weighted(0.2, select(vec![json!("safe"), json!(["moderate", "high"]), json!("*")])),
        prop::option::weighted(0.2, select(vec![json!("ada"), json!("*a"), json!("key-*")])),
        prop::option::weighted(0.2, select(vec![json!("approver"), json!(["client", "admin"]), json!("*")])),
        prop::option::weighted(0.2, select(vec![json!("chat"), json!(["chat", "mcp"])])),
    )
        .prop_map(|(server, tool, tier, caller, role, origin)| {
            let keys = [
                ("server", server),
                ("tool", tool),
                ("tier", tier),
                ("caller", caller),
                ("role", role),
                ("origin", origin),
            ];
            let written: Map<String, Value> =
                keys.into_iter().filter_map(|(key, value)| Some((key.to_string(), value?))).collect();
            Value::Object(written)
        })
}

fn hours() -> impl Strategy<Value = Value> {
    let time = || select(vec!["00:00", "06:00", "12:00", "23:59"]);
    (time(), time(), prop::collection::vec(select(vec!["mon", "sun"]), 0..2))
        .prop_filter("not empty", |(from, to, _)| from != to)
        .prop_map(|(from, to, days)| json!({ "from": from, "to": to, "days": days, "zone": "UTC" }))
}

/// A rule, without its id.
fn rule() -> impl Strategy<Value = Value> {
    let kind = select(RuleKind::ALL);
    let switches = (prop::bool::weighted(0.9), prop::bool::weighted(0.1), any::<bool>());
    let when = prop::collection::vec(condition(), 0..3);
    let limit =
        (0..3u64, select(vec!["conversation", "caller_day"]), select(vec!["caller", "tool", "server"]));
    (kind, switches, selector(), when, prop::option::weighted(0.2, hours()), limit).prop_map(
        |(kind, (enabled, shadow, holds), selects, mut when, hours, (limit, tokens_per, calls_per))| {
            let mut rule = json!({ "kind": kind, "enabled": enabled, "match": selects });
            if shadow {
                rule["mode"] = json!("shadow");
            }
            if let Some(hours) = hours {
                rule["hours"] = hours;
            }
            match kind {
                RuleKind::TokenBudget => rule["limit"] = json!({ "tokens": limit, "per": tokens_per }),
                RuleKind::RateLimit => {
                    rule["limit"] = json!({ "calls": limit, "window": "1h", "per": calls_per })
                }
                RuleKind::InputValidation if when.is_empty() => {
                    when.push(json!({ "argument": "p", "op": "present" }))
                }
                RuleKind::AllowTool
                | RuleKind::BlockTool
                | RuleKind::RequireApproval
                | RuleKind::InputValidation => {}
            }
            rule["when"] = json!(when);
            let checks =
                matches!(kind, RuleKind::InputValidation | RuleKind::TokenBudget | RuleKind::RateLimit);
            if checks && holds {
                rule["on_violation"] = json!("require_approval");
            }
            rule
        },
    )
}

pub(crate) fn document() -> impl Strategy<Value = PolicyDocument> {
    prop::collection::vec(rule(), 0..8).prop_map(|mut rules| {
        for (n, rule) in rules.iter_mut().enumerate() {
            rule["id"] = json!(format!("r{n}"));
        }
        serde_json::from_value(json!({ "version": 1, "rules": rules })).unwrap()
    })
}

fn argument() -> impl Strategy<Value = Value> {
    let leaf = select(vec![
        json!("a"),
        json!("a/b"),
        json!("b"),
        json!(""),
        json!("../a"),
        json!("/a"),
        json!(-2),
        json!(0),
        json!(1),
        json!(true),
        json!(null),
        json!({}),
        json!({ "p": "a" }),
    ]);
    leaf.prop_recursive(2, 6, 3, |inner| prop::collection::vec(inner, 0..3).prop_map(Value::from))
}

fn arguments() -> impl Strategy<Value = Value> {
    let some = || prop::option::weighted(0.8, argument());
    (
        some(),
        some(),
        prop::option::of(prop_oneof![
            some().prop_map(|p| match p {
                Some(p) => json!({ "p": p }),
                None => json!({}),
            }),
            argument()
        ]),
    )
        .prop_map(|(p, q, o)| {
            let keys = [("p", p), ("q", q), ("o", o)];
            Value::Object(
                keys.into_iter().filter_map(|(key, value)| Some((key.to_string(), value?))).collect(),
            )
        })
}

pub(crate) fn context() -> impl Strategy<Value = PolicyContext> {
    let called = (select(vec!["s", "t"]), select(vec!["read", "write", "reread"]));
    let who = (select(vec!["ada", "key-1"]), select(Role::ALL), select(Tier::ALL), select(Origin::ALL));
    let counts = prop::collection::vec(prop::option::weighted(0.8, 0..4u64), 9);
    let time =
        prop::option::weighted(0.8, (select(Weekday::ALL), select(vec![0u16, 359, 360, 720, 1438, 1439])));
    (called, who, arguments(), counts, (0..4u64, 0..4u64), time).prop_map(
        |(
            (server, name),
            (caller, role, tier, origin),
            arguments,
            counts,
            (conversation, caller_day),
            time,
        )| {
            let counted = counts.into_iter().enumerate();
            let utc = ZoneName::new("UTC").unwrap();
            PolicyContext {
                tool: tool(server, name),
                tier,
                arguments: Arguments::from_value(arguments).unwrap(),
                principal: Principal { caller: CallerId::new(caller).unwrap(), role },
                origin,
                conversation: None,
                token_usage: TokenUsage { conversation, caller_day },
                counters: counted.filter_map(|(n, calls)| Some((id(&format!("r{n}")), calls?))).collect(),
                labels: Default::default(),
                now: Timestamp(0),
                local_times: time
                    .map(|(weekday, minute_of_day)| (utc, LocalTime { weekday, minute_of_day }))
                    .into_iter()
                    .collect(),
            }
        },
    )
}

fn decide(document: &PolicyDocument, context: &PolicyContext) -> Decision {
    evaluate(context, &document.compile(DEFAULTS).unwrap())
}

/// A rule of that kind for every call, under an id that no other has.
fn blanket(kind: &str) -> Rule {
    serde_json::from_value(json!({ "id": "r8", "kind": kind })).unwrap()
}

/// Every text of a call's arguments, and every condition, as the engine sees them: is any of it not to be judged?
fn all_judged(document: &PolicyDocument, context: &PolicyContext) -> bool {
    document.rules.iter().flat_map(|rule| &rule.when).all(|condition| {
        !matches!(context.arguments.ask(&condition.compile().unwrap()), Truth::Unevaluable(_))
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// Any matching deny wins, and only a deny or nothing at all denies.
    #[test]
    fn any_matching_deny_wins(document in document(), context in context()) {
        let decision = decide(&document, &context);
        let matched: Vec<Effect> = decision.considered.iter().filter_map(|c| match c.verdict {
            Verdict::Matched(effect) => Some(effect),
            _ => None,
        }).collect();
        let denied = matched.contains(&Effect::Deny) || matched.is_empty();
        prop_assert_eq!(decision.effect == Effect::Deny, denied);
        let held = !denied && matched.contains(&Effect::RequireApproval);
        prop_assert_eq!(decision.effect == Effect::RequireApproval, held);
        prop_assert_eq!(decision.hold.is_some(), held);
        prop_assert_eq!(decision.reason == Reason::NoRule, matched.is_empty());
        prop_assert_eq!(decision.deciding.is_empty(), matched.is_empty());
    }

    /// A block of everything leaves nothing.
    #[test]
    fn nothing_gets_past_a_block_of_everything(document in document(), context in context()) {
        let mut document = document;
        document.rules.push(blanket("block_tool"));
        let decision = decide(&document, &context);
        prop_assert_eq!((decision.effect, decision.reason), (Effect::Deny, Reason::Rule));
    }

    /// No rule means deny: without an allow or hold that matches, nothing runs.
    #[test]
    fn no_rule_means_deny(document in document(), context in context()) {
        let mut document = document;
        document.rules.retain(|rule| rule.kind != RuleKind::AllowTool);
        prop_assert_ne!(decide(&document, &context).effect, Effect::Allow);
        document.rules.clear();
        let decision = decide(&document, &context);
        prop_assert_eq!((decision.effect, decision.reason), (Effect::Deny, Reason::NoRule));
    }

    /// Order never matters, neither to the effect nor to any part of the explanation.
    #[test]
    fn order_never_matters(
        (document, shuffled) in document().prop_flat_map(|document| {
            let rules = Just(document.rules.clone()).prop_shuffle();
            (Just(document), rules)
        }),
        context in context(),
    ) {
        let other = PolicyDocument { rules: shuffled, ..document.clone() };
        prop_assert_eq!(decide(&document, &context), decide(&other, &context));
    }

    /// Adding a rule that can only deny or hold never loosens what any rule made of the call, unless nothing had matched
    /// and the addition holds for a person what was denied for want of a rule.
    #[test]
    fn adding_a_deny_never_loosens(document in document(), added in rule(), context in context()) {
        let before = decide(&document, &context);
        let mut added = added;
        added["id"] = json!("r8");
        let added: Rule = serde_json::from_value(added).unwrap();
        let mut more = document;
        more.rules.push(added.clone());
        let after = decide(&more, &context);
        let denies = added.kind == RuleKind::BlockTool
            || (!matches!(added.kind, RuleKind::AllowTool | RuleKind::RequireApproval) && added.on_violation.is_none());
        if denies {
            prop_assert!(after.effect >= before.effect);
        }
        if before.reason != Reason::NoRule {
            prop_assert!(after.effect >= before.effect, "adding {:?} loosened", added.kind);
        }
    }

    /// Removing, switching off or shadowing an allow never loosens.
    #[test]
    fn removing_an_allow_never_loosens(document in document(), which in any::<Index>(), how in 0..3u8, context in context()) {
        let before = decide(&document, &context);
        let allows: Vec<usize> =
            (0..document.rules.len()).filter(|n| document.rules[*n].kind == RuleKind::AllowTool).collect();
        if !allows.is_empty() {
            let n = allows[which.index(allows.len())];
            let mut less = document;
            match how {
                0 => drop(less.rules.remove(n)),
                1 => less.rules[n].enabled = false,
                _ => less.rules[n].mode = Mode::Shadow,
            }
            prop_assert!(decide(&less, &context).effect >= before.effect);
        }
    }

    /// What cannot be judged never loosens: a call whose argument is unreadable to every condition on it is treated at
    /// least as strictly as the same call with any value of it that is readable.
    #[test]
    fn unevaluable_never_loosens(
        document in document(),
        context in context(),
        readable in argument(),
        unreadable in select(vec![json!(null), json!([]), json!([null]), json!([[], []])]),
    ) {
        // Presence and the number of elements can be judged of an unreadable value too: they are left out here.
        let mut document = document;
        for rule in &mut document.rules {
            rule.when.retain(|c| !matches!(c.op, sluicegate_policy::Op::Present | sluicegate_policy::Op::Absent | sluicegate_policy::Op::Length));
        }
        document.rules.retain(|rule| rule.kind != RuleKind::InputValidation || !rule.when.is_empty());
        let with = |value: Option<&Value>| {
            let mut arguments = context.arguments.to_value();
            match value {
                Some(value) => arguments["p"] = value.clone(),
                None => drop(arguments.as_object_mut().unwrap().remove("p")),
            }
            PolicyContext { arguments: Arguments::from_value(arguments).unwrap(), ..context.clone() }
        };
        let other = decide(&document, &with(Some(&readable)));
        // A rule that must be the first to match may hold what nothing matched: that is a person's decision, not a run.
        for strict in [decide(&document, &with(Some(&unreadable))), decide(&document, &with(None))] {
            prop_assert!(
                strict.effect >= other.effect || (strict.effect == Effect::RequireApproval && other.reason == Reason::NoRule),
                "{:?} against {:?}", strict, other
            );
            prop_assert!(strict.effect != Effect::Allow || other.effect == Effect::Allow);
        }
    }

    /// An unknown time or count never loosens either.
    #[test]
    fn unknown_facts_never_loosen(document in document(), context in context()) {
        let known = decide(&document, &context);
        let unknown = PolicyContext { counters: Default::default(), local_times: Default::default(), ..context };
        let decision = decide(&document, &unknown);
        prop_assert!(decision.effect != Effect::Allow || known.effect == Effect::Allow);
        prop_assert!(decision.effect >= known.effect || known.reason == Reason::NoRule);
    }

    /// The reason `unevaluable` is given only where something could not be judged.
    #[test]
    fn unevaluable_is_never_a_mere_excuse(document in document(), context in context()) {
        let mut document = document;
        for rule in &mut document.rules {
            rule.hours = None;
        }
        document.rules.retain(|rule| rule.kind != RuleKind::RateLimit);
        if all_judged(&document, &context) {
            prop_assert_ne!(decide(&document, &context).reason, Reason::Unevaluable);
        }
    }

    /// Shadow and switched-off rules change nothing but what is listed.
    #[test]
    fn shadow_rules_change_nothing(document in document(), context in context(), extra in rule(), off in any::<bool>()) {
        let before = decide(&document, &context);
        let mut extra = extra;
        extra["id"] = json!("r8");
        extra[if off { "enabled" } else { "mode" }] = if off { json!(false) } else { json!("shadow") };
        let mut more = document;
        more.rules.push(serde_json::from_value(extra).unwrap());
        let after = decide(&more, &context);
        prop_assert_eq!((after.effect, after.reason, after.deciding, after.hold), (before.effect, before.reason, before.deciding, before.hold));
    }

    /// Same input, same output; and the stored context and document give it again.
    #[test]
    fn a_stored_call_is_decided_again_the_same(document in document(), context in context()) {
        let decision = decide(&document, &context);
        let document: PolicyDocument = serde_json::from_str(&serde_json::to_string(&document).unwrap()).unwrap();
        let context: PolicyContext = serde_json::from_str(&serde_json::to_string(&context).unwrap()).unwrap();
        let again = decide(&document, &context);
        prop_assert_eq!(&again, &decision);
        let stored: Decision = serde_json::from_str(&serde_json::to_string(&decision).unwrap()).unwrap();
        prop_assert_eq!(stored, decision);
    }

    /// The sentence can always be said, also with other rules at hand.
    #[test]
    fn there_is_always_a_sentence(document in document(), other in document(), context in context()) {
        let decision = decide(&document, &context);
        for rules in [document, other] {
            let sentence = decision.sentence(&rules.compile(DEFAULTS).unwrap());
            prop_assert!(sentence.starts_with("allowed") || sentence.starts_with("held") || sentence.starts_with("denied"));
            prop_assert!(!sentence.contains('\n'));
        }
    }
}
