//! Bytes to lines, whatever the pieces they arrive in.

use super::super::LlmErrorKind;

/// The stream cannot be read on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Unreadable {
    /// A line or an event is larger than allowed.
    #[error("one piece of the answer is larger than allowed")]
    TooLong,
    /// The bytes are no UTF-8. They are not replaced: that would change what the model said.
    #[error("the answer is not UTF-8 text")]
    NotText,
}

impl Unreadable {
    pub(super) fn kind(self) -> LlmErrorKind {
        match self {
            Self::TooLong => LlmErrorKind::CutOff,
            Self::NotText => LlmErrorKind::Malformed,
        }
    }
}

/// Splits at LF, CRLF and CR.
#[derive(Debug)]
pub(super) struct Lines {
    line: Vec<u8>,
    after_cr: bool,
    most: usize,
}

impl Lines {
    /// A splitter for lines of at most `most` bytes.
    pub(super) fn new(most: usize) -> Self {
        Self { line: Vec::new(), after_cr: false, most }
    }

    /// Takes the next bytes and gives each line that they complete.
    pub(super) fn push(
        &mut self,
        bytes: &[u8],
        mut each: impl FnMut(&str) -> Result<(), Unreadable>,
    ) -> Result<(), Unreadable> {
        for byte in bytes {
            let lf_of_crlf = std::mem::take(&mut self.after_cr) && *byte == b'\n';
            match byte {
                b'\n' if lf_of_crlf => {}
                b'\n' | b'\r' => {
                    self.after_cr = *byte == b'\r';
                    each(std::str::from_utf8(&self.line).map_err(|_| Unreadable::NotText)?)?;
                    self.line.clear();
                }
                _ if self.line.len() >= self.most => return Err(Unreadable::TooLong),
                _ => self.line.push(*byte),
            }
        }
        Ok(())
    }

    /// The last line, if it was not ended.
    pub(super) fn rest(&mut self) -> Result<Option<String>, Unreadable> {
        if self.line.is_empty() {
            return Ok(None);
        }
        String::from_utf8(std::mem::take(&mut self.line)).map(Some).map_err(|_| Unreadable::NotText)
    }
}
