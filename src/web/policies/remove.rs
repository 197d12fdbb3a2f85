//! Removing a rule: what that would do, and then the removal.

use super::backtest::Panel;
use super::{RuleRow, find, reason_of, refused, required, row, rule_id, with_status};
use crate::rules::{Change, Edit, RulesError};
use crate::web::error::WebError;
use crate::web::events::Region;
use crate::web::extract::{Form, Path};
use crate::web::frame::{Frame, Place};
use crate::web::guard::{Admin, CurrentUser};
use crate::web::respond::{render, see_other};
use crate::web::state::WebState;
use crate::web::ui::Icon;
use askama::Template;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use serde::Deserialize;
use sluicegate_gateway::RevisionId;
use sluicegate_policy::RuleId;

#[derive(Template)]
#[template(path = "policies/delete.html")]
struct DeletePage {
    frame: Frame,
    rule: RuleRow,
    revision: i64,
    reason: String,
    notice: Option<String>,
    panel: Panel,
    overridable: bool,
}

pub(super) async fn confirm(
    State(state): State<WebState>,
    admin: Admin,
    id: Path<String>,
) -> Result<Response, WebError> {
    Ok(render(&page(&state, &admin.0, &rule_id(&id.0)?).await?))
}

async fn page(state: &WebState, user: &CurrentUser, id: &RuleId) -> Result<DeletePage, WebError> {
    let entry = required(state).await?;
    let rule = row(find(&entry.revision.document, id)?, 0, None);
    let panel = Panel::of(state, Edit::Delete(id.clone())).await?;
    Ok(DeletePage {
        frame: state.frame(user, Place::Policies, "Remove a rule", Region::Frame).await?,
        rule,
        revision: entry.revision.id.0,
        reason: String::new(),
        notice: None,
        overridable: panel.failing() > 0,
        panel,
    })
}

#[derive(Debug, Deserialize)]
pub(super) struct Removal {
    revision: i64,
    #[serde(default)]
    reason: String,
    #[serde(default)]
    despite_tests: String,
}

pub(super) async fn remove(
    State(state): State<WebState>,
    admin: Admin,
    id: Path<String>,
    removal: Form<Removal>,
) -> Result<Response, WebError> {
    let (id, removal) = (rule_id(&id.0)?, removal.0);
    let despite_tests = removal.despite_tests == "yes";
    let reason = reason_of(&removal.reason)?;
    let change = Change { author: admin.0.person.as_str(), reason, despite_tests };
    match state.rules.save(Edit::Delete(id.clone()), RevisionId(removal.revision), change).await {
        Ok(_) => Ok(see_other("/policies")),
        Err(error @ (RulesError::Conflict(_) | RulesError::Tests(_))) => {
            let conflict = matches!(error, RulesError::Conflict(_));
            let status = if conflict { StatusCode::CONFLICT } else { StatusCode::UNPROCESSABLE_ENTITY };
            let mut page = page(&state, &admin.0, &id).await?;
            page.notice = Some(error.to_string());
            page.reason = removal.reason;
            Ok(with_status(render(&page), status))
        }
        Err(error) => refused(&state, &admin.0, error, None).await,
    }
}
