//! Which tools there are: a live, read-only catalogue, keyed by (server, tool).

use crate::action::Digest;
use crate::schema::Schema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
pub use sluicegate_policy::Hints;
use sluicegate_policy::{ServerName, ToolRef};
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::sync::watch;

/// One tool as its server defines it, with the digest that pins it.
#[derive(Debug)]
pub struct ToolDefinition {
    tool: ToolRef,
    server: Digest,
    definition: Value,
    hints: Hints,
    digest: Digest,
    schema: Schema,
}

/// A definition that cannot be offered.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum DefinitionError {
    /// There is no usable input schema.
    #[error("its input schema cannot be used: {0}")]
    Schema(String),
}

impl ToolDefinition {
    /// Pins a definition. `definition` is the MCP `Tool` object as received (name, title, description,
    /// inputSchema, outputSchema, annotations); `server` is the identity of the configured server entry.
    /// The digest covers name, title, description, schemas and annotations; the order of keys does not count.
    ///
    /// # Errors
    /// When the input schema is missing or cannot be compiled: arguments could not be checked.
    pub fn pin(tool: ToolRef, server: Digest, definition: Value) -> Result<Self, DefinitionError> {
        let schema = Schema::compile(definition.get("inputSchema"))?;
        let pinned: Map<String, Value> =
            ["name", "title", "description", "inputSchema", "outputSchema", "annotations"]
                .into_iter()
                .filter_map(|key| Some((key.to_owned(), definition.get(key)?.clone())))
                .collect();
        let canonical = crate::audit::canonical_json(&Value::Object(pinned));
        let digest = Digest::of("sluicegate/definition/1", &[canonical.as_bytes()]);
        let hint =
            |name: &str| definition.get("annotations").and_then(|a| a.get(name)).and_then(Value::as_bool);
        let hints = Hints { destructive: hint("destructiveHint"), read_only: hint("readOnlyHint") };
        Ok(Self { tool, server, definition, hints, digest, schema })
    }

    /// Server and tool.
    #[must_use]
    pub fn tool(&self) -> &ToolRef {
        &self.tool
    }

    /// Identity of the configured server entry.
    #[must_use]
    pub fn server(&self) -> Digest {
        self.server
    }

    /// Digest of the definition.
    #[must_use]
    pub fn digest(&self) -> Digest {
        self.digest
    }

    /// What the server states explicitly; it can only raise a tier.
    #[must_use]
    pub fn hints(&self) -> Hints {
        self.hints
    }

    /// The server's description; empty if it has none.
    #[must_use]
    pub fn description(&self) -> &str {
        self.definition.get("description").and_then(Value::as_str).unwrap_or_default()
    }

    /// The server's title, an extra beside the true name.
    #[must_use]
    pub fn title(&self) -> Option<&str> {
        self.definition.get("title").and_then(Value::as_str)
    }

    /// The original input schema.
    #[must_use]
    pub fn input_schema(&self) -> &Value {
        self.definition.get("inputSchema").unwrap_or(&Value::Null)
    }

    /// The definition as received.
    #[must_use]
    pub fn as_received(&self) -> &Value {
        &self.definition
    }

    pub(crate) fn schema(&self) -> &Schema {
        &self.schema
    }
}

/// How a server is doing.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ServerState {
    /// Being started or dialled.
    Connecting,
    /// Answering.
    Ready,
    /// Not reachable; it is tried again by itself.
    Unavailable,
}

/// A server on the Tools page.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ServerStatus {
    /// Its name.
    pub name: ServerName,
    /// `stdio` or `http`.
    pub transport: &'static str,
    /// How it is doing.
    pub state: ServerState,
    /// One line: why it is unavailable, or what was left out and why; safe to show.
    pub note: Option<String>,
    /// The last lines of noise on its standard error or output, bounded.
    pub noise: Vec<String>,
    /// Names of environment variables or headers that its entry gives it; values are never shown.
    pub given: Vec<String>,
    /// Tools that cannot be offered, with the reason.
    pub left_out: Vec<(String, String)>,
    /// The server's own name and version, if it said.
    pub about: Option<String>,
}

/// Server processes of an earlier run that had outlived it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Leftovers {
    /// So many were ended.
    pub ended: usize,
    /// So many could not be.
    pub alive: usize,
}

/// A snapshot of all servers and tools.
#[derive(Debug, Default)]
pub struct Catalogue {
    tools: BTreeMap<ToolRef, Arc<ToolDefinition>>,
    servers: Vec<ServerStatus>,
}

impl Catalogue {
    /// Builds a snapshot. Of two definitions of the same pair neither is chosen: the pool leaves both out.
    #[must_use]
    pub fn new(tools: impl IntoIterator<Item = Arc<ToolDefinition>>, servers: Vec<ServerStatus>) -> Self {
        Self { tools: tools.into_iter().map(|tool| (tool.tool().clone(), tool)).collect(), servers }
    }

    /// The tool, exactly.
    #[must_use]
    pub fn get(&self, tool: &ToolRef) -> Option<&Arc<ToolDefinition>> {
        self.tools.get(tool)
    }

    /// All tools, ordered by server, then tool.
    pub fn tools(&self) -> impl Iterator<Item = &Arc<ToolDefinition>> {
        self.tools.values()
    }

    /// All servers, in configured order.
    #[must_use]
    pub fn servers(&self) -> &[ServerStatus] {
        &self.servers
    }
}

/// Read-only view of the live catalogue.
#[derive(Clone, Debug)]
pub struct ToolCatalogue(watch::Receiver<Arc<Catalogue>>);

impl ToolCatalogue {
    /// Views what the sender publishes.
    #[must_use]
    pub fn new(receiver: watch::Receiver<Arc<Catalogue>>) -> Self {
        Self(receiver)
    }

    /// The present snapshot.
    #[must_use]
    pub fn snapshot(&self) -> Arc<Catalogue> {
        self.0.borrow().clone()
    }

    /// The same view, to be told only of what changes from now on.
    #[must_use]
    pub fn from_now(mut self) -> Self {
        self.0.mark_unchanged();
        self
    }

    /// Waits for a newer snapshot than the last one seen by this handle; `false` when there will be none.
    pub async fn changed(&mut self) -> bool {
        self.0.changed().await.is_ok()
    }
}
