//! A second, naive reading of the rules, straight from the document; and the engine compared with it.
//!
//! It shares nothing with the engine but the types of the document and the context: patterns by trying every split,
//! conditions by their definition over all elements, precedence by three questions.

use std::collections::BTreeSet;

use proptest::prelude::*;
use serde_json::Value;
use sluicegate_policy::{
    Choice, Condition, Effect, Elements, Hours, Mode, OnViolation, OneOrMany, Op, Per, PolicyContext,
    PolicyDocument, Rule, RuleKind, Weekday, evaluate,
};

use crate::fixtures::DEFAULTS;
use crate::properties::{context, document};

/// True, false, or not to be judged.
type Answer = Option<bool>;

fn fits(pattern: &str, name: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == name,
        Some((before, after)) => name.strip_prefix(before).is_some_and(|rest| {
            (0..=rest.len()).filter_map(|at| rest.get(at..)).any(|tail| fits(after, tail))
        }),
    }
}

fn named(written: Option<&OneOrMany<String>>, name: &str) -> bool {
    written.is_none_or(|patterns| patterns.iter().any(|pattern| fits(pattern, name)))
}

fn chosen<T: PartialEq>(written: Option<&OneOrMany<Choice<T>>>, value: &T) -> bool {
    written.is_none_or(|choices| {
        choices.iter().any(|choice| match choice {
            Choice::Any => true,
            Choice::Is(one) => one == value,
        })
    })
}

fn selected(rule: &Rule, context: &PolicyContext) -> bool {
    let on = &rule.selects;
    named(on.server.as_ref(), context.tool.server().as_str())
        && named(on.tool.as_ref(), context.tool.tool().as_str())
        && named(on.caller.as_ref(), context.principal.caller.as_str())
        && chosen(on.tier.as_ref(), &context.tier)
        && chosen(on.role.as_ref(), &context.principal.role)
        && chosen(on.origin.as_ref(), &context.origin)
}

/// The answers of all leaves that the path leads to, in a flat list.
fn leaves(condition: &Condition, keys: &[&str], value: &Value, answers: &mut Vec<Answer>) {
    match (keys, value) {
        ([], Value::Array(_)) if matches!(condition.op, Op::Present | Op::Absent | Op::Length) => {
            answers.push(leaf(condition, value));
        }
        (_, Value::Array(items)) if items.is_empty() => answers.push(None),
        (_, Value::Array(items)) => items.iter().for_each(|item| leaves(condition, keys, item, answers)),
        ([], value) => answers.push(leaf(condition, value)),
        ([key, rest @ ..], Value::Object(map)) => match map.get(*key) {
            Some(inner) => leaves(condition, rest, inner, answers),
            None => answers.push(match condition.op {
                Op::Present => Some(false),
                Op::Absent => Some(true),
                _ => None,
            }),
        },
        (_, _) => answers.push(None),
    }
}

fn leaf(condition: &Condition, value: &Value) -> Answer {
    let operand = condition.value.as_ref();
    let bound = |key: &str| operand.and_then(|operand| operand.get(key)).and_then(Value::as_i64);
    let inside = |n: i64| bound("min").is_none_or(|min| min <= n) && bound("max").is_none_or(|max| n <= max);
    match (condition.op, value) {
        (_, Value::Null) => None,
        (Op::Present, _) => Some(true),
        (Op::Absent, _) => Some(false),
        (Op::Equals, _) => same(operand.unwrap(), value),
        (Op::OneOf, _) => {
            let each: Vec<Answer> =
                operand.unwrap().as_array().unwrap().iter().map(|one| same(one, value)).collect();
            if each.contains(&Some(true)) {
                Some(true)
            } else if each.contains(&Some(false)) {
                Some(false)
            } else {
                None
            }
        }
        (Op::StartsWith, Value::String(text)) => Some(text.starts_with(operand.unwrap().as_str().unwrap())),
        (Op::Length, Value::String(text)) => Some(inside(text.chars().count() as i64)),
        (Op::Length, Value::Array(items)) => Some(inside(items.len() as i64)),
        (Op::Range, Value::Number(number)) => Some(inside(number.as_i64().unwrap())),
        (Op::PathWithin, Value::String(path)) => {
            let parts: Vec<&str> = path.split('/').collect();
            if path.is_empty() || path.starts_with('/') || parts.contains(&"..") {
                None
            } else {
                let root = operand.unwrap().as_str().unwrap();
                Some(root == "." || path == root || path.starts_with(&format!("{root}/")))
            }
        }
        _ => None,
    }
}

fn same(operand: &Value, value: &Value) -> Answer {
    (std::mem::discriminant(operand) == std::mem::discriminant(value)).then(|| operand == value)
}

