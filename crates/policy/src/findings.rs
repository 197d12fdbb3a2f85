//! What is probably wrong with rules that are valid: rules that cannot decide anything, that contradict each other, that
//! allow more than anyone means, or that compare texts where a path or a host is meant. Advice for the author; nothing here
//! changes a decision.

mod possible;

use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use crate::condition::{Condition, Op};
use crate::context::{Tier, words};
use crate::decision::Effect;
use crate::document::{Mode, RuleKind};
use crate::names::{RuleId, ToolRef};
use crate::rules::{CompiledRule, Hints, RuleSet};

/// A tool that is offered at present.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Offered {
    /// Which.
    pub tool: ToolRef,
    /// What its server states of it.
    pub hints: Hints,
    /// The arguments that its schema names, if it names all that there can be.
    pub arguments: Option<BTreeSet<String>>,
}

words! {
    /// What kind of thing was found.
    FindingKind {
        /// The rule can match no call.
        Dead = "dead",
        /// A stricter rule matches every call that this one matches.
        Outranked = "outranked",
        /// Another rule does the same for every call that this one matches.
        Redundant = "redundant",
        /// Another rule says something else about the very same calls.
        Contradictory = "contradictory",
        /// The rule allows more than anyone is likely to mean.
        OverBroad = "over_broad",
        /// A text is compared where a path or a host is meant: other spellings slip past.
        TextComparison = "text_comparison",
        /// A condition looks at an argument that the tools do not take.
        UnknownArgument = "unknown_argument",
    }
}

/// Something to look at again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// What.
    pub kind: FindingKind,
    /// Of which rule.
    pub rule: RuleId,
    /// The other rule, where there is one.
    pub other: Option<RuleId>,
    /// In words, to follow the rule's name: what it is, and what to do.
    pub message: String,
}

/// Pairs of rules that are compared at most. Of very many rules about the same tools, the last ones by id are not compared.
const MAX_COMPARISONS: usize = 2_000_000;

/// Everything found in the enabled rules, by rule. Without offered tools, what only these can tell is left out.
#[must_use]
pub fn findings(rules: &RuleSet, offered: &[Offered]) -> Vec<Finding> {
    let mut found = Vec::new();
    let mut comparisons = MAX_COMPARISONS;
    for rule in rules.rules().iter().filter(|rule| rule.is_enabled()) {
        let mut add = |kind, other: Option<&CompiledRule>, message: String| {
            let other = other.map(|other| other.id().clone());
            found.push(Finding { kind, rule: rule.id().clone(), other, message });
        };
        if let Some(why) = dead(rule, rules, offered) {
            add(FindingKind::Dead, None, why);
            continue;
        }
        if let Some((kind, other, why)) = beside(rule, rules, &mut comparisons) {
            add(kind, Some(other), why);
        }
        if let Some(why) = over_broad(rule, rules, offered) {
            add(FindingKind::OverBroad, None, why);
        }
        for (nth, condition) in rule.written().when.iter().enumerate() {
            if let Some(why) = text_comparison(rule, condition) {
                add(FindingKind::TextComparison, None, why);
            }
            if let Some(why) = unknown_argument(rule, nth, offered) {
                add(FindingKind::UnknownArgument, None, why);
            }
        }
    }
    found
}

fn dead(rule: &CompiledRule, rules: &RuleSet, offered: &[Offered]) -> Option<String> {
    if let Some(why) = possible::impossible(&rule.written().when) {
        return Some(match rule.kind() {
            RuleKind::InputValidation => format!("is violated by every call: {why}"),
            _ => format!("can match no call: {why}"),
        });
    }
    if rule.selects_nobody() {
        return Some("can match no call: people ask from the chat, and clients through MCP".to_string());
    }
    if offered.is_empty() {
        return None;
    }
    let about: Vec<&Offered> = offered.iter().filter(|one| rule.is_about(&one.tool)).collect();
    if about.is_empty() {
        let known = offered.iter().any(|one| rule.is_about_server(one.tool.server()));
        return Some(if known {
            "is about no tool that is offered: look at the spelling of the tool".to_string()
        } else {
            "is about no server that offers tools at present: look at the spelling of its name".to_string()
        });
    }
    let tiers: BTreeSet<Tier> = about.iter().map(|one| rules.tier(&one.tool, one.hints)).collect();
    if !tiers.iter().any(|tier| rule.is_for_tier(*tier)) {
        let tiers: Vec<&str> = tiers.into_iter().map(Tier::as_str).collect();
        return Some(format!("can match no call: the tools that it names are of tier {}", tiers.join(", ")));
    }
    None
}

