//! Calls and held calls, for pages.

use crate::audit_reader::{payloads_of_call, rows_of_call};
use crate::call_row::{CallRow, Evaluation, RawCall, evaluations, select_calls};
use crate::calls::{find_approval, load_approval};
use crate::codec;
use crate::error::failed;
use crate::page::{Page, rows_to_read};
use sluicegate_gateway::audit::{AuditRow, Payload};
use sluicegate_gateway::{ApprovalId, CallId, StoreError, StoredApproval};
use sluicegate_policy::ConversationId;
use sqlx::sqlite::{SqliteConnection, SqlitePool};

/// Held calls that one page shows at most.
const MAX_PENDING: i64 = 500;

/// Reads calls and held calls. It changes nothing.
#[derive(Clone, Debug)]
pub struct CallReader {
    reads: SqlitePool,
}

/// One call's whole story.
#[derive(Clone, Debug)]
pub struct CallStory {
    /// The call.
    pub call: CallRow,
    /// Its evaluations, in order.
    pub evaluations: Vec<Evaluation>,
    /// The approval that held it, with the votes on its present version.
    pub approval: Option<StoredApproval>,
    /// Its rows of the trail, in order.
    pub trail: Vec<AuditRow>,
    /// Payloads that are still stored, by row of the trail: `arguments`, `context`, `decision`, `result`, `note`.
    pub payloads: Vec<(i64, Payload)>,
}

/// A held call: everything its card shows.
#[derive(Clone, Debug)]
pub struct PendingCall {
    /// The approval, with terms, votes and time limit.
    pub approval: StoredApproval,
    /// The call, with its arguments.
    pub call: CallRow,
    /// The evaluation that holds it: context, decision and sentence.
    pub evaluation: Option<Evaluation>,
}

impl CallReader {
    pub(crate) fn new(reads: SqlitePool) -> Self {
        Self { reads }
    }

    pub(crate) fn reads(&self) -> &SqlitePool {
        &self.reads
    }

    /// One call's whole story, from one snapshot; `None` if there is no such call.
    ///
    /// # Errors
    /// When it cannot be read.
    pub async fn call(&self, id: CallId) -> Result<Option<CallStory>, StoreError> {
        let mut snapshot = self.reads.begin().await.map_err(failed)?;
        let story = story(&mut snapshot, id).await;
        snapshot.commit().await.map_err(failed)?;
        story
    }

    /// The calls of a conversation, oldest first; the next page begins after [`Page::next`].
    ///
    /// # Errors
    /// When they cannot be read.
    pub async fn calls_of(
        &self,
        conversation: &ConversationId,
        after: Option<i64>,
        limit: u32,
    ) -> Result<Page<CallRow>, StoreError> {
        let rows: Vec<RawCall> = sqlx::query_as(select_calls!(
            "WHERE c.conversation = $1 AND c.requested_seq > $2 ORDER BY c.requested_seq LIMIT $3"
        ))
        .bind(conversation.as_str())
        .bind(after.unwrap_or_default())
        .bind(rows_to_read(limit))
        .fetch_all(&self.reads)
        .await
        .map_err(failed)?;
        page(rows, limit)
    }

    /// Held calls that wait for a person, the one that ends first at the top; at most 500.
    ///
    /// # Errors
    /// When they cannot be read.
    pub async fn pending(&self) -> Result<Vec<PendingCall>, StoreError> {
        let mut snapshot = self.reads.begin().await.map_err(failed)?;
        let pending = pending(&mut snapshot).await;
        snapshot.commit().await.map_err(failed)?;
        pending
    }

    /// How many held calls wait for a person.
    ///
    /// # Errors
    /// When they cannot be counted.
    pub async fn pending_count(&self) -> Result<u64, StoreError> {
        let count: i64 = sqlx::query_scalar("SELECT count(*) FROM approvals WHERE status = 'pending'")
            .fetch_one(&self.reads)
            .await
            .map_err(failed)?;
        Ok(codec::unsigned(count))
    }

