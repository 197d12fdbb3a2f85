//! Keys that are revoked while they are in use, here or by the command line beside us.

use sluicegate_mcp::Front;
use sluicegate_store::{Change, Feed, Keys};
use std::collections::BTreeSet;
use std::time::Duration;
use tokio::sync::broadcast::error::RecvError;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

/// How often the list is looked at, since another process may have changed it.
const LOOK: Duration = Duration::from_secs(10);

/// Tells the MCP server of each key that is revoked, until the product stops. The gate refuses a revoked key's calls by
/// itself; this ends what it still has open.
pub(crate) async fn watch_keys(front: Front, keys: Keys, feed: Feed, stop: CancellationToken) {
    let mut changes = feed.subscribe();
    let mut told = BTreeSet::new();
    let mut look = Instant::now();
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            () = sleep_until(look) => {}
            change = changes.recv() => match change {
                Ok(Change::Keys) | Err(RecvError::Lagged(_)) => {}
                Ok(_) => continue,
                Err(RecvError::Closed) => return,
            },
        }
        look = Instant::now() + LOOK;
        match keys.list().await {
            Ok(all) => {
                for key in all.iter().filter(|key| key.revoked_ms.is_some()) {
                    if let Ok(caller) = key.caller()
                        && told.insert(key.name.clone())
                    {
                        front.revoked(&caller.principal.caller);
                    }
                }
            }
            Err(error) => tracing::warn!(%error, "the list of keys could not be read"),
        }
    }
}
