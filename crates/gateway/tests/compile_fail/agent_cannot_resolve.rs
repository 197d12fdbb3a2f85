//! The handle that proposes calls cannot answer them.
use sluicegate_gateway::{ApprovalId, Approver, ToolExecutionGateway, Verdict};

async fn approve_myself(agent: &ToolExecutionGateway, me: &Approver, approval: ApprovalId) {
    agent.resolve(me, approval, 1, Verdict::Approve, None).await.ok();
}

fn main() {}
