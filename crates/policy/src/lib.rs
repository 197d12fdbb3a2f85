//! The policy engine of Sluicegate: what may run, what a person must confirm, what is denied.
//!
//! The model in one page:
//!
//! - The operator writes a [`PolicyDocument`]: tier lines for tools, rules, and tests of those rules.
//!   [`PolicyDocument::compile`] checks it as a whole and gives a [`RuleSet`], or every mistake it found.
//! - For each call the gateway fills a [`PolicyContext`]: structured facts alone. Its declaration does not compile with
//!   a field that could hold free text ([`TextFree`]); the arguments of the call are the one thing in it that a model
//!   wrote, and only an operator's typed [`Condition`] can look at them.
//! - [`evaluate`] gathers every rule that matches and reduces them by `deny` > `require_approval` > `allow`
//!   ([`Effect`]). Nothing matched means `deny`. The order of rules never matters.
//! - A condition that cannot be judged is neither true nor false ([`Truth::Unevaluable`]). It never loosens: an allow
//!   rule then does not match, every other kind does.
//! - The [`Decision`] explains itself: which rules were considered, which decided, and why.
//!
//! The crate is `no_std`: evaluation cannot read a clock, a file or the environment. It is total: it returns for every
//! input and never panics.

#![no_std]
#![deny(missing_docs)]

extern crate alloc;

mod arguments;
mod backtest;
mod condition;
mod context;
mod decision;
mod document;
mod evaluate;
mod findings;
mod names;
mod probes;
mod rule_test;
mod rules;
mod text_free;

pub use arguments::{Arguments, ArgumentsError, MAX_ARGUMENTS_BYTES, MAX_ARGUMENTS_DEPTH, canonical_json};
pub use backtest::{Change, Comparison, KnownCall, Outcome, compare};
pub use condition::{Condition, ConditionError, Elements, Op, Question, Truth, Why};
pub use context::{
    Counters, Label, Labels, LocalTime, LocalTimes, Origin, PolicyContext, Principal, Role, Tier, Timestamp,
    TokenUsage, Weekday,
};
pub use decision::{
    Because, Considerations, Considered, Decision, Effect, Hold, Part, RateQuery, RateSubject, Reason,
    Verdict,
};
pub use document::{
    ApprovalTerms, Choice, Hours, Limit, Match, Mode, OnViolation, OneOrMany, Per, PolicyDocument, Rule,
    RuleKind, Span, SpanError, TimeOfDay, TimeOfDayError, ToolMark,
};
pub use evaluate::evaluate;
pub use findings::{Finding, FindingKind, Offered, findings};
pub use names::{CallerId, ConversationId, IdError, RuleId, ServerName, ToolName, ToolRef, ZoneName};
pub use probes::{MAX_PROBES, probes};
pub use rule_test::{Given, Moment, RuleTest, TestFailure};
pub use rules::{ApprovalDefaults, CompiledRule, Hints, RuleError, RuleSet, closest, name_fits};
pub use text_free::TextFree;
