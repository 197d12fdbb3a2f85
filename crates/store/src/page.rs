//! Pages of a list.

use std::time::Duration;

/// Rows at most in one page.
pub(crate) const MAX_PAGE: u32 = 500;
/// Rows that are looked at by one statement where no index answers all of a filter.
pub(crate) const CHUNK: i64 = 2_000;
/// How long a page looks for what fits before it ends with what it has.
pub(crate) const PATIENCE: Duration = Duration::from_millis(20);

/// One page of a list, and where the next one begins.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Page<T, C = i64> {
    /// The rows.
    pub rows: Vec<T>,
    /// Give this to get the next page; `None` if this is the last one.
    pub next: Option<C>,
}

/// How many rows to read for a page of `limit`: one more, to know whether another page follows.
pub(crate) fn rows_to_read(limit: u32) -> i64 {
    i64::from(limit.clamp(1, MAX_PAGE)).saturating_add(1)
}

impl<T, C> Page<T, C> {
    /// Makes a page of at most `limit` rows out of up to one more; `cursor` gives the place of a row.
    pub(crate) fn cut(mut rows: Vec<T>, limit: u32, cursor: impl FnOnce(&T) -> C) -> Self {
        let limit = usize::try_from(limit.clamp(1, MAX_PAGE)).unwrap_or(usize::MAX);
        let more = rows.len() > limit;
        rows.truncate(limit);
        let next = if more { rows.last().map(cursor) } else { None };
        Self { rows, next }
    }
}
