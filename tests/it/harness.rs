//! What tests use to reach the product: the way people and programs do, through processes and public addresses.

pub mod faults;
#[cfg(test)]
pub(crate) mod model;
pub mod page;
pub mod server;
