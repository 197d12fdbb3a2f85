//! A permit holds its call for good: there is no way to put another one in.
use sluicegate_gateway::{FrozenCall, Permit};

fn swap(permit: &mut Permit, other: FrozenCall) {
    *permit.call() = other;
}

fn main() {}
