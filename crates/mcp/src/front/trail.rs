//! The audit trail as resources: the newest page, by page, by call, by confirmation. A key reads the rows of its own calls,
//! and everybody's only if it was given that. Arguments and results are not in it: people read those on the pages.

use super::era::{Era, meta};
use super::message::{INTERNAL, INVALID_PARAMS, INVALID_REQUEST, NO_RESOURCE, RpcError};
use super::sessions::Session;
use super::{Visit, handshake};
use async_trait::async_trait;
use http::StatusCode;
use serde_json::{Value, json};
use sluicegate_gateway::audit::AuditRow;
use sluicegate_gateway::{CallId, StoreError};
use sluicegate_policy::CallerId;
use tokio::sync::watch;

/// The resource of the newest page; every other one begins with it.
const NEWEST: &str = "sluicegate://audit";
/// Rows of a page.
const ROWS: u32 = 50;
/// Longest address that is looked at.
const MAX_URI: usize = 256;

/// Rows that are asked for.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct TrailQuery {
    /// Of this caller's calls alone.
    pub caller: Option<CallerId>,
    /// Of this call alone.
    pub call: Option<CallId>,
    /// Before this row.
    pub before: Option<i64>,
    /// At most so many rows.
    pub limit: u32,
}

/// Rows, newest first, and where the next page begins.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct TrailPage {
    /// The rows.
    pub rows: Vec<AuditRow>,
    /// Give this as [`TrailQuery::before`] for the next page; `None` if this is the last one.
    pub next: Option<i64>,
}

/// The trail, for reading.
#[async_trait]
pub trait Trail: Send + Sync + 'static {
    /// One page.
    ///
    /// # Errors
    /// When it cannot be read.
    async fn page(&self, query: TrailQuery) -> Result<TrailPage, StoreError>;

    /// Changes whenever the trail grows.
    fn grown(&self) -> watch::Receiver<u64>;
}

/// One resource.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Resource {
    Newest,
    Before(i64),
    Call(CallId),
    Confirmation(CallId),
}

impl Resource {
    fn parse(uri: &str) -> Option<Self> {
        let rest = uri.strip_prefix(NEWEST)?;
        if rest.is_empty() {
            return Some(Self::Newest);
        }
        let (kind, id) = rest.strip_prefix('/')?.split_once('/')?;
        match kind {
            "before" => id.parse().ok().filter(|seq| *seq > 0).map(Self::Before),
            "calls" => CallId::parse(id).map(Self::Call),
            "confirmations" => CallId::parse(id).map(Self::Confirmation),
            _ => None,
        }
    }
}

/// What `resources/list` answers.
pub(crate) fn listed() -> Value {
    json!({ "resources": [{
        "uri": NEWEST,
        "name": "audit",
        "title": "Audit trail, newest page",
        "description": "What became of the calls of this key, newest first, each row with its place in the chain. \
                        Arguments and results are not in it.",
        "mimeType": "application/json",
    }] })
}

/// What `resources/templates/list` answers.
pub(crate) fn templates() -> Value {
    let template = |path: &str, name: &str, title: &str| {
        json!({
            "uriTemplate": format!("{NEWEST}/{path}"), "name": name, "title": title, "mimeType": "application/json",
        })
    };
    json!({ "resourceTemplates": [
        template("before/{row}", "audit-page", "Audit trail, the page before a row"),
        template("calls/{call}", "audit-call", "Audit trail of one call"),
        template("confirmations/{call}", "audit-confirmation", "What became of a call that waits for a person"),
    ] })
}

/// What an address stands for, to a reader who sees the calls of this caller or, without one, all; `None` if it is no
/// address of ours.
fn query(uri: &str, reader: Option<&CallerId>, limit: u32) -> Option<TrailQuery> {
    let resource = Some(uri).filter(|uri| uri.len() <= MAX_URI).and_then(Resource::parse)?;
    let (call, before) = match resource {
        Resource::Newest => (None, None),
        Resource::Before(seq) => (None, Some(seq)),
        Resource::Call(call) | Resource::Confirmation(call) => (Some(call), None),
    };
    Some(TrailQuery { caller: reader.cloned(), call, before, limit })
}

