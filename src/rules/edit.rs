//! Edits of a document: pure, and checked as a whole.

use sluicegate_gateway::RevisionId;
use sluicegate_policy::{
    ApprovalDefaults, PolicyDocument, Rule, RuleError, RuleId, RuleSet, RuleTest, ToolMark,
};

use super::RulesError;
use super::text::unknown_zones;

/// An edit of the rules in force.
#[derive(Debug, Clone)]
pub enum Edit {
    /// Adds a rule.
    Create(Rule),
    /// Puts a rule in the place of the one called so. It may have another id.
    Replace(RuleId, Rule),
    /// Switches a rule on or off.
    SetEnabled(RuleId, bool),
    /// Removes a rule.
    Delete(RuleId),
    /// Tiers and marks, all of them.
    Tiers(Vec<ToolMark>),
    /// Adds a test; one of the same name is replaced.
    AddTest(RuleTest),
    /// Removes the test of that name.
    RemoveTest(String),
    /// The document of an earlier revision, as a new one.
    Restore(RevisionId, PolicyDocument),
}

impl Edit {
    pub(super) fn in_words(&self) -> String {
        match self {
            Self::Create(rule) => format!("rule `{}` added", rule.id),
            Self::Replace(id, rule) if *id == rule.id => format!("rule `{id}` changed"),
            Self::Replace(id, rule) => format!("rule `{id}` changed, now `{}`", rule.id),
            Self::SetEnabled(id, true) => format!("rule `{id}` switched on"),
            Self::SetEnabled(id, false) => format!("rule `{id}` switched off"),
            Self::Delete(id) => format!("rule `{id}` removed"),
            Self::Tiers(_) => "tiers and marks changed".to_owned(),
            Self::AddTest(test) => format!("test `{}` added", test.name),
            Self::RemoveTest(name) => format!("test `{name}` removed"),
            Self::Restore(revision, _) => format!("back to revision {}", revision.0),
        }
    }

    /// The edited document, and what it compiles to.
    ///
    /// # Errors
    /// `NotFound`, or `Rule` with everything that does not hold together.
    pub(super) fn apply(
        self,
        mut document: PolicyDocument,
        defaults: ApprovalDefaults,
    ) -> Result<(PolicyDocument, RuleSet), RulesError> {
        let place = match self {
            Self::Create(rule) => {
                document.rules.push(rule);
                document.rules.len().checked_sub(1)
            }
            Self::Replace(id, rule) => {
                let (place, slot) = find(&mut document, &id)?;
                *slot = rule;
                Some(place)
            }
            Self::SetEnabled(id, enabled) => {
                let (place, slot) = find(&mut document, &id)?;
                slot.enabled = enabled;
                Some(place)
            }
            Self::Delete(id) => {
                let (place, _) = find(&mut document, &id)?;
                document.rules.remove(place);
                None
            }
            Self::Tiers(tiers) => {
                document.tiers = tiers;
                None
            }
            Self::AddTest(test) => {
                document.tests.retain(|other| other.name != test.name);
                document.tests.push(test);
                None
            }
            Self::RemoveTest(name) => {
                document.tests.retain(|other| other.name != name);
                None
            }
            Self::Restore(_, earlier) => {
                document = earlier;
                None
            }
        };
        let zones: Vec<RuleError> = unknown_zones(&document)
            .map(|(field, message)| RuleError { rule: None, field, message, suggestion: None })
            .collect();
        let mut errors = zones;
        match document.compile(defaults) {
            Ok(rules) if errors.is_empty() => return Ok((document, rules)),
            Ok(_) => {}
            Err(found) => errors.extend(found),
        }
        if let Some(place) = place {
            let own = format!("rules[{place}].");
            for error in &mut errors {
                if let Some(field) = error.field.strip_prefix(&own) {
                    error.field = field.to_owned();
                }
            }
        }
        Err(RulesError::Rule(errors))
    }
}

fn find<'a>(document: &'a mut PolicyDocument, id: &RuleId) -> Result<(usize, &'a mut Rule), RulesError> {
    let found = document.rules.iter_mut().enumerate().find(|(_, rule)| rule.id == *id);
    found.ok_or_else(|| RulesError::NotFound(id.clone()))
}
