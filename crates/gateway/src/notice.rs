//! What a tool says while it runs, on its way to whoever asked. Nothing here is an input of a decision.

use serde_json::Value;
use tokio::sync::mpsc;

/// Notices of one call that may wait for a slow caller. Further ones are dropped: none of them is an answer.
const WAITING: usize = 64;

/// One thing that a tool says while it runs.
#[derive(Clone, PartialEq, Debug)]
pub enum Notice {
    /// How far it is: `progress`, and `total` and `message` if the server gave them.
    Progress(Value),
    /// A line for the log: the parameters of `notifications/message` as the server sent them.
    Log(Value),
}

/// Where the notices of a call go; by default nowhere.
#[derive(Clone, Debug, Default)]
pub struct Notices {
    sender: Option<mpsc::Sender<Notice>>,
    log_level: Option<&'static str>,
}

impl Notices {
    /// Notices that are listened to. With a level, log lines of at least that level are asked for.
    #[must_use]
    pub fn listened(log_level: Option<&'static str>) -> (Self, mpsc::Receiver<Notice>) {
        let (sender, receiver) = mpsc::channel(WAITING);
        (Self { sender: Some(sender), log_level }, receiver)
    }

    /// Whether anybody listens.
    #[must_use]
    pub fn are_heard(&self) -> bool {
        self.sender.as_ref().is_some_and(|sender| !sender.is_closed())
    }

    /// From which level on log lines are wanted; `None` if not at all.
    #[must_use]
    pub fn log_level(&self) -> Option<&'static str> {
        self.log_level
    }

    /// Passes one on. Never waits.
    pub fn say(&self, notice: Notice) {
        if let Some(sender) = &self.sender {
            // Full, or nobody listens any more: notices are for those who keep up.
            sender.try_send(notice).ok();
        }
    }
}
