//! A gateway over the real store, a clock that stands still until moved, and a pool that does what a test tells it.

use async_trait::async_trait;
use serde_json::{Value, json};
use sluicegate_gateway::{
    Approvals, Approver, Attempts, CallHandle, Caller, Catalogue, Digest, GatewaySettings, Invoke,
    InvokeError, ManualClock, Permit, PersonId, ProposedArguments, ProposedCall, ProposedTool, Running,
    ToolCatalogue, ToolDefinition, ToolExecutionGateway, ToolOutput,
};
use sluicegate_policy::{
    ApprovalDefaults, CallerId, ConversationId, Origin, PolicyDocument, Principal, Role, ServerName,
    ToolName, ToolRef,
};
use sluicegate_store::{Store, StoreOptions};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;

/// What the pool does with the next calls.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Script {
    Answer,
    ToolError,
    NotSent,
    Withdrawn,
    AnswerLost,
    TimedOut,
    HangUntilCancelled,
    Panic,
    RetryOnce,
}

/// Seen from outside: how often the tool had its effect, and when.
#[derive(Debug)]
pub(crate) struct World {
    pub(crate) effects: AtomicUsize,
    pub(crate) running: Notify,
    pub(crate) script: std::sync::Mutex<Script>,
    pub(crate) catalogue: watch::Sender<Arc<Catalogue>>,
}

impl World {
    pub(crate) fn effects(&self) -> usize {
        self.effects.load(Ordering::SeqCst)
    }

    pub(crate) fn script(&self, script: Script) {
        *self.script.lock().unwrap() = script;
    }

    /// Publishes the catalogue anew, with this description for every tool.
    pub(crate) fn describe(&self, description: &str) {
        self.catalogue.send_replace(Arc::new(catalogue(description)));
    }
}

struct Pool(Arc<World>);

#[async_trait]
impl Invoke for Pool {
    fn catalogue(&self) -> ToolCatalogue {
        ToolCatalogue::new(self.0.catalogue.subscribe())
    }

    async fn invoke(
        &self,
        permit: Permit,
        attempts: &dyn Attempts,
        cancel: &CancellationToken,
    ) -> Result<ToolOutput, InvokeError> {
        let server = permit.call().tool().server().to_string();
        let script = *self.0.script.lock().unwrap();
        if !matches!(script, Script::NotSent | Script::Withdrawn) {
            self.0.effects.fetch_add(1, Ordering::SeqCst);
        }
        self.0.running.notify_one();
        let output = |text: String, is_error| ToolOutput {
            result: json!({"content": [{"type": "text", "text": text}], "isError": is_error}),
            is_error,
        };
        match script {
            Script::Answer => Ok(output(format!("did {}", permit.call().arguments().canonical()), false)),
            Script::ToolError => Ok(output("no such file".to_owned(), true)),
            Script::NotSent => Err(InvokeError::NotSent { server, why: "connection refused".to_owned() }),
            Script::Withdrawn => Err(InvokeError::Withdrawn { server }),
            Script::AnswerLost => Err(InvokeError::AnswerLost { server, why: "connection reset".to_owned() }),
            Script::TimedOut => Err(InvokeError::TimedOut { server, seconds: 30 }),
            Script::HangUntilCancelled => {
                cancel.cancelled().await;
                Err(InvokeError::Cancelled { server })
            }
            Script::Panic => panic!("scripted"),
            Script::RetryOnce => {
                attempts.retrying("connection reset").await.map_err(|error| InvokeError::AnswerLost {
                    server: server.clone(),
                    why: error.to_string(),
                })?;
                self.0.effects.fetch_add(1, Ordering::SeqCst);
                Ok(output("second attempt".to_owned(), false))
            }
        }
    }
}

pub(crate) fn tool(name: &str) -> ToolRef {
    ToolRef::new(ServerName::new("files").unwrap(), ToolName::new(name).unwrap())
}

fn catalogue(description: &str) -> Catalogue {
    let server = Digest::of("test", &[b"files"]);
    let define = |name: &str| {
        let definition = json!({
            "name": name,
            "description": description,
            "inputSchema": {
                "type": "object",
                "properties": {"path": {"type": "string"}},
                "additionalProperties": false,
            },
        });
        Arc::new(ToolDefinition::pin(tool(name), server, definition).unwrap())
    };
    // Takes more than it names, at two depths.
    let open = json!({
        "name": "open",
        "inputSchema": {
            "type": "object",
            "properties": {
                "path": {},
                "options": {"type": "object", "properties": {"depth": {"type": "integer"}}},
                "labels": {"type": "object"},
                "parts": {"type": "array", "items": {"type": "object", "properties": {"name": {}}}},
            },
        },
    });
    let open = Arc::new(ToolDefinition::pin(tool("open"), server, open).unwrap());
    let tools = ["read", "write", "delete", "move"].map(define);
    Catalogue::new(tools.into_iter().chain([open]), Vec::new())
}

