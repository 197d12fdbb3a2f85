//! The process is killed at every step of a call and started again: nothing ran twice, nothing ran unapproved, every
//! intent has an outcome, and the page says so.

use crate::counting::{ALLOWED, Counting, HELD, approved};
use crate::harness::faults::POINTS;
use crate::harness::page::Page;
use crate::harness::server::Setup;

/// Steps that come before anybody can be asked.
const BEFORE_ASKING: &[&str] = &["proposed", "judged", "hold_written"];
/// Steps that only a held call has.
const HELD_ONLY: &[&str] = &["hold_written", "approval_seen", "approved_judged"];

/// Gives the effects, the state in the trail (none if the call was not recorded), the trail and the chat.
async fn killed_and_started_again(rules: &str, point: &'static str) -> (usize, Option<String>, Page, Page) {
    let house = Counting::start(rules, |setup| setup.crash_at(point)).await;
    let address = house.converse("hello").await.path;
    let idle = "form.composer button[aria-label='Send']:not([disabled])";
    let page = house.browser.until(&address, |page| page.has(idle)).await;
    // The process may die before it has answered this, or the click below.
    house.browser.try_submit(&page.form("form.composer").set("text", "add once")).await;
    if rules == HELD && !BEFORE_ASKING.contains(&point) {
        let form = approved(&house.held().await);
        house.browser.try_submit(&form).await;
    }
    let house = house.again(Setup::new()).await;
    assert!(
        !house.browser.get("/approvals").await.has("form[action$='/approve']"),
        "{point}: nothing is left to approve"
    );
    // Time for anything that would run by itself: a whole turn of another conversation.
    let other = house.converse("hello").await;
    house
        .browser
        .until(&other.path, |page| {
            page.texts("#transcript .msg").iter().any(|text| text.contains("what came of it"))
        })
        .await;
    let audit = house.browser.get("/audit").await;
    let mut states = audit.attributes("[data-call][data-state]", "data-state");
    assert!(states.len() <= 1, "{point}: {states:?}");
    let chat = house.browser.get(&address).await;
    (house.effects("once"), states.pop(), audit, chat)
}

#[tokio::test]
async fn an_allowed_call_survives_a_kill_at_every_step_honestly() {
    for point in POINTS.iter().copied().filter(|point| !HELD_ONLY.contains(point)) {
        let (ran, state, _, chat) = killed_and_started_again(ALLOWED, point).await;
        let expected = match point {
            "proposed" | "judged" => (0, None),
            "intent_written" => (0, Some("unknown")),
            "effect_done" => (1, Some("unknown")),
            "outcome_written" => (1, Some("completed")),
            other => panic!("the test does not know the step {other}"),
        };
        assert_eq!((ran, state.as_deref()), expected, "{point}");
        assert!(chat.text("#transcript").contains("add once"), "{point}: the message stays");
    }
}

#[tokio::test]
async fn a_held_call_survives_a_kill_at_every_step_honestly() {
    for point in POINTS.iter().copied() {
        let (ran, state, audit, _) = killed_and_started_again(HELD, point).await;
        let expected = match point {
            "proposed" | "judged" => (0, None),
            "hold_written" | "approval_seen" | "approved_judged" => (0, Some("denied")),
            "intent_written" => (0, Some("unknown")),
            "effect_done" => (1, Some("unknown")),
            "outcome_written" => (1, Some("completed")),
            other => panic!("the test does not know the step {other}"),
        };
        assert_eq!((ran, state.as_deref()), expected, "{point}");
        if state.as_deref() == Some("denied") {
            assert!(audit.body.contains("orphaned"), "{point}: the page says why");
        }
    }
}
