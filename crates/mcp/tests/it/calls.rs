//! Calls through the gateway to child processes: what comes back, and what is known when nothing does.

use crate::support::{Effects, FAR, House, scripted, sentence, text_of};
use serde_json::{Value, json};
use sluicegate_gateway::{CallState, ProposedArguments, ReasonCode, ServerState};
use sluicegate_mcp::{PoolOptions, ServerEntry};
use std::time::Duration;

fn raw(result: &Value) -> Value {
    json!({ "line": format!("{{\"jsonrpc\":\"2.0\",\"id\":$ID,\"result\":{result}}}") })
}

fn code(answer: &sluicegate_gateway::CallAnswer) -> ReasonCode {
    answer.refusal.as_ref().unwrap_or_else(|| panic!("{answer:?}")).code
}

#[tokio::test]
async fn f15_results_reach_the_caller_as_they_were_sent() {
    let house = House::ready(vec![scripted("s", &json!({}))]).await;
    let results = [
        json!({ "structuredContent": { "n": 1 } }),
        json!({ "content": [] }),
        json!({ "content": [{ "type": "image", "data": "AAAA", "mimeType": "image/png" }] }),
        json!({ "content": [{ "type": "audio", "data": "AAAA", "mimeType": "audio/wav", "seconds": 1.5 }] }),
        json!({ "content": [{ "type": "resource_link", "uri": "u:1", "name": "n", "extra": null }] }),
        json!({ "content": [{ "type": "resource", "resource": { "uri": "u:1", "text": "t" } }] }),
        json!({ "content": [{ "type": "hologram", "depth": 3 }] }),
        json!({ "content": [{ "type": "text", "text": "a", "annotations": { "audience": ["martian"] } }] }),
        json!({ "content": [], "_meta": { "any": { "thing": [1, 2.5, "x", null] } }, "later": true }),
    ];
    for result in results {
        let answer = house.call("s", "raw", raw(&result)).await;
        assert_eq!(answer.state, CallState::Completed, "{:?}", answer.refusal);
        assert!(answer.output.unwrap().result == result, "a result was changed");
    }
    let large = json!({ "content": [{ "type": "text", "text": "$FILL" }] });
    let mut arguments = raw(&large);
    arguments["fill"] = json!(8_000_000);
    assert_eq!(house.text("s", "raw", arguments).await.len(), 8_000_000);
    let failed = json!({ "content": [{ "type": "text", "text": "no such file" }], "isError": true });
    let answer = house.call("s", "raw", raw(&failed)).await;
    assert_eq!((answer.state, code(&answer)), (CallState::Failed, ReasonCode::ToolError));
    assert_eq!(answer.output.unwrap().result, failed);
}

