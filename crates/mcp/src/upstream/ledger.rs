//! Which requests of a connection have left this process. The difference between "not run" and "unknown" rests here.

use rmcp::model::{ClientJsonRpcMessage, ClientRequest, RequestId};
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use tokio::sync::Notify;

/// Requests whose results must stay as they were sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// `tools/call`.
    Call,
    /// `tools/list`.
    List,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Entry {
    /// It has been written, or writing has begun.
    Sent(Kind),
    /// Whoever asked has given up before; it must not be written any more.
    Withdrawn,
}

/// The requests of one connection. Ids are the client's own running numbers, never a stranger's.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    entries: Mutex<HashMap<i64, Entry>>,
    ended: Notify,
}

impl Ledger {
    /// To be asked by a transport right before it writes a message. `false`: it has been withdrawn, do not write it.
    pub(crate) fn begin(&self, message: &ClientJsonRpcMessage) -> bool {
        let ClientJsonRpcMessage::Request(request) = message else { return true };
        let kind = match &request.request {
            ClientRequest::CallToolRequest(_) => Kind::Call,
            ClientRequest::ListToolsRequest(_) => Kind::List,
            _ => return true,
        };
        let Some(id) = number(&request.id) else { return true };
        self.with(|entries| match entries.get(&id) {
            Some(Entry::Withdrawn) => {
                entries.remove(&id);
                false
            }
            _ => {
                entries.insert(id, Entry::Sent(kind));
                true
            }
        })
    }

    /// Takes a request back. `true`: it was not written and never will be. `false`: it may have left.
    pub(crate) fn withdraw(&self, id: &RequestId) -> bool {
        let Some(id) = number(id) else { return false };
        self.with(|entries| match entries.get(&id) {
            Some(Entry::Sent(_)) => false,
            Some(Entry::Withdrawn) | None => {
                entries.insert(id, Entry::Withdrawn);
                true
            }
        })
    }

    /// What the answer with this id answers. A list is over with its answer; a call ends when its session says so.
    pub(crate) fn answered(&self, id: i64) -> Option<Kind> {
        self.with(|entries| match entries.get(&id) {
            Some(Entry::Sent(Kind::List)) => entries.remove(&id).map(|_| Kind::List),
            Some(Entry::Sent(Kind::Call)) => Some(Kind::Call),
            Some(Entry::Withdrawn) | None => None,
        })
    }

    /// The request is over.
    pub(crate) fn end(&self, id: &RequestId) {
        if let Some(id) = number(id) {
            self.with(|entries| {
                if matches!(entries.get(&id), Some(Entry::Sent(_))) {
                    entries.remove(&id);
                }
            });
            self.ended.notify_waiters();
        }
    }

    /// Whether a call is on its way.
    pub(crate) fn busy(&self) -> bool {
        self.with(|entries| entries.values().any(|entry| *entry == Entry::Sent(Kind::Call)))
    }

    /// Waits until no call is on its way.
    pub(crate) async fn idle(&self) {
        loop {
            let ended = self.ended.notified();
            if !self.busy() {
                return;
            }
            ended.await;
        }
    }

    fn with<T>(&self, act: impl FnOnce(&mut HashMap<i64, Entry>) -> T) -> T {
        act(&mut self.entries.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

fn number(id: &RequestId) -> Option<i64> {
    match id {
        RequestId::Number(id) => Some(*id),
        RequestId::String(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rmcp::model::{CallToolRequest, CallToolRequestParams};

    fn call(id: i64) -> ClientJsonRpcMessage {
        let request = CallToolRequest::new(CallToolRequestParams::new("t"));
        ClientJsonRpcMessage::request(ClientRequest::CallToolRequest(request), RequestId::Number(id))
    }

    #[test]
    fn a_request_is_either_withdrawn_or_written_never_both() {
        let ledger = Ledger::default();
        assert!(ledger.begin(&call(1)));
        assert!(!ledger.withdraw(&RequestId::Number(1)));
        assert!(ledger.withdraw(&RequestId::Number(2)));
        assert!(!ledger.begin(&call(2)));
    }

    #[test]
    fn racing_threads_agree() {
        for id in 0..200 {
            let ledger = Ledger::default();
            let (written, withdrawn) = std::thread::scope(|scope| {
                let writer = scope.spawn(|| ledger.begin(&call(id)));
                let asker = scope.spawn(|| ledger.withdraw(&RequestId::Number(id)));
                (writer.join().unwrap(), asker.join().unwrap())
            });
            assert_ne!(written, withdrawn);
        }
    }

    #[tokio::test]
    async fn idle_waits_for_the_last_call() {
        let ledger = Ledger::default();
        ledger.begin(&call(1));
        let idle = ledger.idle();
        tokio::pin!(idle);
        assert!(futures::poll!(&mut idle).is_pending());
        ledger.end(&RequestId::Number(1));
        idle.await;
        assert!(!ledger.busy());
    }
}
