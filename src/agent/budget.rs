//! Whether the model may be asked: the token budgets of the rules, before each model call.
//!
//! The gate judges calls by the same rules. Without this check a turn over its budget would go on asking the model
//! while every call is denied.

use sluicegate_policy::{
    ApprovalDefaults, Arguments, ConversationId, Counters, Effect, Labels, LocalTimes, Match, OnViolation,
    Origin, Per, PolicyContext, PolicyDocument, Principal, Reason, Rule, RuleId, RuleKind, ServerName, Tier,
    Timestamp, TokenUsage, ToolName, ToolRef, evaluate,
};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// Tokens set aside for an answer that is being written, beside those of its request.
const ANSWER_TOKENS: u64 = 1_000;

/// The rules cannot be used to judge a budget.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("the token budgets of the rules cannot be read")]
pub(crate) struct Unreadable;

/// The rules whose budget is used up; none while there is budget left. Asks the policy engine, with those budgets
/// alone that are about every tool: a budget for some tools, hours or arguments, or one that asks a person, says
/// nothing about answers, and the gate minds it.
pub(crate) fn reached(
    document: &PolicyDocument,
    conversation: &ConversationId,
    principal: &Principal,
    usage: TokenUsage,
) -> Result<Vec<RuleId>, Unreadable> {
    let rules = document.rules.iter().filter(|rule| is_about_answers(rule)).cloned().collect();
    let budgets = PolicyDocument { version: document.version, tiers: Vec::new(), rules, tests: Vec::new() };
    let compiled = budgets.compile(ApprovalDefaults { timeout_s: 300, high_tier_timeout_s: 60 });
    let compiled = compiled.map_err(|_| Unreadable)?;
    let context = PolicyContext {
        tool: ToolRef::new(
            ServerName::new("chat").map_err(|_| Unreadable)?,
            ToolName::new("answer").map_err(|_| Unreadable)?,
        ),
        tier: Tier::Safe,
        arguments: Arguments::from_json("{}").map_err(|_| Unreadable)?,
        principal: principal.clone(),
        origin: Origin::Chat,
        conversation: Some(conversation.clone()),
        token_usage: usage,
        counters: Counters::new(),
        labels: Labels::new(),
        now: Timestamp(0),
        local_times: LocalTimes::new(),
    };
    let decision = evaluate(&context, &compiled);
    let over = decision.effect == Effect::Deny && decision.reason == Reason::OverBudget;
    Ok(if over { decision.deciding } else { Vec::new() })
}

fn is_about_answers(rule: &Rule) -> bool {
    let Match { server, tool, tier, .. } = &rule.selects;
    rule.kind == RuleKind::TokenBudget
        && rule.on_violation.is_none_or(|what| what == OnViolation::Deny)
        && server.is_none()
        && tool.is_none()
        && tier.is_none()
        && rule.when.is_empty()
        && rule.hours.is_none()
}

/// Tokens set aside for answers that are being written, by caller: so that many turns that start at once do not all
/// see the same rest of a budget.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reservations(Arc<Mutex<Table>>);

#[derive(Debug, Default)]
struct Table {
    next: u64,
    open: BTreeMap<u64, (String, u64)>,
}

/// Tokens set aside; given back when dropped, which is to be after the real usage is written.
#[derive(Debug)]
pub(crate) struct Reserved {
    table: Reservations,
    number: u64,
    earlier: u64,
}

impl Reservations {
    /// Sets tokens aside for a request of `request_tokens`. To be done before the stored usage is read.
    pub(crate) fn reserve(&self, caller: &str, request_tokens: u64) -> Reserved {
        let mut table = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let earlier = table
            .open
            .values()
            .filter(|(who, _)| who == caller)
            .fold(0_u64, |sum, (_, tokens)| sum.saturating_add(*tokens));
        let number = table.next;
        table.next = number.saturating_add(1);
        table.open.insert(number, (caller.to_owned(), request_tokens.saturating_add(ANSWER_TOKENS)));
        Reserved { table: self.clone(), number, earlier }
    }
}

impl Reserved {
    /// Tokens that earlier reservations of the same caller held when this one was made. Later ones look at this
    /// one: so of two at the same moment exactly one is first.
    pub(crate) fn earlier(&self) -> u64 {
        self.earlier
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        self.table.0.lock().unwrap_or_else(PoisonError::into_inner).open.remove(&self.number);
    }
}

/// The line that says which budget is used up.
pub(crate) fn line(document: &PolicyDocument, reached: &[RuleId], usage: TokenUsage) -> String {
    let said = reached.iter().filter_map(|id| {
        let limit = document.rules.iter().find(|rule| rule.id == *id)?.limit.as_ref()?;
        let (used, of_what) = match limit.per {
            Per::CallerDay => (usage.caller_day, "by you today"),
            Per::Conversation | Per::Caller | Per::Tool | Per::Server => {
                (usage.conversation, "in this conversation")
            }
        };
        Some(format!("rule `{id}`: {used} of {} tokens used {of_what}", limit.tokens.unwrap_or_default()))
    });
    format!(
        "The token budget is used up ({}). The model was not asked. An admin can raise the limit.",
        said.collect::<Vec<_>>().join("; ")
    )
}

#[cfg(test)]
mod tests;
