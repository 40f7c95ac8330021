//! Operations on this program's memory that its peers ask for.

use fabric_sys::constants::{FI_EINVAL, FI_EIO, FI_REMOTE_READ, FI_REMOTE_WRITE, FI_RMA};
use libc::c_int;
use message_queue::buffers::Source as _;
use message_queue::completion::{Completion as End, Ended};
use message_queue::endpoint::ReceiveRequest as Receive;
use message_queue::{Buffers, Want};
use shm::lent::Piece;

use super::part::{Answered, Part, Unsent};
use super::{MOST_OUTSTANDING, MemoryLane, SPACE};
use crate::abi::FI_REMOTE_CQ_DATA;
use crate::engine::arithmetic;
use crate::engine::completion::Completion;
use crate::engine::request::{HEAD_BYTES, Head, INLINE_MAX_BYTES, REQUESTS, What, answer_tag, payload_tag};
use crate::engine::state::Shared;

/// Most bytes that are copied so that a registration can be closed although peers do not take what they read.
const COPIED_MAX_BYTES: usize = 64 << 20;

impl MemoryLane {
    /// Takes the requests that have arrived.
    pub(super) fn take_requests(&mut self, shared: &mut Shared) {
        let requests = Want { source: None, tag: REQUESTS, ignore: 0 };
        while let Some(claimed) = self.inner.claim(SPACE, &requests) {
            let (peer, len) = (claimed.envelope().source, claimed.envelope().len_bytes);
            let is_too_long = len > HEAD_BYTES + 2 * INLINE_MAX_BYTES;
            // No end point of this provider asks so, or so often.
            if is_too_long || claimed.is_offered() || self.asked.get(peer) >= MOST_OUTSTANDING {
                self.inside(shared, |inner, ends| inner.throw_away(claimed, ends));
                continue;
            }
            self.asked.add(peer);
            let user = u64::from(self.parts.insert(Part::Request { peer }));
            let buffers = Buffers::Owned(vec![0; len]);
            self.inside(shared, |inner, ends| inner.receive_claimed(claimed, user, buffers, ends));
        }
    }

