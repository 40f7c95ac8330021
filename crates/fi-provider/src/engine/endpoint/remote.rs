//! Operations on memory of another end point: those that this program begins, and those that its peers ask
//! for.
//!
//! Only the owner's own threads read and write its memory. So a registration can be closed at any time: what
//! is under way then is known here.

use fabric_sys::constants::{
    FI_ATOMIC, FI_EAGAIN, FI_EINVAL, FI_EIO, FI_READ, FI_REMOTE_READ, FI_REMOTE_WRITE, FI_RMA, FI_WRITE,
};
use libc::c_int;
use message_queue::buffers::Source as _;
use message_queue::completion::{Completion as End, Ended};
use message_queue::endpoint::{Mode, ReceiveRequest as Receive, SendRequest as Send, Sent};
use message_queue::{Buffers, Error, Space, Want};
use shm::lent::Piece;

use super::{Endpoint, Op, number_of};
use crate::abi::{FI_EOPBADSTATE, FI_REMOTE_CQ_DATA};
use crate::engine::arithmetic;
use crate::engine::completion::Completion;
use crate::engine::name::PeerId;
use crate::engine::request::{HEAD_BYTES, Head, INLINE_MAX_BYTES, REQUESTS, What, answer_tag, payload_tag};
use crate::engine::state::Shared;
use crate::trace::{Op as Traced, count};

/// No receive of a program looks here, whatever it ignores.
const SPACE: Space = Space::Group;
/// Most operations under way of one end point, and of one that asks: as many as `fi_getinfo` says.
pub(crate) const MOST_OUTSTANDING: usize = 4096;

/// How many operations have not ended.
#[derive(Debug, Default)]
pub(super) struct Outstanding {
    /// Of this program.
    own: usize,
    /// Answers that wait for room, by the inner number of the peer.
    answers: Vec<usize>,
}

/// What part of an operation on memory an end of the inner end point is.
#[derive(Clone, Copy, Debug)]
pub(super) enum Part {
    /// The answer to this program's operation.
    Answer { context: usize, is_wanted: bool, what: What, len: usize },
    /// A message of this program's operation has left.
    Out,
    /// A peer's request has been received.
    Request,
    /// The bytes that a peer writes have arrived in a registration, or were thrown away because of an error.
    Arrival { to: Answered, region: Option<u32>, data: Option<u64>, len: usize, error: c_int },
    /// An answer has left, perhaps out of a registration.
    Departure { peer: u32, region: Option<u32> },
}

