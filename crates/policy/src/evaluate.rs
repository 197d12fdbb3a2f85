//! The decision: gather every rule that matches, reduce by precedence, explain.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use crate::condition::{Answers, Truth, Why};
use crate::context::{PolicyContext, Role, Tier};
use crate::decision::{
    Because, Considerations, Decision, Effect, Hold, Line, Part, RateQuery, Reason, Verdict,
};
use crate::document::{Mode, RuleKind};
use crate::rules::{CompiledRule, Limiter, RuleSet};

/// Decides a call. Total: it returns for every input, and the same for the same input, whatever the order of the rules.
///
/// Every enabled rule about the call's tool is judged on its own; the strongest effect of those that match wins
/// (`deny` > `require_approval` > `allow`); if none matches the call is denied. An allow rule matches only if all that it
/// asks is true. Every other rule matches unless something that it asks is false: what cannot be judged counts against
/// the call. Shadow rules are judged and listed, and decide nothing.
#[must_use]
pub fn evaluate(context: &PolicyContext, rules: &RuleSet) -> Decision {
    let places = rules.places_about(&context.tool);
    let mut lines = Vec::with_capacity(places.len());
    let mut strongest = Strongest::default();
    let answers = Answers::new(rules.questions(), context.arguments.object());
    let mut judge = Judge { context, rules, answers, reserve: Vec::new() };
    for (place, rule) in places.iter().filter_map(|place| Some((*place, rules.at(*place)?))) {
        let Judgement { verdict, because } = judge.judge(rule);
        if let Verdict::Matched(effect) = verdict {
            strongest.add(rule, effect, because);
        }
        lines.push(Line { place, kind: rule.kind, verdict, because });
    }
    let Strongest { effect, reason, rules: matched } = strongest;
    let effect = effect.unwrap_or(Effect::Deny);
    let hold = match effect {
        Effect::RequireApproval => Some(hold(&matched, context.tier, rules)),
        Effect::Allow | Effect::Deny => None,
    };
    let reserve = if effect == Effect::Deny { Vec::new() } else { judge.reserve };
    let deciding = matched.iter().map(|rule| rule.id.clone()).collect();
    let reason = reason.unwrap_or(Reason::NoRule);
    let considered = Considerations::new(rules.ids(), lines);
    Decision { effect, reason, deciding, considered, hold, reserve }
}

/// The matching rules of the strongest effect so far.
#[derive(Default)]
struct Strongest<'a> {
    effect: Option<Effect>,
    reason: Option<Reason>,
    rules: Vec<&'a CompiledRule>,
}

impl<'a> Strongest<'a> {
    fn add(&mut self, rule: &'a CompiledRule, effect: Effect, because: Because) {
        if self.effect < Some(effect) {
            *self = Self { effect: Some(effect), ..Self::default() };
        }
        if self.effect == Some(effect) {
            let own = reason(rule, because);
            self.reason = Some(self.reason.map_or(own, |reason| reason.min(own)));
            self.rules.push(rule);
        }
    }
}

struct Judgement {
    verdict: Verdict,
    because: Because,
}

/// An answer with its explanation.
#[derive(Clone, Copy)]
struct Finding {
    truth: Truth,
    because: Because,
}

impl Finding {
    const SATISFIED: Self = Self { truth: Truth::True, because: Because::Satisfied };

    fn new(truth: Truth, part: Part, when_false: Because) -> Self {
        let because = match truth {
            Truth::True => Because::Satisfied,
            Truth::False => when_false,
            Truth::Unevaluable(why) => Because::Unevaluable { part, why },
        };
        Self { truth, because }
    }

    /// Both; explained by what makes it false, else by what makes it unevaluable, else by the latter.
    fn and(self, other: Self) -> Self {
        let truth = self.truth.and(other.truth);
        let because = match (truth, self.truth, other.truth) {
            (Truth::False, Truth::False, _) => self.because,
            (Truth::Unevaluable(_), Truth::Unevaluable(_), _) => self.because,
            _ => other.because,
        };
        Self { truth, because }
    }
}

/// Judges the rules one by one against the facts of one call.
struct Judge<'a> {
    context: &'a PolicyContext,
    rules: &'a RuleSet,
    answers: Answers<'a>,
    reserve: Vec<RateQuery>,
}

