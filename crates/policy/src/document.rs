//! The policy as the operator writes it. Unknown keys and unknown words are errors of the reader; what only the whole
//! document can tell is checked by [`PolicyDocument::compile`].

mod one_or_many;
mod span;
mod time;

use alloc::string::String;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use crate::condition::Condition;
use crate::context::{Labels, Origin, Role, Tier, words};
use crate::names::RuleId;
use crate::rule_test::RuleTest;

pub use one_or_many::{Choice, OneOrMany};
pub use span::{Span, SpanError};
pub use time::{Hours, TimeOfDay, TimeOfDayError};

/// A whole policy: what the store keeps per revision.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PolicyDocument {
    /// The version of this format: 1.
    pub version: u32,
    /// Tiers and marks of tools.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tiers: Vec<ToolMark>,
    /// The rules. An empty list is valid and denies every call; a missing one is an error, so that a file cut short is.
    pub rules: Vec<Rule>,
    /// Tests of the rules.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tests: Vec<RuleTest>,
}

/// A tier line: what the operator says about tools. Where several lines fit one tool, the strictest reading of all of
/// them counts: the highest tier, a `read_only` or `idempotent` only if every line says so, and all marks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToolMark {
    /// Server, or a pattern.
    pub server: OneOrMany<String>,
    /// Tool, or a pattern.
    pub tool: OneOrMany<String>,
    /// How much harm it can do.
    pub tier: Tier,
    /// It changes nothing: it may be tried again after a time-out.
    #[serde(default, skip_serializing_if = "is_false")]
    pub read_only: bool,
    /// Running it twice is the same as running it once.
    #[serde(default, skip_serializing_if = "is_false")]
    pub idempotent: bool,
    /// What using it says about a conversation from then on. Not `anomalous`: that is the detector's.
    #[serde(default, skip_serializing_if = "Labels::is_empty")]
    pub marks: Labels,
}

words! {
    /// What a rule does.
    RuleKind {
        /// Allows matching calls.
        AllowTool = "allow_tool",
        /// Denies matching calls.
        BlockTool = "block_tool",
        /// Holds matching calls for a person.
        RequireApproval = "require_approval",
        /// Denies or holds calls whose arguments do not satisfy its conditions.
        InputValidation = "input_validation",
        /// Denies or holds calls once token usage is at its limit.
        TokenBudget = "token_budget",
        /// Denies or holds calls once as many as its limit have run in its window.
        RateLimit = "rate_limit",
    }
}

words! {
    /// Whether a rule decides.
    Mode {
        /// It decides.
        Enforce = "enforce",
        /// It only records what it would have done.
        Shadow = "shadow",
    }
}

words! {
    /// What a violated input_validation, token_budget or rate_limit rule does.
    OnViolation {
        /// Deny.
        Deny = "deny",
        /// Hold for a person.
        RequireApproval = "require_approval",
    }
}

words! {
    /// Whose use a limit counts.
    Per {
        /// Tokens of the conversation.
        Conversation = "conversation",
        /// Tokens of the caller on the current day.
        CallerDay = "caller_day",
        /// Calls of the caller.
        Caller = "caller",
        /// Calls of the tool, by anyone.
        Tool = "tool",
        /// Calls of the server's tools, by anyone.
        Server = "server",
    }
}

/// A rule as written.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// Stable and unique.
    pub id: RuleId,
    /// What it does.
    pub kind: RuleKind,
    /// For people.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// Off means: as if it were not there, but listed.
    #[serde(default = "yes", skip_serializing_if = "is_true")]
    pub enabled: bool,
    /// Whether it decides.
    #[serde(default = "enforce", skip_serializing_if = "is_enforce")]
    pub mode: Mode,
    /// Which calls it is about.
    #[serde(default, rename = "match", skip_serializing_if = "Match::is_all")]
    pub selects: Match,
    /// Conditions on arguments; all must be true. For input_validation: what must hold.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub when: Vec<Condition>,
    /// Only at these times.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hours: Option<Hours>,
    /// Terms of the hold.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval: Option<ApprovalTerms>,
    /// The limit of a token_budget or rate_limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<Limit>,
    /// What a violation does; `deny` if not said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_violation: Option<OnViolation>,
}

/// Which calls a rule is about. What is left out matches all. In names, `*` stands for any run of characters, also none;
/// a pattern matches the whole name, and case matters.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Match {
    /// Servers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server: Option<OneOrMany<String>>,
    /// Tools.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool: Option<OneOrMany<String>>,
    /// Tiers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tier: Option<OneOrMany<Choice<Tier>>>,
    /// Callers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub caller: Option<OneOrMany<String>>,
    /// The caller's role.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub role: Option<OneOrMany<Choice<Role>>>,
    /// Where the call came from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub origin: Option<OneOrMany<Choice<Origin>>>,
}

impl Match {
    /// Whether nothing is left out of it: it matches every call.
    #[must_use]
    pub fn is_all(&self) -> bool {
        *self == Self::default()
    }
}

/// Terms of a hold. What is left out has a default.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ApprovalTerms {
    /// How long a person has, such as `300s` or `5m`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Span>,
    /// Which role a person must have: `approver` or `admin`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub role: Option<Role>,
    /// How many persons must approve.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub count: Option<u32>,
}

/// `{ tokens, per }` of a token_budget, or `{ calls, window, per }` of a rate_limit. Zero is a limit: none.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limit {
    /// Tokens at which the limit is reached.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
    /// Calls at which the limit is reached.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub calls: Option<u64>,
    /// The stretch of time, up to now, in which calls count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window: Option<Span>,
    /// Whose use counts.
    pub per: Per,
}

fn yes() -> bool {
    true
}

fn enforce() -> Mode {
    Mode::Enforce
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it with a reference")]
fn is_true(value: &bool) -> bool {
    *value
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it with a reference")]
fn is_false(value: &bool) -> bool {
    !*value
}

fn is_enforce(mode: &Mode) -> bool {
    *mode == Mode::Enforce
}
