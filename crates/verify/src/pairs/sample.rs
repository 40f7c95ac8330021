//! Selects the pairs to measure where measuring all would take too long.
//!
//! Pairs grow with the square of the nodes. A sample takes the nodes as a ring and links each with those at a
//! few distances from it: so every node has equally many links in it, and a bad node shows as one.

use bench::rng::Rng;

use super::shuffle;

/// An ordered pair, by the seats of its ends.
type Pair = (usize, usize);

/// Pairs that nothing is said against, beside which suspects are measured again: so many for each suspect,
/// and at least.
const CONTROLS_EACH: usize = 2;
const CONTROLS_MIN: usize = 32;

/// All pairs if they are at most `most`; otherwise about as many, both directions of a link each, the same
/// number for every node and at least two. Which ones depends on the seed.
pub(super) fn of(pairs: Vec<Pair>, seats: usize, most: usize, seed: u64) -> Vec<Pair> {
    if pairs.len() <= most {
        return pairs;
    }
    let mut distances: Vec<usize> = (1..=seats / 2).collect();
    shuffle(&mut distances, &mut Rng::new(seed));
    // A distance links every seat with another (that of half a ring every other one): two pairs for each
    // seat.
    distances.truncate((most / (2 * seats)).max(1));
    let distance = |(a, b): &Pair| a.abs_diff(*b).min(seats - a.abs_diff(*b));
    pairs.into_iter().filter(|pair| distances.contains(&distance(pair))).collect()
}

/// The suspects with enough other pairs to be compared with, drawn from all.
pub(super) fn with_controls(pairs: &[Pair], is_suspect: impl Fn(&Pair) -> bool, seed: u64) -> Vec<Pair> {
    let (mut chosen, mut others): (Vec<Pair>, Vec<Pair>) = pairs.iter().copied().partition(is_suspect);
    shuffle(&mut others, &mut Rng::new(seed));
    others.truncate((chosen.len() * CONTROLS_EACH).max(CONTROLS_MIN));
    chosen.append(&mut others);
    chosen
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn all(seats: usize) -> Vec<Pair> {
        (0..seats).flat_map(|a| (0..seats).filter(move |b| *b != a).map(move |b| (a, b))).collect()
    }

    #[test]
    fn what_fits_is_measured_whole() {
        assert_eq!(of(all(9), 9, 342, 1), all(9));
        assert_eq!(of(all(19), 19, 342, 1).len(), 19 * 18);
    }

    #[test]
    fn a_sample_is_bounded_and_has_every_node_equally_often_in_both_directions() {
        for seats in [20, 21, 64, 65] {
            let sample = of(all(seats), seats, 342, 7);
            assert!(sample.len() <= 342 && sample.len() > 120, "{seats}: {}", sample.len());
            assert!(sample.iter().all(|(a, b)| sample.contains(&(*b, *a))));
            let of_seat = |seat| sample.iter().filter(|(a, _)| *a == seat).count();
            // The distance of half of an even ring leads to one node, the others to two.
            assert!((0..seats).all(|seat| of_seat(seat) == of_seat(0) && of_seat(seat) > 0));
        }
        assert_ne!(of(all(64), 64, 342, 1), of(all(64), 64, 342, 2), "another seed, other pairs");
        assert!(of(all(300), 300, 342, 1).len() <= 600, "one link in each direction for each node at least");
    }

    #[test]
    fn suspects_are_measured_beside_twice_as_many_others_and_a_small_cluster_whole() {
        let pairs = all(64);
        assert_eq!(with_controls(&pairs, |pair| *pair == (3, 9), 1).len(), 1 + CONTROLS_MIN);
        let many = with_controls(&pairs, |(a, _)| *a < 10, 1);
        assert_eq!(many.iter().filter(|(a, _)| *a < 10).count(), 630);
        assert_eq!(many.len(), 630 * 3);
        let small = with_controls(&all(4), |pair| *pair == (0, 1), 1);
        assert_eq!(small.into_iter().collect::<BTreeSet<_>>(), all(4).into_iter().collect());
    }
}
