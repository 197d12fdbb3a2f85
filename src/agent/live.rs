//! What is going on in each conversation right now, for the pages: the running turn, and a stream of changes.

use crate::agent::entry::Entry;
use crate::agent::report::TurnReport;
use crate::conversation::Message;
use crate::llm::Delta;
use sluicegate_gateway::CallId;
use sluicegate_policy::ConversationId;
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::{OwnedSemaphorePermit, broadcast, watch};
use tokio_util::sync::CancellationToken;

/// Changes that a slow reader may be behind before it is told to look at the whole again.
const BACKLOG: usize = 1024;

/// A change in a conversation. What it is about is read from the transcript, the calls or [`TurnView`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Live {
    /// The next piece of the answer's text.
    Delta {
        /// The piece.
        text: String,
    },
    /// The next piece of the model's visible thoughts.
    Thinking {
        /// The piece.
        text: String,
    },
    /// The transcript has a new entry. A model's message replaces the text so far.
    MessageAppended {
        /// Its position.
        position: i64,
    },
    /// A call was proposed or came to its end.
    CallChanged {
        /// Which.
        call: CallId,
    },
    /// The turn began, goes on to another step, waits, is being stopped, or ended.
    TurnChanged,
}

/// A running turn at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TurnView {
    /// Text of the answer that is arriving.
    pub text_so_far: String,
    /// Visible thoughts of the answer that is arriving.
    pub thinking_so_far: String,
    /// How often the model has been asked in this turn.
    pub step: u32,
    /// The calls of the present step, in the model's order.
    pub calls: Vec<CallView>,
    /// Why nothing arrives at the moment: the model call failed and is tried again.
    pub waiting: Option<String>,
    /// Stop was pressed; what is open is being withdrawn.
    pub stopping: bool,
}

/// A call of the present step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallView {
    /// The key in the transcript.
    pub key: String,
    /// The tool's name as the model said it.
    pub name: String,
    /// The gate's id, once it was proposed.
    pub call: Option<CallId>,
    /// It has come to its end; its result enters the transcript when the others have too.
    pub ended: bool,
}

/// All conversations that somebody looks at or that a turn runs in.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rooms(Arc<Mutex<HashMap<ConversationId, Arc<Room>>>>);

/// One conversation. Pieces of text enter the view and the stream under one lock, so that whoever takes both at
/// once misses nothing and gets nothing twice.
#[derive(Debug)]
pub(crate) struct Room {
    turn: Mutex<Option<Turn>>,
    stream: broadcast::Sender<Live>,
}

#[derive(Debug)]
struct Turn {
    view: TurnView,
    stop: CancellationToken,
    report: watch::Receiver<Option<TurnReport>>,
}

/// Conversations whose last turn broke off because the store failed, and that nobody has mended yet.
#[derive(Debug, Default)]
pub(crate) struct BrokenOff(Mutex<HashSet<ConversationId>>);

impl BrokenOff {
    pub(crate) fn add(&self, id: &ConversationId) {
        lock(&self.0).insert(id.clone());
    }

    pub(crate) fn remove(&self, id: &ConversationId) {
        lock(&self.0).remove(id);
    }

    pub(crate) fn contains(&self, id: &ConversationId) -> bool {
        lock(&self.0).contains(id)
    }
}

/// The place of a running turn. Dropped when the turn has ended, however it ended.
#[derive(Debug)]
pub(crate) struct Place {
    pub(crate) room: Arc<Room>,
    pub(crate) stop: CancellationToken,
    report: watch::Sender<Option<TurnReport>>,
    of_many: Option<OwnedSemaphorePermit>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Rooms {
    /// The conversation's room. Rooms where nothing runs and nobody looks are given up on the way.
    pub(crate) fn room(&self, id: &ConversationId) -> Arc<Room> {
        let mut rooms = lock(&self.0);
        if let Some(room) = rooms.get(id) {
            return Arc::clone(room);
        }
        rooms.retain(|_, room| Arc::strong_count(room) > 1 || room.stream.receiver_count() > 0);
        let room = Arc::new(Room { turn: Mutex::new(None), stream: broadcast::channel(BACKLOG).0 });
        rooms.insert(id.clone(), Arc::clone(&room));
        room
    }

    /// The conversation's room, if it has one.
    pub(crate) fn known(&self, id: &ConversationId) -> Option<Arc<Room>> {
        lock(&self.0).get(id).cloned()
    }
}

impl Room {
    /// The stream of changes from now on, and the turn that runs now.
    pub(crate) fn watch(&self) -> (Option<TurnView>, broadcast::Receiver<Live>) {
        let turn = lock(&self.turn);
        (turn.as_ref().map(|turn| turn.view.clone()), self.stream.subscribe())
    }

