//! The rule form: what was typed, kept as typed; read from a rule, and made into one. Pure.

mod value;

use sluicegate_policy::{
    ApprovalTerms, Choice, Condition, Elements, Hours, Limit, Match, Mode, OnViolation, OneOrMany, Origin,
    Per, Role, Rule, RuleId, RuleKind, Span, Tier, TimeOfDay, Weekday, ZoneName,
};
use std::str::FromStr;
pub(crate) use value::Asks;

/// Addresses below `/policies` that are pages of their own: a rule of this id could not be edited there.
const RESERVED: [&str; 7] = ["new", "history", "import", "export", "try", "tiers", "tests"];

/// A mistake, and the field it belongs to: named as in the document, `when[0].value`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct FieldError {
    /// The field.
    pub(crate) field: String,
    /// What is wrong, and what to write.
    pub(crate) message: String,
}

/// A condition as typed.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct DraftCondition {
    /// Path of the argument.
    pub(crate) argument: String,
    /// Operator, with the type of its operand.
    pub(crate) asks: Asks,
    /// The operand.
    pub(crate) value: String,
    /// One element of a list is enough.
    pub(crate) any: bool,
}

/// A rule as typed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Draft {
    pub(crate) id: String,
    pub(crate) kind: RuleKind,
    pub(crate) description: String,
    pub(crate) enabled: bool,
    pub(crate) shadow: bool,
    pub(crate) server: String,
    pub(crate) tool: String,
    pub(crate) caller: String,
    pub(crate) tiers: Vec<Tier>,
    pub(crate) roles: Vec<Role>,
    pub(crate) origins: Vec<Origin>,
    pub(crate) conditions: Vec<DraftCondition>,
    pub(crate) timed: bool,
    pub(crate) from: String,
    pub(crate) to: String,
    pub(crate) days: Vec<Weekday>,
    pub(crate) zone: String,
    pub(crate) timeout: String,
    pub(crate) approver: String,
    pub(crate) count: String,
    pub(crate) tokens: String,
    pub(crate) calls: String,
    pub(crate) window: String,
    pub(crate) per: Option<Per>,
    pub(crate) holds: bool,
    pub(crate) reason: String,
    /// The revision that was read: the edit is made only if it is still in force.
    pub(crate) revision: i64,
}

impl Draft {
    /// An empty form for a new rule.
    pub(crate) fn new(kind: RuleKind, revision: i64) -> Self {
        Self {
            id: String::new(),
            kind,
            description: String::new(),
            enabled: true,
            shadow: false,
            server: String::new(),
            tool: String::new(),
            caller: String::new(),
            tiers: Vec::new(),
            roles: Vec::new(),
            origins: Vec::new(),
            conditions: Vec::new(),
            timed: false,
            from: String::new(),
            to: String::new(),
            days: Vec::new(),
            zone: String::new(),
            timeout: String::new(),
            approver: String::new(),
            count: String::new(),
            tokens: String::new(),
            calls: String::new(),
            window: String::new(),
            per: None,
            holds: false,
            reason: String::new(),
            revision,
        }
    }

    /// The form of a rule in force.
    pub(crate) fn of(rule: &Rule, revision: i64) -> Self {
        let (selects, terms) = (&rule.selects, rule.approval.clone().unwrap_or_default());
        let limit = rule.limit.as_ref();
        let hours = rule.hours.as_ref();
        let number = |of: Option<u64>| of.map(|n| n.to_string()).unwrap_or_default();
        let span = |of: Option<Span>| of.map(|span| span.to_string()).unwrap_or_default();
        Self {
            id: rule.id.to_string(),
            description: rule.description.clone(),
            enabled: rule.enabled,
            shadow: rule.mode == Mode::Shadow,
            server: names(selects.server.as_ref()),
            tool: names(selects.tool.as_ref()),
            caller: names(selects.caller.as_ref()),
            tiers: chosen(selects.tier.as_ref()),
            roles: chosen(selects.role.as_ref()),
            origins: chosen(selects.origin.as_ref()),
            conditions: rule.when.iter().map(DraftCondition::of).collect(),
            timed: hours.is_some(),
            from: hours.map(|hours| hours.from.to_string()).unwrap_or_default(),
            to: hours.map(|hours| hours.to.to_string()).unwrap_or_default(),
            days: hours.map(|hours| hours.days.clone()).unwrap_or_default(),
            zone: hours.map(|hours| hours.zone.to_string()).unwrap_or_default(),
            timeout: span(terms.timeout),
            approver: terms.role.map(|role| role.to_string()).unwrap_or_default(),
            count: terms.count.map(|count| count.to_string()).unwrap_or_default(),
            tokens: number(limit.and_then(|limit| limit.tokens)),
            calls: number(limit.and_then(|limit| limit.calls)),
            window: span(limit.and_then(|limit| limit.window)),
            per: limit.map(|limit| limit.per),
            holds: rule.on_violation == Some(OnViolation::RequireApproval),
            ..Self::new(rule.kind, revision)
        }
    }

