//! Rules, trail, tools, overview and settings, as people use them: by the forms and links that the pages offer.

use crate::harness::page::{Browser, Form, Page};
use crate::harness::server::{Server, Setup};
use crate::pages::begin;
use reqwest::{Method, StatusCode};

const HOSTILE: &str = "<script>alert(1)</script>\" onload=\"x\" \u{202E}txt";

/// What the box beside the rules says: the decision, and the rule that is named first.
async fn decides(browser: &Browser, tool: &str, arguments: &str, tokens: &str) -> (String, Option<String>) {
    let page = browser.get("/policies").await.expect_status(StatusCode::OK);
    let form = page.form("#try").set("tool", tool).set("arguments", arguments).set("tokens", tokens);
    let page = browser.submit(&form).await.expect_status(StatusCode::OK);
    let decision = page.texts("#try-result .badge").remove(0);
    let first = page.texts("#try-result .matches li:not(.is-miss) a").into_iter().next();
    (decision, first)
}

/// The empty form for a rule of a kind.
async fn new_rule(browser: &Browser, kind: &str) -> Form {
    let page = browser.get(&format!("/policies/new?kind={kind}")).await.expect_status(StatusCode::OK);
    page.form("#rule-form")
}

/// Presses the button for one more condition and fills it in.
async fn with_condition(browser: &Browser, form: Form, argument: &str, op: &str, value: &str) -> Form {
    let page = browser.submit(&form.choose("add", "condition")).await.expect_status(StatusCode::OK);
    page.form("#rule-form").set("argument", argument).set("op", op).set("value", value)
}

/// Saves, and expects to be led back to the list.
async fn save(browser: &Browser, form: &Form) -> Page {
    let page = browser.submit(form).await.expect_status(StatusCode::OK);
    assert_eq!(page.path, "/policies", "saved:\n{}", page.body);
    page
}

async fn edit(browser: &Browser, id: &str) -> Form {
    browser.get(&format!("/policies/{id}")).await.expect_status(StatusCode::OK).form("#rule-form")
}

async fn switch(browser: &Browser, id: &str) {
    let page = browser.get("/policies").await;
    save(browser, &page.form(&format!("form[action='/policies/{id}/enabled']"))).await;
}

