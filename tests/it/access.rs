//! Who gets where: every address × every kind of caller, and requests that come from somewhere else.

use crate::harness::page::Browser;
use crate::harness::server::Server;
use reqwest::{Method, StatusCode};
use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// Who may use an address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum For {
    /// Everyone, signed in or not.
    Everyone,
    /// Whoever is signed in.
    People,
    /// Approvers and admins.
    Deciders,
    /// Admins.
    Admins,
}

/// Every address of the pages, with its methods. A route that is not here fails the test.
const TABLE: &[(&str, &str, For)] = &[
    ("GET", "/healthz", For::Everyone),
    ("GET", "/readyz", For::Everyone),
    ("GET", "/favicon.ico", For::Everyone),
    ("GET", "/static/{digest}/{name}", For::Everyone),
    ("GET", "/sign-in", For::Everyone),
    ("POST", "/sign-in", For::Everyone),
    ("POST", "/sign-out", For::People),
    ("GET", "/events", For::People),
    ("GET", "/agent", For::People),
    ("POST", "/agent", For::Deciders),
    ("GET", "/agent/{conversation}", For::People),
    ("POST", "/agent/{conversation}/messages", For::Deciders),
    ("GET", "/agent/{conversation}/export", For::People),
    ("POST", "/agent/{conversation}/stop", For::Deciders),
    ("POST", "/agent/{conversation}/rename", For::Deciders),
    ("POST", "/agent/{conversation}/model", For::Deciders),
    ("POST", "/agent/{conversation}/delete", For::Deciders),
    ("GET", "/approvals", For::People),
    ("GET", "/approvals/{id}", For::People),
    ("POST", "/approvals/{id}/approve", For::Deciders),
    ("POST", "/approvals/{id}/deny", For::Deciders),
    ("GET", "/", For::People),
    ("GET", "/policies", For::People),
    ("POST", "/policies", For::Admins),
    ("GET", "/policies/try", For::People),
    ("POST", "/policies/try", For::People),
    ("GET", "/policies/new", For::Admins),
    ("GET", "/policies/history", For::People),
    ("GET", "/policies/history/{revision}", For::People),
    ("GET", "/policies/history/{revision}/restore", For::Admins),
    ("POST", "/policies/history/{revision}/restore", For::Admins),
    ("GET", "/policies/tiers", For::People),
    ("POST", "/policies/tiers", For::Admins),
    ("POST", "/policies/tests", For::Admins),
    ("POST", "/policies/tests/remove", For::Admins),
    ("GET", "/policies/import", For::Admins),
    ("POST", "/policies/import", For::Admins),
    ("GET", "/policies/export", For::People),
    ("GET", "/policies/{id}", For::People),
    ("POST", "/policies/{id}", For::Admins),
    ("POST", "/policies/{id}/enabled", For::Admins),
    ("GET", "/policies/{id}/delete", For::Admins),
    ("POST", "/policies/{id}/delete", For::Admins),
    ("GET", "/audit", For::People),
    ("GET", "/audit/chain", For::People),
    ("POST", "/audit/verify", For::People),
    ("GET", "/audit/events", For::People),
    ("GET", "/audit/calls/{id}", For::People),
    ("POST", "/audit/calls/{id}/resolve", For::Admins),
    ("GET", "/tools", For::People),
    ("GET", "/settings", For::People),
    ("POST", "/settings/sign-in-link", For::Admins),
    ("POST", "/settings/sign-out-everywhere", For::Admins),
    ("POST", "/settings/keys", For::Admins),
    ("POST", "/settings/keys/{name}/revoke", For::Admins),
];

/// An address with something in its variable parts.
fn filled(route: &str) -> String {
    route
        .split('/')
        .map(|part| if part.starts_with('{') { "01a22eb2-d3eb-74c4-ad6b-9a3850c8d4e1" } else { part })
        .collect::<Vec<_>>()
        .join("/")
}

