//! Every way in which an answer can end badly: one specific line, nothing run, what had arrived kept.

use super::{ask, chunk, finish, gemini, gemini_at, hello, limits, retries, text_of};
use crate::harness::model::{After, Answer, ModelServer};
use serde_json::{Value, json};
use sluicegate::conversation::{CutBy, Ending};
use sluicegate::llm::{Delta, LlmErrorKind};
use std::time::Duration;

fn call() -> Value {
    json!({"functionCall":{"name":"files__delete","args":{"path":"notes.txt"}}})
}

/// One bad ending, and what must come of it.
struct Case {
    name: &'static str,
    data: Vec<Value>,
    kind: LlmErrorKind,
    ending: Ending,
    says: &'static str,
    asked: usize,
}

/// Guards against code that knows the happy ending alone.
#[tokio::test]
async fn f04_each_odd_ending_is_one_specific_line() {
    let connection = || Ending::CutOff { by: CutBy::Connection };
    let blocked = |reason: &str| Ending::Blocked { reason: reason.into() };
    let bare = |reason: &str| json!({"candidates":[{"finishReason":reason,"index":0}]});
    let cases = [
        Case {
            name: "nothing in it",
            data: vec![json!({})],
            kind: LlmErrorKind::CutOff,
            ending: connection(),
            says: "there was no answer in it",
            asked: 2,
        },
        Case {
            name: "no candidates",
            data: vec![json!({"candidates":[]})],
            kind: LlmErrorKind::CutOff,
            ending: connection(),
            says: "no answer",
            asked: 2,
        },
        Case {
            name: "blocked prompt",
            data: vec![
                json!({"promptFeedback":{"blockReason":"PROHIBITED_CONTENT"},"usageMetadata":{"promptTokenCount":61,"totalTokenCount":61}}),
            ],
            kind: LlmErrorKind::Blocked,
            ending: blocked("PROHIBITED_CONTENT"),
            says: "PROHIBITED_CONTENT",
            asked: 1,
        },
        Case {
            name: "blocked prompt, empty list",
            data: vec![json!({"candidates":[],"promptFeedback":{"blockReason":"SAFETY"}})],
            kind: LlmErrorKind::Blocked,
            ending: blocked("SAFETY"),
            says: "SAFETY",
            asked: 1,
        },
        Case {
            name: "ending without content",
            data: vec![bare("SAFETY")],
            kind: LlmErrorKind::Blocked,
            ending: blocked("SAFETY"),
            says: "SAFETY",
            asked: 1,
        },
        Case {
            name: "recitation",
            data: vec![bare("RECITATION")],
            kind: LlmErrorKind::Blocked,
            ending: blocked("RECITATION"),
            says: "RECITATION",
            asked: 1,
        },
        Case {
            name: "content without parts",
            data: vec![json!({"candidates":[{"content":{"role":"model"},"finishReason":"STOP"}]})],
            kind: LlmErrorKind::Malformed,
            ending: Ending::Malformed,
            says: "it was empty",
            asked: 2,
        },
        Case {
            name: "malformed call",
            data: vec![bare("MALFORMED_FUNCTION_CALL")],
            kind: LlmErrorKind::Malformed,
            ending: Ending::Malformed,
            says: "MALFORMED_FUNCTION_CALL",
            asked: 2,
        },
        Case {
            name: "unexpected call",
            data: vec![bare("UNEXPECTED_TOOL_CALL")],
            kind: LlmErrorKind::Malformed,
            ending: Ending::Malformed,
            says: "UNEXPECTED_TOOL_CALL",
            asked: 2,
        },
        Case {
            name: "unheard of",
            data: vec![bare("SOMETHING_NEW")],
            kind: LlmErrorKind::Malformed,
            ending: Ending::Other("SOMETHING_NEW".into()),
            says: "SOMETHING_NEW",
            asked: 1,
        },
        Case {
            name: "no signature",
            data: vec![bare("MISSING_THOUGHT_SIGNATURE")],
            kind: LlmErrorKind::Malformed,
            ending: Ending::Other("MISSING_THOUGHT_SIGNATURE".into()),
            says: "MISSING_THOUGHT_SIGNATURE",
            asked: 1,
        },
        Case {
            name: "limit eaten by thinking",
            data: vec![bare("MAX_TOKENS")],
            kind: LlmErrorKind::CutOff,
            ending: Ending::CutOff { by: CutBy::TokenLimit },
            says: "thinking used up the limit",
            asked: 1,
        },
        Case {
            name: "explained",
            data: vec![json!({"candidates":[{"finishReason":"OTHER","finishMessage":"because of this"}]})],
            kind: LlmErrorKind::Malformed,
            ending: Ending::Other("OTHER".into()),
            says: "because of this",
            asked: 1,
        },
        Case {
            name: "call without a name",
            data: vec![chunk(json!([{"functionCall":{"args":{}}}])), finish("STOP")],
            kind: LlmErrorKind::Malformed,
            ending: Ending::Malformed,
            says: "names no tool",
            asked: 2,
        },
        Case {
            name: "no JSON",
            data: vec![json!("just a text")],
            kind: LlmErrorKind::Malformed,
            ending: Ending::Malformed,
            says: "not understood",
            asked: 2,
        },
    ];
    for Case { name, data, kind, ending, says, asked } in cases {
        let (provider, server) = gemini(vec![Answer::events(&data); 5]).await;
        let (outcome, shown) = ask(&provider).await;
        let error = outcome.expect_err(name);
        assert_eq!(error.kind, kind, "{name}: {error}");
        assert!(error.sentence().contains(says), "{name}: {error}");
        let partial = error.partial.expect(name);
        assert_eq!(partial.turn.ending, ending, "{name}");
        assert!(partial.turn.calls.is_empty(), "{name}");
        assert_eq!(server.received().len(), asked, "{name}");
        assert_eq!(retries(&shown), asked - 1, "{name}");
        assert_eq!(text_of(&shown), "", "{name}");
    }
}

