//! Can conditions hold together? Only what is certain is said.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use serde_json::{Value, json};

use crate::arguments::Arguments;
use crate::condition::{Condition, Elements, Op, Truth};

/// Why no arguments satisfy all of the conditions, if that is certain.
pub(super) fn impossible(when: &[Condition]) -> Option<String> {
    let mut seen: Vec<&str> = Vec::new();
    for condition in when {
        let argument = condition.argument.as_str();
        if seen.contains(&argument) {
            continue;
        }
        seen.push(argument);
        // Of a list, each condition on any element may hold of another one.
        let own: Vec<&Condition> =
            when.iter().filter(|c| c.argument == argument && c.elements == Elements::Every).collect();
        if contradict(&own) {
            return Some(format!("its conditions on `{argument}` cannot all be true"));
        }
    }
    None
}

fn contradict(conditions: &[&Condition]) -> bool {
    let has = |op: Op| conditions.iter().any(|c| c.op == op);
    if has(Op::Absent) && conditions.iter().any(|c| c.op != Op::Absent) {
        return true;
    }
    ends(conditions, Op::Range) || ends(conditions, Op::Length) || no_value(conditions)
}

/// Whether the greatest minimum is above the least maximum.
fn ends(conditions: &[&Condition], op: Op) -> bool {
    let own = || conditions.iter().filter(|c| c.op == op).filter_map(|c| c.value.as_ref());
    let all = |key: &'static str| own().filter_map(move |value| value.get(key)).filter_map(Value::as_f64);
    let lowest = all("min").fold(f64::NEG_INFINITY, f64::max);
    let highest = all("max").fold(f64::INFINITY, f64::min);
    lowest > highest
}

/// Whether a condition lists all values that satisfy it, and each fails another one.
fn no_value(conditions: &[&Condition]) -> bool {
    let listed = conditions.iter().find_map(|c| match (c.op, c.value.as_ref()?) {
        (Op::Equals, value) => Some(alloc::vec![value.clone()]),
        (Op::OneOf, Value::Array(items)) => Some(items.clone()),
        _ => None,
    });
    let Some(listed) = listed else { return false };
    let questions: Vec<_> = conditions
        .iter()
        .filter_map(|c| Condition { argument: "a".into(), ..(*c).clone() }.compile().ok())
        .collect();
    listed.into_iter().all(|value| {
        let Ok(arguments) = Arguments::from_value(json!({ "a": value })) else { return false };
        questions.iter().any(|question| arguments.ask(question) != Truth::True)
    })
}
