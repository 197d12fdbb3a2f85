//! What passed the gate lately, how long people and the gate took, and what needs a look.

mod chart;
mod gate;
mod look;
mod span;
mod waits;

use super::error::WebError;
use super::events::Region;
use super::extract::Query;
use super::figures::{Moment, grouped};
use super::frame::{Frame, Place};
use super::guard::CurrentUser;
use super::respond::render;
use super::state::WebState;
use super::ui::ToolName;
use askama::Template;
use axum::Router;
use axum::extract::State;
use axum::response::Response;
use axum::routing::get;
use chart::Chart;
use gate::GateChart;
use look::Look;
use serde::Deserialize;
use sluicegate_gateway::{CallState, ReasonCode};
use sluicegate_policy::Effect;
use sluicegate_store::Overview;
use span::Span;
use std::borrow::Borrow;
use waits::Waits;

/// Everyone who is signed in may look.
pub(super) fn router() -> Router<WebState> {
    Router::new().route("/", get(show))
}

#[derive(Debug, Default, Deserialize)]
struct Asked {
    range: Option<String>,
}

#[derive(Template)]
#[template(path = "overview.html")]
struct OverviewPage {
    frame: Frame,
    span: Span,
    now: Moment,
    totals: Totals,
    pending: String,
    chart: Chart,
    denied: Vec<Denied>,
    waits: Waits,
    gate: GateChart,
    look: Vec<Look>,
}

impl OverviewPage {
    fn figure(count: impl Borrow<u64>) -> String {
        grouped(*count.borrow())
    }

    /// A part of all calls in per cent, with one decimal.
    fn percent(&self, part: impl Borrow<u64>) -> String {
        let tenths = part.borrow().saturating_mul(1_000) / self.totals.all.max(1);
        format!("{}.{} %", tenths / 10, tenths % 10)
    }
}

/// Sums of the span, by what the rules said first.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
struct Totals {
    all: u64,
    open: u64,
    allowed: u64,
    completed: u64,
    failed: u64,
    unknown: u64,
    held: u64,
    approved: u64,
    refused: u64,
    expired: u64,
    withdrawn: u64,
    denied: u64,
    by_rule: u64,
    by_default: u64,
    over_limit: u64,
}

impl Totals {
    fn of(overview: &Overview) -> Self {
        let mut totals = Self::default();
        for slot in &overview.slots {
            let mut add = |sum: fn(&mut Self) -> &mut u64| {
                let sum = sum(&mut totals);
                *sum = sum.saturating_add(slot.count);
            };
            add(|totals| &mut totals.all);
            if !slot.state.is_end() {
                add(|totals| &mut totals.open);
            }
            match slot.decision {
                Effect::Allow => {
                    add(|totals| &mut totals.allowed);
                    match slot.state {
                        CallState::Completed => add(|totals| &mut totals.completed),
                        CallState::Failed => add(|totals| &mut totals.failed),
                        CallState::Unknown => add(|totals| &mut totals.unknown),
                        _ => {}
                    }
                }
                Effect::RequireApproval => {
                    add(|totals| &mut totals.held);
                    match slot.state {
                        CallState::Completed
                        | CallState::Failed
                        | CallState::Unknown
                        | CallState::Executing
                        | CallState::Approved => add(|totals| &mut totals.approved),
                        CallState::Denied => add(|totals| &mut totals.refused),
                        CallState::Expired => add(|totals| &mut totals.expired),
                        CallState::Withdrawn => add(|totals| &mut totals.withdrawn),
                        CallState::Proposed | CallState::Pending => {}
                    }
                }
                Effect::Deny => {
                    add(|totals| &mut totals.denied);
                    match slot.code {
                        Some(ReasonCode::Rule) => add(|totals| &mut totals.by_rule),
                        Some(ReasonCode::NoRule) => add(|totals| &mut totals.by_default),
                        Some(ReasonCode::OverBudget | ReasonCode::OverRate) => {
                            add(|totals| &mut totals.over_limit);
                        }
                        _ => {}
                    }
                }
            }
        }
        totals
    }

    /// Denied for other reasons: arguments that do not fit, unknown tools, no readable rules.
    fn otherwise(&self) -> u64 {
        self.denied
            .saturating_sub(self.by_rule)
            .saturating_sub(self.by_default)
            .saturating_sub(self.over_limit)
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

fn denied(overview: &Overview, span: Span) -> Vec<Denied> {
    let most = overview.denied_tools.iter().map(|tool| tool.count).max().unwrap_or_default().max(1);
    overview
        .denied_tools
        .iter()
        .map(|tool| Denied {
            tool: ToolName::new(&tool.server, &tool.tool),
            href: super::audit::address(
                "/audit",
                &[
                    ("time", span.word()),
                    ("state", CallState::Denied.as_str()),
                    ("server", &tool.server),
                    ("tool", &tool.tool),
                ],
            ),
            count: grouped(tool.count),
            share: tool.count.saturating_mul(100) / most,
        })
        .collect()
}

async fn show(
    State(state): State<WebState>,
    user: CurrentUser,
    asked: Query<Asked>,
) -> Result<Response, WebError> {
    let span = match asked.0.range.as_deref() {
        None | Some("") => Span::Day,
        Some(word) => Span::parse(word).ok_or_else(|| {
            WebError::Invalid("The address asks for a span of time that is not offered".to_owned())
        })?,
    };
    let now = state.now_ms();
    let first = span.first_ms(now);
    let overview = state.calls.overview(first, span.slot_ms()).await?;
    let frame = state.frame(&user, Place::Overview, "Overview", Region::Frame).await?;
    Ok(render(&OverviewPage {
        span,
        now: Moment::at_ms(now),
        totals: Totals::of(&overview),
        pending: grouped(frame.pending.0),
        chart: Chart::of(&overview.slots, span, first),
        denied: denied(&overview, span),
        waits: Waits::of(&overview.decisions),
        gate: GateChart::of(&state.times),
        look: look::all(&state, &overview, first).await?,
        frame,
    }))
}
