//! What a client is told of a call. A result goes out as the server sent it; everything else is a tool result that
//! says it failed, in words for a model and in codes for a program. Pure.

use super::era::{Era, meta};
use super::handshake::server_info;
use serde_json::{Map, Value, json};
use sluicegate_gateway::{CallAnswer, CallId, HeldCall, Refusal};

/// The name of our own status in `_meta`.
const STATUS: &str = "sluicegate/status";

/// The result of a call that has come to its end.
pub(crate) fn ended(answer: CallAnswer, era: Era) -> Value {
    match (answer.output, answer.refusal) {
        // The tool's own error is its own word.
        (Some(output), _) => as_sent(output.result, era),
        (None, Some(refusal)) => refused(answer.call, &refusal, era),
        (None, None) => as_sent(json!({ "content": [] }), era),
    }
}

/// A result in the envelope of the client's era; nothing else about it changes.
fn as_sent(result: Value, era: Era) -> Value {
    let Value::Object(mut result) = result else { return result };
    match era {
        Era::Handshake => {
            if result.get("resultType").and_then(Value::as_str) == Some("complete") {
                result.remove("resultType");
            }
        }
        Era::SelfDescribing => {
            result.entry("resultType").or_insert_with(|| "complete".into());
        }
    }
    Value::Object(result)
}

fn refused(call: CallId, refusal: &Refusal, era: Era) -> Value {
    let help = if refusal.retryable { "the same call may succeed later" } else { "do not repeat the call" };
    let text = format!("Not done ({}): {}. ({help}; call {call})", refusal.code, refusal.sentence);
    let status =
        json!({ "code": refusal.code.as_str(), "call": call.to_string(), "retryable": refusal.retryable });
    failed(&text, status, era)
}

/// A held call whose caller is not kept waiting: the confirmation id, and how to get the result.
pub(crate) fn pending(held: &HeldCall, public: &str, era: Era) -> Value {
    let url = approval_url(held, public);
    let text = format!(
        "Waiting for a person (pending): this call does nothing until a person approves it. Confirmation id: {call}. \
         Ask your user to open {url} before {until}. Then repeat exactly the same call to collect its result; repeating it \
         earlier only waits.",
        call = held.call,
        until = held.expires_at,
    );
    failed(&text, waiting(held, &url), era)
}

fn waiting(held: &HeldCall, url: &str) -> Value {
    json!({
        "code": "pending",
        "call": held.call.to_string(),
        "retryable": true,
        "approval_url": url,
        "expires_at": held.expires_at,
    })
}

/// The status of a held call, as the `_meta` of an answer that is not its result.
pub(crate) fn status_of(held: &HeldCall, public: &str) -> Value {
    json!({ STATUS: waiting(held, &approval_url(held, public)), meta!("serverInfo"): server_info() })
}

pub(crate) fn approval_url(held: &HeldCall, public: &str) -> String {
    format!("{public}/approvals/{}", held.approval)
}

/// A question to the user's client: open the page, then ask again.
pub(crate) fn input_required(held: &HeldCall, public: &str, state: &str) -> Value {
    json!({
        "resultType": "input_required",
        "inputRequests": { "approval": { "method": "elicitation/create", "params": {
            "mode": "url",
            "message": format!("A person must approve this call of {} before it runs.", held.tool),
            "url": approval_url(held, public),
        } } },
        "requestState": state,
        "_meta": status_of(held, public),
    })
}

fn failed(text: &str, status: Value, era: Era) -> Value {
    let mut own = Map::new();
    own.insert(STATUS.to_owned(), status);
    let mut result = json!({ "content": [{ "type": "text", "text": text }], "isError": true, "_meta": own });
    if let (Era::SelfDescribing, Some(result)) = (era, result.as_object_mut()) {
        result.insert("resultType".to_owned(), "complete".into());
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;
    use sluicegate_gateway::{CallState, ReasonCode, ToolOutput};

    fn answer(output: Option<Value>, refusal: Option<Refusal>) -> CallAnswer {
        let output = output.map(|result| ToolOutput { is_error: false, result });
        CallAnswer { call: CallId::random(), state: CallState::Completed, refusal, output }
    }

    /// F15: parts pass through unchanged, whatever they are.
    #[test]
    fn f15_a_result_is_not_touched_beyond_its_envelope() {
        let sent = json!({
            "content": [{ "type": "hologram", "depth": 3 }, { "type": "text", "text": "x", "annotations": { "audience": ["martians"] } }],
            "structuredContent": { "a": [1, null] }, "isError": true, "_meta": { "x": 1 }, "extra": {},
        });
        assert_eq!(ended(answer(Some(sent.clone()), None), Era::Handshake), sent);
        let mut newer = sent.clone();
        newer["resultType"] = json!("complete");
        assert_eq!(ended(answer(Some(sent.clone()), None), Era::SelfDescribing), newer);
        assert_eq!(ended(answer(Some(newer), None), Era::Handshake), sent);
    }

    #[test]
    fn a_refusal_is_a_failed_result_with_a_stable_code_and_no_structured_content() {
        let refusal = Refusal {
            code: ReasonCode::NoRule,
            sentence: "no rule allows it".to_owned(),
            retryable: false,
            rules: Vec::new(),
        };
        let answer = answer(None, Some(refusal));
        let call = answer.call.to_string();
        let result = ended(answer, Era::Handshake);
        assert_eq!(result["isError"], true);
        assert_eq!(result["content"].as_array().unwrap().len(), 1);
        assert_eq!(result["_meta"][STATUS], json!({ "code": "no_rule", "call": call, "retryable": false }));
        assert!(result.get("structuredContent").is_none() && result.get("resultType").is_none());
    }
}