#[tokio::test]
async fn f17_no_arguments_reach_the_server_as_an_empty_object() {
    let house = House::ready(vec![scripted("s", &json!({}))]).await;
    for arguments in
        [ProposedArguments::Absent, ProposedArguments::Json(Value::Null), ProposedArguments::Json(json!({}))]
    {
        let answer = house.propose("s", "echo", arguments).outcome().await;
        assert_eq!(text_of(&answer), "{}");
    }
    let answer = house.call("s", "echo", json!({ "optional": null })).await;
    assert_eq!(text_of(&answer), r#"{"optional":null}"#);
    let calls: Vec<Value> = house.received("s").await;
    let sent = calls.iter().filter(|message| message["params"]["name"] == "echo");
    assert!(sent.clone().count() == 4 && sent.clone().all(|call| call["params"]["arguments"].is_object()));
    for wrong in [json!([]), json!("")] {
        let answer = house.call("s", "echo", wrong).await;
        assert_eq!((answer.state, code(&answer)), (CallState::Denied, ReasonCode::InvalidArguments));
    }
}

#[tokio::test]
async fn f20_answers_in_any_order_find_their_own_call() {
    let house = House::ready(vec![scripted("s", &json!({}))]).await;
    for _ in 0..10 {
        let calls = (0..20).map(|n| house.text("s", "gather", json!({ "n": n, "of": 20 })));
        let answers = futures::future::join_all(calls).await;
        let want: Vec<String> = (0..20).map(|n| n.to_string()).collect();
        assert_eq!(answers, want);
    }
}

#[tokio::test]
async fn f12_a_crash_in_the_middle_is_unknown_and_never_repeated() {
    let effects = Effects::new();
    let house = House::ready(vec![scripted("s", &json!({}))]).await;
    let answer = house.call("s", "crash", json!({ "effect": effects.path() })).await;
    assert_eq!((answer.state, code(&answer)), (CallState::Unknown, ReasonCode::OutcomeLost));
    house.until_state("s", ServerState::Ready).await;
    assert_eq!(house.text("s", "echo", json!({})).await, "{}");
    assert_eq!(effects.count(), 1);
    assert!(!house.trail(answer.call).await.contains(&"execution_retried".to_owned()));
}

#[tokio::test]
async fn f12_a_marked_read_is_tried_once_more_and_that_is_recorded() {
    let effects = Effects::new();
    let house = House::ready(vec![scripted("read-s", &json!({}))]).await;
    let answer = house.call("read-s", "crash", json!({ "effect": effects.path() })).await;
    // Both attempts were lost; since the tool only reads, that is a plain failure.
    assert_eq!((answer.state, code(&answer)), (CallState::Failed, ReasonCode::UpstreamUnavailable));
    assert_eq!(effects.count(), 2);
    let trail = house.trail(answer.call).await;
    assert_eq!(trail.iter().filter(|kind| *kind == "execution_retried").count(), 1, "{trail:?}");
}

#[tokio::test]
async fn f12_a_server_that_is_away_is_said_to_be_away_and_nothing_is_sent() {
    let entries = vec![scripted(
        "s",
        &json!({ "pages": [[{ "name": "crash", "inputSchema": { "type": "object" } }]] }),
    )];
    let house = House::ready(entries).await;
    house.call("s", "crash", json!({})).await;
    house.until_state("s", ServerState::Unavailable).await;
    let answer = house.call("s", "crash", json!({})).await;
    assert_eq!((answer.state, code(&answer)), (CallState::Failed, ReasonCode::UpstreamUnavailable));
    assert!(sentence(&answer).contains("is not available"), "{answer:?}");
}

#[tokio::test]
async fn a_slow_tool_is_given_up_and_its_server_is_told() {
    let slow = scripted("s", &json!({})).with_timeout(Duration::from_secs(1)).unwrap();
    let house = House::ready(vec![slow]).await;
    let answer = house.call("s", "silent", json!({})).await;
    assert_eq!((answer.state, code(&answer)), (CallState::Unknown, ReasonCode::TimedOut));
    assert!(sentence(&answer).contains("within 1 s"), "{answer:?}");
    let received = house.received("s").await;
    let call = received.iter().find(|message| message["params"]["name"] == "silent").unwrap();
    let cancel = received.iter().find(|message| message["method"] == "notifications/cancelled").unwrap();
    assert_eq!(cancel["params"]["requestId"], call["id"]);
}

#[tokio::test]
async fn the_general_limit_is_thirty_seconds() {
    let house = House::ready(vec![scripted("s", &json!({}))]).await;
    let handle = house.propose("s", "silent", ProposedArguments::Absent);
    while !house.received("s").await.iter().any(|message| message["params"]["name"] == "silent") {}
    let pass = async |seconds| {
        tokio::time::pause();
        tokio::time::advance(Duration::from_secs(seconds)).await;
        tokio::time::resume();
    };
    pass(29).await;
    assert!(!house.received("s").await.iter().any(|message| message["method"] == "notifications/cancelled"));
    pass(2).await;
    let answer = tokio::time::timeout(FAR, handle.outcome()).await.unwrap();
    assert_eq!((answer.state, code(&answer)), (CallState::Unknown, ReasonCode::TimedOut));
    assert!(sentence(&answer).contains("within 30 s"), "{answer:?}");
}

#[tokio::test]
async fn f21_a_cancelled_call_is_cancelled_at_its_server_under_its_own_id() {
    let house = House::ready(vec![scripted("s", &json!({}))]).await;
    let handle = house.propose("s", "silent", ProposedArguments::Absent);
    while !house.received("s").await.iter().any(|message| message["params"]["name"] == "silent") {}
    handle.cancel();
    let answer = tokio::time::timeout(FAR, handle.outcome()).await.unwrap();
    assert_eq!((answer.state, code(&answer)), (CallState::Unknown, ReasonCode::OutcomeLost));
    let received = house.received("s").await;
    let call = received.iter().find(|message| message["params"]["name"] == "silent").unwrap();
    let cancels: Vec<_> =
        received.iter().filter(|message| message["method"] == "notifications/cancelled").collect();
    assert_eq!(cancels.len(), 1);
    assert_eq!(cancels[0]["params"]["requestId"], call["id"]);
}

#[tokio::test]
async fn what_is_not_offered_is_refused_and_said() {
    let house = House::ready(vec![scripted("s", &json!({}))]).await;
    let odd = [
        (
            json!({ "resultType": "input_required", "inputRequests": {} }),
            CallState::Failed,
            "asks for more input",
        ),
        (
            json!({ "resultType": "task", "task": { "taskId": "t" } }),
            CallState::Failed,
            "answers with a task",
        ),
        (json!({ "resultType": "riddle" }), CallState::Unknown, "`riddle`"),
        (json!("text alone"), CallState::Unknown, "its answer is no result"),
    ];
    for (result, state, says) in odd {
        let answer = house.call("s", "raw", raw(&result)).await;
        assert_eq!(answer.state, state, "{answer:?}");
        assert!(sentence(&answer).contains(says), "{answer:?}");
    }
    let answer = house.call("s", "refuse", json!({ "message": "not today\nor tomorrow" })).await;
    assert_eq!((answer.state, code(&answer)), (CallState::Failed, ReasonCode::ToolError));
    assert!(sentence(&answer).contains("not today or tomorrow"), "{answer:?}");
}

#[tokio::test]
async fn what_a_server_asks_of_its_client_is_refused() {
    let house = House::ready(vec![scripted("s", &json!({}))]).await;
    for method in ["roots/list", "elicitation/create", "sampling/createMessage", "anything/else"] {
        let params = json!({ "message": "x", "requestedSchema": { "type": "object", "properties": {} }, "messages": [], "maxTokens": 1 });
        let asks = json!({ "jsonrpc": "2.0", "id": method, "method": method, "params": params });
        let line = format!("{asks}\n{{\"jsonrpc\":\"2.0\",\"id\":$ID,\"result\":{{}}}}");
        assert_eq!(house.call("s", "raw", json!({ "line": line })).await.state, CallState::Completed);
    }
    let answered =
        |received: &[Value]| received.iter().filter(|message| message["error"].is_object()).count();
    let mut received = house.received("s").await;
    while answered(&received) < 4 {
        received = house.received("s").await;
    }
    assert!(received.iter().all(|message| message["result"].is_null()), "{received:?}");
}

#[tokio::test]
async fn a_name_can_be_configured_once() {
    let entries = vec![
        ServerEntry::stdio("s", "a", &[]).unwrap(),
        ServerEntry::http("s", "http://127.0.0.1:1/mcp", &[]).unwrap(),
    ];
    let error = sluicegate_mcp::connect(entries, PoolOptions::default()).err().unwrap();
    assert!(error.to_string().contains("names `s` twice"));
}

/// F14: of two servers with tools of the same names, each call reaches the one that it names.
#[tokio::test]
async fn f14_servers_with_the_same_tools_are_never_mixed_up() {
    let names = ["home", "home_lights", "home__lights"];
    let house = House::ready(names.map(|name| scripted(name, &json!({}))).to_vec()).await;
    let mut numbers = Vec::new();
    for name in names {
        numbers.push(house.text(name, "pid", json!({})).await);
    }
    numbers.sort();
    numbers.dedup();
    assert_eq!(numbers.len(), 3, "each has a process of its own");
    let calls = (0..60).map(|n| {
        let (house, name) = (&house, names[n % 3]);
        async move {
            let echoed = house.text(name, "echo", json!({ "n": n, "to": name })).await;
            assert_eq!(echoed, json!({ "n": n, "to": name }).to_string());
        }
    });
    futures::future::join_all(calls).await;
    for name in names {
        let received = house.received(name).await;
        let calls = received.iter().filter(|message| message["params"]["name"] == "echo");
        let told: Vec<_> = calls.map(|call| call["params"]["arguments"]["to"].clone()).collect();
        assert_eq!(told, vec![json!(name); 20]);
    }
}