#[tokio::test]
async fn f04_half_a_text_is_kept_shown_and_not_asked_for_again() {
    for (last, says) in [
        (finish("MAX_TOKENS"), "limit on tokens"),
        (
            json!({"error":{"code":503,"message":"The model is overloaded.","status":"UNAVAILABLE"}}),
            "overloaded",
        ),
        (json!([{"error":{"code":500,"message":"inner trouble","status":"INTERNAL"}}]), "inner trouble"),
        (finish("SAFETY"), "SAFETY"),
    ] {
        let (provider, server) =
            gemini([Answer::events([chunk(json!([{"text":"Half a sen"}])), last]), hello()]).await;
        let (outcome, shown) = ask(&provider).await;
        let error = outcome.unwrap_err();
        assert!(error.sentence().contains(says), "{error}");
        assert_eq!(error.partial.unwrap().turn.text, "Half a sen");
        assert_eq!(text_of(&shown), "Half a sen");
        assert_eq!((server.received().len(), retries(&shown)), (1, 0));
    }
}

#[tokio::test]
async fn f04_a_thought_alone_is_no_answer() {
    let (provider, server) =
        gemini(vec![Answer::events([chunk(json!([{"text":"hm","thought":true}])), finish("STOP")]); 3]).await;
    let (outcome, shown) = ask(&provider).await;
    let error = outcome.unwrap_err();
    assert!(error.sentence().contains("it was empty"), "{error}");
    // The thought was shown: asking again would show it twice.
    assert_eq!((shown, server.received().len()), (vec![Delta::Thinking("hm".into())], 1));
}

#[tokio::test]
async fn f04_a_malformed_call_is_asked_for_again_and_then_answered() {
    let malformed = json!({"candidates":[{"finishReason":"MALFORMED_FUNCTION_CALL"}]});
    let (provider, server) = gemini([Answer::events([malformed]), hello()]).await;
    let (outcome, shown) = ask(&provider).await;
    assert_eq!(outcome.unwrap().turn.text, "hello");
    assert_eq!(
        shown,
        [
            Delta::Retrying {
                attempt: 2,
                of: 2,
                wait: Duration::from_millis(1),
                kind: LlmErrorKind::Malformed
            },
            Delta::Text("hello".into())
        ]
    );
    let received = server.received();
    assert_eq!(received[0].body, received[1].body);
}

#[tokio::test]
async fn f04_a_bare_json_error_between_the_events_is_found() {
    let (provider, _server) = gemini(vec![
        Answer::pieces([
            "{\n  \"error\": {\n    \"code\": 503,\n    \"status\": \"UNAVAILABLE\"\n  }\n}\n"
        ]);
        5
    ])
    .await;
    assert_eq!(ask(&provider).await.0.unwrap_err().kind, LlmErrorKind::Overloaded);
}

