//! One conversation with every outcome, walked as a person does: through the forms found in the pages.

use crate::harness::page::{Browser, Page};
use crate::harness::server::Server;
use reqwest::StatusCode;

/// The states of the calls in a transcript, in order.
fn states(page: &Page) -> Vec<String> {
    page.attributes("#transcript li[data-state]", "data-state")
}

const IDLE: &str = "form.composer button[aria-label='Send']:not([disabled])";

/// Waits until the conversation takes a message, and sends it.
async fn say(browser: &Browser, address: &str, text: &str) -> Page {
    let page = browser.until(address, |page| page.has(IDLE)).await;
    browser.submit(&page.form("form.composer").set("text", text)).await
}

async fn open(browser: &Browser, text: &str) -> String {
    browser.until("/tools", |page| page.body.contains("write_file")).await;
    let start = browser.get("/agent").await;
    let page = browser.submit(&start.form("form.composer").set("text", text)).await;
    assert!(&page.path.starts_with("/agent/"), "{}", &page.path);
    page.path.clone()
}

#[tokio::test]
async fn one_conversation_meets_every_outcome_and_goes_on_after_each() {
    let server = Server::start().await;
    let browser = Browser::signed_in(&server).await;
    let notes = server.folder().join("sandbox/notes.txt");
    let address = open(&browser, "list the files").await;
    browser.until(&address, |page| states(page) == ["completed"]).await;

    // Every change below must also reach an open page by itself.
    let stream = browser
        .until(&address, |page| page.has(IDLE))
        .await
        .attributes("[hx-sse\\:connect]", "hx-sse:connect");
    let mut events = browser.events(&stream[0], None).await;

    say(&browser, &address, "write notes.txt: the sluice is open").await;
    let held = browser.until(&address, |page| states(page) == ["completed", "pending"]).await;
    assert!(!notes.exists(), "it must not run before a person said yes");
    events.next_with(|data| data.contains("data-state=\"pending\"")).await;
    let approve = held.form("#transcript form[action$='/approve']");
    assert!(browser.submit(&approve).await.status.is_success());
    browser.until(&address, |page| states(page) == ["completed", "completed"]).await;
    assert_eq!(std::fs::read_to_string(&notes).unwrap(), "the sluice is open");

    // The same click again is harmless and says what happened.
    let again = browser.submit(&approve).await;
    assert_eq!(again.status, StatusCode::CONFLICT);
    assert!(again.body.to_lowercase().contains("already"), "{}", again.body);

    say(&browser, &address, "delete notes.txt").await;
    let denied = browser.until(&address, |page| states(page) == ["completed", "completed", "denied"]).await;
    assert!(notes.exists(), "a deny beats a hold: nobody may be asked");
    assert!(!denied.has("form[action$='/approve']"));
    events.next_with(|data| data.contains("data-state=\"denied\"")).await;

    say(&browser, &address, "move notes.txt to old.txt").await;
    browser.until(&address, |page| states(page) == ["completed", "completed", "denied", "denied"]).await;
    assert!(notes.exists(), "no rule is no");

    say(&browser, &address, "read notes.txt").await;
    let end = browser
        .until(&address, |page| {
            states(page).len() == 5
                && page.has(IDLE)
                && page
                    .texts("#transcript .msg")
                    .last()
                    .is_some_and(|text| text.contains("the sluice is open"))
        })
        .await;
    assert_eq!(states(&end).last().map(String::as_str), Some("completed"));

    // After each call, whatever came of it, the model said something.
    let order = end.attributes("#transcript .msg, #transcript .calls", "class");
    let said =
        |n: usize| order.get(n + 1).is_some_and(|next| next.contains("msg") && !next.contains("msg--user"));
    let calls: Vec<usize> = (0..order.len()).filter(|n| order[*n].contains("calls")).collect();
    assert_eq!(calls.len(), 5, "{order:?}");
    assert!(calls.into_iter().all(said), "{order:?}");

    // Each call's story is in the trail, linked from its row.
    let stories = end.attributes("#transcript a[href^='/audit/calls/']", "href");
    assert_eq!(stories.len(), 5, "{stories:?}");
    assert!(browser.get(&stories[3]).await.body.contains("no_rule"));
    let deleted = browser.get(&stories[2]).await;
    assert!(deleted.body.contains("tool_requested") && deleted.body.contains("policy_decided"));
}

#[tokio::test]
async fn a_denial_with_a_reason_reaches_the_model_and_the_same_call_is_not_asked_again() {
    let server = Server::start().await;
    let browser = Browser::signed_in(&server).await;
    let address = open(&browser, "write a.txt: one").await;
    let held = browser.until("/approvals", |page| page.has("form[action$='/deny']")).await;
    browser.submit(&held.form("form[action$='/deny']").set("reason", "not on a Monday")).await;
    let page = browser
        .until(&address, |page| {
            page.texts("#transcript .msg").last().is_some_and(|text| text.contains("not on a Monday"))
        })
        .await;
    assert_eq!(states(&page), ["denied"]);
    say(&browser, &address, "write a.txt: one").await;
    browser.until(&address, |page| states(page) == ["denied", "denied"]).await;
    assert!(!server.folder().join("sandbox/a.txt").exists());
    assert!(!browser.get("/approvals").await.has("form[action$='/approve']"));
}

#[tokio::test]
async fn a_program_gets_the_reply_the_calls_and_the_usage_as_json() {
    let server = Server::start().await;
    let browser = Browser::signed_in(&server).await;
    let address = open(&browser, "what can you do?").await;
    browser.until(&address, |page| page.has(IDLE)).await;
    let answer = browser
        .post_json(&format!("{address}/messages"), &serde_json::json!({"text": "list the files"}))
        .await
        .expect_status(StatusCode::OK)
        .json();
    assert_eq!(answer["calls"][0]["state"], "completed", "{answer}");
    assert!(answer["reply"].as_str().is_some_and(|reply| !reply.is_empty()), "{answer}");
    assert!(answer["usage"].is_object(), "{answer}");
    let unknown = browser.post_json("/agent/no-such/messages", &serde_json::json!({"text": "x"})).await;
    assert_eq!(unknown.status, StatusCode::NOT_FOUND);
}
