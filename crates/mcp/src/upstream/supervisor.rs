//! One task per server: connect, discover, watch, and start over when it ends.

use crate::servers::Reach;
use crate::upstream::backoff;
use crate::upstream::board::{Board, View};
use crate::upstream::connection::{ConnectError, Connection, Dialler, Era};
use crate::upstream::discovery::{DiscoveryError, Found, Tools, discover};
use crate::upstream::noise::Noise;
use crate::upstream::server::{Link, LinkState, Server};
use sluicegate_gateway::ServerState;
use std::ffi::OsString;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// A connection that held this long starts a new count of failures.
const STABLE: Duration = Duration::from_secs(30);
/// Notices of change are gathered until none came for this long, but not longer than the second value.
const QUIET: Duration = Duration::from_millis(500);
const QUIET_MAX: Duration = Duration::from_secs(3);
/// The tools are listed again this often: some servers change without a notice, and some connections die without one.
const REFRESH: Duration = Duration::from_secs(300);
/// Noise is published at most this often.
const NOISE: Duration = Duration::from_secs(1);
/// How long calls on a session that was replaced may still take to end.
const RETIRE: Duration = Duration::from_secs(60);

/// What the task owns.
pub(crate) struct Supervisor {
    pub(crate) server: Arc<Server>,
    /// The server's place in the configured order.
    pub(crate) place: usize,
    pub(crate) board: Arc<Board>,
    pub(crate) link: watch::Sender<LinkState>,
    pub(crate) outdated: watch::Receiver<u64>,
    pub(crate) noise: Arc<Noise>,
    pub(crate) environment: Arc<[(OsString, OsString)]>,
    pub(crate) mark: Option<Arc<str>>,
    pub(crate) http: Option<reqwest::Client>,
    pub(crate) handshake: Duration,
    pub(crate) stop: CancellationToken,
    pub(crate) tasks: TaskTracker,
}

/// Why a connection is given up.
enum End {
    Stopped,
    /// The server does not know the session any more.
    Outdated,
    Lost(String),
}

impl Supervisor {
    pub(crate) async fn run(self) {
        let mut known = Tools::new();
        let mut era = Era::Newest;
        let mut generation = 0;
        let mut failures: u32 = 0;
        let stop = self.stop.clone();
        loop {
            self.link.send_replace(LinkState::Connecting);
            self.show(|view| view.status.state = ServerState::Connecting);
            let Some(opened) = stop.run_until_cancelled(self.open(era, &known)).await else { break };
            let why = match opened {
                Ok((mut connection, found)) => {
                    era = connection.era();
                    generation += 1;
                    let since = Instant::now();
                    self.show(|view| view.status.about = connection.about(&self.server.masks));
                    self.offer(generation, &connection, found, &mut known);
                    let end = self.tend(generation, &mut connection, &mut known).await;
                    let stable = since.elapsed() >= STABLE;
                    self.link.send_replace(LinkState::Connecting);
                    self.give_up(connection, &end).await;
                    match end {
                        End::Stopped => break,
                        End::Outdated => continue,
                        End::Lost(_) if stable => {
                            failures = 0;
                            continue;
                        }
                        End::Lost(why) => why,
                    }
                }
                Err(error) => {
                    // The next try speaks the other era, in case it was the question that ended the server.
                    era = match era {
                        Era::Newest if error.reached => Era::Handshake,
                        Era::Handshake if error.reached => Era::Newest,
                        same => same,
                    };
                    error.why
                }
            };
            failures = failures.saturating_add(1);
            if !self.pause(&why, failures).await {
                break;
            }
        }
        self.link.send_replace(LinkState::Down("the gateway is shutting down".to_owned()));
    }

    /// Connects and lists the tools.
    async fn open(&self, era: Era, known: &Tools) -> Result<(Connection, Found), ConnectError> {
        let dialler = Dialler {
            entry: &self.server.entry,
            environment: &self.environment,
            mark: self.mark.as_deref(),
            http: self.http.as_ref(),
            masks: &self.server.masks,
            noise: &self.noise,
            handshake: self.handshake,
        };
        let connection = dialler.connect(era).await?;
        match self.discover(&connection, known).await {
            Ok(found) => Ok((connection, found)),
            Err(error) => {
                connection.close().await;
                Err(ConnectError { why: error.to_string(), reached: true })
            }
        }
    }

    async fn discover(&self, connection: &Connection, known: &Tools) -> Result<Found, DiscoveryError> {
        let server = &self.server;
        discover(&connection.peer, server.entry.name(), server.identity, known, &server.masks).await
    }

