//! The transport between a child's pipes and the client library.
//!
//! It is our own and not the library's because a child's standard output is not a clean channel (field case F10):
//! what is no message is counted and kept to be shown, never answered; an endless line ends the server instead of
//! growing in memory; results pass through as they were sent; and every message is known to have left or not.

pub(crate) mod child;
pub(crate) mod environment;
pub(crate) mod leftovers;

use crate::lines::Lines;
use crate::upstream::ledger::Ledger;
use crate::upstream::noise::Noise;
use crate::upstream::wire;
use rmcp::RoleClient;
use rmcp::model::{ClientJsonRpcMessage, ServerJsonRpcMessage};
use rmcp::transport::Transport;
use std::future::Future;
use std::sync::{Arc, OnceLock};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::{CancellationToken, DropGuard};

/// Messages read ahead of the library. Each can be as large as [`wire::MAX_MESSAGE`].
const READ_AHEAD: usize = 4;
/// Messages waiting to be written.
const WRITE_QUEUE: usize = 64;

/// Why a message was not written whole.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StdioFault {
    /// Not one byte of it has left.
    #[error("the process no longer reads its standard input")]
    Unwritten,
    /// It was cut while being written.
    #[error("the process stopped reading in the middle of a message")]
    Torn,
    /// It was withdrawn before it was written.
    #[error("the call was withdrawn before it was sent")]
    Withdrawn,
    /// The connection ended first.
    #[error("the connection has ended")]
    Closed,
}

/// Why reading ended, if it was the server's doing.
pub(crate) type Ended = Arc<OnceLock<String>>;

/// A connection over two pipes.
pub(crate) struct Pipes {
    jobs: Option<mpsc::Sender<Job>>,
    messages: mpsc::Receiver<ServerJsonRpcMessage>,
    stop: CancellationToken,
    _stop_on_drop: DropGuard,
}

struct Job {
    message: ClientJsonRpcMessage,
    done: oneshot::Sender<Result<(), StdioFault>>,
}

impl Pipes {
    /// Starts reading and writing.
    pub(crate) fn new(
        output: impl AsyncRead + Send + Unpin + 'static,
        input: impl AsyncWrite + Send + Unpin + 'static,
        ledger: Arc<Ledger>,
        noise: Arc<Noise>,
        ended: Ended,
    ) -> Self {
        let (jobs, queue) = mpsc::channel(WRITE_QUEUE);
        let (deliver, messages) = mpsc::channel(READ_AHEAD);
        let stop = CancellationToken::new();
        tokio::spawn(stop.clone().run_until_cancelled_owned(write(input, queue, Arc::clone(&ledger))));
        tokio::spawn(stop.clone().run_until_cancelled_owned(read(output, deliver, ledger, noise, ended)));
        Self { jobs: Some(jobs), messages, stop: stop.clone(), _stop_on_drop: stop.drop_guard() }
    }
}

impl Transport<RoleClient> for Pipes {
    type Error = StdioFault;

    fn send(
        &mut self,
        message: ClientJsonRpcMessage,
    ) -> impl Future<Output = Result<(), StdioFault>> + Send + 'static {
        let jobs = self.jobs.clone();
        async move {
            let (done, result) = oneshot::channel();
            let jobs = jobs.ok_or(StdioFault::Closed)?;
            jobs.send(Job { message, done }).await.map_err(|_| StdioFault::Closed)?;
            result.await.map_err(|_| StdioFault::Closed)?
        }
    }

    async fn receive(&mut self) -> Option<ServerJsonRpcMessage> {
        self.messages.recv().await
    }

    /// Closes the child's standard input, which is the first step of asking it to end.
    async fn close(&mut self) -> Result<(), StdioFault> {
        self.jobs = None;
        self.stop.cancel();
        Ok(())
    }
}

/// Writes whole messages, one after the other. Ends, and closes the pipe, with the connection or the first failure.
async fn write(mut input: impl AsyncWrite + Unpin, mut queue: mpsc::Receiver<Job>, ledger: Arc<Ledger>) {
    let mut broken = false;
    while let Some(Job { message, done }) = queue.recv().await {
        let result = match serde_json::to_vec(&message) {
            _ if broken => Err(StdioFault::Unwritten),
            Err(_) => Err(StdioFault::Unwritten),
            Ok(_) if !ledger.begin(&message) => Err(StdioFault::Withdrawn),
            Ok(mut line) => {
                line.push(b'\n');
                write_line(&mut input, &line).await
            }
        };
        broken |= matches!(result, Err(StdioFault::Unwritten | StdioFault::Torn));
        // Whoever asked may have given up; the ledger knows what has left.
        done.send(result).ok();
    }
}

async fn write_line(input: &mut (impl AsyncWrite + Unpin), line: &[u8]) -> Result<(), StdioFault> {
    let mut rest = line;
    while !rest.is_empty() {
        match input.write(rest).await {
            Ok(written) if written > 0 => rest = rest.get(written..).unwrap_or_default(),
            _ if rest.len() == line.len() => return Err(StdioFault::Unwritten),
            _ => return Err(StdioFault::Torn),
        }
    }
    input.flush().await.map_err(|_| StdioFault::Torn)
}

async fn read(
    mut output: impl AsyncRead + Unpin,
    deliver: mpsc::Sender<ServerJsonRpcMessage>,
    ledger: Arc<Ledger>,
    noise: Arc<Noise>,
    ended: Ended,
) {
    let mut lines = Lines::new(wire::MAX_MESSAGE);
    let mut chunk = vec![0; 64 * 1024];
    loop {
        while let Some(line) = lines.next() {
            match wire::read(&line, &ledger) {
                Some(message) => {
                    if deliver.send(message).await.is_err() {
                        return;
                    }
                }
                None => noise.push(&line),
            }
        }
        let read = match output.read(&mut chunk).await {
            Ok(0) | Err(_) => break,
            Ok(read) => read,
        };
        if lines.push(chunk.get(..read).unwrap_or_default()).is_err() {
            let limit = wire::MAX_MESSAGE / (1024 * 1024);
            // Set once; the first reason is the one that counts.
            ended.set(format!("it sent a line longer than {limit} MiB")).ok();
            noise.push(lines.rest());
            return;
        }
    }
    // A last message without its line end is still an answer.
    match wire::read(lines.rest(), &ledger) {
        Some(message) => {
            deliver.send(message).await.ok();
        }
        None => noise.push(lines.rest()),
    }
}

#[cfg(test)]
mod tests;
