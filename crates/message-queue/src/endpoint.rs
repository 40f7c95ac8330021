//! An end point: sends and receives messages, and makes progress.
//!
//! Nothing happens by itself: a program (or what is above) calls [`Endpoint::progress`], which takes what has
//! arrived and sends what waited for room. The end of an operation is told to a [`Sink`], in whatever call it
//! happens.

mod arrive;
mod cut;
mod death;
mod direct;
mod many;
mod progress;
mod receive;
mod rendezvous;
mod send;
mod stalled;

use std::time::Duration;

use rustix::io::Errno;
use shm::clock::Clock;

use crate::buffers::Buffers;
use crate::completion::{Completion, Ended, Sink};
use crate::error::Error;
use crate::inboxes::Inboxes;
use crate::lane::{Inlet, Outlet};
use crate::limits::Unexpected;
use crate::matching::{Envelope, Matcher, PeerId, Place};
use crate::meet::{Datagrams, Meeting};
use crate::name::{Name, Names};
use crate::order::Order;
use crate::peer::{Peer, Trial, Way};
use crate::settings::Settings;
use crate::wire::{GROUP, PLAIN};
use arrive::Held;
use cut::Target;
pub use direct::Direct;
use many::Many;
pub use receive::{Claimed, ReceiveRequest};
pub use send::{Mode, SendRequest, Sent};

/// The kinds of messages, which never meet each other's receives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Space {
    /// Messages with tags.
    #[default]
    Tagged,
    /// Messages without; their tags are 0.
    Plain,
    /// Messages of collective operations: no receive of the program gets one, whatever it ignores.
    Group,
}

impl Space {
    pub(crate) const ALL: [Self; 3] = [Self::Tagged, Self::Plain, Self::Group];

    #[inline]
    pub(crate) const fn index(self) -> usize {
        self as usize
    }

    /// What the head of a message says of it.
    #[inline]
    pub(crate) const fn flag(self) -> u8 {
        match self {
            Self::Tagged => 0,
            Self::Plain => PLAIN,
            Self::Group => GROUP,
        }
    }

    /// What the flags of a message say.
    #[inline]
    pub(crate) const fn of(flags: u8) -> Self {
        if flags & GROUP != 0 {
            Self::Group
        } else if flags & PLAIN != 0 {
            Self::Plain
        } else {
            Self::Tagged
        }
    }
}

/// How often each path was taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Messages that were sent through the ring at once, in one record or several.
    pub eager: u64,
    /// Messages that were offered to their receivers.
    pub offered: u64,
    /// Messages that were copied out of their senders' memory.
    pub read: u64,
    /// Offered messages that came through the ring in parts.
    pub in_parts: u64,
    /// Messages that arrived before their receives.
    pub unexpected: u64,
    /// Times that a peer's messages were left where they are, because a limit was reached.
    pub left: u64,
    /// Messages that are kept now.
    pub kept_messages: usize,
    /// What they take, in bytes.
    pub kept_bytes: usize,
}

/// An end point.
#[derive(Debug)]
pub struct Endpoint<M: Meeting = Datagrams> {
    meeting: M,
    inboxes: Inboxes<M::Inlet>,
    core: Core<M::Outlet>,
    turns: u32,
    next_watched: usize,
    /// Peers ring although nobody is known to sleep.
    is_armed_for_good: bool,
}

/// All of it but the ends of lanes that receive: what these find goes in here.
#[derive(Debug)]
struct Core<O> {
    settings: Settings,
    names: Names,
    peers: Vec<Peer<O>>,
    /// By [`Space`].
    matchers: [Matcher<Receive, Arrived>; Space::ALL.len()],
    /// Receives of many messages.
    many: Order<Many>,
    unexpected: Unexpected,
    /// Counts what may let a message be taken that was left where it is.
    changes: u64,
    /// Messages that are not out or not done.
    sends: Order<Sending>,
    /// Messages that come in parts.
    parts: Order<Parts>,
    /// Those of them that could be copied out of their senders' memory.
    asked: Vec<u32>,
    /// [`Settings::part_wait`], in ticks.
    part_wait: u64,
    /// Ticks that went to copies out of other processes' memory: what comes in parts meanwhile is not slow.
    ticks_reading: u64,
    /// Peers for which something waits.
    busy: Vec<PeerId>,
    /// Whether lanes of peers that are lost have to be dropped.
    is_any_lost: bool,
    /// Records that had to wait for room and went out.
    records_out: u64,
    counters: Counters,
}