    /// Makes the connection usable for calls, and shows what it offers.
    fn offer(&self, generation: u64, connection: &Connection, found: Found, known: &mut Tools) {
        let digests = found.tools.iter().map(|(name, tool)| (name.clone(), tool.digest())).collect();
        self.link.send_replace(LinkState::Up(Arc::new(Link {
            generation,
            peer: connection.peer.clone(),
            ledger: Arc::clone(&connection.ledger),
            tools: digests,
        })));
        let notes: Vec<String> = self.server.entry.notes().iter().cloned().chain(found.notes).collect();
        *known = found.tools;
        self.show(|view| {
            view.status.state = ServerState::Ready;
            view.status.note = (!notes.is_empty()).then(|| notes.join("; "));
            view.status.left_out = found.left_out;
            view.tools = known.values().cloned().collect();
            view.settled = true;
        });
    }

    /// Watches a connection until it is to be given up.
    async fn tend(&self, generation: u64, connection: &mut Connection, known: &mut Tools) -> End {
        let stop = self.stop.clone();
        let signals = Arc::clone(&connection.signals);
        let mut outdated = self.outdated.clone();
        let mut first_notice: Option<Instant> = None;
        let mut list_at = Instant::now() + REFRESH;
        let mut noise_at: Option<Instant> = None;
        loop {
            let noise_due = async {
                match noise_at {
                    Some(at) => sleep_until(at).await,
                    None => self.noise.changed().await,
                }
            };
            let replaced = async {
                outdated.wait_for(|&newest| newest >= generation).await.ok();
            };
            tokio::select! {
                () = stop.cancelled() => return End::Stopped,
                why = connection.lost() => return End::Lost(why),
                () = replaced => return End::Outdated,
                () = signals.changed.notified() => {
                    let now = Instant::now();
                    let first = *first_notice.get_or_insert(now);
                    list_at = (now + QUIET).min(first + QUIET_MAX);
                }
                () = signals.suspect.notified() => list_at = Instant::now(),
                () = sleep_until(list_at) => {
                    first_notice = None;
                    list_at = Instant::now() + REFRESH;
                    match stop.run_until_cancelled(self.discover(connection, known)).await {
                        None => return End::Stopped,
                        Some(Ok(found)) => self.offer(generation, connection, found, known),
                        Some(Err(DiscoveryError::SessionUnknown)) => return End::Outdated,
                        // It may simply be at work on a call.
                        Some(Err(DiscoveryError::Slow)) if connection.ledger.busy() => {}
                        Some(Err(error)) => return End::Lost(error.to_string()),
                    }
                }
                () = noise_due => match noise_at.take() {
                    Some(_) => self.show_noise(),
                    None => noise_at = Some(Instant::now() + NOISE),
                },
            }
        }
    }

    /// A process is ended before another takes its place. An HTTP session may still be answering calls: it ends when
    /// they have.
    async fn give_up(&self, connection: Connection, end: &End) {
        match (self.server.entry.reach(), end) {
            (Reach::Stdio { .. }, _) | (_, End::Stopped) => connection.close().await,
            (Reach::Http { .. }, End::Outdated | End::Lost(_)) => {
                let stop = self.stop.clone();
                self.tasks.spawn(async move {
                    let ledger = Arc::clone(&connection.ledger);
                    stop.run_until_cancelled(timeout(RETIRE, ledger.idle())).await;
                    connection.close().await;
                });
            }
        }
        self.show_noise();
    }

    /// Says why the server is down, and waits. `false`: the product is shutting down.
    async fn pause(&self, why: &str, failures: u32) -> bool {
        let pause = backoff::pause(failures);
        let times = if failures == 1 { "once".to_owned() } else { format!("{failures} times in a row") };
        let seconds = pause.as_secs_f64().ceil();
        self.link.send_replace(LinkState::Down(why.to_owned()));
        self.show(|view| {
            view.status.state = ServerState::Unavailable;
            view.status.note = Some(format!("{why} (failed {times}; next try in about {seconds} s)"));
            view.settled = true;
        });
        self.show_noise();
        self.stop.run_until_cancelled(sleep(pause)).await.is_some()
    }

    fn show(&self, change: impl FnOnce(&mut View)) {
        self.board.update(self.place, change);
    }

    fn show_noise(&self) {
        self.show(|view| view.status.noise = self.noise.shown());
    }
}
