//! The rules as compiled: checked as a whole, ready to be evaluated.

mod compile;
mod compiled;
mod error;
mod index;
mod pattern;
mod validate;

use alloc::borrow::Cow;
use alloc::collections::BTreeSet;
use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::condition::{Collector, Question, Questions};
use crate::context::{Labels, Origin, Principal, Tier};
use crate::decision::RateQuery;
use crate::document::{Mode, ToolMark};
use crate::names::{RuleId, ToolRef, ZoneName};

pub use compiled::CompiledRule;
pub(crate) use compiled::Limiter;
pub use error::{RuleError, closest};
use index::Index;
pub(crate) use pattern::Names;
pub use pattern::name_fits;

/// Time limits for holds whose rule names none, in seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ApprovalDefaults {
    /// For every tier.
    pub timeout_s: u32,
    /// For the high tier, where it is shorter.
    pub high_tier_timeout_s: u32,
}

/// What a server says of its tool. Only what it states counts, and only to raise the tier.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Hints {
    /// `readOnlyHint`, if stated.
    pub read_only: Option<bool>,
    /// `destructiveHint`, if stated.
    pub destructive: Option<bool>,
}

/// A compiled policy. The default has no rules and denies every call.
#[derive(Debug, Clone)]
pub struct RuleSet {
    /// By id.
    rules: Vec<CompiledRule>,
    /// The conditions of all rules, rule by rule, as places in `questions`.
    asks: Vec<u32>,
    questions: Questions,
    /// Their ids, for decisions to share.
    ids: Arc<[RuleId]>,
    index: Index,
    marks: Vec<Mark>,
    defaults: ApprovalDefaults,
}

/// A rule that was checked, with its conditions.
struct Sound {
    rule: CompiledRule,
    questions: Vec<Question>,
}

/// A compiled tier line.
#[derive(Debug, Clone)]
struct Mark {
    names: Names,
    written: ToolMark,
}

impl Default for RuleSet {
    fn default() -> Self {
        let defaults = ApprovalDefaults { timeout_s: 300, high_tier_timeout_s: 60 };
        Self::new(Vec::new(), Vec::new(), defaults)
    }
}

impl RuleSet {
    fn new(mut sound: Vec<Sound>, marks: Vec<Mark>, defaults: ApprovalDefaults) -> Self {
        sound.sort_by(|a, b| a.rule.id.cmp(&b.rule.id));
        let (mut collector, mut asks, mut rules) = (Collector::default(), Vec::new(), Vec::new());
        for Sound { mut rule, questions } in sound {
            let first = place(&asks);
            for (written, question) in rule.written.when.iter().zip(questions) {
                asks.push(collector.place(written, question));
            }
            rule.when = first..place(&asks);
            rules.push(rule);
        }
        let ids = rules.iter().map(|rule| rule.id.clone()).collect();
        let index = Index::of(&rules);
        Self { rules, asks, questions: collector.finish(), ids, index, marks, defaults }
    }

    /// The conditions of a rule, as places in [`questions`](Self::questions).
    pub(crate) fn asked_by(&self, rule: &CompiledRule) -> &[u32] {
        let place = |n: u32| usize::try_from(n).unwrap_or(usize::MAX);
        self.asks.get(place(rule.when.start)..place(rule.when.end)).unwrap_or(&[])
    }

    pub(crate) fn questions(&self) -> &Questions {
        &self.questions
    }

    /// The rules, by id.
    #[must_use]
    pub fn rules(&self) -> &[CompiledRule] {
        &self.rules
    }

    /// The rule of that id.
    #[must_use]
    pub fn rule(&self, id: &RuleId) -> Option<&CompiledRule> {
        self.rules.binary_search_by(|rule| rule.id.cmp(id)).ok().and_then(|place| self.rules.get(place))
    }

    /// The rules whose server and tool patterns fit, by id; switched-off and shadow rules too.
    pub fn about(&self, tool: &ToolRef) -> impl Iterator<Item = &CompiledRule> {
        let places = self.index.about(tool).into_owned();
        places.into_iter().filter_map(|place| self.at(place))
    }

