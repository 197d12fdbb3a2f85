//! JSON-RPC messages of clients, and the errors that answer them. Pure.

use http::StatusCode;
use serde_json::{Map, Value, json};

/// A request's id, exactly as the client wrote it: text and number are told apart and given back in kind.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct RequestId(Value);

impl RequestId {
    fn read(value: Value) -> Option<Self> {
        let fits = match &value {
            Value::String(text) => text.len() <= MAX_ID,
            Value::Number(number) => number.is_i64() || number.is_u64(),
            _ => false,
        };
        fits.then_some(Self(value))
    }

    /// For an id that a notification names.
    pub(crate) fn named(params: &Map<String, Value>) -> Option<Self> {
        params.get("requestId").cloned().and_then(Self::read)
    }

    /// One text for one id: `1` and `"1"` differ.
    pub(crate) fn key(&self) -> String {
        self.0.to_string()
    }

    pub(crate) fn value(&self) -> &Value {
        &self.0
    }
}

/// Longest text id.
const MAX_ID: usize = 256;

/// One message.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Message {
    /// It wants an answer.
    Request(Request),
    /// It wants none.
    Notification { method: String, params: Map<String, Value> },
    /// An answer to something that a server asked. Nothing is asked here.
    Answer,
}

/// What a client asks.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Request {
    pub(crate) id: RequestId,
    pub(crate) method: String,
    pub(crate) params: Map<String, Value>,
}

impl Request {
    /// The request's own metadata; empty if it has none.
    pub(crate) fn meta(&self) -> Option<&Map<String, Value>> {
        self.params.get("_meta").and_then(Value::as_object)
    }

    /// What the client declares that it can do, in the era in which each request says so.
    pub(crate) fn capabilities(&self) -> Option<&Map<String, Value>> {
        self.meta()
            .and_then(|meta| meta.get("io.modelcontextprotocol/clientCapabilities"))
            .and_then(Value::as_object)
    }

    /// A parameter that is text.
    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        self.params.get(name).and_then(Value::as_str)
    }
}

/// Reads one message.
pub(crate) fn read(value: Value) -> Result<Message, RpcError> {
    let invalid = |why: &str| RpcError::new(INVALID_REQUEST, why).status(StatusCode::BAD_REQUEST);
    let Value::Object(mut object) = value else { return Err(invalid("a message is a JSON object")) };
    if object.get("jsonrpc").and_then(Value::as_str) != Some("2.0") {
        return Err(invalid("a message has `jsonrpc` `2.0`"));
    }
    let method = match object.remove("method") {
        Some(Value::String(method)) => method,
        Some(_) => return Err(invalid("`method` is text")),
        None if object.contains_key("result") || object.contains_key("error") => return Ok(Message::Answer),
        None => return Err(invalid("a message has a `method`")),
    };
    let id = match object.remove("id") {
        None => None,
        Some(id) => Some(
            RequestId::read(id)
                .ok_or_else(|| invalid("an `id` is a whole number or a text of at most 256 bytes"))?,
        ),
    };
    let params = match object.remove("params") {
        None => Map::new(),
        Some(Value::Object(params)) => params,
        Some(_) => {
            let error =
                RpcError::new(INVALID_PARAMS, "`params` is an object").status(StatusCode::BAD_REQUEST);
            return Err(error);
        }
    };
    Ok(match id {
        Some(id) => Message::Request(Request { id, method, params }),
        None => Message::Notification { method, params },
    })
}

