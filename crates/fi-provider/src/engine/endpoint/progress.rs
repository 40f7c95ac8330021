//! Progress: what has arrived is taken out of the rings, and what waited for room is put in.

use std::time::Instant;

use shm::window::Window;

use super::{ANSWER_LIMIT, Arrived, Endpoint, Offer};
use crate::engine::matching::Envelope;
use crate::engine::meet::{Arrival, Meeting};
use crate::engine::name::PeerId;
use crate::engine::peer::{NotSent, Peer, Stream};
use crate::engine::state::Shared;
use crate::engine::wire::{HAS_DATA, HEAD_BYTES, Head, Kind, ONE_PIECE, TAGGED, TELL};
use crate::trace::{Op, count};
use rustix::io::Errno;

/// Records taken out of one ring before the next is looked at.
const AT_ONCE: usize = 64;

/// A record that no end point writes.
#[derive(Debug)]
struct Nonsense;

impl Endpoint {
    /// Takes what has arrived, and sends what waited for room.
    #[inline]
    pub(crate) fn progress(&mut self, shared: &mut Shared) {
        self.arrivals(shared);
        let mut inboxes = std::mem::take(&mut self.inboxes);
        let mut is_any_bad = false;
        for (peer, consumer) in &mut inboxes {
            for _ in 0..AT_ONCE {
                match consumer.pop_with(|record| self.take(*peer, record, shared)) {
                    Ok(Some(Ok(()))) => {}
                    Ok(None) => break,
                    Ok(Some(Err(Nonsense))) | Err(_) => {
                        self.bad.push(*peer);
                        is_any_bad = true;
                        break;
                    }
                }
            }
        }
        if is_any_bad {
            // The peer is wrong or hostile: it is listened to no more.
            inboxes.retain(|(peer, _)| !self.bad.contains(peer));
        }
        self.inboxes = inboxes;
        if !self.busy.is_empty() {
            self.pump(shared);
        }
    }

    /// Rings that have become known.
    #[inline]
    pub(super) fn arrivals(&mut self, shared: &mut Shared) {
        if self.meeting.as_ref().is_some_and(Meeting::has_arrivals) {
            self.take_arrivals(shared);
        }
    }

    #[cold]
    fn take_arrivals(&mut self, shared: &mut Shared) {
        for arrival in self.meeting.as_ref().map(Meeting::take).unwrap_or_default() {
            self.arrival(arrival, shared);
        }
    }

    fn arrival(&mut self, arrival: Arrival, shared: &mut Shared) {
        match arrival {
            Arrival::Inbox { name, pid, consumer } => {
                let id = shared.names.number(name);
                if let Some(peer) = self.peer(id, shared) {
                    peer.pid = Some(pid);
                    self.inboxes.push((id, consumer));
                }
            }
            Arrival::Outbox { name, fd } => {
                let id = shared.names.number(name);
                if let Some(peer) = self.peer(id, shared) {
                    peer.welcome(fd);
                }
            }
        }
    }

    /// A peer, and what it takes to reach it.
    #[inline]
    pub(super) fn way(&mut self, id: PeerId, shared: &Shared) -> Result<(&mut Peer, &Meeting), NotSent> {
        if self.peers.get(id as usize).is_none_or(Option::is_none) {
            self.peer(id, shared).ok_or(NotSent::Lost(Errno::HOSTUNREACH))?;
        }
        let peer = self.peers.get_mut(id as usize).and_then(Option::as_deref_mut);
        match (peer, &self.meeting) {
            (Some(peer), Some(meeting)) => Ok((peer, meeting)),
            _ => Err(NotSent::Lost(Errno::NOTCONN)),
        }
    }

    /// The peer, if nothing needs to be done before something is sent to it.
    #[inline]
    pub(super) fn way_if_open(&self, id: PeerId) -> Option<&Peer> {
        self.peers.get(id as usize)?.as_deref().filter(|peer| peer.is_open())
    }

    /// Asks a peer for a ring, and waits a little for its answer.
    #[cold]
    pub(super) fn wait_for_answer(&mut self, id: PeerId, shared: &mut Shared) {
        let until = Instant::now() + ANSWER_LIMIT;
        loop {
            let Ok((peer, meeting)) = self.way(id, shared) else { return };
            if peer.reach(meeting) != Err(NotSent::NotNow) || Instant::now() >= until {
                return;
            }
            std::thread::yield_now();
            self.arrivals(shared);
        }
    }

    #[cold]
    fn pump(&mut self, shared: &mut Shared) {
        let mut busy = std::mem::take(&mut self.busy);
        busy.retain(|id| {
            let peer = self.peers.get_mut(*id as usize).and_then(Option::as_deref_mut);
            let (Some(peer), Some(meeting)) = (peer, &self.meeting) else { return false };
            let sends = &self.sends;
            let pumped = peer.pump(meeting, |number, at, len, claim| {
                if let Some(buffers) = sends.get(number).and_then(|sending| sending.buffers.as_ref()) {
                    buffers.put_into(at, len, &claim.window(), HEAD_BYTES);
                }
            });
            peer.is_busy() && !matches!(pumped, Err(NotSent::Lost(_)))
        });
        self.busy = busy;
        // While a peer has not answered, nothing else looks whether it has.
        self.arrivals(shared);
    }

