//! The cluster's directory as a program uses it: opened once, checked, and used by its descriptor.
//!
//! A default directory is believed only if it is the user's own or root's, because anybody may have made one
//! of its name in the temporary directory. One that the user has named is believed no matter which user owns
//! it, as is what only its owner can have put into it. Who listens there is examined besides
//! ([`OpenDir::connect`]): a socket's owner proves nothing of the one that answers.

use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use proto::ids::NodeId;
use rustix::fs::{CWD, Mode, OFlags, Stat, fstat, openat};
use rustix::io::Errno;
use rustix::process::geteuid;

use super::{ClusterDir, Result, RuntimeDirError, check_mode};
use crate::seqpacket::Seqpacket;

/// Some others may reach what is in it: by the mode, or by a list, whose mask is in the mode.
const SHARED: u32 = 0o011;
/// Others may write in it.
const WRITABLE: u32 = 0o022;

/// A cluster's directory that may be believed.
#[derive(Debug)]
pub struct OpenDir {
    fd: OwnedFd,
    path: PathBuf,
    owner: u32,
}

/// Why there is no connection with a manager.
#[derive(Debug)]
pub enum ConnectError {
    /// An error of the system.
    System(Errno),
    /// Another process than the cluster's manager listens.
    Foreign {
        /// Who listens.
        uid: u32,
        /// Whose directory it is.
        owner: u32,
    },
}

impl From<Errno> for ConnectError {
    fn from(errno: Errno) -> Self {
        Self::System(errno)
    }
}

impl std::fmt::Display for ConnectError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::System(errno) => errno.fmt(f),
            Self::Foreign { uid, owner } => {
                write!(f, "user {uid} listens there, in a directory of user {owner}")
            }
        }
    }
}

impl ClusterDir {
    /// Opens the directory, if it is there and may be believed.
    ///
    /// # Errors
    /// It belongs to another user, or others may write in it.
    pub fn open(&self) -> Result<Option<OpenDir>> {
        // A link in the place of a default directory was not made by the user.
        let follow = if self.named { OFlags::empty() } else { OFlags::NOFOLLOW };
        let Some(root) = opened(CWD, &self.root, &self.root, follow)? else { return Ok(None) };
        if !self.named {
            check_parent(&self.root)?;
        }
        let root_stat = looked_at(&root, &self.root)?;
        self.check_owner(&self.root, &root_stat, self.named)?;
        check_mode(&self.root, root_stat.st_mode)?;
        let name = Path::new(self.cluster.as_str());
        let Some(fd) = opened(&root, name, &self.path, OFlags::NOFOLLOW)? else { return Ok(None) };
        let stat = looked_at(&fd, &self.path)?;
        // Where others may write, as in a sticky directory, anybody may have made it; else its place was
        // given to it.
        let given = self.named && (root_stat.st_mode & WRITABLE == 0 || stat.st_uid == root_stat.st_uid);
        self.check_owner(&self.path, &stat, given)?;
        check_mode(&self.path, stat.st_mode)?;
        Ok(Some(OpenDir { fd, path: self.path.clone(), owner: stat.st_uid }))
    }

    /// Another user's directory is accepted if it was named, and is shared.
    fn check_owner(&self, path: &Path, stat: &Stat, named: bool) -> Result<()> {
        let (path, owner, uid) = (path.to_path_buf(), stat.st_uid, geteuid().as_raw());
        match (is_own_or_root(owner), named) {
            (true, _) => Ok(()),
            (false, true) if stat.st_mode & SHARED != 0 => Ok(()),
            (false, true) => Err(RuntimeDirError::ForeignOwner { path, owner, uid }),
            (false, false) if self.named => Err(RuntimeDirError::ForeignOwner { path, owner, uid }),
            (false, false) => Err(RuntimeDirError::Foreign { path, owner, uid }),
        }
    }
}

