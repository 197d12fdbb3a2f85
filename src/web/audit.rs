//! The trail: calls by filters in the address, one call's story, other events, and whether the chain is whole.

mod asked;
mod call;
pub(super) mod chain;
mod events;
mod timeline;

pub(super) use asked::address;
pub(super) use events::facts;

use super::error::WebError;
use super::events::Region;
use super::extract::Query;
use super::figures::{Moment, took};
use super::fragment::{Fragment, Swap};
use super::frame::{Frame, Place};
use super::guard::CurrentUser;
use super::respond::{Wants, render, see_other};
use super::state::WebState;
use super::ui::{Badge, Icon, Marked, Tone, ToolName, call_state, components};
use askama::Template;
use asked::{Asked, TIMES};
use axum::Router;
use axum::extract::State;
use axum::response::Response;
use axum::routing::{get, post};
use chain::Chain;
use sluicegate_gateway::{CallId, CallState, ReasonCode};
use sluicegate_policy::Effect;
use sluicegate_store::{CallFilter, CallPage, CallRow};

const PAGE: u32 = 50;

/// Everyone who is signed in may look; settling an unknown outcome takes an admin.
pub(super) fn router() -> Router<WebState> {
    Router::new()
        .route("/audit", get(list))
        .route("/audit/chain", get(chain::show))
        .route("/audit/verify", post(chain::verify))
        .route("/audit/events", get(events::list))
        .route("/audit/calls/{id}", get(call::show))
        .route("/audit/calls/{id}/resolve", post(call::resolve))
}

#[derive(Template)]
#[template(path = "audit.html")]
struct AuditPage {
    frame: Frame,
    asked: Asked,
    results: Results,
    chain: Chain,
    servers: Vec<String>,
    tools: Vec<String>,
    callers: Vec<String>,
}

impl AuditPage {
    const DECISIONS: [(Effect, &'static str); 3] = [
        (Effect::Allow, "Allowed"),
        (Effect::RequireApproval, "Held for a person"),
        (Effect::Deny, "Denied"),
    ];

    /// The states that a recorded call can be in.
    fn outcomes() -> Vec<(CallState, &'static str)> {
        let recorded = CallState::ALL.iter().filter(|state| **state != CallState::Proposed);
        recorded.map(|state| (*state, call_state(*state).2)).collect()
    }
}

/// The calls that were found: the part of the page that another search replaces.
#[derive(Debug, Template)]
#[template(path = "audit/results.html")]
struct Results {
    calls: Vec<Line>,
    older: Option<String>,
    latest: Option<String>,
    /// Present if looking ended before the page was full: so far back it came.
    searched_to: Option<Moment>,
    filtered: bool,
}

components!(Results);

impl Results {
    fn of(asked: &Asked, page: &CallPage, now_ms: i64) -> Self {
        Self {
            calls: page.rows.iter().map(|call| line(call, now_ms)).collect(),
            older: page.next.map(|before| asked.older(before)),
            latest: asked.before.map(|_| asked.latest()),
            searched_to: page.searched_to_ms.map(Moment::at_ms),
            filtered: !asked.is_empty(),
        }
    }

    /// Nothing was found yet, and there is more to look at: a page with a script goes on by itself.
    fn goes_on(&self) -> bool {
        self.calls.is_empty() && self.older.is_some()
    }
}

/// A call in the list.
#[derive(Debug)]
struct Line {
    id: String,
    at: Moment,
    day: String,
    tool: ToolName,
    flagged: bool,
    caller: Marked,
    steps: Vec<Step>,
    said: String,
    state: CallState,
    badge: Badge,
    why: Marked,
    took: String,
}

/// One recorded event of a call, as a mark.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Step {
    tone: Tone,
    shape: &'static str,
}

