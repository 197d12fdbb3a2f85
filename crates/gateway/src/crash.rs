//! Crash points: the process dies by SIGKILL at a named step. Compiled into test builds only.

use std::sync::OnceLock;

/// Every step of a call at which a test can have the process die.
pub const POINTS: &[&str] = &[
    "proposed",
    "judged",
    "intent_written",
    "effect_done",
    "outcome_written",
    "hold_written",
    "approval_seen",
    "approved_judged",
];

static ARMED: OnceLock<String> = OnceLock::new();

/// Chooses the step to die at; the first choice stands. Returns whether the name is one of [`POINTS`].
pub fn arm(name: &str) -> bool {
    POINTS.contains(&name) && ARMED.set(name.to_owned()).is_ok()
}

pub(crate) fn point(name: &str) {
    if ARMED.get().is_some_and(|armed| armed == name) {
        // If the signal cannot be sent the process goes on, and the test that waits for its death fails.
        rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL).ok();
    }
}
