//! The agent over the real gate, the real store on a file, and a model that speaks over real HTTP. Only the tools are
//! scripted, at the port where the pool of servers would be.

use super::faults::Faults;
use crate::harness::model::{Answer, ModelServer};
use async_trait::async_trait;
use secrecy::SecretString;
use serde_json::{Value, json};
use sluicegate::agent::{
    AgentHandle, AgentParts, AgentSettings, ConversationLog, Entry, Models, Source, StoreLog, TurnReport,
    TurnView, prompt,
};
use sluicegate::llm::LlmProvider;
use sluicegate::llm::gemini::Gemini;
use sluicegate::llm::wire::{Limits, Wire};
use sluicegate_gateway::{
    Approvals, Approver, Attempts, Catalogue, Digest, GatewaySettings, Invoke, InvokeError, ManualClock,
    Permit, PersonId, ResolveError, Resolved, Running, ToolCatalogue, ToolDefinition, ToolExecutionGateway,
    ToolOutput, Verdict,
};
use sluicegate_policy::{
    ApprovalDefaults, ConversationId, PolicyDocument, Role, ServerName, ToolName, ToolRef,
};
use sluicegate_store::{AuditFilter, AuditStart, NewConversation, PendingCall, Store, StoreOptions};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;

pub(super) const MODEL: &str = "gemini-3.8-flash";

/// The tools. `read` answers by its path; `move` hangs until it is cancelled.
#[derive(Debug)]
pub(super) struct Tools {
    /// Calls that ran, in the order they began.
    ran: Mutex<Vec<String>>,
    running: AtomicUsize,
    pub(super) hanging: Notify,
    catalogue: watch::Sender<Arc<Catalogue>>,
}

impl Tools {
    pub(super) fn ran(&self) -> Vec<String> {
        self.ran.lock().unwrap().clone()
    }
}

struct Pool(Arc<Tools>);

#[async_trait]
impl Invoke for Pool {
    fn catalogue(&self) -> ToolCatalogue {
        ToolCatalogue::new(self.0.catalogue.subscribe())
    }

    async fn invoke(
        &self,
        permit: Permit,
        _attempts: &dyn Attempts,
        cancel: &CancellationToken,
    ) -> Result<ToolOutput, InvokeError> {
        let (tool, arguments) =
            (permit.call().tool().tool().to_string(), permit.call().arguments().to_value());
        self.0.ran.lock().unwrap().push(format!("{tool} {arguments}"));
        self.0.running.fetch_add(1, Ordering::SeqCst);
        let said = |text: &str, is_error| {
            let result = json!({ "content": [{ "type": "text", "text": text }], "isError": is_error });
            Ok(ToolOutput { result, is_error })
        };
        match (tool.as_str(), arguments["path"].as_str()) {
            ("read", Some("missing.txt")) => said("no such file", true),
            ("read", Some("list.json")) => said("[1,2,3]", false),
            ("move", _) => {
                self.0.hanging.notify_one();
                cancel.cancelled().await;
                Err(InvokeError::Cancelled { server: "files".into() })
            }
            _ => said("hello", false),
        }
    }
}

fn catalogue() -> Catalogue {
    let server = Digest::of("test", &[b"files"]);
    let define = |name: &str| {
        let tool = ToolRef::new(ServerName::new("files").unwrap(), ToolName::new(name).unwrap());
        let definition = json!({
            "name": name,
            "description": format!("The {name} tool."),
            "inputSchema": {
                "type": "object",
                "properties": { "path": { "type": "string" } },
                "additionalProperties": false,
            },
        });
        Arc::new(ToolDefinition::pin(tool, server, definition).unwrap())
    };
    Catalogue::new(["read", "write", "delete", "move"].map(define), Vec::new())
}

/// Reading and moving are allowed, writing is held, deleting blocked.
pub(super) fn rules() -> Value {
    json!({
        "version": 1,
        "rules": [
            { "id": "read", "kind": "allow_tool", "match": { "server": "files", "tool": ["read", "move"] } },
            { "id": "write", "kind": "require_approval", "match": { "server": "files", "tool": "write" } },
            { "id": "delete", "kind": "block_tool", "match": { "server": "files", "tool": "delete" } },
        ],
    })
}

/// [`rules`] with a token budget.
pub(super) fn budget(tokens: u64, per: &str) -> Value {
    let mut rules = rules();
    let budget = json!({ "id": "budget", "kind": "token_budget", "limit": { "tokens": tokens, "per": per } });
    rules["rules"].as_array_mut().unwrap().push(budget);
    rules
}

