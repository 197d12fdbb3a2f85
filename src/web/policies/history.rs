//! The history of one rule, and going back to an earlier revision of all of them.

use super::backtest::Panel;
use super::{no_policy, reason_of, required, with_status};
use crate::rules::{Change, Edit, RulesError};
use crate::web::error::WebError;
use crate::web::events::Region;
use crate::web::extract::{Form, Path};
use crate::web::figures::Moment;
use crate::web::frame::{Frame, Place};
use crate::web::guard::{Admin, CurrentUser};
use crate::web::respond::{render, see_other};
use crate::web::state::WebState;
use crate::web::ui::{Icon, Marked};
use askama::Template;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use serde::Deserialize;
use sluicegate_gateway::{RevisionId, StoreError};
use sluicegate_policy::{Rule, RuleId};
use sluicegate_store::PolicyEntry;

/// Revisions that are searched for changes of one rule.
const LOOK_BACK: u32 = 100;

/// A revision in which a rule was changed.
#[derive(Debug)]
pub(super) struct Version {
    pub(super) revision: i64,
    pub(super) at: Moment,
    pub(super) author: Marked,
    pub(super) reason: Marked,
    /// It is the rule as it is in force.
    pub(super) current: bool,
}

/// The revisions in which a rule was changed, the latest first.
pub(super) async fn versions(state: &WebState, id: &RuleId) -> Result<Vec<Version>, WebError> {
    let history = match state.rules.history(None, LOOK_BACK).await {
        Ok(page) => page,
        // An older revision that cannot be read hides the history, not the rule.
        Err(StoreError::Corrupt(_)) => return Ok(Vec::new()),
        Err(error) => return Err(error.into()),
    };
    let rule_of = |entry: &'_ PolicyEntry| -> Option<Rule> {
        entry.revision.document.rules.iter().find(|rule| rule.id == *id).cloned()
    };
    let current = history.rows.first().and_then(rule_of);
    let mut found: Vec<Version> = Vec::new();
    for (n, entry) in history.rows.iter().enumerate() {
        let Some(rule) = rule_of(entry) else { continue };
        let before = history.rows.get(n.saturating_add(1)).and_then(rule_of);
        if before.as_ref() != Some(&rule) {
            found.push(Version {
                revision: entry.revision.id.0,
                at: Moment::at_ms(entry.at_ms),
                author: Marked::of(&entry.author),
                reason: Marked::of(&entry.reason),
                current: current.as_ref() == Some(&rule),
            });
        }
    }
    Ok(found)
}

#[derive(Template)]
#[template(path = "policies/restore.html")]
struct RestorePage {
    frame: Frame,
    /// The revision to go back to.
    target: i64,
    /// The revision in force.
    revision: i64,
    reason: String,
    notice: Option<String>,
    panel: Panel,
    overridable: bool,
}

async fn page(state: &WebState, user: &CurrentUser, earlier: PolicyEntry) -> Result<RestorePage, WebError> {
    let entry = required(state).await?;
    let target = earlier.revision.id;
    let panel = Panel::of(state, Edit::Restore(target, earlier.revision.document)).await?;
    Ok(RestorePage {
        frame: state.frame(user, Place::Policies, "Roll back", Region::Frame).await?,
        target: target.0,
        revision: entry.revision.id.0,
        reason: String::new(),
        notice: None,
        overridable: panel.failing() > 0,
        panel,
    })
}

async fn earlier(state: &WebState, id: i64) -> Result<PolicyEntry, WebError> {
    state.rules.revision(RevisionId(id)).await?.ok_or(WebError::NotFound)
}

pub(super) async fn restore_page(
    State(state): State<WebState>,
    admin: Admin,
    id: Path<i64>,
) -> Result<Response, WebError> {
    let earlier = earlier(&state, id.0).await?;
    Ok(render(&page(&state, &admin.0, earlier).await?))
}

#[derive(Debug, Deserialize)]
pub(super) struct Restored {
    revision: i64,
    #[serde(default)]
    reason: String,
    #[serde(default)]
    despite_tests: String,
}

pub(super) async fn restore(
    State(state): State<WebState>,
    admin: Admin,
    id: Path<i64>,
    form: Form<Restored>,
) -> Result<Response, WebError> {
    let (earlier, form) = (earlier(&state, id.0).await?, form.0);
    let reason = reason_of(&form.reason)?;
    let despite_tests = form.despite_tests == "yes";
    let change = Change { author: admin.0.person.as_str(), reason, despite_tests };
    let edit = Edit::Restore(earlier.revision.id, earlier.revision.document.clone());
    let status = match state.rules.save(edit, RevisionId(form.revision), change).await {
        Ok(_) => return Ok(see_other("/policies/history")),
        Err(RulesError::Store(error)) => return Err(error.into()),
        Err(RulesError::NoPolicy) => return Err(no_policy()),
        Err(error @ RulesError::Conflict(_)) => (StatusCode::CONFLICT, error.to_string()),
        Err(error) => (StatusCode::UNPROCESSABLE_ENTITY, error.to_string()),
    };
    let mut page = page(&state, &admin.0, earlier).await?;
    (page.reason, page.notice) = (form.reason, Some(status.1));
    Ok(with_status(render(&page), status.0))
}
