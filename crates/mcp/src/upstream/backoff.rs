//! How long to wait before trying a failing server again.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::time::Duration;

const FIRST: Duration = Duration::from_millis(500);
const LONGEST: Duration = Duration::from_secs(30);

/// The wait after `failures` failures in a row: doubling from 0.5 s to 30 s, give or take a fifth, so that servers
/// that went down together do not come back in step.
pub(crate) fn pause(failures: u32) -> Duration {
    let doubled = FIRST.saturating_mul(2u32.saturating_pow(failures.saturating_sub(1).min(16)));
    spread(doubled.min(LONGEST), random_share())
}

/// `wait` by 0.8 to 1.2, never over the longest.
fn spread(wait: Duration, share: f64) -> Duration {
    wait.mul_f64(0.8 + 0.4 * share.clamp(0.0, 1.0)).min(LONGEST)
}

/// Between 0 and 1. Each hasher state has keys of its own; nothing here needs to be unguessable.
fn random_share() -> f64 {
    let draw = RandomState::new().build_hasher().finish() >> 40;
    f64::from(u32::try_from(draw).unwrap_or(0)) / f64::from(1u32 << 24)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn f11_the_wait_doubles_to_its_cap_and_never_passes_it() {
        for (failures, base) in [(1, 500), (2, 1000), (3, 2000), (4, 4000), (5, 8000), (6, 16_000)] {
            let (low, high) = (Duration::from_millis(base * 8 / 10), Duration::from_millis(base * 12 / 10));
            for _ in 0..50 {
                let pause = pause(failures);
                assert!(pause >= low && pause <= high, "{failures} failures: {pause:?}");
            }
        }
        for failures in [7, 8, 40, u32::MAX] {
            assert!(pause(failures) <= LONGEST && pause(failures) >= LONGEST.mul_f64(0.8));
        }
    }

    #[test]
    fn waits_differ() {
        let pauses: std::collections::BTreeSet<_> = (0..20).map(|_| pause(5)).collect();
        assert!(pauses.len() > 1);
    }
}