    /// The same, by place.
    pub(crate) fn places_about(&self, tool: &ToolRef) -> Cow<'_, [u32]> {
        self.index.about(tool)
    }

    /// Places that hold every rule which [covers](CompiledRule::covers) this one, rising.
    pub(crate) fn may_cover(&self, rule: &CompiledRule) -> Cow<'_, [u32]> {
        self.index.may_cover(&rule.names)
    }

    pub(crate) fn at(&self, place: u32) -> Option<&CompiledRule> {
        self.rules.get(usize::try_from(place).ok()?)
    }

    /// The ids of all rules, by place.
    pub(crate) fn ids(&self) -> Arc<[RuleId]> {
        Arc::clone(&self.ids)
    }

    /// The tier lines as written.
    pub(crate) fn lines(&self) -> impl Iterator<Item = &ToolMark> {
        self.marks.iter().map(|mark| &mark.written)
    }

    fn marks_of<'a>(&'a self, tool: &'a ToolRef) -> impl Iterator<Item = &'a Mark> {
        self.marks.iter().filter(|mark| mark.names.fit(tool))
    }

    /// The tool's tier: the highest of the lines that fit it, `high` if none does, raised by what its server states:
    /// `destructiveHint: true` to high, `readOnlyHint: false` to at least moderate. Hints never lower it.
    #[must_use]
    pub fn tier(&self, tool: &ToolRef, hints: Hints) -> Tier {
        let mapped = self.marks_of(tool).map(|mark| mark.written.tier).max().unwrap_or(Tier::High);
        match hints {
            Hints { destructive: Some(true), .. } => Tier::High,
            Hints { read_only: Some(false), .. } => mapped.max(Tier::Moderate),
            _ => mapped,
        }
    }

    /// Whether a tier line names the tool.
    #[must_use]
    pub fn is_listed(&self, tool: &ToolRef) -> bool {
        self.marks_of(tool).next().is_some()
    }

    /// Whether the operator marked the tool as read-only. A server's own hint does not count.
    #[must_use]
    pub fn is_read_only(&self, tool: &ToolRef) -> bool {
        let mut lines = self.marks_of(tool).peekable();
        lines.peek().is_some() && lines.all(|mark| mark.written.read_only)
    }

    /// Whether the operator marked the tool as idempotent.
    #[must_use]
    pub fn is_idempotent(&self, tool: &ToolRef) -> bool {
        let mut lines = self.marks_of(tool).peekable();
        lines.peek().is_some() && lines.all(|mark| mark.written.idempotent)
    }

    /// What using the tool says about a conversation from then on.
    #[must_use]
    pub fn marks(&self, tool: &ToolRef) -> Labels {
        self.marks_of(tool).flat_map(|mark| mark.written.marks.iter().copied()).collect()
    }

    /// Every time zone that a rule names, once each: the context must hold the local time of each that exists.
    #[must_use]
    pub fn zones(&self) -> Vec<ZoneName> {
        let windows = self.rules.iter().filter_map(|rule| rule.window.as_ref());
        windows.map(|window| &window.zone).collect::<BTreeSet<_>>().into_iter().cloned().collect()
    }

    /// What must be counted before the call is evaluated: each enabled rate_limit rule that selects it.
    #[must_use]
    pub fn rate_rules(
        &self,
        tool: &ToolRef,
        tier: Tier,
        principal: &Principal,
        origin: Origin,
    ) -> Vec<RateQuery> {
        self.about(tool)
            .filter(|rule| rule.enabled && rule.selects(tier, principal, origin).is_ok())
            .filter_map(|rule| rule.rate_query(tool, principal))
            .collect()
    }

    /// Whether an enforced rule about this tool looks at arguments. Of such a tool, arguments that its schema does not
    /// name are to be refused: the rule could not have looked at them.
    #[must_use]
    pub fn inspects_arguments(&self, tool: &ToolRef) -> bool {
        self.about(tool).any(|rule| rule.enabled && rule.mode == Mode::Enforce && !rule.when.is_empty())
    }

    /// The time limits for holds whose rule names none.
    #[must_use]
    pub fn defaults(&self) -> ApprovalDefaults {
        self.defaults
    }
}

/// The place that the next element will have.
fn place<T>(list: &[T]) -> u32 {
    u32::try_from(list.len()).unwrap_or(u32::MAX)
}
