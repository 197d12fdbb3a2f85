//! The demo model's sentences.

use super::intent::Intent;
use super::results;
use crate::conversation::CallResult;
use serde_json::Value;

/// Most characters of a file that are read back, and most rows of a list.
const MOST_CHARACTERS: usize = 2_000;
const MOST_ROWS: usize = 50;

/// What the demo model is and can do.
pub(super) const HELP: &str = "I am the demo model: a small built-in script, not a language model. I understand plain \
requests like these, several in one message too: list the files; read notes.txt; write notes.txt: some text; move \
notes.txt to old/notes.txt; delete notes.txt; list reminders; remind me to water the plants; delete reminder 1; send a \
message to the team: hello; list devices; turn on the kitchen light; lock the door; unlock the door. Put a text in \
quotes if it could be read as a request itself.";

/// The sentence before a call.
pub(super) fn plan(intent: &Intent) -> String {
    format!("I will {}.", deed(intent))
}

/// A request whose tool is not on offer.
pub(super) fn not_offered(intent: &Intent, tool: &str) -> String {
    format!("I cannot {}: the tool {tool} is not offered to me here.", deed(intent))
}

/// The sentence after a call.
pub(super) fn result(intent: &Intent, result: Option<&CallResult>) -> String {
    match result {
        None => format!("I do not know whether I could {}: the call was not answered.", deed(intent)),
        Some(result) if result.is_error => {
            format!(
                "I could not {}: {}.",
                deed(intent),
                results::reason(&result.output).trim_end_matches('.')
            )
        }
        Some(result) => success(intent, &result.output),
    }
}

/// What is asked for, after "I will".
pub(super) fn deed(intent: &Intent) -> String {
    match intent {
        Intent::ListFiles { folder: None } => "list the files".into(),
        Intent::ListFiles { folder: Some(folder) } => format!("list the files in {folder}"),
        Intent::ReadFile { path } => format!("read {path}"),
        Intent::WriteFile { path, .. } => format!("write {path}"),
        Intent::MoveFile { from, to } => format!("move {from} to {to}"),
        Intent::DeleteFile { path } => format!("delete {path}"),
        Intent::ListReminders => "list the reminders".into(),
        Intent::AddReminder { text } => format!("add the reminder “{text}”"),
        Intent::DeleteReminder { which } => format!("delete the reminder “{which}”"),
        Intent::SendMessage { to, .. } => format!("send the message to {to}"),
        Intent::ListDevices => "list the devices".into(),
        Intent::SwitchDevice { device, on } => {
            format!("switch the {device} {}", if *on { "on" } else { "off" })
        }
        Intent::LockDoor { door } => format!("lock the {door}"),
        Intent::UnlockDoor { door } => format!("unlock the {door}"),
    }
}

fn success(intent: &Intent, output: &Value) -> String {
    match intent {
        Intent::ListFiles { folder } => {
            let place = folder.as_deref().unwrap_or("the sandbox");
            list(output, &format!("In {place} there is"), &format!("There are no files in {place}."))
        }
        Intent::ListReminders => list(output, "The reminders are", "There are no reminders."),
        Intent::ListDevices => list(output, "The devices are", "There are no devices."),
        Intent::ReadFile { path } => {
            let text = results::text(output);
            if text.trim().is_empty() {
                format!("{path} is empty.")
            } else {
                format!("{path} says: “{}”", cut(&text))
            }
        }
        _ => {
            let said = results::text(output);
            let said = said.trim().trim_end_matches('.');
            let done = format!("Done: {}", done(intent));
            if said.is_empty() {
                format!("{done}.")
            } else {
                format!("{done}. The tool says: {}.", cut(said))
            }
        }
    }
}

fn done(intent: &Intent) -> String {
    match intent {
        Intent::WriteFile { path, .. } => format!("I wrote {path}"),
        Intent::MoveFile { from, to } => format!("I moved {from} to {to}"),
        Intent::DeleteFile { path } => format!("I deleted {path}"),
        Intent::AddReminder { text } => format!("I added the reminder “{text}”"),
        Intent::DeleteReminder { which } => format!("I deleted the reminder “{which}”"),
        Intent::SendMessage { to, text } => format!("I sent “{text}” to {to}"),
        Intent::SwitchDevice { device, on } => {
            format!("I switched the {device} {}", if *on { "on" } else { "off" })
        }
        Intent::LockDoor { door } => format!("I locked the {door}"),
        Intent::UnlockDoor { door } => format!("I unlocked the {door}"),
        Intent::ListFiles { .. } | Intent::ReadFile { .. } | Intent::ListReminders | Intent::ListDevices => {
            deed(intent)
        }
    }
}

fn list(output: &Value, lead: &str, none: &str) -> String {
    let Some(rows) = results::rows(output) else {
        let text = results::text(output);
        return if text.trim().is_empty() {
            none.to_owned()
        } else {
            format!("{lead}: {}", cut(text.trim()))
        };
    };
    let mut shown: Vec<String> = rows.iter().take(MOST_ROWS).map(row).collect();
    match shown.pop() {
        None => none.to_owned(),
        Some(_) if rows.len() > MOST_ROWS => {
            format!("{lead} {} and {} more.", shown.join(", "), rows.len() - shown.len())
        }
        Some(last) if shown.is_empty() => format!("{lead} {last}."),
        Some(last) => format!("{lead} {} and {last}.", shown.join(", ")),
    }
}

/// `notes.txt (file, 12)`: the first field that names the thing, and the others in brackets.
fn row(row: &Value) -> String {
    let Some(fields) = row.as_object() else { return results::plain(row) };
    let naming = ["path", "name", "text", "title", "id"].into_iter().find(|name| fields.contains_key(*name));
    let name = naming.and_then(|name| fields.get(name)).map(results::plain).unwrap_or_default();
    let more: Vec<String> = fields
        .iter()
        .filter(|(field, value)| Some(field.as_str()) != naming && !value.is_null())
        .map(|(field, value)| match value {
            Value::String(text) => text.clone(),
            other => format!("{field} {other}"),
        })
        .collect();
    if more.is_empty() { name } else { format!("{name} ({})", more.join(", ")) }
}

fn cut(text: &str) -> String {
    let characters = text.chars().count();
    if characters <= MOST_CHARACTERS {
        return text.to_owned();
    }
    let shown: String = text.chars().take(MOST_CHARACTERS).collect();
    format!("{shown}… ({MOST_CHARACTERS} of {characters} characters)")
}
