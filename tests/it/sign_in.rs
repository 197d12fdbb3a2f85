//! Signing in by a one-time link, and out again.

use crate::harness::page::Browser;
use crate::harness::server::Server;
use reqwest::{Method, StatusCode};

/// Where a person who is signed in can be, with nothing that other tests need.
const SOMEWHERE: &str = "/approvals";

#[tokio::test]
async fn a_link_signs_in_once_and_only_by_its_button() {
    let server = Server::start().await;
    let browser = Browser::new(&server);
    // Opening it, twice, as a preview would, uses nothing up.
    for _ in 0..2 {
        let page = browser.get(server.sign_in_link()).await.expect_status(StatusCode::OK);
        assert_eq!(page.texts("form button"), ["Sign in"]);
        assert_eq!(page.header("referrer-policy"), Some("no-referrer"));
        assert_eq!(page.header("cache-control"), Some("no-store"));
        assert!(browser.cookies().is_empty(), "a cookie before signing in: {:?}", browser.cookies());
    }
    let page = browser.get(server.sign_in_link()).await;
    let form = page.form("form");
    let path = browser.submit(&form).await.path;
    assert!(!path.starts_with("/sign-in"), "still at {path}");
    browser.get(SOMEWHERE).await.expect_status(StatusCode::OK);

    // The same form once more, from another browser.
    let other = Browser::new(&server);
    let refused = other.submit(&form).await.expect_status(StatusCode::FORBIDDEN);
    assert!(refused.text("[role=alert]").contains("used up"), "{}", refused.body);
    assert!(other.get(SOMEWHERE).await.path.starts_with("/sign-in"));
}

#[tokio::test]
async fn the_cookie_is_for_this_product_and_no_script() {
    let server = Server::start().await;
    let browser = Browser::new(&server);
    let page = browser.get(server.sign_in_link()).await;
    let token = page.form("form").value("token").unwrap().to_owned();
    // Redirects would hide the answer that sets the cookie.
    let cookie = raw_post(&server, "/sign-in", &format!("token={token}")).await;
    let cookie =
        cookie.lines().find(|line| line.to_lowercase().starts_with("set-cookie:")).unwrap().to_owned();
    for attribute in ["HttpOnly", "SameSite=Lax", "Path=/", "Max-Age="] {
        assert!(cookie.contains(attribute), "{attribute} is missing in {cookie}");
    }
    // On plain HTTP a Secure cookie would be dropped.
    assert!(!cookie.contains("Secure") && !cookie.contains("Domain"), "{cookie}");
}

#[tokio::test]
async fn a_planted_session_id_is_worth_nothing() {
    let server = Server::start().await;
    let browser = Browser::signed_in(&server).await;
    let (name, mine) = browser.cookies().into_iter().next().unwrap();
    // Signing in again with a session gives another one, and the old one ends.
    let link = new_link(&server).await;
    let page = browser.get(&link).await;
    browser.submit(&page.form("form")).await;
    let renewed = browser.cookies().remove(&name).unwrap();
    assert_ne!(renewed, mine);
    let old = Browser::new(&server).with_header("cookie", &format!("{name}={mine}"));
    assert!(old.get(SOMEWHERE).await.path.starts_with("/sign-in"), "the old session still stands");
}

