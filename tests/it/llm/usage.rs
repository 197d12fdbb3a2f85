//! Tokens: what was used is counted, also where it did not lead to an answer.

use super::{ask, chunk, finish, gemini, hello};
use crate::harness::model::{After, Answer};
use serde_json::{Value, json};
use sluicegate::conversation::Usage;

fn with_usage(mut chunk: Value, usage: Value) -> Value {
    chunk["usageMetadata"] = usage;
    chunk
}

fn text() -> Value {
    chunk(json!([{"text":"hi"}]))
}

fn stop() -> Value {
    json!({"candidates":[{"finishReason":"STOP"}]})
}

/// Guards against counts that are added up although each chunk counts from the start, and against thinking that is
/// left out.
#[tokio::test]
async fn f08_usage_is_cumulative_and_thinking_counts() {
    let (provider, _server) = gemini([Answer::events([
        with_usage(text(), json!({"promptTokenCount":61,"thoughtsTokenCount":41,"totalTokenCount":102})),
        with_usage(text(), json!({"promptTokenCount":61,"candidatesTokenCount":100,"thoughtsTokenCount":9000,"totalTokenCount":9161})),
        with_usage(stop(), json!({"promptTokenCount":61,"candidatesTokenCount":200,"thoughtsTokenCount":9000,
            "toolUsePromptTokenCount":5,"cachedContentTokenCount":60,"totalTokenCount":9266})),
    ])])
    .await;
    let usage = ask(&provider).await.0.unwrap().usage;
    assert_eq!(usage, Some(Usage { input: 66, output: 200, thinking: 9000, total: 9266, estimated: false }));
}

#[tokio::test]
async fn f08_a_total_smaller_than_its_parts_does_not_hide_any_and_a_late_count_is_read() {
    let (provider, _server) = gemini([Answer::events([
        text(),
        stop(),
        json!({"usageMetadata":{"promptTokenCount":10,"candidatesTokenCount":u64::MAX,"totalTokenCount":1}}),
    ])])
    .await;
    let usage = ask(&provider).await.0.unwrap().usage.unwrap();
    assert_eq!((usage.output, usage.total), (u64::MAX, u64::MAX));
}

#[tokio::test]
async fn f08_missing_usage_is_none_and_is_estimated_where_it_is_to_be_added_up() {
    for missing in [json!(null), json!({}), json!("?"), json!({"promptTokenCount":-1})] {
        let (provider, _server) =
            gemini([Answer::events([text(), with_usage(stop(), missing.clone())])]).await;
        let reply = ask(&provider).await.0.unwrap();
        assert_eq!(reply.usage, None, "{missing}");
        let tools = [super::delete_tool()];
        let history = [super::user("Remove notes.txt")];
        let request =
            sluicegate::llm::Request { system: "", history: &history, tools: &tools, max_output_tokens: 1 };
        let estimate = reply.usage_or_estimate(&request);
        assert!(estimate.estimated && estimate.input > 20 && estimate.output > 0, "{estimate:?}");
        assert_eq!(estimate.total, estimate.input + estimate.output + estimate.thinking);
    }
}

#[tokio::test]
async fn f08_a_dropped_stream_still_tells_what_it_had_used() {
    let used = json!({"promptTokenCount":61,"candidatesTokenCount":90,"totalTokenCount":151});
    let (provider, _server) = gemini([Answer::events([with_usage(text(), used)]).then(After::Cut)]).await;
    let partial = ask(&provider).await.0.unwrap_err().partial.unwrap();
    assert_eq!(partial.usage.map(|usage| usage.total), Some(151));
}

#[tokio::test]
async fn f08_failed_attempts_count_too() {
    let malformed = |usage: Value| {
        Answer::events([with_usage(
            json!({"candidates":[{"finishReason":"MALFORMED_FUNCTION_CALL"}]}),
            usage,
        )])
    };
    let used = json!({"promptTokenCount":100,"thoughtsTokenCount":7,"totalTokenCount":107});
    let (provider, _server) = gemini([malformed(used.clone()), hello()]).await;
    let usage = ask(&provider).await.0.unwrap().usage.unwrap();
    assert_eq!(usage, Usage { input: 161, output: 14, thinking: 48, total: 223, estimated: false });

    let (provider, _server) = gemini([malformed(Value::Null), hello()]).await;
    let usage = ask(&provider).await.0.unwrap().usage.unwrap();
    assert!(usage.estimated && usage.total > 116, "{usage:?}");

    // Also when the attempt after it does not even get an answer.
    let (provider, _server) =
        gemini([malformed(used), Answer::status(400, json!({"error":{"code":400}}))]).await;
    let error = ask(&provider).await.0.unwrap_err();
    assert_eq!(error.partial.unwrap().usage.unwrap().total, 107);
}

#[tokio::test]
async fn the_last_word_on_usage_may_come_in_the_ending_itself() {
    let (provider, _server) = gemini([Answer::events([text(), finish("STOP")])]).await;
    assert_eq!(ask(&provider).await.0.unwrap().usage.unwrap().total, 116);
}
