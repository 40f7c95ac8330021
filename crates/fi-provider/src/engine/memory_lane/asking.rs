//! Operations on memory of another end point, as the program begins them.

use fabric_sys::constants::{FI_ATOMIC, FI_EAGAIN, FI_EINVAL, FI_EIO, FI_READ, FI_RMA, FI_WRITE};
use libc::c_int;
use message_queue::buffers::Source as _;
use message_queue::completion::{Completion as End, Ended};
use message_queue::endpoint::ReceiveRequest as Receive;
use message_queue::{Buffers, Error, Want};

use super::part::Part;
use super::{MOST_OUTSTANDING, MemoryLane, SPACE};
use crate::engine::completion::Completion;
use crate::engine::inner::number_of;
use crate::engine::name::PeerId;
use crate::engine::request::{Head, INLINE_MAX_BYTES, REQUESTS, What, answer_tag, payload_tag};
use crate::engine::state::Shared;

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

/// The completion of an operation, which may still fail.
fn completion(what: What, context: usize, len: usize) -> Completion {
    let direction = if what.gets_bytes() { FI_READ } else { FI_WRITE };
    let kind = if what.is_atomic() { FI_ATOMIC } else { FI_RMA };
    let mut completion = Completion::new(context, kind | direction);
    completion.len = len;
    completion
}

impl MemoryLane {
    /// Begins an operation on a peer's memory: `bytes` are what is written, or the operands and what they are
    /// compared with; `into` is where the answer's bytes go. An error is a number of libfabric's, and then
    /// nothing was begun.
    pub(crate) fn begin(
        &mut self,
        request: &RemoteRequest,
        bytes: Buffers,
        into: Buffers,
        shared: &mut Shared,
    ) -> Result<(), c_int> {
        let RemoteRequest { what, context, wants_completion, .. } = *request;
        let Some(to) = self.inner_number(request.to, shared) else { return Err(FI_EINVAL) };
        if self.own.get(to) >= MOST_OUTSTANDING {
            return Err(FI_EAGAIN);
        }
        let len = match what {
            What::Read => into.len(),
            What::Compare => bytes.len() / 2,
            _ => bytes.len(),
        };
        match self.wait_for_way(to, shared) {
            Ok(()) => {}
            // It lets nobody access memory, or not any more.
            Err(Error::PeerGone { .. }) => {
                let error = libc::ECONNREFUSED;
                self.tell(Completion { error, ..completion(what, context, len) }, wants_completion, shared);
                return Ok(());
            }
            Err(error) => return Err(number_of(error)),
        }
        let is_long = what == What::Write && len > INLINE_MAX_BYTES;
        let what = if is_long { What::WriteLong } else { what };
        let serial = is_long.then(|| {
            self.last_serial += 1;
            self.long.insert(self.last_serial, None);
            self.last_serial
        });
        let part = Part::Answer { peer: to, context, is_wanted: wants_completion, what, len, serial };
        let id = self.parts.insert(part);
        // Before the request is sent: to an end point of its own it is answered at once.
        let receive = Receive { space: SPACE, want: Want::exactly(to, answer_tag(id)), user: u64::from(id) };
        self.own.add(to);
        let posted = self.inside(shared, |inner, ends| inner.receive(&receive, into, ends));
        let RemoteRequest { datatype, op, key, address, data, .. } = *request;
        let head = Head { what, datatype, op, id, key, address, len: len as u64, data };
        let mut message = head.encode().to_vec();
        if !is_long {
            message.extend(bytes.to_vec());
        }
        let out = Part::Out { serial: None };
        let sent = self.send_part(to, REQUESTS, None, Buffers::Owned(message), (out, false), shared);
        if let Err(error) = sent {
            if let Some(serial) = serial {
                self.long.remove(&serial);
            }
            // A peer may have answered what it was not asked.
            if !matches!(self.parts.get(id), Some(Part::Answer { .. })) {
                return Ok(());
            }
            self.parts.remove(id);
            self.own.remove(to);
            if let Some(posted) = posted {
                self.inside(shared, |inner, ends| inner.cancel(posted, ends));
            }
            return Err(error);
        }
        if is_long {
            // Its answer comes behind it, or the peer has gone: the program keeps the bytes for as long.
            let _ = self.send_part(to, payload_tag(id), None, bytes, (Part::Out { serial }, true), shared);
        }
        Ok(())
    }

    pub(super) fn take_answer(&mut self, part: Part, end: &End, shared: &mut Shared) {
        let Part::Answer { peer, context, is_wanted, what, len, serial } = part else { return };
        self.own.remove(peer);
        let wanted_len = if what.gets_bytes() { len } else { 0 };
        let error = match end.ended {
            Ended::Receive(Some(envelope)) if end.error.is_none() => match envelope.data {
                Some(0) if envelope.len_bytes == wanted_len => 0,
                Some(error) => c_int::try_from(error).ok().filter(|error| *error > 0).unwrap_or(FI_EIO),
                None => FI_EIO,
            },
            _ => FI_EIO,
        };
        let completion = Completion { error, ..completion(what, context, len) };
        // Until they have left, the bytes are not the program's again, whatever the peer says.
        if let Some(waiting) = serial.and_then(|serial| self.long.get_mut(&serial)) {
            *waiting = Some((completion, is_wanted));
        } else {
            self.tell(completion, is_wanted, shared);
        }
    }

    /// An operation has ended: its completion, and the counter of its kind.
    pub(super) fn tell(&mut self, completion: Completion, is_wanted: bool, shared: &mut Shared) {
        let (is_good, is_read) = (completion.error == 0, completion.flags & FI_READ != 0);
        let counter = if is_read { self.reports.read_counter } else { self.reports.write_counter };
        if let Some(counter) = counter.and_then(|number| shared.counters.get_mut(number)) {
            counter.count(is_good);
        }
        if !is_wanted && is_good {
            return;
        }
        let queue = self.reports.send_queue.and_then(|bound| shared.queues.get_mut(bound.queue));
        if let Some(queue) = queue {
            queue.push(completion);
        }
    }
}
