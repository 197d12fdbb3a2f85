//! A conversation as it is shown: the stored entries, how their calls stand, and the turn that runs. Pure.

use crate::agent::{Entry, Note, NoteKind, TurnView};
use crate::conversation::{CallResult, Message, ModelCall, ModelTurn};
use crate::web::approvals::card::Card;
use crate::web::figures;
use crate::web::markdown::Markdown;
use crate::web::ui::{Icon, Marked, Risk, Tone, ToolName, call_state, components, sentence};
use askama::Template;
use sluicegate_gateway::{CallId, CallState, ReasonCode};
use sluicegate_policy::ConversationId;
use sluicegate_store::CallRow;
use std::collections::{BTreeMap, HashMap};

/// Characters of arguments and results that the transcript shows; the call's own page has all.
const MOST_SHOWN: usize = 4_000;
/// Characters of a replaced message that its line shows.
const MOST_BEGINNING: usize = 60;

/// What belongs to one message of the person: the unit that a live page replaces.
#[derive(Clone, Debug, Template)]
#[template(path = "agent/group.html")]
pub(crate) struct Group {
    /// Its element's id.
    pub(crate) id: String,
    items: Vec<Item>,
    /// What of it can be said again.
    again: Option<Again>,
    /// The beginning of its message, if another took its place.
    replaced: Option<String>,
}

/// A message of the person, to be said again.
#[derive(Clone, Debug)]
struct Again {
    conversation: String,
    position: i64,
    text: String,
    /// It is the latest one, so that the same words can be sent once more.
    last: bool,
}

#[derive(Clone, Debug)]
enum Item {
    User(Vec<String>),
    Model { said: Markdown, thinking: Option<String> },
    Calls(Vec<CallLine>),
    Note { tone: Tone, icon: Icon, text: String },
    Streaming { text: String, thinking: String, waiting: Option<String> },
}

/// One call in the transcript.
#[derive(Clone, Debug, Template)]
#[template(path = "agent/call.html")]
pub(crate) struct CallLine {
    /// Its element's id.
    id: String,
    call: Option<CallId>,
    state: CallState,
    tone: Tone,
    icon: Icon,
    word: &'static str,
    tool: ToolName,
    risk: Option<Risk>,
    took: Option<String>,
    why: String,
    flags: Vec<String>,
    arguments: Option<Excerpt>,
    result: Option<Excerpt>,
    failed: bool,
    card: Option<Card>,
}

components!(Group, CallLine);

/// The beginning of a long text.
#[derive(Clone, Debug)]
struct Excerpt {
    text: Marked,
    left_out: Option<String>,
}

impl Excerpt {
    fn of(text: &str) -> Self {
        let count = text.chars().count();
        let left_out = (count > MOST_SHOWN)
            .then(|| figures::grouped(u64::try_from(count.saturating_sub(MOST_SHOWN)).unwrap_or(u64::MAX)));
        Self { text: Marked::code(&text.chars().take(MOST_SHOWN).collect::<String>()), left_out }
    }
}

/// What a transcript is made of.
#[derive(Debug)]
pub(crate) struct Sources<'a> {
    /// The stored entries with their positions, oldest first.
    pub(crate) entries: &'a [(i64, Entry)],
    /// The conversation's calls.
    pub(crate) calls: &'a HashMap<CallId, CallRow>,
    /// Cards of the calls that are held.
    pub(crate) cards: &'a HashMap<CallId, Card>,
    /// The turn that runs, if one does.
    pub(crate) turn: Option<&'a TurnView>,
    /// The conversation, for those who may say something again in it.
    pub(crate) again: Option<&'a ConversationId>,
}

