//! Blocks that are read over all rails. A rail that fails costs a chunk a second try over another one:
//! nothing is changed by a read, and bytes that come late land in a slot that nobody looks at.

use std::collections::VecDeque;
use std::sync::Arc;

use shm::window::Window;

use super::core::Core;
use crate::card::MemoryCard;
use crate::error::Result;
use crate::peer::{Peer, Piece, pieces};

/// A chunk that is under way.
struct Read {
    peer: Arc<Peer>,
    slot: usize,
    piece: Piece,
}

impl Core {
    /// What was put before has arrived on all rails.
    pub(super) fn gather(
        &self,
        cards: &[MemoryCard],
        offset: usize,
        len: usize,
        mut drain: impl FnMut(&Window<'_>, Piece) -> Result<()>,
    ) -> Result<()> {
        let peers = self.peers();
        let _at_work: Vec<_> = peers.iter().map(|peer| peer.inside.engine.at_work()).collect();
        // From the oldest on.
        let mut under_way = VecDeque::new();
        let mut result = Ok(());
        for whole in pieces(&cards[0], offset, len) {
            result = self.begin_read(cards, offset, whole, &mut under_way, &mut drain);
            if result.is_err() {
                break;
            }
        }
        while let Some(read) = under_way.pop_front() {
            if result.is_ok() {
                result = self.end_read(cards, offset, read, &mut drain);
            } else {
                read.peer.inside.engine.slots.let_go(read.slot);
            }
        }
        result
    }

    /// Who has reads under way waits for the oldest of them, never for room: threads that each keep some and
    /// wait for more would wait for each other.
    fn begin_read(
        &self,
        cards: &[MemoryCard],
        offset: usize,
        whole: Piece,
        under_way: &mut VecDeque<Read>,
        drain: &mut impl FnMut(&Window<'_>, Piece) -> Result<()>,
    ) -> Result<()> {
        loop {
            if let Some(read) = self.try_read(cards, offset, whole)? {
                under_way.push_back(read);
                return Ok(());
            }
            if let Some(read) = under_way.pop_front() {
                self.end_read(cards, offset, read, drain)?;
                continue;
            }
            let mut begun = None;
            self.wait_for_any(|| {
                begun = self.try_read(cards, offset, whole)?;
                Ok(begun.is_some())
            })?;
            under_way.extend(begun);
            return Ok(());
        }
    }

    fn try_read(&self, cards: &[MemoryCard], offset: usize, whole: Piece) -> Result<Option<Read>> {
        self.check()?;
        let now_ns = self.now_ns();
        let mut state = self.state();
        for nth in self.order(&mut state, whole.len, |_, _| false) {
            let lane = &mut state.lanes[nth];
            let card = lane.card.as_ref().unwrap_or(&cards[nth]);
            let piece = Piece { address: card.base.wrapping_add((offset + whole.at) as u64), ..whole };
            match lane.peer.try_get_chunk(card, piece) {
                Ok(Some(slot)) => {
                    lane.pace.begin(now_ns, piece.len as u64, lane.bytes());
                    lane.queue.begun(piece.len, piece.len, lane.pace.rate(now_ns));
                    self.keeper.ring();
                    return Ok(Some(Read { peer: Arc::clone(&lane.peer), slot, piece }));
                }
                Ok(None) => {}
                Err(_) if self.recover.is_some() => self.keeper.ring(),
                Err(error) => return Err(error),
            }
        }
        Ok(None)
    }

    fn end_read(
        &self,
        cards: &[MemoryCard],
        offset: usize,
        read: Read,
        drain: &mut impl FnMut(&Window<'_>, Piece) -> Result<()>,
    ) -> Result<()> {
        match read.peer.end_get(read.slot, read.piece, drain) {
            Err(_) if self.recover.is_some() && read.peer.state.is_failed() => {
                self.keeper.ring();
                self.check()?;
                let Piece { at, len, .. } = read.piece;
                self.over_lead(|lead| {
                    lead.peer().get_pieces(lead.card(cards), offset + at, len, |memory, piece| {
                        drain(memory, Piece { at: at + piece.at, ..piece })
                    })
                })
            }
            ended => ended,
        }
    }
}
