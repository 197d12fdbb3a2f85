//! The MCP server: one address for clients of both protocol eras. It holds the handle that proposes calls and the
//! list of tools; it can neither answer a held call nor reach a server.
//!
//! It is given requests whose key has been checked, one by one, and knows no web framework: what it answers is a status,
//! headers, and a body that is either whole or a stream of events.

mod answer;
mod calling;
pub(crate) mod era;
mod forms;
mod handshake;
mod message;
mod names;
mod sessions;
mod streams;
mod tasks;
mod tools;
mod trail;

use era::Era;
use http::header::{ACCEPT, ALLOW, CACHE_CONTROL, CONTENT_TYPE, HeaderName, HeaderValue};
use http::{HeaderMap, Method, Response, StatusCode};
use message::{INVALID_REQUEST, Message, PARSE_ERROR, RpcError, UNKNOWN_SESSION};
use names::Names;
use serde_json::{Map, Value};
use sessions::Sessions;
use sluicegate_gateway::{Caller, Catalogue, Scope, ToolCatalogue, ToolExecutionGateway};
use sluicegate_policy::{CallerId, ConversationId, ServerName};
use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use streams::Streams;
use tokio_util::sync::CancellationToken;

pub use streams::Events;
pub use trail::{Trail, TrailPage, TrailQuery};

/// How long a client may keep what never changes, in milliseconds.
const KEEP_MS: u32 = 60_000;
/// Largest request body, in bytes.
pub const MAX_BODY: usize = 4 * 1024 * 1024;

/// What the server is made of.
pub struct FrontParts {
    /// Proposes calls.
    pub gateway: ToolExecutionGateway,
    /// The audit trail, for reading.
    pub trail: Arc<dyn Trail>,
    /// The public address, without a slash at the end: links to held calls begin with it.
    pub public: String,
    /// Ends streams and held calls when the product stops.
    pub shutdown: CancellationToken,
}

impl fmt::Debug for FrontParts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("FrontParts")
    }
}

/// The key that a request came with, checked for this very request.
#[derive(Clone, Debug)]
pub struct Holder {
    /// Who calls.
    pub caller: Caller,
    /// The conversation that its calls belong to.
    pub conversation: ConversationId,
    /// What it reaches.
    pub scope: Scope,
    /// Whether it reads everybody's part of the trail.
    pub audit_read: bool,
}

/// One request, with its body whole.
#[derive(Debug)]
pub struct FrontRequest {
    /// Its method.
    pub method: Method,
    /// Its headers.
    pub headers: HeaderMap,
    /// Its body; at most [`MAX_BODY`].
    pub body: Vec<u8>,
    /// The server that its address names; `None` at the address of all.
    pub server: Option<ServerName>,
    /// Whose it is.
    pub holder: Holder,
}

/// The body of an answer.
pub enum FrontBody {
    /// None.
    Empty,
    /// One JSON value.
    Json(Value),
    /// Server-sent events, as text, until the stream ends. Dropping it says that the client is gone.
    Events(Events),
}

impl fmt::Debug for FrontBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("Empty"),
            Self::Json(value) => f.debug_tuple("Json").field(value).finish(),
            Self::Events(_) => f.write_str("Events"),
        }
    }
}

/// The MCP server. Cheap to clone.
#[derive(Clone)]
pub struct Front(Arc<Inner>);

struct Inner {
    gateway: ToolExecutionGateway,
    trail: Arc<dyn Trail>,
    catalogue: ToolCatalogue,
    public: String,
    shutdown: CancellationToken,
    sessions: Sessions,
    streams: Streams,
    states: forms::States,
    keys: Mutex<HashMap<CallerId, CancellationToken>>,
    names: Mutex<(Arc<Catalogue>, Arc<Names>)>,
}

impl fmt::Debug for Front {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Front")
    }
}

impl Front {
    /// Takes the parts.
    #[must_use]
    pub fn new(parts: FrontParts) -> Self {
        let catalogue = parts.gateway.catalogue();
        let snapshot = catalogue.snapshot();
        let names = Arc::new(Names::of(&snapshot));
        Self(Arc::new(Inner {
            gateway: parts.gateway,
            trail: parts.trail,
            catalogue,
            public: parts.public,
            shutdown: parts.shutdown,
            sessions: Sessions::default(),
            streams: Streams::default(),
            states: forms::States::default(),
            keys: Mutex::default(),
            names: Mutex::new((snapshot, names)),
        }))
    }

