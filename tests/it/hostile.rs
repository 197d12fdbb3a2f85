//! F35: text from servers, models and people is shown as text, in every place where it is shown at all.

use crate::harness::model::{Answer, ModelServer, Received};
use crate::harness::page::{Browser, Page};
use crate::harness::server::Setup;
use reqwest::StatusCode;
use reqwest::header::HeaderMap;
use serde_json::{Value, json};

/// Breaks out of text, attributes, text areas, scripts, comments, events and templates, if anything lets it.
const HOSTILE: &str = "<script>alert(1)</script><img src=x onerror=alert(1)>\" hx-get=\"/x\" hx-trigger=\"load\
                       </textarea></title></svg><a href=\"javascript:alert(1)\">{{7*7}}${7*7} --><!-- ";
/// The same, for what may hold line ends.
const BREAKS: &str = "\n\nevent: broken\ndata: <script>alert(2)</script>\r\rid: 7\r\n\r\n<hx-partial hx-target=\"#main\">out</hx-partial>";

fn text() -> String {
    format!("{HOSTILE}{BREAKS}{}", "w".repeat(10_000))
}

/// The message `N` asks for the tool whose declared name contains it, with hostile arguments; any result is answered
/// with hostile words.
fn answer(received: &Received) -> Answer {
    let request: Value = received.json();
    let last =
        request["contents"].as_array().and_then(|contents| contents.last()).cloned().unwrap_or_default();
    let said = last["parts"][0]["text"].as_str().unwrap_or_default().to_owned();
    let declared = request["tools"][0]["functionDeclarations"].as_array().cloned().unwrap_or_default();
    let find = |wanted: &dyn Fn(&str) -> bool| {
        let mut names = declared.iter().filter_map(|tool| tool["name"].as_str());
        names.find(|name| name.contains("hostile") && wanted(name)).map(str::to_owned)
    };
    let result = json!({
        "content": [{"type": "text", "text": text()}, {"type": "resource_link", "uri": "javascript:alert(1)", "name": HOSTILE}],
        "structuredContent": {HOSTILE: HOSTILE},
        "isError": said.contains("fails"),
    });
    let line = format!("{{\"jsonrpc\":\"2.0\",\"id\":$ID,\"result\":{result}}}");
    let call = match said.split_whitespace().next().unwrap_or_default() {
        "held" => find(&|name| !name.contains("raw") && !name.contains("refuse"))
            .map(|name| json!({"name": name, "args": {HOSTILE: text(), "path": HOSTILE, "list": [HOSTILE, {"deep": BREAKS}]}})),
        "raw" => find(&|name| name.contains("raw")).map(|name| json!({"name": name, "args": {"line": line}})),
        "refuse" => find(&|name| name.contains("refuse")).map(|name| json!({"name": name, "args": {"message": HOSTILE}})),
        "unknown" => Some(json!({"name": HOSTILE, "args": {HOSTILE: HOSTILE}})),
        _ => None,
    };
    let parts = match call {
        Some(call) => json!([{"text": text()}, {"functionCall": call}]),
        None => json!([{"text": HOSTILE, "thought": true}, {"text": text()}]),
    };
    Answer::events([json!({
        "candidates": [{"content": {"role": "model", "parts": parts}, "finishReason": "STOP", "index": 0}],
        "usageMetadata": {"promptTokenCount": 20, "candidatesTokenCount": 5, "totalTokenCount": 25},
    })])
}

fn assert_text(page: &Page) {
    let at = &page.path;
    for css in [
        "img",
        "[onerror]",
        "[hx-get]",
        "[hx-trigger=load]",
        "a[href^=javascript]",
        "style",
        "[style]",
        "iframe",
    ] {
        assert!(!page.has(css), "`{css}` in {at}:\n{}", page.body);
    }
    assert!(page.texts("script").iter().all(String::is_empty), "an inline script in {at}:\n{}", page.body);
    let scripts = page.attributes("script", "src");
    assert!(scripts.iter().all(|source| source.starts_with("/static/")), "{scripts:?} in {at}");
    assert!(!page.body.contains("$49") && !page.body.contains(">49"), "a template was run in {at}");
}

/// Everything that a page's stream says first, as a page.
async fn stream(browser: &Browser, path: &str) -> Page {
    let mut events = browser.events(path, None).await;
    let first = events.next().await.unwrap();
    assert_eq!(
        (first.event.as_deref(), first.id.as_deref()),
        (None, None),
        "a message was broken out of: {path}"
    );
    Page {
        status: StatusCode::OK,
        address: path.to_owned(),
        path: path.to_owned(),
        headers: HeaderMap::new(),
        body: first.data.unwrap(),
    }
}

