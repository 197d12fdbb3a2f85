//! The audit events of each change, as pure functions: what is a fact and what a payload is decided here.
//!
//! Facts hold no text of tools or models, and no digest of the arguments: such a digest would let a short value be
//! guessed after its payload was erased.

use crate::codec;
use crate::keys::{Key, KeyName};
use crate::policies::PolicyRemarks;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use sluicegate_gateway::audit::{AuditEvent, EventKind};
use sluicegate_gateway::{
    ApprovalId, ApprovalStatus, ApprovalTerms, CallId, CallOutcome, Digest, NewCall, PersonId, ReasonCode,
    RevisionId, Ruling, StoreError, ToolOutput, Verdict,
};
use sluicegate_policy::{Effect, RuleId};

/// Bytes of a result that are kept whole; of a larger one the digest and this much of its beginning.
const MAX_RESULT: usize = 1024 * 1024;

/// By whom or what, where it is not a person or a caller.
pub(crate) mod actor {
    pub(crate) const POLICY: &str = "policy";
    pub(crate) const GATEWAY: &str = "gateway";
    pub(crate) const TIMER: &str = "timer";
    pub(crate) const CALLER: &str = "caller";
    pub(crate) const RESTART: &str = "restart";
}

fn words<T: ToString>(items: impl IntoIterator<Item = T>) -> Value {
    Value::Array(items.into_iter().map(|item| Value::String(item.to_string())).collect())
}

/// Adds a fact if there is one.
fn maybe(event: AuditEvent, name: &str, value: Option<impl Into<Value>>) -> AuditEvent {
    match value {
        Some(value) => event.fact(name, value),
        None => event,
    }
}

pub(crate) fn requested(call: &NewCall) -> AuditEvent {
    let event =
        AuditEvent::new(EventKind::ToolRequested, Some(call.id), call.caller.principal.caller.as_str())
            .fact("server", call.server.clone())
            .fact("tool", call.tool.clone())
            .fact("origin", call.origin.as_str())
            .fact("role", call.caller.principal.role.as_str())
            .fact("owner", call.caller.owner.as_str())
            .payload("arguments", call.arguments.clone());
    let event = maybe(event, "conversation", call.conversation.as_ref().map(|id| id.as_str()));
    let event =
        maybe(event, "server_identity", call.frozen.as_ref().map(|frozen| frozen.server().to_string()));
    maybe(event, "definition", call.frozen.as_ref().map(|frozen| frozen.definition().to_string()))
}

/// What a ruling says, where it was stored in columns.
pub(crate) struct Ruled {
    pub(crate) effect: Effect,
    pub(crate) rules: Vec<RuleId>,
    pub(crate) code: Option<ReasonCode>,
    /// What rules in shadow mode would have said.
    pub(crate) shadows: Vec<Shadow>,
}

/// A rule in shadow mode that matched.
#[derive(Serialize, Deserialize)]
pub(crate) struct Shadow {
    pub(crate) rule: RuleId,
    pub(crate) effect: Effect,
}

impl Ruled {
    pub(crate) fn of(ruling: &Ruling) -> Self {
        let decided = ruling.decision.as_ref();
        let refused = ruling.refusal.as_ref();
        Self {
            effect: decided.map_or(Effect::Deny, |decision| decision.effect),
            rules: decided
                .map(|decision| decision.deciding.clone())
                .or_else(|| refused.map(|refusal| refusal.rules.clone()))
                .unwrap_or_default(),
            code: refused.map(|refusal| refusal.code),
            shadows: decided
                .iter()
                .flat_map(|decision| decision.shadowed())
                .map(|(rule, effect)| Shadow { rule: rule.clone(), effect })
                .collect(),
        }
    }
}

/// The decision with the whole context it was made from.
pub(crate) fn decided(call: CallId, ruling: &Ruling) -> Result<AuditEvent, StoreError> {
    let ruled = Ruled::of(ruling);
    let by = if ruling.decision.is_some() { actor::POLICY } else { actor::GATEWAY };
    let event = AuditEvent::new(EventKind::PolicyDecided, Some(call), by)
        .fact("effect", ruled.effect.as_str())
        .fact("rules", words(&ruled.rules))
        .fact("refused", ruling.refusal.is_some());
    let shadows: Vec<&RuleId> = ruled.shadows.iter().map(|shadow| &shadow.rule).collect();
    let event = maybe(event, "shadows", (!shadows.is_empty()).then(|| words(&shadows)));
    let event = maybe(event, "revision", ruling.revision.map(|revision| revision.0));
    let event = maybe(event, "code", ruled.code.map(ReasonCode::as_str));
    let event = maybe(event, "reason", ruling.decision.as_ref().map(|decision| decision.reason.as_str()));
    let mut event = maybe(event, "tier", ruling.context.as_ref().map(|context| context.tier.as_str()));
    if let Some(context) = &ruling.context {
        event = event.payload("context", codec::json(context)?);
    }
    if let Some(decision) = &ruling.decision {
        event = event.payload("decision", codec::json(decision)?);
    }
    Ok(event)
}

