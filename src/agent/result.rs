//! What a model is told of a call: exactly one result for each, whatever happened. Pure.

use crate::conversation::{CallResult, ModelCall};
use serde_json::{Value, json};
use sluicegate_gateway::{CallAnswer, CallState, ReasonCode, ToolOutput};

/// Most bytes of one tool answer that a model reads.
pub const MOST_BYTES: usize = 32 * 1024;

/// How a proposed call was answered.
#[derive(Clone, Debug)]
pub enum Answer {
    /// By the gate.
    Gate(Box<CallAnswer>),
    /// It was never proposed: Stop came first.
    NotProposed,
    /// Stop was pressed, and the gate did not say in time how the call ended.
    NoAnswer,
}

/// What breaks a turn off without an end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BrokenBy {
    /// The process died or was ended.
    Restart,
    /// The transcript could not be written.
    Store,
}

impl BrokenBy {
    pub(crate) fn phrase(self) -> &'static str {
        match self {
            Self::Restart => "the product restarted",
            Self::Store => "the store failed",
        }
    }
}

impl Answer {
    /// Why the call did not run, if it was refused or nobody decided in time.
    pub(crate) fn denial(&self) -> Option<ReasonCode> {
        match self {
            Self::Gate(answer) if matches!(answer.state, CallState::Denied | CallState::Expired) => {
                Some(answer.refusal.as_ref().map_or(ReasonCode::Rule, |refusal| refusal.code))
            }
            Self::Gate(_) | Self::NotProposed | Self::NoAnswer => None,
        }
    }
}

/// The result of a call for the model.
#[must_use]
pub fn result(call: &ModelCall, answer: &Answer) -> CallResult {
    match answer {
        Answer::Gate(answer) => answered(call, answer),
        Answer::NotProposed => failed(
            call,
            ReasonCode::Withdrawn,
            "stopped by the person before this call was asked for; it did not run",
            true,
        ),
        Answer::NoAnswer => failed(
            call,
            ReasonCode::OutcomeLost,
            "stopped by the person while this call was open; whether it ran is not known, so look before you repeat it",
            false,
        ),
    }
}

fn answered(call: &ModelCall, answer: &CallAnswer) -> CallResult {
    let said = answer.output.as_ref().map(readable);
    if answer.state == CallState::Completed && answer.refusal.is_none() {
        let output = said.unwrap_or_else(|| Value::String(String::new()));
        return CallResult { key: call.key.clone(), name: call.name.clone(), output, is_error: false };
    }
    let mut output = match &answer.refusal {
        Some(refusal) => error(refusal.code, &refusal.sentence, refusal.retryable),
        None => error(
            ReasonCode::OutcomeLost,
            "this call did not come to an end; whether it ran is not known",
            false,
        ),
    };
    if let (Some(said), Some(fields)) = (said, output.as_object_mut()) {
        fields.insert("tool_said".to_owned(), said);
    }
    CallResult { key: call.key.clone(), name: call.name.clone(), output, is_error: true }
}

/// The result of a call that was open when its turn broke off. `state` is how it stands now, if the gate knows it.
pub(crate) fn broken_off(call: &ModelCall, by: BrokenBy, state: Option<CallState>) -> CallResult {
    let (code, what, retryable) = match state {
        Some(CallState::Completed) => {
            (ReasonCode::OutcomeLost, "it ran to its end, but its answer was lost: do not repeat it", false)
        }
        Some(CallState::Failed) => (ReasonCode::ToolError, "it failed, and its answer was lost", false),
        Some(CallState::Unknown | CallState::Executing) | None => {
            (ReasonCode::OutcomeLost, "whether it ran is not known, so look before you repeat it", false)
        }
        Some(
            CallState::Proposed
            | CallState::Pending
            | CallState::Approved
            | CallState::Denied
            | CallState::Expired
            | CallState::Withdrawn,
        ) => (ReasonCode::Orphaned, "it did not run", true),
    };
    failed(call, code, &format!("{} while this call was open; {what}", by.phrase()), retryable)
}

fn failed(call: &ModelCall, code: ReasonCode, sentence: &str, retryable: bool) -> CallResult {
    CallResult {
        key: call.key.clone(),
        name: call.name.clone(),
        output: error(code, sentence, retryable),
        is_error: true,
    }
}

fn error(code: ReasonCode, sentence: &str, retryable: bool) -> Value {
    json!({ "code": code.as_str(), "message": sentence, "retryable": retryable })
}

/// A tool's answer as a model can read it: its texts, or its structured content if it has none; stand-ins for
/// what is no text; cut, and marked so, at [`MOST_BYTES`].
#[must_use]
pub fn readable(output: &ToolOutput) -> Value {
    let parts: Vec<String> =
        output.result.get("content").and_then(Value::as_array).into_iter().flatten().map(part).collect();
    let structured = output.result.get("structuredContent").filter(|value| !value.is_null());
    match (parts.is_empty(), structured) {
        (false, _) => Value::String(cut(&parts.join("\n"))),
        (true, Some(value)) => {
            let text = value.to_string();
            if text.len() > MOST_BYTES { Value::String(cut(&text)) } else { value.clone() }
        }
        (true, None) if output.result.get("content").is_some() => Value::String(String::new()),
        (true, None) => Value::String(cut(&output.result.to_string())),
    }
}

/// One content part as text.
fn part(part: &Value) -> String {
    let field = |name: &str| part.get(name).and_then(Value::as_str);
    let resource =
        |name: &str| part.get("resource").and_then(|inner| inner.get(name)).and_then(Value::as_str);
    match field("type") {
        Some("text") => field("text").unwrap_or_default().to_owned(),
        Some(kind @ ("image" | "audio")) => format!(
            "[{kind}, {}, {} bytes: not shown as text]",
            field("mimeType").unwrap_or("unknown type"),
            decoded_bytes(field("data"))
        ),
        Some("resource") => match resource("text") {
            Some(text) => format!("[resource {}]\n{text}", resource("uri").unwrap_or_default()),
            None => format!(
                "[resource {}, {}, {} bytes: not shown as text]",
                resource("uri").unwrap_or_default(),
                resource("mimeType").unwrap_or("unknown type"),
                decoded_bytes(resource("blob"))
            ),
        },
        Some("resource_link") => format!(
            "[link to a resource: {} {}]",
            field("name").unwrap_or_default(),
            field("uri").unwrap_or_default()
        ),
        Some(_) | None => part.to_string(),
    }
}

/// Size of what a base64 text holds.
fn decoded_bytes(base64: Option<&str>) -> usize {
    let digits = base64.unwrap_or_default().trim_end_matches('=').len();
    digits.saturating_mul(3) / 4
}

/// The text, or as many of its whole characters as fit, with a mark that says so.
fn cut(text: &str) -> String {
    if text.len() <= MOST_BYTES {
        return text.to_owned();
    }
    let end = text.floor_char_boundary(MOST_BYTES);
    let kept = text.get(..end).unwrap_or_default();
    format!("{kept}\n[cut by Sluicegate: {end} of {} bytes are shown]", text.len())
}

#[cfg(test)]
mod tests;
