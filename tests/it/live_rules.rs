//! An edit of the rules applies to the very next call, and to calls that are held: by a page's form and by another
//! process.

use crate::counting::{ALLOWED, Counting, HELD, approved};
use crate::harness::server::command;

const BLOCKED: &str = r#"
version: 1
rules:
  - { id: counted, kind: require_approval, match: { server: counting, tool: add } }
  - { id: stop, kind: block_tool, match: { server: counting } }
"#;

const UNRELATED: &str = r#"
version: 1
rules:
  - { id: counted, kind: require_approval, match: { server: counting, tool: add } }
  - { id: elsewhere, kind: block_tool, match: { server: sandbox-files } }
"#;

async fn import(house: &Counting, rules: &str) {
    std::fs::write(house.server.folder().join("next.yaml"), rules).unwrap();
    let ended = command(house.server.shared_folder(), &["policy", "import", "next.yaml"]).await;
    assert_eq!(ended.code(), Some(0), "{ended:?}");
}

#[tokio::test]
async fn a_rule_imported_by_another_process_beats_an_approval_given_before_it_ran() {
    let house = Counting::start(HELD, |setup| setup).await;
    let page = house.converse("add one").await;
    let held = house.held().await;
    import(&house, BLOCKED).await;
    house.browser.submit(&approved(&held)).await;
    let denied = house.becomes(&page.path, "denied").await;
    assert_eq!(house.all_effects(), 0);
    // Approved first, and then denied by the rules of the moment of running.
    let story = denied.attributes("#transcript a[href^='/audit/calls/']", "href").remove(0);
    let story = house.browser.get(&story).await;
    let events = story.texts(".timeline__name");
    let first = |name: &str| events.iter().position(|event| event == name);
    let judged: Vec<usize> = (0..events.len()).filter(|n| events[*n] == "policy_decided").collect();
    assert!(judged.len() == 2 && first("approval_decided").is_some_and(|yes| yes < judged[1]), "{events:?}");
    assert!(first("execution_started").is_none(), "{events:?}");
    assert!(house.browser.get("/approvals").await.text("#decided .decided").contains("Approved, not run"));
}

#[tokio::test]
async fn an_unrelated_edit_does_not_disturb_a_held_call() {
    let house = Counting::start(HELD, |setup| setup).await;
    let page = house.converse("add one").await;
    let held = house.held().await;
    import(&house, UNRELATED).await;
    house.browser.submit(&approved(&held)).await;
    house.becomes(&page.path, "completed").await;
    assert_eq!(house.effects("one"), 1);
}

#[tokio::test]
async fn the_next_call_obeys_an_import_by_another_process() {
    let house = Counting::start(ALLOWED, |setup| setup).await;
    let first = house.converse("add one").await;
    house.becomes(&first.path, "completed").await;
    import(&house, BLOCKED).await;
    let second = house.converse("add two").await;
    house.becomes(&second.path, "denied").await;
    import(&house, ALLOWED).await;
    let third = house.converse("add three").await;
    house.becomes(&third.path, "completed").await;
    assert_eq!((house.effects("one"), house.effects("two"), house.effects("three")), (1, 0, 1));
}

#[tokio::test]
async fn the_next_call_obeys_an_edit_in_the_page() {
    let house = Counting::start(ALLOWED, |setup| setup).await;
    let first = house.converse("add one").await;
    house.becomes(&first.path, "completed").await;
    let new = house.browser.get("/policies/new?kind=block_tool").await.form("#rule-form");
    let new = new.set("id", "not-now").set("server", "counting");
    assert_eq!(house.browser.submit(&new).await.path, "/policies");
    let second = house.converse("add two").await;
    house.becomes(&second.path, "denied").await;
    let policies = house.browser.get("/policies").await;
    house.browser.submit(&policies.form("#rule-not-now form")).await;
    let third = house.converse("add three").await;
    house.becomes(&third.path, "completed").await;
    assert_eq!((house.effects("one"), house.effects("two"), house.effects("three")), (1, 0, 1));
}

#[tokio::test]
async fn a_rule_switched_off_in_the_page_applies_to_a_held_call() {
    let house = Counting::start(HELD, |setup| setup).await;
    let page = house.converse("add one").await;
    let held = house.held().await;
    let policies = house.browser.get("/policies").await;
    house.browser.submit(&policies.form("#rule-counted form")).await;
    // Without the rule that holds it, nothing allows the call: the yes is not enough.
    house.browser.submit(&approved(&held)).await;
    house.becomes(&page.path, "denied").await;
    assert_eq!(house.all_effects(), 0);
}
