//! The home server's tools, and what it keeps.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use futures::future::join_all;
use rmcp::model::ErrorCode;
use rmcp::service::{ClientLifecycleMode, ServiceError};
use serde_json::{Value, json};
use sluicegate_mcp::{DeviceState, House, look_at_home};
use tempfile::TempDir;

use crate::sandbox::{Client, in_time, shipped, text};

async fn client(folder: &Path) -> Client {
    Client::of(shipped("home", folder), ClientLifecycleMode::Initialize).await
}

async fn start() -> (TempDir, Client) {
    let folder = tempfile::tempdir().unwrap();
    let client = client(folder.path()).await;
    (folder, client)
}

fn device(house: &House, id: &str) -> DeviceState {
    house.devices.iter().find(|device| device.id == id).unwrap().state
}

#[tokio::test]
async fn the_tools_are_described_and_marked_truthfully() {
    let (_folder, client) = start().await;
    let tools = in_time(client.service().list_all_tools()).await.unwrap();
    let hints: BTreeMap<_, _> = tools
        .iter()
        .map(|tool| {
            let hints = tool.annotations.clone().unwrap();
            let schema = tool.schema_as_json_value();
            assert_eq!(schema["additionalProperties"], false, "{}", tool.name);
            jsonschema::meta::validate(&schema).unwrap();
            assert!(tool.title.is_some() && tool.description.is_some(), "{}", tool.name);
            let hints = (hints.read_only_hint, hints.destructive_hint, hints.open_world_hint);
            (tool.name.to_string(), hints)
        })
        .collect();
    let (yes, no) = (Some(true), Some(false));
    let expected = [
        ("list_reminders", (yes, None, no)),
        ("list_devices", (yes, None, no)),
        ("create_reminder", (no, no, no)),
        ("set_device", (no, None, no)),
        ("lock_door", (no, no, no)),
        ("delete_reminder", (no, yes, no)),
        ("send_message", (no, None, yes)),
        ("unlock_door", (no, yes, no)),
    ];
    assert_eq!(hints, expected.map(|(name, hints)| (name.to_owned(), hints)).into());
}

#[tokio::test]
async fn what_is_done_is_there_for_the_next_server_and_for_people() {
    let (folder, first) = start().await;
    assert_eq!(look_at_home(folder.path()).unwrap(), House::default());
    let made = first.done("create_reminder", json!({ "text": "Buy bread", "when": "tomorrow at 8" })).await;
    assert_eq!(made, "made reminder `reminder-2`");
    assert_eq!(
        first.done("delete_reminder", json!({ "reminder": "reminder-1" })).await,
        "deleted reminder `reminder-1`: Water the plants"
    );
    assert_eq!(
        first.done("send_message", json!({ "to": "family", "text": "Home at six" })).await,
        "sent to family"
    );
    assert_eq!(
        first.done("set_device", json!({ "device": "kitchen-light", "brightness": 30 })).await,
        "`kitchen-light` is now on, at 30 %"
    );
    assert_eq!(
        first.done("set_device", json!({ "device": "heating", "celsius": 18 })).await,
        "`heating` is now set to 18 °C"
    );
    assert_eq!(
        first.done("unlock_door", json!({ "door": "front-door" })).await,
        "`front-door` is now unlocked"
    );
    assert_eq!(
        first.done("unlock_door", json!({ "door": "front-door" })).await,
        "`front-door` was already unlocked"
    );
    drop(first);

    let second = client(folder.path()).await;
    let reminders = second.call("list_reminders", json!({})).await.structured_content.unwrap();
    assert_eq!(
        reminders,
        json!({ "reminders": [{ "id": "reminder-2", "text": "Buy bread", "when": "tomorrow at 8" }] })
    );
    let devices = second.call("list_devices", json!({})).await.structured_content.unwrap();
    let house = look_at_home(folder.path()).unwrap();
    assert_eq!(devices["devices"], serde_json::to_value(&house.devices).unwrap());
    assert_eq!(device(&house, "front-door"), DeviceState::Lock { locked: false });
    assert_eq!(device(&house, "kitchen-light"), DeviceState::Light { on: true, brightness: 30 });
    assert_eq!(device(&house, "heating"), DeviceState::Thermostat { celsius: 18 });
    assert_eq!((house.messages[0].to.as_str(), house.messages[0].text.as_str()), ("family", "Home at six"));
    // An id that is gone never names something else.
    assert_eq!(second.done("create_reminder", json!({ "text": "x" })).await, "made reminder `reminder-3`");
}

