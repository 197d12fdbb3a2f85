//! Port: what the gateway needs of durable storage.
//!
//! Each method that changes something is one durable transaction, audit rows included: when it returns `Ok`,
//! the change and its audit rows are on disk; when it returns `Err`, neither is there. Moves between states are
//! conditional updates, so that of two who race exactly one wins.

use crate::action::{ActionDigest, Digest};
use crate::approvals::{ApprovalId, ApprovalTerms, PersonId, Vote};
use crate::call::{CallId, Caller, FrozenCall};
use crate::clock::Stamp;
use crate::invoke::ToolOutput;
use crate::outcome::{CallAnswer, ReasonCode, Refusal};
use crate::state::{ApprovalStatus, CallState};
use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use sluicegate_policy::{
    Arguments, CallerId, ConversationId, Counters, Decision, Origin, PolicyContext, PolicyDocument,
    RateQuery, Tier, TokenUsage, ToolRef,
};

/// Number of a policy revision, counting from 1.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RevisionId(pub i64);

/// A policy revision as stored.
#[derive(Clone, Debug)]
pub struct PolicyRevision {
    /// Its number.
    pub id: RevisionId,
    /// The whole document.
    pub document: PolicyDocument,
}

/// Which stored facts a decision needs.
#[derive(Clone, Debug)]
pub struct FactQuery {
    /// Whose usage.
    pub caller: Caller,
    /// In which conversation.
    pub conversation: Option<ConversationId>,
    /// The counters of the rate rules that select the call.
    pub rates: Vec<RateQuery>,
    /// The action, to find an earlier refusal of the same one; `None` where nothing was frozen.
    pub action: Option<ActionDigest>,
}

/// Facts, all read in one snapshot.
#[derive(Clone, Debug)]
pub struct StoredFacts {
    /// The current revision; `None` while there is none.
    pub revision: Option<RevisionId>,
    /// Real token usage so far.
    pub usage: TokenUsage,
    /// One entry for each rate rule asked for.
    pub counters: Counters,
    /// Whether a person refused the same action in the same conversation before.
    pub refused_before: bool,
    /// Whether the caller is a key that has been revoked: nothing of it runs any more.
    pub caller_gone: bool,
}

/// A call as it is first written.
#[derive(Clone, Debug)]
pub struct NewCall {
    /// Its id.
    pub id: CallId,
    /// Server as named; empty if the name fits no tool.
    pub server: String,
    /// Tool as named, cut to 256 characters.
    pub tool: String,
    /// Who asked.
    pub caller: Caller,
    /// By which surface.
    pub origin: Origin,
    /// In which conversation.
    pub conversation: Option<ConversationId>,
    /// The arguments as JSON text: canonical if they could be frozen, else as they came, cut to 64 KiB.
    pub arguments: String,
    /// The frozen call; `None` if it was refused before it could be frozen.
    pub frozen: Option<FrozenCall>,
}

/// What was decided, on which facts, under which revision.
#[derive(Clone, Debug)]
pub struct Ruling {
    /// The revision that was evaluated; `None` if there was none.
    pub revision: Option<RevisionId>,
    /// The whole evaluated context; `None` if the call never reached the rules.
    pub context: Option<PolicyContext>,
    /// The engine's decision; `None` if the call never reached the rules.
    pub decision: Option<Decision>,
    /// Present if the call is refused.
    pub refusal: Option<Refusal>,
    /// One sentence of why, for people.
    pub sentence: String,
}

/// What must still be true inside the writing transaction for a ruling to hold.
#[derive(Clone, Debug)]
pub struct Expect {
    /// The current revision.
    pub revision: RevisionId,
    /// Token usage is not above this.
    pub usage: TokenUsage,
    /// Each of these counters is still under its limit; each is counted up by the same transaction.
    pub rates: Vec<RateQuery>,
}

/// Whether an intent was written.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Begun {
    /// It is durable: the call is `executing`. Only now may a permit be made.
    Started,
    /// Facts moved since the evaluation; nothing was written. Evaluate again.
    Moved,
    /// The call (or its approval) is not in the state this needs; nothing was written.
    Lost(CallState),
}

/// A new approval.
#[derive(Clone, Debug)]
pub struct NewApproval {
    /// Its id.
    pub id: ApprovalId,
    /// Who may decide, how many must.
    pub terms: ApprovalTerms,
    /// When it began and how long it stays open.
    pub stamp: Stamp,
}

/// Whether a hold was written.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Held {
    /// The call is `pending`, its approval open.
    Pending,
    /// Facts moved since the evaluation; nothing was written. Evaluate again.
    Moved,
}