/// The last row of what an address stands for now, 0 if there is none; `None` if it is no address of ours, or the trail
/// cannot be read.
pub(super) async fn last_row(trail: &dyn Trail, uri: &str, reader: Option<&CallerId>) -> Option<i64> {
    let page = trail.page(query(uri, reader, 1)?).await;
    match page {
        Ok(page) => Some(page.rows.first().map_or(0, |row| row.seq)),
        Err(error) => {
            tracing::warn!(%error, "the trail could not be read for a subscriber");
            None
        }
    }
}

/// Adds what the newer era wants said of an answer that may be kept.
pub(crate) fn enveloped(mut result: Value, era: Era, keep_ms: u32) -> Value {
    if let (Era::SelfDescribing, Some(result)) = (era, result.as_object_mut()) {
        result.insert("resultType".to_owned(), "complete".into());
        result.insert("ttlMs".to_owned(), keep_ms.into());
        result.insert("cacheScope".to_owned(), "private".into());
        result.insert("_meta".to_owned(), json!({ meta!("serverInfo"): handshake::server_info() }));
    }
    result
}

fn missing(uri: &str, era: Era) -> RpcError {
    let code = match era {
        Era::Handshake => NO_RESOURCE,
        Era::SelfDescribing => INVALID_PARAMS,
    };
    let shown: String = uri.chars().take(MAX_URI).collect();
    let error = RpcError::new(code, "Resource not found").data(json!({ "uri": shown }));
    match era {
        Era::Handshake => error,
        Era::SelfDescribing => error.status(StatusCode::BAD_REQUEST),
    }
}

impl Visit {
    /// What `resources/read` answers.
    pub(super) async fn read_resource(&self, uri: Option<&str>, era: Era) -> Result<Value, RpcError> {
        let uri = uri.unwrap_or_default();
        let query = query(uri, self.reader(), ROWS).ok_or_else(|| missing(uri, era))?;
        let page = self.inner.trail.page(query).await.map_err(|error| {
            tracing::error!(%error, "the trail could not be read for a client");
            RpcError::new(INTERNAL, "the audit trail cannot be read now")
                .status(StatusCode::SERVICE_UNAVAILABLE)
        })?;
        if page.rows.is_empty() && uri != NEWEST {
            return Err(missing(uri, era));
        }
        let text = written(&page).to_string();
        let contents = json!({ "contents": [{ "uri": uri, "mimeType": "application/json", "text": text }] });
        Ok(enveloped(contents, era, 0))
    }

    /// Whose calls this key reads about; `None`: everybody's.
    pub(super) fn reader(&self) -> Option<&CallerId> {
        (!self.holder.audit_read).then(|| self.caller())
    }

    /// What `resources/subscribe` and its opposite answer.
    pub(super) async fn subscribe(&self, session: &Session, uri: Option<&str>) -> Result<Value, RpcError> {
        let uri = uri.unwrap_or_default();
        let last = last_row(self.inner.trail.as_ref(), uri, self.reader()).await;
        let last = last.ok_or_else(|| missing(uri, Era::Handshake))?;
        if session.watch(uri, last) {
            Ok(json!({}))
        } else {
            Err(RpcError::new(INVALID_REQUEST, "this session has too many subscriptions"))
        }
    }
}

fn written(page: &TrailPage) -> Value {
    let rows: Vec<Value> = page
        .rows
        .iter()
        .map(|row| {
            json!({
                "row": row.seq,
                "at_ms": row.at_ms,
                "event": row.kind,
                "call": row.call,
                "by": row.actor,
                "facts": serde_json::from_str::<Value>(&row.facts).unwrap_or(Value::Null),
                "prev_hash": row.prev_hash,
                "hash": row.hash,
            })
        })
        .collect();
    let next = page.next.map(|row| format!("{NEWEST}/before/{row}"));
    json!({ "rows": rows, "next": next })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_one_of_ours_or_none() {
        let call = CallId::random();
        assert_eq!(Resource::parse(NEWEST), Some(Resource::Newest));
        assert_eq!(Resource::parse("sluicegate://audit/before/7"), Some(Resource::Before(7)));
        assert_eq!(Resource::parse(&format!("sluicegate://audit/calls/{call}")), Some(Resource::Call(call)));
        for wrong in [
            "",
            "sluicegate://audit/",
            "sluicegate://audit2",
            "sluicegate://audit/before/-1",
            "sluicegate://audit/before/x",
            "sluicegate://audit/calls/",
            "sluicegate://audit/calls/../1",
            "file:///etc/passwd",
            "SLUICEGATE://audit",
        ] {
            assert_eq!(Resource::parse(wrong), None, "{wrong}");
        }
    }
}
