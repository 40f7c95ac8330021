//! An end point: sends and receives messages, and makes progress.

mod progress;
mod receive;
mod send;

use std::collections::HashMap;
use std::time::{Duration, Instant};

use libc::c_int;
use rustix::io::Errno;

use super::buffers::Buffers;
use super::completion::Completion;
use super::matching::{Envelope, Matcher};
use super::meet::Meeting;
use super::name::{Name, PeerId};
use super::peer::Peer;
use super::slab::Slab;
use super::state::Shared;
pub(crate) use receive::ReceiveRequest;
pub(crate) use send::SendRequest;
use shm::ring::record::Consumer;

/// Longest message that goes through the ring in one record; a longer one is offered to the receiver.
pub(crate) const EAGER_MAX_BYTES: usize = 16 << 10;
/// How long a first message to a peer waits for the peer's answer. That needs only a little of the processor from the peer's process, and
/// many programs take it for an error if their very first message finds no room.
const ANSWER_LIMIT: Duration = Duration::from_millis(50);
/// How long the closing of an end point waits until words that peers need are out.
const CLOSE_LIMIT: Duration = Duration::from_secs(1);

/// Where completions go.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bound {
    pub(crate) queue: u32,
    /// Only those of operations that ask for it.
    pub(crate) is_selective: bool,
}

/// What a program wants an end point to be.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wishes {
    /// Receives name the sender; else their address is ignored.
    pub(crate) is_directed: bool,
    /// Flags of operations that have none of their own.
    pub(crate) send_flags: u64,
    pub(crate) receive_flags: u64,
}

/// An end point.
#[derive(Debug)]
pub(crate) struct Endpoint {
    pub(crate) name: Name,
    id: PeerId,
    pub(crate) wishes: Wishes,
    pub(crate) vector: Option<u32>,
    pub(crate) send_queue: Option<Bound>,
    pub(crate) receive_queue: Option<Bound>,
    pub(crate) send_counter: Option<u32>,
    pub(crate) receive_counter: Option<u32>,
    /// A buffer for many messages is given back when less is left of it.
    pub(crate) least_for_many: usize,
    /// Once it is enabled.
    meeting: Option<Meeting>,
    peers: Vec<Option<Box<Peer>>>,
    inboxes: Vec<(PeerId, Box<Consumer>)>,
    /// Peers that are wrong or hostile.
    bad: Vec<PeerId>,
    /// Peers for which something waits.
    busy: Vec<PeerId>,
    /// Untagged and tagged messages.
    matchers: [Matcher<Posted, Arrived>; 2],
    /// Messages that a program has claimed, by its pointer.
    claimed: HashMap<usize, (Envelope, Arrived)>,
    /// Buffers for many messages.
    many: Slab<Many>,
    /// Messages that are not out yet.
    sends: Slab<Sending>,
    /// Messages that come in parts.
    incoming: Slab<Incoming>,
}

/// A receive that waits.
#[derive(Debug)]
enum Posted {
    One(Receive),
    /// A buffer for many messages.
    Many(u32),
}

/// A receive.
#[derive(Debug)]
struct Receive {
    buffers: Buffers,
    context: usize,
    wants_completion: bool,
    is_tagged: bool,
    /// The buffer for many messages that it uses a part of.
    part_of: Option<u32>,
}

/// A message without a receive.
#[derive(Debug)]
enum Arrived {
    Held(Box<[u8]>),
    Offered(Offer),
}

/// Where a message lies in its sender.
#[derive(Clone, Copy, Debug)]
struct Offer {
    send: u32,
    address: u64,
    is_one_piece: bool,
}

/// A buffer that takes one message after the other.
#[derive(Debug)]
struct Many {
    start: *mut u8,
    len: usize,
    used: usize,
    context: usize,
    wants_completion: bool,
    is_tagged: bool,
    /// Receives into it that have not ended.
    open: u32,
    is_used_up: bool,
}

// SAFETY: the memory belongs to the operation, not to a thread.
unsafe impl Send for Many {}

/// A message that its receiver has not got yet.
#[derive(Debug)]
struct Sending {
    peer: PeerId,
    buffers: Option<Buffers>,
    done: SendDone,
}

/// What the program is told when a message is out.
#[derive(Clone, Copy, Debug)]
struct SendDone {
    context: usize,
    is_tagged: bool,
    wants_completion: bool,
}

