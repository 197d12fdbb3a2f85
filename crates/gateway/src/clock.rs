//! The one place that reads a clock.

use sluicegate_policy::Timestamp;
use std::sync::{Arc, Mutex, PoisonError};

/// One reading of all clocks.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Clocks {
    /// Wall clock, milliseconds since 1970.
    pub wall_ms: i64,
    /// Milliseconds since the machine started, counting the time it was suspended.
    pub boot_ms: i64,
    /// Names this start of the machine: boot times of different starts do not compare.
    pub boot: Arc<str>,
}

impl Clocks {
    /// The wall clock; RFC 3339.
    #[must_use]
    pub fn text(&self) -> String {
        written(self.wall_ms)
    }

    /// The wall clock as the rules see it.
    #[must_use]
    pub fn timestamp(&self) -> Timestamp {
        Timestamp(self.wall_ms)
    }
}

/// When something with a limit began.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Stamp {
    /// The clocks at its beginning.
    pub began: Clocks,
    /// Its limit in milliseconds.
    pub limit_ms: i64,
}

impl Stamp {
    /// The wall-clock time at which it ends, for showing.
    #[must_use]
    pub fn deadline_ms(&self) -> i64 {
        self.began.wall_ms.saturating_add(self.limit_ms)
    }

    /// When it began, by the wall clock; RFC 3339.
    #[must_use]
    pub fn began_text(&self) -> String {
        written(self.began.wall_ms)
    }

    /// When the limit is used up, by the wall clock; RFC 3339.
    #[must_use]
    pub fn deadline_text(&self) -> String {
        written(self.deadline_ms())
    }

    /// Whether the deadline has passed: the wall clock is at or after it, or the boot-time clock shows the limit
    /// used up, or the wall clock stands before the beginning. So neither a suspended laptop nor a stepped
    /// clock lengthens it.
    #[must_use]
    pub fn passed(&self, now: &Clocks) -> bool {
        now.wall_ms >= self.deadline_ms()
            || now.wall_ms < self.began.wall_ms
            || (now.boot == self.began.boot
                && now.boot_ms.saturating_sub(self.began.boot_ms) >= self.limit_ms)
    }

    /// Milliseconds until it ends at the latest; 0 if it has.
    #[must_use]
    pub fn left_ms(&self, now: &Clocks) -> i64 {
        if self.passed(now) { 0 } else { self.deadline_ms().saturating_sub(now.wall_ms).max(0) }
    }
}

/// A wall-clock time as RFC 3339.
pub(crate) fn written(wall_ms: i64) -> String {
    jiff::Timestamp::from_millisecond(wall_ms).map_or_else(|_| String::new(), |at| at.to_string())
}

/// A source of time.
pub trait Clock: Send + Sync + std::fmt::Debug + 'static {
    /// Reads all clocks.
    fn now(&self) -> Clocks;
}

/// The machine's clocks.
#[derive(Debug, Clone)]
pub struct SystemClock {
    boot: Arc<str>,
}

impl SystemClock {
    /// Names the machine's current start from the kernel's boot id; where there is none, by a random id of this
    /// process, so that boot times of different processes are never compared.
    #[must_use]
    pub fn new() -> Self {
        let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id")
            .map(|text| text.trim().to_owned())
            .unwrap_or_else(|_| uuid::Uuid::new_v4().to_string());
        Self { boot: boot.into() }
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "the one place that reads the wall clock")]
    fn now(&self) -> Clocks {
        let boot = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
        Clocks {
            wall_ms: jiff::Timestamp::now().as_millisecond(),
            boot_ms: boot.tv_sec.saturating_mul(1000).saturating_add(boot.tv_nsec / 1_000_000),
            boot: self.boot.clone(),
        }
    }
}

/// A clock that stands still until it is moved: for tests of everything that has a time limit.
#[derive(Debug, Clone)]
pub struct ManualClock {
    now: Arc<Mutex<Clocks>>,
}

impl ManualClock {
    /// Stands at the given wall-clock time.
    #[must_use]
    pub fn at(wall_ms: i64) -> Self {
        Self { now: Arc::new(Mutex::new(Clocks { wall_ms, boot_ms: 1_000, boot: "manual".into() })) }
    }

    /// Moves wall and boot clock together.
    pub fn advance(&self, ms: i64) {
        self.change(|now| {
            now.wall_ms = now.wall_ms.saturating_add(ms);
            now.boot_ms = now.boot_ms.saturating_add(ms);
        });
    }

    /// Steps the wall clock alone, as an administrator or a time server does.
    pub fn step_wall(&self, ms: i64) {
        self.change(|now| now.wall_ms = now.wall_ms.saturating_add(ms));
    }

    fn change(&self, change: impl FnOnce(&mut Clocks)) {
        change(&mut self.now.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Clocks {
        self.now.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
