//! Keys of MCP clients: made, told apart by digest, revoked. A key proposes calls; it can never decide one.

use crate::codec;
use crate::error::failed;
use crate::events;
use crate::feed::Change;
use crate::writer::{Tx, Writer};
use sluicegate_gateway::{Caller, Clock, Digest, PersonId, Scope, StoreError};
use sluicegate_policy::{CallerId, ConversationId, Principal, Role};
use sqlx::sqlite::SqlitePool;
use std::fmt::{self, Write as _};
use std::sync::Arc;

/// What every token begins with, so that people and scanners recognise one.
const PREFIX: &str = "sg_";
/// What the caller of a key begins with.
const CALLER: &str = "key:";
/// How exact the time of last use is: a key that is used all the time is written down this often.
const USE_MS: i64 = 60_000;

/// A key's name: 1 to 64 of `[a-z0-9._-]`. Names are never given twice.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct KeyName(Arc<str>);

impl KeyName {
    /// Checks the form; `None` if it has another.
    #[must_use]
    pub fn new(name: &str) -> Option<Self> {
        let fits = (1..=64).contains(&name.len())
            && name.bytes().all(|b| matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'.' | b'_' | b'-'));
        fits.then(|| Self(name.into()))
    }

    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Who a call made with this key comes from.
    fn caller(&self) -> Result<CallerId, StoreError> {
        codec::caller(&format!("{CALLER}{self}"))
    }
}

impl fmt::Display for KeyName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What a new key is for.
#[derive(Clone, Debug)]
pub struct NewKey {
    /// Its name.
    pub name: KeyName,
    /// The person who answers for its calls.
    pub owner: PersonId,
    /// What it reaches.
    pub scope: Scope,
    /// Whether it may read everybody's part of the trail.
    pub audit_read: bool,
}

/// A key as stored.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Key {
    /// Its name.
    pub name: KeyName,
    /// The person who answers for its calls.
    pub owner: PersonId,
    /// What it reaches.
    pub scope: Scope,
    /// Whether it may read everybody's part of the trail.
    pub audit_read: bool,
    /// When it was made; wall clock in milliseconds.
    pub created_ms: i64,
    /// When it was used last, to the minute.
    pub last_used_ms: Option<i64>,
    /// When it was revoked.
    pub revoked_ms: Option<i64>,
}

impl Key {
    /// Who a call made with it comes from.
    ///
    /// # Errors
    /// When the stored name cannot be a caller's.
    pub fn caller(&self) -> Result<Caller, StoreError> {
        let principal = Principal { caller: self.name.caller()?, role: Role::Client };
        Ok(Caller { principal, owner: self.owner.clone() })
    }

    /// The conversation that its calls belong to, for budgets and labels.
    ///
    /// # Errors
    /// When the stored name cannot be a conversation's.
    pub fn conversation(&self) -> Result<ConversationId, StoreError> {
        codec::conversation(&format!("{CALLER}{}", self.name))
    }
}

/// A key that was just made. The token is shown once; the store keeps only its digest.
#[derive(Clone)]
pub struct CreatedKey {
    /// The token.
    pub token: String,
    /// The key.
    pub key: Key,
}

impl fmt::Debug for CreatedKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CreatedKey").field("key", &self.key).finish_non_exhaustive()
    }
}

/// What became of an attempt to make a key.
#[derive(Clone, Debug)]
pub enum KeyOutcome {
    /// It is made.
    Created(Box<CreatedKey>),
    /// There is, or was, a key of this name.
    NameTaken,
    /// There is no such person.
    NoSuchOwner,
}

/// Makes, finds and revokes keys.
#[derive(Clone, Debug)]
pub struct Keys {
    writer: Writer,
    reads: SqlitePool,
    clock: Arc<dyn Clock>,
}

#[derive(sqlx::FromRow)]
struct RawKey {
    name: String,
    owner: String,
    scope: String,
    audit_read: i64,
    created_ms: i64,
    last_used_ms: Option<i64>,
    revoked_ms: Option<i64>,
}

impl RawKey {
    fn read(self) -> Result<Key, StoreError> {
        Ok(Key {
            name: KeyName::new(&self.name).ok_or_else(|| codec::unreadable("a key's name", &self.name))?,
            owner: codec::person(&self.owner)?,
            scope: codec::from_json(&self.scope)?,
            audit_read: self.audit_read != 0,
            created_ms: self.created_ms,
            last_used_ms: self.last_used_ms,
            revoked_ms: self.revoked_ms,
        })
    }
}

impl Keys {
    pub(crate) fn new(writer: Writer, reads: SqlitePool, clock: Arc<dyn Clock>) -> Self {
        Self { writer, reads, clock }
    }

    /// Makes a key and records `key_created` in the same transaction.
    ///
    /// # Errors
    /// When it could not be recorded: then there is no key.
    pub async fn create(&self, new: NewKey, by: &str) -> Result<KeyOutcome, StoreError> {
        let mut bytes = [0_u8; 32];
        getrandom::fill(&mut bytes)
            .map_err(|error| StoreError::Unavailable(format!("no random numbers: {error}")))?;
        let token = bytes.iter().fold(PREFIX.to_owned(), |mut token, byte| {
            // Writing to a String cannot fail.
            write!(token, "{byte:02x}").ok();
            token
        });
        let by = by.to_owned();
        self.writer.run(move |tx| Box::pin(async move { create(tx, new, token, &by).await })).await
    }

