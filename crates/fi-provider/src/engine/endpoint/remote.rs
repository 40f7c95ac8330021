//! Operations on memory of another end point, as the program begins them. What peers ask for is in `owner`.
//!
//! Only the owner's own threads read and write its memory. So a registration can be closed at any time: what
//! is under way then is known here.

use std::collections::{HashMap, VecDeque};

use fabric_sys::constants::{FI_ATOMIC, FI_EAGAIN, FI_EINVAL, FI_EIO, FI_READ, FI_RMA, FI_WRITE};
use libc::c_int;
use message_queue::buffers::Source as _;
use message_queue::completion::{Completion as End, Ended};
use message_queue::endpoint::{Mode, ReceiveRequest as Receive, SendRequest as Send, Sent};
use message_queue::{Buffers, Error, Space, Want};

use super::{Endpoint, Op, number_of};
use crate::abi::FI_EOPBADSTATE;
use crate::engine::completion::Completion;
use crate::engine::name::PeerId;
use crate::engine::request::{Head, INLINE_MAX_BYTES, REQUESTS, What, answer_tag, payload_tag};
use crate::engine::state::Shared;
use crate::trace::{Op as Traced, count};

/// No receive of a program looks here, whatever it ignores.
pub(super) const SPACE: Space = Space::Group;
/// Most operations under way between two end points, in each direction: as many as `fi_getinfo` says.
pub(crate) const MOST_OUTSTANDING: usize = 4096;

/// Numbers of things by peer, of which there are few.
#[derive(Debug, Default)]
pub(super) struct ByPeer(Vec<usize>);

impl ByPeer {
    pub(super) fn get(&self, peer: u32) -> usize {
        self.0.get(peer as usize).copied().unwrap_or(0)
    }

    pub(super) fn add(&mut self, peer: u32) {
        let at = peer as usize;
        if self.0.len() <= at {
            self.0.resize(at + 1, 0);
        }
        self.0[at] += 1;
    }

    pub(super) fn remove(&mut self, peer: u32) {
        if let Some(count) = self.0.get_mut(peer as usize) {
            *count = count.saturating_sub(1);
        }
    }
}

/// What has not ended.
#[derive(Debug, Default)]
pub(super) struct Outstanding {
    /// Operations of this program, by the inner number of the peer.
    own: ByPeer,
    /// Long writes whose bytes are still on their way out, by their serial number: with the completion, if
    /// the answer has come already.
    long: HashMap<u64, Option<(Completion, bool)>>,
    last_serial: u64,
    /// Requests that were taken and not answered yet, and answers that wait for room.
    pub(super) asked: ByPeer,
    pub(super) answers: ByPeer,
    /// Messages for which there was no way at the moment.
    unsent: VecDeque<Unsent>,
    /// Calls of [`Endpoint::progress`].
    pub(super) turns: u32,
}

/// A message that is sent later.
#[derive(Debug)]
struct Unsent {
    to: u32,
    tag: u64,
    data: Option<u64>,
    buffers: Buffers,
    part: Part,
}

/// What part of an operation on memory an end of the inner end point is.
#[derive(Clone, Copy, Debug)]
pub(super) enum Part {
    /// The answer to this program's operation.
    Answer { peer: u32, context: usize, is_wanted: bool, what: What, len: usize, serial: Option<u64> },
    /// A message of this program's operation has left; if it is what a long write writes, of which.
    Out { serial: Option<u64> },
    /// A peer's request has been received.
    Request { peer: u32 },
    /// The bytes that a peer writes have arrived in a registration, or were thrown away because of an error.
    Arrival { to: Answered, region: Option<u32>, data: Option<u64>, len: usize, error: c_int },
    /// An answer has left, perhaps out of a registration.
    Departure { peer: u32, region: Option<u32> },
}

/// Whose request is answered: the inner number of the peer, and the peer's number of the operation.
#[derive(Clone, Copy, Debug)]
pub(super) struct Answered {
    pub(super) peer: u32,
    pub(super) id: u32,
}

