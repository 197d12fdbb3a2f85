//! The one writer: commands that wait are committed together, each in a savepoint of its own.

use crate::error::{SQLITE_BUSY, sqlite_code};
use crate::feed::{Change, Feed};
use futures::future::BoxFuture;
use sluicegate_gateway::audit::{self, AuditEvent, AuditRow, ChainHead, Payload};
use sluicegate_gateway::{Clock, Clocks, StoreError};
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};
use sqlx::{ConnectOptions as _, Connection as _};
use std::fmt;
use std::fs::File;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// Commands that may wait.
const QUEUE: usize = 1_024;
/// Commands that share one commit at most.
const MAX_BATCH: usize = 128;
/// How long a command waits for another process's lock.
const LOCK_WAIT: Duration = Duration::from_secs(5);
/// How long one attempt to get the lock lasts, so that each waiting command is judged by its own time.
pub(crate) const LOCK_ATTEMPT: Duration = Duration::from_millis(250);

/// What one command sees: the open transaction, the time, and the end of the audit chain.
pub(crate) struct Tx {
    conn: SqliteConnection,
    now: Clocks,
    head: ChainHead,
    rows: Vec<(AuditRow, Vec<Payload>)>,
    changes: Vec<Change>,
}

impl Tx {
    /// The connection, inside the transaction.
    pub(crate) fn conn(&mut self) -> &mut SqliteConnection {
        &mut self.conn
    }

    /// The clocks, read when the command began.
    pub(crate) fn now(&self) -> &Clocks {
        &self.now
    }

    /// The wall clock in milliseconds, read when the command began.
    pub(crate) fn now_ms(&self) -> i64 {
        self.now.wall_ms
    }

    /// Appends an event to the trail, in this command's savepoint. Returns its sequence number.
    pub(crate) fn record(&mut self, event: &AuditEvent) -> Result<i64, StoreError> {
        let (row, payloads) = audit::next_row(&self.head, self.now.wall_ms, event, || {
            let mut salt = [0_u8; 32];
            getrandom::fill(&mut salt).map(|()| salt)
        })
        .map_err(|error| StoreError::Unavailable(format!("no random numbers: {error}")))?;
        let seq = row.seq;
        self.head = row.head();
        self.rows.push((row, payloads));
        Ok(seq)
    }

    /// Tells the feed after the commit.
    pub(crate) fn publish(&mut self, change: Change) {
        self.changes.push(change);
    }

    /// Writes the recorded events.
    async fn flush(&mut self) -> Result<(), StoreError> {
        let recorded = std::mem::take(&mut self.rows);
        let (rows, payloads): (Vec<_>, Vec<_>) = recorded.into_iter().unzip();
        let payloads: Vec<(i64, Payload)> = rows
            .iter()
            .zip(payloads)
            .flat_map(|(row, payloads)| payloads.into_iter().map(|payload| (row.seq, payload)))
            .collect();
        for rows in rows.chunks(3) {
            crate::audit_log::insert_rows(&mut self.conn, rows).await?;
        }
        for payloads in payloads.chunks(4) {
            crate::audit_log::insert_payloads(&mut self.conn, payloads).await?;
        }
        Ok(())
    }
}

/// A command on its way through the writer.
trait Job: Send {
    /// Runs it inside the transaction and keeps its answer. `Err` means: roll it back.
    fn run<'a>(&'a mut self, tx: &'a mut Tx) -> BoxFuture<'a, Result<(), ()>>;

    /// Gives the kept answer, or this failure instead.
    fn answer(self: Box<Self>, failure: Option<StoreError>);
}

struct Command<F, T> {
    work: Option<F>,
    done: Option<Result<T, StoreError>>,
    answer: oneshot::Sender<Result<T, StoreError>>,
}

