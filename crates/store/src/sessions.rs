//! Browser sessions: opaque data by id. The id is kept as its digest.

use crate::error::failed;
use crate::events;
use crate::people::People;
use sluicegate_gateway::{Digest, PersonId, StoreError};

pub(crate) fn id_digest(id: &str) -> String {
    Digest::of("sluicegate/session/1", &[id.as_bytes()]).to_string()
}

impl People {
    /// Keeps a new session until `expires_ms`. `false` if the id is taken: choose another. Sessions whose time is
    /// over are removed on the way.
    ///
    /// # Errors
    /// When it could not be recorded.
    pub async fn create_session(&self, id: &str, data: Vec<u8>, expires_ms: i64) -> Result<bool, StoreError> {
        let id = id_digest(id);
        self.writer()
            .run(move |tx| {
                Box::pin(async move {
                    let now = tx.now_ms();
                    sqlx::query("DELETE FROM sessions WHERE expires_ms <= $1")
                        .bind(now)
                        .execute(tx.conn())
                        .await
                        .map_err(failed)?;
                    let done = sqlx::query(
                        "INSERT INTO sessions (id_digest, data, expires_ms) VALUES ($1, $2, $3) \
                         ON CONFLICT (id_digest) DO NOTHING",
                    )
                    .bind(id)
                    .bind(data)
                    .bind(expires_ms)
                    .execute(tx.conn())
                    .await
                    .map_err(failed)?;
                    Ok(done.rows_affected() == 1)
                })
            })
            .await
    }

    /// Keeps a session's present data. One that was ended meanwhile stays ended.
    ///
    /// # Errors
    /// When it could not be recorded.
    pub async fn save_session(&self, id: &str, data: Vec<u8>, expires_ms: i64) -> Result<(), StoreError> {
        let id = id_digest(id);
        self.writer()
            .run(move |tx| {
                Box::pin(async move {
                    sqlx::query("UPDATE sessions SET data = $1, expires_ms = $2 WHERE id_digest = $3")
                        .bind(data)
                        .bind(expires_ms)
                        .bind(id)
                        .execute(tx.conn())
                        .await
                        .map_err(failed)?;
                    Ok(())
                })
            })
            .await
    }

    /// A session's data; `None` if there is none, or its time is over.
    ///
    /// # Errors
    /// When it cannot be read.
    pub async fn load_session(&self, id: &str) -> Result<Option<Vec<u8>>, StoreError> {
        sqlx::query_scalar("SELECT data FROM sessions WHERE id_digest = $1 AND expires_ms > $2")
            .bind(id_digest(id))
            .bind(self.now_ms())
            .fetch_optional(self.reads())
            .await
            .map_err(failed)
    }

    /// Removes a session.
    ///
    /// # Errors
    /// When it could not be recorded.
    pub async fn delete_session(&self, id: &str) -> Result<(), StoreError> {
        let id = id_digest(id);
        self.writer()
            .run(move |tx| {
                Box::pin(async move {
                    sqlx::query("DELETE FROM sessions WHERE id_digest = $1")
                        .bind(id)
                        .execute(tx.conn())
                        .await
                        .map_err(failed)?;
                    Ok(())
                })
            })
            .await
    }

    /// Removes every session: everybody must sign in again. Records `signed_out` with their number.
    ///
    /// # Errors
    /// When it could not be recorded: then every session lives on.
    pub async fn sign_out_everybody(&self, by: &PersonId) -> Result<(), StoreError> {
        let by = by.clone();
        self.writer()
            .run(move |tx| {
                Box::pin(async move {
                    let ended =
                        sqlx::query("DELETE FROM sessions").execute(tx.conn()).await.map_err(failed)?;
                    tx.record(&events::everybody_signed_out(&by, ended.rows_affected())).map(|_| ())
                })
            })
            .await
    }
}
