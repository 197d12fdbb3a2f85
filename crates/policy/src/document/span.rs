//! A stretch of time as written: `300s`, `5m`, `1h`, `1d`.

use alloc::string::String;
use core::fmt;
use core::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::names::shown;

/// A stretch of time in whole seconds: 1 second to 31 days.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Span(u32);

/// Why a text is not a [`Span`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is not a time span: write a whole number and a unit, such as `300s`, `5m`, `1h` or `1d`, up to `31d`"
)]
pub struct SpanError(String);

impl Span {
    /// The longest: 31 days, in seconds.
    pub const MAX_SECONDS: u32 = 31 * 86_400;

    /// A span of so many seconds, if it is within bounds.
    #[must_use]
    pub fn from_seconds(seconds: u32) -> Option<Self> {
        (1..=Self::MAX_SECONDS).contains(&seconds).then_some(Self(seconds))
    }

    /// In seconds.
    #[must_use]
    pub fn as_seconds(self) -> u32 {
        self.0
    }

    /// In milliseconds.
    #[must_use]
    pub fn as_millis(self) -> u64 {
        u64::from(self.0) * 1000
    }
}

impl FromStr for Span {
    type Err = SpanError;

    fn from_str(text: &str) -> Result<Self, SpanError> {
        let units = [('s', 1), ('m', 60), ('h', 3600), ('d', 86_400)];
        units
            .iter()
            .find_map(|(unit, seconds)| text.strip_suffix(*unit).map(|digits| (digits, seconds)))
            .filter(|(digits, _)| digits.bytes().all(|b| b.is_ascii_digit()))
            .and_then(|(digits, seconds)| digits.parse::<u32>().ok()?.checked_mul(*seconds))
            .and_then(Self::from_seconds)
            .ok_or_else(|| SpanError(shown(text)))
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            s if s % 86_400 == 0 => write!(f, "{}d", s / 86_400),
            s if s % 3600 == 0 => write!(f, "{}h", s / 3600),
            s => write!(f, "{s}s"),
        }
    }
}

impl Serialize for Span {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Text;
        impl de::Visitor<'_> for Text {
            type Value = Span;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a time span with its unit, such as `300s`, `5m`, `1h` or `1d`")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Span, E> {
                text.parse().map_err(E::custom)
            }
        }
        deserializer.deserialize_str(Text)
    }
}
