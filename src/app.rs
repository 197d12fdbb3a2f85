//! The composition root: builds everything once, introduces the parts to each other, and takes them down in order.
//! If you want to know how the house is wired, this is the room to look in.

mod leftovers;
mod models;
mod product_files;
mod sign_in;
mod signals;
mod upstreams;

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, anyhow, bail};
use axum::serve::ListenerExt as _;
use sluicegate_gateway::{Clock, GatewaySettings, Running, SystemClock, ToolExecutionGateway};
use sluicegate_mcp::{Front, FrontParts, UpstreamControl};
use sluicegate_store::{Store, StoreOptions};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tracing::{error, info, warn};

use crate::agent::log::StoreLog;
use crate::agent::{AgentHandle, AgentParts, AgentSettings};
use crate::config::{Config, Surroundings};
use crate::mcp::{self, McpState, StoredTrail};
use crate::rules::{Rules, Seeded};
use crate::web::{self, Hosts, WebParts, WebState};

pub use sign_in::sign_in_line;

/// Calls in flight at once, held ones included.
const MAX_IN_FLIGHT: usize = 1_024;

/// How long each part may take to end. What has not ended by then is settled at the next start.
const TURNS_END: Duration = Duration::from_secs(6);
const CALLS_END: Duration = Duration::from_secs(10);
const SERVERS_END: Duration = Duration::from_secs(8);
const PAGES_END: Duration = Duration::from_secs(2);

/// Runs the product until a signal ends it. `say` gets the lines that people and scripts wait for.
///
/// # Errors
/// One line with what happened and what to do, when it cannot start or its pages break down.
pub async fn serve(
    config: Config,
    around: Surroundings,
    say: fn(&str) -> std::io::Result<()>,
) -> anyhow::Result<()> {
    arm_crash_point()?;
    let signal = signals::first()?;
    product_files::check(&config)?;
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let store = Store::open_server(&config.database_url, clock.clone(), StoreOptions::default()).await?;
    let ended = run(&config, &around, &store, clock, say, signal).await;
    store.close().await;
    ended
}

/// From an open store to the end of the last call.
async fn run(
    config: &Config,
    around: &Surroundings,
    store: &Store,
    clock: Arc<dyn Clock>,
    say: fn(&str) -> std::io::Result<()>,
    signal: impl Future<Output = ()>,
) -> anyhow::Result<()> {
    let defaults = config.approval_defaults();
    let rules = Rules::new(store.policies(), store.call_reader(), defaults);
    report(&rules.seed(&config.policy).await?);
    let listener = listen(config.listen).await?;
    let listening = listener.local_addr().context("the address listened on cannot be read")?;
    let origin = config.origin(listening);

    let mark = leftovers::mark(store.path())?;
    let leftovers = leftovers::end(store, &mark).await?;
    let (invoke, upstreams) = upstreams::connect(config, around, &mark)?;
    let settings = GatewaySettings { approval_defaults: defaults, max_in_flight: MAX_IN_FLIGHT };
    let (gateway, approvals, running) =
        ToolExecutionGateway::new(invoke, store.calls(), clock.clone(), settings);
    // Before any traffic, and before the agent could ask for anything.
    let settled = running.reconcile().await?;
    if !settled.unknown.is_empty() || !settled.orphaned.is_empty() {
        warn!(
            unknown = settled.unknown.len(),
            orphaned = settled.orphaned.len(),
            "an earlier run left calls open; they are settled in the trail, and none of them runs"
        );
    }
    let (catalogue, times) = (gateway.catalogue(), gateway.times());
    let shutdown = CancellationToken::new();
    let (trail, growing) = StoredTrail::new(store.audit(), &store.feed(), shutdown.clone());
    let growing = tokio::spawn(growing);
    let front = Front::new(FrontParts {
        gateway: gateway.clone(),
        trail: Arc::new(trail),
        public: origin.clone(),
        shutdown: shutdown.clone(),
    });
    let agent = AgentHandle::new(AgentParts {
        gateway,
        log: Arc::new(StoreLog::new(
            store.conversations(),
            store.call_reader(),
            store.audit_log(),
            store.policies(),
        )),
        models: models::configured(config)?,
        settings: AgentSettings { most_steps: config.max_agent_steps, ..AgentSettings::default() },
    });
    agent.recover().await?;

    let hosts = Hosts::new(&origin, listening)?;
    let pages = web::router(WebState::new(WebParts {
        agent: agent.clone(),
        approvals,
        calls: store.call_reader(),
        conversations: store.conversations(),
        audit: store.audit(),
        people: store.people(),
        keys: store.keys(),
        rules: rules.knowing(catalogue.clone()),
        settings: config.settings.clone(),
        resolutions: store.resolutions(),
        catalogue,
        leftovers,
        feed: store.feed(),
        times,
        clock,
        hosts: hosts.clone(),
        shutdown: shutdown.clone(),
    }))?;
    let pages = pages.merge(mcp::router(McpState { front: front.clone(), keys: store.keys(), hosts }));
    let watching = tokio::spawn(mcp::watch_keys(front, store.keys(), store.feed(), shutdown.clone()));
    // Without it an answer in two pieces waits for the client's delayed acknowledgement: 40 ms on loopback.
    let listener = listener.tap_io(|connection| {
        if let Err(error) = connection.set_nodelay(true) {
            warn!(%error, "TCP_NODELAY could not be set; answers may be slow");
        }
    });
    let stop = shutdown.clone().cancelled_owned();
    let mut serving = tokio::spawn(async move {
        axum::serve(listener, pages.into_make_service_with_connect_info::<SocketAddr>())
            .with_graceful_shutdown(stop)
            .await
    });
    let link = sign_in_line(&store.people(), &origin).await;
    let broke = async {
        say(&format!("Ready: http://{listening}"))?;
        say(&link?)?;
        tokio::select! {
            () = signal => Ok(()),
            served = &mut serving => Err(anyhow!("the pages broke down: {served:?}")),
        }
    };
    let ended = broke.await;
    info!("stopping");
    shutdown.cancel();
    stop_in_order(&agent, &running, upstreams, &mark).await;
    if !serving.is_finished() && tokio::time::timeout(PAGES_END, &mut serving).await.is_err() {
        serving.abort();
    }
    watching.abort();
    growing.abort();
    ended
}

