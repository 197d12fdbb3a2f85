//! Held calls that outlive their callers: let go, taken up again after a restart, collected once.

use super::approval::load;
use crate::codec;
use crate::error::failed;
use crate::feed::Change;
use crate::writer::Tx;
use serde_json::Value;
use sluicegate_gateway::{
    ApprovalId, ApprovalStatus, CallAnswer, CallId, CallState, Caller, DetachedCall, DetachedCalls,
    KeptAnswer, ReasonCode, Refusal, StoreError, ToolOutput,
};
use sluicegate_policy::{Arguments, Principal, ServerName, Tier, ToolName, ToolRef};
use sqlx::sqlite::SqliteConnection;

/// How long the result of a detached call can be collected.
const KEEP_MS: i64 = 600_000;
/// Results that are taken up after a restart.
const MAX_KEPT: i64 = 256;

pub(super) async fn detach(tx: &mut Tx, id: ApprovalId) -> Result<bool, StoreError> {
    let held = load(tx.conn(), id).await?.approval;
    let open = matches!(held.status, ApprovalStatus::Pending | ApprovalStatus::Approved);
    if !open || (held.status == ApprovalStatus::Pending && held.stamp.passed(tx.now())) {
        return Ok(false);
    }
    let now = tx.now_ms();
    sqlx::query("UPDATE approvals SET detached_ms = coalesce(detached_ms, $1) WHERE id = $2")
        .bind(now)
        .bind(id.to_string())
        .execute(tx.conn())
        .await
        .map_err(failed)?;
    tx.publish(Change::Approval { approval: id, call: held.call });
    Ok(true)
}

pub(super) async fn collected(tx: &mut Tx, call: CallId) -> Result<(), StoreError> {
    let now = tx.now_ms();
    sqlx::query(
        "UPDATE approvals SET collected_ms = $1 WHERE call = $2 AND detached_ms IS NOT NULL AND collected_ms IS NULL",
    )
    .bind(now)
    .bind(call.to_string())
    .execute(tx.conn())
    .await
    .map_err(failed)?;
    Ok(())
}

#[derive(sqlx::FromRow)]
struct RawCall {
    approval: String,
    call: String,
    server: String,
    tool: String,
    tier: Option<String>,
    server_identity: String,
    definition: String,
    caller: String,
    role: String,
    owner: String,
    origin: String,
    conversation: Option<String>,
    arguments: String,
}

#[derive(sqlx::FromRow)]
struct RawEnd {
    call: String,
    caller: String,
    action: String,
    state: String,
    code: Option<String>,
    sentence: String,
    began_wall_ms: i64,
    ended_ms: i64,
    result: Option<String>,
}

pub(super) async fn left(conn: &mut SqliteConnection, now_ms: i64) -> Result<DetachedCalls, StoreError> {
    let rows: Vec<RawCall> = sqlx::query_as(
        "SELECT p.id AS approval, p.call, c.server, c.tool, c.tier, c.server_identity, c.definition, c.caller, c.role, c.owner, \
         c.origin, c.conversation, a.text AS arguments FROM approvals p JOIN calls c ON c.id = p.call \
         JOIN audit_payloads a ON a.seq = c.requested_seq AND a.name = 'arguments' \
         WHERE p.status IN ('pending', 'approved') AND p.detached_ms IS NOT NULL ORDER BY p.began_wall_ms, p.id",
    )
    .fetch_all(&mut *conn)
    .await
    .map_err(failed)?;
    let mut open = Vec::with_capacity(rows.len());
    for row in rows {
        open.push(row.read(conn).await?);
    }
    let rows: Vec<RawEnd> = sqlx::query_as(
        "SELECT p.call, c.caller, p.action, c.state, c.code, c.sentence, p.began_wall_ms, c.ended_ms, (SELECT r.text FROM audit t \
         JOIN audit_payloads r ON r.seq = t.seq AND r.name = 'result' WHERE t.call = c.id ORDER BY t.seq DESC LIMIT 1) \
         AS result FROM approvals p JOIN calls c ON c.id = p.call WHERE p.detached_ms IS NOT NULL \
         AND p.collected_ms IS NULL AND c.ended_ms > $1 ORDER BY c.ended_ms DESC LIMIT $2",
    )
    .bind(now_ms.saturating_sub(KEEP_MS))
    .bind(MAX_KEPT)
    .fetch_all(conn)
    .await
    .map_err(failed)?;
    let kept = rows.into_iter().map(RawEnd::read).collect::<Result<_, _>>()?;
    Ok(DetachedCalls { open, kept })
}

impl RawCall {
    async fn read(self, conn: &mut SqliteConnection) -> Result<DetachedCall, StoreError> {
        let server = ServerName::new(&self.server).map_err(|error| StoreError::Corrupt(error.to_string()))?;
        let tool = ToolName::new(&self.tool).map_err(|error| StoreError::Corrupt(error.to_string()))?;
        Ok(DetachedCall {
            call: codec::call_id(&self.call)?,
            approval: load(conn, codec::approval_id(&self.approval)?).await?.approval,
            tool: ToolRef::new(server, tool),
            tier: codec::maybe(self.tier.as_deref(), codec::tier)?.unwrap_or(Tier::High),
            server: codec::digest(&self.server_identity)?,
            definition: codec::digest(&self.definition)?,
            caller: Caller {
                principal: Principal { caller: codec::caller(&self.caller)?, role: codec::role(&self.role)? },
                owner: codec::person(&self.owner)?,
            },
            origin: codec::origin(&self.origin)?,
            conversation: codec::maybe(self.conversation.as_deref(), codec::conversation)?,
            arguments: Arguments::from_json(&self.arguments)
                .map_err(|error| StoreError::Corrupt(error.to_string()))?,
        })
    }
}

impl RawEnd {
    fn read(self) -> Result<KeptAnswer, StoreError> {
        let result: Option<Value> = self.result.as_deref().map(codec::from_json).transpose()?;
        let whole = result.as_ref().is_none_or(|result| result.get("sluicegate_cut").is_none());
        let state = codec::call_state(&self.state)?;
        let output = result.filter(|_| whole).map(|result| {
            let is_error = result.get("isError").and_then(Value::as_bool).unwrap_or(false);
            ToolOutput { result, is_error }
        });
        let code = codec::maybe(self.code.as_deref(), codec::reason_code)?;
        let refusal = (state != CallState::Completed).then(|| Refusal {
            code: code.unwrap_or(ReasonCode::OutcomeLost),
            sentence: self.sentence,
            retryable: false,
            rules: Vec::new(),
        });
        Ok(KeptAnswer {
            action: codec::action(&self.action)?,
            caller: codec::caller(&self.caller)?,
            answer: CallAnswer { call: codec::call_id(&self.call)?, state, refusal, output },
            asked_ms: self.began_wall_ms,
            ended_ms: self.ended_ms,
            whole,
        })
    }
}
