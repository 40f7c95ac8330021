//! The lock file that ensures one manager per node and cluster.
//!
//! The kernel drops the lock with the process, so a lock never outlives its manager; the file may.

use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use node_client::runtime_dir::{ClusterDir, ClusterName};
use proto::ids::NodeId;
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

/// A process that only checks (or cleans up) holds a lock for microseconds; a manager holds it until it ends.
const LOCK_TIMEOUT: Duration = Duration::from_millis(300);
const PAUSE: Duration = Duration::from_millis(5);

/// The lock cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// The id is in use.
    #[error(
        "node {node} of cluster `{cluster}` is already managed by {}: stop it with `tieline node stop --node {node}`, or \
         choose another id or cluster", holder(.pid)
    )]
    InUse {
        /// The node.
        node: NodeId,
        /// Of which cluster.
        cluster: ClusterName,
        /// The holder, as far as the file names it.
        pid: Option<u32>,
    },
    /// The system refused.
    #[error("cannot lock {path}: {source}")]
    Io {
        /// The path of the file.
        path: PathBuf,
        /// The error.
        source: std::io::Error,
    },
}

fn holder(pid: &Option<u32>) -> String {
    pid.map_or_else(|| "another process".to_owned(), |pid| format!("process {pid}"))
}

/// The right to be the manager of a node; given up on drop, and by the kernel on any death.
#[derive(Debug)]
pub struct NodeLock {
    node: NodeId,
    file: File,
    path: PathBuf,
}

impl NodeLock {
    /// Takes the lock, and writes this process's id into the file for people to read.
    pub fn take(dir: &ClusterDir, node: NodeId) -> Result<Self, LockError> {
        let start = Instant::now();
        loop {
            if let Some(mut lock) = Self::try_take(dir, node)? {
                lock.sign()?;
                return Ok(lock);
            }
            if start.elapsed() >= LOCK_TIMEOUT {
                let pid = pid_in_file(dir, node);
                return Err(LockError::InUse { node, cluster: dir.cluster().clone(), pid });
            }
            std::thread::sleep(PAUSE);
        }
    }

    /// Takes the lock if no process has it. Does not change what is in the file.
    pub fn try_take(dir: &ClusterDir, node: NodeId) -> Result<Option<Self>, LockError> {
        let path = dir.lock_file(node);
        let fail = |path: &PathBuf, source| Err(LockError::Io { path: path.clone(), source });
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(0o600);
        // No pipe in its place is waited for.
        let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
        options.custom_flags(flags.bits().cast_signed());
        let file = match options.open(&path) {
            Ok(file) => file,
            Err(source) => return fail(&path, source),
        };
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => return Ok(None),
            Err(errno) => return fail(&path, errno.into()),
        }
        // Its last holder may have removed the file between our opening and our locking it.
        let same = |a: &std::fs::Metadata, b: &std::fs::Metadata| (a.dev(), a.ino()) == (b.dev(), b.ino());
        match (file.metadata(), std::fs::symlink_metadata(&path)) {
            (Ok(ours), Ok(there)) if same(&ours, &there) => Ok(Some(Self { node, file, path })),
            (Err(source), _) => fail(&path, source),
            _ => Ok(None),
        }
    }

    fn sign(&mut self) -> Result<(), LockError> {
        let text = format!("{}\n", std::process::id());
        let written = self.file.set_len(0).and_then(|()| self.file.seek(SeekFrom::Start(0)));
        let written = written.and_then(|_| self.file.write_all(text.as_bytes()));
        written.map_err(|source| LockError::Io { path: self.path.clone(), source })
    }

    /// Whose lock it is.
    pub fn node(&self) -> NodeId {
        self.node
    }

    /// Whether the file still is where it was made. If not, it was removed, and a second manager could start.
    pub fn is_in_place(&self) -> bool {
        match (self.file.metadata(), std::fs::symlink_metadata(&self.path)) {
            (Ok(ours), Ok(there)) => ours.ino() == there.ino() && ours.dev() == there.dev(),
            _ => false,
        }
    }

    /// Removes the file while it is still locked, then gives the lock up.
    pub fn remove(self) {
        if self.is_in_place() {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// The lock file, for reading. A process that has the directory may have put anything in its place: opening a
/// pipe would wait for its writer.
fn open(dir: &ClusterDir, node: NodeId) -> std::io::Result<File> {
    let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
    let file =
        OpenOptions::new().read(true).custom_flags(flags.bits().cast_signed()).open(dir.lock_file(node))?;
    if file.metadata()?.is_file() { Ok(file) } else { Err(std::io::ErrorKind::InvalidData.into()) }
}

/// The process id in a lock file. It names the manager only as long as the lock is held.
pub fn pid_in_file(dir: &ClusterDir, node: NodeId) -> Option<u32> {
    let mut text = String::new();
    let file = open(dir, node).ok()?;
    file.take(32).read_to_string(&mut text).ok()?;
    text.trim().parse().ok()
}

/// Whether a process holds the lock of this node; `None` if this user has no permission to check.
pub fn is_held(dir: &ClusterDir, node: NodeId) -> Option<bool> {
    let file = match open(dir, node) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Some(false),
        Err(_) => return None,
    };
    match flock(&file, FlockOperation::NonBlockingLockShared) {
        Ok(()) => Some(false),
        Err(Errno::WOULDBLOCK) => Some(true),
        Err(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_in_use_names_node_cluster_process_and_next_step() {
        let root = std::env::temp_dir().join(format!("tieline-lock-{}", std::process::id()));
        let dir = ClusterDir::new(root.clone(), ClusterName::new("lab").unwrap());
        std::fs::create_dir_all(dir.path()).unwrap();
        let node = NodeId::new(4).unwrap();
        let lock = NodeLock::take(&dir, node).unwrap();
        assert_eq!((is_held(&dir, node), pid_in_file(&dir, node)), (Some(true), Some(std::process::id())));
        let text = NodeLock::take(&dir, node).unwrap_err().to_string();
        let process = format!("process {}", std::process::id());
        for part in ["node 4", "`lab`", &process, "tieline node stop --node 4"] {
            assert!(text.contains(part), "`{text}` lacks `{part}`");
        }
        drop(lock);
        assert_eq!(is_held(&dir, node), Some(false));
        NodeLock::take(&dir, node).unwrap().remove();
        assert!(!dir.lock_file(node).exists());
        std::fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn what_stands_in_its_place_is_not_waited_for() {
        let root = std::env::temp_dir().join(format!("tieline-no-lock-{}", std::process::id()));
        let dir = ClusterDir::new(root.clone(), ClusterName::new("lab").unwrap());
        std::fs::create_dir_all(dir.path()).unwrap();
        let node = NodeId::new(4).unwrap();
        let made = std::process::Command::new("mkfifo").arg(dir.lock_file(node)).status().unwrap();
        assert!(made.success());
        assert_eq!((is_held(&dir, node), pid_in_file(&dir, node)), (None, None));
        std::fs::remove_dir_all(root).unwrap();
    }
}
