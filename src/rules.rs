//! Policy administration: the rules as a YAML text, as single edits, and as revisions in the store.
//!
//! Every change is a new revision of the whole document, checked as a whole before it is written: what does not hold
//! together changes nothing. The gate reads the revision on every call, so there is nothing to notify.

mod edit;
mod outline;
mod preview;
mod problem;
mod schema;
mod seed;
mod text;

use std::sync::{Arc, Mutex, PoisonError};

use sluicegate_gateway::{Digest, RevisionId, StoreError, ToolCatalogue};
use sluicegate_policy::{
    ApprovalDefaults, ArgumentsError, Decision, Finding, Given, Hints, PolicyContext, PolicyDocument,
    RuleError, RuleId, RuleSet, TestFailure, evaluate, findings,
};
use sluicegate_store::{CallReader, Page, Policies, PolicyAppended, PolicyEntry};
use tokio::sync::Semaphore;

pub use edit::Edit;
use preview::Known;
pub use preview::{Preview, failing};
pub use problem::PolicyProblem;
pub use schema::schema;
pub use seed::{SHIPPED, Seeded, read_file};
pub use text::{MAX_POLICY_BYTES, parse, to_yaml};

/// The handle on the rules, for the Policies page and the command line.
#[derive(Clone, Debug)]
pub struct Rules {
    policies: Policies,
    calls: CallReader,
    catalogue: Option<ToolCatalogue>,
    defaults: ApprovalDefaults,
    refused_seed: Arc<Mutex<Option<String>>>,
    /// One edit is judged at a time: each takes a processor for itself.
    judging: Arc<Semaphore>,
}

/// Who changes the rules, and why.
#[derive(Clone, Copy, Debug)]
pub struct Change<'a> {
    /// The person.
    pub author: &'a str,
    /// Their reason; may be empty.
    pub reason: &'a str,
    /// Save although tests of the document fail. Which ones is recorded.
    pub despite_tests: bool,
}

