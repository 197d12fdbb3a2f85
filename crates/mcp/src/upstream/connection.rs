//! One live connection to a server, of either kind and either protocol era.

use crate::servers::{Reach, ServerEntry};
use crate::upstream::handler::Handler;
use crate::upstream::http::{self, Fault, HttpClient, HttpFault};
use crate::upstream::ledger::Ledger;
use crate::upstream::masking::Masks;
use crate::upstream::noise::Noise;
use crate::upstream::stdio::child::Child;
use crate::upstream::stdio::{Ended, Pipes};
use futures::future::{BoxFuture, FutureExt, Shared};
use rmcp::model::{ProtocolVersion, SubscriptionFilter};
use rmcp::service::{
    ClientCacheConfig, ClientInitializeError, ClientLifecycleMode, ClientServiceExt, Peer, RoleClient,
    RunningService, RunningServiceCancellationToken, ServiceError,
};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::streamable_http_client::StreamableHttpError;
use std::ffi::OsString;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::timeout;

/// How long the library has to end a connection, a session's deletion included.
const GOODBYE: Duration = Duration::from_secs(6);
/// First and longest pause before a broken subscription is opened again.
const LISTEN_AGAIN: Duration = Duration::from_secs(1);
const LISTEN_AGAIN_MAX: Duration = Duration::from_secs(60);
/// How long what a process wrote before it ended may take to be read.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// What a connection tells its supervisor.
#[derive(Debug, Default)]
pub(crate) struct Signals {
    /// The list of tools has changed.
    pub(crate) changed: Notify,
    /// Something failed as if the server were gone, or did not know the session any more.
    pub(crate) suspect: Notify,
}

/// Which era to try first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Era {
    /// Ask for discovery (2026-07-28), fall back to the handshake.
    Newest,
    /// The handshake (up to 2025-11-25) alone: the server is known to speak it, or discovery ended it last time.
    Handshake,
}

/// Why there is no connection, and whether the server was reached at all.
#[derive(Debug)]
pub(crate) struct ConnectError {
    pub(crate) why: String,
    pub(crate) reached: bool,
}

/// What is needed to connect.
pub(crate) struct Dialler<'a> {
    pub(crate) entry: &'a ServerEntry,
    pub(crate) environment: &'a [(OsString, OsString)],
    pub(crate) mark: Option<&'a str>,
    pub(crate) http: Option<&'a reqwest::Client>,
    pub(crate) masks: &'a Arc<Masks>,
    pub(crate) noise: &'a Arc<Noise>,
    pub(crate) handshake: Duration,
}

/// A connection after its handshake.
pub(crate) struct Connection {
    pub(crate) peer: Peer<RoleClient>,
    pub(crate) ledger: Arc<Ledger>,
    pub(crate) signals: Arc<Signals>,
    service: Shared<BoxFuture<'static, ()>>,
    stop: Option<RunningServiceCancellationToken>,
    ended: Ended,
    process: Option<Process>,
    listener: Option<OwnedTask>,
}

/// A child and the task that reads its standard error.
struct Process {
    child: Child,
    drain: OwnedTask,
}

impl Process {
    /// Ends it and reads its last words. Its standard input must have been closed.
    async fn end(mut self) -> String {
        let how = self.child.end().await;
        // A descendant outside the group could hold the pipe open for ever.
        timeout(LAST_WORDS, &mut self.drain.0).await.ok();
        how
    }
}

/// A task that ends with its owner.
struct OwnedTask(JoinHandle<()>);

impl Drop for OwnedTask {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Dialler<'_> {
    /// Connects, in bounded time. Whatever was started is ended again when it does not work out.
    pub(crate) async fn connect(&self, era: Era) -> Result<Connection, ConnectError> {
        let ledger = Arc::new(Ledger::default());
        let signals = Arc::new(Signals::default());
        let handler = Handler(Arc::clone(&signals));
        let ended = Ended::default();
        let (process, service) = match self.entry.reach() {
            Reach::Stdio { command, args, env, cwd } => {
                let started = Child::start(command, args, cwd.as_deref(), self.environment, env, self.mark);
                let (child, pipes) = started.map_err(|error| ConnectError {
                    why: self.masks.show(&format!("`{command}` could not be started: {error}")),
                    reached: false,
                })?;
                let noise = Arc::clone(self.noise);
                let drain = OwnedTask(tokio::spawn(async move { noise.drain(pipes.error).await }));
                let transport = Pipes::new(
                    pipes.output,
                    pipes.input,
                    Arc::clone(&ledger),
                    Arc::clone(self.noise),
                    Arc::clone(&ended),
                );
                (
                    Some(Process { child, drain }),
                    timeout(self.handshake, handler.serve_with_lifecycle(transport, mode(era))).await,
                )
            }
            Reach::Http { url, headers } => {
                let Some(client) = self.http else {
                    let why = "no HTTP client could be set up on this machine".to_owned();
                    return Err(ConnectError { why, reached: false });
                };
                let client = HttpClient::new(
                    client.clone(),
                    Arc::clone(&ledger),
                    Arc::clone(&signals),
                    Arc::clone(self.masks),
                );
                let transport =
                    StreamableHttpClientTransport::with_client(client, http::config(url, headers));
                (None, timeout(self.handshake, handler.serve_with_lifecycle(transport, mode(era))).await)
            }
        };
        let failure = match service {
            Ok(Ok(service)) => return Ok(Connection::new(service, ledger, signals, ended, process).await),
            Ok(Err(error)) => self.explain(&error, ended.get()),
            Err(_) => {
                let seconds = self.handshake.as_secs();
                ConnectError {
                    why: format!("it did not answer the handshake within {seconds} s"),
                    reached: true,
                }
            }
        };
        match process {
            // The transport is gone, and with it the child's standard input.
            Some(process) => {
                let how = process.end().await;
                Err(ConnectError { why: format!("{}; {how}", failure.why), ..failure })
            }
            None => Err(failure),
        }
    }

