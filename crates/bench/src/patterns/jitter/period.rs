//! Finds periodic events among events that mostly are not periodic.
//!
//! A comb has a period and a phase, which are taken from two events. It is followed through the
//! whole run from tooth to tooth; each tooth may be a little early or late, and may be missing. The
//! number of teeth that are hit is then compared with chance: if events fell anywhere, a tooth of
//! width `w` would be hit with the probability `q = 1 − exp(−rate · w)`, and as many hits or more
//! of the teeth (less the two that the comb was made of) have a binomial tail. That tail,
//! multiplied by the number of combs tried, must be below [`FALSE_ALARM`]. So noise is not taken
//! for periodic events, however many combs are tried.
//!
//! Tall events are examined separately first: a stall of 5 ms once a second is five events among
//! thousands of small ones, and visible only among the tallest. The events that a comb explains are
//! removed, and the rest is searched again.

use serde::{Deserialize, Serialize};

/// The probability of reporting a period where there is none, in one run.
const FALSE_ALARM: f64 = 1e-3;
/// Teeth that a comb must have, and share of them that must be hit.
const TEETH_MIN: usize = 5;
const HIT_SHARE_MIN: f64 = 0.5;
/// Teeth that are this early or late on average, as a share of the period, are not periodic,
/// however many are hit. Punctual teeth need only [`HIT_SHARE_MIN`]; between these limits, later
/// teeth need more hits. Events that follow each other at nearly equal distances (turns at a
/// processor) hit a loose comb far more often than the comparison with chance allows for, but never
/// punctually.
const WANDER_MAX: f64 = 0.01;
/// The distances of a tooth from its due time that are tried, as shares of the period.
const TOLERANCES: [f64; 3] = [0.001, 0.005, 0.03];
/// A comb whose teeth cover more of the time than this is not significant.
const COVER_MAX: f64 = 0.3;
/// Events that combs start from, and how many events later their second tooth may be.
const STARTS: usize = 24;
const SECOND_WITHIN: usize = 8;
/// The greatest height of an event, as a multiple of the median height of its series.
const OWN_REASON: f64 = 3.0;
/// Rhythms in one run at most.
const PERIODS_MAX: usize = 8;
/// Classes: the tallest 5, 8, 13, … events.
const CLASS_FIRST: usize = 5;
const CLASS_GROWTH: f64 = 1.6;
/// The number of events that are examined, the tallest ones.
const EVENTS_MAX: usize = 20_000;

/// Something that happened at a time, with a height.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Event {
    /// When, in ns since the start.
    pub at_ns: f64,
    /// The height, in any unit.
    pub height: f64,
}

/// A period that was found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Period {
    /// The time from one event to the next, in ns.
    pub period_ns: f64,
    /// When the first was due, in ns since the start.
    pub phase_ns: f64,
    /// Median height above the usual, in ns.
    pub height_ns: f64,
    /// Largest height.
    pub height_max_ns: f64,
    /// The number of events that occurred.
    pub came: usize,
    /// The number of events that were due.
    pub due: usize,
    /// The typical (median) distance of an event from its due time, in ns.
    pub wander_ns: f64,
    /// The probability of such a result by chance, in such a run.
    pub false_alarm: f64,
}

/// The rhythms of `events` in a run of `length_ns`, strongest first, and for each event which of
/// them explains it.
pub fn find(events: &[Event], length_ns: f64) -> (Vec<Period>, Vec<Option<usize>>) {
    let mut explained = vec![None; events.len()];
    let mut periods = Vec::new();
    // The indices of the events that are examined and not explained yet, in order of time.
    let mut left = tallest(events, (0..events.len()).collect(), EVENTS_MAX);
    while periods.len() < PERIODS_MAX {
        let grain_ns: Vec<f64> = periods.iter().map(|period: &Period| period.period_ns).collect();
        let Some(comb) = best_comb(events, &left, length_ns, &grain_ns) else { break };
        let hits = nearest_tooth(&comb, events, &left);
        let period = describe(&comb, events, &hits);
        // An event far taller than the rest of its series has a cause of its own, and perhaps a
        // period of its own: a stall once a second coincides with every hundredth tick.
        let ordinary = |index: &&usize| events[**index].height <= OWN_REASON * period.height_ns;
        let mut any = false;
        for &index in hits.iter().filter(ordinary) {
            explained[index] = Some(periods.len());
            any = true;
        }
        if !any {
            break;
        }
        left.retain(|index| explained[*index].is_none());
        periods.push(period);
    }
    (periods, explained)
}

