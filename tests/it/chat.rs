//! Conversations as people keep them: said again in other words, taken along, found by what was said.

use crate::harness::page::{Browser, Page};
use crate::harness::server::Server;
use crate::pages::begin;
use reqwest::StatusCode;
use serde_json::json;

async fn until_idle(browser: &Browser, chat: &str) -> Page {
    browser.until(chat, |page| page.attributes("#turn-state", "data-turn") == ["idle"]).await
}

#[tokio::test]
async fn a_message_is_said_again_and_what_came_of_it_is_folded_away() {
    let server = Server::start().await;
    let browser = Browser::signed_in(&server).await;
    let chat = begin(&browser, "list the files").await;
    let page = until_idle(&browser, &chat).await;
    let edit = page.form("details form[data-again]");
    assert_eq!(edit.value("text"), Some("list the files"), "what was said stands there to be changed");
    let page = browser.submit(&edit.clone().set("text", "list the <b>files</b>")).await;
    assert_eq!(page.path, chat);
    let page = until_idle(&browser, &chat).await;
    assert_eq!(page.texts(".turn-group > .msg--user p"), ["list the <b>files</b>"]);
    assert_eq!(page.texts(".replaced > .msg--user p"), ["list the files"], "it is kept, folded");
    assert!(page.text(".replaced > summary").starts_with("Replaced: list the files"));
    assert!(page.has(".replaced .calls > li[data-call]"), "with what its calls did");

    // The same words once more, by one button.
    let again = page.form(".msg__acts > form[data-again]");
    browser.submit(&again).await.expect_status(StatusCode::OK);
    let page = until_idle(&browser, &chat).await;
    assert_eq!(page.texts(".replaced").len(), 2, "{}", page.body);
    assert_eq!(page.texts(".turn-group > .msg--user p"), ["list the <b>files</b>"]);

    // What was replaced is not replaced again; what is no message of theirs, never.
    browser.submit(&edit).await.expect_status(StatusCode::CONFLICT);
    let address = format!("{chat}/messages");
    for (position, status) in
        [(json!(2), 409), (json!(0), 409), (json!(-1), 409), (json!(9_999), 409), (json!("x"), 400)]
    {
        let body = json!({ "text": "list the files", "instead_of": position });
        let problem = browser.post_json(&address, &body).await;
        assert_eq!(problem.status.as_u16(), status, "{position}: {}", problem.body);
    }
    assert_eq!(until_idle(&browser, &chat).await.texts(".replaced").len(), 2, "nothing was changed by these");
}

#[tokio::test]
async fn a_conversation_is_taken_along_whole() {
    let server = Server::start().await;
    let browser = Browser::signed_in(&server).await;
    let chat = begin(&browser, "list the files").await;
    let page = until_idle(&browser, &chat).await;
    let call = page.attributes(".calls > li", "data-call").remove(0);

    let text = browser.get(&format!("{chat}/export")).await.expect_status(StatusCode::OK);
    assert_eq!(text.header("content-type"), Some("text/markdown; charset=utf-8"));
    assert!(text.header("content-disposition").unwrap().starts_with("attachment; filename=\"conversation-"));
    for part in
        ["# list the files\n", "## You, ", "## Agent, ", "**Call sandbox-files/list_files**: completed."]
    {
        assert!(text.body.contains(part), "{part} is not in\n{}", text.body);
    }

    let export = browser.get(&format!("{chat}/export?form=json")).await.expect_status(StatusCode::OK).json();
    assert_eq!((&export["title"], &export["calls"][0]["call"]), (&json!("list the files"), &json!(call)));
    assert_eq!(export["entries"][0]["entry"]["said"]["user"]["text"], "list the files");
    assert!(export["usage"]["input"].as_u64().unwrap() > 0, "{}", export["usage"]);

    browser.get(&format!("{chat}/export?form=pdf")).await.expect_status(StatusCode::BAD_REQUEST);
    browser.get("/agent/nowhere/export").await.expect_status(StatusCode::NOT_FOUND);

    // Beside the transcript its calls are listed, and lead to the trail.
    assert_eq!(page.attributes(".sidecalls a", "href"), [format!("/audit/calls/{call}")]);
    let trail = browser.get(&page.link("All of them in the audit")).await.expect_status(StatusCode::OK);
    assert_eq!(trail.attributes("#calls tbody tr", "data-call"), [call]);
    // A conversation is found by what the agent said in it.
    let said = page.texts(".msg:not(.msg--user) p").remove(0);
    let word =
        said.split_whitespace().last().unwrap().trim_matches(|c: char| !c.is_alphanumeric()).to_owned();
    assert_eq!(browser.get(&format!("/agent?q={word}")).await.texts(".convo__title"), ["list the files"]);
}