fn holds(condition: &Condition, context: &PolicyContext) -> Answer {
    let keys: Vec<&str> = condition.argument.split('.').collect();
    let mut answers = Vec::new();
    leaves(condition, &keys, &context.arguments.to_value(), &mut answers);
    let all = |answer: Answer| answers.iter().all(|each| *each == answer);
    match condition.elements {
        Elements::Every if all(Some(true)) => Some(true),
        Elements::Every if all(Some(false)) => Some(false),
        Elements::Every => None,
        Elements::Any if answers.contains(&Some(true)) => Some(true),
        Elements::Any if answers.contains(&None) => None,
        Elements::Any => Some(false),
    }
}

fn both(answers: impl IntoIterator<Item = Answer>) -> Answer {
    let answers: Vec<Answer> = answers.into_iter().collect();
    if answers.contains(&Some(false)) {
        Some(false)
    } else if answers.contains(&None) {
        None
    } else {
        Some(true)
    }
}

/// Minute by minute: is this minute one of those of a window that began on a named day?
fn open(hours: &Hours, context: &PolicyContext) -> Answer {
    let now = context.local_times.get(&hours.zone)?;
    let (from, to) = (u32::from(hours.from.minutes()), u32::from(hours.to.minutes()));
    let length = if from < to { to - from } else { to + 1440 - from };
    let week = 7 * 1440;
    let minute = now.weekday as u32 * 1440 + u32::from(now.minute_of_day);
    let days: BTreeSet<Weekday> = if hours.days.is_empty() {
        Weekday::ALL.iter().copied().collect()
    } else {
        hours.days.iter().copied().collect()
    };
    Some(days.into_iter().any(|day| (0..length).any(|n| (day as u32 * 1440 + from + n) % week == minute)))
}

fn reached(rule: &Rule, context: &PolicyContext) -> Answer {
    let limit = rule.limit.as_ref().unwrap();
    match limit.per {
        Per::Conversation => Some(context.token_usage.conversation >= limit.tokens.unwrap()),
        Per::CallerDay => Some(context.token_usage.caller_day >= limit.tokens.unwrap()),
        Per::Caller | Per::Tool | Per::Server => {
            context.counters.get(&rule.id).map(|calls| *calls >= limit.calls.unwrap())
        }
    }
}

fn matched(rule: &Rule, context: &PolicyContext) -> Option<Effect> {
    if !selected(rule, context) || !rule.enabled || rule.mode == Mode::Shadow {
        return None;
    }
    let in_force = rule.hours.as_ref().map_or(Some(true), |hours| open(hours, context));
    let when = both(rule.when.iter().map(|condition| holds(condition, context)));
    let violation = match rule.on_violation {
        Some(OnViolation::RequireApproval) => Effect::RequireApproval,
        Some(OnViolation::Deny) | None => Effect::Deny,
    };
    let (answer, effect) = match rule.kind {
        RuleKind::AllowTool => return (both([in_force, when]) == Some(true)).then_some(Effect::Allow),
        RuleKind::BlockTool => (both([in_force, when]), Effect::Deny),
        RuleKind::RequireApproval => (both([in_force, when]), Effect::RequireApproval),
        RuleKind::InputValidation => (both([in_force, when.map(|holds| !holds)]), violation),
        RuleKind::TokenBudget | RuleKind::RateLimit => {
            (both([in_force, when, reached(rule, context)]), violation)
        }
    };
    (answer != Some(false)).then_some(effect)
}

/// The effect, and the rules that decided.
pub(crate) fn judge(document: &PolicyDocument, context: &PolicyContext) -> (Effect, Vec<String>) {
    let all: Vec<(String, Effect)> = document
        .rules
        .iter()
        .filter_map(|rule| matched(rule, context).map(|effect| (rule.id.to_string(), effect)))
        .collect();
    for effect in [Effect::Deny, Effect::RequireApproval, Effect::Allow] {
        let mut by: Vec<String> =
            all.iter().filter(|(_, own)| *own == effect).map(|(id, _)| id.clone()).collect();
        if !by.is_empty() {
            by.sort();
            return (effect, by);
        }
    }
    (Effect::Deny, Vec::new())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    #[test]
    fn the_engine_agrees_with_the_naive_reading(document in document(), contexts in prop::collection::vec(context(), 8)) {
        let rules = document.compile(DEFAULTS).unwrap();
        for context in contexts {
            let decision = evaluate(&context, &rules);
            let by: Vec<String> = decision.deciding.iter().map(ToString::to_string).collect();
            prop_assert_eq!((decision.effect, by), judge(&document, &context), "{:?}", context);
        }
    }
}
