//! Stops managers, and verifies that they have ended.

use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, Instant};

use node_client::seqpacket::timespec;
use node_client::{BlockingClient, ClientError};
use proto::ids::NodeId;
use proto::wire::program::Request;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use super::launch::reap;
use crate::credentials;
use crate::error::{NodeError, Result};
use crate::lock::{NodeLock, is_held, pid_in_file};
use crate::runtime_dir::{ClusterDir, directory_metadata, remove_files, remove_if_empty};

/// How long a manager may take to accept the order. One that hangs takes this long, so it is short.
const ORDER_LIMIT: Duration = Duration::from_secs(2);
/// How long each of the last resorts may take.
const SIGNAL_LIMIT: Duration = Duration::from_secs(3);

/// How far it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StopProgress {
    /// Ended in an orderly way.
    Stopped {
        /// The node.
        node: NodeId,
    },
    /// Did not obey in time and was ended by a signal.
    Killed {
        /// The node.
        node: NodeId,
        /// The process ID of its manager.
        pid: u32,
    },
    /// Was dead before; its files are removed.
    Removed {
        /// The node.
        node: NodeId,
    },
}

/// What was ended.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DownReport {
    /// In an orderly way.
    pub stopped: Vec<NodeId>,
    /// By a signal.
    pub killed: Vec<NodeId>,
    /// Were dead before.
    pub removed: Vec<NodeId>,
}

impl DownReport {
    /// There was nothing to be ended.
    pub fn is_empty(&self) -> bool {
        self.stopped.is_empty() && self.killed.is_empty() && self.removed.is_empty()
    }
}

/// Ends the managers of these nodes, or of all, and removes their files. Nothing to end is no error. Each
/// gets `limit` to end in an orderly way, then SIGTERM, then SIGKILL.
pub fn down(
    dir: &ClusterDir,
    nodes: Option<&[NodeId]>,
    limit: Duration,
    progress: &mut dyn FnMut(StopProgress),
) -> Result<DownReport> {
    dir.check_for_program()?;
    let mut all = dir.nodes_with("lock")?;
    all.extend(dir.nodes_with("sock")?);
    all.extend(dir.nodes_with("peer")?);
    all.extend(dir.nodes_with("log")?);
    all.sort_unstable();
    all.dedup();
    all.retain(|node| nodes.is_none_or(|nodes| nodes.contains(node)));
    // First all get the request, then all are waited for: so they close their sessions at the same time.
    let mut running = Vec::new();
    let mut report = DownReport::default();
    for node in all {
        match order(dir, node)? {
            Some(one) => running.push(one),
            None => {
                if remove_leftovers(dir, node) {
                    report.removed.push(node);
                    progress(StopProgress::Removed { node });
                }
            }
        }
    }
    let deadline = Instant::now() + limit;
    for one in running {
        let node = one.node;
        if one.finish(deadline)? {
            report.killed.push(node);
            progress(StopProgress::Killed { node, pid: one.pid });
        } else {
            report.stopped.push(node);
            progress(StopProgress::Stopped { node });
        }
        remove_leftovers(dir, node);
    }
    reap();
    remove_if_empty(dir);
    Ok(report)
}

/// Removes what a manager that has ended left. Returns whether it was a dead one's (its log alone is no sign
/// of that).
pub(super) fn remove_leftovers(dir: &ClusterDir, node: NodeId) -> bool {
    let was_there = dir.lock_file(node).exists() || dir.socket(node).is_ok_and(|path| path.exists());
    let Ok(Some(lock)) = NodeLock::try_take(dir, node) else { return false };
    remove_files(dir, node, &lock);
    let _ = std::fs::remove_file(dir.log_file(node));
    lock.remove();
    was_there
}

/// A manager that has been asked to end.
struct Ending {
    node: NodeId,
    pid: u32,
    process: OwnedFd,
    /// It has accepted the order; if not, there is no point in waiting for it.
    obeys: bool,
    /// Kept open, so that its end is not held up by us.
    _client: Option<BlockingClient>,
}

