//! Streamable HTTP: the requests behind the client library's session logic.
//!
//! The library keeps sessions, versions, headers and streams. This file sends what it asks for, and is our own and
//! not the library's so that results pass through as they were sent, so that every call is known to have left or
//! not, and so that no address or header ends up in an error.

pub(crate) mod events;

use crate::upstream::connection::Signals;
use crate::upstream::ledger::Ledger;
use crate::upstream::masking::Masks;
use crate::upstream::wire;
use futures::StreamExt;
use futures::stream::BoxStream;
use http::header::{ACCEPT, CONTENT_TYPE, WWW_AUTHENTICATE};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use reqwest::{RequestBuilder, Response};
use rmcp::model::{ClientJsonRpcMessage, ClientRequest, ErrorData, RequestId, ServerJsonRpcMessage};
use rmcp::transport::common::client_side_sse::ExponentialBackoff;
use rmcp::transport::common::http_header::{
    EVENT_STREAM_MIME_TYPE, HEADER_LAST_EVENT_ID, HEADER_SESSION_ID, JSON_MIME_TYPE,
};
use rmcp::transport::streamable_http_client::{
    AuthRequiredError, SseError, StreamableHttpClient, StreamableHttpClientTransportConfig,
    StreamableHttpError, StreamableHttpPostResponse,
};
use sse_stream::Sse;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

/// Time to open a connection, name lookup and TLS included.
const CONNECT: Duration = Duration::from_secs(10);
/// Bytes read of a body that only explains a failure.
const MAX_EXPLANATION: usize = 64 * 1024;
/// Requests at once over one connection to a server. Further ones wait, and can be withdrawn while they do.
const MAX_REQUESTS: usize = 64;
/// Longest pause between two tries to open an event stream again.
const STREAM_PAUSE: Duration = Duration::from_secs(30);

/// What went wrong with a request, without its address.
#[derive(Debug, thiserror::Error)]
pub(crate) enum HttpFault {
    /// No connection was made, so nothing was sent.
    #[error("no connection: {0}")]
    NotConnected(String),
    /// It was withdrawn before it was sent.
    #[error("the call was withdrawn before it was sent")]
    Withdrawn,
    /// It may have been sent, and there is no whole answer.
    #[error("{0}")]
    Broken(String),
    /// The server answered with a status that is no success, and no protocol error beside it.
    #[error("it answered with HTTP status {0}")]
    Status(u16),
}

/// The same inside what the library says went wrong.
pub(crate) type Fault = StreamableHttpError<HttpFault>;
type Headers = HashMap<HeaderName, HeaderValue>;

/// The HTTP client of one connection to one server.
#[derive(Clone, Debug)]
pub(crate) struct HttpClient {
    client: reqwest::Client,
    ledger: Arc<Ledger>,
    signals: Arc<Signals>,
    masks: Arc<Masks>,
}

/// A client that follows no redirect, keeps no cookie, asks no proxy and repeats nothing by itself.
#[expect(clippy::disallowed_methods, reason = "the one client for servers with an address")]
pub(crate) fn client() -> Result<reqwest::Client, reqwest::Error> {
    // The provider is the process's own; whoever was first has installed the same one.
    rustls::crypto::ring::default_provider().install_default().ok();
    reqwest::Client::builder()
        .connect_timeout(CONNECT)
        .redirect(reqwest::redirect::Policy::none())
        .retry(reqwest::retry::never())
        .no_proxy()
        .referer(false)
        .tcp_nodelay(true)
        .user_agent(concat!("sluicegate/", env!("CARGO_PKG_VERSION")))
        .build()
}

/// How the library is to use it. Sessions that the server forgot are made again by the supervisor, not by the
/// library: sending a call again must be recorded first.
pub(crate) fn config(
    url: &reqwest::Url,
    headers: &[(HeaderName, HeaderValue)],
) -> StreamableHttpClientTransportConfig {
    let mut config = StreamableHttpClientTransportConfig::with_uri(url.as_str())
        .custom_headers(headers.iter().cloned().collect())
        .reinit_on_expired_session(false)
        .max_concurrent_requests(MAX_REQUESTS)
        .max_sse_event_size(wire::MAX_MESSAGE)
        .max_json_response_size(wire::MAX_MESSAGE);
    let mut pauses = ExponentialBackoff::default();
    pauses.max_delay = Some(STREAM_PAUSE);
    config.retry_config = Arc::new(pauses);
    config
}

impl HttpClient {
    pub(crate) fn new(
        client: reqwest::Client,
        ledger: Arc<Ledger>,
        signals: Arc<Signals>,
        masks: Arc<Masks>,
    ) -> Self {
        Self { client, ledger, signals, masks }
    }

