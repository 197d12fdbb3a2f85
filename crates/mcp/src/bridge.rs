//! For clients that speak nothing but stdio: their lines go to the product's address, its answers come back as lines.
//! It carries and decides nothing; the key is checked at the address, message by message.

mod outgoing;

use crate::front::era;
use crate::lines::Lines;
use crate::upstream::{MAX_MESSAGE, bounded_events, http_client};
use futures::StreamExt as _;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use outgoing::{Outgoing, Shape, headers_of_tools};
use reqwest::{Client, Response, Url};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

/// Messages on their way at once. Further lines wait to be read.
const AT_ONCE: usize = 64;
/// Lines that may wait for a slow client.
const WAITING: usize = 64;
/// How long the address may take to begin an answer to a short message.
const SHORT: Duration = Duration::from_secs(30);
/// Longest pause before the stream of notices is opened again.
const PAUSE: Duration = Duration::from_secs(5);
/// How long answers, and the end of the session, may take when the client is gone.
const GOODBYE: Duration = Duration::from_secs(3);

/// Why the bridge cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum BridgeError {
    /// The address is not one to post to.
    #[error("`{0}` is not an http or https address; give the product's, such as http://127.0.0.1:8080/mcp")]
    Address(String),
    /// The key cannot be sent.
    #[error("the key holds characters that no key has")]
    Key,
    /// No client can be made.
    #[error("no HTTP client can be made: {0}")]
    Client(reqwest::Error),
    /// Standard input or output failed.
    #[error("standard input or output failed: {0}")]
    Io(#[from] std::io::Error),
    /// A line of the client was larger than any message may be.
    #[error("a line of the client is longer than {MAX_MESSAGE} bytes")]
    TooLong,
}

/// A session of the older era, and how to begin it anew when the product has forgotten it.
#[derive(Clone, Debug)]
struct Session {
    id: HeaderValue,
    version: String,
    opening: Value,
}

#[derive(Debug)]
struct Bridge {
    client: Client,
    url: Url,
    key: HeaderValue,
    out: mpsc::Sender<String>,
    session: Mutex<Option<Session>>,
    on_way: Mutex<HashMap<String, CancellationToken>>,
    /// Headers in which tools want arguments repeated, as their lists said.
    repeated: Mutex<HashMap<String, Vec<(String, String)>>>,
}

/// Carries lines of standard input to the address and answers back to standard output, until the input ends.
///
/// # Errors
/// [`BridgeError`] when it cannot begin, or input or output fails.
pub async fn bridge(url: &str, key: &str) -> Result<(), BridgeError> {
    let url = Url::parse(url)
        .ok()
        .filter(|url| matches!(url.scheme(), "http" | "https"))
        .ok_or_else(|| BridgeError::Address(url.to_owned()))?;
    let mut key = HeaderValue::from_str(&format!("Bearer {}", key.trim())).map_err(|_| BridgeError::Key)?;
    key.set_sensitive(true);
    let (out, lines) = mpsc::channel(WAITING);
    let bridge = Arc::new(Bridge {
        client: http_client().map_err(BridgeError::Client)?,
        url,
        key,
        out,
        session: Mutex::default(),
        on_way: Mutex::default(),
        repeated: Mutex::default(),
    });
    let mut writing = tokio::spawn(written(lines));
    let carried = tokio::select! {
        carried = carry(&bridge) => carried,
        ended = &mut writing => ended.unwrap_or(Ok(())).map_err(BridgeError::Io),
    };
    bridge.end_session().await;
    drop(bridge);
    // What was answered before the end is still written.
    if !writing.is_finished() && timeout(GOODBYE, &mut writing).await.is_err() {
        writing.abort();
    }
    carried
}

async fn written(mut lines: mpsc::Receiver<String>) -> std::io::Result<()> {
    let mut out = tokio::io::stdout();
    while let Some(line) = lines.recv().await {
        out.write_all(line.as_bytes()).await?;
        out.write_all(b"\n").await?;
        out.flush().await?;
    }
    Ok(())
}

