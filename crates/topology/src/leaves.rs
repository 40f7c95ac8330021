//! Finds the leaf switches of a tree, and the levels of all others.
//!
//! Most leaves have many hosts, and that shows them. A switch with few is judged by what hangs from it: the
//! top of a tree joins pieces that have nothing in common below it, and each of its cables leads down to
//! other leaves; all cables of a leaf lead to switches that reach the same leaves. So a leaf of one host is a
//! leaf, and a spine with a node for storage or management is none, also where cables are missing.
//!
//! The rank of a switch is its distance from the leaves, unless its cables contradict: where leaves hang from
//! the top (an island of storage), the top is next to them and stands no lower for that.

use std::cmp::Reverse;
use std::collections::{BTreeSet, VecDeque};

/// Not reached.
pub(crate) const FAR: u32 = u32::MAX;
/// A switch with less than one in so many of the hosts of a usual leaf is judged by its cables.
const FEW: u32 = 4;
/// Rounds of judging: each can uncover switches behind those that it found. More levels than any tree has.
const ROUNDS: usize = 8;
/// From how many neighbours each leaf below is reached on average when a switch is itself a leaf. One is a
/// switch of the top, which reaches each leaf by one of its cables; a leaf with two cables up reaches each by
/// two.
const SHARED: f64 = 1.5;

/// Which switches are leaves, by the hosts at each and the switches beside each.
pub(crate) fn leaves(hosts: &[u32], beside: &[Vec<u32>]) -> Vec<bool> {
    let usual = usual(hosts);
    let enough = usual.div_ceil(FEW).max(1);
    let mut leaf: Vec<bool> = hosts.iter().map(|count| *count >= enough).collect();
    for _ in 0..ROUNDS {
        let found = fewer(hosts, beside, &leaf);
        if found.is_empty() {
            break;
        }
        found.into_iter().for_each(|at| leaf[at] = true);
    }
    leaf
}

/// The hosts of the switch where the middle host hangs: switches with few, however many there are, do not
/// change it.
fn usual(hosts: &[u32]) -> u32 {
    let mut counts: Vec<u32> = hosts.iter().copied().filter(|count| *count > 0).collect();
    counts.sort_unstable();
    let all: u64 = counts.iter().map(|count| u64::from(*count)).sum();
    let mut seen = 0;
    let middle = counts.iter().find(|count| {
        seen += u64::from(**count);
        2 * seen >= all
    });
    middle.copied().unwrap_or(1)
}

/// The rank of each switch, [`FAR`] where no leaf reaches; and which are leaves.
pub(crate) fn ranks(hosts: &[u32], beside: &[Vec<u32>]) -> (Vec<u32>, Vec<bool>) {
    let mut leaf = leaves(hosts, beside);
    let mut rank = distances(beside, &leaf);
    // Where all are leaves there is nothing to be above.
    if rank.iter().any(|rank| *rank > 0 && *rank != FAR) {
        settle(&mut rank, &leaf, beside);
    }
    // What other switches hang from is none.
    for at in (0..leaf.len()).filter(|at| rank[*at] > 0 && rank[*at] != FAR) {
        leaf[at] &= beside[at].iter().all(|other| rank[*other as usize] > rank[at]);
    }
    (rank, leaf)
}

