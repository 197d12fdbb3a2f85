//! The older era: handshake, sessions, and what is asked within one. And what the server says of itself in either.

use super::era::{self, Era, meta};
use super::message::{
    self, INTERNAL, INVALID_PARAMS, INVALID_REQUEST, Message, NO_SESSION, Request, RequestId, RpcError,
};
use super::sessions::{NotOpened, OpenRequest, Opening, Session};
use super::{FrontBody, Visit, calling, json, refused, status, tasks, trail, unknown_session};
use http::header::{HeaderName, HeaderValue};
use http::{Response, StatusCode};
use serde_json::{Value, json};
use std::sync::Arc;

/// Messages that one batch may hold.
const MAX_BATCH: usize = 32;
/// Versions that know batches.
const WITH_BATCHES: [&str; 2] = ["2025-03-26", "2024-11-05"];
/// Longest name of a client that is kept.
const MAX_CLIENT: usize = 128;

/// Levels of log lines, the least first.
pub(crate) const LEVELS: [&str; 8] =
    ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"];

const INSTRUCTIONS: &str = "Every call is judged by rules. One that needs a person's approval is answered with the status \
     `pending` and an address: tell your user, and repeat exactly the same call to collect its result. A denied call \
     says why; do not repeat it unless it says that this can help.";

fn capabilities(era: Era) -> Value {
    match era {
        Era::Handshake => {
            json!({ "tools": { "listChanged": true }, "resources": { "subscribe": true }, "logging": {} })
        }
        Era::SelfDescribing => json!({
            "tools": { "listChanged": true }, "resources": { "subscribe": true }, "logging": {},
            "extensions": { tasks::EXTENSION: {} },
        }),
    }
}

pub(crate) fn server_info() -> Value {
    json!({ "name": "sluicegate", "title": "Sluicegate", "version": env!("CARGO_PKG_VERSION") })
}

/// What `server/discover` answers.
pub(crate) fn discovery() -> Value {
    json!({
        "resultType": "complete",
        "supportedVersions": era::SELF_DESCRIBING,
        "capabilities": capabilities(Era::SelfDescribing),
        "instructions": INSTRUCTIONS,
        "ttlMs": 60_000,
        "cacheScope": "private",
        "_meta": { meta!("serverInfo"): server_info() },
    })
}

/// The level that a word stands for.
pub(crate) fn level(word: &str) -> Option<&'static str> {
    LEVELS.into_iter().find(|level| *level == word)
}

impl Visit {
    pub(super) async fn in_session(self, message: Message) -> Response<FrontBody> {
        let session = match era::session(&self.headers) {
            Some(id) => match self.inner.sessions.find(id, self.caller(), self.server.as_ref()) {
                Some(session) => Some(session),
                None => return unknown_session(),
            },
            None => None,
        };
        match (message, session) {
            (Message::Request(request), None) if request.method == "initialize" => self.initialize(&request),
            (message, None) => {
                let id = match &message {
                    Message::Request(request) => Some(&request.id),
                    _ => None,
                };
                let error = RpcError::new(NO_SESSION, "Bad Request: there is no session; begin with `initialize`")
                    .status(StatusCode::BAD_REQUEST)
                    .data(json!({ "supported": era::WITH_HANDSHAKE.iter().chain(&era::SELF_DESCRIBING).collect::<Vec<_>>() }));
                refused(&error, id)
            }
            (message, Some(session)) => {
                if let Err(error) = era::check_agreed(&self.headers, session.version) {
                    return refused(&error, None);
                }
                match message {
                    Message::Request(request) => self.request(&session, request).await,
                    other => {
                        notified(&session, &other);
                        status(StatusCode::ACCEPTED)
                    }
                }
            }
        }
    }

    fn initialize(&self, request: &Request) -> Response<FrontBody> {
        let version = era::agree(request.text("protocolVersion"));
        let client =
            request.params.get("clientInfo").and_then(|info| info.get("name")).and_then(Value::as_str);
        let client = client.unwrap_or_default().chars().take(MAX_CLIENT).collect();
        let Some(id) = super::forms::secret() else {
            let error = RpcError::new(INTERNAL, "there are no random numbers")
                .status(StatusCode::SERVICE_UNAVAILABLE);
            return refused(&error, Some(&request.id));
        };
        let opening = Opening { caller: self.caller().clone(), server: self.server.clone(), version, client };
        if !self.inner.sessions.open(id.clone(), opening) {
            let error = RpcError::new(NO_SESSION, "this key has too many sessions in use")
                .status(StatusCode::TOO_MANY_REQUESTS);
            return refused(&error, Some(&request.id));
        }
        let mut response = json(message::result(
            &request.id,
            json!({
                "protocolVersion": version,
                "capabilities": capabilities(Era::Handshake),
                "serverInfo": server_info(),
                "instructions": INSTRUCTIONS,
            }),
        ));
        if let Ok(id) = HeaderValue::from_str(&id) {
            response.headers_mut().insert(HeaderName::from_static("mcp-session-id"), id);
        }
        response
    }

