//! A mistake in a policy file, and where it stands.

use std::fmt;

use serde_saphyr::{Error, Location};
use sluicegate_policy::{RuleError, closest};

/// One mistake, with its place in the text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicyProblem {
    /// Counting from 1.
    pub line: u64,
    /// In characters, counting from 1.
    pub column: u64,
    /// What is wrong, and what to do.
    pub message: String,
    /// What was probably meant.
    pub suggestion: Option<String>,
}

impl fmt::Display for PolicyProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}, column {}: {}", self.line, self.column, self.message)?;
        match &self.suggestion {
            Some(meant) => write!(f, "; did you mean `{meant}`?"),
            None => Ok(()),
        }
    }
}

impl PolicyProblem {
    pub(super) fn at(location: Option<Location>, message: impl Into<String>) -> Self {
        let location = location.unwrap_or(Location::UNKNOWN);
        Self {
            line: location.line().max(1),
            column: location.column().max(1),
            message: message.into(),
            suggestion: None,
        }
    }

    /// What the reader of YAML says, in our words where a person can do something about it.
    pub(super) fn from_yaml(error: &Error) -> Self {
        let error = match error {
            Error::WithSnippet { error, .. } => error,
            other => other,
        };
        let at = error.location();
        match error {
            Error::SerdeUnknownField { field, expected, .. } => {
                Self::unknown(at, format!("unknown key `{}`", shown(field)), field, expected)
            }
            Error::SerdeUnknownVariant { variant, expected, .. } => {
                Self::unknown(at, format!("unknown word `{}`", shown(variant)), variant, expected)
            }
            Error::SerdeMissingField { field, .. } => Self::at(at, format!("the key `{field}` is missing")),
            Error::DuplicateMappingKey { key: Some(key), .. } => {
                Self::at(at, format!("the key `{}` stands here twice", shown(key)))
            }
            Error::MultipleDocuments { .. } => {
                Self::at(at, "a second document begins here; a policy is one document")
            }
            Error::InvalidBooleanStrict { .. } => Self::at(at, "write true or false"),
            Error::Eof { .. } => Self::at(
                at,
                "the file is empty or ends too early; the smallest policy is `version: 1` and `rules: []`",
            ),
            Error::Budget { breach, .. } => {
                Self::at(at, format!("the file asks for more than a policy may need ({breach:?})"))
            }
            other => Self::at(at, without_place(&other.to_string(), at)),
        }
    }

    fn unknown(at: Option<Location>, what: String, word: &str, expected: &[&'static str]) -> Self {
        let suggestion = closest(word, expected).map(str::to_owned);
        let message = match (&suggestion, expected) {
            (Some(_), _) | (None, []) => what,
            (None, words) => format!("{what}; it can be {}", words.join(", ")),
        };
        Self { suggestion, ..Self::at(at, message) }
    }

    pub(super) fn from_rule(error: &RuleError, at: Option<Location>) -> Self {
        let message = match &error.rule {
            Some(rule) => format!("rule `{rule}`: {}", error.message),
            None => error.message.clone(),
        };
        Self { suggestion: error.suggestion.clone(), ..Self::at(at, message) }
    }
}

/// The reader ends its sentences with the place, which stands elsewhere here.
fn without_place(text: &str, at: Option<Location>) -> String {
    let place = at.map(|at| format!(" at line {}, column {}", at.line(), at.column()));
    let text = place.and_then(|place| text.strip_suffix(&place)).unwrap_or(text);
    shown_up_to(text, 300)
}

/// Outside input made fit for a message: no control characters, at most 80 characters.
fn shown(text: &str) -> String {
    shown_up_to(text, 80)
}

fn shown_up_to(text: &str, max: usize) -> String {
    let mut out: String = text.chars().take(max).map(|c| if c.is_control() { ' ' } else { c }).collect();
    if text.chars().nth(max).is_some() {
        out.push('…');
    }
    out
}
