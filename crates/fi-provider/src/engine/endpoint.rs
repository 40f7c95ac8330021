//! An end point: one of crate `message-queue`, whose completions go to libfabric's queues and counters. For
//! operations on memory there is another one beside it, if they are wanted: see [`super::memory_lane`].

mod sleep;
mod told;

use std::collections::HashMap;
use std::time::{Duration, Instant};

use cancellation::no_points;
use fabric_sys::constants::{FI_EAGAIN, FI_EINVAL};
use libc::c_int;
use message_queue::endpoint::{Claimed, Mode, Posted, ReceiveRequest as Receive, SendRequest as Send, Sent};
use message_queue::meet::Datagrams;
use message_queue::{Buffers, Error, Space, Want};
use rustix::io::Errno;
use shm::lent::Piece;

use super::completion::Completion;
use super::inner::{ANSWER_LIMIT, number_of, settings};
use super::memory::Counters;
use super::memory_lane::{MemoryLane, RemoteRequest, Reports};
use super::name::{Name, PeerId};
use super::slab::Slab;
use super::state::Shared;
use crate::abi::{FI_ENOMSG, FI_EOPBADSTATE};
use crate::trace::{Op as Traced, add, count};
use told::Told;

/// Longest message that goes through the ring in one record; a longer one is offered to the receiver.
pub(crate) const EAGER_MAX_BYTES: usize = 16 << 10;
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
    /// Peers may read and write memory of the domain through it.
    pub(crate) is_target: bool,
}

/// A message that a program sends.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SendRequest {
    pub(crate) to: PeerId,
    pub(crate) is_tagged: bool,
    pub(crate) tag: u64,
    pub(crate) data: Option<u64>,
    pub(crate) context: usize,
    pub(crate) wants_completion: bool,
    /// Its completion says that the receiver has it, not only that the memory may be used again.
    pub(crate) wants_delivery: bool,
}

/// A receive as a program asks for it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReceiveRequest {
    pub(crate) is_tagged: bool,
    pub(crate) want: Want,
    pub(crate) context: usize,
    pub(crate) wants_completion: bool,
}

/// An operation that has not ended.
#[derive(Clone, Copy, Debug)]
struct Op {
    context: usize,
    wants_completion: bool,
    is_tagged: bool,
    /// What it waits for, if it is a receive.
    tag: u64,
    is_many: bool,
    posted: Option<Posted>,
}

impl Op {
    /// One of a message.
    fn of_message(context: usize, wants_completion: bool, is_tagged: bool, tag: u64) -> Self {
        Self { context, wants_completion, is_tagged, tag, is_many: false, posted: None }
    }
}

/// An end point.
#[derive(Debug)]
pub(crate) struct Endpoint {
    pub(crate) name: Name,
    pub(crate) wishes: Wishes,
    pub(crate) vector: Option<u32>,
    pub(crate) send_queue: Option<Bound>,
    pub(crate) receive_queue: Option<Bound>,
    pub(crate) send_counter: Option<u32>,
    pub(crate) receive_counter: Option<u32>,
    /// Of operations on memory.
    pub(crate) read_counter: Option<u32>,
    pub(crate) write_counter: Option<u32>,
    /// Of what peers do in the domain's memory through it.
    pub(crate) counters: Counters,
    /// A buffer for many messages is given back when less is left of it.
    pub(crate) least_for_many: usize,
    /// Once it is enabled.
    inner: Option<message_queue::Endpoint>,
    ops: Slab<Op>,
    /// Messages that a program has claimed, by its pointer.
    claimed: HashMap<usize, Claimed>,
    /// By the domain's number of a peer: that of `inner`.
    to_inner: Vec<Option<u32>>,
    /// By the number of `inner`: the domain's.
    to_ours: Vec<PeerId>,
    /// Ends whose peers have no number of the domain yet, and those behind them.
    deferred: Vec<message_queue::completion::Completion>,
    /// For operations on memory, if they are wanted.
    memory: Option<Box<MemoryLane>>,
}

fn space(is_tagged: bool) -> Space {
    if is_tagged { Space::Tagged } else { Space::Plain }
}

impl Endpoint {
    /// A new one, or `None` if there is no random number for its name.
    pub(crate) fn new(wishes: Wishes, _: &mut Shared) -> Option<Self> {
        Some(Self {
            name: Name::new()?,
            wishes,
            vector: None,
            send_queue: None,
            receive_queue: None,
            send_counter: None,
            receive_counter: None,
            read_counter: None,
            write_counter: None,
            counters: Counters::default(),
            least_for_many: 64,
            inner: None,
            ops: Slab::default(),
            claimed: HashMap::new(),
            to_inner: Vec::new(),
            to_ours: Vec::new(),
            deferred: Vec::new(),
            memory: None,
        })
    }

