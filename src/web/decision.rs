//! Rules and decisions in plain words. Pure.

use crate::web::ui::{Badge, Icon, Marked, Tone};
use sluicegate_policy::{
    Because, Choice, Condition, Considered, Decision, Effect, Elements, Match, OnViolation, OneOrMany, Op,
    Part, Per, Rule, RuleId, RuleKind, Verdict,
};
use std::fmt::Display;

/// Tone, icon and word of an effect.
pub(crate) fn effect(effect: Effect) -> (Tone, Icon, &'static str) {
    match effect {
        Effect::Allow => (Tone::Allow, Icon("check-circle"), "Allow"),
        Effect::RequireApproval => (Tone::Hold, Icon("hold"), "Require approval"),
        Effect::Deny => (Tone::Deny, Icon("deny"), "Deny"),
    }
}

/// An effect as a badge.
pub(crate) fn badge(of: Effect) -> Badge {
    let (tone, icon, word) = effect(of);
    Badge { tone, icon, word: word.to_owned(), plain: false }
}

/// What a rule does when it matches.
pub(crate) fn effect_of(rule: &Rule) -> Effect {
    match (rule.kind, rule.on_violation) {
        (RuleKind::AllowTool, _) => Effect::Allow,
        (RuleKind::RequireApproval, _) => Effect::RequireApproval,
        (RuleKind::BlockTool, _) => Effect::Deny,
        (_, Some(OnViolation::RequireApproval)) => Effect::RequireApproval,
        (_, Some(OnViolation::Deny) | None) => Effect::Deny,
    }
}

/// A kind of rule, as people call it.
pub(crate) fn kind(kind: RuleKind) -> &'static str {
    match kind {
        RuleKind::AllowTool => "Allow",
        RuleKind::BlockTool => "Block",
        RuleKind::RequireApproval => "Require approval",
        RuleKind::InputValidation => "Check the arguments",
        RuleKind::TokenBudget => "Token budget",
        RuleKind::RateLimit => "Rate limit",
    }
}

/// Which tools a rule is about, such as `sandbox-files/write_file`.
pub(crate) fn selector(selects: &Match) -> String {
    let part = |names: &Option<OneOrMany<String>>| match names.as_ref().map(|names| names.0.as_slice()) {
        None => "*".to_owned(),
        Some([one]) => one.clone(),
        Some(many) => format!("{{{}}}", many.join(", ")),
    };
    match (part(&selects.server), part(&selects.tool)) {
        (server, tool) if server == "*" && tool == "*" => "*".to_owned(),
        (server, tool) => format!("{server}/{tool}"),
    }
}

/// The rest of what a rule says, to follow its selector.
pub(crate) fn detail(rule: &Rule) -> String {
    let mut parts = Vec::new();
    let selects = &rule.selects;
    parts.extend(choices("tier", selects.tier.as_ref()));
    if let Some(callers) = &selects.caller {
        parts.push(format!("asked by {}", callers.0.join(" or ")));
    }
    parts.extend(choices("role", selects.role.as_ref()));
    parts.extend(choices("from", selects.origin.as_ref()));
    if !rule.when.is_empty() {
        let conditions: Vec<String> = rule.when.iter().map(condition).collect();
        let word = if rule.kind == RuleKind::InputValidation { "unless" } else { "when" };
        parts.push(format!("{word} {}", conditions.join(", and ")));
    }
    if let Some(limit) = &rule.limit {
        let per = match limit.per {
            Per::Conversation => "in a conversation",
            Per::CallerDay => "by a caller in a day",
            Per::Caller => "per caller",
            Per::Tool => "per tool",
            Per::Server => "per server",
        };
        if let Some(tokens) = limit.tokens {
            parts.push(format!("from {} tokens {per}", crate::web::figures::grouped(tokens)));
        }
        if let Some(calls) = limit.calls {
            let window = limit.window.map(|span| format!(" in {span}")).unwrap_or_default();
            parts.push(format!("after {} calls{window} {per}", crate::web::figures::grouped(calls)));
        }
    }
    if let Some(hours) = &rule.hours {
        let days = if hours.days.is_empty() { "every day".to_owned() } else { join(&hours.days, ", ") };
        parts.push(format!("{} to {}, {days}, {}", hours.from, hours.to, hours.zone));
    }
    if let Some(terms) = &rule.approval {
        parts.extend(terms.timeout.map(|span| format!("{span} to decide")));
        parts.extend(terms.role.map(|role| format!("by the role {role}")));
        parts
            .extend(terms.count.filter(|count| *count > 1).map(|count| format!("{count} people must agree")));
    }
    if parts.is_empty() { "always".to_owned() } else { parts.join("; ") }
}

fn choices<T: Display + Copy>(word: &str, of: Option<&OneOrMany<Choice<T>>>) -> Option<String> {
    let mut words = Vec::new();
    for choice in of?.iter() {
        match choice {
            Choice::Any => return None,
            Choice::Is(value) => words.push(value.to_string()),
        }
    }
    Some(format!("{word} {}", words.join(" or ")))
}

fn join<T: Display>(items: &[T], with: &str) -> String {
    items.iter().map(ToString::to_string).collect::<Vec<_>>().join(with)
}

/// A condition, such as `path lies within "."`.
pub(crate) fn condition(condition: &Condition) -> String {
    let any = if condition.elements == Elements::Any { "any element of " } else { "" };
    let value = match (condition.op, condition.value.as_ref()) {
        (_, None) => String::new(),
        (Op::Length | Op::Range, Some(value)) => format!(" {}", bounds(value)),
        (_, Some(value)) => format!(" {value}"),
    };
    let verb = match condition.op {
        Op::Equals => "is",
        Op::OneOf => "is one of",
        Op::StartsWith => "starts with",
        Op::Matches => "matches",
        Op::Length => "has a length of",
        Op::Range => "is a number of",
        Op::Present => "is present",
        Op::Absent => "is absent",
        Op::PathWithin => "lies within",
        Op::HostIs => "has the host",
        Op::HostWithin => "has a host within",
    };
    format!("{any}{} {verb}{value}", condition.argument)
}

