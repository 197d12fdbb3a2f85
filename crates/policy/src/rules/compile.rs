//! From the document to the rule set: every mistake is found, not the first alone.

use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use alloc::format;
use alloc::vec::Vec;

use super::compiled::{CompiledRule, HoldTerms, Words};
use super::pattern::Names;
use super::validate::{self, Faults};
use super::{ApprovalDefaults, Mark, RuleError, RuleSet, Sound};
use crate::context::{Label, Origin, Role, Tier};
use crate::decision::Effect;
use crate::document::{OnViolation, PolicyDocument, Rule, RuleKind, ToolMark};

impl PolicyDocument {
    /// The only version of the format.
    pub const VERSION: u32 = 1;

    /// Checks the document as a whole and compiles it.
    ///
    /// # Errors
    /// Every mistake in it. Nothing is compiled then: a policy is in force whole or not at all.
    pub fn compile(&self, defaults: ApprovalDefaults) -> Result<RuleSet, Vec<RuleError>> {
        let mut faults = Faults::default();
        if self.version != Self::VERSION {
            let message =
                format!("version {} is not known: write `version: {}`", self.version, Self::VERSION);
            faults.add("version", message);
        }
        let marks =
            self.tiers.iter().enumerate().filter_map(|(n, line)| mark(&mut faults, n, line)).collect();
        twice_marked(&mut faults, &self.tiers);
        let mut ids = BTreeSet::new();
        let mut rules = Vec::new();
        for (n, rule) in self.rules.iter().enumerate() {
            faults.enter(&rule.id, format!("rules[{n}]"));
            if !ids.insert(&rule.id) {
                faults.add("id", "another rule has this id: ids are unique");
            }
            rules.extend(compile_rule(&mut faults, rule));
            faults.leave();
        }
        validate::tests(&mut faults, self, &ids);
        faults.finish()?;
        Ok(RuleSet::new(rules, marks, defaults))
    }
}

fn mark(faults: &mut Faults, n: usize, line: &ToolMark) -> Option<Mark> {
    let servers = validate::servers(faults, &format!("tiers[{n}].server"), Some(&line.server));
    let tools = validate::tools(faults, &format!("tiers[{n}].tool"), Some(&line.tool));
    if line.marks.contains(&Label::Anomalous) {
        faults.add(&format!("tiers[{n}].marks"), "`anomalous` is for the anomaly detector alone: remove it");
    }
    Some(Mark { names: Names { servers: servers?, tools: tools? }, written: line.clone() })
}

/// Two lines for one and the same name are a mistake: one of them does not say what the operator thinks.
fn twice_marked(faults: &mut Faults, lines: &[ToolMark]) {
    let mut seen = BTreeSet::new();
    for (n, line) in lines.iter().enumerate() {
        let pairs = line.server.iter().flat_map(|server| line.tool.iter().map(move |tool| (server, tool)));
        for (server, tool) in pairs {
            if !seen.insert((server, tool)) {
                let message = format!("`{server}`, `{tool}` is named twice: keep one");
                faults.add(&format!("tiers[{n}]"), message);
            }
        }
    }
}

fn compile_rule(faults: &mut Faults, rule: &Rule) -> Option<Sound> {
    validate::fields(faults, rule);
    let selects = &rule.selects;
    let servers = validate::servers(faults, "match.server", selects.server.as_ref());
    let tools = validate::tools(faults, "match.tool", selects.tool.as_ref());
    let callers = validate::callers(faults, selects.caller.as_ref());
    let tiers = validate::choices(faults, "match.tier", selects.tier.as_ref());
    let roles = validate::choices(faults, "match.role", selects.role.as_ref());
    let origins = validate::choices(faults, "match.origin", selects.origin.as_ref());
    let when = validate::conditions(faults, &rule.when);
    let window = match &rule.hours {
        Some(hours) => validate::window(faults, hours).map(Some),
        None => Some(None),
    };
    let hold = validate::terms(faults, rule);
    let limiter = validate::limiter(faults, rule);
    let compiled = CompiledRule {
        id: rule.id.clone(),
        kind: rule.kind,
        enabled: rule.enabled,
        mode: rule.mode,
        effect: effect(rule),
        tiers: words(tiers?, Tier::ALL, |tier| tier as u8),
        roles: words(roles?, Role::ALL, |role| role as u8),
        origins: words(origins?, Origin::ALL, |origin| origin as u8),
        when: 0..0,
        callers: callers?.map(Vec::into_boxed_slice),
        window: window?,
        hold: hold.unwrap_or(HoldTerms { timeout_s: None, role: None, approvers: 1 }),
        limiter: limiter?,
        names: Box::new(Names { servers: servers?, tools: tools? }),
        written: Box::new(rule.clone()),
    };
    Some(Sound { rule: compiled, questions: when? })
}

/// The chosen words; all of them where nothing was chosen.
fn words<T: Copy>(chosen: Option<Vec<T>>, all: &[T], place: impl Fn(T) -> u8) -> Words {
    Words::of(chosen.as_deref().unwrap_or(all).iter().map(|word| place(*word)))
}

fn effect(rule: &Rule) -> Effect {
    match (rule.kind, rule.on_violation) {
        (RuleKind::AllowTool, _) => Effect::Allow,
        (RuleKind::BlockTool, _) => Effect::Deny,
        (RuleKind::RequireApproval, _) => Effect::RequireApproval,
        (
            RuleKind::InputValidation | RuleKind::TokenBudget | RuleKind::RateLimit,
            Some(OnViolation::RequireApproval),
        ) => Effect::RequireApproval,
        (
            RuleKind::InputValidation | RuleKind::TokenBudget | RuleKind::RateLimit,
            Some(OnViolation::Deny) | None,
        ) => Effect::Deny,
    }
}
