//! Approve, deny, expire and withdraw in the same instant, over HTTP, on the real store: one winner, and the effect on
//! disk is what the winner says.

use crate::counting::{Counting, HELD, approved, states};
use crate::harness::page::{Form, Page};
use futures::{StreamExt as _, stream};
use std::collections::BTreeMap;

const LIMITED: &str = r#"
version: 1
rules:
  - { id: counted, kind: allow_tool, match: { server: counting, tool: add } }
  - { id: ten, kind: rate_limit, match: { server: counting }, limit: { calls: 10, window: 1h, per: caller } }
"#;

/// Short enough to wait for, and no shorter than a busy machine needs to show the card.
const SHORT: &str = r#"
version: 1
rules:
  - { id: counted, kind: require_approval, match: { server: counting, tool: add }, approval: { timeout: 4s } }
"#;

/// Rounds at the same time.
const AT_ONCE: usize = 6;

fn ended(page: &Page) -> Option<String> {
    let state = states(page).pop()?;
    (!["proposed", "pending", "approved", "executing"].contains(&state.as_str())).then_some(state)
}

/// A held call: the address of its chat, and the page with its card.
async fn held(house: &Counting, start: &Form, name: &str) -> (String, Page) {
    let text = format!("add {name}");
    let address = house.browser.submit(&start.clone().set("text", &text)).await.path;
    let card = |page: &Page| page.has("#transcript form[action$='/approve']") || ended(page).is_some();
    let page = house.browser.until(&address, card).await;
    (address, page)
}

async fn end(house: &Counting, address: &str) -> String {
    let page = house.browser.until(address, |page| ended(page).is_some()).await;
    ended(&page).expect("the call has ended")
}

/// The call is held, then two or three answers are sent at once, in an order of their own. Gives its end.
async fn answered(house: &Counting, start: &Form, number: usize) -> String {
    let name = format!("round-{number}");
    let (address, held) = held(house, start, &name).await;
    let mut answers =
        vec![approved(&held), held.form("#transcript form[action$='/deny']"), held.form("form#stop")];
    answers.rotate_left(number % 3);
    if number.is_multiple_of(4) {
        answers.pop();
    }
    let tab = house.browser.htmx("pending");
    futures::future::join_all(answers.iter().map(|form| tab.submit(form))).await;
    let state = end(house, &address).await;
    let ran = house.effects(&name);
    match state.as_str() {
        "completed" => assert_eq!(ran, 1, "{name}"),
        "denied" | "withdrawn" => assert_eq!(ran, 0, "{name}: {state}"),
        // Stop came after the yes: before the call was sent, or while it ran.
        "failed" => assert_eq!(ran, 0, "{name}"),
        "unknown" => assert!(ran <= 1, "{name}"),
        other => panic!("{name}: {other}"),
    }
    state
}

/// The yes is sent in the last moments of the time limit, or never.
async fn late(house: &Counting, start: &Form, number: i64) -> String {
    let name = format!("late-{number}");
    let (address, held) = held(house, start, &name).await;
    if number % 3 != 0 {
        let left = |page: &Page| page.attributes("[data-left]", "data-left").pop()?.parse::<i64>().ok();
        let last = |page: &Page| left(page).is_none_or(|left| left < number * 20);
        house.browser.until(&address, last).await;
        house.browser.htmx("pending").submit(&approved(&held)).await;
    }
    let state = end(house, &address).await;
    match state.as_str() {
        "completed" => assert_eq!(house.effects(&name), 1, "{name}"),
        "expired" => assert_eq!(house.effects(&name), 0, "{name}"),
        other => panic!("{name}: {other}"),
    }
    state
}

/// The kind: read-then-write on the decision.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f26_two_hundred_rounds_over_http_have_one_winner_each() {
    let house = Counting::start(HELD, |setup| setup).await;
    let start = house.new_conversation().await;
    let rounds = stream::iter(0..185).map(|number| answered(&house, &start, number));
    let mut states: Vec<String> = rounds.buffer_unordered(AT_ONCE).collect().await;
    drop(house);

    let house = Counting::start(SHORT, |setup| setup).await;
    let start = house.new_conversation().await;
    let rounds = stream::iter(0..15).map(|number| late(&house, &start, number));
    states.extend(rounds.buffer_unordered(15).collect::<Vec<_>>().await);

    let mut seen = BTreeMap::<&str, usize>::new();
    for state in &states {
        *seen.entry(state).or_default() += 1;
    }
    assert_eq!(states.len(), 200);
    for state in ["completed", "denied", "withdrawn", "expired"] {
        assert!(seen.contains_key(state), "nobody won by {state}: {seen:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fifty_parallel_calls_against_a_limit_of_ten_let_ten_through() {
    let house = Counting::start(LIMITED, |setup| setup).await;
    let start = house.new_conversation().await;
    let forms: Vec<Form> =
        (0..50).map(|number| start.clone().set("text", &format!("add n{number}"))).collect();
    let pages = futures::future::join_all(forms.iter().map(|form| house.browser.submit(form))).await;
    let mut completed = 0;
    for page in &pages {
        match end(&house, &page.path).await.as_str() {
            "completed" => completed += 1,
            "denied" => {}
            other => panic!("{other}"),
        }
    }
    assert_eq!((completed, house.all_effects()), (10, 10));
}