/// Puts a transcript together.
pub(crate) fn groups(sources: &Sources<'_>) -> Vec<Group> {
    let ids: BTreeMap<&str, CallId> = sources
        .entries
        .iter()
        .filter_map(|(_, entry)| match entry {
            Entry::Proposed { key, call } => Some((key.as_str(), *call)),
            Entry::Said(_) | Entry::Note(_) | Entry::Replaced { .. } => None,
        })
        .collect();
    let results: HashMap<&str, &CallResult> = sources
        .entries
        .iter()
        .filter_map(|(_, entry)| match entry {
            Entry::Said(Message::ToolResults { results }) => Some(results),
            Entry::Said(_) | Entry::Proposed { .. } | Entry::Note(_) | Entry::Replaced { .. } => None,
        })
        .flatten()
        .map(|result| (result.key.as_str(), result))
        .collect();
    let mut groups: Vec<Group> = Vec::new();
    // The positions at which they begin.
    let mut places: Vec<i64> = Vec::new();
    for (position, entry) in sources.entries {
        let items = match entry {
            Entry::Said(Message::User { text }) => {
                let again = sources.again.map(|conversation| Again {
                    conversation: conversation.to_string(),
                    position: *position,
                    text: text.clone(),
                    last: false,
                });
                let items = vec![Item::User(paragraphs(text))];
                groups.push(Group { id: format!("turn-{position}"), items, again, replaced: None });
                places.push(*position);
                continue;
            }
            Entry::Said(Message::Model(turn)) => model(*position, turn, sources, &ids, &results),
            Entry::Note(note) => vec![line(note)],
            Entry::Replaced { from } => {
                let later = groups.iter_mut().zip(&places).filter(|(_, place)| *place >= from);
                for (group, _) in later {
                    group.replaced.get_or_insert_with(|| beginning(&group.items));
                    group.again = None;
                }
                continue;
            }
            Entry::Said(Message::ToolResults { .. }) | Entry::Proposed { .. } => continue,
        };
        match groups.last_mut() {
            Some(group) => group.items.extend(items),
            // The transcript was cut in the middle of a turn.
            None => {
                groups.push(Group { id: format!("turn-{position}"), items, again: None, replaced: None });
                places.push(*position);
            }
        }
    }
    if let Some(again) = groups.last_mut().and_then(|group| group.again.as_mut()) {
        again.last = true;
    }
    if let (Some(turn), Some(group)) = (sources.turn, groups.last_mut()) {
        let quiet = turn.text_so_far.is_empty() && turn.thinking_so_far.is_empty() && turn.waiting.is_none();
        if !quiet || turn.calls.is_empty() {
            group.items.push(Item::Streaming {
                text: turn.text_so_far.clone(),
                thinking: turn.thinking_so_far.clone(),
                waiting: turn.waiting.clone(),
            });
        }
    }
    groups
}

fn model(
    position: i64,
    turn: &ModelTurn,
    sources: &Sources<'_>,
    ids: &BTreeMap<&str, CallId>,
    results: &HashMap<&str, &CallResult>,
) -> Vec<Item> {
    let mut items = Vec::new();
    let thinking = (!turn.thinking.trim().is_empty()).then(|| turn.thinking.trim().to_owned());
    let said = Markdown::of(&turn.text);
    if !said.is_empty() || thinking.is_some() {
        items.push(Item::Model { said, thinking });
    }
    if !turn.calls.is_empty() {
        let lines = turn.calls.iter().enumerate().map(|(at, call)| {
            let id = ids.get(call.key.as_str()).copied();
            let row = id.and_then(|id| sources.calls.get(&id));
            let card = id.and_then(|id| sources.cards.get(&id));
            let place = id.map_or_else(|| format!("call-{position}-{at}"), |id| format!("call-{id}"));
            CallLine::new(place, call, id, row, results.get(call.key.as_str()).copied(), card.cloned())
        });
        items.push(Item::Calls(lines.collect()));
    }
    items
}

impl CallLine {
    fn new(
        place: String,
        asked: &ModelCall,
        call: Option<CallId>,
        row: Option<&CallRow>,
        result: Option<&CallResult>,
        card: Option<Card>,
    ) -> Self {
        let state = match (row, result) {
            (Some(row), _) => row.state,
            (None, None) => CallState::Proposed,
            // Never proposed: the turn was stopped or ended before.
            (None, Some(result)) if result.is_error => CallState::Withdrawn,
            (None, Some(_)) => CallState::Completed,
        };
        let (tone, mut icon, mut word) = call_state(state);
        if let (CallState::Denied, Some(code)) = (state, row.and_then(|row| row.code)) {
            (icon, word) = denied(code);
        }
        if row.is_none() && state == CallState::Withdrawn {
            word = "Not run";
        }
        let arguments = row.and_then(|row| row.arguments.as_deref()).or(asked.arguments.as_deref());
        let took = row.and_then(|row| {
            let from = row.started_ms.unwrap_or(row.requested_ms);
            row.ended_ms.map(|end| figures::took(end.saturating_sub(from)))
        });
        Self {
            id: place,
            call,
            state,
            tone,
            icon,
            word,
            tool: row
                .map_or_else(|| ToolName::new("", &asked.name), |row| ToolName::new(&row.server, &row.tool)),
            risk: row.and_then(|row| row.tier).map(Risk),
            took,
            why: row.map(|row| sentence(&row.sentence)).unwrap_or_default(),
            flags: row.map(|row| row.flags.clone()).unwrap_or_default(),
            arguments: arguments.map(|text| Excerpt::of(&pretty(text))),
            result: result.map(|result| match &result.output {
                serde_json::Value::String(text) => Excerpt::of(text),
                other => Excerpt::of(&format!("{other:#}")),
            }),
            failed: result.is_some_and(|result| result.is_error),
            card: card.filter(|_| state == CallState::Pending),
        }
    }

