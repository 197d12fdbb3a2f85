//! Streams of notices that a client opens: kept alive, bounded, over when their key or the product is.

use super::era::meta;
use super::message::{self, INVALID_REQUEST, Request, RpcError};
use super::sessions::{MAX_WATCHED, OpenStream};
use super::trail::{self, Trail};
use super::{FrontBody, Visit, events, refused, tasks};
use futures::StreamExt as _;
use futures::stream::BoxStream;
use http::{Response, StatusCode};
use serde_json::{Map, Value, json};
use sluicegate_gateway::ToolCatalogue;
use sluicegate_policy::CallerId;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

/// Longest silence on a stream.
pub(crate) const KEEP_ALIVE: Duration = Duration::from_secs(15);
/// Subscriptions that one key may have open.
const MAX_SUBSCRIPTIONS: usize = 32;

/// Server-sent events as text.
pub type Events = BoxStream<'static, String>;

/// One message as an event.
pub(crate) fn event(message: &Value) -> String {
    format!("event: message\ndata: {message}\n\n")
}

/// Nothing, to keep the connection open.
pub(crate) fn comment() -> String {
    ": waiting\n\n".to_owned()
}

/// How many subscriptions each key has open.
#[derive(Debug, Default)]
pub(crate) struct Streams(Arc<Mutex<HashMap<CallerId, usize>>>);

struct Place {
    counts: Arc<Mutex<HashMap<CallerId, usize>>>,
    caller: CallerId,
}

impl Streams {
    fn take(&self, caller: &CallerId) -> Option<Place> {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let count = counts.entry(caller.clone()).or_default();
        if *count >= MAX_SUBSCRIPTIONS {
            return None;
        }
        *count += 1;
        Some(Place { counts: Arc::clone(&self.0), caller: caller.clone() })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = counts.get_mut(&self.caller) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                counts.remove(&self.caller);
            }
        }
    }
}

/// What keeps a stream's place while it is open, and which resources it tells of.
enum Keeps {
    Session(OpenStream),
    Subscription { _place: Place, watched: BTreeMap<String, i64> },
}

impl Keeps {
    fn watched(&self) -> Vec<String> {
        match self {
            Self::Session(stream) => stream.session().watched(),
            Self::Subscription { watched, .. } => watched.keys().cloned().collect(),
        }
    }

    fn is_news(&mut self, uri: &str, last: i64) -> bool {
        match self {
            Self::Session(stream) => stream.session().is_news(uri, last),
            Self::Subscription { watched, .. } => match watched.get_mut(uri) {
                Some(told) if *told < last => {
                    *told = last;
                    true
                }
                _ => false,
            },
        }
    }
}

struct Listening {
    catalogue: Option<ToolCatalogue>,
    trail: Arc<dyn Trail>,
    grown: watch::Receiver<u64>,
    /// Whose rows are told of; `None`: everybody's.
    reader: Option<CallerId>,
    subscription: Option<Value>,
    standing: CancellationToken,
    keeps: Keeps,
    waiting: VecDeque<String>,
    tick: Instant,
}

impl Listening {
    async fn next(&mut self) -> Option<String> {
        loop {
            if let Some(frame) = self.waiting.pop_front() {
                return Some(frame);
            }
            let closed = match &self.keeps {
                Keeps::Session(stream) => Some(stream.closed().clone()),
                Keeps::Subscription { .. } => None,
            };
            tokio::select! {
                biased;
                () = self.standing.cancelled() => return None,
                () = cancelled(closed.as_ref()) => return None,
                more = changed(&mut self.catalogue) => {
                    if !more {
                        return None;
                    }
                    self.waiting.push_back(self.list_changed());
                }
                grown = self.grown.changed() => {
                    if grown.is_err() {
                        return None;
                    }
                    self.tell_rows().await;
                    // The silence goes on if there was nothing to tell.
                    if self.waiting.is_empty() {
                        continue;
                    }
                }
                () = sleep_until(self.tick) => self.waiting.push_back(comment()),
            }
            self.tick = Instant::now() + KEEP_ALIVE;
        }
    }

