//! The tools of the shipped servers, as the demo model calls them.

use super::intent::Intent;
use crate::llm::ToolDeclaration;
use crate::llm::names::short_name;
use serde_json::{Map, Value};

/// A call to be asked for.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Proposed {
    /// The model-side name.
    pub(super) name: String,
    /// The arguments, an object.
    pub(super) arguments: Value,
}

/// A tool of a shipped server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tool {
    server: &'static str,
    name: &'static str,
}

const FILES: &str = "sandbox-files";
const HOME: &str = "home";

pub(super) const LIST_REMINDERS: Tool = Tool { server: HOME, name: "list_reminders" };
pub(super) const LIST_DEVICES: Tool = Tool { server: HOME, name: "list_devices" };

/// One argument: what it may be called, the most likely name first, and its value.
type Argument<'a> = (&'a [&'a str], Value);

impl Tool {
    /// The tool that does what is asked for.
    pub(super) fn of(intent: &Intent) -> Self {
        let files = |name| Self { server: FILES, name };
        let home = |name| Self { server: HOME, name };
        match intent {
            Intent::ListFiles { .. } => files("list_files"),
            Intent::ReadFile { .. } => files("read_file"),
            Intent::WriteFile { .. } => files("write_file"),
            Intent::MoveFile { .. } => files("move_file"),
            Intent::DeleteFile { .. } => files("delete_file"),
            Intent::ListReminders => LIST_REMINDERS,
            Intent::AddReminder { .. } => home("create_reminder"),
            Intent::DeleteReminder { .. } => home("delete_reminder"),
            Intent::SendMessage { .. } => home("send_message"),
            Intent::ListDevices => LIST_DEVICES,
            Intent::SwitchDevice { .. } => home("set_device"),
            Intent::LockDoor { .. } => home("lock_door"),
            Intent::UnlockDoor { .. } => home("unlock_door"),
        }
    }

    /// Its declaration, if it is on offer. Only the shipped server's own tool counts, never one that is called alike.
    pub(super) fn declared(self, tools: &[ToolDeclaration]) -> Option<&ToolDeclaration> {
        let name = short_name(self.server, self.name);
        tools.iter().find(|tool| tool.name == name)
    }

    /// Its name for people.
    pub(super) fn label(self) -> String {
        format!("{}/{}", self.server, self.name)
    }
}

/// A call without arguments.
pub(super) fn bare(tool: &ToolDeclaration) -> Proposed {
    Proposed { name: tool.name.clone(), arguments: Value::Object(Map::new()) }
}

/// The call for a request. `target` is the id of the reminder, device or door that is meant, if one was looked up.
pub(super) fn call(tool: &ToolDeclaration, intent: &Intent, target: Option<&Value>) -> Proposed {
    let path: &[&str] = &["path", "file", "name"];
    let text: &[&str] = &["text", "message", "content", "title", "body"];
    let device: &[&str] = &["device", "device_id", "id", "name"];
    let door: &[&str] = &["door", "device", "id", "name", "lock"];
    let target_or = |words: &str| target.cloned().unwrap_or_else(|| words.into());
    let arguments: Vec<Argument<'_>> = match intent {
        Intent::ListFiles { folder: None } | Intent::ListReminders | Intent::ListDevices => Vec::new(),
        Intent::ListFiles { folder: Some(folder) } => vec![(path, folder.as_str().into())],
        Intent::ReadFile { path: file } | Intent::DeleteFile { path: file } => {
            vec![(path, file.as_str().into())]
        }
        Intent::WriteFile { path: file, content } => {
            vec![(path, file.as_str().into()), (&["content", "text"], content.as_str().into())]
        }
        Intent::MoveFile { from, to } => {
            vec![(&["from", "source"], from.as_str().into()), (&["to", "destination"], to.as_str().into())]
        }
        Intent::AddReminder { text: words } => vec![(text, words.as_str().into())],
        Intent::DeleteReminder { which } => vec![(&["id", "reminder", "reminder_id"], target_or(which))],
        Intent::SendMessage { to, text: words } => {
            vec![(&["to", "recipient"], to.as_str().into()), (text, words.as_str().into())]
        }
        Intent::SwitchDevice { device: words, on } => {
            vec![(device, target_or(words)), (&["on", "state", "power"], (*on).into())]
        }
        Intent::LockDoor { door: words } | Intent::UnlockDoor { door: words } => {
            vec![(door, target_or(words))]
        }
    };
    Proposed { name: tool.name.clone(), arguments: fitted(&tool.schema, arguments) }
}

/// Whether the tool takes any argument at all.
pub(super) fn takes_arguments(tool: &ToolDeclaration) -> bool {
    tool.schema.get("properties").and_then(Value::as_object).is_some_and(|properties| !properties.is_empty())
}

/// The arguments under the names and in the types that the schema declares. Without a schema the likely names stay.
fn fitted(schema: &Value, arguments: Vec<Argument<'_>>) -> Value {
    let properties = schema.get("properties").and_then(Value::as_object);
    let mut fitted = Map::new();
    for (names, value) in arguments {
        let Some(properties) = properties else {
            fitted.extend(names.first().map(|name| ((*name).to_owned(), value)));
            continue;
        };
        let declared =
            names.iter().find(|name| properties.contains_key(**name) && !fitted.contains_key(**name));
        if let Some((name, property)) = declared.and_then(|name| Some((*name, properties.get(*name)?))) {
            fitted.insert(name.to_owned(), typed(property, value));
        }
    }
    Value::Object(fitted)
}

fn typed(property: &Value, value: Value) -> Value {
    let is = |kind: &str| property.get("type").and_then(Value::as_str) == Some(kind);
    match &value {
        Value::Bool(on) if is("string") => Value::from(if *on { "on" } else { "off" }),
        Value::Number(number) if is("string") => Value::from(number.to_string()),
        Value::String(text) if is("integer") => text.parse::<i64>().map_or(value, Value::from),
        _ => value,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn declared(schema: Value) -> ToolDeclaration {
        ToolDeclaration { name: "home__set_device".into(), description: String::new(), schema }
    }

    #[test]
    fn arguments_take_the_names_and_types_of_the_schema() {
        let intent = Intent::SwitchDevice { device: "hall".into(), on: true };
        let schema =
            json!({"properties":{"id":{"type":"integer"},"state":{"type":"string","enum":["on","off"]}}});
        assert_eq!(
            call(&declared(schema), &intent, Some(&json!("7"))).arguments,
            json!({"id":7,"state":"on"})
        );
        let schema = json!({"properties":{"device":{"type":"string"},"on":{"type":"boolean"}}});
        assert_eq!(call(&declared(schema), &intent, None).arguments, json!({"device":"hall","on":true}));
        assert_eq!(call(&declared(json!({})), &intent, None).arguments, json!({"device":"hall","on":true}));
    }

    #[test]
    fn a_tool_of_another_server_is_not_mistaken_for_the_shipped_one() {
        let tool =
            |name: &str| ToolDeclaration { name: name.into(), description: String::new(), schema: json!({}) };
        let list = Tool::of(&Intent::ListFiles { folder: None });
        assert_eq!(
            list.declared(&[
                tool("evil__list_files"),
                tool("list_files"),
                tool("sandbox-files__list_files2")
            ]),
            None
        );
        assert!(list.declared(&[tool("sandbox-files__list_files")]).is_some());
    }
}
