//! Typed conditions on arguments: path, operator, operand; and the three answers they can give.

mod answers;
mod host;
mod number;
mod path;
mod question;
mod readings;

use alloc::string::String;
use core::fmt;
use core::ops::Not;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::context::words;

pub(crate) use answers::{Answers, Collector, Questions};
pub use question::Question;
pub(crate) use readings::Readings;

/// The answer to a typed question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Truth {
    /// It holds.
    True,
    /// It does not hold.
    False,
    /// It cannot be judged. This never loosens: an allow rule then does not match, every other kind does.
    Unevaluable(Why),
}

impl Truth {
    /// Both: false if one is false, else unevaluable if one is, else true.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::False, _) | (_, Self::False) => Self::False,
            (Self::Unevaluable(why), _) | (_, Self::Unevaluable(why)) => Self::Unevaluable(why),
            (Self::True, Self::True) => Self::True,
        }
    }
}

impl From<bool> for Truth {
    fn from(holds: bool) -> Self {
        if holds { Self::True } else { Self::False }
    }
}

/// The negation of what cannot be judged cannot be judged.
impl Not for Truth {
    type Output = Self;

    fn not(self) -> Self {
        match self {
            Self::True => Self::False,
            Self::False => Self::True,
            Self::Unevaluable(why) => Self::Unevaluable(why),
        }
    }
}

words! {
    /// Why something cannot be judged.
    Why {
        /// The fact or argument is not there.
        Missing = "missing",
        /// The argument is null: neither present nor absent.
        Null = "null",
        /// The argument is of a type that the operator cannot judge.
        WrongType = "wrong_type",
        /// The text is not a plain path, or not a plain URL.
        Unparseable = "unparseable",
        /// The argument is a list without elements.
        EmptyList = "empty_list",
        /// Some elements satisfy the condition and some do not, or cannot be judged.
        Mixed = "mixed",
        /// The text is too long to be matched in bounded time.
        TooLong = "too_long",
    }
}

impl Why {
    /// In words, to follow "it".
    #[must_use]
    pub fn phrase(self) -> &'static str {
        match self {
            Self::Missing => "is missing",
            Self::Null => "is null",
            Self::WrongType => "has the wrong type",
            Self::Unparseable => "is not in a form that can be judged",
            Self::EmptyList => "is an empty list",
            Self::Mixed => "holds of some elements only",
            Self::TooLong => "is too long to be judged",
        }
    }
}

words! {
    /// What a condition asks.
    Op {
        /// The value is the operand: a text, number or boolean of the same type.
        Equals = "equals",
        /// The value is one of the operand's.
        OneOf = "one_of",
        /// The text begins with the operand.
        StartsWith = "starts_with",
        /// The whole text matches the operand, a regular expression.
        Matches = "matches",
        /// Characters of the text, or elements of the list, are within `{min, max}`, both inclusive.
        Length = "length",
        /// The number is within `{min, max}`, both inclusive. A text is never a number.
        Range = "range",
        /// The argument is there. Takes no operand.
        Present = "present",
        /// The argument is not there. Takes no operand.
        Absent = "absent",
        /// The path lies within the operand, a directory: relative to the tool's root (`.` is the root itself), or absolute.
        PathWithin = "path_within",
        /// The URL's host is the operand.
        HostIs = "host_is",
        /// The URL's host is the operand or a name below it.
        HostWithin = "host_within",
    }
}

words! {
    /// How a condition on a list is answered from its elements' answers.
    Elements {
        /// True if it is true of every element, false if it is false of every element; all else (a mixture, an empty
        /// list) is unevaluable. So a harmless element beside a forbidden one slips past no rule of any kind.
        Every = "every",
        /// True if it is true of at least one element; else unevaluable if that cannot be judged of one; else false.
        Any = "any",
    }
}

#[expect(clippy::derivable_impls, reason = "the enum is declared by a macro that knows no default")]
impl Default for Elements {
    fn default() -> Self {
        Self::Every
    }
}

impl Elements {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// A condition as the operator writes it: `{ argument: path, op: path_within, value: "." }`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Condition {
    /// Which argument: keys joined by dots, such as `options.path`. A dot or backslash in a key is written `\.`, `\\`.
    /// A list on the way stands for each of its elements.
    pub argument: String,
    /// What is asked of it.
    pub op: Op,
    /// The operand, of the type that the operator takes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<Value>,
    /// How lists are judged.
    #[serde(default, skip_serializing_if = "Elements::is_default")]
    pub elements: Elements,
}

impl Condition {
    /// Checks the condition and prepares it for asking.
    ///
    /// # Errors
    /// [`ConditionError`] names the part that is wrong, and why.
    pub fn compile(&self) -> Result<Question, ConditionError> {
        Question::new(self)
    }
}

/// Such as `path path_within "."`.
impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.elements == Elements::Any {
            f.write_str("any element of ")?;
        }
        write!(f, "{} {}", self.argument, self.op)?;
        match &self.value {
            Some(value) => write!(f, " {value}"),
            None => Ok(()),
        }
    }
}

/// What is wrong with a condition.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ConditionError {
    /// Which key of the condition: `argument` or `value`.
    pub field: &'static str,
    /// What is wrong, and what to write instead.
    pub message: String,
}
