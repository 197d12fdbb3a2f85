//! Starting and stopping: what is refused and how it says so, what a stop leaves behind, and what a kill cannot break.

use std::time::{Duration, Instant};

use reqwest::StatusCode;

use super::harness::page::Browser;
use super::harness::server::{Ended, Server, Setup};

/// Exit code 2, nothing on standard output, and one line of error that says what to do.
fn assert_refused(ended: &Ended, words: &[&str]) {
    assert_eq!(ended.code(), Some(2), "{ended:?}");
    assert_eq!(ended.output, "", "{ended:?}");
    let errors: Vec<&str> = ended.log.lines().filter(|line| line.starts_with("error: ")).collect();
    let [error] = errors.as_slice() else { panic!("not one line of error: {ended:?}") };
    assert_eq!(ended.log.lines().last(), Some(*error), "the error is the last word: {ended:?}");
    for word in words {
        assert!(error.contains(word), "`{word}` is missing: {error}");
    }
}

#[tokio::test]
async fn a_fresh_folder_is_enough_and_the_printed_link_signs_in() {
    let server = Server::start().await;
    let browser = Browser::new(&server);
    for path in ["/healthz", "/readyz"] {
        browser.get(path).await.expect_status(StatusCode::OK);
    }
    let signed_in = Browser::signed_in(&server).await;
    signed_in.get("/approvals").await.expect_status(StatusCode::OK);
    assert!(server.folder().join("sandbox").is_dir());
    // The link is used up.
    let again = Browser::new(&server);
    let page = again.get(server.sign_in_link()).await;
    if page.has("form") {
        let page = again.submit(&page.form("form")).await;
        assert!(!page.status.is_success() || page.path.starts_with("/sign-in"), "{page:?}");
    }
    assert_ne!(again.get("/approvals").await.path, "/approvals", "a used link signed somebody in");
}

#[tokio::test]
async fn a_stop_ends_streams_leaves_the_store_whole_and_frees_it() {
    let server = Server::start().await;
    let browser = Browser::signed_in(&server).await;
    let mut stream = browser.events("/events", None).await;
    let folder = server.shared_folder();
    let began = Instant::now();
    server.signal("TERM").await;
    while stream.next().await.is_some() {}
    let ended = server.ended().await;
    assert_eq!(ended.code(), Some(0), "{ended:?}");
    assert!(began.elapsed() < Duration::from_secs(20), "stopping took {:?}", began.elapsed());
    let verified = super::harness::server::command(folder.clone(), &["audit", "verify"]).await;
    assert_eq!(verified.code(), Some(0), "{verified:?}");
    // The session outlives the restart.
    let second = Setup::new().start_in(folder).await;
    assert!(second.log().contains("revision 1"), "the rules of the store rule: {}", second.log());
    assert_eq!(second.stop().await.code(), Some(0));
}

#[tokio::test]
async fn an_interrupt_stops_it_too() {
    let server = Server::start().await;
    server.signal("INT").await;
    assert_eq!(server.ended().await.code(), Some(0));
}

#[tokio::test]
async fn after_a_kill_it_starts_again() {
    let server = Server::start().await;
    let first = server.sign_in_link().to_owned();
    let server = server.restart().await;
    assert_ne!(server.sign_in_link(), first, "each start has a link of its own");
    Browser::signed_in(&server).await;
    let verified = super::harness::server::command(server.shared_folder(), &["audit", "verify"]).await;
    assert_eq!(verified.code(), Some(0), "beside a running server: {verified:?}");
}

#[tokio::test]
async fn a_port_in_use_and_a_store_in_use_are_said_in_one_line() {
    let server = Server::start().await;
    let address = server.url().strip_prefix("http://").unwrap();
    assert_refused(&Setup::new().env("LISTEN", address).run().await, &[address, "--listen"]);
    let second = Setup::new().run_in(server.shared_folder()).await;
    assert_refused(&second, &["another server is running", "--database-url"]);
    // The first one did not notice.
    Browser::new(&server).get("/healthz").await.expect_status(StatusCode::OK);
}

