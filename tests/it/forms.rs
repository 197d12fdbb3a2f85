//! One approval, four forms: a client is kept waiting, is given a confirmation id, is asked to open a page, or gets a
//! task. What each form does when its caller is gone, comes back, or is somebody else.

use crate::counting::{Counting, approved};
use crate::harness::mcp::{Client, Reply, key, whole};
use crate::harness::page::Page;
use crate::harness::server::command;
use reqwest::StatusCode;
use serde_json::{Value, json};

/// Held, and of a tier whose callers are kept waiting.
pub(crate) const WAITED_FOR: &str = r#"
version: 1
tiers:
  - { server: counting, tool: add, tier: moderate }
rules:
  - { id: counted, kind: require_approval, match: { server: counting, tool: add } }
"#;

/// Held, and of the high tier.
pub(crate) const CONFIRMED: &str = r#"
version: 1
rules:
  - { id: counted, kind: require_approval, match: { server: counting, tool: add }, approval: { timeout: 60s } }
"#;

/// Nobody can be as quick as this.
pub(crate) const OVER_AT_ONCE: &str = r#"
version: 1
rules:
  - { id: counted, kind: require_approval, match: { server: counting, tool: add }, approval: { timeout: 1s } }
"#;

pub(crate) const AT: &str = "/mcp/counting";

pub(crate) async fn house(rules: &str) -> (Counting, Client) {
    let house = Counting::start(rules, |setup| setup).await;
    let client = client(&house, "tester").await;
    (house, client)
}

async fn client(house: &Counting, name: &str) -> Client {
    Client::new(&house.server, AT, &key(&house.server, name, &[]).await)
}

fn urls() -> Value {
    json!({ "elicitation": { "url": {} } })
}

fn tasks() -> Value {
    json!({ "extensions": { "io.modelcontextprotocol/tasks": {} } })
}

/// A call of the newer era.
pub(crate) async fn add(client: &Client, line: &str, capabilities: Value) -> Reply {
    client
        .described("tools/call", json!({ "name": "add", "arguments": { "line": line } }), capabilities)
        .await
}

pub(crate) async fn approve(house: &Counting) -> Page {
    house.browser.submit(&approved(&house.held().await)).await.expect_status(StatusCode::OK)
}

/// The page of the one call in the trail, once it is in this state.
pub(crate) async fn story(house: &Counting, state: &str) -> Page {
    let audit = house
        .browser
        .until("/audit", |page| {
            page.attributes("#calls [data-call]", "data-state").first().is_some_and(|now| now == state)
        })
        .await;
    house.browser.get(&audit.attributes("#calls th a", "href")[0]).await
}

/// Nothing is left to decide, and nothing has run.
pub(crate) async fn nothing_ran(house: &Counting) {
    assert!(!house.browser.get("/approvals").await.has("form[action$='/approve']"));
    assert_eq!(house.all_effects(), 0);
}

/// F19: a human takes longer than machines wait. Guards against a silent wait, and against progress that is not the
/// caller's own: a stream that begins at once, whose progress bears exactly the client's token.
#[tokio::test]
async fn f19_a_waiting_client_gets_the_result_of_the_approved_call() {
    let (house, client) = house(WAITED_FOR).await;
    let session = client.in_session("2025-11-25").await;
    for (n, token) in [json!(0), json!("0")].into_iter().enumerate() {
        let line = format!("line-{n}");
        let params =
            json!({ "name": "add", "arguments": { "line": line }, "_meta": { "progressToken": token } });
        let asked = json!({ "jsonrpc": "2.0", "id": n, "method": "tools/call", "params": params });
        let waiting = session.open(&asked).await;
        assert_eq!(waiting.headers()["content-type"], "text/event-stream");
        let page = house.held().await;
        assert!(page.text("article").contains("the client gets the result"), "{}", page.text("article"));
        assert_eq!(house.effects(&line), 0);
        house.browser.submit(&approved(&page)).await.expect_status(StatusCode::OK);
        let reply = whole(waiting).await;
        assert_eq!((reply.text(), reply.last()["id"].clone()), ("added", json!(n)));
        for notice in &reply.messages[..reply.messages.len() - 1] {
            assert_eq!(notice["params"]["progressToken"], token, "{notice}");
        }
        assert_eq!(house.effects(&line), 1);
    }
}

