//! Calls made up from rules: for each selector, condition, limit and window of theirs calls on both sides of its boundary.
//! Over these, and over recorded calls, two sets of rules are [compared](crate::compare) to say whether an edit loosens.
//!
//! They are a net, not a proof: an argument is varied while the others stand at values that the other rules let through.

mod arguments;
mod witness;

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;

use crate::backtest::KnownCall;
use crate::context::{
    Counters, Labels, LocalTime, LocalTimes, Origin, PolicyContext, Principal, Role, Tier, Timestamp,
    TokenUsage, Weekday,
};
use crate::document::{Hours, OneOrMany, Per, RuleKind};
use crate::names::{CallerId, RuleId, ServerName, ToolName, ToolRef};
use crate::rules::{CompiledRule, Hints, RuleSet};

use arguments::Shapes;

/// No more calls than this are made up.
pub const MAX_PROBES: usize = 5_000;
/// Of very many rules fewer calls are made up, so that no more rules than this are judged over all calls.
const MAX_JUDGEMENTS: usize = 10_000_000;
const MAX_TOOLS_OF_RULE: usize = 16;
const MAX_TOOLS: usize = 400;
const MAX_RULES_OF_TOOL: usize = 64;

/// Calls that try the boundaries of these rules, each call once, at most [`MAX_PROBES`]. Rules that do not stand alike in
/// all sets come first. `tools` are those offered at present: patterns are tried on them too.
#[must_use]
pub fn probes(sets: &[&RuleSet], tools: &[(ToolRef, Hints)]) -> Vec<KnownCall> {
    let mut found = Found::default();
    let rules = sets.iter().map(|rules| rules.rules().len()).sum::<usize>().max(1);
    let most = MAX_PROBES.min(MAX_JUDGEMENTS / rules);
    let stages: Vec<Stage<'_>> =
        pool(sets, tools).into_iter().map(|(tool, hints)| Stage::new(tool, hints, sets)).collect();
    let bases: Vec<Base<'_>> = stages
        .iter()
        .flat_map(|stage| {
            let each = stage.rules.iter().map(|rule| Some(*rule)).chain([None]);
            each.map(move |about| Base::new(stage, about))
        })
        .collect();
    for base in &bases {
        found.add(base.call.clone());
    }
    // One variation of each in turn, so that the bound cuts depth before it cuts a rule.
    let mut variations: Vec<_> = bases.iter().map(Base::variations).collect();
    while !variations.is_empty() && found.calls.len() < most {
        variations.retain_mut(|calls| match calls.next() {
            Some(call) => {
                found.add(call);
                true
            }
            None => false,
        });
    }
    found.calls.truncate(most);
    found.calls
}

#[derive(Default)]
struct Found {
    calls: Vec<KnownCall>,
    known: BTreeSet<String>,
}

impl Found {
    fn add(&mut self, call: KnownCall) {
        let of = &call.context;
        let who = (&of.principal, of.origin, of.token_usage, &of.counters, &of.local_times, call.hints);
        let key = format!("{} {who:?} {}", of.tool, of.arguments.canonical());
        if self.known.insert(key) {
            self.calls.push(call);
        }
    }
}

/// Tools that fit the selectors and tier lines of the rules, tools that just miss them, and those offered.
fn pool(sets: &[&RuleSet], tools: &[(ToolRef, Hints)]) -> Vec<(ToolRef, Hints)> {
    let mut pool: BTreeMap<ToolRef, Hints> = BTreeMap::new();
    let mut add = |servers: Option<&OneOrMany<String>>, names: Option<&OneOrMany<String>>| {
        let names = instances(names);
        let pairs = instances(servers).into_iter().flat_map(|server| {
            names.iter().map(move |name| Some((ServerName::new(&server).ok()?, ToolName::new(name).ok()?)))
        });
        for (server, name) in pairs.flatten().take(MAX_TOOLS_OF_RULE) {
            pool.entry(ToolRef::new(server, name)).or_default();
        }
    };
    for rules in sets {
        for rule in rules.rules() {
            let selects = &rule.written().selects;
            add(selects.server.as_ref(), selects.tool.as_ref());
        }
        for line in rules.lines() {
            add(Some(&line.server), Some(&line.tool));
        }
    }
    add(None, None);
    // What is offered is what will be called; what was made up fills the rest.
    let offered: BTreeMap<ToolRef, Hints> = tools.iter().take(MAX_TOOLS).cloned().collect();
    let made_up = pool.into_iter().filter(|(tool, _)| !offered.contains_key(tool));
    let made_up: Vec<_> = made_up.take(MAX_TOOLS.saturating_sub(offered.len())).collect();
    offered.into_iter().chain(made_up).collect()
}