#[tokio::test]
async fn f35_hostile_text_is_text_on_every_page_and_in_every_stream() {
    let model = ModelServer::answering(answer).await;
    let mut scripted = std::env::current_exe().unwrap();
    scripted.pop();
    scripted.pop();
    scripted.push("examples/scripted_child");
    let schema = json!({"type": "object", "description": HOSTILE, "properties": {HOSTILE: {"type": "string", "title": HOSTILE}}});
    let tool = |name: &str| json!({"name": name, "title": HOSTILE, "description": text(), "inputSchema": schema, "annotations": {"title": HOSTILE}});
    let script = json!({"pages": [[tool(HOSTILE), tool("raw"), tool("refuse")]], "start": [HOSTILE, format!("<b>{HOSTILE}</b>")]});
    let servers = json!({"mcpServers": {"hostile": {"command": scripted, "args": [script.to_string()]}}});
    let rules = json!({"version": 1, "rules": [
        {"id": "runs", "kind": "allow_tool", "description": HOSTILE, "match": {"server": "hostile", "tool": ["raw", "refuse"]}},
        {"id": "waits", "kind": "require_approval", "description": HOSTILE, "match": {"server": "hostile", "tool": HOSTILE}},
    ]});
    let server = Setup::new()
        .file("mcp_servers.json", servers.to_string())
        .file("policy_rules.yaml", rules.to_string())
        .env("GEMINI_API_KEY", "test-key")
        .env("GEMINI_BASE_URL", &model.base)
        .start()
        .await;
    let browser = Browser::signed_in(&server).await;
    browser.until("/tools?server=hostile", |page| page.has("#catalogue tbody tr")).await;
    let mut places = Vec::new();
    let ended = |page: &Page| page.attributes("#turn-state", "data-turn") == ["idle"];
    for ask in ["raw", "raw fails", "refuse", "unknown"] {
        let form = browser.get("/agent").await.form("form.composer").set("text", &format!("{ask} {HOSTILE}"));
        let chat = browser.submit(&form).await.path;
        let page = browser.until(&chat, |page| ended(page) && page.has("#transcript li[data-state]")).await;
        places.extend(page.attributes("#transcript a[href^='/audit/calls/']", "href"));
        places.push(chat);
    }
    let form = browser.get("/agent").await.form("form.composer").set("text", &format!("held {HOSTILE}"));
    let chat = browser.submit(&form).await.path;
    let inbox = browser.until("/approvals", |page| page.has("form[action$='/deny']")).await;
    let approval = inbox.attributes("article[data-approval]", "data-approval").remove(0);
    let open = [
        chat.clone(),
        "/".to_owned(),
        "/agent".to_owned(),
        "/approvals".to_owned(),
        format!("/approvals/{approval}"),
    ];
    for place in &open {
        assert_text(&browser.get(place).await.expect_status(StatusCode::OK));
    }
    let live = [
        "/events".to_owned(),
        "/events?page=approvals".to_owned(),
        format!("/events?page=approval&approval={approval}"),
        format!("/events?page=agent&conversation={}", chat.trim_start_matches("/agent/")),
    ];
    for place in &live {
        assert_text(&stream(&browser, place).await);
    }
    let bare = inbox.form("form[action$='/approve']");
    assert_text(&browser.htmx("pending").submit(&bare).await.expect_status(StatusCode::UNPROCESSABLE_ENTITY));
    let deny = inbox.form("form[action$='/deny']").set("reason", HOSTILE);
    assert_text(&browser.htmx("pending").submit(&deny).await.expect_status(StatusCode::OK));
    let page = browser.until(&chat, ended).await;
    places.extend(page.attributes("#transcript a[href^='/audit/calls/']", "href"));
    places.extend(open);
    places.extend(
        [
            "/policies",
            "/policies/waits",
            "/policies/history",
            "/audit",
            "/audit/events",
            "/tools?server=hostile",
            "/settings",
        ]
        .map(str::to_owned),
    );
    for place in &places {
        assert_text(&browser.get(place).await.expect_status(StatusCode::OK));
    }
    for place in &live {
        assert_text(&stream(&browser, place).await);
    }
    // The very text is there to be read.
    assert!(browser.get("/tools?server=hostile").await.text("main").contains("<img src=x onerror=alert(1)>"));
}
