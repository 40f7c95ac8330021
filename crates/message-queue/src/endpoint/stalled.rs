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
use super::{Core, Parts, Target};
use crate::completion::Sink;
use crate::lane::Outlet;
use crate::matching::PeerId;
use crate::paths::Path;
use crate::wire::Head;

impl<O: Outlet> Core<O> {
    /// Copies what has not come for too long. Whether there was any.
    #[cold]
    pub(super) fn read_stalled(&mut self, sink: &mut impl Sink) -> bool {
        let now = now_ticks();
        let mut is_any = false;
        let mut asked = std::mem::take(&mut self.asked);
        asked.retain(|number| match self.is_stalled(*number, now) {
            Some(true) => {
                self.read_instead(*number, sink);
                is_any = true;
                false
            }
            Some(false) => true,
            None => false,
        });
        self.asked = asked;
        is_any
    }

    /// Whether a message has not come for too long; none if it is no more.
    fn is_stalled(&mut self, number: u32, now: u64) -> Option<bool> {
        let parts = self.parts.get_mut(number)?;
        if parts.moved_at == 0 {
            // Something has come since the last look.
            parts.moved_at = now;
            return Some(false);
        }
        let peer = self.peers.get(parts.envelope.source as usize)?;
        let limit = peer.paths.ticks_to_read(parts.end).unwrap_or(0).max(self.part_wait);
        Some(now.saturating_sub(parts.moved_at) > limit)
    }

    /// Copies a message out of its sender's memory.
    fn read_instead(&mut self, number: u32, sink: &mut impl Sink) {
        let Some(parts) = self.parts.get_mut(number) else { return };
        let (id, end) = (parts.envelope.source, parts.end);
        let (Some(offer), Target::Receive(receive)) = (parts.offer, &mut parts.target) else { return };
        let Some(peer) = self.peers.get_mut(id as usize) else { return };
        match peer.read(&mut receive.buffers, offer.address, end) {
            Ok(()) => {
                peer.paths.note(Path::Ring, end, now_ticks().saturating_sub(parts.asked_at));
                let target = std::mem::replace(&mut parts.target, Target::Thrown);
                let envelope = parts.envelope;
                self.counters.read += 1;
                self.tell_done(id, offer.send);
                if let Target::Receive(receive) = target {
                    self.received(receive, envelope, None, sink);
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

    /// All parts of a message have come.
    pub(super) fn parts_ended(&mut self, number: u32, parts: &Parts) {
        if parts.offer.is_none() {
            return;
        }
        self.asked.retain(|asked| *asked != number);
        let now = now_ticks();
        if let Some(peer) = self.peers.get_mut(parts.envelope.source as usize) {
            // Of several that are under way each counts from the end of the one before it.
            let began = parts.asked_at.max(peer.parts_end);
            peer.parts_end = now;
            if matches!(parts.target, Target::Receive(_)) {
                peer.paths.note(Path::Ring, parts.end, now.saturating_sub(began));
            }
        }
    }

    /// A peer sends no more parts of a message: it was told that they are not needed.
    pub(super) fn take_stopped(&mut self, peer: PeerId, head: Head) -> Result<(), Nonsense> {
        let is_it = |parts: &Parts| {
            parts.envelope.source == peer && parts.send.is_some() && matches!(parts.target, Target::Thrown)
        };
        self.parts
            .get(head.id)
            .filter(|parts| is_it(parts))
            .ok_or(Nonsense("the end of parts that are needed"))?;
        self.parts.remove(head.id);
        Ok(())
    }
}
