//! Events of the trail that belong to no call, or all of them by kind.

use super::super::error::WebError;
use super::super::events::Region;
use super::super::extract::Query;
use super::super::figures::{Moment, took};
use super::super::frame::{Frame, Place};
use super::super::guard::CurrentUser;
use super::super::respond::render;
use super::super::state::WebState;
use super::super::ui::Marked;
use super::timeline::told;
use askama::Template;
use axum::extract::State;
use axum::response::Response;
use serde::Deserialize;
use serde_json::{Map, Value};
use sluicegate_gateway::audit::{AuditRow, EventKind};
use sluicegate_store::{AuditFilter, AuditStart};

const PAGE: u32 = 100;

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Asked {
    kind: String,
    q: String,
    before: Option<i64>,
}

#[derive(Template)]
#[template(path = "audit/events.html")]
struct EventsPage {
    frame: Frame,
    asked: Asked,
    events: Vec<Event>,
    older: Option<String>,
}

impl EventsPage {
    fn kinds() -> &'static [EventKind] {
        EventKind::ALL
    }
}

#[derive(Debug)]
struct Event {
    seq: i64,
    at: Moment,
    day: String,
    kind: Marked,
    actor: Marked,
    facts: Marked,
    call: Option<String>,
    hash: String,
}

pub(super) async fn list(
    State(state): State<WebState>,
    user: CurrentUser,
    asked: Query<Asked>,
) -> Result<Response, WebError> {
    let asked = asked.0;
    let kind = match asked.kind.as_str() {
        "" => None,
        word => Some(EventKind::parse(word).ok_or_else(|| {
            WebError::Invalid("The address asks for a kind of event that does not exist".to_owned())
        })?),
    };
    let text = Some(asked.q.trim().to_owned()).filter(|text| !text.is_empty());
    let start = asked.before.map_or(AuditStart::Latest, AuditStart::Before);
    let page = state.audit.rows(&AuditFilter { kind, text, ..AuditFilter::default() }, start, PAGE).await?;
    let now = state.now_ms();
    let events = page.rows.iter().map(|row| event(row, now)).collect();
    let older = page.next.map(|before| {
        let before = before.to_string();
        super::address("/audit/events", &[("kind", &asked.kind), ("q", &asked.q), ("before", &before)])
    });
    let frame = state.frame(&user, Place::Audit, "Events", Region::Frame).await?;
    Ok(render(&EventsPage { frame, asked, events, older }))
}

fn event(row: &AuditRow, now_ms: i64) -> Event {
    Event {
        seq: row.seq,
        at: Moment::at_ms(row.at_ms),
        day: Moment::day(row.at_ms, now_ms),
        kind: Marked::of(&row.kind),
        actor: Marked::of(&row.actor),
        facts: Marked::of(&said(row)),
        call: row.call.clone(),
        hash: row.hash.clone(),
    }
}

/// What a row says: the events of a call in a sentence, as on its page, and the rest by their facts.
fn said(row: &AuditRow) -> String {
    if row.call.is_none() {
        return facts(&row.facts);
    }
    let named: Value = serde_json::from_str(&row.facts).unwrap_or_default();
    let name = |name: &str| named.get(name).and_then(Value::as_str);
    match (name("server"), name("tool")) {
        (Some(server), Some(tool)) => format!("{server}/{tool}. {}", told(row)),
        _ => told(row),
    }
}

/// The facts of a row as `name: value`, in order.
pub(in crate::web) fn facts(text: &str) -> String {
    let Ok(facts) = serde_json::from_str::<Map<String, Value>>(text) else { return text.to_owned() };
    let words = facts.iter().filter_map(|(name, value)| {
        let value = match value {
            Value::Null => return None,
            Value::String(text) => text.clone(),
            Value::Number(ms) if name == "duration_ms" => took(ms.as_i64().unwrap_or_default()),
            Value::Number(ms) if name == "deadline_ms" => Moment::at_ms(ms.as_i64().unwrap_or_default()).time,
            Value::Array(items) if items.is_empty() => return None,
            Value::Array(items) => items
                .iter()
                .map(|item| item.as_str().map_or_else(|| item.to_string(), str::to_owned))
                .collect::<Vec<_>>()
                .join(", "),
            other => other.to_string(),
        };
        Some(format!("{}: {value}", name.trim_end_matches("_ms").replace('_', " ")))
    });
    words.collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_read_as_a_list() {
        let text = r#"{"added":["a","b"],"removed":[],"tiers_changed":false,"why":null,"duration_ms":1500}"#;
        assert_eq!(facts(text), "added: a, b; duration: 1.5 s; tiers changed: false");
        assert_eq!(facts("no JSON"), "no JSON");
    }
}
