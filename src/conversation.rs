//! What was said: the transcript that agent, models and pages share, in no provider's words.
//!
//! Everything here is stored as JSON with the conversation, so that a turn goes on after a restart.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::fmt;

/// One entry of a transcript.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Message {
    /// What the person wrote. It begins a turn.
    User {
        /// The text as written.
        text: String,
    },
    /// One answer of the model.
    Model(ModelTurn),
    /// The answers to all calls of the model turn before it, in the order of those calls.
    ToolResults {
        /// One result for each call.
        results: Vec<CallResult>,
    },
}

/// One answer of a model: our reading of it, and the provider's own record.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ModelTurn {
    /// The visible text, pieces joined.
    pub text: String,
    /// The model's visible thoughts, if it shows any.
    pub thinking: String,
    /// The calls it asks for. Empty unless the answer arrived whole and ended well.
    pub calls: Vec<ModelCall>,
    /// How the answer ended.
    pub ending: Ending,
    /// The provider's own turn. Absent where nothing may be replayed as received: a turn that ended badly.
    pub provider: Option<ProviderTurn>,
}

/// A call as the model asked for it. Nothing in it is corrected.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelCall {
    /// Our key of the call, unique in the conversation. Results refer to it.
    pub key: String,
    /// The provider's id, to be echoed to that provider and used for nothing else.
    pub provider_id: Option<String>,
    /// The tool's name as the model said it.
    pub name: String,
    /// The arguments as JSON text, exactly as received; it may not parse. `None`: the model gave none.
    pub arguments: Option<String>,
}

/// What came of one call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CallResult {
    /// The [`ModelCall::key`] that this answers.
    pub key: String,
    /// The tool's name as the model said it.
    pub name: String,
    /// A text, or the structured answer.
    pub output: Value,
    /// The call failed, was refused or did not run; `output` says why.
    pub is_error: bool,
}

/// A turn in the provider's own form. Opaque: only the provider that wrote it reads it, and for the same model.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProviderTurn {
    /// [`crate::llm::LlmProvider::name`] of the writer.
    pub provider: String,
    /// The model that was asked.
    pub model: String,
    /// JSON text, byte for byte as received: order, unknown fields and signatures included. Text and not a
    /// parsed value, because parsing would sort keys and round numbers.
    pub raw: String,
}

impl fmt::Debug for ProviderTurn {
    /// Leaves out the content, which holds signatures that belong in no log.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProviderTurn")
            .field("provider", &self.provider)
            .field("model", &self.model)
            .field("raw_bytes", &self.raw.len())
            .finish()
    }
}

/// Tokens used, as the provider counts them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Tokens read: prompt, history, tools.
    pub input: u64,
    /// Tokens written, without thinking.
    pub output: u64,
    /// Tokens spent on thinking.
    pub thinking: u64,
    /// All tokens; at least the sum of the others.
    pub total: u64,
    /// Some of it is our estimate, because the provider did not say.
    pub estimated: bool,
}

impl Usage {
    /// The sum of two usages; stays at the largest number instead of overflowing.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            input: self.input.saturating_add(other.input),
            output: self.output.saturating_add(other.output),
            thinking: self.thinking.saturating_add(other.thinking),
            total: self.total.saturating_add(other.total),
            estimated: self.estimated || other.estimated,
        }
    }
}

/// How a model's answer ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ending {
    /// The model had said all.
    Stop,
    /// The model waits for the results of its calls.
    ToolCalls,
    /// The answer is incomplete.
    CutOff {
        /// What cut it.
        by: CutBy,
    },
    /// The provider held the answer back.
    Blocked {
        /// The provider's word for why.
        reason: String,
    },
    /// The answer was not what the provider's interface promises: a garbled call, or nothing at all.
    Malformed,
    /// An ending unknown to us, by the provider's name for it.
    Other(String),
}

/// What cut an answer off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CutBy {
    /// The limit on tokens, or on the context's length.
    TokenLimit,
    /// The connection ended, failed or fell silent, or the provider broke off with an error.
    Connection,
    /// Our limit on the size or duration of an answer.
    OurLimit,
    /// Stop was pressed.
    Cancelled,
}

/// Pairs each call with its result. A call without one is paired with `None`: every provider refuses a history
/// with a gap, so whoever sends it must fill that in. Results of other calls are left out.
#[must_use]
pub fn paired<'a>(
    calls: &'a [ModelCall],
    next: Option<&'a Message>,
) -> Vec<(&'a ModelCall, Option<&'a CallResult>)> {
    let results = match next {
        Some(Message::ToolResults { results }) => results.as_slice(),
        Some(Message::User { .. } | Message::Model(_)) | None => &[],
    };
    calls.iter().map(|call| (call, results.iter().find(|result| result.key == call.key))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usage_sums_saturate_and_keep_the_mark_of_an_estimate() {
        let near = Usage { input: u64::MAX - 1, output: 1, thinking: 2, total: u64::MAX, estimated: false };
        let sum = near.plus(Usage { input: 5, output: 1, thinking: 1, total: 1, estimated: true });
        assert_eq!(sum, Usage { input: u64::MAX, output: 2, thinking: 3, total: u64::MAX, estimated: true });
    }

    #[test]
    fn a_transcript_survives_storage_with_the_raw_turn_byte_for_byte() {
        let raw =
            r#"[{"zeta":1.0,"alpha":12345678901234567890123,"thoughtSignature":"QQ=="} , {"text":"\u00e9"}]"#;
        let message = Message::Model(ModelTurn {
            text: "é".into(),
            thinking: String::new(),
            calls: vec![ModelCall {
                key: "k".into(),
                provider_id: None,
                name: "f".into(),
                arguments: Some("{\"a\":1".into()),
            }],
            ending: Ending::CutOff { by: CutBy::TokenLimit },
            provider: Some(ProviderTurn { provider: "gemini".into(), model: "m".into(), raw: raw.into() }),
        });
        let stored = serde_json::to_string(&message).unwrap();
        // Also through a parsed value, as a database that rewrites JSON would do.
        let rewritten: Value = serde_json::from_str(&stored).unwrap();
        let back: Message = serde_json::from_value(rewritten).unwrap();
        assert_eq!(back, message);
        assert!(!format!("{back:?}").contains("QQ=="), "a signature reached a debug line");
    }

    #[test]
    fn calls_without_a_result_show_up_as_gaps() {
        let call =
            |key: &str| ModelCall { key: key.into(), provider_id: None, name: "f".into(), arguments: None };
        let result = |key: &str| CallResult {
            key: key.into(),
            name: "f".into(),
            output: Value::Null,
            is_error: false,
        };
        let calls = [call("a"), call("b")];
        let next = Message::ToolResults { results: vec![result("x"), result("b")] };
        let found: Vec<_> = paired(&calls, Some(&next)).into_iter().map(|(_, r)| r.is_some()).collect();
        assert_eq!(found, [false, true]);
        assert!(paired(&calls, Some(&Message::User { text: "hi".into() })).iter().all(|(_, r)| r.is_none()));
    }
}
