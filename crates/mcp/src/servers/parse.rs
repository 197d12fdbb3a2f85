//! The `mcpServers` JSON of other clients.

use super::expand::expand;
use super::ordered::Json;
use super::{Reach, ServerEntry, ServersError, read_url, wrong};
use sluicegate_policy::ServerName;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Duration;

/// Largest server list, in bytes.
const MAX_LIST: usize = 1024 * 1024;
/// Most servers in a list.
const MAX_SERVERS: usize = 256;
/// Keys by which other clients let calls pass without asking. Here the rules decide.
const LOOSENING: &[&str] = &["alwaysAllow", "autoApprove", "autoApproveTools", "trust", "trusted"];

type Variables = BTreeMap<String, String>;

pub(super) fn read_list(json: &str, variables: &Variables) -> Result<Vec<ServerEntry>, ServersError> {
    if json.len() > MAX_LIST {
        return Err(ServersError::Unreadable(format!("it is larger than {MAX_LIST} bytes")));
    }
    let json = json.trim_start_matches('\u{feff}');
    let tree: Json =
        serde_json::from_str(json).map_err(|error| ServersError::Unreadable(error.to_string()))?;
    let Json::Object(keys) = tree else {
        return Err(unreadable("it is not a JSON object with the key `mcpServers`"));
    };
    let mut servers = None;
    let mut has_servers_key = false;
    for (key, value) in keys {
        match key.as_str() {
            "mcpServers" => servers = Some(value),
            "servers" => has_servers_key = true,
            _ => {}
        }
    }
    let servers = match servers {
        Some(Json::Object(servers)) => servers,
        Some(_) => return Err(unreadable("`mcpServers` is not an object of named servers")),
        None if has_servers_key => {
            return Err(unreadable("it has `servers` where `mcpServers` is expected; rename the key"));
        }
        None => return Err(unreadable("it has no key `mcpServers`")),
    };
    if servers.len() > MAX_SERVERS {
        return Err(ServersError::Unreadable(format!("it names more than {MAX_SERVERS} servers")));
    }
    let mut entries = Vec::new();
    for (name, value) in servers {
        entries.extend(read_entry(&name, value, variables)?);
    }
    Ok(entries)
}

/// One entry; `None` if it is disabled.
fn read_entry(name: &str, value: Json, variables: &Variables) -> Result<Option<ServerEntry>, ServersError> {
    ServerName::new(name).map_err(|error| ServersError::Name(error.to_string()))?;
    let Json::Object(keys) = value else {
        return Err(wrong(name, "mcpServers", "is not an object for this server"));
    };
    let mut fields: BTreeMap<String, Json> = keys.into_iter().collect();
    match fields.remove("disabled") {
        Some(Json::Bool(true)) => return Ok(None),
        Some(Json::Bool(false) | Json::Null) | None => {}
        Some(_) => return Err(wrong(name, "disabled", "is neither true nor false")),
    }
    let kind = optional_text(name, &mut fields, "type")?;
    let command = optional_text(name, &mut fields, "command")?;
    let url = optional_text(name, &mut fields, "url")?;
    let mut entry = match (kind.as_deref(), command, url) {
        (Some("sse"), _, _) => {
            let why = "is `sse`, the old transport that is not spoken here; use the server's Streamable HTTP address \
                       with the type `http`";
            return Err(wrong(name, "type", why));
        }
        (Some("stdio") | None, Some(command), None) => read_stdio(name, command, &mut fields)?,
        (Some("http" | "streamable-http" | "streamableHttp") | None, None, Some(url)) => {
            let url = read_url(&url).map_err(|why| wrong(name, "url", why))?;
            ServerEntry::checked(name, Reach::Http { url, headers: Vec::new() })?
        }
        (_, Some(_), Some(_)) => {
            return Err(wrong(name, "command", "stands beside `url`; keep one of the two"));
        }
        (Some("stdio"), None, _) => return Err(wrong(name, "command", "is missing for the type `stdio`")),
        (Some("http" | "streamable-http" | "streamableHttp"), _, None) => {
            return Err(wrong(name, "url", "is missing for the type `http`"));
        }
        (None, None, None) => {
            return Err(wrong(name, "command", "is missing, and so is `url`; one of the two is needed"));
        }
        (Some(_), _, _) => return Err(wrong(name, "type", "is none of `stdio` and `http`")),
    };
    for (variable, value) in text_map(name, &mut fields, "env")? {
        let value = expanded(name, "env", &variable, &value, variables)?;
        entry.add_env(&variable, &value)?;
    }
    for (header, value) in text_map(name, &mut fields, "headers")? {
        let value = expanded(name, "headers", &header, &value, variables)?;
        entry.add_header(&header, &value)?;
    }
    read_timeouts(&mut entry, &mut fields)?;
    note_the_rest(&mut entry, &fields);
    Ok(Some(entry))
}

