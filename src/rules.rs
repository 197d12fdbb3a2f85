//! Policy administration: the rules as a YAML text, as single edits, and as revisions in the store.
//!
//! Every change is a new revision of the whole document, checked as a whole before it is written: what does not hold
//! together changes nothing. The gate reads the revision on every call, so there is nothing to notify.

mod edit;
mod outline;
mod problem;
mod seed;
mod text;

use std::sync::{Arc, Mutex, PoisonError};

use sluicegate_gateway::{RevisionId, StoreError};
use sluicegate_policy::{
    ApprovalDefaults, ArgumentsError, Decision, Given, Hints, PolicyContext, PolicyDocument, Rule, RuleError,
    RuleId, RuleSet, evaluate,
};
use sluicegate_store::{Page, Policies, PolicyAppended, PolicyEntry};

use edit::Edit;

pub use problem::PolicyProblem;
pub use seed::{SHIPPED, Seeded, read_file};
pub use text::{MAX_POLICY_BYTES, parse, to_yaml};

/// The handle on the rules, for the Policies page and the command line.
#[derive(Clone, Debug)]
pub struct Rules {
    policies: Policies,
    defaults: ApprovalDefaults,
    refused_seed: Arc<Mutex<Option<String>>>,
}

/// Who changes the rules, and why.
#[derive(Clone, Copy, Debug)]
pub struct Change<'a> {
    /// The person.
    pub author: &'a str,
    /// Their reason; may be empty.
    pub reason: &'a str,
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
    /// Somebody else changed the rules since they were read.
    #[error("the rules have changed since this page was made (now revision {}); look again and repeat the change", .0.0)]
    Conflict(RevisionId),
    /// There is no such rule.
    #[error("there is no rule `{0}`")]
    NotFound(RuleId),
    /// There are no rules to change.
    #[error("there are no rules yet, so every call is denied; import a policy first")]
    NoPolicy,
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
    pub fn new(policies: Policies, defaults: ApprovalDefaults) -> Self {
        Self { policies, defaults, refused_seed: Arc::default() }
    }

    /// The revision in force; `None` while there is none, and every call is denied.
    ///
    /// # Errors
    /// When it cannot be read.
    pub async fn current(&self) -> Result<Option<PolicyEntry>, StoreError> {
        self.policies.current().await
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
        match parse(yaml, self.defaults) {
            Ok((document, _)) => self.append(document, None, source, change).await,
            Err(problems) => {
                self.policies.rejected(change.author, source, &first(&problems)).await?;
                Err(RulesError::Text(problems))
            }
        }
    }

    /// Adds a rule.
    ///
    /// # Errors
    /// [`RulesError`]; nothing is changed then.
    pub async fn create(
        &self,
        rule: Rule,
        expected: RevisionId,
        change: Change<'_>,
    ) -> Result<RevisionId, RulesError> {
        self.edit(Edit::Create(rule), expected, change).await
    }

    /// Puts `rule` in the place of the one called `id`. It may have another id.
    ///
    /// # Errors
    /// [`RulesError`]; nothing is changed then.
    pub async fn replace(
        &self,
        id: &RuleId,
        rule: Rule,
        expected: RevisionId,
        change: Change<'_>,
    ) -> Result<RevisionId, RulesError> {
        self.edit(Edit::Replace(id.clone(), rule), expected, change).await
    }

    /// Switches a rule on or off.
    ///
    /// # Errors
    /// [`RulesError`]; nothing is changed then.
    pub async fn set_enabled(
        &self,
        id: &RuleId,
        enabled: bool,
        expected: RevisionId,
        change: Change<'_>,
    ) -> Result<RevisionId, RulesError> {
        self.edit(Edit::SetEnabled(id.clone(), enabled), expected, change).await
    }

    /// Removes a rule.
    ///
    /// # Errors
    /// [`RulesError`]; nothing is changed then.
    pub async fn delete(
        &self,
        id: &RuleId,
        expected: RevisionId,
        change: Change<'_>,
    ) -> Result<RevisionId, RulesError> {
        self.edit(Edit::Delete(id.clone()), expected, change).await
    }

    /// Checks a rule as if it stood in the rules in force, in the place of `id` if given, and changes nothing.
    ///
    /// # Errors
    /// [`RulesError`] as the edit itself would give it.
    pub async fn check(&self, id: Option<&RuleId>, rule: Rule) -> Result<RuleSet, RulesError> {
        let entry = self.current().await?.ok_or(RulesError::NoPolicy)?;
        let edit = match id {
            Some(id) => Edit::Replace(id.clone(), rule),
            None => Edit::Create(rule),
        };
        edit.apply(entry.revision.document, self.defaults).map(|(_, rules)| rules)
    }

    /// Which rule would decide this call, by the rules in force and the same evaluation as the gate's. `hints` are
    /// what the server states of the tool.
    ///
    /// # Errors
    /// [`RulesError::NoPolicy`], or arguments that the gate would not take either.
    pub async fn explain(&self, given: &Given, hints: Hints) -> Result<Explained, RulesError> {
        let entry = self.current().await?.ok_or(RulesError::NoPolicy)?;
        let rules = entry.revision.document.compile(self.defaults).map_err(RulesError::Rule)?;
        let context = context(given, hints, &rules)?;
        let decision = evaluate(&context, &rules);
        let sentence = decision.sentence(&rules);
        Ok(Explained { revision: entry.revision.id, context, decision, sentence })
    }

    async fn edit(
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
        let (document, _) = edit.apply(entry.revision.document, self.defaults)?;
        let reason = if change.reason.is_empty() { what } else { format!("{what}: {}", change.reason) };
        self.append(document, Some(expected), "dashboard", Change { reason: &reason, ..change }).await
    }

    async fn append(
        &self,
        document: PolicyDocument,
        expected: Option<RevisionId>,
        source: &str,
        change: Change<'_>,
    ) -> Result<RevisionId, RulesError> {
        match self.policies.append(document, expected, change.author, change.reason, source).await? {
            PolicyAppended::Appended(revision) => Ok(revision),
            PolicyAppended::Conflict(now) => Err(RulesError::Conflict(now.unwrap_or(RevisionId(0)))),
        }
    }
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
