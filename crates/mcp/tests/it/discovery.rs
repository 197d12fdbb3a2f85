//! Which tools there are, and how changes are followed.

use crate::support::{House, scripted};
use serde_json::{Value, json};
use sluicegate_gateway::ServerState;

fn tool(name: &str, description: &str) -> Value {
    json!({ "name": name, "description": description, "inputSchema": { "type": "object" } })
}

fn tools(names: impl IntoIterator<Item = String>) -> Value {
    names.into_iter().map(|name| tool(&name, "a tool")).collect()
}

/// What is too long for a command line.
fn in_file(folder: &tempfile::TempDir, pages: &Value) -> std::path::PathBuf {
    let file = folder.path().join("pages.json");
    std::fs::write(&file, pages.to_string()).unwrap();
    file
}

fn lists(received: &[Value]) -> usize {
    received.iter().filter(|message| message["method"] == "tools/list").count()
}

#[tokio::test]
async fn f13_all_pages_are_found_and_a_burst_of_notices_is_followed_once() {
    for era in ["legacy", "modern"] {
        let pages: Vec<Value> =
            (0..3).map(|page| tools((0..20).map(|n| format!("t{:02}", page * 20 + n)))).collect();
        let mut pages = json!(pages);
        pages[2].as_array_mut().unwrap().extend([tool("received", "log"), tool("retool", "change")]);
        let house = House::ready(vec![scripted("s", &json!({ "era": era, "pages": pages }))]).await;
        assert_eq!(house.tools("s").len(), 62);
        assert_eq!(
            house.status("s").about.as_deref(),
            Some(if era == "modern" { "scripted 2.0" } else { "scripted 1.0" })
        );
        assert_eq!(lists(&house.received("s").await), 3);
        let before = house.digest("s", "t00");

        let changed = json!([tool("t00", "another text"), tool("new", "a tool"), tool("received", "log")]);
        assert_eq!(house.text("s", "retool", json!({ "tools": changed, "notices": 5 })).await, "done");
        house.until_tools("s", &["new", "received", "t00"]).await;
        assert_ne!(house.digest("s", "t00"), before);
        // Three pages at first, one page after the burst.
        assert_eq!(lists(&house.received("s").await), 4, "{era}");
    }
}

#[tokio::test]
async fn f13_a_server_that_changed_while_it_was_away_is_listed_anew() {
    let folder = tempfile::tempdir().unwrap();
    let file = in_file(&folder, &json!([[tool("crash", "v1"), tool("gone", "v1")]]));
    let house = House::ready(vec![scripted("s", &json!({ "pages_file": file }))]).await;
    assert_eq!(house.tools("s"), ["crash", "gone"]);
    in_file(&folder, &json!([[tool("crash", "v1"), tool("fresh", "v1")]]));
    house.call("s", "crash", json!({})).await;
    house.until_tools("s", &["crash", "fresh"]).await;
    house.until_state("s", ServerState::Ready).await;
}

#[tokio::test]
async fn f14_of_a_name_that_is_listed_twice_neither_is_chosen() {
    let other = json!({ "name": "twice", "inputSchema": { "type": "object", "required": ["a"] } });
    let pages = json!([[tool("once", "x"), tool("twice", "x")], [other]]);
    let house =
        House::ready(vec![scripted("a", &json!({ "pages": pages })), scripted("b", &json!({}))]).await;
    assert_eq!(house.tools("a"), ["once"]);
    let status = house.status("a");
    assert_eq!(status.left_out.len(), 1);
    assert_eq!(status.left_out[0].0, "twice");
    assert!(status.left_out[0].1.contains("lists this name twice"), "{status:?}");
    // The same name at two servers is two tools.
    assert!(house.tools("b").contains(&"echo".to_owned()));
}

