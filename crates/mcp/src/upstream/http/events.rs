//! Server-sent events of bounded size.

use futures::stream::{BoxStream, Stream, StreamExt};
use rmcp::transport::streamable_http_client::SseError;
use sse_stream::{Sse, SseStream};
use std::error::Error;
use tokio_util::bytes::Bytes;

#[derive(Debug, thiserror::Error)]
enum Fault {
    #[error("the event stream broke")]
    Broken,
    #[error("an event was larger than {0} bytes")]
    TooLarge(usize),
}

/// Reads events from bytes; ends with an error at one larger than `limit`, before it is kept whole.
pub(crate) fn bounded<E: Error + Send + 'static>(
    bytes: impl Stream<Item = Result<Bytes, E>> + Send + 'static,
    limit: usize,
) -> BoxStream<'static, Result<Sse, SseError>> {
    let mut size = EventSize::default();
    let counted = bytes.map(move |chunk| {
        // The client's error may name the address.
        let chunk = chunk.map_err(|_| Fault::Broken)?;
        if size.largest(chunk.as_ref()) > limit { Err(Fault::TooLarge(limit)) } else { Ok(chunk) }
    });
    // Nothing is read after the first error.
    let counted = counted.scan(false, |failed, chunk| {
        let go_on = !*failed;
        *failed = chunk.is_err();
        std::future::ready(go_on.then_some(chunk))
    });
    SseStream::from_bytes_stream(counted).boxed()
}

/// Bytes since the last blank line.
#[derive(Debug, Default)]
struct EventSize {
    bytes: usize,
    line: usize,
    after_return: bool,
}

impl EventSize {
    /// Counts a chunk on, and gives the largest size reached in it.
    fn largest(&mut self, chunk: &[u8]) -> usize {
        let mut largest = self.bytes;
        for &byte in chunk {
            let ends_line = byte == b'\r' || (byte == b'\n' && !self.after_return);
            if ends_line && self.line == 0 {
                self.bytes = 0;
            } else {
                self.bytes += 1;
            }
            match byte {
                b'\n' | b'\r' => self.line = 0,
                _ => self.line += 1,
            }
            self.after_return = byte == b'\r';
            largest = largest.max(self.bytes);
        }
        largest
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::convert::Infallible;

    async fn read(chunks: Vec<&'static [u8]>, limit: usize) -> Vec<Result<Option<String>, String>> {
        let bytes = futures::stream::iter(
            chunks.into_iter().map(|chunk| Ok::<_, Infallible>(Bytes::from_static(chunk))),
        );
        let events = bounded(bytes, limit);
        events.map(|event| event.map(|event| event.data).map_err(|error| error.to_string())).collect().await
    }

    #[tokio::test]
    async fn events_within_the_limit_come_through_whatever_their_line_ends() {
        let chunks: Vec<&[u8]> = vec![b"data: a\r", b"\n\r\n", b"data: b\n\ndata:", b" c\r\r"];
        let got = read(chunks, 12).await;
        let want = ["a", "b", "c"].map(|data| Ok(Some(data.to_owned())));
        assert_eq!(got, want);
    }

    #[tokio::test]
    async fn f10_an_endless_event_ends_the_stream() {
        let got = read(vec![b"data: ok\n\n", b"data: 0123456789", b"0123456789\n\ndata: late\n\n"], 20).await;
        assert_eq!(got.first(), Some(&Ok(Some("ok".to_owned()))));
        assert_eq!(got.len(), 2, "{got:?}");
        assert!(got[1].is_err());
    }
}