fn read_stdio(
    name: &str,
    command: String,
    fields: &mut BTreeMap<String, Json>,
) -> Result<ServerEntry, ServersError> {
    let args = match fields.remove("args") {
        None | Some(Json::Null) => Vec::new(),
        Some(Json::List(items)) => items
            .into_iter()
            .map(|item| match item {
                Json::Text(text) => Ok(text),
                _ => Err(wrong(name, "args", "holds something that is not text; put it in quotes")),
            })
            .collect::<Result<_, _>>()?,
        Some(_) => return Err(wrong(name, "args", "is not a list of texts")),
    };
    let cwd = optional_text(name, fields, "cwd")?.map(PathBuf::from);
    let expands = |text: &str| text.starts_with("${") && text.ends_with('}');
    let literal = args.iter().any(|arg| expands(arg)) || expands(&command);
    let mut entry = ServerEntry::checked(name, Reach::Stdio { command, args, env: BTreeMap::new(), cwd })?;
    if literal {
        let note = "`${…}` in `command` and `args` is passed as it stands: others can read a command line";
        entry.notes.push(note.to_owned());
    }
    Ok(entry)
}

/// Some clients write seconds, some milliseconds: below 1,000 it is seconds. The note says how it was read.
fn read_timeouts(entry: &mut ServerEntry, fields: &mut BTreeMap<String, Json>) -> Result<(), ServersError> {
    let name = entry.name.to_string();
    let limit_of = |field: &str, value: Json| match value {
        Json::Number(number) => {
            let seconds = if number < 1000.0 { number } else { number / 1000.0 };
            Duration::try_from_secs_f64(seconds).map_err(|_| wrong(&name, field, "is not a length of time"))
        }
        _ => Err(wrong(&name, field, "is not a number of seconds (or, from 1,000 on, milliseconds)")),
    };
    if let Some(value) = fields.remove("timeout").filter(|value| *value != Json::Null) {
        let limit = entry.check_timeout("timeout", limit_of("timeout", value)?)?;
        entry.notes.push(format!("`timeout` is read as {} s", limit.as_secs_f64()));
        entry.timeout = Some(limit);
    }
    match fields.remove("toolTimeouts") {
        None | Some(Json::Null) => {}
        Some(Json::Object(tools)) => {
            for (tool, value) in tools {
                let field = format!("toolTimeouts.{tool}");
                let limit = entry.check_timeout(&field, limit_of(&field, value)?)?;
                entry.tool_timeouts.insert(tool, limit);
            }
        }
        Some(_) => return Err(wrong(&name, "toolTimeouts", "is not an object of tool names and seconds")),
    }
    Ok(())
}

fn note_the_rest(entry: &mut ServerEntry, fields: &BTreeMap<String, Json>) {
    let quoted = |keys: BTreeSet<&String>| {
        keys.into_iter().map(|key| format!("`{}`", key.escape_debug())).collect::<Vec<_>>().join(", ")
    };
    let (loosening, unread): (BTreeSet<_>, BTreeSet<_>) =
        fields.keys().partition(|key| LOOSENING.contains(&key.as_str()));
    if !loosening.is_empty() {
        entry.notes.push(format!("{} is ignored: the rules decide which calls may run", quoted(loosening)));
    }
    if !unread.is_empty() {
        entry.notes.push(format!("{} is not read", quoted(unread)));
    }
}

fn optional_text(
    name: &str,
    fields: &mut BTreeMap<String, Json>,
    field: &str,
) -> Result<Option<String>, ServersError> {
    match fields.remove(field) {
        None | Some(Json::Null) => Ok(None),
        Some(Json::Text(text)) => Ok(Some(text)),
        Some(_) => Err(wrong(name, field, "is not text")),
    }
}

fn text_map(
    name: &str,
    fields: &mut BTreeMap<String, Json>,
    field: &str,
) -> Result<Vec<(String, String)>, ServersError> {
    match fields.remove(field) {
        None | Some(Json::Null) => Ok(Vec::new()),
        Some(Json::Object(pairs)) => pairs
            .into_iter()
            .map(|(key, value)| match value {
                Json::Text(text) => Ok((key, text)),
                _ => Err(wrong(name, &format!("{field}.{key}"), "is not text; put it in quotes")),
            })
            .collect(),
        Some(_) => Err(wrong(name, field, "is not an object of names and texts")),
    }
}

fn expanded(
    name: &str,
    field: &str,
    key: &str,
    value: &str,
    variables: &Variables,
) -> Result<String, ServersError> {
    expand(value, variables).map_err(|why| wrong(name, &format!("{field}.{key}"), why))
}

fn unreadable(why: &str) -> ServersError {
    ServersError::Unreadable(why.to_owned())
}
