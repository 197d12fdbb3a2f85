//! What a conversation's transcript holds, how it is put in order after a restart, and what of it a model reads.
//! Pure.

use crate::agent::result::{self, BrokenBy};
use crate::conversation::{Message, ModelCall};
use serde::{Deserialize, Serialize};
use sluicegate_gateway::{CallId, CallState};
use std::collections::BTreeMap;

/// One entry of a transcript, as stored. Entries are appended and never changed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Entry {
    /// Something said: by the person, by the model, or the results of its calls.
    Said(Message),
    /// A call of the model turn before was proposed to the gate, which gave it this id.
    Proposed {
        /// The [`ModelCall::key`].
        key: String,
        /// The gate's id: its card shows how the call stands.
        call: CallId,
    },
    /// A line of our own.
    Note(Note),
    /// The person says something again, in the same words or in others: what stands from this position on, up to here, is
    /// no longer part of the conversation. What its calls did stands in the trail.
    Replaced {
        /// The position of the message that is said again.
        from: i64,
    },
}

/// A line of our own in a transcript.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Note {
    /// What it is about.
    pub kind: NoteKind,
    /// The line. May hold a model's or provider's text: escape it.
    pub text: String,
}

/// What a note is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NoteKind {
    /// A call of the model was cut off and not run; the model is told and asked again.
    CallCutOff,
    /// The model could not answer.
    ModelFailed,
    /// A token budget is used up.
    BudgetReached,
    /// The turn came to the limit of steps.
    StepLimit,
    /// The model kept asking for what was denied.
    RepeatedDenial,
    /// Stop was pressed.
    Stopped,
    /// The product restarted in the middle of the turn.
    Restarted,
    /// The store could not be read or written.
    StoreFailed,
}

impl NoteKind {
    /// The word used in pages.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::CallCutOff => "call_cut_off",
            Self::ModelFailed => "model_failed",
            Self::BudgetReached => "budget_reached",
            Self::StepLimit => "step_limit",
            Self::RepeatedDenial => "repeated_denial",
            Self::Stopped => "stopped",
            Self::Restarted => "restarted",
            Self::StoreFailed => "store_failed",
        }
    }

    /// Whether the turn is over with it.
    #[must_use]
    pub fn ends_turn(self) -> bool {
        self != Self::CallCutOff
    }
}

impl Entry {
    /// A note.
    pub(crate) fn note(kind: NoteKind, text: impl Into<String>) -> Self {
        Self::Note(Note { kind, text: text.into() })
    }
}

/// What a model reads of a transcript, which begins at position 1. A cut-off call is told to it in the person's place,
/// said to be from us; what was replaced is left out.
#[must_use]
pub fn history(entries: &[Entry]) -> Vec<Message> {
    standing(entries).into_iter().filter_map(|(_, entry)| as_message(entry)).collect()
}

/// The entries that were not replaced, with their positions.
fn standing(entries: &[Entry]) -> Vec<(i64, &Entry)> {
    let mut standing = Vec::with_capacity(entries.len());
    for (position, entry) in (1_i64..).zip(entries) {
        match entry {
            Entry::Replaced { from } => standing.retain(|(at, _)| at < from),
            entry => standing.push((position, entry)),
        }
    }
    standing
}

/// Whether a message of the person stands at this position and was not replaced: then it can be said again.
#[must_use]
pub fn can_be_replaced(entries: &[Entry], position: i64) -> bool {
    standing(entries)
        .iter()
        .any(|(at, entry)| *at == position && matches!(entry, Entry::Said(Message::User { .. })))
}

/// The message that an entry is to a model, if it is one.
pub(crate) fn as_message(entry: &Entry) -> Option<Message> {
    match entry {
        Entry::Said(message) => Some(message.clone()),
        Entry::Note(Note { kind: NoteKind::CallCutOff, text }) => {
            Some(Message::User { text: format!("[Notice from Sluicegate, not from the person: {text}]") })
        }
        Entry::Note(_) | Entry::Proposed { .. } | Entry::Replaced { .. } => None,
    }
}

