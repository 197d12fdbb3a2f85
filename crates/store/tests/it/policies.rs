//! Policy revisions.

use crate::support::{House, document, rules, url};
use serde_json::{Value, json};
use sluicegate_gateway::{CallStore as _, RevisionId, StoreError};
use sluicegate_store::{AuditFilter, AuditStart, Change, PolicyAppended, Store, StoreOptions};
use std::sync::Arc;
use std::time::Duration;

async fn last_event(house: &House) -> (String, Value) {
    let rows = house.store.audit().rows(&AuditFilter::default(), AuditStart::Latest, 1).await.unwrap().rows;
    (rows[0].kind.clone(), serde_json::from_str(&rows[0].facts).unwrap())
}

#[tokio::test]
async fn a_revision_is_added_with_what_it_changed() {
    let house = House::new().await;
    let policies = house.store.policies();
    let mut feed = house.store.feed().subscribe();
    let first = policies.current().await.unwrap().unwrap();
    assert_eq!(first.revision.id, RevisionId(1));
    let (kind, facts) = last_event(&house).await;
    assert_eq!(kind, "policy_changed");
    assert_eq!(facts["added"], json!(["delete", "ping", "ping-rate", "read", "write"]));
    assert!(facts.get("previous").is_none());

    let mut next = serde_json::to_value(rules()).unwrap();
    let listed = next["rules"].as_array_mut().unwrap();
    listed.retain(|rule| rule["id"] != "ping" && rule["id"] != "ping-rate");
    listed[0]["description"] = json!("Reading is free");
    listed.push(json!({"id": "move", "kind": "block_tool", "match": {"tool": "move"}}));
    let added = policies
        .append(document(next), Some(RevisionId(1)), "admin", "no more pings", "dashboard")
        .await
        .unwrap();
    assert_eq!(added, PolicyAppended::Appended(RevisionId(2)));
    let (kind, facts) = last_event(&house).await;
    assert_eq!(kind, "policy_changed");
    assert_eq!(
        (&facts["added"], &facts["removed"], &facts["changed"]),
        (&json!(["move"]), &json!(["ping", "ping-rate"]), &json!(["read"]))
    );
    let second = policies.current().await.unwrap().unwrap();
    assert_eq!((&facts["digest"], &facts["previous"]), (&json!(second.digest), &json!(first.digest)));
    assert_eq!((second.author.as_str(), second.reason.as_str()), ("admin", "no more pings"));
    assert_eq!(second.source, "dashboard");
    assert_eq!(feed.try_recv().unwrap(), Change::Policy(RevisionId(2)));
    house.assert_whole().await;

    let listed = policies.list(None, 1).await.unwrap();
    assert_eq!((listed.rows[0].revision.id, listed.next), (RevisionId(2), Some(2)));
    let listed = policies.list(listed.next, 1).await.unwrap();
    assert_eq!((listed.rows[0].revision.id, listed.next), (RevisionId(1), None));
    assert_eq!(policies.get(RevisionId(1)).await.unwrap().unwrap().revision.document, rules());
    assert!(policies.get(RevisionId(3)).await.unwrap().is_none());
}

#[tokio::test]
async fn of_two_edits_of_the_same_revision_one_is_told_of_the_other() {
    let house = House::new().await;
    let policies = house.store.policies();
    let edit = |author: &'static str| policies.append(rules(), Some(RevisionId(1)), author, "", "dashboard");
    let (one, two) = tokio::join!(edit("one"), edit("two"));
    let outcomes = [one.unwrap(), two.unwrap()];
    assert!(outcomes.contains(&PolicyAppended::Appended(RevisionId(2))), "{outcomes:?}");
    assert!(outcomes.contains(&PolicyAppended::Conflict(Some(RevisionId(2)))), "{outcomes:?}");
    // Seeding happens only once, an import whenever it is asked for.
    let seed = policies.append(rules(), Some(RevisionId(0)), "seed", "", "seed").await.unwrap();
    assert_eq!(seed, PolicyAppended::Conflict(Some(RevisionId(2))));
    let import = policies.append(rules(), None, "admin", "", "import").await.unwrap();
    assert_eq!(import, PolicyAppended::Appended(RevisionId(3)));
}

#[tokio::test]
async fn a_refused_document_changes_nothing_and_is_recorded() {
    let house = House::new().await;
    let policies = house.store.policies();
    policies.rejected("admin", "policy_rules.yaml", None, "line 3: unknown key `rulez`").await.unwrap();
    assert_eq!(last_event(&house).await.0, "policy_rejected");
    assert_eq!(policies.current().await.unwrap().unwrap().revision.id, RevisionId(1));
}

#[tokio::test]
async fn a_document_changed_by_hand_is_not_the_policy() {
    let house = House::new().await;
    house
        .tamper(
            "DROP TRIGGER policy_revisions_no_update; UPDATE policy_revisions SET \
             document = replace(document, 'block_tool', 'allow_tool')",
        )
        .await;
    assert!(matches!(house.calls.policy(RevisionId(1)).await, Err(StoreError::Corrupt(_))));
    assert!(matches!(house.store.policies().current().await, Err(StoreError::Corrupt(_))));
    assert!(matches!(house.calls.policy(RevisionId(2)).await, Err(StoreError::Corrupt(_))));
    // A good one can still replace it.
    let added =
        house.store.policies().append(rules(), Some(RevisionId(1)), "admin", "", "import").await.unwrap();
    assert_eq!(added, PolicyAppended::Appended(RevisionId(2)));
    assert_eq!(house.calls.policy(RevisionId(2)).await.unwrap().document, rules());
}

/// The kind: a page that goes on showing what another process has changed.
#[tokio::test]
async fn f36_what_another_process_writes_is_told_here() {
    let house = House::new().await;
    let (url, clock) = (url(&house.folder), Arc::new(house.clock.clone()));
    let tool = Store::open_tool(&url, clock, StoreOptions::default()).await.unwrap();
    let mut feed = house.store.feed().subscribe();
    tool.policies().append(rules(), None, "admin", "", "import").await.unwrap();
    let told = async { while feed.recv().await.unwrap() != Change::Elsewhere {} };
    tokio::time::timeout(Duration::from_secs(30), told).await.expect("the server is told");
    tool.close().await;
}
