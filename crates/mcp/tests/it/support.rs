//! A real gateway on a real store over the real pool; only the servers are scripted.

use serde_json::{Value, json};
use sluicegate_gateway::{
    CallAnswer, CallHandle, CallId, Caller, GatewaySettings, PersonId, ProposedArguments, ProposedCall,
    ProposedTool, ServerState, ServerStatus, SystemClock, ToolCatalogue, ToolExecutionGateway,
};
use sluicegate_mcp::{PoolOptions, ServerEntry, UpstreamControl, connect};
use sluicegate_policy::{
    ApprovalDefaults, CallerId, ConversationId, Origin, Principal, Role, ServerName, ToolName, ToolRef,
};
use sluicegate_store::{Store, StoreOptions};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;

/// Longer than anything here takes; a test that needs it has failed.
pub(crate) const FAR: Duration = Duration::from_secs(60);

/// A server entry for the scripted child.
pub(crate) fn scripted(name: &str, script: &Value) -> ServerEntry {
    ServerEntry::stdio(name, &scripted_child(), &[&script.to_string()]).unwrap()
}

/// The scripted child as the grandchild of a shell, which runs `prelude` first.
pub(crate) fn launched(name: &str, prelude: &str, script: &Value) -> ServerEntry {
    // What follows the child keeps the shell from becoming it.
    let command = format!("{prelude}\n\"$0\" \"$1\"\nexit 0");
    ServerEntry::stdio(name, "sh", &["-c", &command, &scripted_child(), &script.to_string()]).unwrap()
}

pub(crate) fn scripted_child() -> String {
    let tests = std::env::current_exe().unwrap();
    let path = tests.parent().and_then(|deps| deps.parent()).unwrap().join("examples/scripted_child");
    assert!(
        path.is_file(),
        "`cargo test -p sluicegate-mcp` builds the scripted child; a single test target does not"
    );
    path.to_str().unwrap().to_owned()
}

/// The pool behind a gateway that allows everything. Tools whose name starts with `read_` are marked as read-only,
/// and so are those of a server whose name does.
pub(crate) struct House {
    pub(crate) gateway: ToolExecutionGateway,
    pub(crate) control: UpstreamControl,
    pub(crate) store: Store,
    catalogue: ToolCatalogue,
    _folder: tempfile::TempDir,
}

impl House {
    pub(crate) async fn new(entries: Vec<ServerEntry>) -> Self {
        Self::with(
            entries,
            PoolOptions { environment: std::env::vars_os().collect(), ..PoolOptions::default() },
        )
        .await
    }

