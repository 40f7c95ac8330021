//! A connection of the manager, with a bounded queue of messages that could not be sent yet.

use std::collections::{HashMap, VecDeque};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use foreign::Foreign;
use node_client::seqpacket::Seqpacket;
use proto::ids::{GroupId, NodeId, SegmentKey};
use proto::wire::program::{Event, ToProgram};
use rustix::io::Errno;

use crate::descriptor::Held;
use crate::in_flight::{InFlight, has_unread};

/// More than this unread by another manager, and it is cut off: it does not read, and memory is not for it
/// alone. It comes back with what it has, and nothing is lost.
const MAX_QUEUED_BYTES: usize = 1024 * 1024;
const MAX_QUEUED_MESSAGES: usize = 4096;
/// Descriptors in a queue are descriptors of this process.
const MAX_QUEUED_DESCRIPTORS: usize = 512;
/// Descriptors that another manager was sent and has not read; of programs, see [`InFlight`].
const UNREAD_BY_MANAGER: usize = 128;
/// More than this unread by a program, and it is crowded: its messages are not read any more, and no program
/// can connect to it, so that neither it nor others add to what waits, until half of it is read.
const CROWDED_BYTES: usize = 256 * 1024;
const CROWDED_MESSAGES: usize = 1024;
const CROWDED_DESCRIPTORS: usize = 256;
/// More descriptors than this wait for a program, and it is not listened to: what it asks for would wait as
/// well, and descriptors of segments that are removed meanwhile would stay open.
const QUIET_DESCRIPTORS: usize = 32;
/// Pause after too many descriptors were in flight; there is no event when they are fewer. It doubles up to
/// the longest.
const SHORTEST_PAUSE: Duration = Duration::from_millis(1);
const LONGEST_PAUSE: Duration = Duration::from_millis(100);
/// The time after which the log reports such a wait.
const LONG: Duration = Duration::from_secs(1);
/// The text that distinguishes this limit from errors of the kernel.
const TOO_MANY_UNREAD: Errno = Errno::DQUOT;
/// How long a connection that is to be closed may take to read what was sent last.
const CLOSING_LIMIT: Duration = Duration::from_secs(2);

/// Whose connection it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Of {
    /// A program: while it lives it is not cut off, however long it does not read. What is added meanwhile is
    /// bounded by what it holds: an end for each of its connections, one word on each node and on each member
    /// of a group that it watches.
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

/// Why what waits is not sent.
#[derive(Debug)]
struct Delay {
    since: Instant,
    why: Errno,
    told: bool,
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
    /// Descriptors that were sent since all was read.
    unread: usize,
    in_flight: InFlight,
    /// The next pause before another try.
    pause: Duration,
    /// What waits could not be sent, though there is room.
    held: Option<Delay>,
    /// As the state machine knows it.
    pub(crate) crowded: bool,
    /// When to try again without a hint from the kernel.
    pub(crate) retry_at: Option<Instant>,
    /// To be closed when the queue is empty, or at this moment.
    pub(crate) close_at: Option<Instant>,
    /// The events that are registered with epoll.
    pub(crate) wants_write: bool,
    pub(crate) wants_read: bool,
}

