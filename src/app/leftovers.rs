//! Server processes that outlived an earlier run on the same store: ended before anything else, and recorded.

use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use anyhow::Context as _;
use sluicegate_gateway::audit::{AuditEvent, EventKind};
use sluicegate_gateway::{Digest, Leftovers};
use sluicegate_mcp::end_leftovers;
use sluicegate_store::Store;
use tracing::warn;

/// Names a store's file: the same for each run on it, another for each other file, also for one of the same path that
/// another container sees.
pub(super) fn mark(file: &Path) -> anyhow::Result<String> {
    let read = || std::io::Result::Ok((file.canonicalize()?, file.metadata()?));
    let (path, metadata) = read().with_context(|| format!("`{}` cannot be looked at", file.display()))?;
    let parts = [path.as_os_str().as_bytes(), &metadata.dev().to_be_bytes(), &metadata.ino().to_be_bytes()];
    Ok(Digest::of("sluicegate/store-file/1", &parts).to_string())
}

/// Ends what servers of this run started outside their own process group, once the servers themselves have ended.
pub(super) async fn end_escaped(mark: &str) {
    let found = end_leftovers(mark).await;
    if found != Leftovers::default() {
        warn!(ended = found.ended, alive = found.alive, "MCP servers left processes behind; they were ended");
    }
}

/// Ends them. The store is this run's alone by now, so whatever carries its mark belongs to a run that is gone.
pub(super) async fn end(store: &Store, mark: &str) -> anyhow::Result<Leftovers> {
    let found = end_leftovers(mark).await;
    if found != Leftovers::default() {
        warn!(
            ended = found.ended,
            alive = found.alive,
            "server processes of an earlier run were still there; those that could not be ended are yours to end"
        );
        let event = AuditEvent::new(EventKind::ServerChanged, None, "restart")
            .fact("processes_ended", found.ended)
            .fact("processes_alive", found.alive);
        store.audit_log().append(event).await?;
    }
    Ok(found)
}
