//! The sockets of pollable interrupts: one for the owner to receive, and one for each connected
//! program to send.
//!
//! All are made here, so nothing that a program made is ever looked at, and none is shared: what an importer
//! does to its own (shuts it, connects it elsewhere, changes its flags) is its own affair. The sending ones
//! are born shut for reading, so nothing can ever wait in the queue of one of them, and closing it never
//! waits.
//!
//! The receiving socket has a name in a directory that only the manager's user may enter: so no other user
//! can connect to it, and a manager that is started anew finds it again, for as long as its owner has it.
//!
//! A pipe would not do, although each end can be opened anew: the kernel holds its lock while it copies what
//! is written. A writer whose memory does not come (a file of a FUSE file system) has all other writers and
//! the reader sleep, for as long as it likes.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use foreign::{Closer, Foreign};
use proto::ids::NodeId;
use proto::manager::{Descriptor, DescriptorKind, FdToken};
use proto::wire::program::Incarnation;
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, fstat, statat, unlinkat};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, Shutdown, SocketAddrUnix, SocketFlags, SocketType, bind, connect, shutdown, socket_with,
    sockopt,
};
use rustix::process::geteuid;

use crate::descriptor::Held;
use crate::runtime_dir::{ClusterDir, make_private};

/// Tokens from here on are of sending sides; those of descriptors count from 1.
const FIRST_TOKEN: u64 = 1 << 63;

/// The sending sides that the manager can make, by token.
#[derive(Debug)]
pub(crate) struct InterruptSockets {
    dir: PathBuf,
    names: HashMap<FdToken, PathBuf>,
    next: u64,
    closer: Closer,
}

/// A receiving socket that was made, or found.
#[derive(Debug)]
pub(crate) struct Made {
    pub(crate) sender: Descriptor,
    /// What the owner gets; none if it has it.
    pub(crate) receiver: Option<OwnedFd>,
}

impl InterruptSockets {
    pub(crate) fn new(dir: &ClusterDir, node: NodeId, closer: &Closer) -> Self {
        let dir = directory(dir, node);
        Self { dir, names: HashMap::new(), next: FIRST_TOKEN, closer: closer.clone() }
    }

    /// The sockets of a new interrupt of user `uid`; `again`: of one that its owner had with an earlier
    /// manager. The error says what could not be done.
    pub(crate) fn make(&mut self, uid: u32, incarnation: Incarnation, again: bool) -> Result<Made, Failure> {
        // Of the user too: no user takes the place of another one's socket by its number.
        let path = self.dir.join(format!("{uid}-{:016x}", incarnation.0));
        let receiver = if again {
            sender(&path).map_err(Failure::of("find", &path))?;
            None
        } else {
            make_private(&self.dir).map_err(|error| Failure { text: error.to_string(), few: false })?;
            Some(receiver(&path).map_err(Failure::of("create", &path))?)
        };
        let token = FdToken(self.next);
        self.next += 1;
        self.names.insert(token, path);
        Ok(Made { sender: Descriptor { token, kind: DescriptorKind::Event }, receiver })
    }

    /// Stands for `count` sockets that there are not.
    pub(crate) fn none(&mut self, kind: DescriptorKind, count: usize) -> Vec<Descriptor> {
        let mut next = || {
            self.next += 1;
            Descriptor { token: FdToken(self.next - 1), kind }
        };
        (0..count).map(|_| next()).collect()
    }

    /// One more sending socket, if the token is that of a sending side.
    pub(crate) fn sender(&self, token: FdToken) -> Option<Result<Held, Failure>> {
        let path = self.names.get(&token)?;
        let socket = match sender(path) {
            // Its owner has closed it, and is ending: there is no receiver.
            Err(Errno::CONNREFUSED) => unconnected(),
            other => other,
        };
        let held = |fd| Held::new(Foreign::new(fd, geteuid().as_raw(), &self.closer));
        Some(socket.map(held).map_err(Failure::of("connect to", path)))
    }

    /// Gives a sending side up. `kept`: its owner may continue with the next manager.
    pub(crate) fn close(&mut self, token: FdToken, kept: bool) {
        if let Some(path) = self.names.remove(&token)
            && !kept
        {
            let _ = std::fs::remove_file(path);
        }
    }
}

/// Why there are no sockets.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) text: String,
    /// This process has no descriptors left.
    pub(crate) few: bool,
}

impl Failure {
    fn of(what: &'static str, path: &Path) -> impl Fn(Errno) -> Self {
        move |errno| {
            let text = format!(
                "cannot {what} the socket of an interrupt, {}: {errno}: check that this user may write there, \
                 then create the interrupt again",
                path.display()
            );
            Self { text, few: matches!(errno, Errno::MFILE | Errno::NFILE) }
        }
    }
}

/// Removes the sockets that no process has any more, of a node whose lock the caller holds. Root does so in
/// directories of other users too: nothing but a socket in a directory of this user's own is touched,
/// whatever a link leads to.
pub(crate) fn remove_dead(dir: &ClusterDir, node: NodeId) {
    let path = directory(dir, node);
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let Ok(dir) = rustix::fs::open(&path, flags, Mode::empty()) else { return };
    if !fstat(&dir).is_ok_and(|stat| stat.st_uid == geteuid().as_raw()) {
        return;
    }
    for entry in Dir::read_from(&dir).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let is_socket = statat(&dir, name, AtFlags::SYMLINK_NOFOLLOW)
            .is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Socket);
        let there = path.join(OsStr::from_bytes(name.to_bytes()));
        if is_socket && matches!(sender(&there), Err(Errno::CONNREFUSED)) {
            let _ = unlinkat(&dir, name, AtFlags::empty());
        }
    }
    // Unless something is left in it.
    let _ = std::fs::remove_dir(&path);
}

