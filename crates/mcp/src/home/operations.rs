//! What the eight tools do.

use rmcp::model::{CallToolResult, ErrorData};
use serde::Deserialize;
use serde_json::{Value, json};

use super::house::{DeviceState, House, Refused, Setting};
use super::state::{Folder, HomeStateError};
use super::tools::{MAX_TEXT, MAX_WHEN};
use crate::shipped::{failed, said, shaped, unknown_tool};

/// One call of one tool, with its arguments in the right shape.
pub(super) enum Operation {
    ListReminders,
    CreateReminder(CreateReminder),
    DeleteReminder(DeleteReminder),
    SendMessage(SendMessage),
    ListDevices,
    SetDevice(SetDevice),
    TurnLock { door: Door, lock: bool },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Nothing {}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CreateReminder {
    text: String,
    when: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct DeleteReminder {
    reminder: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SendMessage {
    to: String,
    text: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SetDevice {
    device: String,
    on: Option<bool>,
    brightness: Option<u8>,
    celsius: Option<u8>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Door {
    door: String,
}

impl Operation {
    pub(super) fn parse(tool: &str, arguments: Value) -> Result<Self, ErrorData> {
        Ok(match tool {
            "list_reminders" => shaped::<Nothing>(tool, arguments).map(|_| Self::ListReminders)?,
            "create_reminder" => Self::CreateReminder(shaped(tool, arguments)?),
            "delete_reminder" => Self::DeleteReminder(shaped(tool, arguments)?),
            "send_message" => Self::SendMessage(shaped(tool, arguments)?),
            "list_devices" => shaped::<Nothing>(tool, arguments).map(|_| Self::ListDevices)?,
            "set_device" => Self::SetDevice(shaped(tool, arguments)?),
            "lock_door" => Self::TurnLock { door: shaped(tool, arguments)?, lock: true },
            "unlock_door" => Self::TurnLock { door: shaped(tool, arguments)?, lock: false },
            _ => return Err(unknown_tool(tool)),
        })
    }

    /// Does it; `now_ms` is the wall clock's time.
    pub(super) fn run(self, folder: &Folder, now_ms: i64) -> CallToolResult {
        let done = match self {
            Self::ListReminders => {
                folder.look(|house| CallToolResult::structured(json!({ "reminders": house.reminders })))
            }
            Self::ListDevices => {
                folder.look(|house| CallToolResult::structured(json!({ "devices": house.devices })))
            }
            Self::CreateReminder(CreateReminder { text, when }) => changed(folder, |house| {
                let (text, when) =
                    (bounded(text, MAX_TEXT)?, when.map(|when| bounded(when, MAX_WHEN)).transpose()?);
                Ok(format!("made reminder `{}`", house.create_reminder(text, when)?.id))
            }),
            Self::DeleteReminder(DeleteReminder { reminder }) => changed(folder, |house| {
                let gone = house.delete_reminder(&reminder)?;
                Ok(format!("deleted reminder `{}`: {}", gone.id, gone.text))
            }),
            Self::SendMessage(SendMessage { to, text }) => changed(folder, |house| {
                house.send(&to, bounded(text, MAX_TEXT)?, now_ms)?;
                Ok(format!("sent to {to}"))
            }),
            Self::SetDevice(SetDevice { device, on, brightness, celsius }) => changed(folder, |house| {
                let device = house.set(&device, Setting { on, brightness, celsius })?;
                Ok(format!("`{}` is now {}", device.id, standing(device.state)))
            }),
            Self::TurnLock { door: Door { door }, lock } => changed(folder, |house| {
                let turned = house.turn_lock(&door, lock)?;
                let was = if turned { "is now" } else { "was already" };
                Ok(format!("`{door}` {was} {}", standing(DeviceState::Lock { locked: lock })))
            }),
        };
        done.unwrap_or_else(|error| {
            tracing::error!(%error, "the state of the home cannot be used");
            failed(error.to_string())
        })
    }
}

fn changed(
    folder: &Folder,
    change: impl FnOnce(&mut House) -> Result<String, Refused>,
) -> Result<CallToolResult, HomeStateError> {
    Ok(match folder.change(change)? {
        Ok(sentence) => said(sentence),
        Err(refused) => failed(refused.to_string()),
    })
}

fn bounded(text: String, most: usize) -> Result<String, Refused> {
    let length = text.chars().count();
    if (1..=most).contains(&length) {
        return Ok(text);
    }
    Err(Refused::OutOfRange(format!("a text here has 1 to {most} characters, and this one {length}")))
}

/// How it stands, as one says it.
fn standing(state: DeviceState) -> String {
    match state {
        DeviceState::Light { on: true, brightness } => format!("on, at {brightness} %"),
        DeviceState::Light { on: false, .. } => "off".to_owned(),
        DeviceState::Thermostat { celsius } => format!("set to {celsius} °C"),
        DeviceState::Lock { locked: true } => "locked".to_owned(),
        DeviceState::Lock { locked: false } => "unlocked".to_owned(),
    }
}
