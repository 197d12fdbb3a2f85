//! A frozen call alone makes nothing run.
use sluicegate_gateway::{Attempts, FrozenCall, Invoke};
use tokio_util::sync::CancellationToken;

async fn sneak(pool: &dyn Invoke, call: FrozenCall, attempts: &dyn Attempts, cancel: &CancellationToken) {
    pool.invoke(call, attempts, cancel).await.ok();
}

fn main() {}