    /// Reads the fields of the form. What is no choice of the form is left out.
    pub(crate) fn read(fields: &[(String, String)]) -> Self {
        let all = |name: &'static str| {
            fields.iter().filter(move |(key, _)| key == name).map(|(_, value)| value.as_str())
        };
        let text = |name: &'static str| all(name).next().unwrap_or_default().replace("\r\n", "\n");
        let kind = all("kind").next().and_then(RuleKind::from_word).unwrap_or(RuleKind::BlockTool);
        let conditions = all("argument").zip(all("op")).zip(all("value")).zip(all("elements"));
        Self {
            id: text("id").trim().to_owned(),
            description: text("description").trim().to_owned(),
            enabled: all("enabled").any(|on| on == "yes"),
            shadow: text("mode") == Mode::Shadow.as_str(),
            server: text("server"),
            tool: text("tool"),
            caller: text("caller"),
            tiers: all("tier").filter_map(Tier::from_word).collect(),
            roles: all("role").filter_map(Role::from_word).collect(),
            origins: all("origin").filter_map(Origin::from_word).collect(),
            conditions: conditions
                .map(|(((argument, op), value), elements)| DraftCondition {
                    argument: argument.to_owned(),
                    asks: Asks::from_word(op).unwrap_or_default(),
                    value: value.replace("\r\n", "\n"),
                    any: elements == Elements::Any.as_str(),
                })
                .collect(),
            timed: all("timed").any(|on| on == "yes"),
            from: text("from"),
            to: text("to"),
            days: all("day").filter_map(Weekday::from_word).collect(),
            zone: text("zone"),
            timeout: text("timeout"),
            approver: text("approver"),
            count: text("count"),
            tokens: text("tokens"),
            calls: text("calls"),
            window: text("window"),
            per: all("per").next().and_then(Per::from_word),
            holds: text("on_violation") == OnViolation::RequireApproval.as_str(),
            reason: text("reason").trim().to_owned(),
            ..Self::new(kind, text("revision").parse().unwrap_or_default())
        }
    }

    /// Whether the kind denies or holds on a violation.
    pub(crate) fn violates(&self) -> bool {
        matches!(self.kind, RuleKind::InputValidation | RuleKind::TokenBudget | RuleKind::RateLimit)
    }

    /// Whether the kind has terms of a hold.
    pub(crate) fn takes_terms(&self) -> bool {
        self.kind == RuleKind::RequireApproval || self.violates()
    }

    /// Whose use the kind's limit can count.
    pub(crate) fn pers(&self) -> &'static [Per] {
        match self.kind {
            RuleKind::TokenBudget => &[Per::Conversation, Per::CallerDay],
            RuleKind::RateLimit => &[Per::Caller, Per::Tool, Per::Server],
            RuleKind::AllowTool
            | RuleKind::BlockTool
            | RuleKind::RequireApproval
            | RuleKind::InputValidation => &[],
        }
    }

    /// The rule that was typed. What only the whole document can tell is checked when it is saved.
    ///
    /// # Errors
    /// Every field that cannot be read.
    pub(crate) fn rule(&self) -> Result<Rule, Vec<FieldError>> {
        let mut faults = Faults(Vec::new());
        let id = faults.parse::<RuleId>("id", &self.id);
        if RESERVED.contains(&self.id.as_str()) {
            faults.add("id", format!("`{}` is the address of another page; choose another id", self.id));
        }
        let when = self.conditions.iter().enumerate().filter_map(|(n, typed)| {
            let value = typed.asks.value(&typed.value);
            let value = value.map_err(|why| faults.add(&format!("when[{n}].value"), why)).ok()?;
            let elements = if typed.any { Elements::Any } else { Elements::Every };
            Some(Condition {
                argument: typed.argument.trim().to_owned(),
                op: typed.asks.op(),
                value,
                elements,
            })
        });
        let when = when.collect();
        let hours = if self.timed { self.hours(&mut faults) } else { None };
        let held = self.kind == RuleKind::RequireApproval || (self.violates() && self.holds);
        let approval = if held { self.terms(&mut faults) } else { None };
        let limit = self.limit(&mut faults);
        let violation = if self.holds { OnViolation::RequireApproval } else { OnViolation::Deny };
        let (Some(id), true) = (id, faults.0.is_empty()) else { return Err(faults.0) };
        Ok(Rule {
            id,
            kind: self.kind,
            description: self.description.clone(),
            enabled: self.enabled,
            mode: if self.shadow { Mode::Shadow } else { Mode::Enforce },
            selects: Match {
                server: lines(&self.server),
                tool: lines(&self.tool),
                tier: some(self.tiers.iter().copied().map(Choice::Is).collect()),
                caller: lines(&self.caller),
                role: some(self.roles.iter().copied().map(Choice::Is).collect()),
                origin: some(self.origins.iter().copied().map(Choice::Is).collect()),
            },
            when,
            hours,
            approval,
            limit,
            on_violation: self.violates().then_some(violation),
        })
    }

    fn hours(&self, faults: &mut Faults) -> Option<Hours> {
        let from = faults.parse::<TimeOfDay>("hours.from", self.from.trim());
        let to = faults.parse::<TimeOfDay>("hours.to", self.to.trim());
        let zone = faults.parse::<ZoneName>("hours.zone", self.zone.trim());
        Some(Hours { from: from?, to: to?, days: self.days.clone(), zone: zone? })
    }

    fn terms(&self, faults: &mut Faults) -> Option<ApprovalTerms> {
        let timeout = faults.optional::<Span>("approval.timeout", &self.timeout);
        let count = faults.whole::<u32>("approval.count", &self.count);
        let terms = ApprovalTerms { timeout, role: Role::from_word(&self.approver), count };
        (terms != ApprovalTerms::default()).then_some(terms)
    }

    fn limit(&self, faults: &mut Faults) -> Option<Limit> {
        let tokens = match self.kind {
            RuleKind::TokenBudget => faults.whole::<u64>("limit.tokens", &self.tokens),
            _ => None,
        };
        let (calls, window) = match self.kind {
            RuleKind::RateLimit => (
                faults.whole::<u64>("limit.calls", &self.calls),
                faults.optional::<Span>("limit.window", &self.window),
            ),
            _ => (None, None),
        };
        let usual = self.pers().first().copied()?;
        let per = self.per.filter(|per| self.pers().contains(per)).unwrap_or(usual);
        Some(Limit { tokens, calls, window, per })
    }
}

