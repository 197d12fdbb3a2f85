//! Digests: what an approval is bound to.

use crate::call::Caller;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use sluicegate_policy::{Arguments, ToolRef};
use std::fmt;

/// A SHA-256 value, shown and stored as 64 lower-case hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Digest([u8; 32]);

impl Digest {
    /// Digest of length-prefixed parts, so that no two different lists of parts give the same input.
    #[must_use]
    pub fn of(domain: &str, parts: &[&[u8]]) -> Self {
        let mut hasher = Sha256::new();
        for part in std::iter::once(domain.as_bytes()).chain(parts.iter().copied()) {
            hasher.update((part.len() as u64).to_be_bytes());
            hasher.update(part);
        }
        Self(hasher.finalize().into())
    }

    /// The 32 bytes.
    #[must_use]
    pub fn bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// Reads 64 hexadecimal digits; `None` if it is anything else.
    #[must_use]
    pub fn from_hex(text: &str) -> Option<Self> {
        if text.len() != 64 || !text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f')) {
            return None;
        }
        let mut out = [0u8; 32];
        for (slot, pair) in out.iter_mut().zip(text.as_bytes().chunks(2)) {
            let pair = std::str::from_utf8(pair).ok()?;
            *slot = u8::from_str_radix(pair, 16).ok()?;
        }
        Some(Self(out))
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Serialize for Digest {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Digest {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::from_hex(&text).ok_or_else(|| serde::de::Error::custom("not 64 hexadecimal digits"))
    }
}

/// What an approval answers for: caller, server identity, tool, tool definition and canonical arguments.
/// Any difference at dispatch gives another digest, and the approval does not cover it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct ActionDigest(Digest);

impl ActionDigest {
    /// The digest of one action.
    #[must_use]
    pub fn of(
        caller: &Caller,
        server: &Digest,
        tool: &ToolRef,
        definition: &Digest,
        arguments: &Arguments,
    ) -> Self {
        Self(Digest::of(
            "sluicegate/action/1",
            &[
                caller.principal.caller.as_str().as_bytes(),
                server.bytes(),
                tool.server().as_str().as_bytes(),
                tool.tool().as_str().as_bytes(),
                definition.bytes(),
                arguments.canonical().as_bytes(),
            ],
        ))
    }

    /// Reads the hexadecimal form; `None` if it is anything else.
    #[must_use]
    pub fn from_hex(text: &str) -> Option<Self> {
        Digest::from_hex(text).map(Self)
    }
}

impl fmt::Display for ActionDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}
