//! People, one-time links, sessions.

use crate::support::{House, START_MS, person};
use sluicegate_gateway::audit::EventKind;
use sluicegate_policy::Role;
use sluicegate_store::{AuditFilter, AuditStart, SignIn};

const TEN_MINUTES: i64 = 600_000;

async fn kinds(house: &House) -> Vec<String> {
    let rows =
        house.store.audit().rows(&AuditFilter::default(), AuditStart::After(2), 100).await.unwrap().rows;
    rows.into_iter().map(|row| row.kind).collect()
}

#[tokio::test]
async fn a_new_store_has_one_person_the_admin_and_a_restart_makes_no_second() {
    let house = House::new().await;
    let everybody = house.store.people().list().await.unwrap();
    assert_eq!(everybody.len(), 1);
    assert_eq!((everybody[0].name.as_str(), everybody[0].role), ("admin", Role::Admin));
    let House { store, folder, clock, .. } = house;
    store.close().await;
    let house = House::at(folder, clock).await;
    assert_eq!(house.store.people().list().await.unwrap(), everybody);
    let rows =
        house.store.audit().rows(&AuditFilter::default(), AuditStart::After(0), 10).await.unwrap().rows;
    assert_eq!(rows.iter().filter(|row| row.kind == "person_changed").count(), 1);
}

#[tokio::test]
async fn a_link_signs_in_once_for_ten_minutes_and_leaves_other_links_alone() {
    let house = House::new().await;
    let people = house.store.people();
    let admin = person("admin");
    let one = people.create_link(&admin).await.unwrap().unwrap();
    let two = people.create_link(&admin).await.unwrap().unwrap();
    assert_ne!(one.token, two.token);
    assert_eq!((one.token.len(), one.expires_ms), (64, START_MS + TEN_MINUTES));
    assert!(people.create_link(&person("nobody")).await.unwrap().is_none());
    assert!(!format!("{one:?}").contains(&one.token));

    assert!(matches!(people.sign_in("").await.unwrap(), SignIn::Refused(_)));
    let SignIn::SignedIn(signed_in) = people.sign_in(&one.token).await.unwrap() else { panic!() };
    assert_eq!(signed_in.name, admin);
    let SignIn::Refused(why) = people.sign_in(&one.token).await.unwrap() else { panic!() };
    assert!(why.contains("used"), "{why}");
    house.clock.advance(TEN_MINUTES - 1);
    assert!(matches!(people.sign_in(&two.token).await.unwrap(), SignIn::SignedIn(_)));
    assert_eq!(kinds(&house).await, ["sign_in_failed", "signed_in", "sign_in_failed", "signed_in"]);

    let three = people.create_link(&admin).await.unwrap().unwrap();
    house.clock.advance(TEN_MINUTES);
    let SignIn::Refused(why) = people.sign_in(&three.token).await.unwrap() else { panic!() };
    assert!(why.contains("no longer"), "{why}");
    let four = people.create_link(&admin).await.unwrap().unwrap();
    house.clock.step_wall(-1);
    assert!(matches!(people.sign_in(&four.token).await.unwrap(), SignIn::Refused(_)), "a clock set back");
    house.assert_whole().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_twenty_uses_of_a_link_at_once_one_signs_in() {
    let house = House::new().await;
    let link = house.store.people().create_link(&person("admin")).await.unwrap().unwrap();
    let mut uses = tokio::task::JoinSet::new();
    for _ in 0..20 {
        let (people, token) = (house.store.people(), link.token.clone());
        uses.spawn(async move { people.sign_in(&token).await.unwrap() });
    }
    let signed_in =
        uses.join_all().await.into_iter().filter(|use_| matches!(use_, SignIn::SignedIn(_))).count();
    assert_eq!(signed_in, 1);
    assert_eq!(kinds(&house).await.iter().filter(|kind| *kind == "sign_in_failed").count(), 19);
}

/// The kind: reading the database file gives a way in.
#[tokio::test]
async fn f33_neither_tokens_nor_session_ids_are_in_the_files() {
    let house = House::new().await;
    let people = house.store.people();
    let link = people.create_link(&person("admin")).await.unwrap().unwrap();
    people.sign_in(&link.token).await.unwrap();
    people.create_session("SESSION-CANARY", b"data".to_vec(), START_MS + 1_000).await.unwrap();
    people.sign_in("TOKEN-CANARY").await.unwrap();
    for entry in std::fs::read_dir(house.folder.path()).unwrap() {
        let bytes = std::fs::read(entry.unwrap().path()).unwrap();
        for secret in [link.token.as_str(), "SESSION-CANARY", "TOKEN-CANARY"] {
            assert!(!bytes.windows(secret.len()).any(|window| window == secret.as_bytes()), "{secret}");
        }
    }
}

#[tokio::test]
async fn sessions_live_until_their_time_and_an_ended_one_does_not_come_back() {
    let house = House::new().await;
    let people = house.store.people();
    let until = START_MS + 1_000;
    assert!(people.create_session("a", b"1".to_vec(), until).await.unwrap());
    assert!(!people.create_session("a", b"2".to_vec(), until).await.unwrap(), "the id is taken");
    assert_eq!(people.load_session("a").await.unwrap().as_deref(), Some(b"1".as_slice()));
    people.save_session("a", b"3".to_vec(), until + 1_000).await.unwrap();
    house.clock.advance(1_999);
    assert_eq!(people.load_session("a").await.unwrap().as_deref(), Some(b"3".as_slice()));
    house.clock.advance(1);
    assert_eq!(people.load_session("a").await.unwrap(), None);

    let until = START_MS + 100_000;
    for id in ["b", "c", "d"] {
        assert!(people.create_session(id, b"x".to_vec(), until).await.unwrap());
    }
    people.sign_out(&person("admin"), "b").await.unwrap();
    // A request that was under way when the session ended must not bring it back.
    people.save_session("b", b"x".to_vec(), until).await.unwrap();
    assert_eq!(people.load_session("b").await.unwrap(), None);
    assert_eq!(kinds(&house).await, ["signed_out"]);
    people.delete_session("c").await.unwrap();
    assert_eq!(people.load_session("c").await.unwrap(), None);
    assert!(people.load_session("d").await.unwrap().is_some());

    // Without a record there is no end, either.
    assert!(people.create_session("e", b"x".to_vec(), until).await.unwrap());
    house
        .tamper(
            "CREATE TRIGGER full BEFORE INSERT ON audit WHEN NEW.kind = 'signed_out' \
             BEGIN SELECT RAISE(ABORT, 'the disk is full'); END",
        )
        .await;
    people.sign_out_everybody(&person("admin")).await.unwrap_err();
    assert!(people.load_session("d").await.unwrap().is_some());
    house.tamper("DROP TRIGGER full").await;
    people.sign_out_everybody(&person("admin")).await.unwrap();
    assert_eq!(people.load_session("d").await.unwrap(), None);
    let filter = AuditFilter { kind: Some(EventKind::SignedOut), ..AuditFilter::default() };
    let last = house.store.audit().rows(&filter, AuditStart::Latest, 1).await.unwrap().rows.remove(0);
    assert_eq!(last.actor, "admin");
    let facts: serde_json::Value = serde_json::from_str(&last.facts).unwrap();
    assert_eq!((&facts["everybody"], &facts["sessions"]), (&true.into(), &2.into()));
}