    async fn request(&self, session: &Arc<Session>, request: Request) -> Response<FrontBody> {
        let open = match begin(session, &request.id) {
            Ok(open) => open,
            Err(error) => return refused(&error, Some(&request.id)),
        };
        if request.method == "tools/call" {
            return match self.calling(session, open, &request) {
                Ok(calling) => calling::answer(calling, self.takes_events()).await,
                Err(error) => refused(&error, Some(&request.id)),
            };
        }
        match self.answered(session, &request).await {
            Ok(result) => json(message::result(&request.id, result)),
            Err(error) => refused(&error, Some(&request.id)),
        }
    }

    async fn answered(&self, session: &Session, request: &Request) -> Result<Value, RpcError> {
        match request.method.as_str() {
            "ping" => Ok(json!({})),
            "tools/list" => Ok(self.list_tools(Era::Handshake).await),
            "resources/list" => Ok(trail::listed()),
            "resources/templates/list" => Ok(trail::templates()),
            "resources/read" => self.read_resource(request.text("uri"), Era::Handshake).await,
            "resources/subscribe" => self.subscribe(session, request.text("uri")).await,
            "resources/unsubscribe" => {
                session.unwatch(request.text("uri").unwrap_or_default());
                Ok(json!({}))
            }
            "logging/setLevel" => {
                let level = request.text("level").and_then(level);
                let level = level.ok_or_else(|| {
                    RpcError::new(INVALID_PARAMS, format!("`level` is one of {}", LEVELS.join(", ")))
                })?;
                session.set_log_level(level);
                Ok(json!({}))
            }
            "initialize" => Err(RpcError::new(INVALID_REQUEST, "the session is open already")),
            other => Err(message::not_found(other)),
        }
    }

    /// A batch, where the version of the session knows batches. Its answers come together.
    pub(super) async fn batch(self, messages: Vec<Value>) -> Response<FrontBody> {
        let refuse =
            |why: &str| refused(&RpcError::new(INVALID_REQUEST, why).status(StatusCode::BAD_REQUEST), None);
        let session = match era::session(&self.headers) {
            Some(id) => match self.inner.sessions.find(id, self.caller(), self.server.as_ref()) {
                Some(session) => session,
                None => return unknown_session(),
            },
            None => return refuse("batches are not known in this version"),
        };
        if !WITH_BATCHES.contains(&session.version) {
            return refuse("batches are not known in this version");
        }
        if messages.is_empty() || messages.len() > MAX_BATCH {
            return refuse("a batch holds 1 to 32 messages");
        }
        if let Err(error) = era::check_agreed(&self.headers, session.version) {
            return refused(&error, None);
        }
        let answers = messages.into_iter().map(|message| self.one_of_batch(&session, message));
        let answers: Vec<Value> = futures::future::join_all(answers).await.into_iter().flatten().collect();
        if answers.is_empty() { status(StatusCode::ACCEPTED) } else { json(Value::Array(answers)) }
    }

    async fn one_of_batch(&self, session: &Arc<Session>, message: Value) -> Option<Value> {
        let request = match message::read(message) {
            Ok(Message::Request(request)) => request,
            Ok(other) => {
                notified(session, &other);
                return None;
            }
            Err(error) => return Some(error.message(None)),
        };
        let open = match begin(session, &request.id) {
            Ok(open) => open,
            Err(error) => return Some(error.message(Some(&request.id))),
        };
        if request.method == "tools/call" {
            return match self.calling(session, open, &request) {
                Ok(calling) => calling::whole(calling).await,
                Err(error) => Some(error.message(Some(&request.id))),
            };
        }
        Some(match self.answered(session, &request).await {
            Ok(result) => message::result(&request.id, result),
            Err(error) => error.message(Some(&request.id)),
        })
    }
}

fn begin(session: &Arc<Session>, id: &RequestId) -> Result<OpenRequest, RpcError> {
    session.begin(id).map_err(|why| {
        let why = match why {
            NotOpened::SameId => "a request with this id is open in this session",
            NotOpened::TooMany => "too many requests are open in this session",
        };
        RpcError::new(INVALID_REQUEST, why).status(StatusCode::BAD_REQUEST)
    })
}

/// A notification; those that mean nothing here are ignored.
fn notified(session: &Session, message: &Message) {
    if let Message::Notification { method, params } = message
        && method == "notifications/cancelled"
        && let Some(id) = RequestId::named(params)
    {
        session.cancel(&id);
    }
}