/// An approval as stored.
#[derive(Clone, Debug)]
pub struct StoredApproval {
    /// Its id.
    pub id: ApprovalId,
    /// The call it holds.
    pub call: CallId,
    /// Where it stands.
    pub status: ApprovalStatus,
    /// Counts up with each change of what is asked; a vote names the version it saw.
    pub version: i64,
    /// What it is bound to.
    pub action: ActionDigest,
    /// Who may decide, how many must.
    pub terms: ApprovalTerms,
    /// When it began and how long it stays open.
    pub stamp: Stamp,
    /// Votes given to this version.
    pub votes: Vec<Vote>,
    /// Who asked.
    pub asked_by: PersonId,
    /// When it left `pending`, if it did; wall clock in milliseconds.
    pub decided_at_ms: Option<i64>,
    /// Who or what decided: a person's name, `timer`, `caller`, `restart`, `policy`.
    pub decided_by: Option<String>,
    /// The reason given with a denial.
    pub note: Option<String>,
    /// Whether its caller is not waiting: it was told to come back for the result.
    pub detached: bool,
}

/// A vote on its way in.
#[derive(Clone, Debug)]
pub struct VoteCast {
    /// On which approval.
    pub approval: ApprovalId,
    /// The version that the person saw.
    pub version: i64,
    /// The vote; its time is set by the store.
    pub vote: Vote,
    /// A reason, for the caller and the audit trail.
    pub note: Option<String>,
}

/// What became of a vote. Judged inside the transaction, by the store's clock.
#[derive(Clone, Debug)]
pub enum VoteOutcome {
    /// It decided the approval; the record is as it stands after it.
    Decided(StoredApproval),
    /// Counted; more are needed.
    Counted(StoredApproval),
    /// Somebody or something was first.
    AlreadyDecided(StoredApproval),
    /// The time is over; this attempt has closed it if nothing else had.
    Expired(StoredApproval),
    /// The vote was for an earlier version.
    Stale(StoredApproval),
    /// This person may not decide it, with the reason.
    NotAllowed(StoredApproval, &'static str),
    /// There is no such approval.
    NotFound,
}

/// Why an open approval is closed without a vote.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Closing {
    /// Its time ran out. Judged by the store's clock inside the transaction.
    Expired,
    /// The caller went away.
    Withdrawn,
    /// The tool changed or went: the approval becomes `denied` by `gateway`, the call `denied` with `tool_changed`.
    ToolChanged,
}

/// What became of an attempt to close.
#[derive(Clone, Debug)]
pub enum Closed {
    /// This attempt closed it.
    Won,
    /// It was not open any more, or not yet due; the record is as it stands.
    Lost(Box<StoredApproval>),
}

/// How an executing call ended.
#[derive(Clone, Debug)]
pub enum CallOutcome {
    /// The tool answered.
    Completed {
        /// With this.
        output: ToolOutput,
        /// Injection phrases seen in it: for people's eyes only.
        flags: Vec<&'static str>,
    },
    /// The tool answered with an error, or was certainly not reached.
    Failed {
        /// `tool_error`, `upstream_unavailable` or `timed_out`.
        code: ReasonCode,
        /// One sentence.
        sentence: String,
        /// The tool's own error result, if it answered.
        output: Option<ToolOutput>,
        /// Injection phrases seen in it.
        flags: Vec<&'static str>,
    },
    /// Sent, and the answer was lost.
    Unknown {
        /// `outcome_lost` or `timed_out`.
        code: ReasonCode,
        /// One sentence.
        sentence: String,
    },
}

/// A detached call that can still be decided, or was and has not begun.
#[derive(Clone, Debug)]
pub struct DetachedCall {
    /// The call.
    pub call: CallId,
    /// Its approval.
    pub approval: StoredApproval,
    /// Server and tool.
    pub tool: ToolRef,
    /// The tier it was judged with.
    pub tier: Tier,
    /// Identity of the server entry.
    pub server: Digest,
    /// Digest of the tool definition.
    pub definition: Digest,
    /// Who asked.
    pub caller: Caller,
    /// By which surface.
    pub origin: Origin,
    /// In which conversation.
    pub conversation: Option<ConversationId>,
    /// The canonical arguments.
    pub arguments: Arguments,
}

/// The end of a detached call that nobody has collected.
#[derive(Clone, Debug)]
pub struct KeptAnswer {
    /// What it did.
    pub action: ActionDigest,
    /// Who asked.
    pub caller: CallerId,
    /// What its caller is to be told.
    pub answer: CallAnswer,
    /// When it was asked for, by the wall clock.
    pub asked_ms: i64,
    /// When it ended, by the wall clock.
    pub ended_ms: i64,
    /// Whether the result is stored whole.
    pub whole: bool,
}

/// What an earlier process left to be taken up.
#[derive(Clone, Debug, Default)]
pub struct DetachedCalls {
    /// Those that can still be decided.
    pub open: Vec<DetachedCall>,
    /// Those that can still be collected.
    pub kept: Vec<KeptAnswer>,
}

/// What start-up found and settled.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reconciled {
    /// Calls that were `executing`, now `unknown`.
    pub unknown: Vec<CallId>,
    /// Calls that were held or approved and not begun, now `denied` with `orphaned`.
    pub orphaned: Vec<CallId>,
}

/// The store failed. Never shown as it is; logged once where it is handled.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// It could not be read or written in time; nothing was changed.
    #[error("the store is not available: {0}")]
    Unavailable(String),
    /// What it holds does not make sense.
    #[error("the store holds a record that cannot be read: {0}")]
    Corrupt(String),
}

