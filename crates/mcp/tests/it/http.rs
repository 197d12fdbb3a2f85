//! Servers over Streamable HTTP, of both eras.

use crate::http_upstream::{Era, HttpUpstream, OnCall};
use crate::support::{FAR, House, sentence, text_of};
use serde_json::{Value, json};
use sluicegate_gateway::{CallState, ProposedArguments, ReasonCode, ServerState};
use sluicegate_mcp::ServerEntry;
use std::time::Duration;

fn entry(name: &str, url: &str) -> ServerEntry {
    ServerEntry::http(name, url, &[]).unwrap()
}

fn code(answer: &sluicegate_gateway::CallAnswer) -> ReasonCode {
    answer.refusal.as_ref().unwrap_or_else(|| panic!("{answer:?}")).code
}

fn tool(name: &str) -> Value {
    json!({ "name": name, "inputSchema": { "type": "object" } })
}

#[tokio::test]
async fn both_eras_answer_as_json_and_as_a_stream() {
    for (era, version) in [(Era::Legacy, "2025-11-25"), (Era::Modern, "2026-07-28")] {
        let upstream = HttpUpstream::start(era).await;
        let house = House::ready(vec![entry("s", &upstream.url())]).await;
        assert_eq!(house.tools("s"), ["echo"]);
        assert!(house.status("s").about.unwrap().starts_with("site "));
        for on_call in [OnCall::Answer, OnCall::Stream] {
            upstream.script(on_call);
            assert_eq!(house.text("s", "echo", json!({ "a": 1 })).await, r#"{"a":1}"#, "{era:?} {on_call:?}");
        }
        let calls = upstream.look(|site| {
            site.requests
                .iter()
                .filter(|(_, _, body)| body["method"] == "tools/call")
                .cloned()
                .collect::<Vec<_>>()
        });
        assert_eq!(calls.len(), 2);
        for (_, headers, body) in calls {
            assert_eq!(headers["mcp-protocol-version"], version);
            assert_eq!(
                headers.get("mcp-method").map(|method| method.to_str().unwrap()),
                (era == Era::Modern).then_some("tools/call")
            );
            assert_eq!(body["params"]["arguments"], json!({ "a": 1 }));
        }
        assert!(house.control.shutdown(FAR).await);
        assert_eq!(upstream.look(|site| site.deleted), usize::from(era == Era::Legacy));
    }
}

#[tokio::test]
async fn f16_a_server_sees_the_configured_headers_and_no_others() {
    let upstream = HttpUpstream::start(Era::Legacy).await;
    let url = format!("{}?token=CANARY-QUERY", upstream.url());
    let headers = [("Authorization", "Bearer CANARY-HEADER"), ("X-Team", "blue")];
    let entry = ServerEntry::http("s", &url, &headers).unwrap();
    assert!(!format!("{entry:?}").contains("CANARY"));
    let house = House::ready(vec![entry]).await;
    house.text("s", "echo", json!({})).await;
    let protocol = [
        "accept",
        "content-length",
        "content-type",
        "host",
        "mcp-method",
        "mcp-protocol-version",
        "mcp-session-id",
        "user-agent",
    ];
    for (_, headers, _) in upstream.look(|site| site.requests.clone()) {
        assert_eq!(headers["authorization"], "Bearer CANARY-HEADER");
        assert_eq!(headers["x-team"], "blue");
        for name in headers.keys() {
            let name = name.as_str();
            assert!(protocol.contains(&name) || ["authorization", "x-team"].contains(&name), "{name}");
        }
    }
    assert_eq!(house.status("s").given, ["authorization", "x-team"]);
    // Away, refusing, and answering nonsense: nothing of it shows a secret.
    for on_call in [OnCall::Status(500), OnCall::Status(403), OnCall::Drop] {
        upstream.script(on_call);
        let shown = format!("{:?} {:?}", house.call("s", "echo", json!({})).await, house.status("s"));
        assert!(!shown.contains("CANARY"), "{shown}");
    }
    let _stopped = upstream.stop().await;
    let shown = format!(
        "{:?} {:?}",
        house.call("s", "echo", json!({})).await,
        house.until_state("s", ServerState::Unavailable).await
    );
    assert!(!shown.contains("CANARY"), "{shown}");
}

#[tokio::test]
async fn f12_sessions_that_the_server_forgot_are_made_again_once_for_ten_calls() {
    let upstream = HttpUpstream::start(Era::Legacy).await;
    let house = House::ready(vec![entry("s", &upstream.url())]).await;
    assert_eq!(upstream.look(|site| site.initialised), 1);
    upstream.forget_sessions();
    let calls: Vec<_> =
        (0..10).map(|n| house.propose("s", "echo", ProposedArguments::Json(json!({ "n": n })))).collect();
    for call in calls {
        let answer = tokio::time::timeout(FAR, call.outcome()).await.unwrap();
        assert_eq!(answer.state, CallState::Completed, "{answer:?}");
    }
    upstream.look(|site| assert_eq!((site.initialised, site.effects), (2, 10)));
}

#[tokio::test]
async fn f12_a_call_sent_again_after_a_forgotten_session_is_recorded() {
    let upstream = HttpUpstream::start(Era::Legacy).await;
    let house = House::ready(vec![entry("s", &upstream.url())]).await;
    upstream.forget_sessions();
    let answer = house.call("s", "echo", json!({})).await;
    assert_eq!(answer.state, CallState::Completed, "{answer:?}");
    let trail = house.trail(answer.call).await;
    assert_eq!(trail.iter().filter(|kind| *kind == "execution_retried").count(), 1, "{trail:?}");
}

#[tokio::test]
async fn f12_a_call_on_its_way_survives_the_new_session_of_another() {
    let upstream = HttpUpstream::start(Era::Legacy).await;
    let house = House::ready(vec![entry("s", &upstream.url())]).await;
    upstream.script(OnCall::Held);
    let slow = house.propose("s", "echo", ProposedArguments::Json(json!({ "n": 1 })));
    while upstream.look(|site| site.effects) == 0 {
        tokio::task::yield_now().await;
    }
    upstream.script(OnCall::Answer);
    upstream.forget_sessions();
    assert_eq!(house.text("s", "echo", json!({ "n": 2 })).await, r#"{"n":2}"#);
    assert_eq!(upstream.look(|site| site.initialised), 2);
    upstream.site.release.notify_one();
    let answer = tokio::time::timeout(FAR, slow.outcome()).await.unwrap();
    assert_eq!(text_of(&answer), r#"{"n":1}"#);
}

#[tokio::test]
async fn f12_a_restart_that_only_the_stream_of_notices_sees_is_recovered_from() {
    let upstream = HttpUpstream::start(Era::Legacy).await;
    let house = House::ready(vec![entry("s", &upstream.url())]).await;
    let away = upstream.stop().await;
    let upstream = away.start().await;
    upstream.retool(json!([tool("echo"), tool("fresh")]), 0);
    // No call is made: the broken stream is what tells.
    house.until_tools("s", &["echo", "fresh"]).await;
    assert_eq!(upstream.look(|site| site.initialised), 2);
}

#[tokio::test]
async fn f12_a_refusal_that_names_no_request_is_an_answer_and_no_silence() {
    for era in [Era::Legacy, Era::Modern] {
        let upstream = HttpUpstream::start(era).await;
        let house = House::ready(vec![entry("s", &upstream.url())]).await;
        for (status, state) in [(400, CallState::Failed), (200, CallState::Failed), (500, CallState::Unknown)]
        {
            upstream.script(OnCall::Error(status));
            let answer = house.call("s", "echo", json!({})).await;
            assert_eq!(answer.state, state, "{era:?} {status}: {answer:?}");
            assert_ne!(code(&answer), ReasonCode::TimedOut);
        }
        upstream.script(OnCall::Answer);
        assert_eq!(house.text("s", "echo", json!({})).await, "{}");
    }
}

#[tokio::test]
async fn f12_a_server_that_knows_no_session_for_ever_is_given_up() {
    let upstream = HttpUpstream::start(Era::Legacy).await;
    let house = House::ready(vec![entry("s", &upstream.url())]).await;
    upstream.script(OnCall::Forgotten);
    let answer = house.call("s", "echo", json!({})).await;
    assert_eq!((answer.state, code(&answer)), (CallState::Failed, ReasonCode::UpstreamUnavailable));
    let sent = upstream
        .look(|site| site.requests.iter().filter(|(_, _, body)| body["method"] == "tools/call").count());
    assert_eq!(sent, 2);
}

#[tokio::test]
async fn f12_an_effect_whose_answer_was_lost_is_unknown_and_happened_once() {
    for era in [Era::Legacy, Era::Modern] {
        let upstream = HttpUpstream::start(era).await;
        let house = House::ready(vec![entry("s", &upstream.url()), entry("read-s", &upstream.url())]).await;
        for (n, on_call) in [OnCall::Drop, OnCall::DropStream, OnCall::Status(502)].into_iter().enumerate() {
            upstream.script(on_call);
            let answer = house.call("s", "echo", json!({})).await;
            assert_eq!(
                (answer.state, code(&answer)),
                (CallState::Unknown, ReasonCode::OutcomeLost),
                "{era:?} {on_call:?}"
            );
            assert_eq!(upstream.look(|site| site.effects), (n + 1).min(2), "{era:?} {on_call:?}");
        }
        upstream.script(OnCall::Drop);
        let answer = house.call("read-s", "echo", json!({})).await;
        assert_eq!((answer.state, code(&answer)), (CallState::Failed, ReasonCode::UpstreamUnavailable));
        assert_eq!(upstream.look(|site| site.effects), 4);
    }
}

#[tokio::test]
async fn f12_a_server_that_was_away_comes_back_by_itself() {
    for era in [Era::Legacy, Era::Modern] {
        let upstream = HttpUpstream::start(era).await;
        let url = upstream.url();
        let house = House::ready(vec![entry("s", &url)]).await;
        let away = upstream.stop().await;
        let began = tokio::time::Instant::now();
        let answer = house.call("s", "echo", json!({})).await;
        assert_eq!(
            (answer.state, code(&answer)),
            (CallState::Failed, ReasonCode::UpstreamUnavailable),
            "{answer:?}"
        );
        assert!(began.elapsed() < Duration::from_secs(5));
        house.until_state("s", ServerState::Unavailable).await;
        assert_eq!(house.tools("s"), ["echo"]);
        let upstream = away.start().await;
        house.until_state("s", ServerState::Ready).await;
        assert_eq!(house.text("s", "echo", json!({})).await, "{}");
        assert_eq!(upstream.look(|site| site.effects), 1);
    }
}

#[tokio::test]
async fn f13_changes_are_followed_in_both_eras() {
    for era in [Era::Legacy, Era::Modern] {
        let upstream = HttpUpstream::start(era).await;
        let house = House::ready(vec![entry("s", &upstream.url())]).await;
        // The stream of notices is opened beside the first list.
        while !upstream.look(|site| {
            site.requests
                .iter()
                .any(|(method, _, body)| method == "GET" || body["method"] == "subscriptions/listen")
        }) {
            tokio::task::yield_now().await;
        }
        upstream.retool(json!([tool("echo"), tool("fresh")]), 5);
        house.until_tools("s", &["echo", "fresh"]).await;
        assert_eq!(upstream.look(|site| site.lists), 2, "{era:?}");
    }
}

#[tokio::test]
async fn f21_a_cancelled_call_is_cancelled_at_its_server() {
    for era in [Era::Legacy, Era::Modern] {
        let upstream = HttpUpstream::start(era).await;
        let house = House::ready(vec![entry("s", &upstream.url())]).await;
        upstream.script(OnCall::Silent);
        let handle = house.propose("s", "echo", ProposedArguments::Absent);
        let call = loop {
            let call = upstream.look(|site| {
                site.requests
                    .iter()
                    .find(|(_, _, body)| body["method"] == "tools/call")
                    .map(|(_, _, body)| body.clone())
            });
            match call {
                Some(call) => break call,
                None => tokio::task::yield_now().await,
            }
        };
        handle.cancel();
        let answer = tokio::time::timeout(FAR, handle.outcome()).await.unwrap();
        assert_eq!((answer.state, code(&answer)), (CallState::Unknown, ReasonCode::OutcomeLost));
        let cancels = upstream.look(|site| {
            site.requests
                .iter()
                .filter(|(_, _, body)| body["method"] == "notifications/cancelled")
                .map(|(_, _, body)| body["params"]["requestId"].clone())
                .collect::<Vec<_>>()
        });
        // In the newer era closing the response is the cancellation.
        let want = if era == Era::Legacy { vec![call["id"].clone()] } else { Vec::new() };
        assert_eq!(cancels, want);
    }
}

#[tokio::test]
async fn what_a_server_did_not_accept_did_not_run() {
    let upstream = HttpUpstream::start(Era::Modern).await;
    let house = House::ready(vec![entry("s", &upstream.url())]).await;
    for (status, state) in [
        (400, CallState::Failed),
        (401, CallState::Failed),
        (413, CallState::Failed),
        (408, CallState::Unknown),
        (503, CallState::Unknown),
    ] {
        upstream.script(OnCall::Status(status));
        let answer = house.call("s", "echo", json!({})).await;
        assert_eq!(answer.state, state, "{status}");
        assert!(sentence(&answer).contains(&status.to_string()), "{answer:?}");
    }
}

#[tokio::test]
async fn a_server_that_cannot_be_reached_is_one_line_and_nothing_else() {
    let upstream = HttpUpstream::start(Era::Modern).await;
    let port = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap().port();
    let entries = vec![
        entry("gone", &format!("http://127.0.0.1:{port}/mcp")),
        entry("nameless", "http://name.invalid/mcp"),
        entry("well", &upstream.url()),
    ];
    let house = House::ready(entries).await;
    for server in ["gone", "nameless"] {
        let status = house.status(server);
        assert_eq!(status.state, ServerState::Unavailable, "{status:?}");
        let note = status.note.unwrap();
        assert!(
            note.contains("no connection") && !note.contains('\n') && !note.contains("http://"),
            "{note}"
        );
    }
    assert_eq!(house.text("well", "echo", json!({})).await, "{}");
}

#[tokio::test]
async fn a_redirect_is_not_followed() {
    let target = HttpUpstream::start(Era::Modern).await;
    let elsewhere = target.url();
    let app =
        axum::Router::new().fallback(move || async move { axum::response::Redirect::temporary(&elsewhere) });
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    let serving = tokio::spawn(async move { axum::serve(listener, app).await });
    let house = House::ready(vec![ServerEntry::http("s", &url, &[("x-key", "CANARY-KEY")]).unwrap()]).await;
    let status = house.status("s");
    assert_eq!(status.state, ServerState::Unavailable);
    assert!(status.note.as_deref().unwrap().contains("HTTP status 307"), "{status:?}");
    assert_eq!(target.look(|site| site.requests.len()), 0);
    serving.abort();
}

#[tokio::test]
async fn header_annotations_travel_as_headers() {
    let upstream = HttpUpstream::start(Era::Modern).await;
    let schema = json!({ "type": "object", "properties": { "region": { "type": "string", "x-mcp-header": "Region" } } });
    let bad = json!({ "type": "object", "properties": { "region": { "type": "string", "x-mcp-header": "bad name" } } });
    upstream.retool(json!([{ "name": "echo", "inputSchema": schema, "extra": { "kept": true } }, { "name": "bad", "inputSchema": bad }]), 0);
    let house = House::ready(vec![entry("s", &upstream.url())]).await;
    assert_eq!(house.tools("s"), ["echo"]);
    assert!(house.status("s").left_out[0].1.contains("x-mcp-header"));
    house.text("s", "echo", json!({ "region": "north" })).await;
    let headers = upstream.look(|site| site.requests.last().unwrap().1.clone());
    assert_eq!(headers["mcp-param-region"], "north");
    assert_eq!(headers["mcp-name"], "echo");
}
