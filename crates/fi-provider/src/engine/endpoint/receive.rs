//! Receiving: a receive meets a message, and gets its bytes.

use fabric_sys::constants::{FI_EIO, FI_ETRUNC, FI_MSG, FI_RECV, FI_TAGGED};

use super::{Arrived, Endpoint, Incoming, Many, Offer, Posted, Receive};
use crate::abi::{FI_ENOMSG, FI_MULTI_RECV, FI_REMOTE_CQ_DATA};
use crate::engine::buffers::Buffers;
use crate::engine::completion::Completion;
use crate::engine::matching::{Envelope, Want};
use crate::engine::pull::{NotPulled, pull};
use crate::engine::state::Shared;
use crate::engine::wire::{Head, Kind};
use crate::trace::{Op, count};

/// A receive as a program asks for it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReceiveRequest {
    pub(crate) is_tagged: bool,
    pub(crate) want: Want,
    pub(crate) context: usize,
    pub(crate) wants_completion: bool,
}

/// Flags of a receive's completion.
pub(super) fn flags(is_tagged: bool) -> u64 {
    FI_RECV | if is_tagged { FI_TAGGED } else { FI_MSG }
}

impl Endpoint {
    /// Receives one message, now or later.
    pub(crate) fn receive(&mut self, request: &ReceiveRequest, buffers: Buffers, shared: &mut Shared) {
        let ReceiveRequest { is_tagged, want, context, wants_completion } = *request;
        let receive = Receive { buffers, context, wants_completion, is_tagged, part_of: None };
        let matcher = &mut self.matchers[usize::from(is_tagged)];
        match matcher.take_message(&want) {
            Some((envelope, arrived)) => self.settle(receive, envelope, arrived, shared),
            None => matcher.post(want, Posted::One(receive)),
        }
    }

    /// Receives messages into a buffer, one behind the other, until it is used up.
    pub(crate) fn receive_many(&mut self, request: &ReceiveRequest, buffers: Buffers, shared: &mut Shared) {
        let ReceiveRequest { is_tagged, want, context, wants_completion } = *request;
        let (start, len) = (buffers.start(), buffers.len());
        let number = self.many.insert(Many {
            start,
            len,
            used: 0,
            context,
            wants_completion,
            is_tagged,
            open: 0,
            is_used_up: false,
        });
        loop {
            let Some((envelope, arrived)) = self.matchers[usize::from(is_tagged)].take_message(&want) else {
                self.matchers[usize::from(is_tagged)].post(want, Posted::Many(number));
                return;
            };
            let Some((receive, is_used_up)) = self.part(number, envelope.len) else { return };
            self.settle(receive, envelope, arrived, shared);
            if is_used_up {
                return;
            }
        }
    }

    /// Takes the place of a message in a buffer for many, and says whether that was the last.
    fn part(&mut self, number: u32, len: usize) -> Option<(Receive, bool)> {
        let least = self.least_for_many.max(1);
        let many = self.many.get_mut(number)?;
        let (start, room) = (many.start.wrapping_add(many.used), many.len - many.used);
        many.used += len.min(room);
        many.open += 1;
        many.is_used_up = many.len - many.used < least;
        // SAFETY: a part of the memory that the program lent for messages, of which each byte is given out once.
        let buffers = unsafe { Buffers::one(start, room) };
        let Many { context, wants_completion, is_tagged, is_used_up, .. } = *many;
        Some((Receive { buffers, context, wants_completion, is_tagged, part_of: Some(number) }, is_used_up))
    }

    /// The receive that a message goes to, if one waits.
    #[inline]
    pub(super) fn take_receive(&mut self, is_tagged: bool, envelope: &Envelope) -> Option<Receive> {
        let matcher = &mut self.matchers[usize::from(is_tagged)];
        let at = matcher.find_receive(envelope)?;
        if let Some(Posted::Many(number)) = matcher.receive(at) {
            let number = *number;
            let (receive, is_used_up) = self.part(number, envelope.len)?;
            if is_used_up {
                self.matchers[usize::from(is_tagged)].remove_receive(at);
            }
            return Some(receive);
        }
        match matcher.remove_receive(at) {
            Some(Posted::One(receive)) => Some(receive),
            _ => None,
        }
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
        let ReceiveRequest { is_tagged, want, context, wants_completion } = *request;
        let matcher = &mut self.matchers[usize::from(is_tagged)];
        let Some(envelope) = matcher.peek(&want).copied() else {
            let mut completion = Completion::new(context, flags(is_tagged));
            (completion.tag, completion.error) = (want.tag, FI_ENOMSG);
            return self.tell_receiver(completion, true, shared);
        };
        if (is_claim || is_discard)
            && let Some((envelope, arrived)) = matcher.take_message(&want)
        {
            if is_discard {
                self.throw_away(envelope, &arrived, shared);
            } else {
                self.claimed.insert(context, (envelope, arrived));
            }
        }
        let completion = self.completion(context, is_tagged, &envelope, shared);
        self.tell_receiver(completion, wants_completion, shared);
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
        let Some((envelope, arrived)) = self.claimed.remove(&context) else { return false };
        if is_discard {
            self.throw_away(envelope, &arrived, shared);
            let completion = self.completion(context, is_tagged, &envelope, shared);
            self.tell_receiver(completion, wants_completion, shared);
        } else {
            let receive = Receive { buffers, context, wants_completion, is_tagged, part_of: None };
            self.settle(receive, envelope, arrived, shared);
        }
        true
    }

