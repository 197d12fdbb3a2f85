//! The dashboard: pages for people, rendered here, alive by an event stream, and whole without one.
//!
//! Each page is one file with its own `router()`; this file puts them together, so that every route and its guard
//! stand on one screen.

mod arguments;
mod assets;
mod error;
mod extract;
mod figures;
mod frame;
mod headers;
mod respond;
mod ui;
mod visible_text;

pub use headers::{Hosts, NotAnAddress};
