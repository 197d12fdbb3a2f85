//! What starts and ends servers cannot make a call.
use sluicegate_gateway::Invoke;

fn sneak(control: sluicegate_mcp::UpstreamControl) -> impl Invoke {
    control
}

fn main() {}
