//! A store in a folder of its own, and proposals for it: as the real gateway hands them to its store.

use async_trait::async_trait;
use serde_json::{Value, json};
use sluicegate_gateway::{
    ActionDigest, ApprovalId, ApprovalTerms, Attempts, Begun, CallId, CallOutcome, CallStore, Caller,
    Catalogue, Clock, Closed, Closing, Digest, Expect, FactQuery, GatewaySettings, Held, Invoke, InvokeError,
    ManualClock, NewApproval, NewCall, Permit, PersonId, PolicyRevision, ProposedArguments, ProposedCall,
    ProposedTool, Reconciled, RevisionId, Ruling, Stamp, StoreError, StoredApproval, StoredFacts,
    ToolCatalogue, ToolDefinition, ToolExecutionGateway, ToolOutput, Verdict, Vote, VoteCast, VoteOutcome,
};
use sluicegate_policy::{
    ApprovalDefaults, CallerId, ConversationId, Counters, Origin, PolicyDocument, Principal, Role,
    ServerName, TokenUsage, ToolName, ToolRef,
};
use sluicegate_store::{CallStory, Calls, Store, StoreOptions, Verified};
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};
use sqlx::{AssertSqlSafe, ConnectOptions as _};
use std::path::PathBuf;
use std::sync::Arc;
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

/// Where the clock stands at first.
pub(crate) const START_MS: i64 = 1_800_000_000_000;
/// How long an approval of [`House::approval`] stays open.
pub(crate) const LIMIT_MS: i64 = 60_000;

/// Reading is allowed, writing held, deleting blocked, pinging allowed ten times an hour.
pub(crate) fn rules() -> PolicyDocument {
    document(json!({
        "version": 1,
        "tiers": [{"server": "files", "tool": "read", "tier": "safe", "read_only": true}],
        "rules": [
            {"id": "read", "kind": "allow_tool", "match": {"server": "files", "tool": "read"}},
            {"id": "write", "kind": "require_approval", "match": {"server": "files", "tool": "write"}},
            {"id": "delete", "kind": "block_tool", "match": {"server": "files", "tool": "delete"}},
            {"id": "ping", "kind": "allow_tool", "match": {"server": "files", "tool": "ping"}},
            {"id": "ping-rate", "kind": "rate_limit", "match": {"server": "files", "tool": "ping"},
             "limit": {"calls": 10, "window": "1h", "per": "caller"}},
        ],
    }))
}

pub(crate) fn document(value: Value) -> PolicyDocument {
    serde_json::from_value(value).unwrap()
}

/// A store with [`rules`] as its first revision.
pub(crate) struct House {
    pub(crate) store: Store,
    pub(crate) calls: Arc<Calls>,
    pub(crate) clock: ManualClock,
    pub(crate) gate: Gate,
    pub(crate) folder: tempfile::TempDir,
}

impl House {
    pub(crate) async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let house = Self::at(folder, ManualClock::at(START_MS)).await;
        house.store.policies().append(rules(), Some(RevisionId(0)), "admin", "first", "test").await.unwrap();
        house
    }

    /// On the store of an earlier house, as after a restart.
    pub(crate) async fn at(folder: tempfile::TempDir, clock: ManualClock) -> Self {
        let store = Store::open_server(&url(&folder), Arc::new(clock.clone()), StoreOptions::default())
            .await
            .unwrap();
        let calls = Arc::new(store.calls());
        Self { store, calls, gate: Gate::new(), clock, folder }
    }

    pub(crate) fn file(&self) -> PathBuf {
        self.folder.path().join("gate.db")
    }

    /// A connection from outside, that may do anything.
    pub(crate) async fn outside(&self) -> SqliteConnection {
        outside(&self.file()).await
    }

    /// Does something to the database from outside.
    pub(crate) async fn tamper(&self, sql: &str) {
        let mut conn = self.outside().await;
        sqlx::raw_sql(AssertSqlSafe(sql.to_owned())).execute(&mut conn).await.unwrap();
    }

    /// An approval as the gateway would ask for it now.
    pub(crate) fn approval(&self, approvers: u32, roles: &[Role]) -> NewApproval {
        NewApproval {
            id: ApprovalId::random(),
            terms: ApprovalTerms { roles: roles.iter().copied().collect(), approvers },
            stamp: Stamp { began: self.clock.now(), limit_ms: LIMIT_MS },
        }
    }

    /// Holds a call for one approver.
    pub(crate) async fn held(&self) -> (CallId, ApprovalId) {
        self.held_for(1).await
    }

    pub(crate) async fn held_for(&self, approvers: u32) -> (CallId, ApprovalId) {
        let asked = self.gate.asks("write", json!({"path": "a"})).await;
        let (call, approval) = (asked.call.id, self.approval(approvers, &[Role::Approver]));
        let id = approval.id;
        let held = self.calls.hold(asked.call, asked.ruling, approval, RevisionId(1)).await.unwrap();
        assert_eq!(held, Held::Pending);
        (call, id)
    }

    /// Begins an approved call as the gateway would.
    pub(crate) async fn begin_approved(&self, id: ApprovalId) -> Result<Begun, StoreError> {
        let action = self.calls.approval(id).await.unwrap().action;
        let asked = self.gate.asks("write", json!({"path": "a"})).await;
        self.calls.begin_approved(id, action, asked.ruling, asked.expect).await
    }

    pub(crate) async fn story(&self, call: CallId) -> CallStory {
        self.store.call_reader().call(call).await.unwrap().unwrap()
    }

    pub(crate) async fn kinds(&self, call: CallId) -> Vec<String> {
        self.story(call).await.trail.into_iter().map(|row| row.kind).collect()
    }

    pub(crate) async fn assert_whole(&self) {
        let verified = self.store.audit().verify(|_, _| ()).await.unwrap();
        assert!(matches!(verified, Verified::Whole(_)), "{verified:?}");
    }
}

