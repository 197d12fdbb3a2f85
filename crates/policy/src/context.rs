//! What a decision is made from: facts, and the arguments of the call.

use alloc::collections::{BTreeMap, BTreeSet};
use core::fmt;

use serde::{Deserialize, Serialize};

use crate::arguments::Arguments;
use crate::names::{CallerId, ConversationId, RuleId, ToolRef, ZoneName};
use crate::text_free_struct;

/// Declares a closed enum whose written form is one stable snake_case word, the same in documents, store and pages.
macro_rules! words {
    ($(#[$meta:meta])* $name:ident { $( $(#[$var_meta:meta])* $var:ident = $word:literal ),+ $(,)? }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
        pub enum $name { $( $(#[$var_meta])* #[serde(rename = $word)] $var ),+ }

        impl $name {
            /// Every value, in order.
            pub const ALL: &'static [Self] = &[ $( Self::$var ),+ ];

            /// The stable word for it.
            #[must_use]
            pub fn as_str(self) -> &'static str {
                match self { $( Self::$var => $word ),+ }
            }

            /// The value that a word stands for, if any.
            #[must_use]
            pub fn from_word(word: &str) -> Option<Self> {
                match word { $( $word => Some(Self::$var), )+ _ => None }
            }
        }

        impl core::fmt::Display for $name {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                f.pad(self.as_str())
            }
        }
    };
}
pub(crate) use words;

words! {
    /// How much harm a tool can do, in rising order. A tier is not a permission.
    Tier {
        /// Reads, or changes nothing that matters.
        Safe = "safe",
        /// Changes things that can be put right.
        Moderate = "moderate",
        /// Changes things that cannot be put right. Every tool on no tier line.
        High = "high",
    }
}

words! {
    /// What a principal may do in the product. The first three are for people, the last for MCP keys.
    Role {
        /// Sees; decides nothing.
        Viewer = "viewer",
        /// Chats, and decides held calls.
        Approver = "approver",
        /// Also changes rules, servers, keys and people.
        Admin = "admin",
        /// An MCP key: proposes calls, never decides one.
        Client = "client",
    }
}

words! {
    /// Where a call came from.
    Origin {
        /// The built-in chat agent.
        Chat = "chat",
        /// An MCP client.
        Mcp = "mcp",
    }
}

words! {
    /// A fact about a conversation, from operators' marks on tools and from the anomaly detector. Never from a scan of text.
    Label {
        /// It has read content that anyone may have written.
        UntrustedContent = "untrusted_content",
        /// It has read data that must not leave.
        SensitiveData = "sensitive_data",
        /// It has used a tool that reaches outside.
        ReachesOutside = "reaches_outside",
        /// The anomaly detector flagged its caller.
        Anomalous = "anomalous",
    }
}

words! {
    /// A day of the week.
    Weekday {
        /// Monday.
        Monday = "mon",
        /// Tuesday.
        Tuesday = "tue",
        /// Wednesday.
        Wednesday = "wed",
        /// Thursday.
        Thursday = "thu",
        /// Friday.
        Friday = "fri",
        /// Saturday.
        Saturday = "sat",
        /// Sunday.
        Sunday = "sun",
    }
}

impl Weekday {
    /// The day before.
    #[must_use]
    pub fn previous(self) -> Self {
        match self {
            Self::Monday => Self::Sunday,
            Self::Tuesday => Self::Monday,
            Self::Wednesday => Self::Tuesday,
            Self::Thursday => Self::Wednesday,
            Self::Friday => Self::Thursday,
            Self::Saturday => Self::Friday,
            Self::Sunday => Self::Saturday,
        }
    }
}

/// A moment, in milliseconds since the Unix epoch, as the gateway's clock told it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Timestamp(pub i64);

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

text_free_struct! {
    /// The authenticated party behind a call.
    #[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
    pub struct Principal {
        /// Who.
        pub caller: CallerId,
        /// With which role.
        pub role: Role,
    }
}

text_free_struct! {
    /// Real token usage so far, as the providers reported it (estimates are counted too).
    #[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(deny_unknown_fields, default)]
    pub struct TokenUsage {
        /// Tokens of this call's conversation.
        pub conversation: u64,
        /// Tokens of this call's caller on the current day.
        pub caller_day: u64,
    }
}

text_free_struct! {
    /// What a wall clock shows in one zone.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
    pub struct LocalTime {
        /// Day of the week there.
        pub weekday: Weekday,
        /// Minutes since midnight there, 0 to 1439. Anything else counts as not known.
        pub minute_of_day: u16,
    }
}

/// For each rate_limit rule that fits the call: how many calls of the call's subject already ran in the rule's window.
pub type Counters = BTreeMap<RuleId, u64>;

/// The facts that hold for the call's conversation.
pub type Labels = BTreeSet<Label>;

/// Local time in each zone that the rules name. A zone that is missing here is not known.
pub type LocalTimes = BTreeMap<ZoneName, LocalTime>;

text_free_struct! {
    /// Everything that a decision may depend on. It is stored with each call, so that a backtest replays facts.
    #[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
    pub struct PolicyContext {
        /// The tool, as pinned in the catalogue.
        pub tool: ToolRef,
        /// Its tier, from [`RuleSet::tier`](crate::RuleSet::tier).
        pub tier: Tier,
        /// The frozen arguments of the call.
        pub arguments: Arguments,
        /// Who asks.
        pub principal: Principal,
        /// Through which door.
        pub origin: Origin,
        /// In which conversation, if any.
        pub conversation: Option<ConversationId>,
        /// Tokens used so far.
        pub token_usage: TokenUsage,
        /// Calls already run, per rate_limit rule.
        pub counters: Counters,
        /// Facts about the conversation.
        pub labels: Labels,
        /// When.
        pub now: Timestamp,
        /// What that is in the zones that rules name.
        pub local_times: LocalTimes,
    }
}
