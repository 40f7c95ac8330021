//! What to do with a record that a peer has sent.

use shm::clock::now_ticks;
use shm::window::Window;

use super::{Arrived, Body, Core, Offer, Parts, Receive, SendState, Space, Target};
use crate::completion::Sink;
use crate::error::Error;
use crate::lane::Outlet;
use crate::matching::{Envelope, PeerId};
use crate::peer::Stream;
use crate::wire::{
    HAS_DATA, HAS_MORE, Head, Kind, ONE_PIECE, SHORT_TAG, Simple, TELL_MATCHED, TELL_TAKEN, WORD_BYTES,
};

/// Longest message that is kept without memory of its own.
const SHORT_BYTES: usize = 40;

/// The bytes of a message without a receive.
#[derive(Debug)]
pub(super) enum Held {
    Short { len: u8, bytes: [u8; SHORT_BYTES] },
    Long(Box<[u8]>),
}

impl Held {
    pub(super) fn of(bytes: Vec<u8>) -> Self {
        Self::Long(bytes.into_boxed_slice())
    }

    /// `len` bytes of a record, which has them.
    #[inline]
    fn of_record(record: &Window<'_>, at: usize, len: usize) -> Self {
        if len <= SHORT_BYTES {
            let mut bytes = [0; SHORT_BYTES];
            let _ = record.get_from_ring(at, &mut bytes[..len]);
            Self::Short { len: len as u8, bytes }
        } else {
            let mut bytes = vec![0; len].into_boxed_slice();
            let _ = record.get_from_ring(at, &mut bytes);
            Self::Long(bytes)
        }
    }

    #[inline]
    pub(super) fn bytes(&self) -> &[u8] {
        match self {
            Self::Short { len, bytes } => bytes.get(..usize::from(*len)).unwrap_or_default(),
            Self::Long(bytes) => bytes,
        }
    }
}

