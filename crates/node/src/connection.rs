//! A connection of the manager: what could not be sent yet waits in a bounded queue, and nobody waits with it.

use std::collections::{HashMap, VecDeque};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use foreign::Foreign;
use node_client::seqpacket::Seqpacket;
use proto::ids::{GroupId, NodeId, SegmentKey};
use proto::wire::program::{Event, ToProgram};
use rustix::io::Errno;

use crate::descriptor::Held;

/// More than this unread by another manager, and it is cut off: it does not read, and memory is not for it alone. It comes
/// back with what it has, and nothing is lost.
const MAX_QUEUED_BYTES: usize = 1024 * 1024;
const MAX_QUEUED_MESSAGES: usize = 4096;
/// Descriptors in a queue are descriptors of this process.
const MAX_QUEUED_DESCRIPTORS: usize = 256;
/// More than this unread by a program, and it is crowded: it is not listened to any more, and nobody connects to it, so that neither
/// it nor others add to what waits, until half of it is read.
const CROWDED_BYTES: usize = 256 * 1024;
const CROWDED_MESSAGES: usize = 1024;
const CROWDED_DESCRIPTORS: usize = 32;
/// Pause after the kernel refused to take more descriptors on their way; nothing tells when it will.
const RETRY_PAUSE: Duration = Duration::from_millis(5);
/// How long a connection that is to be closed may take to read what was sent last.
const CLOSING_LIMIT: Duration = Duration::from_secs(2);

/// Whose connection it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Of {
    /// A program: while it lives it is not cut off, however long it does not read. What is added meanwhile is bounded by
    /// what it holds: an end for each of its connections, one word on each node and on each member of a group that it watches.
    Program,
    /// Another manager.
    Manager,
}

/// What became of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sent {
    /// On its way, or queued.
    Fine,
    /// The other side does not read: cut it off.
    Overflow,
}

#[derive(Debug, Default)]
struct Outgoing {
    bytes: Vec<u8>,
    descriptors: Vec<Held>,
    /// What it is the latest word on.
    topic: Option<Topic>,
}

/// Something of which only the latest word matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Topic {
    /// The link to a node.
    Link(NodeId),
    /// Whether a node holds a copy of a group.
    Member(GroupId, NodeId),
    /// Whether a segment is open.
    Availability(SegmentKey),
}

impl Topic {
    /// What a message to a program is about, if only the latest word on that matters.
    pub(crate) fn of(message: &ToProgram) -> Option<Self> {
        match message {
            ToProgram::Event(Event::Link { node, .. }) => Some(Self::Link(*node)),
            ToProgram::Event(Event::Member { group, node, .. }) => Some(Self::Member(*group, *node)),
            ToProgram::Event(Event::Availability { key, .. }) => Some(Self::Availability(*key)),
            _ => None,
        }
    }
}

/// One connection, accepted or dialled.
#[derive(Debug)]
pub(crate) struct Connection {
    socket: Foreign<Seqpacket>,
    of: Of,
    /// `None`: there is a later word on it.
    queue: VecDeque<Option<Outgoing>>,
    /// How many have left the queue: with its place, the number of a message.
    left: u64,
    overtaken: usize,
    /// The number of the latest word on each topic that waits.
    latest: HashMap<Topic, u64>,
    queued_bytes: usize,
    queued_descriptors: usize,
    /// As the machine was told.
    pub(crate) crowded: bool,
    /// When to try again without a hint from the kernel.
    pub(crate) retry_at: Option<Instant>,
    /// To be closed when the queue is empty, or at this moment.
    pub(crate) close_at: Option<Instant>,
    /// What epoll was told.
    pub(crate) wants_write: bool,
    pub(crate) wants_read: bool,
}

impl Connection {
    pub(crate) fn new(socket: Foreign<Seqpacket>, of: Of) -> Self {
        Self {
            socket,
            of,
            queue: VecDeque::new(),
            left: 0,
            overtaken: 0,
            latest: HashMap::new(),
            queued_bytes: 0,
            queued_descriptors: 0,
            crowded: false,
            retry_at: None,
            close_at: None,
            wants_write: false,
            wants_read: true,
        }
    }

    /// Whose it is.
    pub(crate) fn uid(&self) -> u32 {
        self.socket.uid()
    }

