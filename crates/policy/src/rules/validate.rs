//! The checks of a document's parts. Each reports what it finds and returns the compiled part if it is sound.

use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::compiled::{HoldTerms, Limiter, PerCalls, Window};
use super::error::{RuleError, closest};
use super::pattern::Pattern;
use crate::condition::{Condition, Question};
use crate::context::{Role, Weekday};
use crate::document::{Choice, Hours, Limit, OnViolation, OneOrMany, Per, PolicyDocument, Rule, RuleKind};
use crate::names::{CallerId, RuleId, ServerName, ToolName, shown};

/// Mistakes found so far, and where the search is.
#[derive(Debug, Default)]
pub(super) struct Faults {
    found: Vec<RuleError>,
    rule: Option<RuleId>,
    /// Stands before every field name; empty, or such as `rules[3].`.
    prefix: String,
}

impl Faults {
    pub(super) fn enter(&mut self, rule: &RuleId, place: String) {
        self.rule = Some(rule.clone());
        self.prefix = place + ".";
    }

    pub(super) fn leave(&mut self) {
        self.rule = None;
        self.prefix.clear();
    }

    pub(super) fn add(&mut self, field: &str, message: impl Into<String>) {
        self.suggest(field, message, None);
    }

    fn suggest(&mut self, field: &str, message: impl Into<String>, suggestion: Option<&str>) {
        self.found.push(RuleError {
            rule: self.rule.clone(),
            field: format!("{}{field}", self.prefix),
            message: message.into(),
            suggestion: suggestion.map(String::from),
        });
    }

    pub(super) fn finish(self) -> Result<(), Vec<RuleError>> {
        if self.found.is_empty() { Ok(()) } else { Err(self.found) }
    }
}

/// Refuses what the rule's kind does not take, and asks for what it needs.
pub(super) fn fields(faults: &mut Faults, rule: &Rule) {
    let kind = rule.kind;
    let violates = matches!(kind, RuleKind::InputValidation | RuleKind::TokenBudget | RuleKind::RateLimit);
    let limits = matches!(kind, RuleKind::TokenBudget | RuleKind::RateLimit);
    let holds = kind == RuleKind::RequireApproval
        || (violates && rule.on_violation == Some(OnViolation::RequireApproval));
    let mut refuse = |key: &str, written: bool, taken: bool, takers: &str| {
        if written && !taken {
            faults.add(key, format!("{kind} takes no `{key}` (it belongs to {takers})"));
        }
    };
    let violators = "input_validation, token_budget and rate_limit";
    refuse(
        "approval",
        rule.approval.is_some(),
        holds,
        "require_approval, or to `on_violation: require_approval`",
    );
    refuse("limit", rule.limit.is_some(), limits, "token_budget and rate_limit");
    refuse("on_violation", rule.on_violation.is_some(), violates, violators);
    if limits && rule.limit.is_none() {
        faults.add("limit", format!("{kind} needs a `limit`"));
    }
    if kind == RuleKind::InputValidation && rule.when.is_empty() {
        faults.add("when", "input_validation needs `when`: the conditions that must hold");
    }
}

type Patterns = Option<Vec<Pattern>>;

/// Patterns of names. The outer `None` is a mistake, the inner one means that all names fit.
fn patterns(
    faults: &mut Faults,
    field: &str,
    what: &str,
    written: Option<&OneOrMany<String>>,
    is_name: impl Fn(&str) -> bool,
) -> Option<Patterns> {
    let Some(written) = written else { return Some(None) };
    if written.0.is_empty() {
        faults.add(field, "an empty list matches nothing: name something, or leave the key out to match all");
        return None;
    }
    let mut sound = true;
    for text in written.iter() {
        let rest = text.replace('*', "");
        // A pattern of stars alone is sound; else what is left must be part of a possible name.
        if text.is_empty() || !(rest.is_empty() || is_name(&rest)) {
            faults.add(field, format!("`{}` can fit no {what}", shown(text)));
            sound = false;
        }
    }
    sound.then(|| Some(written.iter().map(|text| Pattern::new(text)).collect()))
}

pub(super) fn servers(
    faults: &mut Faults,
    field: &str,
    written: Option<&OneOrMany<String>>,
) -> Option<Patterns> {
    patterns(faults, field, "server name", written, |name| ServerName::new(name).is_ok())
}

pub(super) fn tools(
    faults: &mut Faults,
    field: &str,
    written: Option<&OneOrMany<String>>,
) -> Option<Patterns> {
    patterns(faults, field, "tool name", written, |name| ToolName::new(name).is_ok())
}

pub(super) fn callers(faults: &mut Faults, written: Option<&OneOrMany<String>>) -> Option<Patterns> {
    patterns(faults, "match.caller", "caller id", written, |name| CallerId::new(name).is_ok())
}

/// Words of a closed list. A `*` among them means all.
pub(super) fn choices<T: Copy>(
    faults: &mut Faults,
    field: &str,
    written: Option<&OneOrMany<Choice<T>>>,
) -> Option<Option<Vec<T>>> {
    let Some(written) = written else { return Some(None) };
    if written.0.is_empty() {
        faults.add(field, "an empty list matches nothing: name something, or leave the key out to match all");
        return None;
    }
    let each = written.iter().map(|choice| match choice {
        Choice::Any => None,
        Choice::Is(value) => Some(*value),
    });
    Some(each.collect())
}

