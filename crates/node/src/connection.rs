//! A connection of the manager: what could not be sent yet waits in a bounded queue, and nobody waits with it.

use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use node_client::seqpacket::Seqpacket;
use rustix::io::Errno;

/// More than this unread by the other side, and it is cut off: it does not read, and memory is not for it alone.
const MAX_QUEUED_BYTES: usize = 1024 * 1024;
const MAX_QUEUED_MESSAGES: usize = 4096;
/// Descriptors in a queue are descriptors of this process.
const MAX_QUEUED_DESCRIPTORS: usize = 64;
/// Pause after the kernel refused to take more descriptors on their way; nothing tells when it will.
const RETRY_PAUSE: Duration = Duration::from_millis(5);
/// How long a connection that is to be closed may take to read what was sent last.
const CLOSING_LIMIT: Duration = Duration::from_secs(2);

/// What became of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sent {
    /// On its way, or queued.
    Fine,
    /// The other side does not read: cut it off.
    Overflow,
}

#[derive(Debug)]
struct Outgoing {
    bytes: Vec<u8>,
    descriptors: Vec<OwnedFd>,
}

/// One connection, accepted or dialled.
#[derive(Debug)]
pub(crate) struct Connection {
    socket: Seqpacket,
    queue: VecDeque<Outgoing>,
    queued_bytes: usize,
    queued_descriptors: usize,
    /// When to try again without a hint from the kernel.
    pub(crate) retry_at: Option<Instant>,
    /// To be closed when the queue is empty, or at this moment.
    pub(crate) close_at: Option<Instant>,
    /// What epoll was told.
    pub(crate) wants_write: bool,
}

impl Connection {
    pub(crate) fn new(socket: Seqpacket) -> Self {
        Self {
            socket,
            queue: VecDeque::new(),
            queued_bytes: 0,
            queued_descriptors: 0,
            retry_at: None,
            close_at: None,
            wants_write: false,
        }
    }

    pub(crate) fn socket(&self) -> &Seqpacket {
        &self.socket
    }

    /// Sends, or queues if there is no room.
    pub(crate) fn send(&mut self, bytes: Vec<u8>, descriptors: &[BorrowedFd<'_>]) -> Sent {
        if self.queue.is_empty() {
            match self.socket.send(&bytes, descriptors) {
                Ok(()) => return Sent::Fine,
                Err(Errno::AGAIN) => {}
                Err(Errno::TOOMANYREFS | Errno::NOBUFS | Errno::NOMEM) => {
                    self.retry_at = Some(Instant::now() + RETRY_PAUSE);
                }
                // It is closed. What it sent before that is still to be read; then the end is seen.
                Err(_) => return Sent::Fine,
            }
        }
        let Ok(kept) =
            descriptors.iter().map(|fd| fd.try_clone_to_owned()).collect::<std::io::Result<Vec<_>>>()
        else {
            return Sent::Overflow;
        };
        self.queued_bytes += bytes.len();
        self.queued_descriptors += kept.len();
        self.queue.push_back(Outgoing { bytes, descriptors: kept });
        let full = self.queued_bytes > MAX_QUEUED_BYTES
            || self.queue.len() > MAX_QUEUED_MESSAGES
            || self.queued_descriptors > MAX_QUEUED_DESCRIPTORS;
        if full { Sent::Overflow } else { Sent::Fine }
    }

    /// So many descriptors wait that only those that are indispensable should be added.
    pub(crate) fn is_heavy(&self) -> bool {
        self.queued_descriptors * 2 > MAX_QUEUED_DESCRIPTORS
    }

    /// Sends what waits, as far as there is room.
    pub(crate) fn flush(&mut self) {
        self.retry_at = None;
        while let Some(first) = self.queue.front() {
            let descriptors: Vec<_> = first.descriptors.iter().map(AsFd::as_fd).collect();
            match self.socket.send(&first.bytes, &descriptors) {
                Ok(()) => {
                    self.queued_bytes -= first.bytes.len();
                    self.queued_descriptors -= first.descriptors.len();
                    self.queue.pop_front();
                }
                Err(Errno::AGAIN) => return,
                Err(Errno::TOOMANYREFS | Errno::NOBUFS | Errno::NOMEM) => {
                    self.retry_at = Some(Instant::now() + RETRY_PAUSE);
                    return;
                }
                Err(_) => {
                    self.queue.clear();
                    (self.queued_bytes, self.queued_descriptors) = (0, 0);
                }
            }
        }
    }

    /// Something waits for room in the socket.
    pub(crate) fn waits_for_room(&self) -> bool {
        !self.queue.is_empty() && self.retry_at.is_none()
    }

    /// Nothing waits.
    pub(crate) fn is_flushed(&self) -> bool {
        self.queue.is_empty()
    }

    /// From now on only the rest is sent.
    pub(crate) fn close_soon(&mut self) {
        self.close_at = Some(Instant::now() + CLOSING_LIMIT);
    }
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

    fn pair() -> (Connection, Seqpacket) {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let (a, b) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).unwrap();
        (Connection::new(Seqpacket::from_fd(a)), Seqpacket::from_fd(b))
    }

    #[test]
    fn what_finds_no_room_is_queued_and_sent_in_order_later() {
        let (mut connection, other) = pair();
        let mut sent = 0u32;
        while !connection.waits_for_room() {
            let mut bytes = vec![0; 8192];
            bytes[..4].copy_from_slice(&sent.to_le_bytes());
            assert_eq!(connection.send(bytes, &[]), Sent::Fine);
            sent += 1;
        }
        let mut buffer = vec![0; 8192];
        let mut received = 0;
        while received < sent {
            connection.flush();
            while let Ok(Some(_)) = other.receive(&mut buffer) {
                assert_eq!(buffer[..4], u32::to_le_bytes(received));
                received += 1;
            }
        }
        assert!(connection.is_flushed());
    }

    #[test]
    fn who_does_not_read_overflows() {
        let (mut connection, _other) = pair();
        let overflowed = (0..10_000).any(|_| connection.send(vec![0; 16_384], &[]) == Sent::Overflow);
        assert!(overflowed && connection.queued_bytes <= MAX_QUEUED_BYTES + 16_384);
    }

    #[test]
    fn descriptors_in_the_queue_are_bounded_too() {
        let (mut connection, _other) = pair();
        let file = std::fs::File::open("/dev/null").unwrap();
        let overflowed = (0..10_000)
            .any(|_| connection.send(vec![0; 8192], &[file.as_fd(), file.as_fd()]) == Sent::Overflow);
        assert!(overflowed && connection.queued_descriptors <= MAX_QUEUED_DESCRIPTORS + 2);
    }

    #[test]
    fn a_closed_connection_swallows_what_is_sent() {
        let (mut connection, other) = pair();
        drop(other);
        assert_eq!(connection.send(vec![1], &[]), Sent::Fine);
        assert!(connection.is_flushed());
    }
}
