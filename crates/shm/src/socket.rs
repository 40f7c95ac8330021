//! Options of UNIX sockets that safe crates cannot set.

use rustix::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use rustix::io::Errno;

/// Socket option: a descriptor of the process at the other end. The same on all processors that this runs on.
/// Linux 6.5.
const SO_PEERPIDFD: libc::c_int = 77;
/// Socket option: whether messages to the socket may carry descriptors. Likewise. Linux 6.16.
const SO_PASSRIGHTS: libc::c_int = 83;

/// Has the kernel refuse messages to this UNIX socket that carry descriptors (EPERM for the sender), or take
/// them again.
///
/// # Errors
/// The error of the kernel: `NOPROTOOPT` before Linux 6.16.
pub fn refuse_descriptors(socket: BorrowedFd<'_>, refuse: bool) -> Result<(), Errno> {
    let pass = libc::c_int::from(!refuse);
    // SAFETY: the pointer leads to a value of this frame, of the size that is said.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            SO_PASSRIGHTS,
            (&raw const pass).cast(),
            size_of::<libc::c_int>() as libc::socklen_t,
        )
    };
    if result == 0 { Ok(()) } else { Err(last_error()) }
}

/// A descriptor of the process at the other end of a connected UNIX socket: of the one that connected, or
/// that began to listen.
///
/// # Errors
/// The error of the kernel: `NOPROTOOPT` before Linux 6.5, `SRCH` if that process is gone.
pub fn peer_process(socket: BorrowedFd<'_>) -> Result<OwnedFd, Errno> {
    let mut made: libc::c_int = -1;
    let mut size = size_of::<libc::c_int>() as libc::socklen_t;
    // SAFETY: both pointers lead to values of this frame, and `size` says how large the first is.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            SO_PEERPIDFD,
            (&raw mut made).cast(),
            &raw mut size,
        )
    };
    if result != 0 || made < 0 {
        return Err(last_error());
    }
    // SAFETY: the kernel has just made this descriptor for the caller, and nobody else knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(made) })
}

/// The credentials of the other end of a connected UNIX socket, from the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Peer {
    /// Its process, 0 if that is in a pid namespace that can't be seen from here.
    pub pid: u32,
    /// Its user.
    pub uid: u32,
    /// Its group.
    pub gid: u32,
}

/// The process that connected, or began to listen (SO_PEERCRED). rustix has a function for it whose process
/// can't be 0.
///
/// # Errors
/// The error of the kernel.
pub fn peer(socket: BorrowedFd<'_>) -> Result<Peer, Errno> {
    let mut peer = libc::ucred { pid: 0, uid: u32::MAX, gid: u32::MAX };
    let mut size = size_of::<libc::ucred>() as libc::socklen_t;
    // SAFETY: both pointers lead to values of this frame, and `size` says how large the first is; all its
    // bytes may have any value.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            (&raw mut peer).cast(),
            &raw mut size,
        )
    };
    if result != 0 {
        return Err(last_error());
    }
    Ok(Peer { pid: u32::try_from(peer.pid).unwrap_or(0), uid: peer.uid, gid: peer.gid })
}

/// How much of what was sent on a connected UNIX socket is not read yet, in bytes as the kernel counts them:
/// 0 when all is read, or when the other end is closed.
///
/// # Errors
/// The error of the kernel.
pub fn unread_bytes(socket: BorrowedFd<'_>) -> Result<usize, Errno> {
    let mut bytes: libc::c_int = 0;
    // SAFETY: of a socket, this request (SIOCOUTQ has the same number) writes one int, which the pointer
    // leads to; so it does of a terminal.
    let result = unsafe { libc::ioctl(socket.as_raw_fd(), libc::TIOCOUTQ, &raw mut bytes) };
    if result == 0 { Ok(usize::try_from(bytes).unwrap_or(0)) } else { Err(last_error()) }
}

fn last_error() -> Errno {
    // SAFETY: it is this thread's own error number, which the call has just set.
    Errno::from_raw_os_error(unsafe { *libc::__errno_location() })
}
