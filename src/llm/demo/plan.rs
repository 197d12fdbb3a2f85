//! The next step, from the transcript alone: nothing is remembered between steps, so a step after a restart is the
//! step that would have come anyway. Pure.

use super::intent::{Intent, Understood, understand};
use super::results::{self, Found};
use super::say;
use super::tools::{self, LIST_DEVICES, LIST_REMINDERS, Proposed, Tool};
use crate::conversation::{CallResult, Message, paired};
use crate::llm::ToolDeclaration;
use serde_json::Value;

/// From this number of requests on several are asked for in one step, so that they fit the steps of a turn.
const MANY: usize = 7;
const AT_ONCE: usize = 4;

/// What the demo model says and asks for.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Step {
    /// The text; never empty.
    pub(super) text: String,
    /// The calls; none ends the turn.
    pub(super) calls: Vec<Proposed>,
}

/// The step that answers the transcript.
pub(super) fn step(history: &[Message], tools: &[ToolDeclaration]) -> Step {
    let Some((message, since)) = last_request(history) else {
        return Step { text: say::HELP.to_owned(), calls: Vec::new() };
    };
    let Understood { intents, rest } = understand(message);
    let first = !since.iter().any(|message| matches!(message, Message::Model(_)));
    let mut turn = Turn { tools, past: past(since) };
    let stands: Vec<(&Intent, Stand)> = intents.iter().map(|intent| (intent, turn.stand(intent))).collect();

    let mut sentences = Vec::new();
    let mut asked: Vec<(&Intent, Proposed)> = Vec::new();
    let at_once = if intents.len() < MANY { 1 } else { AT_ONCE };
    let mut open = true;
    for (intent, stand) in stands {
        match stand {
            Stand::NotOffered(tool) if first => sentences.push(say::not_offered(intent, &tool.label())),
            Stand::Ended { sentence, fresh: true } => sentences.push(sentence),
            Stand::NotOffered(_) | Stand::Ended { .. } => {}
            Stand::Next(call) => {
                open &= asked.len() < at_once && asked.iter().all(|(other, _)| independent(other, intent));
                if open {
                    asked.push((intent, call));
                }
            }
        }
    }
    let mut calls: Vec<Proposed> = Vec::new();
    for (intent, call) in asked {
        if !calls.contains(&call) {
            sentences.push(plan(intent, &call));
            calls.push(call);
        }
    }
    if calls.is_empty() {
        if !rest.is_empty() {
            sentences.push(format!("I did not understand “{}”.", rest.join("”, “")));
        }
        if sentences.is_empty() && !intents.is_empty() {
            sentences.push("That is all.".to_owned());
        }
        if intents.is_empty() || !rest.is_empty() {
            sentences.push(say::HELP.to_owned());
        }
    }
    Step { text: sentences.join(" "), calls }
}

fn plan(intent: &Intent, call: &Proposed) -> String {
    let looks_up = call.arguments.as_object().is_some_and(serde_json::Map::is_empty);
    match intent {
        Intent::DeleteReminder { .. } if looks_up => "I will look up the reminders first.".to_owned(),
        Intent::SwitchDevice { .. } if looks_up => "I will look up the devices first.".to_owned(),
        _ => say::plan(intent),
    }
}

/// The person's last message, and what came after it.
fn last_request(history: &[Message]) -> Option<(&str, &[Message])> {
    let at = history.iter().rposition(|message| matches!(message, Message::User { .. }))?;
    match history.get(at) {
        Some(Message::User { text }) => Some((text, history.get(at + 1..)?)),
        _ => None,
    }
}

/// A call that was asked for in this turn.
struct Past<'a> {
    call: Proposed,
    result: Option<&'a CallResult>,
    /// It belongs to the last step, so its result has not been told.
    fresh: bool,
    used: bool,
}

fn past(since: &[Message]) -> Vec<Past<'_>> {
    let last = since.iter().rposition(|message| matches!(message, Message::Model(_)));
    let mut past = Vec::new();
    for (at, message) in since.iter().enumerate() {
        let Message::Model(turn) = message else { continue };
        past.extend(paired(&turn.calls, since.get(at + 1)).into_iter().map(|(call, result)| {
            Past {
                call: Proposed {
                    name: call.name.clone(),
                    arguments: call
                        .arguments
                        .as_deref()
                        .and_then(|text| serde_json::from_str(text).ok())
                        .unwrap_or_default(),
                },
                result,
                fresh: last == Some(at),
                used: false,
            }
        }));
    }
    past
}

