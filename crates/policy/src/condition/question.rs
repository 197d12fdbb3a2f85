//! A condition made ready to be asked of arguments.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::cmp::Ordering;

use regex_automata::meta::{self, Regex};
use regex_automata::util::syntax;
use serde_json::{Map, Value};

use super::host::Host;
use super::number::Num;
use super::path::Directory;
use super::readings::Readings;
use super::{Condition, ConditionError, Elements, Op, Truth, Why};
use crate::arguments::MAX_ARGUMENTS_BYTES;

/// A compiled pattern may take this many bytes: enough for `\w{1,64}`, whose `\w` is every letter there is.
const MAX_PATTERN_MEMORY: usize = 4 * 1024 * 1024;
/// The time of a match grows with the size of the text times that of the pattern, both in bytes. A text for which this
/// would be more is unevaluable: at most a fraction of a second is spent on one. A pattern of 4 KiB, which is a plain one,
/// may still be tried on the longest text that arguments can hold.
const MAX_MATCH_WORK: usize = 4 * 1024 * MAX_ARGUMENTS_BYTES;

/// A checked [`Condition`], ready for [`Arguments::ask`](crate::Arguments::ask).
#[derive(Debug, Clone)]
pub struct Question {
    keys: Box<[Box<str>]>,
    test: Test,
    elements: Elements,
}

/// What an argument path leads to.
#[derive(Debug, Clone, Copy)]
pub(super) enum Found<'a> {
    /// This value, which may be a list.
    Value(&'a Value),
    /// A list on the way: its elements are asked one by one.
    Elements,
    /// Nothing: a key is not there.
    Missing,
    /// Nothing that has keys.
    Not(Why),
}

impl<'a> Found<'a> {
    pub(super) fn at(object: &'a Value, keys: &[Box<str>]) -> Self {
        let mut value = object;
        for key in keys {
            value = match value {
                Value::Object(map) => match map.get(&**key) {
                    Some(inner) => inner,
                    None => return Self::Missing,
                },
                Value::Array(_) => return Self::Elements,
                Value::Null => return Self::Not(Why::Null),
                Value::Bool(_) | Value::Number(_) | Value::String(_) => return Self::Not(Why::WrongType),
            };
        }
        Self::Value(value)
    }
}

#[derive(Debug, Clone)]
enum Test {
    Equals(Box<Scalar>),
    OneOf(Vec<Scalar>),
    StartsWith(Box<str>),
    Matches { regex: Box<Regex>, max_bytes: usize },
    Length { min: u64, max: u64 },
    Range(Box<Range>),
    Present,
    Absent,
    PathWithin(Directory),
    HostIs(Host),
    HostWithin(Host),
}

/// Both ends included.
#[derive(Debug, Clone, Copy)]
struct Range {
    min: Option<Num>,
    max: Option<Num>,
}

impl Range {
    fn holds(self, number: Num) -> bool {
        let above = self.min.is_none_or(|min| number.cmp(min) != Ordering::Less);
        let below = self.max.is_none_or(|max| number.cmp(max) != Ordering::Greater);
        above && below
    }
}

#[derive(Debug, Clone)]
enum Scalar {
    Text(Box<str>),
    Number(Num),
    Bool(bool),
}

impl Question {
    pub(super) fn new(condition: &Condition) -> Result<Self, ConditionError> {
        let keys = split_path(&condition.argument)
            .map_err(|message| ConditionError { field: "argument", message: message.into() })?;
        let test = Test::new(condition.op, condition.value.as_ref())
            .map_err(|message| ConditionError { field: "value", message })?;
        Ok(Self { keys: keys.into(), test, elements: condition.elements })
    }

    /// The first key of the argument path: which of the call's arguments the question looks at.
    #[must_use]
    pub fn argument(&self) -> &str {
        self.keys.first().map_or("", |key| key)
    }

    /// The keys of its argument path.
    pub(crate) fn path(&self) -> Vec<String> {
        self.keys.iter().map(|key| key.to_string()).collect()
    }

