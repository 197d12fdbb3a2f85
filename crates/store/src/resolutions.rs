//! Settling unknown outcomes, by an admin's word.

use crate::call_row::{DID_NOT_HAPPEN, HAPPENED};
use crate::codec;
use crate::error::failed;
use crate::events;
use crate::feed::Change;
use crate::writer::{Tx, Writer};
use sluicegate_gateway::{CallId, CallState, PersonId, StoreError};

/// Records what became of calls whose outcome was lost. Given to the admin's page.
#[derive(Clone, Debug)]
pub struct Resolutions {
    writer: Writer,
}

/// What became of an attempt to resolve.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ResolutionOutcome {
    /// It is recorded. The call stays `unknown` and says what is known now.
    Recorded,
    /// Somebody was first.
    AlreadyResolved,
    /// Its outcome is not unknown; it is in this state.
    NotUnknown(CallState),
    /// There is no such call.
    NotFound,
}

impl Resolutions {
    pub(crate) fn new(writer: Writer) -> Self {
        Self { writer }
    }

    /// Records that an unknown call did, or did not, do what it was asked.
    ///
    /// # Errors
    /// When it could not be recorded.
    pub async fn resolve_unknown(
        &self,
        call: CallId,
        happened: bool,
        note: &str,
        person: &PersonId,
    ) -> Result<ResolutionOutcome, StoreError> {
        let (note, person) = (note.to_owned(), person.clone());
        self.writer
            .run(move |tx| Box::pin(async move { resolve(tx, call, happened, &note, &person).await }))
            .await
    }
}

async fn resolve(
    tx: &mut Tx,
    call: CallId,
    happened: bool,
    note: &str,
    person: &PersonId,
) -> Result<ResolutionOutcome, StoreError> {
    let found: Option<(String, Option<String>, Option<String>)> =
        sqlx::query_as("SELECT state, resolution, conversation FROM calls WHERE id = $1")
            .bind(call.to_string())
            .fetch_optional(tx.conn())
            .await
            .map_err(failed)?;
    let Some((state, resolution, conversation)) = found else { return Ok(ResolutionOutcome::NotFound) };
    let state = codec::call_state(&state)?;
    if state != CallState::Unknown {
        return Ok(ResolutionOutcome::NotUnknown(state));
    }
    if resolution.is_some() {
        return Ok(ResolutionOutcome::AlreadyResolved);
    }
    let now = tx.now_ms();
    let done = sqlx::query(
        "UPDATE calls SET resolution = $1, resolved_by = $2, resolved_ms = $3 \
         WHERE id = $4 AND state = 'unknown' AND resolution IS NULL",
    )
    .bind(if happened { HAPPENED } else { DID_NOT_HAPPEN })
    .bind(person.as_str())
    .bind(now)
    .bind(call.to_string())
    .execute(tx.conn())
    .await
    .map_err(failed)?;
    if done.rows_affected() != 1 {
        return Ok(ResolutionOutcome::AlreadyResolved);
    }
    tx.record(&events::resolved(call, happened, person, note))?;
    let conversation = codec::maybe(conversation.as_deref(), codec::conversation)?;
    tx.publish(Change::Call { call, conversation });
    Ok(ResolutionOutcome::Recorded)
}