impl<F, T> Job for Command<F, T>
where
    F: for<'a> FnOnce(&'a mut Tx) -> BoxFuture<'a, Result<T, StoreError>> + Send,
    T: Send,
{
    fn run<'a>(&'a mut self, tx: &'a mut Tx) -> BoxFuture<'a, Result<(), ()>> {
        Box::pin(async move {
            let Some(work) = self.work.take() else { return Err(()) };
            let done = match work(&mut *tx).await {
                Ok(value) => tx.flush().await.map(|()| value),
                Err(error) => Err(error),
            };
            let kept = if done.is_ok() { Ok(()) } else { Err(()) };
            self.done = Some(done);
            kept
        })
    }

    fn answer(self: Box<Self>, failure: Option<StoreError>) {
        let answer = match (failure, self.done) {
            (Some(failure), _) => Err(failure),
            (None, Some(done)) => done,
            (None, None) => Err(StoreError::Unavailable("the change was not made".to_owned())),
        };
        // Nobody waits for it any more: what is done stays done.
        self.answer.send(answer).ok();
    }
}

struct Waiting {
    since: Instant,
    job: Box<dyn Job>,
}

/// Hands commands to the writer.
#[derive(Clone)]
pub(crate) struct Writer {
    queue: mpsc::Sender<Waiting>,
}

impl fmt::Debug for Writer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Writer")
    }
}

impl Writer {
    /// Runs a command in the writer's next transaction. `Ok` means it is durable; `Err` means nothing of it is there.
    /// Dropping this future does not stop a command that is queued.
    pub(crate) async fn run<T, F>(&self, work: F) -> Result<T, StoreError>
    where
        F: for<'a> FnOnce(&'a mut Tx) -> BoxFuture<'a, Result<T, StoreError>> + Send + 'static,
        T: Send + 'static,
    {
        let (answer, answered) = oneshot::channel();
        let job = Box::new(Command { work: Some(work), done: None, answer });
        self.queue.try_send(Waiting { since: Instant::now(), job }).map_err(|refused| {
            StoreError::Unavailable(match refused {
                mpsc::error::TrySendError::Full(_) => format!("{QUEUE} changes are waiting already"),
                mpsc::error::TrySendError::Closed(_) => "it is closed".to_owned(),
            })
        })?;
        answered.await.unwrap_or_else(|_| {
            Err(StoreError::Unavailable("it closed before the change was made".to_owned()))
        })
    }
}

/// The writer's task, and how to end it.
#[derive(Debug)]
pub(crate) struct WriterTask {
    stop: CancellationToken,
    task: JoinHandle<()>,
}

impl WriterTask {
    /// Starts the writer. It ends when it is stopped, or when nobody can hand it a command any more. The server's lock
    /// is held for just as long.
    pub(crate) fn start(
        options: SqliteConnectOptions,
        clock: Arc<dyn Clock>,
        feed: Feed,
        lock: Option<File>,
    ) -> (Writer, Self) {
        let (queue, commands) = mpsc::channel(QUEUE);
        let stop = CancellationToken::new();
        let thread = Thread { options: options.busy_timeout(LOCK_ATTEMPT), conn: None, clock, feed, lock };
        let task = tokio::spawn(thread.serve(commands, stop.clone()));
        (Writer { queue }, Self { stop, task })
    }

    /// Takes no further command, commits those that wait, and closes the connection.
    pub(crate) async fn stop(self) {
        self.stop.cancel();
        if let Err(error) = self.task.await {
            tracing::error!(%error, "the store's writer did not end well");
        }
    }
}

struct Thread {
    options: SqliteConnectOptions,
    conn: Option<SqliteConnection>,
    clock: Arc<dyn Clock>,
    feed: Feed,
    lock: Option<File>,
}

impl Thread {
    async fn serve(mut self, mut commands: mpsc::Receiver<Waiting>, stop: CancellationToken) {
        let mut batch = Vec::with_capacity(MAX_BATCH);
        loop {
            tokio::select! {
                taken = commands.recv_many(&mut batch, MAX_BATCH) => if taken == 0 { break },
                // What waits is still taken; then the queue reports its end.
                () = stop.cancelled(), if !commands.is_closed() => { commands.close(); continue }
            }
            if let Some(conn) = self.lock(&mut batch, &mut commands).await {
                self.commit(conn, std::mem::take(&mut batch)).await;
            }
        }
        if let Some(conn) = self.conn.take()
            && let Err(error) = conn.close().await
        {
            tracing::warn!(%error, "the store's writing connection did not close well");
        }
        drop(self.lock);
    }

