//! The shipped servers as real child processes, and a folder around its root to see what it must not touch.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use rmcp::model::{CallToolRequestParams, CallToolResult, JsonObject};
use rmcp::service::{ClientLifecycleMode, ClientServiceExt, RoleClient, RunningService, ServiceError};
use rmcp::transport::TokioChildProcess;
use serde_json::Value;
use tempfile::TempDir;
use tokio::process::Command;

/// What is said of every place outside.
pub(crate) const OUTSIDE: &str = "that path is not inside the sandbox";
/// Content of the files outside; must never be in an answer.
pub(crate) const CANARY: &str = "CANARY: from outside";

/// A folder with `root` to serve, and beside it `outside` and `root-evil` with a canary each.
pub(crate) struct Folder {
    pub(crate) home: TempDir,
    pub(crate) root: PathBuf,
    pub(crate) outside: PathBuf,
}

impl Folder {
    pub(crate) fn new() -> Self {
        let home = tempfile::tempdir().unwrap();
        let root = home.path().join("root");
        let outside = home.path().join("outside");
        fs::create_dir(&root).unwrap();
        for other in [&outside, &home.path().join("root-evil")] {
            fs::create_dir_all(other.join("deep")).unwrap();
            fs::write(other.join("f"), CANARY).unwrap();
            fs::write(other.join("deep/f"), CANARY).unwrap();
        }
        Self { home, root, outside }
    }

    /// Every path beside the root, with its content: equal as long as nothing outside was changed.
    pub(crate) fn surroundings(&self) -> Vec<(PathBuf, Option<String>)> {
        let mut found = Vec::new();
        let mut directories = vec![self.home.path().to_owned()];
        while let Some(directory) = directories.pop() {
            for entry in fs::read_dir(directory).unwrap() {
                let path = entry.unwrap().path();
                if path == self.root {
                    continue;
                }
                let content =
                    path.symlink_metadata().unwrap().is_file().then(|| fs::read_to_string(&path).unwrap());
                if path.is_dir() && !path.is_symlink() {
                    directories.push(path.clone());
                }
                found.push((path, content));
            }
        }
        found.sort();
        found
    }
}

/// The command that serves `root`.
pub(crate) fn command(root: impl AsRef<OsStr>) -> Command {
    shipped("sandbox-files", root)
}

/// The command that serves a shipped server. Cargo builds the example along with the tests of this package.
pub(crate) fn shipped(server: &str, folder: impl AsRef<OsStr>) -> Command {
    let tests = std::env::current_exe().unwrap();
    let program = tests.ancestors().nth(2).unwrap().join("examples").join("shipped_server");
    assert!(program.is_file(), "{} is missing: run `cargo test` without `--test`", program.display());
    let mut command = Command::new(program);
    command.arg(server).arg(folder).env_clear().kill_on_drop(true);
    command
}

/// A client of a shipped server.
pub(crate) struct Client(RunningService<RoleClient, ()>);

impl Client {
    pub(crate) async fn start(root: impl AsRef<OsStr>) -> Self {
        Self::start_with(root, ClientLifecycleMode::Initialize).await
    }

    pub(crate) async fn start_with(root: impl AsRef<OsStr>, lifecycle: ClientLifecycleMode) -> Self {
        Self::of(command(root), lifecycle).await
    }

    pub(crate) async fn of(command: Command, lifecycle: ClientLifecycleMode) -> Self {
        let (transport, _) = TokioChildProcess::builder(command).stderr(Stdio::null()).spawn().unwrap();
        Self(in_time(().serve_with_lifecycle(transport, lifecycle)).await.unwrap())
    }

    pub(crate) fn service(&self) -> &RunningService<RoleClient, ()> {
        &self.0
    }

    pub(crate) async fn try_call(
        &self,
        tool: &'static str,
        arguments: Option<Value>,
    ) -> Result<CallToolResult, ServiceError> {
        let mut request = CallToolRequestParams::new(tool);
        request.arguments =
            arguments.map(|arguments| serde_json::from_value::<JsonObject>(arguments).unwrap());
        in_time(self.0.call_tool(request)).await
    }

    pub(crate) async fn call(&self, tool: &'static str, arguments: Value) -> CallToolResult {
        self.try_call(tool, Some(arguments)).await.unwrap()
    }

    /// The text of a call that must succeed.
    pub(crate) async fn done(&self, tool: &'static str, arguments: Value) -> String {
        let result = self.call(tool, arguments.clone()).await;
        assert_ne!(result.is_error, Some(true), "{tool} {arguments}: {}", text(&result));
        text(&result)
    }

    /// The text of a call that must be answered with a tool error.
    pub(crate) async fn refused(&self, tool: &'static str, arguments: Value) -> String {
        let result = self.call(tool, arguments.clone()).await;
        assert_eq!(result.is_error, Some(true), "{tool} {arguments}: {}", text(&result));
        assert_eq!(result.structured_content, None);
        text(&result)
    }
}

/// All text of a result.
pub(crate) fn text(result: &CallToolResult) -> String {
    result.content.iter().map(|block| block.as_text().unwrap().text.as_str()).collect::<Vec<_>>().join("\n")
}

/// A server that does not answer fails the test and does not hang it.
pub(crate) async fn in_time<F: IntoFuture>(future: F) -> F::Output {
    tokio::time::timeout(Duration::from_secs(60), future).await.expect("no answer within a minute")
}

pub(crate) fn link(target: impl AsRef<Path>, at: impl AsRef<Path>) {
    std::os::unix::fs::symlink(target, at).unwrap();
}
