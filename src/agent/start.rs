//! How a turn begins.

use super::driver::{Driver, Opening, Turn};
use super::entry::{Entry, call_ids, can_be_replaced, history, open_calls, repair};
use super::live::Room;
use super::log::{Transcript, UnfinishedTurn};
use super::report::{TurnError, TurnReport};
use super::result::BrokenBy;
use super::{MOST_TEXT, Parts, prompt};
use crate::conversation::Message;
use crate::llm::LlmProvider;
use sluicegate_gateway::{Caller, PersonId, StoreError};
use sluicegate_policy::{CallerId, ConversationId, Principal, Role};
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::sync::{oneshot, watch};

/// A turn that runs.
#[derive(Debug)]
pub struct TurnStarted {
    /// Position of the person's message in the transcript.
    pub position: i64,
    report: watch::Receiver<Option<TurnReport>>,
}

impl TurnStarted {
    /// Waits for the turn's end; `None` if it died without a report. Going away does not stop it.
    pub async fn finished(self) -> Option<TurnReport> {
        reported(self.report).await
    }
}

pub(super) async fn reported(mut report: watch::Receiver<Option<TurnReport>>) -> Option<TurnReport> {
    let report = report.wait_for(Option::is_some).await.ok()?;
    report.clone()
}

/// Why a turn did not begin.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// There is no such conversation, or it is another person's.
    #[error("there is no such conversation")]
    UnknownConversation,
    /// The person may not chat.
    #[error("chatting takes the role approver or admin")]
    NotAllowed,
    /// The message is empty.
    #[error("the message is empty")]
    Empty,
    /// The message is too long.
    #[error(
        "the message has {bytes} bytes; at most {MOST_TEXT} are taken, so split it or put it into a file"
    )]
    TooLong {
        /// Its length.
        bytes: usize,
    },
    /// What is to be said again is not a message of the person, or was replaced already.
    #[error("the message that this one replaces is not there any more; load the page again")]
    NotThere,
    /// A turn is running in this conversation.
    #[error("the agent is still answering here; wait for it or stop it")]
    Running,
    /// As many turns are running as may.
    #[error("too many conversations are being answered at the moment; try again soon")]
    TooMany,
    /// The product is shutting down.
    #[error("the product is shutting down")]
    ShuttingDown,
    /// The store could not be read or written.
    #[error("the conversation could not be read or written: {0}")]
    Store(#[from] StoreError),
}

/// What the gate and the rules know of a chatting person.
fn caller(person: &PersonId, role: Role) -> Option<Caller> {
    let caller = CallerId::new(&format!("chat:{person}")).ok()?;
    Some(Caller { principal: Principal { caller, role }, owner: person.clone() })
}

pub(super) async fn start(
    parts: &Arc<Parts>,
    conversation: &ConversationId,
    person: &PersonId,
    role: Role,
    text: &str,
    instead_of: Option<i64>,
) -> Result<TurnStarted, StartError> {
    if !matches!(role, Role::Approver | Role::Admin) {
        return Err(StartError::NotAllowed);
    }
    let caller = caller(person, role).ok_or(StartError::NotAllowed)?;
    if text.trim().is_empty() {
        return Err(StartError::Empty);
    }
    if text.len() > MOST_TEXT {
        return Err(StartError::TooLong { bytes: text.len() });
    }
    if parts.stopping.is_cancelled() {
        return Err(StartError::ShuttingDown);
    }
    let of_many = Arc::clone(&parts.places).try_acquire_owned().map_err(|_| StartError::TooMany)?;
    let stop = parts.stopping.child_token();
    let place = parts.rooms.room(conversation).take(stop, of_many).ok_or(StartError::Running)?;
    let report = place.reported();

    // In a task from here on: a person who goes away in this moment must not leave half a turn behind.
    let (send, begun) = oneshot::channel();
    let (parts, conversation, text) = (Arc::clone(parts), conversation.clone(), text.to_owned());
    let tasks = parts.tasks.clone();
    tasks.spawn(async move {
        let begun = begin(&parts, &place.room, &conversation, &caller, text, instead_of).await;
        let (answer, driver) = match begun {
            Ok(Begun { turn, provider, system, history }) => {
                let position = turn.last;
                let question = Opening { conversation, caller, provider, system, history };
                (Ok(position), Some(Driver::new(parts, place, turn, question)))
            }
            Err(error) => {
                // Before the answer: the person may try again at once.
                drop(place);
                (Err(error), None)
            }
        };
        // The receiver is gone when the person is; the turn runs all the same.
        send.send(answer).ok();
        if let Some(driver) = driver {
            driver.run().await;
        }
    });
    match begun.await {
        Ok(answer) => Ok(TurnStarted { position: answer?, report }),
        Err(_) => Err(StartError::ShuttingDown),
    }
}

