//! `sluicegate serve`.

use super::{Answer, log_to_stderr, runtime, say, settings};
use crate::app;
use crate::config::Flags;

pub(super) fn run(flags: &Flags) -> anyhow::Result<Answer> {
    let (config, around) = settings(flags)?;
    log_to_stderr(&config.log_filter)?;
    let runtime = runtime()?;
    let ended = runtime.block_on(app::serve(config, around, say));
    // What was told to stop and has not is left behind: everything that counts is in the store.
    runtime.shutdown_background();
    ended?;
    Ok(Answer::Yes)
}