    /// A key has been revoked: its sessions and streams end, what it waits for is given up.
    pub fn revoked(&self, caller: &CallerId) {
        let token = self.0.keys.lock().unwrap_or_else(PoisonError::into_inner).remove(caller);
        if let Some(token) = token {
            token.cancel();
        }
        self.0.sessions.close_all(caller);
    }

    /// Answers one request.
    pub async fn handle(&self, request: FrontRequest) -> Response<FrontBody> {
        if let Some(server) = &request.server
            && !self.0.offers(server, &request.holder.scope)
        {
            return status(StatusCode::NOT_FOUND);
        }
        let (method, visit) = Visit::of(Arc::clone(&self.0), request);
        match method {
            Method::POST => visit.post().await,
            Method::GET => visit.get(),
            Method::DELETE => visit.delete(),
            _ => {
                let mut response = status(StatusCode::METHOD_NOT_ALLOWED);
                response.headers_mut().insert(ALLOW, HeaderValue::from_static("POST, GET, DELETE"));
                response
            }
        }
    }
}

impl Inner {
    /// Whether there is such a server within reach. One that is out of reach is answered like one that is not there.
    fn offers(&self, server: &ServerName, scope: &Scope) -> bool {
        self.catalogue.snapshot().servers().iter().any(|status| status.name == *server)
            && scope.reaches_server(server)
    }

    /// Ends when the key is revoked or the product stops.
    fn standing(&self, caller: &CallerId) -> CancellationToken {
        let mut keys = self.keys.lock().unwrap_or_else(PoisonError::into_inner);
        keys.entry(caller.clone()).or_insert_with(|| self.shutdown.child_token()).clone()
    }

    /// The names of the present snapshot.
    fn names(&self) -> (Arc<Catalogue>, Arc<Names>) {
        let snapshot = self.catalogue.snapshot();
        let mut held = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        if !Arc::ptr_eq(&held.0, &snapshot) {
            *held = (Arc::clone(&snapshot), Arc::new(Names::of(&snapshot)));
        }
        (snapshot, Arc::clone(&held.1))
    }
}

/// One request on its way through.
struct Visit {
    inner: Arc<Inner>,
    headers: HeaderMap,
    body: Vec<u8>,
    server: Option<ServerName>,
    holder: Holder,
}

impl Visit {
    fn of(inner: Arc<Inner>, request: FrontRequest) -> (Method, Self) {
        let FrontRequest { method, headers, body, server, holder } = request;
        (method, Self { inner, headers, body, server, holder })
    }

    fn caller(&self) -> &CallerId {
        &self.holder.caller.principal.caller
    }

