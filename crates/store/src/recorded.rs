//! The facts of recorded calls, for judging them again by other rules.

use crate::call_reader::CallReader;
use crate::codec;
use crate::error::failed;
use sluicegate_gateway::{CallId, StoreError};
use sluicegate_policy::PolicyContext;

/// A call as it was when it was first judged.
#[derive(Clone, Debug)]
pub struct RecordedCall {
    /// Its id.
    pub id: CallId,
    /// When it was asked for; wall clock in milliseconds.
    pub at_ms: i64,
    /// The facts of its first evaluation.
    pub context: PolicyContext,
    /// Whether it began to run in the end.
    pub ran: bool,
}

impl CallReader {
    /// The latest calls that the rules judged, at most so many, oldest first. One whose facts were erased, or written by a
    /// version of the program whose facts this one does not know, is left out.
    ///
    /// # Errors
    /// When they cannot be read.
    pub async fn recorded(&self, limit: u32) -> Result<Vec<RecordedCall>, StoreError> {
        let rows: Vec<(String, i64, Option<i64>, String)> = sqlx::query_as(
            "SELECT c.id, c.requested_ms, c.started_ms, p.text FROM calls c \
             JOIN evaluations e ON e.call = c.id AND e.n = 1 \
             JOIN audit_payloads p ON p.seq = e.seq AND p.name = 'context' \
             ORDER BY c.requested_seq DESC LIMIT $1",
        )
        .bind(i64::from(limit))
        .fetch_all(self.reads())
        .await
        .map_err(failed)?;
        let mut calls = Vec::with_capacity(rows.len());
        for (id, at_ms, started_ms, text) in rows.into_iter().rev() {
            if let Ok(context) = serde_json::from_str(&text) {
                calls.push(RecordedCall {
                    id: codec::call_id(&id)?,
                    at_ms,
                    context,
                    ran: started_ms.is_some(),
                });
            }
        }
        Ok(calls)
    }
}