    /// The key that a token belongs to; `None` if there is none, or it has been revoked. Asked on every request.
    ///
    /// # Errors
    /// When it cannot be read: then nobody is let in.
    pub async fn authenticate(&self, token: &str) -> Result<Option<Key>, StoreError> {
        let raw: Option<RawKey> = sqlx::query_as(
            "SELECT name, owner, scope, audit_read, created_ms, last_used_ms, revoked_ms FROM keys \
             WHERE digest = $1 AND revoked_ms IS NULL",
        )
        .bind(token_digest(token))
        .fetch_optional(&self.reads)
        .await
        .map_err(failed)?;
        let Some(key) = raw.map(RawKey::read).transpose()? else { return Ok(None) };
        let now = self.clock.now().wall_ms;
        if key.last_used_ms.is_none_or(|last| now.saturating_sub(last).abs() >= USE_MS)
            && let Err(error) = self.used(&key.name, now).await
        {
            tracing::warn!(%error, key = %key.name, "a key's last use could not be written down");
        }
        Ok(Some(key))
    }

    async fn used(&self, name: &KeyName, now: i64) -> Result<(), StoreError> {
        let name = name.to_string();
        self.writer
            .run(move |tx| {
                Box::pin(async move {
                    sqlx::query("UPDATE keys SET last_used_ms = $1 WHERE name = $2")
                        .bind(now)
                        .bind(name)
                        .execute(tx.conn())
                        .await
                        .map_err(failed)?;
                    Ok(())
                })
            })
            .await
    }

    /// All keys, revoked ones too, by name; at most 1,000.
    ///
    /// # Errors
    /// When they cannot be read.
    pub async fn list(&self) -> Result<Vec<Key>, StoreError> {
        let rows: Vec<RawKey> = sqlx::query_as(
            "SELECT name, owner, scope, audit_read, created_ms, last_used_ms, revoked_ms FROM keys \
             ORDER BY name LIMIT 1000",
        )
        .fetch_all(&self.reads)
        .await
        .map_err(failed)?;
        rows.into_iter().map(RawKey::read).collect()
    }

    /// Revokes a key and records `key_revoked`. `false` if there is no such key, or it was revoked before. From the
    /// commit on, no call of it begins.
    ///
    /// # Errors
    /// When it could not be recorded: the key then stays good.
    pub async fn revoke(&self, name: &KeyName, by: &str) -> Result<bool, StoreError> {
        let (name, by) = (name.clone(), by.to_owned());
        self.writer.run(move |tx| Box::pin(async move { revoke(tx, &name, &by).await })).await
    }
}

fn token_digest(token: &str) -> String {
    Digest::of("sluicegate/key/1", &[token.as_bytes()]).to_string()
}

async fn create(tx: &mut Tx, new: NewKey, token: String, by: &str) -> Result<KeyOutcome, StoreError> {
    let known: bool = sqlx::query_scalar("SELECT EXISTS (SELECT 1 FROM persons WHERE name = $1)")
        .bind(new.owner.as_str())
        .fetch_one(tx.conn())
        .await
        .map_err(failed)?;
    if !known {
        return Ok(KeyOutcome::NoSuchOwner);
    }
    let now = tx.now_ms();
    let scope = codec::json(&new.scope)?;
    let done = sqlx::query(
        "INSERT INTO keys (name, digest, owner, caller, scope, audit_read, created_ms) \
         VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT (name) DO NOTHING",
    )
    .bind(new.name.as_str())
    .bind(token_digest(&token))
    .bind(new.owner.as_str())
    .bind(new.name.caller()?.as_str())
    .bind(scope)
    .bind(i64::from(new.audit_read))
    .bind(now)
    .execute(tx.conn())
    .await
    .map_err(failed)?;
    if done.rows_affected() == 0 {
        return Ok(KeyOutcome::NameTaken);
    }
    let NewKey { name, owner, scope, audit_read } = new;
    let key = Key { name, owner, scope, audit_read, created_ms: now, last_used_ms: None, revoked_ms: None };
    tx.record(&events::key_created(&key, by))?;
    tx.publish(Change::Keys);
    Ok(KeyOutcome::Created(Box::new(CreatedKey { token, key })))
}

async fn revoke(tx: &mut Tx, name: &KeyName, by: &str) -> Result<bool, StoreError> {
    let now = tx.now_ms();
    let done = sqlx::query(
        "UPDATE keys SET revoked_ms = $1, revoked_by = $2 WHERE name = $3 AND revoked_ms IS NULL",
    )
    .bind(now)
    .bind(by.to_owned())
    .bind(name.as_str())
    .execute(tx.conn())
    .await
    .map_err(failed)?;
    if done.rows_affected() == 0 {
        return Ok(false);
    }
    tx.record(&events::key_revoked(name, by))?;
    tx.publish(Change::Keys);
    Ok(true)
}
