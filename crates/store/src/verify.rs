//! Verifying the trail: in short reads, so that it neither holds up the writer nor keeps its log from shrinking.

use crate::audit_reader::{head_and_last, payloads_between, rows_between};
use crate::error::{OpenError, failed};
use crate::open::{opening, path_of};
use sluicegate_gateway::StoreError;
use sluicegate_gateway::audit::{Broken, ChainHead, Payload, Verifier};
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection, SqlitePool};
use sqlx::{ConnectOptions as _, Connection as _};
use std::path::Path;
use std::time::Duration;

/// Rows per read.
const CHUNK: i64 = 500;

/// What verification found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Verified {
    /// Every row and every stored payload is as it was written, up to this end.
    Whole(ChainHead),
    /// The first thing wrong.
    Broken(Broken),
}

/// Why a store's trail could not be verified.
#[derive(Debug, thiserror::Error)]
pub enum VerifyError {
    /// The store cannot be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The trail cannot be read.
    #[error("the trail cannot be read: {0}")]
    Read(#[from] StoreError),
}

/// Verifies the trail of a store from outside: beside a running server, or on a store that nobody can start on any
/// more. It reads only, brings no schema up to date and takes no lock. `progress` is told rows done and rows in all.
///
/// # Errors
/// When there is no such store, or it cannot be read. What is wrong with the trail is an answer, not an error.
pub async fn verify_file(url: &str, progress: impl FnMut(i64, i64) + Send) -> Result<Verified, VerifyError> {
    let path = path_of(url)?;
    if !path.is_file() {
        return Err(OpenError::Missing(path).into());
    }
    let mut conn = connect(&path).await.map_err(|error| opening(&path, &error))?;
    let verified = run(&mut conn, progress).await;
    conn.close().await.map_err(failed)?;
    Ok(verified?)
}

/// Reading a store in WAL mode needs its companion files, or leave to make them. Without either, on a read-only
/// medium, the file is read as it stands, if no log lies beside it.
async fn connect(path: &Path) -> sqlx::Result<SqliteConnection> {
    let options = SqliteConnectOptions::new()
        .filename(path)
        .create_if_missing(false)
        .read_only(true)
        .busy_timeout(Duration::from_secs(5))
        .pragma("trusted_schema", "OFF")
        .disable_statement_logging();
    let first = options.connect().await;
    let readable = match first {
        Ok(mut conn) => {
            sqlx::query("SELECT 1 FROM sqlite_master LIMIT 1").fetch_optional(&mut conn).await.map(|_| conn)
        }
        Err(error) => Err(error),
    };
    let mut log = path.as_os_str().to_owned();
    log.push("-wal");
    match readable {
        Err(_) if !Path::new(&log).exists() => options.immutable(true).connect().await,
        other => other,
    }
}

pub(crate) async fn pool(
    reads: &SqlitePool,
    mut progress: impl FnMut(i64, i64) + Send,
) -> Result<Verified, StoreError> {
    let mut walk = {
        let mut conn = reads.acquire().await.map_err(failed)?;
        Walk::begin(&mut conn).await?
    };
    loop {
        // Given back after each chunk, so that pages get their turn.
        let mut conn = reads.acquire().await.map_err(failed)?;
        if let Some(verified) = walk.step(&mut conn, &mut progress).await? {
            return Ok(verified);
        }
    }
}

async fn run(
    conn: &mut SqliteConnection,
    mut progress: impl FnMut(i64, i64) + Send,
) -> Result<Verified, StoreError> {
    let mut walk = Walk::begin(conn).await?;
    loop {
        if let Some(verified) = walk.step(conn, &mut progress).await? {
            return Ok(verified);
        }
    }
}

struct Walk {
    verifier: Verifier,
    /// Where the trail should end.
    head: ChainHead,
    /// The last row there is: beyond the end only if it was put there by hand.
    upto: i64,
    done: i64,
}

impl Walk {
    async fn begin(conn: &mut SqliteConnection) -> Result<Self, StoreError> {
        let (head, last) = head_and_last(conn).await?;
        Ok(Self { verifier: Verifier::default(), upto: last.max(head.seq), head, done: i64::MIN })
    }

    /// Verifies one chunk of rows; gives the answer when there is one.
    async fn step(
        &mut self,
        conn: &mut SqliteConnection,
        progress: &mut (impl FnMut(i64, i64) + Send),
    ) -> Result<Option<Verified>, StoreError> {
        let rows = rows_between(conn, self.done, self.upto, CHUNK).await?;
        let (Some(first), Some(last)) = (rows.first(), rows.last()) else {
            let end = std::mem::take(&mut self.verifier).finish(&self.head);
            return Ok(Some(match end {
                Ok(head) => Verified::Whole(head),
                Err(broken) => Verified::Broken(broken),
            }));
        };
        let (from, upto) = (first.seq, last.seq);
        let mut payloads = payloads_between(conn, from, upto).await?.into_iter().peekable();
        for row in &rows {
            let mut of_row: Vec<Payload> = Vec::new();
            while let Some((_, payload)) = payloads.next_if(|(seq, _)| *seq <= row.seq) {
                of_row.push(payload);
            }
            if let Err(broken) = self.verifier.next(row, &of_row) {
                return Ok(Some(Verified::Broken(broken)));
            }
        }
        self.done = upto;
        progress(upto, self.upto);
        Ok(None)
    }
}