    /// Whether the client takes a stream of events. One that does not say takes everything.
    fn takes_events(&self) -> bool {
        let accept = self.headers.get(ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or("*/*");
        accept.contains("text/event-stream") || accept.contains("*/*") || accept.contains("text/*")
    }

    async fn post(self) -> Response<FrontBody> {
        let kind = era::text(&self.headers, CONTENT_TYPE.as_str()).unwrap_or_default();
        let kind = kind.split(';').next().unwrap_or_default().trim();
        if !kind.eq_ignore_ascii_case("application/json") {
            return status(StatusCode::UNSUPPORTED_MEDIA_TYPE);
        }
        let Ok(value) = serde_json::from_slice::<Value>(&self.body) else {
            return refused(&RpcError::new(PARSE_ERROR, "Parse error").status(StatusCode::BAD_REQUEST), None);
        };
        let value = match value {
            Value::Array(messages) => return self.batch(messages).await,
            value => value,
        };
        // An id that can be read is named in the refusal of what cannot.
        let message = match message::read(value) {
            Ok(message) => message,
            Err(error) => return refused(&error, None),
        };
        let (method, params) = outline(&message);
        match era::of(method, params, &self.headers) {
            Era::Handshake => self.in_session(message).await,
            Era::SelfDescribing => self.self_describing(message).await,
        }
    }

    async fn self_describing(self, message: Message) -> Response<FrontBody> {
        let request = match message {
            Message::Request(request) => request,
            Message::Notification { .. } | Message::Answer => return status(StatusCode::ACCEPTED),
        };
        if let Err(error) = era::check_described(&request, &self.headers) {
            return refused(&error, Some(&request.id));
        }
        match request.method.as_str() {
            "server/discover" => json(message::result(&request.id, handshake::discovery())),
            "tools/list" => {
                let result = self.list_tools(Era::SelfDescribing).await;
                json(message::result(&request.id, result))
            }
            "tools/call" => self.call_described(request).await,
            "tasks/get" | "tasks/update" | "tasks/cancel" => match self.task(&request).await {
                Ok(result) => json(message::result(&request.id, result)),
                Err(error) => refused(&error, Some(&request.id)),
            },
            "resources/list" => {
                let result = trail::enveloped(trail::listed(), Era::SelfDescribing, KEEP_MS);
                json(message::result(&request.id, result))
            }
            "resources/templates/list" => {
                let result = trail::enveloped(trail::templates(), Era::SelfDescribing, KEEP_MS);
                json(message::result(&request.id, result))
            }
            "resources/read" => match self.read_resource(request.text("uri"), Era::SelfDescribing).await {
                Ok(result) => json(message::result(&request.id, result)),
                Err(error) => refused(&error, Some(&request.id)),
            },
            "subscriptions/listen" => self.listen(&request).await,
            other => {
                let error = message::not_found(other).status(StatusCode::NOT_FOUND);
                refused(&error, Some(&request.id))
            }
        }
    }

    fn get(self) -> Response<FrontBody> {
        let Some(id) = era::session(&self.headers) else {
            let mut response = status(StatusCode::METHOD_NOT_ALLOWED);
            response.headers_mut().insert(ALLOW, HeaderValue::from_static("POST"));
            return response;
        };
        let Some(session) = self.inner.sessions.find(id, self.caller(), self.server.as_ref()) else {
            return unknown_session();
        };
        if !self.takes_events() {
            return status(StatusCode::NOT_ACCEPTABLE);
        }
        if let Err(error) = era::check_agreed(&self.headers, session.version) {
            return refused(&error, None);
        }
        match session.stream() {
            Some(stream) => events(streams::of_session(&self, stream)),
            None => {
                let error = RpcError::new(INVALID_REQUEST, "this session has too many streams open")
                    .status(StatusCode::CONFLICT);
                refused(&error, None)
            }
        }
    }

    fn delete(self) -> Response<FrontBody> {
        match era::session(&self.headers) {
            None => status(StatusCode::BAD_REQUEST),
            Some(id) if self.inner.sessions.close(id, self.caller(), self.server.as_ref()) => {
                status(StatusCode::OK)
            }
            Some(_) => unknown_session(),
        }
    }
}

fn outline(message: &Message) -> (Option<&str>, Option<&Map<String, Value>>) {
    match message {
        Message::Request(request) => (Some(&request.method), Some(&request.params)),
        Message::Notification { method, params } => (Some(method), Some(params)),
        Message::Answer => (None, None),
    }
}

fn status(status: StatusCode) -> Response<FrontBody> {
    let mut response = Response::new(FrontBody::Empty);
    *response.status_mut() = status;
    response
}

fn json(value: Value) -> Response<FrontBody> {
    let mut response = Response::new(FrontBody::Json(value));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

fn refused(error: &RpcError, id: Option<&message::RequestId>) -> Response<FrontBody> {
    let mut response = json(error.message(id));
    *response.status_mut() = error.http_status();
    response
}

/// Also the answer to somebody else's session: clients then begin anew.
fn unknown_session() -> Response<FrontBody> {
    refused(&RpcError::new(UNKNOWN_SESSION, "Session not found").status(StatusCode::NOT_FOUND), None)
}

fn events(events: Events) -> Response<FrontBody> {
    let mut response = Response::new(FrontBody::Events(events));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, no-transform"));
    // Proxies that gather answers would keep progress and keep-alive back.
    headers.insert(HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no"));
    response
}