/// A receive.
#[derive(Debug, Default)]
struct Receive {
    buffers: Buffers,
    user: u64,
    /// The receive of many messages that it is a part of, or, while it waits, that it stands for: such a one
    /// has no memory itself.
    many: Option<u32>,
}

/// A message without a receive.
#[derive(Debug)]
pub(crate) struct Arrived {
    /// The sender's operation, if it wants to be told when the message has met its receive.
    tell: Option<u32>,
    body: Body,
}

#[derive(Debug)]
enum Body {
    Held(Held),
    /// Of a message whose parts arrive, or have arrived, the number of these.
    Arriving {
        parts: u32,
        len: usize,
    },
    Offered(Offer),
    /// A send of this end point to itself.
    Own(u32),
}

impl Body {
    /// Bytes that are kept of it.
    fn kept_bytes(&self) -> usize {
        match self {
            Self::Held(held) => held.bytes().len(),
            Self::Arriving { len, .. } => *len,
            Self::Offered(_) | Self::Own(_) => 0,
        }
    }
}

/// Where a message lies in its sender.
#[derive(Clone, Copy, Debug)]
struct Offer {
    send: u32,
    address: u64,
    is_one_piece: bool,
}

/// A send that has not ended.
#[derive(Debug)]
struct Sending {
    request: SendRequest,
    buffers: Buffers,
    state: SendState,
    /// Of a message whose way is measured.
    trial: Option<Trial>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SendState {
    /// No room for its record yet.
    Waiting,
    /// The receiver knows of it, and will say when it is done.
    Out,
    /// The receiver needs no more of its parts, and is to be told that none comes to this operation of its.
    Stopping(u32),
    /// It goes through the ring in parts.
    InParts,
}

/// A message that comes in parts.
#[derive(Debug)]
struct Parts {
    target: Target,
    envelope: Envelope,
    /// The sender's operation, if it was asked for the message.
    send: Option<u32>,
    at: usize,
    end: usize,
    /// When it was asked for, in ticks without those of [`Core::ticks_reading`].
    asked_at: u64,
    /// The same in all ticks.
    asked_at_all: u64,
    /// Where it lies in its sender, if it could be copied from there.
    offer: Option<Offer>,
}

/// A receive that was posted, for [`Endpoint::cancel`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Posted {
    space: Space,
    place: Place,
}

impl Endpoint<Datagrams> {
    /// A new end point with a name of its own, to be found by other processes of this user on this machine.
    ///
    /// # Errors
    /// [`Error::Setting`], [`Error::NoEndpoint`].
    pub fn new(settings: Settings) -> Result<Self, Error> {
        settings.check()?;
        let no_endpoint = |errno| Error::NoEndpoint { errno };
        let name = Name::new().ok_or(no_endpoint(Errno::AGAIN))?;
        let meeting = Datagrams::begin(name, settings.ring_bytes).map_err(no_endpoint)?;
        Ok(Self::with(meeting, settings))
    }
}

impl<M: Meeting> Endpoint<M> {
    /// An end point that meets others in its own way.
    pub fn with(meeting: M, settings: Settings) -> Self {
        let core = Core {
            settings,
            names: Names::default(),
            peers: Vec::new(),
            matchers: std::array::from_fn(|_| Matcher::default()),
            many: Order::default(),
            unexpected: Unexpected::new(&settings),
            changes: 0,
            sends: Order::default(),
            parts: Order::default(),
            asked: Vec::new(),
            part_wait: ticks(settings.part_wait),
            ticks_reading: 0,
            busy: Vec::new(),
            is_any_lost: false,
            records_out: 0,
            counters: Counters::default(),
        };
        let (inboxes, is_armed_for_good) = (Inboxes::default(), false);
        let mut endpoint = Self { meeting, inboxes, core, turns: 0, next_watched: 0, is_armed_for_good };
        // It has the number 0 itself.
        endpoint.peer(endpoint.name());
        endpoint
    }

