//! A permit cannot be copied.
use sluicegate_gateway::Permit;

fn copy(permit: &Permit) -> Permit {
    permit.clone()
}

fn main() {}
