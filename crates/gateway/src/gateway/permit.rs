//! The permit: the only thing that makes a tool run.

use crate::call::FrozenCall;
use std::fmt;

/// Leave to run one frozen call, once.
///
/// It is made only by the gateway's own module, after the intent is durable: its constructor is visible to that
/// module alone. It cannot be copied, and [`crate::Invoke::invoke`] takes it by value, so running spends it. The
/// call is inside, so there is no other call to run under it: what was approved is what runs.
pub struct Permit {
    call: FrozenCall,
}

impl Permit {
    pub(super) fn mint(call: FrozenCall) -> Self {
        Self { call }
    }

    /// The call that may run.
    #[must_use]
    pub fn call(&self) -> &FrozenCall {
        &self.call
    }
}

impl fmt::Debug for Permit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Permit({})", self.call.id())
    }
}