#[tokio::test]
async fn unknown_ids_are_refused_with_the_real_ones_and_change_nothing() {
    let (folder, client) = start().await;
    for (tool, arguments, says) in [
        (
            "delete_reminder",
            json!({ "reminder": "plants" }),
            "there is no reminder `plants`; there are: reminder-1",
        ),
        (
            "send_message",
            json!({ "to": "everybody", "text": "x" }),
            "there is no contact `everybody`; there are: family, neighbour, caretaker",
        ),
        (
            "set_device",
            json!({ "device": "lamp", "on": true }),
            "there is no device `lamp`; there are: living-room-light, kitchen-light, bedroom-light, heating, front-door",
        ),
        (
            "unlock_door",
            json!({ "door": "Front door" }),
            "there is no door `Front door`; there are: front-door",
        ),
        ("lock_door", json!({ "door": "heating" }), "there is no door `heating`; there are: front-door"),
        (
            "set_device",
            json!({ "device": "front-door", "on": false }),
            "`front-door` is a lock: take lock_door or unlock_door",
        ),
        (
            "set_device",
            json!({ "device": "kitchen-light", "on": true, "celsius": 20 }),
            "`kitchen-light` is a light and takes `on` and `brightness`; nothing was changed",
        ),
        (
            "set_device",
            json!({ "device": "kitchen-light" }),
            "`kitchen-light` is a light and takes `on` and `brightness`; nothing was changed",
        ),
        (
            "set_device",
            json!({ "device": "heating", "celsius": 31 }),
            "`celsius` is 5 to 30; nothing was changed",
        ),
        (
            "set_device",
            json!({ "device": "kitchen-light", "brightness": 101 }),
            "`brightness` is 0 to 100; nothing was changed",
        ),
        (
            "create_reminder",
            json!({ "text": "" }),
            "a text here has 1 to 500 characters, and this one 0; nothing was changed",
        ),
        (
            "send_message",
            json!({ "to": "family", "text": "x".repeat(501) }),
            "a text here has 1 to 500 characters, and this one 501; nothing was changed",
        ),
    ] {
        let answer = client.call(tool, arguments.clone()).await;
        assert_eq!((answer.is_error, text(&answer)), (Some(true), says.to_owned()), "{tool} {arguments}");
    }
    assert_eq!(look_at_home(folder.path()).unwrap(), House::default());
}

#[tokio::test]
async fn other_shapes_of_arguments_are_protocol_errors() {
    let (folder, client) = start().await;
    for (tool, arguments) in [
        ("unlock_door", json!({})),
        ("unlock_door", json!({ "door": ["front-door"] })),
        ("unlock_door", json!({ "door": "front-door", "force": true })),
        ("set_device", json!({ "device": "heating", "celsius": 20.5 })),
        ("list_devices", json!({ "all": true })),
        ("open_window", json!({})),
    ] {
        let Err(ServiceError::McpError(error)) = client.try_call(tool, Some(arguments.clone())).await else {
            panic!("{tool} {arguments} was taken");
        };
        assert_eq!(error.code, ErrorCode::INVALID_PARAMS, "{tool} {arguments}");
    }
    assert_eq!(look_at_home(folder.path()).unwrap(), House::default());
}

#[tokio::test]
async fn two_servers_on_one_folder_lose_nothing() {
    let (folder, first) = start().await;
    let second = client(folder.path()).await;
    let calls = (0..40).map(|n| {
        let client = if n % 2 == 0 { &first } else { &second };
        client.done("create_reminder", json!({ "text": format!("number {n}") }))
    });
    let made: Vec<String> = join_all(calls).await;
    let mut ids: Vec<_> = made.iter().collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), 40);
    assert_eq!(look_at_home(folder.path()).unwrap().reminders.len(), 41);
}

#[tokio::test]
async fn a_state_that_cannot_be_read_is_neither_used_nor_overwritten() {
    let (folder, client) = start().await;
    let file = folder.path().join("home.json");
    for broken in ["", "{", "[]", r#"{"devices":[],"reminders":[],"messages":[]}"#, "\u{feff}{}"] {
        fs::write(&file, broken).unwrap();
        let answer = client.call("unlock_door", json!({ "door": "front-door" })).await;
        assert_eq!(answer.is_error, Some(true), "{broken}");
        assert!(text(&answer).contains("is not the state of a home"), "{}", text(&answer));
        assert_eq!(fs::read_to_string(&file).unwrap(), broken);
    }
    fs::remove_file(&file).unwrap();
    assert_eq!(client.call("list_devices", Value::Object(Default::default())).await.is_error, Some(false));
}

#[tokio::test]
async fn the_house_stays_bounded() {
    let (folder, client) = start().await;
    for n in 0..99 {
        client.done("create_reminder", json!({ "text": format!("number {n}") })).await;
    }
    let answer = client.call("create_reminder", json!({ "text": "one more" })).await;
    assert_eq!(text(&answer), "there are 100 reminders already; delete one first");
    let answer = client.call("delete_reminder", json!({ "reminder": "none" })).await;
    assert!(text(&answer).ends_with("reminder-40 and more"), "{}", text(&answer));
    for n in 0..101 {
        client.done("send_message", json!({ "to": "family", "text": format!("number {n}") })).await;
    }
    let house = look_at_home(folder.path()).unwrap();
    assert_eq!((house.messages.len(), house.messages[0].text.as_str()), (100, "number 1"));
}
