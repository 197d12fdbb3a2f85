//! Running a call spends its permit.
use sluicegate_gateway::{Attempts, Invoke, Permit};
use tokio_util::sync::CancellationToken;

async fn twice(pool: &dyn Invoke, permit: Permit, attempts: &dyn Attempts, cancel: &CancellationToken) {
    pool.invoke(permit, attempts, cancel).await.ok();
    pool.invoke(permit, attempts, cancel).await.ok();
}

fn main() {}