/// Gives the order. `None`: there is no such manager.
fn order(dir: &ClusterDir, node: NodeId) -> Result<Option<Ending>> {
    let Some((pid, process)) = identify(dir, node)? else { return Ok(None) };
    let mut client = BlockingClient::open(dir, node, "tieline down", false, ORDER_LIMIT);
    let answer = match &mut client {
        Ok(client) => client.ask(Request::Shutdown, &[], ORDER_LIMIT).map(drop),
        Err(_) => Ok(()),
    };
    // One that closes its sockets is ending already: another process has requested it.
    let ends = |error: &ClientError| matches!(error, ClientError::ManagerGone { .. });
    let obeys = client.as_ref().err().is_none_or(ends) && answer.as_ref().err().is_none_or(ends);
    Ok(Some(Ending { node, pid, process, obeys, _client: client.ok() }))
}

/// The process of a node's manager, as a descriptor that cannot come to mean another process.
///
/// A process id could have been given to another process between our reading it and our opening it. So it is
/// compared afterwards: the lock is held (hence its holder lives), and the id in the lock file and the one
/// that the kernel noted for the listening socket are still the one that was opened. The manager has had that
/// id all its life.
///
/// A process that has the directory writes the lock file, and may name any process there. A manager is its
/// user's, so a process of another user is none, and a caller that may end more than that user does not end
/// it.
fn identify(dir: &ClusterDir, node: NodeId) -> Result<Option<(u32, OwnedFd)>> {
    let owner = directory_metadata(dir.path())?.map(|metadata| metadata.uid());
    for _ in 0..20 {
        if is_held(dir, node) == Some(false) {
            return Ok(None);
        }
        let Some(pid) = pid_in_file(dir, node) else {
            // It holds the lock and has not signed it yet.
            std::thread::sleep(Duration::from_millis(10));
            continue;
        };
        let raw = i32::try_from(pid).ok().and_then(Pid::from_raw);
        let Some(process) = raw.and_then(|raw| pidfd_open(raw, PidfdFlags::empty()).ok()) else {
            std::thread::sleep(Duration::from_millis(10));
            continue;
        };
        let same = is_held(dir, node) == Some(true)
            && pid_in_file(dir, node) == Some(pid)
            && listener_pid(dir, node).is_none_or(|listener| listener == pid);
        // Asked while it is known to live: the number is still its own.
        let is_owners = owner.is_some_and(|owner| credentials::is_of_user(pid, owner));
        if same && is_owners && !has_ended(&process) {
            return Ok(Some((pid, process)));
        }
    }
    let pid = pid_in_file(dir, node).unwrap_or_default();
    let why = format!(
        "its lock file and its socket do not name the same living process of the directory's owner: compare {} with `ss -xlp`, and end \
         the process by hand",
        dir.lock_file(node).display()
    );
    Err(NodeError::NotStopped { node, pid, why })
}

fn has_ended(process: &OwnedFd) -> bool {
    poll(&mut [PollFd::new(process, PollFlags::IN)], Some(&timespec(Duration::ZERO)))
        .is_ok_and(|ready| ready > 0)
}

/// Who listens on the node's socket, as the kernel noted when it began to; `None` while it starts or ends.
fn listener_pid(dir: &ClusterDir, node: NodeId) -> Option<u32> {
    let socket = dir.open().ok()??.connect(node).ok()?;
    credentials::of_peer(&socket).ok().map(|credentials| credentials.pid)
}

impl Ending {
    /// Waits for the end, and brings it about if it does not come. Returns whether a signal was needed.
    fn finish(&self, deadline: Instant) -> Result<bool> {
        let left =
            if self.obeys { deadline.saturating_duration_since(Instant::now()) } else { Duration::ZERO };
        if self.has_ended_within(left) {
            return Ok(false);
        }
        for signal in [Signal::TERM, Signal::KILL] {
            if let Err(errno) = pidfd_send_signal(&self.process, signal)
                && errno != rustix::io::Errno::SRCH
            {
                return Err(NodeError::NotStopped { node: self.node, pid: self.pid, why: errno.to_string() });
            }
            if self.has_ended_within(SIGNAL_LIMIT) {
                return Ok(true);
            }
        }
        let why = format!(
            "it survived SIGKILL: see with `ps -o stat,wchan {}` what it waits for in the kernel (state D)",
            self.pid
        );
        Err(NodeError::NotStopped { node: self.node, pid: self.pid, why })
    }

    fn has_ended_within(&self, limit: Duration) -> bool {
        let deadline = Instant::now() + limit;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            match poll(&mut [PollFd::new(&self.process, PollFlags::IN)], Some(&timespec(left))) {
                Ok(ready) => return ready > 0,
                Err(rustix::io::Errno::INTR) => {}
                Err(_) => return false,
            }
        }
    }
}