/// An operation on a peer's memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RemoteRequest {
    pub(crate) to: PeerId,
    pub(crate) what: What,
    pub(crate) datatype: u8,
    pub(crate) op: u8,
    pub(crate) key: u64,
    pub(crate) address: u64,
    pub(crate) data: Option<u64>,
    pub(crate) context: usize,
    pub(crate) wants_completion: bool,
}

impl Endpoint {
    /// Begins an operation on a peer's memory: `bytes` are what is written, or the operands and what they are
    /// compared with; `into` is where the answer's bytes go. An error is a number of libfabric's, and then
    /// nothing was begun.
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
        let Some(to) = self.inner_number(request.to, shared) else { return Err(FI_EINVAL) };
        if self.remote.own.get(to) >= MOST_OUTSTANDING {
            // Perhaps some have ended.
            self.progress(shared);
            return Err(FI_EAGAIN);
        }
        self.wait_for_way(to, shared).map_err(number_of)?;
        let len = match request.what {
            What::Read => into.len(),
            What::Compare => bytes.len() / 2,
            _ => bytes.len(),
        };
        let is_long = request.what == What::Write && len > INLINE_MAX_BYTES;
        let RemoteRequest { datatype, op, key, address, data, context, wants_completion, .. } = *request;
        let what = if is_long { What::WriteLong } else { request.what };
        let serial = is_long.then(|| {
            self.remote.last_serial += 1;
            self.remote.long.insert(self.remote.last_serial, None);
            self.remote.last_serial
        });
        let part = Part::Answer { peer: to, context, is_wanted: wants_completion, what, len, serial };
        let id = self.ops.insert(Op::of_part(part));
        let head = Head { what, datatype, op, id, key, address, len: len as u64, data };
        // Before the request is sent: to an end point of its own it is answered at once.
        let receive = Receive { space: SPACE, want: Want::exactly(to, answer_tag(id)), user: u64::from(id) };
        self.remote.own.add(to);
        let posted = self.inside(shared, |inner, told| inner.receive(&receive, into, told)).flatten();
        let mut message = head.encode().to_vec();
        if !is_long {
            message.extend(bytes.to_vec());
        }
        let out = Part::Out { serial: None };
        let sent = self.send_part(to, REQUESTS, None, Buffers::Owned(message), (out, false), shared);
        if let Err(error) = sent {
            if let Some(serial) = serial {
                self.remote.long.remove(&serial);
            }
            // A peer may have answered what it was not asked.
            let is_open = matches!(self.ops.get(id), Some(Op { part: Some(Part::Answer { .. }), .. }));
            if !is_open {
                return Ok(());
            }
            self.ops.remove(id);
            self.remote.own.remove(to);
            if let Some(posted) = posted {
                self.inside(shared, |inner, told| inner.cancel(posted, told));
            }
            return Err(error);
        }
        if is_long {
            // Its answer comes behind it, or the peer has gone: the program keeps the bytes for as long.
            let _ = self.send_part(to, payload_tag(id), None, bytes, (Part::Out { serial }, true), shared);
        }
        Ok(())
    }

    /// Sends a message of an operation on memory. One that `waits` is sent later if there is no room or no
    /// way.
    pub(super) fn send_part(
        &mut self,
        to: u32,
        tag: u64,
        data: Option<u64>,
        mut buffers: Buffers,
        (part, waits): (Part, bool),
        shared: &mut Shared,
    ) -> Result<(), c_int> {
        let number = self.ops.insert(Op::of_part(part));
        let send = Send { to, space: SPACE, tag, data, user: u64::from(number), mode: Mode::Standard, waits };
        match self.inside(shared, |inner, told| inner.send_from(&send, &mut buffers, told)) {
            Some(Ok(Sent::Later)) => Ok(()),
            Some(Ok(Sent::Now(_))) => {
                self.ops.remove(number);
                self.has_left(part, true, shared);
                Ok(())
            }
            Some(Err(Error::NoWay { .. })) if waits => {
                self.ops.remove(number);
                self.remote.unsent.push_back(Unsent { to, tag, data, buffers, part });
                Ok(())
            }
            Some(Err(error)) => {
                self.ops.remove(number);
                self.has_left(part, false, shared);
                if matches!(error, Error::NotNow { .. }) {
                    count(Traced::Again);
                }
                Err(number_of(error))
            }
            None => Err(FI_EOPBADSTATE),
        }
    }

    /// Sends what there was no way for, in order.
    #[inline]
    pub(super) fn send_unsent(&mut self, shared: &mut Shared) {
        for _ in 0..self.remote.unsent.len() {
            let Some(Unsent { to, tag, data, buffers, part }) = self.remote.unsent.pop_front() else {
                return;
            };
            // Of a peer that has gone nothing waits.
            let _ = self.send_part(to, tag, data, buffers, (part, true), shared);
        }
    }

    /// What is never sent, as the end point goes: parts of operations.
    pub(super) fn never_sent(&mut self) -> impl Iterator<Item = Part> + use<> {
        std::mem::take(&mut self.remote.unsent).into_iter().map(|unsent| unsent.part)
    }

    /// A message of an operation on memory needs its bytes no more.
    fn has_left(&mut self, part: Part, is_good: bool, shared: &mut Shared) {
        match part {
            Part::Departure { peer, region } => self.answered(peer, region, is_good, shared),
            Part::Out { serial: Some(serial) } => {
                if let Some(Some((completion, is_wanted))) = self.remote.long.remove(&serial) {
                    self.tell_remote(completion, is_wanted, shared);
                }
            }
            _ => {}
        }
    }

    /// Does what follows the ends of parts.
    #[cold]
    pub(super) fn take_ended_parts(&mut self, shared: &mut Shared) {
        for (part, end) in std::mem::take(&mut self.ended_parts) {
            match part {
                Part::Answer { .. } => self.take_answer(part, &end, shared),
                Part::Out { .. } | Part::Departure { .. } => {
                    self.has_left(part, end.error.is_none(), shared);
                }
                Part::Request { peer } => {
                    self.remote.asked.remove(peer);
                    self.take_request(end, shared);
                }
                Part::Arrival { .. } => self.take_arrival(part, &end, shared),
            }
        }
    }

    fn take_answer(&mut self, part: Part, end: &End, shared: &mut Shared) {
        let Part::Answer { peer, context, is_wanted, what, len, serial } = part else { return };
        self.remote.own.remove(peer);
        let wanted_len = if what.gets_bytes() { len } else { 0 };
        let error = match end.ended {
            Ended::Receive(Some(envelope)) if end.error.is_none() => match envelope.data {
                Some(0) if envelope.len_bytes == wanted_len => 0,
                Some(error) => c_int::try_from(error).ok().filter(|error| *error > 0).unwrap_or(FI_EIO),
                None => FI_EIO,
            },
            _ => FI_EIO,
        };
        let direction = if what.gets_bytes() { FI_READ } else { FI_WRITE };
        let kind = if what.is_atomic() { FI_ATOMIC } else { FI_RMA };
        let mut completion = Completion::new(context, kind | direction);
        (completion.len, completion.error) = (len, error);
        // Until they have left, the bytes are not the program's again, whatever the peer says.
        if let Some(waiting) = serial.and_then(|serial| self.remote.long.get_mut(&serial)) {
            *waiting = Some((completion, is_wanted));
        } else {
            self.tell_remote(completion, is_wanted, shared);
        }
    }

    fn tell_remote(&mut self, completion: Completion, is_wanted: bool, shared: &mut Shared) {
        let is_read = completion.flags & FI_READ != 0;
        let counter = if is_read { self.read_counter } else { self.write_counter };
        self.inside(shared, |_, told| told.tell_remote(completion, counter, is_wanted));
    }
}
