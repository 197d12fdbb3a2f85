//! The heart of Sluicegate: one fail-closed path from a proposed tool call to its outcome.
//!
//! ```text
//! proposed ─┬─ denied                                (by rule, by no rule, by any failure)
//!           ├─ executing ─┬─ completed
//!           │             ├─ failed
//!           │             └─ unknown                 (the answer was lost; never repeated by us)
//!           └─ pending ─┬─ denied · expired · withdrawn
//!                       └─ approved ─┬─ executing …
//!                                    ├─ denied       (the rules of the moment of running said no)
//!                                    └─ pending      (they ask for more than was given)
//! ```
//!
//! Two handles on one core, two holders: [`ToolExecutionGateway`] proposes calls (the agent, MCP clients),
//! [`Approvals`] answers held ones (a signed-in person at a page). Neither can do what the other does.
//! What the gateway needs from outside it states as two ports: [`CallStore`] and [`Invoke`].

mod action;
mod approvals;
pub mod audit;
mod call;
mod catalogue;
mod clock;
mod core;
mod facts;
mod gateway;
mod invoke;
mod notice;
mod outcome;
mod rule_book;
mod scan;
mod schema;
mod scope;
mod state;
mod store;
mod times;

#[cfg(feature = "crash-points")]
pub mod crash;

pub use action::{ActionDigest, Digest};
pub use approvals::{
    ApprovalId, ApprovalTerms, Approvals, Approver, NotAnApprover, PersonId, Quorum, ResolveError, Resolved,
    Verdict, Vote, quorum,
};
pub use call::{CallId, Caller, FrozenCall, ProposedArguments, ProposedCall, ProposedTool};
pub use catalogue::{
    Catalogue, DefinitionError, Hints, Leftovers, ServerState, ServerStatus, ToolCatalogue, ToolDefinition,
};
pub use clock::{Clock, Clocks, ManualClock, Stamp, SystemClock};
pub use facts::local_times;
pub use gateway::{
    CallHandle, Detached, GatewaySettings, HeldCall, Kept, Permit, Running, Stage, ToolExecutionGateway,
};
pub use invoke::{Attempts, Invoke, InvokeError, ToolOutput};
pub use notice::{Notice, Notices};
pub use outcome::{CallAnswer, ReasonCode, Refusal};
pub use scan::injection_phrases;
pub use scope::Scope;
pub use state::{ApprovalStatus, CallState};
pub use store::{
    Begun, CallOutcome, CallStore, Closed, Closing, DetachedCall, DetachedCalls, Expect, FactQuery, Held,
    KeptAnswer, NewApproval, NewCall, PolicyRevision, Reconciled, RevisionId, Ruling, StoreError,
    StoredApproval, StoredFacts, VoteCast, VoteOutcome,
};
pub use times::{GateTime, GateTimes};
