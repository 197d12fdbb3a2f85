//! The process is killed at every step of a call and started again: nothing ran twice, nothing ran unapproved, every
//! intent has an outcome, and the pages say so.

use crate::counting::{ALLOWED, Counting, HELD, IDLE, approved, states};
use crate::harness::faults::POINTS;
use crate::harness::page::Page;
use crate::harness::server::{Setup, command};

/// Steps that come before anybody can be asked.
const BEFORE_ASKING: &[&str] = &["proposed", "judged", "hold_written"];
/// Steps that only a held call has.
const HELD_ONLY: &[&str] = &["hold_written", "approval_seen", "approved_judged"];

/// What is found after the restart.
struct Found {
    /// How often the tool had its effect.
    ran: usize,
    /// The state in the trail, and the events of the call; none if the call was not recorded.
    call: Option<(String, Vec<String>)>,
    /// The call's page.
    story: Option<Page>,
    chat: Page,
    overview: Page,
}

async fn killed_and_started_again(rules: &str, point: &'static str) -> Found {
    let house = Counting::start(rules, |setup| setup.crash_at(point)).await;
    let address = house.converse("hello").await.path;
    let page = house.browser.until(&address, |page| page.has(IDLE)).await;
    // The process may die before it has answered this, or the click below.
    house.browser.try_submit(&page.form("form.composer").set("text", "add once")).await;
    if rules == HELD && !BEFORE_ASKING.contains(&point) {
        let form = approved(&house.held().await);
        house.browser.try_submit(&form).await;
    }
    let house = house.again(Setup::new()).await;
    let inbox = house.browser.get("/approvals").await;
    assert!(!inbox.has("form[action$='/approve']"), "{point}: nothing is left to approve");
    // Time for anything that would run by itself: a whole turn of another conversation.
    let other = house.converse("hello").await;
    let answered =
        |page: &Page| page.texts("#transcript .msg").iter().any(|text| text.contains("what came of it"));
    house.browser.until(&other.path, answered).await;
    let audit = house.browser.get("/audit").await;
    let mut listed = audit.attributes("#calls [data-call]", "data-state");
    assert!(listed.len() <= 1, "{point}: {listed:?}");
    let story = match audit.attributes("#calls th a", "href").first() {
        Some(address) => Some(house.browser.get(address).await),
        None => None,
    };
    let call = listed.pop().zip(story.as_ref().map(|story| story.texts(".timeline__name")));
    let verified = command(house.server.shared_folder(), &["audit", "verify"]).await;
    assert_eq!(verified.code(), Some(0), "{point}: {verified:?}");
    Found {
        ran: house.effects("once"),
        call,
        story,
        chat: house.browser.get(&address).await,
        overview: house.browser.get("/").await,
    }
}

/// What holds at every step, whatever the call.
fn assert_honest(point: &str, found: &Found, expected: (usize, Option<&str>)) {
    let state = found.call.as_ref().map(|(state, _)| state.as_str());
    assert_eq!((found.ran, state), expected, "{point}");
    assert!(found.chat.text("#transcript").contains("add once"), "{point}: the message stays");
    let Some((state, events)) = &found.call else { return };
    let count = |name: &str| events.iter().filter(|event| *event == name).count();
    let outcomes = ["execution_completed", "execution_failed", "execution_unknown"].map(count);
    assert_eq!(count("execution_started"), outcomes.iter().sum::<usize>(), "{point}: {events:?}");
    assert_eq!(states(&found.chat), [state.as_str()], "{point}: the chat tells the same");
    // An unknown outcome is shown on the first page, and asked for on the call's.
    let unknown = state == "unknown";
    assert_eq!(found.overview.has("#unknown"), unknown, "{point}");
    assert_eq!(found.story.as_ref().is_some_and(|story| story.has("#resolve")), unknown, "{point}");
}

#[tokio::test]
async fn an_allowed_call_survives_a_kill_at_every_step_honestly() {
    for point in POINTS.iter().copied().filter(|point| !HELD_ONLY.contains(point)) {
        let found = killed_and_started_again(ALLOWED, point).await;
        let expected = match point {
            "proposed" | "judged" => (0, None),
            "intent_written" => (0, Some("unknown")),
            "effect_done" => (1, Some("unknown")),
            "outcome_written" => (1, Some("completed")),
            other => panic!("the test does not know the step {other}"),
        };
        assert_honest(point, &found, expected);
    }
}

#[tokio::test]
async fn a_held_call_survives_a_kill_at_every_step_honestly() {
    for point in POINTS.iter().copied() {
        let found = killed_and_started_again(HELD, point).await;
        let expected = match point {
            "proposed" | "judged" => (0, None),
            "hold_written" | "approval_seen" | "approved_judged" => (0, Some("denied")),
            "intent_written" => (0, Some("unknown")),
            "effect_done" => (1, Some("unknown")),
            "outcome_written" => (1, Some("completed")),
            other => panic!("the test does not know the step {other}"),
        };
        assert_honest(point, &found, expected);
        let Some((state, events)) = &found.call else { continue };
        if state == "denied" {
            let story = found.story.as_ref().expect("the call has a page");
            assert!(story.body.contains("orphaned"), "{point}: the page says why");
        } else {
            let place = |name: &str| events.iter().position(|event| event == name);
            assert!(
                place("approval_decided").is_some() && place("approval_decided") < place("execution_started"),
                "{point}: it ran without a yes: {events:?}"
            );
        }
    }
}