    pub(super) fn keys(&self) -> &[Box<str>] {
        &self.keys
    }

    /// Asks an object; `readings` remembers what was read.
    pub(crate) fn ask<'a>(&self, object: &'a Value, readings: &mut Readings<'a>) -> Truth {
        self.answer(Found::at(object, &self.keys), object, readings)
    }

    /// Asks what its path leads to in the object.
    pub(super) fn answer<'a>(
        &self,
        found: Found<'a>,
        object: &'a Value,
        readings: &mut Readings<'a>,
    ) -> Truth {
        match found {
            Found::Value(value) => self.judge(value, readings),
            Found::Elements => self.walk(object, &self.keys, readings),
            Found::Missing => self.missing(),
            Found::Not(why) => Truth::Unevaluable(why),
        }
    }

    fn walk<'a>(&self, value: &'a Value, keys: &[Box<str>], readings: &mut Readings<'a>) -> Truth {
        let Some((key, rest)) = keys.split_first() else { return self.judge(value, readings) };
        match value {
            Value::Object(map) => match map.get(&**key) {
                Some(inner) => self.walk(inner, rest, readings),
                None => self.missing(),
            },
            Value::Array(items) => {
                self.gather(items, readings, |item, readings| self.walk(item, keys, readings))
            }
            Value::Null => Truth::Unevaluable(Why::Null),
            Value::Bool(_) | Value::Number(_) | Value::String(_) => Truth::Unevaluable(Why::WrongType),
        }
    }

    fn missing(&self) -> Truth {
        match self.test {
            Test::Present => Truth::False,
            Test::Absent => Truth::True,
            _ => Truth::Unevaluable(Why::Missing),
        }
    }

    fn judge<'a>(&self, value: &'a Value, readings: &mut Readings<'a>) -> Truth {
        match (&self.test, value) {
            (_, Value::Null) => Truth::Unevaluable(Why::Null),
            (Test::Present, _) => Truth::True,
            (Test::Absent, _) => Truth::False,
            (Test::Length { min, max }, Value::Array(items)) => within(items.len(), *min, *max).into(),
            (_, Value::Array(items)) => {
                self.gather(items, readings, |item, readings| self.judge(item, readings))
            }
            (test, _) => test.judge(value, readings),
        }
    }

    fn gather<'a>(
        &self,
        items: &'a [Value],
        readings: &mut Readings<'a>,
        ask: impl Fn(&'a Value, &mut Readings<'a>) -> Truth,
    ) -> Truth {
        let (mut holds, mut fails, mut unevaluable) = (false, false, None);
        for item in items {
            if !readings.afford_element() {
                return Truth::Unevaluable(Why::TooLong);
            }
            match ask(item, readings) {
                Truth::True => holds = true,
                Truth::False => fails = true,
                Truth::Unevaluable(why) => unevaluable = unevaluable.or(Some(why)),
            }
        }
        match (self.elements, holds, fails, unevaluable) {
            (_, false, false, None) => Truth::Unevaluable(Why::EmptyList),
            (Elements::Any, true, _, _) | (Elements::Every, true, false, None) => Truth::True,
            (_, _, _, Some(why)) => Truth::Unevaluable(why),
            (_, false, true, None) => Truth::False,
            (Elements::Every, true, true, None) => Truth::Unevaluable(Why::Mixed),
        }
    }
}

