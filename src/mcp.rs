//! The MCP server on the web: what a request must have before it is looked at, and how answers leave.
//!
//! `/mcp` and `/mcp/{server}` stand beside the pages, not below them: no session, no cookie, no form reaches them, and
//! nothing of the pages answers here.

mod trail;
mod watch;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{RawPathParams, Request, State};
use axum::http::header::{AUTHORIZATION, CONTENT_LENGTH, HeaderValue, WWW_AUTHENTICATE};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse as _, Response};
use axum::routing::any;
use futures::StreamExt as _;
use sluicegate_mcp::{Front, FrontBody, FrontRequest, Holder, MAX_BODY};
use sluicegate_policy::ServerName;
use sluicegate_store::{Key, Keys};
use std::convert::Infallible;
use std::time::Duration;
use tokio::time::timeout;
use tower_http::catch_panic::CatchPanicLayer;

use crate::web::Hosts;

pub(crate) use trail::StoredTrail;
pub(crate) use watch::watch_keys;

/// How long a body may take to arrive.
const BODY_WAIT: Duration = Duration::from_secs(30);
/// Bytes of a body that are read before the connection is cut.
const MAX_READ: usize = 4 * MAX_BODY;
/// Longest token that is looked up.
const MAX_TOKEN: usize = 128;

/// What the addresses are served with.
#[derive(Clone, Debug)]
pub(crate) struct McpState {
    /// The server.
    pub(crate) front: Front,
    /// Who may come in.
    pub(crate) keys: Keys,
    /// The names under which the product is reached.
    pub(crate) hosts: Hosts,
}

/// The two addresses.
pub(crate) fn router(state: McpState) -> Router {
    Router::new()
        .route("/mcp", any(serve))
        .route("/mcp/{server}", any(serve))
        .layer(CatchPanicLayer::custom(|_| {
            tracing::error!("answering an MCP client panicked");
            StatusCode::INTERNAL_SERVER_ERROR.into_response()
        }))
        .with_state(state)
}

/// Foreign pages first, then the key, then the body: nothing is read of whoever may not come in.
async fn serve(State(state): State<McpState>, path: RawPathParams, request: Request) -> Response {
    if state.hosts.check(request.uri(), request.headers()).is_err() {
        return StatusCode::FORBIDDEN.into_response();
    }
    let holder = match admitted(&state.keys, request.headers()).await {
        Ok(holder) => holder,
        Err(refused) => return refused,
    };
    let server = match path.iter().next().map(|(_, name)| ServerName::new(name)) {
        None => None,
        Some(Ok(server)) => Some(server),
        Some(Err(_)) => return StatusCode::NOT_FOUND.into_response(),
    };
    let (parts, body) = request.into_parts();
    let body = match whole(&parts.headers, body).await {
        Ok(body) => body,
        Err(status) => return status.into_response(),
    };
    let request = FrontRequest { method: parts.method, headers: parts.headers, body, server, holder };
    sent(state.front.handle(request).await)
}

/// The holder of the key that this request comes with. Every request is asked; a session is no answer.
async fn admitted(keys: &Keys, headers: &HeaderMap) -> Result<Holder, Response> {
    let Some(token) = bearer(headers) else { return Err(unauthorized()) };
    match keys.authenticate(token).await {
        Ok(Some(key)) => holder(&key).map_err(|status| status.into_response()),
        Ok(None) => Err(unauthorized()),
        Err(error) => {
            tracing::error!(%error, "a key could not be checked; nobody is let in");
            Err(StatusCode::SERVICE_UNAVAILABLE.into_response())
        }
    }
}

fn holder(key: &Key) -> Result<Holder, StatusCode> {
    match (key.caller(), key.conversation()) {
        (Ok(caller), Ok(conversation)) => {
            Ok(Holder { caller, conversation, scope: key.scope.clone(), audit_read: key.audit_read })
        }
        (Err(error), _) | (_, Err(error)) => {
            tracing::error!(%error, key = %key.name, "a key cannot be used");
            Err(StatusCode::INTERNAL_SERVER_ERROR)
        }
    }
}

fn bearer(headers: &HeaderMap) -> Option<&str> {
    let mut given = headers.get_all(AUTHORIZATION).iter();
    let (Some(value), None) = (given.next(), given.next()) else { return None };
    let (scheme, token) = value.to_str().ok()?.split_once(' ')?;
    let token = token.trim();
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty() && token.len() <= MAX_TOKEN).then_some(token)
}

fn unauthorized() -> Response {
    let challenge = HeaderValue::from_static("Bearer realm=\"sluicegate\"");
    let advice =
        "give a key of this product: `Authorization: Bearer sg_…`; people make keys on the Settings page\n";
    (StatusCode::UNAUTHORIZED, [(WWW_AUTHENTICATE, challenge)], advice).into_response()
}

/// A body of bounded size, within bounded time. One that is not much too large is read to its end all the same, and not
/// kept: a client that is cut off while it sends does not see the answer.
async fn whole(headers: &HeaderMap, body: Body) -> Result<Vec<u8>, StatusCode> {
    let announced =
        headers.get(CONTENT_LENGTH).and_then(|value| value.to_str().ok()).and_then(|text| text.parse().ok());
    if announced.is_some_and(|bytes: usize| bytes > MAX_READ) {
        return Err(StatusCode::PAYLOAD_TOO_LARGE);
    }
    let reading = async {
        let (mut whole, mut read) = (Vec::new(), 0_usize);
        let mut chunks = body.into_data_stream();
        while let Some(chunk) = chunks.next().await {
            let chunk = chunk.map_err(|_| StatusCode::BAD_REQUEST)?;
            read = read.saturating_add(chunk.len());
            if read > MAX_READ {
                return Err(StatusCode::PAYLOAD_TOO_LARGE);
            }
            if read <= MAX_BODY {
                whole.extend_from_slice(&chunk);
            }
        }
        if read > MAX_BODY { Err(StatusCode::PAYLOAD_TOO_LARGE) } else { Ok(whole) }
    };
    timeout(BODY_WAIT, reading).await.unwrap_or(Err(StatusCode::REQUEST_TIMEOUT))
}

fn sent(response: axum::http::Response<FrontBody>) -> Response {
    let (parts, body) = response.into_parts();
    let body = match body {
        FrontBody::Empty => Body::empty(),
        FrontBody::Json(value) => Body::from(value.to_string()),
        FrontBody::Events(events) => {
            Body::from_stream(events.map(|event| Ok::<_, Infallible>(Bytes::from(event))))
        }
    };
    Response::from_parts(parts, body)
}
