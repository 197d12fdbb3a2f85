//! Sessions of the older era: bounded, and each bound to the key that opened it. A session is no identity.

use super::message::RequestId;
use sluicegate_policy::{CallerId, ServerName};
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use tokio_util::sync::CancellationToken;

/// Sessions of one key. A further one ends the one that was idle longest.
pub(crate) const MAX_SESSIONS: usize = 100;
/// Requests that one session may have open.
const MAX_OPEN: usize = 256;
/// Resources that one session may watch.
pub(crate) const MAX_WATCHED: usize = 32;
/// Streams of notices that one session may have open.
const MAX_STREAMS: usize = 4;

/// One session.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) version: &'static str,
    caller: CallerId,
    server: Option<ServerName>,
    client: String,
    log_level: Mutex<Option<&'static str>>,
    open: Mutex<HashMap<String, CancellationToken>>,
    streams: AtomicUsize,
    used: AtomicU64,
    /// Resources that are watched, each with the last row that was told.
    watched: Mutex<BTreeMap<String, i64>>,
    closed: CancellationToken,
}

/// An open request of a session; over when dropped.
#[derive(Debug)]
pub(crate) struct OpenRequest {
    session: Arc<Session>,
    key: String,
    pub(crate) cancelled: CancellationToken,
}

impl Drop for OpenRequest {
    fn drop(&mut self) {
        self.session.open().remove(&self.key);
    }
}

/// An open stream of notices; over when dropped.
#[derive(Debug)]
pub(crate) struct OpenStream(Arc<Session>);

impl OpenStream {
    pub(crate) fn session(&self) -> &Session {
        &self.0
    }

    pub(crate) fn closed(&self) -> &CancellationToken {
        &self.0.closed
    }
}

