//! Operations of one get that are under way, from the oldest on.

use super::Piece;
use crate::slots::SLOTS_OF_A_PEER;

/// Operations of one get, at most as many as a peer may have.
#[derive(Default)]
pub(super) struct Queue {
    entries: [Option<(usize, Piece)>; SLOTS_OF_A_PEER as usize],
    first: usize,
    count: usize,
}

impl Queue {
    /// There is room: every entry has a slot of the peer.
    pub(super) fn push(&mut self, slot: usize, piece: Piece) {
        self.entries[(self.first + self.count) % self.entries.len()] = Some((slot, piece));
        self.count += 1;
    }

    pub(super) fn pop(&mut self) -> Option<(usize, Piece)> {
        let oldest = self.entries[self.first].take()?;
        self.first = (self.first + 1) % self.entries.len();
        self.count -= 1;
        Some(oldest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_gives_back_in_order() {
        let piece = |at| Piece { at, len: 1, address: 0 };
        let mut queue = Queue::default();
        let (mut next_in, mut next_out) = (0, 0);
        for round in 0..100 {
            while queue.count < (round % (SLOTS_OF_A_PEER as usize)) + 1 {
                queue.push(next_in, piece(next_in));
                next_in += 1;
            }
            let (slot, piece) = queue.pop().unwrap();
            assert_eq!((slot, piece.at), (next_out, next_out));
            next_out += 1;
        }
        while queue.pop().is_some() {
            next_out += 1;
        }
        assert_eq!(next_in, next_out);
    }
}
