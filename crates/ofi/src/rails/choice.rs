//! Which rail takes the next chunk of a block: a decision without input and output.
//!
//! Blocks of one thread arrive in their order. Within a rail the provider keeps that order; between rails
//! nobody does. So a rail may take chunks of a block when all that was begun before it on every *other* rail
//! has been confirmed; what is still under way on the rail itself arrives before them anyway. Where the
//! provider does not keep the order of puts, the rail's own counts, too.

/// What is known of a rail when a chunk is to be placed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Rail {
    /// What was begun on it before the block has not been confirmed.
    pub(crate) has_earlier: bool,
    /// It keeps the order of puts.
    pub(crate) is_ordered: bool,
    /// It can be used: it has not failed.
    pub(crate) is_up: bool,
    /// Bytes of chunks that are under way.
    pub(crate) bytes: u64,
    /// Bytes per nanosecond that it carries, if that is known.
    pub(crate) rate: Option<f64>,
    /// A chunk is within its limit of bytes under way ([`queue`](super::queue)).
    pub(crate) has_room: bool,
}

/// Rails that carry at least this share of what the best one carries count as equally fast: measurements
/// scatter, and outstanding bytes tell the rest.
const NEAR: f64 = 0.7;

/// Whether a rail may take chunks of the block.
pub(crate) fn may_take(rails: &[Rail], nth: usize) -> bool {
    let holds_up = |(at, rail): (usize, &Rail)| rail.has_earlier && (at != nth || !rail.is_ordered);
    rails[nth].is_up && !rails.iter().enumerate().any(holds_up)
}

/// The rails that may take a chunk now, the one that will have carried it first comes first: that with the
/// least outstanding work. Among equals in turn, so that none is preferred.
///
/// A rail that would carry it later than the best one, by more than one chunk of its own, takes none, also if
/// the best one has to wait for what is earlier: that is soon over, and it is to have its share of the block.
/// One that has enough under way takes none either.
pub(crate) fn order(rails: &[Rail], chunk_bytes: usize, turn: usize) -> impl Iterator<Item = usize> {
    let length = chunk_bytes as f64;
    // Of a rail of which nothing is known the best is expected, so that it is tried.
    let best = rails.iter().filter(|rail| rail.is_up).filter_map(|rail| rail.rate).fold(0.0, f64::max);
    let best = if best > 0.0 { best } else { 1.0 };
    let rate = |rail: &Rail| rail.rate.filter(|rate| *rate < best * NEAR).unwrap_or(best);
    let chunk_ns: Vec<f64> = rails.iter().map(|rail| length / rate(rail)).collect();
    let end_of = |rail: &Rail| match rail.is_up {
        true => (rail.bytes as f64 + length) / rate(rail),
        false => f64::INFINITY,
    };
    let end_ns: Vec<f64> = rails.iter().map(end_of).collect();
    let first_ns = end_ns.iter().copied().fold(f64::INFINITY, f64::min);
    let count = rails.len();
    let is_soon = |nth: usize| end_ns[nth] <= first_ns + chunk_ns[nth];
    let may = |nth: &usize| may_take(rails, *nth) && rails[*nth].has_room && is_soon(*nth);
    let mut may: Vec<usize> = (0..count).map(|at| (at + turn) % count.max(1)).filter(may).collect();
    may.sort_by(|one, other| end_ns[*one].total_cmp(&end_ns[*other]));
    may.into_iter()
}

#[cfg(test)]
mod tests {
    use std::collections::{HashSet, VecDeque};

    use super::*;

    const CHUNK_BYTES: usize = 64 * 1024;

    fn order(rails: &[Rail], turn: usize) -> impl Iterator<Item = usize> {
        super::order(rails, CHUNK_BYTES, turn)
    }

    fn rail(has_earlier: bool, bytes: u64) -> Rail {
        Rail { has_earlier, is_ordered: true, is_up: true, bytes, rate: None, has_room: true }
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
    fn a_rail_that_has_failed_gets_nothing_and_holds_up_what_is_later() {
        let failed = Rail { is_up: false, rate: Some(9.0), ..rail(false, 0) };
        assert_eq!(order(&[failed, rail(false, 900)], 0).collect::<Vec<_>>(), [1]);
        let failed = Rail { has_earlier: true, ..failed };
        assert_eq!(order(&[failed, rail(false, 0)], 0).count(), 0);
    }

    #[test]
    fn a_slow_rail_gets_as_much_as_it_carries_in_the_same_time() {
        let mut rails = [4.0, 1.0].map(|rate| Rail { rate: Some(rate), ..rail(false, 0) });
        let mut chunks = [0, 0];
        for _ in 0..20 {
            let nth = order(&rails, 0).next().unwrap();
            chunks[nth] += 1;
            rails[nth].bytes += CHUNK_BYTES as u64;
        }
        assert_eq!(chunks, [16, 4]);
        // A short block is left to the fast one, and one of which nothing is known is tried.
        let rails = [4.0, 1.0].map(|rate| Rail { rate: Some(rate), ..rail(false, 0) });
        assert_eq!(order(&rails, 1).next(), Some(0));
        let rails = [Rail { bytes: 1, ..rails[0] }, rail(false, 0)];
        assert_eq!(order(&rails, 0).next(), Some(1));
    }

    #[test]
    fn a_rail_that_is_ahead_of_one_that_waits_gets_no_more() {
        let chunk = CHUNK_BYTES as u64;
        // Only the first may take anything: what is earlier on it holds the second up.
        let may = |first, second| order(&[rail(true, first * chunk), rail(false, second * chunk)], 0).count();
        assert_eq!((may(0, 0), may(1, 0), may(2, 0), may(2, 1)), (1, 1, 0, 1));
        // The rail with the least may always take one, if any may.
        assert_eq!(order(&[rail(false, 50 * chunk), rail(false, 40 * chunk)], 0).collect::<Vec<_>>(), [1]);
    }

    #[test]
    fn a_rail_that_has_enough_under_way_gets_no_more() {
        let full = Rail { has_room: false, ..rail(false, 1) };
        assert_eq!(order(&[full, rail(false, 2)], 0).collect::<Vec<_>>(), [1]);
        assert_eq!(order(&[full, full], 0).count(), 0);
    }

    #[test]
    fn a_rail_waits_for_what_is_earlier_on_others_and_not_for_its_own() {
        assert_eq!(order(&[rail(true, 9), rail(false, 0)], 0).collect::<Vec<_>>(), [0]);
        assert_eq!(order(&[rail(true, 9), rail(true, 0)], 0).count(), 0);
        let unordered = Rail { is_ordered: false, ..rail(true, 0) };
        assert_eq!(order(&[unordered, rail(false, 0)], 0).count(), 0);
    }

    /// Chunks under way on a rail, each with the number of its block; and how many of each block have
    /// arrived.
    #[derive(Debug, Clone, PartialEq, Eq, Hash)]
    struct World {
        under_way: Vec<VecDeque<usize>>,
        arrived: Vec<usize>,
        /// Chunks of each block that were begun.
        begun: Vec<usize>,
    }

    const CHUNKS: usize = 3;
    const BLOCKS: usize = 3;

    /// All that can happen next: a rail's oldest chunk arrives, or the next chunk is begun on any rail that
    /// may take it.
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

    /// Every state that can be reached; whether in all of them no chunk of a block arrived before the blocks
    /// before it were whole.
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
