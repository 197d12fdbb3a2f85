//! The rules as compiled: checked as a whole, ready to be evaluated.

mod compile;
mod compiled;
mod error;
mod pattern;
mod validate;

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use crate::context::{Labels, Origin, Principal, Tier};
use crate::decision::RateQuery;
use crate::document::Mode;
use crate::names::{RuleId, ToolRef, ZoneName};

pub use compiled::CompiledRule;
pub(crate) use compiled::Limiter;
pub use error::{RuleError, closest};
pub(crate) use pattern::Names;

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
    /// Places in `rules` of the rules that name servers and tools exactly, by tool, rising.
    exact: BTreeMap<ToolRef, Vec<usize>>,
    /// Places in `rules` of all others, rising.
    open: Vec<usize>,
    marks: Vec<Mark>,
    defaults: ApprovalDefaults,
}

/// A compiled tier line.
#[derive(Debug, Clone)]
struct Mark {
    names: Names,
    tier: Tier,
    read_only: bool,
    idempotent: bool,
    labels: Labels,
}

impl Default for RuleSet {
    fn default() -> Self {
        let defaults = ApprovalDefaults { timeout_s: 300, high_tier_timeout_s: 60 };
        Self::new(Vec::new(), Vec::new(), defaults)
    }
}

impl RuleSet {
    fn new(mut rules: Vec<CompiledRule>, marks: Vec<Mark>, defaults: ApprovalDefaults) -> Self {
        rules.sort_by(|a, b| a.id.cmp(&b.id));
        let (mut exact, mut open) = (BTreeMap::<ToolRef, Vec<usize>>::new(), Vec::new());
        for (place, rule) in rules.iter().enumerate() {
            match rule.names.exact() {
                Some(tools) => tools.into_iter().for_each(|tool| exact.entry(tool).or_default().push(place)),
                None => open.push(place),
            }
        }
        Self { rules, exact, open, marks, defaults }
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
    pub fn about<'a>(&'a self, tool: &'a ToolRef) -> impl Iterator<Item = &'a CompiledRule> {
        // The index names whole pairs, so what it lists fits; the others are tried.
        let named = self.exact.get(tool).map_or(&[][..], Vec::as_slice).iter();
        let mut named = named.filter_map(|&place| Some((place, self.rules.get(place)?))).peekable();
        let open = self.open.iter().filter_map(|&place| Some((place, self.rules.get(place)?)));
        let mut open = open.filter(move |(_, rule)| rule.names.fit(tool)).peekable();
        core::iter::from_fn(move || match (named.peek(), open.peek()) {
            (Some((n, _)), Some((o, _))) if n < o => named.next(),
            (Some(_), None) => named.next(),
            _ => open.next(),
        })
        .map(|(_, rule)| rule)
    }

    /// No more rules than this are about the tool.
    pub(crate) fn at_most_about(&self, tool: &ToolRef) -> usize {
        self.exact.get(tool).map_or(0, Vec::len) + self.open.len()
    }

    fn marks_of<'a>(&'a self, tool: &'a ToolRef) -> impl Iterator<Item = &'a Mark> {
        self.marks.iter().filter(|mark| mark.names.fit(tool))
    }

    /// The tool's tier: the highest of the lines that fit it, `high` if none does, raised by what its server states:
    /// `destructiveHint: true` to high, `readOnlyHint: false` to at least moderate. Hints never lower it.
    #[must_use]
    pub fn tier(&self, tool: &ToolRef, hints: Hints) -> Tier {
        let mapped = self.marks_of(tool).map(|mark| mark.tier).max().unwrap_or(Tier::High);
        match hints {
            Hints { destructive: Some(true), .. } => Tier::High,
            Hints { read_only: Some(false), .. } => mapped.max(Tier::Moderate),
            _ => mapped,
        }
    }

    /// Whether the operator marked the tool as read-only. A server's own hint does not count.
    #[must_use]
    pub fn is_read_only(&self, tool: &ToolRef) -> bool {
        let mut lines = self.marks_of(tool).peekable();
        lines.peek().is_some() && lines.all(|mark| mark.read_only)
    }

    /// Whether the operator marked the tool as idempotent.
    #[must_use]
    pub fn is_idempotent(&self, tool: &ToolRef) -> bool {
        let mut lines = self.marks_of(tool).peekable();
        lines.peek().is_some() && lines.all(|mark| mark.idempotent)
    }

    /// What using the tool says about a conversation from then on.
    #[must_use]
    pub fn marks(&self, tool: &ToolRef) -> Labels {
        self.marks_of(tool).flat_map(|mark| mark.labels.iter().copied()).collect()
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