pub(crate) fn url(folder: &tempfile::TempDir) -> String {
    format!("sqlite://{}", folder.path().join("gate.db").display())
}

pub(crate) async fn outside(file: &std::path::Path) -> SqliteConnection {
    SqliteConnectOptions::new().filename(file).connect().await.unwrap()
}

pub(crate) fn person(name: &str) -> PersonId {
    PersonId::new(name).unwrap()
}

pub(crate) fn conversation(id: &str) -> ConversationId {
    ConversationId::new(id).unwrap()
}

/// The caller of [`Gate::asks`]: a person named `asker`.
pub(crate) fn asker() -> Caller {
    Caller {
        principal: Principal { caller: CallerId::new("chat:asker").unwrap(), role: Role::Approver },
        owner: person("asker"),
    }
}

pub(crate) fn vote(approval: ApprovalId, version: i64, name: &str, role: Role, verdict: Verdict) -> VoteCast {
    VoteCast { approval, version, vote: Vote { person: person(name), role, verdict }, note: None }
}

pub(crate) fn completed(text: &str) -> CallOutcome {
    let result = json!({"content": [{"type": "text", "text": text}], "isError": false});
    CallOutcome::Completed { output: ToolOutput { result, is_error: false }, flags: vec!["ignore previous"] }
}

/// What the gateway handed to its store.
pub(crate) struct Asked {
    pub(crate) call: NewCall,
    pub(crate) ruling: Ruling,
    pub(crate) expect: Expect,
}

/// A real gateway over a port that keeps what it is handed and records nothing.
pub(crate) struct Gate {
    gateway: ToolExecutionGateway,
    handed: tokio::sync::Mutex<mpsc::Receiver<Asked>>,
}

impl Gate {
    fn new() -> Self {
        let (hand, handed) = mpsc::channel(1);
        let (sender, receiver) = watch::channel(Arc::new(catalogue()));
        let settings = GatewaySettings {
            approval_defaults: ApprovalDefaults { timeout_s: 300, high_tier_timeout_s: 60 },
            max_in_flight: 16,
        };
        let clock = Arc::new(ManualClock::at(START_MS));
        let pool = Pool { catalogue: receiver, _sender: sender };
        let (gateway, _, _) = ToolExecutionGateway::new(pool, Port(hand), clock, settings);
        Self { gateway, handed: tokio::sync::Mutex::new(handed) }
    }

    /// A call of [`asker`] in conversation `c-1`.
    pub(crate) async fn asks(&self, tool: &str, arguments: Value) -> Asked {
        self.asks_as(tool, arguments, asker(), Some(conversation("c-1"))).await
    }

    pub(crate) async fn asks_as(
        &self,
        tool: &str,
        arguments: Value,
        caller: Caller,
        conversation: Option<ConversationId>,
    ) -> Asked {
        let mut handed = self.handed.lock().await;
        let tool = match ToolName::new(tool) {
            Ok(name) if tool != "unknown" => {
                ProposedTool::Known(ToolRef::new(ServerName::new("files").unwrap(), name))
            }
            _ => ProposedTool::Unknown(tool.to_owned()),
        };
        let arguments = ProposedArguments::Json(arguments);
        let handle = self.gateway.execute_tool(ProposedCall {
            tool,
            arguments,
            caller,
            origin: Origin::Chat,
            conversation,
            scope: sluicegate_gateway::Scope::default(),
            notices: sluicegate_gateway::Notices::default(),
        });
        let asked = handed.recv().await.unwrap();
        drop(handle);
        asked
    }
}

