//! The distances between all switches, and whether the route begins downwards.
//!
//! One matrix, in chunks of columns that fit a processor's cache and are computed side by side: a row of a
//! chunk is the minimum of the neighbours' rows plus one, which compilers turn into vector instructions.

use rayon::prelude::*;

use super::ranks::Ranks;
use super::view::{Neighbour, View};

/// The next hops of a switch to each destination of a chunk.
pub(crate) struct Onward {
    /// Do all neighbours that the plan knows above the switch lead there? (Only for routes that begin
    /// upwards.)
    pub(crate) climb: [bool; WIDTH],
    /// Over how many neighbours a route leads there that does not begin upwards.
    pub(crate) below: [u16; WIDTH],
    /// The last of those, by its place among the switch's neighbours.
    pub(crate) only: [u16; WIDTH],
}

/// Columns a chunk.
pub(crate) const WIDTH: usize = 64;
/// Set where the route goes up first.
const UP: u16 = 0x4000;
/// Hops without the flag.
const HOPS: u16 = 0x3FFF;
/// No route.
const NONE: u16 = HOPS;

/// Hops of the legal routes between all switches.
#[derive(Debug, Clone)]
pub(crate) struct Distances {
    chunks: Vec<Vec<u16>>,
    ruled: bool,
}

impl Distances {
    /// Routes that go up first and then only down. A switch above the destination goes down at once, even if
    /// a route over the top were shorter: tables do not know where a packet came from.
    pub(crate) fn up_down(view: &View, ranks: &Ranks) -> Self {
        let halves = Halves::of(view, ranks);
        Self { chunks: chunks(view, |at, hops| halves.fill(ranks, at, hops)), ruled: true }
    }

    /// Shortest routes, whatever their direction.
    pub(crate) fn shortest(view: &View) -> Self {
        Self { chunks: chunks(view, |at, hops| breadth_first(view, at, hops)), ruled: false }
    }

    /// An empty matrix.
    pub(crate) fn none() -> Self {
        Self { chunks: Vec::new(), ruled: false }
    }

    fn at(&self, sw: usize, destination: usize) -> u16 {
        self.chunks[destination / WIDTH][sw * WIDTH + destination % WIDTH]
    }

    /// Hops from a switch to another, if there is a route.
    pub(crate) fn hops(&self, sw: usize, destination: usize) -> Option<u16> {
        let hops = self.at(sw, destination) & HOPS;
        (hops != NONE).then_some(hops)
    }

    /// Does the route begin upwards? (Only of routes that have a direction.)
    pub(crate) fn is_up(&self, sw: usize, destination: usize) -> bool {
        self.at(sw, destination) & UP != 0
    }

    /// Does a route from `sw` to `destination` lead over this neighbour?
    #[inline]
    pub(crate) fn leads(&self, ranks: &Ranks, sw: usize, over: usize, destination: usize) -> bool {
        let chunk = &self.chunks[destination / WIDTH];
        let column = destination % WIDTH;
        let (here, there) = (chunk[sw * WIDTH + column], chunk[over * WIDTH + column]);
        if here & HOPS == NONE || (there & HOPS) + 1 != here & HOPS {
            return false;
        }
        let up = self.ruled && ranks.is_up(sw, over);
        !self.ruled || up == (here & UP != 0) && (up || there & UP == 0)
    }

    /// Is a neighbour that is above a switch one hop nearer to where the switch's route, which begins
    /// upwards, leads?
    #[inline]
    pub(crate) fn climbs(&self, sw: usize, over: usize, destination: usize) -> bool {
        let chunk = &self.chunks[destination / WIDTH];
        let column = destination % WIDTH;
        let (here, there) = (chunk[sw * WIDTH + column], chunk[over * WIDTH + column]);
        (there & HOPS) + 1 == here & HOPS
    }

    /// The next hops of a switch to the [`WIDTH`] destinations of a chunk. `up` are the neighbours that a
    /// plan knows above it.
    pub(crate) fn onward(&self, view: &View, ranks: &Ranks, sw: usize, chunk: usize, up: &[u32]) -> Onward {
        let hops = &self.chunks[chunk];
        let mut onward = Onward { climb: [true; WIDTH], below: [0; WIDTH], only: [0; WIDTH] };
        let here: &[u16] = &hops[sw * WIDTH..][..WIDTH];
        for over in up {
            let there = &hops[*over as usize * WIDTH..][..WIDTH];
            for ((all, here), there) in onward.climb.iter_mut().zip(here).zip(there) {
                *all &= (there & HOPS) + 1 == here & HOPS;
            }
        }
        for (place, near) in view.neighbours(sw).iter().enumerate() {
            let over = near.sw as usize;
            if self.ruled && ranks.is_up(sw, over) {
                continue;
            }
            let there = &hops[over * WIDTH..][..WIDTH];
            // With the flags: a route that goes down at once leads over neighbours that do so, too.
            let each = onward.below.iter_mut().zip(&mut onward.only).zip(here.iter().zip(there));
            for ((below, only), (here, there)) in each {
                let leads = there + 1 == *here;
                *below += u16::from(leads);
                *only = if leads { place as u16 } else { *only };
            }
        }
        onward
    }

    /// For each destination the switches that have no route to it, in rising order.
    pub(crate) fn gaps(&self, switches: usize) -> Vec<Vec<u32>> {
        let of_chunk = |chunk: &Vec<u16>| {
            let mut gaps = vec![Vec::new(); WIDTH];
            for (sw, hops) in chunk.chunks(WIDTH).enumerate() {
                // Most rows have no gap.
                if hops.iter().fold(false, |any, hops| any | (hops & HOPS == NONE)) {
                    let none = hops.iter().enumerate().filter(|(_, hops)| **hops & HOPS == NONE);
                    none.for_each(|(column, _)| gaps[column].push(sw as u32));
                }
            }
            gaps
        };
        let mut gaps: Vec<Vec<u32>> = self.chunks.par_iter().flat_map_iter(of_chunk).collect();
        gaps.truncate(switches);
        gaps
    }