    fn throw_away(&mut self, envelope: Envelope, arrived: &Arrived, shared: &mut Shared) {
        if let Arrived::Offered(offer) = arrived {
            self.tell_done(envelope.source, offer.send, shared);
        }
    }

    /// A receive and a message have met.
    pub(super) fn settle(
        &mut self,
        receive: Receive,
        envelope: Envelope,
        arrived: Arrived,
        shared: &mut Shared,
    ) {
        match arrived {
            Arrived::Held(bytes) => {
                receive.buffers.fill_from(&bytes[..bytes.len().min(receive.buffers.len())]);
                self.received(receive, &envelope, 0, shared);
            }
            Arrived::Offered(offer) => self.fetch(receive, envelope, offer, shared),
        }
    }

    /// Gets the bytes of an offered message: out of the sender's memory, or else the sender is asked for them.
    pub(super) fn fetch(&mut self, receive: Receive, envelope: Envelope, offer: Offer, shared: &mut Shared) {
        let len = envelope.len.min(receive.buffers.len());
        let peer = self.peer(envelope.source, shared);
        let pid = peer.filter(|peer| peer.can_pull).and_then(|peer| peer.pid);
        let pulled = match pid {
            _ if len == 0 => Ok(()),
            Some(pid) if offer.is_one_piece => pull(pid, offer.address, &receive.buffers, len),
            _ => Err(NotPulled::Forbidden),
        };
        match pulled {
            Ok(()) => {
                count(Op::Pulled);
                self.tell_done(envelope.source, offer.send, shared);
                self.received(receive, &envelope, 0, shared);
            }
            Err(NotPulled::Failed) => {
                self.tell_done(envelope.source, offer.send, shared);
                self.received(receive, &envelope, FI_EIO, shared);
            }
            Err(NotPulled::Forbidden) => {
                if offer.is_one_piece
                    && let Some(peer) = self.peer(envelope.source, shared)
                {
                    peer.can_pull = false;
                }
                let (peer, send) = (envelope.source, offer.send);
                let incoming = Incoming { peer, receive, envelope, send, at: 0, end: len };
                let number = self.incoming.insert(incoming);
                let (first, second) = (u64::from(number), len as u64);
                self.tell(peer, Head { kind: Kind::Ask, flags: 0, id: send, first, second }, shared);
            }
        }
    }

    /// A receive has ended.
    pub(super) fn received(
        &mut self,
        receive: Receive,
        envelope: &Envelope,
        error: i32,
        shared: &mut Shared,
    ) {
        let mut completion = self.completion(receive.context, receive.is_tagged, envelope, shared);
        let room = receive.buffers.len();
        completion.len = envelope.len.min(room);
        completion.beyond = envelope.len - completion.len;
        completion.buffer = receive.buffers.start().addr();
        completion.error = if error == 0 && completion.beyond > 0 { FI_ETRUNC } else { error };
        if let Some(number) = receive.part_of
            && let Some(many) = self.many.get_mut(number)
        {
            many.open -= 1;
            if many.is_used_up && many.open == 0 {
                completion.flags |= FI_MULTI_RECV;
                self.many.remove(number);
            }
        }
        self.tell_receiver(completion, receive.wants_completion, shared);
    }

    fn completion(
        &self,
        context: usize,
        is_tagged: bool,
        envelope: &Envelope,
        shared: &Shared,
    ) -> Completion {
        let mut completion = Completion::new(context, flags(is_tagged));
        if let Some(data) = envelope.data {
            completion.flags |= FI_REMOTE_CQ_DATA;
            completion.data = data;
        }
        (completion.len, completion.tag) = (envelope.len, envelope.tag);
        if let Some(vector) = self.vector.and_then(|number| shared.vectors.get(number)) {
            completion.source = vector.number(envelope.source);
        }
        completion
    }
}
