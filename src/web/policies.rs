//! The rules: the list, switching, removing, trying a call. Editing and whole documents are in modules of their own.

mod backtest;
mod decides;
mod document;
mod edit;
mod form;
mod history;
mod kept;
mod remove;
mod tiers;

use super::decision as words;
use super::error::WebError;
use super::events::Region;
use super::extract::{Form, Path, Query};
use super::figures::{Moment, grouped};
use super::frame::{Frame, Place};
use super::guard::{Admin, CurrentUser};
use super::respond::{render, see_other};
use super::state::WebState;
use super::ui::{Badge, Icon, Marked};
use crate::rules::{Change, Edit, RulesError};
use askama::Template;
use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::{get, post};
use backtest::Advice;
use decides::{Answer, Question};
use serde::Deserialize;
use sluicegate_gateway::audit::EventKind;
use sluicegate_gateway::{RevisionId, StoreError};
use sluicegate_policy::{Mode, PolicyDocument, Rule, RuleId, RuleKind, RuleTest, Weekday};
use sluicegate_store::{AuditFilter, AuditStart, PolicyEntry, RuleHits};
use std::collections::HashMap;

/// Revisions that are searched for a rule's last edit.
const LOOK_BACK: u32 = 30;
const DAY_MS: i64 = 86_400_000;
/// Longest reason of a change, in characters.
const MOST_REASON: usize = 500;

/// Everyone who is signed in may look; changing takes an [`Admin`].
pub(super) fn router() -> Router<WebState> {
    Router::new()
        .route("/policies", get(list).post(edit::create))
        .route("/policies/try", get(list).post(try_call))
        .route("/policies/new", get(edit::new))
        .route("/policies/history", get(document::history))
        .route("/policies/history/{revision}", get(document::revision))
        .route("/policies/history/{revision}/restore", get(history::restore_page).post(history::restore))
        .route("/policies/tiers", get(tiers::show).post(tiers::save))
        .route("/policies/tests", post(kept::add))
        .route("/policies/tests/remove", post(kept::remove))
        .route("/policies/import", get(document::import_page).post(document::import))
        .route("/policies/export", get(document::export))
        .route("/policies/{id}", get(edit::show).post(edit::replace))
        .route("/policies/{id}/enabled", post(set_enabled))
        .route("/policies/{id}/delete", get(remove::confirm).post(remove::remove))
}

#[derive(Template)]
#[template(path = "policies.html")]
struct PoliciesPage {
    frame: Frame,
    admin: bool,
    trouble: Option<Trouble>,
    refused: Option<Refused>,
    notice: Option<String>,
    /// A switch that failing tests stopped, and whether it is to be on.
    insist: Option<(RuleId, bool)>,
    revision: i64,
    since: Option<Moment>,
    source: Marked,
    filter: String,
    rules: Vec<RuleRow>,
    total: usize,
    on: usize,
    tools: Vec<String>,
    question: Question,
    answer: Option<Result<Answer, String>>,
    findings: Vec<Advice>,
    tests: Vec<TestLine>,
    /// What the revision in force lets through that the one before did not.
    loosened: Vec<Marked>,
}

/// A test that is kept with the rules.
#[derive(Debug)]
struct TestLine {
    name: String,
    call: Marked,
    expect: Badge,
    failure: Option<Marked>,
}

/// Why there are no rules in force.
#[derive(Clone, Debug)]
struct Trouble {
    what: Marked,
}

/// A document that was refused since the rules in force are so.
#[derive(Clone, Debug)]
struct Refused {
    at: Moment,
    by: Marked,
    why: Marked,
}

#[derive(Debug)]
struct RuleRow {
    id: RuleId,
    name: Marked,
    selector: Marked,
    detail: Marked,
    badge: Badge,
    kind: &'static str,
    /// Its kind says more than its effect.
    telling: bool,
    enabled: bool,
    shadow: bool,
    hits: String,
    edited: Option<(Moment, String)>,
}

/// The rules in force, or why there are none. Rules that cannot be read are no reason to show no page.
struct InForce {
    entry: Option<PolicyEntry>,
    trouble: Option<Trouble>,
}