/// Names that fit the patterns, and for each a name that just misses it.
fn instances(patterns: Option<&OneOrMany<String>>) -> Vec<String> {
    let Some(patterns) = patterns else { return vec!["unlisted".to_string()] };
    patterns
        .iter()
        .flat_map(|pattern| {
            let fits = pattern.replace('*', "x");
            let misses = format!("x{}x", pattern.replace('*', ""));
            [fits, misses]
        })
        .collect()
}

/// A tool, with the rules about it and what they ask of arguments.
struct Stage<'a> {
    tool: ToolRef,
    hints: Hints,
    rules: Vec<&'a CompiledRule>,
    shapes: Shapes<'a>,
}

impl<'a> Stage<'a> {
    fn new(tool: ToolRef, hints: Hints, sets: &[&'a RuleSet]) -> Self {
        let mut rules: Vec<(bool, &CompiledRule)> = Vec::new();
        let stands_in = |set: &RuleSet, rule: &CompiledRule| {
            set.rule(rule.id()).is_some_and(|other| other.written() == rule.written())
        };
        for (n, set) in sets.iter().enumerate() {
            for rule in set.about(&tool) {
                if sets.iter().take(n).all(|earlier| !stands_in(earlier, rule)) {
                    rules.push((sets.iter().all(|set| stands_in(set, rule)), rule));
                }
            }
        }
        rules.sort_by_key(|(everywhere, _)| *everywhere);
        rules.truncate(MAX_RULES_OF_TOOL);
        let rules: Vec<_> = rules.into_iter().map(|(_, rule)| rule).collect();
        let shapes = Shapes::of(&rules);
        Self { tool, hints, rules, shapes }
    }
}

/// A call that one rule is about, and that the other rules let through as far as its arguments go.
struct Base<'a> {
    stage: &'a Stage<'a>,
    values: Vec<usize>,
    call: KnownCall,
}

impl<'a> Base<'a> {
    fn new(stage: &'a Stage<'a>, about: Option<&CompiledRule>) -> Self {
        let selects = about.map(|rule| &rule.written().selects);
        let caller = selects.and_then(|selects| callers(selects.caller.as_ref()).into_iter().next());
        let chosen = |fits: &dyn Fn(Role, Origin) -> bool| {
            let usual = [(Role::Approver, Origin::Chat), (Role::Client, Origin::Mcp)];
            let all = Origin::ALL.iter().flat_map(|o| Role::ALL.iter().map(|r| (*r, *o)));
            usual.into_iter().chain(all).find(|(role, origin)| fits(*role, *origin))
        };
        let caller = caller.unwrap_or_else(CallerId::someone);
        let fits = |role, origin| {
            about.is_none_or(|rule| {
                let principal = Principal { caller: caller.clone(), role };
                Tier::ALL.iter().any(|tier| rule.selects(*tier, &principal, origin).is_ok())
            })
        };
        let (role, origin) = chosen(&fits).unwrap_or((Role::Approver, Origin::Chat));
        let values = stage.shapes.base(about);
        let context = PolicyContext {
            tool: stage.tool.clone(),
            tier: Tier::High,
            arguments: stage.shapes.arguments(&values, None),
            principal: Principal { caller, role },
            origin,
            conversation: None,
            token_usage: usage(about, 0),
            counters: counters(&stage.rules, about, 0),
            labels: Labels::new(),
            now: Timestamp(0),
            local_times: times(&stage.rules, about),
        };
        Self { stage, values, call: KnownCall { context, hints: stage.hints, ran: true } }
    }