/// Moves switches to where more of their neighbours are one rank away, those with the most that are not
/// first, as long as any gains. A tree gains nothing, and of a graph that is none each switch stays between
/// its neighbours.
fn settle(rank: &mut [u32], leaf: &[bool], beside: &[Vec<u32>]) {
    let wrong = |rank: &[u32], at: usize, own: u32| {
        beside[at].iter().filter(|other| rank[**other as usize].abs_diff(own) != 1).count()
    };
    let mut key: Vec<usize> =
        (0..rank.len()).map(|at| if rank[at] == FAR { 0 } else { wrong(rank, at, rank[at]) }).collect();
    let waits = |(at, wrong): (usize, &usize)| (*wrong > 0).then_some((Reverse(*wrong), at));
    let mut waiting: BTreeSet<(Reverse<usize>, usize)> = key.iter().enumerate().filter_map(waits).collect();
    // Each move puts a cable right, so that there are at most as many as cables.
    while let Some((Reverse(now), at)) = waiting.pop_first() {
        let places = beside[at].iter().map(|other| rank[*other as usize]);
        let places: BTreeSet<u32> =
            places.flat_map(|there| [there.saturating_sub(1), there.saturating_add(1)]).collect();
        // Of equal places the highest, as what all lead down from is the top; and for a leaf the lowest.
        let order = |own: u32| if leaf[at] { own } else { u32::MAX - own };
        let best = places.into_iter().map(|own| (wrong(rank, at, own), order(own), own)).min();
        let Some((then, _, own)) = best.filter(|(then, ..)| *then < now) else { continue };
        rank[at] = own;
        key[at] = then;
        waiting.extend(waits((at, &then)));
        for other in beside[at].iter().map(|other| *other as usize) {
            waiting.remove(&(Reverse(key[other]), other));
            key[other] = wrong(rank, other, rank[other]);
            waiting.extend(waits((other, &key[other])));
        }
    }
}

/// Hops from the nearest leaf.
fn distances(beside: &[Vec<u32>], leaf: &[bool]) -> Vec<u32> {
    let mut far = vec![FAR; beside.len()];
    let mut queue: VecDeque<usize> = (0..leaf.len()).filter(|at| leaf[*at]).collect();
    queue.iter().for_each(|at| far[*at] = 0);
    while let Some(at) = queue.pop_front() {
        let further = far[at] + 1;
        for other in beside[at].iter().map(|other| *other as usize) {
            if far[other] == FAR {
                far[other] = further;
                queue.push_back(other);
            }
        }
    }
    far
}

/// Switches with few hosts that are leaves too.
fn fewer(hosts: &[u32], beside: &[Vec<u32>], leaf: &[bool]) -> Vec<usize> {
    let far = distances(beside, leaf);
    // What is below another is judged when that is: only where all cables lead down can be told which it is.
    let is_last = |at: usize| beside[at].iter().all(|other| far[*other as usize] < far[at]);
    let doubtful: Vec<usize> = (0..hosts.len())
        .filter(|at| hosts[*at] > 0 && !leaf[*at] && far[*at] != FAR && is_last(*at))
        .collect();
    if doubtful.is_empty() {
        return doubtful;
    }
    let below = Below::of(beside, leaf, &far);
    doubtful.into_iter().filter(|at| beside[*at].len() == 1 || below.shares(&beside[*at])).collect()
}

/// The leaves that each switch reaches going down, and what hangs together below each distance.
struct Below {
    words: usize,
    bits: Vec<u64>,
}

impl Below {
    fn of(beside: &[Vec<u32>], leaf: &[bool], far: &[u32]) -> Self {
        let count = leaf.iter().filter(|leaf| **leaf).count();
        let words = count.div_ceil(64);
        let mut bits = vec![0_u64; words * beside.len()];
        let mut order: Vec<usize> = (0..beside.len()).filter(|at| far[*at] != FAR).collect();
        order.sort_by_key(|at| far[*at]);
        let mut next = 0;
        for at in order {
            if leaf[at] {
                bits[at * words + next / 64] |= 1 << (next % 64);
                next += 1;
            }
            for other in beside[at].iter().map(|other| *other as usize).filter(|other| far[*other] < far[at])
            {
                for word in 0..words {
                    let theirs = bits[other * words + word];
                    bits[at * words + word] |= theirs;
                }
            }
        }
        Self { words, bits }
    }

    fn row(&self, at: u32) -> &[u64] {
        &self.bits[at as usize * self.words..][..self.words]
    }

