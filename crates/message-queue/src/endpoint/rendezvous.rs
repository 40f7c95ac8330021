//! Messages that the receiver fetches: out of the sender's memory, or else the sender is asked to send them
//! through the ring in parts.
//!
//! Only this process's own threads write its memory, and only while an operation has it: so a message never
//! lands in memory that the program has taken back. A receive that is being filled has left the matcher and
//! cannot be cancelled any more.

use shm::clock::now_ticks;
use shm::process::NotRead;

use super::{Core, Offer, Parts, Receive, Target};
use crate::buffers::Source;
use crate::completion::Sink;
use crate::error::Error;
use crate::lane::{LaneError, Outlet};
use crate::matching::{Envelope, PeerId};
use crate::paths::Path;
use crate::peer::{BEGINNING_BYTES, Way};
use crate::wire::{Beginning, Head, Kind};

/// Records of this crate's own that may wait for one peer. Each answers something that the peer has sent: one
/// that goes on sending and never takes the answers would fill the memory.
pub(super) const BACKLOG_MAX: usize = 1 << 16;

impl<O: Outlet> Core<O> {
    /// Gets the bytes of an offered message.
    pub(super) fn fetch(
        &mut self,
        mut receive: Receive,
        envelope: Envelope,
        offer: Offer,
        sink: &mut impl Sink,
    ) {
        let (id, len) = (envelope.source, envelope.len_bytes.min(receive.buffers.len()));
        let Some(peer) = self.peers.get_mut(id as usize) else { return };
        if let Way::Lost(error) = peer.way {
            return self.received(receive, envelope, Some(error), sink);
        }
        if len == 0 {
            self.counters.read += 1;
            self.tell_done(id, offer.send);
            return self.received(receive, envelope, None, sink);
        }
        let is_readable = offer.is_one_piece && peer.can_be_read();
        if !is_readable || !peer.reads(len) {
            return self.ask(receive, envelope, offer, len);
        }
        let began = now_ticks();
        match peer.read(&mut receive.buffers, offer.address, len) {
            Ok(()) => {
                let ticks = now_ticks().saturating_sub(began);
                peer.paths.note(Path::Read, len, ticks);
                self.ticks_reading = self.ticks_reading.wrapping_add(ticks);
                self.counters.read += 1;
                self.tell_done(id, offer.send);
                self.received(receive, envelope, None, sink);
            }
            Err(NotRead::Forbidden) => {
                peer.can_read = false;
                self.ask(receive, envelope, offer, len);
            }
            Err(NotRead::Ended) => {
                self.received(receive, envelope, Some(Error::PeerGone { peer: id }), sink);
            }
            Err(NotRead::NoSuchMemory) => {
                let error = self.wrong(id, "an offer of memory that it does not have", sink);
                self.received(receive, envelope, Some(error), sink);
            }
        }
    }

    /// The clock for what comes in parts: it stands while this end copies out of other processes' memory.
    pub(super) fn ticks_not_reading(&self) -> u64 {
        now_ticks().wrapping_sub(self.ticks_reading)
    }

    /// Asks a sender for the first `len` bytes of its message, in parts.
    fn ask(&mut self, receive: Receive, envelope: Envelope, offer: Offer, len: usize) {
        let (id, now) = (envelope.source, self.ticks_not_reading());
        let Some(peer) = self.peers.get_mut(id as usize) else { return };
        let is_readable = offer.is_one_piece && peer.can_be_read();
        if peer.coming.open == 0 {
            (peer.coming.since, peer.coming.bytes, peer.coming.moved_at) = (now, 0, now);
        }
        peer.coming.open += 1;
        let number = self.parts.push(Parts {
            send: Some(offer.send),
            end: len,
            asked_at: now,
            asked_at_all: now.wrapping_add(self.ticks_reading),
            offer: is_readable.then_some(offer),
            ..Parts::new(Target::Receive(receive), envelope)
        });
        if is_readable {
            self.asked.push(number);
        }
        let head = Head { kind: Kind::Ask, flags: 0, id: offer.send };
        self.tell(id, Beginning::new(head).with(u64::from(number)).with(len as u64));
    }

    /// Tells a sender that its message is no longer needed, or has met its receive.
    pub(super) fn tell_done(&mut self, id: PeerId, send: u32) {
        self.tell(id, Beginning::new(Head { kind: Kind::Done, flags: 0, id: send }));
    }

    /// Sends a peer a record of this crate's own, now or when there is room.
    pub(super) fn tell(&mut self, id: PeerId, beginning: Beginning) {
        let Some(peer) = self.peers.get_mut(id as usize) else { return };
        if matches!(peer.way, Way::Lost(_)) {
            return;
        }
        if !peer.backlog.is_empty() || peer.record(beginning.words(), 0, |_, _| ()).is_err() {
            // If the lane is broken, the next attempt says so.
            peer.backlog.push_back(beginning);
            self.set_busy(id);
        }
    }

    /// Sends a peer what waits for it, as far as there is room. Whether something still waits.
    pub(super) fn pump(&mut self, id: PeerId, sink: &mut impl Sink) -> bool {
        if self.peers.get(id as usize).is_some_and(|peer| peer.backlog.len() > BACKLOG_MAX) {
            self.wrong(id, "it sends and takes nothing", sink);
        }
        match self.pump_some(id, sink) {
            Ok(()) | Err(LaneError::Full) => {}
            Err(LaneError::TooLong) => _ = self.wrong(id, "a ring that is too small", sink),
            Err(LaneError::Broken(what)) => _ = self.wrong(id, what, sink),
        }
        self.peers.get(id as usize).is_some_and(|peer| peer.is_busy())
    }

    fn pump_some(&mut self, id: PeerId, sink: &mut impl Sink) -> Result<(), LaneError> {
        loop {
            let Some(peer) = self.peers.get_mut(id as usize) else { return Ok(()) };
            let Some(beginning) = peer.backlog.front().copied() else { break };
            peer.record(beginning.words(), 0, |_, _| ())?;
            peer.backlog.pop_front();
            self.records_out += 1;
        }
        while let Some(number) = self.peers.get(id as usize).and_then(|peer| peer.waiting.front().copied()) {
            let has_ended = self.out(number)?;
            self.records_out += 1;
            if let Some(peer) = self.peers.get_mut(id as usize) {
                peer.waiting.pop_front();
            }
            if has_ended && let Some(sending) = self.sends.remove(number) {
                self.sent(sending, None, sink);
            }
        }
        self.parts_out(id)
    }

    /// Sends the next parts of messages that the peer has asked for: one of each in turn.
    fn parts_out(&mut self, id: PeerId) -> Result<(), LaneError> {
        let Some(peer) = self.peers.get_mut(id as usize) else { return Ok(()) };
        let Way::Open(outlet) = &peer.way else { return Ok(()) };
        // Several fit the ring: one is read while the next is written.
        let part_bytes = (outlet.max_record_bytes() / 4).max(BEGINNING_BYTES);
        while let Some(stream) = peer.streams.front().copied() {
            let len = part_bytes.min(stream.end - stream.at);
            let Some(sending) = self.sends.get(stream.send) else {
                peer.streams.pop_front();
                continue;
            };
            let beginning = Beginning::new(Head { kind: Kind::Part, flags: 0, id: stream.receive });
            let message = &sending.buffers;
            peer.record(beginning.words(), len, |record, at| message.put_into(stream.at, len, record, at))?;
            peer.streams.pop_front();
            self.records_out += 1;
            if stream.at + len < stream.end {
                peer.streams.push_back(crate::peer::Stream { at: stream.at + len, ..stream });
            }
        }
        Ok(())
    }
}