    /// The same call with one thing changed at a time.
    fn variations(&self) -> Box<dyn Iterator<Item = KnownCall> + '_> {
        let stage = self.stage;
        let shapes = &stage.shapes;
        let arguments = shapes.places().map(move |place| {
            self.with(|call| call.context.arguments = shapes.arguments(&self.values, Some(place)))
        });
        let who = Role::ALL.iter().flat_map(|role| Origin::ALL.iter().map(move |origin| (*role, *origin)));
        let who = who.map(move |(role, origin)| {
            self.with(|call| {
                call.context.principal.role = role;
                call.context.origin = origin;
            })
        });
        let named = stage.rules.iter().flat_map(|rule| callers(rule.written().selects.caller.as_ref()));
        let named = named
            .chain([CallerId::someone()])
            .map(move |caller| self.with(|call| call.context.principal.caller = caller.clone()));
        let used = stage.rules.iter().flat_map(move |rule| {
            [0, 1, 2].map(|step| {
                self.with(|call| {
                    call.context.token_usage = usage(Some(rule), step);
                    call.context.counters = counters(&stage.rules, Some(rule), step);
                })
            })
        });
        let moments = stage.rules.iter().filter_map(|rule| rule.written().hours.as_ref());
        let moments = moments.flat_map(move |hours| {
            edges(hours).into_iter().map(move |local| {
                self.with(|call| call.context.local_times.extend([(hours.zone.clone(), local)]))
            })
        });
        let unknown = self.with(|call| call.context.local_times.clear());
        let stated = [
            Hints { destructive: Some(true), read_only: None },
            Hints { destructive: None, read_only: Some(false) },
        ]
        .map(move |hints| self.with(|call| call.hints = hints));
        Box::new(arguments.chain(used).chain(who).chain(named).chain(moments).chain([unknown]).chain(stated))
    }

    fn with(&self, change: impl FnOnce(&mut KnownCall)) -> KnownCall {
        let mut call = self.call.clone();
        change(&mut call);
        call
    }
}

/// Callers that fit the patterns.
fn callers(patterns: Option<&OneOrMany<String>>) -> Vec<CallerId> {
    patterns
        .into_iter()
        .flat_map(OneOrMany::iter)
        .filter_map(|pattern| CallerId::new(&pattern.replace('*', "x")).ok())
        .collect()
}

/// The limit of a rule, and one step below it.
fn near(limit: u64, step: u64) -> u64 {
    match step {
        0 => limit,
        1 => limit.saturating_sub(1),
        _ => limit.saturating_add(1),
    }
}

/// Token usage at the limit of a token_budget (`step` 0), just below it or above it; none without one.
fn usage(about: Option<&CompiledRule>, step: u64) -> TokenUsage {
    let limit = about.and_then(|rule| rule.written().limit.as_ref());
    let Some((tokens, per)) = limit.and_then(|limit| Some((limit.tokens?, limit.per))) else {
        return TokenUsage::default();
    };
    let tokens = near(tokens, step);
    match per {
        Per::CallerDay => TokenUsage { conversation: 0, caller_day: tokens },
        _ => TokenUsage { conversation: tokens, caller_day: 0 },
    }
}

/// Counts of all rate_limit rules: none, but at the limit of one of them.
fn counters(rules: &[&CompiledRule], about: Option<&CompiledRule>, step: u64) -> Counters {
    let rates = rules.iter().filter(|rule| rule.kind() == RuleKind::RateLimit);
    rates
        .map(|rule| {
            let limit = rule.written().limit.as_ref().and_then(|limit| limit.calls).unwrap_or(0);
            let own = about.is_some_and(|about| about.id() == rule.id());
            (rule.id().clone(), if own { near(limit, step) } else { 0 })
        })
        .collect::<BTreeMap<RuleId, u64>>()
}

/// Local times within the hours of one rule, and in every other zone on a Wednesday noon.
fn times(rules: &[&CompiledRule], about: Option<&CompiledRule>) -> LocalTimes {
    let noon = LocalTime { weekday: Weekday::Wednesday, minute_of_day: 720 };
    let hours = rules.iter().filter_map(|rule| rule.written().hours.as_ref());
    let mut times: LocalTimes = hours.map(|hours| (hours.zone.clone(), noon)).collect();
    if let Some(hours) = about.and_then(|rule| rule.written().hours.as_ref()) {
        times.extend(edges(hours).into_iter().next().map(|first| (hours.zone.clone(), first)));
    }
    times
}

/// The first and last minutes of a window and those beside them, on each day.
fn edges(hours: &Hours) -> Vec<LocalTime> {
    let (from, to) = (hours.from.minutes(), hours.to.minutes());
    let before = |minute: u16| minute.checked_sub(1).unwrap_or(1439);
    let minutes = [from, before(from), before(to), to % 1440];
    let mut days = hours.days.clone();
    days.extend(Weekday::ALL.iter().filter(|day| !hours.days.contains(day)));
    days.into_iter()
        .flat_map(|weekday| minutes.map(|minute_of_day| LocalTime { weekday, minute_of_day }))
        .collect()
}