    pub(crate) fn socket(&self) -> &Seqpacket {
        &self.socket
    }

    /// Sends, or queues if there is no room: in place of an earlier word on the same topic.
    pub(crate) fn send(&mut self, bytes: Vec<u8>, descriptors: Vec<Held>, topic: Option<Topic>) -> Sent {
        if self.queue.is_empty() {
            match self.socket.send(&bytes, &borrowed(&descriptors)) {
                Ok(()) => return Sent::Fine,
                Err(Errno::AGAIN) => {}
                Err(Errno::TOOMANYREFS | Errno::NOBUFS | Errno::NOMEM) => {
                    self.retry_at = Some(Instant::now() + RETRY_PAUSE);
                }
                // It is closed. What it sent before that is still to be read; then the end is seen.
                Err(_) => return Sent::Fine,
            }
        }
        self.queued_bytes += bytes.len();
        self.queued_descriptors += descriptors.len();
        if let Some(topic) = topic {
            self.overtake(topic);
        }
        self.queue.push_back(Some(Outgoing { bytes, descriptors, topic }));
        let many = self.of == Of::Manager
            && (self.queued_bytes > MAX_QUEUED_BYTES || self.queue.len() > MAX_QUEUED_MESSAGES);
        if many || self.queued_descriptors > MAX_QUEUED_DESCRIPTORS { Sent::Overflow } else { Sent::Fine }
    }

    /// The next message is the latest word on this topic: an earlier one that still waits need not be sent.
    fn overtake(&mut self, topic: Topic) {
        // Empty places do not pile up behind a program that does not read at all.
        if self.overtaken > 64 && self.overtaken * 2 > self.queue.len() {
            self.close_up();
        }
        let number = self.left + self.queue.len() as u64;
        let Some(earlier) = self.latest.insert(topic, number) else { return };
        let place = usize::try_from(earlier.wrapping_sub(self.left)).ok();
        if let Some(old) = place.and_then(|place| self.queue.get_mut(place)?.take()) {
            self.queued_bytes -= old.bytes.len();
            self.overtaken += 1;
        }
    }

    fn close_up(&mut self) {
        self.queue.retain(Option::is_some);
        self.overtaken = 0;
        self.latest.clear();
        for (number, waiting) in (self.left..).zip(&self.queue) {
            if let Some(topic) = waiting.as_ref().and_then(|waiting| waiting.topic) {
                self.latest.insert(topic, number);
            }
        }
    }

    /// Whether so much waits that nothing may be added that can be held back; false again when half of it is read.
    pub(crate) fn is_crowded(&self) -> bool {
        let messages = self.queue.len() - self.overtaken;
        let over = |percent: usize| {
            self.queued_bytes * 100 > CROWDED_BYTES * percent
                || messages * 100 > CROWDED_MESSAGES * percent
                || self.queued_descriptors * 100 > CROWDED_DESCRIPTORS * percent
        };
        self.of == Of::Program && over(if self.crowded { 50 } else { 100 })
    }

    /// So many descriptors wait that only those that are indispensable should be added.
    pub(crate) fn is_heavy(&self) -> bool {
        self.queued_descriptors > CROWDED_DESCRIPTORS
    }

