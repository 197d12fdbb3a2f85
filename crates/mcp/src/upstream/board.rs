//! The published catalogue: one snapshot of all servers, in configured order, also of those that are down.

use sluicegate_gateway::{Catalogue, ServerStatus, ToolDefinition};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::watch;

/// What is known of one server.
#[derive(Clone, Debug)]
pub(crate) struct View {
    pub(crate) status: ServerStatus,
    /// The last known tools. They stay listed while the server is down: rules, pages and clients keep seeing one
    /// stable list, and a call is answered with "unavailable", which is the truth, and not with "unknown tool".
    pub(crate) tools: Vec<Arc<ToolDefinition>>,
    /// Whether a first attempt to connect and discover has ended, well or badly.
    pub(crate) settled: bool,
}

impl View {
    fn same_as(&self, other: &Self) -> bool {
        self.status == other.status
            && self.settled == other.settled
            && self.tools.len() == other.tools.len()
            && self.tools.iter().zip(&other.tools).all(|(a, b)| Arc::ptr_eq(a, b))
    }
}

/// Where supervisors pin up what they know.
#[derive(Debug)]
pub(crate) struct Board {
    views: Mutex<Vec<View>>,
    catalogue: watch::Sender<Arc<Catalogue>>,
    settled: watch::Sender<bool>,
}

impl Board {
    pub(crate) fn new(views: Vec<View>) -> Self {
        let board = Self {
            views: Mutex::new(views),
            catalogue: watch::Sender::default(),
            settled: watch::Sender::new(false),
        };
        board.publish(&board.views.lock().unwrap_or_else(PoisonError::into_inner));
        board
    }

    pub(crate) fn catalogue(&self) -> watch::Receiver<Arc<Catalogue>> {
        self.catalogue.subscribe()
    }

    /// `true` once every server has settled.
    pub(crate) fn settled(&self) -> watch::Receiver<bool> {
        self.settled.subscribe()
    }

    /// Changes what is known of the server at this place of the configured order, and publishes if it is news.
    pub(crate) fn update(&self, place: usize, change: impl FnOnce(&mut View)) {
        let mut views = self.views.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(view) = views.get_mut(place) else { return };
        let before = view.clone();
        change(view);
        if !view.same_as(&before) {
            self.publish(&views);
        }
    }

    /// Called with the views locked, so that snapshots are published in the order of the changes.
    fn publish(&self, views: &[View]) {
        let tools = views.iter().flat_map(|view| view.tools.iter().cloned());
        let servers = views.iter().map(|view| view.status.clone()).collect();
        self.catalogue.send_replace(Arc::new(Catalogue::new(tools, servers)));
        self.settled.send_replace(views.iter().all(|view| view.settled));
    }
}
