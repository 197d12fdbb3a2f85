//! A raw MCP client: it says exactly what a test wants said, in either era, and shows what came back.

use std::time::Duration;

use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use reqwest::{Method, Response, StatusCode};
use serde_json::{Value, json};
use tokio::time::timeout;

use super::server::{Server, command};

/// Longer than any answer may take on a busy machine; only a hang reaches it.
const PATIENCE: Duration = Duration::from_secs(60);

/// Makes a key by the command line beside the running server, and gives its token.
pub(crate) async fn key(server: &Server, name: &str, more: &[&str]) -> String {
    let arguments = [&["key", "create", "--name", name], more].concat();
    let ended = command(server.shared_folder(), &arguments).await;
    assert_eq!(ended.code(), Some(0), "{ended:?}");
    ended.output.lines().last().expect("the key on the last line").to_owned()
}

/// One client with one key.
#[derive(Clone, Debug)]
pub(crate) struct Client {
    http: reqwest::Client,
    url: String,
    headers: HeaderMap,
}

/// What came back, whole.
#[derive(Clone, Debug)]
pub(crate) struct Reply {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    /// The messages, from JSON or from events.
    pub(crate) messages: Vec<Value>,
}

impl Reply {
    /// The message that answers.
    pub(crate) fn last(&self) -> &Value {
        self.messages.last().unwrap_or_else(|| panic!("no message in {self:?}"))
    }

    pub(crate) fn result(&self) -> &Value {
        let last = self.last();
        assert!(last.get("result").is_some(), "{last}");
        &last["result"]
    }

    pub(crate) fn error_code(&self) -> i64 {
        self.last()["error"]["code"].as_i64().unwrap_or_else(|| panic!("no error in {self:?}"))
    }

    /// Our own status of a call that was not done.
    pub(crate) fn call_status(&self) -> &Value {
        &self.result()["_meta"]["sluicegate/status"]
    }

    pub(crate) fn text(&self) -> &str {
        self.result()["content"][0]["text"].as_str().unwrap_or_default()
    }
}

impl Client {
    /// A client at a path of a server.
    #[expect(clippy::disallowed_methods, reason = "tests are a client of the product")]
    pub(crate) fn new(server: &Server, path: &str, key: &str) -> Self {
        rustls::crypto::ring::default_provider().install_default().ok();
        let http = reqwest::Client::builder().no_proxy().build().expect("an HTTP client");
        let client = Self { http, url: format!("{}{path}", server.url()), headers: HeaderMap::new() };
        client
            .with("authorization", &format!("Bearer {key}"))
            .with("accept", "application/json, text/event-stream")
    }

    /// The same client sending a header with each request; an earlier one of the name is replaced.
    pub(crate) fn with(&self, name: &str, value: &str) -> Self {
        let mut other = self.clone();
        other.headers.insert(
            HeaderName::from_bytes(name.as_bytes()).expect("a header name"),
            HeaderValue::from_str(value).expect("a header value"),
        );
        other
    }

    pub(crate) fn without(&self, name: &str) -> Self {
        let mut other = self.clone();
        other.headers.remove(name);
        other
    }

    /// The same client in a session of its own.
    pub(crate) async fn in_session(&self, version: &str) -> Self {
        let reply = self.initialize(version).await;
        assert_eq!(reply.status, StatusCode::OK, "{reply:?}");
        let agreed = reply.result()["protocolVersion"].as_str().expect("a version").to_owned();
        let session = reply.headers["mcp-session-id"].to_str().expect("a session id").to_owned();
        let client = self.with("mcp-session-id", &session).with("mcp-protocol-version", &agreed);
        let said = client.post(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" })).await;
        assert_eq!((said.status, said.messages.len()), (StatusCode::ACCEPTED, 0));
        client
    }

    pub(crate) async fn initialize(&self, version: &str) -> Reply {
        let params = json!({
            "protocolVersion": version, "capabilities": {}, "clientInfo": { "name": "raw", "version": "1" }
        });
        self.ask(json!(0), "initialize", params).await
    }

    pub(crate) async fn ask(&self, id: Value, method: &str, params: Value) -> Reply {
        self.post(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })).await
    }

    pub(crate) async fn call(&self, tool: &str, arguments: Value) -> Reply {
        self.ask(json!(1), "tools/call", json!({ "name": tool, "arguments": arguments })).await
    }

    /// A request of the newer era, with everything it must say.
    pub(crate) async fn described(&self, method: &str, params: Value, capabilities: Value) -> Reply {
        whole(self.open_described(method, params, capabilities).await).await
    }

    pub(crate) async fn open_described(
        &self,
        method: &str,
        mut params: Value,
        capabilities: Value,
    ) -> Response {
        params["_meta"]["io.modelcontextprotocol/protocolVersion"] = json!("2026-07-28");
        params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = capabilities;
        let mut client = self.with("mcp-protocol-version", "2026-07-28").with("mcp-method", method);
        if let Some(name) = params.get("name").or_else(|| params.get("uri")).and_then(Value::as_str) {
            client = client.with("mcp-name", name);
        }
        client.open(&json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params })).await
    }

    pub(crate) async fn post(&self, message: &Value) -> Reply {
        whole(self.open(message).await).await
    }

    /// Posts a message and gives the answer as it begins. Dropping it closes the connection.
    pub(crate) async fn open(&self, message: &Value) -> Response {
        let client = if self.headers.contains_key("content-type") {
            self.clone()
        } else {
            self.with("content-type", "application/json")
        };
        client.send(Method::POST, message.to_string()).await
    }

    pub(crate) async fn send(&self, method: Method, body: impl Into<reqwest::Body>) -> Response {
        let request = self.http.request(method, &self.url).headers(self.headers.clone()).body(body);
        timeout(PATIENCE, request.send()).await.expect("an answer in time").expect("an answer")
    }

    pub(crate) async fn get(&self) -> Response {
        self.send(Method::GET, "").await
    }

    pub(crate) async fn delete(&self) -> StatusCode {
        self.send(Method::DELETE, "").await.status()
    }
}

/// Reads an answer to its end.
pub(crate) async fn whole(response: Response) -> Reply {
    let (status, headers) = (response.status(), response.headers().clone());
    let text = timeout(PATIENCE, response.text()).await.expect("an end in time").unwrap_or_default();
    let is_stream = headers.get("content-type").is_some_and(|kind| kind == "text/event-stream");
    let messages = if is_stream {
        let data = text.lines().filter_map(|line| line.strip_prefix("data: "));
        data.map(|data| serde_json::from_str(data).expect("JSON in an event")).collect()
    } else {
        serde_json::from_str(&text).map_or_else(|_| Vec::new(), |value| vec![value])
    };
    Reply { status, headers, messages }
}