    pub(super) fn take_request(&mut self, end: End, shared: &mut Shared) {
        let Ended::Receive(Some(envelope)) = end.ended else { return };
        let message = end.buffers.into_owned().unwrap_or_default();
        // Half a request of a peer that has gone is none.
        if end.error.is_some() || message.len() != envelope.len_bytes {
            return;
        }
        // What is no request has no number that could be answered.
        let Some((head, behind)) = Head::decode(&message) else { return };
        let to = Answered { peer: envelope.source, id: head.id };
        match head.what {
            What::WriteLong => self.expect_payload(to, &head, shared),
            What::Read => self.send_bytes(to, &head, shared),
            What::Write => {
                let written = self.found(shared, &head, FI_REMOTE_WRITE).and_then(|(region, piece)| {
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
                let (error, before) = match self.change(shared, &head, behind) {
                    Ok((region, before)) => {
                        let is_read = head.what.gets_bytes();
                        let access = if is_read { FI_REMOTE_READ } else { FI_REMOTE_WRITE };
                        self.counts(Some(region), access, shared);
                        if is_read && !arithmetic::is_read(head.op) {
                            self.counts_change(region, shared);
                        }
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
        let (region, error, into) = match self.found(shared, head, FI_REMOTE_WRITE) {
            Ok((region, piece)) => (Some(region), 0, Buffers::Lent(piece)),
            Err(error) => (None, error, Buffers::default()),
        };
        if let Some(region) = region {
            shared.memory.begins(region);
        }
        self.asked.add(to.peer);
        let part = Part::Arrival { to, region, data: head.data, len, error, posted: None };
        let number = self.parts.insert(part);
        let (want, user) = (Want::exactly(to.peer, payload_tag(to.id)), u64::from(number));
        self.inside(shared, |inner, ends| {
            let place = inner.receive(&Receive { space: SPACE, want, user }, into, ends);
            // Nothing else has got the number yet.
            if let Some(Part::Arrival { posted, .. }) = ends.parts.get_mut(number) {
                *posted = place;
            }
        });
    }

    pub(super) fn take_arrival(&mut self, part: Part, end: &End, shared: &mut Shared) {
        let Part::Arrival { to, region, data, len, error, .. } = part else { return };
        self.asked.remove(to.peer);
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

    /// A registration is to be closed: peers that have said that they write to it, and have not begun, are
    /// refused; and what peers read of it and have not taken is copied, within bounds.
    pub(crate) fn leaves_region(&mut self, closing: u32, shared: &mut Shared) {
        let waiting = self.parts.iter().filter_map(|(_, part)| match part {
            Part::Arrival { region, posted, .. } if *region == Some(closing) => *posted,
            _ => None,
        });
        for posted in waiting.collect::<Vec<_>>() {
            self.inside(shared, |inner, ends| inner.cancel(posted, ends));
        }
        let mut left = COPIED_MAX_BYTES;
        let Self { inner, parts, unsent, .. } = self;
        let mut wants = |part: &mut Part, len: usize| {
            let Part::Departure { region, .. } = part else { return false };
            if *region != Some(closing) || len > left {
                return false;
            }
            left -= len;
            *region = None;
            shared.memory.ends(closing);
            true
        };
        inner.copy_lent(|user, len| parts.get_mut(user as u32).is_some_and(|part| wants(part, len)));
        for Unsent { buffers, part, .. } in unsent {
            if wants(part, buffers.len()) {
                *buffers = Buffers::Owned(buffers.to_vec());
            }
        }
    }

    /// Answers with the bytes that a peer reads.
    fn send_bytes(&mut self, to: Answered, head: &Head, shared: &mut Shared) {
        match self.found(shared, head, FI_REMOTE_READ) {
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
        if self.answers.get(to.peer) >= MOST_OUTSTANDING {
            return;
        }
        self.answers.add(to.peer);
        if let Some(region) = region {
            shared.memory.begins(region);
        }
        let part = Part::Departure { peer: to.peer, is_read: region.is_some(), region };
        // A peer that has gone needs none.
        let _ = self.send_part(to.peer, answer_tag(to.id), Some(error as u64), bytes, (part, true), shared);
    }

    /// An answer needs its bytes no more; whether it has left.
    pub(super) fn answered(&mut self, part: Part, has_left: bool, shared: &mut Shared) {
        let Part::Departure { peer, is_read, region } = part else { return };
        if is_read && has_left {
            self.counts(region, FI_REMOTE_READ, shared);
        }
        if let Some(region) = region {
            shared.memory.ends(region);
        }
        self.answers.remove(peer);
    }

    /// Counts an atomic operation that also reads as one that has changed the registration (`fi_mr(3)`,
    /// `FI_REMOTE_WRITE` of `fi_mr_bind`); for the end point it is one that reads (`fi_cntr(3)`).
    fn counts_change(&self, region: u32, shared: &mut Shared) {
        let writes = shared.memory.counters(region).and_then(|counters| counters.writes);
        if let Some(counter) = writes.and_then(|number| shared.counters.get_mut(number)) {
            counter.count(true);
        }
    }

    /// Counts what a peer has done in a registration.
    fn counts(&self, region: Option<u32>, access: u64, shared: &mut Shared) {
        let of_region = region.and_then(|region| shared.memory.counters(region).copied());
        for counters in [Some(self.reports.counters), of_region].into_iter().flatten() {
            let number = if access == FI_REMOTE_READ { counters.reads } else { counters.writes };
            if let Some(counter) = number.and_then(|number| shared.counters.get_mut(number)) {
                counter.count(true);
            }
        }
    }

    /// Tells this program of a peer's write that brought a word for it.
    fn tell_written(&mut self, peer: u32, data: Option<u64>, len: usize, shared: &mut Shared) {
        let Some(data) = data else { return };
        let mut completion = Completion::new(0, FI_RMA | FI_REMOTE_WRITE | FI_REMOTE_CQ_DATA);
        (completion.data, completion.len) = (data, len);
        let id = self.domain_number(peer, shared);
        let vector = self.reports.vector.and_then(|number| shared.vectors.get(number));
        if let (Some(vector), Some(id)) = (vector, id) {
            completion.source = vector.number(id);
        }
        let queue = self.reports.receive_queue.and_then(|bound| shared.queues.get_mut(bound.queue));
        if let Some(queue) = queue {
            queue.push(completion);
        }
    }

    /// The end point goes: its registrations are used by it no more.
    pub(super) fn leaves_memory(&mut self, shared: &mut Shared) {
        let parts = self.parts.iter().map(|(_, part)| part);
        for part in parts.chain(self.unsent.iter().map(|unsent| &unsent.part)) {
            if let Some(region) = part.region() {
                shared.memory.ends(region);
            }
        }
        self.unsent.clear();
    }

    /// The memory that a request means.
    fn found(&self, shared: &Shared, head: &Head, access: u64) -> Result<(u32, Piece), c_int> {
        if !self.is_target {
            return Err(libc::EACCES);
        }
        let len = usize::try_from(head.len).map_err(|_| FI_EINVAL)?;
        shared.memory.find(head.key, head.address, len, access)
    }

    /// Does an atomic operation: in which registration, and what there was before.
    fn change(&self, shared: &Shared, head: &Head, behind: &[u8]) -> Result<(u32, Vec<u8>), c_int> {
        let form = match head.what {
            What::Compare => arithmetic::Form::Compare,
            What::Fetch => arithmetic::Form::Fetch,
            _ => arithmetic::Form::Plain,
        };
        let element =
            arithmetic::element_bytes(head.datatype.into(), head.op.into(), form).ok_or(FI_EINVAL)?;
        let access = match form {
            arithmetic::Form::Plain => FI_REMOTE_WRITE,
            _ if arithmetic::is_read(head.op) => FI_REMOTE_READ,
            _ => FI_REMOTE_READ | FI_REMOTE_WRITE,
        };
        let (region, piece) = self.found(shared, head, access)?;
        let wanted = if form == arithmetic::Form::Compare { 2 * piece.len() } else { piece.len() };
        if behind.len() != wanted || !piece.len().is_multiple_of(element) {
            return Err(FI_EINVAL);
        }
        let (operands, compares) = behind.split_at(piece.len());
        let before = arithmetic::apply(head.datatype, head.op, &piece, operands, compares);
        before.map(|before| (region, before)).ok_or(FI_EINVAL)
    }
}