/// A message that comes in parts.
#[derive(Debug)]
struct Incoming {
    peer: PeerId,
    receive: Receive,
    envelope: Envelope,
    send: u32,
    at: usize,
    end: usize,
}

impl Endpoint {
    /// A new one, or `None` if there is no random number for its name.
    pub(crate) fn new(wishes: Wishes, shared: &mut Shared) -> Option<Self> {
        let name = Name::new()?;
        Some(Self {
            name,
            id: shared.names.number(name),
            wishes,
            vector: None,
            send_queue: None,
            receive_queue: None,
            send_counter: None,
            receive_counter: None,
            least_for_many: 64,
            meeting: None,
            peers: Vec::new(),
            inboxes: Vec::new(),
            bad: Vec::new(),
            busy: Vec::new(),
            matchers: [Matcher::default(), Matcher::default()],
            claimed: HashMap::new(),
            many: Slab::default(),
            sends: Slab::default(),
            incoming: Slab::default(),
        })
    }

    /// From now on it can be reached, and reach others.
    pub(crate) fn enable(&mut self) -> Result<(), Errno> {
        if self.meeting.is_none() {
            self.meeting = Some(Meeting::begin(self.name)?);
        }
        Ok(())
    }

    pub(crate) fn is_enabled(&self) -> bool {
        self.meeting.is_some()
    }

    /// Whether words wait that a peer needs to end its operations.
    fn owes_words(&self) -> bool {
        !self.busy.is_empty()
    }

    /// Before it is dropped: gets out what peers wait for.
    pub(crate) fn finish(&mut self, shared: &mut Shared) {
        let until = Instant::now() + CLOSE_LIMIT;
        while self.owes_words() && Instant::now() < until {
            self.progress(shared);
            std::thread::yield_now();
        }
    }

    /// Gives up a receive that still waits: whether there was one.
    pub(crate) fn cancel(&mut self, context: usize, shared: &mut Shared) -> bool {
        for is_tagged in [true, false] {
            let many = &self.many;
            let is_meant = |posted: &Posted| match posted {
                Posted::One(receive) => receive.context == context,
                Posted::Many(number) => many.get(*number).is_some_and(|many| many.context == context),
            };
            let Some((want, posted)) = self.matchers[usize::from(is_tagged)].cancel(is_meant) else {
                continue;
            };
            if let Posted::Many(number) = posted {
                self.many.remove(number);
            }
            let mut completion = Completion::new(context, receive::flags(is_tagged));
            (completion.tag, completion.error) = (want.tag, fabric_sys::constants::FI_ECANCELED);
            self.tell_receiver(completion, true, shared);
            return true;
        }
        false
    }

    fn peer(&mut self, id: PeerId, shared: &Shared) -> Option<&mut Peer> {
        let at = id as usize;
        if self.peers.len() <= at {
            self.peers.resize_with(at + 1, || None);
        }
        let place = self.peers.get_mut(at)?;
        if place.is_none() {
            *place = Some(Box::new(Peer::new(shared.names.name(id)?)));
        }
        place.as_deref_mut()
    }

    fn tell_sender(&self, done: SendDone, error: c_int, shared: &mut Shared) {
        if let Some(counter) = self.send_counter.and_then(|number| shared.counters.get_mut(number)) {
            *(if error == 0 { &mut counter.good } else { &mut counter.bad }) += 1;
        }
        if !done.wants_completion && error == 0 {
            return;
        }
        let mut completion = Completion::new(done.context, send::flags(done.is_tagged));
        completion.error = error;
        if let Some(queue) = self.send_queue.and_then(|bound| shared.queues.get_mut(bound.queue)) {
            queue.push(completion);
        }
    }

    fn tell_receiver(&self, completion: Completion, wants_completion: bool, shared: &mut Shared) {
        let is_good = completion.error == 0;
        if let Some(counter) = self.receive_counter.and_then(|number| shared.counters.get_mut(number)) {
            *(if is_good { &mut counter.good } else { &mut counter.bad }) += 1;
        }
        if !wants_completion && is_good {
            return;
        }
        if let Some(queue) = self.receive_queue.and_then(|bound| shared.queues.get_mut(bound.queue)) {
            queue.push(completion);
        }
    }
}
