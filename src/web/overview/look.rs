//! What needs a look: unknown outcomes, servers that fail, and events that should not be many.

use crate::web::audit::address;
use crate::web::error::WebError;
use crate::web::figures::{Moment, grouped};
use crate::web::state::WebState;
use crate::web::ui::{Icon, Marked, Tone, ToolName};
use sluicegate_gateway::audit::EventKind;
use sluicegate_gateway::{CallState, ServerState};
use sluicegate_store::{AuditFilter, AuditStart, CallFilter, Overview};

/// Calls that one item names.
const LISTED: usize = 5;
/// Unknown calls that are looked through for those that nobody has settled.
const UNKNOWN: u32 = 100;
/// Events of one kind that are counted; more are said to be more.
const COUNTED: u32 = 100;

/// Kinds of events that somebody should know of, and how one and many of them are called.
const KINDS: [(EventKind, Tone, &str, &str, &str); 6] = [
    (EventKind::AnomalyRaised, Tone::Deny, "deny", "An anomaly was raised", "anomalies were raised"),
    (EventKind::ToolChanged, Tone::Hold, "pin", "A tool definition changed", "tool definitions changed"),
    (EventKind::PolicyRejected, Tone::Hold, "policies", "A policy was rejected", "policies were rejected"),
    (EventKind::SignInFailed, Tone::Hold, "key", "A sign-in failed", "sign-ins failed"),
    (EventKind::ModelFailed, Tone::Neutral, "agent", "A model failed", "model failures"),
    (EventKind::BudgetReached, Tone::Neutral, "hold", "A budget was reached", "budgets were reached"),
];

/// One thing to look at.
#[derive(Debug)]
pub(super) struct Look {
    pub(super) id: &'static str,
    pub(super) tone: Tone,
    pub(super) icon: Icon,
    pub(super) title: String,
    pub(super) href: String,
    pub(super) text: Option<Marked>,
    /// Calls it is about, each with its address.
    pub(super) calls: Vec<(String, ToolName, Option<Moment>)>,
}

/// All of them, the most pressing first.
pub(super) async fn all(state: &WebState, overview: &Overview, since_ms: i64) -> Result<Vec<Look>, WebError> {
    let mut looks = Vec::new();
    looks.extend(unknown(state, overview.unresolved).await?);
    looks.extend(failing(state));
    looks.extend(events(state, since_ms).await?);
    looks.extend(flagged(overview));
    Ok(looks)
}

async fn unknown(state: &WebState, unresolved: u64) -> Result<Option<Look>, WebError> {
    if unresolved == 0 {
        return Ok(None);
    }
    let filter = CallFilter { state: Some(CallState::Unknown), ..CallFilter::default() };
    let page = state.calls.list(&filter, None, UNKNOWN).await?;
    let open = page.rows.iter().filter(|call| call.resolution.is_none()).take(LISTED);
    let calls = open
        .map(|call| {
            let at = Moment::at_ms(call.requested_ms);
            (call.id.to_string(), ToolName::new(&call.server, &call.tool), Some(at))
        })
        .collect();
    let title = match unresolved {
        1 => "1 call has an unknown outcome".to_owned(),
        many => format!("{} calls have an unknown outcome", grouped(many)),
    };
    Ok(Some(Look {
        id: "unknown",
        tone: Tone::Deny,
        icon: Icon("fail"),
        title,
        href: "/audit?state=unknown".to_owned(),
        text: Some(Marked::of(
            "The answers were lost. They are never repeated by themselves; an admin says what became of them.",
        )),
        calls,
    }))
}

fn failing(state: &WebState) -> Vec<Look> {
    let catalogue = state.catalogue.snapshot();
    let failing = catalogue.servers().iter().filter(|server| server.state == ServerState::Unavailable);
    failing
        .map(|server| Look {
            id: "failing",
            tone: Tone::Hold,
            icon: Icon("wifi-off"),
            title: format!("The server {} does not answer", server.name),
            href: address("/tools", &[("server", server.name.as_str())]),
            text: Some(Marked::of(server.note.as_deref().unwrap_or("It cannot be reached."))),
            calls: Vec::new(),
        })
        .collect()
}

async fn events(state: &WebState, since_ms: i64) -> Result<Vec<Look>, WebError> {
    let mut looks = Vec::new();
    for (kind, tone, icon, one, many) in KINDS {
        let filter = AuditFilter { kind: Some(kind), from_ms: Some(since_ms), ..AuditFilter::default() };
        let page = state.audit.rows(&filter, AuditStart::Latest, COUNTED).await?;
        let Some(last) = page.rows.first() else { continue };
        let title = match (page.rows.len(), page.next) {
            (1, None) => one.to_owned(),
            (count, None) => format!("{count} {many}"),
            (count, Some(_)) => format!("More than {count} {many}"),
        };
        let at = Moment::at_ms(last.at_ms);
        let facts = crate::web::audit::facts(&last.facts);
        let text = format!("Last on {}, {}. {facts}", at.date, at.short);
        looks.push(Look {
            id: kind.as_str(),
            tone,
            icon: Icon(icon),
            title,
            href: address("/audit/events", &[("kind", kind.as_str())]),
            text: Some(Marked::of(text.trim_end())),
            calls: Vec::new(),
        });
    }
    Ok(looks)
}

fn flagged(overview: &Overview) -> Option<Look> {
    let (calls, count) = &overview.flagged;
    let title = match count {
        0 => return None,
        1 => "1 tool result was flagged".to_owned(),
        many => format!("{} tool results were flagged", grouped(*many)),
    };
    let calls = calls.iter().map(|call| (call.id.to_string(), ToolName::new(&call.server, &call.tool), None));
    Some(Look {
        id: "flagged",
        tone: Tone::Taint,
        icon: Icon("flag"),
        title,
        href: "/audit?flagged=1".to_owned(),
        text: Some(Marked::of("Phrases that may be meant for the agent. For your eyes; it decides nothing.")),
        calls: calls.collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_icon_is_in_the_sprite() {
        let sprite = include_str!("../../../templates/icons.html");
        for (kind, _, icon, ..) in KINDS {
            assert!(sprite.contains(&format!(r#"id="i-{icon}""#)), "{kind}: {icon}");
        }
    }
}
