//! One pool, one gateway: a second one with softer rules has nothing to call.
use sluicegate_gateway::{CallStore, Clock, GatewaySettings, Invoke, ToolExecutionGateway};
use std::sync::Arc;

fn two(pool: impl Invoke, strict: impl CallStore, soft: impl CallStore, clock: Arc<dyn Clock>, set: GatewaySettings) {
    let _first = ToolExecutionGateway::new(pool, strict, clock.clone(), set);
    let _second = ToolExecutionGateway::new(pool, soft, clock, set);
}

fn main() {}