impl Test {
    fn new(op: Op, value: Option<&Value>) -> Result<Self, String> {
        match op {
            Op::Present | Op::Absent => match value {
                None => Ok(if op == Op::Present { Self::Present } else { Self::Absent }),
                Some(_) => Err(format!("`{op}` takes no value")),
            },
            Op::Equals => Scalar::new(value).map(|scalar| Self::Equals(Box::new(scalar))),
            Op::OneOf => match value {
                Some(Value::Array(items)) if !items.is_empty() => items
                    .iter()
                    .map(|item| Scalar::new(Some(item)))
                    .collect::<Result<_, _>>()
                    .map(Self::OneOf),
                _ => Err("`one_of` takes a list of texts, numbers or booleans, at least one".into()),
            },
            Op::StartsWith => Ok(Self::StartsWith(text(op, value)?.into())),
            Op::Matches => {
                let regex = Box::new(regex(text(op, value)?)?);
                let max_bytes = MAX_MATCH_WORK.checked_div(regex.memory_usage()).unwrap_or(0);
                Ok(Self::Matches { regex, max_bytes })
            }
            Op::Length => {
                let (min, max) = bounds(op, value)?;
                let whole = |bound: Option<&Value>| match bound {
                    None => Ok(None),
                    Some(v) => v.as_u64().map(Some).ok_or("`length` takes whole numbers from 0"),
                };
                let (min, max) = (whole(min)?.unwrap_or(0), whole(max)?.unwrap_or(u64::MAX));
                if min > max {
                    return Err("`min` is greater than `max`".into());
                }
                Ok(Self::Length { min, max })
            }
            Op::Range => {
                let (min, max) = bounds(op, value)?;
                let number = |bound: Option<&Value>| match bound {
                    None => Ok(None),
                    Some(Value::Number(n)) => Num::new(n).map(Some).ok_or("not a finite number"),
                    Some(_) => Err("`range` takes numbers"),
                };
                let (min, max) = (number(min)?, number(max)?);
                if min.zip(max).is_some_and(|(min, max)| min.cmp(max) == Ordering::Greater) {
                    return Err("`min` is greater than `max`".into());
                }
                Ok(Self::Range(Box::new(Range { min, max })))
            }
            Op::PathWithin => Directory::new(text(op, value)?).map(Self::PathWithin).ok_or_else(|| {
                "`path_within` takes a path of plain components, such as `.`, `docs/drafts` or `/srv/files`".into()
            }),
            Op::HostIs => host(op, value).map(Self::HostIs),
            Op::HostWithin => host(op, value).map(Self::HostWithin),
        }
    }

    /// Judges a value that is neither null nor a list.
    fn judge<'a>(&self, value: &'a Value, readings: &mut Readings<'a>) -> Truth {
        match (self, value) {
            (Self::Equals(operand), _) => operand.equals(value),
            (Self::OneOf(operands), _) => {
                let mut answer = Truth::Unevaluable(Why::WrongType);
                for operand in operands {
                    match operand.equals(value) {
                        Truth::True => return Truth::True,
                        Truth::False => answer = Truth::False,
                        Truth::Unevaluable(_) => {}
                    }
                }
                answer
            }
            (Self::StartsWith(prefix), Value::String(text)) => text.starts_with(&**prefix).into(),
            (Self::Matches { regex, max_bytes }, Value::String(text)) => {
                if text.len() > *max_bytes || !readings.afford_match(text.len()) {
                    return Truth::Unevaluable(Why::TooLong);
                }
                regex.is_match(text.as_str()).into()
            }
            (Self::Length { min, max }, Value::String(text)) => has_length(text, *min, *max).into(),
            (Self::Range(range), Value::Number(number)) => {
                judged(Num::new(number).map(|number| range.holds(number)))
            }
            (Self::PathWithin(directory), Value::String(path)) => {
                judged(readings.path(path, |path| directory.contains(path)))
            }
            (Self::HostIs(host), Value::String(url)) => judged(readings.host(url, |other| host == other)),
            (Self::HostWithin(host), Value::String(url)) => {
                judged(readings.host(url, |other| host.contains(other)))
            }
            _ => Truth::Unevaluable(Why::WrongType),
        }
    }
}

impl Scalar {
    fn new(value: Option<&Value>) -> Result<Self, String> {
        match value {
            Some(Value::String(text)) => Ok(Self::Text(text.as_str().into())),
            Some(Value::Number(n)) => {
                Num::new(n).map(Self::Number).ok_or_else(|| "not a finite number".into())
            }
            Some(Value::Bool(b)) => Ok(Self::Bool(*b)),
            _ => Err("a text, a number or a boolean is needed".into()),
        }
    }

