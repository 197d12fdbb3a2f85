//! Processes of an earlier run that outlived it. A run that is killed cannot end its servers: most end by themselves when
//! their input closes, some do not. They are known by a mark in their environment, which their descendants inherit too,
//! wherever those went; a descendant that empties its environment is not found.

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use sluicegate_gateway::Leftovers;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// The variable that carries the mark.
pub(super) const MARK: &str = "SLUICEGATE_CHILD_OF";

/// How long they have to end after the polite signal, and after the hard one.
const PATIENCE: Duration = Duration::from_secs(2);
/// How often they are looked at. They are not our children, so they cannot be waited for.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// Ends the processes that carry `mark`: politely, then the hard way, in 4 s at most. To be called while no run that
/// uses the same mark can be alive, so before [`connect`](crate::connect). Where the system does not tell of its
/// processes in `/proc`, none are found.
pub async fn end_leftovers(mark: &str) -> Leftovers {
    let found = marked(mark).len();
    if found == 0 {
        return Leftovers::default();
    }
    for signal in [Signal::TERM, Signal::KILL] {
        for pid in marked(mark) {
            send(pid, mark, signal);
        }
        let until = Instant::now() + PATIENCE;
        while !marked(mark).is_empty() && Instant::now() < until {
            sleep(LOOK_AGAIN).await;
        }
    }
    let alive = marked(mark).len();
    Leftovers { ended: found.saturating_sub(alive), alive }
}

/// Signals a process only if it carries the mark: its number may be another's by now.
fn send(pid: Pid, mark: &str, signal: Signal) {
    let Ok(process) = pidfd_open(pid, PidfdFlags::empty()) else { return };
    if carries(pid, mark)
        && let Err(error) = pidfd_send_signal(&process, signal)
    {
        tracing::debug!(%error, "a process of an earlier run could not be signalled");
    }
}

fn marked(mark: &str) -> Vec<Pid> {
    let ours = rustix::process::getpid();
    let Ok(processes) = std::fs::read_dir("/proc") else { return Vec::new() };
    let numbers = processes.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    numbers.filter_map(Pid::from_raw).filter(|&pid| pid != ours && carries(pid, mark)).collect()
}

/// Whether a living process has the mark in its environment. One that is not ours to read has not.
fn carries(pid: Pid, mark: &str) -> bool {
    let Ok(environment) = std::fs::read(format!("/proc/{}/environ", pid.as_raw_nonzero())) else {
        return false;
    };
    let wanted = format!("{MARK}={mark}");
    environment.split(|&byte| byte == 0).any(|variable| variable == wanted.as_bytes())
}
