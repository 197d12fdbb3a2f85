//! The audit trail as MCP clients read it.

use async_trait::async_trait;
use sluicegate_gateway::StoreError;
use sluicegate_mcp::{Trail, TrailPage, TrailQuery};
use sluicegate_store::{AuditFilter, AuditReader, AuditStart, Change, Feed};
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// The trail over the store.
#[derive(Debug)]
pub(crate) struct StoredTrail {
    audit: AuditReader,
    grown: watch::Receiver<u64>,
}

impl StoredTrail {
    /// The trail, and the task that says when it grows, until the product stops.
    pub(crate) fn new(
        audit: AuditReader,
        feed: &Feed,
        stop: CancellationToken,
    ) -> (Self, impl Future<Output = ()> + use<>) {
        let (grows, grown) = watch::channel(0_u64);
        let mut changes = feed.subscribe();
        let watching = async move {
            loop {
                tokio::select! {
                    () = stop.cancelled() => return,
                    change = changes.recv() => match change {
                        Ok(Change::Audit(_) | Change::Elsewhere) | Err(RecvError::Lagged(_)) => {
                            grows.send_modify(|times| *times = times.wrapping_add(1));
                        }
                        Ok(_) => {}
                        Err(RecvError::Closed) => return,
                    },
                }
            }
        };
        (Self { audit, grown }, watching)
    }
}

#[async_trait]
impl Trail for StoredTrail {
    async fn page(&self, query: TrailQuery) -> Result<TrailPage, StoreError> {
        let TrailQuery { caller, call, before, limit } = query;
        let filter = AuditFilter { caller, call, ..AuditFilter::default() };
        let start = before.map_or(AuditStart::Latest, AuditStart::Before);
        let page = self.audit.rows(&filter, start, limit).await?;
        Ok(TrailPage { rows: page.rows, next: page.next })
    }

    fn grown(&self) -> watch::Receiver<u64> {
        let mut grown = self.grown.clone();
        grown.mark_unchanged();
        grown
    }
}