    /// Sends a peer a record of this crate's own, now or when there is room.
    pub(super) fn tell(&mut self, id: PeerId, head: Head, shared: &Shared) {
        let Ok((peer, meeting)) = self.way(id, shared) else { return };
        if peer.tell(meeting, head) && !self.busy.contains(&id) {
            self.busy.push(id);
        }
    }

    /// Tells a sender that its message is no longer needed.
    pub(super) fn tell_done(&mut self, id: PeerId, send: u32, shared: &Shared) {
        self.tell(id, Head { kind: Kind::Done, flags: 0, id: send, first: 0, second: 0 }, shared);
    }

    /// Takes one record.
    #[inline]
    fn take(&mut self, peer: PeerId, record: &Window<'_>, shared: &mut Shared) -> Result<(), Nonsense> {
        let head = Head::read(record).ok_or(Nonsense)?;
        match head.kind {
            Kind::Eager => {
                self.take_eager(peer, &head, record, shared);
                Ok(())
            }
            Kind::Offer => self.take_offer(peer, &head, record, shared),
            Kind::Done => self.take_done(peer, &head, shared),
            Kind::Ask => self.take_ask(peer, &head),
            Kind::Part => self.take_part(peer, &head, record, shared),
        }
    }

    #[inline]
    fn take_eager(&mut self, peer: PeerId, head: &Head, record: &Window<'_>, shared: &mut Shared) {
        let len = record.len() - HEAD_BYTES;
        let envelope = envelope(peer, head, len);
        let is_tagged = head.has(TAGGED);
        if let Some(receive) = self.take_receive(is_tagged, &envelope) {
            receive.buffers.fill(0, record, HEAD_BYTES, len.min(receive.buffers.len()));
            self.received(receive, &envelope, 0, shared);
        } else {
            count(Op::Unexpected);
            let mut bytes = vec![0; len].into_boxed_slice();
            // The record is that long.
            let _ = record.get(HEAD_BYTES, &mut bytes);
            self.matchers[usize::from(is_tagged)].keep(envelope, Arrived::Held(bytes));
        }
        if head.has(TELL) {
            self.tell_done(peer, head.id, shared);
        }
    }

    fn take_offer(
        &mut self,
        peer: PeerId,
        head: &Head,
        record: &Window<'_>,
        shared: &mut Shared,
    ) -> Result<(), Nonsense> {
        let read = |offset| record.load_u64(HEAD_BYTES + offset).map_err(|_| Nonsense);
        let (len, address) = (read(0)?, read(8)?);
        let len = usize::try_from(len).map_err(|_| Nonsense)?;
        let offer = Offer { send: head.id, address, is_one_piece: head.has(ONE_PIECE) };
        let envelope = envelope(peer, head, len);
        let is_tagged = head.has(TAGGED);
        match self.take_receive(is_tagged, &envelope) {
            Some(receive) => self.fetch(receive, envelope, offer, shared),
            None => {
                count(Op::Unexpected);
                self.matchers[usize::from(is_tagged)].keep(envelope, Arrived::Offered(offer));
            }
        }
        Ok(())
    }

    fn take_done(&mut self, peer: PeerId, head: &Head, shared: &mut Shared) -> Result<(), Nonsense> {
        self.sends.get(head.id).filter(|sending| sending.peer == peer).ok_or(Nonsense)?;
        let sending = self.sends.remove(head.id).ok_or(Nonsense)?;
        if let Some(peer) = self.peers.get_mut(peer as usize).and_then(Option::as_deref_mut) {
            peer.forget(head.id);
        }
        self.tell_sender(sending.done, 0, shared);
        Ok(())
    }

    fn take_ask(&mut self, peer: PeerId, head: &Head) -> Result<(), Nonsense> {
        let sending = self.sends.get(head.id).filter(|sending| sending.peer == peer).ok_or(Nonsense)?;
        let len = sending.buffers.as_ref().ok_or(Nonsense)?.len();
        let end = usize::try_from(head.second).ok().filter(|end| (1..=len).contains(end)).ok_or(Nonsense)?;
        let receive = u32::try_from(head.first).map_err(|_| Nonsense)?;
        let place = self.peers.get_mut(peer as usize).and_then(Option::as_deref_mut).ok_or(Nonsense)?;
        count(Op::Streamed);
        place.begin(Stream { send: head.id, receive, at: 0, end });
        if !self.busy.contains(&peer) {
            self.busy.push(peer);
        }
        Ok(())
    }

    fn take_part(
        &mut self,
        peer: PeerId,
        head: &Head,
        record: &Window<'_>,
        shared: &mut Shared,
    ) -> Result<(), Nonsense> {
        let len = record.len() - HEAD_BYTES;
        let incoming = self.incoming.get_mut(head.id).filter(|incoming| incoming.peer == peer);
        let incoming = incoming.ok_or(Nonsense)?;
        if len > incoming.end - incoming.at {
            return Err(Nonsense);
        }
        incoming.receive.buffers.fill(incoming.at, record, HEAD_BYTES, len);
        incoming.at += len;
        if incoming.at == incoming.end
            && let Some(incoming) = self.incoming.remove(head.id)
        {
            self.tell_done(peer, incoming.send, shared);
            self.received(incoming.receive, &incoming.envelope, 0, shared);
        }
        Ok(())
    }
}

fn envelope(source: PeerId, head: &Head, len: usize) -> Envelope {
    Envelope { source, tag: head.first, data: head.has(HAS_DATA).then_some(head.second), len }
}
