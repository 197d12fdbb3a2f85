//! What a server says beside the protocol: counted, and its last lines kept.

use crate::upstream::masking::Masks;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::sync::Notify;

/// Lines kept.
const KEPT: usize = 20;
/// Bytes kept of one line.
const MAX_LINE: usize = 2048;

/// The last lines of noise of one server, across its restarts.
#[derive(Debug)]
pub(crate) struct Noise {
    masks: Arc<Masks>,
    ring: Mutex<Ring>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct Ring {
    total: u64,
    lines: VecDeque<String>,
}

impl Noise {
    pub(crate) fn new(masks: Arc<Masks>) -> Self {
        Self { masks, ring: Mutex::default(), changed: Notify::new() }
    }

    /// Adds a line. Blank ones do not count.
    pub(crate) fn push(&self, line: &[u8]) {
        let kept = line.get(..MAX_LINE).unwrap_or(line);
        let shown = self.masks.show(&String::from_utf8_lossy(kept));
        if shown.is_empty() {
            return;
        }
        {
            let mut ring = self.ring.lock().unwrap_or_else(PoisonError::into_inner);
            ring.total = ring.total.saturating_add(1);
            if ring.lines.len() == KEPT {
                ring.lines.pop_front();
            }
            ring.lines.push_back(shown);
        }
        self.changed.notify_one();
    }

    /// How many lines there were, then the last of them; empty when there was none.
    pub(crate) fn shown(&self) -> Vec<String> {
        let ring = self.ring.lock().unwrap_or_else(PoisonError::into_inner);
        if ring.lines.is_empty() {
            return Vec::new();
        }
        let count = match (ring.total, ring.lines.len()) {
            (1, _) => "1 line:".to_owned(),
            (total, kept) if total == kept as u64 => format!("{total} lines:"),
            (total, kept) => format!("{total} lines, the last {kept}:"),
        };
        std::iter::once(count).chain(ring.lines.iter().cloned()).collect()
    }

    pub(crate) async fn changed(&self) {
        self.changed.notified().await;
    }

    /// Reads a stream to its end, so that its writer never blocks. Of an endless line only the start is kept.
    pub(crate) async fn drain(&self, mut stream: impl AsyncRead + Unpin) {
        let mut chunk = vec![0; 8192];
        let mut line: Vec<u8> = Vec::new();
        loop {
            let read = match stream.read(&mut chunk).await {
                Ok(0) | Err(_) => break,
                Ok(read) => read,
            };
            for &byte in chunk.get(..read).unwrap_or_default() {
                match byte {
                    b'\n' => {
                        self.push(&line);
                        line.clear();
                    }
                    byte if line.len() < MAX_LINE => line.push(byte),
                    _ => {}
                }
            }
        }
        self.push(&line);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::servers::ServerEntry;

    fn noise() -> Noise {
        Noise::new(Arc::new(Masks::of(&ServerEntry::stdio("s", "x", &[]).unwrap())))
    }

    #[tokio::test]
    async fn f10_a_flood_is_drained_counted_and_kept_in_bounds() {
        let noise = noise();
        let mut flood: Vec<u8> = (0..50_000).flat_map(|n| format!("line {n}\n").into_bytes()).collect();
        flood.extend(std::iter::repeat_n(b'x', 1_000_000));
        noise.drain(flood.as_slice()).await;
        let shown = noise.shown();
        assert_eq!(shown.first().map(String::as_str), Some("50001 lines, the last 20:"));
        assert_eq!(shown.len(), 21);
        assert!(shown.iter().all(|line| line.chars().count() <= 301));
    }

    #[test]
    fn blank_lines_are_no_noise() {
        let noise = noise();
        noise.push(b" \r");
        assert_eq!(noise.shown(), Vec::<String>::new());
        noise.push(b"ready");
        assert_eq!(noise.shown(), ["1 line:", "ready"]);
    }
}