/// An answer of the model: its parts, how it ended, and the usage it tells, if any.
pub(super) fn answer(parts: &[Value], finish: Option<&str>, usage: Option<Value>) -> Answer {
    let mut candidate = json!({ "content": { "role": "model", "parts": parts }, "index": 0 });
    if let Some(finish) = finish {
        candidate["finishReason"] = finish.into();
    }
    let mut event = json!({ "candidates": [candidate], "modelVersion": MODEL });
    if let Some(usage) = usage {
        event["usageMetadata"] = usage;
    }
    Answer::events([event])
}

pub(super) fn usage(prompt: u64, answer: u64, thoughts: u64) -> Value {
    json!({
        "promptTokenCount": prompt,
        "candidatesTokenCount": answer,
        "thoughtsTokenCount": thoughts,
        "totalTokenCount": prompt + answer + thoughts,
    })
}

pub(super) fn text(text: &str) -> Answer {
    answer(&[json!({ "text": text })], Some("STOP"), Some(usage(10, 5, 0)))
}

pub(super) fn call(name: &str, path: &str) -> Value {
    json!({ "functionCall": { "name": name, "args": { "path": path } } })
}

pub(super) fn calls(calls: &[Value]) -> Answer {
    answer(calls, Some("STOP"), Some(usage(10, 5, 0)))
}

pub(super) struct House {
    pub(super) agent: AgentHandle,
    pub(super) approvals: Approvals,
    pub(super) running: Running,
    pub(super) tools: Arc<Tools>,
    pub(super) model: ModelServer,
    pub(super) store: Store,
    pub(super) log: StoreLog,
    pub(super) faults: Arc<Faults>,
    pub(super) folder: tempfile::TempDir,
}

pub(super) fn ann() -> PersonId {
    PersonId::new("ann").unwrap()
}

impl House {
    /// A fresh store with [`rules`], and a model with this script.
    pub(super) async fn new(script: impl IntoIterator<Item = Answer>) -> Self {
        Self::with(rules(), AgentSettings::default(), script).await
    }

    pub(super) async fn with(
        rules: Value,
        settings: AgentSettings,
        script: impl IntoIterator<Item = Answer>,
    ) -> Self {
        let house = Self::at(tempfile::tempdir().unwrap(), settings, script).await;
        house.set_rules(rules).await;
        house
    }

    pub(super) async fn set_rules(&self, rules: Value) {
        let document: PolicyDocument = serde_json::from_value(rules).unwrap();
        let current = self.store.policies().current().await.unwrap().map(|entry| entry.revision.id);
        self.store.policies().append(document, current, "admin", "test", "test").await.unwrap();
    }

    /// On the store of an earlier house, as a process that starts.
    pub(super) async fn at(
        folder: tempfile::TempDir,
        settings: AgentSettings,
        script: impl IntoIterator<Item = Answer>,
    ) -> Self {
        let clock = Arc::new(ManualClock::at(1_800_000_000_000));
        let url = format!("sqlite://{}", folder.path().join("gate.db").display());
        let store = Store::open_server(&url, clock.clone(), StoreOptions::default()).await.unwrap();
        let tools = Arc::new(Tools {
            ran: Mutex::default(),
            running: AtomicUsize::new(0),
            hanging: Notify::new(),
            catalogue: watch::channel(Arc::new(catalogue())).0,
        });
        let approval_defaults = ApprovalDefaults { timeout_s: 300, high_tier_timeout_s: 60 };
        let (gateway, approvals, running) = ToolExecutionGateway::new(
            Pool(Arc::clone(&tools)),
            store.calls(),
            clock,
            GatewaySettings { approval_defaults, max_in_flight: 256 },
        );
        running.reconcile().await.unwrap();
        let model = ModelServer::start(script).await;
        let base = model.base.clone();
        let make = move |model: &str| {
            let limits = Limits { backoff: Duration::from_millis(1), ..Limits::default() };
            let wire = Wire::new(limits).unwrap();
            let gemini = Gemini::new(wire, &base, SecretString::from("CANARY-KEY"), model)?;
            Ok(Arc::new(gemini) as Arc<dyn LlmProvider>)
        };
        let source =
            Source { name: "gemini", label: "Gemini", default_model: MODEL.into(), make: Box::new(make) };
        let log =
            StoreLog::new(store.conversations(), store.call_reader(), store.audit_log(), store.policies());
        let faults = Arc::new(Faults::new(log.clone()));
        let agent = AgentHandle::new(AgentParts {
            gateway,
            log: faults.clone(),
            models: Models::new(vec![source]),
            settings,
        });
        agent.recover().await.unwrap();
        Self { agent, approvals, running, tools, model, store, log, faults, folder }
    }

