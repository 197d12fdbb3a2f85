//! Opening a store: its address, its lock, its schema; and the handles on it.

use crate::audit_log::AuditLog;
use crate::audit_reader::AuditReader;
use crate::call_reader::CallReader;
use crate::calls::Calls;
use crate::conversations::Conversations;
use crate::error::{OpenError, SQLITE_BUSY, sqlite_code};
use crate::feed::Feed;
use crate::keys::Keys;
use crate::people::People;
use crate::policies::Policies;
use crate::resolutions::Resolutions;
use crate::writer::{Writer, WriterTask};
use sluicegate_gateway::Clock;
use sqlx::migrate::{MigrateError, Migrator};
use sqlx::sqlite::{
    SqliteConnectOptions, SqliteConnection, SqliteJournalMode, SqlitePool, SqlitePoolOptions,
    SqliteSynchronous,
};
use sqlx::{ConnectOptions as _, Connection as _};
use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::{CancellationToken, DropGuard};

static MIGRATIONS: Migrator = sqlx::migrate!("../../migrations");

/// How long opening waits for another process that is opening the same store.
const OPEN_WAIT: Duration = Duration::from_secs(5);
/// How long a reader waits for a free connection or for a lock.
const READ_WAIT: Duration = Duration::from_secs(5);

/// How often the server looks whether another process has written.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// What a commit waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Synchronous {
    /// The disk: a commit survives the loss of power.
    #[default]
    Full,
    /// The operating system: a commit survives the death of the process, the last ones not the loss of power.
    Normal,
}

/// How a store is opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct StoreOptions {
    /// What a commit waits for.
    pub synchronous: Synchronous,
}

/// An open store. It owns the writer and gives out narrow handles.
#[derive(Debug)]
pub struct Store {
    path: PathBuf,
    writer: Writer,
    task: WriterTask,
    /// For decisions alone, so that a slow page cannot hold up a call.
    gate: SqlitePool,
    /// For pages and exports.
    pages: SqlitePool,
    feed: Feed,
    /// Looks for what other processes write; ends when it is dropped.
    _watch: Option<DropGuard>,
    clock: Arc<dyn Clock>,
}

/// Tells the feed when another process has written: the command line, beside the server.
async fn watch(reads: SqlitePool, feed: Feed, ended: CancellationToken) {
    let mut pause = tokio::time::interval(LOOK_EVERY);
    pause.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    while ended.run_until_cancelled(pause.tick()).await.is_some() {
        let head = sqlx::query_scalar("SELECT seq FROM audit_head WHERE one = 1").fetch_one(&reads).await;
        match head {
            Ok(head) => feed.found(head),
            // Whoever reads or writes says so where it matters; the next look comes.
            Err(error) => tracing::debug!(%error, "the store could not be looked at"),
        }
    }
}

impl Store {
    /// Opens a store for the server: no second server can open it while this one lives. Creates it if it is not there.
    /// Needs a tokio runtime.
    ///
    /// # Errors
    /// [`OpenError`] in one line with what to do.
    pub async fn open_server(
        url: &str,
        clock: Arc<dyn Clock>,
        options: StoreOptions,
    ) -> Result<Self, OpenError> {
        let path = create(&path_of(url)?, options).await?;
        let options = connect_options(&path, options);
        let lock = lock(&path).await?.ok_or_else(|| OpenError::Running(path.clone()))?;
        migrate(&path, &options).await?;
        Self::start(&path, options, clock, Some(lock)).await
    }

    /// Opens a store beside a server or alone, as command-line tools do. Creates it if it is not there. Needs a tokio
    /// runtime.
    ///
    /// # Errors
    /// [`OpenError`] in one line with what to do.
    pub async fn open_tool(
        url: &str,
        clock: Arc<dyn Clock>,
        options: StoreOptions,
    ) -> Result<Self, OpenError> {
        let path = create(&path_of(url)?, options).await?;
        let options = connect_options(&path, options);
        // The schema changes only while no server runs on it.
        if let Some(lock) = lock(&path).await? {
            migrate(&path, &options).await?;
            drop(lock);
        } else if schema(&path, &options).await? != Schema::Current {
            return Err(OpenError::OlderInUse(path));
        }
        Self::start(&path, options, clock, None).await
    }

