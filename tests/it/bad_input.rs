//! What cannot be used is refused with its reason: nothing runs, nothing panics, nothing is lost.

use crate::counting::{ALLOWED, Counting, IDLE, states};
use crate::harness::page::Browser;
use crate::harness::server::{Server, Setup, command};
use crate::pages::begin;
use reqwest::StatusCode;

/// Asks for something that the shipped rules allow, and expects that no rules could be read.
async fn denies_everything(server: &Server, browser: &Browser, words: &[&str]) {
    browser.until("/tools", |page| page.body.contains("list_files")).await;
    let chat = begin(browser, "list the files").await;
    let page = browser.until(&chat, |page| states(page) == ["denied"]).await;
    let story = page.attributes("#transcript a[href^='/audit/calls/']", "href").remove(0);
    let story = browser.get(&story).await.expect_status(StatusCode::OK);
    assert!(story.text("main").contains("policy_unreadable"), "{}", story.text("main"));
    assert!(page.text("#gate-status").contains("Gate closed"), "{}", page.text("#gate-status"));
    let policies = browser.get("/policies").await.expect_status(StatusCode::OK).text("main");
    for word in words {
        assert!(policies.contains(word), "`{word}` is not on the page: {policies}");
        assert!(server.log().contains(word), "`{word}` is not in the log: {}", server.log());
    }
    browser.get("/readyz").await.expect_status(StatusCode::SERVICE_UNAVAILABLE);
}

/// F31: no policy, for whatever reason, is no call; the page and the log name the place of the mistake.
#[tokio::test]
async fn f31_with_rules_that_cannot_be_read_every_call_is_denied_and_the_line_is_named() {
    let misspelt = "version: 1\nrules:\n  - id: a\n    kind: allow_tool\n    mach: {}\n";
    let kind = "version: 1\nrules:\n  - { id: a, kind: Block }\n";
    let cases: [(&str, &[u8], &[&str]); 6] = [
        (
            "policy_rules.yaml",
            misspelt.as_bytes(),
            &["policy_rules.yaml", "line 5, column 5", "did you mean `match`"],
        ),
        ("policy_rules.yaml", kind.as_bytes(), &["policy_rules.yaml", "line 3", "block_tool"]),
        ("policy_rules.yaml", b"", &["policy_rules.yaml"]),
        ("policy_rules.yaml", b"version: 1\nrules: [\xFF]\n", &["policy_rules.yaml", "UTF-8"]),
        ("policy_rules.yaml/a", b"", &["policy_rules.yaml", "cannot be read"]),
        ("elsewhere.yaml", b"version: 1\nrules: []\n", &["nowhere.yaml", "no such file"]),
    ];
    for (file, text, words) in cases {
        let setup = Setup::new().file(file, text);
        let setup =
            if file == "elsewhere.yaml" { setup.env("POLICY_RULES_PATH", "nowhere.yaml") } else { setup };
        let server = setup.start().await;
        let browser = Browser::signed_in(&server).await;
        denies_everything(&server, &browser, words).await;
        // Mending it takes no restart.
        std::fs::write(server.folder().join("good.yaml"), sluicegate::rules::SHIPPED).unwrap();
        let imported = command(server.shared_folder(), &["policy", "import", "good.yaml"]).await;
        assert_eq!(imported.code(), Some(0), "{imported:?}");
        let chat = begin(&browser, "list the files").await;
        browser.until(&chat, |page| states(page) == ["completed"]).await;
        browser.get("/readyz").await.expect_status(StatusCode::OK);
    }
}

/// Malformed arguments and unknown tools are refused with the reason, recorded, told to the model; the turn goes on.
#[tokio::test]
async fn calls_that_cannot_be_understood_are_refused_recorded_and_survived() {
    let house = Counting::start(ALLOWED, |setup| setup).await;
    let cases = [
        (r#"{"name": "$TOOL", "args": {"line": 7}}"#, "invalid_arguments"),
        (r#"{"name": "$TOOL", "args": {}}"#, "invalid_arguments"),
        (r#"{"name": "$TOOL", "args": {"line": null}}"#, "invalid_arguments"),
        (r#"{"name": "$TOOL", "args": {"line": "x", "more": 1}}"#, "invalid_arguments"),
        (r#"{"name": "$TOOL", "args": []}"#, "invalid_arguments"),
        (r#"{"name": "$TOOL", "args": "line"}"#, "invalid_arguments"),
        (r#"{"name": "$TOOL"}"#, "invalid_arguments"),
        (r#"{"name": "no_such_tool", "args": {"line": "x"}}"#, "unknown_tool"),
        (r#"{"name": "$TOOL ", "args": {"line": "x"}}"#, "unknown_tool"),
    ];
    for (call, reason) in cases {
        let chat = house.converse(&format!("call {call}")).await.path;
        let page = house.becomes(&chat, "denied").await;
        let story = page.attributes("#transcript a[href^='/audit/calls/']", "href").remove(0);
        let story = house.browser.get(&story).await.expect_status(StatusCode::OK);
        assert!(story.text("main").contains(reason), "{call}: {}", story.text("main"));
        let answered = |page: &crate::harness::page::Page| {
            page.has(IDLE)
                && page.texts("#transcript .msg").last().is_some_and(|text| text.contains("what came of it"))
        };
        house.browser.until(&chat, answered).await;
    }
    assert_eq!(house.all_effects(), 0);
    let chat = house.converse("add one").await;
    house.becomes(&chat.path, "completed").await;
    let verified = command(house.server.shared_folder(), &["audit", "verify"]).await;
    assert_eq!(verified.code(), Some(0), "{verified:?}");
    assert!(!house.server.log().contains("panicked"), "{}", house.server.log());
}