#[derive(Debug, Clone)]
struct Comb {
    period_ns: f64,
    tolerance_ns: f64,
    /// Due times of all teeth, corrected by the hits before them.
    due_ns: Vec<f64>,
    hits: usize,
    /// Natural logarithm of the chance.
    log_chance: f64,
}

/// The `most` tallest of these, in order of time again.
fn tallest(events: &[Event], mut of: Vec<usize>, most: usize) -> Vec<usize> {
    of.sort_by(|a, b| events[*b].height.total_cmp(&events[*a].height));
    of.truncate(most);
    of.sort_by(|a, b| events[*a].at_ns.total_cmp(&events[*b].at_ns));
    of
}

fn best_comb(events: &[Event], left: &[usize], length_ns: f64, found_ns: &[f64]) -> Option<Comb> {
    let mut sizes = Vec::new();
    let mut size = CLASS_FIRST as f64;
    while (size as usize) < left.len() {
        sizes.push(size as usize);
        size *= CLASS_GROWTH;
    }
    sizes.push(left.len());
    let classes = sizes.len();
    let best = sizes
        .into_iter()
        .filter_map(|size| {
            let class = tallest(events, left.to_vec(), size);
            let times: Vec<f64> = class.iter().map(|index| events[*index].at_ns).collect();
            best_of_class(&times, length_ns, classes, found_ns)
        })
        .min_by(|a, b| a.log_chance.total_cmp(&b.log_chance))?;
    (best.log_chance <= FALSE_ALARM.ln()).then_some(best)
}

/// The comb that chance explains least among events at these (ascending) times.
fn best_of_class(times: &[f64], length_ns: f64, classes: usize, found_ns: &[f64]) -> Option<Comb> {
    let combs = candidates(times, length_ns);
    let tried = (combs.len() * TOLERANCES.len() * classes).max(1) as f64;
    let mut best: Option<Comb> = None;
    for (start, period_ns) in combs {
        for tolerance in TOLERANCES {
            let reach = Reach { tolerance_ns: tolerance * period_ns, grain_ns: grain(found_ns, period_ns) };
            let Some(mut comb) = follow(times, length_ns, start, period_ns, reach) else {
                continue;
            };
            comb.log_chance += tried.ln();
            if best.as_ref().is_none_or(|best| comb.log_chance < best.log_chance) {
                best = Some(comb);
            }
        }
    }
    best
}

/// Pairs of events: where a comb starts, and its period.
fn candidates(times: &[f64], length_ns: f64) -> Vec<(f64, f64)> {
    let longest = length_ns / (TEETH_MIN as f64 - 1.0);
    let every = (times.len() / STARTS).max(1);
    let mut combs = Vec::new();
    for at in (0..times.len()).step_by(every) {
        for second in at + 1..times.len().min(at + 1 + SECOND_WITHIN) {
            let period_ns = times[second] - times[at];
            if period_ns > 0.0 && period_ns <= longest {
                combs.push((times[at], period_ns));
            }
        }
    }
    combs
}

/// The greatest distance of a tooth from its due time, and its width in the comparison with chance.
#[derive(Debug, Clone, Copy)]
struct Reach {
    tolerance_ns: f64,
    grain_ns: f64,
}

/// A kernel does its work at ticks: once a tick has been found, other events may coincide with it,
/// and do not occur between two ticks. A slower comb hits them as often as if its teeth were a tick
/// wide.
fn grain(found_ns: &[f64], period_ns: f64) -> f64 {
    found_ns.iter().copied().filter(|found| 8.0 * found <= period_ns).fold(0.0, f64::max)
}

/// Follows a comb both ways from its start, and weighs it.
fn follow(times: &[f64], length_ns: f64, start: f64, period_ns: f64, reach: Reach) -> Option<Comb> {
    let Reach { tolerance_ns, grain_ns } = reach;
    let rate = times.len() as f64 / length_ns;
    let chance_of_a_hit = -(-rate * (2.0 * tolerance_ns).max(grain_ns)).exp_m1();
    if chance_of_a_hit > COVER_MAX {
        return None;
    }
    let mut forward = walk(times, length_ns, start, period_ns, tolerance_ns);
    let back = walk(times, length_ns, start, -period_ns, tolerance_ns);
    let hits = forward.hits + back.hits + 1;
    let wander_ns = (forward.off_ns + back.off_ns) / (forward.hits + back.hits).max(1) as f64;
    let mut before = back.due_ns;
    before.reverse();
    before.push(start);
    before.append(&mut forward.due_ns);
    let teeth = before.len();
    if teeth < TEETH_MIN || (hits as f64) < share_needed(wander_ns / period_ns) * teeth as f64 {
        return None;
    }
    // Two hits made the comb.
    let log_chance = log_binomial_tail(teeth - 2, hits.saturating_sub(2), chance_of_a_hit);
    let period_ns = (before[teeth - 1] - before[0]) / (teeth - 1) as f64;
    Some(Comb { period_ns, tolerance_ns, due_ns: before, hits, log_chance })
}

