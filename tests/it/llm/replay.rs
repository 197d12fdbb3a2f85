//! What the next request says of the turns before it.

use super::{ask_with, chunk, finish, gemini, hello, user};
use crate::harness::model::Answer;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use sluicegate::conversation::{CallResult, Message, ModelCall};
use std::collections::BTreeMap;

/// The raw text of the parts of one content of a request.
fn raw_parts(body: &str, content: usize) -> String {
    let body: BTreeMap<String, Box<RawValue>> = serde_json::from_str(body).unwrap();
    let contents: Vec<BTreeMap<String, Box<RawValue>>> =
        serde_json::from_str(body["contents"].get()).unwrap();
    contents[content]["parts"].get().to_owned()
}

fn stored_and_read_back(history: &[Message]) -> Vec<Message> {
    serde_json::from_str(&serde_json::to_string(history).unwrap()).unwrap()
}

fn result(call: &ModelCall, output: Value, is_error: bool) -> CallResult {
    CallResult { key: call.key.clone(), name: call.name.clone(), output, is_error }
}

/// Guards against provider state that is lost when a turn becomes an inside type and back: two parallel calls with a
/// signature on the first alone, a signature on a text, ids present and absent, fields unknown to us, an order of keys
/// and a way to write numbers and letters that no serializer of ours would choose.
#[tokio::test]
async fn f02_the_models_turn_comes_back_byte_for_byte_after_a_restart() {
    let parts = [
        r#"{"thoughtSignature":"VEVYVC1TSUc=","text":"On it\u00e9."}"#,
        r#"{"functionCall":{"name":"files__delete","id":"a1","args":{"z":1.0,"path":"a.txt","n":12345678901234567890123}},"thoughtSignature":"Q0FMTC1TSUc_-","newField":{"b":[1e2],"a":null}}"#,
        r#"{ "functionCall" : {"name":"files__delete"} }"#,
        r#"{"somethingNew":{"x":true}}"#,
        r#"{"text":"","thoughtSignature":"TEFTVA=="}"#,
    ];
    let raw_chunk = |parts: &[&str], more: &str| {
        format!(
            r#"{{"candidates":[{{"content":{{"role":"model","parts":[{}]}},"index":0{more}}}]}}"#,
            parts.join(",")
        )
    };
    let (provider, server) = gemini([
        Answer::events([
            raw_chunk(&parts[..1], ""),
            raw_chunk(&parts[1..3], ""),
            raw_chunk(&parts[3..], r#","finishReason":"STOP""#),
        ]),
        hello(),
    ])
    .await;
    let mut history = vec![user("Remove a.txt")];
    let (outcome, _) = ask_with(&provider, &history).await;
    let turn = outcome.unwrap().turn;
    assert_eq!(turn.calls.len(), 2);
    assert_eq!(turn.calls[1].arguments, None);
    let calls = turn.calls.clone();
    history.push(Message::Model(turn));
    // The process dies while an approval is open, and starts again.
    let mut history = stored_and_read_back(&history);
    history.push(Message::ToolResults {
        results: vec![result(&calls[0], json!("deleted"), false), result(&calls[1], json!("no"), true)],
    });
    let (outcome, _) = ask_with(&provider, &stored_and_read_back(&history)).await;
    outcome.unwrap();

    let received = server.received();
    assert_eq!(raw_parts(&received[1].body, 1), format!("[{}]", parts.join(",")));
    assert_eq!(
        received[1].json()["contents"][2],
        json!({"role":"user","parts":[
            {"functionResponse":{"id":"a1","name":"files__delete","response":{"output":"deleted"}}},
            {"functionResponse":{"name":"files__delete","response":{"error":"no"}}},
        ]})
    );
}

/// The same after the history was cut at the front, in whole turns.
#[tokio::test]
async fn f02_a_trimmed_history_keeps_what_is_left_of_it_as_received() {
    let part = r#"{"thoughtSignature":"U0lH","text":"second","zz":1,"aa":2}"#;
    let data = format!(r#"{{"candidates":[{{"content":{{"parts":[{part}]}},"finishReason":"STOP"}}]}}"#);
    let (provider, server) = gemini([hello(), Answer::events([data]), hello()]).await;
    let mut history = Vec::new();
    for text in ["one", "two"] {
        history.push(user(text));
        let (outcome, _) = ask_with(&provider, &history).await;
        history.push(Message::Model(outcome.unwrap().turn));
    }
    history.push(user("three"));
    ask_with(&provider, &history[2..]).await.0.unwrap();
    assert_eq!(raw_parts(&server.received()[2].body, 1), format!("[{part}]"));
}

/// Guards against a broken pairing of calls and results: four calls at once, two of the same tool, answered by a bare
/// text, a list, a refusal and a failure.
#[tokio::test]
async fn f03_four_calls_get_four_answers_in_one_turn_and_in_order() {
    let call = |name: &str, id: &str| json!({"functionCall":{"id":id,"name":name,"args":{}}});
    let (provider, server) = gemini([
        Answer::events([
            chunk(json!([call("read", "1"), call("delete", "2")])),
            chunk(json!([call("read", "3"), call("move", "4")])),
            finish("STOP"),
        ]),
        hello(),
        hello(),
    ])
    .await;
    let mut history = vec![user("tidy up")];
    let turn = ask_with(&provider, &history).await.0.unwrap().turn;
    let calls = turn.calls.clone();
    let keys: std::collections::BTreeSet<_> = calls.iter().map(|call| call.key.clone()).collect();
    assert_eq!(keys.len(), 4);
    history.push(Message::Model(turn));
    // In another order than that of the calls.
    history.push(Message::ToolResults {
        results: vec![
            result(&calls[3], json!("upstream unavailable"), true),
            result(&calls[1], json!({"code":"rule","message":"denied"}), true),
            result(&calls[0], json!("text"), false),
            result(&calls[2], json!([1, 2]), false),
        ],
    });
    ask_with(&provider, &history).await.0.unwrap();
    let contents = server.received()[1].json()["contents"].clone();
    assert_eq!(contents.as_array().unwrap().len(), 3);
    let responses: Vec<Value> = contents[2]["parts"]
        .as_array()
        .unwrap()
        .iter()
        .map(|part| part["functionResponse"].clone())
        .collect();
    assert_eq!(
        responses,
        [
            json!({"id":"1","name":"read","response":{"output":"text"}}),
            json!({"id":"2","name":"delete","response":{"error":{"code":"rule","message":"denied"}}}),
            json!({"id":"3","name":"read","response":{"output":[1,2]}}),
            json!({"id":"4","name":"move","response":{"error":"upstream unavailable"}}),
        ]
    );

    // Stop was pressed before anything was answered, and the person writes something else.
    let stopped = [history[0].clone(), history[1].clone(), user("never mind")];
    ask_with(&provider, &stopped).await.0.unwrap();
    let contents = server.received()[2].json()["contents"].clone();
    let roles: Vec<&str> =
        contents.as_array().unwrap().iter().map(|content| content["role"].as_str().unwrap()).collect();
    assert_eq!(roles, ["user", "model", "user", "user"]);
    assert_eq!(contents[2]["parts"].as_array().unwrap().len(), 4);
    assert_eq!(contents[3]["parts"], json!([{"text":"never mind"}]));
}