/// F21: when the caller gives up, so does the approval. Guards against approvals of calls nobody asks for any more.
#[tokio::test]
async fn f21_a_caller_who_goes_takes_the_held_call_along() {
    let (house, client) = house(WAITED_FOR).await;
    let params = |line: &str| json!({ "name": "add", "arguments": { "line": line } });
    let ask = |id: Value, line: &str| json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params(line) });

    // The connection is closed, in either era.
    let waiting = client.open_described("tools/call", params("a"), json!({})).await;
    let form = approved(&house.held().await);
    drop(waiting);
    assert!(story(&house, "withdrawn").await.text("main").contains("ithdrawn"));
    let late = house.browser.submit(&form).await;
    assert!(late.text("main").contains("withdrawn"), "{}", late.text("main"));
    nothing_ran(&house).await;

    let session = client.in_session("2025-11-25").await;
    let waiting = session.open(&ask(json!(7), "b")).await;
    house.held().await;
    drop(waiting);
    story(&house, "withdrawn").await;
    nothing_ran(&house).await;

    // It is cancelled: by its own id in its own session alone.
    let other = client.in_session("2025-11-25").await;
    let waiting = session.open(&ask(json!(7), "c")).await;
    house.held().await;
    let cancelled = |id: Value| json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": id } });
    for (who, id) in [(&other, json!(7)), (&session, json!("7")), (&session, json!(8))] {
        assert_eq!(who.post(&cancelled(id)).await.status, StatusCode::ACCEPTED);
    }
    house.held().await;
    assert_eq!(session.post(&cancelled(json!(7))).await.status, StatusCode::ACCEPTED);
    assert!(whole(waiting).await.messages.is_empty(), "what is cancelled wants no answer");
    story(&house, "withdrawn").await;
    nothing_ran(&house).await;

    // The session ends.
    let waiting = session.open(&ask(json!(9), "d")).await;
    house.held().await;
    assert_eq!(session.delete().await, StatusCode::OK);
    assert!(whole(waiting).await.messages.is_empty());
    story(&house, "withdrawn").await;
    nothing_ran(&house).await;
}

