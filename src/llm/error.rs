//! What can go wrong with a model, told so that a person knows what to do.

use super::Reply;
use std::fmt;
use std::time::Duration;

/// A provider, by the words that people know it by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Service {
    /// Its name in sentences.
    pub label: &'static str,
    /// The setting that holds its key; empty if it needs none.
    pub key_setting: &'static str,
    /// The setting that names its model.
    pub model_setting: &'static str,
}

/// Kinds of failure, each with its own way out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LlmErrorKind {
    /// The key is missing, wrong, or not allowed to do this.
    Key,
    /// No money, or a daily quota used up: waiting a minute does not help.
    Quota,
    /// Too many requests for the moment.
    RateLimited,
    /// The provider has a bad moment.
    Overloaded,
    /// Nothing sensible answers at the address.
    Unreachable,
    /// The provider does not know the model.
    ModelNotFound,
    /// The provider holds the answer back.
    Blocked,
    /// The answer ended before it was whole.
    CutOff,
    /// The answer is not what the provider's interface promises.
    Malformed,
    /// The provider refuses the request as it is.
    BadRequest,
    /// No answer in time.
    TimedOut,
    /// Stop was pressed.
    Cancelled,
}

impl LlmErrorKind {
    /// The word used in records.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Key => "key",
            Self::Quota => "quota",
            Self::RateLimited => "rate_limited",
            Self::Overloaded => "overloaded",
            Self::Unreachable => "unreachable",
            Self::ModelNotFound => "model_not_found",
            Self::Blocked => "blocked",
            Self::CutOff => "cut_off",
            Self::Malformed => "malformed",
            Self::BadRequest => "bad_request",
            Self::TimedOut => "timed_out",
            Self::Cancelled => "cancelled",
        }
    }
}

impl fmt::Display for LlmErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

/// An answer that did not come, or did not end well. Never holds the key.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{}", self.sentence())]
pub struct LlmError {
    /// What kind of failure.
    pub kind: LlmErrorKind,
    /// Who failed.
    pub service: &'static Service,
    /// The model asked.
    pub model: String,
    /// The HTTP status, or the status inside the answer's stream.
    pub status: Option<u16>,
    /// The provider's own word for it.
    pub code: Option<String>,
    /// How long the provider asks us to wait.
    pub retry_after: Option<Duration>,
    /// What was seen, in short: the provider's text or ours. Text from outside: escape it.
    pub message: String,
    /// What had arrived, if anything had: text to keep and mark as cut, and usage to count. It has no calls.
    pub partial: Option<Box<Reply>>,
}

/// Longest part of a provider's message that is kept, in characters.
const MESSAGE_CHARACTERS: usize = 500;

impl LlmError {
    /// A failure with what was seen. The message is cut to a readable length.
    #[must_use]
    pub fn new(kind: LlmErrorKind, service: &'static Service, model: &str, message: &str) -> Self {
        Self {
            kind,
            service,
            model: model.to_owned(),
            status: None,
            code: None,
            retry_after: None,
            message: shortened(message),
            partial: None,
        }
    }

    /// Whether the same request may succeed later, without anybody changing anything.
    #[must_use]
    pub fn retryable(&self) -> bool {
        match self.kind {
            LlmErrorKind::RateLimited
            | LlmErrorKind::Overloaded
            | LlmErrorKind::Unreachable
            | LlmErrorKind::CutOff
            | LlmErrorKind::Malformed
            | LlmErrorKind::TimedOut
            | LlmErrorKind::Cancelled => true,
            LlmErrorKind::Key
            | LlmErrorKind::Quota
            | LlmErrorKind::ModelNotFound
            | LlmErrorKind::Blocked
            | LlmErrorKind::BadRequest => false,
        }
    }

    /// What happened and what to do, in a line for the chat. Holds text from outside: escape it.
    #[must_use]
    pub fn sentence(&self) -> String {
        let Service { label, key_setting, model_setting } = *self.service;
        let model = &self.model;
        let said = self.said();
        match self.kind {
            LlmErrorKind::Key => {
                format!("{label} did not accept the key{said}. Check {key_setting} and its permissions.")
            }
            LlmErrorKind::Quota => format!(
                "{label} says that the quota or the credit is used up{said}. Check the plan at {label}, or choose another model."
            ),
            LlmErrorKind::RateLimited => {
                format!("{label} is limiting requests{said}. Try again {}.", self.when())
            }
            LlmErrorKind::Overloaded => {
                format!("{label} is overloaded or has a fault of its own{said}. Try again {}.", self.when())
            }
            LlmErrorKind::Unreachable => {
                format!(
                    "{label} could not be reached{said}. Check the network and the address, then try again."
                )
            }
            LlmErrorKind::ModelNotFound => {
                format!(
                    "{label} does not know the model `{model}`{said}. Choose another model, or check {model_setting}."
                )
            }
            LlmErrorKind::Blocked => {
                format!("{label} held the answer back{said}. Put the request in other words.")
            }
            LlmErrorKind::CutOff => {
                format!("The answer of {label} was cut off{said}. Nothing in it was run. Try again.")
            }
            LlmErrorKind::Malformed => {
                format!(
                    "The answer of {label} was not usable{said}. Nothing in it was run. Try again, or choose another model."
                )
            }
            LlmErrorKind::BadRequest => format!(
                "{label} refused the request{said}. Start a new conversation, or choose another model."
            ),
            LlmErrorKind::TimedOut => format!("{label} did not answer in time{said}. Try again."),
            LlmErrorKind::Cancelled => "The answer was stopped.".to_owned(),
        }
    }

    fn when(&self) -> String {
        match self.retry_after {
            Some(wait) => format!("in {} seconds", wait.as_secs_f64().ceil().max(1.0)),
            None => "in a minute".to_owned(),
        }
    }

    /// The bracket with status, code and message, or nothing.
    fn said(&self) -> String {
        let status = self.status.map(|status| status.to_string());
        let head = [status, self.code.clone()].into_iter().flatten().collect::<Vec<_>>().join(" ");
        let text = self.message.trim_end_matches('.');
        match (head.is_empty(), text.is_empty()) {
            (true, true) => String::new(),
            (true, false) => format!(" ({text})"),
            (false, true) => format!(" ({head})"),
            (false, false) => format!(" ({head}: {text})"),
        }
    }
}

/// One line, without control characters, of a readable length; what is left out shows as an ellipsis.
fn shortened(text: &str) -> String {
    let mut words = String::new();
    for word in text.split(|c: char| c.is_whitespace() || c.is_control()).filter(|word| !word.is_empty()) {
        if !words.is_empty() {
            words.push(' ');
        }
        words.push_str(word);
        if words.len() > MESSAGE_CHARACTERS * 4 {
            break;
        }
    }
    if words.chars().count() > MESSAGE_CHARACTERS {
        let mut cut: String = words.chars().take(MESSAGE_CHARACTERS).collect();
        cut.push('…');
        return cut;
    }
    words
}
