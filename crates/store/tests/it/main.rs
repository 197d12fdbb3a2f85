//! The store on real SQLite files, with a clock that stands still until it is moved.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::disallowed_types,
    reason = "a test that cannot go on fails"
)]

mod approvals;
mod audit;
mod calls;
mod chain;
mod conversations;
mod keys;
mod opening;
mod people;
mod policies;
mod races;
mod reading;
mod restart;
mod sequences;
mod support;
mod writer;
