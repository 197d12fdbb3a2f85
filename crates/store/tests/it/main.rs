//! The store on real SQLite files, with a clock that stands still until it is moved.

mod approvals;
mod audit;
mod calls;
mod chain;
mod conversations;
mod opening;
mod people;
mod policies;
mod races;
mod reading;
mod restart;
mod sequences;
mod support;
mod writer;
