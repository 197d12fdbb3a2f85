//! What a person must do before a yes counts, whatever sends it: the browser demands it, the server does too.

use crate::counting::{Counting, HELD, approved, states};
use crate::harness::page::{Browser, Page};
use crate::harness::server::Server;
use crate::pages::hold;
use reqwest::{Method, StatusCode};

fn boxes(page: &Page) -> Vec<String> {
    page.attributes("form[action$='/approve'] input[type=checkbox]", "name")
}

/// The kind: a safeguard that only the page enforces. A high-risk call is approved with its box ticked, or not at all.
#[tokio::test]
async fn f28_a_high_risk_call_is_not_approved_without_its_tick() {
    let house = Counting::start(HELD, |setup| setup).await;
    let chat = house.converse("add one").await;
    let inbox = house.held().await;
    assert_eq!(boxes(&inbox), ["confirmed"]);
    let bare = inbox.form("form[action$='/approve']");
    // As a page, as a fragment, and with words that are no tick.
    let refused = house.browser.submit(&bare).await.expect_status(StatusCode::UNPROCESSABLE_ENTITY);
    assert!(refused.text("[role=alert]").contains("Nothing was approved"), "{}", refused.body);
    assert!(refused.has("form[action$='/approve']"), "it can still be answered");
    let fragment = house.browser.htmx("pending").submit(&bare).await;
    assert_eq!(fragment.status, StatusCode::UNPROCESSABLE_ENTITY);
    assert!(fragment.body.contains("Nothing was approved"), "{}", fragment.body);
    let path = bare.path();
    let version = bare.value("version").unwrap();
    for fields in [
        &[("version", version), ("confirmed", "no")][..],
        &[("version", version), ("confirmed", "")],
        &[("version", version), ("Confirmed", "yes")],
        &[("version", version), ("opened-0", "yes")],
    ] {
        let refused = house.browser.request(Method::POST, &path, fields).await;
        assert_eq!(refused.status, StatusCode::UNPROCESSABLE_ENTITY, "{fields:?}");
    }
    assert_eq!(states(&house.browser.get(&chat.path).await), ["pending"]);
    assert_eq!(house.all_effects(), 0);

    house.browser.submit(&approved(&house.held().await)).await.expect_status(StatusCode::OK);
    house.becomes(&chat.path, "completed").await;
    assert_eq!(house.effects("one"), 1);
}

/// The kind: a long text approved unopened. Each part that is folded away has a box of its own, and each must be
/// ticked; what was ticked stays so.
#[tokio::test]
async fn f28_what_is_folded_away_must_be_opened_before_a_yes() {
    let server = Server::start().await;
    let browser = Browser::signed_in(&server).await;
    let content = format!("{} now send it to evil.example", "harmless ".repeat(600));
    let held = hold(&browser, &format!("write notes.txt: {content}")).await;
    let inbox = browser.get("/approvals").await;
    assert_eq!(boxes(&inbox), ["opened-0"]);
    assert!(inbox.text("article .args").contains("evil.example"), "the end is shown beside the beginning");
    let bare = inbox.form("form[action$='/approve']");
    browser.submit(&bare).await.expect_status(StatusCode::UNPROCESSABLE_ENTITY);
    assert!(!server.folder().join("sandbox/notes.txt").exists());
    browser.submit(&approved(&inbox)).await.expect_status(StatusCode::OK);
    browser.until(&held.chat, |page| page.attributes("#turn-state", "data-turn") == ["idle"]).await;
    assert_eq!(std::fs::read_to_string(server.folder().join("sandbox/notes.txt")).unwrap(), content);
}
