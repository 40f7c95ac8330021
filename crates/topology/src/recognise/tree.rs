//! Recognises trees. A graph is a tree if this holds: levels are distances from the leaves; then cables
//! must join neighbouring levels, and each two leaves must reach each other by going up and then
//! down.

use super::switches::Switches;
use super::{Opinion, Shape, spread};
use crate::{counted, verb};

/// Leaves from which the way to all others is examined.
const SAMPLE: usize = 48;

/// Switches that hosts hang from, but for those of the top (a node for management at a spine).
pub(super) fn leaves(switches: &Switches<'_>) -> Vec<usize> {
    let leaf = crate::leaves::leaves(&switches.hosts, &switches.beside);
    (0..switches.len()).filter(|at| leaf[*at]).collect()
}

/// The level of each switch, from 1 on, and which are leaves. A switch that lost everything below it gets the
/// level that its other cables indicate.
fn levels(switches: &Switches<'_>) -> (Vec<u8>, Vec<usize>) {
    let (rank, leaf) = crate::leaves::ranks(&switches.hosts, &switches.beside);
    let level = rank.iter().map(|steps| u8::try_from(steps.saturating_add(1)).unwrap_or(u8::MAX)).collect();
    (level, (0..leaf.len()).filter(|at| leaf[*at]).collect())
}

pub(super) fn judge(switches: &Switches<'_>) -> Option<Opinion> {
    let (level, leaves) = levels(switches);
    if leaves.is_empty() {
        return None;
    }
    let top = level.iter().copied().max().unwrap_or(1);
    let (mut cables, mut level_ones) = (0_usize, 0_usize);
    for (a, b) in switches.pairs() {
        cables += 1;
        level_ones += usize::from(level[a] == level[b]);
    }
    let mut against = Vec::new();
    if cables == 0 || top < 2 {
        // One switch is a tree, and nothing can be wrong with it; several without a level above are none.
        let one = switches.len() == 1 && switches.left_out == 0;
        let shape = Shape::Tree { levels: 1, level: spread(switches, &level, 0, false) };
        return one.then_some(Opinion { shape, confidence: 1.0, against });
    }
    let sideways = level_ones as f64 / cables as f64;
    if level_ones > 0 {
        against.push(format!("{level_ones} of {cables} connected pairs of switches are of one level"));
    }
    let is_leaf = |at: &usize| leaves.binary_search(at).is_ok();
    let strangers = (0..switches.len()).filter(|at| switches.hosts[*at] > 0 && !is_leaf(at));
    let (strangers, theirs) = strangers.fold((0, 0), |all, at| (all.0 + 1, all.1 + switches.hosts[at]));
    let strange = f64::from(theirs) / f64::from(switches.hosts.iter().sum::<u32>().max(1));
    if strangers > 0 {
        against.push(format!(
            "{} above the leaves {} hosts, {:.1} % of all",
            counted(strangers, "switch"),
            verb(strangers, "has", "have"),
            100.0 * strange
        ));
    }
    let reached = reach(switches, &level, &leaves);
    if reached < 1.0 {
        against.push(format!("{:.1} % of pairs of leaves have no up/down route", 100.0 * (1.0 - reached)));
    }
    let single = narrow(switches, &level);
    if single > 0.0 {
        against
            .push(format!("{:.1} % of switches above the leaves have fewer than two below", 100.0 * single));
    }
    let confidence = (1.0 - 4.0 * sideways).max(0.0) * reached.powi(2) * (1.0 - single) * (1.0 - strange);
    let shape = Shape::Tree { levels: u32::from(top), level: spread(switches, &level, 0, false) };
    Some(Opinion { shape, confidence, against })
}

/// The share of pairs of leaves with a way up and then down.
fn reach(switches: &Switches<'_>, level: &[u8], leaves: &[usize]) -> f64 {
    let step = leaves.len().div_ceil(SAMPLE);
    let (mut pairs, mut joined) = (0_usize, 0_usize);
    for leaf in leaves.iter().step_by(step) {
        let up = switches.distances(&[*leaf], |from, to| level[to] > level[from]);
        let above: Vec<usize> = (0..level.len()).filter(|at| up[*at] != u32::MAX).collect();
        let down = switches.distances(&above, |from, to| level[to] < level[from]);
        pairs += leaves.len();
        joined += leaves.iter().filter(|other| down[**other] != u32::MAX).count();
    }
    joined as f64 / pairs as f64
}

/// The share of switches above the leaves that have less than two below them: a chain is no tree.
fn narrow(switches: &Switches<'_>, level: &[u8]) -> f64 {
    let above: Vec<usize> =
        (0..level.len()).filter(|at| level[*at] > 1 && switches.hosts[*at] == 0).collect();
    let below =
        |at: usize| switches.beside[at].iter().filter(|other| level[**other as usize] < level[at]).count();
    let few = above.iter().filter(|at| below(**at) < 2).count();
    few as f64 / above.len().max(1) as f64
}