/// The rule that makes this one pointless, or contradicts it.
fn beside<'a>(
    rule: &CompiledRule,
    rules: &'a RuleSet,
    comparisons: &mut usize,
) -> Option<(FindingKind, &'a CompiledRule, String)> {
    if rule.mode() == Mode::Shadow {
        return None;
    }
    let written = rule.written();
    let near = rules.may_cover(rule);
    *comparisons = comparisons.checked_sub(near.len())?;
    let others = || {
        let enforced = |other: &&CompiledRule| other.is_enabled() && other.mode() == Mode::Enforce;
        let each = near.iter().filter_map(|place| rules.at(*place));
        each.filter(enforced).filter(|other| other.id() != rule.id())
    };
    let always = |other: &CompiledRule| {
        let on = other.written();
        matches!(other.kind(), RuleKind::AllowTool | RuleKind::BlockTool | RuleKind::RequireApproval)
            && on.when.is_empty()
            && on.hours.is_none()
    };
    if let Some(other) =
        others().find(|other| other.effect() > rule.effect() && always(other) && other.covers(rule))
    {
        let verb = if other.effect() == Effect::Deny { "denies" } else { "holds" };
        let why = format!("never decides: `{}` {verb} every call that it matches", other.id());
        return Some((FindingKind::Outranked, other, why));
    }
    let plain = matches!(rule.kind(), RuleKind::AllowTool | RuleKind::BlockTool);
    if let Some(other) = others().find(|other| {
        plain
            && other.kind() == rule.kind()
            && always(other)
            && other.covers(rule)
            // Of two that say the same the later one by name is the one too many.
            && (!(always(rule) && rule.covers(other)) || other.id() < rule.id())
    }) {
        let why = format!("adds nothing: `{}` says the same of every call that it matches", other.id());
        return Some((FindingKind::Redundant, other, why));
    }
    let opposite = others().find(|other| {
        let on = other.written();
        !written.when.is_empty()
            && other.kind() != RuleKind::InputValidation
            && rule.kind() != RuleKind::InputValidation
            && other.effect() > rule.effect()
            && on.selects == written.selects
            && on.when == written.when
            && on.hours == written.hours
            && on.limit == written.limit
    })?;
    let why = format!("contradicts `{}`, which is about the very same calls and wins", opposite.id());
    Some((FindingKind::Contradictory, opposite, why))
}

fn over_broad(rule: &CompiledRule, rules: &RuleSet, offered: &[Offered]) -> Option<String> {
    let written = rule.written();
    if rule.kind() != RuleKind::AllowTool || !written.when.is_empty() {
        return None;
    }
    if rule.names_every_tool() && written.selects.tier.is_none() {
        return Some("allows every tool of every server, also those that are added later".to_string());
    }
    let high: Vec<String> = offered
        .iter()
        .filter(|one| rule.is_about(&one.tool) && rule.is_for_tier(Tier::High))
        .filter(|one| rules.tier(&one.tool, one.hints) == Tier::High)
        .map(|one| format!("`{}`", one.tool))
        .collect();
    let (first, more) = (high.first()?, high.len().saturating_sub(1));
    let more = if more == 0 { String::new() } else { format!(" and {more} more") };
    Some(format!("allows {first}{more} of tier high, whatever the arguments"))
}

/// Words in the name of an argument that tell what it holds.
const PATH_WORDS: [&str; 8] =
    ["path", "file", "filename", "dir", "directory", "folder", "source", "destination"];
const URL_WORDS: [&str; 7] = ["url", "uri", "href", "link", "endpoint", "host", "domain"];

fn text_comparison(rule: &CompiledRule, condition: &Condition) -> Option<String> {
    let denies = rule.effect() != Effect::Allow && rule.kind() != RuleKind::InputValidation;
    let listed = matches!(condition.op, Op::Equals | Op::OneOf) && denies;
    if !listed && !matches!(condition.op, Op::StartsWith | Op::Matches) {
        return None;
    }
    let operand = condition.value.as_ref();
    let texts = || operand.into_iter().flat_map(texts_of);
    let url = has_word(&condition.argument, &URL_WORDS) || texts().any(|text| text.contains("://"));
    let path =
        has_word(&condition.argument, &PATH_WORDS) || texts().any(|text| text.starts_with(['/', '.', '~']));
    let instead = match (url, path) {
        (true, _) => "`host_is` or `host_within`",
        (false, true) => "`path_within`",
        (false, false) => return None,
    };
    let danger =
        if denies { "another spelling of the same gets past it" } else { "more passes than it seems to say" };
    Some(format!("compares `{}` as a text, so that {danger}: use {instead}", condition.argument))
}

fn texts_of(value: &serde_json::Value) -> Vec<&str> {
    match value {
        serde_json::Value::String(text) => alloc::vec![text.as_str()],
        serde_json::Value::Array(items) => items.iter().filter_map(serde_json::Value::as_str).collect(),
        _ => Vec::new(),
    }
}

/// Whether one of the words stands in a name such as `targetPath`, `target_path` or `options.path`.
fn has_word(name: &str, words: &[&str]) -> bool {
    let mut parts: Vec<String> = alloc::vec![String::new()];
    for c in name.chars() {
        if !c.is_alphanumeric() || c.is_uppercase() {
            parts.push(String::new());
        }
        if let (Some(part), true) = (parts.last_mut(), c.is_alphanumeric()) {
            part.extend(c.to_lowercase());
        }
    }
    parts.iter().any(|part| {
        let one = part.strip_suffix('s').unwrap_or(part);
        words.contains(&part.as_str()) || words.contains(&one)
    })
}

fn unknown_argument(rule: &CompiledRule, nth: usize, offered: &[Offered]) -> Option<String> {
    let question = rule.written().when.get(nth)?.compile().ok()?;
    let argument = question.argument();
    let about: Vec<&Offered> = offered.iter().filter(|one| rule.is_about(&one.tool)).collect();
    let unknown = |one: &&Offered| one.arguments.as_ref().is_some_and(|known| !known.contains(argument));
    (!about.is_empty() && about.iter().all(unknown))
        .then(|| format!("looks at `{argument}`, an argument that none of its tools takes"))
}