pub(crate) fn approval_required(
    call: CallId,
    approval: ApprovalId,
    version: i64,
    terms: &ApprovalTerms,
    deadline_ms: i64,
) -> AuditEvent {
    AuditEvent::new(EventKind::ApprovalRequired, Some(call), actor::POLICY)
        .fact("approval", approval.to_string())
        .fact("version", version)
        .fact("roles", words(&terms.roles))
        .fact("approvers", terms.approvers)
        .fact("deadline_ms", deadline_ms)
}

/// An approval moved, or a vote was counted: then `status` is still `pending`.
pub(crate) fn approval_decided(
    call: CallId,
    approval: ApprovalId,
    version: i64,
    status: ApprovalStatus,
    by: &str,
) -> AuditEvent {
    AuditEvent::new(EventKind::ApprovalDecided, Some(call), by)
        .fact("approval", approval.to_string())
        .fact("version", version)
        .fact("status", status.as_str())
}

/// Adds what a person said.
pub(crate) fn voted(event: AuditEvent, verdict: Verdict, role: &str, note: Option<&str>) -> AuditEvent {
    let event = event.fact("verdict", verdict.as_str()).fact("role", role);
    with_note(event, note)
}

/// Adds why an approval ended without a person's word.
pub(crate) fn because(event: AuditEvent, code: ReasonCode) -> AuditEvent {
    event.fact("code", code.as_str())
}

fn with_note(event: AuditEvent, note: Option<&str>) -> AuditEvent {
    match note {
        Some(note) => event.payload("note", note),
        None => event,
    }
}

/// The intent. `approval` is the one that it spends.
pub(crate) fn started(call: CallId, approval: Option<ApprovalId>) -> AuditEvent {
    let event = AuditEvent::new(EventKind::ExecutionStarted, Some(call), actor::GATEWAY);
    maybe(event, "approval", approval.map(|id| id.to_string()))
}

pub(crate) fn retried(call: CallId, why: &str) -> AuditEvent {
    AuditEvent::new(EventKind::ExecutionRetried, Some(call), actor::GATEWAY).payload("note", why)
}

pub(crate) fn finished(
    call: CallId,
    outcome: &CallOutcome,
    duration_ms: i64,
) -> Result<AuditEvent, StoreError> {
    let event = |kind| AuditEvent::new(kind, Some(call), actor::GATEWAY).fact("duration_ms", duration_ms);
    match outcome {
        CallOutcome::Completed { output, flags } => {
            with_result(event(EventKind::ExecutionCompleted), output, flags)
        }
        CallOutcome::Failed { code, sentence, output, flags } => {
            let event = event(EventKind::ExecutionFailed)
                .fact("code", code.as_str())
                .payload("note", sentence.clone());
            match output {
                Some(output) => with_result(event, output, flags),
                None => Ok(event),
            }
        }
        CallOutcome::Unknown { code, sentence } => Ok(event(EventKind::ExecutionUnknown)
            .fact("code", code.as_str())
            .payload("note", sentence.clone())),
    }
}

