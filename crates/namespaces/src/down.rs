//! Ends hosts, and removes what is left of them.

use std::time::{Duration, Instant};

use node_client::runtime_dir::ClusterDir;
use proto::ids::NodeId;
use rustix::process::Signal;

use crate::error::{NamespacesError, Result};
use crate::process::{has_ended, signal};
use crate::state;
use crate::up::root_only;

/// How long the hub may take to end the hosts in an orderly way: longer than it gives them.
const STOP_LIMIT: Duration = Duration::from_secs(15);
/// How long the kernel may take to kill them.
const KILL_LIMIT: Duration = Duration::from_secs(20);
/// How long a hub may hold its lock without having said who it is.
const NAME_LIMIT: Duration = Duration::from_secs(2);
const PAUSE: Duration = Duration::from_millis(20);

/// What was ended: the nodes of the hosts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DownReport {
    /// The hosts by name, in their order.
    pub hosts: Vec<String>,
    /// In an orderly way.
    pub stopped: Vec<NodeId>,
    /// By the kernel, because they did not end in time.
    pub killed: Vec<NodeId>,
    /// Were dead before.
    pub removed: Vec<NodeId>,
}

/// Ends all hosts of a cluster, with all that runs in them. Nothing to end is no error.
///
/// # Errors
/// This process may not, or the process that holds the hosts does not end.
pub fn down(dir: &ClusterDir) -> Result<DownReport> {
    dir.check_for_program()?;
    root_only("ending hosts in namespaces")?;
    // A state that cannot be read is taken away with the rest.
    let lab = state::read(dir).ok().flatten();
    let nodes: Vec<_> = lab.iter().flat_map(|lab| &lab.host).map(|host| host.node).collect();
    let hosts = lab.iter().flat_map(|lab| &lab.host).map(|host| host.name.clone()).collect();
    let mut report = DownReport { hosts, ..DownReport::default() };
    match end(dir)? {
        End::WasDead => report.removed = nodes,
        End::Orderly => report.stopped = nodes,
        End::Killed => report.killed = nodes,
    }
    // Unless somebody has started new ones meanwhile.
    if !state::are_up(dir) {
        state::remove(dir);
    }
    Ok(report)
}

enum End {
    WasDead,
    Orderly,
    Killed,
}

fn end(dir: &ClusterDir) -> Result<End> {
    let until = Instant::now() + NAME_LIMIT;
    let (identity, hub) = loop {
        let Some(identity) = state::hub(dir) else { return Ok(End::WasDead) };
        if let Some(hub) = identity.open() {
            break (identity, hub);
        }
        if Instant::now() >= until {
            let why = "its number in the file hosts.lock is another process's".to_owned();
            return Err(NamespacesError::NotStopped { pid: identity.pid, why });
        }
        std::thread::sleep(PAUSE);
    };
    let not_stopped =
        |error: std::io::Error| NamespacesError::NotStopped { pid: identity.pid, why: error.to_string() };
    signal(&hub, Signal::TERM).map_err(not_stopped)?;
    if has_ended(&hub, STOP_LIMIT) {
        return Ok(End::Orderly);
    }
    // The kernel kills all processes of the hosts before it lets the hub end.
    signal(&hub, Signal::KILL).map_err(not_stopped)?;
    if has_ended(&hub, KILL_LIMIT) {
        return Ok(End::Killed);
    }
    Err(not_stopped(std::io::Error::other("one of its processes waits in the kernel; try again later")))
}