/// A change that was not made.
#[derive(Debug, thiserror::Error)]
pub enum RulesError {
    /// The text is not a policy.
    #[error("{}", first(.0))]
    Text(Vec<PolicyProblem>),
    /// The edited rule, or the document with it, does not hold together. Fields of the edited rule are named without
    /// its place: `approval.timeout`.
    #[error("{}", first(.0))]
    Rule(Vec<RuleError>),
    /// Tests that are kept with the rules fail.
    #[error("{} that stand with the rules fail: {}", count(.0.len()), first(.0))]
    Tests(Vec<TestFailure>),
    /// Somebody else changed the rules since they were read.
    #[error("the rules have changed since this page was made (now revision {}); look again and repeat the change", .0.0)]
    Conflict(RevisionId),
    /// There is no such rule.
    #[error("there is no rule `{0}`")]
    NotFound(RuleId),
    /// There are no rules to change.
    #[error("there are no rules yet, so every call is denied; import a policy first")]
    NoPolicy,
    /// The work was broken off.
    #[error("the edit could not be judged; nothing was changed")]
    Interrupted,
    /// The arguments of a call to explain cannot be judged.
    #[error(transparent)]
    Arguments(#[from] ArgumentsError),
    /// The store failed; nothing was changed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

fn first<T: ToString>(problems: &[T]) -> String {
    let more = problems.len().saturating_sub(1);
    let first = problems.first().map(T::to_string).unwrap_or_default();
    if more == 0 { first } else { format!("{first} (and {more} more)") }
}

/// Names a text that is no policy, in the trail.
fn digest_of(yaml: &str) -> Digest {
    Digest::of("sluicegate/policy-text/1", &[yaml.as_bytes()])
}

fn count(tests: usize) -> String {
    if tests == 1 { "1 test".to_owned() } else { format!("{tests} tests") }
}

/// What the rules make of a call, and why.
#[derive(Debug, Clone)]
pub struct Explained {
    /// The revision that was asked.
    pub revision: RevisionId,
    /// The facts, as the engine saw them.
    pub context: PolicyContext,
    /// The decision.
    pub decision: Decision,
    /// Why, in one sentence.
    pub sentence: String,
}

impl Rules {
    /// The rules of a store. `defaults` are the time limits of holds whose rule names none, the same as the gate's.
    #[must_use]
    pub fn new(policies: Policies, calls: CallReader, defaults: ApprovalDefaults) -> Self {
        Self {
            policies,
            calls,
            catalogue: None,
            defaults,
            refused_seed: Arc::default(),
            judging: Arc::new(Semaphore::new(1)),
        }
    }

    /// The same, with the tools on offer in sight.
    #[must_use]
    pub fn knowing(self, catalogue: ToolCatalogue) -> Self {
        Self { catalogue: Some(catalogue), ..self }
    }

    /// The revision in force; `None` while there is none, and every call is denied.
    ///
    /// # Errors
    /// When it cannot be read.
    pub async fn current(&self) -> Result<Option<PolicyEntry>, StoreError> {
        self.policies.current().await
    }

    /// Its number alone, for whoever keeps what was read.
    ///
    /// # Errors
    /// When it cannot be read.
    pub async fn current_id(&self) -> Result<Option<RevisionId>, StoreError> {
        self.policies.current_id().await
    }

    /// Revisions, the latest first.
    ///
    /// # Errors
    /// When they cannot be read.
    pub async fn history(&self, before: Option<i64>, limit: u32) -> Result<Page<PolicyEntry>, StoreError> {
        self.policies.list(before, limit).await
    }

    /// One revision; `None` if there is no such.
    ///
    /// # Errors
    /// When it cannot be read.
    pub async fn revision(&self, id: RevisionId) -> Result<Option<PolicyEntry>, StoreError> {
        self.policies.get(id).await
    }

    /// Why the file that should have seeded the rules was refused, as long as this process lives: for the banner that
    /// stands while there are no rules.
    #[must_use]
    pub fn refused_seed(&self) -> Option<String> {
        self.refused_seed.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// A whole document from its text, as a new revision. A text that is no policy changes nothing, and is recorded as
    /// refused.
    ///
    /// # Errors
    /// [`RulesError::Text`] with every mistake found.
    pub async fn import(
        &self,
        yaml: &str,
        source: &str,
        change: Change<'_>,
    ) -> Result<RevisionId, RulesError> {
        let parsed = parse(yaml, self.defaults);
        let imported = match parsed {
            Ok((document, rules)) => self.append(document, rules, None, source, change).await,
            Err(problems) => Err(RulesError::Text(problems)),
        };
        if let Err(error @ (RulesError::Text(_) | RulesError::Tests(_))) = &imported {
            self.policies.rejected(change.author, source, Some(digest_of(yaml)), &error.to_string()).await?;
        }
        imported
    }

    /// Makes an edit of the revision that is expected to be in force.
    ///
    /// # Errors
    /// [`RulesError`]; nothing is changed then.
    pub async fn save(
        &self,
        edit: Edit,
        expected: RevisionId,
        change: Change<'_>,
    ) -> Result<RevisionId, RulesError> {
        let entry = self.current().await?.ok_or(RulesError::NoPolicy)?;
        if entry.revision.id != expected {
            return Err(RulesError::Conflict(entry.revision.id));
        }
        let what = edit.in_words();
        let (document, rules) = edit.apply(entry.revision.document, self.defaults)?;
        let reason = if change.reason.is_empty() { what } else { format!("{what}: {}", change.reason) };
        let change = Change { reason: &reason, ..change };
        self.append(document, rules, Some(expected), "dashboard", change).await
    }

    /// What an edit of the rules in force would do. Changes nothing.
    ///
    /// # Errors
    /// [`RulesError`] as the edit itself would give it; failing tests are part of the answer.
    pub async fn preview(&self, edit: Edit) -> Result<Preview, RulesError> {
        let entry = self.current().await?.ok_or(RulesError::NoPolicy)?;
        let before = self.compiled(&entry.revision.document)?;
        let (document, after) = edit.apply(entry.revision.document, self.defaults)?;
        self.judge(before, after, document).await.map(|(preview, _)| preview)
    }

    /// What a whole document would do in the place of the rules in force. Changes nothing.
    ///
    /// # Errors
    /// [`RulesError`] as the import itself would give it; failing tests are part of the answer.
    pub async fn preview_import(&self, yaml: &str) -> Result<Preview, RulesError> {
        let (document, after) = parse(yaml, self.defaults).map_err(RulesError::Text)?;
        let entry = self.current().await?.ok_or(RulesError::NoPolicy)?;
        let before = self.compiled(&entry.revision.document)?;
        self.judge(before, after, document).await.map(|(preview, _)| preview)
    }

    async fn judge(
        &self,
        before: RuleSet,
        after: RuleSet,
        document: PolicyDocument,
    ) -> Result<(Preview, PolicyDocument), RulesError> {
        let known = Known { calls: self.calls.recorded(preview::MOST_CALLS).await?, offered: self.offered() };
        let turn = Arc::clone(&self.judging).acquire_owned().await.map_err(|_| RulesError::Interrupted)?;
        // Thousands of decisions: not on a thread that answers others.
        let judged = tokio::task::spawn_blocking(move || {
            let judged = (Preview::of(&before, &after, &document, known), document);
            drop(turn);
            judged
        });
        judged.await.map_err(|_| RulesError::Interrupted)
    }

    fn offered(&self) -> Vec<sluicegate_policy::Offered> {
        let tools = self.catalogue.as_ref().map(ToolCatalogue::snapshot);
        tools.iter().flat_map(|tools| tools.tools()).map(|tool| preview::offered(tool)).collect()
    }

    /// What is probably wrong with rules that are valid.
    ///
    /// # Errors
    /// When the work was broken off.
    pub async fn findings(&self, rules: RuleSet) -> Result<Vec<Finding>, RulesError> {
        let offered = self.offered();
        let found = tokio::task::spawn_blocking(move || findings(&rules, &offered));
        found.await.map_err(|_| RulesError::Interrupted)
    }

    /// The tests of a document that fail.
    ///
    /// # Errors
    /// When the document does not compile.
    pub fn failing(&self, document: &PolicyDocument) -> Result<Vec<TestFailure>, RulesError> {
        let rules = document.compile(self.defaults).map_err(RulesError::Rule)?;
        Ok(preview::failing(&document.tests, &rules))
    }

    /// The rules of a document.
    ///
    /// # Errors
    /// When the document does not compile.
    pub fn compiled(&self, document: &PolicyDocument) -> Result<RuleSet, RulesError> {
        document.compile(self.defaults).map_err(RulesError::Rule)
    }

    /// Which rule would decide this call, by the rules in force and the same evaluation as the gate's. `hints` are
    /// what the server states of the tool.
    ///
    /// # Errors
    /// [`RulesError::NoPolicy`], or arguments that the gate would not take either.
    pub async fn explain(&self, given: &Given, hints: Hints) -> Result<Explained, RulesError> {
        let entry = self.current().await?.ok_or(RulesError::NoPolicy)?;
        let rules = self.compiled(&entry.revision.document)?;
        let (context, decision) = decide(given, hints, &rules)?;
        let sentence = decision.sentence(&rules);
        Ok(Explained { revision: entry.revision.id, context, decision, sentence })
    }

    async fn append(
        &self,
        document: PolicyDocument,
        rules: RuleSet,
        expected: Option<RevisionId>,
        source: &str,
        change: Change<'_>,
    ) -> Result<RevisionId, RulesError> {
        // One that cannot be read any more must not keep a good one from replacing it: nothing was let through by it.
        let before = match self.current().await {
            Ok(entry) => entry.and_then(|entry| entry.revision.document.compile(self.defaults).ok()),
            Err(StoreError::Corrupt(_)) => None,
            Err(error) => return Err(error.into()),
        };
        let (remarks, failing, document) = match before {
            Some(before) => {
                let (judged, document) = self.judge(before, rules, document).await?;
                (judged.remarks(), judged.failing, document)
            }
            // There is nothing that the first rules could loosen.
            None => {
                let failing = preview::failing(&document.tests, &rules);
                (preview::overridden(&failing), failing, document)
            }
        };
        if !failing.is_empty() && !change.despite_tests {
            return Err(RulesError::Tests(failing));
        }
        let Change { author, reason, .. } = change;
        match self.policies.append_remarked(document, expected, author, reason, source, remarks).await? {
            PolicyAppended::Appended(revision) => Ok(revision),
            PolicyAppended::Conflict(now) => Err(RulesError::Conflict(now.unwrap_or(RevisionId(0)))),
        }
    }
}

/// What rules make of a given call, by the same evaluation as the gate's.
///
/// # Errors
/// Arguments that the gate would not take either.
pub fn decide(
    given: &Given,
    hints: Hints,
    rules: &RuleSet,
) -> Result<(PolicyContext, Decision), ArgumentsError> {
    let context = context(given, hints, rules)?;
    let decision = evaluate(&context, rules);
    Ok((context, decision))
}

/// The facts of a given call, with the tier raised by what the server states, as the gate raises it.
fn context(given: &Given, hints: Hints, rules: &RuleSet) -> Result<PolicyContext, ArgumentsError> {
    let mut context = given.context(rules)?;
    context.tier = rules.tier(&context.tool, hints);
    let counted = rules.rate_rules(&context.tool, context.tier, &context.principal, context.origin);
    context.counters = counted
        .into_iter()
        .map(|query| {
            let calls = given.calls.get(&query.rule).copied().unwrap_or(0);
            (query.rule, calls)
        })
        .collect();
    Ok(context)
}

#[cfg(test)]
mod tests;
