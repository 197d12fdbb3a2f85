//! What passed the gate in the last day, and what needs somebody.

mod chart;

use super::error::WebError;
use super::events::Region;
use super::figures::{Moment, grouped};
use super::frame::{Frame, Place};
use super::guard::CurrentUser;
use super::respond::render;
use super::state::WebState;
use super::ui::{Icon, Marked, ToolName};
use askama::Template;
use axum::Router;
use axum::extract::State;
use axum::response::Response;
use axum::routing::get;
use chart::Chart;
use sluicegate_gateway::{CallState, ServerState};
use sluicegate_store::Overview;
use std::borrow::Borrow;

const HOUR_MS: i64 = 3_600_000;
/// The hour that has begun, and the 23 before it.
const HOURS: i64 = 24;
const UNKNOWN_LISTED: u32 = 10;

/// Everyone who is signed in may look.
pub(super) fn router() -> Router<WebState> {
    Router::new().route("/", get(show))
}

#[derive(Template)]
#[template(path = "overview.html")]
struct OverviewPage {
    frame: Frame,
    now: Moment,
    totals: Totals,
    pending: String,
    chart: Chart,
    denied: Vec<Denied>,
    unresolved: u64,
    unknown: Vec<(String, ToolName, Moment)>,
    failing: Vec<(String, Marked)>,
    revision: Option<(i64, Moment, usize)>,
}

impl OverviewPage {
    fn figure(count: impl Borrow<u64>) -> String {
        grouped(*count.borrow())
    }
}

/// Sums of a day.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
struct Totals {
    all: u64,
    completed: u64,
    failed: u64,
    denied: u64,
    expired: u64,
    withdrawn: u64,
    unknown: u64,
    open: u64,
}

impl Totals {
    fn of(overview: &Overview) -> Self {
        let mut totals = Self::default();
        for hour in &overview.hours {
            let counted = match hour.state {
                CallState::Completed => &mut totals.completed,
                CallState::Failed => &mut totals.failed,
                CallState::Denied => &mut totals.denied,
                CallState::Expired => &mut totals.expired,
                CallState::Withdrawn => &mut totals.withdrawn,
                CallState::Unknown => &mut totals.unknown,
                CallState::Proposed | CallState::Pending | CallState::Approved | CallState::Executing => {
                    &mut totals.open
                }
            };
            *counted = counted.saturating_add(hour.count);
            totals.all = totals.all.saturating_add(hour.count);
        }
        totals
    }

    fn ran(&self) -> u64 {
        self.completed.saturating_add(self.failed).saturating_add(self.unknown)
    }

    fn not_run(&self) -> u64 {
        self.denied.saturating_add(self.expired).saturating_add(self.withdrawn)
    }
}

/// A tool with denials; its bar is drawn against the one with the most.
#[derive(Debug)]
struct Denied {
    tool: ToolName,
    href: String,
    count: String,
    share: u64,
}

async fn show(State(state): State<WebState>, user: CurrentUser) -> Result<Response, WebError> {
    let now = state.now_ms();
    let first = now.div_euclid(HOUR_MS).saturating_sub(HOURS - 1).saturating_mul(HOUR_MS);
    let overview = state.calls.overview(first).await?;
    let most = overview.denied_tools.iter().map(|tool| tool.count).max().unwrap_or_default().max(1);
    let denied = overview
        .denied_tools
        .iter()
        .map(|tool| Denied {
            tool: ToolName::new(&tool.server, &tool.tool),
            href: super::audit::address(
                "/audit",
                &[("state", CallState::Denied.as_str()), ("server", &tool.server), ("tool", &tool.tool)],
            ),
            count: grouped(tool.count),
            share: tool.count.saturating_mul(100) / most,
        })
        .collect();
    let catalogue = state.catalogue.snapshot();
    let failing = catalogue
        .servers()
        .iter()
        .filter(|server| server.state == ServerState::Unavailable)
        .map(|server| {
            (server.name.to_string(), Marked::of(server.note.as_deref().unwrap_or("not reachable")))
        })
        .collect();
    let frame = state.frame(&user, Place::Overview, "Overview", Region::Frame).await?;
    Ok(render(&OverviewPage {
        now: Moment::at_ms(now),
        totals: Totals::of(&overview),
        pending: grouped(frame.pending.0),
        chart: Chart::of(&overview.hours, first, HOURS, HOUR_MS),
        denied,
        unresolved: overview.unresolved,
        unknown: unknown(&state, overview.unresolved).await?,
        failing,
        revision: state.policy().await?.map(|entry| {
            (entry.revision.id.0, Moment::at_ms(entry.at_ms), entry.revision.document.rules.len())
        }),
        frame,
    }))
}

/// The latest calls whose outcome nobody knows.
async fn unknown(state: &WebState, unresolved: u64) -> Result<Vec<(String, ToolName, Moment)>, WebError> {
    if unresolved == 0 {
        return Ok(Vec::new());
    }
    let filter = sluicegate_store::CallFilter { state: Some(CallState::Unknown), ..Default::default() };
    let page = state.calls.list(&filter, None, UNKNOWN_LISTED).await?;
    let open = page.rows.iter().filter(|call| call.resolution.is_none());
    Ok(open
        .map(|call| {
            (call.id.to_string(), ToolName::new(&call.server, &call.tool), Moment::at_ms(call.requested_ms))
        })
        .collect())
}
