//! The servers and clients of this package, tested as the processes they are.
//!
//! `cfg(test)` tells Clippy that helpers, too, are test code.

#[cfg(test)]
mod compile_fail;
#[cfg(test)]
mod files;
#[cfg(test)]
mod jail;
#[cfg(test)]
mod sandbox;
