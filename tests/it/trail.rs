//! If it cannot be recorded, it does not happen; and what was recorded cannot be changed unnoticed.

use crate::counting::{ALLOWED, Counting, HELD, IDLE, approved, states};
use crate::harness::server::{Ended, command};
use reqwest::StatusCode;
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{Connection, SqliteConnection};

/// The store as an intruder with the file sees it.
async fn raw(house: &Counting) -> SqliteConnection {
    let file = house.server.folder().join("sluicegate.db");
    SqliteConnection::connect_with(&SqliteConnectOptions::new().filename(file)).await.unwrap()
}

async fn sql(connection: &mut SqliteConnection, statements: &'static str) {
    sqlx::raw_sql(statements).execute(connection).await.unwrap();
}

async fn verify(house: &Counting) -> Ended {
    command(house.server.shared_folder(), &["audit", "verify"]).await
}

/// The kind: actions without a trace.
#[tokio::test]
async fn f34_a_call_whose_audit_row_cannot_be_written_is_refused_with_the_reason() {
    let house = Counting::start(ALLOWED, |setup| setup).await;
    let mut intruder = raw(&house).await;
    sql(
        &mut intruder,
        "CREATE TRIGGER full BEFORE INSERT ON audit WHEN NEW.kind = 'execution_started' \
         BEGIN SELECT RAISE(ABORT, 'the disk is full'); END",
    )
    .await;
    let page = house.converse("add one").await;
    let refused = house.browser.until(&page.path, |page| page.text("#transcript").contains("records")).await;
    assert_eq!(house.all_effects(), 0, "{}", refused.body);
    sql(&mut intruder, "DROP TRIGGER full").await;
    let page = house.converse("add two").await;
    house.becomes(&page.path, "completed").await;
    assert_eq!((house.effects("one"), house.effects("two")), (0, 1));
    assert_eq!(verify(&house).await.code(), Some(0));
}

/// The kind: a lock that somebody else holds.
#[tokio::test]
async fn f37_a_call_that_meets_a_locked_store_is_refused_and_not_run_later() {
    let house = Counting::start(ALLOWED, |setup| setup).await;
    let address = house.converse("add zero").await.path.clone();
    house.becomes(&address, "completed").await;
    let page = house.browser.until(&address, |page| page.has(IDLE)).await;
    let mut intruder = raw(&house).await;
    // The message itself must be stored before the lock is taken, else the page refuses it, which is right too.
    house.browser.submit(&page.form("form.composer").set("text", "hello")).await;
    sql(&mut intruder, "BEGIN IMMEDIATE").await;
    let blocked = house.converse("add one").await;
    assert!(!blocked.status.is_success() || house.effects("one") == 0, "{}", blocked.status);
    assert_eq!(house.effects("one"), 0);
    sql(&mut intruder, "ROLLBACK").await;
    let page = house.converse("add two").await;
    house.becomes(&page.path, "completed").await;
    assert_eq!((house.effects("one"), house.effects("two")), (0, 1));
}

/// The kind: a decision that is lost, or half made, because somebody else holds the lock.
#[tokio::test]
async fn f37_a_yes_that_meets_a_locked_store_does_not_count_and_is_said_not_to() {
    let house = Counting::start(HELD, |setup| setup).await;
    let page = house.converse("add one").await;
    let held = house.held().await;
    let mut intruder = raw(&house).await;
    sql(&mut intruder, "BEGIN IMMEDIATE").await;
    let refused = house.browser.submit(&approved(&held)).await;
    assert_eq!(refused.status, StatusCode::SERVICE_UNAVAILABLE);
    assert!(refused.text("main").contains("held calls stay held"), "{}", refused.text("main"));
    sql(&mut intruder, "ROLLBACK").await;
    assert_eq!(
        (states(&house.browser.get(&page.path).await), house.all_effects()),
        (vec!["pending".to_owned()], 0)
    );
    house.browser.submit(&approved(&house.held().await)).await.expect_status(StatusCode::OK);
    house.becomes(&page.path, "completed").await;
    assert_eq!(house.effects("one"), 1);
}

#[tokio::test]
async fn f34_a_row_changed_removed_or_moved_by_hand_is_named_and_the_exit_code_is_1() {
    let tampering: [(&'static str, &str); 4] = [
        ("UPDATE audit SET actor = 'somebody else' WHERE seq = 3", "row 3"),
        ("DELETE FROM audit WHERE seq = 3", "row 4"),
        (
            "UPDATE audit SET seq = -1 WHERE seq = 3; UPDATE audit SET seq = 3 WHERE seq = 4; UPDATE audit SET seq = 4 WHERE seq = -1",
            "row 3",
        ),
        ("DELETE FROM audit WHERE seq = (SELECT max(seq) FROM audit)", "end was removed"),
    ];
    for (statement, named) in tampering {
        let house = Counting::start(ALLOWED, |setup| setup).await;
        let page = house.converse("add one").await;
        house.becomes(&page.path, "completed").await;
        let whole = verify(&house).await;
        assert_eq!(whole.code(), Some(0), "{whole:?}");
        let mut intruder = raw(&house).await;
        let refused = sqlx::raw_sql(statement).execute(&mut intruder).await;
        assert!(refused.is_err(), "the database itself refuses: {statement}");
        let triggers: Vec<(String,)> =
            sqlx::query_as("SELECT name FROM sqlite_master WHERE type = 'trigger' AND tbl_name = 'audit'")
                .fetch_all(&mut intruder)
                .await
                .unwrap();
        for (trigger,) in triggers {
            let drop = sqlx::AssertSqlSafe(format!("DROP TRIGGER {trigger}"));
            sqlx::raw_sql(drop).execute(&mut intruder).await.unwrap();
        }
        sql(&mut intruder, statement).await;
        let broken = verify(&house).await;
        assert_eq!(broken.code(), Some(1), "{statement}: {broken:?}");
        let said = format!("{}{}", broken.output, broken.log);
        assert!(said.contains(named), "{statement}: {said}");
    }
}
