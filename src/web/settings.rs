//! How the product is set up, and how it does.

mod keys;
mod links;

use super::error::WebError;
use super::events::Region;
use super::extract::Form;
use super::figures::{Moment, milliseconds};
use super::frame::{Frame, Place};
use super::guard::{Admin, CurrentUser};
use super::respond::{render, see_other};
use super::state::WebState;
use super::ui::{Badge, Icon, Marked, Tone};
use askama::Template;
use axum::Router;
use axum::extract::State;
use axum::response::Response;
use axum::routing::{get, post};
use keys::{ClientSetup, KeyLine};
use serde::Deserialize;
use sluicegate_gateway::audit::EventKind;
use sluicegate_gateway::{Leftovers, ServerState};
use sluicegate_policy::Role;
use sluicegate_store::{AuditFilter, AuditStart};

/// Everyone who is signed in may look; ending all sessions takes an [`Admin`].
pub(super) fn router() -> Router<WebState> {
    Router::new()
        .route("/settings", get(show))
        .route("/settings/sign-out-everywhere", post(sign_out_everywhere))
        .merge(keys::router())
        .merge(links::router())
}

#[derive(Template)]
#[template(path = "settings.html")]
struct SettingsPage {
    frame: Frame,
    admin: bool,
    settings: Vec<(&'static str, Marked, String)>,
    keys: Vec<KeyLine>,
    setups: Vec<ClientSetup>,
    health: Vec<Health>,
}

#[derive(Debug)]
struct Health {
    name: String,
    badge: Badge,
    detail: Marked,
}

fn health(name: impl Into<String>, tone: Tone, word: &str, detail: &str) -> Health {
    let icon = match tone {
        Tone::Allow => Icon("check"),
        Tone::Deny => Icon("deny"),
        Tone::Hold | Tone::Info | Tone::Taint | Tone::Neutral => Icon("info"),
    };
    Health {
        name: name.into(),
        badge: Badge { tone, icon, word: word.to_owned(), plain: true },
        detail: Marked::of(detail),
    }
}

async fn show(State(state): State<WebState>, user: CurrentUser) -> Result<Response, WebError> {
    let frame = state.frame(&user, Place::Settings, "Settings", Region::Frame).await?;
    let settings = state
        .settings
        .iter()
        .map(|setting| {
            let value = if setting.value.is_empty() { "none" } else { &setting.value };
            (setting.name, Marked::of(value), setting.source.to_string())
        })
        .collect();
    let health = checks(&state).await?;
    let now = state.now_ms();
    let keys = state.keys.list().await?.iter().map(|key| KeyLine::of(key, now)).collect();
    let setups = keys::setups(&state, None);
    let admin = user.role == Role::Admin;
    Ok(render(&SettingsPage { frame, admin, settings, keys, setups, health }))
}

async fn checks(state: &WebState) -> Result<Vec<Health>, WebError> {
    let head = state.audit.head().await?;
    let started = Moment::at_ms(state.started_ms());
    let program = format!("version {}, since {}, {}", env!("CARGO_PKG_VERSION"), started.date, started.time);
    let mut checks = vec![
        health("Program", Tone::Allow, "running", &program),
        health("Store", Tone::Allow, "answering", &format!("{} events in the trail", head.seq)),
    ];
    checks.push(match state.policy().await? {
        Some(entry) => health("Rules", Tone::Allow, "in force", &format!("revision {}", entry.revision.id.0)),
        None => health("Rules", Tone::Deny, "missing", "every call is denied"),
    });
    let filter = AuditFilter { kind: Some(EventKind::Reconciled), ..AuditFilter::default() };
    let last = state.audit.rows(&filter, AuditStart::Latest, 1).await?.rows.into_iter().next();
    checks.push(match last {
        Some(row) if !settled_nothing(&row.facts) => {
            let at = Moment::at_ms(row.at_ms);
            let facts = super::audit::facts(&row.facts);
            health(
                "Reconciliation",
                Tone::Neutral,
                "settled calls",
                &format!("{}, {}: {facts}", at.date, at.time),
            )
        }
        _ => health(
            "Reconciliation",
            Tone::Allow,
            "done",
            "the last start found no call that an earlier run left open",
        ),
    });
    checks.push(processes(state.leftovers));
    let (tone, word, detail) = state.chain().health();
    checks.push(health("Chain of the trail", tone, word, &detail));
    if let Some(gate) = state.times.whole() {
        let detail = format!(
            "{} ms for half of {} calls, {} ms for 99 of 100, without tools and people",
            milliseconds(gate.p50_us),
            gate.calls,
            milliseconds(gate.p99_us)
        );
        checks.push(health("Gate overhead", Tone::Neutral, "measured", &detail));
    }
    for server in state.catalogue.snapshot().servers() {
        let (tone, word) = match server.state {
            ServerState::Ready => (Tone::Allow, "connected"),
            ServerState::Connecting => (Tone::Info, "connecting"),
            ServerState::Unavailable => (Tone::Hold, "unavailable"),
        };
        checks.push(health(
            format!("Server {}", server.name),
            tone,
            word,
            server.note.as_deref().unwrap_or_default(),
        ));
    }
    Ok(checks)
}

fn processes(left: Leftovers) -> Health {
    let (tone, word, detail) = match left {
        Leftovers { ended: 0, alive: 0 } => {
            (Tone::Allow, "none", "the last start found no server process of an earlier run".to_owned())
        }
        Leftovers { ended, alive: 0 } => {
            (Tone::Neutral, "ended", format!("the last start ended {ended} that had outlived an earlier run"))
        }
        Leftovers { ended, alive } => (
            Tone::Deny,
            "still there",
            format!(
                "{alive} of an earlier run could not be ended and may still act; end them by hand ({ended} were ended)"
            ),
        ),
    };
    health("Left-over processes", tone, word, &detail)
}

/// Whether a start-up had nothing to settle.
fn settled_nothing(facts: &str) -> bool {
    let facts: serde_json::Value = serde_json::from_str(facts).unwrap_or_default();
    ["unknown", "orphaned"].iter().all(|name| facts.get(name).and_then(serde_json::Value::as_u64) == Some(0))
}

#[derive(Debug, Deserialize)]
struct Sure {
    sure: Option<String>,
}

async fn sign_out_everywhere(
    State(state): State<WebState>,
    admin: Admin,
    Form(asked): Form<Sure>,
) -> Result<Response, WebError> {
    // The browser demands the tick as well; this is for what comes without one.
    if asked.sure.as_deref() != Some("yes") {
        return Err(WebError::Invalid("nobody was signed out: tick the box first".to_owned()));
    }
    state.people.sign_out_everybody(&admin.0.person).await?;
    state.streams().end_all();
    Ok(see_other("/sign-in"))
}