    /// A new conversation of ann's.
    pub(super) async fn conversation(&self) -> ConversationId {
        let id = ConversationId::new(&uuid::Uuid::new_v4().to_string()).unwrap();
        let choice = self.agent.models().preferred().unwrap();
        let new = NewConversation {
            id: id.clone(),
            title: "test".into(),
            owner: ann(),
            provider: choice.provider,
            model: choice.model,
            system: prompt::SYSTEM.into(),
        };
        self.store.conversations().create(new).await.unwrap();
        id
    }

    /// Sends a message and does not wait for the turn.
    pub(super) async fn begin(&self, id: &ConversationId, text: &str) -> sluicegate::agent::TurnStarted {
        self.agent.start(id, &ann(), Role::Approver, text).await.unwrap()
    }

    /// Sends a message and waits for the turn's end.
    pub(super) async fn say(&self, id: &ConversationId, text: &str) -> TurnReport {
        let report = self.begin(id, text).await.finished().await.unwrap();
        assert_eq!(self.agent.running(id), None, "the turn is over before its report is read");
        report
    }

    pub(super) async fn entries(&self, id: &ConversationId) -> Vec<Entry> {
        self.log.transcript(id).await.unwrap().entries
    }

    /// Waits until so many calls are held.
    pub(super) async fn held(&self, count: usize) -> Vec<PendingCall> {
        let mut feed = self.store.feed().subscribe();
        loop {
            let pending = self.store.call_reader().pending().await.unwrap();
            if pending.len() == count {
                return pending;
            }
            feed.recv().await.unwrap();
        }
    }

    /// Waits until the running turn looks like this.
    pub(super) async fn seen(&self, id: &ConversationId, like: impl Fn(&TurnView) -> bool) -> TurnView {
        loop {
            let (view, mut live) = self.agent.watch(id);
            let view = view.expect("the turn is running");
            if like(&view) {
                return view;
            }
            live.recv().await.unwrap();
        }
    }

    pub(super) async fn decide(
        &self,
        held: &PendingCall,
        verdict: Verdict,
        note: Option<&str>,
    ) -> Result<Resolved, ResolveError> {
        let bob = Approver::new(PersonId::new("bob").unwrap(), Role::Approver).unwrap();
        let approval = &held.approval;
        self.approvals.resolve(&bob, approval.id, approval.version, verdict, note.map(str::to_owned)).await
    }

    /// The rows of the audit trail of one kind: their facts, and their payloads.
    pub(super) async fn audit(&self, kind: &str) -> Vec<(Value, Vec<(String, String)>)> {
        let reader = self.store.audit();
        let page = reader.rows(&AuditFilter::default(), AuditStart::Latest, 500).await.unwrap();
        let mut found = Vec::new();
        for row in page.rows.into_iter().filter(|row| row.kind == kind) {
            let payloads = reader.payloads(row.seq).await.unwrap();
            let payloads = payloads.into_iter().map(|payload| (payload.name, payload.text)).collect();
            found.push((serde_json::from_str(&row.facts).unwrap(), payloads));
        }
        found
    }

    /// The contents of the last request that the model got, after a check that the model could accept it.
    pub(super) fn last_contents(&self) -> Vec<Value> {
        let received = self.model.received();
        let contents = received.last().unwrap().json()["contents"].as_array().unwrap().clone();
        assert_legal(&contents);
        contents
    }
}

fn parts_of<'a>(content: &'a Value, kind: &str) -> Vec<&'a Value> {
    content["parts"].as_array().into_iter().flatten().filter_map(|part| part.get(kind)).collect()
}

/// Every content with calls is followed by one with exactly their answers, in order, each an object.
fn assert_legal(contents: &[Value]) {
    for (at, content) in contents.iter().enumerate() {
        let calls: Vec<_> =
            parts_of(content, "functionCall").iter().map(|call| call["name"].clone()).collect();
        let next = contents.get(at + 1).map(|next| parts_of(next, "functionResponse")).unwrap_or_default();
        let answered: Vec<_> = next.iter().map(|answer| answer["name"].clone()).collect();
        assert_eq!(calls, answered, "calls and answers differ after content {at}: {contents:#?}");
        assert!(next.iter().all(|answer| answer["response"].is_object()));
    }
}

/// The answers to the calls of the last message but one.
pub(super) fn responses(contents: &[Value]) -> Vec<Value> {
    let last = contents.iter().rev().find(|content| !parts_of(content, "functionResponse").is_empty());
    parts_of(last.unwrap(), "functionResponse").iter().map(|answer| answer["response"].clone()).collect()
}
