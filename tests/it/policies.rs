//! An edit of the rules is seen before it is saved, and obeyed by the next call; tests, tiers, imports and rollbacks.

use crate::counting::{ALLOWED, Counting, states};
use crate::harness::page::{Browser, Form, Page};
use crate::harness::server::Server;
use reqwest::StatusCode;

async fn form(browser: &Browser, path: &str, css: &str) -> Form {
    browser.get(path).await.expect_status(StatusCode::OK).form(css)
}

/// Adds a condition to the form of a rule.
async fn with_condition(browser: &Browser, form: Form, argument: &str, op: &str, value: &str) -> Form {
    let page = browser.submit(&form.choose("add", "condition")).await.expect_status(StatusCode::OK);
    page.form("#rule-form").set("argument", argument).set("op", op).set("value", value)
}

/// The number of recorded calls that the panel says would change.
fn changed(page: &Page) -> String {
    page.text("#backtest #changed")
}

async fn runs(house: &Counting, text: &str, state: &str) {
    let page = house.converse(text).await;
    house.becomes(&page.path, state).await;
}

/// The page test of the whole: a rule is edited, the backtest changes with it, it is saved, and the next call obeys.
#[tokio::test]
async fn an_edit_is_seen_before_it_is_saved_and_the_next_call_obeys_it() {
    let house = Counting::start(ALLOWED, |setup| setup).await;
    let browser = &house.browser;
    runs(&house, "add one", "completed").await;
    runs(&house, "add two", "completed").await;

    let edit = form(browser, "/policies/counted", "#rule-form").await;
    let nothing = browser.submit(&edit.clone().choose("preview", "1")).await.expect_status(StatusCode::OK);
    assert_eq!(changed(&nothing), "0", "an edit that changes nothing");
    assert!(nothing.has("#no-looser"));

    let edit = with_condition(browser, edit, "line", "equals", "one").await;
    // As htmx asks while somebody types: the panel alone comes back.
    let panel = browser.htmx("aside#backtest").submit(&edit.clone().choose("preview", "1")).await;
    assert!(!panel.has("#rule-form") && panel.has("#backtest"));
    assert_eq!(changed(&panel), "1");
    let neither = edit.clone().set("value", "three").choose("preview", "1");
    let panel = browser.htmx("aside#backtest").submit(&neither).await;
    assert_eq!(changed(&panel), "2", "the panel follows the edit");
    let shifts = panel.text("#shifts");
    assert!(shifts.contains("Allow") && shifts.contains("Deny"), "{shifts}");
    let why = panel.texts("#examples li").join("\n");
    assert!(why.contains("`line equals \"three\"` is not satisfied"), "{why}");
    // Half-typed: the panel says so, and stays in its place.
    let broken =
        browser.htmx("aside#backtest").submit(&edit.clone().set("id", "").choose("preview", "1")).await;
    assert!(broken.has("#backtest .error-text"));

    // Without a script the same stands in the page, and nothing was saved by any of it.
    let page = browser.submit(&edit.clone().choose("preview", "1")).await;
    assert_eq!((changed(&page).as_str(), page.form("#rule-form").value("value")), ("1", Some("one")));
    runs(&house, "add two", "completed").await;
    let saved = browser.submit(&page.form("#rule-form")).await.expect_status(StatusCode::OK);
    assert_eq!(saved.path, "/policies");
    runs(&house, "add two", "denied").await;
    runs(&house, "add one", "completed").await;
    assert_eq!((house.effects("one"), house.effects("two")), (2, 2));

    // Back again is a loosening, and is called so: beside the edit, on the list and in the history.
    let wide = form(browser, "/policies/counted", "#rule-form").await;
    let wide = browser.submit(&wide.choose("remove", "0")).await.form("#rule-form");
    let page = browser.submit(&wide.clone().choose("preview", "1")).await;
    assert_eq!(changed(&page), "3", "each call for two, as the rules of now would have decided it");
    assert!(page.has("#loosens"));
    let list = browser.submit(&page.form("#rule-form")).await;
    assert!(list.has("#loosened"));
    let history = browser.get("/policies/history").await;
    assert!(
        history.text("#revision-3").contains("Loosens") && !history.text("#revision-2").contains("Loosens")
    );
    assert!(browser.get("/policies/history/3").await.has("#loosens"));
    runs(&house, "add two", "completed").await;
}

