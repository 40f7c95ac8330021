//! The datagrams by which end points meet: a kind, the sender's name, descriptors.

use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;

use rustix::fd::{BorrowedFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, SocketAddrUnix, recvmsg, sendmsg_addr,
};
use shm::process::PidFd;

use crate::name::{NAME_BYTES, Name};

/// What a datagram means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Kind {
    /// Here are the data of a ring for you.
    Hello = 1,
    /// Here are the words of its consumer.
    Welcome = 2,
    /// From an end point to its own thread.
    Stop = 3,
    /// Means nothing: it is sent to see whether somebody is there.
    Knock = 4,
    /// Here are the words of a consumer for a ring from you to me.
    Invite = 5,
    /// Here are the data of that ring.
    Data = 6,
    /// There was no memory, or there were no descriptors, for your ring.
    NoWelcome = 7,
    /// The same for a ring to you.
    NoData = 8,
}

/// The kind, and a name.
const DATAGRAM_BYTES: usize = 1 + NAME_BYTES;
/// Descriptors of a datagram: the memory, and the sender's process.
const DESCRIPTORS: usize = 2;

/// A datagram of this user.
#[derive(Debug)]
pub(super) struct Received {
    pub(super) kind: Kind,
    pub(super) from: Name,
    pub(super) memory: Option<OwnedFd>,
    /// The sender's process, if the kernel confirms what the descriptor says.
    pub(super) process: Option<PidFd>,
}

pub(super) fn address(name: &Name) -> Result<SocketAddrUnix, Errno> {
    SocketAddrUnix::new_abstract_name(name.text().as_bytes())
}

/// Sends a datagram; does not wait.
pub(super) fn send(
    socket: BorrowedFd<'_>,
    to: &Name,
    kind: Kind,
    from: &Name,
    descriptors: &[BorrowedFd<'_>],
) -> Result<(), Errno> {
    let mut bytes = [0; DATAGRAM_BYTES];
    bytes[0] = kind as u8;
    bytes[1..].copy_from_slice(&from.bytes());
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !descriptors.is_empty() && !ancillary.push(SendAncillaryMessage::ScmRights(descriptors)) {
        return Err(Errno::NOBUFS);
    }
    let parts = [IoSlice::new(&bytes)];
    let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
    sendmsg_addr(socket, &address(to)?, &parts, &mut ancillary, flags).map(|_| ())
}

/// Waits for the next datagram; `None` if it is not one of this user's, or no datagram of an end point.
pub(super) fn receive(socket: BorrowedFd<'_>, user: u32) -> Option<Received> {
    let mut bytes = [0; DATAGRAM_BYTES];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS), ScmCredentials(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut parts = [IoSliceMut::new(&mut bytes)];
    let got = recvmsg(socket, &mut parts, &mut ancillary, RecvFlags::CMSG_CLOEXEC).ok()?;
    let (mut memory, mut process, mut sender) = (None, None, None);
    for message in ancillary.drain() {
        match message {
            // What is left of the descriptors is closed here.
            RecvAncillaryMessage::ScmRights(mut fds) => (memory, process) = (fds.next(), fds.next()),
            RecvAncillaryMessage::ScmCredentials(credentials) => sender = Some(credentials),
            _ => {}
        }
    }
    let sender = sender.filter(|sender| sender.uid.as_raw() == user)?;
    if got.bytes != DATAGRAM_BYTES {
        return None;
    }
    let (kind, name) = bytes.split_first()?;
    let kind = match kind {
        1 => Kind::Hello,
        2 => Kind::Welcome,
        3 => Kind::Stop,
        4 => Kind::Knock,
        5 => Kind::Invite,
        6 => Kind::Data,
        7 => Kind::NoWelcome,
        8 => Kind::NoData,
        _ => return None,
    };
    let from = Name::of_any_bytes(name.first_chunk()?)?;
    // The descriptor could be one of any process: the kernel's word of the sender decides.
    let pid = sender.pid.as_raw_nonzero().get().cast_unsigned();
    let process = process.and_then(|fd| PidFd::from_fd(fd).ok()).filter(|fd| fd.pid_of() == Some(pid));
    Some(Received { kind, from, memory, process })
}
