//! The marker that keeps free text out of the policy's input.

use alloc::collections::{BTreeMap, BTreeSet};

/// Types that may stand in the policy's input: numbers, booleans, closed enums, validated ids, and containers of these.
///
/// The trait is sealed: a type becomes text-free only by a line in this crate, where a review sees it. `String`, `&str`
/// and `serde_json::Value` have no such line, and [`text_free_struct!`](crate::text_free_struct) refuses a field of a
/// type without one.
pub trait TextFree: sealed::Sealed {}

mod sealed {
    /// Not nameable outside this crate, so nobody else can implement [`TextFree`](super::TextFree).
    pub trait Sealed {}
}

macro_rules! text_free {
    ($($t:ty),+ $(,)?) => { $( impl sealed::Sealed for $t {} impl TextFree for $t {} )+ };
}

text_free!(bool, u16, u32, u64, i64);
text_free!(
    crate::names::ServerName,
    crate::names::ToolName,
    crate::names::ToolRef,
    crate::names::RuleId,
    crate::names::ConversationId,
    crate::names::CallerId,
    crate::names::ZoneName,
    crate::context::Tier,
    crate::context::Role,
    crate::context::Origin,
    crate::context::Label,
    crate::context::Weekday,
    crate::context::Timestamp,
    crate::context::Principal,
    crate::context::TokenUsage,
    crate::context::LocalTime,
);
// The one carrier of model-written values: it answers typed questions and offers no text to rules.
text_free!(crate::arguments::Arguments);

impl<T: TextFree> sealed::Sealed for Option<T> {}
impl<T: TextFree> TextFree for Option<T> {}
impl<T: TextFree> sealed::Sealed for BTreeSet<T> {}
impl<T: TextFree> TextFree for BTreeSet<T> {}
impl<K: TextFree, V: TextFree> sealed::Sealed for BTreeMap<K, V> {}
impl<K: TextFree, V: TextFree> TextFree for BTreeMap<K, V> {}

/// Declares a struct whose every field type must be [`TextFree`].
///
/// ```
/// sluicegate_policy::text_free_struct! {
///     /// Facts.
///     pub struct Facts {
///         /// How many.
///         pub count: u64,
///         /// Which rule.
///         pub rule: Option<sluicegate_policy::RuleId>,
///     }
/// }
/// let facts = Facts { count: 1, rule: None };
/// assert_eq!(facts.count, 1);
/// ```
///
/// A field that could carry words does not compile:
///
/// ```compile_fail,E0277
/// sluicegate_policy::text_free_struct! { /// Facts.
///     pub struct Facts { /// Words.
///         pub intent: String } }
/// ```
/// ```compile_fail,E0277
/// sluicegate_policy::text_free_struct! { /// Facts.
///     pub struct Facts { /// Words.
///         pub intent: &'static str } }
/// ```
/// ```compile_fail,E0277
/// sluicegate_policy::text_free_struct! { /// Facts.
///     pub struct Facts { /// Words.
///         pub output: Option<serde_json::Value> } }
/// ```
///
/// Nor does a type from outside that declares itself free of text:
///
/// ```compile_fail,E0277
/// struct Note(String);
/// impl sluicegate_policy::TextFree for Note {}
/// ```
#[macro_export]
macro_rules! text_free_struct {
    ($(#[$meta:meta])* $vis:vis struct $name:ident { $( $(#[$field_meta:meta])* $field_vis:vis $field:ident : $t:ty ),* $(,)? }) => {
        $(#[$meta])*
        $vis struct $name { $( $(#[$field_meta])* $field_vis $field: $t ),* }
        const _: () = {
            const fn text_free<T: $crate::TextFree>() {}
            $( text_free::<$t>(); )*
        };
    };
}
