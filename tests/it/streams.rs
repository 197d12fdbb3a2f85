//! Live pages: what an event stream sends, and that nothing depends on it.

use crate::harness::page::{Browser, Page};
use crate::harness::server::{Server, command};
use crate::pages::{begin, hold};
use reqwest::StatusCode;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;

/// The elements that the fragments of a message are for.
fn targets(data: &str) -> Vec<String> {
    let targets = data.split("hx-target=\"#").skip(1);
    targets.filter_map(|rest| rest.split('"').next().map(str::to_owned)).collect()
}

/// F36: on connect the region is there as it is now; then each change, once, addressed by id and replacing.
#[tokio::test]
async fn f36_a_stream_begins_with_the_present_state_and_goes_on_with_changes() {
    let server = Server::start().await;
    let browser = Browser::signed_in(&server).await;
    let mut events = browser.events("/events?page=approvals", None).await;
    let first = events.next().await.unwrap();
    assert_eq!((first.event, first.id), (None, None), "messages are unnamed");
    let first = first.data.unwrap();
    assert!(first.contains("The inbox is clear"), "{first}");
    for target in ["nav-pending", "gate-status", "pending-count", "pending", "decided"] {
        assert!(targets(&first).iter().any(|found| found == target), "{target} is missing");
    }

    let held = hold(&browser, "write notes.txt: some text").await;
    let card = format!("id=\"approval-{}\"", held.approval);
    let message = events.next_with(|data| data.contains(&card)).await.data.unwrap();
    assert_eq!(message.matches(&card).count(), 1);
    assert!(message.contains("hx-target=\"#announce\""), "new cards are announced");
    assert!(message.contains(">1<span class=\"sr-only\"> waiting"), "{message}");
    assert!(!message.contains("beforeend"), "only text that is being written is appended");

    // While the stream was away one call was decided: a new stream, with and without an event id, shows that alone.
    drop(events);
    let page = browser.get("/approvals").await;
    browser.submit(&page.form("form[action$='/deny']")).await.expect_status(StatusCode::OK);
    for id in [None, Some("1")] {
        let mut events = browser.events("/events?page=approvals", id).await;
        let first = events.next().await.unwrap().data.unwrap();
        assert!(first.contains("The inbox is clear") && !first.contains(&card), "{first}");
        assert_eq!(first.matches(&held.approval).count(), 1, "once, in the list of decided calls");
    }
}

/// F36: what another process changes reaches an open page by itself too.
#[tokio::test]
async fn f36_an_import_by_another_process_refreshes_open_pages() {
    let server = Server::start().await;
    let browser = Browser::signed_in(&server).await;
    let mut events = browser.events("/events", None).await;
    let first = events.next().await.unwrap().data.unwrap();
    assert!(first.contains("Policy v1,"), "{first}");
    std::fs::write(server.folder().join("next.yaml"), "version: 1\nrules: []\n").unwrap();
    let imported = command(server.shared_folder(), &["policy", "import", "next.yaml"]).await;
    assert_eq!(imported.code(), Some(0), "{imported:?}");
    events.next_with(|data| data.contains("Policy v2,")).await;
}

#[tokio::test]
async fn f36_text_that_is_written_comes_in_pieces_and_a_late_page_gets_it_so_far() {
    let server = Server::start().await;
    let browser = Browser::signed_in(&server).await;
    let held = hold(&browser, "write notes.txt: some text").await;
    let stream = format!("/events?page=agent&conversation={}", held.chat.trim_start_matches("/agent/"));
    let mut events = browser.events(&stream, None).await;
    let first = events.next().await.unwrap().data.unwrap();
    assert!(
        first.contains("data-state=\"pending\"") && first.contains("hx-target=\"#transcript\""),
        "{first}"
    );

    let page = browser.get(&held.chat).await;
    browser.submit(&page.form("form[action$='/approve']")).await;
    // Put together as a page does: pieces are added, a turn that is sent whole replaces.
    let mut text = String::new();
    loop {
        let data = events.next().await.expect("the stream goes on").data.unwrap_or_default();
        if let Some(piece) =
            data.strip_prefix("<hx-partial hx-target=\"#stream-text\" hx-swap=\"beforeend\">")
        {
            text.push_str(piece.strip_suffix("</hx-partial>").unwrap());
            continue;
        }
        if let Some((_, rest)) = data.split_once("<p id=\"stream-text\">") {
            text = rest.split("</p>").next().unwrap_or_default().to_owned();
        }
        if data.contains("data-turn=\"idle\"") {
            break;
        }
    }
    let page = browser.get(&held.chat).await;
    let said = page.texts(".msg:not(.msg--user) p").pop().unwrap();
    let joined = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        text.is_empty() || said.starts_with(&joined) || joined.ends_with(&said),
        "live {joined:?}, then {said:?}"
    );
    assert!(!page.has("[aria-busy]"));
}

