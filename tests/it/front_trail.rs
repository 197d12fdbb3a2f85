//! The audit trail as resources of the MCP server: each key reads of its own calls, and hears when there is news.

use crate::harness::mcp::{Client, Reply, key};
use crate::harness::server::Server;
use reqwest::{Response, StatusCode};
use serde_json::{Value, json};
use std::time::Duration;

const AT: &str = "/mcp";

/// Bytes of a stream that stays open, up to and with this text.
async fn until(response: &mut Response, wanted: &str) -> String {
    let mut text = String::new();
    while !text.contains(wanted) {
        let chunk = tokio::time::timeout(Duration::from_secs(60), response.chunk());
        let chunk = chunk.await.expect("news in time").expect("an open stream").expect("an open stream");
        text.push_str(&String::from_utf8_lossy(&chunk));
    }
    text
}

async fn call(client: &Client, tool: &str) -> Reply {
    client
        .described(
            "tools/call",
            json!({ "name": tool, "arguments": { "path": "secret-name.txt" } }),
            json!({}),
        )
        .await
}

async fn read(client: &Client, uri: &str) -> Value {
    let reply = client.described("resources/read", json!({ "uri": uri }), json!({})).await;
    let contents = &reply.result()["contents"][0];
    assert_eq!(contents["uri"], uri);
    serde_json::from_str(contents["text"].as_str().unwrap()).unwrap()
}

fn calls(page: &Value) -> Vec<&str> {
    let mut calls: Vec<&str> =
        page["rows"].as_array().unwrap().iter().filter_map(|row| row["call"].as_str()).collect();
    calls.dedup();
    calls
}

#[tokio::test]
async fn a_key_reads_of_its_own_calls_alone_unless_it_may_read_all() {
    let server = Server::start().await;
    let own = Client::new(&server, AT, &key(&server, "own", &[]).await);
    let other = Client::new(&server, AT, &key(&server, "other", &[]).await);
    let auditor = Client::new(&server, AT, &key(&server, "auditor", &["--audit-read"]).await);
    let mine = call(&own, "nothing").await.call_status()["call"].as_str().unwrap().to_owned();
    let theirs = call(&other, "nothing").await.call_status()["call"].as_str().unwrap().to_owned();

    let session = own.in_session("2025-11-25").await;
    let listed = session.ask(json!(1), "resources/list", json!({})).await;
    assert_eq!(listed.result()["resources"][0]["uri"], "sluicegate://audit");
    let templates = own.described("resources/templates/list", json!({}), json!({})).await;
    assert_eq!(templates.result()["resourceTemplates"].as_array().unwrap().len(), 3);
    assert_eq!(templates.result()["cacheScope"], "private");

    let newest = read(&own, "sluicegate://audit").await;
    assert_eq!(calls(&newest), [&mine]);
    assert!(!newest.to_string().contains("secret-name"), "arguments are not in it: {newest}");
    assert_eq!(calls(&read(&other, "sluicegate://audit").await), [&theirs]);
    let all = read(&auditor, "sluicegate://audit").await;
    assert!(calls(&all).contains(&mine.as_str()) && calls(&all).contains(&theirs.as_str()));
    assert!(all["rows"].as_array().unwrap().iter().any(|row| row["event"] == "key_created"));

    // Page by page, the rows are the same, each once.
    let first = all["rows"].as_array().unwrap()[0]["row"].as_i64().unwrap();
    let before = read(&auditor, &format!("sluicegate://audit/before/{first}")).await;
    assert_eq!(before["rows"].as_array().unwrap().len(), all["rows"].as_array().unwrap().len() - 1);
    for kind in ["calls", "confirmations"] {
        let story = read(&own, &format!("sluicegate://audit/{kind}/{mine}")).await;
        assert_eq!(
            (calls(&story), story["rows"][0]["event"].as_str()),
            (vec![mine.as_str()], Some("policy_decided"))
        );
    }

    // Somebody else's is as unknown as one that is not there.
    for uri in [
        format!("sluicegate://audit/calls/{theirs}"),
        "sluicegate://audit/x".to_owned(),
        "file:///etc/passwd".to_owned(),
    ] {
        let new = own.described("resources/read", json!({ "uri": uri }), json!({})).await;
        assert_eq!((new.status, new.error_code()), (StatusCode::BAD_REQUEST, -32602), "{uri}");
        assert_eq!(new.last()["error"]["data"]["uri"], uri.as_str());
        let old = session.ask(json!(2), "resources/read", json!({ "uri": uri })).await;
        assert_eq!(old.error_code(), -32002, "{uri}");
    }
}

#[tokio::test]
async fn subscribers_hear_of_their_own_news_in_both_eras() {
    let server = Server::start().await;
    let own = Client::new(&server, AT, &key(&server, "own", &[]).await);
    let other = Client::new(&server, AT, &key(&server, "other", &[]).await);
    let session = own.in_session("2025-11-25").await;
    let uri = json!({ "uri": "sluicegate://audit" });
    assert_eq!(session.ask(json!(1), "resources/subscribe", uri.clone()).await.result(), &json!({}));
    assert_eq!(
        session.ask(json!(1), "resources/subscribe", json!({ "uri": "file:///x" })).await.error_code(),
        -32002
    );
    let mut old = session.get().await;
    let wanted = json!({ "notifications": { "resourceSubscriptions": ["sluicegate://audit", "file:///x"] } });
    let mut new = own.open_described("subscriptions/listen", wanted.clone(), json!({})).await;
    let acknowledged = until(&mut new, "\n\n").await;
    assert!(acknowledged.contains(r#""resourceSubscriptions":["sluicegate://audit"]"#), "{acknowledged}");
    let mut theirs = other.open_described("subscriptions/listen", wanted, json!({})).await;
    until(&mut theirs, "\n\n").await;

    call(&own, "nothing").await;
    let told = "notifications/resources/updated";
    assert!(until(&mut old, told).await.contains(told));
    assert!(until(&mut new, told).await.contains("subscriptionId"));
    // What the other hears of first is its own, not this.
    call(&other, "nothing").await;
    let heard = until(&mut theirs, told).await;
    assert_eq!(heard.matches(told).count(), 1, "{heard}");

    assert_eq!(session.ask(json!(1), "resources/unsubscribe", uri).await.result(), &json!({}));
}