/// How a request stands.
enum Stand {
    /// Its tool is not there.
    NotOffered(Tool),
    /// This is to be asked for next.
    Next(Proposed),
    /// It is done, or cannot be done.
    Ended { sentence: String, fresh: bool },
}

struct Turn<'a> {
    tools: &'a [ToolDeclaration],
    past: Vec<Past<'a>>,
}

impl Turn<'_> {
    /// How a request stands. Requests are to be looked at in order: each takes the calls that were made for it.
    fn stand(&mut self, intent: &Intent) -> Stand {
        let tool = Tool::of(intent);
        let Some(declared) = tool.declared(self.tools) else { return Stand::NotOffered(tool) };
        let call = match intent {
            Intent::DeleteReminder { which } => match self.look_up(LIST_REMINDERS, which, false) {
                Ok((target, _)) => tools::call(declared, intent, target.as_ref()),
                Err(stand) => return stand,
            },
            Intent::SwitchDevice { device: name, .. }
            | Intent::LockDoor { door: name }
            | Intent::UnlockDoor { door: name }
                if tools::takes_arguments(declared) =>
            {
                match self.look_up(LIST_DEVICES, name, true) {
                    Ok((target, _)) => tools::call(declared, intent, target.as_ref()),
                    Err(stand) => return stand,
                }
            }
            _ => tools::call(declared, intent, None),
        };
        match self.take(&call) {
            Some((result, fresh)) => Stand::Ended { sentence: say::result(intent, result), fresh },
            None => Stand::Next(call),
        }
    }

    /// The id of what is meant, from the list that a tool gives. Without that tool there is none to be had. Reminders
    /// come and go within a turn, so each request looks for itself; devices do not.
    fn look_up(&mut self, tool: Tool, meant: &str, shared: bool) -> Result<(Option<Value>, bool), Stand> {
        let Some(declared) = tool.declared(self.tools) else { return Ok((None, false)) };
        let call = tools::bare(declared);
        let looked = match self.take(&call) {
            Some(looked) => Some(looked),
            None if shared => {
                self.past.iter().rev().find(|past| past.call == call).map(|past| (past.result, past.fresh))
            }
            None => None,
        };
        let Some((result, fresh)) = looked else { return Err(Stand::Next(call)) };
        let ended = |sentence: String| Err(Stand::Ended { sentence, fresh });
        let output = match result {
            Some(result) if !result.is_error => &result.output,
            Some(result) => {
                return ended(format!(
                    "I could not look for “{meant}”: {}.",
                    results::reason(&result.output).trim_end_matches('.')
                ));
            }
            None => return ended(format!("I could not look for “{meant}”: the call was not answered.")),
        };
        match results::find(&results::items(output), meant) {
            Found::One(item) => Ok((Some(item.id.clone()), fresh)),
            Found::None => ended(format!("I found nothing that is called “{meant}”.")),
            Found::Several(items) => {
                let labels: Vec<&str> = items.iter().map(|item| item.label.as_str()).collect();
                ended(format!("“{meant}” may mean any of these: {}. Please say which.", labels.join(", ")))
            }
        }
    }

    fn take(&mut self, call: &Proposed) -> Option<(Option<&CallResult>, bool)> {
        let past = self.past.iter_mut().find(|past| !past.used && past.call == *call)?;
        past.used = true;
        Some((past.result, past.fresh))
    }
}

/// Whether two requests can be asked for at once: neither can change what the other finds.
fn independent(a: &Intent, b: &Intent) -> bool {
    fn paths(intent: &Intent) -> Option<Vec<&str>> {
        match intent {
            Intent::ReadFile { path } | Intent::WriteFile { path, .. } | Intent::DeleteFile { path } => {
                Some(vec![path])
            }
            Intent::MoveFile { from, to } => Some(vec![from, to]),
            _ => None,
        }
    }
    let only_looks = |intent: &Intent| {
        matches!(
            intent,
            Intent::ListFiles { .. } | Intent::ReadFile { .. } | Intent::ListReminders | Intent::ListDevices
        )
    };
    match (a, b) {
        _ if only_looks(a) && only_looks(b) => true,
        (Intent::SwitchDevice { device: a, .. }, Intent::SwitchDevice { device: b, .. }) => a != b,
        _ => match (paths(a), paths(b)) {
            (Some(a), Some(b)) => a.iter().all(|path| !b.contains(path)),
            _ => false,
        },
    }
}

#[cfg(test)]
mod tests;