    fn explain(&self, error: &ClientInitializeError, ended: Option<&String>) -> ConnectError {
        use ClientInitializeError as E;
        let (why, reached) = match error {
            E::TransportError { error, .. } => match error.error.downcast_ref::<Fault>() {
                Some(StreamableHttpError::Client(fault @ HttpFault::NotConnected(_))) => {
                    (fault.to_string(), false)
                }
                Some(StreamableHttpError::Client(fault)) => (fault.to_string(), true),
                Some(StreamableHttpError::AuthRequired(_)) => ("it asks for authorization".to_owned(), true),
                _ => ("the connection ended during the handshake".to_owned(), true),
            },
            E::ConnectionClosed(_) => match ended {
                Some(why) => (why.clone(), true),
                None => ("the connection ended during the handshake".to_owned(), true),
            },
            E::JsonRpcError(error) => (format!("it refused the handshake: {}", error.message), true),
            E::LegacyFallbackFailed { fallback, .. } => return self.explain(fallback, ended),
            E::NoCompatibleProtocolVersion { server_supported, .. } => {
                let versions: Vec<_> = server_supported.iter().map(ProtocolVersion::as_str).collect();
                (
                    format!(
                        "it speaks no protocol version that is known here, only: {}",
                        versions.join(", ")
                    ),
                    true,
                )
            }
            _ => ("it answered the handshake with something else".to_owned(), true),
        };
        ConnectError { why: self.masks.show(&why), reached }
    }
}

fn mode(era: Era) -> ClientLifecycleMode {
    match era {
        Era::Newest => ClientLifecycleMode::Auto {
            preferred_versions: vec![ProtocolVersion::V_2026_07_28],
            legacy_version: Some(ProtocolVersion::LATEST_WITH_INITIALIZE),
        },
        Era::Handshake => ClientLifecycleMode::Initialize,
    }
}

impl Connection {
    async fn new(
        service: RunningService<RoleClient, Handler>,
        ledger: Arc<Ledger>,
        signals: Arc<Signals>,
        ended: Ended,
        process: Option<Process>,
    ) -> Self {
        let peer = service.peer().clone();
        // A list served from a cache, or a stale one after a failure, would hide what the server offers now.
        peer.set_response_cache_config(ClientCacheConfig::disabled()).await;
        let stop = Some(service.cancellation_token());
        // How the library's loop ended is known from the pipes or the process.
        let service = service.waiting().map(|_| ()).boxed().shared();
        let mut connection = Self { peer, ledger, signals, service, stop, ended, process, listener: None };
        connection.listen();
        connection
    }

    /// The era that was agreed on.
    pub(crate) fn era(&self) -> Era {
        match self.peer.peer_info() {
            Some(info) if !info.protocol_version.has_initialize() => Era::Newest,
            _ => Era::Handshake,
        }
    }

    /// The server's own name and version, if it said.
    pub(crate) fn about(&self, masks: &Masks) -> Option<String> {
        let info = self.peer.peer_info()?;
        let server = info.server_info.as_ref()?;
        Some(masks.show(&format!("{} {}", server.name, server.version)))
    }

    /// Waits until the connection has ended by itself, and says why.
    pub(crate) async fn lost(&mut self) -> String {
        let how = match &mut self.process {
            Some(process) => tokio::select! {
                how = process.child.ended() => {
                    // What it wrote before it ended is still in the pipe, unless a descendant holds the pipe open.
                    timeout(LAST_WORDS, self.service.clone()).await.ok();
                    how
                }
                () = self.service.clone() => "the process closed its standard output".to_owned(),
            },
            None => {
                self.service.clone().await;
                "the connection ended".to_owned()
            }
        };
        self.ended.get().cloned().unwrap_or(how)
    }

    /// Ends the connection: the session is given up, standard input closed, the process group ended and reaped.
    pub(crate) async fn close(mut self) {
        self.listener = None;
        if let Some(stop) = self.stop.take() {
            stop.cancel();
        }
        // An overdue goodbye is cut: dropping the service closes the pipe.
        timeout(GOODBYE, self.service).await.ok();
        if let Some(process) = self.process.take() {
            process.end().await;
        }
    }

    /// In the newer era, change notices come only to those who ask for them.
    fn listen(&mut self) {
        let announces = self
            .peer
            .peer_info()
            .and_then(|info| info.capabilities.tools.as_ref().and_then(|tools| tools.list_changed))
            .unwrap_or(false);
        if self.era() == Era::Newest && announces {
            let listening = listen(self.peer.clone(), Arc::clone(&self.signals));
            self.listener = Some(OwnedTask(tokio::spawn(listening)));
        }
    }
}

async fn listen(peer: Peer<RoleClient>, signals: Arc<Signals>) {
    let mut pause = LISTEN_AGAIN;
    let mut was_open = false;
    loop {
        let filter = SubscriptionFilter::builder().tools_list_changed().build();
        match peer.listen(filter).await {
            Ok(mut subscription) => {
                if was_open {
                    // Something may have changed while nobody listened.
                    signals.changed.notify_one();
                }
                (was_open, pause) = (true, LISTEN_AGAIN);
                while let Ok(Some(_)) = subscription.next().await {
                    signals.changed.notify_one();
                }
            }
            // It does not offer notices after all.
            Err(ServiceError::McpError(_)) => return,
            Err(_) => {}
        }
        signals.suspect.notify_one();
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(LISTEN_AGAIN_MAX);
    }
}