fn with_result(
    event: AuditEvent,
    output: &ToolOutput,
    flags: &[&'static str],
) -> Result<AuditEvent, StoreError> {
    let text = codec::json(&output.result)?;
    let bytes = text.len();
    let event = event.fact("is_error", output.is_error).fact("bytes", bytes).fact("flags", words(flags));
    Ok(event.payload("result", kept(text)?))
}

/// A result as it is kept: whole, or cut with a mark, its full length and its digest.
fn kept(text: String) -> Result<String, StoreError> {
    if text.len() <= MAX_RESULT {
        return Ok(text);
    }
    let digest = Digest::of("sluicegate/result/1", &[text.as_bytes()]).to_string();
    let head = text.get(..text.floor_char_boundary(MAX_RESULT)).unwrap_or_default();
    let mut cut = Map::new();
    cut.insert("sluicegate_cut".to_owned(), Value::Bool(true));
    cut.insert("bytes".to_owned(), text.len().into());
    cut.insert("digest".to_owned(), digest.into());
    cut.insert("begins_with".to_owned(), head.into());
    codec::json(&cut)
}

/// Start-up found it executing: whether it ran is not known.
pub(crate) fn lost(call: CallId) -> AuditEvent {
    AuditEvent::new(EventKind::ExecutionUnknown, Some(call), actor::RESTART)
        .fact("code", ReasonCode::OutcomeLost.as_str())
}

pub(crate) fn reconciled(unknown: usize, orphaned: usize) -> AuditEvent {
    AuditEvent::new(EventKind::Reconciled, None, actor::RESTART)
        .fact("unknown", unknown)
        .fact("orphaned", orphaned)
}

pub(crate) fn resolved(call: CallId, happened: bool, by: &PersonId, note: &str) -> AuditEvent {
    AuditEvent::new(EventKind::ExecutionResolved, Some(call), by.as_str())
        .fact("happened", happened)
        .payload("note", note)
}

/// What differs between two revisions, by rule id.
pub(crate) struct PolicyDifference {
    pub(crate) added: Vec<RuleId>,
    pub(crate) removed: Vec<RuleId>,
    pub(crate) changed: Vec<RuleId>,
    pub(crate) tiers_changed: bool,
    pub(crate) tests_changed: bool,
}

/// A new revision and where it came from.
pub(crate) struct PolicyChange<'a> {
    pub(crate) revision: RevisionId,
    pub(crate) digest: &'a str,
    pub(crate) previous: Option<&'a str>,
    pub(crate) difference: &'a PolicyDifference,
    pub(crate) source: &'a str,
    pub(crate) author: &'a str,
    pub(crate) reason: &'a str,
    pub(crate) remarks: &'a PolicyRemarks,
}

pub(crate) fn policy_changed(change: &PolicyChange<'_>) -> AuditEvent {
    let event = AuditEvent::new(EventKind::PolicyChanged, None, change.author)
        .fact("revision", change.revision.0)
        .fact("digest", change.digest)
        .fact("source", change.source)
        .fact("added", words(&change.difference.added))
        .fact("removed", words(&change.difference.removed))
        .fact("changed", words(&change.difference.changed))
        .fact("tiers_changed", change.difference.tiers_changed)
        .fact("tests_changed", change.difference.tests_changed)
        .fact("loosens", change.remarks.looser > 0)
        .fact("overridden_tests", words(&change.remarks.overridden))
        .payload("note", change.reason);
    maybe(event, "previous", change.previous)
}

/// `refused` is the digest of the text, and `kept` that of the document that stays in force.
pub(crate) fn policy_rejected(
    source: &str,
    author: &str,
    refused: Option<&Digest>,
    kept: Option<(RevisionId, String)>,
    why: &str,
) -> AuditEvent {
    let event =
        AuditEvent::new(EventKind::PolicyRejected, None, author).fact("source", source).payload("note", why);
    let event = maybe(event, "refused_digest", refused.map(Digest::to_string));
    match kept {
        Some((revision, digest)) => event.fact("revision", revision.0).fact("digest", digest),
        None => event,
    }
}

pub(crate) fn person_added(person: &PersonId, role: &str, by: &str) -> AuditEvent {
    AuditEvent::new(EventKind::PersonChanged, None, by)
        .fact("person", person.as_str())
        .fact("role", role)
        .fact("added", true)
}

/// The scope is a fact: it says what the key can reach, and no secret.
pub(crate) fn key_created(key: &Key, by: &str) -> AuditEvent {
    AuditEvent::new(EventKind::KeyCreated, None, by)
        .fact("key", key.name.as_str())
        .fact("owner", key.owner.as_str())
        .fact("servers", words(&key.scope.servers))
        .fact("tools", words(&key.scope.tools))
        .fact("tiers", words(&key.scope.tiers))
        .fact("audit_read", key.audit_read)
}

pub(crate) fn key_revoked(name: &KeyName, by: &str) -> AuditEvent {
    AuditEvent::new(EventKind::KeyRevoked, None, by).fact("key", name.as_str())
}

pub(crate) fn signed_in(person: &PersonId) -> AuditEvent {
    AuditEvent::new(EventKind::SignedIn, None, person.as_str()).fact("by", "one_time_link")
}

pub(crate) fn sign_in_failed(person: Option<&PersonId>, why: &str) -> AuditEvent {
    let event = AuditEvent::new(EventKind::SignInFailed, None, actor::GATEWAY)
        .fact("by", "one_time_link")
        .fact("why", why);
    maybe(event, "person", person.map(PersonId::as_str))
}

pub(crate) fn everybody_signed_out(by: &PersonId, sessions: u64) -> AuditEvent {
    signed_out(by).fact("everybody", true).fact("sessions", sessions)
}

pub(crate) fn signed_out(person: &PersonId) -> AuditEvent {
    AuditEvent::new(EventKind::SignedOut, None, person.as_str())
}