/// A record that no end point writes: what is wrong with it.
pub(super) struct Nonsense(pub(super) &'static str);

pub(super) const SHORT_RECORD: Nonsense = Nonsense("a record that is too short");

impl<O: Outlet> Core<O> {
    /// Takes one record; `None` if it is to stay where it is, because there is no room for its message.
    #[inline]
    pub(super) fn take(&mut self, peer: PeerId, record: &Window<'_>, sink: &mut impl Sink) -> Option<()> {
        if self.take_simple(peer, record, sink) {
            return Some(());
        }
        self.take_any(peer, record, sink)
    }

    /// Takes the record if it is what comes most often: a whole message whose sender needs no answer, for a
    /// receive that names source and tag and has room for it. Whether it was.
    #[inline]
    fn take_simple(&mut self, peer: PeerId, record: &Window<'_>, sink: &mut impl Sink) -> bool {
        let Some(Simple { flags, tag, data, at }) = Head::of_simple(record) else { return false };
        let Some(len_bytes) = record.len().checked_sub(at) else { return false };
        let space = Space::of(flags);
        let matcher = &mut self.matchers[space.index()];
        let Some(found) = matcher.find_exact(peer, tag) else { return false };
        let (user, buffers) = match matcher.found_exact(found) {
            Some(Receive { buffers, user, many: None }) if buffers.len() >= len_bytes => {
                buffers.fill_front(record, at, len_bytes);
                (*user, std::mem::take(buffers))
            }
            _ => return false,
        };
        matcher.vacate_exact(found);
        sink.received(user, &Envelope { source: peer, tag, data, len_bytes }, buffers);
        true
    }

    #[inline(never)]
    fn take_any(&mut self, peer: PeerId, record: &Window<'_>, sink: &mut impl Sink) -> Option<()> {
        let taken = match Head::read(record) {
            Some(head) if head.kind == Kind::Eager => self.take_eager(peer, head, record, sink),
            Some(head) => self.take_other(peer, head, record, sink),
            None => Err(Nonsense("a record of no known kind")),
        };
        match taken {
            Ok(taken) => taken,
            Err(Nonsense(what)) => {
                self.wrong(peer, what, sink);
                Some(())
            }
        }
    }

    #[cold]
    fn take_other(
        &mut self,
        peer: PeerId,
        head: Head,
        record: &Window<'_>,
        sink: &mut impl Sink,
    ) -> Result<Option<()>, Nonsense> {
        match head.kind {
            Kind::Eager => return self.take_eager(peer, head, record, sink),
            Kind::Offer => return self.take_offer(peer, head, record, sink),
            Kind::Done => self.take_done(peer, head, sink)?,
            Kind::Ask => self.take_ask(peer, head, record)?,
            Kind::Part => self.take_part(peer, head, record, sink)?,
            Kind::Stopped => self.take_stopped(peer, head)?,
            Kind::More => self.take_more(peer, record, sink)?,
            Kind::Bye => self.lose(peer, Error::PeerGone { peer }, sink),
        }
        Ok(Some(()))
    }

    #[inline]
    fn take_eager(
        &mut self,
        peer: PeerId,
        head: Head,
        record: &Window<'_>,
        sink: &mut impl Sink,
    ) -> Result<Option<()>, Nonsense> {
        if head.has(HAS_MORE) {
            return self.take_first_part(peer, head, record);
        }
        let (space, mut envelope, at) = envelope(peer, head, record)?;
        let len = record.len().checked_sub(at).ok_or(SHORT_RECORD)?;
        envelope.len_bytes = len;
        if let Some(mut receive) = self.take_receive(space, &envelope) {
            receive.buffers.fill(0, record, at, len);
            self.received(receive, envelope, None, sink);
            if head.has(TELL_TAKEN) || head.has(TELL_MATCHED) {
                self.tell_done(peer, head.id);
            }
            return Ok(Some(()));
        }
        Ok(self.keep_eager(peer, head, (space, envelope), (record, at)))
    }

    /// A message has come before its receive: it is kept, if there is room.
    #[inline(never)]
    fn keep_eager(
        &mut self,
        peer: PeerId,
        head: Head,
        (space, envelope): (Space, Envelope),
        (record, at): (&Window<'_>, usize),
    ) -> Option<()> {
        let len = envelope.len_bytes;
        if !self.has_room(peer, len) {
            return None;
        }
        self.counters.unexpected += 1;
        self.unexpected.add(peer, len);
        let body = Body::Held(Held::of_record(record, at, len));
        let tell = head.has(TELL_MATCHED).then_some(head.id);
        self.matcher(space).keep(envelope, Arrived { tell, body });
        if head.has(TELL_TAKEN) {
            self.tell_done(peer, head.id);
        }
        Some(())
    }

    fn take_offer(
        &mut self,
        peer: PeerId,
        head: Head,
        record: &Window<'_>,
        sink: &mut impl Sink,
    ) -> Result<Option<()>, Nonsense> {
        let (space, mut envelope, at) = envelope(peer, head, record)?;
        let word = |offset| record.load_u64(offset).map_err(|_| SHORT_RECORD);
        envelope.len_bytes = usize::try_from(word(at)?).map_err(|_| Nonsense("an impossible length"))?;
        let offer =
            Offer { send: head.id, address: word(at + WORD_BYTES)?, is_one_piece: head.has(ONE_PIECE) };
        if let Some(receive) = self.take_receive(space, &envelope) {
            self.fetch(receive, envelope, offer, sink);
            return Ok(Some(()));
        }
        if !self.has_room(peer, 0) {
            return Ok(None);
        }
        self.counters.unexpected += 1;
        self.unexpected.add(peer, 0);
        self.matcher(space).keep(envelope, Arrived { tell: None, body: Body::Offered(offer) });
        Ok(Some(()))
    }

    /// Whether one more message without a receive may be kept.
    pub(super) fn has_room(&self, peer: PeerId, len: usize) -> bool {
        // A receive of any space may be what goes on, behind messages of another one.
        let could_take = || self.matchers.iter().any(|matcher| matcher.could_take_from(peer));
        self.unexpected.has_room(peer, len, || could_take() || self.waits_for(peer))
    }

    /// Whether an operation is under way that only a later record of the peer can end.
    fn waits_for(&self, peer: PeerId) -> bool {
        let is_out = |state| state == SendState::Out || state == SendState::InParts;
        self.sends.iter().any(|(_, sending)| sending.request.to == peer && is_out(sending.state))
            || self.parts.iter().any(|(_, parts)| {
                parts.envelope.source == peer
                    && parts.at < parts.end
                    && !matches!(parts.target, Target::Thrown)
            })
    }

    /// The receive that a message goes to, if one waits.
    pub(super) fn take_receive(&mut self, space: Space, envelope: &Envelope) -> Option<Receive> {
        let found = self.matchers[space.index()].find_receive(envelope)?;
        self.take_found(space, found, envelope.len_bytes)
    }

    fn take_done(&mut self, peer: PeerId, head: Head, sink: &mut impl Sink) -> Result<(), Nonsense> {
        let is_out = |state| state == SendState::Out || state == SendState::InParts;
        let sending = self.sends.get(head.id);
        sending
            .filter(|sending| sending.request.to == peer && is_out(sending.state))
            .ok_or(Nonsense("an end of a send that is not under way"))?;
        // Whatever the peer has asked for, nothing more of it goes out.
        let of = self.peers.get_mut(peer as usize);
        let stopped = of.and_then(|of| {
            let at = of.streams.iter().position(|stream| stream.send == head.id)?;
            of.streams.remove(at)
        });
        if let Some(stream) = stopped {
            return self.stop(peer, head.id, stream.receive, sink);
        }
        if let Some(sending) = self.sends.remove(head.id) {
            if let (Some(trial), Some(of)) = (&sending.trial, self.peers.get_mut(peer as usize)) {
                of.note_trial(trial, sending.buffers.len(), now_ticks());
            }
            self.sent(sending, None, sink);
        }
        Ok(())
    }

    fn take_ask(&mut self, peer: PeerId, head: Head, record: &Window<'_>) -> Result<(), Nonsense> {
        let word = |offset| record.load_u64(offset).map_err(|_| SHORT_RECORD);
        let (receive, end) = (word(WORD_BYTES)?, word(2 * WORD_BYTES)?);
        let receive = u32::try_from(receive).map_err(|_| Nonsense("an impossible operation"))?;
        let sending = self.sends.get_mut(head.id);
        let sending = sending
            .filter(|sending| sending.request.to == peer && sending.state == SendState::Out)
            .ok_or(Nonsense("a question for a message that was not offered"))?;
        let end = usize::try_from(end)
            .ok()
            .filter(|end| *end > 0 && *end <= sending.buffers.len())
            .ok_or(Nonsense("a question for more than was offered"))?;
        sending.state = SendState::InParts;
        if let Some(of) = self.peers.get_mut(peer as usize) {
            of.streams.push_back(Stream { send: head.id, receive, at: 0, end });
            self.set_busy(peer);
        }
        Ok(())
    }

    fn take_part(
        &mut self,
        peer: PeerId,
        head: Head,
        record: &Window<'_>,
        sink: &mut impl Sink,
    ) -> Result<(), Nonsense> {
        let len = record.len().checked_sub(WORD_BYTES).ok_or(SHORT_RECORD)?;
        let parts = self.parts.get_mut(head.id);
        let parts = parts
            .filter(|parts| parts.envelope.source == peer && len > 0 && len <= parts.end - parts.at)
            .filter(|parts| parts.send.is_some())
            .ok_or(Nonsense("a part of a message that was not asked for"))?;
        parts.fill(record, WORD_BYTES, len);
        if let Some(of) = self.peers.get_mut(peer as usize) {
            of.coming.moved_at = 0;
            of.coming.bytes += len as u64;
        }
        if parts.at == parts.end
            && let Some(parts) = self.parts.remove(head.id)
        {
            self.parts_ended(head.id, &parts);
            if let Parts { target: Target::Receive(receive), envelope, send: Some(send), .. } = parts {
                self.counters.in_parts += 1;
                self.tell_done(peer, send);
                self.received(receive, envelope, None, sink);
            }
        }
        Ok(())
    }
}

/// What a message says of itself, and where the rest of its record begins. Its length is not known yet.
#[inline]
pub(super) fn envelope(
    source: PeerId,
    head: Head,
    record: &Window<'_>,
) -> Result<(Space, Envelope, usize), Nonsense> {
    let word = |offset| record.load_u64(offset).map_err(|_| SHORT_RECORD);
    let (tag, at) = if head.has(SHORT_TAG) {
        (u64::from(head.id), WORD_BYTES)
    } else {
        (word(WORD_BYTES)?, 2 * WORD_BYTES)
    };
    let has_operation = head.kind != Kind::Eager || head.flags & (TELL_TAKEN | TELL_MATCHED | HAS_MORE) != 0;
    if head.has(SHORT_TAG) && has_operation {
        return Err(Nonsense("a tag in the place of an operation"));
    }
    let (data, at) = if head.has(HAS_DATA) { (Some(word(at)?), at + WORD_BYTES) } else { (None, at) };
    let space = Space::of(head.flags);
    Ok((space, Envelope { source, tag, data, len_bytes: 0 }, at))
}
