//! What the gate costs: one call of a tool through the gate, with its intent and its outcome durable, against the same
//! call of the same server without a gate, by 1, 16 and 64 callers at once.
//!
//! The server is the sandbox file server over stdio: this very program, started again. The three ways are measured in
//! turn, round by round, so that they see the same machine; printed are the medians over the rounds and their ratios.

#![expect(
    clippy::disallowed_methods,
    clippy::print_stdout,
    clippy::expect_used,
    reason = "a benchmark calls the server as the outside does, prints, and ends when it cannot go on"
)]

use rmcp::model::{CallToolRequestParams, JsonObject};
use rmcp::service::{RoleClient, RunningService, ServiceExt as _};
use rmcp::transport::TokioChildProcess;
use serde_json::json;
use sluicegate_gateway::{
    Caller, GatewaySettings, Notices, PersonId, ProposedArguments, ProposedCall, ProposedTool, Scope,
    SystemClock, ToolExecutionGateway,
};
use sluicegate_mcp::{PoolOptions, ServerEntry, UpstreamControl, connect, serve_files};
use sluicegate_policy::{
    ApprovalDefaults, CallerId, ConversationId, Origin, Principal, Role, ServerName, ToolName, ToolRef,
};
use sluicegate_store::{Store, StoreOptions, Synchronous};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

const CALLERS: [usize; 3] = [1, 16, 64];
/// Calls of one way in one round.
const CALLS: usize = 640;
const ROUNDS: usize = 9;
const START: Duration = Duration::from_secs(30);

/// One way to the same tool.
enum Way {
    Direct(RunningService<RoleClient, ()>),
    Gated { gateway: ToolExecutionGateway, _control: UpstreamControl, _store: Store },
}

fn arguments() -> JsonObject {
    JsonObject::from_iter([("path".to_owned(), json!("notes.txt"))])
}

impl Way {
    async fn direct(program: &str, root: &Path) -> Self {
        let mut command = tokio::process::Command::new(program);
        command.arg("serve").arg(root);
        let transport = TokioChildProcess::new(command).expect("the server starts");
        Self::Direct(().serve(transport).await.expect("the server answers"))
    }

    async fn gated(program: &str, root: &Path, store: &Path, synchronous: Synchronous) -> Self {
        let clock = Arc::new(SystemClock::new());
        let url = format!("sqlite://{}", store.display());
        let store = Store::open_server(&url, clock.clone(), StoreOptions { synchronous }).await;
        let store = store.expect("the store opens");
        let rules = json!({
            "version": 1,
            "tiers": [{ "server": "files", "tool": "*", "tier": "safe" }],
            "rules": [
                { "id": "read", "kind": "allow_tool", "match": { "server": "files", "tool": "read_file" } },
                { "id": "delete", "kind": "block_tool", "match": { "server": "files", "tool": "delete_file" } },
            ],
        });
        let rules = serde_json::from_value(rules).expect("the rules are a document");
        store.policies().append(rules, None, "admin", "bench", "bench").await.expect("the rules are kept");
        let root = root.to_str().expect("a path of text");
        let server = ServerEntry::stdio("files", program, &["serve", root]).expect("an entry");
        let (pool, control) = connect(vec![server], PoolOptions::default()).expect("one server");
        let settings = GatewaySettings {
            approval_defaults: ApprovalDefaults { timeout_s: 300, high_tier_timeout_s: 60 },
            max_in_flight: 256,
        };
        let (gateway, _, _) = ToolExecutionGateway::new(pool, store.calls(), clock, settings);
        assert!(control.ready(START).await, "the server answers");
        Self::Gated { gateway, _control: control, _store: store }
    }

    /// One call, from the asking to the answer.
    async fn call(&self) {
        match self {
            Self::Direct(client) => {
                let mut request = CallToolRequestParams::new("read_file");
                request.arguments = Some(arguments());
                let result = client.call_tool(request).await.expect("an answer");
                assert_ne!(result.is_error, Some(true));
            }
            Self::Gated { gateway, .. } => {
                let name = |text| ServerName::new(text).expect("a name");
                let tool = ToolRef::new(name("files"), ToolName::new("read_file").expect("a name"));
                let answer = gateway.execute_tool(ProposedCall {
                    tool: ProposedTool::Known(tool),
                    arguments: ProposedArguments::Json(arguments().into()),
                    caller: Caller {
                        principal: Principal {
                            caller: CallerId::new("chat:admin").expect("a name"),
                            role: Role::Admin,
                        },
                        owner: PersonId::new("admin").expect("a name"),
                    },
                    origin: Origin::Chat,
                    conversation: Some(ConversationId::new("c-1").expect("a name")),
                    scope: Scope::default(),
                    notices: Notices::default(),
                });
                let answer = answer.outcome().await;
                assert!(answer.output.is_some(), "{answer:?}");
            }
        }
    }

    /// The time of one call in microseconds, as `callers` see it that each make their share one after another.
    async fn round(&self, callers: usize) -> f64 {
        let started = Instant::now();
        let each = CALLS / callers;
        let one = async || {
            for _ in 0..each {
                self.call().await;
            }
        };
        futures::future::join_all((0..callers).map(|_| one())).await;
        started.elapsed().as_secs_f64() * 1e6 / each as f64
    }
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times.get(times.len() / 2).copied().unwrap_or_default()
}

fn main() {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let arguments: Vec<String> = std::env::args().collect();
    match arguments.get(1..) {
        Some([serve, root]) if serve == "serve" => {
            runtime.block_on(serve_files(Path::new(root))).expect("the folder is served");
        }
        _ => runtime.block_on(measure()),
    }
}

async fn measure() {
    let program = std::env::current_exe().expect("this program's own path");
    let program = program.to_str().expect("a path of text");
    // Not in memory: what is measured is the disk's word that a row is kept.
    let folder = tempfile::tempdir_in(std::env::current_dir().expect("a folder")).expect("a folder");
    let root = folder.path().join("root");
    std::fs::create_dir(&root).expect("a folder");
    std::fs::write(root.join("notes.txt"), "hello").expect("a file");
    let ways = [
        Way::direct(program, &root).await,
        Way::gated(program, &root, &folder.path().join("full.db"), Synchronous::Full).await,
        Way::gated(program, &root, &folder.path().join("normal.db"), Synchronous::Normal).await,
    ];
    println!("callers   direct   FULL            NORMAL          (microseconds of one call, times direct)");
    for callers in CALLERS {
        let mut times = [vec![], vec![], vec![]];
        for round in 0..=ROUNDS {
            for (way, times) in ways.iter().zip(&mut times) {
                let time = way.round(callers).await;
                // The first round warms up.
                if round > 0 {
                    times.push(time);
                }
            }
        }
        let [direct, full, normal] = times.map(median);
        println!(
            "{callers:>7} {direct:>8.0} {full:>8.0} ({:>4.1}x) {normal:>8.0} ({:>4.1}x)",
            full / direct,
            normal / direct
        );
    }
}
