//! Lines from a stream of bytes, of bounded length.

/// A line was longer than allowed.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TooLong;

/// Collects bytes and gives out whole lines, without their ends.
pub(crate) struct Lines {
    buffer: Vec<u8>,
    /// Bytes at the start of the buffer that have been given out.
    taken: usize,
    /// Bytes from `taken` on that are known to hold no line end.
    searched: usize,
    limit: usize,
}

impl Lines {
    pub(crate) fn new(limit: usize) -> Self {
        Self { buffer: Vec::new(), taken: 0, searched: 0, limit }
    }

    /// Adds bytes. To be called when [`next`](Self::next) has no more lines.
    pub(crate) fn push(&mut self, bytes: &[u8]) -> Result<(), TooLong> {
        self.buffer.drain(..self.taken);
        self.taken = 0;
        let first_end = bytes.iter().position(|&byte| byte == b'\n').unwrap_or(bytes.len());
        if self.buffer.len().saturating_add(first_end) > self.limit {
            return Err(TooLong);
        }
        self.buffer.extend_from_slice(bytes);
        Ok(())
    }

    /// The next whole line.
    pub(crate) fn next(&mut self) -> Option<Vec<u8>> {
        let open = self.rest();
        let Some(end) = open.iter().skip(self.searched).position(|&byte| byte == b'\n') else {
            self.searched = open.len();
            return None;
        };
        let line = open.get(..self.searched + end).unwrap_or_default();
        let line = line.strip_suffix(b"\r").unwrap_or(line).to_vec();
        self.taken += self.searched + end + 1;
        self.searched = 0;
        Some(line)
    }

    /// What came after the last whole line.
    pub(crate) fn rest(&self) -> &[u8] {
        self.buffer.get(self.taken..).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn f10_a_line_over_the_limit_is_refused_before_it_is_kept() {
        let mut lines = Lines::new(10);
        assert_eq!(lines.push(b"0123456789"), Ok(()));
        assert_eq!(lines.next(), None);
        assert_eq!(lines.push(b"a"), Err(TooLong));
        assert_eq!(lines.rest(), b"0123456789");
        let mut lines = Lines::new(10);
        assert_eq!(lines.push(b"0123456789\nx"), Ok(()));
        assert_eq!(lines.next().as_deref(), Some(&b"0123456789"[..]));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(256))]

        #[test]
        fn chunks_make_no_difference(
            text in prop::collection::vec(prop::sample::select(vec![b'a', b'\n', b'\r', 0xff]), 0..60),
            cuts in prop::collection::vec(0usize..60, 0..8),
        ) {
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(text.len())).collect();
            cuts.extend([0, text.len()]);
            cuts.sort_unstable();
            let mut lines = Lines::new(1000);
            let mut got = Vec::new();
            for pair in cuts.windows(2) {
                lines.push(&text[pair[0]..pair[1]]).unwrap();
                while let Some(line) = lines.next() {
                    got.push(line);
                }
            }
            got.push(lines.rest().to_vec());
            let mut want: Vec<Vec<u8>> = text.split(|&byte| byte == b'\n').map(<[u8]>::to_vec).collect();
            let last = want.len() - 1;
            for line in &mut want[..last] {
                if line.last() == Some(&b'\r') {
                    line.pop();
                }
            }
            prop_assert_eq!(got, want);
        }
    }
}