/// Guards against lenient reading of incomplete input: a call in an answer that did not end well is no call, also
/// where what is there of it happens to be valid.
#[tokio::test]
async fn f07_a_call_in_an_answer_that_was_cut_is_never_returned() {
    let half = "data: {\"candidates\":[{\"content\":{\"parts\":[{\"functionCall\":{\"name\":\"files__write\",\"args\":{\"path\":\"notes.txt\",\"content\":\"first ha";
    let whole = || chunk(json!([call()]));
    let event = |data: Value| format!("data: {data}\r\n\r\n");
    let cases = [
        ("limit", Answer::events([whole(), finish("MAX_TOKENS")]), true),
        ("an ending of an unknown kind", Answer::events([whole(), finish("SOMETHING_NEW")]), true),
        ("a bad ending before a good one", Answer::events([finish("SAFETY"), whole(), finish("STOP")]), true),
        ("no ending", Answer::events([whole()]), true),
        (
            "error after the call",
            Answer::events([whole(), json!({"error":{"code":500,"message":"x","status":"INTERNAL"}})]),
            true,
        ),
        ("connection lost after the call", Answer::events([whole()]).then(After::Cut), true),
        (
            "connection lost after the ending",
            Answer::events([whole(), finish("STOP")]).then(After::Cut),
            true,
        ),
        ("connection lost in the call", Answer::pieces([half]).then(After::Cut), false),
        ("end in the call", Answer::pieces([half]), false),
        (
            "half a call, then an ending",
            Answer::pieces([half.to_owned(), format!("\r\n\r\n{}", event(finish("STOP")))]),
            false,
        ),
        (
            "a call in pieces",
            Answer::events([
                chunk(
                    json!([{"functionCall":{"name":"files__delete","args":{},"partialArgs":[{}],"willContinue":true}}]),
                ),
                finish("STOP"),
            ]),
            true,
        ),
    ];
    for (name, answer, call_seen) in cases {
        let (provider, server) = gemini(vec![answer; 5]).await;
        let (outcome, _) = ask(&provider).await;
        let error = outcome.expect_err(name);
        let partial = error.partial.clone().expect(name);
        assert!(partial.turn.calls.is_empty(), "{name}");
        assert_eq!(partial.turn.provider, None, "{name}");
        assert_eq!(!partial.unfinished.is_empty(), call_seen, "{name}: {error}");
        assert!(server.received().len() <= 4, "{name}");
    }
}

