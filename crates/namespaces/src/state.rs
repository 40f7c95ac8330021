//! The files of hosts in namespaces: a lock that their hub holds while it lives, and a list of the hosts with
//! their processes.
//!
//! Both are in the cluster's directory, so any process of root finds the hosts there, whoever has started
//! them.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::net::Ipv4Addr;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::PathBuf;

use node_client::runtime_dir::{ClusterDir, ClusterName, RuntimeRoot};
use proto::ids::NodeId;
use rustix::fs::{FlockOperation, OFlags, flock};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use crate::error::{NamespacesError, Result};
use crate::process::Identity;
use crate::up::root_only;

/// Longer is no state of ours.
const STATE_BYTES_MAX: u64 = 64 * 1024;

/// The hosts of a cluster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Lab {
    /// In their order.
    pub(crate) host: Vec<Host>,
}

/// One host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Host {
    /// Its host name.
    pub name: String,
    /// Its addresses in the networks of the hosts, one for each rail.
    pub addresses: Vec<Ipv4Addr>,
    /// Its node.
    pub node: NodeId,
    /// Its first process, which holds its namespaces.
    pub process: Identity,
}

impl Host {
    /// The children of its first process, by their numbers outside: as long as nothing else was started on
    /// it, this is its node manager.
    ///
    /// # Errors
    /// The host is gone, or the kernel does not name children (`CONFIG_PROC_CHILDREN`).
    pub fn children(&self) -> Result<Vec<u32>> {
        let first = self.process.pid;
        let path = format!("/proc/{first}/task/{first}/children");
        let text = std::fs::read_to_string(&path).map_err(NamespacesError::io("read", path))?;
        Ok(text.split_whitespace().filter_map(|pid| pid.parse().ok()).collect())
    }

    /// By which the others know it: that of the first rail.
    pub fn address(&self) -> Ipv4Addr {
        self.addresses.first().copied().unwrap_or(Ipv4Addr::UNSPECIFIED)
    }
}

fn lock_path(dir: &ClusterDir) -> PathBuf {
    dir.path().join("hosts.lock")
}

fn state_path(dir: &ClusterDir) -> PathBuf {
    dir.path().join("hosts.toml")
}

/// What the hub and the hosts say.
pub(crate) fn log_path(dir: &ClusterDir) -> PathBuf {
    dir.path().join("hosts.log")
}

/// Held by the hub while it lives; the kernel gives it up with the process.
#[derive(Debug)]
pub(crate) struct HubLock {
    _file: File,
}

impl HubLock {
    /// Takes it for this process; `None`: another one has it.
    pub(crate) fn take(dir: &ClusterDir) -> Result<Option<Self>> {
        let path = lock_path(dir);
        let fail = || NamespacesError::io("lock", path.clone());
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(0o600);
        let mut file =
            options.custom_flags(OFlags::NOFOLLOW.bits().cast_signed()).open(&path).map_err(fail())?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => return Ok(None),
            Err(errno) => return Err(fail()(errno.into())),
        }
        let (ours, there) = (file.metadata().map_err(fail())?, std::fs::symlink_metadata(&path));
        if !there.is_ok_and(|there| (there.dev(), there.ino()) == (ours.dev(), ours.ino())) {
            // Its last holder has removed it in between.
            return Ok(None);
        }
        let own = Identity::own().map_err(NamespacesError::io("read", "/proc/self"))?;
        let written =
            file.set_len(0).and_then(|()| file.write_all(format!("{} {}\n", own.pid, own.start).as_bytes()));
        written.map_err(fail())?;
        Ok(Some(Self { _file: file }))
    }
}

/// The hub, if one lives.
pub(crate) fn hub(dir: &ClusterDir) -> Option<Identity> {
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
    let file = OpenOptions::new().read(true).custom_flags(flags).open(lock_path(dir)).ok()?;
    if flock(&file, FlockOperation::NonBlockingLockShared) != Err(Errno::WOULDBLOCK) {
        return None;
    }
    let mut text = String::new();
    file.take(64).read_to_string(&mut text).ok()?;
    let (pid, start) = text.trim().split_once(' ')?;
    Some(Identity { pid: pid.parse().ok()?, start: start.parse().ok()? })
}

/// Whether hosts run, or are being started or ended.
pub fn are_up(dir: &ClusterDir) -> bool {
    hub(dir).is_some()
}

/// Whether there is anything of hosts: they run, or something is left of them.
pub fn is_there(dir: &ClusterDir) -> bool {
    lock_path(dir).exists() || state_path(dir).exists()
}

