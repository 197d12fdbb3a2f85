//! Spans of time that the overview looks back over, and the slots that it counts in. Pure.

use crate::web::figures::Moment;
use jiff::Timestamp;
use jiff::tz::TimeZone;

const MINUTE_MS: i64 = 60_000;
const HOUR_MS: i64 = 60 * MINUTE_MS;
const DAY_MS: i64 = 24 * HOUR_MS;

/// How far back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Span {
    /// An hour, in slots of five minutes.
    Hour,
    /// A day, in hours.
    Day,
    /// A week, in slots of six hours.
    Week,
    /// 30 days.
    Month,
}

impl Span {
    pub(super) const ALL: [Self; 4] = [Self::Hour, Self::Day, Self::Week, Self::Month];

    /// The word in the address; the trail's page has the same.
    pub(super) const fn word(self) -> &'static str {
        match self {
            Self::Hour => "1h",
            Self::Day => "24h",
            Self::Week => "7d",
            Self::Month => "30d",
        }
    }

    pub(super) fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|span| span.word() == word)
    }

    /// On its button.
    pub(super) const fn short(self) -> &'static str {
        match self {
            Self::Hour => "1 h",
            Self::Day => "24 h",
            Self::Week => "7 d",
            Self::Month => "30 d",
        }
    }

    /// In a sentence.
    pub(super) const fn says(self) -> &'static str {
        match self {
            Self::Hour => "last hour",
            Self::Day => "last 24 hours",
            Self::Week => "last 7 days",
            Self::Month => "last 30 days",
        }
    }

    /// What one bar stands for.
    pub(super) const fn per(self) -> &'static str {
        match self {
            Self::Hour => "per 5 minutes",
            Self::Day => "per hour",
            Self::Week => "per 6 hours",
            Self::Month => "per day",
        }
    }

    pub(super) const fn slot_ms(self) -> i64 {
        match self {
            Self::Hour => 5 * MINUTE_MS,
            Self::Day => HOUR_MS,
            Self::Week => 6 * HOUR_MS,
            Self::Month => DAY_MS,
        }
    }

    /// Slots, the one that has begun included.
    pub(super) const fn count(self) -> i64 {
        match self {
            Self::Hour => 12,
            Self::Day => 24,
            Self::Week => 28,
            Self::Month => 30,
        }
    }

    /// Where the first slot begins, so that slots begin at even times of the server's zone.
    pub(super) fn first_ms(self, now_ms: i64) -> i64 {
        let stamp = Timestamp::from_millisecond(now_ms).unwrap_or(Timestamp::UNIX_EPOCH);
        let offset = i64::from(TimeZone::system().to_offset(stamp).seconds()).saturating_mul(1_000);
        self.first_at(now_ms, offset)
    }

    fn first_at(self, now_ms: i64, offset_ms: i64) -> i64 {
        let slot = self.slot_ms();
        let begun = now_ms.saturating_add(offset_ms).div_euclid(slot).saturating_mul(slot);
        begun.saturating_sub(offset_ms).saturating_sub(slot.saturating_mul(self.count().saturating_sub(1)))
    }

    /// How a slot is called under the axis and in the table.
    pub(super) fn label(self, at: &Moment) -> String {
        match self {
            Self::Hour | Self::Day => at.short.clone(),
            Self::Week => format!("{}, {}", at.day_month, at.short),
            Self::Month => at.day_month.clone(),
        }
    }

    /// Which labels stand under the axis: one of so many.
    pub(super) const fn labelled(self) -> usize {
        match self {
            Self::Hour => 2,
            Self::Day => 3,
            Self::Week => 8,
            Self::Month => 5,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_begin_at_even_times_and_the_last_one_holds_the_present() {
        let now = 1_800_000_000_000 + 12_345;
        for span in Span::ALL {
            assert_eq!(Span::parse(span.word()), Some(span));
            for offset in [0, 2 * HOUR_MS, -5 * HOUR_MS, 330 * MINUTE_MS] {
                let first = span.first_at(now, offset);
                assert_eq!((first + offset) % span.slot_ms(), 0);
                assert_eq!((now - first) / span.slot_ms(), span.count() - 1, "{span:?} {offset}");
            }
        }
        assert_eq!(Span::parse("ages"), None);
    }
}
