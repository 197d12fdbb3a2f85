//! The signals that end the product.

use anyhow::Context as _;
use tokio::signal::unix::{SignalKind, signal};

/// Ready when the first SIGINT or SIGTERM has come. From this call on neither ends the process by itself.
///
/// # Errors
/// When the system refuses to tell.
pub(super) fn first() -> anyhow::Result<impl Future<Output = ()>> {
    let mut interrupt = signal(SignalKind::interrupt()).context("SIGINT cannot be waited for")?;
    let mut terminate = signal(SignalKind::terminate()).context("SIGTERM cannot be waited for")?;
    Ok(async move {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
    })
}
