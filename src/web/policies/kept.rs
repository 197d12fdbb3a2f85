//! Tests that are kept with the rules: added from the box that tells which rule decides, removed from the list.

use super::decides::Question;
use super::{no_policy, refused, required};
use crate::rules::{Change, Edit, RulesError};
use crate::web::error::WebError;
use crate::web::extract::Form;
use crate::web::guard::Admin;
use crate::web::respond::see_other;
use crate::web::state::WebState;
use axum::extract::State;
use axum::response::Response;
use serde::Deserialize;
use sluicegate_gateway::RevisionId;
use sluicegate_policy::{Hints, RuleTest};

const MOST_NAME: usize = 200;

/// Adds the call in the box, with what becomes of it now, as a test.
pub(super) async fn add(
    State(state): State<WebState>,
    admin: Admin,
    fields: Form<Vec<(String, String)>>,
) -> Result<Response, WebError> {
    let text = |name: &str| fields.0.iter().find(|(key, _)| key == name).map(|(_, value)| value.trim());
    let name = text("name").unwrap_or_default();
    if name.is_empty() || name.chars().count() > MOST_NAME {
        return Err(WebError::Invalid(format!("A test needs a name of 1 to {MOST_NAME} characters")));
    }
    let (given, _) = Question::read(&fields.0).given().map_err(WebError::Invalid)?;
    let entry = required(&state).await?;
    let now = match state.rules.explain(&given, Hints::default()).await {
        Ok(explained) => explained.decision,
        Err(RulesError::Store(error)) => return Err(error.into()),
        Err(error) => return Err(WebError::Invalid(error.to_string())),
    };
    // One rule decides: then it is the one that is meant.
    let by = match now.deciding.as_slice() {
        [one] => Some(one.clone()),
        _ => None,
    };
    let test = RuleTest { name: name.to_owned(), given, expect: now.effect, by };
    finish(&state, admin, Edit::AddTest(test), entry.revision.id).await
}

#[derive(Debug, Deserialize)]
pub(super) struct Removed {
    name: String,
    revision: i64,
}

/// Removes a test.
pub(super) async fn remove(
    State(state): State<WebState>,
    admin: Admin,
    removed: Form<Removed>,
) -> Result<Response, WebError> {
    let Removed { name, revision } = removed.0;
    finish(&state, admin, Edit::RemoveTest(name), RevisionId(revision)).await
}

async fn finish(
    state: &WebState,
    admin: Admin,
    edit: Edit,
    expected: RevisionId,
) -> Result<Response, WebError> {
    // A test that is added says what is so; one that is removed cannot fail. Others may fail already.
    let change = Change { author: admin.0.person.as_str(), reason: "", despite_tests: true };
    match state.rules.save(edit, expected, change).await {
        Ok(_) => Ok(see_other("/policies#tests")),
        Err(RulesError::NoPolicy) => Err(no_policy()),
        Err(error) => refused(state, &admin.0, error, None).await,
    }
}