    /// Its file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    async fn start(
        path: &Path,
        options: SqliteConnectOptions,
        clock: Arc<dyn Clock>,
        lock: Option<File>,
    ) -> Result<Self, OpenError> {
        let reading = options.clone().read_only(true).create_if_missing(false).busy_timeout(READ_WAIT);
        let pool = |connections| {
            SqlitePoolOptions::new()
                .max_connections(connections)
                .acquire_timeout(READ_WAIT)
                .connect_lazy_with(reading.clone())
        };
        let (feed, serves) = (Feed::new(), lock.is_some());
        let (writer, task) = WriterTask::start(options, clock.clone(), feed.clone(), lock);
        let mut store = Self {
            path: path.to_owned(),
            writer,
            task,
            gate: pool(4),
            pages: pool(4),
            feed,
            _watch: None,
            clock,
        };
        match store.people().first_person().await {
            Ok(()) => {
                if serves {
                    let ended = CancellationToken::new();
                    tokio::spawn(watch(store.pages.clone(), store.feed(), ended.clone()));
                    store._watch = Some(ended.drop_guard());
                }
                Ok(store)
            }
            Err(error) => {
                store.close().await;
                Err(OpenError::Other { path: path.to_owned(), why: error.to_string() })
            }
        }
    }

    /// The gateway's port: the only handle that can change a call or an approval. Moved into the gateway.
    #[must_use]
    pub fn calls(&self) -> Calls {
        Calls::new(self.writer.clone(), self.gate.clone(), self.clock.clone())
    }

    /// Calls and held calls, for pages.
    #[must_use]
    pub fn call_reader(&self) -> CallReader {
        CallReader::new(self.pages.clone())
    }

    /// Settling unknown outcomes, for an admin's page.
    #[must_use]
    pub fn resolutions(&self) -> Resolutions {
        Resolutions::new(self.writer.clone())
    }

    /// Conversations of the chat, and token usage.
    #[must_use]
    pub fn conversations(&self) -> Conversations {
        Conversations::new(self.writer.clone(), self.pages.clone(), self.clock.clone())
    }

    /// Policy revisions.
    #[must_use]
    pub fn policies(&self) -> Policies {
        Policies::new(self.writer.clone(), self.pages.clone())
    }

    /// The audit trail, for reading and verifying.
    #[must_use]
    pub fn audit(&self) -> AuditReader {
        AuditReader::new(self.pages.clone())
    }

    /// Appending events that are no call's.
    #[must_use]
    pub fn audit_log(&self) -> AuditLog {
        AuditLog::new(self.writer.clone())
    }

    /// People, their sign-in links and sessions.
    #[must_use]
    pub fn people(&self) -> People {
        People::new(self.writer.clone(), self.pages.clone(), self.clock.clone())
    }

    /// Keys of MCP clients.
    #[must_use]
    pub fn keys(&self) -> Keys {
        Keys::new(self.writer.clone(), self.pages.clone(), self.clock.clone())
    }

    /// What changes, as it changes.
    #[must_use]
    pub fn feed(&self) -> Feed {
        self.feed.clone()
    }

    /// Takes no further change, commits those that wait, and closes. Handles that are left answer with errors. The
    /// writer goes last, so that nothing is left in the log and the file alone is the whole store.
    pub async fn close(self) {
        for pool in [&self.gate, &self.pages] {
            if tokio::time::timeout(READ_WAIT, pool.close()).await.is_err() {
                tracing::warn!("somebody still reads the store while it closes");
            }
        }
        self.task.stop().await;
    }
}

/// The file that an address names.
pub(crate) fn path_of(url: &str) -> Result<PathBuf, OpenError> {
    let rest = url.strip_prefix("sqlite:").ok_or_else(|| OpenError::Address(url.to_owned()))?;
    if rest.contains(":memory:") || rest.contains("mode=memory") {
        return Err(OpenError::Memory(url.to_owned()));
    }
    let path = rest.strip_prefix("//").filter(|path| !path.is_empty() && !path.contains(['?', '#', '%']));
    path.map(PathBuf::from).ok_or_else(|| OpenError::Address(url.to_owned()))
}

pub(crate) fn connect_options(path: &Path, options: StoreOptions) -> SqliteConnectOptions {
    SqliteConnectOptions::new()
        .filename(path)
        .create_if_missing(true)
        .journal_mode(SqliteJournalMode::Wal)
        .synchronous(match options.synchronous {
            Synchronous::Full => SqliteSynchronous::Full,
            Synchronous::Normal => SqliteSynchronous::Normal,
        })
        .foreign_keys(true)
        .busy_timeout(OPEN_WAIT)
        .pragma("trusted_schema", "OFF")
        .statement_cache_capacity(256)
        .disable_statement_logging()
}

/// Makes sure that the file is there, for its owner's eyes alone if it is new, and can be written; returns its true path, so that two names of one file share
/// one lock. The file itself is opened by SQLite alone: closing it elsewhere would drop this process's locks on it.
async fn create(path: &Path, options: StoreOptions) -> Result<PathBuf, OpenError> {
    let mut new = File::options();
    new.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut new, 0o600);
    match new.open(path) {
        Ok(_) => {}
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
        Err(error) => return Err(OpenError::NotWritable { path: path.to_owned(), why: error.to_string() }),
    }
    let mut conn = connect_options(path, options).connect().await.map_err(|error| opening(path, &error))?;
    let writable = match sqlx::query("BEGIN IMMEDIATE").execute(&mut conn).await {
        Ok(_) => sqlx::query("ROLLBACK").execute(&mut conn).await,
        Err(error) => Err(error),
    };
    let closed = conn.close().await;
    writable.and(closed).map_err(|error| opening(path, &error))?;
    std::fs::canonicalize(path)
        .map_err(|error| OpenError::NotWritable { path: path.to_owned(), why: error.to_string() })
}

