//! Eager messages in several records: the receiver copies one part out of the ring while the sender writes
//! the next, so the two copies of a message overlap.
//!
//! All parts of a message lie in the ring one behind the other, with no other message between them; the
//! sender begins when there is room for all. The receive that a message goes to is found when its first part
//! arrives. Without one the message is kept as far as it has arrived, and a receive that is posted meanwhile
//! takes it over.

use shm::window::Window;

use super::arrive::{Nonsense, SHORT_RECORD, envelope};
use super::{Arrived, Body, Core, Parts, Receive, SendRequest};
use crate::buffers::Source;
use crate::completion::Sink;
use crate::error::Error;
use crate::lane::{LaneError, Outlet};
use crate::matching::{Envelope, PeerId};
use crate::peer::Peer;
use crate::wire::{HAS_MORE, Head, Kind, SHORT_TAG, TELL_MATCHED, TELL_TAKEN, WORD_BYTES};

/// Longest message that is sent so. A receiver that trusts a peer with more would give it memory for nothing.
pub(crate) const CUT_MAX_BYTES: usize = 1 << 16;

/// Where the bytes of a message that comes in parts go.
#[derive(Debug)]
pub(super) enum Target {
    /// Into the memory of a receive.
    Receive(Receive),
    /// No receive has taken it yet.
    Kept(Box<[u8]>),
    /// Nobody wants it.
    Thrown,
    /// No receive has taken it yet, and the rest will never come.
    Lost(Error),
}

impl Parts {
    /// Of a message that nobody was asked for.
    pub(super) fn new(target: Target, envelope: Envelope) -> Self {
        Self { target, envelope, send: None, at: 0, end: 0, asked_at: 0, asked_at_all: 0, offer: None }
    }

    /// Takes the next bytes, from `from` on in a record, which has them.
    #[inline]
    pub(super) fn fill(&mut self, record: &Window<'_>, from: usize, len: usize) {
        match &mut self.target {
            Target::Receive(receive) => receive.buffers.fill(self.at, record, from, len),
            Target::Kept(bytes) => {
                if let Some(bytes) = bytes.get_mut(self.at..self.at + len) {
                    let _ = record.get_from_ring(from, bytes);
                }
            }
            Target::Thrown | Target::Lost(_) => {}
        }
        self.at += len;
    }
}

impl<O: Outlet> Peer<O> {
    /// Sends a message that ends when it is in the ring: in one record, or in several.
    #[inline]
    pub(super) fn eager(
        &mut self,
        request: &SendRequest,
        message: &(impl Source + ?Sized),
    ) -> Result<(), LaneError> {
        let len = message.len_bytes();
        if len > self.cut_bytes && len <= CUT_MAX_BYTES {
            match self.room_for_parts(len) {
                Ok(()) => return self.parts(request, message, len),
                // A ring for one record of that length only.
                Err(LaneError::TooLong) => {}
                Err(error) => return Err(error),
            }
        }
        let fill = |record: &Window<'_>, at| message.put_into(0, len, record, at);
        let head = |flags, id| request.head(Kind::Eager, flags, id).word();
        match (u32::try_from(request.tag), request.data) {
            (Ok(tag), None) => self.record(&[head(SHORT_TAG, tag)], len, fill),
            (Ok(tag), Some(data)) => self.record(&[head(SHORT_TAG, tag), data], len, fill),
            (Err(_), None) => self.record(&[head(0, 0), request.tag], len, fill),
            (Err(_), Some(data)) => self.record(&[head(0, 0), request.tag, data], len, fill),
        }
    }

    fn parts(
        &mut self,
        request: &SendRequest,
        message: &(impl Source + ?Sized),
        len: usize,
    ) -> Result<(), LaneError> {
        let mut at = self.cut_bytes;
        let beginning = request.beginning(Kind::Eager, HAS_MORE, 0).with(len as u64);
        self.record(beginning.words(), at, |record, to| message.put_into(0, at, record, to))?;
        let more = Head { kind: Kind::More, flags: 0, id: 0 }.word();
        while at < len {
            let part = self.cut_bytes.min(len - at);
            let sent = self.record(&[more], part, |record, to| message.put_into(at, part, record, to));
            // There was room for all. A message that was begun cannot be taken back.
            sent.map_err(|_| LaneError::Broken("a ring that has lost its room"))?;
            at += part;
        }
        Ok(())
    }
}

