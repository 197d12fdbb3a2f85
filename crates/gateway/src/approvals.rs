//! Answering held calls: the second key. Held by the approvals page, never by an agent.

use crate::core::Core;
use crate::state::{ApprovalStatus, words};
use crate::store::{StoreError, StoredApproval, VoteCast, VoteOutcome};
use serde::{Deserialize, Serialize};
use sluicegate_policy::{Hold, Role};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;
use uuid::Uuid;

/// Id of an approval.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ApprovalId(Uuid);

impl ApprovalId {
    /// A new id.
    #[must_use]
    pub fn random() -> Self {
        Self(Uuid::now_v7())
    }

    /// Reads the text form; `None` if it is anything else.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Uuid::try_parse(text).ok().map(Self)
    }
}

impl fmt::Display for ApprovalId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

/// A person's name in the store: 1 to 64 of `[a-z0-9._@-]`.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct PersonId(Arc<str>);

impl PersonId {
    /// Checks the form; `None` if it has another.
    #[must_use]
    pub fn new(name: &str) -> Option<Self> {
        let fits = (1..=64).contains(&name.len())
            && name.bytes().all(|b| matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'.' | b'_' | b'@' | b'-'));
        fits.then(|| Self(name.into()))
    }

    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for PersonId {
    type Error = String;

    fn try_from(name: String) -> Result<Self, String> {
        Self::new(&name).ok_or_else(|| format!("`{name}` is not a person's name"))
    }
}

impl From<PersonId> for String {
    fn from(person: PersonId) -> Self {
        person.as_str().to_owned()
    }
}

impl fmt::Display for PersonId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Who may decide a held call, and how many must say yes.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ApprovalTerms {
    /// Each of these roles must be among those who said yes; an admin counts as an approver too.
    pub roles: BTreeSet<Role>,
    /// So many different people must say yes.
    pub approvers: u32,
}

impl From<&Hold> for ApprovalTerms {
    fn from(hold: &Hold) -> Self {
        Self { roles: hold.roles.clone(), approvers: hold.approvers.max(1) }
    }
}

words! {
    /// What a person says to a held call.
    Verdict {
        /// Run it, once.
        Approve => "approve",
        /// Do not run it.
        Deny => "deny",
    }
}

/// One person's vote.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Vote {
    /// Whose.
    pub person: PersonId,
    /// Their role when they voted.
    pub role: Role,
    /// What they said.
    pub verdict: Verdict,
}

/// Where the votes lead.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Quorum {
    /// Somebody said no: one no is enough.
    Denied,
    /// Enough said yes.
    Met,
    /// More are needed.
    Open {
        /// So many different people said yes.
        have: u32,
    },
}

/// Counts votes against the terms. A person counts once; where two or more are needed, whoever asked counts not
/// at all.
#[must_use]
pub fn quorum(terms: &ApprovalTerms, votes: &[Vote], asked_by: &PersonId) -> Quorum {
    if votes.iter().any(|vote| vote.verdict == Verdict::Deny) {
        return Quorum::Denied;
    }
    let needed = terms.approvers.max(1);
    let yes: BTreeMap<&PersonId, Role> = votes
        .iter()
        .filter(|vote| needed < 2 || vote.person != *asked_by)
        .map(|vote| (&vote.person, vote.role))
        .collect();
    let have = u32::try_from(yes.len()).unwrap_or(u32::MAX);
    let roles = terms.roles.iter().all(|role| yes.values().any(|given| covers(*given, *role)));
    if have >= needed && roles { Quorum::Met } else { Quorum::Open { have } }
}

/// Whether a person of role `given` answers for a rule that names `asked`.
fn covers(given: Role, asked: Role) -> bool {
    given == Role::Admin || given == asked
}

/// A signed-in person who may decide held calls. There is no way to make one for an agent or a key.
#[derive(Clone, Debug)]
pub struct Approver {
    person: PersonId,
    role: Role,
}

/// The role may not decide held calls.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("only people with the role approver or admin may decide held calls")]
pub struct NotAnApprover;

impl Approver {
    /// A signed-in person of the role approver or admin.
    ///
    /// # Errors
    /// [`NotAnApprover`] for any other role.
    pub fn new(person: PersonId, role: Role) -> Result<Self, NotAnApprover> {
        match role {
            Role::Approver | Role::Admin => Ok(Self { person, role }),
            Role::Viewer | Role::Client => Err(NotAnApprover),
        }
    }
}

/// An answer that counted.
#[derive(Clone, Debug)]
pub enum Resolved {
    /// It decided the call.
    Decided(StoredApproval),
    /// Counted; more people are needed.
    Counted(StoredApproval),
}

/// An answer that did not count.
#[derive(Debug, thiserror::Error)]
pub enum ResolveError {
    /// There is no such approval.
    #[error("there is no such held call")]
    NotFound,
    /// Somebody or something was first.
    #[error("already {}", .0.status)]
    AlreadyDecided(Box<StoredApproval>),
    /// Its time is over.
    #[error("its time is over; it was denied by itself")]
    Expired(Box<StoredApproval>),
    /// What is asked changed since the page was made.
    #[error("what is asked has changed since the page was shown; look again")]
    Stale(Box<StoredApproval>),
    /// This person may not decide it.
    #[error("{1}")]
    NotAllowed(Box<StoredApproval>, &'static str),
    /// The answer could not be recorded, so it does not count.
    #[error("the answer could not be recorded, so it does not count: {0}")]
    Store(#[from] StoreError),
}

/// The handle that answers held calls.
#[derive(Clone)]
pub struct Approvals {
    core: Arc<Core>,
}

impl fmt::Debug for Approvals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Approvals")
    }
}

impl Approvals {
    pub(crate) fn new(core: Arc<Core>) -> Self {
        Self { core }
    }

    /// Gives a person's answer to one version of a held call. The conditional update in the store is the sole
    /// arbiter; its winner wakes the waiting call.
    ///
    /// # Errors
    /// [`ResolveError`] with the approval as it now stands.
    pub async fn resolve(
        &self,
        approver: &Approver,
        approval: ApprovalId,
        version: i64,
        verdict: Verdict,
        note: Option<String>,
    ) -> Result<Resolved, ResolveError> {
        let vote = Vote { person: approver.person.clone(), role: approver.role, verdict };
        let outcome = self.core.store().vote(VoteCast { approval, version, vote, note }).await?;
        if let VoteOutcome::Decided(record) | VoteOutcome::Expired(record) = &outcome {
            self.core.wake(record.id);
        }
        match outcome {
            VoteOutcome::Decided(record) => Ok(Resolved::Decided(record)),
            VoteOutcome::Counted(record) => Ok(Resolved::Counted(record)),
            VoteOutcome::AlreadyDecided(record) => Err(ResolveError::AlreadyDecided(Box::new(record))),
            VoteOutcome::Expired(record) => Err(ResolveError::Expired(Box::new(record))),
            VoteOutcome::Stale(record) => Err(ResolveError::Stale(Box::new(record))),
            VoteOutcome::NotAllowed(record, why) => Err(ResolveError::NotAllowed(Box::new(record), why)),
            VoteOutcome::NotFound => Err(ResolveError::NotFound),
        }
    }
}

impl StoredApproval {
    /// Whether a person can still decide it, going by its status alone.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.status == ApprovalStatus::Pending
    }
}