    /// Do these switches hang together by the leaves that they reach, most leaves by several of them?
    fn shares(&self, over: &[u32]) -> bool {
        let Some((first, rest)) = over.split_first() else { return false };
        let mut all = self.row(*first).to_vec();
        let mut rest: Vec<u32> = rest.to_vec();
        let count = |bits: &[u64]| bits.iter().map(|word| u64::from(word.count_ones())).sum::<u64>();
        // What has a leaf in common with what was found belongs to it.
        while let Some(place) =
            rest.iter().position(|at| self.row(*at).iter().zip(&all).any(|(a, b)| a & b != 0))
        {
            let at = rest.swap_remove(place);
            all.iter_mut().zip(self.row(at)).for_each(|(all, one)| *all |= one);
        }
        let sum: u64 = over.iter().map(|at| count(self.row(*at))).sum();
        rest.is_empty() && sum as f64 >= SHARED * count(&all) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Switches wired in both directions, and which of them are leaves.
    fn judged(hosts: &[u32], pairs: &[(u32, u32)]) -> Vec<usize> {
        let mut beside = vec![Vec::new(); hosts.len()];
        for (a, b) in pairs {
            beside[*a as usize].push(*b);
            beside[*b as usize].push(*a);
        }
        (0..hosts.len()).filter(|at| leaves(hosts, &beside)[*at]).collect()
    }

    /// Each of the lower ones to each of the upper ones.
    fn full(lower: std::ops::Range<u32>, upper: std::ops::Range<u32>) -> Vec<(u32, u32)> {
        lower.flat_map(|a| upper.clone().map(move |b| (a, b))).collect()
    }

    #[test]
    fn a_leaf_of_one_host_is_a_leaf_and_a_spine_with_one_is_none() {
        // Leaves 0 to 4, spines 5 to 7.
        assert_eq!(judged(&[8, 8, 8, 8, 1, 1, 1, 1], &full(0..5, 5..8)), [0, 1, 2, 3, 4]);
        assert_eq!(judged(&[8, 8, 8, 8, 8, 0, 1, 0], &full(0..5, 5..8)), [0, 1, 2, 3, 4]);
        // A spine that lost half of its cables is none either.
        let mut rest = full(0..5, 5..8);
        rest.retain(|pair| pair.1 != 7 || pair.0 < 2);
        assert_eq!(judged(&[8, 8, 8, 8, 1, 1, 1, 1], &rest), [0, 1, 2, 3, 4]);
    }

    #[test]
    fn the_top_stands_above_leaves_that_hang_from_it() {
        // Pods of leaves 0 to 2 and 5 to 7 under 3, 4 and 8, 9; tops 10, 11 join both, and leaf 12 hangs from
        // them.
        let mut pairs = [full(0..3, 3..5), full(5..8, 8..10), full(12..13, 10..12)].concat();
        pairs.extend([(3, 10), (8, 10), (4, 11), (9, 11)]);
        let mut beside = vec![Vec::new(); 13];
        for (a, b) in &pairs {
            beside[*a as usize].push(*b);
            beside[*b as usize].push(*a);
        }
        let (rank, leaf) = ranks(&[6, 6, 6, 0, 0, 6, 6, 6, 0, 0, 0, 0, 6], &beside);
        assert_eq!(rank, [0, 0, 0, 1, 1, 0, 0, 0, 1, 1, 2, 2, 1]);
        assert!(leaf[12] && !leaf[10]);
    }

    #[test]
    fn leaves_of_a_pod_are_told_from_the_top() {
        // Pods of leaves 0 to 2 and 5 to 7 under 3, 4 and 8, 9; tops 10, 11 join both.
        let mut pairs = [full(0..3, 3..5), full(5..8, 8..10)].concat();
        pairs.extend([(3, 10), (8, 10), (4, 11), (9, 11)]);
        let mut hosts = [6, 6, 1, 1, 1, 6, 6, 6, 1, 1, 1, 1];
        assert_eq!(judged(&hosts, &pairs), [0, 1, 2, 5, 6, 7]);
        // A pod of which all leaves have few.
        hosts[..3].fill(1);
        assert_eq!(judged(&hosts, &pairs), [0, 1, 2, 5, 6, 7]);
    }
}