pub(crate) const PARSE_ERROR: i64 = -32700;
pub(crate) const INVALID_REQUEST: i64 = -32600;
pub(crate) const METHOD_NOT_FOUND: i64 = -32601;
pub(crate) const INVALID_PARAMS: i64 = -32602;
pub(crate) const INTERNAL: i64 = -32603;
/// No session, or one that cannot be used so.
pub(crate) const NO_SESSION: i64 = -32000;
/// The session is not known.
pub(crate) const UNKNOWN_SESSION: i64 = -32001;
/// There is no such resource; in the older era.
pub(crate) const NO_RESOURCE: i64 = -32002;
/// A header says something else than the body.
pub(crate) const HEADER_MISMATCH: i64 = -32020;
/// The client does not declare what the answer would need.
pub(crate) const MISSING_CAPABILITY: i64 = -32021;
/// A version that is not spoken here.
pub(crate) const UNSUPPORTED_VERSION: i64 = -32022;

/// A protocol error: the message was not understood, or asks for what is not offered. A call that is refused is none.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct RpcError {
    code: i64,
    message: String,
    data: Option<Value>,
    status: StatusCode,
}

impl RpcError {
    pub(crate) fn new(code: i64, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), data: None, status: StatusCode::OK }
    }

    /// With an HTTP status that says so too.
    pub(crate) fn status(mut self, status: StatusCode) -> Self {
        self.status = status;
        self
    }

    pub(crate) fn data(mut self, data: Value) -> Self {
        self.data = Some(data);
        self
    }

    pub(crate) fn http_status(&self) -> StatusCode {
        self.status
    }

    /// The message that answers a request, or one whose id could not be read.
    pub(crate) fn message(&self, id: Option<&RequestId>) -> Value {
        let mut error = json!({ "code": self.code, "message": self.message });
        if let (Some(data), Some(error)) = (&self.data, error.as_object_mut()) {
            error.insert("data".to_owned(), data.clone());
        }
        json!({ "jsonrpc": "2.0", "id": id.map(RequestId::value), "error": error })
    }
}

/// A method that is not offered.
pub(crate) fn not_found(method: &str) -> RpcError {
    let shown: String = method.chars().take(64).collect();
    RpcError::new(METHOD_NOT_FOUND, format!("Method not found: {shown}"))
}

/// The message that answers a request.
pub(crate) fn result(id: &RequestId, result: Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": id.value(), "result": result })
}

/// A message that wants no answer.
pub(crate) fn notification(method: &str, params: Value) -> Value {
    json!({ "jsonrpc": "2.0", "method": method, "params": params })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_and_number_ids_are_told_apart_and_given_back_in_kind() {
        let id =
            |value: Value| match read(json!({ "jsonrpc": "2.0", "id": value, "method": "ping" })).unwrap() {
                Message::Request(request) => request.id,
                other => panic!("{other:?}"),
            };
        assert_ne!(id(json!(1)).key(), id(json!("1")).key());
        assert_eq!(result(&id(json!("1")), json!({}))["id"], json!("1"));
        assert_eq!(result(&id(json!(0)), json!({}))["id"], json!(0));
    }

    #[test]
    fn what_is_no_message_is_refused() {
        for wrong in [
            json!([]),
            json!("ping"),
            json!({ "id": 1, "method": "ping" }),
            json!({ "jsonrpc": "1.0", "id": 1, "method": "ping" }),
            json!({ "jsonrpc": "2.0", "id": null, "method": "ping" }),
            json!({ "jsonrpc": "2.0", "id": 1.5, "method": "ping" }),
            json!({ "jsonrpc": "2.0", "id": {}, "method": "ping" }),
            json!({ "jsonrpc": "2.0", "id": "x".repeat(257), "method": "ping" }),
            json!({ "jsonrpc": "2.0", "id": 1, "method": 7 }),
            json!({ "jsonrpc": "2.0", "id": 1 }),
            json!({ "jsonrpc": "2.0", "id": 1, "method": "ping", "params": [1] }),
        ] {
            assert_eq!(read(wrong.clone()).unwrap_err().http_status(), StatusCode::BAD_REQUEST, "{wrong}");
        }
        assert_eq!(read(json!({ "jsonrpc": "2.0", "id": 1, "result": {} })).unwrap(), Message::Answer);
    }
}