/// Whose request is answered: the inner number of the peer, and the peer's number of the operation.
#[derive(Clone, Copy, Debug)]
pub(super) struct Answered {
    peer: u32,
    id: u32,
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
        if self.remote.own >= MOST_OUTSTANDING {
            // Perhaps some have ended.
            self.progress(shared);
            return Err(FI_EAGAIN);
        }
        let Some(to) = self.inner_number(request.to, shared) else { return Err(FI_EINVAL) };
        self.wait_for_way(to, shared).map_err(number_of)?;
        let len = match request.what {
            What::Read => into.len(),
            What::Compare => bytes.len() / 2,
            _ => bytes.len(),
        };
        let is_long = request.what == What::Write && len > INLINE_MAX_BYTES;
        let RemoteRequest { datatype, op, key, address, data, context, wants_completion, .. } = *request;
        let what = if is_long { What::WriteLong } else { request.what };
        let part = Part::Answer { context, is_wanted: wants_completion, what, len };
        let id = self.ops.insert(Op { part: Some(part), ..Op::of_message(0, false, false, 0) });
        let head = Head { what, datatype, op, id, key, address, len: len as u64, data };
        // Before the request is sent: to an end point of its own it is answered at once.
        let receive = Receive { space: SPACE, want: Want::exactly(to, answer_tag(id)), user: u64::from(id) };
        self.remote.own += 1;
        let posted = self.inside(shared, |inner, told| inner.receive(&receive, into, told)).flatten();
        let mut message = head.encode().to_vec();
        if !is_long {
            message.extend(bytes.to_vec());
        }
        let sent = self.send_part(to, REQUESTS, None, Buffers::Owned(message), (Part::Out, false), shared);
        if let Err(error) = sent {
            self.ops.remove(id);
            self.remote.own -= 1;
            if let Some(posted) = posted {
                self.inside(shared, |inner, told| inner.cancel(posted, told));
            }
            return Err(error);
        }
        if is_long {
            // Its answer comes behind it, or the peer has gone: the program keeps the bytes for as long.
            let _ = self.send_part(to, payload_tag(id), None, bytes, (Part::Out, true), shared);
        }
        Ok(())
    }

    /// Sends a message of an operation on memory; whether it waits for room is the second of the pair.
    fn send_part(
        &mut self,
        to: u32,
        tag: u64,
        data: Option<u64>,
        buffers: Buffers,
        (part, waits): (Part, bool),
        shared: &mut Shared,
    ) -> Result<(), c_int> {
        let number = self.ops.insert(Op { part: Some(part), ..Op::of_message(0, false, false, 0) });
        let send = Send { to, space: SPACE, tag, data, user: u64::from(number), mode: Mode::Standard, waits };
        match self.inside(shared, |inner, told| inner.send(&send, buffers, told)) {
            Some(Ok(Sent::Later)) => Ok(()),
            Some(Ok(Sent::Now(_))) => {
                if let Some(Op { part: Some(part), .. }) = self.ops.remove(number) {
                    self.has_left(part, shared);
                }
                Ok(())
            }
            Some(Err(error)) => {
                if let Some(Op { part: Some(part), .. }) = self.ops.remove(number) {
                    self.has_left(part, shared);
                }
                if matches!(error, Error::NotNow { .. }) {
                    count(Traced::Again);
                }
                Err(number_of(error))
            }
            None => Err(FI_EOPBADSTATE),
        }
    }

    /// A message of an operation on memory needs its bytes no more.
    fn has_left(&mut self, part: Part, shared: &mut Shared) {
        if let Part::Departure { peer, region } = part {
            if region.is_some() {
                self.counts(region, FI_REMOTE_READ, shared);
            }
            if let Some(region) = region {
                shared.memory.ends(region);
            }
            if let Some(waiting) = self.remote.answers.get_mut(peer as usize) {
                *waiting = waiting.saturating_sub(1);
            }
        }
    }

    /// Takes the requests that have arrived.
    #[inline]
    pub(super) fn take_requests(&mut self, shared: &mut Shared) {
        let requests = Want { source: None, tag: REQUESTS, ignore: 0 };
        while let Some(claimed) = self.inner.as_mut().and_then(|inner| inner.claim(SPACE, &requests)) {
            let len = claimed.envelope().len_bytes;
            if len > HEAD_BYTES + 2 * INLINE_MAX_BYTES {
                // No end point of this provider asks so.
                self.inside(shared, |inner, told| inner.throw_away(claimed, told));
                continue;
            }
            let op = Op { part: Some(Part::Request), ..Op::of_message(0, false, false, 0) };
            let user = u64::from(self.ops.insert(op));
            let buffers = Buffers::Owned(vec![0; len]);
            self.inside(shared, |inner, told| inner.receive_claimed(claimed, user, buffers, told));
        }
    }

    /// Does what follows the ends of parts.
    #[cold]
    pub(super) fn take_ended_parts(&mut self, shared: &mut Shared) {
        for (part, end) in std::mem::take(&mut self.ended_parts) {
            match part {
                Part::Answer { .. } => self.take_answer(part, &end, shared),
                Part::Out | Part::Departure { .. } => self.has_left(part, shared),
                Part::Request => self.take_request(end, shared),
                Part::Arrival { to, region, data, len, error } => {
                    if let Some(region) = region {
                        shared.memory.ends(region);
                    }
                    let is_whole = end.error.is_none()
                        && matches!(end.ended, Ended::Receive(Some(envelope)) if envelope.len_bytes == len);
                    let error = if error == 0 && !is_whole { FI_EIO } else { error };
                    if error == 0 {
                        self.counts(region, FI_REMOTE_WRITE, shared);
                        self.tell_written(to.peer, data, len, shared);
                    }
                    self.answer(to, error, Buffers::default(), None, shared);
                }
            }
        }
    }

    fn take_answer(&mut self, part: Part, end: &End, shared: &mut Shared) {
        let Part::Answer { context, is_wanted, what, len } = part else { return };
        self.remote.own = self.remote.own.saturating_sub(1);
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
        let counter = if what.gets_bytes() { self.read_counter } else { self.write_counter };
        self.inside(shared, |_, told| told.tell_remote(completion, counter, is_wanted));
    }

    fn take_request(&mut self, end: End, shared: &mut Shared) {
        let Ended::Receive(Some(envelope)) = end.ended else { return };
        let message = end.buffers.into_owned().unwrap_or_default();
        // What is no request has no number that could be answered.
        let Some((head, behind)) = Head::decode(&message) else { return };
        let to = Answered { peer: envelope.source, id: head.id };
        match head.what {
            What::WriteLong => self.expect_payload(to, &head, shared),
            What::Read => self.send_bytes(to, &head, shared),
            What::Write => {
                let written = found(shared, &head, FI_REMOTE_WRITE).and_then(|(region, piece)| {
                    if behind.len() != piece.len() {
                        return Err(FI_EINVAL);
                    }
                    piece.write(0, behind);
                    Ok(region)
                });
                if let Ok(region) = written {
                    self.counts(Some(region), FI_REMOTE_WRITE, shared);
                    self.tell_written(to.peer, head.data, behind.len(), shared);
                }
                self.answer(to, written.err().unwrap_or(0), Buffers::default(), None, shared);
            }
            What::Atomic | What::Fetch | What::Compare => {
                let (error, before) = match change(shared, &head, behind) {
                    Ok((region, before)) => {
                        let is_read = head.what.gets_bytes();
                        self.counts(
                            Some(region),
                            if is_read { FI_REMOTE_READ } else { FI_REMOTE_WRITE },
                            shared,
                        );
                        (0, if is_read { before } else { Vec::new() })
                    }
                    Err(error) => (error, Vec::new()),
                };
                self.answer(to, error, Buffers::Owned(before), None, shared);
            }
        }
    }

    /// Receives the bytes that a peer writes into the memory that it means, or throws them away.
    fn expect_payload(&mut self, to: Answered, head: &Head, shared: &mut Shared) {
        let len = usize::try_from(head.len).unwrap_or(usize::MAX);
        let (region, error, into) = match found(shared, head, FI_REMOTE_WRITE) {
            Ok((region, piece)) => (Some(region), 0, Buffers::Lent(piece)),
            Err(error) => (None, error, Buffers::default()),
        };
        if let Some(region) = region {
            shared.memory.begins(region);
        }
        let part = Part::Arrival { to, region, data: head.data, len, error };
        let user = self.ops.insert(Op { part: Some(part), ..Op::of_message(0, false, false, 0) });
        let want = Want::exactly(to.peer, payload_tag(to.id));
        let receive = Receive { space: SPACE, want, user: u64::from(user) };
        self.inside(shared, |inner, told| inner.receive(&receive, into, told));
    }

    /// Answers with the bytes that a peer reads.
    fn send_bytes(&mut self, to: Answered, head: &Head, shared: &mut Shared) {
        match found(shared, head, FI_REMOTE_READ) {
            Ok((region, piece)) => self.answer(to, 0, Buffers::Lent(piece), Some(region), shared),
            Err(error) => self.answer(to, error, Buffers::default(), None, shared),
        }
    }

    /// Answers a request. A peer that has more answers to come than it may have requests gets none.
    fn answer(
        &mut self,
        to: Answered,
        error: c_int,
        bytes: Buffers,
        region: Option<u32>,
        shared: &mut Shared,
    ) {
        let at = to.peer as usize;
        if self.remote.answers.len() <= at {
            self.remote.answers.resize(at + 1, 0);
        }
        if self.remote.answers[at] >= MOST_OUTSTANDING {
            return;
        }
        self.remote.answers[at] += 1;
        if let Some(region) = region {
            shared.memory.begins(region);
        }
        let part = Part::Departure { peer: to.peer, region };
        // A peer that has gone needs none.
        let _ = self.send_part(to.peer, answer_tag(to.id), Some(error as u64), bytes, (part, true), shared);
    }

    /// Counts what a peer has done in a registration.
    fn counts(&self, region: Option<u32>, access: u64, shared: &mut Shared) {
        let of_region = region.and_then(|region| shared.memory.counters(region).copied());
        for counters in [Some(self.counters), of_region].into_iter().flatten() {
            let number = if access == FI_REMOTE_READ { counters.reads } else { counters.writes };
            if let Some(counter) = number.and_then(|number| shared.counters.get_mut(number)) {
                counter.good += 1;
            }
        }
    }

    /// Tells this program of a peer's write that brought a word for it.
    fn tell_written(&mut self, peer: u32, data: Option<u64>, len: usize, shared: &mut Shared) {
        let Some(data) = data else { return };
        let mut completion = Completion::new(0, FI_RMA | FI_REMOTE_WRITE | FI_REMOTE_CQ_DATA);
        (completion.data, completion.len) = (data, len);
        let vector = self.vector.and_then(|number| shared.vectors.get(number));
        if let (Some(vector), Some(id)) = (vector, self.to_ours.get(peer as usize)) {
            completion.source = vector.number(*id);
        }
        self.inside(shared, |_, told| told.tell_receiver(completion, true));
    }

    /// The end point goes: its registrations are used by it no more.
    pub(super) fn leaves_memory(&mut self, shared: &mut Shared) {
        for (_, op) in self.ops.iter() {
            if let Some(
                Part::Arrival { region: Some(region), .. } | Part::Departure { region: Some(region), .. },
            ) = op.part
            {
                shared.memory.ends(region);
            }
        }
    }
}

