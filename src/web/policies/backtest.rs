//! What an edit would do, beside the edit: recorded calls that would be decided otherwise, what gets looser, tests that
//! would fail, and what is probably not meant.

use crate::rules::{Edit, Preview, RulesError};
use crate::web::decision as words;
use crate::web::error::WebError;
use crate::web::figures::{Moment, grouped};
use crate::web::state::WebState;
use crate::web::ui::{Badge, Marked, ToolName, components};
use askama::Template;
use sluicegate_policy::{Change, Comparison, Effect, Finding};

/// Changed calls that are listed before the rest is only counted.
const MOST_EXAMPLES: usize = 50;
const MOST_LOOSER: usize = 5;

/// The panel beside an edit.
#[derive(Debug, Template)]
#[template(path = "policies/backtest.html")]
pub(crate) struct Panel {
    shown: Shown,
}

components!(Panel);

#[derive(Debug)]
enum Shown {
    /// Nothing is edited yet.
    Idle,
    /// The edit cannot be judged, for these reasons.
    Broken(Vec<Marked>),
    Judged(Box<Judged>),
}

#[derive(Debug)]
struct Judged {
    calls: String,
    changed: String,
    shifts: Vec<Shift>,
    examples: Vec<Example>,
    more: usize,
    tried: String,
    looser: usize,
    loosened: Vec<Marked>,
    tests: usize,
    failing: Vec<Marked>,
    findings: Vec<Advice>,
}

#[derive(Debug)]
struct Shift {
    from: Badge,
    to: Badge,
    count: String,
}

#[derive(Debug)]
struct Example {
    call: String,
    tool: ToolName,
    at: Moment,
    from: Badge,
    to: Badge,
    why: Marked,
}

/// A finding.
#[derive(Debug)]
pub(crate) struct Advice {
    pub(crate) rule: String,
    pub(crate) word: &'static str,
    pub(crate) message: Marked,
}

impl Advice {
    pub(crate) fn of(finding: &Finding) -> Self {
        use sluicegate_policy::FindingKind as Kind;
        let word = match finding.kind {
            Kind::Dead => "Dead",
            Kind::Outranked => "Outranked",
            Kind::Redundant => "Adds nothing",
            Kind::Contradictory => "Contradiction",
            Kind::OverBroad => "Very wide",
            Kind::TextComparison => "Text comparison",
            Kind::UnknownArgument => "Unknown argument",
        };
        Self { rule: finding.rule.to_string(), word, message: Marked::of(&finding.message) }
    }
}

impl Panel {
    /// Before anything was edited.
    pub(super) fn idle() -> Self {
        Self { shown: Shown::Idle }
    }

    /// An edit that is no edit yet.
    pub(super) fn broken(why: impl IntoIterator<Item = String>) -> Self {
        Self { shown: Shown::Broken(why.into_iter().map(|why| Marked::of(&why)).collect()) }
    }

    /// Judges an edit of the rules in force.
    ///
    /// # Errors
    /// When the store fails. An edit that does not hold together is an answer.
    pub(super) async fn of(state: &WebState, edit: Edit) -> Result<Self, WebError> {
        Self::judged(state.rules.preview(edit).await)
    }

    /// Judges a whole document in the place of the rules in force.
    ///
    /// # Errors
    /// When the store fails.
    pub(super) async fn of_document(state: &WebState, yaml: &str) -> Result<Self, WebError> {
        Self::judged(state.rules.preview_import(yaml).await)
    }

    fn judged(preview: Result<Preview, RulesError>) -> Result<Self, WebError> {
        match preview {
            Ok(preview) => Ok(Self { shown: Shown::Judged(Box::new(judged(&preview))) }),
            Err(RulesError::Store(error)) => Err(error.into()),
            Err(RulesError::Rule(errors)) => Ok(Self::broken(errors.iter().map(ToString::to_string))),
            Err(RulesError::Text(problems)) => Ok(Self::broken(problems.iter().map(ToString::to_string))),
            Err(error) => Ok(Self::broken([error.to_string()])),
        }
    }

    /// Tests that would fail.
    pub(super) fn failing(&self) -> usize {
        match &self.shown {
            Shown::Judged(judged) => judged.failing.len(),
            Shown::Idle | Shown::Broken(_) => 0,
        }
    }
}

fn plain(effect: Effect) -> Badge {
    Badge { plain: true, ..words::badge(effect) }
}

fn judged(preview: &Preview) -> Judged {
    let changes = &preview.backtest.changes;
    let examples = changes.iter().rev().take(MOST_EXAMPLES).filter_map(|change| {
        let call = preview.calls.get(change.call)?;
        Some(Example {
            call: call.id.to_string(),
            tool: ToolName::new(call.context.tool.server().as_str(), call.context.tool.tool().as_str()),
            at: Moment::at_ms(call.at_ms),
            from: plain(change.before.effect),
            to: plain(change.after.effect),
            why: Marked::of(&change.after.sentence),
        })
    });
    let shifts = preview.backtest.counts().into_iter().map(|(from, to, count)| Shift {
        from: words::badge(from),
        to: words::badge(to),
        count: figure(count),
    });
    let looser = |of: &Comparison| of.looser().count();
    Judged {
        calls: figure(preview.backtest.calls),
        changed: figure(changes.len()),
        shifts: shifts.collect(),
        examples: examples.collect(),
        more: changes.len().saturating_sub(MOST_EXAMPLES),
        tried: figure(preview.probed.calls),
        looser: looser(&preview.backtest).saturating_add(looser(&preview.probed)),
        loosened: loosened(preview),
        tests: preview.tests,
        failing: preview.failing.iter().map(|failure| Marked::of(&failure.to_string())).collect(),
        findings: preview.findings.iter().map(Advice::of).collect(),
    }
}

/// Some of the made-up calls that get through more easily, one per pair of reasons.
fn loosened(preview: &Preview) -> Vec<Marked> {
    let mut seen: Vec<(&str, &str)> = Vec::new();
    let mut said = Vec::new();
    for change in preview.probed.looser() {
        let key = (change.before.sentence.as_str(), change.after.sentence.as_str());
        if seen.contains(&key) || seen.len() == MOST_LOOSER {
            continue;
        }
        seen.push(key);
        said.extend(example(preview, change));
    }
    said
}

fn example(preview: &Preview, change: &Change) -> Option<Marked> {
    const MOST: usize = 120;
    let context = &preview.made_up.get(change.call)?.context;
    let mut arguments: String = context.arguments.canonical().chars().take(MOST).collect();
    if arguments.len() < context.arguments.canonical().len() {
        arguments.push('…');
    }
    let who = format!("{} ({}, {})", context.principal.caller, context.principal.role, context.origin);
    Some(Marked::of(&format!(
        "{} {arguments} by {who}: {}; before: {}",
        context.tool, change.after.sentence, change.before.sentence
    )))
}

fn figure(count: usize) -> String {
    grouped(u64::try_from(count).unwrap_or(u64::MAX))
}
