//! A server process and its descendants: started in a group of their own, ended in order, reaped always.

use crate::servers::Hidden;
use crate::upstream::stdio::environment;
use rustix::process::{Pid, Signal, kill_process_group, test_kill_process_group};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;
use tokio::process::{ChildStderr, ChildStdin, ChildStdout, Command};
use tokio::time::{Instant, sleep, timeout};

/// How long a process has to end by itself after its standard input is closed.
const AFTER_CLOSE: Duration = Duration::from_secs(2);
/// How long it, and then the rest of its group, has to end after the polite signal.
const AFTER_TERM: Duration = Duration::from_secs(2);
/// How often the rest of a group is looked at. They are not our children, so they cannot be waited for.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// Its three pipes.
pub(crate) struct ChildPipes {
    pub(crate) input: ChildStdin,
    pub(crate) output: ChildStdout,
    pub(crate) error: ChildStderr,
}

/// A running server process, leader of its own process group. Dropping it kills the group.
#[derive(Debug)]
pub(crate) struct Child {
    process: tokio::process::Child,
    group: Group,
}

impl Child {
    /// Starts the process with a minimal environment.
    #[expect(clippy::disallowed_methods, reason = "the one place that starts processes")]
    pub(crate) fn start(
        command: &str,
        args: &[String],
        cwd: Option<&Path>,
        ours: &[(OsString, OsString)],
        entry: &BTreeMap<String, Hidden>,
        mark: Option<&str>,
    ) -> std::io::Result<(Self, ChildPipes)> {
        let mut start = Command::new(command);
        start.args(args).env_clear().envs(environment::of_child(ours, entry, mark));
        start.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        // A group of its own, whose number is the process's own. Killing on drop also has it reaped.
        start.process_group(0).kill_on_drop(true);
        if let Some(cwd) = cwd {
            start.current_dir(cwd);
        }
        let mut process = start.spawn()?;
        let group = Group(process.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?)));
        let (input, output, error) = (process.stdin.take(), process.stdout.take(), process.stderr.take());
        let child = Self { process, group };
        match (input, output, error) {
            (Some(input), Some(output), Some(error)) => Ok((child, ChildPipes { input, output, error })),
            _ => Err(std::io::Error::other("its pipes could not be opened")),
        }
    }

    /// Waits until the process has ended by itself, and reaps it. The rest of its group is left to
    /// [`end`](Self::end).
    pub(crate) async fn ended(&mut self) -> String {
        describe(self.process.wait().await)
    }

    /// Ends the process and its whole group: waits, then signals politely, then kills. Its standard input must have
    /// been closed. Returns how the process ended.
    pub(crate) async fn end(&mut self) -> String {
        let status = match timeout(AFTER_CLOSE, self.process.wait()).await {
            Ok(status) => status,
            Err(_) => {
                self.group.signal(Signal::TERM);
                match timeout(AFTER_TERM, self.process.wait()).await {
                    Ok(status) => status,
                    Err(_) => {
                        self.group.signal(Signal::KILL);
                        self.process.wait().await
                    }
                }
            }
        };
        // The leader is gone and reaped. Others, such as the true server behind a launcher, may still be there.
        self.group.signal(Signal::TERM);
        let until = Instant::now() + AFTER_TERM;
        while self.group.is_there() && Instant::now() < until {
            sleep(LOOK_AGAIN).await;
        }
        self.group.signal(Signal::KILL);
        self.group.0 = None;
        describe(status)
    }
}

/// A process group, until it has been ended.
#[derive(Debug)]
struct Group(Option<Pid>);

impl Group {
    fn signal(&self, signal: Signal) {
        if let Some(leader) = self.0 {
            // An error says that nobody is left.
            kill_process_group(leader, signal).ok();
        }
    }

    fn is_there(&self) -> bool {
        self.0.is_some_and(|leader| test_kill_process_group(leader).is_ok())
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.signal(Signal::KILL);
    }
}

fn describe(status: std::io::Result<ExitStatus>) -> String {
    use std::os::unix::process::ExitStatusExt as _;
    match status {
        Ok(status) => match (status.code(), status.signal()) {
            (Some(code), _) => format!("the process ended with exit code {code}"),
            (None, Some(signal)) => format!("the process was ended by signal {signal}"),
            (None, None) => "the process ended".to_owned(),
        },
        Err(error) => format!("the process could not be waited for: {error}"),
    }
}
