//! A SEQPACKET socket of the control plane: whole datagrams with descriptors, non-blocking.

use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::Duration;

use proto::wire::MAX_DESCRIPTORS;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType, connect, recvmsg, sendmsg,
    socket_with,
};

/// One end of a connection. All operations return `AGAIN` instead of waiting; see [`Seqpacket::wait`].
#[derive(Debug)]
pub struct Seqpacket {
    fd: OwnedFd,
}

/// A datagram that arrived.
#[derive(Debug)]
pub struct Datagram {
    /// Bytes of it that lie in the buffer.
    pub len: usize,
    /// All descriptors that came along (close-on-exec), in order: up to [`foreign::MOST_IN_MESSAGE`], more
    /// than any message of the protocol has. A receiver of messages from others than the manager must make
    /// sure that closing them blocks nothing.
    pub descriptors: Vec<OwnedFd>,
    /// It was longer than the buffer; the rest is lost.
    pub truncated: bool,
    /// More descriptors were sent than a message may carry, or this process had no room for some; these are
    /// closed.
    pub descriptors_lost: bool,
}

/// What to wait for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wanted {
    /// A datagram (or the end) can be read.
    Read,
    /// There is room to send.
    Write,
}

impl Seqpacket {
    /// Connects to the listener at `path`. `AGAIN`: its backlog is full; `CONNREFUSED`: no process listens
    /// any more.
    pub fn connect(path: &Path) -> Result<Self, Errno> {
        let socket = socket_with(
            AddressFamily::UNIX,
            SocketType::SEQPACKET,
            SocketFlags::CLOEXEC | SocketFlags::NONBLOCK,
            None,
        )?;
        connect(&socket, &SocketAddrUnix::new(path)?)?;
        Ok(Self { fd: socket })
    }

    /// Wraps a connected socket (accepted, or one of a pair). It should be non-blocking and close-on-exec.
    pub fn from_fd(fd: OwnedFd) -> Self {
        Self { fd }
    }

