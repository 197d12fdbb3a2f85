//! F37: chats, pages and the command line at once, and a lock that somebody else holds for a while: no busy error, and no
//! call without its rows. F34: whatever ends a call, or changes what calls may do, leaves its row.

use crate::counting::{ALLOWED, Counting, HELD, approved, states};
use crate::harness::page::{Browser, Page};
use crate::harness::server::command;
use reqwest::StatusCode;
use sqlx::Connection as _;
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};
use std::collections::BTreeSet;

async fn outside(house: &Counting) -> SqliteConnection {
    let file = house.server.folder().join("sluicegate.db");
    SqliteConnection::connect_with(&SqliteConnectOptions::new().filename(file)).await.unwrap()
}

async fn import(house: &Counting, name: &str, rules: &str) {
    std::fs::write(house.server.folder().join(name), rules).unwrap();
    let ended = command(house.server.shared_folder(), &["policy", "import", name]).await;
    assert_eq!(ended.code(), Some(0), "{ended:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f37_chats_pages_and_the_command_line_at_once_meet_no_busy_error() {
    const CHATS: usize = 20;
    let house = Counting::start(ALLOWED, |setup| setup).await;
    let start = house.new_conversation().await;
    let chats = async {
        let asked = (0..CHATS).map(|n| {
            let form = start.clone().set("text", &format!("add chat-{n}"));
            let house = &house;
            async move {
                let page = house.browser.submit(&form).await.expect_status(StatusCode::OK);
                house.becomes(&page.path, "completed").await;
            }
        });
        futures::future::join_all(asked).await;
    };
    let pages = async {
        for _ in 0..6 {
            for page in ["/", "/audit", "/audit/events", "/approvals", "/policies", "/agent"] {
                house.browser.get(page).await.expect_status(StatusCode::OK);
            }
        }
    };
    let edits = async {
        for n in 0..4 {
            import(&house, &format!("rules-{n}.yaml"), ALLOWED).await;
        }
    };
    let lock = async {
        let mut intruder = outside(&house).await;
        sqlx::raw_sql("BEGIN IMMEDIATE").execute(&mut intruder).await.unwrap();
        // As long as it takes to read a few pages, which no writer may hold up.
        for _ in 0..3 {
            house.browser.get("/audit").await.expect_status(StatusCode::OK);
        }
        sqlx::raw_sql("ROLLBACK").execute(&mut intruder).await.unwrap();
    };
    futures::join!(chats, pages, edits, lock);
    assert_eq!(house.all_effects(), CHATS);
    let log = house.server.log();
    assert!(!log.contains("locked") && !log.contains("busy") && !log.contains("not available"), "{log}");
    let mut rows = outside(&house).await;
    let count = async |rows: &mut SqliteConnection, kind: &str| -> i64 {
        sqlx::query_scalar("SELECT count(*) FROM audit WHERE kind = $1")
            .bind(kind.to_owned())
            .fetch_one(rows)
            .await
            .unwrap()
    };
    let calls = i64::try_from(CHATS).unwrap();
    for kind in ["tool_requested", "execution_started", "execution_completed"] {
        assert_eq!(count(&mut rows, kind).await, calls, "{kind}");
    }
    assert_eq!(count(&mut rows, "policy_changed").await, 5);
    let verified = command(house.server.shared_folder(), &["audit", "verify"]).await;
    assert_eq!(verified.code(), Some(0), "{verified:?}");
}

const BLOCKED: &str = "version: 1\nrules:\n  - { id: stop, kind: block_tool, match: { server: counting } }\n";
const SHORT: &str = "version: 1\nrules:\n  - { id: held, kind: require_approval, match: { server: counting }, approval: { timeout: 1s } }\n";
const SPENT: &str = "version: 1\nrules:\n  - { id: all, kind: allow_tool }\n  - { id: spent, kind: token_budget, limit: { tokens: 10, per: conversation } }\n";

/// The kind: an end without a trace.
#[tokio::test]
async fn f34_whatever_ends_a_call_or_changes_the_rules_has_its_row() {
    let house = Counting::start(HELD, |setup| setup).await;
    let end = async |address: &str, wanted: &str| {
        house.browser.until(address, |page: &Page| states(page) == [wanted]).await;
    };
    let yes = house.converse("add approved").await.path;
    house.browser.submit(&approved(&house.held().await)).await;
    end(&yes, "completed").await;
    let no = house.converse("add rejected").await.path;
    house.browser.submit(&house.held().await.form("form[action$='/deny']")).await;
    end(&no, "denied").await;
    let stopped = house.converse("add cancelled").await.path;
    house.held().await;
    let page = house.browser.get(&stopped).await;
    house.browser.submit(&page.form("form#stop")).await;
    end(&stopped, "withdrawn").await;
    for (rules, text, wanted) in [
        (BLOCKED, "add blocked", "denied"),
        (SHORT, "add expired", "expired"),
        (SPENT, "add spent", "denied"),
    ] {
        import(&house, "next.yaml", rules).await;
        let chat = house.converse(text).await.path;
        end(&chat, wanted).await;
    }
    let guess = format!("{}/sign-in?token=guess", house.server.url());
    let stranger = Browser::new(&house.server);
    let page = stranger.get(&guess).await;
    stranger.submit(&page.form("form")).await.expect_status(StatusCode::FORBIDDEN);
    let broken = house.server.folder().join("broken.yaml");
    std::fs::write(&broken, "version: 1\nrulez: []\n").unwrap();
    let refused = command(house.server.shared_folder(), &["policy", "import", "broken.yaml"]).await;
    assert_eq!(refused.code(), Some(1), "{refused:?}");
    let page = house.browser.get("/approvals").await;
    house.browser.submit(&page.form("form[action='/sign-out']")).await;

    let mut rows = outside(&house).await;
    let ends: Vec<(String, Option<String>)> =
        sqlx::query_as("SELECT state, code FROM calls ORDER BY requested_seq")
            .fetch_all(&mut rows)
            .await
            .unwrap();
    let ends: Vec<_> =
        ends.iter().map(|(state, code)| format!("{state} {}", code.as_deref().unwrap_or("-"))).collect();
    assert_eq!(
        ends,
        [
            "completed -",
            "denied denied_by_person",
            "withdrawn withdrawn",
            "denied rule",
            "expired expired",
            "denied over_budget"
        ]
    );
    let kinds: Vec<String> =
        sqlx::query_scalar("SELECT DISTINCT kind FROM audit").fetch_all(&mut rows).await.unwrap();
    let kinds: BTreeSet<&str> = kinds.iter().map(String::as_str).collect();
    for kind in [
        "tool_requested",
        "policy_decided",
        "approval_required",
        "approval_decided",
        "execution_started",
        "execution_completed",
        "policy_changed",
        "policy_rejected",
        "signed_in",
        "sign_in_failed",
        "signed_out",
    ] {
        assert!(kinds.contains(kind), "{kind} is missing: {kinds:?}");
    }
    let open: i64 = sqlx::query_scalar(
        "SELECT count(*) FROM calls WHERE (SELECT count(*) FROM audit WHERE audit.call = calls.id) < 2",
    )
    .fetch_one(&mut rows)
    .await
    .unwrap();
    assert_eq!(open, 0, "each call has its request and its decision in the trail");
}
