//! Held calls: reading an approval, voting on it, and closing it without a vote.

use super::record::{Moved, decide, end};
use crate::codec;
use crate::error::failed;
use crate::events::{self, actor};
use crate::feed::Change;
use crate::writer::Tx;
use sluicegate_gateway::audit::AuditEvent;
use sluicegate_gateway::{
    ApprovalId, ApprovalStatus, ApprovalTerms, CallState, Clocks, Closed, Closing, Quorum, ReasonCode, Stamp,
    StoreError, StoredApproval, Verdict, Vote, VoteCast, VoteOutcome, quorum,
};
use sluicegate_policy::{ConversationId, Role};
use sqlx::sqlite::SqliteConnection;

/// An approval with what is needed of its call.
pub(crate) struct HeldCall {
    pub(crate) approval: StoredApproval,
    pub(crate) state: CallState,
    pub(crate) conversation: Option<ConversationId>,
}

impl HeldCall {
    /// The move of its call to another state.
    pub(super) fn to(&self, to: CallState) -> Moved<'_> {
        Moved { call: self.approval.call, conversation: self.conversation.as_ref(), from: self.state, to }
    }
}

#[derive(sqlx::FromRow)]
struct RawApproval {
    call: String,
    status: String,
    version: i64,
    action: String,
    roles: String,
    approvers: i64,
    began_wall_ms: i64,
    began_boot_ms: i64,
    boot: String,
    limit_ms: i64,
    asked_by: String,
    decided_ms: Option<i64>,
    decided_by: Option<String>,
    note: Option<String>,
    detached_ms: Option<i64>,
    state: String,
    conversation: Option<String>,
}

/// Reads an approval with its votes; `None` if there is none.
pub(crate) async fn load_if_any(
    conn: &mut SqliteConnection,
    id: ApprovalId,
) -> Result<Option<HeldCall>, StoreError> {
    let raw: Option<RawApproval> = sqlx::query_as(
        "SELECT p.call, p.status, p.version, p.action, p.roles, p.approvers, p.began_wall_ms, p.began_boot_ms, p.boot, \
         p.limit_ms, p.asked_by, p.decided_ms, p.decided_by, p.note, p.detached_ms, c.state, c.conversation \
         FROM approvals p JOIN calls c ON c.id = p.call WHERE p.id = $1",
    )
    .bind(id.to_string())
    .fetch_optional(&mut *conn)
    .await
    .map_err(failed)?;
    let Some(raw) = raw else { return Ok(None) };
    let votes: Vec<(String, String, String)> = sqlx::query_as(
        "SELECT person, role, verdict FROM votes WHERE approval = $1 AND version = $2 ORDER BY at_ms, person",
    )
    .bind(id.to_string())
    .bind(raw.version)
    .fetch_all(conn)
    .await
    .map_err(failed)?;
    let votes = votes
        .iter()
        .map(|(person, role, verdict)| {
            Ok(Vote {
                person: codec::person(person)?,
                role: codec::role(role)?,
                verdict: codec::verdict(verdict)?,
            })
        })
        .collect::<Result<_, StoreError>>()?;
    let approvers = u32::try_from(raw.approvers)
        .map_err(|_| codec::unreadable("a number of approvers", &raw.approvers.to_string()))?;
    let began = Clocks { wall_ms: raw.began_wall_ms, boot_ms: raw.began_boot_ms, boot: raw.boot.into() };
    Ok(Some(HeldCall {
        approval: StoredApproval {
            id,
            call: codec::call_id(&raw.call)?,
            status: codec::approval_status(&raw.status)?,
            version: raw.version,
            action: codec::action(&raw.action)?,
            terms: ApprovalTerms { roles: codec::from_json(&raw.roles)?, approvers },
            stamp: Stamp { began, limit_ms: raw.limit_ms },
            votes,
            asked_by: codec::person(&raw.asked_by)?,
            decided_at_ms: raw.decided_ms,
            decided_by: raw.decided_by,
            note: raw.note,
            detached: raw.detached_ms.is_some(),
        },
        state: codec::call_state(&raw.state)?,
        conversation: codec::maybe(raw.conversation.as_deref(), codec::conversation)?,
    }))
}