/// Reading is allowed, writing held, deleting both denied and held, moving on no rule.
pub(crate) fn rules() -> Value {
    json!({
        "version": 1,
        "tiers": [
            {"server": "files", "tool": "read", "tier": "safe", "read_only": true},
            {"server": "files", "tool": "write", "tier": "moderate"},
        ],
        "rules": [
            {"id": "read", "kind": "allow_tool", "match": {"server": "files", "tool": "read"}},
            {"id": "write", "kind": "require_approval", "match": {"server": "files", "tool": "write"}},
            {"id": "delete-held", "kind": "require_approval", "match": {"server": "files", "tool": "delete"}},
            {"id": "delete-blocked", "kind": "block_tool", "match": {"server": "files", "tool": "delete"}},
        ],
    })
}

pub(crate) struct House {
    pub(crate) gateway: ToolExecutionGateway,
    pub(crate) approvals: Approvals,
    pub(crate) running: Running,
    pub(crate) world: Arc<World>,
    pub(crate) clock: ManualClock,
    pub(crate) store: Store,
    pub(crate) _folder: tempfile::TempDir,
}

impl House {
    /// A fresh store with [`rules`].
    pub(crate) async fn new() -> Self {
        let house = Self::at(tempfile::tempdir().unwrap()).await;
        house.set_rules(rules()).await;
        house
    }

    /// On the store of an earlier house, as after a restart.
    pub(crate) async fn at(folder: tempfile::TempDir) -> Self {
        let clock = ManualClock::at(1_800_000_000_000);
        let url = format!("sqlite://{}", folder.path().join("gate.db").display());
        let store = Store::open_server(&url, Arc::new(clock.clone()), StoreOptions::default()).await.unwrap();
        let (catalogue, _) = watch::channel(Arc::new(catalogue("a tool")));
        let world = Arc::new(World {
            effects: AtomicUsize::new(0),
            running: Notify::new(),
            script: std::sync::Mutex::new(Script::Answer),
            catalogue,
        });
        let (gateway, approvals, running) = ToolExecutionGateway::new(
            Pool(Arc::clone(&world)),
            store.calls(),
            Arc::new(clock.clone()),
            GatewaySettings {
                approval_defaults: ApprovalDefaults { timeout_s: 300, high_tier_timeout_s: 60 },
                max_in_flight: 256,
            },
        );
        Self { gateway, approvals, running, world, clock, store, _folder: folder }
    }

    pub(crate) async fn set_rules(&self, document: Value) {
        let document: PolicyDocument = serde_json::from_value(document).unwrap();
        self.store.policies().append(document, None, "admin", "test", "test").await.unwrap();
    }

    pub(crate) fn call(&self, name: &str, arguments: Value) -> CallHandle {
        self.gateway
            .execute_tool(proposed(ProposedTool::Known(tool(name)), ProposedArguments::Json(arguments)))
    }

    /// Waits until exactly one call is held and gives its approval.
    pub(crate) async fn held(&self) -> sluicegate_gateway::StoredApproval {
        let mut feed = self.store.feed().subscribe();
        loop {
            if let [pending] = self.store.call_reader().pending().await.unwrap().as_slice() {
                return pending.approval.clone();
            }
            feed.recv().await.unwrap();
        }
    }

    pub(crate) fn approver(name: &str) -> Approver {
        Approver::new(PersonId::new(name).unwrap(), Role::Admin).unwrap()
    }
}

pub(crate) fn caller() -> Caller {
    Caller {
        principal: Principal { caller: CallerId::new("chat:admin").unwrap(), role: Role::Admin },
        owner: PersonId::new("admin").unwrap(),
    }
}

pub(crate) fn proposed(tool: ProposedTool, arguments: ProposedArguments) -> ProposedCall {
    ProposedCall {
        tool,
        arguments,
        caller: caller(),
        origin: Origin::Chat,
        conversation: Some(ConversationId::new("c-1").unwrap()),
        scope: sluicegate_gateway::Scope::default(),
        notices: sluicegate_gateway::Notices::default(),
    }
}