pub(super) fn conditions(faults: &mut Faults, when: &[Condition]) -> Option<Vec<Question>> {
    // Conditions are named by 16-bit places in stored decisions.
    if when.len() > usize::from(u16::MAX) {
        faults.add("when", "too many conditions");
        return None;
    }
    let mut questions = Vec::new();
    for (n, condition) in when.iter().enumerate() {
        match condition.compile() {
            Ok(question) => questions.push(question),
            Err(error) => faults.add(&format!("when[{n}].{}", error.field), error.message),
        }
    }
    (questions.len() == when.len()).then_some(questions)
}

pub(super) fn window(faults: &mut Faults, hours: &Hours) -> Option<Box<Window>> {
    if hours.from == hours.to {
        faults.add("hours.to", "`from` and `to` are the same: for the whole day write 00:00 and 24:00");
        return None;
    }
    if hours.from.minutes() == 1440 {
        faults.add("hours.from", "24:00 is the end of a day, not a beginning: write 00:00");
        return None;
    }
    let days = if hours.days.is_empty() { Weekday::ALL.to_vec() } else { hours.days.clone() };
    let (from, to) = (hours.from.minutes(), hours.to.minutes());
    Some(Box::new(Window { from, to, days, zone: hours.zone.clone() }))
}

pub(super) fn terms(faults: &mut Faults, rule: &Rule) -> Option<HoldTerms> {
    let terms = rule.approval.as_ref()?;
    if terms.count == Some(0) {
        faults.add("approval.count", "0 approvers would approve by themselves: write 1 or more");
    }
    if let Some(role @ (Role::Viewer | Role::Client)) = terms.role {
        let message = format!("a {role} cannot decide held calls: write `approver` or `admin`");
        faults.add("approval.role", message);
    }
    let timeout_s = terms.timeout.map(|span| span.as_seconds());
    Some(HoldTerms { timeout_s, role: terms.role, approvers: terms.count.unwrap_or(1) })
}

/// The limit of the kinds that have one. The outer `None` is a mistake.
pub(super) fn limiter(faults: &mut Faults, rule: &Rule) -> Option<Option<Limiter>> {
    match (rule.kind, &rule.limit) {
        (RuleKind::TokenBudget, Some(limit)) => token_limit(faults, limit).map(Some),
        (RuleKind::RateLimit, Some(limit)) => call_limit(faults, limit).map(Some),
        (RuleKind::TokenBudget | RuleKind::RateLimit, None) => None,
        (
            RuleKind::AllowTool | RuleKind::BlockTool | RuleKind::RequireApproval | RuleKind::InputValidation,
            _,
        ) => Some(None),
    }
}

fn token_limit(faults: &mut Faults, written: &Limit) -> Option<Limiter> {
    for (key, there) in [("limit.calls", written.calls.is_some()), ("limit.window", written.window.is_some())]
    {
        if there {
            faults.add(key, "a token_budget limits `tokens`, not calls in a window");
        }
    }
    let limit = written.tokens;
    if limit.is_none() {
        faults.add("limit.tokens", "a token_budget needs `tokens`");
    }
    match written.per {
        Per::Conversation => Some(Limiter::ConversationTokens { limit: limit? }),
        Per::CallerDay => Some(Limiter::CallerDayTokens { limit: limit? }),
        Per::Caller => {
            let message = "tokens are counted per `conversation` or `caller_day`";
            faults.suggest("limit.per", message, Some(Per::CallerDay.as_str()));
            None
        }
        Per::Tool | Per::Server => {
            faults.add("limit.per", "tokens are counted per `conversation` or `caller_day`");
            None
        }
    }
}

fn call_limit(faults: &mut Faults, written: &Limit) -> Option<Limiter> {
    if written.tokens.is_some() {
        faults.add("limit.tokens", "a rate_limit limits `calls` in a `window`, not tokens");
    }
    let (calls, window) = (written.calls, written.window);
    if calls.is_none() {
        faults.add("limit.calls", "a rate_limit needs `calls`");
    }
    if window.is_none() {
        faults.add("limit.window", "a rate_limit needs a `window`, such as `1h`");
    }
    let message = "calls are counted per `caller`, `tool` or `server`";
    let per = match written.per {
        Per::Caller => PerCalls::Caller,
        Per::Tool => PerCalls::Tool,
        Per::Server => PerCalls::Server,
        Per::CallerDay => {
            faults.suggest("limit.per", message, Some(Per::Caller.as_str()));
            return None;
        }
        Per::Conversation => {
            faults.add("limit.per", message);
            return None;
        }
    };
    Some(Limiter::Calls { limit: calls?, window_ms: window?.as_millis(), per })
}

pub(super) fn tests(faults: &mut Faults, document: &PolicyDocument, ids: &BTreeSet<&RuleId>) {
    let known: Vec<&str> = ids.iter().map(|id| id.as_str()).collect();
    let mut names = BTreeSet::new();
    for (n, test) in document.tests.iter().enumerate() {
        if test.name.trim().is_empty() {
            faults.add(&format!("tests[{n}].name"), "a test needs a name");
        } else if !names.insert(test.name.as_str()) {
            faults.add(&format!("tests[{n}].name"), "another test has this name");
        }
        let named =
            test.by.iter().map(|id| ("by", id)).chain(test.given.calls.keys().map(|id| ("given.calls", id)));
        for (key, id) in named {
            if !ids.contains(id) {
                let message = format!("there is no rule `{id}`");
                faults.suggest(&format!("tests[{n}].{key}"), message, closest(id.as_str(), &known));
            }
        }
    }
}
