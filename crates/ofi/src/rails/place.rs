//! Where the next chunk goes, and how long it is, by what is known of all rails at this moment.

use fabric_sys::constants::FI_ORDER_WAW;
use shm::sync::Ordering;

use super::choice::{self, Rail};
use super::core::{Core, State};
use super::queue;

impl Core {
    /// How long the next chunk is to be.
    pub(super) fn chunk_bytes(&self) -> usize {
        let (state, now_ns) = (self.locked(), self.now_ns());
        let rates = state.lanes.iter().filter_map(|lane| lane.pace.rate(now_ns));
        queue::chunk_bytes(rates.reduce(f64::max))
    }

    /// The rails for a chunk of this length, the best one first.
    pub(super) fn order(
        &self,
        state: &mut State,
        chunk_bytes: usize,
        mut has_earlier: impl FnMut(&State, usize) -> bool,
    ) -> Vec<usize> {
        let now_ns = self.now_ns();
        let mut rails = Vec::with_capacity(self.count);
        for nth in 0..self.count {
            let has_earlier = has_earlier(state, nth);
            let is_up = state.recovery.generation_if_up(nth).is_some();
            let lane = &mut state.lanes[nth];
            let bytes = lane.bytes();
            lane.pace.look(now_ns, bytes);
            // What was begun on a rail that may fail may have to be sent again: nothing later may be there by
            // then.
            let is_final = self.recover.is_none();
            let is_ordered = is_final && lane.peer.inside.order & FI_ORDER_WAW != 0;
            let rate = lane.pace.rate(now_ns);
            rails.push(Rail { has_earlier, is_ordered, is_up, bytes, rate, has_room: true });
        }
        for nth in 0..self.count {
            let (queue, bytes) = (&mut state.lanes[nth].queue, rails[nth].bytes);
            match choice::may_take(&rails, nth) {
                true => rails[nth].has_room = queue.has_room(now_ns, bytes, chunk_bytes, rails[nth].rate),
                false => queue.pauses(),
            }
        }
        // Relaxed: any order will do.
        choice::order(&rails, chunk_bytes, self.turn.fetch_add(1, Ordering::Relaxed)).collect()
    }
}