    pub(crate) async fn with(entries: Vec<ServerEntry>, options: PoolOptions) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let url = format!("sqlite://{}", folder.path().join("gate.db").display());
        let clock = Arc::new(SystemClock::new());
        let store = Store::open_server(&url, clock.clone(), StoreOptions::default()).await.unwrap();
        let rules = json!({
            "version": 1,
            "tiers": [
                { "server": "read-*", "tool": "*", "tier": "safe", "read_only": true },
            ],
            "rules": [{ "id": "all", "kind": "allow_tool" }],
        });
        let rules = serde_json::from_value(rules).unwrap();
        store.policies().append(rules, None, "admin", "test", "test").await.unwrap();
        let (pool, control) = connect(entries, options).unwrap();
        let settings = GatewaySettings {
            approval_defaults: ApprovalDefaults { timeout_s: 300, high_tier_timeout_s: 60 },
            max_in_flight: 256,
        };
        let (gateway, _approvals, _running) = ToolExecutionGateway::new(pool, store.calls(), clock, settings);
        let catalogue = gateway.catalogue();
        Self { gateway, control, store, catalogue, _folder: folder }
    }

    /// Waits until every server has been tried once.
    pub(crate) async fn ready(entries: Vec<ServerEntry>) -> Self {
        let house = Self::new(entries).await;
        assert!(house.control.ready(FAR).await, "{:?}", house.catalogue.snapshot().servers());
        house
    }

    pub(crate) fn propose(&self, server: &str, tool: &str, arguments: ProposedArguments) -> CallHandle {
        let tool = ToolRef::new(ServerName::new(server).unwrap(), ToolName::new(tool).unwrap());
        self.gateway.execute_tool(ProposedCall {
            tool: ProposedTool::Known(tool),
            arguments,
            caller: Caller {
                principal: Principal { caller: CallerId::new("chat:admin").unwrap(), role: Role::Admin },
                owner: PersonId::new("admin").unwrap(),
            },
            origin: Origin::Chat,
            conversation: Some(ConversationId::new("c-1").unwrap()),
            scope: sluicegate_gateway::Scope::default(),
            notices: sluicegate_gateway::Notices::default(),
        })
    }

    pub(crate) async fn call(&self, server: &str, tool: &str, arguments: Value) -> CallAnswer {
        let handle = self.propose(server, tool, ProposedArguments::Json(arguments));
        tokio::time::timeout(FAR, handle.outcome()).await.unwrap()
    }

    /// The text that a call answered with.
    pub(crate) async fn text(&self, server: &str, tool: &str, arguments: Value) -> String {
        text_of(&self.call(server, tool, arguments).await)
    }

    /// What the scripted child has received, in order.
    pub(crate) async fn received(&self, server: &str) -> Vec<Value> {
        serde_json::from_str(&self.text(server, "received", json!({})).await).unwrap()
    }

    /// Waits until what is known of the server fits.
    pub(crate) async fn until(&self, server: &str, fits: impl Fn(&ServerStatus) -> bool) -> ServerStatus {
        let mut catalogue = self.catalogue.clone();
        let waited = tokio::time::timeout(FAR, async {
            loop {
                if let Some(status) = find(&catalogue, server).filter(&fits) {
                    return status;
                }
                assert!(catalogue.changed().await);
            }
        });
        waited.await.unwrap_or_else(|_| panic!("{:?}", self.status(server)))
    }

    /// Waits until the names of the server's tools are these.
    pub(crate) async fn until_tools(&self, server: &str, names: &[&str]) {
        let mut catalogue = self.catalogue.clone();
        let waited = tokio::time::timeout(FAR, async {
            while self.tools(server) != names {
                assert!(catalogue.changed().await);
            }
        });
        waited.await.unwrap_or_else(|_| panic!("{:?}", self.tools(server)));
    }

    pub(crate) async fn until_state(&self, server: &str, state: ServerState) -> ServerStatus {
        self.until(server, |status| status.state == state).await
    }

    pub(crate) fn status(&self, server: &str) -> ServerStatus {
        find(&self.catalogue, server).unwrap()
    }

    pub(crate) fn tools(&self, server: &str) -> Vec<String> {
        let snapshot = self.catalogue.snapshot();
        let of_server = snapshot.tools().filter(|tool| tool.tool().server().as_str() == server);
        of_server.map(|tool| tool.tool().tool().to_string()).collect()
    }

    pub(crate) fn digest(&self, server: &str, tool: &str) -> String {
        let tool = ToolRef::new(ServerName::new(server).unwrap(), ToolName::new(tool).unwrap());
        self.catalogue.snapshot().get(&tool).unwrap().digest().to_string()
    }

    /// The words of a call's trail.
    pub(crate) async fn trail(&self, call: CallId) -> Vec<String> {
        let story = self.store.call_reader().call(call).await.unwrap().unwrap();
        story.trail.into_iter().map(|row| row.kind).collect()
    }
}

fn find(catalogue: &ToolCatalogue, server: &str) -> Option<ServerStatus> {
    catalogue.snapshot().servers().iter().find(|status| status.name.as_str() == server).cloned()
}

pub(crate) fn text_of(answer: &CallAnswer) -> String {
    let output = answer.output.as_ref().unwrap_or_else(|| panic!("{answer:?}"));
    output
        .result
        .pointer("/content/0/text")
        .and_then(Value::as_str)
        .unwrap_or_else(|| panic!("{answer:?}"))
        .to_owned()
}

/// The sentence of a refusal.
pub(crate) fn sentence(answer: &CallAnswer) -> String {
    answer.refusal.as_ref().unwrap_or_else(|| panic!("{answer:?}")).sentence.clone()
}

/// A file that tools leave a mark in each time they run.
pub(crate) struct Effects(tempfile::TempDir);

impl Effects {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.0.path().join("effects")
    }

    pub(crate) fn count(&self) -> usize {
        std::fs::read(self.path()).map_or(0, |marks| marks.len())
    }
}

/// Where processes hold a connection open for as long as they live.
pub(crate) struct Lives(TcpListener);

impl Lives {
    pub(crate) async fn new() -> Self {
        Self(TcpListener::bind("127.0.0.1:0").await.unwrap())
    }

    pub(crate) fn address(&self) -> String {
        self.0.local_addr().unwrap().to_string()
    }

    /// The next process that lives.
    pub(crate) async fn born(&self) -> Life {
        Life(tokio::time::timeout(FAR, self.0.accept()).await.unwrap().unwrap().0)
    }
}

pub(crate) struct Life(tokio::net::TcpStream);

impl Life {
    /// Waits until the process is dead.
    pub(crate) async fn over(&mut self) {
        use tokio::io::AsyncReadExt as _;
        let mut byte = [0];
        // An orderly end or a reset: either way nobody holds the other end any more.
        let read = tokio::time::timeout(FAR, self.0.read(&mut byte)).await.expect("the process lives on");
        assert!(!matches!(read, Ok(1)));
    }
}
