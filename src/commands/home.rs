//! `sluicegate home`.

use std::path::Path;

use super::{Answer, log_to_stderr, runtime};

pub(super) fn run(state: &Path) -> anyhow::Result<Answer> {
    // Standard output belongs to the protocol.
    log_to_stderr("warn")?;
    runtime()?.block_on(sluicegate_mcp::serve_home(state))?;
    Ok(Answer::Yes)
}
