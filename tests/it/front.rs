//! The MCP server from outside: who gets in, both protocol eras, and that nothing gets past the gate.

use crate::access::raw;
use crate::harness::mcp::{Client, key, whole};
use crate::harness::page::Browser;
use crate::harness::server::{Server, Setup, command};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

const ALL: &str = "/mcp";
const FILES: &str = "/mcp/sandbox-files";

/// Waits until the file server is there.
async fn ready(client: &Client) {
    loop {
        let listed = client.described("tools/list", json!({}), json!({})).await;
        if listed.result()["tools"].as_array().is_some_and(|tools| tools.len() >= 5) {
            return;
        }
        tokio::task::yield_now().await;
    }
}

async fn start() -> (Server, String, Client) {
    let server = Server::start().await;
    let key = key(&server, "tester", &[]).await;
    let client = Client::new(&server, FILES, &key);
    ready(&client).await;
    (server, key, client)
}

fn names(listed: &Value) -> Vec<String> {
    listed["tools"].as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn tools_are_listed_and_called_in_both_eras_at_both_addresses() {
    let (server, token, files) = start().await;
    let all = Client::new(&server, ALL, &token);
    std::fs::write(server.folder().join("sandbox/notes.txt"), "buy milk").unwrap();
    let old = files.in_session("2025-11-25").await;
    let listed = old.ask(json!("a"), "tools/list", json!({})).await;
    assert_eq!(listed.last()["id"], json!("a"));
    let own = names(listed.result());
    assert_eq!(own, ["delete_file", "list_files", "move_file", "read_file", "write_file"]);
    let tool = &listed.result()["tools"][3];
    assert_eq!(tool["_meta"]["sluicegate/tier"], "safe", "{tool}");
    assert!(tool["inputSchema"]["properties"]["path"].is_object(), "{tool}");

    let new = all.described("tools/list", json!({}), json!({})).await;
    assert_eq!(new.result()["resultType"], "complete");
    assert_eq!(new.result()["cacheScope"], "private");
    let joined = names(new.result());
    for name in &own {
        assert!(joined.contains(&format!("sandbox-files__{name}")), "{joined:?}");
    }
    let read = json!({ "path": "notes.txt" });
    let one = old.call("read_file", read.clone()).await;
    assert_eq!((one.text(), &one.result()["isError"]), ("buy milk", &json!(false)), "{one:?}");
    let params = json!({ "name": "sandbox-files__read_file", "arguments": read });
    let two = all.described("tools/call", params, json!({})).await;
    assert_eq!((two.text(), &two.result()["resultType"]), ("buy milk", &json!("complete")));
    // The same calls in the trail, as what they are.
    let browser = Browser::signed_in(&server).await;
    assert!(browser.get("/audit").await.text("main").contains("key:tester"));
}

/// F18: a web page in the operator's browser is not the operator, with a key either.
#[tokio::test]
async fn f18_foreign_hosts_and_origins_are_refused_whatever_key_they_have() {
    let (server, token, _) = start().await;
    let host = server.url().strip_prefix("http://").unwrap().to_owned();
    let ask = async |path: &str, host_header: &str, more: &str| {
        let body = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
        let request = format!(
            "POST {path} HTTP/1.1\r\nHost: {host_header}\r\nAuthorization: Bearer {token}\r\nConnection: close\r\n\
             Content-Type: application/json\r\nContent-Length: {}\r\n{more}\r\n{body}",
            body.len()
        );
        raw(&host, &request).await.split(' ').nth(1).unwrap().to_owned()
    };
    for path in [ALL, FILES] {
        for foreign in ["evil.example", "127.0.0.1.evil.example", "127.0.0.1"] {
            assert_eq!(ask(path, foreign, "").await, "403", "{foreign}");
        }
        for origin in ["http://evil.example", "null", "http://127.0.0.1:1", "https://evil.example"] {
            assert_eq!(ask(path, &host, &format!("Origin: {origin}\r\n")).await, "403", "{origin}");
        }
        // No Origin, or our own: then it is about the session.
        assert_eq!(ask(path, &host, "").await, "400");
        assert_eq!(ask(path, &host, &format!("Origin: http://{host}\r\n")).await, "400");
    }
}

#[tokio::test]
async fn nobody_gets_in_without_a_key_and_a_cookie_is_none() {
    let (server, token, client) = start().await;
    let browser = Browser::signed_in(&server).await;
    let cookie: String = browser.cookies().iter().map(|(name, value)| format!("{name}={value}")).collect();
    let ping = json!({ "jsonrpc": "2.0", "id": 1, "method": "ping" });
    let wrong = format!("{}0", token.get(..token.len() - 1).unwrap());
    for other in [
        client.without("authorization"),
        client.without("authorization").with("cookie", &cookie),
        client.with("authorization", "Bearer "),
        client.with("authorization", &format!("Basic {token}")),
        client.with("authorization", &format!("Bearer {wrong}{wrong}")),
        client.with("authorization", &format!("Bearer {}", token.to_uppercase())),
    ] {
        for method in [Method::POST, Method::GET, Method::DELETE, Method::PUT] {
            let response =
                other.with("content-type", "application/json").send(method.clone(), ping.to_string()).await;
            assert_eq!(response.status(), StatusCode::UNAUTHORIZED, "{method}");
            assert!(response.headers()["www-authenticate"].to_str().unwrap().starts_with("Bearer"));
        }
    }
    let nowhere = Client::new(&server, "/mcp/nowhere", &token);
    assert_eq!(nowhere.initialize("2025-11-25").await.status, StatusCode::NOT_FOUND);
}

/// F23: clients from the past and from the future. Guards against failed handshakes, crashes and silence.
#[tokio::test]
async fn f23_versions_and_transport_corners() {
    let (_server, _, client) = start().await;
    for version in ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"] {
        let session = client.in_session(version).await;
        assert_eq!(session.ask(json!(2), "ping", json!({})).await.result(), &json!({}), "{version}");
        let unnamed = session.without("mcp-protocol-version");
        assert_eq!(unnamed.ask(json!(2), "ping", json!({})).await.status, StatusCode::OK);
        for other in ["2099-01-01", "1", if version == "2025-11-25" { "2025-06-18" } else { "2025-11-25" }] {
            let wrong = session.with("mcp-protocol-version", other).ask(json!(2), "ping", json!({})).await;
            assert_eq!(wrong.status, StatusCode::BAD_REQUEST, "{version} {other}");
            assert!(wrong.last()["error"]["data"]["supported"].is_array(), "{wrong:?}");
        }
        let batch = json!([
            { "jsonrpc": "2.0", "id": 1, "method": "ping" },
            { "jsonrpc": "2.0", "method": "notifications/initialized" },
            { "jsonrpc": "2.0", "id": "1", "method": "tools/call", "params": { "name": "delete_file", "arguments": { "path": "x" } } },
        ]);
        let batched = session.post(&batch).await;
        if version <= "2025-03-26" {
            let answers = batched.last().as_array().unwrap().clone();
            assert_eq!(answers.len(), 2, "{answers:?}");
            assert_eq!(
                answers[1]["result"]["_meta"]["sluicegate/status"]["code"], "rule",
                "a batch passes the gate too"
            );
        } else {
            assert_eq!((batched.status, batched.error_code()), (StatusCode::BAD_REQUEST, -32600));
        }
        assert_eq!(session.delete().await, StatusCode::OK);
        assert_eq!(session.ask(json!(2), "ping", json!({})).await.status, StatusCode::NOT_FOUND);
        assert_eq!(session.delete().await, StatusCode::NOT_FOUND);
        assert_eq!(session.get().await.status(), StatusCode::NOT_FOUND);
    }
    let future = client.initialize("2099-01-01").await;
    assert_eq!(future.result()["protocolVersion"], "2025-11-25");

    // Not in order, or not at all.
    let early = client.call("read_file", json!({ "path": "x" })).await;
    assert_eq!(early.status, StatusCode::BAD_REQUEST);
    assert_eq!(client.get().await.status(), StatusCode::METHOD_NOT_ALLOWED);
    assert_eq!(client.delete().await, StatusCode::BAD_REQUEST);
    let session = client.in_session("2025-11-25").await;
    let plain = session.with("accept", "application/json").get().await;
    assert_eq!(plain.status(), StatusCode::NOT_ACCEPTABLE);
    let stream = session.get().await;
    assert_eq!(
        (stream.status(), &stream.headers()["content-type"]),
        (StatusCode::OK, &"text/event-stream".parse().unwrap())
    );
    // Streams hold news alone, so one that is taken up again begins where it is.
    let resumed = session.with("last-event-id", "7").get().await;
    assert_eq!(resumed.status(), StatusCode::OK);
    for (body, kind, status) in [
        ("not JSON", "application/json", 400),
        ("", "application/json", 400),
        ("[]", "application/json", 400),
        (r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#, "application/json", 400),
        (r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#, "text/plain", 415),
        (r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#, "application/x-www-form-urlencoded", 415),
    ] {
        let response = session.with("content-type", kind).send(Method::POST, body).await;
        assert_eq!(response.status().as_u16(), status, "{body} as {kind}");
    }
    let put = session.send(Method::PUT, "").await;
    assert_eq!(put.status(), StatusCode::METHOD_NOT_ALLOWED);
    for size in [5, 10] {
        let body = format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"ping","params":{{"x":"{}"}}}}"#,
            "x".repeat(size << 20)
        );
        let response = session.with("content-type", "application/json").send(Method::POST, body).await;
        assert_eq!(response.status(), StatusCode::PAYLOAD_TOO_LARGE, "{size} MB");
    }
    // What is not offered is not declared, and not found.
    let offered = client.initialize("2025-11-25").await.result()["capabilities"].clone();
    for (capability, method) in [
        ("prompts", "prompts/list"),
        ("completions", "completion/complete"),
        ("tasks", "tasks/list"),
        ("sampling", "sampling/createMessage"),
        ("elicitation", "elicitation/create"),
    ] {
        assert!(offered.get(capability).is_none(), "{offered}");
        assert_eq!(session.ask(json!(3), method, json!({})).await.error_code(), -32601, "{method}");
        let new = client.described(method, json!({}), json!({})).await;
        assert_eq!((new.status, new.error_code()), (StatusCode::NOT_FOUND, -32601), "{method}");
    }
    for gone in ["ping", "initialize", "logging/setLevel"] {
        let new = client.described(gone, json!({}), json!({})).await;
        assert_eq!((new.status, new.error_code()), (StatusCode::NOT_FOUND, -32601), "{gone}");
    }
}