    /// Takes the room for a turn; `None` if one is running.
    pub(crate) fn take(
        self: &Arc<Self>,
        stop: CancellationToken,
        of_many: OwnedSemaphorePermit,
    ) -> Option<Place> {
        let mut turn = lock(&self.turn);
        if turn.is_some() {
            return None;
        }
        let (report, receiver) = watch::channel(None);
        *turn = Some(Turn { view: TurnView::default(), stop: stop.clone(), report: receiver });
        self.tell(Live::TurnChanged);
        Some(Place { room: Arc::clone(self), stop, report, of_many: Some(of_many) })
    }

    /// Asks the running turn to stop; whether there was one.
    pub(crate) fn stop(&self) -> bool {
        let mut turn = lock(&self.turn);
        let Some(turn) = turn.as_mut() else { return false };
        turn.view.stopping = true;
        turn.stop.cancel();
        self.tell(Live::TurnChanged);
        true
    }

    /// Where the running turn's report will be.
    pub(crate) fn report(&self) -> Option<watch::Receiver<Option<TurnReport>>> {
        lock(&self.turn).as_ref().map(|turn| turn.report.clone())
    }

    /// The text and the thoughts so far.
    pub(crate) fn so_far(&self) -> (String, String) {
        lock(&self.turn)
            .as_ref()
            .map(|turn| (turn.view.text_so_far.clone(), turn.view.thinking_so_far.clone()))
            .unwrap_or_default()
    }

    /// The model is asked for the `step`-th time.
    pub(crate) fn asking(&self, step: u32) {
        self.change(Live::TurnChanged, |view| {
            view.step = step;
            view.text_so_far.clear();
            view.thinking_so_far.clear();
        });
    }

    /// A piece of an answer arrived.
    pub(crate) fn delta(&self, delta: Delta) {
        match delta {
            Delta::Text(text) => self.change(Live::Delta { text: text.clone() }, |view| {
                view.waiting = None;
                view.text_so_far.push_str(&text);
            }),
            Delta::Thinking(text) => self.change(Live::Thinking { text: text.clone() }, |view| {
                view.waiting = None;
                view.thinking_so_far.push_str(&text);
            }),
            Delta::Retrying { attempt, of, wait, kind } => self.change(Live::TurnChanged, |view| {
                view.waiting = Some(format!(
                    "The model could not answer ({kind}); attempt {attempt} of {of} begins in {} s.",
                    wait.as_secs_f64().ceil()
                ));
            }),
        }
    }

    /// An entry is in the transcript.
    pub(crate) fn appended(&self, position: i64, entry: &Entry) {
        let what = match entry {
            Entry::Proposed { call, .. } => Live::CallChanged { call: *call },
            Entry::Said(_) | Entry::Note(_) | Entry::Replaced { .. } => Live::MessageAppended { position },
        };
        self.change(what, |view| match entry {
            Entry::Said(Message::Model(turn)) => {
                view.text_so_far.clear();
                view.thinking_so_far.clear();
                view.waiting = None;
                view.calls = turn
                    .calls
                    .iter()
                    .map(|call| CallView {
                        key: call.key.clone(),
                        name: call.name.clone(),
                        call: None,
                        ended: false,
                    })
                    .collect();
            }
            Entry::Said(Message::ToolResults { .. }) => view.calls.clear(),
            Entry::Proposed { key, call } => {
                if let Some(found) = view.calls.iter_mut().find(|seen| seen.key == *key) {
                    found.call = Some(*call);
                }
            }
            Entry::Said(Message::User { .. }) | Entry::Note(_) | Entry::Replaced { .. } => {}
        });
    }

    /// A call came to its end.
    pub(crate) fn ended(&self, key: &str, call: CallId) {
        self.change(Live::CallChanged { call }, |view| {
            if let Some(found) = view.calls.iter_mut().find(|seen| seen.key == key) {
                found.ended = true;
            }
        });
    }

    fn change(&self, what: Live, change: impl FnOnce(&mut TurnView)) {
        let mut turn = lock(&self.turn);
        if let Some(turn) = turn.as_mut() {
            change(&mut turn.view);
        }
        self.tell(what);
    }

    /// Only to be called under the lock of `turn`.
    fn tell(&self, what: Live) {
        // An error means that nobody looks.
        self.stream.send(what).ok();
    }
}

impl Place {
    /// Where the report will be.
    pub(crate) fn reported(&self) -> watch::Receiver<Option<TurnReport>> {
        self.report.subscribe()
    }

    /// Gives up the place, then leaves the turn's report: whoever reads it may begin the next turn at once.
    pub(crate) fn finish(mut self, report: TurnReport) {
        self.leave();
        self.report.send_replace(Some(report));
    }

    fn leave(&mut self) {
        // Once: afterwards the room may be another turn's.
        let Some(of_many) = self.of_many.take() else { return };
        let mut turn = lock(&self.room.turn);
        *turn = None;
        drop(of_many);
        self.room.tell(Live::TurnChanged);
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.leave();
    }
}
