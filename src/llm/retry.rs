//! Trying again: only while nothing was shown, only what may pass, counted, announced, and stoppable.

use super::{Delta, LlmError, LlmErrorKind, Reply, Request, Sink, estimate};
use crate::conversation::{CutBy, Ending, Usage};
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// Longest wait before another attempt. A provider that asks for more gets no further attempt: the person is told.
const LONGEST_WAIT: Duration = Duration::from_secs(60);

/// One try at one answer.
#[async_trait::async_trait]
pub(super) trait Attempt: Sync {
    /// Asks once.
    async fn attempt(
        &self,
        request: &Request<'_>,
        sink: Sink<'_>,
        cancel: &CancellationToken,
    ) -> Result<Reply, LlmError>;
}

/// Asks until there is an answer or no point in asking again. What failed attempts used is part of the usage.
pub(super) async fn answer(
    provider: &impl Attempt,
    request: &Request<'_>,
    sink: Sink<'_>,
    cancel: &CancellationToken,
    backoff: Duration,
) -> Result<Reply, LlmError> {
    let mut earlier: Option<Reply> = None;
    let mut attempt = 1;
    loop {
        let mut shown = false;
        let mut watched = |delta: Delta| {
            shown |= matches!(delta, Delta::Text(_) | Delta::Thinking(_));
            sink(delta);
        };
        let mut error = match provider.attempt(request, &mut watched, cancel).await {
            Ok(mut reply) => {
                reply.usage = with_earlier(request, earlier.as_ref(), &reply);
                return Ok(reply);
            }
            Err(error) => error,
        };
        match &mut error.partial {
            Some(partial) => partial.usage = with_earlier(request, earlier.as_ref(), partial),
            None => error.partial = earlier.take().map(Box::new),
        }
        let Some((of, wait)) = another(&error, attempt, backoff).filter(|_| !shown) else {
            return Err(error);
        };
        attempt += 1;
        sink(Delta::Retrying { attempt, of, wait, kind: error.kind });
        tokio::select! {
            biased;
            () = cancel.cancelled() => {
                return Err(LlmError { kind: LlmErrorKind::Cancelled, ..error });
            }
            () = tokio::time::sleep(wait) => {}
        }
        earlier = error.partial.map(|partial| *partial);
    }
}

/// The usage of a reply and of the attempts before it. What nobody reported is estimated as soon as there is
/// anything to add it to.
fn with_earlier(request: &Request<'_>, earlier: Option<&Reply>, reply: &Reply) -> Option<Usage> {
    match earlier {
        None => reply.usage,
        Some(earlier) => Some(earlier.usage_or_estimate(request).plus(reply.usage_or_estimate(request))),
    }
}

impl Reply {
    /// What the provider reported, or else our estimate, marked as one.
    #[must_use]
    pub fn usage_or_estimate(&self, request: &Request<'_>) -> Usage {
        self.usage.unwrap_or_else(|| estimate(request, &self.turn))
    }
}

/// Whether to try again after `attempt` attempts: with how many in all, and after which wait.
fn another(error: &LlmError, attempt: u32, backoff: Duration) -> Option<(u32, Duration)> {
    let ending = error.partial.as_ref().map(|partial| &partial.turn.ending);
    let of = match error.kind {
        _ if ending == Some(&Ending::CutOff { by: CutBy::OurLimit }) => 1,
        LlmErrorKind::RateLimited => 3,
        LlmErrorKind::Overloaded => 4,
        LlmErrorKind::TimedOut => 2,
        // A redirect stays one.
        LlmErrorKind::Unreachable if error.status.is_none() => 2,
        LlmErrorKind::CutOff if ending == Some(&Ending::CutOff { by: CutBy::Connection }) => 2,
        LlmErrorKind::Malformed if ending == Some(&Ending::Malformed) => 2,
        _ => 1,
    };
    let wait = error.retry_after.unwrap_or_else(|| backoff.saturating_mul(1 << (attempt - 1).min(5)));
    (attempt < of && wait <= LONGEST_WAIT).then_some((of, wait))
}