    /// From now on it can be reached, and reach others.
    pub(crate) fn enable(&mut self) -> Result<(), Errno> {
        if self.inner.is_none() {
            let settings = settings();
            let meeting = Datagrams::begin(self.name, settings.ring_bytes)?;
            if self.wishes.is_target {
                // Peers may ask from now on.
                self.memory()?;
            }
            self.inner = Some(message_queue::Endpoint::with(meeting, settings));
        }
        Ok(())
    }

    /// What carries operations on memory, which is made if it is not there yet.
    fn memory(&mut self) -> Result<&mut MemoryLane, Errno> {
        if self.memory.is_none() {
            let _no_points = no_points();
            let made = MemoryLane::new(self.name, self.wishes.is_target, self.reports())?;
            self.memory = Some(Box::new(made));
        }
        self.memory.as_deref_mut().ok_or(Errno::NOMEM)
    }

    fn reports(&self) -> Reports {
        let Self { vector, send_queue, receive_queue, read_counter, write_counter, counters, .. } = *self;
        Reports { vector, send_queue, receive_queue, read_counter, write_counter, counters }
    }

    /// A counter was bound, which is allowed at any time.
    pub(crate) fn has_new_counters(&mut self) {
        let reports = self.reports();
        if let Some(memory) = &mut self.memory {
            memory.report_to(reports);
        }
    }

    /// Begins an operation on a peer's memory, as [`MemoryLane::begin`].
    pub(crate) fn begin_remote(
        &mut self,
        request: &RemoteRequest,
        bytes: Buffers,
        into: Buffers,
        shared: &mut Shared,
    ) -> Result<(), c_int> {
        if self.inner.is_none() {
            return Err(FI_EOPBADSTATE);
        }
        let memory = self.memory().map_err(Errno::raw_os_error)?;
        let begun = memory.begin(request, bytes, into, shared);
        if begun == Err(FI_EAGAIN) {
            // Perhaps there is room then, and not every program lets others go on meanwhile.
            self.progress(shared);
        }
        begun
    }

    /// Of a registration that is to be closed, what peers have not begun is refused, and what they do not
    /// take is copied.
    pub(crate) fn leaves_region(&mut self, closing: u32, shared: &mut Shared) {
        if let Some(memory) = &mut self.memory {
            memory.leaves_region(closing, shared);
        }
    }

    pub(crate) fn is_enabled(&self) -> bool {
        self.inner.is_some()
    }

