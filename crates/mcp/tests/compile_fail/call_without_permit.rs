//! The pool runs what a permit holds; a tool's name and arguments alone make nothing run.
use serde_json::json;
use sluicegate_gateway::{Attempts, Invoke};
use tokio_util::sync::CancellationToken;

async fn sneak(attempts: &dyn Attempts, cancel: &CancellationToken) {
    let options = sluicegate_mcp::PoolOptions::default();
    if let Ok((pool, control)) = sluicegate_mcp::connect(Vec::new(), options) {
        pool.invoke(json!({ "server": "s", "tool": "t" }), attempts, cancel).await.ok();
        drop(control);
    }
}

fn main() {}
