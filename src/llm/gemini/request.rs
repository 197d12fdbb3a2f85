//! From a transcript to the request's JSON.

use super::{NAME, Request};
use crate::conversation::{CallResult, Message, ModelCall, ModelTurn, paired};
use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

/// The value that Google's own clients put on calls which this model did not make, where a signature is demanded.
const NO_SIGNATURE: &str = "skip_thought_signature_validator";

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Body<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    system_instruction: Option<Value>,
    contents: Vec<Content<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tools: Option<Value>,
    generation_config: Value,
    /// New paid projects keep requests unless told not to.
    store: bool,
}

#[derive(Serialize)]
struct Content<'a> {
    role: &'static str,
    parts: Parts<'a>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Parts<'a> {
    /// As received.
    Raw(&'a RawValue),
    /// In our words.
    Told(Vec<Value>),
}

/// The request's body.
pub(super) fn body(request: &Request<'_>, model: &str) -> serde_json::Result<String> {
    let declarations: Vec<Value> = request
        .tools
        .iter()
        .map(|tool| json!({ "name": tool.name, "description": tool.description, "parametersJsonSchema": tool.schema }))
        .collect();
    serde_json::to_string(&Body {
        system_instruction: (!request.system.is_empty())
            .then(|| json!({ "parts": [{ "text": request.system }] })),
        contents: contents(request.history, model),
        tools: (!declarations.is_empty()).then(|| json!([{ "functionDeclarations": declarations }])),
        generation_config: json!({ "maxOutputTokens": request.max_output_tokens }),
        store: false,
    })
}

fn contents<'a>(history: &'a [Message], model: &str) -> Vec<Content<'a>> {
    let asked = history.iter().rposition(|message| matches!(message, Message::User { .. })).unwrap_or(0);
    let mut contents = Vec::new();
    for (at, message) in history.iter().enumerate() {
        match message {
            Message::User { text } => contents.push(told("user", vec![json!({ "text": text })])),
            Message::Model(turn) => {
                let raw = as_received(turn, model);
                let verbatim = raw.is_some();
                match raw {
                    // A turn without a part cannot be sent.
                    Some(raw) if raw.get() == "[]" => {}
                    Some(raw) => contents.push(Content { role: "model", parts: Parts::Raw(raw) }),
                    None => {
                        let parts = retold(turn, at > asked);
                        if !parts.is_empty() {
                            contents.push(told("model", parts));
                        }
                    }
                }
                if !turn.calls.is_empty() {
                    let answers = paired(&turn.calls, history.get(at + 1));
                    let parts =
                        answers.into_iter().map(|(call, result)| response(call, result, verbatim)).collect();
                    contents.push(told("user", parts));
                }
            }
            // Sent with the calls that they answer.
            Message::ToolResults { .. } => {}
        }
    }
    contents
}

fn told(role: &'static str, parts: Vec<Value>) -> Content<'static> {
    Content { role, parts: Parts::Told(parts) }
}

/// The turn's parts as received, if this model wrote them.
fn as_received<'a>(turn: &'a ModelTurn, model: &str) -> Option<&'a RawValue> {
    let own = turn.provider.as_ref().filter(|own| own.provider == NAME && own.model == model)?;
    serde_json::from_str(&own.raw).ok()
}

/// A turn of another model, or one that ended badly. Signatures are checked only in the turn that is going on.
fn retold(turn: &ModelTurn, going_on: bool) -> Vec<Value> {
    let mut parts = Vec::new();
    if !turn.text.is_empty() {
        parts.push(json!({ "text": turn.text }));
    }
    for (number, call) in turn.calls.iter().enumerate() {
        let mut part =
            json!({ "functionCall": { "id": call.key, "name": call.name, "args": arguments(call) } });
        if going_on
            && number == 0
            && let Some(part) = part.as_object_mut()
        {
            part.insert("thoughtSignature".to_owned(), NO_SIGNATURE.into());
        }
        parts.push(part);
    }
    parts
}

/// The arguments as the object that they must be here. What is none is shown as the text it was.
fn arguments(call: &ModelCall) -> Value {
    match call.arguments.as_deref() {
        None => json!({}),
        Some(text) => match serde_json::from_str(text) {
            Ok(Value::Object(arguments)) => Value::Object(arguments),
            Ok(_) | Err(_) => json!({ "unreadable": text }),
        },
    }
}

