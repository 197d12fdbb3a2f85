//! The gateway against a real store on disk and a scripted pool at the port.

mod held;
mod pipeline;
mod races;
mod support;
mod walls;
