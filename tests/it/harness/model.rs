//! A scripted model server on a loopback port: it answers each request with the next answer of its script, byte for
//! byte and cut where the script says, and keeps what it was sent.

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode, Uri, header};
use axum::response::Response;
use futures::stream::{self, StreamExt};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

/// What happens after the last piece of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum After {
    /// The answer ends in good order.
    End,
    /// The connection breaks.
    Cut,
    /// Nothing more comes, and the connection stays.
    Silence,
    /// The last piece is sent over and over.
    Endless,
}

/// One answer.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(&'static str, String)>,
    pub(crate) pieces: Vec<Bytes>,
    pub(crate) after: After,
}

impl Answer {
    /// An event stream with these bytes, in these pieces.
    pub(crate) fn pieces<B: Into<Bytes>>(pieces: impl IntoIterator<Item = B>) -> Self {
        Self {
            status: 200,
            headers: vec![("content-type", "text/event-stream".to_owned())],
            pieces: pieces.into_iter().map(Into::into).collect(),
            after: After::End,
        }
    }

    /// An event stream with this data, one event each, as Gemini writes it.
    pub(crate) fn events<D: ToString>(data: impl IntoIterator<Item = D>) -> Self {
        Self::pieces(data.into_iter().map(|data| format!("data: {}\r\n\r\n", data.to_string())))
    }

    /// A body with a status.
    pub(crate) fn status(status: u16, body: impl ToString) -> Self {
        Self {
            status,
            headers: vec![("content-type", "application/json".to_owned())],
            pieces: vec![body.to_string().into()],
            after: After::End,
        }
    }

    pub(crate) fn header(mut self, name: &'static str, value: impl ToString) -> Self {
        self.headers.retain(|(known, _)| *known != name);
        self.headers.push((name, value.to_string()));
        self
    }

    pub(crate) fn then(mut self, after: After) -> Self {
        self.after = after;
        self
    }
}

/// One request, as it came.
#[derive(Clone, Debug)]
pub(crate) struct Received {
    pub(crate) uri: Uri,
    pub(crate) headers: HeaderMap,
    pub(crate) body: String,
}

impl Received {
    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.body).expect("the request's body is JSON")
    }
}

#[derive(Default)]
struct Inner {
    script: VecDeque<Answer>,
    received: Vec<Received>,
    /// Answers once the script is over.
    otherwise: Option<fn(&Received) -> Answer>,
}

/// The server. It stops when the test's runtime does.
pub(crate) struct ModelServer {
    pub(crate) base: String,
    inner: Arc<Mutex<Inner>>,
}

impl ModelServer {
    /// Starts with a script.
    pub(crate) async fn start(script: impl IntoIterator<Item = Answer>) -> Self {
        Self::serve(Inner { script: script.into_iter().collect(), ..Inner::default() }).await
    }

    /// Starts without a script: each answer follows from what is asked.
    pub(crate) async fn answering(otherwise: fn(&Received) -> Answer) -> Self {
        Self::serve(Inner { otherwise: Some(otherwise), ..Inner::default() }).await
    }

    async fn serve(inner: Inner) -> Self {
        let inner = Arc::new(Mutex::new(inner));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a loopback port");
        let base = format!("http://{}", listener.local_addr().expect("its address"));
        let app = Router::new().fallback(answer).with_state(Arc::clone(&inner));
        tokio::spawn(async move { axum::serve(listener, app).await });
        Self { base, inner }
    }

    /// Adds an answer to the end of the script.
    pub(crate) fn push(&self, answer: Answer) {
        self.inner.lock().expect("no test panicked here").script.push_back(answer);
    }

    /// What was asked so far.
    pub(crate) fn received(&self) -> Vec<Received> {
        self.inner.lock().expect("no test panicked here").received.clone()
    }
}

async fn answer(State(inner): State<Arc<Mutex<Inner>>>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let body = axum::body::to_bytes(body, 64 << 20).await.expect("the request's body");
    let body = String::from_utf8(body.to_vec()).expect("the request is text");
    let next = {
        let mut inner = inner.lock().expect("no test panicked here");
        let received = Received { uri: parts.uri, headers: parts.headers, body };
        let next = inner.script.pop_front().or_else(|| inner.otherwise.map(|answer| answer(&received)));
        inner.received.push(received);
        next
    };
    let Answer { status, headers, pieces, after } =
        next.unwrap_or_else(|| Answer::status(418, r#"{"error":{"message":"the script is over"}}"#));
    let last = pieces.last().cloned().unwrap_or_default();
    let pieces = stream::iter(pieces.into_iter().map(Ok::<Bytes, std::io::Error>));
    let body = match after {
        After::End => Body::from_stream(pieces),
        After::Cut => Body::from_stream(pieces.chain(stream::once(async {
            // What came before is sent before the break.
            for _ in 0..8 {
                tokio::task::yield_now().await;
            }
            Err(std::io::Error::other("cut by the script"))
        }))),
        After::Silence => Body::from_stream(pieces.chain(stream::pending())),
        After::Endless => Body::from_stream(pieces.chain(stream::repeat_with(move || Ok(last.clone())))),
    };
    let mut response = Response::builder().status(StatusCode::from_u16(status).expect("a status"));
    for (name, value) in headers {
        response = response.header(name, value);
    }
    response.header(header::CACHE_CONTROL, "no-store").body(body).expect("a response")
}
