//! Tests that are kept with the policy.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::arguments::Arguments;
use crate::context::{
    Labels, LocalTime, LocalTimes, Origin, PolicyContext, Principal, Role, Timestamp, TokenUsage, Weekday,
};
use crate::decision::{Decision, Effect};
use crate::document::TimeOfDay;
use crate::evaluate::evaluate;
use crate::names::{CallerId, RuleId, ServerName, ToolName, ToolRef};
use crate::rules::{Hints, RuleSet};

/// A call, and what the rules must make of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RuleTest {
    /// What it shows.
    pub name: String,
    /// The call.
    pub given: Given,
    /// What must become of it.
    pub expect: Effect,
    /// A rule that must be among those that decide.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<RuleId>,
}

/// The call of a test. What is left out is usual: an approver's first call from the chat, with no arguments.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Given {
    /// Server.
    pub server: ServerName,
    /// Tool.
    pub tool: ToolName,
    /// Arguments.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub arguments: Map<String, Value>,
    /// Who asks; `someone` if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub caller: Option<CallerId>,
    /// With which role; from the chat an approver, from an MCP client a client, if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<Role>,
    /// From where; the chat if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<Origin>,
    /// Tokens used so far; none if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<TokenUsage>,
    /// Calls that already ran, per rate_limit rule; none for those left out.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub calls: BTreeMap<RuleId, u64>,
    /// When, in every zone; if left out the time is not known, and `hours` cannot be judged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<Moment>,
}

/// A moment of a test.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Moment {
    /// Day of the week.
    pub day: Weekday,
    /// Time of day.
    pub time: TimeOfDay,
}

/// Why a test failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("test `{name}`: {message}")]
pub struct TestFailure {
    /// The test.
    pub name: String,
    /// What was expected, and what came instead.
    pub message: String,
}

impl RuleTest {
    /// Evaluates the call exactly as the gate does.
    ///
    /// # Errors
    /// [`TestFailure`] if the decision is another, or the arguments are not acceptable.
    pub fn run(&self, rules: &RuleSet) -> Result<Decision, TestFailure> {
        let failed = |message| TestFailure { name: self.name.clone(), message };
        let context = self.given.context(rules).map_err(|error| failed(error.to_string()))?;
        let decision = evaluate(&context, rules);
        if decision.effect != self.expect {
            let sentence = decision.sentence(rules);
            return Err(failed(format!("expected {}, came {}: {sentence}", self.expect, decision.effect)));
        }
        match &self.by {
            Some(rule) if !decision.deciding.contains(rule) => {
                let sentence = decision.sentence(rules);
                Err(failed(format!("expected `{rule}` to decide, but it did not: {sentence}")))
            }
            _ => Ok(decision),
        }
    }
}

impl Given {
    /// The facts of the call, under these rules.
    ///
    /// # Errors
    /// [`ArgumentsError`](crate::ArgumentsError) if the arguments are too large or too deep.
    pub fn context(&self, rules: &RuleSet) -> Result<PolicyContext, crate::ArgumentsError> {
        let tool = ToolRef::new(self.server.clone(), self.tool.clone());
        let origin = self.origin.unwrap_or(Origin::Chat);
        let usual = match origin {
            Origin::Chat => Role::Approver,
            Origin::Mcp => Role::Client,
        };
        let caller = self.caller.clone().unwrap_or_else(CallerId::someone);
        let principal = Principal { caller, role: self.role.unwrap_or(usual) };
        let tier = rules.tier(&tool, Hints::default());
        let counted = rules.rate_rules(&tool, tier, &principal, origin);
        let counters = counted.into_iter().map(|query| {
            let calls = self.calls.get(&query.rule).copied().unwrap_or(0);
            (query.rule, calls)
        });
        let counters = counters.collect();
        Ok(PolicyContext {
            tool,
            tier,
            arguments: Arguments::from_value(Value::Object(self.arguments.clone()))?,
            principal,
            origin,
            conversation: None,
            token_usage: self.tokens.unwrap_or_default(),
            counters,
            labels: Labels::new(),
            now: Timestamp(0),
            local_times: self.local_times(rules),
        })
    }

    fn local_times(&self, rules: &RuleSet) -> LocalTimes {
        let Some(at) = self.at else { return LocalTimes::new() };
        let local = LocalTime { weekday: at.day, minute_of_day: at.time.minutes() };
        rules.zones().into_iter().map(|zone| (zone, local)).collect()
    }
}
