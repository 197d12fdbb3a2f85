//! The model providers against a scripted server, over real HTTP on loopback.

mod endings;
mod limits;
mod replay;
mod usage;

use crate::harness::model::{Answer, ModelServer};
use secrecy::SecretString;
use serde_json::{Value, json};
use sluicegate::conversation::{Message, ModelTurn};
use sluicegate::llm::gemini::Gemini;
use sluicegate::llm::wire::{Limits, Wire};
use sluicegate::llm::{Delta, LlmError, LlmProvider, Reply, Request, ToolDeclaration};
use std::time::Duration;
use tokio_util::sync::CancellationToken;

const KEY: &str = "CANARY-KEY-000";
const MODEL: &str = "gemini-3.8-flash";

/// Limits that no test has to wait for.
fn limits() -> Limits {
    Limits { backoff: Duration::from_millis(1), ..Limits::default() }
}

fn gemini_at(base: &str, limits: Limits) -> Gemini {
    let wire = Wire::new(limits).expect("a client");
    Gemini::new(wire, base, SecretString::from(KEY), MODEL).expect("an address")
}

/// A Gemini provider, and the server that it talks to.
async fn gemini(script: impl IntoIterator<Item = Answer>) -> (Gemini, ModelServer) {
    let server = ModelServer::start(script).await;
    (gemini_at(&server.base, limits()), server)
}

fn user(text: &str) -> Message {
    Message::User { text: text.into() }
}

fn delete_tool() -> ToolDeclaration {
    ToolDeclaration {
        name: "files__delete".into(),
        description: "Delete one file.".into(),
        schema: json!({"type":"object","properties":{"path":{"type":"string"}},"required":["path"]}),
    }
}

/// Asks with a history; gives the outcome and everything that was shown.
async fn ask_with(provider: &dyn LlmProvider, history: &[Message]) -> (Result<Reply, LlmError>, Vec<Delta>) {
    let tools = [delete_tool()];
    let request =
        Request { system: "You keep a folder tidy.", history, tools: &tools, max_output_tokens: 4096 };
    let mut shown = Vec::new();
    let mut sink = |delta| shown.push(delta);
    let outcome = provider.stream(request, &mut sink, &CancellationToken::new()).await;
    if let Err(error) = &outcome {
        no_key_in(error);
    }
    (outcome, shown)
}

async fn ask(provider: &dyn LlmProvider) -> (Result<Reply, LlmError>, Vec<Delta>) {
    ask_with(provider, &[user("Remove notes.txt")]).await
}

fn no_key_in(error: &LlmError) {
    let shown = format!("{error:?} {error:#?} {error} {}", error.sentence());
    assert!(!shown.contains(KEY), "the key is in {shown}");
}

/// The visible text of the deltas.
fn text_of(shown: &[Delta]) -> String {
    shown
        .iter()
        .filter_map(|delta| match delta {
            Delta::Text(text) => Some(text.as_str()),
            Delta::Thinking(_) | Delta::Retrying { .. } => None,
        })
        .collect()
}

fn retries(shown: &[Delta]) -> usize {
    shown.iter().filter(|delta| matches!(delta, Delta::Retrying { .. })).count()
}

/// One chunk of an answer.
fn chunk(parts: Value) -> Value {
    json!({"candidates":[{"content":{"role":"model","parts":parts},"index":0}],"modelVersion":MODEL})
}

/// The last chunk of an answer.
fn finish(reason: &str) -> Value {
    json!({"candidates":[{"content":{"role":"model","parts":[{"text":""}]},"finishReason":reason,"index":0}],
        "usageMetadata":{"promptTokenCount":61,"candidatesTokenCount":14,"thoughtsTokenCount":41,"totalTokenCount":116},
        "modelVersion":MODEL})
}

fn hello() -> Answer {
    Answer::events([chunk(json!([{"text":"hello"}])), finish("STOP")])
}

fn turn(reply: Reply) -> ModelTurn {
    reply.turn
}

#[tokio::test]
async fn a_tool_turn_is_streamed_read_and_asked_for_as_documented() {
    let (provider, server) = gemini([Answer::events([
        json!({"candidates":[{"content":{"role":"model","parts":[{"text":"The user wants one file gone.","thought":true}]},"index":0}],
            "usageMetadata":{"promptTokenCount":61,"totalTokenCount":102,"thoughtsTokenCount":41},"modelVersion":"gemini-3.8-flash","responseId":"r"}),
        chunk(json!([{"text":"I will "},{"text":"delete it."}])),
        chunk(json!([{"functionCall":{"id":"k3v9x2ab","name":"files__delete","args":{"path":"notes.txt"}},"thoughtSignature":"RVhBTVBMRS1TSUc="}])),
        finish("STOP"),
    ])])
    .await;
    let (outcome, shown) = ask(&provider).await;
    let reply = outcome.unwrap();
    assert_eq!(
        shown,
        [
            Delta::Thinking("The user wants one file gone.".into()),
            Delta::Text("I will ".into()),
            Delta::Text("delete it.".into())
        ]
    );
    assert_eq!(reply.model_version.as_deref(), Some(MODEL));
    let turn = turn(reply);
    assert_eq!(turn.text, "I will delete it.");
    assert_eq!(turn.thinking, "The user wants one file gone.");
    assert_eq!(turn.calls.len(), 1);
    assert_eq!(turn.calls[0].name, "files__delete");
    assert_eq!(turn.calls[0].provider_id.as_deref(), Some("k3v9x2ab"));
    assert_eq!(turn.calls[0].arguments.as_deref(), Some(r#"{"path":"notes.txt"}"#));
    assert_ne!(turn.calls[0].key, "k3v9x2ab");

    let [request] = &server.received()[..] else { panic!("one request") };
    assert_eq!(request.uri.path(), "/v1beta/models/gemini-3.8-flash:streamGenerateContent");
    assert_eq!(request.uri.query(), Some("alt=sse"));
    assert_eq!(request.headers["x-goog-api-key"], KEY);
    assert_eq!(
        request.json(),
        json!({
            "systemInstruction":{"parts":[{"text":"You keep a folder tidy."}]},
            "contents":[{"role":"user","parts":[{"text":"Remove notes.txt"}]}],
            "tools":[{"functionDeclarations":[{"name":"files__delete","description":"Delete one file.",
                "parametersJsonSchema":delete_tool().schema}]}],
            "generationConfig":{"maxOutputTokens":4096},
            "store":false
        })
    );
}

#[tokio::test]
async fn the_model_that_answered_is_told_when_it_is_not_the_one_asked() {
    let mut routed = finish("STOP");
    routed["modelVersion"] = "gemini-4-neon".into();
    let (provider, _server) = gemini([Answer::events([chunk(json!([{"text":"hi"}])), routed])]).await;
    let (outcome, _) = ask(&provider).await;
    assert_eq!(outcome.unwrap().model_version.as_deref(), Some("gemini-4-neon"));
    assert_eq!(provider.model(), MODEL);
}

#[tokio::test]
async fn the_provider_shows_no_key_when_printed() {
    let (provider, _server) = gemini([]).await;
    assert!(!format!("{provider:?} {provider:#?}").contains(KEY));
}