impl OpenDir {
    /// Connects with the manager of a node, and sees to it that it is one: a process of this user, of root,
    /// or of the directory's owner.
    ///
    /// # Errors
    /// No process listens, or one of a stranger.
    pub fn connect(&self, node: NodeId) -> std::result::Result<Seqpacket, ConnectError> {
        let name = format!("node-{node}.sock");
        let by_descriptor = format!("/proc/self/fd/{}/{name}", self.fd.as_raw_fd());
        let socket = match Seqpacket::connect(Path::new(&by_descriptor)) {
            // Without /proc the path has to do: the process that answers is examined in any case.
            Err(Errno::NOENT | Errno::ACCESS) if !Path::new("/proc/self/fd").exists() => {
                Seqpacket::connect(&self.path.join(name))?
            }
            other => other?,
        };
        let uid = shm::socket::peer(socket.as_fd())?.uid;
        if uid != self.owner && !is_own_or_root(uid) {
            return Err(ConnectError::Foreign { uid, owner: self.owner });
        }
        Ok(socket)
    }
}

/// No other user can put another directory in the place of a default one.
///
/// # Errors
/// Another user can.
pub fn check_parent(root: &Path) -> Result<()> {
    let Some(parent) = root.parent() else { return Ok(()) };
    let Some(fd) = opened(CWD, parent, parent, OFlags::empty())? else { return Ok(()) };
    let stat = looked_at(&fd, parent)?;
    if !is_own_or_root(stat.st_uid) {
        let (owner, uid) = (stat.st_uid, geteuid().as_raw());
        return Err(RuntimeDirError::Foreign { path: parent.into(), owner, uid });
    }
    check_mode(parent, stat.st_mode)
}

fn opened(at: impl AsFd, path: &Path, shown: &Path, more: OFlags) -> Result<Option<OwnedFd>> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC | more;
    match openat(at, path, flags, Mode::empty()) {
        Ok(fd) => Ok(Some(fd)),
        Err(Errno::NOENT) => Ok(None),
        Err(Errno::NOTDIR | Errno::LOOP) => Err(RuntimeDirError::NotADirectory { path: shown.into() }),
        Err(errno) => Err(RuntimeDirError::Io { what: "look at", path: shown.into(), source: errno.into() }),
    }
}

fn looked_at(fd: &OwnedFd, path: &Path) -> Result<Stat> {
    fstat(fd).map_err(|errno| RuntimeDirError::Io {
        what: "look at",
        path: path.into(),
        source: errno.into(),
    })
}

/// Root could do to this user whatever it wants.
pub fn is_own_or_root(uid: u32) -> bool {
    uid == 0 || (uid == geteuid().as_raw() && !is_unknown(uid))
}

/// In a user namespace that has no name for this user, every user that it has none for looks like this one
/// (user_namespaces(7)).
fn is_unknown(uid: u32) -> bool {
    let overflow = std::fs::read_to_string("/proc/sys/kernel/overflowuid");
    if overflow.map_or(65_534, |text| text.trim().parse().unwrap_or(65_534)) != uid {
        return false;
    }
    // The file is missing where there are no user namespaces, and then every user is mapped.
    std::fs::read_to_string("/proc/self/uid_map").is_ok_and(|map| !maps(&map, uid))
}

fn maps(map: &str, uid: u32) -> bool {
    map.lines().any(|line| {
        let mut numbers = line.split_whitespace().map(|number| number.parse::<u64>().unwrap_or(0));
        let (first, _, count) = (numbers.next(), numbers.next(), numbers.next());
        first
            .zip(count)
            .is_some_and(|(first, count)| (first..first.saturating_add(count)).contains(&u64::from(uid)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_without_a_name_are_told_by_the_map() {
        let all = "         0          0 4294967295\n";
        assert!(maps(all, 65_534) && maps(all, 0));
        assert!(maps("0 1000 1\n1 100000 65536\n", 65_534));
        assert!(!maps("0 1000 1\n", 65_534) && !maps("", 65_534));
    }
}
