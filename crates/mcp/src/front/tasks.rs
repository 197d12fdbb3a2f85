//! Held calls as tasks (the tasks extension): their callers ask about them by id, and collect the result once.

use super::era::{Era, meta};
use super::message::{INVALID_PARAMS, MISSING_CAPABILITY, Request, RpcError};
use super::{Visit, answer};
use http::StatusCode;
use serde_json::{Map, Value, json};
use sluicegate_gateway::{CallId, CallState, Detached, HeldCall, Kept};

/// The extension's name.
pub(crate) const EXTENSION: &str = meta!("tasks");
/// How often to ask, in milliseconds. A person has to read first.
const POLL_MS: u32 = 2_000;
/// How long a result is kept, in milliseconds.
const KEPT_MS: i64 = 600_000;

/// Whether the client takes tasks for answers.
pub(crate) fn taken(capabilities: Option<&Map<String, Value>>) -> bool {
    capabilities
        .and_then(|capabilities| capabilities.get("extensions"))
        .and_then(|extensions| extensions.get(EXTENSION))
        .is_some_and(Value::is_object)
}

/// The answer to a call that became a task.
pub(crate) fn created(held: &HeldCall, public: &str) -> Value {
    open(held, public, "task")
}

fn open(held: &HeldCall, public: &str, kind: &str) -> Value {
    let url = answer::approval_url(held, public);
    json!({
        "resultType": kind,
        "taskId": held.call.to_string(),
        "status": "working",
        "statusMessage": format!("waiting for a person until {}: {url}", held.expires_at),
        "createdAt": held.asked_at,
        "lastUpdatedAt": held.asked_at,
        "ttlMs": held.limit_ms.saturating_add(KEPT_MS),
        "pollIntervalMs": POLL_MS,
        "_meta": answer::status_of(held, public),
    })
}

fn over(kept: Kept) -> Value {
    let Kept { answer, asked_at, ended_at, .. } = kept;
    let cancelled = answer.state == CallState::Withdrawn;
    let mut task = json!({
        "resultType": "complete",
        "taskId": answer.call.to_string(),
        "status": if cancelled { "cancelled" } else { "completed" },
        "createdAt": asked_at,
        "lastUpdatedAt": ended_at,
        "ttlMs": KEPT_MS,
        "pollIntervalMs": POLL_MS,
    });
    if let (false, Some(task)) = (cancelled, task.as_object_mut()) {
        task.insert("result".to_owned(), answer::ended(*answer, Era::SelfDescribing));
    }
    task
}

/// A client that did not say that it takes tasks cannot ask about them.
pub(crate) fn missing() -> RpcError {
    RpcError::new(MISSING_CAPABILITY, "Missing required client capability")
        .status(StatusCode::BAD_REQUEST)
        .data(json!({ "requiredCapabilities": { "extensions": { EXTENSION: {} } } }))
}

fn unknown() -> RpcError {
    RpcError::new(INVALID_PARAMS, "there is no such task, or its result has been collected")
        .status(StatusCode::BAD_REQUEST)
}

impl Visit {
    /// `tasks/get`, `tasks/update` and `tasks/cancel`.
    pub(super) async fn task(&self, request: &Request) -> Result<Value, RpcError> {
        if !taken(request.capabilities()) {
            return Err(missing());
        }
        let call = request.text("taskId").and_then(CallId::parse).ok_or_else(unknown)?;
        let gateway = &self.inner.gateway;
        let found = gateway.detached(self.caller(), call).ok_or_else(unknown)?;
        match (request.method.as_str(), found) {
            ("tasks/get", Detached::Open(held)) => Ok(open(&held, &self.inner.public, "complete")),
            ("tasks/get", Detached::Ended(kept)) => {
                // Of two who ask at once, one gets it.
                gateway.collect(self.caller(), call).await.ok_or_else(unknown)?;
                Ok(over(kept))
            }
            ("tasks/cancel", Detached::Open(_)) => {
                gateway.withdraw(self.caller(), call);
                Ok(json!({ "resultType": "complete" }))
            }
            // Nothing is asked of a client about a task, so whatever it answers is acknowledged and means nothing.
            _ => Ok(json!({ "resultType": "complete" })),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_declared_extension_counts() {
        let declared = |value: Value| taken(value.as_object());
        assert!(declared(json!({ "extensions": { EXTENSION: {} } })));
        for not in [
            json!({}),
            json!({ "extensions": {} }),
            json!({ "tasks": {} }),
            json!({ "extensions": { EXTENSION: null } }),
        ] {
            assert!(!declared(not));
        }
    }
}