#[tokio::test]
async fn tools_that_cannot_be_used_are_left_out_alone_with_the_reason() {
    let pages = json!([[
        tool("good", "x"),
        { "name": "no-schema" },
        { "name": "bad-schema", "inputSchema": { "type": "object", "properties": { "a": { "type": "nonsense" } } } },
        { "inputSchema": { "type": "object" } },
        { "name": "odd-hints", "inputSchema": { "type": "object" }, "annotations": { "readOnlyHint": "perhaps" } },
        { "name": "huge", "inputSchema": { "type": "object" }, "description": "x".repeat(300_000) },
    ]]);
    let folder = tempfile::tempdir().unwrap();
    let house = House::ready(vec![scripted("s", &json!({ "pages_file": in_file(&folder, &pages) }))]).await;
    assert_eq!(house.tools("s"), ["good", "odd-hints"]);
    let left_out: Vec<String> = house.status("s").left_out.into_iter().map(|(name, _)| name).collect();
    assert_eq!(left_out, ["", "bad-schema", "huge", "no-schema"]);
}

#[tokio::test]
async fn f13_lists_without_end_are_cut_and_the_cut_is_said() {
    let many: Value = (0..5).map(|page| tools((0..500).map(|n| format!("t{page}-{n}")))).collect();
    let folder = tempfile::tempdir().unwrap();
    let entries = vec![
        scripted("many", &json!({ "pages_file": in_file(&folder, &many) })),
        scripted("circle", &json!({ "pages": [[tool("one", "x")]], "circle": true })),
    ];
    let house = House::ready(entries).await;
    assert_eq!(house.tools("many").len(), 2000);
    assert!(house.status("many").note.unwrap().contains("more than 2000 tools"));
    assert_eq!(house.tools("circle"), ["one"]);
    assert!(house.status("circle").note.unwrap().contains("go in a circle"));
}

#[tokio::test]
async fn f24_every_part_of_a_definition_counts_and_the_order_of_keys_does_not() {
    let base = json!({
        "name": "t",
        "description": "d",
        "inputSchema": { "type": "object", "properties": { "a": { "type": "string" }, "b": { "type": "string" } } },
        "annotations": { "readOnlyHint": true },
    });
    let house = House::ready(vec![scripted("s", &json!({ "pages": [[base, tool("retool", "x")]] }))]).await;
    let first = house.digest("s", "t");
    let mut changes =
        vec![("description", json!("other")), ("annotations", json!({ "readOnlyHint": false }))];
    changes
        .push(("inputSchema", json!({ "type": "object", "properties": { "path": { "type": "string" } } })));
    let mut digests = std::collections::BTreeSet::from([first.clone()]);
    for (round, (key, value)) in changes.into_iter().enumerate() {
        let mut changed = base.clone();
        changed[key] = value;
        let marker = format!("round-{round}");
        let list = json!([changed, tool("retool", "x"), tool(&marker, "x")]);
        house.text("s", "retool", json!({ "tools": list, "notices": 1 })).await;
        house.until_tools("s", &["retool", &marker, "t"]).await;
        assert!(digests.insert(house.digest("s", "t")), "{key} made no difference");
    }
    // The same definition, its keys in another order, and what is not part of it.
    let reordered = r#"{"annotations":{"readOnlyHint":true},"inputSchema":{"properties":{"b":{"type":"string"},"a":{"type":"string"}},"type":"object"},"description":"d","name":"t","_meta":{"n":1}}"#;
    let reordered: Value = serde_json::from_str(reordered).unwrap();
    house.text("s", "retool", json!({ "tools": [reordered, tool("retool", "x")], "notices": 1 })).await;
    house.until_tools("s", &["retool", "t"]).await;
    assert_eq!(house.digest("s", "t"), first);
}

#[tokio::test]
async fn servers_stand_in_configured_order_also_when_they_are_down() {
    let entries = vec![
        scripted("zeta", &json!({})),
        sluicegate_mcp::ServerEntry::stdio("missing", "no-such-program-anywhere", &[]).unwrap(),
        scripted("alpha", &json!({})),
    ];
    let house = House::ready(entries).await;
    let snapshot = house.gateway.catalogue().snapshot();
    let names: Vec<_> = snapshot.servers().iter().map(|status| status.name.as_str()).collect();
    assert_eq!(names, ["zeta", "missing", "alpha"]);
    let down = house.status("missing");
    assert_eq!(down.state, ServerState::Unavailable);
    assert!(down.note.unwrap().contains("`no-such-program-anywhere` could not be started"));
}
