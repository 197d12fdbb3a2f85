//! A scripted Streamable HTTP server of either era.

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::any;
use futures::StreamExt;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use tokio::net::TcpListener;
use tokio::sync::{Notify, broadcast};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// What the server does with a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum OnCall {
    /// Answers with JSON.
    Answer,
    /// Answers with an event stream: a notice, a comment, then the answer.
    Stream,
    /// Has the effect, then breaks the connection before a byte of the answer.
    Drop,
    /// Has the effect, starts an event stream and breaks it.
    DropStream,
    /// Answers with this status.
    Status(u16),
    /// Answers with this status and a protocol error that names no request.
    Error(u16),
    /// Answers as if it had never heard of the session.
    Forgotten,
    /// Answers when the test says so.
    Held,
    /// Never answers.
    Silent,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Era {
    Legacy,
    Modern,
}

#[derive(Debug)]
pub(crate) struct Site {
    pub(crate) era: Era,
    pub(crate) state: Mutex<SiteState>,
    notices: broadcast::Sender<()>,
    pub(crate) release: Notify,
    closing: CancellationToken,
}

#[derive(Debug)]
pub(crate) struct SiteState {
    pub(crate) on_call: OnCall,
    pub(crate) tools: Value,
    sessions: BTreeSet<String>,
    pub(crate) initialised: usize,
    pub(crate) deleted: usize,
    /// How often a tool had its effect.
    pub(crate) effects: usize,
    pub(crate) lists: usize,
    /// Method, headers and body of each request.
    pub(crate) requests: Vec<(Method, HeaderMap, Value)>,
}

/// A running server.
pub(crate) struct HttpUpstream {
    pub(crate) site: Arc<Site>,
    address: SocketAddr,
    serving: JoinHandle<()>,
}

impl HttpUpstream {
    pub(crate) async fn start(era: Era) -> Self {
        let state = SiteState {
            on_call: OnCall::Answer,
            tools: json!([{ "name": "echo", "inputSchema": { "type": "object" } }]),
            sessions: BTreeSet::new(),
            initialised: 0,
            deleted: 0,
            effects: 0,
            lists: 0,
            requests: Vec::new(),
        };
        let site = Site {
            era,
            state: Mutex::new(state),
            notices: broadcast::channel(16).0,
            release: Notify::new(),
            closing: CancellationToken::new(),
        };
        Self::serve(Arc::new(site), "127.0.0.1:0".parse().unwrap()).await
    }

    async fn serve(site: Arc<Site>, address: SocketAddr) -> Self {
        let listener = TcpListener::bind(address).await.unwrap();
        let address = listener.local_addr().unwrap();
        let app = Router::new().route("/mcp", any(answer)).with_state(Arc::clone(&site));
        let closing = site.closing.clone().cancelled_owned();
        let serving = tokio::spawn(async move {
            axum::serve(listener, app).with_graceful_shutdown(closing).await.unwrap();
        });
        Self { site, address, serving }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/mcp", self.address)
    }

    /// Stops listening and ends all connections. Sessions are forgotten.
    pub(crate) async fn stop(self) -> Stopped {
        self.site.closing.cancel();
        self.serving.await.unwrap();
        let site = Arc::try_unwrap(self.site).unwrap();
        Stopped { site: Site { closing: CancellationToken::new(), ..site }, address: self.address }
    }

    pub(crate) fn script(&self, on_call: OnCall) {
        self.site.state.lock().unwrap().on_call = on_call;
    }

    pub(crate) fn forget_sessions(&self) {
        self.site.state.lock().unwrap().sessions.clear();
    }

    /// Changes the tools and says so, `notices` times.
    pub(crate) fn retool(&self, tools: Value, notices: usize) {
        self.site.state.lock().unwrap().tools = tools;
        for _ in 0..notices {
            self.site.notices.send(()).ok();
        }
    }

