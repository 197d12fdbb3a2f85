//! Time windows as written.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::context::Weekday;
use crate::names::{ZoneName, shown};

/// When a rule is in force: from `from` (inclusive) to `to` (exclusive), local time in `zone`. If `to` is earlier than
/// `from` the window runs over midnight and belongs to the day on which it began.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Hours {
    /// First minute.
    pub from: TimeOfDay,
    /// First minute after. `24:00` is the end of the day.
    pub to: TimeOfDay,
    /// On which days; on every day if left out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub days: Vec<Weekday>,
    /// In which zone.
    pub zone: ZoneName,
}

/// A time of day to the minute, `00:00` to `24:00`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct TimeOfDay(u16);

/// Why a text is not a [`TimeOfDay`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is not a time of day: write hours and minutes with two digits each, such as `08:00`, up to `24:00`"
)]
pub struct TimeOfDayError(String);

impl TimeOfDay {
    /// Minutes since midnight, 0 to 1440.
    #[must_use]
    pub fn minutes(self) -> u16 {
        self.0
    }
}

impl FromStr for TimeOfDay {
    type Err = TimeOfDayError;

    fn from_str(text: &str) -> Result<Self, TimeOfDayError> {
        let two_digits = |part: &str| {
            let plain = part.len() == 2 && part.bytes().all(|b| b.is_ascii_digit());
            if plain { part.parse::<u16>().ok() } else { None }
        };
        text.split_once(':')
            .and_then(|(hours, minutes)| Some((two_digits(hours)?, two_digits(minutes)?)))
            .filter(|(hours, minutes)| (*hours < 24 && *minutes < 60) || (*hours, *minutes) == (24, 0))
            .map(|(hours, minutes)| Self(hours * 60 + minutes))
            .ok_or_else(|| TimeOfDayError(shown(text)))
    }
}

impl fmt::Display for TimeOfDay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:02}:{:02}", self.0 / 60, self.0 % 60)
    }
}

impl Serialize for TimeOfDay {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for TimeOfDay {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Text;
        impl de::Visitor<'_> for Text {
            type Value = TimeOfDay;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a time of day in quotes, such as \"08:00\"")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<TimeOfDay, E> {
                text.parse().map_err(E::custom)
            }
        }
        deserializer.deserialize_str(Text)
    }
}