    /// Whether it says anything beyond its line.
    fn has_body(&self) -> bool {
        self.arguments.is_some() || self.result.is_some()
    }
}

/// Icon and word of a call that did not run, by its reason.
fn denied(code: ReasonCode) -> (Icon, &'static str) {
    match code {
        ReasonCode::NoRule => (Icon("lock"), "Denied by default"),
        ReasonCode::DeniedByPerson => (Icon("deny"), "Denied by a person"),
        ReasonCode::RepeatedDenial => (Icon("deny"), "Denied again"),
        ReasonCode::OverBudget => (Icon("deny"), "Over budget"),
        ReasonCode::OverRate => (Icon("deny"), "Over the rate"),
        ReasonCode::UnknownTool => (Icon("fail"), "No such tool"),
        ReasonCode::InvalidArguments => (Icon("fail"), "Invalid arguments"),
        ReasonCode::ToolChanged => (Icon("fail"), "Tool changed"),
        ReasonCode::Orphaned => (Icon("x"), "Not run, restarted"),
        ReasonCode::PolicyUnreadable | ReasonCode::PolicyFailed | ReasonCode::StoreUnavailable => {
            (Icon("lock"), "Denied, gate closed")
        }
        ReasonCode::UpstreamUnavailable => (Icon("fail"), "Server unavailable"),
        ReasonCode::Rule | ReasonCode::Unevaluable => (Icon("deny"), "Denied by rule"),
        ReasonCode::Expired
        | ReasonCode::Withdrawn
        | ReasonCode::InsufficientApproval
        | ReasonCode::TimedOut
        | ReasonCode::OutcomeLost
        | ReasonCode::ToolError => (Icon("deny"), "Denied"),
    }
}

fn line(note: &Note) -> Item {
    let (tone, icon) = match note.kind {
        NoteKind::ModelFailed | NoteKind::StoreFailed => (Tone::Deny, Icon("fail")),
        NoteKind::BudgetReached | NoteKind::StepLimit | NoteKind::RepeatedDenial => {
            (Tone::Hold, Icon("fail"))
        }
        NoteKind::CallCutOff | NoteKind::Restarted => (Tone::Neutral, Icon("info")),
        NoteKind::Stopped => (Tone::Neutral, Icon("stop")),
    };
    Item::Note { tone, icon, text: note.text.clone() }
}

/// The beginning of a message, for the line that stands for it.
fn beginning(items: &[Item]) -> String {
    let text = items.iter().find_map(|item| match item {
        Item::User(paragraphs) => paragraphs.first(),
        _ => None,
    });
    let text = text.map(String::as_str).unwrap_or_default();
    let head: String = text.chars().take(MOST_BEGINNING).collect();
    if head.len() < text.len() { format!("{}…", head.trim_end()) } else { head }
}

/// Text in paragraphs; what was written in lines stays in lines.
fn paragraphs(text: &str) -> Vec<String> {
    let text = text.replace("\r\n", "\n").replace('\r', "\n");
    text.split("\n\n")
        .map(|part| part.trim_matches('\n').trim_end().to_owned())
        .filter(|part| !part.is_empty())
        .collect()
}