async fn in_force(state: &WebState) -> Result<InForce, WebError> {
    let trouble = |what: &str| Some(Trouble { what: Marked::of(what) });
    match state.rules.current().await {
        Ok(Some(entry)) => {
            let trouble =
                match entry.revision.document.compile(sluicegate_policy::RuleSet::default().defaults()) {
                    Ok(_) => None,
                    Err(errors) => {
                        let first = errors.first().map(ToString::to_string).unwrap_or_default();
                        trouble(&format!("revision {} cannot be used: {first}", entry.revision.id.0))
                    }
                };
            Ok(InForce { entry: Some(entry), trouble })
        }
        Ok(None) => {
            let why = state.rules.refused_seed();
            Ok(InForce {
                entry: None,
                trouble: trouble(why.as_deref().unwrap_or("no policy has been imported yet")),
            })
        }
        Err(StoreError::Corrupt(why)) => Ok(InForce { entry: None, trouble: trouble(&why) }),
        Err(error) => Err(error.into()),
    }
}

/// The document in force and its revision, where a page cannot do without.
async fn required(state: &WebState) -> Result<PolicyEntry, WebError> {
    in_force(state).await?.entry.ok_or_else(no_policy)
}

fn no_policy() -> WebError {
    WebError::Conflict(
        "There are no readable rules, so every call is denied. Import a policy first".to_owned(),
    )
}

fn find<'a>(document: &'a PolicyDocument, id: &RuleId) -> Result<&'a Rule, WebError> {
    document.rules.iter().find(|rule| rule.id == *id).ok_or(WebError::NotFound)
}

fn rule_id(id: &str) -> Result<RuleId, WebError> {
    RuleId::new(id).map_err(|_| WebError::NotFound)
}

fn reason_of(reason: &str) -> Result<&str, WebError> {
    if reason.chars().count() > MOST_REASON {
        return Err(WebError::Invalid(format!("a reason has at most {MOST_REASON} characters")));
    }
    Ok(reason.trim())
}

#[derive(Debug, Deserialize)]
struct Asked {
    q: Option<String>,
}

async fn list(
    State(state): State<WebState>,
    user: CurrentUser,
    asked: Query<Asked>,
) -> Result<Response, WebError> {
    let mut page = page(&state, &user).await?;
    page.narrow(asked.0.q.as_deref().unwrap_or_default().trim());
    Ok(render(&page))
}

async fn try_call(
    State(state): State<WebState>,
    user: CurrentUser,
    fields: Form<Vec<(String, String)>>,
) -> Result<Response, WebError> {
    let mut page = page(&state, &user).await?;
    page.question = Question::read(&fields.0);
    page.answer = match in_force(&state).await?.entry {
        Some(entry) => Some(page.question.ask(&state, &entry.revision.document).await?),
        None => Some(Err("there are no readable rules: every call is denied".to_owned())),
    };
    let refused = matches!(page.answer, Some(Err(_)));
    Ok(with_status(render(&page), if refused { StatusCode::UNPROCESSABLE_ENTITY } else { StatusCode::OK }))
}

fn with_status(mut response: Response, status: StatusCode) -> Response {
    if response.status().is_success() {
        *response.status_mut() = status;
    }
    response
}