    /// A held call whatever became of it; `None` if there is no such approval.
    ///
    /// # Errors
    /// When it cannot be read.
    pub async fn held(&self, id: ApprovalId) -> Result<Option<PendingCall>, StoreError> {
        let mut snapshot = self.reads.begin().await.map_err(failed)?;
        let card = match find_approval(&mut snapshot, id).await {
            Ok(Some(held)) => card(&mut snapshot, held.approval).await.map(Some),
            Ok(None) => Ok(None),
            Err(error) => Err(error),
        };
        snapshot.commit().await.map_err(failed)?;
        card
    }

    /// Approvals that are decided, the latest first.
    ///
    /// # Errors
    /// When they cannot be read.
    pub async fn decided(&self, limit: u32) -> Result<Vec<PendingCall>, StoreError> {
        let mut snapshot = self.reads.begin().await.map_err(failed)?;
        let decided = decided(&mut snapshot, limit).await;
        snapshot.commit().await.map_err(failed)?;
        decided
    }
}

fn page(rows: Vec<RawCall>, limit: u32) -> Result<Page<CallRow>, StoreError> {
    let rows = rows.into_iter().map(RawCall::read).collect::<Result<Vec<_>, _>>()?;
    Ok(Page::cut(rows, limit, |call| call.requested_seq))
}

async fn row(conn: &mut SqliteConnection, id: CallId) -> Result<Option<CallRow>, StoreError> {
    let raw: Option<RawCall> = sqlx::query_as(select_calls!("WHERE c.id = $1"))
        .bind(id.to_string())
        .fetch_optional(conn)
        .await
        .map_err(failed)?;
    raw.map(RawCall::read).transpose()
}

async fn story(conn: &mut SqliteConnection, id: CallId) -> Result<Option<CallStory>, StoreError> {
    let Some(call) = row(conn, id).await? else { return Ok(None) };
    let approval: Option<String> = sqlx::query_scalar("SELECT id FROM approvals WHERE call = $1")
        .bind(id.to_string())
        .fetch_optional(&mut *conn)
        .await
        .map_err(failed)?;
    let approval = match codec::maybe(approval.as_deref(), codec::approval_id)? {
        Some(id) => Some(load_approval(conn, id).await?.approval),
        None => None,
    };
    Ok(Some(CallStory {
        call,
        evaluations: evaluations(conn, id).await?,
        approval,
        trail: rows_of_call(conn, id).await?,
        payloads: payloads_of_call(conn, id).await?,
    }))
}

async fn pending(conn: &mut SqliteConnection) -> Result<Vec<PendingCall>, StoreError> {
    let ids: Vec<String> = sqlx::query_scalar(
        "SELECT id FROM approvals WHERE status = 'pending' ORDER BY began_wall_ms + limit_ms, id LIMIT $1",
    )
    .bind(MAX_PENDING)
    .fetch_all(&mut *conn)
    .await
    .map_err(failed)?;
    cards(conn, ids).await
}

async fn decided(conn: &mut SqliteConnection, limit: u32) -> Result<Vec<PendingCall>, StoreError> {
    let ids: Vec<String> = sqlx::query_scalar(
        "SELECT id FROM approvals WHERE decided_ms IS NOT NULL ORDER BY decided_ms DESC, id DESC LIMIT $1",
    )
    .bind(i64::from(limit).min(MAX_PENDING))
    .fetch_all(&mut *conn)
    .await
    .map_err(failed)?;
    cards(conn, ids).await
}

async fn cards(conn: &mut SqliteConnection, ids: Vec<String>) -> Result<Vec<PendingCall>, StoreError> {
    let mut cards = Vec::with_capacity(ids.len());
    for id in ids {
        let held = load_approval(conn, codec::approval_id(&id)?).await?;
        cards.push(card(conn, held.approval).await?);
    }
    Ok(cards)
}

async fn card(conn: &mut SqliteConnection, approval: StoredApproval) -> Result<PendingCall, StoreError> {
    let call = row(conn, approval.call).await?.ok_or_else(|| {
        StoreError::Corrupt(format!("the call of the approval `{}` is missing", approval.id))
    })?;
    let evaluation = evaluations(conn, approval.call).await?.pop();
    Ok(PendingCall { approval, call, evaluation })
}