/// The clusters below a runtime directory that have hosts, or something that is left of them, by name; and
/// whether they run.
pub fn clusters(root: &RuntimeRoot) -> Vec<(ClusterName, bool)> {
    let entries = std::fs::read_dir(&root.path).into_iter().flatten();
    let names = entries.filter_map(|entry| ClusterName::new(entry.ok()?.file_name().to_str()?).ok());
    let dirs = names.map(|name| ClusterDir::below(root, name)).filter(is_there);
    let mut found: Vec<_> = dirs.map(|dir| (dir.cluster().clone(), are_up(&dir))).collect();
    found.sort();
    found
}

pub(crate) fn write(dir: &ClusterDir, lab: &Lab) -> Result<()> {
    let path = state_path(dir);
    let text = toml::to_string(lab)
        .map_err(|error| NamespacesError::State { path: path.clone(), why: error.to_string() })?;
    // A reader sees all of it or nothing.
    let new = path.with_extension("new");
    let written = std::fs::write(&new, text).and_then(|()| std::fs::rename(&new, &path));
    written.map_err(NamespacesError::io("write", path))
}

/// Who the hosts are; `None`: nothing has been written yet.
pub(crate) fn read(dir: &ClusterDir) -> Result<Option<Lab>> {
    let path = state_path(dir);
    let mut text = String::new();
    match File::open(&path).and_then(|file| file.take(STATE_BYTES_MAX).read_to_string(&mut text)) {
        Ok(_) => {}
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(NamespacesError::io("read", path)(error)),
    }
    let wrong = |error: toml::de::Error| NamespacesError::State { path, why: error.message().to_owned() };
    toml::from_str(&text).map(Some).map_err(wrong)
}

/// A host by its name.
///
/// # Errors
/// This process may not enter hosts, none are up, or none has this name.
pub fn find(dir: &ClusterDir, name: &str) -> Result<Host> {
    root_only("entering a host in namespaces")?;
    dir.check_for_program()?;
    let cluster = || dir.cluster().clone();
    if !are_up(dir) {
        return Err(NamespacesError::NotUp { cluster: cluster(), dir: dir.path().into() });
    }
    let Some(lab) = read(dir)? else { return Err(NamespacesError::NotYet { cluster: cluster() }) };
    let hosts = || lab.host.iter().map(|host| host.name.clone()).collect();
    let found = lab.host.iter().find(|host| host.name == name).cloned();
    found.ok_or_else(|| NamespacesError::NoHost { name: name.into(), hosts: hosts() })
}

/// Removes the files, when no hub lives or this process is it.
pub(crate) fn remove(dir: &ClusterDir) {
    let state = state_path(dir);
    // The lock comes last: as long as it is there, nobody takes the others for a new hub's.
    for path in [state.with_extension("new"), state, log_path(dir), lock_path(dir)] {
        let _ = std::fs::remove_file(path);
    }
    node::runtime_dir::remove_if_empty(dir);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dir() -> (tempfile::TempDir, ClusterDir) {
        let root = tempfile::tempdir().unwrap();
        let dir = ClusterDir::new(root.path().into(), ClusterName::new("lab").unwrap());
        node::runtime_dir::prepare(&dir, &node::runtime_dir::Sharing::default()).unwrap();
        (root, dir)
    }

    #[test]
    fn hosts_are_found_while_their_hub_lives() {
        if !rustix::process::geteuid().is_root() {
            println!("skipped: only root may enter hosts");
            return;
        }
        let (_root, dir) = dir();
        let said = find(&dir, "host1").unwrap_err().to_string();
        assert!(said.contains("cluster `lab` has no hosts in namespaces here"), "{said}");
        let lock = HubLock::take(&dir).unwrap().unwrap();
        assert!(HubLock::take(&dir).unwrap().is_none());
        assert_eq!(hub(&dir), Some(Identity::own().unwrap()));
        let said = find(&dir, "host1").unwrap_err().to_string();
        assert!(said.contains("just being started"), "{said}");
        let process = Identity { pid: 7, start: 9 };
        let host = Host {
            name: "host1".into(),
            addresses: vec![Ipv4Addr::new(10, 77, 0, 1), Ipv4Addr::new(10, 78, 0, 1)],
            node: NodeId::new(4).unwrap(),
            process,
        };
        write(&dir, &Lab { host: vec![host.clone()] }).unwrap();
        assert_eq!(find(&dir, "host1").unwrap(), host);
        let said = find(&dir, "host9").unwrap_err().to_string();
        assert_eq!(said, "there is no host `host9`: the hosts are host1");
        std::fs::write(state_path(&dir), "host = 7").unwrap();
        let said = find(&dir, "host1").unwrap_err().to_string();
        assert!(said.contains("end the hosts with `tieline down`"), "{said}");
        assert_eq!(clusters(&dir.runtime_root()), [(dir.cluster().clone(), true)]);
        drop(lock);
        assert!(!are_up(&dir) && is_there(&dir));
        assert_eq!(clusters(&dir.runtime_root()), [(dir.cluster().clone(), false)]);
        remove(&dir);
        assert!(!is_there(&dir) && !dir.path().exists());
    }
}
