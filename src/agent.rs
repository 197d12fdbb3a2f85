//! The agent of the chat: a loop that asks a model and proposes the calls it asks for. It executes none of them.
//!
//! [`turn::TurnState`] decides what happens next, as a pure state machine; the driver does it. What the agent holds
//! is in [`AgentParts`]: it can propose calls, and has no handle that could answer a held one or run one.

mod budget;
mod driver;
pub mod entry;
mod live;
pub mod log;
pub mod models;
pub mod prompt;
mod report;
pub mod result;
mod start;
pub mod turn;

pub use entry::{Entry, Note, NoteKind};
pub use live::{CallView, Live, TurnView};
pub(crate) use log::read_entry;
pub use log::{Conversation, ConversationLog, StoreLog};
pub use models::{ModelChoice, Models, NoProvider, Source};
pub use report::{CallReport, TurnError, TurnReport};
pub use start::{StartError, TurnStarted};
pub use turn::TurnEnd;

use budget::Reservations;
use live::{BrokenOff, Rooms};
use sluicegate_gateway::{PersonId, StoreError, ToolExecutionGateway};
use sluicegate_policy::{ConversationId, Role};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Semaphore, broadcast};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// Longest message of a person, in bytes.
pub const MOST_TEXT: usize = 32 * 1024;

/// What the agent is made of.
#[derive(Debug)]
pub struct AgentParts {
    /// Proposes calls; also where the tools are listed.
    pub gateway: ToolExecutionGateway,
    /// Where conversations are kept.
    pub log: Arc<dyn ConversationLog>,
    /// The models that can be asked.
    pub models: Models,
    /// Its limits.
    pub settings: AgentSettings,
}

/// The agent's limits.
#[derive(Clone, Copy, Debug)]
pub struct AgentSettings {
    /// How often the model is asked in one turn (`MAX_AGENT_STEPS`); at least once.
    pub most_steps: u32,
    /// Turns that run at once.
    pub most_running: usize,
    /// Most tokens of one answer, thinking included.
    pub most_output_tokens: u32,
    /// Most bytes of earlier messages that a model is given.
    pub history_bytes: usize,
    /// How long Stop waits for what is open to end before it is left to itself.
    pub stop_grace: Duration,
}

impl Default for AgentSettings {
    fn default() -> Self {
        Self {
            most_steps: 10,
            most_running: 64,
            most_output_tokens: 8_192,
            history_bytes: 512 * 1024,
            stop_grace: Duration::from_secs(5),
        }
    }
}

/// What all turns share.
#[derive(Debug)]
struct Parts {
    gateway: ToolExecutionGateway,
    log: Arc<dyn ConversationLog>,
    models: Models,
    settings: AgentSettings,
    reservations: Reservations,
    broken: BrokenOff,
    rooms: Rooms,
    places: Arc<Semaphore>,
    tasks: TaskTracker,
    stopping: CancellationToken,
}

/// The handle on the agent: starts turns, stops them, and shows how they stand. Cheap to clone.
#[derive(Clone, Debug)]
pub struct AgentHandle {
    parts: Arc<Parts>,
}

impl AgentHandle {
    /// An agent with nothing running.
    #[must_use]
    pub fn new(parts: AgentParts) -> Self {
        let AgentParts { gateway, log, models, settings } = parts;
        Self {
            parts: Arc::new(Parts {
                gateway,
                log,
                models,
                reservations: Reservations::default(),
                broken: BrokenOff::default(),
                rooms: Rooms::default(),
                places: Arc::new(Semaphore::new(settings.most_running)),
                tasks: TaskTracker::new(),
                stopping: CancellationToken::new(),
                settings,
            }),
        }
    }

    /// The models that can be asked.
    #[must_use]
    pub fn models(&self) -> &Models {
        &self.parts.models
    }

    /// Mends the conversations whose turn an earlier process left without an end: each open call is answered, and the
    /// transcript says so. To be called at start-up, after the gateway has settled its calls and before any traffic.
    /// How many turns there were.
    ///
    /// # Errors
    /// When a transcript could not be read or written.
    pub async fn recover(&self) -> Result<usize, StoreError> {
        start::recover(&self.parts).await
    }

    /// Begins a turn with a person's message. When this returns, the message is in the transcript and the turn runs,
    /// in a task of its own: whoever started it may go away.
    ///
    /// # Errors
    /// [`StartError`]; but for `Store`, the message is then not in the transcript.
    pub async fn start(
        &self,
        conversation: &ConversationId,
        person: &PersonId,
        role: Role,
        text: &str,
    ) -> Result<TurnStarted, StartError> {
        start::start(&self.parts, conversation, person, role, text, None).await
    }

    /// Begins a turn with a message in the place of an earlier one of the person, in the same words or in others. What
    /// was said since is kept and no longer read by the model.
    ///
    /// # Errors
    /// As [`start`](Self::start), and [`StartError::NotThere`].
    pub async fn start_instead(
        &self,
        conversation: &ConversationId,
        person: &PersonId,
        role: Role,
        text: &str,
        position: i64,
    ) -> Result<TurnStarted, StartError> {
        start::start(&self.parts, conversation, person, role, text, Some(position)).await
    }

    /// Stops the turn that runs in a conversation: held calls are withdrawn, running ones cancelled, and what the
    /// model has said so far is kept. Whether one was running. Returns at once.
    pub fn stop(&self, conversation: &ConversationId) -> bool {
        self.parts.rooms.known(conversation).is_some_and(|room| room.stop())
    }

    /// The turn that runs in a conversation.
    #[must_use]
    pub fn running(&self, conversation: &ConversationId) -> Option<TurnView> {
        self.parts.rooms.known(conversation)?.watch().0
    }

    /// Changes in a conversation from now on. A reader that falls behind is told so by the channel, and is to read
    /// [`running`](Self::running) and the transcript again.
    #[must_use]
    pub fn live(&self, conversation: &ConversationId) -> broadcast::Receiver<Live> {
        self.watch(conversation).1
    }

    /// The turn that runs now and all changes after exactly this moment: what a page needs to go on without a gap
    /// and without anything twice.
    #[must_use]
    pub fn watch(&self, conversation: &ConversationId) -> (Option<TurnView>, broadcast::Receiver<Live>) {
        self.parts.rooms.room(conversation).watch()
    }

    /// Waits for the turn that runs in a conversation, and tells what came of it; `None` if none runs, or if it
    /// died without a report. To wait for a turn that one has started, use [`TurnStarted::finished`].
    pub async fn wait(&self, conversation: &ConversationId) -> Option<TurnReport> {
        let report = self.parts.rooms.known(conversation)?.report()?;
        start::reported(report).await
    }

    /// Stops all turns, starts no more, and waits until each has ended, at most `limit`. Whether all did.
    pub async fn shutdown(&self, limit: Duration) -> bool {
        self.parts.stopping.cancel();
        self.parts.tasks.close();
        tokio::time::timeout(limit, self.parts.tasks.wait()).await.is_ok()
    }
}
