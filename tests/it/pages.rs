//! The pages as people use them: the chat, the inbox, answers that come too late, and things that cannot be read.

use crate::harness::page::{Browser, Page};
use crate::harness::server::Server;
use reqwest::{Method, StatusCode};

/// A held call, as its card shows it.
#[derive(Clone, Debug)]
pub(crate) struct HeldCall {
    /// Where it was asked for.
    pub(crate) chat: String,
    /// Its approval.
    pub(crate) approval: String,
    /// The version that the card shows.
    pub(crate) version: String,
}

/// Begins a conversation and gives its address.
pub(crate) async fn begin(browser: &Browser, message: &str) -> String {
    let page = browser.get("/agent").await.expect_status(StatusCode::OK);
    let form = page.form("form.composer").set("text", message);
    browser.submit(&form).await.expect_status(StatusCode::OK).path
}

/// Asks for something that is held, and waits for its card.
pub(crate) async fn hold(browser: &Browser, message: &str) -> HeldCall {
    let chat = begin(browser, message).await;
    let page = browser.until(&chat, |page| page.has(".calls article[data-approval]")).await;
    held_in(&page, &chat)
}

fn held_in(page: &Page, chat: &str) -> HeldCall {
    let approval = page.attributes("article[data-approval]", "data-approval").remove(0);
    let form = page.form(&format!("form[action='/approvals/{approval}/approve']"));
    let version = form.value("version").unwrap().to_owned();
    HeldCall { chat: chat.to_owned(), approval, version }
}

async fn until_idle(browser: &Browser, chat: &str) -> Page {
    browser.until(chat, |page| page.attributes("#turn-state", "data-turn") == ["idle"]).await
}

fn states(page: &Page) -> Vec<String> {
    page.attributes(".calls > li", "data-state")
}