#[tokio::test]
async fn a_failing_test_stops_a_save_until_an_admin_insists_and_that_is_recorded() {
    let server = Server::start().await;
    let browser = Browser::signed_in(&server).await;
    let switch = form(&browser, "/policies", "#rule-writes-stay-inside form").await;
    let page = browser.submit(&switch).await.expect_status(StatusCode::UNPROCESSABLE_ENTITY);
    assert!(
        page.text(".notice").contains("2 tests that stand with the rules fail"),
        "{}",
        page.text(".notice")
    );
    assert!(browser.get("/policies").await.text(".page-head__sub").contains("v1"), "nothing was changed");
    browser.submit(&page.form("#insist")).await.expect_status(StatusCode::OK);

    let history = browser.get("/policies/history/2").await;
    let overridden = history.text("#overridden");
    assert!(overridden.contains("a write without a path is denied, not held"), "{overridden}");
    let list = browser.get("/policies").await;
    assert!(list.text("#tests").contains("2 of 4 fail"), "{}", list.text("#tests"));

    // The same of an edit: the form offers to insist once it was refused, and not before.
    let edit = form(&browser, "/policies/conversation-budget", "#rule-form").await;
    assert!(!edit.names().contains(&"despite_tests"));
    let page = browser.submit(&edit.set("tokens", "20,000,000")).await;
    let page = page.expect_status(StatusCode::UNPROCESSABLE_ENTITY);
    assert!(page.text("#failing").contains("it ends even reading"));
    let insisted = page.form("#rule-form").choose("despite_tests", "yes");
    let saved = browser.submit(&insisted).await.expect_status(StatusCode::OK);
    assert_eq!(saved.path, "/policies");
    assert!(browser.get("/policies/history").await.text("#revision-3").contains("Tests overridden"));
}

#[tokio::test]
async fn an_answer_of_the_box_is_kept_as_a_test_and_guards_the_next_save() {
    let server = Server::start().await;
    let browser = Browser::signed_in(&server).await;
    let ask = form(&browser, "/policies", "#try").await;
    let ask = ask.set("tool", "sandbox-files/move_file").set("arguments", "{\"from\":\"a\"}");
    let keep = browser.submit(&ask).await.expect_status(StatusCode::OK).form("#keep");
    let list =
        browser.submit(&keep.set("name", "moving <b>stays</b> denied")).await.expect_status(StatusCode::OK);
    assert!(list.text("#tests").contains("moving <b>stays</b> denied"), "{}", list.text("#tests"));
    assert!(list.text("#tests").contains("All 5 pass"));

    let allow = form(&browser, "/policies/new?kind=allow_tool", "#rule-form").await;
    let allow = allow.set("id", "moves").set("server", "sandbox-files").set("tool", "move_file");
    let refused = browser.submit(&allow).await.expect_status(StatusCode::UNPROCESSABLE_ENTITY);
    assert!(refused.text("#failing").contains("expected deny, came allow"), "{}", refused.text("#failing"));

    let remove = form(&browser, "/policies", "#tests li:last-child form").await;
    assert_eq!(remove.value("name"), Some("moving <b>stays</b> denied"));
    browser.submit(&remove).await.expect_status(StatusCode::OK);
    let again = form(&browser, "/policies/new?kind=allow_tool", "#rule-form").await;
    let again = again.set("id", "moves").set("server", "sandbox-files").set("tool", "move_file");
    assert_eq!(browser.submit(&again).await.path, "/policies");
}

