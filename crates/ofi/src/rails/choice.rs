//! Which rail takes the next chunk of a block: a decision without input and output.
//!
//! Blocks of one thread arrive in their order. Within a rail the provider keeps that order; between rails nobody does. So a rail may
//! take chunks of a block when all that was begun before it on every *other* rail has been confirmed; what is still under way on the
//! rail itself arrives before them anyway. Where the provider does not keep the order of puts, the rail's own counts, too.

use crate::port::SEND_SLOT_BYTES;

/// What is known of a rail when a chunk is to be placed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Rail {
    /// What was begun on it before the block has not been confirmed.
    pub(crate) has_earlier: bool,
    /// It keeps the order of puts.
    pub(crate) is_ordered: bool,
    /// Bytes of chunks that are under way.
    pub(crate) bytes: u64,
}

/// How much more outstanding work than the rail with the least a rail may have and still take a chunk: one chunk that is being sent,
/// and one behind it. It limits a rail that may take chunks while the others still wait for what is earlier, which is soon over: they
/// are to have their share of the block.
const AHEAD_BYTES: u64 = 2 * SEND_SLOT_BYTES as u64;

/// Whether a rail may take chunks of the block.
pub(crate) fn may_take(rails: &[Rail], nth: usize) -> bool {
    let holds_up = |(at, rail): (usize, &Rail)| rail.has_earlier && (at != nth || !rail.is_ordered);
    !rails.iter().enumerate().any(holds_up)
}

/// The rails that may take a chunk now, the one with the least outstanding work first; among equals in turn, so that none is preferred.
pub(crate) fn order(rails: &[Rail], turn: usize) -> impl Iterator<Item = usize> {
    let count = rails.len();
    let least = rails.iter().map(|rail| rail.bytes).min().unwrap_or(0);
    let may = |nth: &usize| may_take(rails, *nth) && rails[*nth].bytes < least + AHEAD_BYTES;
    let mut may: Vec<usize> = (0..count).map(|at| (at + turn) % count.max(1)).filter(may).collect();
    may.sort_by_key(|nth| rails[*nth].bytes);
    may.into_iter()
}

#[cfg(test)]
mod tests {
    use std::collections::{HashSet, VecDeque};

    use super::*;

    fn rail(has_earlier: bool, bytes: u64) -> Rail {
        Rail { has_earlier, is_ordered: true, bytes }
    }

    #[test]
    fn the_rail_with_the_least_outstanding_work_comes_first() {
        let rails = [rail(false, 300), rail(false, 100), rail(false, 200)];
        assert_eq!(order(&rails, 0).collect::<Vec<_>>(), [1, 2, 0]);
        let equal = [rail(false, 5); 3];
        assert_eq!(order(&equal, 0).collect::<Vec<_>>(), [0, 1, 2]);
        assert_eq!(order(&equal, 2).collect::<Vec<_>>(), [2, 0, 1]);
    }

    #[test]
    fn a_rail_that_is_ahead_of_one_that_waits_gets_no_more() {
        let chunk = SEND_SLOT_BYTES as u64;
        // Only the first may take anything: what is earlier on it holds the second up.
        let may = |first, second| order(&[rail(true, first * chunk), rail(false, second * chunk)], 0).count();
        assert_eq!((may(0, 0), may(1, 0), may(2, 0), may(2, 1)), (1, 1, 0, 1));
        // The rail with the least may always take one, if any may.
        assert_eq!(order(&[rail(false, 50 * chunk), rail(false, 40 * chunk)], 0).collect::<Vec<_>>(), [1]);
    }

    #[test]
    fn a_rail_waits_for_what_is_earlier_on_others_and_not_for_its_own() {
        assert_eq!(order(&[rail(true, 9), rail(false, 0)], 0).collect::<Vec<_>>(), [0]);
        assert_eq!(order(&[rail(true, 9), rail(true, 0)], 0).count(), 0);
        let unordered = Rail { is_ordered: false, ..rail(true, 0) };
        assert_eq!(order(&[unordered, rail(false, 0)], 0).count(), 0);
    }

    /// Chunks under way on a rail, each with the number of its block; and how many of each block have arrived.
    #[derive(Debug, Clone, PartialEq, Eq, Hash)]
    struct World {
        under_way: Vec<VecDeque<usize>>,
        arrived: Vec<usize>,
        /// Chunks of each block that were begun.
        begun: Vec<usize>,
    }

    const CHUNKS: usize = 3;
    const BLOCKS: usize = 3;

    /// All that can happen next: a rail's oldest chunk arrives, or the next chunk is begun on any rail that may take it.
    fn next(world: &World, rule: impl Fn(&[Rail], usize) -> bool) -> Vec<World> {
        let mut all = Vec::new();
        for rail in 0..world.under_way.len() {
            let mut after = world.clone();
            if let Some(block) = after.under_way[rail].pop_front() {
                after.arrived[block] += 1;
                all.push(after);
            }
        }
        let Some(block) = world.begun.iter().position(|begun| *begun < CHUNKS) else { return all };
        let earlier = |queue: &VecDeque<usize>| queue.iter().any(|other| *other < block);
        let rails: Vec<_> = world.under_way.iter().map(|queue| rail(earlier(queue), 0)).collect();
        for nth in (0..rails.len()).filter(|nth| rule(&rails, *nth)) {
            let mut after = world.clone();
            after.under_way[nth].push_back(block);
            after.begun[block] += 1;
            all.push(after);
        }
        all
    }

    /// Every state that can be reached; whether in all of them no chunk of a block arrived before the blocks before it were whole.
    fn keeps_order(rails: usize, rule: impl Fn(&[Rail], usize) -> bool + Copy) -> bool {
        let start = World {
            under_way: vec![VecDeque::new(); rails],
            arrived: vec![0; BLOCKS],
            begun: vec![0; BLOCKS],
        };
        let mut seen = HashSet::from([start.clone()]);
        let mut open = vec![start];
        let mut has_ended = false;
        while let Some(world) = open.pop() {
            let is_early = |block: usize| world.arrived[block] > 0 && world.arrived[block - 1] < CHUNKS;
            if (1..BLOCKS).any(is_early) {
                return false;
            }
            has_ended |= world.arrived.iter().all(|arrived| *arrived == CHUNKS);
            open.extend(next(&world, rule).into_iter().filter(|next| seen.insert(next.clone())));
        }
        assert!(has_ended, "the blocks never get through");
        true
    }

    #[test]
    fn blocks_arrive_in_their_order_however_rails_interleave() {
        for rails in 1..=4 {
            assert!(keeps_order(rails, may_take), "{rails} rails");
        }
        // The search would notice.
        assert!(!keeps_order(2, |_, _| true));
        assert!(!keeps_order(3, |rails, nth| !rails[(nth + 1) % rails.len()].has_earlier));
    }
}
