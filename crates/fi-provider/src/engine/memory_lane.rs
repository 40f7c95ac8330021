//! Operations on memory have an inner end point of their own, beside that of messages: so they wait behind no
//! message that its receiver does not take yet, and an end point that is used for messages alone has neither
//! a second thread nor a second place to look at.
//!
//! It is there as soon as peers may access memory through the end point, or when the program first begins an
//! operation. Peers find it by the name of the first ([`Name::second`]). What this program asks for is in
//! `asking`, what its peers ask for in `owner`, and what the inner end point does for that in `part`.
//!
//! Only the owner's own threads read and write its memory, while its program lets libfabric make progress. So
//! a registration can be closed at any time: what is under way then is known here.

mod asking;
mod owner;
mod part;

use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

use libc::c_int;
use message_queue::completion::Completion as End;
use message_queue::endpoint::{Counters as Taken, Mode, SendRequest as Send, Sent};
use message_queue::meet::Datagrams;
use message_queue::{Alarm, Armed, Buffers, Error, Space};
use rustix::io::Errno;
use shm::doorbell::Sleep;

use super::completion::Completion;
use super::endpoint::Bound;
use super::inner::{ANSWER_LIMIT, number_of, settings_of_memory};
use super::memory::Counters;
use super::name::{Name, PeerId};
use super::slab::Slab;
use super::state::Shared;
use crate::trace::{Op as Traced, count};
pub(crate) use asking::RemoteRequest;
use part::{ByPeer, Ends, Part, Unsent};

/// The kind of all its messages.
const SPACE: Space = Space::Tagged;
/// Most operations under way between two end points, in each direction: as many as `fi_getinfo` says.
pub(crate) const MOST_OUTSTANDING: usize = 4096;

/// What the end point is bound to. Once it is enabled only counters are bound.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reports {
    pub(crate) vector: Option<u32>,
    pub(crate) send_queue: Option<Bound>,
    /// Told of peers' writes that bring a word.
    pub(crate) receive_queue: Option<Bound>,
    /// Of operations of this program.
    pub(crate) read_counter: Option<u32>,
    pub(crate) write_counter: Option<u32>,
    /// Of what peers do in the domain's memory through it.
    pub(crate) counters: Counters,
}

/// The part of an end point that reads and writes peers' memory, and lets peers do that with its own.
#[derive(Debug)]
pub(crate) struct MemoryLane {
    inner: message_queue::Endpoint,
    reports: Reports,
    /// Whether peers may access memory through it; else they are refused.
    is_target: bool,
    /// What the operations of `inner` are parts of, by their words.
    parts: Slab<Part>,
    /// Those that have ended, in order.
    ended: VecDeque<(Part, End)>,
    is_taking_ended: bool,
    /// By the domain's number of a peer: that of `inner`.
    to_inner: Vec<Option<u32>>,
    /// By the number of `inner`: the domain's.
    to_ours: Vec<PeerId>,
    /// Operations of this program under way, by peer.
    own: ByPeer,
    /// Long writes of this program whose bytes are still on their way out, by their serial number: with the
    /// completion, if the answer has come already.
    long: HashMap<u64, Option<(Completion, bool)>>,
    last_serial: u64,
    /// Requests that were taken and not answered yet, and answers that wait for room.
    asked: ByPeer,
    answers: ByPeer,
    /// Messages for which there was no way at the moment.
    unsent: VecDeque<Unsent>,
}

impl MemoryLane {
    /// What the end point is bound to now.
    pub(crate) fn report_to(&mut self, reports: Reports) {
        self.reports = reports;
    }

    /// The one of the end point of that name.
    pub(crate) fn new(name: Name, is_target: bool, reports: Reports) -> Result<Self, Errno> {
        let settings = settings_of_memory();
        let meeting = Datagrams::begin(name.second(), settings.ring_bytes)?;
        Ok(Self {
            inner: message_queue::Endpoint::with(meeting, settings),
            reports,
            is_target,
            parts: Slab::default(),
            ended: VecDeque::new(),
            is_taking_ended: false,
            to_inner: Vec::new(),
            to_ours: Vec::new(),
            own: ByPeer::default(),
            long: HashMap::new(),
            last_serial: 0,
            asked: ByPeer::default(),
            answers: ByPeer::default(),
            unsent: VecDeque::new(),
        })
    }

