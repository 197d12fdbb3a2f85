//! What was decided, and why.

mod considered;
mod sentence;

use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use crate::condition::Why;
use crate::context::{Role, words};
use crate::document::{Mode, RuleKind};
use crate::names::{CallerId, RuleId, ServerName, ToolRef};

pub(crate) use considered::Line;
pub use considered::{Considerations, Considered};

words! {
    /// What becomes of a call. The order is precedence: the greatest of all matching rules wins.
    Effect {
        /// It runs.
        Allow = "allow",
        /// A person decides.
        RequireApproval = "require_approval",
        /// It does not run.
        Deny = "deny",
    }
}

words! {
    /// Why, as a stable code. Where several rules decided, the first of these that is true of one of them.
    Reason {
        /// A rule says so.
        Rule = "rule",
        /// A token budget is used up.
        OverBudget = "over_budget",
        /// A rate limit is reached.
        OverRate = "over_rate",
        /// Every deciding rule matched only because something could not be judged.
        Unevaluable = "unevaluable",
        /// No rule matched.
        NoRule = "no_rule",
    }
}

impl Reason {
    /// The stable code.
    #[must_use]
    pub fn as_code(self) -> &'static str {
        self.as_str()
    }
}

/// The outcome of [`evaluate`](crate::evaluate). It depends on the facts and the set of rules alone: not on their order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Decision {
    /// What becomes of the call.
    pub effect: Effect,
    /// Why.
    pub reason: Reason,
    /// The rules that decided, by id: all that matched with the winning effect.
    pub deciding: Vec<RuleId>,
    /// Every rule whose server and tool patterns fit the call, by id, and what became of it. Rules about other tools are
    /// not listed.
    pub considered: Considerations,
    /// The terms of the hold; present exactly if the effect is `require_approval`.
    pub hold: Option<Hold>,
    /// The rate_limit rules under whose limit this call ran or will run: to be checked again and counted when it runs.
    /// Empty if denied. A rule over its limit that only holds is not in it: a call that a person approved does not use
    /// up the share of calls that need nobody.
    pub reserve: Vec<RateQuery>,
}

/// What became of one rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// It matched, with this effect.
    Matched(Effect),
    /// It did not match.
    NotMatched,
    /// It is in shadow mode and would have matched with this effect.
    Shadow(Effect),
    /// It is switched off.
    Disabled,
}

/// Why a rule matched or did not. Conditions are named by their place in the rule's `when` list, from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Because {
    /// Everything that the rule asks is true. (An input_validation then does not match.)
    Satisfied,
    /// This condition is false. (An input_validation then matches.)
    ConditionFalse(u16),
    /// This part cannot be judged.
    Unevaluable {
        /// Which part.
        part: Part,
        /// Why not.
        why: Why,
    },
    /// The rule is about calls of another tier.
    Tier,
    /// The rule is about other callers.
    Caller,
    /// The rule is about other roles.
    Role,
    /// The rule is about calls from elsewhere.
    Origin,
    /// The rule is not in force at this time.
    OutsideHours,
    /// So much is used of so much.
    Usage {
        /// Used so far: tokens, or calls.
        used: u64,
        /// At this the limit is reached.
        limit: u64,
    },
    /// The rule is switched off.
    SwitchedOff,
}

/// A part of a rule that can be unevaluable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Part {
    /// A condition, by its place in `when`, from 0.
    Condition(u16),
    /// The hours: the local time in their zone is not known.
    Hours,
    /// The counter of a rate_limit is not known.
    Counter,
}

/// The terms of a hold: of all rules that hold together the shortest time, all named roles, the most approvers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hold {
    /// Seconds a person has.
    pub timeout_s: u32,
    /// Every role that a rule named; `approver` if none did. Never empty.
    pub roles: BTreeSet<Role>,
    /// How many different people must approve, at least 1.
    pub approvers: u32,
}

/// What a rate_limit rule counts for one call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RateQuery {
    /// The rule.
    pub rule: RuleId,
    /// Whose calls.
    pub subject: RateSubject,
    /// In the last so many milliseconds.
    pub window_ms: u64,
    /// At so many the limit is reached.
    pub limit: u64,
    /// A shadow rule is counted but never refuses.
    pub mode: Mode,
}

/// Whose calls a rate_limit counts.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RateSubject {
    /// One caller's.
    Caller(CallerId),
    /// One tool's, by anyone.
    Tool(ToolRef),
    /// One server's, by anyone.
    Server(ServerName),
}

impl RateSubject {
    /// A key for counting, different for different subjects: `caller:…`, `tool:server/tool`, `server:…`.
    #[must_use]
    pub fn key(&self) -> String {
        match self {
            Self::Caller(caller) => format!("caller:{caller}"),
            Self::Tool(tool) => format!("tool:{tool}"),
            Self::Server(server) => format!("server:{server}"),
        }
    }
}

impl Decision {
    /// The allow rules about this tool that did not apply, and why: what would have allowed the call.
    pub fn would_allow(&self) -> impl Iterator<Item = Considered<'_>> {
        self.considered
            .iter()
            .filter(|c| c.kind == RuleKind::AllowTool && !matches!(c.verdict, Verdict::Matched(_)))
    }

    /// The shadow rules that would have matched, and with what effect.
    pub fn shadowed(&self) -> impl Iterator<Item = (&RuleId, Effect)> {
        self.considered.iter().filter_map(|c| match c.verdict {
            Verdict::Shadow(effect) => Some((c.rule, effect)),
            Verdict::Matched(_) | Verdict::NotMatched | Verdict::Disabled => None,
        })
    }
}