#[tokio::test]
async fn settings_that_cannot_be_used_are_refused_in_one_line() {
    let cases: &[(&str, &str, &[&str])] = &[
        ("LISTEN", "0.0.0.0:0", &["LISTEN", "0.0.0.0:0", "environment", "loopback"]),
        ("LISTEN", "localhost", &["LISTEN", "127.0.0.1:8080"]),
        ("SANDBOX_ROOT", ".", &["--sandbox-root", "sandbox", "contains"]),
        ("SANDBOX_ROOT", "/", &["--sandbox-root"]),
        ("DATABASE_URL", "sqlite://no/such/folder/s.db", &["no/such/folder/s.db"]),
        ("DATABASE_URL", "sqlite://d", &["`d`"]),
        ("DATABASE_URL", "sqlite:///proc/sluicegate.db", &["/proc/sluicegate.db", "permissions"]),
        ("DATABASE_URL", "mysql://x", &["mysql://x", "sqlite://"]),
        ("MCP_SERVERS_PATH", "nowhere.json", &["nowhere.json"]),
        ("MCP_SERVERS_PATH", "broken.json", &["broken.json"]),
        ("MAX_AGENT_STEPS", "none", &["MAX_AGENT_STEPS", "none"]),
        ("PUBLIC_URL", "gate", &["PUBLIC_URL", "gate"]),
        ("GEMINI_BASE_URL", "http://models.example.org", &["GEMINI_BASE_URL", "https"]),
        ("LOG_FILTER", "a=b=c", &["LOG_FILTER"]),
    ];
    for (name, value, words) in cases {
        let setup =
            Setup::new().file("broken.json", "{ \"mcpServers\": 7 }").file("d/x", "").env(name, value);
        assert_refused(&setup.run().await, words);
    }
    assert_refused(&Setup::new().file(".env", "LISTEN 127.0.0.1:0\n").run().await, &[".env", "line 1"]);
}

/// F34: what tools can reach must not hold what governs them, whichever file it is and whatever it is called by.
#[tokio::test]
async fn f34_a_sandbox_root_with_any_file_of_the_product_is_refused() {
    let key = "not-a-key";
    let cases: &[(&str, &str, &str)] = &[
        ("DATABASE_URL", "sqlite://sandbox/s.db", "s.db"),
        ("DATABASE_URL", "sqlite://sandbox/deep/er/../s.db", "s.db"),
        ("POLICY_RULES_PATH", "sandbox/rules.yaml", "rules.yaml"),
        ("MCP_SERVERS_PATH", "sandbox/servers.json", "servers.json"),
        ("GEMINI_API_KEY_FILE", "sandbox/key", "key"),
        ("CONTEXT7_API_KEY_FILE", "sandbox/key", "key"),
    ];
    for (name, value, file) in cases {
        let setup = Setup::new()
            .file("sandbox/deep/er/x", "")
            .file("sandbox/rules.yaml", sluicegate::rules::SHIPPED)
            .file("sandbox/servers.json", "{\"mcpServers\": {}}")
            .file("sandbox/key", key)
            .env(name, value);
        let ended = setup.run().await;
        assert_refused(&ended, &["--sandbox-root", "contains", file]);
        assert!(!ended.log.contains(key));
        assert!(!ended.folder.path().join("sandbox/s.db").exists(), "nothing was made in it");
    }
}

#[tokio::test]
async fn f33_a_key_is_in_no_log_line_however_much_is_logged() {
    const KEY: &str = "AIza-not-a-key-0123456789";
    let server = Setup::new()
        .env("GEMINI_API_KEY", KEY)
        .env("CONTEXT7_API_KEY", KEY)
        .env("GEMINI_BASE_URL", "http://127.0.0.1:9")
        .env("LOG_FILTER", "trace")
        .start()
        .await;
    Browser::signed_in(&server).await;
    let ended = server.stop().await;
    assert!(ended.log.len() > 1_000, "hardly anything was logged");
    assert!(!ended.log.contains(KEY) && !ended.output.contains(KEY));
}

#[tokio::test]
async fn f31_with_an_invalid_policy_at_first_start_it_runs_without_rules_and_says_why() {
    let server = Setup::new()
        .file("policy_rules.yaml", "version: 1\nrules:\n  - id: a\n    kind: allow_tool\n    mach: {}\n")
        .start()
        .await;
    let log = server.log();
    for words in ["every call is denied", "policy_rules.yaml", "line 5, column 5", "did you mean `match`"] {
        assert!(log.contains(words), "`{words}` is missing: {log}");
    }
    let page = Browser::signed_in(&server).await.get("/approvals").await;
    assert_eq!(page.status, StatusCode::OK);
    // Mending it takes no restart.
    let folder = server.shared_folder();
    std::fs::write(folder.path().join("good.yaml"), sluicegate::rules::SHIPPED).unwrap();
    let imported = super::harness::server::command(folder, &["policy", "import", "good.yaml"]).await;
    assert_eq!(imported.code(), Some(0), "{imported:?}");
}

#[tokio::test]
async fn a_crash_point_that_does_not_exist_is_refused() {
    assert_refused(&Setup::new().env("SLUICEGATE_CRASH_AT", "nowhere").run().await, &["nowhere"]);
}
