use super::*;
use proptest::prelude::*;
use rmcp::model::{CallToolRequest, CallToolRequestParams, ClientJsonRpcMessage, ClientRequest, RequestId};
use rmcp::model::{ListToolsRequest, ServerRequest};

fn ledger() -> Ledger {
    let ledger = Ledger::default();
    let call = CallToolRequest::new(CallToolRequestParams::new("t"));
    let list = ListToolsRequest { method: Default::default(), params: None, extensions: Default::default() };
    for (id, request) in
        [(1, ClientRequest::CallToolRequest(call)), (2, ClientRequest::ListToolsRequest(list))]
    {
        assert!(ledger.begin(&ClientJsonRpcMessage::request(request, RequestId::Number(id))));
    }
    ledger
}

fn answer(message: &Value) -> ServerResult {
    match read(message.to_string().as_bytes(), &ledger()) {
        Some(ServerJsonRpcMessage::Response(response)) => response.result,
        other => panic!("{other:?}"),
    }
}

#[test]
fn f15_results_of_any_shape_come_through_as_they_were_sent() {
    let odd = [
        json!({}),
        json!({ "structuredContent": { "n": 1 } }),
        json!({ "content": [] }),
        json!({ "content": [{ "type": "hologram", "depth": 3 }], "isError": false }),
        json!({ "content": [{ "type": "text", "text": "a", "annotations": { "audience": ["martian"] }, "x": 1 }] }),
        json!({ "content": [{ "type": "image", "data": "AAAA", "mimeType": "image/png", "extra": [1] }] }),
        json!({ "content": [{ "type": "resource", "resource": { "uri": "u:1", "text": "t", "etag": "e" } }] }),
        json!({ "tools": [], "contents": [], "prompts": [], "task": { "taskId": "x" } }),
        json!({ "resultType": "complete", "content": "not a list" }),
        json!({ "sluicegate/as-sent": 1 }),
        json!([1, 2]),
        json!(null),
    ];
    for result in odd {
        let read = answer(&json!({ "jsonrpc": "2.0", "id": 1, "result": result }));
        assert_eq!(as_sent(read), result);
    }
    // A server that sends our number back as text still answers.
    let text_id = answer(&json!({ "jsonrpc": "2.0", "id": "1", "result": { "content": [] } }));
    assert_eq!(as_sent(text_id), json!({ "content": [] }));
}

#[test]
fn f15_the_same_through_the_library_s_own_decoding() {
    let result = json!({ "content": [{ "type": "hologram" }], "isError": true });
    let text = json!({ "jsonrpc": "2.0", "id": 1, "result": result }).to_string();
    let rewritten = rewrite(text, &ledger());
    match serde_json::from_str(&rewritten).unwrap() {
        ServerJsonRpcMessage::Response(response) => assert_eq!(as_sent(response.result), result),
        other => panic!("{other:?}"),
    }
}

#[test]
fn f15_a_lone_surrogate_does_not_cost_the_answer() {
    let line = br#"{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"a\ud800b \\ud800 \ud83d\ude00 \udc00"}]}}"#;
    let Some(ServerJsonRpcMessage::Response(response)) = read(line, &ledger()) else { panic!() };
    let text = as_sent(response.result);
    assert_eq!(text.pointer("/content/0/text"), Some(&json!("a\u{fffd}b \\ud800 \u{1f600} \u{fffd}")));
}

#[test]
fn one_odd_tool_does_not_spoil_the_page() {
    let tools = json!([
        { "name": "good", "inputSchema": { "type": "object" }, "execution": { "taskSupport": "optional" } },
        { "name": "no-schema" },
        { "name": 7 },
    ]);
    let result =
        answer(&json!({ "jsonrpc": "2.0", "id": 2, "result": { "tools": tools, "nextCursor": "p2" } }));
    let ServerResult::ListToolsResult(page) = result else { panic!("{result:?}") };
    assert_eq!(page.next_cursor.as_deref(), Some("p2"));
    let (as_sent, accepted) = page_as_sent(page);
    assert_eq!(json!(as_sent), tools);
    assert_eq!(accepted, ["good"]);
}

#[test]
fn f10_what_is_no_message_is_no_message() {
    for noise in [
        "",
        "   ",
        "starting up",
        "{\"level\":\"info\"}",
        "{\"jsonrpc\":\"2.0\"}",
        "{\"jsonrpc\":\"2.0\",\"method\":3}",
        "{\"jsonrpc\":\"1.0\",\"id\":1,\"result\":{}}",
        "[{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}]",
        "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":",
        "\u{1b}[32m{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}",
        "7",
        "null",
    ] {
        assert!(read(noise.as_bytes(), &ledger()).is_none(), "{noise}");
    }
    assert!(read(b"\xff\xfe{\"a\":1}", &ledger()).is_none());
}

#[test]
fn f10_marks_and_line_ends_around_a_message_do_not_hide_it() {
    let ping = "\u{feff}{\"jsonrpc\":\"2.0\",\"id\":9,\"method\":\"ping\"}\r";
    let Some(ServerJsonRpcMessage::Request(request)) = read(ping.as_bytes(), &ledger()) else { panic!() };
    assert!(matches!(request.request, ServerRequest::PingRequest(_)));
    // One bad byte in a text is one bad character, not a lost answer.
    let bad =
        b"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"content\":[{\"type\":\"text\",\"text\":\"a\xffb\"}]}}";
    let Some(ServerJsonRpcMessage::Response(response)) = read(bad, &ledger()) else { panic!() };
    assert_eq!(as_sent(response.result).pointer("/content/0/text"), Some(&json!("a\u{fffd}b")));
}

#[test]
fn odd_errors_are_still_refusals() {
    for error in
        [json!({ "code": "E1", "message": ["a"] }), json!("just text"), json!({ "code": 1e30 }), json!(null)]
    {
        let text = json!({ "jsonrpc": "2.0", "id": 1, "error": error }).to_string();
        assert!(matches!(read(text.as_bytes(), &ledger()), Some(ServerJsonRpcMessage::Error(_))), "{text}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn mending_changes_no_valid_json(text in any::<String>()) {
        let json = Value::String(text).to_string();
        prop_assert!(matches!(mend_surrogates(&json), Cow::Borrowed(_)));
    }

    #[test]
    fn mending_makes_any_escape_valid(units in prop::collection::vec(any::<u16>(), 0..12)) {
        let json: String = units.iter().map(|unit| format!("\\u{unit:04x}")).collect();
        let json = format!("\"{json}\"");
        let read: Result<String, _> = serde_json::from_str(&mend_surrogates(&json));
        prop_assert_eq!(read.unwrap(), String::from_utf16_lossy(&units));
    }

    #[test]
    fn reading_never_fails_badly(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _read = read(&bytes, &ledger());
    }
}
