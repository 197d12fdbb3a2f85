//! Operands of conditions: a text in the form, a typed value in the document.

use super::DraftCondition;
use serde_json::{Map, Number, Value};
use sluicegate_policy::{Condition, Elements, Op};

/// An operator together with the type of its operand: one choice in the form.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Asks {
    /// Equal to a text.
    #[default]
    Text,
    /// Equal to a number.
    Number,
    /// Equal to `true` or `false`.
    Boolean,
    /// One of several texts, one on each line.
    Texts,
    /// One of several values, as a JSON list.
    Values,
    /// Every other operator.
    Other(Op),
}

impl Asks {
    /// Every choice, in the order of the form.
    pub(crate) const ALL: [Self; 14] = [
        Self::Text,
        Self::Number,
        Self::Boolean,
        Self::Texts,
        Self::Values,
        Self::Other(Op::StartsWith),
        Self::Other(Op::Matches),
        Self::Other(Op::Length),
        Self::Other(Op::Range),
        Self::Other(Op::Present),
        Self::Other(Op::Absent),
        Self::Other(Op::PathWithin),
        Self::Other(Op::HostIs),
        Self::Other(Op::HostWithin),
    ];

    /// The word that the form sends.
    pub(crate) fn as_word(self) -> &'static str {
        match self {
            Self::Text => "equals",
            Self::Number => "equals_number",
            Self::Boolean => "equals_boolean",
            Self::Texts => "one_of",
            Self::Values => "one_of_values",
            Self::Other(op) => op.as_str(),
        }
    }

    /// The choice of a word.
    pub(crate) fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|asks| asks.as_word() == word)
    }

    /// As people read it.
    pub(crate) fn label(self) -> &'static str {
        match self {
            Self::Text => "is the text",
            Self::Number => "is the number",
            Self::Boolean => "is true or false",
            Self::Texts => "is one of (a line each)",
            Self::Values => "is one of (JSON list)",
            Self::Other(op) => match op {
                Op::Equals | Op::OneOf => "",
                Op::StartsWith => "starts with",
                Op::Matches => "matches the pattern",
                Op::Length => "has a length in",
                Op::Range => "is a number in",
                Op::Present => "is present",
                Op::Absent => "is absent",
                Op::PathWithin => "is a path within",
                Op::HostIs => "is a URL of the host",
                Op::HostWithin => "is a URL of a host within",
            },
        }
    }

    /// The operator in the document.
    pub(crate) fn op(self) -> Op {
        match self {
            Self::Text | Self::Number | Self::Boolean => Op::Equals,
            Self::Texts | Self::Values => Op::OneOf,
            Self::Other(op) => op,
        }
    }

    /// The typed operand of what was typed.
    ///
    /// # Errors
    /// What to write instead.
    pub(crate) fn value(self, typed: &str) -> Result<Option<Value>, String> {
        let trimmed = typed.trim();
        match self {
            Self::Text => Ok(Some(typed.into())),
            Self::Number => Ok(Some(Value::Number(number(trimmed)?))),
            Self::Boolean => match trimmed {
                "true" => Ok(Some(true.into())),
                "false" => Ok(Some(false.into())),
                _ => Err("write true or false".to_owned()),
            },
            Self::Texts => Ok(Some(typed.lines().filter(|line| !line.is_empty()).map(Value::from).collect())),
            Self::Values => match serde_json::from_str(trimmed) {
                Ok(Value::Array(items)) => Ok(Some(Value::Array(items))),
                _ => Err("write a JSON list, such as [1, \"two\", true]".to_owned()),
            },
            Self::Other(Op::Length | Op::Range) => bounds(trimmed).map(Some),
            Self::Other(Op::Present | Op::Absent) if trimmed.is_empty() => Ok(None),
            Self::Other(Op::Present | Op::Absent) => Err("takes no value: leave it empty".to_owned()),
            Self::Other(Op::Matches | Op::StartsWith) => Ok(Some(typed.into())),
            Self::Other(_) => Ok(Some(trimmed.into())),
        }
    }
}

fn number(text: &str) -> Result<Number, String> {
    match serde_json::from_str(text) {
        Ok(Value::Number(number)) => Ok(number),
        _ => Err(format!("`{text}` is no number")),
    }
}

/// `1..20`, `..100`, `5..`.
fn bounds(text: &str) -> Result<Value, String> {
    let Some((min, max)) = text.split_once("..") else {
        return Err("write a range such as 1..20, ..100 or 5.., both ends included".to_owned());
    };
    let mut bounds = Map::new();
    for (key, typed) in [("min", min.trim()), ("max", max.trim())] {
        if !typed.is_empty() {
            bounds.insert(key.to_owned(), Value::Number(number(&typed.replace(',', ""))?));
        }
    }
    Ok(Value::Object(bounds))
}

impl DraftCondition {
    /// The form of a condition.
    pub(super) fn of(condition: &Condition) -> Self {
        let plain = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let (asks, value) = match (condition.op, condition.value.as_ref()) {
            (Op::Equals, Some(Value::Number(number))) => (Asks::Number, number.to_string()),
            (Op::Equals, Some(Value::Bool(value))) => (Asks::Boolean, value.to_string()),
            (Op::Equals, value) => (Asks::Text, value.map(plain).unwrap_or_default()),
            (Op::OneOf, Some(Value::Array(items))) if items.iter().all(is_line) => {
                (Asks::Texts, items.iter().map(plain).collect::<Vec<_>>().join("\n"))
            }
            (Op::OneOf, value) => (Asks::Values, value.map(ToString::to_string).unwrap_or_default()),
            (op @ (Op::Length | Op::Range), Some(value)) => {
                let end = |key: &str| value.get(key).map(ToString::to_string).unwrap_or_default();
                (Asks::Other(op), format!("{}..{}", end("min"), end("max")))
            }
            (op, value) => (Asks::Other(op), value.map(plain).unwrap_or_default()),
        };
        Self { argument: condition.argument.clone(), asks, value, any: condition.elements == Elements::Any }
    }
}

/// Whether a value is a text that survives being a line of the form.
fn is_line(value: &Value) -> bool {
    value.as_str().is_some_and(|text| !text.is_empty() && !text.contains(['\n', '\r']))
}
