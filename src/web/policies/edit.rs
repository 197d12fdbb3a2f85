//! The form of one rule: new, shown, changed.

use super::backtest::Panel;
use super::form::{Asks, Draft, DraftCondition, FieldError};
use super::history::{Version, versions};
use super::{find, no_policy, reason_of, required, rule_id, with_status};
use crate::rules::{Change, Edit, RulesError};
use crate::web::error::WebError;
use crate::web::events::Region;
use crate::web::extract::{Form, Path, Query};
use crate::web::frame::{Frame, Place};
use crate::web::guard::{Admin, CurrentUser};
use crate::web::respond::{Wants, render, see_other};
use crate::web::state::WebState;
use crate::web::ui::{Icon, Marked};
use askama::Template;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use serde::Deserialize;
use sluicegate_gateway::RevisionId;
use sluicegate_policy::{Origin, Per, Role, Rule, RuleId, RuleKind, Tier, Weekday};

/// The fields at which the form shows a mistake; any other mistake is told at its top.
const FIELDS: [&str; 20] = [
    "id",
    "match.server",
    "match.tool",
    "match.tier",
    "match.caller",
    "match.role",
    "match.origin",
    "when",
    "hours.from",
    "hours.to",
    "hours.days",
    "hours.zone",
    "approval.timeout",
    "approval.role",
    "approval.count",
    "limit.tokens",
    "limit.calls",
    "limit.window",
    "limit.per",
    "reason",
];

#[derive(Template)]
#[template(path = "policy_edit.html")]
struct EditPage {
    frame: Frame,
    /// The rule that is edited; none for a new one.
    id: Option<RuleId>,
    heading: Marked,
    draft: Draft,
    errors: Vec<FieldError>,
    notice: Option<String>,
    admin: bool,
    panel: Panel,
    versions: Vec<Version>,
    /// Tests fail, and an admin may save all the same.
    overridable: bool,
}

impl EditPage {
    async fn new(
        state: &WebState,
        user: &CurrentUser,
        id: Option<RuleId>,
        draft: Draft,
    ) -> Result<Self, WebError> {
        let title = if id.is_some() { "Edit rule" } else { "New rule" };
        let versions = match &id {
            Some(id) => versions(state, id).await?,
            None => Vec::new(),
        };
        Ok(Self {
            panel: Panel::idle(),
            versions,
            overridable: false,
            frame: state.frame(user, Place::Policies, title, Region::Frame).await?,
            heading: Marked::of(match &id {
                Some(id) if draft.description.is_empty() => id.as_str(),
                Some(_) => &draft.description,
                None => "New rule",
            }),
            id,
            draft,
            errors: Vec::new(),
            notice: None,
            admin: user.role == Role::Admin,
        })
    }

    fn action(&self) -> String {
        match &self.id {
            Some(id) => format!("/policies/{id}"),
            None => "/policies".to_owned(),
        }
    }

    fn error(&self, field: &str) -> Option<&str> {
        self.errors.iter().find(|error| error.field == field).map(|error| error.message.as_str())
    }

    /// The attributes of a field with a mistake.
    fn bad(&self, field: &str) -> bool {
        self.error(field).is_some()
    }

    /// Mistakes that belong to no field of the form.
    fn elsewhere(&self) -> impl Iterator<Item = &FieldError> {
        self.errors
            .iter()
            .filter(|error| !FIELDS.contains(&error.field.as_str()) && !error.field.starts_with("when["))
    }

    fn condition_error(&self, n: &usize) -> Option<&str> {
        let own = format!("when[{n}].");
        self.errors.iter().find(|error| error.field.starts_with(&own)).map(|error| error.message.as_str())
    }

    fn kinds() -> impl Iterator<Item = (RuleKind, &'static str)> {
        RuleKind::ALL.iter().map(|kind| (*kind, crate::web::decision::kind(*kind)))
    }

    fn asks() -> [Asks; 14] {
        Asks::ALL
    }

    fn per(per: &Per) -> &'static str {
        match per {
            Per::Conversation => "conversation",
            Per::CallerDay => "caller and day",
            Per::Caller => "caller",
            Per::Tool => "tool",
            Per::Server => "server",
        }
    }
}

#[derive(Debug, Deserialize)]
pub(super) struct Wanted {
    kind: Option<String>,
    /// A revision whose rule is shown as a draft.
    from: Option<i64>,
}

pub(super) async fn new(
    State(state): State<WebState>,
    admin: Admin,
    wanted: Query<Wanted>,
) -> Result<Response, WebError> {
    let entry = required(&state).await?;
    let kind = wanted.0.kind.as_deref().and_then(RuleKind::from_word).unwrap_or(RuleKind::RequireApproval);
    let draft = Draft::new(kind, entry.revision.id.0);
    Ok(render(&EditPage::new(&state, &admin.0, None, draft).await?))
}

pub(super) async fn show(
    State(state): State<WebState>,
    user: CurrentUser,
    id: Path<String>,
    wanted: Query<Wanted>,
) -> Result<Response, WebError> {
    let (id, entry) = (rule_id(&id.0)?, required(&state).await?);
    let current = find(&entry.revision.document, &id)?;
    let Some(from) = wanted.0.from else {
        let draft = Draft::of(current, entry.revision.id.0);
        return Ok(render(&EditPage::new(&state, &user, Some(id), draft).await?));
    };
    let earlier = state.rules.revision(RevisionId(from)).await?.ok_or(WebError::NotFound)?;
    let rule = find(&earlier.revision.document, &id)?.clone();
    let draft = Draft { reason: format!("back to revision {from}"), ..Draft::of(&rule, entry.revision.id.0) };
    let mut page = EditPage::new(&state, &user, Some(id.clone()), draft).await?;
    page.panel = Panel::of(&state, Edit::Replace(id, rule)).await?;
    page.overridable = page.panel.failing() > 0;
    Ok(render(&page))
}

