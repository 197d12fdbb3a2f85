//! Documents written as JSON, and calls.

use serde_json::{Value, json};
use sluicegate_policy::{
    ApprovalDefaults, Arguments, CallerId, Counters, Decision, Labels, LocalTimes, Origin, PolicyContext,
    PolicyDocument, Principal, Role, RuleError, RuleId, RuleSet, ServerName, Tier, Timestamp, TokenUsage,
    ToolName, ToolRef, evaluate,
};

pub(crate) const DEFAULTS: ApprovalDefaults = ApprovalDefaults { timeout_s: 300, high_tier_timeout_s: 60 };

pub(crate) fn document(rules: Value) -> PolicyDocument {
    serde_json::from_value(json!({ "version": 1, "rules": rules })).unwrap()
}

pub(crate) fn rules(rules: Value) -> RuleSet {
    document(rules).compile(DEFAULTS).unwrap()
}

/// The mistakes of a document of these rules.
pub(crate) fn faults(rules: Value) -> Vec<RuleError> {
    document(rules).compile(DEFAULTS).unwrap_err()
}

pub(crate) fn tool(server: &str, tool: &str) -> ToolRef {
    ToolRef::new(ServerName::new(server).unwrap(), ToolName::new(tool).unwrap())
}

pub(crate) fn id(text: &str) -> RuleId {
    RuleId::new(text).unwrap()
}

/// A call of `files/write` by an approver from the chat.
pub(crate) fn call(arguments: Value) -> PolicyContext {
    PolicyContext {
        tool: tool("files", "write"),
        tier: Tier::Moderate,
        arguments: Arguments::from_value(arguments).unwrap(),
        principal: Principal { caller: CallerId::new("ada").unwrap(), role: Role::Approver },
        origin: Origin::Chat,
        conversation: None,
        token_usage: TokenUsage::default(),
        counters: Counters::new(),
        labels: Labels::new(),
        now: Timestamp(0),
        local_times: LocalTimes::new(),
    }
}

pub(crate) fn call_of(server: &str, name: &str, arguments: Value) -> PolicyContext {
    PolicyContext { tool: tool(server, name), ..call(arguments) }
}

/// `effect/reason` with the deciding rules, such as `deny/rule by a, b`.
pub(crate) fn outcome(decision: &Decision) -> String {
    let by: Vec<&str> = decision.deciding.iter().map(RuleId::as_str).collect();
    let by = if by.is_empty() { String::new() } else { format!(" by {}", by.join(", ")) };
    format!("{}/{}{by}", decision.effect, decision.reason.as_code())
}

pub(crate) fn decide(written: Value, context: &PolicyContext) -> String {
    outcome(&evaluate(context, &rules(written)))
}
