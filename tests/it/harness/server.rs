//! The real program as a child process, in a folder of its own, on a free port.
//!
//! The environment is empty but for what a test gives, so that no key and no setting of the machine gets in.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};
use tokio::process::{Child, Command};
use tokio::sync::mpsc;
use tokio::time::timeout;

/// Longer than any start or stop may take on a busy machine; only a hang reaches it.
const PATIENCE: Duration = Duration::from_secs(60);

/// What a server is started with.
#[derive(Clone, Debug, Default)]
pub(crate) struct Setup {
    environment: BTreeMap<String, String>,
    files: Vec<(PathBuf, Vec<u8>)>,
}

impl Setup {
    /// Nothing but the port: every value stands at its default.
    pub(crate) fn new() -> Self {
        Self::default().env("LISTEN", "127.0.0.1:0")
    }

    /// Sets an environment variable.
    pub(crate) fn env(mut self, name: &str, value: &str) -> Self {
        self.environment.insert(name.to_owned(), value.to_owned());
        self
    }

    /// Writes a file into the server's folder before it starts.
    pub(crate) fn file(mut self, path: &str, text: impl AsRef<[u8]>) -> Self {
        self.files.push((path.into(), text.as_ref().to_vec()));
        self
    }

    /// Starts in a new folder and waits until it is ready.
    pub(crate) async fn start(self) -> Server {
        let folder = Arc::new(tempfile::tempdir().expect("a temporary folder"));
        self.start_in(folder).await
    }

    /// Starts in a folder that another server used, and waits until it is ready.
    pub(crate) async fn start_in(self, folder: Arc<TempDir>) -> Server {
        let mut program = self.spawn(folder);
        let url = loop {
            match program.next_line().await {
                Some(line) => {
                    if let Some(url) = line.strip_prefix("Ready: ") {
                        break url.to_owned();
                    }
                }
                None => panic!("the server ended before it was ready:\n{}", program.log()),
            }
        };
        let sign_in = match program.next_line().await {
            Some(line) => line.strip_prefix("Sign in: ").map(str::to_owned),
            None => None,
        };
        Server { program, url, sign_in, setup: self }
    }

    /// Runs it to its end: for starts that are refused.
    pub(crate) async fn run(self) -> Ended {
        let folder = Arc::new(tempfile::tempdir().expect("a temporary folder"));
        self.run_in(folder).await
    }

    /// Runs it to its end in a given folder.
    pub(crate) async fn run_in(self, folder: Arc<TempDir>) -> Ended {
        self.spawn(folder).ended().await
    }

    fn spawn(&self, folder: Arc<TempDir>) -> Program {
        for (path, text) in &self.files {
            let path = folder.path().join(path);
            std::fs::create_dir_all(path.parent().expect("a file has a folder")).expect("a folder for it");
            std::fs::write(path, text).expect("a file in the server's folder");
        }
        Program::spawn(folder, &self.environment, &[])
    }
}

/// One process of the program.
#[derive(Debug)]
struct Program {
    child: Child,
    lines: mpsc::UnboundedReceiver<String>,
    output: Arc<Mutex<String>>,
    log: Arc<Mutex<String>>,
    folder: Arc<TempDir>,
}

impl Program {
    #[expect(clippy::disallowed_methods, reason = "tests start the program under test")]
    fn spawn(folder: Arc<TempDir>, environment: &BTreeMap<String, String>, arguments: &[&str]) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_sluicegate"))
            .args(arguments)
            .current_dir(folder.path())
            .env_clear()
            .envs(environment)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .expect("the program starts");
        let (sender, lines) = mpsc::unbounded_channel();
        let output = gather(child.stdout.take().expect("stdout is piped"), Some(sender));
        let log = gather(child.stderr.take().expect("stderr is piped"), None);
        Self { child, lines, output, log, folder }
    }

    async fn next_line(&mut self) -> Option<String> {
        timeout(PATIENCE, self.lines.recv()).await.expect("a line, or the end, in time")
    }

    fn log(&self) -> String {
        self.log.lock().expect("no reader panicked").clone()
    }

    async fn ended(mut self) -> Ended {
        let status = timeout(PATIENCE, self.child.wait()).await.expect("an end in time").expect("a status");
        while self.next_line().await.is_some() {}
        // The log's reader ends with the pipe, a moment after the process.
        let log = timeout(PATIENCE, async {
            while Arc::strong_count(&self.log) > 1 {
                tokio::task::yield_now().await;
            }
            self.log()
        });
        let log = log.await.expect("the log's end in time");
        let output = self.output.lock().expect("no reader panicked").clone();
        Ended { status, output, log, folder: self.folder }
    }
}