fn line(call: &CallRow, now_ms: i64) -> Line {
    let (tone, icon, word) = call_state(call.state);
    let (steps, said) = steps(call);
    Line {
        id: call.id.to_string(),
        at: Moment::at_ms(call.requested_ms),
        day: Moment::day(call.requested_ms, now_ms),
        tool: ToolName::new(&call.server, &call.tool),
        flagged: !call.flags.is_empty(),
        caller: Marked::of(call.caller.principal.caller.as_str()),
        steps,
        said,
        state: call.state,
        badge: Badge { tone, icon, word: word.to_owned(), plain: true },
        why: Marked::of(&call.sentence),
        took: call.ended_ms.map(|end| took(end.saturating_sub(call.requested_ms))).unwrap_or_default(),
    }
}

/// A call's life as marks, and in words. Round went on, square was stopped, hollow is still open.
fn steps(call: &CallRow) -> (Vec<Step>, String) {
    let round = |tone| Step { tone, shape: "" };
    let square = |tone| Step { tone, shape: "steps__stop" };
    let hollow = Step { tone: Tone::Neutral, shape: "steps__todo" };
    let (mut steps, mut words) = (vec![round(Tone::Info)], vec!["requested"]);
    let mut add = |step, word| {
        steps.push(step);
        words.push(word);
    };
    match call.decision {
        Effect::Allow => add(round(Tone::Allow), "allowed by the rules"),
        Effect::RequireApproval => add(round(Tone::Hold), "held for a person"),
        Effect::Deny => add(square(Tone::Deny), "denied by the rules"),
    }
    if call.decision == Effect::RequireApproval
        && (call.started_ms.is_some() || call.state == CallState::Approved)
    {
        add(round(Tone::Allow), "approved");
    }
    if call.started_ms.is_some() {
        add(round(Tone::Info), "started");
    }
    match call.state {
        CallState::Completed => add(round(Tone::Allow), "completed"),
        CallState::Failed => add(square(Tone::Neutral), "failed"),
        CallState::Unknown => add(square(Tone::Neutral), "outcome unknown"),
        CallState::Expired => add(square(Tone::Neutral), "expired"),
        CallState::Withdrawn => add(square(Tone::Neutral), "withdrawn"),
        CallState::Denied if call.decision != Effect::Deny => add(square(Tone::Deny), "denied"),
        CallState::Denied => {}
        CallState::Proposed | CallState::Pending | CallState::Approved | CallState::Executing => {
            add(hollow, "not ended yet");
        }
    }
    (steps, words.join(", "))
}

/// The latest calls, for the stream of an open page.
pub(super) async fn live(state: &WebState) -> Result<Option<Fragment>, WebError> {
    let page = state.calls.list(&CallFilter::default(), None, PAGE).await?;
    let results = Results::of(&Asked::default(), &page, state.now_ms());
    Ok(Fragment::new("results", Swap::Whole, &results))
}

async fn list(
    State(state): State<WebState>,
    user: CurrentUser,
    wants: Wants,
    asked: Query<Asked>,
) -> Result<Response, WebError> {
    let asked = asked.0;
    let now = state.now_ms();
    // A call's own id leads to it.
    if let Some(id) = CallId::parse(asked.q.trim())
        && state.calls.call(id).await?.is_some()
    {
        return Ok(see_other(&format!("/audit/calls/{id}")));
    }
    let page = state.calls.list(&asked.filter(now)?, asked.before, PAGE).await?;
    let results = Results::of(&asked, &page, now);
    if wants == Wants::Fragment {
        return Ok(render(&results));
    }
    // What passes is shown as it passes where nothing is looked for.
    let region = if asked.is_empty() && asked.before.is_none() { Region::Trail } else { Region::Frame };
    let catalogue = state.catalogue.snapshot();
    let mut tools: Vec<String> = catalogue.tools().map(|tool| tool.tool().tool().to_string()).collect();
    tools.sort();
    tools.dedup();
    Ok(render(&AuditPage {
        frame: state.frame(&user, Place::Audit, "Audit", region).await?,
        results,
        asked,
        chain: Chain::of(&state).await?,
        servers: catalogue.servers().iter().map(|server| server.name.to_string()).collect(),
        tools,
        callers: state.calls.callers().await?,
    }))
}