    /// The name by which others reach it.
    #[must_use]
    pub fn name(&self) -> Name {
        self.meeting.name()
    }

    /// The number by which a name is known here from now on; the same each time.
    pub fn peer(&mut self, name: Name) -> PeerId {
        self.core.peer(name)
    }

    /// The name of a number.
    #[must_use]
    pub fn name_of(&self, peer: PeerId) -> Option<Name> {
        self.core.peers.get(peer as usize).map(|peer| peer.name)
    }

    /// Its own number.
    #[must_use]
    pub fn own_number(&self) -> PeerId {
        OWN
    }

    /// How often each path was taken.
    #[must_use]
    pub fn counters(&self) -> Counters {
        let (kept_messages, kept_bytes) = self.core.unexpected.kept();
        Counters { kept_messages, kept_bytes, ..self.core.counters }
    }

    /// Shared memory that lanes to and from this end point take on its side, in bytes.
    #[must_use]
    pub fn lane_bytes(&self) -> usize {
        let outlets = self.core.peers.iter().map(|peer| match &peer.way {
            Way::Open(outlet) => outlet.memory_bytes(),
            _ => 0,
        });
        outlets.chain(self.inboxes.iter().map(|inbox| inbox.inlet.memory_bytes())).sum()
    }

    /// Peers whose messages are left where they are, because a limit of unexpected messages is reached.
    pub fn stopped(&self) -> impl Iterator<Item = PeerId> {
        self.inboxes.iter().filter(|inbox| inbox.left_at.is_some()).map(|inbox| inbox.peer)
    }
}

fn ticks(time: Duration) -> u64 {
    Clock::global().ticks(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX))
}

/// The number of the end point itself.
const OWN: PeerId = 0;

impl<O: Outlet> Core<O> {
    fn peer(&mut self, name: Name) -> PeerId {
        let number = self.names.number(name);
        if self.peers.len() <= number as usize {
            self.peers.push(Peer::new(name, &self.settings));
        }
        number
    }

    /// Whether who comes by itself is listened to: a peer, or one more if there may be more.
    fn may_be_peer(&self, name: &Name) -> bool {
        let is_full = self.peers.len() as u64 >= u64::from(self.settings.peers_max);
        !is_full || self.names.find(name).is_some()
    }

    #[inline]
    fn matcher(&mut self, space: Space) -> &mut Matcher<Receive, Arrived> {
        &mut self.matchers[space.index()]
    }

    /// A receive has ended.
    fn received(&mut self, receive: Receive, envelope: Envelope, error: Option<Error>, sink: &mut impl Sink) {
        let (message_bytes, room_bytes) = (envelope.len_bytes, receive.buffers.len());
        let truncated =
            (message_bytes > room_bytes).then_some(Error::Truncated { message_bytes, room_bytes });
        let Receive { buffers, user, many } = receive;
        let error = error.or(truncated);
        let ends_many = many.is_some_and(|many| self.part_ended(many));
        let ended = Ended::Receive(Some(envelope));
        sink.ended(Completion { user, ended, error, buffers, ends_many });
    }

    /// A send has ended.
    fn sent(&mut self, sending: Sending, error: Option<Error>, sink: &mut impl Sink) {
        let Sending { request, buffers, .. } = sending;
        sink.ended(Completion { user: request.user, ended: Ended::Send, error, buffers, ends_many: false });
    }

    fn set_busy(&mut self, peer: PeerId) {
        if !self.busy.contains(&peer) {
            self.busy.push(peer);
        }
    }
}
