//! A listening socket in the cluster's directory.

use std::ffi::OsString;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use foreign::{Closer, Foreign};
use node_client::seqpacket::Seqpacket;
use proto::manager::Credentials;
use proto::wire::encode;
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, Shutdown, SocketAddrUnix, SocketFlags, SocketType, accept_with, bind, listen, shutdown,
    socket_with,
};
use rustix::process::geteuid;
use serde::Serialize;

use crate::credentials;
use crate::door::Door;
use crate::error::{NodeError, Result};
use crate::runtime_dir::Sharing;

/// Connections that wait to be accepted, at most; the kernel cuts it at net.core.somaxconn.
const MOST_BACKLOG: u64 = 1024;
/// As many there are in any case.
const LEAST_BACKLOG: u64 = 16;

/// Accepts connections.
#[derive(Debug)]
pub(crate) struct Listener {
    /// In the queues of the connections that wait there may be anything.
    fd: Foreign<OwnedFd>,
    /// The kernel keeps descriptors out of what is accepted.
    keeps_out: bool,
}

/// A connection that was accepted.
#[derive(Debug)]
pub(crate) struct Accepted {
    pub(crate) socket: Foreign<Seqpacket>,
    /// Who is at the other end.
    pub(crate) credentials: Credentials,
}

impl Listener {
    /// Listens at `path`, in place of whatever is there: the caller holds the node's lock. The socket appears
    /// under its name only when it listens already, so that who sees the name can connect. Without `sharing`
    /// it is for other managers, which are of this user and send what their programs gave them.
    /// `descriptor_limit`: open files that this process may have.
    pub(crate) fn bind(
        path: &Path,
        sharing: Option<&Sharing>,
        descriptor_limit: u64,
        closer: &Closer,
    ) -> Result<(Self, Door)> {
        let fail = |what| move |errno: Errno| NodeError::Io { what, path: path.into(), source: errno.into() };
        let early = early_name(path);
        let _ = std::fs::remove_file(&early);
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let fd = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)
            .map_err(fail("create the socket"))?;
        let address = SocketAddrUnix::new(&early).map_err(fail("name the socket"))?;
        bind(&fd, &address).map_err(fail("create the socket"))?;
        let door = Door::make(path, &early, sharing.unwrap_or(&Sharing::default()))?;
        // What is accepted is born like that; a process that is welcomed may send descriptors. Without it,
        // closers have more to do.
        let keeps_out = sharing.is_some() && foreign::refuse_descriptors(&fd, true);
        // All that wait there may have to be closed, when their user is shut out.
        let backlog = (descriptor_limit / 16).clamp(LEAST_BACKLOG, MOST_BACKLOG);
        listen(&fd, i32::try_from(backlog).unwrap_or(i32::MAX)).map_err(fail("listen at"))?;
        std::fs::rename(&early, path).map_err(|source| NodeError::Io {
            what: "put in place",
            path: path.into(),
            source,
        })?;
        Ok((Self { fd: Foreign::new(fd, geteuid().as_raw(), closer), keeps_out }, door))
    }

    /// Takes the next connection.
    pub(crate) fn accept(&self, closer: &Closer) -> std::result::Result<Accepted, Errno> {
        let fd = accept_with(&*self.fd, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK)?;
        let credentials = credentials::of_peer(&fd);
        let uid = credentials.as_ref().map_or(u32::MAX, |credentials| credentials.uid);
        let socket = Seqpacket::from_fd(fd);
        let socket = if self.keeps_out {
            Foreign::new_empty(socket, uid, closer)
        } else {
            Foreign::new(socket, uid, closer)
        };
        Ok(Accepted { socket, credentials: credentials? })
    }
}

/// What a socket is called until it listens: shorter than its name, so that the kernel's limit is not reached
/// by it.
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

/// A descriptor held back for the moment when there is none left: closed, it makes room to take a connection
/// that would otherwise wake the loop forever, and to tell it why it is refused.
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

    /// Accepts a connection, sends the reason of the refusal, and closes it.
    pub(crate) fn turn_away(&mut self, listener: &Listener, refusal: &impl Serialize, closer: &Closer) {
        self.fd = None;
        match listener.accept(closer) {
            Ok(accepted) => accepted.refuse(refusal),
            // The whole system has no descriptor left. The connection stays in the queue and would wake the
            // loop again at once; there is no event when there is room.
            Err(_) => std::thread::sleep(std::time::Duration::from_millis(5)),
        }
        // A refused connection is closed a moment later, by another thread.
        for _ in 0..5 {
            self.refill();
            if self.fd.is_some() {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
    }
}

impl Accepted {
    /// Says why it is refused, and hangs up.
    pub(crate) fn refuse(self, refusal: &impl Serialize) {
        if let Ok(bytes) = encode(refusal) {
            // Best effort: it sees the socket close in any case.
            let _ = self.socket.send(&bytes, &[]);
        }
        self.hang_up();
    }

    /// Ends it for the other side.
    pub(crate) fn hang_up(self) {
        // Now, whenever its turn to be closed comes.
        let _ = shutdown(self.socket.as_fd(), Shutdown::Both);
    }
}
