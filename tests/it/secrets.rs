//! F33: the product's own secrets end up in no record, error or page.

use crate::counting::IDLE;
use crate::harness::model::{Answer, ModelServer};
use crate::harness::page::Browser;
use crate::harness::server::Setup;
use reqwest::StatusCode;
use serde_json::json;

const MODEL_KEY: &str = "AIza-CANARY-model-0123456789";
const SECRETS: [&str; 6] = [
    MODEL_KEY,
    "CANARY-context7-0123456789",
    "CANARY-password-0123456789",
    "CANARY-query-0123456789",
    "CANARY-header-0123456789",
    "CANARY-child-0123456789",
];

/// The kind: a key that comes out through an error, an address, a child's noise or a debug line. Everything that the
/// product has written or shown is searched.
#[tokio::test]
async fn f33_the_products_own_secrets_are_nowhere() {
    let refusal = json!({"error": {
        "code": 400,
        "message": format!("API key not valid: {MODEL_KEY}"),
        "status": "INVALID_ARGUMENT",
        "details": [{"reason": "API_KEY_INVALID", "metadata": {"key": MODEL_KEY}}],
    }});
    let model = ModelServer::start([
        Answer::status(400, &refusal),
        Answer::status(403, format!("<html>{MODEL_KEY}</html>")),
        Answer::pieces([format!("data: {refusal}\r\n\r\n")]),
    ])
    .await;
    let script = "env >&2; echo \"it is $SECRET\" >&2; echo \"$SECRET\"; exit 3";
    let servers = json!({"mcpServers": {
        "noisy": {"command": "sh", "args": ["-c", script], "env": {"SECRET": SECRETS[5]}},
        "away": {
            "url": format!("http://127.0.0.1:9/mcp?token={}", SECRETS[3]),
            "headers": {"Authorization": format!("Bearer {}", SECRETS[4])},
        },
    }});
    let server = Setup::new()
        .file("mcp_servers.json", servers.to_string())
        .env("PATH", "/usr/bin:/bin")
        .env("GEMINI_API_KEY", MODEL_KEY)
        .env("GEMINI_BASE_URL", &model.base)
        .env("CONTEXT7_API_KEY", SECRETS[1])
        .env("LOG_FILTER", "trace")
        .start()
        .await;
    let browser = Browser::signed_in(&server).await;
    let mut seen = String::new();
    let mut chats = Vec::new();
    for _ in 0..3 {
        let form = browser.get("/agent").await.form("form.composer").set("text", "hello");
        let chat = browser.submit(&form).await.path;
        let failed = |page: &crate::harness::page::Page| page.has(IDLE) && page.has("#transcript .notice");
        seen.push_str(&browser.until(&chat, failed).await.body);
        chats.push(chat);
    }
    assert_eq!(model.received().len(), 3, "each failure was met");
    browser.until("/tools?server=noisy", |page| page.text("main").contains("it is")).await;
    browser.until("/tools?server=away", |page| page.text("main").contains("next try")).await;
    let pages = [
        "/",
        "/agent",
        "/approvals",
        "/policies",
        "/policies/export",
        "/policies/history",
        "/audit",
        "/audit/events",
        "/tools?server=noisy",
        "/tools?server=away",
        "/tools?server=context7",
        "/settings",
    ];
    for page in pages {
        seen.push_str(&browser.get(page).await.expect_status(StatusCode::OK).body);
    }
    let streams = [
        "/events".to_owned(),
        format!("/events?page=agent&conversation={}", chats[0].trim_start_matches("/agent/")),
    ];
    for stream in streams {
        let first = browser.events(&stream, None).await.next().await.unwrap();
        seen.push_str(first.data.as_deref().unwrap_or_default());
    }
    let folder = server.shared_folder();
    // While it runs, so that the write-ahead log is there too.
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder.path()).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.is_file() && name != "mcp_servers.json" {
            files.push((name, std::fs::read(&path).unwrap()));
        }
    }
    assert!(
        files.iter().any(|(name, _)| name.ends_with("-wal")),
        "{:?}",
        files.iter().map(|(name, _)| name).collect::<Vec<_>>()
    );
    let ended = server.stop().await;
    assert!(ended.log.len() > 10_000, "hardly anything was logged");
    files.push(("log".to_owned(), ended.log.into_bytes()));
    files.push(("output".to_owned(), ended.output.into_bytes()));
    files.push(("pages".to_owned(), seen.into_bytes()));
    for (name, bytes) in &files {
        for secret in SECRETS {
            let at = bytes.windows(secret.len()).position(|window| window == secret.as_bytes());
            let around = at.map(|at| {
                let from = at.saturating_sub(300);
                String::from_utf8_lossy(&bytes[from..(at + 100).min(bytes.len())]).into_owned()
            });
            assert_eq!(around, None, "{secret} is in {name}");
        }
    }
}

/// An address that holds a password is refused, without showing it.
#[tokio::test]
async fn f33_a_password_in_an_address_is_not_repeated() {
    let servers =
        json!({"mcpServers": {"away": {"url": format!("http://user:{}@127.0.0.1:9/mcp", SECRETS[2])}}});
    let ended =
        Setup::new().file("mcp_servers.json", servers.to_string()).env("LOG_FILTER", "trace").run().await;
    assert_eq!(ended.code(), Some(2), "{ended:?}");
    assert!(ended.log.contains("away") && !ended.log.contains(SECRETS[2]), "{}", ended.log);
}