async fn carry(bridge: &Arc<Bridge>) -> Result<(), BridgeError> {
    let mut input = tokio::io::stdin();
    let mut lines = Lines::new(MAX_MESSAGE);
    let mut chunk = vec![0_u8; 64 * 1024];
    let places = Arc::new(Semaphore::new(AT_ONCE));
    // Both end with this function: whoever asked is gone then.
    let (mut tasks, mut listening) = (JoinSet::new(), JoinSet::new());
    loop {
        while let Some(line) = lines.next() {
            if line.iter().all(u8::is_ascii_whitespace) {
                continue;
            }
            let Some(outgoing) = bridge.read(&line).await else { continue };
            while tasks.try_join_next().is_some() {}
            if let Shape::Opening | Shape::Notice = outgoing.shape {
                // In order: what comes after relies on it.
                if bridge.one(outgoing).await {
                    let bridge = Arc::clone(bridge);
                    listening.abort_all();
                    listening.spawn(async move { bridge.listen().await });
                }
                continue;
            }
            let Ok(place) = Arc::clone(&places).acquire_owned().await else { return Ok(()) };
            let bridge = Arc::clone(bridge);
            tasks.spawn(async move {
                bridge.one(outgoing).await;
                drop(place);
            });
        }
        let read = input.read(&mut chunk).await?;
        if read == 0 {
            // What was asked just before the end may still be answered; what waits for a person is given up.
            timeout(GOODBYE, tasks.join_all()).await.ok();
            return Ok(());
        }
        lines.push(chunk.get(..read).unwrap_or_default()).map_err(|_| BridgeError::TooLong)?;
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Bridge {
    async fn read(&self, line: &[u8]) -> Option<Outgoing> {
        let Ok(message) = serde_json::from_slice::<Value>(line) else {
            self.say(&error(&Value::Null, -32700, "Parse error")).await;
            return None;
        };
        let outgoing = Outgoing::of(message);
        if let Some(id) = &outgoing.cancels
            && outgoing.describes_itself(locked(&self.session).is_some())
        {
            // In this era a request is cancelled by closing its connection.
            if let Some(cancel) = locked(&self.on_way).get(id) {
                cancel.cancel();
            }
            return None;
        }
        Some(outgoing)
    }

    async fn say(&self, message: &Value) {
        // Nobody reads any more: then the writer's end ends everything.
        self.out.send(message.to_string()).await.ok();
    }

    /// Carries one message and its answers. `true`: a session has been opened.
    async fn one(&self, outgoing: Outgoing) -> bool {
        let cancel = CancellationToken::new();
        if let Some(id) = &outgoing.id {
            locked(&self.on_way).insert(id.to_string(), cancel.clone());
        }
        let opened = tokio::select! {
            () = cancel.cancelled() => false,
            opened = self.sent(&outgoing) => opened,
        };
        if let Some(id) = &outgoing.id {
            locked(&self.on_way).remove(&id.to_string());
        }
        opened
    }

    async fn sent(&self, outgoing: &Outgoing) -> bool {
        let mut response = self.post(outgoing).await;
        if response.as_ref().is_ok_and(|response| response.status() == StatusCode::NOT_FOUND)
            && outgoing.shape != Shape::Opening
            && self.renewed().await
        {
            // A session that is not known runs nothing: it is sent again in a new one.
            response = self.post(outgoing).await;
        }
        match response {
            Ok(response) => self.answered(outgoing, response).await,
            Err(fault) => {
                self.failed(outgoing, &format!("the product cannot be reached at its address: {fault}"))
                    .await;
                false
            }
        }
    }

    async fn post(&self, outgoing: &Outgoing) -> Result<Response, String> {
        let request = self
            .client
            .post(self.url.clone())
            .headers(self.headers_of(outgoing))
            .body(outgoing.message.to_string())
            .send();
        // A call may wait for a person; everything else is short.
        let limit = if outgoing.shape == Shape::Call { Duration::from_secs(3600) } else { SHORT };
        match timeout(limit, request).await {
            Ok(Ok(response)) => Ok(response),
            Ok(Err(error)) => Err(error.without_url().to_string()),
            Err(_) => Err("it did not answer in time".to_owned()),
        }
    }

    fn headers_of(&self, outgoing: &Outgoing) -> HeaderMap {
        let session = locked(&self.session).clone();
        let mut headers = self
            .headers(session.as_ref().filter(|_| outgoing.shape != Shape::Opening && !outgoing.described()));
        outgoing.say_again(&mut headers, &locked(&self.repeated));
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers
    }

    fn headers(&self, session: Option<&Session>) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(AUTHORIZATION, self.key.clone());
        headers.insert(ACCEPT, HeaderValue::from_static("application/json, text/event-stream"));
        if let Some(session) = session {
            headers.insert(HeaderName::from_static(era::SESSION_HEADER), session.id.clone());
            if let Ok(version) = HeaderValue::from_str(&session.version) {
                headers.insert(HeaderName::from_static(era::VERSION_HEADER), version);
            }
        }
        headers
    }

    /// Passes an answer on. `true`: it opened a session.
    async fn answered(&self, outgoing: &Outgoing, response: Response) -> bool {
        let status = response.status();
        let id = response.headers().get(era::SESSION_HEADER).cloned();
        let is_stream = response
            .headers()
            .get(CONTENT_TYPE)
            .and_then(|kind| kind.to_str().ok())
            .is_some_and(|kind| kind.starts_with("text/event-stream"));
        if is_stream {
            if !self.streamed(outgoing, response).await {
                self.lost(outgoing).await;
            }
            return false;
        }
        let Ok(body) = whole(response).await else {
            self.lost(outgoing).await;
            return false;
        };
        if body.is_empty() && status.is_success() {
            return false;
        }
        let Ok(message) = serde_json::from_slice::<Value>(&body) else {
            let why = match status {
                StatusCode::UNAUTHORIZED => {
                    "the product does not accept this key; make one on its Settings page".to_owned()
                }
                status => format!("the product answered with HTTP status {}", status.as_u16()),
            };
            self.failed(outgoing, &why).await;
            return false;
        };
        let opened = self.opened(outgoing, id, &message);
        self.pass_on(outgoing, message).await;
        opened
    }

    fn opened(&self, outgoing: &Outgoing, id: Option<HeaderValue>, message: &Value) -> bool {
        let version = message.pointer("/result/protocolVersion").and_then(Value::as_str);
        let (Shape::Opening, Some(id), Some(version)) = (outgoing.shape, id, version) else { return false };
        let session = Session { id, version: version.to_owned(), opening: outgoing.message.clone() };
        *locked(&self.session) = Some(session);
        true
    }

    async fn pass_on(&self, outgoing: &Outgoing, message: Value) {
        if let Some(headers) = headers_of_tools(outgoing, &message) {
            locked(&self.repeated).extend(headers);
        }
        // An answer to what was a notification has nobody who asked for it.
        let wanted = outgoing.id.is_some() || message.is_array();
        if wanted || message.get("method").is_some() || message.get("error").is_some() {
            self.say(&message).await;
        }
    }

    /// Passes on the messages of a stream; `false` if it broke.
    async fn streamed(&self, outgoing: &Outgoing, response: Response) -> bool {
        let mut events = bounded_events(response.bytes_stream(), MAX_MESSAGE);
        while let Some(event) = events.next().await {
            let Ok(event) = event else { return false };
            if let Some(message) = event.data.and_then(|data| serde_json::from_str::<Value>(&data).ok()) {
                self.pass_on(outgoing, message).await;
            }
        }
        true
    }

    async fn lost(&self, outgoing: &Outgoing) {
        self.failed(outgoing, "the connection to the product was lost; the call may have run").await;
    }

    async fn failed(&self, outgoing: &Outgoing, why: &str) {
        match &outgoing.id {
            Some(id) => self.say(&error(id, -32000, why)).await,
            None => tracing::warn!("a notification was not delivered: {why}"),
        }
    }

    /// Opens the session anew after the product has forgotten it.
    async fn renewed(&self) -> bool {
        let Some(session) = locked(&self.session).clone() else { return false };
        let opening = Outgoing::of(session.opening);
        let Ok(response) = self.post(&opening).await else { return false };
        let id = response.headers().get(era::SESSION_HEADER).cloned();
        let Ok(body) = whole(response).await else { return false };
        let Ok(message) = serde_json::from_slice::<Value>(&body) else { return false };
        self.opened(&opening, id, &message)
            && self
                .post(&Outgoing::of(json!({ "jsonrpc": "2.0", "method": "notifications/initialized" })))
                .await
                .is_ok()
    }

    /// Carries what the product says unasked in a session, for as long as it offers a stream of that.
    async fn listen(&self) {
        let unasked = Outgoing::of(json!({ "jsonrpc": "2.0", "method": "" }));
        loop {
            let Some(session) = locked(&self.session).clone() else { return };
            let request = self.client.get(self.url.clone()).headers(self.headers(Some(&session))).send();
            match timeout(SHORT, request).await {
                Ok(Ok(response)) if response.status().is_success() => {
                    self.streamed(&unasked, response).await;
                }
                Ok(Ok(response)) if response.status() == StatusCode::METHOD_NOT_ALLOWED => return,
                _ => {}
            }
            sleep(PAUSE).await;
        }
    }

    async fn end_session(&self) {
        let Some(session) = locked(&self.session).take() else { return };
        let request = self.client.delete(self.url.clone()).headers(self.headers(Some(&session))).send();
        // If it is not heard, the product ends an idle session by itself.
        timeout(GOODBYE, request).await.ok();
    }
}

async fn whole(response: Response) -> Result<Vec<u8>, ()> {
    let mut body = Vec::new();
    let mut chunks = response.bytes_stream();
    while let Some(chunk) = chunks.next().await {
        let chunk = chunk.map_err(|_| ())?;
        if body.len().saturating_add(chunk.len()) > MAX_MESSAGE {
            return Err(());
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body)
}

fn error(id: &Value, code: i64, message: &str) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "error": { "code": code, "message": message } })
}