    /// Values of another type are not different but not comparable: `"7"` is neither equal to `7` nor safely unequal.
    fn equals(&self, value: &Value) -> Truth {
        match (self, value) {
            (Self::Text(own), Value::String(other)) => (**own == **other).into(),
            (Self::Bool(own), Value::Bool(other)) => (own == other).into(),
            (Self::Number(own), Value::Number(other)) => {
                judged(Num::new(other).map(|other| own.cmp(other) == Ordering::Equal))
            }
            _ => Truth::Unevaluable(Why::WrongType),
        }
    }
}

fn judged(answer: Option<bool>) -> Truth {
    answer.map_or(Truth::Unevaluable(Why::Unparseable), Truth::from)
}

fn within(count: usize, min: u64, max: u64) -> bool {
    let count = u64::try_from(count).unwrap_or(u64::MAX);
    (min..=max).contains(&count)
}

/// Whether the number of characters is within bounds. A character has 1 to 4 bytes, so often the bytes tell.
fn has_length(text: &str, min: u64, max: u64) -> bool {
    let (fewest, most) = (text.len().div_ceil(4), text.len());
    (within(fewest, min, max) && within(most, min, max)) || within(text.chars().count(), min, max)
}

fn text(op: Op, value: Option<&Value>) -> Result<&str, String> {
    match value {
        Some(Value::String(text)) if !text.is_empty() => Ok(text),
        _ => Err(format!("`{op}` takes a text that is not empty")),
    }
}

fn host(op: Op, value: Option<&Value>) -> Result<Host, String> {
    Host::new(text(op, value)?)
        .ok_or_else(|| format!("`{op}` takes a bare host name or address, such as `example.com`"))
}

type Bounds<'a> = (Option<&'a Value>, Option<&'a Value>);

fn bounds(op: Op, value: Option<&Value>) -> Result<Bounds<'_>, String> {
    let only =
        |map: &Map<String, Value>| !map.is_empty() && map.keys().all(|key| key == "min" || key == "max");
    match value {
        Some(Value::Object(map)) if only(map) => Ok((map.get("min"), map.get("max"))),
        _ => Err(format!("`{op}` takes `{{ min: …, max: … }}`, one or both")),
    }
}

/// Compiles a pattern that must match the whole text, in an engine whose time is linear in the text.
fn regex(pattern: &str) -> Result<Regex, String> {
    let build = |pattern: &str| {
        meta::Builder::new()
            .configure(meta::Config::new().nfa_size_limit(Some(MAX_PATTERN_MEMORY)))
            .syntax(syntax::Config::new().nest_limit(64))
            .build(pattern)
            .map_err(|error| match (error.size_limit(), error.syntax_error()) {
                (Some(_), _) => "the pattern is too large".to_string(),
                (None, Some(syntax)) => format!("the pattern is broken: {}", last_line(&syntax.to_string())),
                (None, None) => "the pattern cannot be compiled".to_string(),
            })
    };
    // First by itself: `a)|(b` would pass only inside the group that anchors it.
    build(pattern)?;
    build(&format!(r"\A(?:{pattern})\z"))
}

/// The reason, without the drawing above it.
fn last_line(message: &str) -> &str {
    let line = message.lines().last().unwrap_or(message);
    line.strip_prefix("error: ").unwrap_or(line)
}

/// Splits `options.path` into keys. `\.` and `\\` stand for the characters themselves.
fn split_path(path: &str) -> Result<Vec<Box<str>>, &'static str> {
    let mut keys = Vec::new();
    let mut key = String::new();
    let mut chars = path.chars();
    loop {
        match chars.next() {
            Some('\\') => match chars.next() {
                Some(escaped @ ('.' | '\\')) => key.push(escaped),
                _ => return Err("a backslash in an argument path stands before a dot or a backslash"),
            },
            end @ (Some('.') | None) => {
                if key.is_empty() {
                    return Err("an argument path is keys joined by single dots, such as `options.path`");
                }
                keys.push(core::mem::take(&mut key).into_boxed_str());
                if end.is_none() {
                    return Ok(keys);
                }
            }
            Some(c) => key.push(c),
        }
    }
}
