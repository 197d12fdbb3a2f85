//! Nobody outside the gateway writes a permit down.
use sluicegate_gateway::{FrozenCall, Permit};

fn forge(call: FrozenCall) -> Permit {
    Permit { call }
}

fn main() {}
