//! What breaks on purpose: the process dies at a named step of a call, or the store's folder becomes read-only.

use super::server::Setup;

pub(crate) use sluicegate_gateway::crash::POINTS;

/// The variable that arms a crash point. Only test builds read it.
const CRASH_AT: &str = "SLUICEGATE_CRASH_AT";

impl Setup {
    /// Dies by SIGKILL when a call reaches this step, one of [`POINTS`].
    pub(crate) fn crash_at(self, point: &str) -> Self {
        assert!(POINTS.contains(&point), "`{point}` is not among {POINTS:?}");
        self.env(CRASH_AT, point)
    }
}