/// F21 (b): the caller leaves in the instant of the click. One of them wins, and the record says which.
#[tokio::test]
async fn f21_leaving_and_approving_at_once_have_one_winner() {
    let (house, client) = house(WAITED_FOR).await;
    for round in 0..10 {
        let line = format!("line-{round}");
        let params = json!({ "name": "add", "arguments": { "line": line } });
        let waiting = client.open_described("tools/call", params, json!({})).await;
        let form = approved(&house.held().await);
        let leaving = async {
            for _ in 0..round {
                tokio::task::yield_now().await;
            }
            drop(waiting);
        };
        futures::future::join(house.browser.submit(&form), leaving).await;
        let ended = |page: &Page| {
            let states = page.attributes("#calls [data-call]", "data-state");
            states
                .first()
                .is_some_and(|state| matches!(state.as_str(), "withdrawn" | "completed" | "unknown"))
        };
        let audit = house.browser.until("/audit", ended).await;
        let state = audit.attributes("#calls [data-call]", "data-state").remove(0);
        match (state.as_str(), house.effects(&line)) {
            ("withdrawn", 0) | ("completed", 1) | ("unknown", 0 | 1) => {}
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn a_key_that_is_revoked_while_its_call_is_held_takes_the_call_along() {
    let (house, client) = house(WAITED_FOR).await;
    let params = json!({ "name": "add", "arguments": { "line": "a" } });
    let waiting = client.open_described("tools/call", params, json!({})).await;
    house.held().await;
    let ended = command(house.server.shared_folder(), &["key", "revoke", "tester"]).await;
    assert_eq!(ended.code(), Some(0), "{ended:?}");
    assert!(whole(waiting).await.messages.is_empty());
    story(&house, "withdrawn").await;
    nothing_ran(&house).await;
}

/// A call of a revoked key that was to be collected later does not run either: the gate asks again.
#[tokio::test]
async fn a_confirmed_call_of_a_revoked_key_does_not_run() {
    let (house, client) = house(CONFIRMED).await;
    assert_eq!(add(&client, "a", json!({})).await.call_status()["code"], "pending");
    let form = approved(&house.held().await);
    let ended = command(house.server.shared_folder(), &["key", "revoke", "tester"]).await;
    assert_eq!(ended.code(), Some(0), "{ended:?}");
    house.browser.submit(&form).await;
    house
        .browser
        .until("/audit", |page| page.attributes("#calls [data-call]", "data-state") == ["denied"])
        .await;
    nothing_ran(&house).await;
}

/// A repeat of the same call finds the open approval, whatever the order of its arguments; somebody else's call is another.
#[tokio::test]
async fn f19_a_repeat_finds_the_open_approval_and_both_get_the_one_result() {
    let (house, client) = house(WAITED_FOR).await;
    let params = json!({ "name": "add", "arguments": { "line": "a" } });
    let first = client.open_described("tools/call", params.clone(), json!({})).await;
    house.held().await;
    let second = client.open_described("tools/call", params.clone(), json!({})).await;
    let stranger = self::client(&house, "stranger").await;
    let third = stranger.open_described("tools/call", params, json!({})).await;
    let page = house
        .browser
        .until("/approvals", |page| page.attributes("article", "data-approval").len() >= 2)
        .await;
    assert_eq!(page.attributes("article", "data-approval").len(), 2, "one of each caller");
    let own = page.texts("article").iter().position(|text| text.contains("key:tester")).unwrap();
    let id = page.attributes("article", "data-approval")[own].clone();
    let mut form = page.form(&format!("form[action='/approvals/{id}/approve']"));
    for name in
        page.attributes(&format!("form[action='/approvals/{id}/approve'] input[type=checkbox]"), "name")
    {
        form = form.choose(&name, "yes");
    }
    house.browser.submit(&form).await.expect_status(StatusCode::OK);
    assert_eq!((whole(first).await.text(), whole(second).await.text()), ("added", "added"));
    assert_eq!(house.effects("a"), 1);
    drop(third);
    house.browser.until("/approvals", |page| !page.has("form[action$='/approve']")).await;
    assert_eq!(house.effects("a"), 1);
}

/// A call of the high tier never executes at first. Confirmed, refused and expired each end as what they are.
#[tokio::test]
async fn a_confirmation_runs_once_at_the_click_and_is_collected_once() {
    let (house, client) = house(CONFIRMED).await;
    let pending = add(&client, "a", json!({})).await;
    let status = pending.call_status().clone();
    assert_eq!((&status["code"], &status["retryable"]), (&json!("pending"), &json!(true)));
    assert_eq!(pending.result()["isError"], true);
    assert!(pending.result().get("structuredContent").is_none());
    let url = status["approval_url"].as_str().unwrap();
    assert!(url.starts_with(house.server.url()) && pending.text().contains(url), "{status}");
    assert!(status["expires_at"].as_str().unwrap().ends_with('Z'), "{status}");
    let page = house.held().await;
    assert!(page.text("article").contains("The client is not waiting"), "{}", page.text("article"));
    assert_eq!(house.effects("a"), 0);
    approve(&house).await;
    story(&house, "completed").await;
    assert_eq!(house.effects("a"), 1, "it runs at the click");
    // Somebody else's repeat finds nothing of it; the caller's own finds it once, in either era.
    let stranger = self::client(&house, "stranger").await;
    let theirs = add(&stranger, "a", json!({})).await;
    assert_eq!(theirs.call_status()["code"], "pending");
    assert_ne!(theirs.call_status()["call"], status["call"]);
    let session = client.in_session("2025-11-25").await;
    assert_eq!(session.call("add", json!({ "line": "a" })).await.text(), "added");
    let anew = add(&client, "a", json!({})).await;
    assert_eq!(anew.call_status()["code"], "pending", "after that it is a new call");
    assert_ne!(anew.call_status()["call"], status["call"]);
    assert_eq!(house.all_effects(), 1);
}

#[tokio::test]
async fn a_refused_confirmation_is_told_once_and_never_runs() {
    let (house, client) = house(CONFIRMED).await;
    let pending = add(&client, "a", json!({})).await;
    let deny = house.held().await.form("form[action$='/deny']").set("reason", "not today");
    house.browser.submit(&deny).await.expect_status(StatusCode::OK);
    story(&house, "denied").await;
    let told = add(&client, "a", json!({})).await;
    assert_eq!(told.call_status()["code"], "denied_by_person", "{told:?}");
    assert_eq!(told.call_status()["call"], pending.call_status()["call"]);
    assert!(told.text().contains("not today"), "{}", told.text());
    nothing_ran(&house).await;
}

#[tokio::test]
async fn an_expired_confirmation_never_runs() {
    let (house, client) = house(OVER_AT_ONCE).await;
    let pending = add(&client, "a", json!({})).await;
    story(&house, "expired").await;
    let told = add(&client, "a", json!({})).await;
    assert_eq!(told.call_status()["code"], "expired", "{told:?}");
    assert_eq!(told.call_status()["call"], pending.call_status()["call"]);
    nothing_ran(&house).await;
}

/// A client that opens pages is asked to, and gives back a state that is good once, for this call, from this key alone.
#[tokio::test]
async fn a_client_that_opens_pages_is_led_to_the_approval() {
    let (house, client) = house(CONFIRMED).await;
    let asked = add(&client, "a", urls()).await;
    let result = asked.result().clone();
    assert_eq!(result["resultType"], "input_required");
    let question = &result["inputRequests"]["approval"];
    assert_eq!(
        (&question["method"], &question["params"]["mode"]),
        (&json!("elicitation/create"), &json!("url"))
    );
    let url = question["params"]["url"].as_str().unwrap();
    let state = result["requestState"].as_str().unwrap().to_owned();
    assert!(url.starts_with(house.server.url()) && !url.contains(&state), "{url}");

    let again = async |client: &Client, line: &str, state: &str, said: &str| {
        let params = json!({
            "name": "add", "arguments": { "line": line }, "requestState": state,
            "inputResponses": { "approval": { "action": said } },
        });
        client.open_described("tools/call", params, urls()).await
    };
    let stranger = self::client(&house, "stranger").await;
    let forged: String = state.chars().rev().collect();
    for (who, line, state) in [(&stranger, "a", &state), (&client, "b", &state), (&client, "a", &forged)] {
        let refused = whole(again(who, line, state, "accept").await).await;
        assert_eq!((refused.status, refused.error_code()), (StatusCode::BAD_REQUEST, -32602));
    }
    assert_eq!(house.browser.get("/approvals").await.attributes("article", "data-approval").len(), 1);

    // What the client says of its user is consent to open a page, and no decision.
    let waiting = again(&client, "a", &state, "accept").await;
    assert_eq!(house.effects("a"), 0);
    approve(&house).await;
    let done = whole(waiting).await;
    assert_eq!((done.text(), &done.result()["resultType"]), ("added", &json!("complete")));
    assert_eq!(house.effects("a"), 1);
    let replayed = whole(again(&client, "a", &state, "accept").await).await;
    assert_eq!((replayed.status, replayed.error_code()), (StatusCode::BAD_REQUEST, -32602));
    assert_eq!(house.all_effects(), 1);

    // A user who does not want it ends it.
    let asked = add(&client, "c", urls()).await;
    let state = asked.result()["requestState"].as_str().unwrap().to_owned();
    let declined = whole(again(&client, "c", &state, "decline").await).await;
    assert_eq!(declined.call_status()["code"], "withdrawn", "{declined:?}");
    house.browser.until("/approvals", |page| !page.has("form[action$='/approve']")).await;
    assert_eq!(house.all_effects(), 1);
}

#[tokio::test]
async fn a_client_that_takes_tasks_gets_one_and_collects_it_once() {
    let (house, client) = house(CONFIRMED).await;
    let stranger = self::client(&house, "stranger").await;
    let ask = async |who: &Client, method: &str, id: &str| {
        who.with("mcp-name", id).described(method, json!({ "taskId": id }), tasks()).await
    };
    let created = add(&client, "a", tasks()).await;
    assert_eq!(
        (&created.result()["resultType"], &created.result()["status"]),
        (&json!("task"), &json!("working"))
    );
    let id = created.result()["taskId"].as_str().unwrap().to_owned();
    let working = ask(&client, "tasks/get", &id).await;
    assert_eq!(
        (&working.result()["resultType"], &working.result()["status"]),
        (&json!("complete"), &json!("working"))
    );
    assert!(working.result()["statusMessage"].as_str().unwrap().contains("/approvals/"));

    // Not declared, not there, not one's own.
    let undeclared =
        client.with("mcp-name", &id).described("tasks/get", json!({ "taskId": id }), json!({})).await;
    assert_eq!((undeclared.status, undeclared.error_code()), (StatusCode::BAD_REQUEST, -32021));
    for method in ["tasks/get", "tasks/update", "tasks/cancel"] {
        let theirs = ask(&stranger, method, &id).await;
        assert_eq!((theirs.status, theirs.error_code()), (StatusCode::BAD_REQUEST, -32602), "{method}");
        assert_eq!(ask(&client, method, "no-such-task").await.error_code(), -32602);
    }
    let said = json!({ "taskId": id, "inputResponses": { "approval": { "action": "accept" } } });
    let updated = client.with("mcp-name", &id).described("tasks/update", said, tasks()).await;
    assert_eq!(updated.result(), &json!({ "resultType": "complete" }));
    assert_eq!(house.effects("a"), 0, "no answer of a client is a decision");

    approve(&house).await;
    story(&house, "completed").await;
    let done = ask(&client, "tasks/get", &id).await;
    assert_eq!(done.result()["status"], "completed");
    assert_eq!(done.result()["result"]["content"][0]["text"], "added");
    assert_eq!(ask(&client, "tasks/get", &id).await.error_code(), -32602, "it is given once");
    assert_eq!(house.effects("a"), 1);

    let created = add(&client, "b", tasks()).await;
    let id = created.result()["taskId"].as_str().unwrap().to_owned();
    assert_eq!(ask(&client, "tasks/cancel", &id).await.result(), &json!({ "resultType": "complete" }));
    story(&house, "withdrawn").await;
    let cancelled = ask(&client, "tasks/get", &id).await;
    assert_eq!(cancelled.result()["status"], "cancelled");
    assert!(cancelled.result().get("result").is_none());
    assert_eq!(house.all_effects(), 1);
}
