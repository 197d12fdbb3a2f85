//! Appending to the trail: the statements that the writer uses, and the handle for events that are no call's.

use crate::error::failed;
use crate::writer::Writer;
use sluicegate_gateway::StoreError;
use sluicegate_gateway::audit::{AuditEvent, AuditRow, EventKind, Payload};
use sqlx::sqlite::SqliteConnection;

/// Appends events that come with no other change of the store, such as `server_changed` or `model_failed`.
#[derive(Clone, Debug)]
pub struct AuditLog {
    writer: Writer,
}

impl AuditLog {
    pub(crate) fn new(writer: Writer) -> Self {
        Self { writer }
    }

    /// Appends one event, durably. Returns its sequence number.
    ///
    /// # Errors
    /// When it could not be recorded, and for the events of a call: those are written with the call's own change.
    pub async fn append(&self, event: AuditEvent) -> Result<i64, StoreError> {
        if is_of_a_call(event.kind) {
            return Err(StoreError::Unavailable(format!(
                "`{}` is recorded with the change of its call, not by itself",
                event.kind
            )));
        }
        self.writer.run(move |tx| Box::pin(async move { tx.record(&event) })).await
    }
}

fn is_of_a_call(kind: EventKind) -> bool {
    matches!(
        kind,
        EventKind::ToolRequested
            | EventKind::PolicyDecided
            | EventKind::ApprovalRequired
            | EventKind::ApprovalDecided
            | EventKind::ExecutionStarted
            | EventKind::ExecutionRetried
            | EventKind::ExecutionCompleted
            | EventKind::ExecutionFailed
            | EventKind::ExecutionUnknown
            | EventKind::ExecutionResolved
            | EventKind::Reconciled
    )
}

macro_rules! insert_rows {
    ($($values:literal),+) => {
        concat!(
            "INSERT INTO audit (seq, version, at_ms, kind, call, actor, facts, commitments, prev_hash, hash) VALUES ",
            $($values),+
        )
    };
}

/// Inserts up to three rows with one statement: so many has an allowed call.
pub(crate) async fn insert_rows(conn: &mut SqliteConnection, rows: &[AuditRow]) -> Result<(), StoreError> {
    let sql = match rows.len() {
        0 => return Ok(()),
        1 => insert_rows!("($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)"),
        2 => insert_rows!(
            "($1, $2, $3, $4, $5, $6, $7, $8, $9, $10), ",
            "($11, $12, $13, $14, $15, $16, $17, $18, $19, $20)"
        ),
        _ => insert_rows!(
            "($1, $2, $3, $4, $5, $6, $7, $8, $9, $10), ",
            "($11, $12, $13, $14, $15, $16, $17, $18, $19, $20), ",
            "($21, $22, $23, $24, $25, $26, $27, $28, $29, $30)"
        ),
    };
    let insert = rows.iter().fold(sqlx::query(sql), |insert, row| {
        insert
            .bind(row.seq)
            .bind(row.version)
            .bind(row.at_ms)
            .bind(row.kind.clone())
            .bind(row.call.clone())
            .bind(row.actor.clone())
            .bind(row.facts.clone())
            .bind(row.commitments.clone())
            .bind(row.prev_hash.clone())
            .bind(row.hash.clone())
    });
    insert.execute(conn).await.map_err(failed)?;
    Ok(())
}

macro_rules! insert_payloads {
    ($($values:literal),+) => { concat!("INSERT INTO audit_payloads (seq, name, salt, text) VALUES ", $($values),+) };
}

/// Inserts up to four payloads with one statement.
pub(crate) async fn insert_payloads(
    conn: &mut SqliteConnection,
    payloads: &[(i64, Payload)],
) -> Result<(), StoreError> {
    let sql = match payloads.len() {
        0 => return Ok(()),
        1 => insert_payloads!("($1, $2, $3, $4)"),
        2 => insert_payloads!("($1, $2, $3, $4), ($5, $6, $7, $8)"),
        3 => insert_payloads!("($1, $2, $3, $4), ($5, $6, $7, $8), ($9, $10, $11, $12)"),
        _ => {
            insert_payloads!("($1, $2, $3, $4), ($5, $6, $7, $8), ($9, $10, $11, $12), ($13, $14, $15, $16)")
        }
    };
    let insert = payloads.iter().fold(sqlx::query(sql), |insert, (seq, payload)| {
        insert.bind(*seq).bind(payload.name.clone()).bind(payload.salt.clone()).bind(payload.text.clone())
    });
    insert.execute(conn).await.map_err(failed)?;
    Ok(())
}
