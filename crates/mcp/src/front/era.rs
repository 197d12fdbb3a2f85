//! The two protocol eras on one address: which one a message speaks, and what the newer one demands of each. Pure.

use super::message::{
    HEADER_MISMATCH, INVALID_PARAMS, INVALID_REQUEST, Request, RpcError, UNSUPPORTED_VERSION,
};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderMap, StatusCode};
use serde_json::{Map, Value, json};

/// Versions that begin with a handshake, newest first.
pub(crate) const WITH_HANDSHAKE: [&str; 4] = ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"];
/// Versions in which every request describes itself.
pub(crate) const SELF_DESCRIBING: [&str; 1] = ["2026-07-28"];

pub(crate) const VERSION_HEADER: &str = "mcp-protocol-version";
pub(crate) const SESSION_HEADER: &str = "mcp-session-id";
pub(crate) const METHOD_HEADER: &str = "mcp-method";
pub(crate) const NAME_HEADER: &str = "mcp-name";
const BASE64: &str = "=?base64?";
const BASE64_END: &str = "?=";

/// The name of a field of `_meta` that belongs to the protocol.
macro_rules! meta {
    ($name:literal) => {
        concat!("io.modelcontextprotocol/", $name)
    };
}
pub(crate) use meta;

/// Which era a message speaks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Era {
    /// Up to 2025-11-25: handshake and sessions.
    Handshake,
    /// From 2026-07-28 on: every request describes itself.
    SelfDescribing,
}

/// Decides by what only one era sends: a session is of the older one, self-description of the newer one.
pub(crate) fn of(method: Option<&str>, params: Option<&Map<String, Value>>, headers: &HeaderMap) -> Era {
    let describes = params
        .and_then(|params| params.get("_meta"))
        .is_some_and(|meta| meta.get(meta!("protocolVersion")).is_some());
    if describes || method == Some("server/discover") {
        return Era::SelfDescribing;
    }
    let session = headers.contains_key(SESSION_HEADER);
    let newer = text(headers, VERSION_HEADER).is_some_and(|version| version >= "2026");
    if newer && !session { Era::SelfDescribing } else { Era::Handshake }
}

/// A header's value, if there is exactly one and it is visible text.
pub(crate) fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (Some(value), None) => value.to_str().ok().map(str::trim),
        _ => None,
    }
}

/// The session that a request names.
pub(crate) fn session(headers: &HeaderMap) -> Option<&str> {
    text(headers, SESSION_HEADER)
}

/// The version of a session's requests must be the one agreed on; without the header it is.
pub(crate) fn check_agreed(headers: &HeaderMap, agreed: &str) -> Result<(), RpcError> {
    match headers.get(VERSION_HEADER) {
        None => Ok(()),
        Some(value) if value.to_str().is_ok_and(|version| version.trim() == agreed) => Ok(()),
        Some(_) => Err(RpcError::new(
            INVALID_REQUEST,
            format!("Bad Request: MCP-Protocol-Version is another one than the {agreed} agreed on"),
        )
        .status(StatusCode::BAD_REQUEST)
        .data(json!({ "supported": WITH_HANDSHAKE }))),
    }
}

/// The version to answer a handshake with: the client's if it is spoken here, else our newest.
pub(crate) fn agree(asked: Option<&str>) -> &'static str {
    let known = WITH_HANDSHAKE.into_iter().find(|known| Some(*known) == asked);
    known.unwrap_or(WITH_HANDSHAKE[0])
}