    async fn tell_rows(&mut self) {
        for uri in self.keeps.watched() {
            let Some(last) = trail::last_row(self.trail.as_ref(), &uri, self.reader.as_ref()).await else {
                continue;
            };
            if self.keeps.is_news(&uri, last) {
                self.waiting.push_back(self.notice("notifications/resources/updated", json!({ "uri": uri })));
            }
        }
    }

    fn list_changed(&self) -> String {
        self.notice("notifications/tools/list_changed", json!({}))
    }

    fn notice(&self, method: &str, mut params: Value) -> String {
        if let (Some(id), Some(params)) = (&self.subscription, params.as_object_mut()) {
            params.insert("_meta".to_owned(), json!({ meta!("subscriptionId"): id }));
        }
        event(&message::notification(method, params))
    }

    fn stream(self) -> Events {
        futures::stream::unfold(self, |mut listening| async move {
            let frame = listening.next().await?;
            Some((frame, listening))
        })
        .boxed()
    }
}

async fn cancelled(token: Option<&CancellationToken>) {
    match token {
        Some(token) => token.cancelled().await,
        None => std::future::pending().await,
    }
}

async fn changed(catalogue: &mut Option<ToolCatalogue>) -> bool {
    match catalogue {
        Some(catalogue) => catalogue.changed().await,
        None => std::future::pending().await,
    }
}

/// The stream of a session's notices.
pub(super) fn of_session(visit: &Visit, stream: OpenStream) -> Events {
    let inner = &visit.inner;
    let listening = Listening {
        catalogue: Some(inner.catalogue.clone().from_now()),
        trail: Arc::clone(&inner.trail),
        grown: inner.trail.grown(),
        reader: visit.reader().cloned(),
        subscription: None,
        standing: inner.standing(visit.caller()),
        keeps: Keeps::Session(stream),
        waiting: VecDeque::from([comment()]),
        tick: Instant::now() + KEEP_ALIVE,
    };
    listening.stream()
}

impl Visit {
    /// A subscription: acknowledged first, with what of the wanted there is.
    pub(super) async fn listen(&self, request: &Request) -> Response<FrontBody> {
        let Some(place) = self.inner.streams.take(self.caller()) else {
            let error = RpcError::new(INVALID_REQUEST, "this key has too many subscriptions open")
                .status(StatusCode::TOO_MANY_REQUESTS);
            return refused(&error, Some(&request.id));
        };
        let wanted = request.params.get("notifications").and_then(Value::as_object);
        let of_tasks = wanted.is_some_and(|wanted| wanted.contains_key("taskIds"));
        if of_tasks && !tasks::taken(request.capabilities()) {
            return refused(&tasks::missing(), Some(&request.id));
        }
        let tools = wanted.and_then(|wanted| wanted.get("toolsListChanged")) == Some(&Value::Bool(true));
        let mut granted = Map::new();
        if tools {
            granted.insert("toolsListChanged".to_owned(), true.into());
        }
        let mut watched = BTreeMap::new();
        let uris = wanted.and_then(|wanted| wanted.get("resourceSubscriptions")).and_then(Value::as_array);
        for uri in uris.into_iter().flatten().filter_map(Value::as_str).take(MAX_WATCHED) {
            if let Some(last) = trail::last_row(self.inner.trail.as_ref(), uri, self.reader()).await {
                watched.insert(uri.to_owned(), last);
            }
        }
        if !watched.is_empty() {
            granted.insert("resourceSubscriptions".to_owned(), watched.keys().cloned().collect());
        }
        let id = request.id.value().clone();
        let acknowledged = message::notification(
            "notifications/subscriptions/acknowledged",
            json!({ "_meta": { meta!("subscriptionId"): id }, "notifications": granted }),
        );
        let listening = Listening {
            catalogue: tools.then(|| self.inner.catalogue.clone().from_now()),
            trail: Arc::clone(&self.inner.trail),
            grown: self.inner.trail.grown(),
            reader: self.reader().cloned(),
            subscription: Some(id),
            standing: self.inner.standing(self.caller()),
            keeps: Keeps::Subscription { _place: place, watched },
            waiting: VecDeque::from([event(&acknowledged)]),
            tick: Instant::now() + KEEP_ALIVE,
        };
        events(listening.stream())
    }
}
