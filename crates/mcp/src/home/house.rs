//! What is in the house, and what can be done to it. Pure: nothing here is stored, sent or timed.

use serde::{Deserialize, Serialize};

/// Reminders kept at a time.
pub(super) const MAX_REMINDERS: usize = 100;
/// Messages kept; older ones are forgotten.
const MAX_MESSAGES: usize = 100;
/// Ids named in a refusal.
const MAX_NAMED: usize = 40;

/// The temperatures that a thermostat takes, in °C.
pub(super) const MIN_CELSIUS: u8 = 5;
/// See [`MIN_CELSIUS`].
pub(super) const MAX_CELSIUS: u8 = 30;

/// Who can be written to.
pub(super) const CONTACTS: [&str; 3] = ["family", "neighbour", "caretaker"];

/// The whole house.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct House {
    /// Lights, the thermostat and the door, in this order.
    pub devices: Vec<Device>,
    /// Oldest first.
    pub reminders: Vec<Reminder>,
    /// What was sent, oldest first.
    pub messages: Vec<Message>,
    /// The number of the last reminder; ids are never used twice.
    last_reminder: u64,
}

/// Something that can be set.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Device {
    /// As the tools take it.
    pub id: String,
    /// As people say it.
    pub name: String,
    /// What it is, and how it stands.
    pub state: DeviceState,
}

/// What a device is, and how it stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum DeviceState {
    /// A light.
    Light {
        /// It shines.
        on: bool,
        /// 0 to 100.
        brightness: u8,
    },
    /// A thermostat.
    Thermostat {
        /// What it heats to, in °C.
        celsius: u8,
    },
    /// The lock of a door.
    Lock {
        /// The door is locked.
        locked: bool,
    },
}

/// Something to think of.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reminder {
    /// As the tools take it.
    pub id: String,
    /// What to think of.
    pub text: String,
    /// When, in the words in which it was said.
    pub when: Option<String>,
}

/// A message that was sent.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Message {
    /// Whom it went to.
    pub to: String,
    /// What it says.
    pub text: String,
    /// When, in milliseconds since 1970 by the wall clock.
    pub sent_ms: i64,
}

/// How a device is to be set; what is left out stays as it is.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Setting {
    pub(super) on: Option<bool>,
    pub(super) brightness: Option<u8>,
    pub(super) celsius: Option<u8>,
}

/// Why nothing was done: an answer for the model.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub(super) enum Refused {
    #[error("there is no {what} `{id}`; {}", named(known))]
    Unknown { what: &'static str, id: String, known: Vec<String> },
    #[error("`{0}` is a lock: take lock_door or unlock_door")]
    IsLock(String),
    #[error("`{id}` is a {kind} and takes {takes}; nothing was changed")]
    DoesNotTake { id: String, kind: &'static str, takes: &'static str },
    #[error("{0}; nothing was changed")]
    OutOfRange(String),
    #[error("there are {MAX_REMINDERS} reminders already; delete one first")]
    TooMany,
}

fn named(known: &[String]) -> String {
    match known {
        [] => "there are none".to_owned(),
        known => {
            let shown: Vec<&str> = known.iter().take(MAX_NAMED).map(String::as_str).collect();
            let more = if known.len() > MAX_NAMED { " and more" } else { "" };
            format!("there are: {}{more}", shown.join(", "))
        }
    }
}

impl Default for House {
    /// As it is before anything was done.
    fn default() -> Self {
        let device = |id: &str, name: &str, state| Device { id: id.to_owned(), name: name.to_owned(), state };
        let light = |on, brightness| DeviceState::Light { on, brightness };
        Self {
            devices: vec![
                device("living-room-light", "Living room light", light(true, 70)),
                device("kitchen-light", "Kitchen light", light(false, 100)),
                device("bedroom-light", "Bedroom light", light(false, 40)),
                device("heating", "Heating", DeviceState::Thermostat { celsius: 20 }),
                device("front-door", "Front door", DeviceState::Lock { locked: true }),
            ],
            reminders: vec![Reminder {
                id: "reminder-1".to_owned(),
                text: "Water the plants".to_owned(),
                when: Some("every Saturday".to_owned()),
            }],
            messages: Vec::new(),
            last_reminder: 1,
        }
    }
}

