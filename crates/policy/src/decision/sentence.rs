//! A decision in one plain sentence.

use alloc::format;
use alloc::string::{String, ToString};

use super::{Because, Considered, Decision, Effect, Part, Reason};
use crate::document::{Rule, RuleKind};
use crate::rules::RuleSet;

impl Decision {
    /// One plain sentence of why, for people and models. It holds the operator's words (ids, descriptions, conditions)
    /// and numbers, and nothing of the arguments. Give it the rules that decided: by others it explains less.
    #[must_use]
    pub fn sentence(&self, rules: &RuleSet) -> String {
        let Some(first) = self.deciding.first() else { return self.no_rule(rules) };
        let verb = match self.effect {
            Effect::Allow => "allowed",
            Effect::RequireApproval => "held for a person",
            Effect::Deny => "denied",
        };
        // The rule that gave the reason speaks, not merely the first by name.
        let speaker = self.considered.iter().find(|c| self.deciding.contains(c.rule) && self.speaks(c));
        let id = speaker.map_or(first, |c| c.rule);
        let others = match self.deciding.len() {
            0 | 1 => String::new(),
            2 => " and one other".to_string(),
            n => format!(" and {} others", n - 1),
        };
        let written = rules.rule(id).map(crate::CompiledRule::written);
        let detail = match speaker.map(|c| (c.kind, c.because)) {
            Some((_, Because::Usage { used, limit })) => {
                let unit = if self.reason == Reason::OverBudget { "tokens" } else { "calls" };
                format!(": {used} of {limit} {unit} are used")
            }
            Some((RuleKind::InputValidation, because @ Because::ConditionFalse(_)))
            | Some((_, because @ Because::Unevaluable { .. })) => format!(": {}", because.in_words(written)),
            _ => written
                .filter(|rule| !rule.description.is_empty())
                .map_or_else(String::new, |rule| format!(": {}", one_line(&rule.description))),
        };
        format!("{verb} by rule `{id}`{others}{detail}")
    }

    fn speaks(&self, considered: &Considered<'_>) -> bool {
        match self.reason {
            Reason::Rule => {
                !matches!(considered.because, Because::Unevaluable { .. })
                    && !matches!(considered.kind, RuleKind::TokenBudget | RuleKind::RateLimit)
            }
            Reason::OverBudget => {
                considered.kind == RuleKind::TokenBudget
                    && matches!(considered.because, Because::Usage { .. })
            }
            Reason::OverRate => {
                considered.kind == RuleKind::RateLimit && matches!(considered.because, Because::Usage { .. })
            }
            Reason::Unevaluable => matches!(considered.because, Because::Unevaluable { .. }),
            Reason::NoRule => false,
        }
    }

    fn no_rule(&self, rules: &RuleSet) -> String {
        match self.would_allow().next() {
            Some(missed) => {
                let written = rules.rule(missed.rule).map(crate::CompiledRule::written);
                let why = missed.because.in_words(written);
                format!("denied: no rule allows this call; rule `{}` does not apply: {why}", missed.rule)
            }
            None => "denied: no rule allows this call".to_string(),
        }
    }
}

impl Because {
    /// In words, as part of a sentence. Conditions are named as written if the rule is given, else by their place.
    #[must_use]
    pub fn in_words(self, rule: Option<&Rule>) -> String {
        let condition = |place: u16| {
            rule.and_then(|rule| rule.when.get(usize::from(place))).map_or_else(
                || format!("its condition {}", place + 1),
                |c| format!("its condition `{}`", one_line(&c.to_string())),
            )
        };
        match self {
            Because::Satisfied => "all that it asks is true".to_string(),
            Because::ConditionFalse(place) => format!("{} is not satisfied", condition(place)),
            Because::Unevaluable { part: Part::Condition(place), why } => {
                format!("{} cannot be judged, since the argument {}", condition(place), why.phrase())
            }
            Because::Unevaluable { part: Part::Hours, .. } => {
                "the local time of its zone is not known".to_string()
            }
            Because::Unevaluable { part: Part::Counter, .. } => {
                "the calls that it counts are not known".to_string()
            }
            Because::Tier => "it is about another tier".to_string(),
            Because::Caller => "it is about other callers".to_string(),
            Because::Role => "it is about other roles".to_string(),
            Because::Origin => "it is about calls from elsewhere".to_string(),
            Because::OutsideHours => "it is not in force at this time".to_string(),
            Because::Usage { used, limit } => format!("{used} of {limit} are used"),
            Because::SwitchedOff => "it is switched off".to_string(),
        }
    }
}

/// A text of the operator as part of a sentence: white space as single spaces, cut where it is long.
fn one_line(text: &str) -> String {
    const MAX: usize = 200;
    let mut line = String::new();
    for word in text.split_whitespace() {
        if line.chars().count() + word.chars().count() >= MAX {
            line.push('…');
            break;
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    line
}