    pub(crate) fn look<T>(&self, look: impl FnOnce(&SiteState) -> T) -> T {
        look(&self.site.state.lock().unwrap())
    }
}

/// A server that is away.
pub(crate) struct Stopped {
    site: Site,
    address: SocketAddr,
}

impl Stopped {
    pub(crate) async fn start(self) -> HttpUpstream {
        self.site.state.lock().unwrap().sessions.clear();
        HttpUpstream::serve(Arc::new(self.site), self.address).await
    }
}

async fn answer(State(site): State<Arc<Site>>, method: Method, headers: HeaderMap, body: Bytes) -> Response {
    let message: Value = serde_json::from_slice(&body).unwrap_or(Value::Null);
    site.state.lock().unwrap().requests.push((method.clone(), headers.clone(), message.clone()));
    let session = headers.get("mcp-session-id").map(|id| id.to_str().unwrap().to_owned());
    let known = session.as_ref().is_some_and(|id| site.state.lock().unwrap().sessions.contains(id));
    match (site.era, method.as_str()) {
        (Era::Legacy, "GET") if known => events(&site, Vec::new(), None),
        (Era::Legacy, "DELETE") if known => {
            let mut state = site.state.lock().unwrap();
            state.sessions.remove(&session.unwrap());
            state.deleted += 1;
            StatusCode::OK.into_response()
        }
        (Era::Legacy, "GET" | "DELETE") => StatusCode::NOT_FOUND.into_response(),
        (Era::Legacy, "POST") => legacy(&site, known, session.is_some(), &message),
        (Era::Modern, "POST") => modern(&site, &message),
        _ => StatusCode::METHOD_NOT_ALLOWED.into_response(),
    }
}

fn legacy(site: &Arc<Site>, known: bool, has_session: bool, message: &Value) -> Response {
    let method = message["method"].as_str().unwrap_or_default();
    if method == "initialize" {
        let mut state = site.state.lock().unwrap();
        state.initialised += 1;
        let session = format!("session-{}", state.initialised);
        state.sessions.insert(session.clone());
        drop(state);
        let result = json!({
            "protocolVersion": message["params"]["protocolVersion"],
            "capabilities": { "tools": { "listChanged": true } },
            "serverInfo": { "name": "site", "version": "1" },
        });
        let mut response = reply(message, result);
        response.headers_mut().insert("mcp-session-id", HeaderValue::from_str(&session).unwrap());
        return response;
    }
    if !known {
        let status = if has_session { StatusCode::NOT_FOUND } else { StatusCode::BAD_REQUEST };
        return (status, "no session").into_response();
    }
    match method {
        "tools/list" => list(site, message),
        "tools/call" => call(site, message),
        _ => StatusCode::ACCEPTED.into_response(),
    }
}

fn modern(site: &Arc<Site>, message: &Value) -> Response {
    match message["method"].as_str().unwrap_or_default() {
        "server/discover" => {
            let result = json!({
                "resultType": "complete",
                "supportedVersions": ["2026-07-28"],
                "capabilities": { "tools": { "listChanged": true } },
                "ttlMs": 0,
                "cacheScope": "private",
                "_meta": { "io.modelcontextprotocol/serverInfo": { "name": "site", "version": "2" } },
            });
            reply(message, result)
        }
        "tools/list" => list(site, message),
        "tools/call" => call(site, message),
        "subscriptions/listen" => {
            let accepted = notice("notifications/subscriptions/acknowledged", Some(&message["id"]));
            events(site, vec![accepted], Some(message["id"].clone()))
        }
        _ => StatusCode::NOT_FOUND.into_response(),
    }
}

fn list(site: &Arc<Site>, message: &Value) -> Response {
    let mut state = site.state.lock().unwrap();
    state.lists += 1;
    let result = json!({ "resultType": "complete", "tools": state.tools, "ttlMs": 3_600_000, "cacheScope": "private" });
    drop(state);
    reply(message, result)
}

