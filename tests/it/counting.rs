//! A house with a tool whose effects are counted on disk, and a scripted model that asks for it: `add NAME`, or for
//! anything at all: `call {"name": …, "args": …}`.

use crate::harness::model::{Answer, ModelServer, Received};
use crate::harness::page::{Browser, Form, Page};
use crate::harness::server::{Server, Setup};
use serde_json::{Value, json};
use std::path::PathBuf;

/// The tool is held for a person.
pub(crate) const HELD: &str = r#"
version: 1
rules:
  - { id: counted, kind: require_approval, match: { server: counting, tool: add } }
"#;

/// The tool runs at once.
pub(crate) const ALLOWED: &str = r#"
version: 1
rules:
  - { id: counted, kind: allow_tool, match: { server: counting, tool: add } }
"#;

/// The conversation takes a message.
pub(crate) const IDLE: &str = "form.composer button[aria-label='Send']:not([disabled])";

pub(crate) struct Counting {
    pub(crate) server: Server,
    pub(crate) browser: Browser,
    counter: tempfile::TempPath,
    _model: ModelServer,
}

/// The example beside this test's own program.
fn counting_server() -> PathBuf {
    let mut path = std::env::current_exe().expect("this test's own path");
    path.pop();
    path.pop();
    path.push("examples/counting_server");
    assert!(path.exists(), "{} is missing: run all targets, as `cargo test` does", path.display());
    path
}

impl Counting {
    /// Starts with the given rules; `prepare` may add to the settings.
    pub(crate) async fn start(rules: &str, prepare: impl FnOnce(Setup) -> Setup) -> Self {
        let model = ModelServer::answering(answer).await;
        let setup = Setup::new();
        let counter = tempfile::Builder::new().prefix("counter").tempfile().expect("a file").into_temp_path();
        let servers = json!({"mcpServers": {"counting": {"command": counting_server(), "args": [counter.as_os_str().to_str()]}}});
        let setup = setup
            .file("mcp_servers.json", servers.to_string())
            .file("policy_rules.yaml", rules)
            .env("GEMINI_API_KEY", "test-key")
            .env("GEMINI_BASE_URL", &model.base);
        let server = prepare(setup).start().await;
        let browser = Browser::signed_in(&server).await;
        offered(&browser).await;
        Self { server, browser, counter, _model: model }
    }

    /// The same house after its process has died and was started again, without the crash point.
    pub(crate) async fn again(self, setup: Setup) -> Self {
        let Self { server, browser: _, counter, _model } = self;
        let folder = server.shared_folder();
        let ended = server.ended().await;
        assert_eq!(ended.code(), None, "it should have died by a signal: {ended:?}");
        let setup = setup.env("GEMINI_API_KEY", "test-key").env("GEMINI_BASE_URL", &_model.base);
        let server = setup.start_in(folder).await;
        let browser = Browser::signed_in(&server).await;
        offered(&browser).await;
        Self { server, browser, counter, _model }
    }

    /// How often the tool had its effect for this name.
    pub(crate) fn effects(&self, name: &str) -> usize {
        self.lines().lines().filter(|line| *line == name).count()
    }

    /// How often it had its effect at all.
    pub(crate) fn all_effects(&self) -> usize {
        self.lines().lines().count()
    }

    fn lines(&self) -> String {
        std::fs::read_to_string(&self.counter).unwrap_or_default()
    }

    /// Opens a conversation with its first message and gives its page.
    pub(crate) async fn converse(&self, text: &str) -> Page {
        let form = self.new_conversation().await;
        self.browser.submit(&form.set("text", text)).await
    }

    /// The form that begins a conversation.
    pub(crate) async fn new_conversation(&self) -> Form {
        self.browser.get("/agent").await.form("form.composer")
    }

    /// Waits until the last call of a conversation is in this state.
    pub(crate) async fn becomes(&self, address: &str, state: &str) -> Page {
        self.browser.until(address, |page| states(page).last().map(String::as_str) == Some(state)).await
    }

    /// Waits until a call is held and gives the inbox.
    pub(crate) async fn held(&self) -> Page {
        self.browser.until("/approvals", |page| page.has("form[action$='/approve']")).await
    }
}

async fn offered(browser: &Browser) {
    browser.until("/tools?server=counting", |page| page.has("#catalogue tbody tr")).await;
}

/// The states of the calls in a transcript, in order.
pub(crate) fn states(page: &Page) -> Vec<String> {
    page.attributes("#transcript li[data-state]", "data-state")
}

/// The form that approves the one held call of a page, with every box ticked that it asks for.
pub(crate) fn approved(page: &Page) -> Form {
    let mut form = page.form("form[action$='/approve']");
    for name in page.attributes("form[action$='/approve'] input[type=checkbox]", "name") {
        form = form.choose(&name, "yes");
    }
    form
}

/// `add NAME` becomes a call, and so does `call JSON`, with `$TOOL` for the tool's name as the model knows it; whatever
/// it came to is told in a sentence.
fn answer(received: &Received) -> Answer {
    let request: Value = received.json();
    let last =
        request["contents"].as_array().and_then(|contents| contents.last()).cloned().unwrap_or_default();
    let part = last["parts"].as_array().and_then(|parts| parts.first()).cloned().unwrap_or_default();
    let tool = || {
        let declared = request["tools"][0]["functionDeclarations"].as_array().into_iter().flatten();
        let mut names = declared.filter_map(|tool| tool["name"].as_str());
        names.find(|tool| tool.contains("counting")).expect("the counting tool is declared to the model")
    };
    let text = part["text"].as_str().unwrap_or_default();
    let call = match (text.strip_prefix("add "), text.strip_prefix("call ")) {
        (Some(name), _) => Some(json!({"name": tool(), "args": {"line": name}})),
        (None, Some(call)) => Some(serde_json::from_str(&call.replace("$TOOL", tool())).expect("a call")),
        (None, None) => None,
    };
    let parts = match call {
        Some(call) => json!([{"functionCall": call, "thoughtSignature": "c2ln"}]),
        None => json!([{"text": "That is what came of it."}]),
    };
    Answer::events([json!({
        "candidates": [{"content": {"role": "model", "parts": parts}, "finishReason": "STOP", "index": 0}],
        "usageMetadata": {"promptTokenCount": 20, "candidatesTokenCount": 5, "totalTokenCount": 25},
    })])
}
