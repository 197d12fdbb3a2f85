//! What tests use to reach the product: the way people and programs do, through processes and public addresses.

pub(crate) mod faults;
#[cfg(test)]
pub(crate) mod mcp;
#[cfg(test)]
pub(crate) mod model;
pub(crate) mod page;
pub(crate) mod server;