    /// Sends what waits, as far as there is room.
    pub(crate) fn flush(&mut self) {
        self.retry_at = None;
        while let Some(front) = self.queue.front() {
            let Some(first) = front else {
                self.queue.pop_front();
                (self.left, self.overtaken) = (self.left + 1, self.overtaken - 1);
                continue;
            };
            match self.socket.send(&first.bytes, &borrowed(&first.descriptors)) {
                Ok(()) => {
                    self.queued_bytes -= first.bytes.len();
                    self.queued_descriptors -= first.descriptors.len();
                    if let Some(topic) = first.topic
                        && self.latest.get(&topic) == Some(&self.left)
                    {
                        self.latest.remove(&topic);
                    }
                    self.queue.pop_front();
                    self.left += 1;
                }
                Err(Errno::AGAIN) => return,
                Err(Errno::TOOMANYREFS | Errno::NOBUFS | Errno::NOMEM) => {
                    self.retry_at = Some(Instant::now() + RETRY_PAUSE);
                    return;
                }
                Err(_) => {
                    self.left += self.queue.len() as u64;
                    self.queue.clear();
                    self.latest.clear();
                    (self.queued_bytes, self.queued_descriptors, self.overtaken) = (0, 0, 0);
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

fn borrowed(descriptors: &[Held]) -> Vec<BorrowedFd<'_>> {
    descriptors.iter().map(|held| held.as_fd()).collect()
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
        pair_of(Of::Manager)
    }

    fn pair_of(of: Of) -> (Connection, Seqpacket) {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let (a, b) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).unwrap();
        let a = Foreign::new(Seqpacket::from_fd(a), 7, &foreign::Closer::new(0));
        (Connection::new(a, of), Seqpacket::from_fd(b))
    }

    #[test]
    fn what_finds_no_room_is_queued_and_sent_in_order_later() {
        let (mut connection, other) = pair();
        let mut sent = 0u32;
        while !connection.waits_for_room() {
            let mut bytes = vec![0; 8192];
            bytes[..4].copy_from_slice(&sent.to_le_bytes());
            assert_eq!(connection.send(bytes, vec![], None), Sent::Fine);
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
        let overflowed =
            (0..10_000).any(|_| connection.send(vec![0; 16_384], vec![], None) == Sent::Overflow);
        assert!(overflowed && connection.queued_bytes <= MAX_QUEUED_BYTES + 16_384);
    }

    #[test]
    fn descriptors_in_the_queue_are_bounded_too() {
        let (mut connection, _other) = pair();
        let file = std::fs::File::open("/dev/null").unwrap().into();
        let file = Held::new(Foreign::new(file, 7, &foreign::Closer::new(0)));
        let overflowed = (0..10_000).any(|_| {
            connection.send(vec![0; 8192], vec![file.clone(), file.clone()], None) == Sent::Overflow
        });
        assert!(overflowed && connection.queued_descriptors <= MAX_QUEUED_DESCRIPTORS + 2);
    }

    #[test]
    fn a_program_that_does_not_read_is_crowded_and_not_cut_off() {
        let (mut connection, other) = pair_of(Of::Program);
        let mut sent = 0;
        for _ in 0..20_000 {
            assert_eq!(connection.send(vec![7; 64], vec![], None), Sent::Fine);
            sent += 1;
            connection.crowded = connection.is_crowded();
        }
        assert!(connection.crowded);
        let mut buffer = [0; 64];
        while !connection.is_flushed() {
            while let Ok(Some(_)) = other.receive(&mut buffer) {
                sent -= 1;
            }
            connection.flush();
            let some_left = connection.queue.len() > CROWDED_MESSAGES;
            connection.crowded = connection.is_crowded();
            assert!(connection.crowded || !some_left, "only when half is read");
        }
        assert!(!connection.crowded);
        while let Ok(Some(_)) = other.receive(&mut buffer) {
            sent -= 1;
        }
        assert_eq!(sent, 0);
    }

    #[test]
    fn of_what_changes_again_and_again_only_the_latest_word_waits() {
        let (mut connection, other) = pair_of(Of::Program);
        while !connection.waits_for_room() {
            connection.send(vec![0xff; 64], vec![], None);
        }
        let node = |index: usize| NodeId::nth(index).unwrap();
        for round in 0..10_000u32 {
            for index in 0..4 {
                let topic = Topic::Member(GroupId(1), node(index));
                let bytes = [round.to_le_bytes(), u32::try_from(index).unwrap().to_le_bytes()].concat();
                connection.send(bytes, vec![], Some(topic));
            }
            assert!(connection.queue.len() < 300 && connection.queued_bytes < 4096);
        }
        let mut buffer = [0; 64];
        let mut words = Vec::new();
        while !connection.is_flushed() {
            connection.flush();
            while let Ok(Some(got)) = other.receive(&mut buffer) {
                if got.len == 8 {
                    words.push(u32::from_le_bytes(buffer[..4].try_into().unwrap()));
                }
            }
        }
        assert_eq!(words, [9999; 4]);
        assert_eq!((connection.queued_bytes, connection.latest.len(), connection.overtaken), (0, 0, 0));
    }

    #[test]
    fn a_closed_connection_swallows_what_is_sent() {
        let (mut connection, other) = pair();
        drop(other);
        assert_eq!(connection.send(vec![1], vec![], None), Sent::Fine);
        assert!(connection.is_flushed());
    }
}
