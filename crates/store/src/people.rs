//! People and their one-time sign-in links.

use crate::codec;
use crate::error::failed;
use crate::events;
use crate::feed::Change;
use crate::writer::{Tx, Writer};
use sluicegate_gateway::{Clock, Digest, PersonId, StoreError};
use sluicegate_policy::Role;
use sqlx::sqlite::{SqliteConnection, SqlitePool};
use std::fmt::{self, Write as _};
use std::sync::Arc;

/// How long a sign-in link is good.
const LINK_MS: i64 = 10 * 60 * 1000;
/// The person that a new store has.
const FIRST_PERSON: &str = "admin";

/// Reads and writes people, their sign-in links and sessions.
#[derive(Clone, Debug)]
pub struct People {
    writer: Writer,
    reads: SqlitePool,
    clock: Arc<dyn Clock>,
}

/// A person.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Person {
    /// Their name.
    pub name: PersonId,
    /// What they may do.
    pub role: Role,
    /// Since when there is a record of them; wall clock in milliseconds.
    pub created_ms: i64,
}

/// A one-time sign-in link. The token is a secret; the store keeps only its digest.
#[derive(Clone)]
pub struct SignInLink {
    /// The token: 64 hexadecimal digits.
    pub token: String,
    /// When it stops being good; wall clock in milliseconds.
    pub expires_ms: i64,
}

impl fmt::Debug for SignInLink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SignInLink").field("expires_ms", &self.expires_ms).finish_non_exhaustive()
    }
}

/// What became of an attempt to sign in.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum SignIn {
    /// This person is signed in; the link is used up.
    SignedIn(Person),
    /// No, for this reason.
    Refused(&'static str),
}

impl People {
    pub(crate) fn new(writer: Writer, reads: SqlitePool, clock: Arc<dyn Clock>) -> Self {
        Self { writer, reads, clock }
    }

    pub(crate) fn writer(&self) -> &Writer {
        &self.writer
    }

    pub(crate) fn reads(&self) -> &SqlitePool {
        &self.reads
    }

    pub(crate) fn now_ms(&self) -> i64 {
        self.clock.now().wall_ms
    }

    /// Makes the first person of a new store.
    pub(crate) async fn first_person(&self) -> Result<(), StoreError> {
        self.writer.run(|tx| Box::pin(async move { first_person(tx).await })).await
    }

    /// One person; `None` if there is no such.
    ///
    /// # Errors
    /// When they cannot be read.
    pub async fn person(&self, name: &PersonId) -> Result<Option<Person>, StoreError> {
        let mut conn = self.reads.acquire().await.map_err(failed)?;
        person(&mut conn, name).await
    }

    /// Everybody, by name.
    ///
    /// # Errors
    /// When they cannot be read.
    pub async fn list(&self) -> Result<Vec<Person>, StoreError> {
        let rows: Vec<(String, String, i64)> =
            sqlx::query_as("SELECT name, role, created_ms FROM persons ORDER BY name LIMIT 1000")
                .fetch_all(&self.reads)
                .await
                .map_err(failed)?;
        rows.into_iter().map(read).collect()
    }

    /// Makes a one-time link for a person, good for 10 minutes; `None` if there is no such person. Earlier links stay
    /// good.
    ///
    /// # Errors
    /// When it could not be recorded.
    pub async fn create_link(&self, name: &PersonId) -> Result<Option<SignInLink>, StoreError> {
        let mut bytes = [0_u8; 32];
        getrandom::fill(&mut bytes)
            .map_err(|error| StoreError::Unavailable(format!("no random numbers: {error}")))?;
        let token = bytes.iter().fold(String::with_capacity(64), |mut token, byte| {
            // Writing to a String cannot fail.
            write!(token, "{byte:02x}").ok();
            token
        });
        let name = name.clone();
        self.writer.run(move |tx| Box::pin(async move { create_link(tx, &name, token).await })).await
    }

    /// Signs in with a link's token and uses it up, in one conditional update; `signed_in` or `sign_in_failed` is
    /// recorded in the same transaction.
    ///
    /// # Errors
    /// When it could not be recorded: then nobody is signed in.
    pub async fn sign_in(&self, token: &str) -> Result<SignIn, StoreError> {
        let digest = token_digest(token);
        self.writer.run(move |tx| Box::pin(async move { sign_in(tx, &digest).await })).await
    }

