//! Sending: through the ring if the message is short, else by an offer; to the end point itself without either.

use fabric_sys::constants::{FI_EAGAIN, FI_MSG, FI_SEND, FI_TAGGED};
use libc::c_int;

use super::{Arrived, EAGER_MAX_BYTES, Endpoint, SendDone, Sending};
use crate::abi::FI_EOPBADSTATE;
use crate::engine::buffers::Buffers;
use crate::engine::matching::Envelope;
use crate::engine::name::PeerId;
use crate::engine::peer::NotSent;
use crate::engine::state::Shared;
use crate::engine::wire::{HAS_DATA, HEAD_BYTES, Head, Kind, OFFER_BYTES, ONE_PIECE, TAGGED, TELL};
use crate::trace::{Op, count};
use shm::ring::record::INLINE_BYTES;

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

/// Flags of a send's completion.
pub(super) fn flags(is_tagged: bool) -> u64 {
    FI_SEND | if is_tagged { FI_TAGGED } else { FI_MSG }
}

impl Endpoint {
    /// Sends a message. An error is a number of libfabric's, and then nothing was sent.
    #[inline]
    pub(crate) fn send(
        &mut self,
        request: &SendRequest,
        buffers: Buffers,
        shared: &mut Shared,
    ) -> Result<(), c_int> {
        let (is_tagged, context) = (request.is_tagged, request.context);
        let done = SendDone { context, is_tagged, wants_completion: request.wants_completion };
        if request.to == self.id {
            return self.send_to_self(request, &buffers, done, shared);
        }
        if self.way_if_open(request.to).is_none() {
            self.wait_for_answer(request.to, shared);
        }
        let is_eager = buffers.len() <= EAGER_MAX_BYTES;
        let sent = if is_eager && !request.wants_delivery {
            self.send_eager(request, 0, &buffers, shared).inspect(|()| self.tell_sender(done, 0, shared))
        } else {
            let is_one_piece = buffers.is_one_piece();
            let (address, len) = (buffers.start() as u64, buffers.len() as u64);
            // An eager message is copied; an offered one is kept until the receiver has it.
            let (buffers, kept) = if is_eager { (Some(buffers), None) } else { (None, Some(buffers)) };
            let number = self.sends.insert(Sending { peer: request.to, buffers: kept, done });
            let sent = match buffers {
                Some(buffers) => self.send_eager(request, number, &buffers, shared),
                None => self.offer(request, number, (address, len, is_one_piece), shared),
            };
            if sent.is_err() {
                self.sends.remove(number);
            }
            sent
        };
        sent.map_err(|not_sent| match not_sent {
            NotSent::NotNow => {
                count(Op::Again);
                // A peer may have answered that was asked for a ring.
                self.arrivals(shared);
                FI_EAGAIN
            }
            NotSent::Lost(errno) => errno.raw_os_error(),
        })
    }

    #[inline]
    fn send_eager(
        &mut self,
        request: &SendRequest,
        number: u32,
        buffers: &Buffers,
        shared: &Shared,
    ) -> Result<(), NotSent> {
        let mut head = head(Kind::Eager, request, number);
        if request.wants_delivery {
            head.flags |= TELL;
        }
        let len = buffers.len();
        let (peer, meeting) = self.way(request.to, shared)?;
        if HEAD_BYTES + len <= INLINE_BYTES {
            // One line, with one store at the end.
            let mut record = [0; INLINE_BYTES];
            record[..HEAD_BYTES].copy_from_slice(&head.bytes());
            buffers.copy_to(&mut record[HEAD_BYTES..HEAD_BYTES + len]);
            peer.push(meeting, &record[..HEAD_BYTES + len])?;
        } else {
            peer.write(meeting, HEAD_BYTES + len, |claim| {
                let window = claim.window();
                // The room was reserved with this length.
                let _ = window.put(0, &head.bytes());
                buffers.put_into(0, len, &window, HEAD_BYTES);
            })?;
        }
        count(Op::Eager);
        Ok(())
    }

    fn offer(
        &mut self,
        request: &SendRequest,
        number: u32,
        (address, len, is_one_piece): (u64, u64, bool),
        shared: &Shared,
    ) -> Result<(), NotSent> {
        let mut head = head(Kind::Offer, request, number);
        if is_one_piece {
            head.flags |= ONE_PIECE;
        }
        let mut record = [0; OFFER_BYTES];
        record[..HEAD_BYTES].copy_from_slice(&head.bytes());
        record[HEAD_BYTES..HEAD_BYTES + 8].copy_from_slice(&len.to_ne_bytes());
        record[HEAD_BYTES + 8..].copy_from_slice(&address.to_ne_bytes());
        let (peer, meeting) = self.way(request.to, shared)?;
        peer.push(meeting, &record)?;
        count(Op::Offered);
        Ok(())
    }

    fn send_to_self(
        &mut self,
        request: &SendRequest,
        buffers: &Buffers,
        done: SendDone,
        shared: &mut Shared,
    ) -> Result<(), c_int> {
        if !self.is_enabled() {
            return Err(FI_EOPBADSTATE);
        }
        let envelope = Envelope { source: self.id, tag: request.tag, data: request.data, len: buffers.len() };
        let arrived = Arrived::Held(buffers.to_vec().into_boxed_slice());
        match self.take_receive(request.is_tagged, &envelope) {
            Some(receive) => self.settle(receive, envelope, arrived, shared),
            None => self.matchers[usize::from(request.is_tagged)].keep(envelope, arrived),
        }
        self.tell_sender(done, 0, shared);
        Ok(())
    }
}

fn head(kind: Kind, request: &SendRequest, number: u32) -> Head {
    let mut flags = if request.is_tagged { TAGGED } else { 0 };
    if request.data.is_some() {
        flags |= HAS_DATA;
    }
    Head { kind, flags, id: number, first: request.tag, second: request.data.unwrap_or(0) }
}