#[tokio::test]
async fn a_conversation_is_held_with_forms_alone() {
    let server = Server::start().await;
    let browser = Browser::signed_in(&server).await;
    let chat = begin(&browser, "list the files").await;
    let page = until_idle(&browser, &chat).await;
    assert_eq!(states(&page), ["completed"], "{}", page.body);
    assert_eq!(page.texts(".msg--user p"), ["list the files"]);
    assert!(page.text(".calls .tool").ends_with("list_files"));
    assert!(!page.texts(".msg:not(.msg--user) p").is_empty(), "the agent says something");
    assert!(page.text("#budget").contains("of 120,000"), "{}", page.text("#budget"));

    // Search, rename, and the list.
    assert_eq!(browser.get("/agent?q=LIST+the").await.texts(".convo__title"), ["list the files"]);
    assert!(browser.get("/agent?q=nothing").await.texts(".convo__title").is_empty());
    let form = page.form("form[action$='/rename']").set("title", "<b>Files</b>\u{202E}");
    let page = browser.submit(&form).await.expect_status(StatusCode::OK);
    assert_eq!(page.text("h1"), "<b>Files</b>\u{202E}");
    assert_eq!(page.text("title"), "<b>Files</b>\u{202E} · Sluicegate");

    // Deleted is gone, its calls are not.
    let page = browser.submit(&page.form("form[action$='/delete']")).await;
    assert_eq!(page.path, "/agent");
    assert!(page.texts(".convo__title").is_empty());
    browser.get(&chat).await.expect_status(StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn a_held_call_is_approved_in_the_chat_and_the_turn_goes_on() {
    let server = Server::start().await;
    let browser = Browser::signed_in(&server).await;
    let held = hold(&browser, "write notes.txt: some text").await;
    let page = browser.get(&held.chat).await;
    assert_eq!(states(&page), ["pending"]);
    assert_eq!(page.attributes("#turn-state", "data-turn"), ["paused"]);
    assert_eq!(page.attributes(".calls > li", "data-call"), page.attributes("article", "data-call"));
    assert_eq!(page.texts("#nav-pending"), ["1 waiting"]);
    assert!(page.text("article .kv").contains("writes-are-held"));
    assert!(!server.folder().join("sandbox/notes.txt").exists(), "it ran without a yes");

    let form = page.form(&format!("form[action='/approvals/{}/approve']", held.approval));
    assert_eq!(browser.submit(&form).await.path, held.chat, "back in the chat");
    let page = until_idle(&browser, &held.chat).await;
    assert_eq!(states(&page), ["completed"]);
    assert_eq!(std::fs::read_to_string(server.folder().join("sandbox/notes.txt")).unwrap(), "some text");
    let inbox = browser.get("/approvals").await;
    assert_eq!(inbox.text("#pending-count"), "Nothing is waiting.");
    assert!(inbox.text("#decided .decided").contains("Approved"));
}

#[tokio::test]
async fn a_denial_is_told_with_its_reason() {
    let server = Server::start().await;
    let browser = Browser::signed_in(&server).await;
    let held = hold(&browser, "write notes.txt: some text").await;
    let inbox = browser.get("/approvals").await;
    let form = inbox.form("form[action$='/deny']").set("reason", "ask her <b>first</b>");
    assert_eq!(browser.submit(&form).await.path, "/approvals");
    let page = until_idle(&browser, &held.chat).await;
    assert_eq!(states(&page), ["denied"]);
    assert!(page.text(".calls").contains("ask her <b>first</b>"), "{}", page.text(".calls"));
    let card = browser.get(&format!("/approvals/{}", held.approval)).await.expect_status(StatusCode::OK);
    assert!(card.text("article").contains("denied by admin at"), "{}", card.text("article"));
    assert!(!card.has("form[action$='/approve']"), "a decided call has no buttons");
}

#[tokio::test]
async fn of_two_answers_the_second_is_told_who_was_first() {
    let server = Server::start().await;
    let browser = Browser::signed_in(&server).await;
    let held = hold(&browser, "write notes.txt: some text").await;
    let page = browser.get("/approvals").await;
    let (approve, deny) = (page.form("form[action$='/approve']"), page.form("form[action$='/deny']"));
    // An answer to something else than what is asked now.
    let stale = [("version", "999")];
    let address = format!("/approvals/{}/approve", held.approval);
    let refused = browser.request(Method::POST, &address, &stale).await.expect_status(StatusCode::CONFLICT);
    assert!(refused.text("[role=alert]").contains("has changed"), "{}", refused.body);
    assert!(refused.has("form[action$='/approve']"), "the card as it now is can still be answered");

    browser.submit(&deny).await.expect_status(StatusCode::OK);
    let late = browser.submit(&approve).await.expect_status(StatusCode::CONFLICT);
    assert!(late.text("[role=alert]").contains("Already denied by admin at"), "{}", late.body);
    assert!(!late.has("form[action$='/approve']"));
    // The same as fragments, for a page that is open.
    let late = browser.htmx("pending").submit(&approve).await.expect_status(StatusCode::CONFLICT);
    assert!(
        late.body.contains("<hx-partial hx-target=\"#approval-")
            && late.body.contains("Already denied by admin")
    );
    assert!(!server.folder().join("sandbox/notes.txt").exists());

    for (path, fields, status) in [
        (address.as_str(), &[("version", "x")][..], StatusCode::BAD_REQUEST),
        (address.as_str(), &[], StatusCode::BAD_REQUEST),
        ("/approvals/not-an-id/approve", &stale, StatusCode::NOT_FOUND),
        ("/approvals/01a22eb2-d3eb-74c4-ad6b-9a3850c8d4e1/deny", &stale, StatusCode::NOT_FOUND),
    ] {
        browser.request(Method::POST, path, fields).await.expect_status(status);
    }
}

#[tokio::test]
async fn fifty_answers_at_once_are_one_decision() {
    let server = Server::start().await;
    let browser = Browser::signed_in(&server).await;
    let held = hold(&browser, "write notes.txt: some text").await;
    let page = browser.get("/approvals").await;
    let forms = [page.form("form[action$='/approve']"), page.form("form[action$='/deny']")];
    let answers = (0..50).map(|n| {
        let (browser, form) = (browser.htmx("pending"), forms[n % 2].clone());
        async move { browser.submit(&form).await.status }
    });
    let statuses = futures::future::join_all(answers).await;
    assert_eq!(statuses.iter().filter(|status| **status == StatusCode::OK).count(), 1, "{statuses:?}");
    assert!(
        statuses.iter().all(|status| matches!(*status, StatusCode::OK | StatusCode::CONFLICT)),
        "{statuses:?}"
    );
    let page = until_idle(&browser, &held.chat).await;
    let ran = server.folder().join("sandbox/notes.txt").exists();
    assert_eq!(states(&page), [if ran { "completed" } else { "denied" }]);
}

/// F28: what the approver reads is what would run, hidden characters included.
#[tokio::test]
async fn f28_the_card_shows_everything_as_it_is() {
    let server = Server::start().await;
    let browser = Browser::signed_in(&server).await;
    let content = "all good\u{202E}gnp.exe \u{200B}\u{1B}[31m p\u{0430}ypal \u{E0068}\u{E0069}";
    hold(&browser, &format!("write notes.txt: {content}")).await;
    let page = browser.get("/approvals").await;
    let marks = page.texts("article mark.unseen");
    for mark in ["RLO", "ZWSP", "ESC", "\u{0430}", "hidden: hi"] {
        assert!(marks.iter().any(|text| text == mark), "{mark} is not among {marks:?}");
    }
    assert!(
        !page.body.contains('\u{202E}') && !page.body.contains('\u{1B}'),
        "a hidden character reached the page"
    );
    assert!(page.text("article .notice").contains("turn the direction of writing"));
    assert_eq!(page.texts("article .args dt").first().map(String::as_str), Some("path"), "destination first");
}

/// F35: what people write is text everywhere, in whole pages and in fragments.
#[tokio::test]
async fn f35_text_of_others_is_never_markup() {
    let server = Server::start().await;
    let browser = Browser::signed_in(&server).await;
    let hostile = "<script>alert(1)</script><img src=x onerror=alert(1)>\" hx-get=\"/x\" hx-trigger=\"load";
    let held = hold(&browser, &format!("write notes.txt: {hostile}")).await;
    for path in [held.chat.as_str(), "/approvals", "/agent", &format!("/approvals/{}", held.approval)] {
        let page = browser.get(path).await.expect_status(StatusCode::OK);
        assert!(
            !page.has("img") && !page.has("[onerror]") && !page.has("[hx-get]"),
            "{path}:\n{}",
            page.body
        );
        assert_eq!(
            page.attributes("script", "src").len(),
            page.texts("script").len(),
            "an inline script in {path}"
        );
        assert!(page.texts("script").iter().all(String::is_empty), "an inline script in {path}");
        assert!(!page.has("[style]") && !page.has("style"), "inline style in {path}");
        let policy = page.header("content-security-policy").unwrap();
        assert!(policy.starts_with("default-src 'none'") && !policy.contains("unsafe"), "{policy}");
    }
    let page = browser.get("/approvals").await;
    let deny = page.form("form[action$='/deny']").set("reason", hostile);
    let fragments = browser.htmx("pending").submit(&deny).await.expect_status(StatusCode::OK);
    assert!(!fragments.body.contains("<script") && !fragments.body.contains("<img"), "{}", fragments.body);
}

#[tokio::test]
async fn a_program_that_asks_for_json_waits_for_the_turn() {
    let server = Server::start().await;
    let browser = Browser::signed_in(&server).await;
    let chat = begin(&browser, "").await;
    let answer = browser
        .post_json(&format!("{chat}/messages"), &serde_json::json!({ "text": "list the files" }))
        .await;
    let answer = answer.expect_status(StatusCode::OK).json();
    assert!(!answer["reply"].as_str().unwrap().is_empty());
    assert_eq!(answer["calls"][0]["state"], "completed", "{answer}");
    assert!(answer["usage"]["total"].as_u64().unwrap() > 0);
    for (text, status) in [(String::new(), 400), ("x".repeat(40_000), 400), ("x".repeat(2_000_000), 413)] {
        let problem =
            browser.post_json(&format!("{chat}/messages"), &serde_json::json!({ "text": text })).await;
        assert_eq!(problem.status.as_u16(), status, "{}", problem.body);
        assert_eq!(problem.header("content-type"), Some("application/problem+json"));
    }
    let problem = browser.post_json("/agent/nowhere/messages", &serde_json::json!({ "text": "x" })).await;
    assert_eq!(problem.json()["status"], 404);
}

#[tokio::test]
async fn stop_withdraws_what_is_held() {
    let server = Server::start().await;
    let browser = Browser::signed_in(&server).await;
    let held = hold(&browser, "write notes.txt: some text").await;
    // While a turn runs another message is refused, and kept out of the transcript.
    let page = browser.get(&held.chat).await;
    let again = browser.submit(&page.form("form.composer").set("text", "and another")).await;
    assert_eq!(again.status, StatusCode::CONFLICT);
    browser.submit(&page.form("form#stop")).await.expect_status(StatusCode::OK);
    let page = until_idle(&browser, &held.chat).await;
    assert_eq!(states(&page), ["withdrawn"]);
    assert!(!page.body.contains("and another"));
    let approve = [("version", held.version.as_str())];
    let late =
        browser.request(Method::POST, &format!("/approvals/{}/approve", held.approval), &approve).await;
    assert_eq!(late.status, StatusCode::CONFLICT);
    assert!(!server.folder().join("sandbox/notes.txt").exists());
}

#[tokio::test]
async fn what_cannot_be_read_ends_in_a_page_that_says_so() {
    let server = Server::start().await;
    let browser = Browser::signed_in(&server).await;
    let host = server.url().strip_prefix("http://").unwrap().to_owned();
    let cookie: String = browser.cookies().iter().map(|(name, value)| format!("{name}={value}")).collect();
    let post = async |body: &[u8]| {
        let head = format!(
            "POST /agent HTTP/1.1\r\nHost: {host}\r\nOrigin: http://{host}\r\nCookie: {cookie}\r\nConnection: close\r\n\
             Content-Type: application/x-www-form-urlencoded\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        crate::access::raw(&host, &(head + std::str::from_utf8(body).unwrap())).await
    };
    for (body, status, says) in [
        ("text=%FF%FE", " 400 ", "not UTF-8"),
        ("text=a&text=b", " 400 ", "cannot be read"),
        (&format!("text={}", "x".repeat(1_100_000)), " 413 ", "too long"),
        (&format!("text={}", "x".repeat(40_000)), " 400 ", "40000"),
    ] {
        let answer = post(body.as_bytes()).await;
        let line = answer.lines().next().unwrap_or_default();
        assert!(line.contains(status), "{line} for {says}");
        assert!(answer.contains("<!doctype html>") && answer.contains(says), "{says} is not in\n{answer}");
    }
    for (path, status) in [
        ("/nowhere", 404),
        ("/approvals/x", 404),
        ("/agent/%FF", 404),
        ("/agent?q=%FF", 400),
        ("/agent/%00", 404),
        ("/events?page=nothing", 404),
        ("/static/0123456789abcdef/sluicegate.css", 404),
    ] {
        let page = browser.get(path).await;
        assert_eq!(page.status.as_u16(), status, "{path}");
        assert!(page.has("h1") && page.link("Go to the overview") == "/", "{path}: {}", page.body);
    }
    browser.get("/approvals").await.expect_status(StatusCode::OK);
}

#[tokio::test]
async fn static_files_are_kept_by_browsers_and_pages_are_not() {
    let server = Server::start().await;
    let browser = Browser::new(&server);
    let page = browser.get("/sign-in").await.expect_status(StatusCode::OK);
    assert_eq!(page.header("cache-control"), Some("no-store"));
    assert_eq!(page.header("x-content-type-options"), Some("nosniff"));
    let css = page.attributes("link[rel=stylesheet]", "href").remove(0);
    let file = browser.with_header("accept-encoding", "gzip").get(&css).await.expect_status(StatusCode::OK);
    assert_eq!(file.header("cache-control"), Some("public, max-age=31536000, immutable"));
    assert_eq!(file.header("content-encoding"), Some("gzip"));
    assert_eq!(file.header("content-type"), Some("text/css; charset=utf-8"));
    browser.get("/healthz").await.expect_status(StatusCode::OK);
    browser.get("/readyz").await.expect_status(StatusCode::OK);
}