/// Reads an approval that must be there.
pub(crate) async fn load(conn: &mut SqliteConnection, id: ApprovalId) -> Result<HeldCall, StoreError> {
    load_if_any(conn, id).await?.ok_or_else(|| StoreError::Corrupt(format!("there is no approval `{id}`")))
}

pub(super) async fn vote(tx: &mut Tx, cast: &VoteCast) -> Result<VoteOutcome, StoreError> {
    let Some(held) = load_if_any(tx.conn(), cast.approval).await? else { return Ok(VoteOutcome::NotFound) };
    if held.approval.status != ApprovalStatus::Pending {
        return Ok(VoteOutcome::AlreadyDecided(held.approval));
    }
    if held.approval.stamp.passed(tx.now()) {
        expire(tx, &held).await?;
        return Ok(VoteOutcome::Expired(load(tx.conn(), cast.approval).await?.approval));
    }
    if held.approval.version != cast.version {
        return Ok(VoteOutcome::Stale(held.approval));
    }
    if let Err(why) = may_vote(&held.approval, &cast.vote) {
        return Ok(VoteOutcome::NotAllowed(held.approval, why));
    }
    let now = tx.now_ms();
    sqlx::query(
        "INSERT INTO votes (approval, version, person, role, verdict, at_ms) VALUES ($1, $2, $3, $4, $5, $6) \
         ON CONFLICT (approval, version, person) DO UPDATE SET role = $4, verdict = $5, at_ms = $6",
    )
    .bind(cast.approval.to_string())
    .bind(cast.version)
    .bind(cast.vote.person.as_str())
    .bind(cast.vote.role.as_str())
    .bind(cast.vote.verdict.as_str())
    .bind(now)
    .execute(tx.conn())
    .await
    .map_err(failed)?;
    let voted = load(tx.conn(), cast.approval).await?.approval;
    let reached = quorum(&voted.terms, &voted.votes, &voted.asked_by);
    let status = match reached {
        Quorum::Denied => ApprovalStatus::Denied,
        Quorum::Met => ApprovalStatus::Approved,
        Quorum::Open { .. } => ApprovalStatus::Pending,
    };
    let by = cast.vote.person.as_str();
    let event = events::approval_decided(voted.call, voted.id, voted.version, status, by);
    let event = events::voted(event, cast.vote.verdict, cast.vote.role.as_str(), cast.note.as_deref());
    match reached {
        Quorum::Denied => {
            let decided = Decided { status, by, note: cast.note.as_deref(), event };
            leave(tx, &held, &decided).await?;
            end(tx, &held.to(CallState::Denied), ReasonCode::DeniedByPerson, &format!("{by} refused it"))
                .await?;
        }
        Quorum::Met => {
            let decided = Decided { status, by, note: cast.note.as_deref(), event };
            leave(tx, &held, &decided).await?;
            decide(tx, &held.to(CallState::Approved)).await?;
        }
        Quorum::Open { .. } => {
            tx.record(&event)?;
            tx.publish(Change::Approval { approval: voted.id, call: voted.call });
            return Ok(VoteOutcome::Counted(voted));
        }
    }
    Ok(VoteOutcome::Decided(load(tx.conn(), cast.approval).await?.approval))
}

/// Who may answer what. A no is allowed to everyone who may decide held calls: it runs nothing.
fn may_vote(approval: &StoredApproval, vote: &Vote) -> Result<(), &'static str> {
    if !matches!(vote.role, Role::Approver | Role::Admin) {
        return Err("only people with the role approver or admin may decide held calls");
    }
    let earlier = approval.votes.iter().find(|earlier| earlier.person == vote.person);
    match (vote.verdict, earlier) {
        (Verdict::Deny, Some(Vote { verdict: Verdict::Deny, .. })) => Err("you have already refused it"),
        // A yes can be taken back as long as the call is held.
        (Verdict::Deny, _) => Ok(()),
        (Verdict::Approve, Some(_)) => Err("you have already answered it; others must answer too"),
        (Verdict::Approve, None) => {
            let terms = &approval.terms;
            if terms.approvers >= 2 && vote.person == approval.asked_by {
                return Err("whoever asked for a call may not approve it where two people must");
            }
            let named =
                terms.roles.is_empty() || vote.role == Role::Admin || terms.roles.contains(&vote.role);
            if !named && terms.approvers < 2 {
                return Err("the rule asks for a person of another role");
            }
            Ok(())
        }
    }
}