/// Turns first, since they propose calls; then calls, since they use servers; then servers.
async fn stop_in_order(agent: &AgentHandle, running: &Running, upstreams: UpstreamControl, mark: &str) {
    if !agent.shutdown(TURNS_END).await {
        warn!("some turns of the chat did not end in time");
    }
    if !running.shutdown(CALLS_END).await {
        warn!("some calls did not end in time; they are settled at the next start");
    }
    if !upstreams.shutdown(SERVERS_END).await {
        warn!("some MCP servers had to be killed");
    }
    leftovers::end_escaped(mark).await;
}

fn report(seeded: &Seeded) {
    match seeded {
        Seeded::Kept(revision) => {
            info!("the rules are those of the store (revision {}); the policy file is not read", revision.0);
        }
        Seeded::File(_) => info!("the rules were seeded from the policy file"),
        Seeded::Shipped(_) => info!("the rules were seeded with those that are shipped"),
        Seeded::Refused(why) => {
            error!(
                "there are no rules, so every call is denied: {why}; mend it and run `sluicegate policy import`"
            );
        }
    }
}

async fn listen(address: SocketAddr) -> anyhow::Result<TcpListener> {
    match TcpListener::bind(address).await {
        Ok(listener) => Ok(listener),
        Err(error) if error.kind() == ErrorKind::AddrInUse => {
            bail!(
                "another program listens on {address}: stop it, or give this one another address with --listen"
            )
        }
        Err(error) => bail!("{address} cannot be listened on ({error}): give another address with --listen"),
    }
}

/// Test builds can be told to die at a step of a call.
#[cfg(feature = "crash-points")]
#[expect(clippy::disallowed_methods, reason = "read by test builds only")]
fn arm_crash_point() -> anyhow::Result<()> {
    match std::env::var("SLUICEGATE_CRASH_AT") {
        Ok(point) if !sluicegate_gateway::crash::arm(&point) => bail!("there is no crash point `{point}`"),
        Ok(_) | Err(_) => Ok(()),
    }
}

#[cfg(not(feature = "crash-points"))]
#[expect(clippy::unnecessary_wraps, reason = "the same form as in test builds")]
fn arm_crash_point() -> anyhow::Result<()> {
    Ok(())
}