/// The addresses that the source declares.
fn declared() -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut folders = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("src/web")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let text = std::fs::read_to_string(&path).unwrap();
            let code = text.split("#[cfg(test)]").next().unwrap();
            for part in code.split(".route(").skip(1) {
                let address = part.trim_start().strip_prefix('"').and_then(|rest| rest.split('"').next());
                found.insert(
                    address.unwrap_or_else(|| panic!("a route without an address in {path:?}")).to_owned(),
                );
            }
        }
    }
    found
}

#[test]
fn every_route_is_in_the_table() {
    let listed: BTreeSet<String> = TABLE.iter().map(|(_, route, _)| (*route).to_owned()).collect();
    assert_eq!(declared(), listed);
}

#[tokio::test]
async fn nobody_gets_in_without_a_session_and_a_key_is_none() {
    let server = Server::start().await;
    let browser = Browser::new(&server);
    // What an agent has: a key, good and of the widest reach, and the power to send any header.
    let key = crate::harness::mcp::key(&server, "agent", &["--audit-read"]).await;
    let callers = [
        browser.with_header("accept", "application/json"),
        browser
            .with_header("accept", "application/json")
            .with_header("authorization", &format!("Bearer {key}")),
        browser
            .with_header("accept", "application/json")
            .with_header("authorization", &format!("Bearer {key}"))
            .with_header("cookie", &format!("sluicegate_8080={key}")),
        browser
            .with_header("accept", "application/json")
            .with_header("cookie", "sluicegate_8080=AAAAAAAAAAAAAAAAAAAAAA"),
    ];
    for caller in callers {
        for (method, route, who) in TABLE {
            if *route == "/sign-in" {
                continue;
            }
            let method: Method = method.parse().unwrap();
            let status = caller
                .request(method.clone(), &filled(route), &[("version", "1"), ("text", "x")])
                .await
                .status;
            if *who == For::Everyone {
                assert_ne!(status, StatusCode::UNAUTHORIZED, "{method} {route}");
            } else {
                assert_eq!(status, StatusCode::UNAUTHORIZED, "{method} {route}");
            }
        }
    }
}

#[tokio::test]
async fn an_admin_gets_everywhere_and_a_link_changes_nothing() {
    let server = Server::start().await;
    let browser = Browser::signed_in(&server).await.with_header("accept", "application/json");
    for (method, route, _) in TABLE {
        if matches!(*route, "/events" | "/sign-out" | "/sign-in") {
            continue;
        }
        if *method == "GET" {
            let status = browser.get(&filled(route)).await.status;
            assert!(!matches!(status.as_u16(), 401 | 403 | 405), "{method} {route}: {status}");
            continue;
        }
        for link in [Method::GET, Method::HEAD] {
            let status = browser.request(link.clone(), &filled(route), &[]).await.status;
            // `/agent` is a page too; its form is told apart by its method alone.
            let page = TABLE.iter().any(|(method, other, _)| *method == "GET" && other == route);
            assert!(page || status == StatusCode::METHOD_NOT_ALLOWED, "{link} {route}: {status}");
        }
    }
}

/// Sends bytes and gives back what comes until the other side closes.
pub(crate) async fn raw(host: &str, request: &str) -> String {
    let exchange = async {
        let mut stream = TcpStream::connect(host).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await.unwrap();
        String::from_utf8_lossy(&answer).into_owned()
    };
    tokio::time::timeout(Duration::from_secs(30), exchange).await.expect("an answer in time")
}

fn status_of(answer: &str) -> u16 {
    answer
        .split(' ')
        .nth(1)
        .and_then(|status| status.parse().ok())
        .unwrap_or_else(|| panic!("no status in {answer:?}"))
}

