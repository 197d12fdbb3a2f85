//! The pool of upstream servers. Its type is private to this file: it leaves only as an opaque [`Invoke`], to be
//! moved into the gateway, so nothing else can make a tool run.

mod backoff;
mod board;
mod connection;
mod discovery;
mod handler;
mod http;
mod ledger;
mod masking;
mod noise;
mod server;
mod session;
mod stdio;
mod supervisor;
mod wire;

use crate::servers::{Reach, ServerEntry, ServersError};
use async_trait::async_trait;
use board::{Board, View};
pub(crate) use http::client as http_client;
pub(crate) use http::events::bounded as bounded_events;
use masking::Masks;
use noise::Noise;
use server::{LinkState, Server};
use sluicegate_gateway::{
    Attempts, Catalogue, Invoke, InvokeError, Permit, ServerState, ServerStatus, ToolCatalogue, ToolOutput,
};
use sluicegate_policy::ServerName;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
pub use stdio::leftovers::end_leftovers;
use supervisor::Supervisor;
use tokio::sync::watch;
use tokio::task::AbortHandle;
use tokio::time::timeout;
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;
pub(crate) use wire::MAX_MESSAGE;

/// How long tasks that were cut have to let go of their processes.
const AFTER_ABORT: Duration = Duration::from_secs(1);

/// What the pool is set up with.
#[derive(Clone)]
pub struct PoolOptions {
    /// Our own environment. Child processes get a short base list of it (paths, home, language, time zone, temporary
    /// files) and what their entry names, nothing else.
    pub environment: Vec<(OsString, OsString)>,
    /// Given to every child process, so that [`end_leftovers`] finds those that outlive a run that was killed.
    pub mark: Option<Arc<str>>,
    /// Limit of one call where the server's entry sets none: 30 s by default.
    pub call_timeout: Duration,
    /// Limit of starting and greeting a server: 60 s by default, since some launchers fetch their server first.
    pub handshake_timeout: Duration,
}

impl Default for PoolOptions {
    fn default() -> Self {
        Self {
            environment: Vec::new(),
            mark: None,
            call_timeout: Duration::from_secs(30),
            handshake_timeout: Duration::from_secs(60),
        }
    }
}

/// Without the environment, which holds secrets.
impl fmt::Debug for PoolOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PoolOptions")
            .field("call_timeout", &self.call_timeout)
            .field("handshake_timeout", &self.handshake_timeout)
            .finish_non_exhaustive()
    }
}

struct Pool {
    servers: BTreeMap<ServerName, Arc<Server>>,
    catalogue: watch::Receiver<Arc<Catalogue>>,
}

#[async_trait]
impl Invoke for Pool {
    fn catalogue(&self) -> ToolCatalogue {
        ToolCatalogue::new(self.catalogue.clone())
    }

    async fn invoke(
        &self,
        permit: Permit,
        attempts: &dyn Attempts,
        cancel: &CancellationToken,
    ) -> Result<ToolOutput, InvokeError> {
        let name = permit.call().tool().server();
        match self.servers.get(name) {
            Some(server) => session::call(server, permit, attempts, cancel).await,
            None => Err(InvokeError::NotSent {
                server: name.to_string(),
                why: "there is no server of this name".to_owned(),
            }),
        }
    }
}

/// Start-up and shut-down of the servers. It cannot make a call. Dropping it ends the servers without waiting.
#[must_use = "dropping it ends the servers"]
pub struct UpstreamControl {
    board: Arc<Board>,
    tasks: TaskTracker,
    supervisors: Vec<AbortHandle>,
    stop: DropGuard,
}

impl fmt::Debug for UpstreamControl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "UpstreamControl({} servers)", self.supervisors.len())
    }
}

impl UpstreamControl {
    /// Waits until each server has been tried once, well or badly, at most `limit`. Returns whether each has.
    pub async fn ready(&self, limit: Duration) -> bool {
        let mut settled = self.board.settled();
        let all = settled.wait_for(|settled| *settled);
        matches!(timeout(limit, all).await, Ok(Ok(_)))
    }

    /// Ends all servers in order: sessions are given up; child processes see their standard input close, then get
    /// the polite signal, then the hard one, each with its whole group. What has not ended after `limit` is killed.
    /// Returns whether all ended in order.
    pub async fn shutdown(self, limit: Duration) -> bool {
        self.stop.disarm().cancel();
        self.tasks.close();
        if timeout(limit, self.tasks.wait()).await.is_ok() {
            return true;
        }
        for supervisor in &self.supervisors {
            supervisor.abort();
        }
        timeout(AFTER_ABORT, self.tasks.wait()).await.ok();
        false
    }
}

/// Starts and dials the servers, each in a task of its own that goes on trying. Returns at once; to be called on a
/// Tokio runtime. The first part is the only way to the tools and goes into the gateway; the second stays with the
/// program.
///
/// # Errors
/// When two entries have one name.
pub fn connect(
    entries: Vec<ServerEntry>,
    options: PoolOptions,
) -> Result<(impl Invoke, UpstreamControl), ServersError> {
    let mut names = BTreeSet::new();
    for entry in &entries {
        if !names.insert(entry.name().clone()) {
            return Err(ServersError::Duplicate(entry.name().clone()));
        }
    }
    let needs_http = entries.iter().any(|entry| matches!(entry.reach(), Reach::Http { .. }));
    let client = needs_http.then(http::client).transpose().unwrap_or_else(|error| {
        tracing::error!(%error, "no HTTP client could be set up; servers with an address stay unavailable");
        None
    });
    let board = Arc::new(Board::new(entries.iter().map(first_view).collect()));
    let environment: Arc<[_]> = options.environment.into();
    let (stop, tasks) = (CancellationToken::new(), TaskTracker::new());
    let mut servers = BTreeMap::new();
    let mut supervisors = Vec::new();
    for (place, entry) in entries.into_iter().enumerate() {
        let masks = Arc::new(Masks::of(&entry));
        let (link, link_seen) = watch::channel(LinkState::Connecting);
        let (outdated, outdated_seen) = watch::channel(0);
        let server = Arc::new(Server {
            identity: entry.identity(),
            masks: Arc::clone(&masks),
            general_timeout: options.call_timeout,
            link: link_seen,
            outdated,
            entry,
        });
        servers.insert(server.entry.name().clone(), Arc::clone(&server));
        let supervisor = Supervisor {
            server,
            place,
            board: Arc::clone(&board),
            link,
            outdated: outdated_seen,
            noise: Arc::new(Noise::new(masks)),
            environment: Arc::clone(&environment),
            mark: options.mark.clone(),
            http: client.clone(),
            handshake: options.handshake_timeout,
            stop: stop.clone(),
            tasks: tasks.clone(),
        };
        supervisors.push(tasks.spawn(supervisor.run()).abort_handle());
    }
    let pool = Pool { servers, catalogue: board.catalogue() };
    Ok((pool, UpstreamControl { board, tasks, supervisors, stop: stop.drop_guard() }))
}

/// What is shown of a server before anything is known of it.
fn first_view(entry: &ServerEntry) -> View {
    View {
        status: ServerStatus {
            name: entry.name().clone(),
            transport: entry.transport(),
            state: ServerState::Connecting,
            note: None,
            noise: Vec::new(),
            given: entry.given(),
            left_out: Vec::new(),
            about: None,
        },
        tools: Vec::new(),
        settled: false,
    }
}