/// JSON on several lines; anything else as it is.
fn pretty(text: &str) -> String {
    match serde_json::from_str::<serde_json::Value>(text) {
        Ok(value) => format!("{value:#}"),
        Err(_) => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conversation::Ending;

    fn said(text: &str) -> Entry {
        Entry::Said(Message::User { text: text.to_owned() })
    }

    fn model_turn(text: &str, calls: &[&str]) -> Entry {
        Entry::Said(Message::Model(ModelTurn {
            text: text.to_owned(),
            thinking: String::new(),
            calls: calls
                .iter()
                .map(|key| ModelCall {
                    key: (*key).to_owned(),
                    provider_id: None,
                    name: format!("tool_{key}"),
                    arguments: Some("{\"a\":1}".to_owned()),
                })
                .collect(),
            ending: if calls.is_empty() { Ending::Stop } else { Ending::ToolCalls },
            provider: None,
        }))
    }

    fn html(entries: Vec<Entry>, turn: Option<&TurnView>) -> Vec<String> {
        let entries: Vec<(i64, Entry)> = (1..).zip(entries).collect();
        let conversation = ConversationId::new("c-1").unwrap();
        let sources = Sources {
            entries: &entries,
            calls: &HashMap::new(),
            cards: &HashMap::new(),
            turn,
            again: Some(&conversation),
        };
        groups(&sources).iter().map(|group| group.render().unwrap()).collect()
    }

    #[test]
    fn a_turn_is_one_group_from_the_persons_message_on() {
        let result = |key: &str| CallResult {
            key: key.to_owned(),
            name: format!("tool_{key}"),
            output: serde_json::Value::from("fine"),
            is_error: false,
        };
        let entries = vec![
            said("one"),
            model_turn("looking", &["a", "b"]),
            Entry::Said(Message::ToolResults { results: vec![result("a"), result("b")] }),
            model_turn("done", &[]),
            said("two"),
        ];
        let groups = html(entries, None);
        assert_eq!(groups.len(), 2);
        assert!(groups[0].contains("id=\"turn-1\"") && groups[1].contains("id=\"turn-5\""));
        assert_eq!(groups[0].matches("data-state=\"completed\"").count(), 2, "{}", groups[0]);
        assert!(!groups[0].contains("aria-busy"));
    }

    #[test]
    fn a_running_turn_shows_the_text_so_far_in_its_group() {
        let turn = TurnView { text_so_far: "so <b>far".to_owned(), ..TurnView::default() };
        let groups = html(vec![said("one"), model_turn("first", &[]), said("two")], Some(&turn));
        assert!(!groups[0].contains("stream-text"));
        assert!(
            groups[1].contains("so &#60;b&#62;far") && groups[1].contains("aria-busy=\"true\""),
            "{}",
            groups[1]
        );
    }

    /// F35: whatever people, models and tools write is text.
    #[test]
    fn f35_hostile_text_is_text_in_every_place() {
        let hostile =
            r#"</p><script>alert(1)</script><img src=x onerror=alert(1)> hx-get="/x" [a](javascript:x)"#;
        let mut call = model_turn(hostile, &["a"]);
        if let Entry::Said(Message::Model(turn)) = &mut call {
            turn.thinking = hostile.to_owned();
            turn.calls[0].name = hostile.to_owned();
            turn.calls[0].arguments = Some(serde_json::json!({ hostile: hostile }).to_string());
        }
        let result =
            CallResult { key: "a".to_owned(), name: String::new(), output: hostile.into(), is_error: true };
        let entries = vec![
            said(hostile),
            call,
            Entry::Said(Message::ToolResults { results: vec![result] }),
            Entry::Note(Note { kind: NoteKind::ModelFailed, text: hostile.to_owned() }),
        ];
        let turn = TurnView {
            text_so_far: hostile.to_owned(),
            thinking_so_far: hostile.to_owned(),
            waiting: Some(hostile.to_owned()),
            ..TurnView::default()
        };
        let html = html(entries, Some(&turn)).concat();
        assert!(
            !html.contains("<script") && !html.contains("<img") && !html.contains("hx-get=\"/x\""),
            "{html}"
        );
        // The person's message stands there twice more, to be said again.
        assert_eq!(html.matches("&#60;script").count(), 13, "{html}");
    }

    #[test]
    fn what_was_said_again_folds_what_was_said_first() {
        let entries = vec![
            said("one"),
            model_turn("**1**", &[]),
            said("two"),
            model_turn("2", &[]),
            Entry::Replaced { from: 3 },
            said("two <b>better"),
        ];
        let groups = html(entries, None);
        assert_eq!(groups.len(), 3);
        assert!(groups[0].contains("<strong>1</strong>") && !groups[0].contains("Replaced"), "{}", groups[0]);
        assert!(groups[1].contains("Replaced") && !groups[1].contains("instead_of"), "{}", groups[1]);
        assert!(groups[2].contains("name=\"instead_of\" value=\"6\""), "{}", groups[2]);
        assert!(groups[2].contains("Try again") && !groups[0].contains("Try again"), "only the last");
        assert!(
            groups[0].contains("name=\"instead_of\" value=\"1\""),
            "every one that stands can be changed"
        );
    }

    #[test]
    fn paragraphs_keep_lines_and_drop_blanks() {
        assert_eq!(paragraphs("a\r\nb\n\n\n\nc\n"), ["a\nb", "c"]);
        assert!(paragraphs("\n\n").is_empty());
    }
}
