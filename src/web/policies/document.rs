//! Whole documents: the history of revisions, import and export as YAML.

use super::backtest::Panel;
use super::{no_policy, reason_of, required, with_status};
use crate::rules::{Change, RulesError, to_yaml};
use crate::web::error::WebError;
use crate::web::events::Region;
use crate::web::extract::{Form, Path, Query};
use crate::web::figures::Moment;
use crate::web::frame::{Frame, Place};
use crate::web::guard::{Admin, CurrentUser};
use crate::web::respond::{render, see_other};
use crate::web::state::WebState;
use crate::web::ui::{Icon, Marked};
use askama::Template;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::{CONTENT_DISPOSITION, CONTENT_TYPE};
use axum::response::{IntoResponse as _, Response};
use serde::Deserialize;
use sluicegate_gateway::{RevisionId, StoreError};
use sluicegate_policy::{PolicyDocument, Role};
use sluicegate_store::PolicyEntry;

const PAGE: u32 = 20;

#[derive(Template)]
#[template(path = "policies/history.html")]
struct HistoryPage {
    frame: Frame,
    entries: Vec<Entry>,
    older: Option<i64>,
    trouble: Option<Marked>,
}

#[derive(Debug)]
struct Entry {
    revision: i64,
    at: Moment,
    author: Marked,
    reason: Marked,
    source: Marked,
    digest: String,
    rules: usize,
    current: bool,
    looser: u64,
    judged: u64,
    loosened: Vec<Marked>,
    overridden: Vec<Marked>,
}

fn entry(of: &PolicyEntry, current: bool) -> Entry {
    Entry {
        revision: of.revision.id.0,
        at: Moment::at_ms(of.at_ms),
        author: Marked::of(&of.author),
        reason: Marked::of(if of.reason.is_empty() { "no reason given" } else { &of.reason }),
        source: Marked::of(&of.source),
        digest: of.digest.clone(),
        rules: of.revision.document.rules.len(),
        current,
        looser: of.remarks.looser,
        judged: of.remarks.judged,
        loosened: of.remarks.examples.iter().map(|example| Marked::of(example)).collect(),
        overridden: of.remarks.overridden.iter().map(|name| Marked::of(name)).collect(),
    }
}

#[derive(Debug, Deserialize)]
pub(super) struct Asked {
    before: Option<i64>,
}

pub(super) async fn history(
    State(state): State<WebState>,
    user: CurrentUser,
    asked: Query<Asked>,
) -> Result<Response, WebError> {
    let frame = state.frame(&user, Place::Policies, "Policy history", Region::Frame).await?;
    let (rows, older, trouble) = match state.rules.history(asked.0.before, PAGE).await {
        Ok(page) => (page.rows, page.next, None),
        Err(StoreError::Corrupt(why)) => (Vec::new(), None, Some(Marked::of(&why))),
        Err(error) => return Err(error.into()),
    };
    let first = asked.0.before.is_none();
    let entries = rows.iter().enumerate().map(|(n, row)| entry(row, first && n == 0)).collect();
    Ok(render(&HistoryPage { frame, entries, older, trouble }))
}

#[derive(Template)]
#[template(path = "policies/revision.html")]
struct RevisionPage {
    frame: Frame,
    admin: bool,
    entry: Entry,
    lines: Vec<DiffLine>,
    before: Option<i64>,
}

/// A line of the document, and whether it was added or removed.
#[derive(Debug, PartialEq, Eq)]
enum DiffLine {
    Same(Marked),
    Added(Marked),
    Removed(Marked),
}

pub(super) async fn revision(
    State(state): State<WebState>,
    user: CurrentUser,
    id: Path<i64>,
) -> Result<Response, WebError> {
    let found = state.rules.revision(RevisionId(id.0)).await?.ok_or(WebError::NotFound)?;
    let before = state.rules.history(Some(id.0), 1).await?.rows.into_iter().next();
    let lines = match &before {
        Some(before) => differences(&before.revision.document, &found.revision.document)?,
        None => {
            yaml(&found.revision.document)?.lines().map(|line| DiffLine::Same(Marked::of(line))).collect()
        }
    };
    let current =
        state.rules.current().await?.is_some_and(|current| current.revision.id == found.revision.id);
    let frame = state.frame(&user, Place::Policies, "Policy revision", Region::Frame).await?;
    let before = before.map(|before| before.revision.id.0);
    let admin = user.role == Role::Admin;
    Ok(render(&RevisionPage { frame, admin, entry: entry(&found, current), lines, before }))
}

/// The parts of two documents that differ, as text: each tier line, rule and test is one part.
fn differences(old: &PolicyDocument, new: &PolicyDocument) -> Result<Vec<DiffLine>, WebError> {
    let mut lines = Vec::new();
    for rule in &old.rules {
        let after = new.rules.iter().find(|other| other.id == rule.id);
        if after == Some(rule) {
            continue;
        }
        let (was, is) = (part(rule)?, after.map(part).transpose()?.unwrap_or_default());
        lines.push(DiffLine::Same(Marked::of(&format!("rule {}", rule.id))));
        lines.extend(compare(&was, &is));
    }
    for rule in new.rules.iter().filter(|rule| old.rules.iter().all(|other| other.id != rule.id)) {
        lines.push(DiffLine::Same(Marked::of(&format!("rule {}", rule.id))));
        lines.extend(part(rule)?.into_iter().map(|line| DiffLine::Added(Marked::of(&line))));
    }
    if old.tiers != new.tiers {
        lines.push(DiffLine::Same(Marked::of("tiers")));
        lines.extend(compare(&part(&old.tiers)?, &part(&new.tiers)?));
    }
    if old.tests != new.tests {
        lines.push(DiffLine::Same(Marked::of("tests")));
        lines.extend(compare(&part(&old.tests)?, &part(&new.tests)?));
    }
    Ok(lines)
}