/// F22: what is hidden from the list is also refused when called, and the answer does not say whether it is there.
#[tokio::test]
async fn f22_what_is_not_seen_is_refused_like_what_is_not_there() {
    let (server, token, client) = start().await;
    let narrow =
        key(&server, "narrow", &["--tool", "read_*", "--tool", "list_files", "--tier", "safe"]).await;
    let narrow = Client::new(&server, FILES, &narrow);
    let seen = narrow.described("tools/list", json!({}), json!({})).await;
    assert_eq!(names(seen.result()), ["list_files", "read_file"]);
    let call = async |client: &Client, tool: &str| {
        let params = json!({ "name": tool, "arguments": { "path": "x" } });
        client.described("tools/call", params, json!({})).await
    };
    let refusal = async |client: &Client, tool: &str| {
        let reply = call(client, tool).await;
        let mut status = reply.call_status().clone();
        let id = status["call"].take();
        (status, reply.text().replace(id.as_str().unwrap(), "ID"))
    };
    let missing = refusal(&narrow, "no_such_tool").await;
    assert_eq!(missing.0["code"], "unknown_tool");
    for hidden in ["write_file", "delete_file", "sandbox-files__read_file", "READ_FILE"] {
        assert_eq!(refusal(&narrow, hidden).await, missing, "{hidden}");
    }
    // Whoever sees it is told what the rules say.
    assert_eq!(refusal(&client, "delete_file").await.0["code"], "rule");
    assert_eq!(refusal(&client, "move_file").await.0["code"], "invalid_arguments");
    let wholly = Client::new(&server, ALL, &token);
    assert_eq!(
        refusal(&wholly, "read_file").await.0["code"],
        "unknown_tool",
        "without its prefix it is no name here"
    );
    assert!(!server.folder().join("sandbox/x").exists());
    let browser = Browser::signed_in(&server).await;
    let trail = browser.get("/audit").await.text("main");
    assert!(trail.contains("key:narrow") && trail.contains("write_file"), "refused, and recorded");
}

