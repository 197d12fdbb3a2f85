//! The gateway against a real store on disk and a scripted pool at the port.
//!
//! `cfg(test)` tells Clippy that helpers, too, are test code.

#[cfg(test)]
mod held;
#[cfg(test)]
mod pipeline;
#[cfg(test)]
mod races;
#[cfg(test)]
mod support;
#[cfg(test)]
mod walls;
