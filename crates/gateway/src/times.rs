//! How long the gate itself takes for a call: without the time of people and of tools. Kept in memory, by half hours.

use crate::clock::Clock;
use std::cell::Cell;
use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Length of a slot, and how many are kept: a day.
const SLOT_MS: i64 = 1_800_000;
const SLOTS: usize = 48;
/// Bounds grow by the fourth root of two, from 16 µs on: a figure is at most 19 per cent above the truth, and the last
/// bound is above a quarter of a minute.
const BUCKETS: usize = 80;
const FIRST_US: f64 = 16.0;

tokio::task_local! {
    /// What a call on its way has spent outside the gate so far.
    static OUTSIDE: Cell<Duration>;
}

/// The gate's own time per call, over the last day or since the start.
#[derive(Clone, Default)]
pub struct GateTimes(Arc<Mutex<VecDeque<Slot>>>);

impl fmt::Debug for GateTimes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("GateTimes")
    }
}

#[derive(Clone, Debug)]
struct Slot {
    number: i64,
    counts: [u32; BUCKETS],
}

/// The gate's own time for the calls of a span.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GateTime {
    /// Where the span begins; wall clock in milliseconds.
    pub from_ms: i64,
    /// Calls that ended in it.
    pub calls: u64,
    /// Half of them took no longer than this, in microseconds.
    pub p50_us: u64,
    /// 99 of 100 took no longer than this, in microseconds.
    pub p99_us: u64,
}

impl GateTimes {
    /// Length of the spans of [`Self::spans`], in milliseconds.
    pub const SPAN_MS: i64 = SLOT_MS;

    /// Measures a call from here to its end.
    pub(crate) async fn measure<T>(&self, clock: &dyn Clock, call: impl Future<Output = T>) -> T {
        let began = Instant::now();
        OUTSIDE
            .scope(Cell::default(), async {
                let done = call.await;
                let outside = OUTSIDE.with(Cell::get);
                self.note(clock.now().wall_ms, began.elapsed().saturating_sub(outside));
                done
            })
            .await
    }

    fn note(&self, now_ms: i64, took: Duration) {
        let number = now_ms.div_euclid(SLOT_MS);
        let mut slots = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if slots.back().is_none_or(|slot| slot.number != number) {
            if slots.len() >= SLOTS {
                slots.pop_front();
            }
            slots.push_back(Slot { number, counts: [0; BUCKETS] });
        }
        if let Some(count) = slots.back_mut().and_then(|slot| slot.counts.get_mut(bucket(took))) {
            *count = count.saturating_add(1);
        }
    }

    /// Each half hour with calls, the oldest first.
    #[must_use]
    pub fn spans(&self) -> Vec<GateTime> {
        let slots = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        slots.iter().filter_map(|slot| of(slot.number, &slot.counts)).collect()
    }

    /// All of them together; `None` before the first call.
    #[must_use]
    pub fn whole(&self) -> Option<GateTime> {
        let slots = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let mut counts = [0_u32; BUCKETS];
        for slot in &slots {
            for (sum, count) in counts.iter_mut().zip(slot.counts) {
                *sum = sum.saturating_add(count);
            }
        }
        of(slots.front()?.number, &counts)
    }
}

/// Runs something that is not the gate's own time: a tool, or a person who thinks.
pub(crate) async fn outside<T>(what: impl Future<Output = T>) -> T {
    let began = Instant::now();
    let done = what.await;
    // A call that nobody measures has no such place.
    OUTSIDE.try_with(|spent| spent.set(spent.get().saturating_add(began.elapsed()))).ok();
    done
}

fn of(number: i64, counts: &[u32; BUCKETS]) -> Option<GateTime> {
    let calls: u64 = counts.iter().map(|count| u64::from(*count)).sum();
    (calls > 0).then(|| GateTime {
        from_ms: number.saturating_mul(SLOT_MS),
        calls,
        p50_us: at(counts, calls.div_ceil(2)),
        p99_us: at(counts, calls.saturating_mul(99).div_ceil(100)),
    })
}

/// The bound below which so many lie.
fn at(counts: &[u32; BUCKETS], wanted: u64) -> u64 {
    let mut seen = 0_u64;
    for (n, count) in counts.iter().enumerate() {
        seen = seen.saturating_add(u64::from(*count));
        if seen >= wanted {
            return bound(n);
        }
    }
    bound(BUCKETS)
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "80 bounds, the last below 2^24"
)]
fn bound(bucket: usize) -> u64 {
    (FIRST_US * 2_f64.powf(bucket as f64 / 4.0)).ceil() as u64
}

fn bucket(took: Duration) -> usize {
    let us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
    (0..BUCKETS).find(|n| us <= bound(*n)).unwrap_or(BUCKETS - 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::ManualClock;

    #[test]
    fn figures_are_near_the_truth_and_a_day_is_kept() {
        let times = GateTimes::default();
        assert_eq!((times.whole(), times.spans().len()), (None, 0));
        for us in 1..=1_000 {
            times.note(0, Duration::from_micros(us * 10));
        }
        let whole = times.whole().unwrap();
        assert_eq!(whole.calls, 1_000);
        assert!((5_000..=5_950).contains(&whole.p50_us), "{whole:?}");
        assert!((9_900..=11_790).contains(&whole.p99_us), "{whole:?}");
        for slot in 1..60 {
            times.note(slot * SLOT_MS + 5, Duration::from_secs(999));
        }
        let spans = times.spans();
        assert_eq!((spans.len(), spans[0].from_ms), (SLOTS, 12 * SLOT_MS));
        assert_eq!(spans[0].p50_us, bound(BUCKETS - 1), "what is off the scale stands at its end");
        // A clock that steps back begins a slot of its own; nothing is lost or mixed up.
        times.note(0, Duration::ZERO);
        assert_eq!(times.spans().last().map(|span| (span.from_ms, span.calls)), Some((0, 1)));
    }

    #[tokio::test]
    async fn the_time_of_tools_and_people_is_not_the_gates() {
        let (times, clock) = (GateTimes::default(), ManualClock::at(1));
        let hour = Duration::from_secs(3_600);
        tokio::time::pause();
        let done = times
            .measure(&clock, async {
                outside(async { OUTSIDE.with(|spent| spent.set(hour)) }).await;
                7
            })
            .await;
        assert_eq!(done, 7);
        let whole = times.whole().unwrap();
        assert_eq!((whole.calls, whole.p99_us), (1, bound(0)), "an hour outside leaves nothing for the gate");
        assert_eq!(outside(async { 3 }).await, 3, "also where nothing is measured");
    }
}