impl House {
    pub(super) fn create_reminder(
        &mut self,
        text: String,
        when: Option<String>,
    ) -> Result<&Reminder, Refused> {
        if self.reminders.len() >= MAX_REMINDERS {
            return Err(Refused::TooMany);
        }
        self.last_reminder = self.last_reminder.saturating_add(1);
        let id = format!("reminder-{}", self.last_reminder);
        Ok(self.reminders.push_mut(Reminder { id, text, when }))
    }

    pub(super) fn delete_reminder(&mut self, id: &str) -> Result<Reminder, Refused> {
        match self.reminders.iter().position(|reminder| reminder.id == id) {
            Some(place) => Ok(self.reminders.remove(place)),
            None => {
                let known = self.reminders.iter().map(|reminder| reminder.id.clone()).collect();
                Err(Refused::Unknown { what: "reminder", id: id.to_owned(), known })
            }
        }
    }

    pub(super) fn send(&mut self, to: &str, text: String, sent_ms: i64) -> Result<(), Refused> {
        if !CONTACTS.contains(&to) {
            let known = CONTACTS.map(str::to_owned).to_vec();
            return Err(Refused::Unknown { what: "contact", id: to.to_owned(), known });
        }
        if self.messages.len() >= MAX_MESSAGES {
            self.messages.remove(0);
        }
        self.messages.push(Message { to: to.to_owned(), text, sent_ms });
        Ok(())
    }

    pub(super) fn set(&mut self, id: &str, setting: Setting) -> Result<&Device, Refused> {
        let device = self.device(id, "device", |_| true)?;
        let does_not_take = |kind, takes| Err(Refused::DoesNotTake { id: id.to_owned(), kind, takes });
        match (&mut device.state, setting) {
            (DeviceState::Lock { .. }, _) => return Err(Refused::IsLock(id.to_owned())),
            (DeviceState::Light { .. }, Setting { on: None, brightness: None, .. })
            | (DeviceState::Light { .. }, Setting { celsius: Some(_), .. }) => {
                return does_not_take("light", "`on` and `brightness`");
            }
            (DeviceState::Light { on, brightness }, wanted) => {
                if wanted.brightness.is_some_and(|wanted| wanted > 100) {
                    return Err(Refused::OutOfRange("`brightness` is 0 to 100".to_owned()));
                }
                *on = wanted.on.unwrap_or(wanted.brightness.map_or(*on, |wanted| wanted > 0));
                *brightness = wanted.brightness.unwrap_or(*brightness);
            }
            (
                DeviceState::Thermostat { celsius },
                Setting { celsius: Some(wanted), on: None, brightness: None },
            ) => {
                if !(MIN_CELSIUS..=MAX_CELSIUS).contains(&wanted) {
                    return Err(Refused::OutOfRange(format!("`celsius` is {MIN_CELSIUS} to {MAX_CELSIUS}")));
                }
                *celsius = wanted;
            }
            (DeviceState::Thermostat { .. }, _) => return does_not_take("thermostat", "`celsius` alone"),
        }
        Ok(device)
    }

    /// Locks or unlocks a door; the answer is whether that changed anything.
    pub(super) fn turn_lock(&mut self, id: &str, wanted: bool) -> Result<bool, Refused> {
        let is_lock = |state: &DeviceState| matches!(state, DeviceState::Lock { .. });
        let device = self.device(id, "door", is_lock)?;
        let before = device.state;
        device.state = DeviceState::Lock { locked: wanted };
        Ok(device.state != before)
    }

    fn device(
        &mut self,
        id: &str,
        what: &'static str,
        fits: impl Fn(&DeviceState) -> bool,
    ) -> Result<&mut Device, Refused> {
        let known =
            || self.devices.iter().filter(|device| fits(&device.state)).map(|device| device.id.clone());
        let unknown = Refused::Unknown { what, id: id.to_owned(), known: known().collect() };
        self.devices.iter_mut().find(|device| device.id == id && fits(&device.state)).ok_or(unknown)
    }
}