fn directory(dir: &ClusterDir, node: NodeId) -> PathBuf {
    dir.path().join(format!("node-{node}.interrupts"))
}

fn new_socket() -> Result<OwnedFd, Errno> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    socket_with(AddressFamily::UNIX, SocketType::DGRAM, flags, None)
}

fn receiver(path: &Path) -> Result<OwnedFd, Errno> {
    let socket = new_socket()?;
    // Before anybody can send.
    foreign::refuse_descriptors(&socket, true);
    at(path, |address| bind(&socket, address))?;
    Ok(socket)
}

fn sender(path: &Path) -> Result<OwnedFd, Errno> {
    let socket = unconnected()?;
    at(path, |address| connect(&socket, address))?;
    Ok(socket)
}

fn unconnected() -> Result<OwnedFd, Errno> {
    let socket = new_socket()?;
    shutdown(&socket, Shutdown::Read)?;
    // The smallest possible: one message is enough, and each waiting one costs a system call to clear.
    sockopt::set_socket_send_buffer_size(&socket, 0)?;
    Ok(socket)
}

/// Calls with the address of a path: by its directory's descriptor, because the kernel takes only short ones.
fn at(path: &Path, call: impl Fn(&SocketAddrUnix) -> Result<(), Errno>) -> Result<(), Errno> {
    if let Ok(address) = SocketAddrUnix::new(path) {
        return call(&address);
    }
    let (Some(dir), Some(name)) = (path.parent(), path.file_name()) else { return Err(Errno::INVAL) };
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let dir = rustix::fs::open(dir, flags, Mode::empty())?;
    let short = Path::new("/proc/self/fd").join(dir.as_fd().as_raw_fd().to_string()).join(name);
    call(&SocketAddrUnix::new(&short)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use node_client::runtime_dir::ClusterName;
    use std::os::unix::fs::symlink;

    /// A cluster's directory of this user, and what else there is beside it.
    fn place(name: &str) -> (PathBuf, ClusterDir, NodeId) {
        let root = std::env::temp_dir().join(format!("tl-sockets-{}-{name}", std::process::id()));
        let dir = ClusterDir::new(root.clone(), ClusterName::new("t").unwrap());
        std::fs::create_dir_all(dir.path()).unwrap();
        (root, dir, NodeId::new(4).unwrap())
    }

    #[test]
    fn sockets_that_somebody_has_stay_and_the_others_go() {
        let (root, dir, node) = place("stay");
        let closer = Closer::new(0);
        let mut sockets = InterruptSockets::new(&dir, node, &closer);
        let living = sockets.make(7, Incarnation(1), false).unwrap();
        let dead = sockets.make(7, Incarnation(2), false).unwrap();
        drop(dead.receiver);
        // No program can be connected to a dead one, and that is no error: its owner is ending.
        let sender = sockets.sender(dead.sender.token).unwrap().unwrap();
        assert_eq!(rustix::net::send(&*sender, b"x", rustix::net::SendFlags::NOSIGNAL), Err(Errno::NOTCONN));
        remove_dead(&dir, node);
        assert!(sockets.make(7, Incarnation(1), true).unwrap().receiver.is_none());
        for (uid, incarnation) in [(7, 2), (8, 1)] {
            let failure = sockets.make(uid, Incarnation(incarnation), true).unwrap_err();
            assert!(!failure.few && failure.text.contains("cannot find the socket"), "{failure:?}");
        }
        drop(living.receiver);
        remove_dead(&dir, node);
        assert!(!directory(&dir, node).exists());
        std::fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn nothing_is_removed_that_is_no_socket_or_lies_behind_a_link() {
        let (root, dir, node) = place("links");
        let elsewhere = root.join("elsewhere");
        std::fs::create_dir(&elsewhere).unwrap();
        std::fs::write(elsewhere.join("file"), "x").unwrap();
        drop(receiver(&elsewhere.join("socket")).unwrap());
        symlink(&elsewhere, directory(&dir, node)).unwrap();
        remove_dead(&dir, node);
        assert!(elsewhere.join("file").exists() && elsewhere.join("socket").exists());
        std::fs::remove_file(directory(&dir, node)).unwrap();
        std::fs::create_dir(directory(&dir, node)).unwrap();
        std::fs::write(directory(&dir, node).join("file"), "x").unwrap();
        symlink(elsewhere.join("socket"), directory(&dir, node).join("link")).unwrap();
        remove_dead(&dir, node);
        assert_eq!(std::fs::read_dir(directory(&dir, node)).unwrap().count(), 2);
        std::fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn a_long_path_is_no_obstacle() {
        let (root, dir, _) = place(&"x".repeat(80));
        let path = dir.path().join("y".repeat(40));
        let _receiver = receiver(&path).unwrap();
        sender(&path).unwrap();
        std::fs::remove_dir_all(root).unwrap();
    }
}
