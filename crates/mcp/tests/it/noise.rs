//! F10: junk on standard output, a flood on standard error.

use crate::support::{House, scripted};
use serde_json::{Value, json};
use sluicegate_gateway::ServerState;

#[tokio::test]
async fn f10_noise_is_skipped_counted_and_shown() {
    let start = [
        "Scripted server 1.0",
        "",
        "\u{feff}",
        "\u{1b}[1mbold\u{1b}[0m\r",
        "{\"level\":\"info\"}",
        "{\"id\":1}",
    ];
    let house = House::ready(vec![scripted("s", &json!({ "start": start }))]).await;
    assert_eq!(house.text("s", "noise", json!({})).await, "clear");
    assert_eq!(house.text("s", "echo", json!({ "still": "here" })).await, r#"{"still":"here"}"#);
    let status =
        house.until("s", |status| status.noise.first().is_some_and(|first| first.starts_with("16 "))).await;
    assert_eq!(status.state, ServerState::Ready);
    assert_eq!(status.noise.get(1).map(String::as_str), Some("Scripted server 1.0"));
    assert!(status.noise.contains(&"bold".to_owned()), "{:?}", status.noise);
    assert!(status.noise.contains(&"{\"level\":\"info\"}".to_owned()));
    // Nothing of it was answered, with an error or otherwise.
    for message in house.received("s").await {
        assert!(message["method"].is_string(), "{message}");
    }
}

#[tokio::test]
async fn f10_a_megabyte_on_standard_error_stalls_nobody() {
    let house = House::ready(vec![scripted("s", &json!({}))]).await;
    assert_eq!(house.text("s", "flood", json!({})).await, "done");
    let status =
        house.until("s", |status| status.noise.first().is_some_and(|first| first.starts_with("1024 "))).await;
    assert_eq!(status.noise.len(), 21);
}

#[tokio::test]
async fn f10_an_endless_line_ends_that_server_with_a_reason_and_no_other() {
    let house = House::ready(vec![scripted("endless", &json!({})), scripted("calm", &json!({}))]).await;
    let before = resident_kib();
    let answer = house.call("endless", "endless", json!({})).await;
    assert!(answer.output.is_none(), "{answer:?}");
    let status = house.until_state("endless", ServerState::Unavailable).await;
    assert!(status.note.as_deref().unwrap().contains("a line longer than 16 MiB"), "{status:?}");
    assert!(resident_kib() < before + 128 * 1024);
    assert_eq!(house.text("calm", "echo", json!({})).await, "{}");
    // It comes back by itself.
    house.until_state("endless", ServerState::Ready).await;
    assert_eq!(house.text("endless", "echo", json!({})).await, "{}");
}

/// Memory of this process, other tests in it included.
fn resident_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

#[tokio::test]
async fn f10_an_answer_without_its_line_end_still_counts() {
    let house = House::ready(vec![scripted("s", &json!({}))]).await;
    let result = json!({ "content": [{ "type": "text", "text": "two on a line" }] });
    let line = format!("{{\"jsonrpc\":\"2.0\",\"id\":$ID,\"result\":{result}}}\r");
    let answer = house.call("s", "raw", json!({ "line": line })).await;
    assert_eq!(answer.output.map(|output| output.result), Some(result));
}

#[tokio::test]
async fn f16_secrets_given_to_a_server_are_masked_in_its_noise_and_errors() {
    let entry = scripted("s", &json!({})).with_env("API_TOKEN", "CANARY-1234").unwrap();
    let house = House::ready(vec![entry]).await;
    let raw = json!({ "line": "token is CANARY-1234\n{\"jsonrpc\":\"2.0\",\"id\":$ID,\"result\":{}}" });
    assert!(house.call("s", "raw", raw).await.output.is_some());
    let refused = house.call("s", "refuse", json!({ "message": "bad token CANARY-1234" })).await;
    let status = house.until("s", |status| !status.noise.is_empty()).await;
    assert_eq!(status.given, ["API_TOKEN"]);
    let shown = format!("{status:?} {refused:?}");
    assert!(!shown.contains("CANARY"), "{shown}");
    assert!(shown.contains("bad token •••"), "{shown}");
    assert!(shown.contains("token is •••"), "{shown}");
    let _: Value = serde_json::from_str(&house.text("s", "env", json!({})).await).unwrap();
}
