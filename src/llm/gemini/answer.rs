//! From the events of a stream to one answer. Pure: data in, deltas and a reply out.

use super::NAME;
use crate::conversation::{CutBy, Ending, ModelCall, ModelTurn, ProviderTurn, Usage};
use crate::llm::{Delta, Reply, UnfinishedCall};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;
use serde_json::value::RawValue;
use uuid::Uuid;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Chunk<'a> {
    #[serde(borrow, default)]
    candidates: Option<Vec<Candidate<'a>>>,
    prompt_feedback: Option<PromptFeedback>,
    usage_metadata: Option<Value>,
    model_version: Option<String>,
    error: Option<IgnoredAny>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Candidate<'a> {
    #[serde(borrow, default)]
    content: Option<Content<'a>>,
    finish_reason: Option<String>,
    finish_message: Option<String>,
    #[serde(default)]
    index: Option<u64>,
}

#[derive(Deserialize)]
struct Content<'a> {
    #[serde(borrow, default)]
    parts: Option<Vec<&'a RawValue>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PromptFeedback {
    block_reason: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Part<'a> {
    text: Option<String>,
    thought: Option<bool>,
    #[serde(borrow, default)]
    function_call: Option<FunctionCall<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct FunctionCall<'a> {
    id: Option<String>,
    name: Option<String>,
    #[serde(borrow, default)]
    args: Option<&'a RawValue>,
    /// Pieces of arguments, which this interface does not send. A call made of them is not understood.
    partial_args: Option<IgnoredAny>,
    will_continue: Option<bool>,
}

/// An event that is no piece of an answer.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Unusable {
    /// It is an error of the provider's.
    Error,
    /// It is not what the interface promises.
    NotUnderstood(String),
}

/// What is to be said of a bad ending, beside the ending itself.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Fault {
    /// The provider's word.
    pub(super) code: Option<String>,
    /// In short.
    pub(super) message: String,
}

/// An answer on its way.
#[derive(Debug)]
pub(super) struct Answer {
    model: String,
    text: String,
    thinking: String,
    parts: Vec<String>,
    calls: Vec<ModelCall>,
    garbled: Option<&'static str>,
    finish: Option<String>,
    finish_message: Option<String>,
    block: Option<String>,
    usage: Option<Usage>,
    version: Option<String>,
    began: bool,
}

impl Answer {
    /// An answer of which nothing has arrived.
    pub(super) fn new(model: &str) -> Self {
        Self {
            model: model.to_owned(),
            text: String::new(),
            thinking: String::new(),
            parts: Vec::new(),
            calls: Vec::new(),
            garbled: None,
            finish: None,
            finish_message: None,
            block: None,
            usage: None,
            version: None,
            began: false,
        }
    }

