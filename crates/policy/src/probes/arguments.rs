//! Arguments on both sides of each condition.

use alloc::string::{String, ToString};
use alloc::vec::Vec;
use alloc::{format, vec};

use serde_json::{Map, Value, json};

use super::witness::witness;
use crate::arguments::Arguments;
use crate::condition::{Condition, Op, Question, Truth};
use crate::document::RuleKind;
use crate::rules::CompiledRule;

/// Values of one argument that are tried.
const MAX_VALUES: usize = 64;
/// The longest text or list that is made up for a length.
const MAX_LENGTH: u64 = 200_000;

/// The arguments that the rules about a tool look at, with values for each.
pub(super) struct Shapes<'a> {
    of: Vec<Shape<'a>>,
}

struct Shape<'a> {
    keys: Vec<String>,
    /// `None` is: not there.
    values: Vec<Option<Value>>,
    conditions: Vec<Asked<'a>>,
}

/// A rule, one of its conditions, and what that asks.
type AskedBy<'a> = (&'a CompiledRule, &'a Condition, Question);

struct Asked<'a> {
    rule: &'a CompiledRule,
    /// What each of the values answers.
    answers: Vec<Truth>,
}

impl<'a> Shapes<'a> {
    pub(super) fn of(rules: &[&'a CompiledRule]) -> Self {
        let mut found: Vec<(Vec<String>, Vec<AskedBy<'a>>)> = Vec::new();
        for rule in rules {
            for condition in &rule.written().when {
                let Ok(question) = condition.compile() else { continue };
                let keys = question.path();
                let asked = (*rule, condition, question);
                match found.iter_mut().find(|(known, _)| *known == keys) {
                    Some((_, conditions)) => conditions.push(asked),
                    None => found.push((keys, vec![asked])),
                }
            }
        }
        Self { of: found.into_iter().map(|(keys, conditions)| Shape::new(keys, conditions)).collect() }
    }

    /// For each argument the place of a value: the one that best fits what the rule asks, and else what lets a call
    /// through the others.
    pub(super) fn base(&self, about: Option<&CompiledRule>) -> Vec<usize> {
        self.of.iter().map(|shape| shape.best(about)).collect()
    }

    /// Every argument and value.
    pub(super) fn places(&self) -> impl Iterator<Item = (usize, usize)> + '_ {
        self.of
            .iter()
            .enumerate()
            .flat_map(|(argument, shape)| (0..shape.values.len()).map(move |value| (argument, value)))
    }

    /// Arguments with these values, one of them replaced.
    pub(super) fn arguments(&self, values: &[usize], instead: Option<(usize, usize)>) -> Arguments {
        let mut object = Map::new();
        for ((argument, shape), chosen) in self.of.iter().enumerate().zip(values) {
            let chosen = instead.filter(|(place, _)| *place == argument).map_or(*chosen, |(_, value)| value);
            if let Some(Some(value)) = shape.values.get(chosen) {
                put(&mut object, &shape.keys, value.clone());
            }
        }
        Arguments::from_value(Value::Object(object)).unwrap_or_default()
    }
}

impl<'a> Shape<'a> {
    fn new(keys: Vec<String>, conditions: Vec<AskedBy<'a>>) -> Self {
        let mut values: Vec<Option<Value>> = Vec::new();
        let mut add = |value: Option<Value>| {
            if values.len() < MAX_VALUES && !values.contains(&value) {
                values.push(value);
            }
        };
        for (_, condition, _) in &conditions {
            around(condition).into_iter().for_each(|value| add(Some(value)));
        }
        let texts: Vec<Value> = conditions.iter().flat_map(|(_, c, _)| around(c)).take(2).collect();
        for value in
            [json!(null), json!(7), json!("x"), json!(true), json!([]), json!({}), Value::Array(texts)]
        {
            add(Some(value));
        }
        values.push(None);
        let conditions = conditions
            .into_iter()
            .map(|(rule, _, question)| {
                let answers = values.iter().map(|value| {
                    let mut object = Map::new();
                    if let Some(value) = value {
                        put(&mut object, &keys, value.clone());
                    }
                    Arguments::from_value(Value::Object(object)).unwrap_or_default().ask(&question)
                });
                Asked { rule, answers: answers.collect() }
            })
            .collect();
        Self { keys, values, conditions }
    }

