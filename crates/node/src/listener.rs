//! A listening socket in the cluster's directory.

use std::ffi::OsString;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use node_client::seqpacket::Seqpacket;
use proto::wire::encode;
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, accept_with, bind, listen, socket_with,
};
use serde::Serialize;

use crate::error::{NodeError, Result};
use crate::runtime_dir::give_to_group;

/// Connections that wait to be accepted; the kernel cuts it at net.core.somaxconn.
const BACKLOG: i32 = 1024;

/// Accepts connections.
#[derive(Debug)]
pub(crate) struct Listener {
    fd: OwnedFd,
}

impl Listener {
    /// Listens at `path`, in place of whatever stands there: the caller holds the node's lock. The socket appears under
    /// its name only when it listens already, so that who sees the name can connect.
    pub(crate) fn bind(path: &Path, mode: u32, gid: Option<u32>) -> Result<Self> {
        let fail = |what| move |errno: Errno| NodeError::Io { what, path: path.into(), source: errno.into() };
        let early = early_name(path);
        let _ = std::fs::remove_file(&early);
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let fd = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)
            .map_err(fail("make the socket"))?;
        let address = SocketAddrUnix::new(&early).map_err(fail("name the socket"))?;
        bind(&fd, &address).map_err(fail("make the socket"))?;
        let modes = std::fs::set_permissions(&early, std::fs::Permissions::from_mode(mode));
        modes.map_err(|source| NodeError::Io { what: "set the mode of", path: early.clone(), source })?;
        if let Some(gid) = gid {
            give_to_group(&early, gid)?;
        }
        listen(&fd, BACKLOG).map_err(fail("listen at"))?;
        std::fs::rename(&early, path).map_err(|source| NodeError::Io {
            what: "put in place",
            path: path.into(),
            source,
        })?;
        Ok(Self { fd })
    }

    /// Takes the next connection.
    pub(crate) fn accept(&self) -> std::result::Result<Seqpacket, Errno> {
        let fd = accept_with(&self.fd, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK)?;
        Ok(Seqpacket::from_fd(fd))
    }
}

/// What a socket is called until it listens: shorter than its name, so that the kernel's limit is not reached by it.
pub(crate) fn early_name(path: &Path) -> PathBuf {
    let mut name = OsString::from(".");
    name.push(path.file_name().unwrap_or_default().to_string_lossy().replace("node-", "").as_str());
    path.with_file_name(name)
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// A descriptor held back for the moment when there is none left: closed, it makes room to take a connection that would
/// otherwise wake the loop for ever, and to tell it why it is refused.
#[derive(Debug)]
pub(crate) struct Spare {
    fd: Option<OwnedFd>,
}

impl Spare {
    pub(crate) fn new() -> Self {
        let mut spare = Self { fd: None };
        spare.refill();
        spare
    }

    fn refill(&mut self) {
        self.fd = std::fs::File::open("/dev/null").ok().map(OwnedFd::from);
    }

    /// Takes a connection, says why it is refused, and closes it.
    pub(crate) fn turn_away(&mut self, listener: &Listener, refusal: &impl Serialize) {
        self.fd = None;
        if let Ok(socket) = listener.accept() {
            if let Ok(bytes) = encode(refusal) {
                // Best effort: it sees the socket close in any case.
                let _ = socket.send(&bytes, &[]);
            }
        } else {
            // The whole system has no descriptor left. The connection stays in the queue and would wake the loop again at
            // once; nothing tells when there is room.
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        self.refill();
    }
}