async fn page(state: &WebState, user: &CurrentUser) -> Result<PoliciesPage, WebError> {
    let frame = state.frame(user, Place::Policies, "Policies", Region::Frame).await?;
    let InForce { entry, trouble } = in_force(state).await?;
    let hits = hits(state).await?;
    let refused = last_refused(state, entry.as_ref()).await?;
    let edits = match &entry {
        Some(entry) => edits(state, &entry.revision.document).await?,
        None => HashMap::new(),
    };
    let rules: Vec<RuleRow> = entry
        .iter()
        .flat_map(|entry| &entry.revision.document.rules)
        .map(|rule| row(rule, hits.of(rule), edits.get(&rule.id)))
        .collect();
    let tools = state.catalogue.snapshot().tools().map(|tool| tool.tool().to_string()).collect();
    let findings = match entry.as_ref().map(|entry| state.rules.compiled(&entry.revision.document)) {
        Some(Ok(rules)) => {
            let found = state.rules.findings(rules).await;
            found.map_err(|error| WebError::Internal(error.to_string()))?.iter().map(Advice::of).collect()
        }
        Some(Err(_)) | None => Vec::new(),
    };
    let remarks = entry.as_ref().map(|entry| entry.remarks.clone()).unwrap_or_default();
    Ok(PoliciesPage {
        findings,
        tests: entry.iter().flat_map(|entry| tests(state, &entry.revision.document)).collect(),
        loosened: if remarks.looser == 0 {
            Vec::new()
        } else {
            remarks.examples.iter().map(|example| Marked::of(example)).collect()
        },
        frame,
        admin: user.role == sluicegate_policy::Role::Admin,
        trouble,
        refused,
        notice: None,
        insist: None,
        revision: entry.as_ref().map(|entry| entry.revision.id.0).unwrap_or_default(),
        since: entry.as_ref().map(|entry| Moment::at_ms(entry.at_ms)),
        source: Marked::of(entry.as_ref().map(|entry| entry.source.as_str()).unwrap_or_default()),
        filter: String::new(),
        total: rules.len(),
        on: rules.iter().filter(|rule| rule.enabled).count(),
        rules,
        tools,
        question: Question::default(),
        answer: None,
    })
}

fn tests(state: &WebState, document: &PolicyDocument) -> Vec<TestLine> {
    let failing = state.rules.failing(document).unwrap_or_default();
    let line = |test: &RuleTest| TestLine {
        name: test.name.clone(),
        call: Marked::of(&format!("{}/{}", test.given.server, test.given.tool)),
        expect: Badge { plain: true, ..words::badge(test.expect) },
        failure: failing
            .iter()
            .find(|failure| failure.name == test.name)
            .map(|failure| Marked::of(&failure.message)),
    };
    document.tests.iter().map(line).collect()
}

impl PoliciesPage {
    fn failing(&self) -> usize {
        self.tests.iter().filter(|test| test.failure.is_some()).count()
    }

    /// Leaves the rules that hold a text.
    fn narrow(&mut self, text: &str) {
        self.filter = text.to_owned();
        let wanted = text.to_lowercase();
        if wanted.is_empty() {
            return;
        }
        self.rules.retain(|rule| {
            let words = [
                rule.id.as_str(),
                rule.kind,
                &plain(&rule.name),
                &plain(&rule.selector),
                &plain(&rule.detail),
            ];
            words.iter().any(|word| word.to_lowercase().contains(&wanted))
        });
    }

    fn days() -> &'static [Weekday] {
        Weekday::ALL
    }
}

fn plain(text: &Marked) -> String {
    use super::visible_text::Run;
    let word = |run: &Run| match run {
        Run::Plain(text) => text.clone(),
        Run::Mark { label, .. } => label.clone(),
        Run::Lookalike { letter, .. } => letter.to_string(),
    };
    text.0.runs.iter().map(word).collect()
}

fn row(rule: &Rule, hits: u64, edited: Option<&(i64, String)>) -> RuleRow {
    let name = if rule.description.is_empty() { rule.id.as_str() } else { &rule.description };
    RuleRow {
        id: rule.id.clone(),
        name: Marked::of(name),
        selector: Marked::of(&words::selector(&rule.selects)),
        detail: Marked::of(&words::detail(rule)),
        badge: words::badge(words::effect_of(rule)),
        kind: words::kind(rule.kind),
        telling: matches!(rule.kind, RuleKind::InputValidation | RuleKind::TokenBudget | RuleKind::RateLimit),
        enabled: rule.enabled,
        shadow: rule.mode == Mode::Shadow,
        hits: grouped(hits),
        edited: edited.map(|(at_ms, by)| (Moment::at_ms(*at_ms), by.clone())),
    }
}

/// How often each rule decided in the last day, and how often each in shadow mode would have matched.
#[derive(Debug, Default)]
struct Hits {
    decided: HashMap<RuleId, u64>,
    shadow: HashMap<RuleId, u64>,
}

impl Hits {
    fn of(&self, rule: &Rule) -> u64 {
        let hits = if rule.mode == Mode::Shadow { &self.shadow } else { &self.decided };
        hits.get(&rule.id).copied().unwrap_or_default()
    }
}