impl Drop for OpenStream {
    fn drop(&mut self) {
        self.0.streams.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Why a request cannot be opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum NotOpened {
    /// A request of this id is open.
    SameId,
    /// Too many are open.
    TooMany,
}

impl Session {
    fn open(&self) -> std::sync::MutexGuard<'_, HashMap<String, CancellationToken>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens a request; it is cancelled by its id, or with the session.
    pub(crate) fn begin(self: &Arc<Self>, id: &RequestId) -> Result<OpenRequest, NotOpened> {
        let key = id.key();
        let mut open = self.open();
        if open.contains_key(&key) {
            return Err(NotOpened::SameId);
        }
        if open.len() >= MAX_OPEN {
            return Err(NotOpened::TooMany);
        }
        let cancelled = self.closed.child_token();
        open.insert(key.clone(), cancelled.clone());
        drop(open);
        Ok(OpenRequest { session: Arc::clone(self), key, cancelled })
    }

    /// Cancels an open request; one that is not open is ignored.
    pub(crate) fn cancel(&self, id: &RequestId) {
        if let Some(cancelled) = self.open().get(&id.key()) {
            cancelled.cancel();
        }
    }

    pub(crate) fn stream(self: &Arc<Self>) -> Option<OpenStream> {
        let before = self.streams.fetch_add(1, Ordering::SeqCst);
        let stream = OpenStream(Arc::clone(self));
        (before < MAX_STREAMS).then_some(stream)
    }

    fn watched_now(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, i64>> {
        self.watched.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Watches a resource whose last row is known. `false`: too many are watched.
    pub(crate) fn watch(&self, uri: &str, last: i64) -> bool {
        let mut watched = self.watched_now();
        if watched.len() >= MAX_WATCHED && !watched.contains_key(uri) {
            return false;
        }
        watched.entry(uri.to_owned()).or_insert(last);
        true
    }

    pub(crate) fn unwatch(&self, uri: &str) {
        self.watched_now().remove(uri);
    }

    /// The resources that are watched.
    pub(crate) fn watched(&self) -> Vec<String> {
        self.watched_now().keys().cloned().collect()
    }

    /// Whether this row of a watched resource is news; it is then told, once, whatever number of streams is open.
    pub(crate) fn is_news(&self, uri: &str, last: i64) -> bool {
        match self.watched_now().get_mut(uri) {
            Some(told) if *told < last => {
                *told = last;
                true
            }
            _ => false,
        }
    }

    pub(crate) fn log_level(&self) -> Option<&'static str> {
        *self.log_level.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn set_log_level(&self, level: &'static str) {
        *self.log_level.lock().unwrap_or_else(PoisonError::into_inner) = Some(level);
    }

    /// The client's own name for itself: not to be trusted, good enough to guess its patience from.
    pub(crate) fn client(&self) -> &str {
        &self.client
    }

    fn is_idle(&self) -> bool {
        self.open().is_empty() && self.streams.load(Ordering::SeqCst) == 0
    }
}

/// What a session is opened with.
#[derive(Debug)]
pub(crate) struct Opening {
    pub(crate) caller: CallerId,
    pub(crate) server: Option<ServerName>,
    pub(crate) version: &'static str,
    pub(crate) client: String,
}

/// All sessions.
#[derive(Debug, Default)]
pub(crate) struct Sessions {
    all: Mutex<HashMap<CallerId, HashMap<String, Arc<Session>>>>,
    ticks: AtomicU64,
}

impl Sessions {
    fn tick(&self) -> u64 {
        self.ticks.fetch_add(1, Ordering::Relaxed)
    }

    /// Opens a session under an id. `false`: the key has too many, and all are in use.
    pub(crate) fn open(&self, id: String, opening: Opening) -> bool {
        let Opening { caller, server, version, client } = opening;
        let session = Arc::new(Session {
            version,
            caller: caller.clone(),
            server,
            client,
            log_level: Mutex::default(),
            open: Mutex::default(),
            streams: AtomicUsize::new(0),
            used: AtomicU64::new(self.tick()),
            watched: Mutex::default(),
            closed: CancellationToken::new(),
        });
        let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        let own = all.entry(caller).or_default();
        if own.len() >= MAX_SESSIONS {
            let idle = own.iter().filter(|(_, session)| session.is_idle());
            let oldest = idle.min_by_key(|(_, session)| session.used.load(Ordering::Relaxed));
            let Some(oldest) = oldest.map(|(id, _)| id.clone()) else { return false };
            if let Some(session) = own.remove(&oldest) {
                session.closed.cancel();
            }
        }
        own.insert(id, session);
        true
    }

    /// The session, if this key opened it at this address. Anybody else's is as unknown as one that never was.
    pub(crate) fn find(
        &self,
        id: &str,
        caller: &CallerId,
        server: Option<&ServerName>,
    ) -> Option<Arc<Session>> {
        let all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        let session = all.get(caller)?.get(id).filter(|session| session.server.as_ref() == server)?;
        session.used.store(self.tick(), Ordering::Relaxed);
        debug_assert_eq!(session.caller, *caller);
        Some(Arc::clone(session))
    }

    /// Ends a session: its open requests are cancelled, its streams end.
    pub(crate) fn close(&self, id: &str, caller: &CallerId, server: Option<&ServerName>) -> bool {
        if self.find(id, caller, server).is_none() {
            return false;
        }
        let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        match all.get_mut(caller).and_then(|own| own.remove(id)) {
            Some(session) => {
                session.closed.cancel();
                true
            }
            None => false,
        }
    }

    /// Ends all sessions of a key.
    pub(crate) fn close_all(&self, caller: &CallerId) {
        let own = self.all.lock().unwrap_or_else(PoisonError::into_inner).remove(caller);
        for session in own.into_iter().flatten().map(|(_, session)| session) {
            session.closed.cancel();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::message::{Message, read};
    use super::*;
    use serde_json::{Value, json};

    fn caller(name: &str) -> CallerId {
        CallerId::new(name).unwrap()
    }

    fn opening(name: &str) -> Opening {
        Opening { caller: caller(name), server: None, version: "2025-11-25", client: String::new() }
    }

    fn id(value: Value) -> RequestId {
        match read(json!({ "jsonrpc": "2.0", "id": value, "method": "ping" })).unwrap() {
            Message::Request(request) => request.id,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_session_is_found_by_its_own_key_at_its_own_address_alone() {
        let sessions = Sessions::default();
        assert!(sessions.open("s".to_owned(), opening("a")));
        let server = ServerName::new("files").unwrap();
        assert!(sessions.find("s", &caller("a"), None).is_some());
        assert!(sessions.find("s", &caller("b"), None).is_none());
        assert!(sessions.find("s", &caller("a"), Some(&server)).is_none());
        assert!(!sessions.close("s", &caller("b"), None));
        assert!(sessions.close("s", &caller("a"), None));
        assert!(!sessions.close("s", &caller("a"), None));
    }

    #[test]
    fn ten_thousand_sessions_of_one_key_are_a_hundred_and_those_in_use_stay() {
        let sessions = Sessions::default();
        assert!(sessions.open("first".to_owned(), opening("a")));
        assert!(sessions.open("other".to_owned(), opening("b")));
        let first = sessions.find("first", &caller("a"), None).unwrap();
        let busy = first.begin(&id(json!(1))).unwrap();
        for n in 0..10_000 {
            assert!(sessions.open(n.to_string(), opening("a")));
        }
        let kept = sessions.all.lock().unwrap().get(&caller("a")).unwrap().len();
        assert_eq!(kept, MAX_SESSIONS);
        assert!(
            sessions.find("first", &caller("a"), None).is_some(),
            "a session with an open request is never idle"
        );
        assert!(sessions.find("0", &caller("a"), None).is_none());
        assert!(sessions.find("9999", &caller("a"), None).is_some());
        assert!(sessions.find("other", &caller("b"), None).is_some(), "nobody else pays for it");
        drop(busy);
        assert!(sessions.open("one more".to_owned(), opening("a")));
    }

    #[test]
    fn f20_ids_are_open_once_per_session_and_a_cancel_touches_its_own_alone() {
        let sessions = Sessions::default();
        for (session, key) in [("a", "a"), ("b", "b")] {
            assert!(sessions.open(session.to_owned(), opening(key)));
        }
        let a = sessions.find("a", &caller("a"), None).unwrap();
        let b = sessions.find("b", &caller("b"), None).unwrap();
        let (of_a, of_b) = (a.begin(&id(json!(1))).unwrap(), b.begin(&id(json!(1))).unwrap());
        assert_eq!(a.begin(&id(json!(1))).unwrap_err(), NotOpened::SameId);
        let text = a.begin(&id(json!("1"))).unwrap();
        a.cancel(&id(json!(1)));
        assert!(
            of_a.cancelled.is_cancelled() && !of_b.cancelled.is_cancelled() && !text.cancelled.is_cancelled()
        );
        a.cancel(&id(json!(99)));
        drop(of_a);
        assert!(a.begin(&id(json!(1))).is_ok(), "an id that is over can be used again");
        sessions.close("a", &caller("a"), None);
        assert!(text.cancelled.is_cancelled());
    }
}