/// F18: a web page in the operator's browser is not the operator. Guards against foreign Host and Origin, simple
/// cross-site forms with a valid cookie, and state changes by a link or a prefetch.
#[tokio::test]
async fn f18_requests_from_elsewhere_are_refused_before_anything_is_read() {
    let server = Server::start().await;
    let browser = Browser::signed_in(&server).await;
    let held = crate::pages::hold(&browser, "write notes.txt: some text").await;
    let approve = format!("/approvals/{}/approve", held.approval);
    let host = server.url().strip_prefix("http://").unwrap().to_owned();
    let port = host.rsplit(':').next().unwrap().to_owned();
    let ours = format!("http://{host}");
    let cookie: String = browser.cookies().iter().map(|(name, value)| format!("{name}={value}")).collect();
    let body = format!("version={}", held.version);
    let form = "application/x-www-form-urlencoded";
    let ask = async |method: &str, path: &str, host_header: &str, kind: &str, more: &str| {
        let body = if method == "POST" { body.as_str() } else { "" };
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: {host_header}\r\nCookie: {cookie}\r\nConnection: close\r\n\
             Content-Type: {kind}\r\nContent-Length: {}\r\n{more}\r\n{body}",
            body.len()
        );
        status_of(&raw(&host, &request).await)
    };

    for path in [approve.as_str(), "/agent", "/sign-out"] {
        for foreign in
            ["evil.example", "127.0.0.1.evil.example", "127.0.0.1", &format!("evil.example:{port}")]
        {
            let more = format!("Origin: {ours}\r\n");
            assert_eq!(ask("POST", path, foreign, form, &more).await, 403, "{path} with Host {foreign}");
            assert_eq!(ask("GET", "/approvals", foreign, form, "").await, 403, "GET with Host {foreign}");
        }
        for origin in ["http://evil.example", "null", "http://127.0.0.1:1", &format!("https://{host}")] {
            let more = format!("Origin: {origin}\r\n");
            assert_eq!(ask("POST", path, &host, form, &more).await, 403, "{path} with Origin {origin}");
        }
        for site in ["cross-site", "same-site"] {
            let more = format!("Sec-Fetch-Site: {site}\r\n");
            assert_eq!(ask("POST", path, &host, form, &more).await, 403, "{path}, a {site} form");
            let more = format!("Sec-Fetch-Site: {site}\r\nOrigin: null\r\n");
            assert_eq!(
                ask("POST", path, &host, form, &more).await,
                403,
                "{path}, a {site} form in a sandbox"
            );
        }
    }
    // The event stream from another origin, and a Host that is missing or doubled.
    assert_eq!(ask("GET", "/events", &host, form, "Origin: http://evil.example\r\n").await, 403);
    assert_eq!(ask("GET", "/approvals", &host, form, "Host: evil.example\r\n").await / 100, 4);
    let none = raw(&host, &format!("GET /approvals HTTP/1.0\r\nCookie: {cookie}\r\n\r\n")).await;
    assert_eq!(status_of(&none), 403);
    // Forms as other pages can send them, with our own origin even.
    let origin = format!("Origin: {ours}\r\n");
    for kind in ["text/plain", "multipart/form-data; boundary=x", "application/json"] {
        assert_eq!(ask("POST", &approve, &host, kind, &origin).await, 415, "{kind}");
    }
    // A link, a look ahead, a preview.
    for method in ["GET", "HEAD", "OPTIONS", "PUT"] {
        assert_eq!(ask(method, &approve, &host, form, "Sec-Purpose: prefetch\r\n").await, 405, "{method}");
    }

    let page = browser.get("/approvals").await;
    assert_eq!(
        page.attributes("#pending [data-approval]", "data-approval"),
        std::slice::from_ref(&held.approval),
        "still held"
    );
    for header in ["x-frame-options", "content-security-policy"] {
        assert!(
            page.header(header)
                .is_some_and(|value| value.contains("DENY") || value.contains("frame-ancestors 'none'"))
        );
    }
    // A client that is no browser sends neither header, and has the session: that is enough.
    assert_eq!(ask("POST", &approve, &host, form, "").await, 303);
    browser.until("/approvals", |page| !page.has("#pending [data-approval]")).await;
}
