//! Words and numbers of the database, as the gateway's types.

use sluicegate_gateway::{
    ActionDigest, ApprovalId, ApprovalStatus, CallId, CallState, Digest, PersonId, ReasonCode, StoreError,
    Verdict,
};
use sluicegate_policy::{CallerId, ConversationId, Effect, Origin, Role, Tier};

/// A record that does not make sense.
pub(crate) fn unreadable(what: &str, value: &str) -> StoreError {
    StoreError::Corrupt(format!("`{value}` is not {what}"))
}

/// Reads one column with the reader of its type.
macro_rules! readers {
    ($($name:ident -> $type:ty, $what:literal, $read:expr;)+) => {
        $(
            pub(crate) fn $name(text: &str) -> Result<$type, StoreError> {
                let read: fn(&str) -> Option<$type> = $read;
                read(text).ok_or_else(|| unreadable($what, text))
            }
        )+
    };
}

readers! {
    call_id -> CallId, "the id of a call", CallId::parse;
    approval_id -> ApprovalId, "the id of an approval", ApprovalId::parse;
    call_state -> CallState, "a state of a call", CallState::parse;
    approval_status -> ApprovalStatus, "a status of an approval", ApprovalStatus::parse;
    reason_code -> ReasonCode, "a reason code", ReasonCode::parse;
    person -> PersonId, "a person's name", PersonId::new;
    caller -> CallerId, "the id of a caller", |text| CallerId::new(text).ok();
    conversation -> ConversationId, "the id of a conversation", |text| ConversationId::new(text).ok();
    role -> Role, "a role", Role::from_word;
    tier -> Tier, "a tier", Tier::from_word;
    origin -> Origin, "an origin", Origin::from_word;
    digest -> Digest, "a digest", Digest::from_hex;
    action -> ActionDigest, "a digest", ActionDigest::from_hex;
    effect -> Effect, "an effect of rules", Effect::from_word;
    verdict -> Verdict, "an answer to a held call", Verdict::parse;
}

/// Reads a column that may be empty.
pub(crate) fn maybe<T>(
    text: Option<&str>,
    read: impl FnOnce(&str) -> Result<T, StoreError>,
) -> Result<Option<T>, StoreError> {
    text.map(read).transpose()
}

/// A column that holds JSON.
pub(crate) fn from_json<T: serde::de::DeserializeOwned>(text: &str) -> Result<T, StoreError> {
    serde_json::from_str(text).map_err(|error| StoreError::Corrupt(error.to_string()))
}

/// A value as JSON text.
pub(crate) fn json<T: serde::Serialize>(value: &T) -> Result<String, StoreError> {
    serde_json::to_string(value).map_err(|error| StoreError::Corrupt(error.to_string()))
}

/// A count as the database holds it.
pub(crate) fn signed(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

/// A count from the database.
pub(crate) fn unsigned(count: i64) -> u64 {
    u64::try_from(count).unwrap_or_default()
}

/// Days since 1970, in UTC.
pub(crate) fn day(wall_ms: i64) -> i64 {
    wall_ms.div_euclid(86_400_000)
}