/// The memory that a request means.
fn found(shared: &Shared, head: &Head, access: u64) -> Result<(u32, Piece), c_int> {
    let len = usize::try_from(head.len).map_err(|_| FI_EINVAL)?;
    shared.memory.find(head.key, head.address, len, access)
}

/// Does an atomic operation: in which registration, and what there was before.
fn change(shared: &Shared, head: &Head, behind: &[u8]) -> Result<(u32, Vec<u8>), c_int> {
    let form = match head.what {
        What::Compare => arithmetic::Form::Compare,
        What::Fetch => arithmetic::Form::Fetch,
        _ => arithmetic::Form::Plain,
    };
    let element = arithmetic::element_bytes(head.datatype.into(), head.op.into(), form).ok_or(FI_EINVAL)?;
    let access =
        if form == arithmetic::Form::Plain { FI_REMOTE_WRITE } else { FI_REMOTE_READ | FI_REMOTE_WRITE };
    let (region, piece) = found(shared, head, access)?;
    let wanted = if form == arithmetic::Form::Compare { 2 * piece.len() } else { piece.len() };
    if behind.len() != wanted || !piece.len().is_multiple_of(element) {
        return Err(FI_EINVAL);
    }
    let (operands, compares) = behind.split_at(piece.len());
    let before = arithmetic::apply(head.datatype, head.op, &piece, operands, compares);
    before.map(|before| (region, before)).ok_or(FI_EINVAL)
}