    /// Calls the inner end point, and does what follows the ends of parts.
    fn inside<R>(
        &mut self,
        shared: &mut Shared,
        work: impl FnOnce(&mut message_queue::Endpoint, &mut Ends<'_>) -> R,
    ) -> R {
        let Self { inner, parts, ended, .. } = self;
        let result = work(inner, &mut Ends { parts, ended });
        if !self.ended.is_empty() {
            self.take_ended(shared);
        }
        result
    }

    /// Does what follows the ends of parts: one after the other, also of those that end meanwhile.
    fn take_ended(&mut self, shared: &mut Shared) {
        if self.is_taking_ended {
            return;
        }
        self.is_taking_ended = true;
        while let Some((part, end)) = self.ended.pop_front() {
            match part {
                Part::Answer { .. } => self.take_answer(part, &end, shared),
                Part::Out { .. } | Part::Departure { .. } => {
                    self.has_left(part, end.error.is_none(), shared);
                }
                Part::Request { peer } => {
                    self.asked.remove(peer);
                    self.take_request(end, shared);
                }
                Part::Arrival { .. } => self.take_arrival(part, &end, shared),
            }
        }
        self.is_taking_ended = false;
    }

    /// Takes what has arrived, and sends what waited for room.
    pub(crate) fn progress(&mut self, shared: &mut Shared) {
        self.inside(shared, |inner, ends| inner.progress(ends));
        self.send_unsent(shared);
        self.take_requests(shared);
    }

    /// The inner number of a peer.
    fn inner_number(&mut self, id: PeerId, shared: &Shared) -> Option<u32> {
        if let Some(Some(number)) = self.to_inner.get(id as usize) {
            return Some(*number);
        }
        let number = self.inner.peer(shared.names.name(id)?.second());
        let at = id as usize;
        if self.to_inner.len() <= at {
            self.to_inner.resize(at + 1, None);
        }
        self.to_inner[at] = Some(number);
        Some(number)
    }

    /// The domain's number of a peer, which is known by the name of its first end point.
    fn domain_number(&mut self, peer: u32, shared: &mut Shared) -> Option<PeerId> {
        while self.to_ours.len() <= peer as usize {
            let name = self.inner.name_of(self.to_ours.len() as u32)?;
            self.to_ours.push(shared.names.number(name.first()));
        }
        self.to_ours.get(peer as usize).copied()
    }

    /// Asks a peer for a ring, if it is there, and waits a little for its answer.
    fn wait_for_way(&mut self, to: u32, shared: &mut Shared) -> Result<(), Error> {
        let mut until = None;
        loop {
            if self.inside(shared, |inner, ends| inner.open_way_if_there(to, ends))? {
                return Ok(());
            }
            if Instant::now() >= *until.get_or_insert_with(|| Instant::now() + ANSWER_LIMIT) {
                return Ok(());
            }
            std::thread::yield_now();
            self.progress(shared);
        }
    }

    /// Sends a message that is a part of an operation. One that `waits` is sent later if there is no room or
    /// no way.
    fn send_part(
        &mut self,
        to: u32,
        tag: u64,
        data: Option<u64>,
        mut buffers: Buffers,
        (part, waits): (Part, bool),
        shared: &mut Shared,
    ) -> Result<(), c_int> {
        let number = self.parts.insert(part);
        let send = Send { to, space: SPACE, tag, data, user: u64::from(number), mode: Mode::Standard, waits };
        match self.inside(shared, |inner, ends| inner.send_from(&send, &mut buffers, ends)) {
            Ok(Sent::Later) => Ok(()),
            Ok(Sent::Now(_)) => {
                self.parts.remove(number);
                self.has_left(part, true, shared);
                Ok(())
            }
            Err(Error::NoWay { .. }) if waits => {
                self.parts.remove(number);
                self.unsent.push_back(Unsent { to, tag, data, buffers, part });
                Ok(())
            }
            Err(error) => {
                self.parts.remove(number);
                self.has_left(part, false, shared);
                if matches!(error, Error::NotNow { .. }) {
                    count(Traced::Again);
                }
                Err(number_of(error))
            }
        }
    }

    /// Sends what there was no way for, in order.
    fn send_unsent(&mut self, shared: &mut Shared) {
        for _ in 0..self.unsent.len() {
            let Some(Unsent { to, tag, data, buffers, part }) = self.unsent.pop_front() else { return };
            // Of a peer that has gone nothing waits.
            let _ = self.send_part(to, tag, data, buffers, (part, true), shared);
        }
    }

    /// A message that is a part of an operation needs its bytes no more.
    fn has_left(&mut self, part: Part, is_good: bool, shared: &mut Shared) {
        match part {
            Part::Departure { .. } => self.answered(part, is_good, shared),
            Part::Out { serial: Some(serial) } => {
                if let Some(Some((completion, is_wanted))) = self.long.remove(&serial) {
                    self.tell(completion, is_wanted, shared);
                }
            }
            _ => {}
        }
    }

    /// Looks whether one of the peers has ended.
    pub(crate) fn watch(&mut self, shared: &mut Shared) {
        self.inside(shared, |inner, ends| inner.watch(ends));
    }

    /// As [`message_queue::Endpoint::arm`].
    pub(crate) fn arm(&mut self, alarm: &mut Alarm, sleep: &Sleep, lasts: bool) -> Armed {
        if self.unsent.is_empty() { self.inner.arm(alarm, sleep, lasts) } else { Armed::Restless }
    }

    /// As [`message_queue::Endpoint::disarm`].
    pub(crate) fn disarm(&mut self, sleep: &Sleep) {
        self.inner.disarm(sleep);
    }

    /// Before it is dropped: gets out what peers wait for. How often each path was taken.
    pub(crate) fn finish(&mut self, limit: Duration, shared: &mut Shared) -> Taken {
        self.inside(shared, |inner, ends| inner.finish(limit, ends));
        self.leaves_memory(shared);
        self.inner.counters()
    }
}