struct Faults(Vec<FieldError>);

impl Faults {
    fn add(&mut self, field: &str, message: impl Into<String>) {
        self.0.push(FieldError { field: field.to_owned(), message: message.into() });
    }

    fn parse<T: FromStr<Err: std::fmt::Display>>(&mut self, field: &str, text: &str) -> Option<T> {
        text.parse().map_err(|error: T::Err| self.add(field, error.to_string())).ok()
    }

    fn optional<T: FromStr<Err: std::fmt::Display>>(&mut self, field: &str, text: &str) -> Option<T> {
        if text.trim().is_empty() { None } else { self.parse(field, text.trim()) }
    }

    /// A whole number, with or without commas between thousands; nothing if nothing was typed.
    fn whole<T: FromStr>(&mut self, field: &str, text: &str) -> Option<T> {
        let digits = text.trim().replace(',', "");
        if digits.is_empty() {
            return None;
        }
        let number = digits.parse().ok();
        if number.is_none() {
            self.add(field, format!("`{}` is no whole number that fits", text.trim()));
        }
        number
    }
}

fn names(of: Option<&OneOrMany<String>>) -> String {
    of.map(|names| names.0.join("\n")).unwrap_or_default()
}

fn chosen<T: Copy>(of: Option<&OneOrMany<Choice<T>>>) -> Vec<T> {
    let mut found = Vec::new();
    for choice in of.into_iter().flat_map(|choices| choices.iter()) {
        match choice {
            Choice::Any => return Vec::new(),
            Choice::Is(value) => found.push(*value),
        }
    }
    found
}

fn lines(text: &str) -> Option<OneOrMany<String>> {
    some(text.lines().map(str::trim).filter(|line| !line.is_empty()).map(str::to_owned).collect())
}

fn some<T>(items: Vec<T>) -> Option<OneOrMany<T>> {
    if items.is_empty() { None } else { Some(OneOrMany(items)) }
}

#[cfg(test)]
mod tests;