/// Checks what a self-describing request must say, in its metadata and again in its headers.
pub(crate) fn check_described(request: &Request, headers: &HeaderMap) -> Result<(), RpcError> {
    let bad = |code, why: String| RpcError::new(code, why).status(StatusCode::BAD_REQUEST);
    let meta = request.meta();
    let version = meta.and_then(|meta| meta.get(meta!("protocolVersion"))).and_then(Value::as_str);
    let capabilities = meta.and_then(|meta| meta.get(meta!("clientCapabilities")));
    let (Some(version), Some(Value::Object(_))) = (version, capabilities) else {
        return Err(bad(
            INVALID_PARAMS,
            "Invalid params: `_meta` lacks the protocol version or the client's capabilities".to_owned(),
        ));
    };
    match text(headers, VERSION_HEADER) {
        Some(header) if header == version => {}
        None if !headers.contains_key(VERSION_HEADER) && SELF_DESCRIBING.contains(&version) => {
            return Err(bad(HEADER_MISMATCH, "HeaderMismatch: MCP-Protocol-Version is missing".to_owned()));
        }
        None if !headers.contains_key(VERSION_HEADER) => {}
        _ => {
            return Err(bad(
                HEADER_MISMATCH,
                format!("HeaderMismatch: MCP-Protocol-Version is not {version}"),
            ));
        }
    }
    if !SELF_DESCRIBING.contains(&version) {
        return Err(bad(UNSUPPORTED_VERSION, "Unsupported protocol version".to_owned())
            .data(json!({ "supported": SELF_DESCRIBING, "requested": version })));
    }
    same(headers, METHOD_HEADER, Some(&request.method))?;
    let name = match request.method.as_str() {
        "tools/call" | "prompts/get" => request.text("name"),
        "resources/read" => request.text("uri"),
        "tasks/get" | "tasks/update" | "tasks/cancel" => request.text("taskId"),
        _ => return Ok(()),
    };
    same(headers, NAME_HEADER, name)
}

/// A header that repeats a value of the body must repeat exactly it.
fn same(headers: &HeaderMap, name: &str, value: Option<&str>) -> Result<(), RpcError> {
    let Some(value) = value else { return Ok(()) };
    let bad = |why: &str| {
        Err(RpcError::new(HEADER_MISMATCH, format!("HeaderMismatch: {name} {why}"))
            .status(StatusCode::BAD_REQUEST))
    };
    match text(headers, name) {
        None => bad("is missing, or there are several"),
        Some(header) => match decoded(header) {
            Some(header) if header == value => Ok(()),
            Some(_) => bad("says something else than the body"),
            None => bad("is no valid base64"),
        },
    }
}

/// Checks the arguments that the tool's schema wants repeated in headers (`x-mcp-header`).
pub(crate) fn check_parameters(
    schema: &Value,
    arguments: Option<&Value>,
    headers: &HeaderMap,
) -> Result<(), RpcError> {
    for (property, header) in repeated(schema) {
        let given = arguments.and_then(|arguments| arguments.get(&property)).filter(|value| !value.is_null());
        match (given, headers.contains_key(&header)) {
            (None, false) => {}
            (None, true) => {
                return Err(RpcError::new(
                    HEADER_MISMATCH,
                    format!("HeaderMismatch: {header} has no argument"),
                )
                .status(StatusCode::BAD_REQUEST));
            }
            (Some(Value::String(text)), _) => same(headers, &header, Some(text))?,
            (Some(other), _) => same(headers, &header, Some(&other.to_string()))?,
        }
    }
    Ok(())
}

/// A header value in its plain or its base64 form.
fn decoded(value: &str) -> Option<String> {
    match value.strip_prefix(BASE64).and_then(|rest| rest.strip_suffix(BASE64_END)) {
        None => Some(value.to_owned()),
        Some(text) => String::from_utf8(STANDARD.decode(text).ok()?).ok(),
    }
}

/// A header value that says this text: plain where a header can carry it, else in base64.
pub(crate) fn encoded(text: &str) -> String {
    let plain = text.bytes().all(|byte| matches!(byte, b' '..=b'~'))
        && text.trim() == text
        && !text.starts_with(BASE64);
    if plain { text.to_owned() } else { format!("{BASE64}{}{BASE64_END}", STANDARD.encode(text)) }
}

/// The headers in which a tool's schema wants arguments repeated: property, and name of the header.
pub(crate) fn repeated(schema: &Value) -> Vec<(String, String)> {
    let properties = schema.get("properties").and_then(Value::as_object).into_iter().flatten();
    let named = properties.filter_map(|(property, definition)| {
        let header = definition.get("x-mcp-header").and_then(Value::as_str)?;
        Some((property.clone(), format!("mcp-param-{}", header.to_ascii_lowercase())))
    });
    named.collect()
}

#[cfg(test)]
mod tests {
    use super::super::message::{Message, read};
    use super::*;

    fn headers(pairs: &[(&str, &str)]) -> HeaderMap {
        pairs
            .iter()
            .map(|(name, value)| {
                (http::HeaderName::from_bytes(name.as_bytes()).unwrap(), value.parse().unwrap())
            })
            .collect()
    }