/// A transcript that is ready for a model.
struct Begun {
    turn: Turn,
    provider: Result<Arc<dyn LlmProvider>, TurnError>,
    system: String,
    history: Vec<Message>,
}

/// Mends what an earlier turn left open, then appends the person's message, in the place of an earlier one if it says
/// that one again.
async fn begin(
    parts: &Parts,
    room: &Room,
    conversation: &ConversationId,
    caller: &Caller,
    text: String,
    instead_of: Option<i64>,
) -> Result<Begun, StartError> {
    let found = parts.log.conversation(conversation).await?.filter(|found| found.owner == caller.owner);
    let found = found.ok_or(StartError::UnknownConversation)?;
    let mut transcript = parts.log.transcript(conversation).await?;
    // Restarts are mended at start-up; what is found here in a process that had no such failure is one all the same.
    let by = if parts.broken.contains(conversation) { BrokenBy::Store } else { BrokenBy::Restart };
    if instead_of.is_some_and(|position| !can_be_replaced(&transcript.entries, position)) {
        return Err(StartError::NotThere);
    }
    let mut new = missing(parts, &transcript, by).await?;
    new.extend(instead_of.map(|from| Entry::Replaced { from }));
    new.push(Entry::Said(Message::User { text }));
    let turn = uuid::Uuid::now_v7().to_string();
    parts.log.turn_started(conversation, &turn).await?;
    let last = parts.log.append(conversation, transcript.last, &new).await?;
    parts.broken.remove(conversation);
    for (position, entry) in (transcript.last.saturating_add(1)..).zip(&new) {
        room.appended(position, entry);
    }
    transcript.entries.extend(new);
    let provider = parts
        .models
        .provider(&found.provider, &found.model)
        .map_err(|error| TurnError::no_provider(error.to_string()));
    let system = if found.system.is_empty() { prompt::SYSTEM.to_owned() } else { found.system };
    Ok(Begun { turn: Turn { id: turn, last }, provider, system, history: history(&transcript.entries) })
}

/// What a turn that broke off left to be appended.
async fn missing(parts: &Parts, transcript: &Transcript, by: BrokenBy) -> Result<Vec<Entry>, StoreError> {
    let ids = call_ids(&transcript.entries);
    let mut states = BTreeMap::new();
    for call in open_calls(&transcript.entries).iter().filter_map(|call| ids.get(&call.key)) {
        if let Some(state) = parts.log.call_state(*call).await? {
            states.insert(*call, state);
        }
    }
    Ok(repair(&transcript.entries, by, &states))
}

/// Mends the conversations whose turn an earlier process left without an end. How many there were.
pub(super) async fn recover(parts: &Parts) -> Result<usize, StoreError> {
    let turns = parts.log.unfinished_turns().await?;
    for UnfinishedTurn { conversation, turn } in &turns {
        let transcript = parts.log.transcript(conversation).await?;
        let new = missing(parts, &transcript, BrokenBy::Restart).await?;
        if !new.is_empty() {
            parts.log.append(conversation, transcript.last, &new).await?;
        }
        parts.log.turn_ended(conversation, turn, "restarted").await?;
    }
    Ok(turns.len())
}