/// F36: pages beyond the limit of streams still load and can act.
#[tokio::test]
async fn f36_the_ninth_page_loads_and_acts_without_a_stream() {
    let server = Server::start().await;
    let browser = Browser::signed_in(&server).await;
    let mut open = Vec::new();
    for _ in 0..8 {
        let mut events = browser.events("/events?page=approvals", None).await;
        events.next().await.unwrap();
        open.push(events);
    }
    let refused = browser.with_header("hx-request", "true").get("/events?page=approvals").await;
    assert_eq!(refused.status, StatusCode::TOO_MANY_REQUESTS);
    let held = hold(&browser, "write notes.txt: some text").await;
    let page = browser.get("/approvals").await.expect_status(StatusCode::OK);
    browser.submit(&page.form("form[action$='/deny']")).await.expect_status(StatusCode::OK);
    browser.until(&held.chat, |page| page.attributes("#turn-state", "data-turn") == ["idle"]).await;
    // A page that goes gives its place to another.
    open.pop();
    for attempt in 0.. {
        if stream_status(&server, &browser).await == "200" {
            break;
        }
        assert!(attempt < 1_000, "the place never came back");
    }
}

/// The status of a new stream, read off its first line; the stream itself is given up.
async fn stream_status(server: &Server, browser: &Browser) -> String {
    let host = server.url().strip_prefix("http://").unwrap();
    let cookie: String = browser.cookies().iter().map(|(name, value)| format!("{name}={value}")).collect();
    let mut connection = TcpStream::connect(host).await.unwrap();
    let request = format!("GET /events HTTP/1.1\r\nHost: {host}\r\nCookie: {cookie}\r\n\r\n");
    connection.write_all(request.as_bytes()).await.unwrap();
    let mut line = String::new();
    let read = BufReader::new(connection).read_line(&mut line).await;
    assert!(read.is_ok(), "{read:?}");
    line.split(' ').nth(1).unwrap_or_default().to_owned()
}

#[tokio::test]
async fn streams_end_with_the_session_and_with_the_product() {
    let server = Server::start().await;
    let browser = Browser::signed_in(&server).await;
    let mut events = browser.events("/events", None).await;
    events.next().await.unwrap();
    let page = browser.get("/approvals").await;
    browser.submit(&page.form("form[action='/sign-out']")).await;
    while events.next().await.is_some() {}

    let server = server.restart().await;
    let browser = Browser::signed_in(&server).await;
    let mut events = browser.events("/events", None).await;
    events.next().await.unwrap();
    let started = std::time::Instant::now();
    let ended = server.stop().await;
    assert_eq!(ended.code(), Some(0), "{}", ended.log);
    assert!(started.elapsed() < std::time::Duration::from_secs(20), "an open stream held up the end");
    while let Some(message) = events.next().await {
        assert!(message.data.is_some());
    }
}

/// The trail's first page shows calls as they pass; a page that looks for something stays as it is.
#[tokio::test]
async fn calls_that_pass_are_shown_on_the_open_trail() {
    let server = Server::start().await;
    let browser = Browser::signed_in(&server).await;
    let stream = |page: &Page| page.attributes("#events", "hx-sse:connect").remove(0);
    let address = stream(&browser.get("/audit").await);
    assert_eq!(address, "/events?page=audit");
    assert_eq!(stream(&browser.get("/audit?q=x").await), "/events");
    let mut events = browser.events(&address, None).await;
    events.next_with(|data| data.contains("No tool has been asked for yet")).await;
    begin(&browser, "list the files").await;
    let message = events.next_with(|data| data.contains("list_files")).await;
    assert!(message.data.unwrap().contains("hx-target=\"#results\""));
}
