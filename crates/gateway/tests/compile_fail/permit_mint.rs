//! Nobody outside the gateway calls the permit's constructor.
use sluicegate_gateway::{FrozenCall, Permit};

fn forge(call: FrozenCall) -> Permit {
    Permit::mint(call)
}

fn main() {}
