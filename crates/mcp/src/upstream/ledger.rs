//! Which requests of a connection have left this process. The difference between "not run" and "unknown" rests here.

use rmcp::model::{ClientJsonRpcMessage, ClientRequest, ProgressToken, RequestId};
use serde_json::Value;
use sluicegate_gateway::{Notice, Notices};
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
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

/// A call whose notices somebody wants.
#[derive(Debug)]
struct Heard {
    id: RequestId,
    token: Value,
    notices: Notices,
}

/// The requests of one connection. Ids are the client's own running numbers, never a stranger's.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    entries: Mutex<HashMap<i64, Entry>>,
    heard: Mutex<Vec<Heard>>,
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
        self.heard().retain(|call| call.id != *id);
        if let Some(id) = number(id) {
            self.with(|entries| {
                if matches!(entries.get(&id), Some(Entry::Sent(_))) {
                    entries.remove(&id);
                }
            });
            self.ended.notify_waiters();
        }
    }

    /// Passes on what the server says of this call, until it ends.
    pub(crate) fn listen(&self, id: &RequestId, token: &ProgressToken, notices: Notices) {
        if notices.are_heard()
            && let Ok(token) = serde_json::to_value(token)
        {
            self.heard().push(Heard { id: id.clone(), token, notices });
        }
    }

    /// Something that the server says unasked, in the order in which it says it.
    pub(crate) fn said(&self, method: &str, params: Option<&Value>) {
        let Some(Value::Object(params)) = params else { return };
        let heard = self.heard();
        match method {
            "notifications/progress" => {
                let Some(call) = heard.iter().find(|call| params.get("progressToken") == Some(&call.token))
                else {
                    return;
                };
                let mut progress = params.clone();
                progress.remove("progressToken");
                call.notices.say(Notice::Progress(Value::Object(progress)));
            }
            // A log line does not say which call it belongs to. With one call on its way it is that one's; with several
            // it could be a stranger's, so nobody gets it.
            "notifications/message" => {
                if let [call] = heard.as_slice()
                    && self.calls() == 1
                {
                    call.notices.say(Notice::Log(Value::Object(params.clone())));
                }
            }
            _ => {}
        }
    }

    fn heard(&self) -> MutexGuard<'_, Vec<Heard>> {
        self.heard.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn calls(&self) -> usize {
        self.with(|entries| entries.values().filter(|entry| **entry == Entry::Sent(Kind::Call)).count())
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
    use serde_json::json;

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

    #[test]
    fn notices_go_to_the_call_they_belong_to_and_a_doubtful_one_to_nobody() {
        let ledger = Ledger::default();
        let progress =
            |token: i64| json!({ "progressToken": token, "progress": 1, "total": 2, "odd": [null] });
        let mut heard = Vec::new();
        for id in [1, 2] {
            ledger.begin(&call(id));
            let (notices, receiver) = Notices::listened(None);
            ledger.listen(
                &RequestId::Number(id),
                &ProgressToken(rmcp::model::NumberOrString::Number(id + 10)),
                notices,
            );
            heard.push(receiver);
        }
        ledger.said("notifications/progress", Some(&progress(12)));
        ledger.said("notifications/progress", Some(&progress(99)));
        ledger.said("notifications/message", Some(&json!({ "level": "info", "data": "whose?" })));
        assert!(heard[0].try_recv().is_err());
        let expected = Notice::Progress(json!({ "progress": 1, "total": 2, "odd": [null] }));
        assert_eq!(heard[1].try_recv().unwrap(), expected);
        assert!(heard[1].try_recv().is_err());
        ledger.end(&RequestId::Number(2));
        ledger.said("notifications/message", Some(&json!({ "level": "info", "data": "mine" })));
        assert!(matches!(heard[0].try_recv(), Ok(Notice::Log(_))));
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