/// The server's lock; `None` if a server holds it. A tool holds it for the moment of bringing the schema up to date,
/// so a held lock is tried again for a short while.
async fn lock(path: &Path) -> Result<Option<File>, OpenError> {
    let mut name = path.as_os_str().to_owned();
    name.push(".lock");
    let name = PathBuf::from(name);
    let unwritable =
        |error: std::io::Error| OpenError::NotWritable { path: name.clone(), why: error.to_string() };
    let file = File::options().create(true).append(true).open(&name).map_err(unwritable)?;
    let mut attempts = 100_u32;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(Some(file)),
            Err(TryLockError::Error(error)) => return Err(unwritable(error)),
            Err(TryLockError::WouldBlock) if attempts == 0 => return Ok(None),
            Err(TryLockError::WouldBlock) => {
                attempts = attempts.saturating_sub(1);
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        }
    }
}

/// How a store's schema stands against this program's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Schema {
    Older,
    Current,
}

/// Compares the steps that were taken with those that this program knows.
async fn schema(path: &Path, options: &SqliteConnectOptions) -> Result<Schema, OpenError> {
    let mut conn =
        options.clone().create_if_missing(false).connect().await.map_err(|error| opening(path, &error))?;
    let taken = taken(&mut conn).await;
    let closed = conn.close().await;
    let taken = taken.and_then(|taken| closed.map(|()| taken)).map_err(|error| opening(path, &error))?;
    let known = MIGRATIONS.iter().map(|step| step.version).max().unwrap_or_default();
    match taken.iter().max() {
        Some(found) if *found > known => {
            Err(OpenError::Newer { path: path.to_owned(), found: *found, known })
        }
        Some(found) if *found == known => Ok(Schema::Current),
        _ => Ok(Schema::Older),
    }
}

async fn taken(conn: &mut SqliteConnection) -> sqlx::Result<Vec<i64>> {
    let steps: Option<i64> =
        sqlx::query_scalar("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = '_sqlx_migrations'")
            .fetch_optional(&mut *conn)
            .await?;
    if steps.is_none() {
        return Ok(Vec::new());
    }
    sqlx::query_scalar("SELECT version FROM _sqlx_migrations ORDER BY version").fetch_all(conn).await
}

/// Brings the schema up to date. The caller holds the lock.
async fn migrate(path: &Path, options: &SqliteConnectOptions) -> Result<(), OpenError> {
    schema(path, options).await?;
    let mut conn = options.connect().await.map_err(|error| opening(path, &error))?;
    let done = MIGRATIONS.run(&mut conn).await;
    let closed = conn.close().await;
    match done {
        Ok(()) => closed.map_err(|error| opening(path, &error)),
        Err(
            MigrateError::VersionMismatch(step)
            | MigrateError::VersionMissing(step)
            | MigrateError::Dirty(step),
        ) => Err(OpenError::OtherSchema { path: path.to_owned(), step }),
        Err(MigrateError::Execute(error) | MigrateError::ExecuteMigration(error, _)) => {
            Err(opening(path, &error))
        }
        Err(error) => Err(OpenError::Other { path: path.to_owned(), why: error.to_string() }),
    }
}

/// The driver's error, as what to do about it. The numbers are SQLite's result codes.
pub(crate) fn opening(path: &Path, error: &sqlx::Error) -> OpenError {
    let path = path.to_owned();
    match sqlite_code(error) {
        Some(SQLITE_BUSY) => OpenError::Locked(path),
        Some(8 | 13 | 14) => OpenError::NotWritable { path, why: error.to_string() },
        Some(26) => OpenError::NotAStore(path),
        _ => OpenError::Other { path, why: error.to_string() },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn commits_wait_for_the_disk_unless_told_otherwise() {
        assert_eq!(StoreOptions::default().synchronous, Synchronous::Full);
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("gate.db");
        for (synchronous, expected) in [(Synchronous::Full, 2), (Synchronous::Normal, 1)] {
            let mut conn = connect_options(&path, StoreOptions { synchronous }).connect().await.unwrap();
            let level: i64 = sqlx::query_scalar("PRAGMA synchronous").fetch_one(&mut conn).await.unwrap();
            let mode: String = sqlx::query_scalar("PRAGMA journal_mode").fetch_one(&mut conn).await.unwrap();
            assert_eq!((level, mode.as_str()), (expected, "wal"));
        }
    }
}
