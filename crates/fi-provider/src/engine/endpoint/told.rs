//! Ends of operations, on their way into the queues and counters.

use fabric_sys::constants::{FI_ECANCELED, FI_EIO, FI_ETRUNC, FI_MSG, FI_RECV, FI_SEND, FI_TAGGED};
use libc::c_int;
use message_queue::completion::{Completion as End, Ended, Sink};
use message_queue::{Buffers, Envelope, Error};

use super::{Bound, Op};
use crate::abi::{FI_MULTI_RECV, FI_REMOTE_CQ_DATA};
use crate::engine::completion::Completion;
use crate::engine::name::PeerId;
use crate::engine::slab::Slab;
use crate::engine::state::Shared;

fn kind(is_tagged: bool) -> u64 {
    if is_tagged { FI_TAGGED } else { FI_MSG }
}

/// Flags of a receive's completion.
pub(super) fn receive_flags(is_tagged: bool) -> u64 {
    FI_RECV | kind(is_tagged)
}

/// Who is told of ends.
pub(super) struct Told<'a> {
    pub(super) vector: Option<u32>,
    pub(super) send_queue: Option<Bound>,
    pub(super) receive_queue: Option<Bound>,
    pub(super) send_counter: Option<u32>,
    pub(super) receive_counter: Option<u32>,
    pub(super) ops: &'a mut Slab<Op>,
    pub(super) to_ours: &'a [PeerId],
    pub(super) deferred: &'a mut Vec<End>,
    pub(super) shared: &'a mut Shared,
}

impl Sink for Told<'_> {
    #[inline]
    fn ended(&mut self, end: End) {
        let is_unknown = match end.ended {
            Ended::Receive(Some(envelope)) => envelope.source as usize >= self.to_ours.len(),
            _ => false,
        };
        // None may be told before one that ended earlier.
        if is_unknown || !self.deferred.is_empty() {
            self.deferred.push(end);
        } else {
            self.tell(end);
        }
    }

    #[inline]
    fn received(&mut self, user: u64, envelope: &Envelope, buffers: Buffers) {
        let number = user as u32;
        let is_known = (envelope.source as usize) < self.to_ours.len() && self.deferred.is_empty();
        match self.ops.get(number) {
            Some(op) if is_known && !op.is_many => {
                let wants_completion = op.wants_completion;
                let mut completion = self.of_message(op.context, op.is_tagged, envelope);
                // What comes here has room.
                completion.buffer = buffers.address().0 as usize;
                self.ops.remove(number);
                self.tell_receiver(completion, wants_completion);
            }
            _ => {
                let ended = Ended::Receive(Some(*envelope));
                self.ended(End { user, ended, error: None, buffers, ends_many: false });
            }
        }
    }
}

impl Told<'_> {
    /// Tells of an end now.
    #[inline]
    pub(super) fn tell(&mut self, end: End) {
        let number = end.user as u32;
        let Some(op) = self.ops.get(number).copied() else { return };
        let is_last = !op.is_many || end.ends_many || matches!(end.ended, Ended::Receive(None));
        if is_last {
            self.ops.remove(number);
        }
        let error = match end.error {
            None => 0,
            Some(Error::Truncated { .. }) => FI_ETRUNC,
            Some(Error::Cancelled) => FI_ECANCELED,
            Some(_) => FI_EIO,
        };
        match end.ended {
            Ended::Send => self.tell_sender(op, error),
            Ended::Receive(None) => {
                let mut completion = Completion::new(op.context, receive_flags(op.is_tagged));
                (completion.tag, completion.error) = (op.tag, error);
                self.tell_receiver(completion, true);
            }
            Ended::Receive(Some(envelope)) => {
                let mut completion = self.of_message(op.context, op.is_tagged, &envelope);
                completion.len = envelope.len_bytes.min(end.buffers.len());
                completion.beyond = envelope.len_bytes - completion.len;
                completion.buffer = end.buffers.address().0 as usize;
                completion.error = error;
                if end.ends_many {
                    completion.flags |= FI_MULTI_RECV;
                }
                self.tell_receiver(completion, op.wants_completion);
            }
        }
    }

    /// The completion of a message that was received, or would be.
    #[inline]
    pub(super) fn of_message(&self, context: usize, is_tagged: bool, envelope: &Envelope) -> Completion {
        let mut completion = Completion::new(context, receive_flags(is_tagged));
        if let Some(data) = envelope.data {
            completion.flags |= FI_REMOTE_CQ_DATA;
            completion.data = data;
        }
        (completion.len, completion.tag) = (envelope.len_bytes, envelope.tag);
        let vector = self.vector.and_then(|number| self.shared.vectors.get(number));
        if let (Some(vector), Some(id)) = (vector, self.to_ours.get(envelope.source as usize)) {
            completion.source = vector.number(*id);
        }
        completion
    }

    #[inline]
    pub(super) fn tell_sender(&mut self, op: Op, error: c_int) {
        if let Some(counter) = self.send_counter.and_then(|number| self.shared.counters.get_mut(number)) {
            counter.count(error == 0);
        }
        if !op.wants_completion && error == 0 {
            return;
        }
        let mut completion = Completion::new(op.context, FI_SEND | kind(op.is_tagged));
        completion.error = error;
        if let Some(queue) = self.send_queue.and_then(|bound| self.shared.queues.get_mut(bound.queue)) {
            queue.push(completion);
        }
    }

    #[inline]
    pub(super) fn tell_receiver(&mut self, completion: Completion, wants_completion: bool) {
        let is_good = completion.error == 0;
        if let Some(counter) = self.receive_counter.and_then(|number| self.shared.counters.get_mut(number)) {
            counter.count(is_good);
        }
        if !wants_completion && is_good {
            return;
        }
        if let Some(queue) = self.receive_queue.and_then(|bound| self.shared.queues.get_mut(bound.queue)) {
            queue.push(completion);
        }
    }
}