pub(super) async fn create(
    State(state): State<WebState>,
    admin: Admin,
    wants: Wants,
    fields: Form<Vec<(String, String)>>,
) -> Result<Response, WebError> {
    save(&state, &admin.0, None, wants, &fields.0).await
}

pub(super) async fn replace(
    State(state): State<WebState>,
    admin: Admin,
    wants: Wants,
    id: Path<String>,
    fields: Form<Vec<(String, String)>>,
) -> Result<Response, WebError> {
    save(&state, &admin.0, Some(rule_id(&id.0)?), wants, &fields.0).await
}

async fn save(
    state: &WebState,
    user: &CurrentUser,
    id: Option<RuleId>,
    wants: Wants,
    fields: &[(String, String)],
) -> Result<Response, WebError> {
    let mut draft = Draft::read(fields);
    let pressed = |name: &str| fields.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str());
    if wants == Wants::Fragment && pressed("preview").is_some() {
        // While it is typed: the panel alone.
        return Ok(render(&match draft.rule() {
            Ok(rule) => Panel::of(state, edit(id, rule)).await?,
            Err(errors) => Panel::broken(errors.into_iter().map(|e| format!("{}: {}", e.field, e.message))),
        }));
    }
    // Buttons that only change the form: nothing is saved.
    if let Some(n) = pressed("remove") {
        let n = n.parse::<usize>().ok().filter(|n| *n < draft.conditions.len());
        n.map(|n| draft.conditions.remove(n));
        return Ok(render(&EditPage::new(state, user, id, draft).await?));
    }
    if pressed("add").is_some() {
        draft.conditions.push(DraftCondition::default());
        return Ok(render(&EditPage::new(state, user, id, draft).await?));
    }
    if pressed("switch").is_some() {
        return Ok(render(&EditPage::new(state, user, id, draft).await?));
    }
    let mut page = EditPage::new(state, user, id, draft).await?;
    let reason = match reason_of(&page.draft.reason) {
        Ok(reason) => reason.to_owned(),
        Err(_) => {
            page.errors = vec![FieldError {
                field: "reason".to_owned(),
                message: "write at most 500 characters".to_owned(),
            }];
            return Ok(with_status(render(&page), StatusCode::UNPROCESSABLE_ENTITY));
        }
    };
    let rule = match page.draft.rule() {
        Ok(rule) => rule,
        Err(errors) => {
            page.errors = errors;
            return Ok(with_status(render(&page), StatusCode::UNPROCESSABLE_ENTITY));
        }
    };
    if pressed("preview").is_some() {
        page.panel = Panel::of(state, edit(page.id.clone(), rule)).await?;
        page.overridable = page.panel.failing() > 0;
        return Ok(render(&page));
    }
    let despite_tests = pressed("despite_tests") == Some("yes");
    let change = Change { author: user.person.as_str(), reason: &reason, despite_tests };
    let expected = RevisionId(page.draft.revision);
    let status = match state.rules.save(edit(page.id.clone(), rule.clone()), expected, change).await {
        Ok(_) => return Ok(see_other("/policies")),
        Err(RulesError::Store(error)) => return Err(error.into()),
        Err(RulesError::NoPolicy) => return Err(no_policy()),
        Err(RulesError::Conflict(now)) => {
            page.notice = Some(format!(
                "The rules were changed while you were editing: revision {} is in force now. Nothing was saved. \
                 Your input is still here: look at the rules again, then save it once more if it still fits.",
                now.0
            ));
            page.draft.revision = now.0;
            StatusCode::CONFLICT
        }
        Err(RulesError::NotFound(id)) => {
            page.notice = Some(format!(
                "The rule {id} is gone: somebody removed it. Your input is still here; saving makes a new rule of it."
            ));
            page.id = None;
            StatusCode::CONFLICT
        }
        Err(RulesError::Rule(errors)) => {
            page.errors = errors
                .into_iter()
                .map(|error| {
                    let meant = error
                        .suggestion
                        .map(|meant| format!("; did you mean `{meant}`?"))
                        .unwrap_or_default();
                    FieldError { field: error.field, message: format!("{}{meant}", error.message) }
                })
                .collect();
            StatusCode::UNPROCESSABLE_ENTITY
        }
        Err(error @ RulesError::Tests(_)) => {
            page.notice = Some(error.to_string());
            page.panel = Panel::of(state, edit(page.id.clone(), rule)).await?;
            page.overridable = true;
            StatusCode::UNPROCESSABLE_ENTITY
        }
        Err(error @ (RulesError::Text(_) | RulesError::Arguments(_) | RulesError::Interrupted)) => {
            page.notice = Some(error.to_string());
            StatusCode::UNPROCESSABLE_ENTITY
        }
    };
    Ok(with_status(render(&page), status))
}

fn edit(id: Option<RuleId>, rule: Rule) -> Edit {
    match id {
        Some(id) => Edit::Replace(id, rule),
        None => Edit::Create(rule),
    }
}
