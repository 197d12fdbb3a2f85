//! The one HTTP client of the model providers: what may take how long and grow how big, and that a key goes to
//! the address it was set for and nowhere else.

mod classify;
mod lines;
mod sse;

pub(super) use classify::classify;

use super::{LlmError, LlmErrorKind, Service};
use crate::conversation::CutBy;
use lines::Unreadable;
use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderValue, RETRY_AFTER};
use reqwest::{Client, Response, Url};
use secrecy::{ExposeSecret, SecretString};
use sse::SseDecoder;
use std::future::Future;
use std::time::Duration;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// Bounds of one request.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Longest wait for a connection.
    pub connect: Duration,
    /// Longest silence, before the first byte or between two. Thinking models are silent for minutes.
    pub idle: Duration,
    /// Longest time for a whole answer.
    pub whole: Duration,
    /// Largest event of a stream, in bytes.
    pub event_bytes: usize,
    /// Largest answer, in bytes as sent.
    pub answer_bytes: usize,
    /// First wait before another attempt; each further one is twice as long.
    pub backoff: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(10),
            idle: Duration::from_secs(180),
            whole: Duration::from_secs(1200),
            event_bytes: 4 << 20,
            answer_bytes: 16 << 20,
            backoff: Duration::from_secs(2),
        }
    }
}

/// Largest part of an error's body that is read.
const ERROR_BYTES: usize = 64 << 10;

/// Longest time spent on reading an error's body.
const ERROR_TIME: Duration = Duration::from_secs(10);

/// The client could not be set up.
#[derive(Debug, thiserror::Error)]
#[error("the HTTP client for models could not be set up: {0}")]
pub struct WireError(#[from] reqwest::Error);

/// The client, to be made once and cloned.
#[derive(Clone, Debug)]
pub struct Wire {
    outer: Client,
    local: Client,
    limits: Limits,
}

impl Wire {
    /// Sets the client up. It follows no redirect, and reaches this machine without a proxy.
    ///
    /// # Errors
    /// [`WireError`] if the system offers no usable TLS set-up.
    #[expect(clippy::disallowed_methods, reason = "the one client for models")]
    pub fn new(limits: Limits) -> Result<Self, WireError> {
        // `Err` means that a provider is installed already, which serves as well.
        rustls::crypto::ring::default_provider().install_default().ok();
        let builder = || {
            Client::builder()
                .user_agent(concat!("sluicegate/", env!("CARGO_PKG_VERSION")))
                .redirect(reqwest::redirect::Policy::none())
                .connect_timeout(limits.connect)
        };
        Ok(Self { outer: builder().build()?, local: builder().no_proxy().build()?, limits })
    }

    /// The bounds it keeps.
    #[must_use]
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Posts a JSON body and opens the stream of server-sent events that answers it.
    ///
    /// # Errors
    /// Whatever the address answers instead, classified.
    pub(super) async fn post<'a>(
        &self,
        asked: Asked<'a>,
        url: Url,
        key_header: &'static str,
        body: String,
        cancel: &'a CancellationToken,
    ) -> Result<Events<'a>, LlmError> {
        let mut key = HeaderValue::from_str(asked.key.expose_secret())
            .map_err(|_| asked.fault(LlmErrorKind::Key, "it holds characters that no key has"))?;
        key.set_sensitive(true);
        let client = if is_this_machine(&url) { &self.local } else { &self.outer };
        let sending = client
            .post(url)
            .header(key_header, key)
            .header(CONTENT_TYPE, "application/json")
            .header(ACCEPT, "text/event-stream")
            .body(body)
            .send();
        let guard =
            Guard { asked, cancel, idle: self.limits.idle, deadline: Instant::now() + self.limits.whole };
        let response = guard.within(sending).await?.map_err(|error| asked.transport(&error))?;
        if response.status().is_success() && is_event_stream(response.headers()) {
            return Ok(Events {
                response,
                guard,
                decoder: SseDecoder::new(self.limits.event_bytes),
                left: self.limits.answer_bytes,
                ended: false,
            });
        }
        Err(refusal(&guard, response).await)
    }
}

/// Who was asked, and with which key: everything that a failure is told with, and must be told without.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asked<'a> {
    pub(super) service: &'static Service,
    pub(super) model: &'a str,
    pub(super) key: &'a SecretString,
}

impl Asked<'_> {
    /// A failure, told without the key.
    pub(super) fn fault(&self, kind: LlmErrorKind, message: &str) -> LlmError {
        LlmError::new(kind, self.service, self.model, &self.without_key(message))
    }

    /// The text with every occurrence of the key taken out.
    pub(super) fn without_key(&self, text: &str) -> String {
        let key = self.key.expose_secret();
        if key.is_empty() { text.to_owned() } else { text.replace(key, "[key]") }
    }

    /// The connection failed in the middle of an answer.
    fn cut(&self, error: &reqwest::Error) -> LlmError {
        LlmError { kind: LlmErrorKind::CutOff, ..self.transport(error) }
    }

    /// A failure below HTTP. Its words come without the address, which belongs in no error.
    fn transport(&self, error: &reqwest::Error) -> LlmError {
        if error.is_timeout() {
            return self.fault(LlmErrorKind::Unreachable, "no connection in time");
        }
        let mut cause: &dyn std::error::Error = error;
        while let Some(deeper) = cause.source() {
            cause = deeper;
        }
        let what = if error.is_connect() { "no connection" } else { "the connection failed" };
        self.fault(LlmErrorKind::Unreachable, &format!("{what}: {cause}"))
    }
}