struct Pool {
    catalogue: watch::Receiver<Arc<Catalogue>>,
    _sender: watch::Sender<Arc<Catalogue>>,
}

#[async_trait]
impl Invoke for Pool {
    fn catalogue(&self) -> ToolCatalogue {
        ToolCatalogue::new(self.catalogue.clone())
    }

    async fn invoke(
        &self,
        _: Permit,
        _: &dyn Attempts,
        _: &CancellationToken,
    ) -> Result<ToolOutput, InvokeError> {
        unreachable!("the port records nothing, so nothing may run")
    }
}

fn catalogue() -> Catalogue {
    let server = Digest::of("test", &[b"files"]);
    let define = |name: &str| {
        let tool = ToolRef::new(ServerName::new("files").unwrap(), ToolName::new(name).unwrap());
        let definition = json!({"name": name, "inputSchema": {"type": "object"}});
        Arc::new(ToolDefinition::pin(tool, server, definition).unwrap())
    };
    Catalogue::new(["read", "write", "delete", "ping"].map(define), Vec::new())
}

struct Port(mpsc::Sender<Asked>);

impl Port {
    async fn hand<T>(&self, call: NewCall, ruling: Ruling, expect: Option<Expect>) -> Result<T, StoreError> {
        let nothing = Expect { revision: RevisionId(1), usage: TokenUsage::default(), rates: Vec::new() };
        self.0.send(Asked { call, ruling, expect: expect.unwrap_or(nothing) }).await.unwrap();
        Err(StoreError::Unavailable("it only looks".to_owned()))
    }
}

#[async_trait]
impl CallStore for Port {
    async fn facts(&self, query: FactQuery) -> Result<StoredFacts, StoreError> {
        let counters: Counters = query.rates.iter().map(|rate| (rate.rule.clone(), 0)).collect();
        let usage = TokenUsage::default();
        Ok(StoredFacts {
            revision: Some(RevisionId(1)),
            usage,
            counters,
            refused_before: false,
            caller_gone: false,
        })
    }

    async fn policy(&self, id: RevisionId) -> Result<PolicyRevision, StoreError> {
        Ok(PolicyRevision { id, document: rules() })
    }

    async fn record_denied(&self, call: NewCall, ruling: Ruling) -> Result<(), StoreError> {
        self.hand(call, ruling, None).await
    }

    async fn begin(&self, call: NewCall, ruling: Ruling, expect: Expect) -> Result<Begun, StoreError> {
        self.hand(call, ruling, Some(expect)).await
    }

    async fn hold(
        &self,
        call: NewCall,
        ruling: Ruling,
        _: NewApproval,
        _: RevisionId,
    ) -> Result<Held, StoreError> {
        self.hand(call, ruling, None).await
    }

    async fn approval(&self, _: ApprovalId) -> Result<StoredApproval, StoreError> {
        unreachable!()
    }

    async fn vote(&self, _: VoteCast) -> Result<VoteOutcome, StoreError> {
        unreachable!()
    }

    async fn close(&self, _: ApprovalId, _: Closing) -> Result<Closed, StoreError> {
        unreachable!()
    }

    async fn begin_approved(
        &self,
        _: ApprovalId,
        _: ActionDigest,
        _: Ruling,
        _: Expect,
    ) -> Result<Begun, StoreError> {
        unreachable!()
    }

    async fn refuse_approved(&self, _: ApprovalId, _: Ruling) -> Result<(), StoreError> {
        unreachable!()
    }

    async fn ask_again(&self, _: ApprovalId, _: Ruling, _: ApprovalTerms) -> Result<Held, StoreError> {
        unreachable!()
    }

    async fn retried(&self, _: CallId, _: &str) -> Result<(), StoreError> {
        unreachable!()
    }

    async fn finish(&self, _: CallId, _: CallOutcome) -> Result<(), StoreError> {
        unreachable!()
    }

    async fn detach(&self, _: ApprovalId) -> Result<bool, StoreError> {
        unreachable!()
    }

    async fn collected(&self, _: CallId) -> Result<(), StoreError> {
        unreachable!()
    }

    async fn detached(&self) -> Result<sluicegate_gateway::DetachedCalls, StoreError> {
        unreachable!()
    }

    async fn reconcile(&self) -> Result<Reconciled, StoreError> {
        unreachable!()
    }
}