    /// The causes of a failure in one line, innermost last, without the address.
    fn explain(&self, error: reqwest::Error) -> HttpFault {
        let before_sending = error.is_connect() || error.is_builder();
        let error = error.without_url();
        let mut text = error.to_string();
        let mut cause = std::error::Error::source(&error);
        while let Some(inner) = cause {
            let inner_text = inner.to_string();
            if !text.contains(&inner_text) {
                text.push_str(": ");
                text.push_str(&inner_text);
            }
            cause = inner.source();
        }
        let text = self.masks.show(&text);
        if before_sending { HttpFault::NotConnected(text) } else { HttpFault::Broken(text) }
    }

    async fn send(&self, request: RequestBuilder) -> Result<Response, Fault> {
        request.send().await.map_err(|error| {
            self.signals.suspect.notify_one();
            StreamableHttpError::Client(self.explain(error))
        })
    }

    /// A body of bounded size.
    async fn body(&self, mut response: Response, limit: usize) -> Result<Vec<u8>, Fault> {
        let mut body = Vec::new();
        loop {
            let chunk =
                response.chunk().await.map_err(|error| StreamableHttpError::Client(self.explain(error)))?;
            let Some(chunk) = chunk else { return Ok(body) };
            if body.len().saturating_add(chunk.len()) > limit {
                return Err(StreamableHttpError::ResponseBodyTooLarge { max_size: limit });
            }
            body.extend_from_slice(&chunk);
        }
    }

    fn events(&self, response: Response) -> BoxStream<'static, Result<Sse, SseError>> {
        let ledger = Arc::clone(&self.ledger);
        events::bounded(response.bytes_stream(), wire::MAX_MESSAGE)
            .map(move |event| {
                event.map(|mut event| {
                    event.data = event.data.map(|data| wire::rewrite(data, &ledger));
                    event
                })
            })
            .boxed()
    }

    /// A status that is no success. With a client error, a protocol error in the body is the server's own word and
    /// goes on as it is; a server error beside it says that nobody knows how far the request came.
    async fn refused(
        &self,
        message: &ClientJsonRpcMessage,
        in_session: bool,
        response: Response,
    ) -> Result<StreamableHttpPostResponse, Fault> {
        let status = response.status();
        if let Some(error) = authorization(status, response.headers()) {
            return Err(error);
        }
        if in_session && status.is_client_error() {
            // Some servers say "unknown session" with another status than 404. That proves nothing about the call,
            // but it is worth a look.
            self.signals.suspect.notify_one();
        }
        let failed = || StreamableHttpError::Client(HttpFault::Status(status.as_u16()));
        let is_auth = matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN);
        if is_auth || !status.is_client_error() {
            return Err(failed());
        }
        let is_json = media_type(response.headers()) == Some(JSON_MIME_TYPE);
        // A failure to read the explanation changes nothing about the failure.
        let body =
            if is_json { self.body(response, MAX_EXPLANATION).await.unwrap_or_default() } else { Vec::new() };
        let error = match wire::read(&body, &self.ledger) {
            Some(ServerJsonRpcMessage::Error(error)) => error.error,
            // A server of the older era does not know discovery; the library then falls back.
            _ if !in_session && is_discovery(message) => {
                let text = format!("discovery was refused with HTTP status {}", status.as_u16());
                ErrorData::invalid_request(text, None)
            }
            _ => return Err(failed()),
        };
        // Servers that refuse before they look into a request name no id, or a made-up one.
        Ok(StreamableHttpPostResponse::Json(ServerJsonRpcMessage::error(error, request_id(message)), None))
    }
}

impl StreamableHttpClient for HttpClient {
    type Error = HttpFault;

    async fn post_message(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session: Option<Arc<str>>,
        _auth_header: Option<String>,
        headers: Headers,
    ) -> Result<StreamableHttpPostResponse, Fault> {
        let in_session = session.is_some();
        let accept = [JSON_MIME_TYPE, EVENT_STREAM_MIME_TYPE].join(", ");
        let mut request = self.client.post(uri.as_ref()).header(ACCEPT, accept);
        if let Some(session) = session {
            request = request.header(HEADER_SESSION_ID, session.as_ref());
        }
        let request = request.headers(headers.into_iter().collect()).json(&message);
        if !self.ledger.begin(&message) {
            return Err(StreamableHttpError::Client(HttpFault::Withdrawn));
        }
        let response = self.send(request).await?;
        let status = response.status();
        if matches!(status, StatusCode::ACCEPTED | StatusCode::NO_CONTENT) {
            return Ok(StreamableHttpPostResponse::Accepted);
        }
        if status == StatusCode::NOT_FOUND && in_session {
            return Err(StreamableHttpError::SessionExpired);
        }
        if !status.is_success() {
            return self.refused(&message, in_session, response).await;
        }
        let awaits_answer = matches!(message, ClientJsonRpcMessage::Request(_));
        let session =
            response.headers().get(HEADER_SESSION_ID).and_then(|id| id.to_str().ok()).map(str::to_owned);
        match media_type(response.headers()) {
            _ if !awaits_answer => Ok(StreamableHttpPostResponse::Accepted),
            Some(EVENT_STREAM_MIME_TYPE) => {
                Ok(StreamableHttpPostResponse::Sse(self.events(response), session))
            }
            Some(JSON_MIME_TYPE) => {
                let body = self.body(response, wire::MAX_MESSAGE).await?;
                match wire::read(&body, &self.ledger) {
                    Some(answer) => Ok(StreamableHttpPostResponse::Json(with_id(answer, &message), session)),
                    None => Err(broken("it answered with JSON that is no protocol message")),
                }
            }
            _ => Err(broken("it answered with neither JSON nor an event stream")),
        }
    }

