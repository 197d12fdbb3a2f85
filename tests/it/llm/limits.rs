//! Hostile and unlucky streams: pieces of any size, answers without end, silence, and Stop.

use super::{KEY, ask, chunk, finish, gemini, gemini_at, hello, limits, user};
use crate::harness::model::{After, Answer, ModelServer};
use axum::body::Bytes;
use proptest::prelude::*;
use serde_json::json;
use sluicegate::conversation::{CutBy, Ending, ModelTurn};
use sluicegate::llm::wire::Limits;
use sluicegate::llm::{Delta, LlmErrorKind, LlmProvider, Reply, Request};
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;

/// Whatever happens, it happens well within this time.
const SOON: Duration = Duration::from_secs(20);

fn recorded() -> Vec<u8> {
    let mut body = String::from(": a comment\r\n\r\nevent: unknown\ndata: {}\n\n");
    for data in [
        chunk(json!([{"text":"Grüße 😀 "}])),
        chunk(
            json!([{"text":"an alle."},{"functionCall":{"id":"1","name":"a","args":{"t":"ü😀"}},"thoughtSignature":"U0lH"}]),
        ),
        chunk(json!([{"functionCall":{"name":"b"}}])),
    ] {
        body.push_str(&format!("data: {data}\r\n\r\n"));
    }
    let last = serde_json::to_string_pretty(&finish("STOP")).unwrap();
    for line in last.lines() {
        body.push_str(&format!("data:{line}\n"));
    }
    body.push('\n');
    body.into_bytes()
}