impl Connection {
    pub(crate) fn new(socket: Foreign<Seqpacket>, of: Of, in_flight: &InFlight) -> Self {
        Self {
            socket,
            of,
            queue: VecDeque::new(),
            left: 0,
            overtaken: 0,
            latest: HashMap::new(),
            queued_bytes: 0,
            queued_descriptors: 0,
            unread: 0,
            in_flight: in_flight.clone(),
            pause: SHORTEST_PAUSE,
            held: None,
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

    /// From here on the other side may send descriptors.
    pub(crate) fn let_descriptors_in(&mut self) {
        self.socket.expect_descriptors();
        foreign::refuse_descriptors(&*self.socket, false);
    }

    pub(crate) fn socket(&self) -> &Seqpacket {
        &self.socket
    }

    /// Sends, or queues if there is no room: in place of an earlier word on the same topic.
    pub(crate) fn send(&mut self, bytes: Vec<u8>, descriptors: Vec<Held>, topic: Option<Topic>) -> Sent {
        if self.queue.is_empty() {
            match self.pass(&bytes, &descriptors) {
                Ok(()) => return Sent::Fine,
                Err(Errno::AGAIN) => {}
                Err(errno @ (TOO_MANY_UNREAD | Errno::TOOMANYREFS | Errno::NOBUFS | Errno::NOMEM)) => {
                    self.retry_later(errno);
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

    /// Sends, if there are not too many descriptors on their way.
    fn pass(&mut self, bytes: &[u8], descriptors: &[Held]) -> Result<(), Errno> {
        let more = descriptors.len();
        if more > 0 && !self.may_pass(more) {
            return Err(TOO_MANY_UNREAD);
        }
        self.socket.send(bytes, &borrowed(descriptors))?;
        (self.pause, self.held) = (SHORTEST_PAUSE, None);
        self.unread += more;
        if more > 0 && self.of == Of::Program {
            self.in_flight.add(self.uid(), more);
        }
        Ok(())
    }

    fn may_pass(&mut self, more: usize) -> bool {
        self.see_what_was_read();
        match self.of {
            Of::Program => self.in_flight.has_room(self.uid(), self.unread, more),
            Of::Manager => self.unread + more <= UNREAD_BY_MANAGER,
        }
    }

    /// Takes note if all that was sent has been read.
    pub(crate) fn see_what_was_read(&mut self) {
        if self.unread > 0 && !has_unread(&self.socket) {
            if self.of == Of::Program {
                self.in_flight.remove(self.uid(), self.unread);
            }
            self.unread = 0;
        }
    }

    fn retry_later(&mut self, why: Errno) {
        let now = Instant::now();
        self.retry_at = Some(now + self.pause);
        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
        self.held.get_or_insert(Delay { since: now, why, told: false }).why = why;
    }

    /// Says once why what waits has been waiting for long, if not for room in the socket.
    pub(crate) fn why_held(&mut self) -> Option<String> {
        let uid = self.uid();
        let held = self.held.as_mut().filter(|held| !held.told && held.since.elapsed() >= LONG)?;
        held.told = true;
        Some(match held.why {
            TOO_MANY_UNREAD => format!(
                "programs of user {uid} do not read their messages; the rest is sent when they read, or have ended"
            ),
            errno => format!(
                "the kernel takes no more from this manager's user ({errno}); programs of this user that do not read what they \
                 were sent have to read it, or end"
            ),
        })
    }

    /// Lets go of it, when it has been hung up. What a program has not read yet remains on its way, and is
    /// counted until it is read.
    pub(crate) fn end(mut self) {
        self.see_what_was_read();
        if self.unread > 0 && self.of == Of::Program {
            self.in_flight.keep(self.socket, self.unread);
        }
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

    /// Whether so much waits that nothing may be added that can be held back; false again when half of it is
    /// read.
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

    /// Whether each request would be one more answer that waits.
    pub(crate) fn is_listened_to(&self) -> bool {
        !self.crowded && (self.of == Of::Manager || self.queued_descriptors <= QUIET_DESCRIPTORS)
    }

    /// Sends what waits, as far as there is room.
    pub(crate) fn flush(&mut self) {
        self.retry_at = None;
        while let Some(front) = self.queue.pop_front() {
            let Some(first) = front else {
                (self.left, self.overtaken) = (self.left + 1, self.overtaken - 1);
                continue;
            };
            match self.pass(&first.bytes, &first.descriptors) {
                Ok(()) => {
                    self.queued_bytes -= first.bytes.len();
                    self.queued_descriptors -= first.descriptors.len();
                    if let Some(topic) = first.topic
                        && self.latest.get(&topic) == Some(&self.left)
                    {
                        self.latest.remove(&topic);
                    }
                    self.left += 1;
                }
                Err(
                    errno @ (Errno::AGAIN
                    | TOO_MANY_UNREAD
                    | Errno::TOOMANYREFS
                    | Errno::NOBUFS
                    | Errno::NOMEM),
                ) => {
                    self.queue.push_front(Some(first));
                    if errno != Errno::AGAIN {
                        self.retry_later(errno);
                    }
                    return;
                }
                Err(_) => {
                    self.left += 1;
                    self.give_up_queue();
                }
            }
        }
    }

    /// No process can read the waiting messages any more.
    pub(crate) fn give_up_queue(&mut self) {
        self.left += self.queue.len() as u64;
        self.queue.clear();
        self.latest.clear();
        (self.queued_bytes, self.queued_descriptors, self.overtaken) = (0, 0, 0);
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
mod tests;
