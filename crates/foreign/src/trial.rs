//! For tests: a descriptor whose closing sleeps, as a hostile user makes one.

use std::io::{ErrorKind, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::net::{
    AddressFamily, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags, SocketType, sendmsg,
    socketpair, sockopt,
};

/// Ends the sleep of a process that closes the descriptor that it was made with, when it is dropped.
#[derive(Debug)]
pub struct Unread {
    _listener: TcpListener,
    _peer: TcpStream,
}

/// Longest sleep, if a test goes wrong: what waits for it then fails, and does not hang.
const LINGER: Duration = Duration::from_secs(60);

/// A connected TCP socket with bytes that its peer does not read, which lingers: the close of its last
/// descriptor sleeps until the [`Unread`] is dropped.
///
/// # Errors
/// This machine has no loopback, or this process no descriptors.
pub fn lingering() -> std::io::Result<(OwnedFd, Unread)> {
    let listener = TcpListener::bind(("127.0.0.1", 0))?;
    let mut socket = TcpStream::connect(listener.local_addr()?)?;
    let (peer, _) = listener.accept()?;
    sockopt::set_socket_linger(&socket, Some(LINGER))?;
    socket.set_nonblocking(true)?;
    loop {
        match socket.write(&[0; 65_536]) {
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => break,
            Err(error) => return Err(error),
        }
    }
    Ok((socket.into(), Unread { _listener: listener, _peer: peer }))
}

/// A UNIX socket in whose queue another descriptor waits: closing the one closes the other.
///
/// # Errors
/// What the system said.
pub fn nested(inner: OwnedFd) -> std::io::Result<OwnedFd> {
    let (outer, sender) = socketpair(AddressFamily::UNIX, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
    send_with(&sender, b"x", &[std::os::fd::AsFd::as_fd(&inner)])?;
    Ok(outer)
}

/// Sends a message with more descriptors than honest senders do.
///
/// # Errors
/// What the system said.
pub fn send_with(
    socket: impl std::os::fd::AsFd,
    bytes: &[u8],
    descriptors: &[BorrowedFd<'_>],
) -> std::io::Result<()> {
    let mut space =
        vec![std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(crate::MOST_IN_MESSAGE))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !control.push(SendAncillaryMessage::ScmRights(descriptors)) {
        return Err(ErrorKind::InvalidInput.into());
    }
    sendmsg(socket, &[std::io::IoSlice::new(bytes)], &mut control, SendFlags::NOSIGNAL)?;
    Ok(())
}
