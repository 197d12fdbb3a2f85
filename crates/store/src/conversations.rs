//! Conversations of the chat: their messages and turns. What a message holds is opaque JSON here.

use crate::codec;
use crate::error::failed;
use crate::feed::Change;
use crate::page::{Page, rows_to_read};
use crate::writer::{Tx, Writer};
use sluicegate_gateway::{Clock, PersonId, StoreError};
use sluicegate_policy::ConversationId;
use sqlx::sqlite::SqlitePool;
use std::sync::Arc;

/// Reads and writes conversations.
#[derive(Clone, Debug)]
pub struct Conversations {
    writer: Writer,
    reads: SqlitePool,
    clock: Arc<dyn Clock>,
}

/// A conversation that begins.
#[derive(Clone, Debug)]
pub struct NewConversation {
    /// Its id.
    pub id: ConversationId,
    /// Its title.
    pub title: String,
    /// Whose it is.
    pub owner: PersonId,
    /// The model's provider.
    pub provider: String,
    /// The model.
    pub model: String,
    /// The system prompt.
    pub system: String,
}

/// A conversation as stored.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Conversation {
    /// Its id.
    pub id: ConversationId,
    /// Its title.
    pub title: String,
    /// Whose it is.
    pub owner: PersonId,
    /// When it began; wall clock in milliseconds.
    pub created_ms: i64,
    /// When it last changed; wall clock in milliseconds.
    pub updated_ms: i64,
    /// The model's provider.
    pub provider: String,
    /// The model.
    pub model: String,
    /// The system prompt.
    pub system: String,
}

/// Where the next page of a list of conversations begins.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ListedAfter {
    /// When the last one of this page last changed.
    pub updated_ms: i64,
    /// Its id.
    pub id: String,
}

/// A message to append.
#[derive(Clone, Debug)]
pub struct NewMessage {
    /// What kind it is, in the chat's own words.
    pub kind: String,
    /// JSON text that the store does not read.
    pub body: String,
}

/// A message as stored.
#[derive(Clone, PartialEq, Eq, Debug, sqlx::FromRow)]
pub struct Message {
    /// Its place, counting from 1 without gaps.
    pub position: i64,
    /// What kind it is.
    pub kind: String,
    /// JSON text.
    pub body: String,
    /// When it was appended; wall clock in milliseconds.
    pub at_ms: i64,
}

/// Whether messages were appended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Appended {
    /// They are durable; the last one has this position.
    Done(i64),
    /// Somebody else has written meanwhile: the last message has this position. Nothing was written.
    Conflict(i64),
    /// There is no such conversation. Nothing was written.
    NotFound,
}

/// A turn that a crash cut off.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Turn {
    /// Its id.
    pub id: String,
    /// In which conversation.
    pub conversation: ConversationId,
    /// When it began; wall clock in milliseconds.
    pub started_ms: i64,
}

#[derive(sqlx::FromRow)]
struct RawConversation {
    id: String,
    title: String,
    owner: String,
    created_ms: i64,
    updated_ms: i64,
    provider: String,
    model: String,
    system: String,
}

impl RawConversation {
    fn read(self) -> Result<Conversation, StoreError> {
        Ok(Conversation {
            id: codec::conversation(&self.id)?,
            title: self.title,
            owner: codec::person(&self.owner)?,
            created_ms: self.created_ms,
            updated_ms: self.updated_ms,
            provider: self.provider,
            model: self.model,
            system: self.system,
        })
    }
}

impl Conversations {
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

    /// Begins a conversation.
    ///
    /// # Errors
    /// When it could not be recorded, or the id is taken.
    pub async fn create(&self, new: NewConversation) -> Result<(), StoreError> {
        self.writer
            .run(move |tx| {
                Box::pin(async move {
                    let now = tx.now_ms();
                    sqlx::query(
                        "INSERT INTO conversations (id, title, owner, created_ms, updated_ms, provider, model, system) \
                         VALUES ($1, $2, $3, $4, $4, $5, $6, $7)",
                    )
                    .bind(new.id.as_str())
                    .bind(new.title)
                    .bind(new.owner.as_str())
                    .bind(now)
                    .bind(new.provider)
                    .bind(new.model)
                    .bind(new.system)
                    .execute(tx.conn())
                    .await
                    .map_err(failed)?;
                    tx.publish(Change::Conversation(new.id.clone()));
                    Ok(())
                })
            })
            .await
    }

    /// One conversation, whoever owns it.
    ///
    /// # Errors
    /// When it cannot be read.
    pub async fn get(&self, id: &ConversationId) -> Result<Option<Conversation>, StoreError> {
        let raw: Option<RawConversation> = sqlx::query_as(
            "SELECT id, title, owner, created_ms, updated_ms, provider, model, system FROM conversations WHERE id = $1",
        )
        .bind(id.as_str())
        .fetch_optional(&self.reads)
        .await
        .map_err(failed)?;
        raw.map(RawConversation::read).transpose()
    }