/// The gate's ids of the calls in a transcript, by [`ModelCall::key`].
#[must_use]
pub fn call_ids<'a>(entries: impl IntoIterator<Item = &'a Entry>) -> BTreeMap<String, CallId> {
    entries
        .into_iter()
        .filter_map(|entry| match entry {
            Entry::Proposed { key, call } => Some((key.clone(), *call)),
            Entry::Said(_) | Entry::Note(_) | Entry::Replaced { .. } => None,
        })
        .collect()
}

/// Whether the last turn came to an end. A transcript without a turn has none open.
#[must_use]
pub fn turn_is_over(entries: &[Entry]) -> bool {
    match entries.last() {
        None | Some(Entry::Replaced { .. }) => true,
        Some(Entry::Note(note)) => note.kind.ends_turn(),
        // A partial answer is followed by the note that says why; without it the process died in between.
        Some(Entry::Said(Message::Model(turn))) => {
            turn.calls.is_empty() && turn.ending == crate::conversation::Ending::Stop
        }
        Some(Entry::Said(Message::User { .. } | Message::ToolResults { .. }) | Entry::Proposed { .. }) => {
            false
        }
    }
}

/// The calls of the last model turn, if they have no results yet.
#[must_use]
pub fn open_calls(entries: &[Entry]) -> &[ModelCall] {
    let last = entries.iter().rev().find_map(|entry| match entry {
        Entry::Said(message) => Some(message),
        Entry::Proposed { .. } | Entry::Note(_) | Entry::Replaced { .. } => None,
    });
    match last {
        Some(Message::Model(turn)) => &turn.calls,
        Some(Message::User { .. } | Message::ToolResults { .. }) | None => &[],
    }
}

/// What must be appended before anything else can be said, when a turn broke off: a result for each open call, and a
/// line that says so. Nothing if the last turn is over.
///
/// `states` tells how the open calls stand now, for those that the gate knows.
#[must_use]
pub fn repair(entries: &[Entry], by: BrokenBy, states: &BTreeMap<CallId, CallState>) -> Vec<Entry> {
    let open = open_calls(entries);
    let mut missing = Vec::new();
    if !open.is_empty() {
        let ids = call_ids(entries);
        let state = |call: &ModelCall| ids.get(&call.key).and_then(|id| states.get(id)).copied();
        let results = open.iter().map(|call| result::broken_off(call, by, state(call))).collect();
        missing.push(Entry::Said(Message::ToolResults { results }));
    }
    if !open.is_empty() || !turn_is_over(entries) {
        let when = match open.len() {
            0 => "before this was answered".to_owned(),
            1 => "while a call was open".to_owned(),
            many => format!("while {many} calls were open"),
        };
        let (kind, who) = match by {
            BrokenBy::Restart => (NoteKind::Restarted, "The product restarted"),
            BrokenBy::Store => (NoteKind::StoreFailed, "The store failed"),
        };
        missing.push(Entry::note(
            kind,
            format!("{who} {when}, so the turn broke off. Send a message to go on."),
        ));
    }
    missing
}

/// The newest part of a history that fits `most_bytes`, in whole turns: it begins with a message of the person, so
/// no call is parted from its result. The newest turn is kept however long it is.
#[must_use]
pub fn window(history: &[Message], most_bytes: usize) -> &[Message] {
    let mut bytes = 0_usize;
    let mut from = None;
    for (at, message) in history.iter().enumerate().rev() {
        bytes = bytes.saturating_add(size(message));
        if bytes > most_bytes && from.is_some() {
            break;
        }
        if matches!(message, Message::User { .. }) {
            from = Some(at);
        }
    }
    history.get(from.unwrap_or(0)..).unwrap_or(history)
}

fn size(message: &Message) -> usize {
    match message {
        Message::User { text } => text.len(),
        Message::Model(turn) => {
            let calls: usize = turn
                .calls
                .iter()
                .map(|call| call.name.len() + call.arguments.as_deref().map_or(0, str::len))
                .sum();
            turn.provider.as_ref().map_or(turn.text.len() + calls, |provider| provider.raw.len())
        }
        Message::ToolResults { results } => {
            results.iter().map(|result| result.name.len() + result.output.to_string().len()).sum()
        }
    }
}

#[cfg(test)]
mod tests;
