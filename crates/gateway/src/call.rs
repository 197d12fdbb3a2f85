//! One call on its way: proposed by a caller, then frozen.

use crate::action::{ActionDigest, Digest};
use crate::approvals::PersonId;
use crate::notice::Notices;
use crate::scope::Scope;
use serde::{Deserialize, Serialize};
use sluicegate_policy::{Arguments, ConversationId, Origin, Principal, ToolRef};
use std::fmt;
use uuid::Uuid;

/// Our own id of a call: time-ordered, unguessable enough to be an address, never a foreign id.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct CallId(Uuid);

impl CallId {
    /// A new id.
    #[must_use]
    pub fn random() -> Self {
        Self(Uuid::now_v7())
    }

    /// Reads the text form; `None` if it is anything else.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Uuid::try_parse(text).ok().map(Self)
    }
}

impl fmt::Display for CallId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

/// Who is behind a call: the authenticated principal, and the person who answers for it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Caller {
    /// What the rules see.
    pub principal: Principal,
    /// The person who counts as "whoever asked": the chatting person, or the owner of an MCP key.
    pub owner: PersonId,
}

/// The tool as the caller named it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ProposedTool {
    /// A pair that the caller found in the catalogue; the gateway looks it up again.
    Known(ToolRef),
    /// A name that maps to no tool. Recorded and refused, never matched to a similar one.
    Unknown(String),
}

/// Arguments as they came. Absent and null are the empty object (field case F17).
#[derive(Clone, PartialEq, Debug)]
pub enum ProposedArguments {
    /// None were given.
    Absent,
    /// Already parsed.
    Json(serde_json::Value),
    /// Unparsed text, parsed once and strictly by the gateway.
    Text(String),
}

/// A call that a caller asks for. It has no field for reasons: the gate does not read them.
#[derive(Clone, Debug)]
pub struct ProposedCall {
    /// The tool.
    pub tool: ProposedTool,
    /// Its arguments.
    pub arguments: ProposedArguments,
    /// Who asks.
    pub caller: Caller,
    /// By which surface.
    pub origin: Origin,
    /// In which conversation, for budgets and labels.
    pub conversation: Option<ConversationId>,
    /// What the caller can reach at all.
    pub scope: Scope,
    /// Where the tool's notices go while it runs.
    pub notices: Notices,
}

/// A call that can no longer change: what is judged, approved, recorded and run.
#[derive(Clone, Debug)]
pub struct FrozenCall {
    id: CallId,
    tool: ToolRef,
    server: Digest,
    definition: Digest,
    arguments: Arguments,
    read_only: bool,
    action: ActionDigest,
}

impl FrozenCall {
    pub(crate) fn freeze(
        id: CallId,
        caller: &Caller,
        tool: ToolRef,
        server: Digest,
        definition: Digest,
        arguments: Arguments,
    ) -> Self {
        let action = ActionDigest::of(caller, &server, &tool, &definition, &arguments);
        Self { id, tool, server, definition, arguments, read_only: false, action }
    }

    /// Marks the call as one that may be sent again, by the operator's word in the rules it was judged by.
    pub(crate) fn marked_read_only(mut self, read_only: bool) -> Self {
        self.read_only = read_only;
        self
    }

    /// Our id of the call.
    #[must_use]
    pub fn id(&self) -> CallId {
        self.id
    }

    /// Server and tool.
    #[must_use]
    pub fn tool(&self) -> &ToolRef {
        &self.tool
    }

    /// Identity of the server entry that the tool was found at.
    #[must_use]
    pub fn server(&self) -> Digest {
        self.server
    }

    /// Digest of the tool definition that the arguments were checked against.
    #[must_use]
    pub fn definition(&self) -> Digest {
        self.definition
    }

    /// The canonical arguments.
    #[must_use]
    pub fn arguments(&self) -> &Arguments {
        &self.arguments
    }

    /// Whether an operator marked the tool as read-only, so that a lost answer may be asked for once more.
    #[must_use]
    pub fn read_only(&self) -> bool {
        self.read_only
    }

    /// What an approval of this call is bound to.
    #[must_use]
    pub fn action(&self) -> ActionDigest {
        self.action
    }
}