    /// Takes the next event's data and gives what is new in it to show.
    pub(super) fn take(&mut self, data: &str) -> Result<Vec<Delta>, Unusable> {
        if data.trim().is_empty() {
            return Ok(Vec::new());
        }
        let chunk: Chunk<'_> = match serde_json::from_str(data) {
            Ok(chunk) => chunk,
            // Errors come in a list at times.
            Err(_)
                if serde_json::from_str::<Vec<Chunk<'_>>>(data)
                    .is_ok_and(|all| all.iter().any(|c| c.error.is_some())) =>
            {
                return Err(Unusable::Error);
            }
            Err(why) => return Err(Unusable::NotUnderstood(why.to_string())),
        };
        if chunk.error.is_some() {
            return Err(Unusable::Error);
        }
        if let Some(usage) = chunk.usage_metadata.as_ref().and_then(usage) {
            // Each chunk counts from the start: the last one is the sum.
            self.usage = Some(usage);
        }
        self.version = chunk.model_version.or(self.version.take());
        self.block = chunk.prompt_feedback.and_then(|feedback| feedback.block_reason).or(self.block.take());
        let mut deltas = Vec::new();
        for candidate in chunk.candidates.into_iter().flatten().filter(|c| c.index.unwrap_or(0) == 0) {
            self.began = true;
            for raw in candidate.content.into_iter().filter_map(|content| content.parts).flatten() {
                deltas.extend(self.part(raw)?);
            }
            // An ending that is not `STOP` stays, whatever follows it.
            if let Some(reason) = candidate.finish_reason
                && self.finish.as_deref().is_none_or(|known| known == "STOP")
            {
                self.finish = Some(reason);
            }
            self.finish_message = candidate.finish_message.or(self.finish_message.take());
        }
        Ok(deltas)
    }

    fn part(&mut self, raw: &RawValue) -> Result<Option<Delta>, Unusable> {
        let part: Part<'_> =
            serde_json::from_str(raw.get()).map_err(|why| Unusable::NotUnderstood(why.to_string()))?;
        self.parts.push(raw.get().to_owned());
        if let Some(call) = part.function_call {
            self.call(call);
        }
        let Some(text) = part.text.filter(|text| !text.is_empty()) else { return Ok(None) };
        Ok(Some(if part.thought.unwrap_or(false) {
            self.thinking.push_str(&text);
            Delta::Thinking(text)
        } else {
            self.text.push_str(&text);
            Delta::Text(text)
        }))
    }

    fn call(&mut self, call: FunctionCall<'_>) {
        if call.partial_args.is_some() || call.will_continue.unwrap_or(false) {
            self.garbled = Some("a call came in pieces");
        }
        let name = call.name.unwrap_or_default();
        if name.is_empty() {
            self.garbled = Some("a call names no tool");
        }
        self.calls.push(ModelCall {
            key: Uuid::new_v4().to_string(),
            provider_id: call.id,
            name,
            arguments: call.args.map(|args| args.get().to_owned()).filter(|args| args != "null"),
        });
    }

    /// The reply of a stream that came to its end in good order.
    ///
    /// # Errors
    /// The answer did not end well: what to say of it, and what had arrived.
    pub(super) fn end(self) -> Result<Reply, (Fault, Box<Reply>)> {
        let (ending, fault) = self.judged();
        if matches!(ending, Ending::Stop | Ending::ToolCalls) {
            let raw = format!("[{}]", self.parts.join(","));
            let provider = ProviderTurn { provider: NAME.to_owned(), model: self.model, raw };
            return Ok(Reply {
                turn: ModelTurn {
                    text: self.text,
                    thinking: self.thinking,
                    calls: self.calls,
                    ending,
                    provider: Some(provider),
                },
                usage: self.usage,
                model_version: self.version,
                unfinished: Vec::new(),
            });
        }
        Err((fault, Box::new(self.broken_off(ending))))
    }

    /// What had arrived of an answer that ended badly. Its calls are no calls any more, and it is not replayed as
    /// received, because a call without an answer would be refused.
    pub(super) fn broken_off(self, ending: Ending) -> Reply {
        let unfinished = self
            .calls
            .into_iter()
            .map(|call| UnfinishedCall { name: call.name, arguments: call.arguments.unwrap_or_default() })
            .collect();
        Reply {
            turn: ModelTurn {
                text: self.text,
                thinking: self.thinking,
                calls: Vec::new(),
                ending,
                provider: None,
            },
            usage: self.usage,
            model_version: self.version,
            unfinished,
        }
    }

    fn judged(&self) -> (Ending, Fault) {
        let fault = |message: &str| Fault {
            code: self.finish.clone(),
            message: match &self.finish_message {
                Some(told) if message.is_empty() => told.clone(),
                Some(told) => format!("{message}; {told}"),
                None => message.to_owned(),
            },
        };
        if let Some(reason) = &self.block {
            let told = Fault { code: Some(reason.clone()), message: "the prompt was blocked".to_owned() };
            return (Ending::Blocked { reason: reason.clone() }, told);
        }
        let Some(finish) = self.finish.as_deref() else {
            let message = if self.began { "no ending was given" } else { "there was no answer in it" };
            return (Ending::CutOff { by: CutBy::Connection }, fault(message));
        };
        let silent = self.text.trim().is_empty();
        match finish {
            "STOP" => match self.garbled {
                Some(why) => (Ending::Malformed, fault(why)),
                None if !self.calls.is_empty() => (Ending::ToolCalls, fault("")),
                None if silent => (Ending::Malformed, fault("it was empty")),
                None => (Ending::Stop, fault("")),
            },
            "MAX_TOKENS" | "CONTINUATION" => {
                let message = if silent { "thinking used up the limit" } else { "" };
                (Ending::CutOff { by: CutBy::TokenLimit }, fault(message))
            }
            "SAFETY"
            | "RECITATION"
            | "LANGUAGE"
            | "BLOCKLIST"
            | "PROHIBITED_CONTENT"
            | "SPII"
            | "MODEL_ARMOR"
            | "IMAGE_SAFETY"
            | "IMAGE_PROHIBITED_CONTENT"
            | "IMAGE_RECITATION" => (Ending::Blocked { reason: finish.to_owned() }, fault("")),
            "MALFORMED_FUNCTION_CALL"
            | "UNEXPECTED_TOOL_CALL"
            | "TOO_MANY_TOOL_CALLS"
            | "MALFORMED_RESPONSE" => (Ending::Malformed, fault("")),
            other => (Ending::Other(other.to_owned()), fault("")),
        }
    }
}

/// The counts of one chunk; `None` if it has none. `cachedContentTokenCount` is within the prompt's.
fn usage(metadata: &Value) -> Option<Usage> {
    let count = |name: &str| metadata.get(name).and_then(Value::as_u64);
    let named = ["promptTokenCount", "candidatesTokenCount", "thoughtsTokenCount", "totalTokenCount"];
    named.iter().find_map(|name| count(name))?;
    let input =
        count("promptTokenCount").unwrap_or(0).saturating_add(count("toolUsePromptTokenCount").unwrap_or(0));
    let output = count("candidatesTokenCount").unwrap_or(0);
    let thinking = count("thoughtsTokenCount").unwrap_or(0);
    let sum = input.saturating_add(output).saturating_add(thinking);
    let total = count("totalTokenCount").unwrap_or(0).max(sum);
    Some(Usage { input, output, thinking, total, estimated: false })
}
