//! The audit trail's encoding: events, rows chained by hash, and their verification. Pure.
//!
//! A row chains over its own facts and over *salted commitments* of its payloads (arguments, results, notes).
//! The payloads stand apart and can be erased without breaking the chain.

use crate::action::Digest;
use crate::call::CallId;
use crate::state::words;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Version of the row encoding.
pub const ENCODING: i64 = 1;

words! {
    /// What happened: the closed list of audit events.
    EventKind {
        /// A call was proposed.
        ToolRequested => "tool_requested",
        /// The rules were asked.
        PolicyDecided => "policy_decided",
        /// A person is asked.
        ApprovalRequired => "approval_required",
        /// A person, the clock, the caller or a restart answered.
        ApprovalDecided => "approval_decided",
        /// The intent: the tool is about to run.
        ExecutionStarted => "execution_started",
        /// A read-only call is sent once more.
        ExecutionRetried => "execution_retried",
        /// The tool answered.
        ExecutionCompleted => "execution_completed",
        /// The tool failed, or was not reached.
        ExecutionFailed => "execution_failed",
        /// The answer was lost.
        ExecutionUnknown => "execution_unknown",
        /// An admin said what became of an unknown outcome.
        ExecutionResolved => "execution_resolved",
        /// A new policy revision.
        PolicyChanged => "policy_changed",
        /// A policy that was refused.
        PolicyRejected => "policy_rejected",
        /// A server came, went or changed.
        ServerChanged => "server_changed",
        /// A tool's definition changed.
        ToolChanged => "tool_changed",
        /// An MCP client key was made.
        KeyCreated => "key_created",
        /// An MCP client key was revoked.
        KeyRevoked => "key_revoked",
        /// A person was added or changed.
        PersonChanged => "person_changed",
        /// Somebody signed in.
        SignedIn => "signed_in",
        /// Somebody failed to sign in.
        SignInFailed => "sign_in_failed",
        /// Somebody signed out.
        SignedOut => "signed_out",
        /// A bounded grant was given.
        GrantCreated => "grant_created",
        /// A grant ended.
        GrantEnded => "grant_ended",
        /// A model could not answer.
        ModelFailed => "model_failed",
        /// A token budget was reached.
        BudgetReached => "budget_reached",
        /// An anomaly was raised.
        AnomalyRaised => "anomaly_raised",
        /// Start-up settled what an earlier process left open.
        Reconciled => "reconciled",
        /// Records left the product.
        Exported => "exported",
    }
}

/// Something to record.
#[derive(Clone, Debug)]
pub struct AuditEvent {
    /// What happened.
    pub kind: EventKind,
    /// To which call.
    pub call: Option<CallId>,
    /// By whom or what: a person, a caller, `policy`, `timer`, `restart`, `gateway`.
    pub actor: String,
    /// Facts that may be shown to everyone who may read the trail. No text of tools or models.
    pub facts: Map<String, Value>,
    /// Payloads by name (`arguments`, `result`, `note`): committed to in the row, stored apart.
    pub payloads: BTreeMap<&'static str, String>,
}

impl AuditEvent {
    /// An event without facts or payloads yet.
    #[must_use]
    pub fn new(kind: EventKind, call: Option<CallId>, actor: impl Into<String>) -> Self {
        Self { kind, call, actor: actor.into(), facts: Map::new(), payloads: BTreeMap::new() }
    }

    /// Adds a fact.
    #[must_use]
    pub fn fact(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.facts.insert(name.to_owned(), value.into());
        self
    }

    /// Adds a payload.
    #[must_use]
    pub fn payload(mut self, name: &'static str, text: impl Into<String>) -> Self {
        self.payloads.insert(name, text.into());
        self
    }
}

/// A payload as stored: its salt keeps a short value from being guessed by its commitment.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Payload {
    /// Its name within the row.
    pub name: String,
    /// 32 random bytes in hexadecimal digits.
    pub salt: String,
    /// The text.
    pub text: String,
}

impl Payload {
    /// What the row commits to.
    #[must_use]
    pub fn commitment(&self) -> Digest {
        Digest::of(
            "sluicegate/payload/1",
            &[self.salt.as_bytes(), self.name.as_bytes(), self.text.as_bytes()],
        )
    }
}

/// A row of the trail, as stored.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AuditRow {
    /// Its place, counting from 1 without gaps. The order of the trail; clocks are not.
    pub seq: i64,
    /// Version of the encoding.
    pub version: i64,
    /// Wall clock in milliseconds.
    pub at_ms: i64,
    /// The event's word.
    pub kind: String,
    /// The call, if it is about one.
    pub call: Option<String>,
    /// By whom or what.
    pub actor: String,
    /// Facts as canonical JSON.
    pub facts: String,
    /// Commitments by payload name as canonical JSON.
    pub commitments: String,
    /// Hash of the row before; 64 zeros for the first.
    pub prev_hash: String,
    /// Hash of this row.
    pub hash: String,
}

/// Where a chain ends: sequence number and hash of its last row.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ChainHead {
    /// Sequence number; 0 for an empty chain.
    pub seq: i64,
    /// Hash; 64 zeros for an empty chain.
    pub hash: String,
}

impl ChainHead {
    /// The head of an empty chain.
    #[must_use]
    pub fn empty() -> Self {
        Self { seq: 0, hash: "0".repeat(64) }
    }
}