    /// Calls the inner end point, if there is one, with somebody who is told of ends.
    #[inline]
    fn inside<R>(
        &mut self,
        shared: &mut Shared,
        work: impl FnOnce(&mut message_queue::Endpoint, &mut Told<'_>) -> R,
    ) -> Option<R> {
        let Self { vector, send_queue, receive_queue, send_counter, receive_counter, .. } = *self;
        let Self { inner, ops, to_ours, deferred, .. } = self;
        let mut told = Told {
            vector,
            send_queue,
            receive_queue,
            send_counter,
            receive_counter,
            ops,
            to_ours,
            deferred,
            shared,
        };
        let result = inner.as_mut().map(|inner| work(inner, &mut told));
        if !self.deferred.is_empty() {
            self.tell_deferred(shared);
        }
        result
    }

    /// Tells of the ends whose peers had no number of the domain.
    #[cold]
    fn tell_deferred(&mut self, shared: &mut Shared) {
        self.learn(shared);
        let ends = std::mem::take(&mut self.deferred);
        self.inside(shared, |_, told| ends.into_iter().for_each(|end| told.tell(end)));
    }

    /// Numbers of the domain for all peers that have become known.
    fn learn(&mut self, shared: &mut Shared) {
        let Some(inner) = &self.inner else { return };
        while let Some(name) = inner.name_of(self.to_ours.len() as u32) {
            self.to_ours.push(shared.names.number(name));
        }
    }

    /// The inner number of a peer.
    #[inline]
    fn inner_number(&mut self, id: PeerId, shared: &Shared) -> Option<u32> {
        if let Some(Some(number)) = self.to_inner.get(id as usize) {
            return Some(*number);
        }
        let number = self.inner.as_mut()?.peer(shared.names.name(id)?);
        let at = id as usize;
        if self.to_inner.len() <= at {
            self.to_inner.resize(at + 1, None);
        }
        self.to_inner[at] = Some(number);
        Some(number)
    }

    /// Takes what has arrived, and sends what waited for room.
    #[inline]
    pub(crate) fn progress(&mut self, shared: &mut Shared) {
        self.inside(shared, |inner, told| inner.progress(told));
        if let Some(memory) = &mut self.memory {
            memory.progress(shared);
        }
    }

    /// The counters that it counts in.
    pub(crate) fn bound_counters(&self) -> impl Iterator<Item = u32> + use<> {
        let Counters { reads, writes } = self.counters;
        let all =
            [self.send_counter, self.receive_counter, self.read_counter, self.write_counter, reads, writes];
        all.into_iter().flatten()
    }

    /// Before it is dropped: gets out what peers wait for.
    pub(crate) fn finish(&mut self, shared: &mut Shared) {
        self.inside(shared, |inner, told| inner.finish(CLOSE_LIMIT, told));
        let of_memory = self.memory.as_mut().map(|memory| memory.finish(CLOSE_LIMIT, shared));
        let of_messages = self.inner.as_ref().map(message_queue::Endpoint::counters);
        for counters in [of_messages, of_memory].into_iter().flatten() {
            add(Traced::Eager, counters.eager);
            add(Traced::Offered, counters.offered);
            add(Traced::Pulled, counters.read);
            add(Traced::Streamed, counters.in_parts);
            add(Traced::Unexpected, counters.unexpected);
        }
    }

    /// Sends a message. An error is a number of libfabric's, and then nothing was sent.
    #[inline]
    pub(crate) fn send(
        &mut self,
        request: &SendRequest,
        buffers: Buffers,
        shared: &mut Shared,
    ) -> Result<(), c_int> {
        if self.inner.is_none() {
            return Err(FI_EOPBADSTATE);
        }
        let Some(to) = self.inner_number(request.to, shared) else { return Err(FI_EINVAL) };
        let SendRequest { is_tagged, tag, data, context, wants_completion, wants_delivery, .. } = *request;
        let mode = if wants_delivery { Mode::Delivered } else { Mode::Standard };
        let inner = Send { to, space: space(is_tagged), tag, data, user: 0, mode, waits: false };
        let Some(endpoint) = &mut self.inner else { return Err(FI_EOPBADSTATE) };
        if !endpoint.send_now(&inner, &buffers).map_err(number_of)? {
            return self.send_any(inner, (context, wants_completion), buffers, shared);
        }
        if wants_completion || self.send_counter.is_some() {
            let op = Op::of_message(context, wants_completion, is_tagged, tag);
            self.inside(shared, |_, told| told.tell_sender(op, 0));
        }
        Ok(())
    }

    /// Sends a message that does not go at once.
    #[inline(never)]
    fn send_any(
        &mut self,
        mut inner: Send,
        (context, wants_completion): (usize, bool),
        buffers: Buffers,
        shared: &mut Shared,
    ) -> Result<(), c_int> {
        self.wait_for_way(inner.to, shared).map_err(number_of)?;
        let op = Op::of_message(context, wants_completion, inner.space == Space::Tagged, inner.tag);
        let number = self.ops.insert(op);
        inner.user = u64::from(number);
        let sent = self.inside(shared, |endpoint, told| endpoint.send(&inner, buffers, told));
        match sent {
            Some(Ok(Sent::Later)) => Ok(()),
            Some(Ok(Sent::Now(_))) => {
                self.ops.remove(number);
                self.inside(shared, |_, told| told.tell_sender(op, 0));
                Ok(())
            }
            Some(Err(error)) => {
                self.ops.remove(number);
                if matches!(error, Error::NotNow { .. }) {
                    count(Traced::Again);
                }
                Err(number_of(error))
            }
            None => Err(FI_EOPBADSTATE),
        }
    }

    /// Asks a peer for a ring, and waits a little for its answer.
    #[cold]
    fn wait_for_way(&mut self, to: u32, shared: &mut Shared) -> Result<(), Error> {
        let until = Instant::now() + ANSWER_LIMIT;
        loop {
            match self.inside(shared, |inner, told| inner.open_way(to, told)) {
                Some(Err(error)) => return Err(error),
                Some(Ok(true)) | None => return Ok(()),
                Some(Ok(false)) if Instant::now() >= until => return Ok(()),
                Some(Ok(false)) => std::thread::yield_now(),
            }
            self.progress(shared);
        }
    }

    /// What the inner end point is asked to receive.
    fn wanted(&mut self, request: &ReceiveRequest, is_many: bool, shared: &Shared) -> Receive {
        let ReceiveRequest { is_tagged, want, context, wants_completion } = *request;
        // A peer without a name is never heard of.
        let source = want.source.map(|id| self.inner_number(id, shared).unwrap_or(u32::MAX));
        let op = Op { is_many, ..Op::of_message(context, wants_completion, is_tagged, want.tag) };
        let user = u64::from(self.ops.insert(op));
        Receive { space: space(is_tagged), want: Want { source, ..want }, user }
    }

    fn note(&mut self, user: u64, posted: Option<Posted>) {
        if let Some(op) = self.ops.get_mut(user as u32) {
            op.posted = posted;
        }
    }

    /// Receives one message, now or later.
    #[inline]
    pub(crate) fn receive(&mut self, request: &ReceiveRequest, buffers: Buffers, shared: &mut Shared) {
        let receive = self.wanted(request, false, shared);
        let posted = self.inside(shared, |inner, told| inner.receive(&receive, buffers, told)).flatten();
        if posted.is_some() {
            self.note(receive.user, posted);
        }
    }

    /// Receives messages into a buffer, one behind the other, until it is used up.
    pub(crate) fn receive_many(&mut self, request: &ReceiveRequest, memory: Piece, shared: &mut Shared) {
        let receive = self.wanted(request, true, shared);
        let least = self.least_for_many;
        let posted =
            self.inside(shared, |inner, told| inner.receive_many(&receive, memory, least, told)).flatten();
        if posted.is_some() {
            self.note(receive.user, posted);
        }
    }

    /// Gives up a receive that still waits: whether there was one.
    pub(crate) fn cancel(&mut self, context: usize, shared: &mut Shared) -> bool {
        let waiting = |(_, op): (u32, &Op)| op.posted.filter(|_| op.context == context);
        let posted = self.ops.iter().find_map(waiting);
        let Some(posted) = posted else { return false };
        self.inside(shared, |inner, told| inner.cancel(posted, told)).unwrap_or(false)
    }

    /// Tells of the message that a receive would get, and perhaps sets it aside or throws it away.
    pub(crate) fn peek(
        &mut self,
        request: &ReceiveRequest,
        is_claim: bool,
        is_discard: bool,
        shared: &mut Shared,
    ) {
        self.progress(shared);
        self.learn(shared);
        let ReceiveRequest { is_tagged, want, context, wants_completion } = *request;
        let source = want.source.map(|id| self.inner_number(id, shared).unwrap_or(u32::MAX));
        let (space, want) = (space(is_tagged), Want { source, ..want });
        let claimed = &mut self.claimed;
        let inner = self.inner.as_mut();
        let found = inner.and_then(|inner| {
            let envelope = inner.probe(space, &want)?;
            let taken = if is_claim || is_discard { inner.claim(space, &want) } else { None };
            Some((envelope, taken))
        });
        let Some((envelope, taken)) = found else {
            let mut completion = Completion::new(context, told::receive_flags(is_tagged));
            (completion.tag, completion.error) = (want.tag, FI_ENOMSG);
            self.inside(shared, |_, told| told.tell_receiver(completion, true));
            return;
        };
        match taken {
            Some(taken) if is_discard => {
                self.inside(shared, |inner, told| inner.throw_away(taken, told));
            }
            Some(taken) => _ = claimed.insert(context, taken),
            None => {}
        }
        self.inside(shared, |_, told| {
            let completion = told.of_message(context, is_tagged, &envelope);
            told.tell_receiver(completion, wants_completion);
        });
    }

    /// Receives a message that was set aside, or throws it away: whether there is one of this pointer.
    pub(crate) fn receive_claimed(
        &mut self,
        request: &ReceiveRequest,
        buffers: Buffers,
        is_discard: bool,
        shared: &mut Shared,
    ) -> bool {
        let ReceiveRequest { is_tagged, context, wants_completion, .. } = *request;
        let Some(claimed) = self.claimed.remove(&context) else { return false };
        if is_discard {
            let envelope = claimed.envelope();
            self.inside(shared, |inner, told| {
                inner.throw_away(claimed, told);
                let completion = told.of_message(context, is_tagged, &envelope);
                told.tell_receiver(completion, wants_completion);
            });
        } else {
            let receive = self.wanted(request, false, shared);
            self.inside(shared, |inner, told| inner.receive_claimed(claimed, receive.user, buffers, told));
        }
        true
    }
}
