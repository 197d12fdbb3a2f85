//! Calls whose callers do not wait: run once at the click whatever is pressed, and still there after a restart.

use crate::counting::{Counting, approved};
use crate::forms::{AT, CONFIRMED, OVER_AT_ONCE, WAITED_FOR, add, approve, house, nothing_ran, story};
use crate::harness::mcp::{Client, key};
use crate::harness::server::{Setup, command};
use reqwest::StatusCode;
use serde_json::json;

/// F26: one decision, one execution. Guards against a double click that runs twice for a caller who is not even waiting.
#[tokio::test]
async fn f26_fifty_clicks_run_a_confirmed_call_once() {
    let (house, client) = house(CONFIRMED).await;
    assert_eq!(add(&client, "a", json!({})).await.call_status()["code"], "pending");
    let form = approved(&house.held().await);
    let clicks = (0..50).map(|_| house.browser.submit(&form));
    for page in futures::future::join_all(clicks).await {
        assert!(page.status.is_success() || page.status == StatusCode::CONFLICT, "{}", page.status);
    }
    let repeats = (0..10).map(|_| add(&client, "a", json!({})));
    let told = futures::future::join_all(repeats).await;
    assert!(told.iter().any(|reply| reply.text() == "added"), "{told:?}");
    assert_eq!(house.all_effects(), 1);
}

/// F25: what was approved is what runs. Guards against an approval that reaches another call of the same tool.
#[tokio::test]
async fn f25_of_two_open_confirmations_the_approved_one_runs() {
    let (house, client) = house(CONFIRMED).await;
    for line in ["a", "b"] {
        assert_eq!(add(&client, line, json!({})).await.call_status()["code"], "pending");
    }
    let page = house
        .browser
        .until("/approvals", |page| page.attributes("article", "data-approval").len() == 2)
        .await;
    let second = page.texts("article").iter().position(|text| text.contains("b")).is_some();
    assert!(second);
    let cards = page.attributes("article", "data-approval");
    let texts = page.texts("article .args");
    let b = texts.iter().position(|text| text.trim_end().ends_with('b')).expect("the card of b");
    let at = format!("form[action='/approvals/{}/approve']", cards[b]);
    let mut form = page.form(&at);
    for name in page.attributes(&format!("{at} input[type=checkbox]"), "name") {
        form = form.choose(&name, "yes");
    }
    house.browser.submit(&form).await.expect_status(StatusCode::OK);
    assert_eq!(add(&client, "b", json!({})).await.text(), "added");
    assert_eq!((house.effects("a"), house.effects("b")), (0, 1));
    assert_eq!(
        add(&client, "c", json!({})).await.call_status()["code"],
        "pending",
        "an approval is of one call"
    );
    assert_eq!(house.all_effects(), 1);
}

/// F27: restart with approvals open. An attached one is closed, since its caller is gone; a detached one is still there,
/// runs once at the click and is collected once.
#[tokio::test]
async fn f27_a_confirmation_outlives_the_process_and_a_held_call_does_not() {
    let (house, client) = house(CONFIRMED).await;
    let token = key(&house.server, "again", &[]).await;
    let again = Client::new(&house.server, AT, &token);
    let pending = add(&again, "a", json!({})).await;
    drop(client);
    house.server.signal("KILL").await;
    let house = house.again(Setup::new()).await;
    let page = house.held().await;
    assert!(page.text("article").contains("The client is not waiting"), "{}", page.text("article"));
    assert_eq!(house.all_effects(), 0);
    approve(&house).await;
    story(&house, "completed").await;
    assert_eq!(house.effects("a"), 1);
    // Killed again before it is collected: the result is still there, once.
    house.server.signal("KILL").await;
    let house = house.again(Setup::new()).await;
    let client = Client::new(&house.server, AT, &token);
    assert_eq!(add(&client, "a", json!({})).await.text(), "added");
    let anew = add(&client, "a", json!({})).await;
    assert_ne!(anew.call_status()["call"], pending.call_status()["call"]);
    assert_eq!(house.all_effects(), 1);
    let verified = command(house.server.shared_folder(), &["audit", "verify"]).await;
    assert_eq!(verified.code(), Some(0), "{verified:?}");
}

#[tokio::test]
async fn f27_what_a_client_waited_for_is_closed_at_the_next_start() {
    let (house, client) = house(WAITED_FOR).await;
    let params = json!({ "name": "add", "arguments": { "line": "a" } });
    let _waiting = client.open_described("tools/call", params, json!({})).await;
    house.held().await;
    house.server.signal("KILL").await;
    let house = house.again(Setup::new()).await;
    assert!(story(&house, "denied").await.text("main").contains("orphaned"));
    nothing_ran(&house).await;
}

/// A confirmation whose time ran out while nobody was there is over at the next start.
#[tokio::test]
#[expect(clippy::disallowed_methods, reason = "the deadline is one of the real clock")]
async fn f27_a_confirmation_that_fell_due_meanwhile_is_closed() {
    let (house, client) = house(OVER_AT_ONCE).await;
    let asked = add(&client, "a", json!({})).await;
    house.server.signal("KILL").await;
    let until = asked.call_status()["expires_at"].as_str().unwrap().parse::<jiff::Timestamp>().unwrap();
    while jiff::Timestamp::now() < until {
        tokio::task::yield_now().await;
    }
    let house = house.again(Setup::new()).await;
    story(&house, "expired").await;
    nothing_ran(&house).await;
}

/// F27 (c): the process dies between the click and the running. It runs once under the same receipt, or not at all; it
/// never runs twice.
#[tokio::test]
async fn f27_a_process_that_dies_after_the_click_runs_a_confirmed_call_at_most_once() {
    for point in ["approval_seen", "approved_judged", "intent_written"] {
        let house = Counting::start(CONFIRMED, |setup| setup.crash_at(point)).await;
        let token = key(&house.server, "tester", &[]).await;
        let client = Client::new(&house.server, AT, &token);
        assert_eq!(add(&client, "a", json!({})).await.call_status()["code"], "pending");
        let form = approved(&house.held().await);
        house.browser.try_submit(&form).await;
        let house = house.again(Setup::new()).await;
        let client = Client::new(&house.server, AT, &token);
        let told = add(&client, "a", json!({})).await;
        if point == "intent_written" {
            assert_eq!(told.call_status()["code"], "outcome_lost", "{point}: {told:?}");
            assert_eq!(house.all_effects(), 0);
        } else {
            assert_eq!(told.text(), "added", "{point}");
            assert_eq!(house.all_effects(), 1, "{point}");
        }
    }
}
