//! Messages as servers write them, carried through the client library without loss.
//!
//! The library decodes results into types, and drops or refuses what those types do not know: an unknown content
//! kind, an unknown audience, an extra field. Results of `tools/call` and `tools/list` must reach our callers as
//! they were sent (field case F15), so they ride through the library inside an envelope that it takes for a custom
//! result.

use crate::upstream::ledger::{Kind, Ledger};
use rmcp::model::{ListToolsResult, ServerJsonRpcMessage, ServerResult, Tool};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::borrow::Cow;

/// Largest message, in bytes: a line of a child, a JSON body, one event.
pub(crate) const MAX_MESSAGE: usize = 16 * 1024 * 1024;

/// The envelope's only key.
const ENVELOPE: &str = "sluicegate/as-sent";

/// Reads one message. `None`: it is none, and nobody should answer it.
pub(crate) fn read(bytes: &[u8], ledger: &Ledger) -> Option<ServerJsonRpcMessage> {
    serde_json::from_value(enveloped(bytes, ledger)?).ok()
}

/// The same for a message whose text is decoded by the library itself.
pub(crate) fn rewrite(text: String, ledger: &Ledger) -> String {
    match enveloped(text.as_bytes(), ledger) {
        Some(message) => message.to_string(),
        None => text,
    }
}

/// A result of `tools/call`, as it was sent.
pub(crate) fn as_sent(result: ServerResult) -> Value {
    let value = match result {
        ServerResult::CustomResult(custom) => custom.0,
        typed => serde_json::to_value(typed).unwrap_or_default(),
    };
    match value {
        Value::Object(mut object) if object.len() == 1 && object.contains_key(ENVELOPE) => {
            object.remove(ENVELOPE).unwrap_or_default()
        }
        other => other,
    }
}

/// A page of `tools/list`: the tools as they were sent, and the names of those that the library accepted.
pub(crate) fn page_as_sent(mut page: ListToolsResult) -> (Vec<Value>, Vec<String>) {
    let accepted = page.tools.iter().map(|tool| tool.name.to_string()).collect();
    let envelope = page.meta.as_mut().and_then(|meta| meta.0.remove(ENVELOPE));
    let tools = match envelope {
        Some(Value::Array(tools)) => tools,
        _ => page.tools.into_iter().filter_map(|tool| serde_json::to_value(tool).ok()).collect(),
    };
    (tools, accepted)
}

fn enveloped(bytes: &[u8], ledger: &Ledger) -> Option<Value> {
    let Value::Object(mut message) = parse(bytes)? else { return None };
    if message.get("jsonrpc").and_then(Value::as_str) != Some("2.0") {
        return None;
    }
    let is_answer = message.contains_key("result") || message.contains_key("error");
    if !is_answer && !message.get("method").is_some_and(Value::is_string) {
        return None;
    }
    if let (false, Some(method)) = (is_answer, message.get("method").and_then(Value::as_str)) {
        ledger.said(method, message.get("params"));
    }
    if let Some(error) = message.get_mut("error") {
        *error = plain_error(error.take());
    }
    let kind = message.get("id").and_then(id_number).filter(|_| is_answer).and_then(|id| ledger.answered(id));
    if let (Some(kind), Some(result)) = (kind, message.get_mut("result")) {
        *result = match kind {
            Kind::Call => json!({ ENVELOPE: result.take() }),
            Kind::List => listed(result.take()),
        };
    }
    Some(Value::Object(message))
}

/// A page for the library: only tools that it can decode, so that one odd tool does not spoil the page, and beside
/// them all tools as they were sent.
fn listed(result: Value) -> Value {
    let Value::Object(mut result) = result else { return json!({ ENVELOPE: result }) };
    let Some(Value::Array(tools)) = result.remove("tools") else {
        return json!({ ENVELOPE: result });
    };
    let decoded: Vec<&Value> = tools.iter().filter(|tool| Tool::deserialize(*tool).is_ok()).collect();
    let mut page = Map::new();
    page.insert("tools".to_owned(), json!(decoded));
    if let Some(Value::String(cursor)) = result.remove("nextCursor") {
        page.insert("nextCursor".to_owned(), Value::String(cursor));
    }
    page.insert("_meta".to_owned(), json!({ ENVELOPE: tools }));
    Value::Object(page)
}

/// An error that the library can decode, whatever the server put there: a refusal must not look like silence.
fn plain_error(error: Value) -> Value {
    let code =
        error.get("code").and_then(Value::as_i64).and_then(|code| i32::try_from(code).ok()).unwrap_or(-32603);
    let message = match error.get("message") {
        Some(Value::String(message)) => message.clone(),
        Some(other) => other.to_string(),
        None => error.to_string(),
    };
    match error.get("data") {
        Some(data) => json!({ "code": code, "message": message, "data": data }),
        None => json!({ "code": code, "message": message }),
    }
}

/// Our ids are numbers; some servers send them back as text.
fn id_number(id: &Value) -> Option<i64> {
    id.as_i64().or_else(|| id.as_str()?.parse().ok())
}

fn parse(bytes: &[u8]) -> Option<Value> {
    let text = String::from_utf8_lossy(bytes);
    let text = text.trim_start_matches('\u{feff}').trim();
    if !text.starts_with('{') {
        return None;
    }
    match serde_json::from_str(text) {
        Ok(value) => Some(value),
        Err(_) => match mend_surrogates(text) {
            Cow::Borrowed(_) => None,
            Cow::Owned(mended) => serde_json::from_str(&mended).ok(),
        },
    }
}

/// Escaped halves of UTF-16 pairs that stand alone, which no text can hold, become U+FFFD.
fn mend_surrogates(text: &str) -> Cow<'_, str> {
    let mut out = String::new();
    let mut rest = text;
    let mut changed = false;
    while let Some((before, after)) = rest.split_once('\\') {
        out.push_str(before);
        match unit(after) {
            Some(0xd800..=0xdbff) => {
                let tail = after.get(5..).unwrap_or_default();
                let low = tail.strip_prefix('\\').and_then(self::unit);
                if let (Some(0xdc00..=0xdfff), Some(pair)) = (low, after.get(..11)) {
                    out.push('\\');
                    out.push_str(pair);
                    rest = after.get(11..).unwrap_or_default();
                } else {
                    out.push_str("\\ufffd");
                    rest = tail;
                    changed = true;
                }
            }
            Some(0xdc00..=0xdfff) => {
                out.push_str("\\ufffd");
                rest = after.get(5..).unwrap_or_default();
                changed = true;
            }
            _ => {
                out.push('\\');
                // The escaped character is taken along, so that an escaped backslash starts no escape.
                let mut chars = after.chars();
                out.extend(chars.next());
                rest = chars.as_str();
            }
        }
    }
    if !changed {
        return Cow::Borrowed(text);
    }
    out.push_str(rest);
    Cow::Owned(out)
}

/// The code unit of an escape whose backslash has been taken: `uXXXX`.
fn unit(text: &str) -> Option<u16> {
    let digits = text.strip_prefix('u')?.get(..4)?;
    digits.bytes().all(|b| b.is_ascii_hexdigit()).then(|| u16::from_str_radix(digits, 16).ok())?
}

#[cfg(test)]
mod tests;