pub(super) async fn close(tx: &mut Tx, id: ApprovalId, closing: Closing) -> Result<Closed, StoreError> {
    let held = load(tx.conn(), id).await?;
    let (id, call, version) = (held.approval.id, held.approval.call, held.approval.version);
    let open = match held.approval.status {
        ApprovalStatus::Pending => true,
        ApprovalStatus::Approved => closing != Closing::Expired,
        _ => false,
    };
    if !open || (closing == Closing::Expired && !held.approval.stamp.passed(tx.now())) {
        return Ok(Closed::Lost(Box::new(held.approval)));
    }
    // An approval that was given and is not used is void, whatever the reason.
    let status = |pending| {
        if held.approval.status == ApprovalStatus::Pending { pending } else { ApprovalStatus::Void }
    };
    match closing {
        Closing::Expired => expire(tx, &held).await?,
        Closing::Withdrawn => {
            let status = status(ApprovalStatus::Withdrawn);
            let event = events::approval_decided(call, id, version, status, actor::CALLER);
            let event = events::because(event, ReasonCode::Withdrawn);
            leave(tx, &held, &Decided { status, by: actor::CALLER, note: None, event }).await?;
            end(tx, &held.to(CallState::Withdrawn), ReasonCode::Withdrawn, "whoever asked for it went away")
                .await?;
        }
        Closing::ToolChanged => {
            let status = status(ApprovalStatus::Denied);
            let event = events::approval_decided(call, id, version, status, actor::POLICY);
            let event = events::because(event, ReasonCode::ToolChanged);
            leave(tx, &held, &Decided { status, by: actor::POLICY, note: None, event }).await?;
            end(tx, &held.to(CallState::Denied), ReasonCode::ToolChanged, "the tool changed or went away")
                .await?;
        }
    }
    Ok(Closed::Won)
}

pub(super) async fn expire(tx: &mut Tx, held: &HeldCall) -> Result<(), StoreError> {
    let approval = &held.approval;
    let status = ApprovalStatus::Expired;
    let event = events::approval_decided(approval.call, approval.id, approval.version, status, actor::TIMER);
    let event = events::because(event, ReasonCode::Expired);
    leave(tx, held, &Decided { status, by: actor::TIMER, note: None, event }).await?;
    end(tx, &held.to(CallState::Expired), ReasonCode::Expired, "nobody decided about it in time").await
}

/// What an approval becomes, by whose word, and the event that says so.
pub(super) struct Decided<'a> {
    pub(super) status: ApprovalStatus,
    pub(super) by: &'a str,
    pub(super) note: Option<&'a str>,
    pub(super) event: AuditEvent,
}

/// The conditional update that decides every race: an approval leaves its status once.
pub(super) async fn leave(tx: &mut Tx, held: &HeldCall, decided: &Decided<'_>) -> Result<(), StoreError> {
    let approval = &held.approval;
    let now = tx.now_ms();
    let done = sqlx::query(
        "UPDATE approvals SET status = $1, decided_ms = $2, decided_by = $3, note = coalesce($4, note) \
         WHERE id = $5 AND status = $6 AND version = $7",
    )
    .bind(decided.status.as_str())
    .bind(now)
    .bind(decided.by.to_owned())
    .bind(decided.note.map(str::to_owned))
    .bind(approval.id.to_string())
    .bind(approval.status.as_str())
    .bind(approval.version)
    .execute(tx.conn())
    .await
    .map_err(failed)?;
    if done.rows_affected() != 1 {
        return Err(StoreError::Corrupt(format!(
            "the approval `{}` moved while it was being decided",
            approval.id
        )));
    }
    tx.record(&decided.event)?;
    tx.publish(Change::Approval { approval: approval.id, call: approval.call });
    Ok(())
}