/// A rule of one kind, and what becomes of a call with and without it.
struct Case {
    kind: &'static str,
    fields: &'static [(&'static str, &'static str)],
    condition: Option<(&'static str, &'static str, &'static str)>,
    tool: &'static str,
    arguments: &'static str,
    tokens: &'static str,
    without: &'static str,
    with: &'static str,
}

#[tokio::test]
async fn a_rule_of_each_kind_is_made_changed_switched_and_removed_and_counts_at_once() {
    let list = "sandbox-files/list_files";
    let plain = Case {
        kind: "",
        fields: &[],
        condition: None,
        tool: list,
        arguments: "{}",
        tokens: "",
        without: "Allow",
        with: "Deny",
    };
    let cases = [
        Case { kind: "allow_tool", tool: "sandbox-files/move_file", without: "Deny", with: "Allow", ..plain },
        Case {
            kind: "block_tool",
            condition: Some(("path", "equals", "a")),
            arguments: r#"{"path":"a"}"#,
            ..plain
        },
        Case {
            kind: "require_approval",
            fields: &[("timeout", "60s"), ("approver", "admin"), ("count", "2")],
            with: "Require approval",
            ..plain
        },
        Case {
            kind: "input_validation",
            condition: Some(("path", "path_within", "docs")),
            arguments: r#"{"path":"src/x"}"#,
            ..plain
        },
        Case { kind: "token_budget", fields: &[("tokens", "1,000")], tokens: "1000", ..plain },
        Case { kind: "rate_limit", fields: &[("calls", "0"), ("window", "1h")], ..plain },
    ];
    let server = Server::start().await;
    let browser = Browser::signed_in(&server).await;
    for case in cases {
        let id = format!("test-{}", case.kind.replace('_', "-"));
        let now = async || decides(&browser, case.tool, case.arguments, case.tokens).await;
        let with = (case.with.to_owned(), Some(id.clone()));
        assert_eq!(now().await.0, case.without, "{} before", case.kind);

        let (server_name, tool) = case.tool.split_once('/').unwrap();
        let mut form =
            new_rule(&browser, case.kind).await.set("id", &id).set("server", server_name).set("tool", tool);
        form = form.set("reason", "for a test");
        for (name, value) in case.fields {
            form = form.set(name, value);
        }
        if let Some((argument, op, value)) = case.condition {
            form = with_condition(&browser, form, argument, op, value).await;
        }
        let page = save(&browser, &form).await;
        assert!(page.has(&format!("#rule-{id}")), "{} is listed", case.kind);
        assert_eq!(now().await, with, "{} made", case.kind);

        // Changed: in shadow it decides nothing.
        save(&browser, &edit(&browser, &id).await.choose("mode", "shadow")).await;
        assert_eq!(now().await.0, case.without, "{} in shadow", case.kind);
        save(&browser, &edit(&browser, &id).await.choose("mode", "enforce")).await;
        assert_eq!(now().await, with, "{} enforced", case.kind);

        switch(&browser, &id).await;
        assert_eq!(now().await.0, case.without, "{} switched off", case.kind);
        switch(&browser, &id).await;
        assert_eq!(now().await, with, "{} switched on", case.kind);

        let page = browser.get(&format!("/policies/{id}/delete")).await.expect_status(StatusCode::OK);
        let page = save(&browser, &page.form("form[action$='/delete']")).await;
        assert!(!page.has(&format!("#rule-{id}")), "{} is gone", case.kind);
        assert_eq!(now().await.0, case.without, "{} removed", case.kind);
        browser.get(&format!("/policies/{id}")).await.expect_status(StatusCode::NOT_FOUND);
    }
    // Six changes of six rules after the seed, each with its author and what was done.
    let history = browser.get("/policies/history").await.expect_status(StatusCode::OK);
    assert_eq!(history.texts("ol.rows > li").len(), 20, "a page of them");
    let newest = history.text("#revision-37");
    assert!(newest.contains("by admin") && newest.contains("rule `test-rate-limit` removed"), "{newest}");
    let page = browser.get("/policies/history/2").await.expect_status(StatusCode::OK);
    assert!(page.texts(".diff ins").iter().any(|line| line.contains("test-allow-tool")), "{}", page.body);
    assert!(page.body.contains("for a test"), "{}", page.body);
}

#[tokio::test]
async fn what_cannot_be_saved_comes_back_as_it_was_typed() {
    let server = Server::start().await;
    let browser = Browser::signed_in(&server).await;
    let form = new_rule(&browser, "rate_limit").await;
    let form =
        form.set("id", "Bad Id").set("description", HOSTILE).set("calls", "many").set("window", "soon");
    let form = with_condition(&browser, form, "amount", "range", "5").await;
    let page = browser.submit(&form).await.expect_status(StatusCode::UNPROCESSABLE_ENTITY);
    let back = page.form("#rule-form");
    for (name, value) in [
        ("id", "Bad Id"),
        ("description", HOSTILE),
        ("calls", "many"),
        ("window", "soon"),
        ("argument", "amount"),
        ("op", "range"),
        ("value", "5"),
    ] {
        assert_eq!(back.value(name), Some(value), "{name}");
    }
    assert_eq!(page.attributes("[aria-invalid=true]", "name"), ["id", "value", "calls", "window"]);
    for described in page.attributes("[aria-invalid=true]", "aria-describedby") {
        assert!(page.has(&format!("[id='{described}']")), "{described} explains the field");
    }
    assert!(!page.body.contains("<script>alert"), "{}", page.body);

    // What only the whole document tells is told at its field, too.
    let form = new_rule(&browser, "allow_tool").await.set("id", "reads-are-free");
    let page = browser.submit(&form).await.expect_status(StatusCode::UNPROCESSABLE_ENTITY);
    assert_eq!(page.attributes("[aria-invalid=true]", "name"), ["id"]);
    assert_eq!(browser.get("/policies/history").await.texts("ol.rows > li").len(), 1, "nothing was saved");

    // The box says what it cannot read, and keeps it.
    let form = browser
        .get("/policies")
        .await
        .form("#try")
        .set("tool", "home/x")
        .set("arguments", "{\"a\":1,\"a\":2}");
    let page = browser.submit(&form).await.expect_status(StatusCode::UNPROCESSABLE_ENTITY);
    assert!(page.text("#try-result").contains("occurs twice"), "{}", page.text("#try-result"));
    assert_eq!(page.form("#try").value("arguments"), Some("{\"a\":1,\"a\":2}"));
}

#[tokio::test]
async fn an_edit_of_rules_that_changed_meanwhile_is_refused_and_kept() {
    let server = Server::start().await;
    let browser = Browser::signed_in(&server).await;
    let stale = edit(&browser, "reads-are-free").await.set("description", "Mine");
    let removal = browser.get("/policies/docs-are-free/delete").await.form("form[action$='/delete']");
    let off = browser.get("/policies").await.form("form[action='/policies/docs-are-free/enabled']");
    switch(&browser, "deletes-are-held").await;

    let page = browser.submit(&stale).await.expect_status(StatusCode::CONFLICT);
    assert!(page.text("#stale").contains("revision 2"), "{}", page.text("#stale"));
    let again = page.form("#rule-form");
    assert_eq!(again.value("description"), Some("Mine"));
    browser.submit(&removal).await.expect_status(StatusCode::CONFLICT);
    browser.submit(&off).await.expect_status(StatusCode::CONFLICT);
    let page = browser.get("/policies").await;
    assert!(page.has("#rule-docs-are-free:not(.is-off)"), "neither removed nor switched off");
    assert!(page.has("#rule-deletes-are-held.is-off"), "the change that was made stands");
    // Looked at again, and saved once more.
    save(&browser, &again).await;
    assert!(browser.get("/policies").await.text("#rule-reads-are-free th").starts_with("Mine"));
}

#[tokio::test]
async fn a_document_is_imported_whole_or_not_at_all() {
    let setup =
        Setup::new().file("policy_rules.yaml", "version: 1\nrules:\n  - id: x\n    kind: alow_tool\n");
    let server = setup.start().await;
    let browser = Browser::signed_in(&server).await;
    let page = browser.get("/policies").await.expect_status(StatusCode::OK);
    assert!(page.text("#no-policy").contains("line 4"), "{}", page.text("#no-policy"));
    browser.get("/policies/export").await.expect_status(StatusCode::CONFLICT);
    for path in ["/", "/tools", "/audit", "/settings", "/policies/history"] {
        browser.get(path).await.expect_status(StatusCode::OK);
    }

    let wrong =
        "version: 1\nrules:\n  - id: y\n    kind: block_tool\n    limit: { tokens: 1, per: caller }\n";
    let form = browser.get("/policies/import").await.form("#import").set("document", wrong);
    let page = browser.submit(&form).await.expect_status(StatusCode::UNPROCESSABLE_ENTITY);
    assert!(page.text("#problems").contains("line 5"), "{}", page.text("#problems"));
    assert_eq!(page.form("#import").value("document"), Some(wrong));
    assert!(browser.get("/policies").await.has("#no-policy"));

    let right =
        "version: 1\nrules:\n  - id: all-is-well\n    kind: allow_tool\n    description: \"<b>x</b>\"\n";
    let page = save(&browser, &page.form("#import").set("document", right)).await;
    assert!(!page.has("#no-policy") && page.has("#rule-all-is-well"), "{}", page.body);
    assert!(page.text("#rule-all-is-well th").starts_with("<b>x</b>"));
    assert_eq!(decides(&browser, "any/thing", "", "").await.0, "Allow");
    let export = browser.get("/policies/export").await.expect_status(StatusCode::OK);
    assert!(export.body.contains("all-is-well"), "{}", export.body);
    assert_eq!(export.header("content-disposition"), Some("attachment; filename=\"policy-1.yaml\""));
}

#[tokio::test]
async fn calls_are_found_and_each_tells_its_story() {
    let server = Server::start().await;
    let browser = Browser::signed_in(&server).await;
    begin(&browser, "list the files").await;
    begin(&browser, "delete <b>notes</b>.txt").await;
    let page = browser.until("/audit?state=denied", |page| page.has("#calls tbody th a.plain")).await;
    assert_eq!(page.texts("#calls tbody th").len(), 1);
    assert!(page.text("#calls tbody").contains("deletes-are-blocked"), "{}", page.text("#calls tbody"));
    let link = page.attributes("#calls tbody th a.plain", "href").remove(0);
    let story = browser.get(&link).await.expect_status(StatusCode::OK);
    assert_eq!(story.texts(".timeline__name"), ["tool_requested", "policy_decided"]);
    assert!(!story.body.contains("<b>notes"), "{}", story.body);
    assert!(
        story.texts(".matches li").iter().any(|line| line.contains("outranked")),
        "{:?}",
        story.texts(".matches li")
    );

    let done = browser
        .until("/audit?tool=list_files&state=completed", |page| page.has("#calls tbody th a.plain"))
        .await;
    let link = done.attributes("#calls tbody th a.plain", "href").remove(0);
    let story = browser.get(&link).await;
    let names = ["tool_requested", "policy_decided", "execution_started", "execution_completed"];
    assert_eq!(story.texts(".timeline__name"), names);
    assert!(story.has("#result"), "{}", story.body);
    assert!(!story.has("#resolve"), "its outcome is known");

    // Filters are in the address; nothing fits what is not there.
    for (query, found) in [
        ("q=BLOCKED", 1),
        ("q=list", 1),
        ("server=home", 0),
        ("until=2001-01-01T00:00", 0),
        ("", 2),
        ("decision=deny", 1),
        ("decision=allow&time=1h", 1),
        ("code=rule", 1),
        ("q=reads-are-free", 1),
        ("tool=list_files&time=", 1),
    ] {
        let page = browser.get(&format!("/audit?{query}")).await.expect_status(StatusCode::OK);
        assert_eq!(page.texts("#calls tbody th a.plain").len(), found, "{query}");
    }
    for bad in
        ["state=maybe", "decision=maybe", "code=maybe", "time=ages", "from=yesterday", "caller=%20x%20y"]
    {
        browser.get(&format!("/audit?{bad}")).await.expect_status(StatusCode::BAD_REQUEST);
    }
    let hostile =
        browser.get("/audit?q=%3Cscript%3Ealert(1)%3C/script%3E").await.expect_status(StatusCode::OK);
    assert!(!hostile.body.contains("<script>alert"), "{}", hostile.body);
    // A call's own id leads to it; the trail is checked in the background.
    let id = link.rsplit('/').next().unwrap();
    assert_eq!(browser.get(&format!("/audit?q={id}")).await.path, link);
    browser.submit(&page_form(&browser, "/audit", "#verify").await).await.expect_status(StatusCode::OK);
    let page = browser.until("/audit", |page| page.text("#chain").starts_with("Verified up to")).await;
    assert!(!page.has("#chain[hx-get]"), "a check that has ended is not asked for again");
    let chain = browser.htmx("chain").request(Method::POST, "/audit/verify", &[]).await;
    assert!(chain.expect_status(StatusCode::OK).has("#chain"), "a fragment for the open page");
    for missing in ["/audit/calls/x", "/audit/calls/01a22eb2-d3eb-74c4-ad6b-9a3850c8d4e1", "/tools?server=x"]
    {
        browser.get(missing).await.expect_status(StatusCode::NOT_FOUND);
    }
    // Other events, and the numbers of the day.
    let page = browser.get("/audit/events?kind=signed_in").await.expect_status(StatusCode::OK);
    assert_eq!(page.texts("#events-list tbody tr").len(), 1);
    let page = browser.get("/").await.expect_status(StatusCode::OK);
    assert_eq!(page.texts(".stat__value"), ["2", "1 50.0 %", "0 0.0 %", "1 50.0 %"]);
    assert!(page.has("#per-slot") && page.has("#gate-times tbody tr"), "charts have tables: {}", page.body);
    assert!(page.text("#c1-t").starts_with("2 calls in the last 24 hours: 1 allowed, 0 held, 1 denied"));
    for range in ["1h", "7d", "30d"] {
        let page = browser.get(&format!("/?range={range}")).await.expect_status(StatusCode::OK);
        assert!(page.texts(".stat__value")[0] == "2", "{range}");
    }
    browser.get("/?range=ages").await.expect_status(StatusCode::BAD_REQUEST);
    assert!(page.text(".bars").contains("delete_file"), "{}", page.text(".bars"));
}

async fn page_form(browser: &Browser, path: &str, css: &str) -> Form {
    browser.get(path).await.expect_status(StatusCode::OK).form(css)
}

#[tokio::test]
async fn an_unknown_outcome_is_settled_once() {
    let server = Setup::new().crash_at("effect_done").start().await;
    let browser = Browser::signed_in(&server).await;
    let form = browser.get("/agent").await.form("form.composer").set("text", "list the files");
    browser.try_submit(&form).await;
    let folder = server.ended().await.folder;
    let server = Setup::new().start_in(folder).await;
    let browser = Browser::signed_in(&server).await;
    let page = browser.get("/").await.expect_status(StatusCode::OK);
    assert!(page.text("#unknown h3").starts_with("1 call"), "{}", page.body);
    let link = page.attributes("#unknown ul a", "href").remove(0);
    let story = browser.get(&link).await.expect_status(StatusCode::OK);
    let form = story.form("#resolve").choose("happened", "yes").set("note", HOSTILE);
    let story = browser.submit(&form).await.expect_status(StatusCode::OK);
    assert!(story.text("#resolution").contains("admin said"), "{}", story.text("#resolution"));
    assert!(!story.has("#resolve") && !story.body.contains("<script>alert"), "{}", story.body);
    assert_eq!(story.texts(".timeline__name").last().map(String::as_str), Some("execution_resolved"));
    browser.submit(&form).await.expect_status(StatusCode::CONFLICT);
    assert!(!browser.get("/").await.has("#unknown"));
}

#[tokio::test]
async fn tools_say_what_the_rules_make_of_them() {
    let server = Server::start().await;
    let browser = Browser::signed_in(&server).await;
    let page = browser.until("/tools?server=sandbox-files", |page| page.has("#catalogue tbody tr")).await;
    let rows = page.texts("#catalogue tbody tr");
    for (tool, says) in [
        ("delete_file", "Deny by deletes-are-blocked"),
        ("list_files", "Allow by reads-are-free"),
        ("move_file", "Deny no rule allows it"),
        ("write_file", "Require approval by writes-are-held arguments or time decide: writes-stay-inside"),
    ] {
        let row =
            rows.iter().find(|row| row.contains(tool)).unwrap_or_else(|| panic!("no {tool} in {rows:?}"));
        assert!(row.contains(says), "{tool}: {row}");
    }
}

#[tokio::test]
async fn settings_show_no_secret_and_end_every_session() {
    let secret = "a-very-secret-key-0123456789";
    let server = Setup::new().env("CONTEXT7_API_KEY", secret).start().await;
    let browser = Browser::signed_in(&server).await;
    let page = browser.get("/settings").await.expect_status(StatusCode::OK);
    assert_eq!(page.text("#setting-CONTEXT7_API_KEY"), "CONTEXT7_API_KEY set environment");
    assert_eq!(page.text("#setting-GEMINI_API_KEY"), "GEMINI_API_KEY not set default");
    for path in ["/settings", "/tools?server=context7", "/audit/events", "/"] {
        assert!(!browser.get(path).await.body.contains(secret), "{path}");
    }
    let mut events = browser.events("/events", None).await;
    events.next().await.unwrap();
    // A link for another device: shown once, good for one sign-in, by this person.
    let made = browser.submit(&page.form("#sign-in-link")).await.expect_status(StatusCode::OK);
    let address = made.text("#link");
    let path = address.strip_prefix(server.url()).unwrap();
    assert_eq!(made.header("cache-control"), Some("no-store"), "{:?}", made.header("cache-control"));
    assert!(!browser.get("/settings").await.body.contains(path), "it is shown once");
    let other = Browser::new(&server);
    let page_of_link = other.get(path).await.expect_status(StatusCode::OK);
    other.submit(&page_of_link.form("form")).await.expect_status(StatusCode::OK);
    other.get("/settings").await.expect_status(StatusCode::OK);
    assert!(page.text("main").contains("Chain of the trail"), "{}", page.text("main"));
    let everywhere = page.form("#everywhere");
    browser.submit(&everywhere).await.expect_status(StatusCode::BAD_REQUEST);
    browser.get("/settings").await.expect_status(StatusCode::OK);
    let page = browser.submit(&everywhere.choose("sure", "yes")).await;
    assert!(page.path.starts_with("/sign-in"), "{}", page.path);
    assert!(browser.get("/settings").await.path.starts_with("/sign-in"));
    while events.next().await.is_some() {}
    let server = server.restart().await;
    let page = Browser::signed_in(&server).await.get("/audit/events?kind=signed_out").await;
    assert!(page.text("main").contains("everybody"), "{}", page.text("main"));
}
