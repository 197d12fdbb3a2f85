//! A conversation to take along: as Markdown to read, or as JSON to work with. Pure but for reading it.

use super::{MOST_ENTRIES, calls, own};
use crate::agent::Entry;
use crate::conversation::{CallResult, Message};
use crate::web::error::WebError;
use crate::web::extract::{Path, Query};
use crate::web::figures::Moment;
use crate::web::guard::CurrentUser;
use crate::web::state::WebState;
use axum::extract::State;
use axum::http::header::{CONTENT_DISPOSITION, CONTENT_TYPE};
use axum::response::{IntoResponse as _, Response};
use serde::Deserialize;
use serde_json::{Value, json};
use sluicegate_gateway::CallId;
use sluicegate_policy::ConversationId;
use sluicegate_store::{CallRow, Conversation};
use std::collections::HashMap;
use std::fmt::Write as _;

#[derive(Debug, Deserialize)]
pub(super) struct Asked {
    #[serde(default)]
    form: String,
}

/// Everything of one's own conversation, replaced versions included.
pub(super) async fn export(
    State(state): State<WebState>,
    user: CurrentUser,
    Path(id): Path<String>,
    Query(asked): Query<Asked>,
) -> Result<Response, WebError> {
    let conversation = own(&state, &user, &id).await?;
    let entries = all(&state, &conversation.id).await?;
    let calls = calls(&state, &conversation.id).await?;
    let (text, kind, ending) = match asked.form.as_str() {
        "" | "markdown" => (markdown(&conversation, &entries, &calls), "text/markdown; charset=utf-8", "md"),
        "json" => {
            let usage = state.conversations.usage_of(&conversation.id).await?;
            let mut value = as_json(&conversation, &entries, &calls);
            if let Some(fields) = value.as_object_mut() {
                let usage =
                    json!({ "input": usage.input, "output": usage.output, "estimated": usage.estimated });
                fields.insert("usage".to_owned(), usage);
            }
            (format!("{value:#}\n"), "application/json", "json")
        }
        _ => return Err(WebError::Invalid("A conversation can be taken as markdown or json".to_owned())),
    };
    let name = format!("attachment; filename=\"conversation-{}.{ending}\"", conversation.id);
    Ok(([(CONTENT_TYPE, kind.to_owned()), (CONTENT_DISPOSITION, name)], text).into_response())
}

async fn all(state: &WebState, id: &ConversationId) -> Result<Vec<(i64, i64, Entry)>, WebError> {
    let (mut entries, mut after) = (Vec::with_capacity(MOST_ENTRIES), 0);
    loop {
        let page = state.conversations.messages(id, after, 500).await?;
        for message in page.rows {
            let entry = crate::agent::read_entry(message.position, &message.body)?;
            entries.push((message.position, message.at_ms, entry));
        }
        match page.next {
            Some(next) => after = next,
            None => return Ok(entries),
        }
    }
}

fn as_json(
    conversation: &Conversation,
    entries: &[(i64, i64, Entry)],
    calls: &HashMap<CallId, CallRow>,
) -> Value {
    let mut rows: Vec<&CallRow> = calls.values().collect();
    rows.sort_by_key(|call| call.requested_seq);
    json!({
        "conversation": conversation.id.as_str(),
        "title": conversation.title,
        "provider": conversation.provider,
        "model": conversation.model,
        "created": Moment::at_ms(conversation.created_ms).iso,
        "updated": Moment::at_ms(conversation.updated_ms).iso,
        "entries": entries.iter().map(|(position, at_ms, entry)| json!({
            "position": position, "at": Moment::at_ms(*at_ms).iso, "entry": entry,
        })).collect::<Vec<_>>(),
        "calls": rows.iter().map(|call| json!({
            "call": call.id.to_string(),
            "server": call.server,
            "tool": call.tool,
            "state": call.state.as_str(),
            "decision": call.decision.as_str(),
            "code": call.code.map(|code| code.as_str()),
            "why": call.sentence,
            "arguments": call.arguments,
            "requested": Moment::at_ms(call.requested_ms).iso,
        })).collect::<Vec<_>>(),
    })
}

fn markdown(
    conversation: &Conversation,
    entries: &[(i64, i64, Entry)],
    calls: &HashMap<CallId, CallRow>,
) -> String {
    let begun = Moment::at_ms(conversation.created_ms);
    let mut text = format!(
        "# {}\n\nConversation {}, begun on {}, {}. Model: {}.\n",
        one_line(&conversation.title),
        conversation.id,
        begun.date,
        begun.time,
        one_line(&conversation.model)
    );
    let ids: HashMap<&str, CallId> = entries
        .iter()
        .filter_map(|(.., entry)| match entry {
            Entry::Proposed { key, call } => Some((key.as_str(), *call)),
            _ => None,
        })
        .collect();
    for (_, at_ms, entry) in entries {
        let at = Moment::at_ms(*at_ms).time;
        let piece = match entry {
            Entry::Said(Message::User { text }) => format!("## You, {at}\n\n{text}\n"),
            Entry::Said(Message::Model(turn)) => {
                let mut piece = format!("## Agent, {at}\n");
                if !turn.text.trim().is_empty() {
                    piece.push_str(&format!("\n{}\n", turn.text.trim_end()));
                }
                for call in &turn.calls {
                    let row = ids.get(call.key.as_str()).and_then(|id| calls.get(id));
                    let name =
                        row.map_or_else(|| call.name.clone(), |row| format!("{}/{}", row.server, row.tool));
                    let state = row.map_or("not run", |row| row.state.as_str());
                    let why = row.map(|row| one_line(&row.sentence)).unwrap_or_default();
                    piece.push_str(&format!("\n**Call {}**: {state}. {why}\n", one_line(&name)));
                    if let Some(arguments) =
                        row.and_then(|row| row.arguments.as_deref()).or(call.arguments.as_deref())
                    {
                        piece.push_str(&fenced("json", arguments));
                    }
                }
                piece
            }
            Entry::Said(Message::ToolResults { results }) => results.iter().map(result).collect(),
            Entry::Note(note) => format!("> {}\n", one_line(&note.text)),
            Entry::Replaced { from } => {
                format!("> What was said from entry {from} on is replaced by what follows.\n")
            }
            Entry::Proposed { .. } => continue,
        };
        // Writing into a text cannot fail.
        write!(text, "\n{piece}").ok();
    }
    text
}

fn result(result: &CallResult) -> String {
    let output = match &result.output {
        Value::String(text) => text.clone(),
        other => format!("{other:#}"),
    };
    let word = if result.is_error { "The agent was told" } else { "Result" };
    format!("{word}, {}:\n{}", one_line(&result.name), fenced("", &output))
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// A block of code whose fence is longer than any run of backticks in it, so that nothing in it ends it.
fn fenced(language: &str, text: &str) -> String {
    let (mut longest, mut run) = (0_usize, 0_usize);
    for c in text.chars() {
        run = if c == '`' { run.saturating_add(1) } else { 0 };
        longest = longest.max(run);
    }
    let fence = "`".repeat(longest.saturating_add(1).max(3));
    format!("\n{fence}{language}\n{}\n{fence}\n", text.trim_end_matches('\n'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_in_a_block_of_code_ends_it() {
        assert_eq!(fenced("json", "{}"), "\n```json\n{}\n```\n");
        assert_eq!(fenced("", "a\n````\nb"), "\n`````\na\n````\nb\n`````\n");
        assert_eq!(one_line(" a\n# b "), "a # b");
    }
}