fn part(value: &impl serde::Serialize) -> Result<Vec<String>, WebError> {
    let text = serde_saphyr::to_string(value).map_err(|error| WebError::Internal(error.to_string()))?;
    Ok(text.lines().map(|line| format!("  {line}")).collect())
}

/// The lines of two texts: those at both ends that are the same, and between them what was removed and added.
fn compare(old: &[String], new: &[String]) -> Vec<DiffLine> {
    let head = old.iter().zip(new).take_while(|(a, b)| a == b).count();
    let rest = old.len().min(new.len()).saturating_sub(head);
    let tail = old.iter().rev().zip(new.iter().rev()).take(rest).take_while(|(a, b)| a == b).count();
    let same =
        |lines: &[String]| lines.iter().map(|line| DiffLine::Same(Marked::of(line))).collect::<Vec<_>>();
    let middle = |lines: &[String]| {
        let end = lines.len().saturating_sub(tail);
        lines.get(head..end).unwrap_or_default().to_vec()
    };
    let mut found = same(old.get(..head).unwrap_or_default());
    found.extend(middle(old).iter().map(|line| DiffLine::Removed(Marked::of(line))));
    found.extend(middle(new).iter().map(|line| DiffLine::Added(Marked::of(line))));
    found.extend(same(old.get(old.len().saturating_sub(tail)..).unwrap_or_default()));
    found
}

fn yaml(document: &PolicyDocument) -> Result<String, WebError> {
    to_yaml(document).map_err(|error| WebError::Internal(error.to_string()))
}

pub(super) async fn export(State(state): State<WebState>, _: CurrentUser) -> Result<Response, WebError> {
    let entry = required(&state).await?;
    let name = format!("attachment; filename=\"policy-{}.yaml\"", entry.revision.id.0);
    let headers = [(CONTENT_TYPE, "text/yaml; charset=utf-8".to_owned()), (CONTENT_DISPOSITION, name)];
    Ok((headers, yaml(&entry.revision.document)?).into_response())
}

#[derive(Template)]
#[template(path = "policies/import.html")]
struct ImportPage {
    frame: Frame,
    text: String,
    reason: String,
    problems: Vec<Marked>,
    notice: Option<String>,
    panel: Panel,
    overridable: bool,
}

impl ImportPage {
    async fn new(
        state: &WebState,
        user: &CurrentUser,
        text: String,
        reason: String,
    ) -> Result<Self, WebError> {
        let frame = state.frame(user, Place::Policies, "Import a policy", Region::Frame).await?;
        let (problems, notice, panel) = (Vec::new(), None, Panel::idle());
        Ok(Self { frame, text, reason, problems, notice, panel, overridable: false })
    }
}

pub(super) async fn import_page(State(state): State<WebState>, admin: Admin) -> Result<Response, WebError> {
    Ok(render(&ImportPage::new(&state, &admin.0, String::new(), String::new()).await?))
}

#[derive(Debug, Deserialize)]
pub(super) struct Imported {
    document: String,
    #[serde(default)]
    reason: String,
    #[serde(default)]
    despite_tests: String,
    preview: Option<String>,
}

pub(super) async fn import(
    State(state): State<WebState>,
    admin: Admin,
    imported: Form<Imported>,
) -> Result<Response, WebError> {
    let text = imported.0.document.replace("\r\n", "\n");
    let reason = reason_of(&imported.0.reason)?;
    let despite_tests = imported.0.despite_tests == "yes";
    let change = Change { author: admin.0.person.as_str(), reason, despite_tests };
    if imported.0.preview.is_some() {
        let panel = Panel::of_document(&state, &text).await?;
        let page = ImportPage::new(&state, &admin.0, text, imported.0.reason).await?;
        return Ok(render(&ImportPage { overridable: panel.failing() > 0, panel, ..page }));
    }
    let mut overridable = false;
    let (problems, notice, status) = match state.rules.import(&text, "dashboard import", change).await {
        Ok(_) => return Ok(see_other("/policies")),
        Err(RulesError::Text(problems)) => {
            let problems = problems.iter().map(|problem| Marked::of(&problem.to_string())).collect();
            (problems, None, StatusCode::UNPROCESSABLE_ENTITY)
        }
        Err(RulesError::Store(error)) => return Err(error.into()),
        Err(RulesError::NoPolicy) => return Err(no_policy()),
        Err(RulesError::Tests(failing)) => {
            overridable = true;
            let problems = failing.iter().map(|failure| Marked::of(&failure.to_string())).collect();
            (problems, None, StatusCode::UNPROCESSABLE_ENTITY)
        }
        Err(error) => (Vec::new(), Some(error.to_string()), StatusCode::CONFLICT),
    };
    let page = ImportPage::new(&state, &admin.0, text, imported.0.reason).await?;
    Ok(with_status(render(&ImportPage { problems, notice, overridable, ..page }), status))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_shows_what_went_and_what_came() {
        let lines = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
        let same = |text: &str| DiffLine::Same(Marked::of(text));
        let found = compare(&lines(&["a", "b", "c"]), &lines(&["a", "x", "y", "c"]));
        let added = |text: &str| DiffLine::Added(Marked::of(text));
        let wanted = [same("a"), DiffLine::Removed(Marked::of("b")), added("x"), added("y"), same("c")];
        assert_eq!(found, wanted);
        assert_eq!(
            compare(&lines(&["a", "a"]), &lines(&["a"])),
            [same("a"), DiffLine::Removed(Marked::of("a"))]
        );
        assert!(compare(&[], &[]).is_empty());
    }
}
