//! The frozen arguments of a call: canonical JSON, and the typed questions one may ask it.

mod canonical;
mod parse;

use alloc::string::{String, ToString};
use alloc::sync::Arc;
use core::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use serde_json::{Map, Value};

use crate::condition::{Question, Readings, Truth};

pub use canonical::canonical_json;

/// The largest accepted arguments, in bytes, as written and in canonical form: 1 MiB.
pub const MAX_ARGUMENTS_BYTES: usize = 1024 * 1024;

/// The deepest accepted nesting of objects and lists, the outermost object included.
pub const MAX_ARGUMENTS_DEPTH: usize = 64;

/// Why a text or value cannot be the arguments of a call.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ArgumentsError {
    /// More than [`MAX_ARGUMENTS_BYTES`].
    #[error("the arguments are larger than {MAX_ARGUMENTS_BYTES} bytes")]
    TooLarge,
    /// Nested deeper than [`MAX_ARGUMENTS_DEPTH`].
    #[error("the arguments are nested deeper than {MAX_ARGUMENTS_DEPTH} levels")]
    TooDeep,
    /// Not a JSON object.
    #[error("the arguments are not a JSON object")]
    NotAnObject,
    /// One object names a key twice. The readers of JSON do not agree which one counts.
    #[error("the key `{0}` occurs twice in one object")]
    DuplicateKey(String),
    /// A number that neither a 64-bit integer nor a double can hold. Rounding it would run another call than the one
    /// that was asked for.
    #[error("the number at byte {0} cannot be held without changing it")]
    Number(usize),
    /// Not JSON.
    #[error("the arguments are not valid JSON: expected {expected} at byte {at}")]
    Syntax {
        /// Where, in bytes from the start.
        at: usize,
        /// What would have been valid there.
        expected: &'static str,
    },
}

/// The arguments of one call: an immutable JSON object in canonical form. Cloning is cheap.
///
/// Rules see it through [`ask`](Self::ask) alone. [`canonical`](Self::canonical) and [`to_value`](Self::to_value) exist
/// for the digest, the dispatch and the page that shows the call to a person.
///
/// Canonical form follows RFC 8785: no whitespace, keys sorted by their UTF-16 code units, shortest string escapes,
/// numbers as ECMAScript writes them, with one exception: a number whose value is a whole number that fits 64 bits
/// (signed or unsigned) is written as that integer in full, since ECMAScript would round it above 2^53. So `1e3`,
/// `1000.0` and `1000` are one number, and `-0` is `0`; whole numbers outside 64 bits keep an exponent.
///
/// In serialised form it is a text, the canonical JSON: what was digested is what is read back.
#[derive(Clone, PartialEq, Eq)]
pub struct Arguments(Arc<Frozen>);

#[derive(PartialEq, Eq)]
struct Frozen {
    object: Value,
    canonical: String,
}

impl Arguments {
    /// Reads arguments strictly: one object, no duplicate key at any depth, no number that would be changed, nothing
    /// after it, bounded in size and depth.
    ///
    /// # Errors
    /// [`ArgumentsError`] says what was wrong, and where.
    pub fn from_json(text: &str) -> Result<Self, ArgumentsError> {
        if text.len() > MAX_ARGUMENTS_BYTES {
            return Err(ArgumentsError::TooLarge);
        }
        Self::freeze(parse::object(text)?)
    }

    /// Freezes an object that was parsed elsewhere. Duplicate keys can no longer be seen in it: prefer
    /// [`from_json`](Self::from_json) where the text is at hand.
    ///
    /// # Errors
    /// [`ArgumentsError`] if it is not an object, too large or too deep.
    pub fn from_value(value: Value) -> Result<Self, ArgumentsError> {
        if !value.is_object() {
            return Err(ArgumentsError::NotAnObject);
        }
        Self::freeze(canonical::normalise(value, MAX_ARGUMENTS_DEPTH)?)
    }

    fn freeze(object: Value) -> Result<Self, ArgumentsError> {
        let text = canonical_json(&object);
        if text.len() > MAX_ARGUMENTS_BYTES {
            return Err(ArgumentsError::TooLarge);
        }
        Ok(Self(Arc::new(Frozen { object, canonical: text })))
    }

    /// The canonical text: what is digested, and what a person approves.
    #[must_use]
    pub fn canonical(&self) -> &str {
        &self.0.canonical
    }

    /// A copy as a JSON object: what is dispatched. It is the value of [`canonical`](Self::canonical), no more.
    #[must_use]
    pub fn to_value(&self) -> Value {
        self.0.object.clone()
    }

    /// Asks an operator's typed question.
    #[must_use]
    pub fn ask(&self, question: &Question) -> Truth {
        question.ask(&self.0.object, &mut Readings::default())
    }

    /// The object, for the questions of a rule set.
    pub(crate) fn object(&self) -> &Value {
        &self.0.object
    }
}

/// The empty object `{}`.
impl Default for Arguments {
    fn default() -> Self {
        Self(Arc::new(Frozen { object: Value::Object(Map::new()), canonical: "{}".to_string() }))
    }
}

/// The size alone: arguments may hold what must not end in a log.
impl fmt::Debug for Arguments {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Arguments({} bytes)", self.0.canonical.len())
    }
}

impl Serialize for Arguments {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.canonical())
    }
}

impl<'de> Deserialize<'de> for Arguments {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Text;
        impl de::Visitor<'_> for Text {
            type Value = Arguments;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("the text of a JSON object")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Arguments, E> {
                Arguments::from_json(text).map_err(E::custom)
            }
        }
        deserializer.deserialize_str(Text)
    }
}