    /// A person's conversations, the last changed first. `search` is looked for in the titles and in what the person and
    /// the model said, without regard to upper and lower case of ASCII letters.
    ///
    /// # Errors
    /// When they cannot be read.
    pub async fn list(
        &self,
        owner: &PersonId,
        search: Option<&str>,
        after: Option<ListedAfter>,
        limit: u32,
    ) -> Result<Page<Conversation, ListedAfter>, StoreError> {
        let (updated_ms, id) = after.map_or((i64::MAX, String::new()), |after| (after.updated_ms, after.id));
        // A message is JSON: the text is looked for as it is written there.
        let in_json = match search {
            Some(text) => Some(codec::json(&text)?.trim_matches('"').to_owned()),
            None => None,
        };
        let raw: Vec<RawConversation> = sqlx::query_as(
            "SELECT id, title, owner, created_ms, updated_ms, provider, model, system FROM conversations \
             WHERE owner = $1 AND (updated_ms < $2 OR (updated_ms = $2 AND id < $3)) \
             AND (CAST($4 AS TEXT) IS NULL OR lower(title) LIKE lower($4) ESCAPE '\\' \
             OR EXISTS (SELECT 1 FROM messages m WHERE m.conversation = conversations.id \
             AND m.kind IN ('user', 'model') AND lower(m.body) LIKE lower($6) ESCAPE '\\')) \
             ORDER BY updated_ms DESC, id DESC LIMIT $5",
        )
        .bind(owner.as_str())
        .bind(updated_ms)
        .bind(id)
        .bind(search.map(like))
        .bind(rows_to_read(limit))
        .bind(in_json.as_deref().map(like))
        .fetch_all(&self.reads)
        .await
        .map_err(failed)?;
        let rows = raw.into_iter().map(RawConversation::read).collect::<Result<Vec<_>, _>>()?;
        Ok(Page::cut(rows, limit, |last| ListedAfter {
            updated_ms: last.updated_ms,
            id: last.id.as_str().to_owned(),
        }))
    }

    /// Gives a conversation another title. `false` if there is no such conversation.
    ///
    /// # Errors
    /// When it could not be recorded.
    pub async fn rename(&self, id: &ConversationId, title: &str) -> Result<bool, StoreError> {
        let (id, title) = (id.clone(), title.to_owned());
        self.writer
            .run(move |tx| {
                Box::pin(async move {
                    let done = sqlx::query("UPDATE conversations SET title = $1 WHERE id = $2")
                        .bind(title)
                        .bind(id.as_str())
                        .execute(tx.conn())
                        .await
                        .map_err(failed)?;
                    Ok(changed(tx, &id, done.rows_affected()))
                })
            })
            .await
    }

    /// Chooses another model for the turns to come. `false` if there is no such conversation.
    ///
    /// # Errors
    /// When it could not be recorded.
    pub async fn choose_model(
        &self,
        id: &ConversationId,
        provider: &str,
        model: &str,
    ) -> Result<bool, StoreError> {
        let (id, provider, model) = (id.clone(), provider.to_owned(), model.to_owned());
        self.writer
            .run(move |tx| {
                Box::pin(async move {
                    let done =
                        sqlx::query("UPDATE conversations SET provider = $1, model = $2 WHERE id = $3")
                            .bind(provider)
                            .bind(model)
                            .bind(id.as_str())
                            .execute(tx.conn())
                            .await
                            .map_err(failed)?;
                    Ok(changed(tx, &id, done.rows_affected()))
                })
            })
            .await
    }

    /// Appends messages after the one at position `last` (0 in an empty conversation), all or none.
    ///
    /// # Errors
    /// When they could not be recorded.
    pub async fn append(
        &self,
        id: &ConversationId,
        last: i64,
        messages: Vec<NewMessage>,
    ) -> Result<Appended, StoreError> {
        let id = id.clone();
        self.writer.run(move |tx| Box::pin(async move { append(tx, id, last, messages).await })).await
    }

    /// Messages after position `after`, in order.
    ///
    /// # Errors
    /// When they cannot be read.
    pub async fn messages(
        &self,
        id: &ConversationId,
        after: i64,
        limit: u32,
    ) -> Result<Page<Message>, StoreError> {
        let rows: Vec<Message> = sqlx::query_as(
            "SELECT position, kind, body, at_ms FROM messages WHERE conversation = $1 AND position > $2 \
             ORDER BY position LIMIT $3",
        )
        .bind(id.as_str())
        .bind(after)
        .bind(rows_to_read(limit))
        .fetch_all(&self.reads)
        .await
        .map_err(failed)?;
        Ok(Page::cut(rows, limit, |last| last.position))
    }

    /// Removes a conversation with its messages and turns. Its calls and its token usage stay. `false` if there is
    /// no such conversation.
    ///
    /// # Errors
    /// When it could not be recorded.
    pub async fn delete(&self, id: &ConversationId) -> Result<bool, StoreError> {
        let id = id.clone();
        self.writer
            .run(move |tx| {
                Box::pin(async move {
                    for statement in [
                        "DELETE FROM messages WHERE conversation = $1",
                        "DELETE FROM turns WHERE conversation = $1",
                    ] {
                        sqlx::query(statement).bind(id.as_str()).execute(tx.conn()).await.map_err(failed)?;
                    }
                    let done = sqlx::query("DELETE FROM conversations WHERE id = $1")
                        .bind(id.as_str())
                        .execute(tx.conn())
                        .await
                        .map_err(failed)?;
                    Ok(changed(tx, &id, done.rows_affected()))
                })
            })
            .await
    }

