//! Numbers, durations and times, as people read them. Pure.

use jiff::{Timestamp, tz::TimeZone};

/// `1234567` as `1,234,567`.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::with_capacity(digits.len().saturating_add(digits.len() / 3));
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && digits.len().saturating_sub(at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// How long something took: `38 ms`, `6.1 s`, `5 min`, `2 h 5 min`.
pub(crate) fn took(ms: i64) -> String {
    let ms = ms.max(0);
    match ms {
        0..1_000 => format!("{ms} ms"),
        1_000..60_000 => format!("{}.{} s", ms / 1_000, ms % 1_000 / 100),
        60_000..3_600_000 => match ms % 60_000 / 1_000 {
            0 => format!("{} min", ms / 60_000),
            s => format!("{} min {s} s", ms / 60_000),
        },
        _ => format!("{} h {} min", ms / 3_600_000, ms % 3_600_000 / 60_000),
    }
}

/// Microseconds as milliseconds, with as many decimals as say something.
pub(crate) fn milliseconds(us: u64) -> String {
    match us {
        0 => "0".to_owned(),
        1..100 => format!("0.{:02}", us.div_ceil(10)),
        100..100_000 => format!("{}.{}", us / 1_000, us % 1_000 / 100),
        _ => grouped(us / 1_000),
    }
}

/// Time that is left, as on a clock: `3:24`, `1:02:09`. Rounded up, so that it shows `0:00` only when it is over.
pub(crate) fn clock(ms: i64) -> String {
    let s = ms.max(0).saturating_add(999) / 1_000;
    let (hours, minutes, seconds) = (s / 3_600, s % 3_600 / 60, s % 60);
    if hours > 0 { format!("{hours}:{minutes:02}:{seconds:02}") } else { format!("{minutes}:{seconds:02}") }
}

/// Time that is left, in words: `41 s`, `3 min 24 s`, `1 h 2 min`.
pub(crate) fn left(ms: i64) -> String {
    let s = ms.max(0).saturating_add(999) / 1_000;
    match s {
        0..60 => format!("{s} s"),
        60..3_600 if s % 60 == 0 => format!("{} min", s / 60),
        60..3_600 => format!("{} min {} s", s / 60, s % 60),
        _ => format!("{} h {} min", s / 3_600, s % 3_600 / 60),
    }
}

/// A moment in the server's zone.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Moment {
    /// For machines: RFC 3339, in UTC.
    pub(crate) iso: String,
    /// `14:07:07`.
    pub(crate) time: String,
    /// The part of a second: `.102`.
    pub(crate) fraction: String,
    /// `14:07`.
    pub(crate) short: String,
    /// `30 Nov`.
    pub(crate) day_month: String,
    /// `30 Nov 2026`.
    pub(crate) date: String,
}

impl Moment {
    /// The moment of a wall clock in milliseconds since 1970; times out of range are shown as 1970.
    pub(crate) fn at_ms(ms: i64) -> Self {
        let stamp = Timestamp::from_millisecond(ms).unwrap_or(Timestamp::UNIX_EPOCH);
        let local = stamp.to_zoned_datetime(TimeZone::system());
        Self {
            iso: stamp.to_string(),
            time: local.strftime("%H:%M:%S").to_string(),
            fraction: format!(".{:03}", ms.rem_euclid(1_000)),
            short: local.strftime("%H:%M").to_string(),
            day_month: local.strftime("%-d %b").to_string(),
            date: local.strftime("%-d %b %Y").to_string(),
        }
    }

    /// The heading under which it stands in a list that is read at `now_ms`: `Today`, `Yesterday`, or the date.
    pub(crate) fn day(ms: i64, now_ms: i64) -> String {
        let date =
            |ms| Timestamp::from_millisecond(ms).ok().map(|t| t.to_zoned_datetime(TimeZone::system()).date());
        match (date(ms), date(now_ms)) {
            (Some(day), Some(now)) if day == now => "Today".to_owned(),
            (Some(day), Some(now)) if now.yesterday().is_ok_and(|yesterday| yesterday == day) => {
                "Yesterday".to_owned()
            }
            _ => Self::at_ms(ms).date,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_read_as_people_write_them() {
        assert_eq!(
            [0, 999, 1_000, 41_286, 120_000_000].map(grouped),
            ["0", "999", "1,000", "41,286", "120,000,000"]
        );
        assert_eq!(
            [-5, 38, 6_149, 60_000, 617_000, 7_500_000].map(took),
            ["0 ms", "38 ms", "6.1 s", "1 min", "10 min 17 s", "2 h 5 min"]
        );
        assert_eq!([-1, 0, 1, 204_000, 3_729_000].map(clock), ["0:00", "0:00", "0:01", "3:24", "1:02:09"]);
        assert_eq!(
            [0, 41_000, 60_000, 204_000, 3_720_000].map(left),
            ["0 s", "41 s", "1 min", "3 min 24 s", "1 h 2 min"]
        );
    }

    #[test]
    fn microseconds_are_told_in_milliseconds() {
        assert_eq!(
            [0, 16, 95, 100, 1_850, 99_999, 1_234_000].map(milliseconds),
            ["0", "0.02", "0.10", "0.1", "1.8", "99.9", "1,234"]
        );
    }

    #[test]
    fn days_are_named() {
        let now = 1_796_000_000_000;
        assert_eq!(Moment::day(now, now), "Today");
        assert_eq!(Moment::day(now - 86_400_000, now), "Yesterday");
        assert!(
            Moment::day(now - 10 * 86_400_000, now).ends_with("2026"),
            "{}",
            Moment::day(now - 864_000_000, now)
        );
        assert_eq!(Moment::at_ms(i64::MAX).iso, "1970-01-01T00:00:00Z");
    }
}