/// Makes the next row of a chain and its payloads. `salt` is called once per payload for 32 fresh random bytes.
///
/// # Errors
/// Whatever `salt` fails with; nothing may be recorded then.
pub fn next_row<E>(
    head: &ChainHead,
    at_ms: i64,
    event: &AuditEvent,
    mut salt: impl FnMut() -> Result<[u8; 32], E>,
) -> Result<(AuditRow, Vec<Payload>), E> {
    let mut payloads = Vec::with_capacity(event.payloads.len());
    for (name, text) in &event.payloads {
        let salt = salt()?.iter().fold(String::with_capacity(64), |mut out, byte| {
            // Writing to a String cannot fail.
            write!(out, "{byte:02x}").ok();
            out
        });
        payloads.push(Payload { name: (*name).to_owned(), salt, text: text.clone() });
    }
    let commitments: Map<String, Value> =
        payloads.iter().map(|p| (p.name.clone(), p.commitment().to_string().into())).collect();
    let mut row = AuditRow {
        seq: head.seq.saturating_add(1),
        version: ENCODING,
        at_ms,
        kind: event.kind.as_str().to_owned(),
        call: event.call.map(|call| call.to_string()),
        actor: event.actor.clone(),
        facts: canonical_json(&Value::Object(event.facts.clone())),
        commitments: canonical_json(&Value::Object(commitments)),
        prev_hash: head.hash.clone(),
        hash: String::new(),
    };
    row.hash = row.computed_hash();
    Ok((row, payloads))
}

impl AuditRow {
    /// The head of a chain that ends with this row.
    #[must_use]
    pub fn head(&self) -> ChainHead {
        ChainHead { seq: self.seq, hash: self.hash.clone() }
    }

    /// The hash that the row's content gives.
    #[must_use]
    pub fn computed_hash(&self) -> String {
        Digest::of(
            "sluicegate/audit/1",
            &[
                self.prev_hash.as_bytes(),
                &self.seq.to_be_bytes(),
                &self.version.to_be_bytes(),
                &self.at_ms.to_be_bytes(),
                self.kind.as_bytes(),
                self.call.as_deref().unwrap_or_default().as_bytes(),
                self.actor.as_bytes(),
                self.facts.as_bytes(),
                self.commitments.as_bytes(),
            ],
        )
        .to_string()
    }
}

/// The first thing wrong with a chain.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Broken {
    /// Its content does not give its hash.
    #[error("row {0} was changed: its content does not give its hash")]
    Changed(i64),
    /// A row is missing, or rows stand in another order.
    #[error("row {found} stands where row {expected} should: a row was removed or moved")]
    Order {
        /// The number that should follow.
        expected: i64,
        /// The number found.
        found: i64,
    },
    /// It does not continue the row before.
    #[error("row {0} does not continue the row before it: a row was removed, moved or replaced")]
    Unlinked(i64),
    /// A payload was changed.
    #[error("row {seq} was changed: its payload `{name}` does not give the commitment in the row")]
    Payload {
        /// The row.
        seq: i64,
        /// The payload.
        name: String,
    },
    /// The end is missing.
    #[error("the trail ends at row {found}, but {expected} rows were written: the end was removed")]
    Truncated {
        /// The last row written.
        expected: i64,
        /// The last row found.
        found: i64,
    },
}

/// Verifies a chain row by row, in order of sequence.
#[derive(Clone, Debug)]
pub struct Verifier {
    head: ChainHead,
}

impl Default for Verifier {
    fn default() -> Self {
        Self { head: ChainHead::empty() }
    }
}

impl Verifier {
    /// Takes the next row with the payloads that are still stored for it. An erased payload is not a fault.
    ///
    /// # Errors
    /// The first thing wrong with the row.
    pub fn next(&mut self, row: &AuditRow, payloads: &[Payload]) -> Result<(), Broken> {
        let expected = self.head.seq.saturating_add(1);
        if row.seq != expected {
            return Err(Broken::Order { expected, found: row.seq });
        }
        if row.prev_hash != self.head.hash {
            return Err(Broken::Unlinked(row.seq));
        }
        if row.computed_hash() != row.hash {
            return Err(Broken::Changed(row.seq));
        }
        let commitments: Map<String, Value> = serde_json::from_str(&row.commitments).unwrap_or_default();
        for payload in payloads {
            let committed = commitments.get(&payload.name).and_then(Value::as_str);
            if committed != Some(payload.commitment().to_string().as_str()) {
                return Err(Broken::Payload { seq: row.seq, name: payload.name.clone() });
            }
        }
        self.head = row.head();
        Ok(())
    }

    /// Compares with where the trail should end.
    ///
    /// # Errors
    /// When the end is missing.
    pub fn finish(self, expected: &ChainHead) -> Result<ChainHead, Broken> {
        if self.head.seq < expected.seq {
            return Err(Broken::Truncated { expected: expected.seq, found: self.head.seq });
        }
        if self.head != *expected {
            return Err(Broken::Unlinked(self.head.seq));
        }
        Ok(self.head)
    }
}

/// JSON with sorted keys and no white space: one text for one value, whatever order it came in.
#[must_use]
pub fn canonical_json(value: &Value) -> String {
    sluicegate_policy::canonical_json(value)
}
