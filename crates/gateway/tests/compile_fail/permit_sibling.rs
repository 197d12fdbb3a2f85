//! Not even another module of the gateway's own crate makes a permit: this file rebuilds the crate's layout around the
//! real `permit.rs`, with a sibling of `gateway` that tries.
mod call {
    pub use sluicegate_gateway::FrozenCall;
}

#[path = "../../src/gateway"]
mod gateway {
    mod permit;
    pub use permit::Permit;
}

mod sibling {
    use crate::call::FrozenCall;
    use crate::gateway::Permit;

    fn forge(call: FrozenCall) -> Permit {
        Permit::mint(call)
    }
}

fn main() {}