/// Bounds every wait of one request.
#[derive(Debug)]
struct Guard<'a> {
    asked: Asked<'a>,
    cancel: &'a CancellationToken,
    idle: Duration,
    deadline: Instant,
}

impl Guard<'_> {
    async fn within<F: Future>(&self, work: F) -> Result<F::Output, LlmError> {
        let now = Instant::now();
        if now >= self.deadline {
            return Err(self.asked.fault(LlmErrorKind::TimedOut, "the whole answer took too long"));
        }
        let until = self.deadline.min(now + self.idle);
        tokio::select! {
            biased;
            () = self.cancel.cancelled() => Err(self.asked.fault(LlmErrorKind::Cancelled, "")),
            done = tokio::time::timeout_at(until, work) => done.map_err(|_| {
                let seconds = (until - now).as_secs();
                self.asked.fault(LlmErrorKind::TimedOut, &format!("silent for {seconds} seconds"))
            }),
        }
    }

    /// A wait that ended without a byte, as the end of an answer.
    fn broken(&self, error: LlmError) -> Broken {
        let by = match error.kind {
            LlmErrorKind::Cancelled => CutBy::Cancelled,
            _ if Instant::now() >= self.deadline => CutBy::OurLimit,
            _ => CutBy::Connection,
        };
        Broken { by, error }
    }
}

/// An answer that broke off.
#[derive(Debug)]
pub(super) struct Broken {
    /// What broke it off.
    pub(super) by: CutBy,
    /// How that is told.
    pub(super) error: LlmError,
}

/// The data of the events of one answer, as they arrive.
#[derive(Debug)]
pub(super) struct Events<'a> {
    response: Response,
    guard: Guard<'a>,
    decoder: SseDecoder,
    left: usize,
    ended: bool,
}

impl Events<'_> {
    /// The next event's data; `None` when the answer has ended in good order.
    ///
    /// # Errors
    /// The connection failed or fell silent, a limit was reached, or the answer was cancelled.
    pub(super) async fn next(&mut self) -> Result<Option<String>, Broken> {
        let asked = self.guard.asked;
        let ours = |error| Broken { by: CutBy::OurLimit, error };
        let unreadable = |fault: Unreadable| ours(asked.fault(fault.kind(), &fault.to_string()));
        loop {
            if let Some(data) = self.decoder.next() {
                return Ok(Some(data));
            }
            if self.ended {
                return Ok(None);
            }
            let chunk =
                self.guard.within(self.response.chunk()).await.map_err(|error| self.guard.broken(error))?;
            match chunk.map_err(|error| Broken { by: CutBy::Connection, error: asked.cut(&error) })? {
                Some(bytes) => {
                    self.left = self.left.checked_sub(bytes.len()).ok_or_else(|| {
                        ours(asked.fault(LlmErrorKind::CutOff, "longer than an answer may be here"))
                    })?;
                    self.decoder.push(&bytes).map_err(unreadable)?;
                }
                None => {
                    self.ended = true;
                    self.decoder.end().map_err(unreadable)?;
                }
            }
        }
    }
}

/// What an answer that is no stream of events means.
async fn refusal(guard: &Guard<'_>, mut response: Response) -> LlmError {
    let asked = guard.asked;
    let status = response.status();
    if status.is_redirection() {
        let message = "it redirects to another address, which is not followed, so that the key stays here";
        return LlmError { status: Some(status.as_u16()), ..asked.fault(LlmErrorKind::Unreachable, message) };
    }
    let told = retry_after(response.headers());
    let guard = Guard { deadline: guard.deadline.min(Instant::now() + ERROR_TIME), ..*guard };
    let mut body = Vec::new();
    while body.len() < ERROR_BYTES {
        match guard.within(response.chunk()).await {
            Ok(Ok(Some(bytes))) => body.extend_from_slice(&bytes),
            // What arrived is enough to tell by.
            Ok(Ok(None) | Err(_)) => break,
            Err(error) if error.kind == LlmErrorKind::Cancelled => return error,
            Err(_) => break,
        }
    }
    body.truncate(ERROR_BYTES);
    let body = String::from_utf8_lossy(&body);
    let http = (!status.is_success()).then_some(status.as_u16());
    let error = classify(&asked, http, &body);
    LlmError { retry_after: told.or(error.retry_after), ..error }
}

fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let seconds: u64 = headers.get(RETRY_AFTER)?.to_str().ok()?.trim().parse().ok()?;
    Some(Duration::from_secs(seconds))
}

fn is_event_stream(headers: &HeaderMap) -> bool {
    headers.get(CONTENT_TYPE).is_none_or(|value| {
        value
            .to_str()
            .is_ok_and(|text| text.trim_start().to_ascii_lowercase().starts_with("text/event-stream"))
    })
}

fn is_this_machine(url: &Url) -> bool {
    url.host_str().is_some_and(|host| {
        let host = host.trim_start_matches('[').trim_end_matches(']');
        host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
    })
}
