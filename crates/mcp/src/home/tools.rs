//! The eight tools as a client sees them.
//!
//! Annotations are true, and no louder than needed, as those of the file server: what may destroy or leave the house
//! says so, and for what only changes something the hint is left out.

use rmcp::model::Tool;
use rmcp::object;
use serde_json::{Value, json};

use super::house::{CONTACTS, MAX_CELSIUS, MAX_REMINDERS, MIN_CELSIUS};
use crate::shipped::{closed_world, tool};

/// The longest text of a reminder or a message, in characters.
pub(super) const MAX_TEXT: usize = 500;
/// The longest time of a reminder, in characters.
pub(super) const MAX_WHEN: usize = 80;

pub(super) fn all() -> Vec<Tool> {
    vec![
        list_reminders(),
        create_reminder(),
        delete_reminder(),
        send_message(),
        list_devices(),
        set_device(),
        lock_door(),
        unlock_door(),
    ]
}

fn list_reminders() -> Tool {
    let description = "List all reminders with their ids. Use it before you delete one.";
    let input = object!({ "type": "object", "properties": {}, "additionalProperties": false });
    tool("list_reminders", "List reminders", description, input)
        .with_annotations(closed_world().read_only(true))
}

fn create_reminder() -> Tool {
    let input = object!({
        "type": "object",
        "properties": {
            "text": text("What to think of."),
            "when": {
                "type": "string", "minLength": 1, "maxLength": MAX_WHEN,
                "description": "When, in plain words, such as `tomorrow at 8`. Leave it out if no time was said.",
            },
        },
        "required": ["text"],
        "additionalProperties": false,
    });
    let description = format!("Make a reminder; the answer is its id. At most {MAX_REMINDERS} are kept.");
    tool("create_reminder", "Make a reminder", description, input)
        .with_annotations(closed_world().read_only(false).destructive(false))
}

fn delete_reminder() -> Tool {
    let input = object!({
        "type": "object",
        "properties": {
            "reminder": { "type": "string", "description": "The reminder's id, as list_reminders gives it." },
        },
        "required": ["reminder"],
        "additionalProperties": false,
    });
    let description = "Delete a reminder. It cannot be brought back.";
    tool("delete_reminder", "Delete a reminder", description, input)
        .with_annotations(closed_world().read_only(false).destructive(true).idempotent(true))
}

fn send_message() -> Tool {
    let input = object!({
        "type": "object",
        "properties": {
            "to": { "type": "string", "description": format!("One of: {}.", CONTACTS.join(", ")) },
            "text": text("What the message says."),
        },
        "required": ["to", "text"],
        "additionalProperties": false,
    });
    let description = "Send a message to somebody outside. It cannot be taken back.";
    tool("send_message", "Send a message", description, input)
        .with_annotations(closed_world().read_only(false).open_world(true))
}

fn list_devices() -> Tool {
    let description = "List the devices with their ids and how they stand: lights, the heating, and the lock of the door. Use it \
                       before you set, lock or unlock one.";
    let input = object!({ "type": "object", "properties": {}, "additionalProperties": false });
    tool("list_devices", "List devices", description, input).with_annotations(closed_world().read_only(true))
}

fn set_device() -> Tool {
    let input = object!({
        "type": "object",
        "properties": {
            "device": { "type": "string", "description": "The device's id, as list_devices gives it." },
            "on": { "type": "boolean", "description": "For a light." },
            "brightness": { "type": "integer", "minimum": 0, "maximum": 100, "description": "For a light, in percent." },
            "celsius": {
                "type": "integer", "minimum": MIN_CELSIUS, "maximum": MAX_CELSIUS,
                "description": "For the heating: what it heats to, in °C.",
            },
        },
        "required": ["device"],
        "additionalProperties": false,
    });
    let description =
        "Set a light or the heating. What is left out stays as it is. Does not lock or unlock a door.";
    tool("set_device", "Set a device", description, input)
        .with_annotations(closed_world().read_only(false).idempotent(true))
}

fn lock_door() -> Tool {
    tool("lock_door", "Lock a door", "Lock a door.", one_door())
        .with_annotations(closed_world().read_only(false).destructive(false).idempotent(true))
}

fn unlock_door() -> Tool {
    let description = "Unlock a door, so that anybody can come in.";
    tool("unlock_door", "Unlock a door", description, one_door())
        .with_annotations(closed_world().read_only(false).destructive(true).idempotent(true))
}

fn one_door() -> rmcp::model::JsonObject {
    object!({
        "type": "object",
        "properties": {
            "door": { "type": "string", "description": "The lock's id, as list_devices gives it, such as `front-door`." },
        },
        "required": ["door"],
        "additionalProperties": false,
    })
}

fn text(what: &str) -> Value {
    json!({ "type": "string", "minLength": 1, "maxLength": MAX_TEXT, "description": what })
}