#[tokio::test]
async fn a_rollback_shows_what_it_does_and_is_a_new_revision() {
    let server = Server::start().await;
    let browser = Browser::signed_in(&server).await;
    browser.submit(&form(&browser, "/policies", "#rule-deletes-are-blocked form").await).await;
    assert!(browser.get("/policies/history/1").await.body.contains("Roll back to this revision"));
    let page = browser.get("/policies/history/1/restore").await.expect_status(StatusCode::OK);
    assert!(page.has("#backtest") && !page.has("#loosens"), "going back to the block is no loosening");
    let done = browser.submit(&page.form("#restore").set("reason", "a mistake")).await;
    assert_eq!(done.path, "/policies/history");
    let newest = done.text("#revision-3");
    assert!(newest.contains("back to revision 1: a mistake") && newest.contains("Current"), "{newest}");
    let rule = browser.get("/policies/deletes-are-blocked").await;
    assert!(rule.texts("#history li").len() >= 3, "{:?}", rule.texts("#history li"));
    // Somebody else was faster: nothing is overwritten.
    let late = browser.submit(&page.form("#restore")).await.expect_status(StatusCode::CONFLICT);
    assert!(late.text(".notice[role=alert]").contains("revision 3"), "{}", late.text(".notice[role=alert]"));
    // One version of one rule can be taken back too: it is a draft until it is saved.
    let draft = browser.get("/policies/deletes-are-blocked?from=2").await.expect_status(StatusCode::OK);
    assert!(draft.has("#loosens"), "the earlier version was off");
    assert_eq!(draft.form("#rule-form").value("reason"), Some("back to revision 2"));
}

#[tokio::test]
async fn tiers_and_marks_are_edited_as_a_form_and_judged_at_once() {
    let server = Server::start().await;
    let browser = Browser::signed_in(&server).await;
    let tier_of = async |tool: &str| {
        let ask = form(&browser, "/policies", "#try").await.set("tool", tool);
        browser.submit(&ask).await.text("#try-result .dim").to_lowercase()
    };
    assert!(tier_of("elsewhere/anything").await.contains("tier high"));
    let page = browser.get("/policies/tiers").await.expect_status(StatusCode::OK);
    let before = page.attributes("input[name=server]", "value");
    let page = browser.submit(&page.form("#tiers").choose("add", "line")).await;
    let (count, form_now) = (before.len(), page.form("#tiers"));
    assert_eq!(page.attributes("input[name=server]", "value").len(), count + 1);
    assert!(tier_of("elsewhere/anything").await.contains("tier high"), "adding a line saves nothing");
    // An empty line is no line: what is wrong is said, and the input is still there.
    let refused = browser.submit(&form_now).await.expect_status(StatusCode::UNPROCESSABLE_ENTITY);
    assert!(refused.text(".notice").contains("tiers["), "{}", refused.text(".notice"));

    let import = form(&browser, "/policies/import", "#import").await;
    let lines = "version: 1\ntiers:\n  - { server: elsewhere, tool: [anything, other*], tier: safe, read_only: true, \
                 marks: [sensitive_data] }\nrules:\n  - { id: safe, kind: allow_tool, match: { tier: safe } }\n";
    browser.submit(&import.set("document", lines)).await.expect_status(StatusCode::OK);
    assert!(tier_of("elsewhere/other").await.contains("tier safe"));
    let page = browser.get("/policies/tiers").await;
    let line = page.form("#tiers");
    assert_eq!((line.value("server"), line.value("tool")), (Some("elsewhere"), Some("anything, other*")));
    // Raised to high, the rule about safe tools lets go of it; the panel says so before.
    let raised = browser.submit(&line.set("tier", "high").choose("preview", "1")).await;
    assert!(raised.has("#no-looser"));
    let saved = browser.submit(&raised.form("#tiers")).await.expect_status(StatusCode::OK);
    assert_eq!(saved.path, "/policies/tiers");
    assert!(tier_of("elsewhere/other").await.contains("tier high"));
    let yaml = browser.get("/policies/export").await.body;
    for kept in ["read_only: true", "sensitive_data", "other*", "tier: high"] {
        assert!(yaml.contains(kept), "{kept} in\n{yaml}");
    }
    let back = browser.submit(&saved.form("#tiers").set("tier", "safe").choose("preview", "1")).await;
    assert!(back.has("#loosens"));
}