#[tokio::test]
async fn who_is_not_signed_in_is_led_to_sign_in_and_back() {
    let server = Server::start().await;
    let browser = Browser::new(&server);
    let page = browser.get("/approvals?x=a%20b").await;
    assert_eq!(page.path, "/sign-in?next=/approvals%3Fx%3Da%2520b");
    // A fragment is not filled with a sign-in page: the page as a whole goes there.
    let fragment = browser.htmx("pending").get("/approvals").await.expect_status(StatusCode::UNAUTHORIZED);
    assert_eq!(fragment.header("hx-redirect"), Some("/sign-in"));
    let there = browser.htmx("pending").with_header("hx-current-url", &format!("{}/agent?q=x", server.url()));
    assert_eq!(there.get("/events").await.header("hx-redirect"), Some("/sign-in?next=/agent%3Fq%3Dx"));
    assert!(!fragment.body.contains("<form"), "{}", fragment.body);
    // A program is told.
    let program = browser.with_header("accept", "application/json");
    let problem = program.get("/approvals").await.expect_status(StatusCode::UNAUTHORIZED);
    assert_eq!(problem.header("content-type"), Some("application/problem+json"));
    assert_eq!(problem.json()["status"], 401);

    // Signing in leads to where one wanted to go, and never out of the product.
    let link = format!("{}&next=/approvals%3Fx%3D1", server.sign_in_link());
    let page = browser.get(&link).await;
    assert_eq!(browser.submit(&page.form("form")).await.path, "/approvals?x=1");
    for elsewhere in ["//evil.example/", "https://evil.example/", "/%5Cevil.example", "javascript:alert(1)"] {
        let link = format!("{}&next={elsewhere}", new_link(&server).await);
        let page = Browser::new(&server).get(&link).await;
        assert_eq!(page.form("form").value("next"), None, "{elsewhere}");
    }
}

#[tokio::test]
async fn signing_out_ends_the_session_for_good() {
    let server = Server::start().await;
    let browser = Browser::signed_in(&server).await;
    let (name, value) = browser.cookies().into_iter().next().unwrap();
    browser.request(Method::GET, "/sign-out", &[]).await.expect_status(StatusCode::METHOD_NOT_ALLOWED);
    browser.get(SOMEWHERE).await.expect_status(StatusCode::OK);
    let page = browser.get(SOMEWHERE).await;
    let form = page.form("form[action='/sign-out']");
    assert_eq!(browser.submit(&form).await.path, "/sign-in");
    assert!(browser.cookies().is_empty());
    let kept = Browser::new(&server).with_header("cookie", &format!("{name}={value}"));
    assert!(kept.get(SOMEWHERE).await.path.starts_with("/sign-in"), "the session lives on");
}

#[tokio::test]
async fn a_session_outlives_a_restart() {
    let server = Server::start().await;
    let browser = Browser::signed_in(&server).await;
    let cookie = browser.cookies().into_values().next().unwrap();
    let server = server.restart().await;
    // The port is another one, and with it the cookie's name.
    let name = format!("sluicegate_{}", server.url().rsplit(':').next().unwrap());
    let browser = Browser::new(&server).with_header("cookie", &format!("{name}={cookie}"));
    assert_eq!(browser.get(SOMEWHERE).await.path, SOMEWHERE);
}

#[tokio::test]
async fn guessing_is_cut_short() {
    let server = Server::start().await;
    let browser = Browser::new(&server);
    let mut statuses = Vec::new();
    for guess in 0..25 {
        let token = format!("{guess:064x}");
        statuses.push(browser.request(Method::POST, "/sign-in", &[("token", &token)]).await.status.as_u16());
    }
    assert_eq!(statuses.iter().filter(|status| **status == 403).count(), 20, "{statuses:?}");
    assert_eq!(statuses.iter().filter(|status| **status == 429).count(), 5, "{statuses:?}");
}

/// A fresh link, from the command line beside the running server.
async fn new_link(server: &Server) -> String {
    let ended = crate::harness::server::command(server.shared_folder(), &["sign-in-link"]).await;
    let line = ended.output.lines().find_map(|line| line.split("/sign-in?token=").nth(1)).map(str::to_owned);
    let token = line.unwrap_or_else(|| panic!("no link in {}{}", ended.output, ended.log));
    format!("/sign-in?token={token}")
}

async fn raw_post(server: &Server, path: &str, body: &str) -> String {
    let host = server.url().strip_prefix("http://").unwrap();
    crate::access::raw(
        host,
        &format!(
            "POST {path} HTTP/1.1\r\nHost: {host}\r\nOrigin: http://{host}\r\nConnection: close\r\n\
             Content-Type: application/x-www-form-urlencoded\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        ),
    )
    .await
}
