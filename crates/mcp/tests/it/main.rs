//! The servers and clients of this package, tested as the processes they are.
//!
//! `cfg(test)` tells Clippy that helpers, too, are test code.

#![expect(clippy::disallowed_methods, reason = "tests start servers and call them, as the outside does")]

#[cfg(test)]
mod calls;
#[cfg(test)]
mod compile_fail;
#[cfg(test)]
mod discovery;
#[cfg(test)]
mod files;
#[cfg(test)]
mod home;
#[cfg(test)]
mod http;
#[cfg(test)]
mod http_upstream;
#[cfg(test)]
mod jail;
#[cfg(test)]
mod noise;
#[cfg(test)]
mod processes;
#[cfg(test)]
mod sandbox;
#[cfg(test)]
mod support;