impl Judge<'_> {
    fn judge(&mut self, rule: &CompiledRule) -> Judgement {
        let context = self.context;
        if let Err(because) = rule.selects(context.tier, &context.principal, context.origin) {
            return Judgement { verdict: Verdict::NotMatched, because };
        }
        if !rule.enabled {
            return Judgement { verdict: Verdict::Disabled, because: Because::SwitchedOff };
        }
        let Finding { truth, because } = self.find(rule);
        let matches = match (rule.kind, truth) {
            (_, Truth::True) => true,
            (_, Truth::False) | (RuleKind::AllowTool, Truth::Unevaluable(_)) => false,
            (_, Truth::Unevaluable(_)) => true,
        };
        let verdict = match (matches, rule.mode) {
            (true, Mode::Enforce) => Verdict::Matched(rule.effect),
            (true, Mode::Shadow) => Verdict::Shadow(rule.effect),
            (false, _) => Verdict::NotMatched,
        };
        Judgement { verdict, because }
    }

    /// Whether all that the rule's kind asks for is so.
    fn find(&mut self, rule: &CompiledRule) -> Finding {
        let hours = self.hours(rule);
        let conditions = self.conditions(rule);
        match rule.kind {
            RuleKind::AllowTool | RuleKind::BlockTool | RuleKind::RequireApproval => hours.and(conditions),
            RuleKind::InputValidation => {
                hours.and(Finding { truth: !conditions.truth, because: conditions.because })
            }
            RuleKind::TokenBudget | RuleKind::RateLimit => {
                let applies = hours.and(conditions);
                let reached = self.limit(rule);
                if applies.truth != Truth::False && reached.truth == Truth::False {
                    self.reserve.extend(rule.rate_query(&self.context.tool, &self.context.principal));
                }
                applies.and(reached)
            }
        }
    }

    fn hours(&self, rule: &CompiledRule) -> Finding {
        rule.window.as_ref().map_or(Finding::SATISFIED, |window| {
            Finding::new(window.is_open(&self.context.local_times), Part::Hours, Because::OutsideHours)
        })
    }

    /// Whether all conditions hold; explained by the first that is false, else by the first that is unevaluable.
    fn conditions(&mut self, rule: &CompiledRule) -> Finding {
        let mut all = Finding::SATISFIED;
        for (place, question) in (0u16..).zip(self.rules.asked_by(rule)) {
            let truth = self.answers.get(*question);
            if truth == Truth::True {
                continue;
            }
            all = all.and(Finding::new(truth, Part::Condition(place), Because::ConditionFalse(place)));
            if all.truth == Truth::False {
                break;
            }
        }
        all
    }

    /// Whether the limit is reached.
    fn limit(&self, rule: &CompiledRule) -> Finding {
        let context = self.context;
        let (used, limit) = match rule.limiter {
            Some(Limiter::ConversationTokens { limit }) => (Some(context.token_usage.conversation), limit),
            Some(Limiter::CallerDayTokens { limit }) => (Some(context.token_usage.caller_day), limit),
            Some(Limiter::Calls { limit, .. }) => (context.counters.get(&rule.id).copied(), limit),
            None => (None, 0),
        };
        used.map_or_else(
            || Finding::new(Truth::Unevaluable(Why::Missing), Part::Counter, Because::Satisfied),
            |used| Finding { truth: (used >= limit).into(), because: Because::Usage { used, limit } },
        )
    }
}

/// The reason that a matched rule gives.
fn reason(rule: &CompiledRule, because: Because) -> Reason {
    match (because, rule.kind) {
        (Because::Unevaluable { .. }, _) => Reason::Unevaluable,
        (_, RuleKind::TokenBudget) => Reason::OverBudget,
        (_, RuleKind::RateLimit) => Reason::OverRate,
        (
            _,
            RuleKind::AllowTool | RuleKind::BlockTool | RuleKind::RequireApproval | RuleKind::InputValidation,
        ) => Reason::Rule,
    }
}

/// The terms of all holding rules together.
fn hold(matched: &[&CompiledRule], tier: Tier, rules: &RuleSet) -> Hold {
    let defaults = rules.defaults();
    let usual = match tier {
        Tier::High => defaults.timeout_s.min(defaults.high_tier_timeout_s),
        Tier::Safe | Tier::Moderate => defaults.timeout_s,
    };
    let terms = || matched.iter().map(|rule| rule.hold);
    let mut roles: BTreeSet<Role> = terms().filter_map(|own| own.role).collect();
    if roles.is_empty() {
        roles.insert(Role::Approver);
    }
    Hold {
        timeout_s: terms().map(|own| own.timeout_s.unwrap_or(usual)).min().unwrap_or(usual),
        roles,
        approvers: terms().map(|own| own.approvers).max().unwrap_or(1),
    }
}