/// The answer to a call. Each call gets one, whatever became of it: a gap is refused.
fn response(call: &ModelCall, result: Option<&CallResult>, verbatim: bool) -> Value {
    let response = match result {
        Some(result) if result.is_error => json!({ "error": result.output }),
        Some(result) => json!({ "output": result.output }),
        None => json!({ "error": "no result was recorded for this call" }),
    };
    let id = if verbatim { call.provider_id.as_deref() } else { Some(call.key.as_str()) };
    let mut part = json!({ "name": call.name, "response": response });
    if let (Some(id), Some(part)) = (id, part.as_object_mut()) {
        part.insert("id".to_owned(), id.into());
    }
    json!({ "functionResponse": part })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conversation::{Ending, ProviderTurn};
    use crate::llm::ToolDeclaration;

    fn user(text: &str) -> Message {
        Message::User { text: text.into() }
    }

    fn call(key: &str, id: Option<&str>) -> ModelCall {
        ModelCall {
            key: key.into(),
            provider_id: id.map(Into::into),
            name: "f".into(),
            arguments: Some(r#"{"a":1}"#.into()),
        }
    }

    fn model(calls: Vec<ModelCall>, raw: Option<(&str, &str, &str)>) -> Message {
        Message::Model(ModelTurn {
            text: "ok".into(),
            thinking: "secret thought".into(),
            calls,
            ending: Ending::Stop,
            provider: raw.map(|(provider, model, raw)| ProviderTurn {
                provider: provider.into(),
                model: model.into(),
                raw: raw.into(),
            }),
        })
    }

    fn sent(history: &[Message]) -> Value {
        let request = Request { system: "", history, tools: &[], max_output_tokens: 10 };
        serde_json::from_str(&body(&request, "m").unwrap()).unwrap()
    }

    #[test]
    fn a_turn_of_another_provider_or_model_is_retold_without_its_signatures() {
        let raw = r#"[{"functionCall":{"name":"f"},"thoughtSignature":"SIG"}]"#;
        for (provider, of) in [("demo", "m"), ("gemini", "m-2")] {
            let history = [
                user("a"),
                model(vec![call("k", Some("theirs"))], Some((provider, of, raw))),
                Message::ToolResults { results: vec![] },
                user("b"),
            ];
            let sent = sent(&history);
            assert_eq!(
                sent["contents"][1],
                json!({"role":"model","parts":[{"text":"ok"},{"functionCall":{"id":"k","name":"f","args":{"a":1}}}]})
            );
            assert_eq!(sent["contents"][2]["parts"][0]["functionResponse"]["id"], "k");
            let text = sent.to_string();
            assert!(!text.contains("SIG") && !text.contains("secret thought"), "{text}");
        }
    }

    #[test]
    fn a_retold_call_of_the_turn_that_is_going_on_says_that_it_has_no_signature() {
        let history = [user("a"), model(vec![call("k", None), call("l", None)], None)];
        let sent = sent(&history);
        let parts = &sent["contents"][1]["parts"];
        assert_eq!(parts[1]["thoughtSignature"], NO_SIGNATURE);
        assert_eq!(parts[2].get("thoughtSignature"), None);
        assert_eq!(sent["contents"][2]["parts"].as_array().unwrap().len(), 2);
    }

    #[test]
    fn f03_gaps_and_strangers_in_the_results_are_mended() {
        let results = Message::ToolResults {
            results: vec![
                CallResult { key: "x".into(), name: "f".into(), output: json!(1), is_error: false },
                CallResult { key: "b".into(), name: "f".into(), output: json!([2]), is_error: false },
            ],
        };
        let history = [user("a"), model(vec![call("a", None), call("b", None)], None), results];
        let parts = sent(&history)["contents"][2]["parts"].clone();
        assert_eq!(parts.as_array().unwrap().len(), 2);
        assert!(parts[0]["functionResponse"]["response"]["error"].is_string());
        assert_eq!(parts[1]["functionResponse"]["response"], json!({"output":[2]}));
    }

    #[test]
    fn empty_things_are_left_out() {
        let empty = ModelTurn {
            text: String::new(),
            thinking: String::new(),
            calls: vec![],
            ending: Ending::Malformed,
            provider: None,
        };
        let none = Message::Model(ModelTurn {
            provider: Some(ProviderTurn { provider: "gemini".into(), model: "m".into(), raw: "[]".into() }),
            ..empty.clone()
        });
        let sent = sent(&[user("a"), Message::Model(empty), none, user("b")]);
        assert_eq!(sent["contents"].as_array().unwrap().len(), 2);
        assert_eq!(sent.get("systemInstruction"), None);
        assert_eq!(sent.get("tools"), None);
        assert_eq!(sent["store"], false);
    }

    #[test]
    fn arguments_that_are_no_object_are_shown_as_text() {
        let mut broken = call("k", None);
        broken.arguments = Some("{\"a\":".into());
        let sent = sent(&[user("a"), model(vec![broken], None)]);
        assert_eq!(sent["contents"][1]["parts"][1]["functionCall"]["args"], json!({"unreadable":"{\"a\":"}));
    }

    #[test]
    fn a_tools_schema_goes_as_it_is() {
        let schema = json!({"$schema":"x","type":["object","null"],"properties":{"n":{"const":1}}});
        let tools = [ToolDeclaration { name: "f".into(), description: "d".into(), schema: schema.clone() }];
        let request =
            Request { system: "be kind", history: &[user("a")], tools: &tools, max_output_tokens: 10 };
        let sent: Value = serde_json::from_str(&body(&request, "m").unwrap()).unwrap();
        assert_eq!(
            sent["tools"],
            json!([{"functionDeclarations":[{"name":"f","description":"d","parametersJsonSchema":schema}]}])
        );
        assert_eq!(sent["systemInstruction"], json!({"parts":[{"text":"be kind"}]}));
        assert_eq!(sent["generationConfig"], json!({"maxOutputTokens":10}));
    }
}