    fn request(method: &str, params: Value) -> Request {
        match read(json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params })).unwrap() {
            Message::Request(request) => request,
            other => panic!("{other:?}"),
        }
    }

    fn described() -> Value {
        json!({ meta!("protocolVersion"): "2026-07-28", meta!("clientCapabilities"): {} })
    }

    #[test]
    fn f23_the_era_shows_in_what_only_one_of_them_sends() {
        let none = headers(&[]);
        let with = request("tools/list", json!({ "_meta": described() }));
        assert_eq!(of(Some("tools/list"), Some(&with.params), &none), Era::SelfDescribing);
        assert_eq!(of(Some("server/discover"), None, &none), Era::SelfDescribing);
        assert_eq!(of(Some("initialize"), None, &none), Era::Handshake);
        let newer = headers(&[("mcp-protocol-version", "2026-07-28")]);
        assert_eq!(of(Some("tools/list"), None, &newer), Era::SelfDescribing);
        let session = headers(&[("mcp-protocol-version", "2099-01-01"), ("mcp-session-id", "x")]);
        assert_eq!(of(Some("tools/list"), None, &session), Era::Handshake);
    }

    #[test]
    fn f23_header_and_body_must_agree() {
        let call = request("tools/call", json!({ "name": "grüße", "_meta": described() }));
        let good = [
            ("mcp-protocol-version", "2026-07-28"),
            ("mcp-method", "tools/call"),
            ("mcp-name", "=?base64?Z3LDvMOfZQ==?="),
        ];
        assert_eq!(check_described(&call, &headers(&good)), Ok(()));
        for (place, value) in [
            (0, "2025-11-25"),
            (1, "tools/list"),
            (2, "=?base64?Z3LDvMOfZQ=?="),
            (2, "=?base64?Z3LDvMOfZR==?="),
            (2, "other"),
        ] {
            let mut wrong = good;
            wrong[place].1 = value;
            let error = check_described(&call, &headers(&wrong)).unwrap_err();
            assert_eq!(error.http_status(), StatusCode::BAD_REQUEST, "{value}");
            assert_eq!(error.message(None)["error"]["code"], HEADER_MISMATCH, "{value}");
        }
        for missing in 0..3 {
            let some: Vec<_> =
                good.iter().enumerate().filter(|(at, _)| *at != missing).map(|(_, pair)| *pair).collect();
            assert!(check_described(&call, &headers(&some)).is_err(), "without header {missing}");
        }
        let mut twice = headers(&good);
        twice.append("mcp-method", "tools/list".parse().unwrap());
        assert!(check_described(&call, &twice).is_err(), "a second header smuggles nothing in");
    }

    #[test]
    fn f23_a_version_of_the_future_is_refused_with_those_that_are_spoken() {
        let meta = json!({ meta!("protocolVersion"): "2099-01-01", meta!("clientCapabilities"): {} });
        let request = request("tools/list", json!({ "_meta": meta }));
        let headers = headers(&[("mcp-protocol-version", "2099-01-01"), ("mcp-method", "tools/list")]);
        let error = check_described(&request, &headers).unwrap_err().message(None);
        assert_eq!(error["error"]["code"], UNSUPPORTED_VERSION);
        assert_eq!(error["error"]["data"], json!({ "supported": ["2026-07-28"], "requested": "2099-01-01" }));
        for (asked, answer) in [
            (Some("2024-11-05"), "2024-11-05"),
            (Some("2025-11-25"), "2025-11-25"),
            (Some("2099-01-01"), "2025-11-25"),
            (Some("2026-07-28"), "2025-11-25"),
            (None, "2025-11-25"),
        ] {
            assert_eq!(agree(asked), answer);
        }
    }

    #[test]
    fn arguments_that_headers_repeat_are_compared() {
        let schema = json!({ "properties": { "region": { "type": "string", "x-mcp-header": "Region" } } });
        let check = |arguments: Value, given: &[(&str, &str)]| {
            check_parameters(&schema, Some(&arguments), &headers(given)).is_ok()
        };
        assert!(check(json!({ "region": "eu" }), &[("mcp-param-region", "eu")]));
        assert!(check(json!({}), &[]));
        assert!(!check(json!({ "region": "eu" }), &[("mcp-param-region", "us")]));
        assert!(!check(json!({ "region": "eu" }), &[]));
        assert!(!check(json!({}), &[("mcp-param-region", "eu")]));
    }
}