/// Reads lines until the pipe ends; keeps them, and passes each on if somebody waits for them.
fn gather(
    pipe: impl AsyncRead + Unpin + Send + 'static,
    pass_on: Option<mpsc::UnboundedSender<String>>,
) -> Arc<Mutex<String>> {
    let kept = Arc::new(Mutex::new(String::new()));
    let keep = kept.clone();
    tokio::spawn(async move {
        let mut lines = BufReader::new(pipe).lines();
        while let Ok(Some(line)) = lines.next_line().await {
            {
                let mut kept = keep.lock().expect("no reader panicked");
                kept.push_str(&line);
                kept.push('\n');
            }
            if let Some(sender) = &pass_on {
                // Nobody may be waiting any more; the line is kept all the same.
                sender.send(line).ok();
            }
        }
    });
    kept
}

/// A program that has ended.
#[derive(Debug)]
pub(crate) struct Ended {
    /// How.
    pub(crate) status: ExitStatus,
    /// All of its standard output.
    pub(crate) output: String,
    /// All of its standard error.
    pub(crate) log: String,
    /// Where it ran.
    pub(crate) folder: Arc<TempDir>,
}

impl Ended {
    /// Its exit code; none if a signal ended it.
    pub(crate) fn code(&self) -> Option<i32> {
        self.status.code()
    }
}

/// A running server. Dropping it kills it.
#[derive(Debug)]
pub(crate) struct Server {
    program: Program,
    url: String,
    sign_in: Option<String>,
    setup: Setup,
}

impl Server {
    /// A server with everything at its default.
    pub(crate) async fn start() -> Self {
        Setup::new().start().await
    }

    /// Its address, `http://127.0.0.1:PORT`, without a slash at the end.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// The one-time link that it printed.
    pub(crate) fn sign_in_link(&self) -> &str {
        self.sign_in.as_deref().expect("the server printed a sign-in link")
    }

    /// Its folder: database, sandbox and files.
    pub(crate) fn folder(&self) -> &Path {
        self.program.folder.path()
    }

    /// The folder itself, to start another server in it.
    pub(crate) fn shared_folder(&self) -> Arc<TempDir> {
        self.program.folder.clone()
    }

    /// What it has logged so far.
    pub(crate) fn log(&self) -> String {
        self.program.log()
    }

    /// Its process id.
    pub(crate) fn pid(&self) -> u32 {
        self.program.child.id().expect("the server runs")
    }

    /// Kills it with SIGKILL, as a power cut would, and waits until it is gone.
    pub(crate) async fn kill(mut self) -> Ended {
        self.program.child.start_kill().expect("a signal can be sent");
        self.program.ended().await
    }

    /// Waits until it has ended by itself.
    pub(crate) async fn ended(self) -> Ended {
        self.program.ended().await
    }

    /// Asks it to stop, by SIGTERM, and waits until it has.
    pub(crate) async fn stop(self) -> Ended {
        self.signal("TERM").await;
        self.program.ended().await
    }

    /// Sends a signal by its name.
    #[expect(clippy::disallowed_methods, reason = "a signal needs no further dependency this way")]
    pub(crate) async fn signal(&self, name: &str) {
        let sent = Command::new("/bin/sh")
            .args(["-c", "kill -s \"$0\" \"$1\"", name, &self.pid().to_string()])
            .status()
            .await
            .expect("a shell");
        assert!(sent.success(), "the signal {name} was not sent");
    }

    /// Kills it and starts it again in the same folder, with the same settings.
    pub(crate) async fn restart(self) -> Self {
        let setup = Setup { files: Vec::new(), ..self.setup.clone() };
        let folder = self.kill().await.folder;
        setup.start_in(folder).await
    }
}

/// Runs one command of the program in a folder, to its end.
pub(crate) async fn command(folder: Arc<TempDir>, arguments: &[&str]) -> Ended {
    Program::spawn(folder, &BTreeMap::new(), arguments).ended().await
}