/// `at most 100000`, `at least 5`, `1 to 20`.
fn bounds(value: &serde_json::Value) -> String {
    match (value.get("min"), value.get("max")) {
        (Some(min), Some(max)) => format!("{min} to {max}"),
        (Some(min), None) => format!("at least {min}"),
        (None, Some(max)) => format!("at most {max}"),
        (None, None) => value.to_string(),
    }
}

/// Why a rule matched or did not.
pub(crate) fn because(why: Because, rule: Option<&Rule>) -> String {
    let named = |place: u16| match rule.and_then(|rule| rule.when.get(usize::from(place))) {
        Some(found) => format!("`{}`", condition(found)),
        None => format!("condition {}", place.saturating_add(1)),
    };
    match why {
        Because::Satisfied => "all that it asks is true".to_owned(),
        Because::ConditionFalse(place) => format!("{} is false", named(place)),
        Because::Unevaluable { part: Part::Condition(place), why } => {
            format!("{} cannot be judged: the argument {}", named(place), why.phrase())
        }
        Because::Unevaluable { part: Part::Hours, .. } => {
            "the local time of its zone is not known".to_owned()
        }
        Because::Unevaluable { part: Part::Counter, .. } => {
            "the calls that it counts are not known".to_owned()
        }
        Because::Tier => "it is about another tier".to_owned(),
        Because::Caller => "it is about other callers".to_owned(),
        Because::Role => "it is about other roles".to_owned(),
        Because::Origin => "it is about calls from elsewhere".to_owned(),
        Because::OutsideHours => "it is not in force at this time".to_owned(),
        Because::Usage { used, limit } => {
            format!(
                "{} of {} are used",
                crate::web::figures::grouped(used),
                crate::web::figures::grouped(limit)
            )
        }
        Because::SwitchedOff => "it is switched off".to_owned(),
    }
}

/// One considered rule, as a line.
#[derive(Clone, Debug)]
pub(crate) struct MatchLine {
    /// Its colour.
    pub(crate) tone: Tone,
    /// Its icon.
    pub(crate) icon: Icon,
    /// The rule.
    pub(crate) rule: RuleId,
    /// What became of it, and why.
    pub(crate) why: Marked,
    /// It did not match.
    pub(crate) miss: bool,
}

/// The considered rules of a decision: those that decide first, then the matches they outrank, then the rest.
pub(crate) fn lines<'a>(
    decision: &'a Decision,
    rule: impl Fn(&RuleId) -> Option<&'a Rule>,
) -> Vec<MatchLine> {
    let mut lines: Vec<(u8, MatchLine)> = decision
        .considered
        .iter()
        .map(|considered| line(decision, considered, rule(considered.rule)))
        .collect();
    lines.sort_by_key(|(rank, _)| *rank);
    lines.into_iter().map(|(_, line)| line).collect()
}

fn line(decision: &Decision, considered: Considered<'_>, rule: Option<&Rule>) -> (u8, MatchLine) {
    let why = because(considered.because, rule);
    let (rank, tone, icon, text) = match considered.verdict {
        Verdict::Matched(of) => {
            let (tone, icon, _) = effect(of);
            if decision.deciding.contains(considered.rule) {
                (0, tone, icon, format!("decides: {why}"))
            } else {
                (1, tone, icon, format!("matched, outranked by a stricter rule: {why}"))
            }
        }
        Verdict::Shadow(of) => {
            (2, Tone::Info, Icon("eye"), format!("shadow, would have said {}: {why}", effect(of).2))
        }
        Verdict::NotMatched => (3, Tone::Neutral, Icon("x"), format!("no match: {why}")),
        Verdict::Disabled => (4, Tone::Neutral, Icon("x"), "no match: it is switched off".to_owned()),
    };
    let miss = rank > 1;
    (rank, MatchLine { tone, icon, rule: considered.rule.clone(), why: Marked::of(&text), miss })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(json: serde_json::Value) -> Rule {
        serde_json::from_value(json).unwrap()
    }

    #[test]
    fn rules_read_as_sentences() {
        let table = [
            (serde_json::json!({"id": "a", "kind": "allow_tool"}), "*", "always"),
            (
                serde_json::json!({"id": "a", "kind": "input_validation", "match": {"server": "s", "tool": ["x", "y"]},
                    "when": [{"argument": "path", "op": "path_within", "value": "."},
                        {"argument": "text", "op": "length", "value": {"max": 9}}]}),
                "s/{x, y}",
                "unless path lies within \".\", and text has a length of at most 9",
            ),
            (
                serde_json::json!({"id": "a", "kind": "token_budget", "match": {"tier": ["high"], "origin": "*"},
                    "limit": {"tokens": 120_000, "per": "conversation"}}),
                "*",
                "tier high; from 120,000 tokens in a conversation",
            ),
            (
                serde_json::json!({"id": "a", "kind": "rate_limit", "limit": {"calls": 20, "window": "1h", "per": "caller"}}),
                "*",
                "after 20 calls in 1h per caller",
            ),
            (
                serde_json::json!({"id": "a", "kind": "require_approval", "approval": {"timeout": "60s", "role": "admin", "count": 2}}),
                "*",
                "60s to decide; by the role admin; 2 people must agree",
            ),
        ];
        for (json, selects, says) in table {
            let rule = rule(json);
            assert_eq!((selector(&rule.selects).as_str(), detail(&rule).as_str()), (selects, says));
        }
    }
}