async fn hits(state: &WebState) -> Result<Hits, WebError> {
    let since = state.now_ms().saturating_sub(DAY_MS);
    let (decided, shadow) = (state.calls.rule_hits(since).await?, state.calls.shadow_hits(since).await?);
    let sum = |list: Vec<RuleHits>| {
        let mut hits: HashMap<RuleId, u64> = HashMap::new();
        for hit in list {
            let count = hits.entry(hit.rule).or_default();
            *count = count.saturating_add(hit.count);
        }
        hits
    };
    Ok(Hits { decided: sum(decided), shadow: sum(shadow) })
}

/// The last document that was refused, if that was after the rules in force were made.
async fn last_refused(state: &WebState, entry: Option<&PolicyEntry>) -> Result<Option<Refused>, WebError> {
    let filter = AuditFilter {
        kind: Some(EventKind::PolicyRejected),
        from_ms: entry.map(|entry| entry.at_ms),
        ..AuditFilter::default()
    };
    let last = state.audit.rows(&filter, AuditStart::Latest, 1).await?.rows.into_iter().next();
    let Some(row) = last else { return Ok(None) };
    let note = state.audit.payloads(row.seq).await?.into_iter().find(|payload| payload.name == "note");
    let why = note.map(|note| note.text).unwrap_or_default();
    Ok(Some(Refused { at: Moment::at_ms(row.at_ms), by: Marked::of(&row.actor), why: Marked::of(&why) }))
}

/// When each rule was last changed and by whom, as far back as [`LOOK_BACK`] revisions tell.
async fn edits(
    state: &WebState,
    current: &PolicyDocument,
) -> Result<HashMap<RuleId, (i64, String)>, WebError> {
    let history = match state.rules.history(None, LOOK_BACK).await {
        Ok(page) => page,
        // An older revision that cannot be read hides who edited what, not the rules.
        Err(StoreError::Corrupt(_)) => return Ok(HashMap::new()),
        Err(error) => return Err(error.into()),
    };
    let mut found = HashMap::new();
    for rule in &current.rules {
        let same = |entry: &&PolicyEntry| entry.revision.document.rules.contains(rule);
        let stretch: Vec<&PolicyEntry> = history.rows.iter().take_while(same).collect();
        let whole = stretch.len() < history.rows.len() || history.next.is_none();
        if let (Some(first), true) = (stretch.last(), whole) {
            found.insert(rule.id.clone(), (first.at_ms, first.author.clone()));
        }
    }
    Ok(found)
}

#[derive(Debug, Deserialize)]
struct Switch {
    revision: i64,
    enabled: bool,
    #[serde(default)]
    despite_tests: String,
}

async fn set_enabled(
    State(state): State<WebState>,
    admin: Admin,
    id: Path<String>,
    switch: Form<Switch>,
) -> Result<Response, WebError> {
    let (id, switch) = (rule_id(&id.0)?, switch.0);
    let despite_tests = switch.despite_tests == "yes";
    let change = Change { author: admin.0.person.as_str(), reason: "", despite_tests };
    let edit = Edit::SetEnabled(id.clone(), switch.enabled);
    match state.rules.save(edit, RevisionId(switch.revision), change).await {
        Ok(_) => Ok(see_other("/policies")),
        Err(error) => {
            let insist = matches!(error, RulesError::Tests(_)).then_some((id, switch.enabled));
            refused(&state, &admin.0, error, insist).await
        }
    }
}

/// A change that was not made, on the page of the rules as they are now.
async fn refused(
    state: &WebState,
    user: &CurrentUser,
    error: RulesError,
    insist: Option<(RuleId, bool)>,
) -> Result<Response, WebError> {
    let status = match error {
        RulesError::Store(error) => return Err(error.into()),
        RulesError::NotFound(_) => return Err(WebError::NotFound),
        RulesError::NoPolicy => return Err(no_policy()),
        RulesError::Conflict(_) => StatusCode::CONFLICT,
        RulesError::Text(_)
        | RulesError::Rule(_)
        | RulesError::Tests(_)
        | RulesError::Arguments(_)
        | RulesError::Interrupted => StatusCode::UNPROCESSABLE_ENTITY,
    };
    let page = page(state, user).await?;
    Ok(with_status(render(&PoliciesPage { notice: Some(error.to_string()), insist, ..page }), status))
}