impl<O: Outlet> Core<O> {
    /// The first part of a message has arrived.
    pub(super) fn take_first_part(
        &mut self,
        peer: PeerId,
        head: Head,
        record: &Window<'_>,
    ) -> Result<Option<()>, Nonsense> {
        let (space, mut envelope, at) = envelope(peer, head, record)?;
        let total = record.load_u64(at).map_err(|_| SHORT_RECORD)?;
        let from = at + WORD_BYTES;
        let first = record.len().checked_sub(from).ok_or(SHORT_RECORD)?;
        let is_open = self.peers.get(peer as usize).is_none_or(|peer| peer.arriving.is_some());
        let wants_word = head.has(TELL_TAKEN) || head.has(TELL_MATCHED);
        if is_open || wants_word || total <= first as u64 || total > CUT_MAX_BYTES as u64 {
            return Err(Nonsense("the beginning of an impossible message"));
        }
        let end = total as usize;
        envelope.len_bytes = end;
        let target = match self.take_receive(space, &envelope) {
            Some(receive) => Target::Receive(receive),
            None if self.has_room(peer, end) => Target::Kept(vec![0; end].into_boxed_slice()),
            None => return Ok(None),
        };
        let is_kept = matches!(target, Target::Kept(_));
        let mut parts = Parts { end, ..Parts::new(target, envelope) };
        parts.fill(record, from, first);
        let number = self.parts.push(parts);
        if let Some(peer) = self.peers.get_mut(peer as usize) {
            peer.arriving = Some(number);
        }
        if is_kept {
            self.counters.unexpected += 1;
            self.unexpected.add(peer, end);
            let body = Body::Arriving { parts: number, len: end };
            self.matcher(space).keep(envelope, Arrived { tell: None, body });
        }
        Ok(Some(()))
    }

    /// Another part of it has arrived.
    #[inline]
    pub(super) fn take_more(
        &mut self,
        id: PeerId,
        record: &Window<'_>,
        sink: &mut impl Sink,
    ) -> Result<(), Nonsense> {
        const UNKNOWN: Nonsense = Nonsense("more of a message that was not begun");
        let len = record.len().checked_sub(WORD_BYTES).ok_or(SHORT_RECORD)?;
        let Some(peer) = self.peers.get_mut(id as usize) else { return Err(UNKNOWN) };
        let number = peer.arriving.ok_or(UNKNOWN)?;
        let parts = self.parts.get_mut(number).ok_or(UNKNOWN)?;
        if len == 0 || len > parts.end - parts.at {
            return Err(Nonsense("more of a message than there is"));
        }
        parts.fill(record, WORD_BYTES, len);
        if parts.at < parts.end {
            return Ok(());
        }
        peer.arriving = None;
        if matches!(parts.target, Target::Kept(_)) {
            return Ok(());
        }
        if let Some(Parts { target: Target::Receive(receive), envelope, .. }) = self.parts.remove(number) {
            self.received(receive, envelope, None, sink);
        }
        Ok(())
    }

    /// A receive takes a message over that has arrived at least in part.
    pub(super) fn take_over(
        &mut self,
        mut receive: Receive,
        envelope: Envelope,
        number: u32,
        sink: &mut impl Sink,
    ) {
        let Some(parts) = self.parts.get_mut(number) else { return };
        let error = match &parts.target {
            Target::Lost(error) => Some(*error),
            Target::Kept(bytes) => {
                receive.buffers.fill_from(bytes.get(..parts.at).unwrap_or_default());
                if parts.at < parts.end {
                    parts.target = Target::Receive(receive);
                    return;
                }
                None
            }
            Target::Receive(_) | Target::Thrown => None,
        };
        self.parts.remove(number);
        self.received(receive, envelope, error, sink);
    }

    /// Nobody wants a message that has arrived at least in part.
    pub(super) fn throw_parts_away(&mut self, number: u32) {
        let Some(parts) = self.parts.get_mut(number) else { return };
        if parts.at < parts.end && !matches!(parts.target, Target::Lost(_)) {
            parts.target = Target::Thrown;
        } else {
            self.parts.remove(number);
        }
    }

    /// The rest of a peer's message will never come.
    pub(super) fn end_arriving(&mut self, id: PeerId, error: Error, sink: &mut impl Sink) {
        let arriving = self.peers.get_mut(id as usize).and_then(|peer| peer.arriving.take());
        let Some(number) = arriving else { return };
        match self.parts.get_mut(number).map(|parts| &mut parts.target) {
            Some(target @ Target::Kept(_)) => *target = Target::Lost(error),
            Some(_) => {
                if let Some(Parts { target: Target::Receive(receive), envelope, .. }) =
                    self.parts.remove(number)
                {
                    self.received(receive, envelope, Some(error), sink);
                }
            }
            None => {}
        }
    }
}
