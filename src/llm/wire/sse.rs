//! Server-sent events, bounded. Our own decoder, because a limit must hold before an event is whole.

use super::lines::{Lines, Unreadable};
use std::collections::VecDeque;

/// Bytes in, the data of events out.
#[derive(Debug)]
pub(super) struct SseDecoder {
    lines: Lines,
    event: Event,
    ready: VecDeque<String>,
}

/// The event that is being read.
#[derive(Debug)]
struct Event {
    data: Option<String>,
    /// Lines that belong to no event. Some servers write a bare JSON error into a stream.
    stray: String,
    first: bool,
    most: usize,
}

impl SseDecoder {
    /// A decoder for events of at most `most` bytes.
    pub(super) fn new(most: usize) -> Self {
        Self {
            lines: Lines::new(most),
            event: Event { data: None, stray: String::new(), first: true, most },
            ready: VecDeque::new(),
        }
    }

    /// Takes the next bytes.
    pub(super) fn push(&mut self, bytes: &[u8]) -> Result<(), Unreadable> {
        let Self { lines, event, ready } = self;
        lines.push(bytes, |line| event.line(line, ready))
    }

    /// Takes the end of the stream. An event without its closing blank line counts: its data is JSON, which is whole
    /// or does not parse. So do lines that belong to no event, if they are JSON.
    pub(super) fn end(&mut self) -> Result<(), Unreadable> {
        if let Some(line) = self.lines.rest()? {
            self.event.line(&line, &mut self.ready)?;
        }
        self.ready.extend(self.event.data.take());
        let stray = std::mem::take(&mut self.event.stray);
        if serde_json::from_str::<serde::de::IgnoredAny>(&stray).is_ok() {
            self.ready.push_back(stray);
        }
        Ok(())
    }

    /// The data of the next whole event.
    pub(super) fn next(&mut self) -> Option<String> {
        self.ready.pop_front()
    }
}

impl Event {
    fn line(&mut self, line: &str, ready: &mut VecDeque<String>) -> Result<(), Unreadable> {
        let line = if std::mem::take(&mut self.first) { line.trim_start_matches('\u{feff}') } else { line };
        if line.is_empty() {
            ready.extend(self.data.take());
            return Ok(());
        }
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        match field {
            "data" => {
                let value = value.strip_prefix(' ').unwrap_or(value);
                match &mut self.data {
                    None => self.data = Some(value.to_owned()),
                    Some(data) => {
                        if data.len().saturating_add(value.len()) > self.most {
                            return Err(Unreadable::TooLong);
                        }
                        data.push('\n');
                        data.push_str(value);
                    }
                }
            }
            "" | "event" | "id" | "retry" => {}
            _ => {
                if self.stray.len().saturating_add(line.len()) > self.most {
                    return Err(Unreadable::TooLong);
                }
                self.stray.push_str(line);
                self.stray.push('\n');
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn decode(pieces: &[&[u8]], most: usize) -> Result<Vec<String>, Unreadable> {
        let mut decoder = SseDecoder::new(most);
        for piece in pieces {
            decoder.push(piece)?;
        }
        decoder.end()?;
        Ok(std::iter::from_fn(|| decoder.next()).collect())
    }

    #[test]
    fn every_line_ending_comments_unknown_fields_and_several_data_lines_are_read() {
        let stream = "\u{feff}: hello\r\ndata: one\r\n\r\nevent: x\nid: 1\nretry: 5\ndata:two\ndata: three\n\n\n\
                      data\n\ndata: a\rdata: b\r\r: bye\n";
        assert_eq!(decode(&[stream.as_bytes()], 100).unwrap(), ["one", "two\nthree", "", "a\nb"]);
    }

    #[test]
    fn a_last_event_without_a_blank_line_counts() {
        assert_eq!(decode(&[b"data: {\"a\":1}"], 100).unwrap(), ["{\"a\":1}"]);
    }

    #[test]
    fn a_bare_json_error_in_the_stream_is_found() {
        let events = decode(&[b"data: 1\n\n{\n  \"error\": {\"code\": 503}\n}\n"], 100).unwrap();
        assert_eq!(events.len(), 2);
        assert!(events[1].contains("503"));
        assert_eq!(decode(&[b"<html>\nbad gateway\n"], 100).unwrap(), Vec::<String>::new());
    }

    #[test]
    fn limits_hold_for_a_line_an_event_and_stray_lines() {
        assert_eq!(decode(&[&[b'x'; 101]], 100), Err(Unreadable::TooLong));
        assert_eq!(decode(&["data: 0123456789\n".repeat(11).as_bytes()], 100), Err(Unreadable::TooLong));
        assert_eq!(decode(&["0123456789\n".repeat(11).as_bytes()], 100), Err(Unreadable::TooLong));
        assert_eq!(decode(&[b"data: \xff\n\n"], 100), Err(Unreadable::NotText));
    }

    proptest! {
        #[test]
        fn pieces_make_no_difference(text in "(data: ?|: |event|\\{|[a-z€😀]|\r\n|\n|\r){0,60}", cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..8)) {
            let bytes = text.as_bytes();
            let mut at: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
            at.extend([0, bytes.len()]);
            at.sort_unstable();
            let pieces: Vec<&[u8]> = at.windows(2).map(|w| &bytes[w[0]..w[1]]).collect();
            prop_assert_eq!(decode(&pieces, 1000), decode(&[bytes], 1000));
        }

        #[test]
        fn arbitrary_bytes_never_panic(pieces in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 0..10)) {
            let pieces: Vec<&[u8]> = pieces.iter().map(Vec::as_slice).collect();
            match decode(&pieces, 64) {
                Ok(events) => prop_assert!(events.iter().all(|event| event.len() <= 130)),
                Err(fault) => prop_assert!(matches!(fault, Unreadable::TooLong | Unreadable::NotText)),
            }
        }
    }
}