    /// The neighbours over which routes from `sw` to `destination` lead.
    pub(crate) fn over<'a>(
        &'a self,
        view: &'a View,
        ranks: &'a Ranks,
        sw: usize,
        destination: usize,
    ) -> impl Iterator<Item = Neighbour> + 'a {
        let leads = move |near: &Neighbour| self.leads(ranks, sw, near.sw as usize, destination);
        view.neighbours(sw).iter().copied().filter(leads)
    }
}

/// Fills all chunks of columns; a chunk begins at a column and is full of [`NONE`].
fn chunks(view: &View, fill: impl Fn(usize, &mut [u16]) + Sync) -> Vec<Vec<u16>> {
    let count = view.switch_count().div_ceil(WIDTH);
    let chunk = |index: usize| {
        let mut hops = vec![NONE; view.switch_count() * WIDTH];
        fill(index * WIDTH, &mut hops);
        hops
    };
    (0..count).into_par_iter().map(chunk).collect()
}

fn breadth_first(view: &View, at: usize, hops: &mut [u16]) {
    let mut queue: Vec<u32> = Vec::with_capacity(view.switch_count());
    let mut column_hops = vec![NONE; view.switch_count()];
    for column in 0..WIDTH.min(view.switch_count() - at) {
        column_hops.fill(NONE);
        queue.clear();
        queue.push((at + column) as u32);
        column_hops[at + column] = 0;
        let mut next = 0;
        while next < queue.len() {
            let sw = queue[next] as usize;
            next += 1;
            let further = (column_hops[sw] + 1).min(NONE - 1);
            for near in view.neighbours(sw) {
                let there = &mut column_hops[near.sw as usize];
                if *there == NONE {
                    *there = further;
                    queue.push(near.sw);
                }
            }
        }
        for sw in queue.drain(..) {
            hops[sw as usize * WIDTH + column] = column_hops[sw as usize];
        }
    }
}

/// Pairs of switches between which cables lead, but no legal route.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Missing {
    /// Of switches that carry ends of traffic.
    pub(crate) pairs: usize,
    /// Of leaves that carry them.
    pub(crate) of_leaves: usize,
    /// How many pairs of such leaves there are.
    pub(crate) leaves: usize,
    /// The first of the pairs, one of leaves if there is one.
    pub(crate) first: Option<(usize, usize)>,
}

impl Missing {
    pub(crate) fn of(view: &View, ranks: &Ranks, distances: &Distances, components: &[u32]) -> Self {
        let carries: Vec<usize> = (0..view.switch_count()).filter(|sw| view.hosts(*sw) > 0).collect();
        let mut missing = Self::default();
        let mut of_leaf = None;
        for from in &carries {
            for to in &carries {
                let leaves = ranks.is_leaf(*from) && ranks.is_leaf(*to);
                missing.leaves += usize::from(leaves);
                if components[*from] == components[*to] && distances.hops(*from, *to).is_none() {
                    missing.pairs += 1;
                    missing.of_leaves += usize::from(leaves);
                    missing.first = missing.first.or(Some((*from, *to)));
                    of_leaf = of_leaf.or(leaves.then_some((*from, *to)));
                }
            }
        }
        missing.first = of_leaf.or(missing.first);
        missing
    }
}

/// Neighbours above and below each switch.
struct Halves {
    above: Vec<Vec<u32>>,
    below: Vec<Vec<u32>>,
}

impl Halves {
    fn of(view: &View, ranks: &Ranks) -> Self {
        let side = |up: bool| -> Vec<Vec<u32>> {
            let of_switch = |sw: usize| {
                let all = view.neighbours(sw).iter().map(|near| near.sw);
                all.filter(|near| ranks.is_up(sw, *near as usize) == up).collect()
            };
            (0..view.switch_count()).map(of_switch).collect()
        };
        Self { above: side(true), below: side(false) }
    }

    fn fill(&self, ranks: &Ranks, at: usize, hops: &mut [u16]) {
        let switches = hops.len() / WIDTH;
        for sw in ranks.order().iter().rev() {
            let sw = *sw as usize;
            let mut best = further(hops, &self.below[sw]);
            if (at..(at + WIDTH).min(switches)).contains(&sw) {
                best[sw - at] = 0;
            }
            hops[sw * WIDTH..][..WIDTH].copy_from_slice(&best);
        }
        for sw in ranks.order() {
            let sw = *sw as usize;
            let best = further(hops, &self.above[sw]);
            for (own, over) in hops[sw * WIDTH..][..WIDTH].iter_mut().zip(best) {
                *own = if *own == NONE && over != NONE { over | UP } else { *own };
            }
        }
    }
}

/// One hop more than the nearest of some neighbours knows.
#[inline]
fn further(hops: &[u16], neighbours: &[u32]) -> [u16; WIDTH] {
    // As signed numbers, for whose minimum every processor has an instruction; no value here reaches the sign
    // bit.
    let mut best = [NONE as i16; WIDTH];
    for near in neighbours {
        for (best, there) in best.iter_mut().zip(&hops[*near as usize * WIDTH..][..WIDTH]) {
            *best = (*best).min((*there & HOPS) as i16);
        }
    }
    best.map(|best| (best as u16 + 1).min(NONE))
}
