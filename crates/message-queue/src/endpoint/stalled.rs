//! Messages that were to come through the ring in parts, and do not: the sender's program may be busy with
//! something else. The receiver copies them out of the sender's memory instead.
//!
//! The sender may send parts until it reads that it need not ([`Kind::Done`]); so the operation stays, and
//! takes them without using them, until all have come or the sender says that it has stopped
//! ([`Kind::Stopped`]).
//!
//! [`Kind::Done`]: crate::wire::Kind::Done
//! [`Kind::Stopped`]: crate::wire::Kind::Stopped

use shm::clock::now_ticks;
use shm::process::NotRead;

use super::arrive::Nonsense;
use super::rendezvous::BACKLOG_MAX;
use super::{Core, Parts, SendState, Target};
use crate::completion::Sink;
use crate::lane::Outlet;
use crate::matching::PeerId;
use crate::paths::Path;
use crate::wire::Head;

/// A message of which nothing has come for so many times the limit is late, whatever this end did meanwhile.
const LATE: u64 = 8;

impl<O: Outlet> Core<O> {
    /// Copies a message that has not come for too long: one, for others wait meanwhile. Whether there was
    /// one.
    #[cold]
    pub(super) fn read_stalled(&mut self, sink: &mut impl Sink) -> bool {
        let now = self.ticks_not_reading();
        let mut at = 0;
        while let Some(number) = self.asked.get(at).copied() {
            match self.is_stalled(number, now) {
                Some(false) => at += 1,
                is_stalled => {
                    self.asked.swap_remove(at);
                    if is_stalled == Some(true) {
                        self.read_instead(number, sink);
                        return true;
                    }
                }
            }
        }
        false
    }

    /// Whether nothing of its sender has come for too long; none if the message is no more.
    fn is_stalled(&mut self, number: u32, now: u64) -> Option<bool> {
        let parts = self.parts.get(number).filter(|parts| parts.offer.is_some())?;
        let peer = self.peers.get_mut(parts.envelope.source as usize)?;
        if peer.coming.moved_at == 0 {
            // Something has come since the last look.
            peer.coming.moved_at = now;
            return Some(false);
        }
        // One that was asked for later waits from then on.
        let since = peer.coming.moved_at.max(parts.asked_at);
        let limit = peer.paths.ticks_to_read(parts.end).unwrap_or(0).max(self.part_wait);
        // This end may copy for others all the time.
        let is_late = since == parts.asked_at
            && now_ticks().saturating_sub(parts.asked_at_all) > limit.saturating_mul(LATE);
        Some(is_late || now.saturating_sub(since) > limit)
    }

    /// Copies a message out of its sender's memory.
    fn read_instead(&mut self, number: u32, sink: &mut impl Sink) {
        let Some(parts) = self.parts.get_mut(number) else { return };
        let (id, end) = (parts.envelope.source, parts.end);
        let (Some(offer), Target::Receive(receive)) = (parts.offer, &mut parts.target) else { return };
        let Some(peer) = self.peers.get_mut(id as usize) else { return };
        let began = now_ticks();
        let waits_since = peer.coming.moved_at.max(parts.asked_at).wrapping_add(self.ticks_reading);
        match peer.read(&mut receive.buffers, offer.address, end) {
            Ok(()) => {
                let now = now_ticks();
                self.ticks_reading = self.ticks_reading.wrapping_add(now.saturating_sub(began));
                // Of the ring it has cost that nothing came, and this copy. What came before was others'.
                peer.paths.note(Path::Ring, end, now.saturating_sub(waits_since));
                peer.coming.thrown += 1;
                let is_too_much = peer.coming.thrown as usize > BACKLOG_MAX;
                let target = std::mem::replace(&mut parts.target, Target::Thrown);
                let envelope = parts.envelope;
                self.counters.read += 1;
                self.tell_done(id, offer.send);
                if let Target::Receive(receive) = target {
                    self.received(receive, envelope, None, sink);
                }
                if is_too_much {
                    // An honest one offers no more before it has read the answers.
                    self.wrong(id, "it neither sends parts nor says that none come", sink);
                }
            }
            // Its parts are waited for.
            Err(NotRead::Forbidden) => peer.can_read = false,
            // The end of the peer ends its messages.
            Err(NotRead::Ended) => {}
            Err(NotRead::NoSuchMemory) => {
                _ = self.wrong(id, "an offer of memory that it does not have", sink);
            }
        }
    }

    /// All parts of a message have come, or no more will.
    pub(super) fn parts_ended(&mut self, number: u32, parts: &Parts) {
        let now = self.ticks_not_reading();
        if let Some(peer) = self.peers.get_mut(parts.envelope.source as usize) {
            let coming = &mut peer.coming;
            coming.open = coming.open.saturating_sub(1);
            if matches!(parts.target, Target::Thrown) {
                coming.thrown = coming.thrown.saturating_sub(1);
                (coming.since, coming.bytes) = (now, 0);
            } else if coming.bytes >= parts.end as u64
                || coming.open == 0 && coming.bytes >= parts.end as u64 / 2
            {
                // Several may be under way, one part of each in turn, and end one soon after the other: what
                // has come of all of them took the time since the last look. The few bytes of those that end
                // after the first would tell the time of a part and not of a message, so they wait for more.
                let (bytes, ticks) = (coming.bytes, now.saturating_sub(coming.since));
                peer.paths.note_bytes(parts.end, usize::try_from(bytes).unwrap_or(usize::MAX), ticks);
                (peer.coming.since, peer.coming.bytes) = (now, 0);
            }
        }
        if let Some(at) = self.asked.iter().position(|asked| *asked == number) {
            self.asked.swap_remove(at);
        }
    }

    /// A peer needs no more parts of a message: it is told that none comes, and then the send has ended.
    ///
    /// Not before: what lies in the ring is of no use, and may keep back what the peer waits for. Whoever
    /// waits for the send lets that go out.
    pub(super) fn stop(
        &mut self,
        id: PeerId,
        number: u32,
        receive: u32,
        sink: &mut impl Sink,
    ) -> Result<(), Nonsense> {
        if let Some(sending) = self.sends.get_mut(number) {
            sending.state = SendState::Stopping(receive);
        }
        let is_clear = self.peers.get(id as usize).is_some_and(|peer| peer.is_clear());
        if is_clear && matches!(self.out(number), Ok(true)) {
            if let Some(sending) = self.sends.remove(number) {
                self.sent(sending, None, sink);
            }
        } else if let Some(peer) = self.peers.get_mut(id as usize) {
            peer.waiting.push_back(number);
            self.set_busy(id);
        }
        Ok(())
    }

    /// A peer sends no more parts of a message: it was told that they are not needed.
    pub(super) fn take_stopped(&mut self, peer: PeerId, head: Head) -> Result<(), Nonsense> {
        let is_it = |parts: &Parts| {
            parts.envelope.source == peer && parts.send.is_some() && matches!(parts.target, Target::Thrown)
        };
        if !self.parts.get(head.id).is_some_and(is_it) {
            return Err(Nonsense("the end of parts that are needed"));
        }
        if let Some(parts) = self.parts.remove(head.id) {
            self.parts_ended(head.id, &parts);
        }
        Ok(())
    }
}