    /// Sends one datagram, whole or not at all. The descriptors are duplicated by the kernel.
    pub fn send(&self, bytes: &[u8], descriptors: &[BorrowedFd<'_>]) -> Result<(), Errno> {
        if descriptors.len() > MAX_DESCRIPTORS {
            return Err(Errno::INVAL);
        }
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !descriptors.is_empty() && !control.push(SendAncillaryMessage::ScmRights(descriptors)) {
            return Err(Errno::INVAL);
        }
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        loop {
            match sendmsg(&self.fd, &[IoSlice::new(bytes)], &mut control, flags) {
                Ok(_) => return Ok(()),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// [`Self::send`] for a process that is not let in yet: without the descriptors if the other end takes
    /// none. A manager takes none before it has welcomed a program (Linux 6.16 or later), and knows the
    /// program's process by its socket.
    pub fn send_hello(&self, bytes: &[u8], descriptors: &[BorrowedFd<'_>]) -> Result<(), Errno> {
        match self.send(bytes, descriptors) {
            Err(Errno::PERM) => self.send(bytes, &[]),
            done => done,
        }
    }

    /// Takes one datagram. `None`: the other end is closed.
    pub fn receive(&self, buffer: &mut [u8]) -> Result<Option<Datagram>, Errno> {
        // Room for all that the kernel lets through: it closes others in this very call, which may sleep.
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(foreign::MOST_IN_MESSAGE))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let capacity = buffer.len();
        let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
        let message = loop {
            match recvmsg(&self.fd, &mut [IoSliceMut::new(buffer)], &mut control, flags) {
                Ok(message) => break message,
                Err(Errno::INTR) => {}
                Err(error) => return Err(error),
            }
        };
        let mut descriptors = Vec::new();
        for ancillary in control.drain() {
            if let RecvAncillaryMessage::ScmRights(fds) = ancillary {
                descriptors.extend(fds);
            }
        }
        // A datagram of no bytes looks like the end of the stream; managers send none, so it counts as the
        // end.
        if message.bytes == 0 && descriptors.is_empty() {
            return Ok(None);
        }
        let too_many = descriptors.len() > MAX_DESCRIPTORS;
        Ok(Some(Datagram {
            len: message.bytes.min(capacity),
            descriptors,
            truncated: message.flags.contains(ReturnFlags::TRUNC),
            descriptors_lost: too_many || message.flags.contains(ReturnFlags::CTRUNC),
        }))
    }

    /// Sleeps until the socket is ready (or broken, which counts as ready), at most for `limit`; false: it is
    /// not.
    pub fn wait(&self, wanted: Wanted, limit: Option<Duration>) -> Result<bool, Errno> {
        let flags = match wanted {
            Wanted::Read => PollFlags::IN,
            Wanted::Write => PollFlags::OUT,
        };
        let limit = limit.map(timespec);
        match poll(&mut [PollFd::new(&self.fd, flags)], limit.as_ref()) {
            Ok(ready) => Ok(ready > 0),
            Err(Errno::INTR) => Ok(false),
            Err(error) => Err(error),
        }
    }
}

impl From<Seqpacket> for OwnedFd {
    fn from(socket: Seqpacket) -> Self {
        socket.fd
    }
}

impl AsFd for Seqpacket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// A duration as system calls take it.
pub fn timespec(duration: Duration) -> Timespec {
    Timespec {
        tv_sec: i64::try_from(duration.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: i64::from(duration.subsec_nanos()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair() -> (Seqpacket, Seqpacket) {
        let (a, b) = rustix::net::socketpair(
            AddressFamily::UNIX,
            SocketType::SEQPACKET,
            SocketFlags::CLOEXEC | SocketFlags::NONBLOCK,
            None,
        )
        .unwrap();
        (Seqpacket::from_fd(a), Seqpacket::from_fd(b))
    }

    #[test]
    fn datagrams_and_descriptors_arrive_whole_and_in_order() {
        let (a, b) = pair();
        let file = rustix::fs::memfd_create("x", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
        a.send(b"one", &[]).unwrap();
        a.send(b"two", &[file.as_fd(), file.as_fd()]).unwrap();
        let mut buffer = [0; 16];
        let first = b.receive(&mut buffer).unwrap().unwrap();
        assert_eq!((&buffer[..first.len], first.descriptors.len()), (&b"one"[..], 0));
        let second = b.receive(&mut buffer).unwrap().unwrap();
        assert_eq!((&buffer[..second.len], second.descriptors.len()), (&b"two"[..], 2));
        for fd in &second.descriptors {
            let flags = rustix::io::fcntl_getfd(fd).unwrap();
            assert!(flags.contains(rustix::io::FdFlags::CLOEXEC));
        }
        assert_eq!(b.receive(&mut buffer).unwrap_err(), Errno::AGAIN);
        drop(a);
        assert!(b.receive(&mut buffer).unwrap().is_none());
    }

    #[test]
    fn a_datagram_longer_than_the_buffer_says_so() {
        let (a, b) = pair();
        a.send(&[7; 100], &[]).unwrap();
        let mut buffer = [0; 10];
        let datagram = b.receive(&mut buffer).unwrap().unwrap();
        assert!(datagram.truncated && datagram.len == 10 && !datagram.descriptors_lost);
    }

    fn control_of<'a, 'b, 'f>(
        space: &'a mut [MaybeUninit<u8>],
        descriptors: &'b [BorrowedFd<'f>],
    ) -> SendAncillaryBuffer<'a, 'b, 'f> {
        let mut control = SendAncillaryBuffer::new(space);
        assert!(control.push(SendAncillaryMessage::ScmRights(descriptors)));
        control
    }

    #[test]
    fn who_takes_no_descriptors_yet_still_gets_a_hello() {
        let (a, b) = pair();
        if !foreign::refuse_descriptors(&b, true) {
            println!("skipped: this kernel has no SO_PASSRIGHTS (Linux 6.16)");
            return;
        }
        let file = rustix::fs::memfd_create("x", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
        assert_eq!(a.send(b"x", &[file.as_fd()]).unwrap_err(), Errno::PERM);
        a.send_hello(b"hello", &[file.as_fd()]).unwrap();
        let mut buffer = [0; 10];
        let datagram = b.receive(&mut buffer).unwrap().unwrap();
        assert_eq!((datagram.len, datagram.descriptors.len()), (5, 0));
        assert!(foreign::refuse_descriptors(&b, false));
        a.send_hello(b"again", &[file.as_fd()]).unwrap();
        assert_eq!(b.receive(&mut buffer).unwrap().unwrap().descriptors.len(), 1);
    }

    #[test]
    fn too_many_descriptors_arrive_and_are_reported() {
        let (a, b) = pair();
        let file = rustix::fs::memfd_create("x", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
        let many = vec![file.as_fd(); 100];
        let mut space = vec![MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(100))];
        sendmsg(&a, &[IoSlice::new(b"x")], &mut control_of(&mut space, &many), SendFlags::empty()).unwrap();
        let mut buffer = [0; 10];
        let datagram = b.receive(&mut buffer).unwrap().unwrap();
        assert!(datagram.descriptors_lost);
        assert_eq!(datagram.descriptors.len(), 100);
        // They belong to the one that received them even if nothing else came.
        sendmsg(&a, &[IoSlice::new(b"")], &mut control_of(&mut space, &many), SendFlags::empty()).unwrap();
        assert_eq!(b.receive(&mut buffer).unwrap().unwrap().descriptors.len(), 100);
        assert_eq!(a.send(b"x", &many).unwrap_err(), Errno::INVAL);
    }
}