/// Durable storage of calls, approvals and rules, as the gateway needs it.
#[async_trait]
pub trait CallStore: Send + Sync + 'static {
    /// Facts for a decision, with the current revision, in one snapshot.
    ///
    /// # Errors
    /// When they cannot be read.
    async fn facts(&self, query: FactQuery) -> Result<StoredFacts, StoreError>;

    /// One policy revision.
    ///
    /// # Errors
    /// `Corrupt` when the revision is missing or its document cannot be read.
    async fn policy(&self, revision: RevisionId) -> Result<PolicyRevision, StoreError>;

    /// A new call that is refused: `tool_requested`, `policy_decided`; state `denied`.
    ///
    /// # Errors
    /// When it could not be recorded.
    async fn record_denied(&self, call: NewCall, ruling: Ruling) -> Result<(), StoreError>;

    /// A new call that is allowed: `tool_requested`, `policy_decided`, `execution_started`; state `executing`.
    /// The intent, durable before the tool runs.
    ///
    /// # Errors
    /// When it could not be recorded: then nothing runs.
    async fn begin(&self, call: NewCall, ruling: Ruling, expect: Expect) -> Result<Begun, StoreError>;

    /// A new call that is held: `tool_requested`, `policy_decided`, `approval_required`; state `pending`.
    ///
    /// # Errors
    /// When it could not be recorded: then nobody is asked and nothing runs.
    async fn hold(
        &self,
        call: NewCall,
        ruling: Ruling,
        approval: NewApproval,
        revision: RevisionId,
    ) -> Result<Held, StoreError>;

    /// The approval as it stands.
    ///
    /// # Errors
    /// When it cannot be read, or is missing (`Corrupt`).
    async fn approval(&self, id: ApprovalId) -> Result<StoredApproval, StoreError>;

    /// A person's vote. `UPDATE … WHERE status = 'pending'` is the sole arbiter; quorum by
    /// [`crate::quorum`], time by [`Stamp::passed`] with the store's clock, all inside the transaction.
    ///
    /// # Errors
    /// When it could not be recorded: then it does not count.
    async fn vote(&self, cast: VoteCast) -> Result<VoteOutcome, StoreError>;

    /// Closes an open (for `Withdrawn` and `ToolChanged` also an approved, not yet consumed) approval and its call.
    ///
    /// # Errors
    /// When it could not be recorded.
    async fn close(&self, id: ApprovalId, closing: Closing) -> Result<Closed, StoreError>;

    /// The intent of an approved call: consumes the approval, bound to `action`, in the same transaction;
    /// second `policy_decided`, `execution_started`; state `executing`.
    ///
    /// # Errors
    /// When it could not be recorded: then nothing runs.
    async fn begin_approved(
        &self,
        approval: ApprovalId,
        action: ActionDigest,
        ruling: Ruling,
        expect: Expect,
    ) -> Result<Begun, StoreError>;

    /// An approved call that does not run after all: approval `void`, second `policy_decided`, state `denied`.
    ///
    /// # Errors
    /// When it could not be recorded; it does not run either way.
    async fn refuse_approved(&self, approval: ApprovalId, ruling: Ruling) -> Result<(), StoreError>;

    /// An approved call that needs more approval than was given: back to `pending` with `terms`, votes kept,
    /// version counted up. The deadline stays.
    ///
    /// # Errors
    /// When it could not be recorded; it does not run either way.
    async fn ask_again(
        &self,
        approval: ApprovalId,
        ruling: Ruling,
        terms: ApprovalTerms,
    ) -> Result<Held, StoreError>;

    /// `execution_retried`, before a second attempt is sent.
    ///
    /// # Errors
    /// When it could not be recorded: then there is no second attempt.
    async fn retried(&self, call: CallId, why: &str) -> Result<(), StoreError>;

    /// The outcome, durable before the caller is answered.
    ///
    /// # Errors
    /// When it could not be recorded; the call stays `executing` and becomes `unknown` at the next start.
    async fn finish(&self, call: CallId, outcome: CallOutcome) -> Result<(), StoreError>;

    /// Lets an open approval outlive its caller. `false` if it is not open any more.
    ///
    /// # Errors
    /// When it could not be recorded.
    async fn detach(&self, approval: ApprovalId) -> Result<bool, StoreError>;

    /// The result of a detached call has been given to its caller. A call that is not detached is left alone.
    ///
    /// # Errors
    /// When it could not be recorded.
    async fn collected(&self, call: CallId) -> Result<(), StoreError>;

    /// Detached calls that can still be decided, and those that ended within 10 minutes and were not collected.
    ///
    /// # Errors
    /// When they cannot be read.
    async fn detached(&self) -> Result<DetachedCalls, StoreError>;

    /// Settles what an earlier process left open, before any traffic: `executing` becomes `unknown`; `pending`,
    /// and `approved` but not begun, become `denied` with `orphaned` (whoever asked is gone). Detached ones stay as they
    /// are while their time is not over, and become `expired` if it is.
    ///
    /// # Errors
    /// When it could not be done; the product then does not start.
    async fn reconcile(&self) -> Result<Reconciled, StoreError>;
}
