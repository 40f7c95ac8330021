//! Recognises dragonflies. Switches of one group have most of their neighbours in common; those of
//! two groups do not.

use std::collections::{BTreeMap, HashSet};

use super::switches::{Sets, Switches};
use super::tree::leaves;
use super::{Opinion, Shape, spread};

/// A dragonfly whose groups are complete.
pub(super) fn judge(switches: &Switches<'_>) -> Option<Opinion> {
    let mut sets = Sets::new(switches.len());
    for (a, b) in switches.pairs() {
        let fewer = switches.beside[a].len().min(switches.beside[b].len());
        // Without faults a group of a has a − 2 common neighbours, of a − 1 and as many global ones as are
        // usual.
        if fewer > 1 && switches.common(a, b) * 3 >= fewer {
            sets.join(a, b);
        }
    }
    let (group, count) = sets.numbered();
    let (group, count) = bring_home(switches, group, count);
    let members = members(&group, count);
    let mut inner = 0;
    for (a, b) in switches.pairs() {
        inner += usize::from(group[a] == group[b]);
    }
    let possible: usize = members.iter().map(|size| size * (size - 1) / 2).sum();
    if count < 2 || possible == 0 {
        return None;
    }
    let density = inner as f64 / possible as f64;
    let mut against = Vec::new();
    if density < 1.0 {
        against.push(format!("{:.1} % of pairs within a group are not connected", 100.0 * (1.0 - density)));
    }
    let whole = (1.0 - 2.0 * (1.0 - density)).max(0.0);
    let confidence = whole * evenness(&members, &mut against) * met(switches, &group, count, &mut against);
    let shape =
        Shape::Dragonfly { groups: count, group: spread(switches, &group, u32::MAX, true), plus: false };
    Some(Opinion { shape, confidence, against })
}

/// A dragonfly whose groups are trees of two levels, and whose spines are wired to those of other groups.
pub(super) fn judge_plus(switches: &Switches<'_>) -> Option<Opinion> {
    let leaves = leaves(switches);
    let steps = switches.distances(&leaves, |_, _| true);
    let level: Vec<u8> =
        steps.iter().map(|steps| u8::try_from(steps.saturating_add(1)).unwrap_or(u8::MAX)).collect();
    if leaves.is_empty() || level.iter().any(|level| *level > 2) || leaves.len() == switches.len() {
        return None;
    }
    let mut sets = Sets::new(switches.len());
    let mut upright = 0;
    for (a, b) in switches.pairs() {
        if level[a] != level[b] {
            sets.join(a, b);
            upright += 1;
        }
    }
    let (group, count) = sets.numbered();
    if count < 2 {
        return None;
    }
    let of_level = |wanted: u8| {
        let mut sizes = vec![0_usize; count as usize];
        (0..level.len()).filter(|at| level[*at] == wanted).for_each(|at| sizes[group[at] as usize] += 1);
        sizes
    };
    let (low, high) = (of_level(1), of_level(2));
    let possible: usize = low.iter().zip(&high).map(|(low, high)| low * high).sum();
    let density = f64::from(upright) / possible.max(1) as f64;
    let mut against = Vec::new();
    if density < 1.0 {
        against.push(format!(
            "{:.1} % of leaves and spines of a group are not connected",
            100.0 * (1.0 - density)
        ));
    }
    // Two trees with a cable between them are no dragonfly: global cables are at all spines.
    let outward = |at: &usize| switches.beside[*at].iter().any(|other| level[*other as usize] == 2);
    let spines: Vec<usize> = (0..level.len()).filter(|at| level[*at] == 2).collect();
    let share = spines.iter().filter(|at| outward(at)).count() as f64 / spines.len().max(1) as f64;
    if share < 1.0 {
        against.push(format!("{:.1} % of spines have no cable to another group", 100.0 * (1.0 - share)));
    }
    let sideways = switches.pairs().filter(|(a, b)| level[*a] == level[*b] && level[*a] == 1).count();
    if sideways > 0 {
        against.push(format!("{sideways} pairs of leaves are connected to each other"));
    }
    let straight = 1.0 - (4.0 * sideways as f64 / f64::from(upright).max(1.0)).min(1.0);
    let whole = (1.0 - 2.0 * (1.0 - density)).max(0.0) * share * straight;
    let confidence = whole * evenness(&low, &mut against) * met(switches, &group, count, &mut against);
    let shape =
        Shape::Dragonfly { groups: count, group: spread(switches, &group, u32::MAX, true), plus: true };
    Some(Opinion { shape, confidence, against })
}

/// Switches that lost so many cables that they look alone join the group that most of their cables lead to.
fn bring_home(switches: &Switches<'_>, group: Vec<u32>, count: u32) -> (Vec<u32>, u32) {
    let sizes = members(&group, count);
    let mut sorted = sizes.clone();
    sorted.sort_unstable();
    let usual = sorted.get(sorted.len() / 2).copied().unwrap_or(0);
    let is_small = |at: usize| sizes[group[at] as usize] * 2 <= usual;
    let mut sets = Sets::new(switches.len());
    let mut first = BTreeMap::new();
    for at in 0..switches.len() {
        let mut votes = BTreeMap::new();
        if is_small(at) {
            let others =
                switches.beside[at].iter().map(|other| *other as usize).filter(|other| !is_small(*other));
            others.for_each(|other| *votes.entry(group[other]).or_insert(0) += 1);
        }
        let home = votes.into_iter().max_by_key(|vote| vote.1).filter(|vote| vote.1 > 1);
        let home = home.map_or(group[at], |vote| vote.0);
        sets.join(*first.entry(home).or_insert(at), at);
    }
    sets.numbered()
}

fn members(group: &[u32], count: u32) -> Vec<usize> {
    let mut sizes = vec![0; count as usize];
    group.iter().for_each(|group| sizes[*group as usize] += 1);
    sizes
}

/// How equal groups are in size: a group of less than three quarters of the largest contradicts the count of
/// groups.
fn evenness(sizes: &[usize], against: &mut Vec<String>) -> f64 {
    let largest = sizes.iter().copied().max().unwrap_or(0);
    let odd = sizes.iter().filter(|size| **size * 4 < largest * 3).count();
    if odd > 0 {
        against.push(format!("much smaller than the largest are {odd} of {} groups", sizes.len()));
    }
    (1.0 - 5.0 * odd as f64 / sizes.len().max(1) as f64).max(0.0)
}

/// The share of pairs of groups that are wired to each other.
fn met(switches: &Switches<'_>, group: &[u32], count: u32, against: &mut Vec<String>) -> f64 {
    let met: HashSet<(u32, u32)> = switches
        .pairs()
        .map(|(a, b)| (group[a].min(group[b]), group[a].max(group[b])))
        .filter(|pair| pair.0 != pair.1)
        .collect();
    let all = u64::from(count) * u64::from(count - 1) / 2;
    let share = met.len() as f64 / all as f64;
    if share < 1.0 {
        against.push(format!("{} of {all} pairs of groups are not connected", all - met.len() as u64));
    }
    share
}
