//! There is no approver without a signed-in person of a role that may decide.
use sluicegate_gateway::{Approver, PersonId};
use sluicegate_policy::Role;

fn pretend(agent: PersonId) -> Approver {
    Approver { person: agent, role: Role::Admin }
}

fn main() {}
