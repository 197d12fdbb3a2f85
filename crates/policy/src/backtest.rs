//! What another set of rules would make of known calls: recorded ones, or [`probes`](crate::probes). Pure: facts in,
//! differences out.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::string::String;
use alloc::vec::Vec;

use crate::context::PolicyContext;
use crate::decision::{Decision, Effect, Hold, RateQuery};
use crate::document::{Limit, Mode};
use crate::evaluate::evaluate;
use crate::names::RuleId;
use crate::rules::{Hints, RuleSet};

/// A call whose facts are known. Its tier is judged anew by each set of rules, from the tool and from what its server
/// states, since tiers are part of the rules.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownCall {
    /// The facts. Of the local times all that either set of rules names should be there.
    pub context: PolicyContext,
    /// What the tool's server states of it.
    pub hints: Hints,
    /// Whether it ran, where the rules held it for a person.
    pub ran: bool,
}

/// What one set of rules makes of a call, and another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// Which call, counting from 0.
    pub call: usize,
    /// By the rules before.
    pub before: Outcome,
    /// By the rules after.
    pub after: Outcome,
    /// Whether the rules after let more through: a weaker effect, or a hold that asks fewer people or roles.
    pub looser: bool,
}

/// A decision in short.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// What becomes of the call.
    pub effect: Effect,
    /// The rules that decide.
    pub by: Vec<RuleId>,
    /// Why, in one sentence.
    pub sentence: String,
}

/// What differs over many calls.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Comparison {
    /// How many calls were judged.
    pub calls: usize,
    /// Those that are decided otherwise, in their order.
    pub changes: Vec<Change>,
}

impl Comparison {
    /// How many calls go from each effect to each other one, the most first.
    #[must_use]
    pub fn counts(&self) -> Vec<(Effect, Effect, usize)> {
        let mut counts = BTreeMap::<(Effect, Effect), usize>::new();
        for change in &self.changes {
            *counts.entry((change.before.effect, change.after.effect)).or_default() += 1;
        }
        let mut counts: Vec<_> = counts.into_iter().map(|((from, to), n)| (from, to, n)).collect();
        counts.sort_by_key(|(_, _, n)| core::cmp::Reverse(*n));
        counts
    }

    /// The calls of which the rules after let more through.
    pub fn looser(&self) -> impl Iterator<Item = &Change> {
        self.changes.iter().filter(|change| change.looser)
    }
}

/// Judges each call by both sets of rules. Calls come oldest first: how often a rate was used is counted along them, for
/// each set on its own, wherever the recorded count does not say it (see [`KnownCall::context`]).
#[must_use]
pub fn compare<'a>(
    calls: impl IntoIterator<Item = &'a KnownCall>,
    before: &RuleSet,
    after: &RuleSet,
) -> Comparison {
    let (mut old, mut new) = (Replay::new(before, after), Replay::new(after, before));
    let mut found = Comparison::default();
    for known in calls {
        let (was, is) = (old.decide(known), new.decide(known));
        let (stricter, looser) = differ(&was, &is);
        if stricter || looser {
            found.changes.push(Change {
                call: found.calls,
                before: outcome(was, before),
                after: outcome(is, after),
                looser,
            });
        }
        found.calls += 1;
    }
    found
}

fn outcome(decision: Decision, rules: &RuleSet) -> Outcome {
    let sentence = decision.sentence(rules);
    Outcome { effect: decision.effect, by: decision.deciding, sentence }
}

/// Whether the second decision is stricter, and whether it is looser, in any respect.
fn differ(was: &Decision, is: &Decision) -> (bool, bool) {
    match (&was.hold, &is.hold) {
        (Some(was), Some(is)) => (asks_more(was, is), asks_more(is, was)),
        _ => (is.effect > was.effect, is.effect < was.effect),
    }
}

/// Whether the second hold asks for something that the first does not.
fn asks_more(was: &Hold, is: &Hold) -> bool {
    is.approvers > was.approvers || !is.roles.is_subset(&was.roles)
}

/// One set of rules along a row of calls.
struct Replay<'a> {
    rules: &'a RuleSet,
    other: &'a RuleSet,
    /// When the calls ran that each rate counts.
    ran: BTreeMap<(RuleId, String), VecDeque<i64>>,
}

impl<'a> Replay<'a> {
    fn new(rules: &'a RuleSet, other: &'a RuleSet) -> Self {
        Self { rules, other, ran: BTreeMap::new() }
    }

    fn decide(&mut self, known: &KnownCall) -> Decision {
        let mut context = known.context.clone();
        context.tier = self.rules.tier(&context.tool, known.hints);
        let rates = self.rules.rate_rules(&context.tool, context.tier, &context.principal, context.origin);
        let now = context.now.0;
        context.counters = rates
            .into_iter()
            .map(|rate| {
                let recorded = known.context.counters.get(&rate.rule).copied();
                let count = recorded.filter(|_| self.counts_alike(&rate.rule));
                let count = count.unwrap_or_else(|| self.count(&rate, now));
                (rate.rule, count)
            })
            .collect();
        let decision = evaluate(&context, self.rules);
        let runs = match decision.effect {
            Effect::Allow => true,
            Effect::RequireApproval => known.ran,
            Effect::Deny => false,
        };
        if runs {
            for rate in &decision.reserve {
                self.ran.entry(key(rate)).or_default().push_back(now);
            }
        }
        decision
    }

    /// Whether both sets count the same calls under this id, so that what was recorded is what is meant.
    fn counts_alike(&self, id: &RuleId) -> bool {
        let counted = |rules: &RuleSet| -> Option<(Limit, Mode)> {
            let written = rules.rule(id)?.written();
            Some((Limit { calls: None, ..written.limit.clone()? }, written.mode))
        };
        counted(self.rules).is_some() && counted(self.rules) == counted(self.other)
    }

    fn count(&mut self, rate: &RateQuery, now: i64) -> u64 {
        let Some(times) = self.ran.get_mut(&key(rate)) else { return 0 };
        let window = i64::try_from(rate.window_ms).unwrap_or(i64::MAX);
        while times.front().is_some_and(|at| *at <= now.saturating_sub(window)) {
            times.pop_front();
        }
        u64::try_from(times.len()).unwrap_or(u64::MAX)
    }
}

fn key(rate: &RateQuery) -> (RuleId, String) {
    (rate.rule.clone(), rate.subject.key())
}