#[tokio::test]
async fn f31_an_import_is_tried_first_and_a_refused_one_leaves_the_rules_and_a_banner() {
    let server = Server::start().await;
    let browser = Browser::signed_in(&server).await;
    let import = form(&browser, "/policies/import", "#import").await;
    let open = "version: 1\nrules:\n  - { id: all, kind: allow_tool }\n";
    let tried = browser.submit(&import.clone().set("document", open).choose("preview", "1")).await;
    assert!(tried.has("#loosens") && tried.text("#backtest").contains("allows every tool"));
    assert!(browser.get("/policies").await.text(".page-head__sub").contains("v1"));

    let broken = import.clone().set("document", "version: 1\nrules:\n  - { id: all, kind: Block }\n");
    let refused = browser.submit(&broken).await.expect_status(StatusCode::UNPROCESSABLE_ENTITY);
    let problem = refused.text("#problems");
    assert!(
        problem.contains("line 3, column 22") && problem.contains("did you mean `block_tool`?"),
        "{problem}"
    );
    let page = browser.get("/policies").await;
    let banner = page.text("#refused");
    assert!(banner.contains("revision 1 stays in force") && banner.contains("block_tool"), "{banner}");
    assert!(page.text(".page-head__sub").contains("v1"));
    // The banner stands until rules are made again.
    browser.submit(&import.set("document", open)).await.expect_status(StatusCode::OK);
    assert!(!browser.get("/policies").await.has("#refused"));
}

#[tokio::test]
async fn what_a_rule_in_shadow_mode_would_have_done_is_counted() {
    let rules = format!(
        "{ALLOWED}  - {{ id: later, kind: block_tool, mode: shadow, match: {{ server: counting }} }}\n"
    );
    let house = Counting::start(&rules, |setup| setup).await;
    runs(&house, "add one", "completed").await;
    runs(&house, "add two", "completed").await;
    let page = house.browser.get("/policies").await;
    let (counted, later) = (page.text("#rule-counted"), page.text("#rule-later"));
    assert!(later.contains("Shadow") && later.contains('2') && later.contains("would have"), "{later}");
    assert!(counted.contains('2') && !counted.contains("would have"), "{counted}");
}

/// The kind: rules that hide a tool from lists and leave it callable; names that find a way around. By every name that a
/// model may make up, before and after, with rules about other tools, with an empty list of rules: nothing runs.
#[tokio::test]
async fn f22_what_no_rule_allows_runs_under_no_name() {
    let blocked = "version: 1\nrules:\n  - { id: stop, kind: block_tool, match: { server: counting } }\n  \
                   - { id: all, kind: allow_tool }\n";
    let house = Counting::start(blocked, |setup| setup).await;
    let names =
        ["add", "counting/add", "counting__add", "counting.add", "COUNTING__ADD", "counting__nowhere", "no"];
    let mut answers = Vec::new();
    for rules in [blocked, "version: 1\nrules: []\n"] {
        let import = form(&house.browser, "/policies/import", "#import").await;
        house.browser.submit(&import.set("document", rules)).await.expect_status(StatusCode::OK);
        for name in names {
            let page =
                house.converse(&format!(r#"call {{"name": "{name}", "args": {{"line": "called"}}}}"#)).await;
            let page = house.becomes(&page.path, "denied").await;
            answers.push(states(&page).len());
        }
        // By its declared name too.
        runs(&house, "add one", "denied").await;
    }
    assert_eq!(house.all_effects(), 0);
    assert!(answers.iter().all(|calls| *calls == 1), "one call, one row: {answers:?}");
    // The box runs nothing either.
    let ask = form(&house.browser, "/policies", "#try").await.set("tool", "counting/add");
    let answer = house.browser.submit(&ask.set("arguments", "{\"line\":\"x\"}")).await;
    assert!(answer.text("#try-result").contains("Deny"), "{}", answer.text("#try-result"));
    assert_eq!(house.all_effects(), 0);
    let trail = house.browser.get("/audit").await;
    assert_eq!(trail.attributes("#calls tr[data-state]", "data-state"), vec!["denied"; 16]);
}
