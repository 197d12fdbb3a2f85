//! Approve, deny, expire and withdraw in the same instant, over HTTP, on the real store: one winner, and the effect on
//! disk is what the winner says.

use crate::counting::{Counting, HELD, approved, states};
use crate::harness::page::Page;
use std::collections::BTreeMap;

const LIMITED: &str = r#"
version: 1
rules:
  - { id: counted, kind: allow_tool, match: { server: counting, tool: add } }
  - { id: ten, kind: rate_limit, match: { server: counting }, limit: { calls: 10, window: 1h, per: caller } }
"#;

/// A second is the shortest limit there is: rounds that race the clock wait for it.
const SHORT: &str = r#"
version: 1
rules:
  - { id: counted, kind: require_approval, match: { server: counting, tool: add }, approval: { timeout: 1s } }
"#;

fn ended(page: &Page) -> Option<String> {
    let state = states(page).pop()?;
    (!["proposed", "pending", "approved", "executing"].contains(&state.as_str())).then_some(state)
}

/// One round: the call is held, then `approve`, `deny` and `stop` are sent as told, all at once. Gives its end state.
async fn round(house: &Counting, name: &str, approve: bool, deny: bool, stop: bool) -> String {
    let page = house.converse(&format!("add {name}")).await;
    let address = page.path.clone();
    let held = house
        .browser
        .until(&address, |page| page.has("#transcript form[action$='/approve']") || ended(page).is_some())
        .await;
    if ended(&held).is_none() {
        let (yes, no, away) = (approved(&held), held.form("form[action$='/deny']"), held.form("form#stop"));
        let send = async |wanted: bool, form| {
            if wanted {
                house.browser.submit(form).await;
            }
        };
        tokio::join!(send(approve, &yes), send(deny, &no), send(stop, &away));
    }
    let end = house.browser.until(&address, |page| ended(page).is_some()).await;
    ended(&end).expect("the call has ended")
}

/// The kind: read-then-write on the decision.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f26_two_hundred_rounds_over_http_have_one_winner_each() {
    let house = Counting::start(HELD, |setup| setup).await;
    let mut seen = BTreeMap::<String, usize>::new();
    for number in 0..190_u32 {
        let name = format!("round-{number}");
        let state = round(&house, &name, true, number % 3 != 1, number % 3 != 0).await;
        let ran = house.effects(&name);
        match state.as_str() {
            "completed" => assert_eq!(ran, 1, "{name}"),
            "denied" | "withdrawn" => assert_eq!(ran, 0, "{name}: {state}"),
            // Stop reached the running tool: it may have had its effect, once.
            "unknown" => assert!(ran <= 1, "{name}"),
            other => panic!("{name}: {other}"),
        }
        *seen.entry(state).or_default() += 1;
    }
    drop(house);
    let house = Counting::start(SHORT, |setup| setup).await;
    for number in 190..200_u32 {
        let name = format!("round-{number}");
        let state = round(&house, &name, number % 2 == 0, false, false).await;
        let ran = house.effects(&name);
        match state.as_str() {
            "completed" => assert_eq!(ran, 1, "{name}"),
            "expired" => assert_eq!(ran, 0, "{name}"),
            other => panic!("{name}: {other}"),
        }
        *seen.entry(state).or_default() += 1;
    }
    assert!(seen.contains_key("completed") && seen.contains_key("expired"), "{seen:?}");
    assert!(seen.contains_key("denied") || seen.contains_key("withdrawn"), "{seen:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fifty_parallel_calls_against_a_limit_of_ten_let_ten_through() {
    let house = Counting::start(LIMITED, |setup| setup).await;
    let names: Vec<String> = (0..50).map(|number| format!("add n{number}")).collect();
    let pages = futures::future::join_all(names.iter().map(|name| house.converse(name))).await;
    let mut completed = 0;
    for page in &pages {
        let end = house.browser.until(&page.path, |page| ended(page).is_some()).await;
        match ended(&end).expect("the call has ended").as_str() {
            "completed" => completed += 1,
            "denied" => {}
            other => panic!("{other}"),
        }
    }
    assert_eq!((completed, house.all_effects()), (10, 10));
}
