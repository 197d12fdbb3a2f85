//! `sluicegate stdio`: clients that speak nothing else reach the same server, in either era.

use crate::counting::{Counting, approved};
use crate::harness::mcp::key;
use crate::harness::server::Server;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::process::Stdio;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::time::timeout;

const WAITED_FOR: &str = r#"
version: 1
tiers:
  - { server: counting, tool: add, tier: moderate }
rules:
  - { id: counted, kind: require_approval, match: { server: counting, tool: add } }
"#;

struct Bridge {
    child: Child,
    input: Option<ChildStdin>,
    output: Lines<BufReader<ChildStdout>>,
    /// Answers that came before the one that was waited for.
    early: BTreeMap<String, Value>,
}

impl Bridge {
    #[expect(clippy::disallowed_methods, reason = "tests start the product")]
    fn start(url: &str, key: &str) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_sluicegate"))
            .args(["stdio", "--url", url])
            .env("SLUICEGATE_KEY", key)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .expect("the bridge");
        let input = child.stdin.take();
        let output = BufReader::new(child.stdout.take().expect("its output")).lines();
        Self { child, input, output, early: BTreeMap::new() }
    }

    async fn say(&mut self, message: &Value) {
        let line = format!("{message}\n");
        self.input.as_mut().expect("an open input").write_all(line.as_bytes()).await.expect("a reader");
    }

    async fn ask(&mut self, id: Value, method: &str, params: Value) -> Value {
        self.say(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })).await;
        self.answer(&id).await
    }

    async fn answer(&mut self, id: &Value) -> Value {
        loop {
            if let Some(answer) = self.early.remove(&id.to_string()) {
                return answer;
            }
            let line =
                timeout(Duration::from_secs(60), self.output.next_line()).await.expect("an answer in time");
            let message: Value =
                serde_json::from_str(&line.expect("text").expect("an open output")).expect("JSON");
            if message.get("method").is_none() {
                self.early.insert(message["id"].to_string(), message);
            }
        }
    }

    async fn opened(&mut self) {
        let params = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "t", "version": "1" } });
        let opened = self.ask(json!(0), "initialize", params).await;
        assert_eq!(opened["result"]["serverInfo"]["name"], "sluicegate", "{opened}");
        self.say(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" })).await;
    }

    /// The client goes; the bridge ends by itself.
    async fn close(mut self) {
        self.input.take();
        let ended = timeout(Duration::from_secs(60), self.child.wait()).await.expect("an end in time");
        assert!(ended.expect("a status").success());
    }
}

fn described(params: Value) -> Value {
    let mut params = params;
    params["_meta"]["io.modelcontextprotocol/protocolVersion"] = json!("2026-07-28");
    params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = json!({});
    params
}

#[tokio::test]
async fn a_client_of_stdio_lists_and_calls_in_both_eras() {
    let server = Server::start().await;
    let token = key(&server, "tester", &[]).await;
    let mut bridge = Bridge::start(&format!("{}/mcp", server.url()), &token);
    bridge.opened().await;
    assert_eq!(bridge.ask(json!("p"), "ping", json!({})).await["result"], json!({}));
    let new = bridge.ask(json!(1), "server/discover", described(json!({}))).await;
    assert_eq!(new["result"]["supportedVersions"], json!(["2026-07-28"]), "{new}");
    let refused = json!({ "name": "nothing", "arguments": {} });
    for params in [refused.clone(), described(refused)] {
        let denied = bridge.ask(json!(2), "tools/call", params).await;
        assert_eq!(denied["result"]["_meta"]["sluicegate/status"]["code"], "unknown_tool", "{denied}");
    }
    assert_eq!(bridge.ask(json!(3), "prompts/list", json!({})).await["error"]["code"], -32601);
    bridge.say(&json!("no message")).await;
    assert_eq!(bridge.answer(&Value::Null).await["error"]["code"], -32600);
    bridge.close().await;
}

#[tokio::test]
async fn a_bridge_with_a_wrong_key_or_address_says_so_in_answers() {
    let server = Server::start().await;
    let mut bridge = Bridge::start(&format!("{}/mcp", server.url()), "sg_wrong");
    let answer = bridge.ask(json!(1), "initialize", json!({ "protocolVersion": "2025-11-25" })).await;
    assert!(answer["error"]["message"].as_str().unwrap().contains("does not accept this key"), "{answer}");
    bridge.close().await;
    let mut bridge = Bridge::start("http://127.0.0.1:1/mcp", "sg_wrong");
    let answer = bridge.ask(json!(1), "initialize", json!({})).await;
    assert!(answer["error"]["message"].as_str().unwrap().contains("cannot be reached"), "{answer}");
    bridge.close().await;
}

/// F21 through the bridge: an approved call answers; a cancelled one, and one whose client went away, is withdrawn.
#[tokio::test]
async fn f21_a_call_held_through_the_bridge_follows_its_client() {
    let house = Counting::start(WAITED_FOR, |setup| setup).await;
    let token = key(&house.server, "tester", &[]).await;
    let url = format!("{}/mcp/counting", house.server.url());
    let call = |line: &str| json!({ "name": "add", "arguments": { "line": line } });
    let gone = |page: &crate::harness::page::Page| !page.has("form[action$='/approve']");

    let mut bridge = Bridge::start(&url, &token);
    bridge.opened().await;
    bridge.say(&json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call("a") })).await;
    house.browser.submit(&approved(&house.held().await)).await;
    assert_eq!(bridge.answer(&json!(1)).await["result"]["content"][0]["text"], "added");

    let cancelled =
        json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": 2 } });
    for params in [call("b"), described(call("b"))] {
        // The newer era has no session, so the bridge that speaks it has none either.
        let mut bridge = Bridge::start(&url, &token);
        if params.get("_meta").is_none() {
            bridge.opened().await;
        }
        bridge.say(&json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": params })).await;
        house.held().await;
        bridge.say(&cancelled).await;
        house.browser.until("/approvals", gone).await;
        bridge.close().await;
    }

    bridge.say(&json!({ "jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": call("c") })).await;
    house.held().await;
    bridge.close().await;
    house.browser.until("/approvals", gone).await;
    assert_eq!((house.effects("a"), house.all_effects()), (1, 1));
}