fn call(site: &Arc<Site>, message: &Value) -> Response {
    let on_call = site.state.lock().unwrap().on_call;
    let effect = || site.state.lock().unwrap().effects += 1;
    let text = message["params"]["arguments"].to_string();
    let result = json!({ "resultType": "complete", "content": [{ "type": "text", "text": text }] });
    let answer = json!({ "jsonrpc": "2.0", "id": message["id"], "result": result });
    match on_call {
        OnCall::Answer => {
            effect();
            reply(message, result)
        }
        OnCall::Stream => {
            effect();
            let progress =
                json!({ "progressToken": message["params"]["_meta"]["progressToken"], "progress": 1 });
            let progress =
                json!({ "jsonrpc": "2.0", "method": "notifications/progress", "params": progress });
            let chunks = [
                format!("data: {progress}\n\n"),
                ": still here\n\n".to_owned(),
                format!("data: {answer}\n\n"),
            ];
            stream(futures::stream::iter(chunks.map(|chunk| Ok(Bytes::from(chunk)))))
        }
        OnCall::Drop => {
            effect();
            // The body fails before its first byte, which ends the connection.
            let broken = futures::stream::iter([Err::<Bytes, _>(std::io::Error::other("broken"))]);
            ([("content-type", "application/json")], Body::from_stream(broken)).into_response()
        }
        OnCall::DropStream => {
            effect();
            let chunks = [Ok(Bytes::from(": soon\n\n")), Err(std::io::Error::other("broken"))];
            stream(futures::stream::iter(chunks))
        }
        OnCall::Status(status) => StatusCode::from_u16(status).unwrap().into_response(),
        OnCall::Error(status) => {
            let error = json!({ "jsonrpc": "2.0", "id": null, "error": { "code": -32000, "message": "no valid session" } });
            let json = [("content-type", "application/json")];
            (StatusCode::from_u16(status).unwrap(), json, error.to_string()).into_response()
        }
        OnCall::Forgotten => StatusCode::NOT_FOUND.into_response(),
        OnCall::Held => {
            effect();
            let site = Arc::clone(site);
            stream(futures::stream::once(async move {
                site.release.notified().await;
                Ok(Bytes::from(format!("data: {answer}\n\n")))
            }))
        }
        OnCall::Silent => stream(
            futures::stream::pending::<Result<Bytes, std::io::Error>>()
                .take_until(site.closing.clone().cancelled_owned()),
        ),
    }
}

fn reply(message: &Value, result: Value) -> Response {
    let answer = json!({ "jsonrpc": "2.0", "id": message["id"], "result": result });
    ([("content-type", "application/json; charset=utf-8")], answer.to_string()).into_response()
}

/// An open stream: first these messages, then a notice for each change of the tools.
fn events(site: &Arc<Site>, first: Vec<Value>, subscription: Option<Value>) -> Response {
    let changes = futures::stream::unfold(site.notices.subscribe(), |mut notices| async move {
        notices.recv().await.ok()?;
        Some(((), notices))
    });
    let changed = notice("notifications/tools/list_changed", subscription.as_ref());
    let later = changes.map(move |()| changed.clone());
    let messages =
        futures::stream::iter(first).chain(later).take_until(site.closing.clone().cancelled_owned());
    stream(messages.map(|message| Ok(Bytes::from(format!("data: {message}\n\n")))))
}

fn notice(method: &str, subscription: Option<&Value>) -> Value {
    let mut params = json!({});
    if let Some(id) = subscription {
        params["_meta"] = json!({ "io.modelcontextprotocol/subscriptionId": id });
        if method.ends_with("acknowledged") {
            params["notifications"] = json!({ "toolsListChanged": true });
        }
    }
    json!({ "jsonrpc": "2.0", "method": method, "params": params })
}

fn stream(body: impl futures::Stream<Item = Result<Bytes, std::io::Error>> + Send + 'static) -> Response {
    ([("content-type", "text/event-stream")], Body::from_stream(body)).into_response()
}