/// The share of the teeth that must be hit, by how early or late the hits are; above 1 no share
/// suffices.
fn share_needed(wander: f64) -> f64 {
    HIT_SHARE_MIN + (1.0 - HIT_SHARE_MIN) * wander / WANDER_MAX
}

/// One side of a comb.
#[derive(Debug, Default)]
struct Walk {
    due_ns: Vec<f64>,
    hits: usize,
    /// The sum of the distances of all hits from their due times.
    off_ns: f64,
}

/// The teeth after the start, until the end of the run. Each hit sets the time from
/// which the next is due, so that a small error of the period does not add up.
fn walk(times: &[f64], length_ns: f64, start: f64, step_ns: f64, tolerance_ns: f64) -> Walk {
    let mut walk = Walk::default();
    let mut last = start;
    // The period by the hits so far: the first estimate from two events has the error of both.
    let (mut step_ns, mut since_hit) = (step_ns, 1.0);
    let mut anchor = (start, 0.0);
    loop {
        let due = last + step_ns;
        if due < 0.0 || due > length_ns {
            return walk;
        }
        let found = nearest(times, due).filter(|at| (at - due).abs() <= tolerance_ns);
        anchor.1 += 1.0;
        if let Some(at) = found {
            walk.hits += 1;
            walk.off_ns += (at - due).abs();
            last = at;
            since_hit = 1.0;
            if anchor.1 >= 4.0 {
                step_ns = (at - anchor.0) / anchor.1;
            }
        } else {
            last = due;
            since_hit += 1.0;
            // Lost for good: what follows would be chance.
            if since_hit > 50.0 {
                return walk;
            }
        }
        walk.due_ns.push(last);
    }
}

/// The time closest to `to`.
fn nearest(times: &[f64], to: f64) -> Option<f64> {
    let after = times.partition_point(|at| *at < to);
    let candidates = [after.checked_sub(1).and_then(|before| times.get(before)), times.get(after)];
    candidates.into_iter().flatten().copied().min_by(|a, b| (a - to).abs().total_cmp(&(b - to).abs()))
}

/// Logarithm of P(Bin(n, p) ≥ k), from above.
fn log_binomial_tail(n: usize, k: usize, p: f64) -> f64 {
    let (n, k) = (n as f64, k as f64);
    if k <= n * p || n == 0.0 {
        return 0.0;
    }
    if k >= n {
        return n * p.ln();
    }
    // Chernoff's bound: exp(−n · KL(k/n ‖ p)).
    let share = k / n;
    -n * (share * (share / p).ln() + (1.0 - share) * ((1.0 - share) / (1.0 - p)).ln())
}

/// Events (of those left) that lie on teeth: the one closest to each.
fn nearest_tooth(comb: &Comb, events: &[Event], left: &[usize]) -> Vec<usize> {
    let mut on_teeth = Vec::new();
    for due in &comb.due_ns {
        let after = left.partition_point(|index| events[*index].at_ns < due - comb.tolerance_ns);
        // Of several events within reach the tallest one: the small ones are noise.
        let within =
            left[after..].iter().take_while(|index| events[**index].at_ns <= due + comb.tolerance_ns);
        on_teeth.extend(within.max_by(|a, b| events[**a].height.total_cmp(&events[**b].height)));
    }
    on_teeth.dedup();
    on_teeth
}

fn describe(comb: &Comb, events: &[Event], hits: &[usize]) -> Period {
    let median = |values: Vec<f64>| crate::stats::median(&values).unwrap_or(0.0);
    let heights: Vec<f64> = hits.iter().map(|index| events[*index].height).collect();
    let first = comb.due_ns.first().copied().unwrap_or(0.0);
    // Against a comb with equal steps: what a clock would do.
    let wander = hits
        .iter()
        .map(|index| {
            let teeth = (events[*index].at_ns - first) / comb.period_ns;
            (teeth - teeth.round()).abs() * comb.period_ns
        })
        .collect();
    Period {
        period_ns: comb.period_ns,
        phase_ns: first,
        height_max_ns: heights.iter().copied().fold(0.0, f64::max),
        height_ns: median(heights),
        came: hits.len(),
        due: comb.due_ns.len().max(comb.hits),
        wander_ns: median(wander),
        false_alarm: comb.log_chance.exp(),
    }
}

#[cfg(test)]
mod tests;
