//! Keys: shown once, stored hashed, scoped, revoked; and what a revoked one can no longer do.

use crate::support::{House, person};
use sluicegate_gateway::Scope;
use sluicegate_policy::{Role, Tier};
use sluicegate_store::{AuditFilter, AuditStart, CreatedKey, KeyName, KeyOutcome, Keys, NewKey};
use std::collections::BTreeSet;

fn name(name: &str) -> KeyName {
    KeyName::new(name).unwrap()
}

fn new(key: &str) -> NewKey {
    NewKey { name: name(key), owner: person("admin"), scope: Scope::default(), audit_read: false }
}

async fn made(keys: &Keys, key: NewKey) -> CreatedKey {
    match keys.create(key, "admin").await.unwrap() {
        KeyOutcome::Created(made) => *made,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_key_is_shown_once_and_stored_hashed() {
    let house = House::new().await;
    let keys = house.store.keys();
    let made = made(&keys, new("laptop")).await;
    assert_eq!((made.token.len(), made.token.starts_with("sg_")), (67, true));
    assert!(!format!("{made:?}").contains(&made.token));
    let found = keys.authenticate(&made.token).await.unwrap().unwrap();
    assert_eq!(found.name, name("laptop"));
    let caller = found.caller().unwrap();
    assert_eq!((caller.principal.caller.as_str(), caller.principal.role), ("key:laptop", Role::Client));
    for wrong in
        ["", "sg_", made.token.get(..66).unwrap(), &made.token.to_uppercase(), &format!("{} ", made.token)]
    {
        assert_eq!(keys.authenticate(wrong).await.unwrap(), None, "{wrong:?}");
    }
    let rows = house.store.audit().rows(&AuditFilter::default(), AuditStart::Latest, 50).await.unwrap().rows;
    assert!(
        rows.iter()
            .all(|row| !row.facts.contains(&made.token) && !row.facts.contains(made.token.get(3..).unwrap()))
    );
    let House { store, folder, .. } = house;
    store.close().await;
    for entry in std::fs::read_dir(folder.path()).unwrap() {
        let bytes = std::fs::read(entry.unwrap().path()).unwrap();
        let needle = &made.token.as_bytes()[3..];
        assert!(
            !bytes.windows(needle.len()).any(|window| window == needle),
            "the token is in the store's files"
        );
    }
}

#[tokio::test]
async fn names_are_never_given_twice_and_owners_exist() {
    let house = House::new().await;
    let keys = house.store.keys();
    let first = made(&keys, new("ci")).await;
    assert!(matches!(keys.create(new("ci"), "admin").await.unwrap(), KeyOutcome::NameTaken));
    assert!(keys.revoke(&name("ci"), "admin").await.unwrap());
    assert!(!keys.revoke(&name("ci"), "admin").await.unwrap());
    assert!(!keys.revoke(&name("nobody"), "admin").await.unwrap());
    assert!(matches!(keys.create(new("ci"), "admin").await.unwrap(), KeyOutcome::NameTaken));
    assert_eq!(keys.authenticate(&first.token).await.unwrap(), None);
    let orphan = NewKey { owner: person("nobody"), ..new("other") };
    assert!(matches!(keys.create(orphan, "admin").await.unwrap(), KeyOutcome::NoSuchOwner));
    for wrong in ["", "A", "a b", "a/b", &"a".repeat(65)] {
        assert!(KeyName::new(wrong).is_none(), "{wrong}");
    }
    let rows =
        house.store.audit().rows(&AuditFilter::default(), AuditStart::After(2), 50).await.unwrap().rows;
    let kinds: Vec<_> = rows.iter().map(|row| row.kind.as_str()).collect();
    assert_eq!(kinds, ["key_created", "key_revoked"], "what was refused made nothing");
}

#[tokio::test]
async fn scopes_come_back_as_they_were_given_and_use_is_written_down_by_the_minute() {
    let house = House::new().await;
    let keys = house.store.keys();
    let scope = Scope {
        servers: vec!["sandbox-*".to_owned()],
        tools: vec!["read_file".to_owned()],
        tiers: BTreeSet::from([Tier::Safe]),
    };
    let key = NewKey { scope: scope.clone(), audit_read: true, ..new("narrow") };
    let token = made(&keys, key).await.token;
    assert_eq!(keys.list().await.unwrap()[0].last_used_ms, None);
    let found = keys.authenticate(&token).await.unwrap().unwrap();
    assert_eq!((found.scope, found.audit_read), (scope, true));
    let first = keys.list().await.unwrap()[0].last_used_ms.unwrap();
    house.clock.advance(59_999);
    keys.authenticate(&token).await.unwrap();
    assert_eq!(keys.list().await.unwrap()[0].last_used_ms, Some(first));
    house.clock.advance(1);
    keys.authenticate(&token).await.unwrap();
    assert_eq!(keys.list().await.unwrap()[0].last_used_ms, Some(first + 60_000));
}