/// F22: without a rule, without rules and without a policy nothing runs, by whatever way it is asked for.
#[tokio::test]
async fn f22_without_rules_every_call_is_denied_with_its_own_reason() {
    let nothing = Setup::new().file("policy_rules.yaml", "version: 1\nrules: []\n");
    let missing = Setup::new().env("POLICY_RULES_PATH", "absent.yaml");
    for (setup, code) in [(nothing, "no_rule"), (missing, "policy_unreadable")] {
        let server = setup.start().await;
        std::fs::write(server.folder().join("sandbox/notes.txt"), "secret").unwrap();
        let client = Client::new(&server, FILES, &key(&server, "tester", &[]).await);
        ready(&client).await;
        let params = json!({ "name": "read_file", "arguments": { "path": "notes.txt" } });
        let new = client.described("tools/call", params.clone(), json!({})).await;
        let session = client.in_session("2025-03-26").await;
        let old = session.ask(json!(1), "tools/call", params.clone()).await;
        let batch = json!([{ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params }]);
        let batched = session.post(&batch).await;
        for result in [new.result(), old.result(), &batched.last()[0]["result"]] {
            assert_eq!(result["_meta"]["sluicegate/status"]["code"], code, "{result}");
            assert!(!result.to_string().contains("secret"));
        }
    }
}

