//! Servers that others wrote, behind the gate: the reference filesystem server from npm and the clock from PyPI. They are
//! installed by `tests/upstreams/run`, which runs these tests; nothing else does, since they need more than Rust.

#![expect(
    clippy::disallowed_methods,
    reason = "where the servers stand is told by the script that installs them"
)]

use crate::harness::model::{Answer, ModelServer, Received};
use crate::harness::page::{Browser, Page};
use crate::harness::server::{Server, Setup};
use serde_json::{Value, json};
use std::path::PathBuf;

/// Reading is free, making folders is held, writing is blocked; of the clock only the present time is allowed.
const RULES: &str = r#"
version: 1
rules:
  - { id: looking, kind: allow_tool, match: { server: filesystem, tool: [list_directory, read_text_file] } }
  - { id: folders, kind: require_approval, match: { server: filesystem, tool: create_directory } }
  - { id: writing, kind: block_tool, match: { server: filesystem, tool: write_file } }
  - { id: now, kind: allow_tool, match: { server: time, tool: get_current_time } }
"#;

/// Both servers behind a running gate, and a conversation about them.
struct House {
    server: Server,
    browser: Browser,
    /// The folder that the filesystem server may touch.
    folder: tempfile::TempDir,
    chat: String,
    _model: ModelServer,
}

impl House {
    async fn start() -> Self {
        let installed = PathBuf::from(
            std::env::var_os("REAL_SERVERS").expect("REAL_SERVERS: tests/upstreams/run sets it to a folder"),
        );
        let folder = tempfile::tempdir().unwrap();
        let program = installed.join("node_modules/@modelcontextprotocol/server-filesystem/dist/index.js");
        let servers = json!({ "mcpServers": {
            "filesystem": { "command": "node", "args": [program, folder.path()] },
            "time": { "command": installed.join("venv/bin/mcp-server-time"), "args": ["--local-timezone", "UTC"] },
        }});
        let model = ModelServer::answering(answer).await;
        let server = Setup::new()
            .env("PATH", &std::env::var("PATH").unwrap())
            .env("GEMINI_API_KEY", "test-key")
            .env("GEMINI_BASE_URL", &model.base)
            .file("mcp_servers.json", servers.to_string())
            .file("policy_rules.yaml", RULES)
            .start()
            .await;
        let browser = Browser::signed_in(&server).await;
        for (server, tools) in
            [("filesystem", ["read_text_file", "write_file"]), ("time", ["get_current_time", "convert_time"])]
        {
            let listed = |page: &Page| tools.iter().all(|tool| page.body.contains(tool));
            browser.until(&format!("/tools?server={server}"), listed).await;
        }
        let start = browser.get("/agent").await;
        let chat = browser.submit(&start.form("form.composer").set("text", "hello")).await.path;
        let house = Self { server, browser, folder, chat, _model: model };
        house.until_idle().await;
        house
    }

    async fn until_idle(&self) -> Page {
        self.browser.until(&self.chat, |page| page.attributes("#turn-state", "data-turn") == ["idle"]).await
    }

    fn path(&self, name: &str) -> String {
        self.folder.path().join(name).to_str().unwrap().to_owned()
    }

    /// Has the model call a tool; gives the call's state and reason, and what the model was told.
    async fn call(&self, tool: &str, arguments: Value) -> (String, String) {
        let text = json!({ "text": format!("{tool} {arguments}") });
        let answer = self.browser.post_json(&format!("{}/messages", self.chat), &text).await.json();
        let state = answer["calls"][0]["state"].as_str();
        let state = state.unwrap_or_else(|| panic!("no call: {answer}\n{}", self.server.log()));
        (state.to_owned(), answer["reply"].as_str().unwrap().to_owned())
    }
}

