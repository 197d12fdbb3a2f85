//! A client's message on its way to the address: what it is, and what of it is said again in headers. Pure.

use crate::front::era::{self, meta};
use http::{HeaderMap, HeaderName, HeaderValue};
use serde_json::Value;
use std::collections::HashMap;

/// What kind of message it is, as far as carrying it goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Shape {
    /// It opens a session.
    Opening,
    /// A tool call, which may take as long as a person does; or a stream that stays open.
    Call,
    /// Another request, or a batch.
    Request,
    /// It wants no answer.
    Notice,
}

/// One message.
#[derive(Debug)]
pub(super) struct Outgoing {
    pub(super) message: Value,
    pub(super) shape: Shape,
    pub(super) id: Option<Value>,
    /// The request that it cancels, as its id is written.
    pub(super) cancels: Option<String>,
}

impl Outgoing {
    pub(super) fn of(message: Value) -> Self {
        let method = message.get("method").and_then(Value::as_str);
        let id = message.get("id").filter(|_| method.is_some()).cloned();
        let shape = match (method, &id) {
            (Some("initialize"), Some(_)) => Shape::Opening,
            (Some("tools/call" | "subscriptions/listen"), Some(_)) => Shape::Call,
            (_, Some(_)) => Shape::Request,
            (_, None) if message.is_array() => Shape::Call,
            (_, None) => Shape::Notice,
        };
        let cancels = (method == Some("notifications/cancelled"))
            .then(|| message.pointer("/params/requestId").map(ToString::to_string))
            .flatten();
        Self { message, shape, id, cancels }
    }

    fn version(&self) -> Option<&str> {
        self.message.get("params")?.get("_meta")?.get(meta!("protocolVersion"))?.as_str()
    }

    /// Whether it describes itself, so that no session is named beside it.
    pub(super) fn described(&self) -> bool {
        self.version().is_some()
    }

    /// The era of a cancellation: without a session there is only the one that has none.
    pub(super) fn describes_itself(&self, in_session: bool) -> bool {
        self.described() || !in_session
    }

    /// Adds the headers that must repeat what a self-describing request says.
    pub(super) fn say_again(
        &self,
        headers: &mut HeaderMap,
        repeated: &HashMap<String, Vec<(String, String)>>,
    ) {
        let (Some(version), Some(method)) =
            (self.version(), self.message.get("method").and_then(Value::as_str))
        else {
            return;
        };
        put(headers, era::VERSION_HEADER, version);
        put(headers, era::METHOD_HEADER, method);
        let params = self.message.get("params");
        let text = |name: &str| params.and_then(|params| params.get(name)).and_then(Value::as_str);
        let name = match method {
            "tools/call" | "prompts/get" => text("name"),
            "resources/read" => text("uri"),
            "tasks/get" | "tasks/update" | "tasks/cancel" => text("taskId"),
            _ => None,
        };
        let Some(name) = name else { return };
        put(headers, era::NAME_HEADER, &era::encoded(name));
        let arguments = params.and_then(|params| params.get("arguments"));
        for (property, header) in repeated.get(name).into_iter().flatten().filter(|_| method == "tools/call")
        {
            match arguments.and_then(|arguments| arguments.get(property)) {
                None | Some(Value::Null) => {}
                Some(Value::String(text)) => put(headers, header, &era::encoded(text)),
                Some(other) => put(headers, header, &era::encoded(&other.to_string())),
            }
        }
    }
}

/// A name or value that no header can carry is left out: the address then refuses the message, which is right.
fn put(headers: &mut HeaderMap, name: &str, value: &str) {
    if let (Ok(name), Ok(value)) = (HeaderName::from_bytes(name.as_bytes()), HeaderValue::from_str(value)) {
        headers.insert(name, value);
    }
}

/// A tool's name, and which of its arguments are repeated in which headers.
type ToolHeaders = (String, Vec<(String, String)>);

/// What a list of tools says about headers.
pub(super) fn headers_of_tools(outgoing: &Outgoing, answer: &Value) -> Option<Vec<ToolHeaders>> {
    if outgoing.message.get("method").and_then(Value::as_str) != Some("tools/list") {
        return None;
    }
    let tools = answer.pointer("/result/tools")?.as_array()?;
    let said = tools.iter().filter_map(|tool| {
        let name = tool.get("name")?.as_str()?.to_owned();
        Some((name, era::repeated(tool.get("inputSchema")?)))
    });
    Some(said.collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn call(arguments: Value) -> Outgoing {
        Outgoing::of(json!({ "jsonrpc": "2.0", "id": "x", "method": "tools/call", "params": {
            "name": "größe", "arguments": arguments, "_meta": { meta!("protocolVersion"): "2026-07-28" },
        } }))
    }

    #[test]
    fn a_self_describing_call_is_said_again_in_headers_that_the_address_reads_back() {
        let list = Outgoing::of(json!({ "id": 1, "method": "tools/list" }));
        let schema = json!({ "properties": { "region": { "x-mcp-header": "Region" }, "other": {} } });
        let said = headers_of_tools(
            &list,
            &json!({ "result": { "tools": [{ "name": "größe", "inputSchema": schema }] } }),
        );
        let repeated: HashMap<_, _> = said.unwrap().into_iter().collect();
        let arguments = json!({ "region": " ñ", "other": 1 });
        let mut headers = HeaderMap::new();
        call(arguments.clone()).say_again(&mut headers, &repeated);
        assert_eq!(headers["mcp-method"], "tools/call");
        assert_eq!(headers["mcp-protocol-version"], "2026-07-28");
        assert!(headers["mcp-name"].to_str().unwrap().starts_with("=?base64?"));
        assert!(era::check_parameters(&schema, Some(&arguments), &headers).is_ok());
        assert!(era::check_parameters(&schema, Some(&json!({ "region": "n" })), &headers).is_err());
    }

    #[test]
    fn what_is_said_in_a_session_is_not_said_again() {
        let outgoing = Outgoing::of(
            json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": { "name": "t" } }),
        );
        let mut headers = HeaderMap::new();
        outgoing.say_again(&mut headers, &HashMap::new());
        assert!(headers.is_empty() && !outgoing.described());
    }

    #[test]
    fn shapes() {
        let shape = |message: Value| Outgoing::of(message).shape;
        assert_eq!(shape(json!({ "id": 0, "method": "initialize" })), Shape::Opening);
        assert_eq!(shape(json!({ "method": "notifications/initialized" })), Shape::Notice);
        assert_eq!(shape(json!({ "id": 1, "result": {} })), Shape::Notice);
        assert_eq!(shape(json!([])), Shape::Call);
        let cancel = json!({ "method": "notifications/cancelled", "params": { "requestId": "1" } });
        assert_eq!(Outgoing::of(cancel).cancels.as_deref(), Some("\"1\""));
    }
}