#[tokio::test]
async fn f07_the_cut_text_of_a_call_is_kept_for_the_record() {
    let (provider, _server) = gemini([Answer::events([chunk(json!([call()])), finish("MAX_TOKENS")])]).await;
    let error = ask(&provider).await.0.unwrap_err();
    assert_eq!(error.kind, LlmErrorKind::CutOff);
    let partial = error.partial.unwrap();
    assert_eq!(partial.turn.ending, Ending::CutOff { by: CutBy::TokenLimit });
    assert_eq!(partial.unfinished[0].name, "files__delete");
    assert_eq!(partial.unfinished[0].arguments, r#"{"path":"notes.txt"}"#);
}

fn rate_limited(delay: &str) -> Answer {
    Answer::status(
        429,
        json!({"error":{"code":429,"message":"slow down","status":"RESOURCE_EXHAUSTED","details":[
        {"@type":"type.googleapis.com/google.rpc.QuotaFailure","violations":[{"quotaId":"GenerateRequestsPerMinutePerProjectPerModel-FreeTier","quotaValue":"20"}]},
        {"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":delay}]}}),
    )
}

#[tokio::test]
async fn a_rate_limit_is_waited_out_as_told_three_times_at_most() {
    let (provider, _server) = gemini([rate_limited("0.02s"), rate_limited("30ms"), hello()]).await;
    let (outcome, shown) = ask(&provider).await;
    assert_eq!(outcome.unwrap().turn.text, "hello");
    let waits: Vec<(u32, u64)> = shown
        .iter()
        .filter_map(|delta| match delta {
            Delta::Retrying { attempt, wait, .. } => {
                Some((*attempt, u64::try_from(wait.as_millis()).unwrap()))
            }
            Delta::Text(_) | Delta::Thinking(_) => None,
        })
        .collect();
    assert_eq!(waits, [(2, 20), (3, 30)]);

    let (provider, server) = gemini(vec![rate_limited("0.001s"); 9]).await;
    assert_eq!(ask(&provider).await.0.unwrap_err().kind, LlmErrorKind::RateLimited);
    assert_eq!(server.received().len(), 3);
}

#[tokio::test]
async fn a_wait_longer_than_a_minute_is_the_persons_to_decide() {
    for answer in
        [rate_limited("300s"), Answer::status(429, json!({"error":{"code":429}})).header("retry-after", 300)]
    {
        let (provider, server) = gemini([answer, hello()]).await;
        let error = ask(&provider).await.0.unwrap_err();
        assert_eq!(server.received().len(), 1);
        assert!(error.retryable() && error.sentence().contains("in 300 seconds"), "{error}");
    }
}

#[tokio::test]
async fn a_days_quota_is_not_waited_for_even_if_a_short_delay_comes_along() {
    let body = json!({"error":{"code":429,"message":"quota","status":"RESOURCE_EXHAUSTED","details":[
        {"violations":[{"quotaId":"GenerateRequestsPerDayPerProjectPerModel-FreeTier"}]},{"retryDelay":"0.01s"}]}});
    let (provider, server) = gemini([Answer::status(429, body), hello()]).await;
    let error = ask(&provider).await.0.unwrap_err();
    assert_eq!((error.kind, server.received().len()), (LlmErrorKind::Quota, 1));
    assert!(!error.retryable());
}

#[tokio::test]
async fn an_overload_is_tried_four_times_and_a_passing_one_is_not_noticed() {
    let overloaded = || {
        Answer::status(
            503,
            json!({"error":{"code":503,"message":"The model is overloaded.","status":"UNAVAILABLE"}}),
        )
    };
    let (provider, server) = gemini(vec![overloaded(); 9]).await;
    let (outcome, shown) = ask(&provider).await;
    assert_eq!(outcome.unwrap_err().kind, LlmErrorKind::Overloaded);
    assert_eq!((server.received().len(), retries(&shown)), (4, 3));
    let (provider, _server) =
        gemini([overloaded(), Answer::status(502, "<html>bad gateway</html>"), hello()]).await;
    assert_eq!(ask(&provider).await.0.unwrap().turn.text, "hello");
}

#[tokio::test]
async fn what_does_not_pass_is_asked_once_and_says_what_to_do() {
    let error = |code: u16, message: &str, status: &str, reason: &str| {
        Answer::status(
            code,
            json!({"error":{"code":code,"message":message,"status":status,"details":[{"reason":reason}]}}),
        )
    };
    let leaky = format!("API key not valid: {} in https://x/?key={}.", super::KEY, super::KEY);
    let cases = [
        (error(400, &leaky, "INVALID_ARGUMENT", "API_KEY_INVALID"), LlmErrorKind::Key, "GEMINI_API_KEY"),
        (error(403, "reported as leaked", "PERMISSION_DENIED", ""), LlmErrorKind::Key, "reported as leaked"),
        (error(404, "models/x is not found", "NOT_FOUND", ""), LlmErrorKind::ModelNotFound, super::MODEL),
        (error(400, "Unknown name \"oneOf\"", "INVALID_ARGUMENT", ""), LlmErrorKind::BadRequest, "oneOf"),
        (Answer::status(400, leaky.as_str()), LlmErrorKind::BadRequest, "[key]"),
        (
            error(400, "free tier is not available", "FAILED_PRECONDITION", ""),
            LlmErrorKind::Quota,
            "free tier",
        ),
    ];
    for (answer, kind, says) in cases {
        let (provider, server) = gemini([answer, hello()]).await;
        let error = ask(&provider).await.0.unwrap_err();
        assert_eq!(error.kind, kind, "{error}");
        assert!(error.sentence().contains(says), "{error}");
        assert_eq!(server.received().len(), 1, "{error}");
    }
}

#[tokio::test]
async fn an_answer_that_is_no_event_stream_is_said_to_be_none() {
    for (answer, says) in [
        (
            Answer::status(200, "<html><body>Sign in to the network").header("content-type", "text/html"),
            "Sign in",
        ),
        (Answer::status(200, json!({"candidates":[]})), "candidates"),
        (Answer::status(204, ""), "an empty body"),
    ] {
        let (provider, _server) = gemini(vec![answer; 3]).await;
        let error = ask(&provider).await.0.unwrap_err();
        assert_eq!(error.kind, LlmErrorKind::Malformed, "{error}");
        assert!(error.sentence().contains(says), "{error}");
    }
}

#[tokio::test]
async fn nobody_listening_is_unreachable() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let base = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let (outcome, shown) = ask(&gemini_at(&base, limits())).await;
    let error = outcome.unwrap_err();
    assert_eq!((error.kind, retries(&shown)), (LlmErrorKind::Unreachable, 1));
    assert!(!error.to_string().contains("127.0.0.1"), "{error}");
}

#[tokio::test]
async fn a_redirect_does_not_take_the_key_elsewhere() {
    for status in [301, 302, 303, 307, 308] {
        let elsewhere = ModelServer::start([hello()]).await;
        let (provider, server) =
            gemini([Answer::status(status, "").header("location", format!("{}/x", elsewhere.base)), hello()])
                .await;
        let error = ask(&provider).await.0.unwrap_err();
        assert_eq!((error.kind, error.status), (LlmErrorKind::Unreachable, Some(status)));
        assert!(error.sentence().contains("redirects"), "{error}");
        assert_eq!(server.received().len(), 1);
        assert!(elsewhere.received().is_empty(), "the redirect was followed");
    }
}