#[tokio::test]
#[ignore = "needs servers from npm and PyPI; tests/upstreams/run installs them and runs it"]
async fn the_reference_filesystem_server_runs_behind_the_gate() {
    let house = House::start().await;
    std::fs::write(house.path("notes.txt"), "the sluice is open").unwrap();

    let (state, told) = house.call("list_directory", json!({ "path": house.path("") })).await;
    assert_eq!(state, "completed", "{told}");
    assert!(told.contains("[FILE] notes.txt"), "{told}");
    let (state, told) = house.call("read_text_file", json!({ "path": house.path("notes.txt") })).await;
    assert_eq!(state, "completed", "{told}");
    assert!(told.contains("the sluice is open"), "{told}");

    let written = json!({ "path": house.path("notes.txt"), "content": "shut" });
    let (state, told) = house.call("write_file", written).await;
    assert_eq!(state, "denied", "{told}");
    // No rule names this one.
    let moved = json!({ "source": house.path("notes.txt"), "destination": house.path("gone.txt") });
    let (state, told) = house.call("move_file", moved).await;
    assert_eq!(state, "denied", "{told}");
    assert_eq!(std::fs::read_to_string(house.path("notes.txt")).unwrap(), "the sluice is open");
    // Outside its folder the server refuses by itself: an answer like any other.
    let (state, told) = house.call("read_text_file", json!({ "path": "/etc/hostname" })).await;
    assert_eq!(state, "failed", "{told}");
    // Arguments are held against the server's own schema before anything is sent.
    let (state, told) = house.call("read_text_file", json!({ "file": "notes.txt" })).await;
    assert_eq!(state, "denied", "{told}");
}

#[tokio::test]
#[ignore = "needs servers from npm and PyPI; tests/upstreams/run installs them and runs it"]
async fn a_held_call_of_a_server_of_others_runs_after_a_yes() {
    let house = House::start().await;
    let text = format!("create_directory {}", json!({ "path": house.path("new") }));
    let page = house.browser.get(&house.chat).await;
    house.browser.submit(&page.form("form.composer").set("text", &text)).await;
    let held = house.browser.until(&house.chat, |page| page.has("form[action$='/approve']")).await;
    assert!(!PathBuf::from(house.path("new")).exists(), "it ran without a yes");
    let mut form = held.form("form[action$='/approve']");
    for name in held.attributes("form[action$='/approve'] input[type=checkbox]", "name") {
        form = form.choose(&name, "yes");
    }
    house.browser.submit(&form).await;
    let page = house.until_idle().await;
    assert_eq!(page.attributes("#transcript li[data-state]", "data-state"), ["completed"]);
    assert!(PathBuf::from(house.path("new")).is_dir());
}

#[tokio::test]
#[ignore = "needs servers from npm and PyPI; tests/upstreams/run installs them and runs it"]
async fn the_clock_from_pypi_runs_behind_the_gate() {
    let house = House::start().await;
    let (state, told) = house.call("get_current_time", json!({ "timezone": "Asia/Tokyo" })).await;
    assert_eq!(state, "completed", "{told}");
    assert!(told.contains("+09:00"), "{told}");
    let asked = json!({ "source_timezone": "UTC", "time": "12:00", "target_timezone": "Asia/Tokyo" });
    let (state, told) = house.call("convert_time", asked).await;
    assert_eq!(state, "denied", "{told}");
    assert!(!told.contains("21:00"), "{told}");
}

/// `TOOL {arguments}` becomes a call; whatever it came to is repeated as it was told.
fn answer(received: &Received) -> Answer {
    let request: Value = received.json();
    let last = request["contents"].as_array().and_then(|contents| contents.last()).cloned();
    let part = last.unwrap_or_default()["parts"][0].clone();
    let wanted = part["text"].as_str().and_then(|text| text.split_once(" {"));
    let parts = match wanted {
        Some((tool, rest)) => {
            let declared =
                request["tools"][0]["functionDeclarations"].as_array().expect("tools are declared");
            let mut names = declared.iter().filter_map(|declared| declared["name"].as_str());
            let name = names.find(|name| name.ends_with(&format!("__{tool}")));
            let arguments: Value = serde_json::from_str(&format!("{{{rest}")).expect("arguments");
            json!([{
                "functionCall": { "name": name.expect("the tool is declared"), "args": arguments },
                "thoughtSignature": "c2ln",
            }])
        }
        None => json!([{ "text": part["functionResponse"]["response"].to_string() }]),
    };
    Answer::events([json!({
        "candidates": [{ "content": { "role": "model", "parts": parts }, "finishReason": "STOP", "index": 0 }],
        "usageMetadata": { "promptTokenCount": 20, "candidatesTokenCount": 5, "totalTokenCount": 25 },
    })])
}