    async fn delete_session(
        &self,
        uri: Arc<str>,
        session: Arc<str>,
        _auth_header: Option<String>,
        headers: Headers,
    ) -> Result<(), Fault> {
        let request = self.client.delete(uri.as_ref()).header(HEADER_SESSION_ID, session.as_ref());
        let response = self.send(request.headers(headers.into_iter().collect())).await?;
        match response.status() {
            status if status.is_success() => Ok(()),
            // It does not offer deletion, or has forgotten the session already.
            StatusCode::METHOD_NOT_ALLOWED | StatusCode::NOT_FOUND => Ok(()),
            status => Err(StreamableHttpError::Client(HttpFault::Status(status.as_u16()))),
        }
    }

    async fn get_stream(
        &self,
        uri: Arc<str>,
        session: Option<Arc<str>>,
        last_event: Option<String>,
        _auth_header: Option<String>,
        headers: Headers,
    ) -> Result<BoxStream<'static, Result<Sse, SseError>>, Fault> {
        let in_session = session.is_some();
        let mut request = self.client.get(uri.as_ref()).header(ACCEPT, EVENT_STREAM_MIME_TYPE);
        if let Some(session) = session {
            request = request.header(HEADER_SESSION_ID, session.as_ref());
        }
        if let Some(last_event) = last_event {
            request = request.header(HEADER_LAST_EVENT_ID, last_event);
        }
        let response = self.send(request.headers(headers.into_iter().collect())).await?;
        let status = response.status();
        if let Some(error) = authorization(status, response.headers()) {
            return Err(error);
        }
        match status {
            StatusCode::METHOD_NOT_ALLOWED => Err(StreamableHttpError::ServerDoesNotSupportSse),
            StatusCode::NOT_FOUND if in_session => {
                // Either there is no such stream here, or the server has forgotten the session.
                self.signals.suspect.notify_one();
                Err(StreamableHttpError::ServerDoesNotSupportSse)
            }
            status if !status.is_success() => {
                Err(StreamableHttpError::Client(HttpFault::Status(status.as_u16())))
            }
            _ if media_type(response.headers()) == Some(EVENT_STREAM_MIME_TYPE) => Ok(self.events(response)),
            _ => Err(StreamableHttpError::ServerDoesNotSupportSse),
        }
    }
}

fn broken(why: &str) -> Fault {
    StreamableHttpError::Client(HttpFault::Broken(why.to_owned()))
}

fn request_id(message: &ClientJsonRpcMessage) -> Option<RequestId> {
    match message {
        ClientJsonRpcMessage::Request(request) => Some(request.id.clone()),
        _ => None,
    }
}

fn is_discovery(message: &ClientJsonRpcMessage) -> bool {
    matches!(message, ClientJsonRpcMessage::Request(request)
        if matches!(request.request, ClientRequest::DiscoverRequest(_)))
}

/// An error without an id, in the answer to a request, is about that request.
fn with_id(mut answer: ServerJsonRpcMessage, message: &ClientJsonRpcMessage) -> ServerJsonRpcMessage {
    if let ServerJsonRpcMessage::Error(error) = &mut answer {
        error.id = error.id.take().or_else(|| request_id(message));
    }
    answer
}

fn authorization(status: StatusCode, headers: &HeaderMap) -> Option<Fault> {
    if !matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) {
        return None;
    }
    // The challenge's text is not kept: it is the server's, and nothing here answers it.
    headers.contains_key(WWW_AUTHENTICATE).then(|| {
        StreamableHttpError::AuthRequired(AuthRequiredError::new(format!("HTTP status {}", status.as_u16())))
    })
}

/// The media type without its parameters, if it is one of the two that the protocol knows.
fn media_type(headers: &HeaderMap) -> Option<&'static str> {
    let value = headers.get(CONTENT_TYPE)?.to_str().ok()?;
    let essence = value.split(';').next().unwrap_or_default().trim();
    [JSON_MIME_TYPE, EVENT_STREAM_MIME_TYPE].into_iter().find(|known| essence.eq_ignore_ascii_case(known))
}