    /// A turn begins.
    ///
    /// # Errors
    /// When it could not be recorded, or there is no such conversation.
    pub async fn turn_started(&self, id: &ConversationId, turn: &str) -> Result<(), StoreError> {
        let (id, turn) = (id.clone(), turn.to_owned());
        self.writer
            .run(move |tx| {
                Box::pin(async move {
                    let now = tx.now_ms();
                    sqlx::query("INSERT INTO turns (id, conversation, started_ms) VALUES ($1, $2, $3)")
                        .bind(turn)
                        .bind(id.as_str())
                        .bind(now)
                        .execute(tx.conn())
                        .await
                        .map_err(failed)?;
                    tx.publish(Change::Conversation(id.clone()));
                    Ok(())
                })
            })
            .await
    }

    /// A turn ended, in the chat's own word. `false` if it had ended already.
    ///
    /// # Errors
    /// When it could not be recorded.
    pub async fn turn_ended(
        &self,
        id: &ConversationId,
        turn: &str,
        ending: &str,
    ) -> Result<bool, StoreError> {
        let (id, turn, ending) = (id.clone(), turn.to_owned(), ending.to_owned());
        self.writer
            .run(move |tx| {
                Box::pin(async move {
                    let now = tx.now_ms();
                    let done = sqlx::query(
                        "UPDATE turns SET ended_ms = $1, ending = $2 WHERE id = $3 AND conversation = $4 \
                         AND ended_ms IS NULL",
                    )
                    .bind(now)
                    .bind(ending)
                    .bind(turn)
                    .bind(id.as_str())
                    .execute(tx.conn())
                    .await
                    .map_err(failed)?;
                    Ok(changed(tx, &id, done.rows_affected()))
                })
            })
            .await
    }

    /// Turns without an end. At start-up, before any turn begins: those that a crash cut off.
    ///
    /// # Errors
    /// When they cannot be read.
    pub async fn unfinished_turns(&self) -> Result<Vec<Turn>, StoreError> {
        let rows: Vec<(String, String, i64)> = sqlx::query_as(
            "SELECT id, conversation, started_ms FROM turns WHERE ended_ms IS NULL ORDER BY started_ms, id",
        )
        .fetch_all(&self.reads)
        .await
        .map_err(failed)?;
        rows.into_iter()
            .map(|(id, conversation, started_ms)| {
                Ok(Turn { id, conversation: codec::conversation(&conversation)?, started_ms })
            })
            .collect()
    }
}

async fn append(
    tx: &mut Tx,
    id: ConversationId,
    last: i64,
    messages: Vec<NewMessage>,
) -> Result<Appended, StoreError> {
    let now = tx.now_ms();
    let known: bool = sqlx::query_scalar("SELECT EXISTS (SELECT 1 FROM conversations WHERE id = $1)")
        .bind(id.as_str())
        .fetch_one(tx.conn())
        .await
        .map_err(failed)?;
    if !known {
        return Ok(Appended::NotFound);
    }
    let found: i64 =
        sqlx::query_scalar("SELECT coalesce(max(position), 0) FROM messages WHERE conversation = $1")
            .bind(id.as_str())
            .fetch_one(tx.conn())
            .await
            .map_err(failed)?;
    if found != last {
        return Ok(Appended::Conflict(found));
    }
    let mut position = last;
    for message in messages {
        position = position.saturating_add(1);
        sqlx::query(
            "INSERT INTO messages (conversation, position, kind, body, at_ms) VALUES ($1, $2, $3, $4, $5)",
        )
        .bind(id.as_str())
        .bind(position)
        .bind(message.kind)
        .bind(message.body)
        .bind(now)
        .execute(tx.conn())
        .await
        .map_err(failed)?;
    }
    sqlx::query("UPDATE conversations SET updated_ms = $1 WHERE id = $2")
        .bind(now)
        .bind(id.as_str())
        .execute(tx.conn())
        .await
        .map_err(failed)?;
    tx.publish(Change::Conversation(id));
    Ok(Appended::Done(position))
}

/// Tells the feed if something changed.
fn changed(tx: &mut Tx, id: &ConversationId, rows: u64) -> bool {
    if rows > 0 {
        tx.publish(Change::Conversation(id.clone()));
    }
    rows > 0
}

/// A pattern that finds the text anywhere, its own `%` and `_` taken literally.
pub(crate) fn like(text: &str) -> String {
    let mut pattern = String::with_capacity(text.len().saturating_add(2));
    pattern.push('%');
    for c in text.chars() {
        if matches!(c, '%' | '_' | '\\') {
            pattern.push('\\');
        }
        pattern.push(c);
    }
    pattern.push('%');
    pattern
}