/// A reply without what is made up anew each time.
fn told(reply: Reply) -> (ModelTurn, Option<u64>) {
    let mut turn = reply.turn;
    for call in &mut turn.calls {
        call.key.clear();
    }
    (turn, reply.usage.map(|usage| usage.total))
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

fn pieces(body: &[u8], cuts: &[prop::sample::Index]) -> Vec<Bytes> {
    let mut at: Vec<usize> = cuts.iter().map(|cut| cut.index(body.len() + 1)).collect();
    at.extend([0, body.len()]);
    at.sort_unstable();
    at.windows(2).map(|pair| Bytes::copy_from_slice(&body[pair[0]..pair[1]])).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn any_split_of_an_answer_gives_the_same_reply(cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..40)) {
        runtime().block_on(async {
            let body = recorded();
            let (provider, _server) = gemini([Answer::pieces([body.clone()]), Answer::pieces(pieces(&body, &cuts))]).await;
            let whole = told(ask(&provider).await.0.unwrap());
            assert_eq!(whole.0.calls.len(), 2);
            assert_eq!(whole.0.text, "Grüße 😀 an alle.");
            assert_eq!(told(ask(&provider).await.0.unwrap()), whole);
        });
    }

    #[test]
    fn f07_any_beginning_of_an_answer_but_the_whole_gives_no_call(cut in any::<prop::sample::Index>(), broken in any::<bool>()) {
        runtime().block_on(async {
            let body = recorded();
            // The blank line at the end may be missing.
            let cut = cut.index(body.len() - 2);
            let after = if broken { After::Cut } else { After::End };
            let (provider, _server) = gemini(vec![Answer::pieces([body[..cut].to_vec()]).then(after); 3]).await;
            let error = ask(&provider).await.0.expect_err("a cut answer");
            assert!(error.partial.is_none_or(|partial| partial.turn.calls.is_empty()));
        });
    }

    #[test]
    fn arbitrary_bytes_never_panic_and_never_make_a_call_without_an_ending(
        parts in prop::collection::vec(prop_oneof![
            prop::collection::vec(any::<u8>(), 0..30),
            Just(b"data: ".to_vec()),
            Just(b"\r\n\r\n".to_vec()),
            Just(br#"data: {"candidates":[{"content":{"parts":[{"functionCall":{"name":"f","args":{}}}]}}]}"#.to_vec()),
            Just(br#"data: {"candidates":[{"content":{"parts":null}}],"usageMetadata":7}"#.to_vec()),
            Just(br#"data: {"candidates":null,"error":null,"promptFeedback":{}}"#.to_vec()),
        ], 0..12),
    ) {
        runtime().block_on(async {
            let (provider, _server) = gemini(vec![Answer::pieces(parts); 3]).await;
            if let Ok(reply) = ask(&provider).await.0 {
                panic!("an answer without an ending was taken: {reply:?}");
            }
        });
    }
}

#[tokio::test]
async fn an_answer_of_50_megabytes_is_cut_at_the_limit_and_not_asked_for_again() {
    let event = format!("data: {}\r\n\r\n", chunk(json!([{"thoughtSignature":"x".repeat(1 << 20)}])));
    let (provider, server) = gemini([Answer::pieces(vec![event; 50]), hello()]).await;
    let error = ask(&provider).await.0.unwrap_err();
    assert_eq!(error.kind, LlmErrorKind::CutOff);
    assert_eq!(error.partial.unwrap().turn.ending, Ending::CutOff { by: CutBy::OurLimit });
    assert_eq!(server.received().len(), 1);
}

#[tokio::test]
async fn one_event_without_end_is_cut_at_its_limit() {
    for piece in [vec![b'x'; 1 << 16], b"data: x\n".repeat(1 << 13), b"stray\n".repeat(1 << 13)] {
        let server = ModelServer::start([Answer::pieces([piece]).then(After::Endless)]).await;
        let small = Limits { event_bytes: 1 << 20, ..limits() };
        let error = ask(&gemini_at(&server.base, small)).await.0.unwrap_err();
        assert!(error.sentence().contains("larger than allowed"), "{error}");
        assert_eq!(server.received().len(), 1);
    }
}

#[tokio::test]
async fn a_stream_without_end_is_cut_by_size_or_by_time() {
    let comments = Answer::pieces([": still here\n\n".repeat(1000)]).then(After::Endless);
    let server = ModelServer::start([comments.clone(), comments]).await;
    let small = Limits { answer_bytes: 1 << 20, ..limits() };
    let error = ask(&gemini_at(&server.base, small)).await.0.unwrap_err();
    assert!(error.sentence().contains("longer than an answer may be"), "{error}");
    let short = Limits { answer_bytes: usize::MAX, whole: Duration::from_millis(100), ..limits() };
    let error = ask(&gemini_at(&server.base, short)).await.0.unwrap_err();
    assert_eq!(error.kind, LlmErrorKind::TimedOut);
    assert_eq!(error.partial.unwrap().turn.ending, Ending::CutOff { by: CutBy::OurLimit });
}

#[tokio::test]
async fn an_errors_body_without_end_is_not_read_to_the_end() {
    let endless = Answer::status(400, "x".repeat(1 << 16)).then(After::Endless);
    let (provider, _server) = gemini([endless]).await;
    let error = ask(&provider).await.0.unwrap_err();
    assert_eq!(error.kind, LlmErrorKind::BadRequest);
    assert!(error.message.len() < 2_000);
}

#[tokio::test]
async fn silence_ends_the_answer_and_keeps_what_was_said() {
    let quick = Limits { idle: Duration::from_millis(100), ..limits() };
    let half = || Answer::events([chunk(json!([{"text":"half"}]))]).then(After::Silence);
    let server = ModelServer::start([half(), Answer::pieces([""; 0]).then(After::Silence), hello()]).await;
    let provider = gemini_at(&server.base, quick);
    let error = ask(&provider).await.0.unwrap_err();
    assert_eq!(error.kind, LlmErrorKind::TimedOut);
    assert_eq!(error.partial.unwrap().turn.text, "half");
    // Nothing shown: one more try.
    assert_eq!(ask(&provider).await.0.unwrap().turn.text, "hello");
}

/// Asks, and presses Stop as soon as something is shown.
async fn stopped_at_the_first_sign(provider: &dyn LlmProvider) -> sluicegate::llm::LlmError {
    let stop = CancellationToken::new();
    let history = [user("list the files")];
    let request = Request { system: "", history: &history, tools: &[], max_output_tokens: 10 };
    let mut sink = |_: Delta| stop.cancel();
    let began = Instant::now();
    let error = provider.stream(request, &mut sink, &stop).await.expect_err("it was stopped");
    assert!(began.elapsed() < SOON);
    assert_eq!(error.kind, LlmErrorKind::Cancelled);
    error
}

#[tokio::test]
async fn stop_works_while_text_arrives_and_while_waiting_for_another_try() {
    let (provider, server) =
        gemini([Answer::events([chunk(json!([{"text":"half"}]))]).then(After::Silence)]).await;
    let error = stopped_at_the_first_sign(&provider).await;
    let partial = error.partial.unwrap();
    assert_eq!(
        (partial.turn.text.as_str(), partial.turn.ending),
        ("half", Ending::CutOff { by: CutBy::Cancelled })
    );
    assert_eq!(server.received().len(), 1);

    let busy = Answer::status(429, json!({"error":{"code":429,"message":"Please retry in 59s."}}));
    let (provider, server) = gemini([busy, hello()]).await;
    stopped_at_the_first_sign(&provider).await;
    assert_eq!(server.received().len(), 1);

    stopped_at_the_first_sign(&sluicegate::llm::demo::Demo).await;
}

#[tokio::test]
async fn stop_before_the_start_asks_nothing_and_stop_before_the_answer_ends_the_wait() {
    let (provider, server) = gemini([hello()]).await;
    let stop = CancellationToken::new();
    stop.cancel();
    let request = Request { system: "", history: &[], tools: &[], max_output_tokens: 10 };
    let error = provider.stream(request, &mut |_| (), &stop).await.unwrap_err();
    assert_eq!(error.kind, LlmErrorKind::Cancelled);
    assert!(server.received().is_empty());

    // A server that takes the connection and never answers.
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let provider = gemini_at(&format!("http://{}", listener.local_addr().unwrap()), limits());
    let stop = CancellationToken::new();
    let mut sink = |_| ();
    let asking = provider.stream(request, &mut sink, &stop);
    let (outcome, ()) = tokio::join!(asking, async {
        let (_connection, _) = listener.accept().await.unwrap();
        stop.cancel();
    });
    assert_eq!(outcome.unwrap_err().kind, LlmErrorKind::Cancelled);
}

#[tokio::test]
async fn a_key_that_cannot_be_sent_is_said_to_be_one_without_being_shown() {
    let server = ModelServer::start([hello()]).await;
    let wire = sluicegate::llm::wire::Wire::new(limits()).unwrap();
    let key = secrecy::SecretString::from(format!("{KEY}\n"));
    let provider = sluicegate::llm::gemini::Gemini::new(wire, &server.base, key, "m").unwrap();
    let error = ask(&provider).await.0.unwrap_err();
    assert_eq!(error.kind, LlmErrorKind::Key);
    assert!(server.received().is_empty());
}

#[tokio::test]
async fn the_demo_model_streams_its_words_and_estimates_its_tokens() {
    let demo = sluicegate::llm::demo::Demo;
    let history = [user("read notes.txt")];
    let tools = [sluicegate::llm::ToolDeclaration {
        name: "sandbox-files__read_file".into(),
        description: String::new(),
        schema: json!({"properties":{"path":{"type":"string"}}}),
    }];
    let request = Request { system: "", history: &history, tools: &tools, max_output_tokens: 10 };
    let mut shown = Vec::new();
    let reply =
        demo.stream(request, &mut |delta| shown.push(delta), &CancellationToken::new()).await.unwrap();
    assert!(demo.is_demo());
    assert_eq!(super::text_of(&shown), reply.turn.text);
    assert!(shown.len() > 2);
    assert!(reply.usage.unwrap().estimated);
    assert_eq!(reply.turn.ending, Ending::ToolCalls);
    assert_eq!(reply.turn.calls[0].arguments.as_deref(), Some(r#"{"path":"notes.txt"}"#));
}
