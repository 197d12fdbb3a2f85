//! Ids: short, validated, immutable names that the operator, the store or the protocol gave.

use alloc::string::String;
use alloc::sync::Arc;
use core::borrow::Borrow;
use core::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// Why a text is not an id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{shown}` is not a {what}: {rule}")]
pub struct IdError {
    what: &'static str,
    rule: &'static str,
    shown: String,
}

/// Outside input made fit for a message: escaped, at most 80 characters.
pub(crate) fn shown(text: &str) -> String {
    const MAX: usize = 80;
    let mut out: String = text.chars().take(MAX).flat_map(char::escape_debug).collect();
    if text.chars().nth(MAX).is_some() {
        out.push('…');
    }
    out
}

macro_rules! id {
    ($(#[$meta:meta])* $name:ident, $what:literal, $max:literal, $rule:literal, $allowed:expr) => {
        $(#[$meta])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Arc<str>);

        impl $name {
            #[doc = concat!("Checks a text: ", $rule, ".")]
            ///
            /// # Errors
            /// [`IdError`] if it is anything else.
            pub fn new(text: &str) -> Result<Self, IdError> {
                let allowed: fn(char) -> bool = $allowed;
                if text.is_empty() || text.chars().nth($max).is_some() || !text.chars().all(allowed) {
                    return Err(IdError { what: $what, rule: $rule, shown: shown(text) });
                }
                Ok(Self(Arc::from(text)))
            }

            /// The id as text.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&self.0, f)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(&self.0)
            }
        }

        impl Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }

        impl core::str::FromStr for $name {
            type Err = IdError;

            fn from_str(text: &str) -> Result<Self, IdError> {
                Self::new(text)
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(&self.0)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                struct Text;
                impl de::Visitor<'_> for Text {
                    type Value = $name;

                    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                        f.write_str(concat!("a ", $what, ", ", $rule))
                    }

                    fn visit_str<E: de::Error>(self, text: &str) -> Result<$name, E> {
                        $name::new(text).map_err(E::custom)
                    }
                }
                deserializer.deserialize_str(Text)
            }
        }
    };
}

id!(
    /// The name under which the operator configured an upstream server.
    ServerName,
    "server name",
    64,
    "1 to 64 characters of A-Z, a-z, 0-9, `.`, `_` and `-`",
    |c| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-')
);
id!(
    /// A tool's name as its server lists it.
    ToolName,
    "tool name",
    256,
    "1 to 256 characters, none of them a control character",
    |c| !c.is_control()
);
id!(
    /// The stable, unique id of a rule.
    RuleId,
    "rule id",
    64,
    "1 to 64 characters of a-z, 0-9 and `-`",
    |c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-'
);
id!(
    /// The id of a conversation: of a chat, or the key (or issued handle) of an MCP client.
    ConversationId,
    "conversation id",
    128,
    "1 to 128 visible ASCII characters",
    |c| c.is_ascii_graphic()
);
id!(
    /// The id of the principal behind a call: a person or an MCP key.
    CallerId,
    "caller id",
    128,
    "1 to 128 visible ASCII characters",
    |c| c.is_ascii_graphic()
);
id!(
    /// The name of a time zone, such as `Europe/Berlin`. Whether it exists is for the caller to check: this crate has no
    /// clock and no zone data.
    ZoneName,
    "time zone name",
    64,
    "1 to 64 characters of A-Z, a-z, 0-9, `_`, `+`, `-` and `/`",
    |c| c.is_ascii_alphanumeric() || matches!(c, '_' | '+' | '-' | '/')
);

impl CallerId {
    /// The caller of a rule test that names none.
    pub(crate) fn someone() -> Self {
        Self(Arc::from("someone"))
    }
}

/// The identity of a tool: always the pair of server and tool, never a joined name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToolRef {
    server: ServerName,
    tool: ToolName,
}

impl ToolRef {
    /// The pair.
    #[must_use]
    pub fn new(server: ServerName, tool: ToolName) -> Self {
        Self { server, tool }
    }

    /// The server that offers the tool.
    #[must_use]
    pub fn server(&self) -> &ServerName {
        &self.server
    }

    /// The tool's name on that server.
    #[must_use]
    pub fn tool(&self) -> &ToolName {
        &self.tool
    }
}

/// `server/tool`, for people. A server name holds no `/`, so two pairs never look alike.
impl fmt::Display for ToolRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.server, self.tool)
    }
}
