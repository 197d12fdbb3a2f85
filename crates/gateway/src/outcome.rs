//! What a caller is told.

use crate::call::CallId;
use crate::invoke::ToolOutput;
use crate::state::{CallState, words};
use serde::{Deserialize, Serialize};
use sluicegate_policy::{Reason, RuleId};
use std::fmt;

words! {
    /// Why a call did not run, or did not end well: the closed list of reason codes.
    ReasonCode {
        /// A rule said so.
        Rule => "rule",
        /// No rule allows or holds it.
        NoRule => "no_rule",
        /// There are no readable rules.
        PolicyUnreadable => "policy_unreadable",
        /// The policy engine failed.
        PolicyFailed => "policy_failed",
        /// The store could not be read or written.
        StoreUnavailable => "store_unavailable",
        /// No such tool is offered.
        UnknownTool => "unknown_tool",
        /// The tool's definition or server changed.
        ToolChanged => "tool_changed",
        /// The arguments are no JSON object, or do not fit the tool's schema.
        InvalidArguments => "invalid_arguments",
        /// A condition could not be evaluated, which never loosens.
        Unevaluable => "unevaluable",
        /// A token budget is used up.
        OverBudget => "over_budget",
        /// A limit of calls is reached.
        OverRate => "over_rate",
        /// A person said no.
        DeniedByPerson => "denied_by_person",
        /// Nobody decided in time.
        Expired => "expired",
        /// Whoever asked went away.
        Withdrawn => "withdrawn",
        /// The product restarted while the call was held.
        Orphaned => "orphaned",
        /// The rules ask for more approval than was given.
        InsufficientApproval => "insufficient_approval",
        /// The same call was refused by a person before.
        RepeatedDenial => "repeated_denial",
        /// The server could not be reached; the call was not sent.
        UpstreamUnavailable => "upstream_unavailable",
        /// The server did not answer in time.
        TimedOut => "timed_out",
        /// The call was sent and its answer was lost.
        OutcomeLost => "outcome_lost",
        /// The tool itself reported an error.
        ToolError => "tool_error",
    }
}

impl From<Reason> for ReasonCode {
    fn from(reason: Reason) -> Self {
        match reason {
            Reason::Rule => Self::Rule,
            Reason::NoRule => Self::NoRule,
            Reason::Unevaluable => Self::Unevaluable,
            Reason::OverBudget => Self::OverBudget,
            Reason::OverRate => Self::OverRate,
        }
    }
}

/// Why a call was not run: a stable code, one safe sentence, and whether asking again can help.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Refusal {
    /// The code.
    pub code: ReasonCode,
    /// One sentence for the caller, without a secret or a stranger's text.
    pub sentence: String,
    /// Whether the same call may succeed later.
    pub retryable: bool,
    /// The deciding rules, if rules decided.
    pub rules: Vec<RuleId>,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.sentence, self.code)
    }
}

/// The end of a call, as its caller sees it.
#[derive(Clone, Debug)]
pub struct CallAnswer {
    /// Our id of the call.
    pub call: CallId,
    /// Its end state.
    pub state: CallState,
    /// Present unless the call completed.
    pub refusal: Option<Refusal>,
    /// What the tool answered, if it did.
    pub output: Option<ToolOutput>,
}
