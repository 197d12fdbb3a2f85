//! Opening: what is refused, and in which words.

use crate::support::{House, START_MS, url};
use sluicegate_gateway::ManualClock;
use sluicegate_store::{OpenError, Store, StoreOptions};
use std::sync::Arc;

fn clock() -> Arc<ManualClock> {
    Arc::new(ManualClock::at(START_MS))
}

async fn open(url: &str) -> Result<Store, OpenError> {
    Store::open_server(url, clock(), StoreOptions::default()).await
}

#[tokio::test]
async fn an_address_is_a_path_and_never_memory() {
    for url in ["sqlite::memory:", "sqlite://:memory:", "sqlite://a.db?mode=memory"] {
        assert!(matches!(open(url).await, Err(OpenError::Memory(_))), "{url}");
    }
    for url in [
        "",
        "gate.db",
        "postgres://localhost/gate",
        "sqlite://",
        "sqlite:gate.db",
        "sqlite://a.db?cache=shared",
    ] {
        let refused = open(url).await.unwrap_err();
        assert!(matches!(refused, OpenError::Address(_)), "{url}: {refused}");
        assert!(refused.to_string().contains("sqlite://"), "{refused}");
    }
}

#[tokio::test]
async fn a_second_server_on_the_same_file_is_refused_under_whatever_name() {
    let house = House::new().await;
    let again = open(&url(&house.folder)).await.unwrap_err();
    assert!(matches!(again, OpenError::Running(_)), "{again}");
    assert!(again.to_string().contains("another server is running"), "{again}");
    let link = house.folder.path().join("link.db");
    std::os::unix::fs::symlink(house.file(), &link).unwrap();
    let linked = open(&format!("sqlite://{}", link.display())).await.unwrap_err();
    assert!(matches!(linked, OpenError::Running(_)), "{linked}");
    // A tool may work beside it.
    let tool = Store::open_tool(&url(&house.folder), clock(), StoreOptions::default()).await.unwrap();
    assert!(tool.policies().current().await.unwrap().is_some());
    tool.close().await;
    // When the server has gone, another may come.
    let House { store, folder, .. } = house;
    store.close().await;
    open(&url(&folder)).await.unwrap().close().await;
}

/// The kind: the server's lock goes with some handle while others still write.
#[tokio::test]
async fn the_lock_lasts_as_long_as_anybody_can_write() {
    let House { store, calls, folder, .. } = House::new().await;
    let log = store.audit_log();
    drop((store, calls));
    let again = open(&url(&folder)).await.unwrap_err();
    assert!(matches!(again, OpenError::Running(_)), "{again}");
    drop(log);
    open(&url(&folder)).await.unwrap().close().await;
}

/// The kind: records that every user of the machine can read.
#[cfg(unix)]
#[tokio::test]
async fn a_new_store_is_for_its_owners_eyes_alone() {
    use std::os::unix::fs::PermissionsExt as _;
    let house = House::new().await;
    for suffix in ["", "-wal", "-shm"] {
        let file = house.folder.path().join(format!("gate.db{suffix}"));
        let mode = std::fs::metadata(&file).unwrap().permissions().mode();
        assert_eq!(mode & 0o077, 0, "{suffix}: {mode:o}");
    }
}

#[tokio::test]
async fn a_newer_schema_is_refused_by_server_and_tool() {
    let house = House::new().await;
    house
        .tamper("INSERT INTO _sqlx_migrations VALUES (9999, 'later', CURRENT_TIMESTAMP, TRUE, x'00', 0)")
        .await;
    let tool = Store::open_tool(&url(&house.folder), clock(), StoreOptions::default()).await.unwrap_err();
    assert!(matches!(tool, OpenError::Newer { found: 9999, .. }), "{tool}");
    let House { store, folder, .. } = house;
    store.close().await;
    let server = open(&url(&folder)).await.unwrap_err();
    assert!(matches!(server, OpenError::Newer { found: 9999, .. }), "{server}");
    assert!(server.to_string().contains("newer version"), "{server}");
}

#[tokio::test]
async fn an_older_schema_is_brought_up_to_date_but_not_under_a_running_server() {
    let house = House::new().await;
    house
        .tamper("DELETE FROM _sqlx_migrations WHERE version = (SELECT MAX(version) FROM _sqlx_migrations)")
        .await;
    let tool = Store::open_tool(&url(&house.folder), clock(), StoreOptions::default()).await.unwrap_err();
    assert!(matches!(tool, OpenError::OlderInUse(_)), "{tool}");
}

#[tokio::test]
async fn a_step_that_differs_is_named() {
    let house = House::new().await;
    house.tamper("UPDATE _sqlx_migrations SET checksum = x'00' WHERE version = 4").await;
    let House { store, folder, .. } = house;
    store.close().await;
    let refused = open(&url(&folder)).await.unwrap_err();
    assert!(matches!(refused, OpenError::OtherSchema { step: 4, .. }), "{refused}");
}

#[tokio::test]
async fn what_cannot_be_written_and_what_is_no_store_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let nowhere = format!("sqlite://{}", folder.path().join("no/such/folder/gate.db").display());
    let refused = open(&nowhere).await.unwrap_err();
    assert!(matches!(refused, OpenError::NotWritable { .. }), "{refused}");
    let as_folder = format!("sqlite://{}", folder.path().display());
    assert!(open(&as_folder).await.is_err());
    std::fs::write(folder.path().join("gate.db"), "version: 1\nrules: []\n".repeat(100)).unwrap();
    let refused = open(&url(&folder)).await.unwrap_err();
    assert!(matches!(refused, OpenError::NotAStore(_)), "{refused}");
    for refused in [refused, open(&nowhere).await.unwrap_err()] {
        assert!(!refused.to_string().contains('\n'), "{refused}");
    }
}
