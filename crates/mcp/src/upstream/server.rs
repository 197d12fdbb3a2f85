//! What a call sees of a server: its present link, and a way to ask for a new one.

use crate::servers::ServerEntry;
use crate::upstream::ledger::Ledger;
use crate::upstream::masking::Masks;
use rmcp::service::{Peer, RoleClient};
use sluicegate_gateway::Digest;
use sluicegate_policy::ToolName;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::timeout;

/// A usable connection.
#[derive(Debug)]
pub(crate) struct Link {
    /// Grows with each connection of this server.
    pub(crate) generation: u64,
    pub(crate) peer: Peer<RoleClient>,
    pub(crate) ledger: Arc<Ledger>,
    /// The digests of the tools as this connection lists them.
    pub(crate) tools: BTreeMap<ToolName, Digest>,
}

/// Whether there is a link.
#[derive(Clone, Debug)]
pub(crate) enum LinkState {
    /// Being made.
    Connecting,
    /// Usable.
    Up(Arc<Link>),
    /// Not there; why, safe to show.
    Down(String),
}

/// A server as calls see it.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) entry: ServerEntry,
    pub(crate) identity: Digest,
    pub(crate) masks: Arc<Masks>,
    /// Limit of one call where the entry sets none.
    pub(crate) general_timeout: Duration,
    pub(crate) link: watch::Receiver<LinkState>,
    /// The newest generation that must not be used any more.
    pub(crate) outdated: watch::Sender<u64>,
}

impl Server {
    /// The present link. While one is being made it is waited for, at most `limit`; a server that is down is said to
    /// be down at once.
    pub(crate) async fn link(&self, limit: Duration) -> Result<Arc<Link>, String> {
        self.wait_for_link(0, false, limit).await
    }

    /// A link newer than `generation`. `patient`: it is waited for also while the server is down.
    pub(crate) async fn next_link(
        &self,
        generation: u64,
        patient: bool,
        limit: Duration,
    ) -> Result<Arc<Link>, String> {
        self.wait_for_link(generation, patient, limit).await
    }

    async fn wait_for_link(&self, after: u64, patient: bool, limit: Duration) -> Result<Arc<Link>, String> {
        let mut states = self.link.clone();
        let found = timeout(limit, async {
            loop {
                match &*states.borrow_and_update() {
                    LinkState::Up(link) if link.generation > after => return Ok(Arc::clone(link)),
                    LinkState::Down(why) if !patient => return Err(why.clone()),
                    LinkState::Up(_) | LinkState::Down(_) | LinkState::Connecting => {}
                }
                if states.changed().await.is_err() {
                    return Err("the gateway is shutting down".to_owned());
                }
            }
        });
        found.await.unwrap_or_else(|_| Err("it is still being connected".to_owned()))
    }

    /// Has the session of this generation made again, once for all who ask.
    pub(crate) fn renew(&self, generation: u64) {
        self.outdated.send_if_modified(|newest| {
            let asked = *newest < generation;
            *newest = (*newest).max(generation);
            asked
        });
    }
}