/// F20: two clients, same request id. Guards against answers and cancels that cross.
#[tokio::test]
async fn f20_ten_clients_with_one_id_get_their_own_answers() {
    let (server, _, _) = start().await;
    let mut clients = Vec::new();
    for n in 0..10 {
        let token = key(&server, &format!("client-{n}"), &[]).await;
        std::fs::write(server.folder().join(format!("sandbox/{n}.txt")), format!("file {n}")).unwrap();
        clients.push(Client::new(&server, FILES, &token).in_session("2025-11-25").await);
    }
    let rounds = clients.iter().enumerate().map(|(n, client)| async move {
        for round in 0..100 {
            let id = if round % 2 == 0 { json!(1) } else { json!("1") };
            let params = json!({ "name": "read_file", "arguments": { "path": format!("{n}.txt") }, "_meta": { "progressToken": 1 } });
            let reply = client.ask(id.clone(), "tools/call", params).await;
            assert_eq!((reply.text(), &reply.last()["id"]), (format!("file {n}").as_str(), &id));
        }
    });
    futures::future::join_all(rounds).await;
}

/// A session is no identity: somebody else's is as unknown as one that never was.
#[tokio::test]
async fn a_session_with_another_key_is_unknown() {
    let (server, token, client) = start().await;
    let session = client.in_session("2025-11-25").await;
    let other = key(&server, "other", &[]).await;
    let thief = session.with("authorization", &format!("Bearer {other}"));
    assert_eq!(thief.ask(json!(1), "ping", json!({})).await.status, StatusCode::NOT_FOUND);
    assert_eq!(thief.get().await.status(), StatusCode::NOT_FOUND);
    assert_eq!(thief.delete().await, StatusCode::NOT_FOUND);
    assert_eq!(session.ask(json!(1), "ping", json!({})).await.status, StatusCode::OK);
    let elsewhere = session.clone();
    let all = Client::new(&server, ALL, &token);
    let id = elsewhere.initialize("2025-11-25").await;
    assert_eq!(id.error_code(), -32600, "a session is opened once");
    let fresh = all.in_session("2025-11-25").await;
    assert_eq!(fresh.ask(json!(1), "ping", json!({})).await.status, StatusCode::OK);
    let server = server.restart().await;
    let after = Client::new(&server, FILES, &token);
    let stale = after.with("mcp-session-id", "0123456789abcdef0123456789abcdef");
    assert_eq!(
        stale.ask(json!(1), "ping", json!({})).await.status,
        StatusCode::NOT_FOUND,
        "so clients begin anew"
    );
}

#[tokio::test]
async fn a_revoked_key_is_out_at_once() {
    let (server, _, client) = start().await;
    let session = client.in_session("2025-11-25").await;
    let stream = session.get().await;
    let ended = command(server.shared_folder(), &["key", "revoke", "tester"]).await;
    assert_eq!(ended.code(), Some(0), "{ended:?}");
    assert_eq!(session.ask(json!(1), "ping", json!({})).await.status, StatusCode::UNAUTHORIZED);
    assert_eq!(client.described("tools/list", json!({}), json!({})).await.status, StatusCode::UNAUTHORIZED);
    whole(stream).await;
    let again = command(server.shared_folder(), &["key", "revoke", "tester"]).await;
    assert_eq!(again.code(), Some(1));
    let listed = command(server.shared_folder(), &["key", "list"]).await;
    assert!(listed.output.starts_with("tester\trevoked\towner admin"), "{}", listed.output);
}

#[tokio::test]
async fn a_key_is_made_and_revoked_on_the_settings_page() {
    let server = Server::start().await;
    let browser = Browser::signed_in(&server).await;
    let page = browser.get("/settings").await;
    let made = browser
        .submit(&page.form("#new-key-form").set("name", "laptop").set("servers", "sandbox-files"))
        .await;
    let token = made.text("#new-key");
    assert!(token.starts_with("sg_") && token.len() == 67, "{token}");
    assert_eq!(made.header("cache-control"), Some("no-store"));
    for client in ["claude-code", "claude-desktop", "vs-code", "cursor", "plain"] {
        let text = made.text(&format!("#text-{client}"));
        assert!(text.contains(&token) && text.contains("/mcp"), "{client}: {text}");
    }
    let client = Client::new(&server, FILES, &token);
    ready(&client).await;
    let page = browser.get("/settings").await;
    assert!(
        !page.text("main").contains(&token) && page.text("#key-laptop").contains("servers sandbox-files")
    );
    assert!(
        browser
            .submit(&page.form("#new-key-form").set("name", "laptop"))
            .await
            .text("main")
            .contains("take another name")
    );
    browser.submit(&page.form("#key-laptop form")).await;
    assert_eq!(client.described("tools/list", json!({}), json!({})).await.status, StatusCode::UNAUTHORIZED);
    assert!(browser.get("/settings").await.text("#key-laptop").contains("Revoked"));
}