    /// Ends a session and records `signed_out`.
    ///
    /// # Errors
    /// When it could not be recorded: the session then lives on.
    pub async fn sign_out(&self, name: &PersonId, session: &str) -> Result<(), StoreError> {
        let (name, session) = (name.clone(), crate::sessions::id_digest(session));
        self.writer
            .run(move |tx| {
                Box::pin(async move {
                    sqlx::query("DELETE FROM sessions WHERE id_digest = $1")
                        .bind(session)
                        .execute(tx.conn())
                        .await
                        .map_err(failed)?;
                    tx.record(&events::signed_out(&name)).map(|_| ())
                })
            })
            .await
    }
}

fn token_digest(token: &str) -> String {
    Digest::of("sluicegate/sign-in-link/1", &[token.as_bytes()]).to_string()
}

fn read((name, role, created_ms): (String, String, i64)) -> Result<Person, StoreError> {
    Ok(Person { name: codec::person(&name)?, role: codec::role(&role)?, created_ms })
}

async fn person(conn: &mut SqliteConnection, name: &PersonId) -> Result<Option<Person>, StoreError> {
    let row: Option<(String, String, i64)> =
        sqlx::query_as("SELECT name, role, created_ms FROM persons WHERE name = $1")
            .bind(name.as_str())
            .fetch_optional(conn)
            .await
            .map_err(failed)?;
    row.map(read).transpose()
}

async fn first_person(tx: &mut Tx) -> Result<(), StoreError> {
    let anybody: bool = sqlx::query_scalar("SELECT EXISTS (SELECT 1 FROM persons)")
        .fetch_one(tx.conn())
        .await
        .map_err(failed)?;
    if anybody {
        return Ok(());
    }
    let name = codec::person(FIRST_PERSON)?;
    let now = tx.now_ms();
    sqlx::query("INSERT INTO persons (name, role, created_ms) VALUES ($1, $2, $3)")
        .bind(name.as_str())
        .bind(Role::Admin.as_str())
        .bind(now)
        .execute(tx.conn())
        .await
        .map_err(failed)?;
    tx.record(&events::person_added(&name, Role::Admin.as_str(), events::actor::GATEWAY))?;
    tx.publish(Change::People);
    Ok(())
}

async fn create_link(tx: &mut Tx, name: &PersonId, token: String) -> Result<Option<SignInLink>, StoreError> {
    if person(tx.conn(), name).await?.is_none() {
        return Ok(None);
    }
    let now = tx.now_ms();
    let expires_ms = now.saturating_add(LINK_MS);
    // Links of long ago say nothing any more.
    sqlx::query("DELETE FROM sign_in_links WHERE expires_ms <= $1")
        .bind(now.saturating_sub(LINK_MS))
        .execute(tx.conn())
        .await
        .map_err(failed)?;
    sqlx::query(
        "INSERT INTO sign_in_links (token_digest, person, created_ms, expires_ms) VALUES ($1, $2, $3, $4)",
    )
    .bind(token_digest(&token))
    .bind(name.as_str())
    .bind(now)
    .bind(expires_ms)
    .execute(tx.conn())
    .await
    .map_err(failed)?;
    Ok(Some(SignInLink { token, expires_ms }))
}

async fn sign_in(tx: &mut Tx, digest: &str) -> Result<SignIn, StoreError> {
    let now = tx.now_ms();
    // A clock before the link's making counts as over, as everywhere.
    let used: Option<String> = sqlx::query_scalar(
        "UPDATE sign_in_links SET used_ms = $1 WHERE token_digest = $2 AND used_ms IS NULL AND expires_ms > $1 \
         AND created_ms <= $1 RETURNING person",
    )
    .bind(now)
    .bind(digest.to_owned())
    .fetch_optional(tx.conn())
    .await
    .map_err(failed)?;
    if let Some(name) = used {
        let name = codec::person(&name)?;
        let person = person(tx.conn(), &name).await?;
        let person = person.ok_or_else(|| StoreError::Corrupt(format!("there is no person `{name}`")))?;
        tx.record(&events::signed_in(&name))?;
        return Ok(SignIn::SignedIn(person));
    }
    let link: Option<(String, Option<i64>)> =
        sqlx::query_as("SELECT person, used_ms FROM sign_in_links WHERE token_digest = $1")
            .bind(digest.to_owned())
            .fetch_optional(tx.conn())
            .await
            .map_err(failed)?;
    let (person, why) = match &link {
        None => (None, "the link is not known"),
        Some((person, Some(_))) => (Some(person), "the link has been used already"),
        Some((person, None)) => (Some(person), "the link is no longer good"),
    };
    let person = codec::maybe(person.map(String::as_str), codec::person)?;
    tx.record(&events::sign_in_failed(person.as_ref(), why))?;
    Ok(SignIn::Refused(why))
}