    fn best(&self, about: Option<&CompiledRule>) -> usize {
        let score = |value: usize| -> i32 {
            let each = self.conditions.iter().map(|asked| {
                let answer = asked.answers.get(value).copied();
                let own = about.is_some_and(|about| about.written() == asked.rule.written());
                let wanted = match (own, asked.rule.kind()) {
                    // A rule is about the arguments that make it match.
                    (true, RuleKind::InputValidation) => Truth::False,
                    (true, _) | (false, RuleKind::AllowTool | RuleKind::InputValidation) => Truth::True,
                    (false, _) => Truth::False,
                };
                i32::from(answer == Some(wanted)) * if own { 1_000 } else { 1 }
            });
            each.sum()
        };
        // Of equals the first: values of conditions come before those that fit none.
        (0..self.values.len()).rev().max_by_key(|value| score(*value)).unwrap_or(0)
    }
}

/// Sets a value at a path of keys.
fn put(object: &mut Map<String, Value>, keys: &[String], value: Value) {
    match keys {
        [] => {}
        [last] => drop(object.insert(last.clone(), value)),
        [key, rest @ ..] => {
            let inner = object.entry(key.clone()).or_insert_with(|| Value::Object(Map::new()));
            if !inner.is_object() {
                *inner = Value::Object(Map::new());
            }
            if let Value::Object(inner) = inner {
                put(inner, rest, value);
            }
        }
    }
}

/// Values that satisfy a condition, and values that just do not.
fn around(condition: &Condition) -> Vec<Value> {
    let operand = condition.value.as_ref();
    let text = operand.and_then(Value::as_str).unwrap_or_default();
    let bound = |key: &str| operand.and_then(|operand| operand.get(key));
    match condition.op {
        Op::Equals => operand.into_iter().flat_map(|value| [value.clone(), beside(value)]).collect(),
        Op::OneOf => {
            let items = operand.and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
            items.iter().take(8).cloned().chain(items.first().map(beside)).collect()
        }
        Op::StartsWith => vec![text.into(), format!("{text}x").into(), format!("x{text}").into()],
        Op::Matches => {
            let found = witness(text);
            let more = found.as_ref().map(|found| format!("{found}\u{1}"));
            found.into_iter().chain(more).map(Value::from).collect()
        }
        Op::Length => {
            let (min, max) = (bound("min").and_then(Value::as_u64), bound("max").and_then(Value::as_u64));
            // The short one first: it stands in every call that is about something else.
            let short = min.unwrap_or(1).min(max.unwrap_or(1));
            let lengths = [
                Some(short),
                min,
                max,
                max.map(|max| max.saturating_add(1)),
                min.and_then(|min| min.checked_sub(1)),
            ];
            let lengths = lengths.into_iter().flatten().filter(|length| *length <= MAX_LENGTH);
            lengths
                .filter_map(|length| usize::try_from(length).ok())
                .map(|length| "x".repeat(length).into())
                .collect()
        }
        Op::Range => {
            let ends = [bound("min"), bound("max")].into_iter().flatten();
            ends.flat_map(|end| [Some(end.clone()), step(end, 1), step(end, -1)]).flatten().collect()
        }
        Op::Present | Op::Absent => vec!["x".into()],
        Op::PathWithin => {
            let inside =
                if text == "." { "x".to_string() } else { format!("{}/x", text.trim_end_matches('/')) };
            let beside = format!("{}-x/x", text.trim_end_matches('/'));
            vec![inside.into(), text.into(), beside.into(), "../x".into(), "/x".into()]
        }
        Op::HostIs | Op::HostWithin => {
            let host =
                if text.contains(':') && !text.starts_with('[') { format!("[{text}]") } else { text.into() };
            [host.clone(), format!("sub.{host}"), format!("x{host}"), "elsewhere.invalid".into()]
                .into_iter()
                .map(|host| format!("https://{host}/").into())
                .collect()
        }
    }
}

/// Another value of the same type.
fn beside(value: &Value) -> Value {
    match value {
        Value::String(text) => format!("{text}x").into(),
        Value::Bool(value) => (!value).into(),
        number => step(number, 1).unwrap_or(Value::Null),
    }
}

fn step(number: &Value, by: i64) -> Option<Value> {
    if let Some(whole) = number.as_i64() {
        return Some(whole.saturating_add(by).into());
    }
    number.as_f64().map(|double| json!(double + by as f64))
}