    /// Begins a transaction that holds the write lock from the start, so that it cannot fail half-way for want of it.
    /// While another process holds the lock, commands join the batch, and each one whose time is over leaves it.
    async fn lock(
        &mut self,
        batch: &mut Vec<Waiting>,
        commands: &mut mpsc::Receiver<Waiting>,
    ) -> Option<SqliteConnection> {
        while !batch.is_empty() {
            let begun = self.begin().await;
            if let Err(why) = &begun {
                let busy = sqlite_code(why) == Some(SQLITE_BUSY);
                let (over, waiting) = std::mem::take(batch)
                    .into_iter()
                    .partition(|waiting: &Waiting| !busy || waiting.since.elapsed() >= LOCK_WAIT);
                *batch = waiting;
                give_up(over, why);
            }
            while batch.len() < MAX_BATCH
                && let Ok(next) = commands.try_recv()
            {
                batch.push(next);
            }
            if let Ok(conn) = begun {
                return Some(conn);
            }
        }
        None
    }

    async fn begin(&mut self) -> sqlx::Result<SqliteConnection> {
        let mut conn = match self.conn.take() {
            Some(conn) => conn,
            None => self.options.connect().await?,
        };
        match sqlx::query("BEGIN IMMEDIATE").execute(&mut conn).await {
            Ok(_) => Ok(conn),
            Err(error) => {
                if sqlite_code(&error) == Some(SQLITE_BUSY) {
                    self.conn = Some(conn);
                }
                Err(error)
            }
        }
    }

    /// Runs a batch and commits it; answers only then. A failing command undoes itself alone; a failing commit, all.
    async fn commit(&mut self, conn: SqliteConnection, mut batch: Vec<Waiting>) {
        let now = self.clock.now();
        let mut tx = Tx { conn, now, head: ChainHead::empty(), rows: Vec::new(), changes: Vec::new() };
        match self.transact(&mut tx, &mut batch).await {
            Ok(()) => {
                self.conn = Some(tx.conn);
                self.feed.written(tx.head.seq);
                for change in tx.changes {
                    self.feed.publish(change);
                }
                for waiting in batch {
                    waiting.job.answer(None);
                }
            }
            Err(why) => {
                tracing::error!(error = %why, commands = batch.len(), "nothing of a batch could be written");
                // Closing the connection rolls back; the next batch starts on a fresh one.
                if let Err(error) = tx.conn.close_hard().await {
                    tracing::warn!(%error, "the store's writing connection did not close well");
                }
                give_up(batch, &why);
            }
        }
    }

    async fn transact(&self, tx: &mut Tx, batch: &mut [Waiting]) -> sqlx::Result<()> {
        let (seq, hash) =
            sqlx::query_as("SELECT seq, hash FROM audit_head WHERE one = 1").fetch_one(&mut tx.conn).await?;
        tx.head = ChainHead { seq, hash };
        self.feed.found(seq);
        for waiting in batch {
            let head = tx.head.clone();
            let changes = tx.changes.len();
            tx.now = self.clock.now();
            sqlx::query("SAVEPOINT command").execute(&mut tx.conn).await?;
            if waiting.job.run(tx).await.is_err() {
                // Fails if SQLite has undone the whole transaction: then the whole batch failed.
                sqlx::query("ROLLBACK TO SAVEPOINT command").execute(&mut tx.conn).await?;
                tx.head = head;
                tx.rows.clear();
                tx.changes.truncate(changes);
            }
            sqlx::query("RELEASE SAVEPOINT command").execute(&mut tx.conn).await?;
        }
        if tx.head.seq != seq {
            sqlx::query("UPDATE audit_head SET seq = $1, hash = $2 WHERE one = 1")
                .bind(tx.head.seq)
                .bind(tx.head.hash.clone())
                .execute(&mut tx.conn)
                .await?;
            tx.changes.push(Change::Audit(tx.head.seq));
        }
        sqlx::query("COMMIT").execute(&mut tx.conn).await?;
        Ok(())
    }
}

/// Nothing of these was written.
fn give_up(batch: Vec<Waiting>, why: &sqlx::Error) {
    for waiting in batch {
        waiting.job.answer(Some(match why {
            sqlx::Error::RowNotFound => {
                StoreError::Corrupt("where the audit trail ends is not recorded".to_owned())
            }
            other => StoreError::Unavailable(other.to_string()),
        }));
    }
}
