//! Finds what comes back at regular intervals among events that mostly do not.
//!
//! A comb of a period and a phase, taken from two events, is followed through the whole run from tooth to tooth; each tooth
//! may be a little early or late, and may be missing. How many teeth are hit is then weighed against chance: if events fell
//! anywhere, a tooth of width `w` would be hit with the probability `q = 1 − exp(−rate · w)`, and as many hits or more
//! of the teeth (less the two that the comb was made of) have a binomial tail. That tail, multiplied by the number of
//! combs tried, must be below [`FALSE_ALARM`]. So noise is not read as a rhythm, however many combs are tried.
//!
//! Tall events are looked at alone first: a stall of 5 ms once a second is five events among thousands of small ones, and
//! visible only among the tallest. What a comb explains is taken out, and the rest is searched again.

use serde::{Deserialize, Serialize};

/// Chance of naming a period where there is none, in one run.
const FALSE_ALARM: f64 = 1e-3;
/// Teeth that a comb must have, and share of them that must be hit.
const TEETH_MIN: usize = 5;
const HIT_SHARE_MIN: f64 = 0.5;
/// How early or late a tooth may be, as shares of the period; each is tried.
const TOLERANCES: [f64; 3] = [0.001, 0.005, 0.03];
/// A comb whose teeth cover more of the time than this says nothing.
const COVER_MAX: f64 = 0.3;
/// Events that combs start from, and how many events later their second tooth may be.
const STARTS: usize = 24;
const SECOND_WITHIN: usize = 8;
/// How many times the median height of a rhythm one of its events may have.
const OWN_REASON: f64 = 3.0;
/// Rhythms in one run at most.
const PERIODS_MAX: usize = 8;
/// Classes: the tallest 5, 8, 13, … events.
const CLASS_FIRST: usize = 5;
const CLASS_GROWTH: f64 = 1.6;
/// Events that are looked at, the tallest.
const EVENTS_MAX: usize = 20_000;

/// Something that happened at a time, with a height.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Event {
    /// When, in ns since the start.
    pub at_ns: f64,
    /// How high, in any unit.
    pub height: f64,
}

/// A rhythm.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Period {
    /// From one to the next, in ns.
    pub period_ns: f64,
    /// When the first was due, in ns since the start.
    pub phase_ns: f64,
    /// Median height above the usual, in ns.
    pub height_ns: f64,
    /// Largest height.
    pub height_max_ns: f64,
    /// How many came.
    pub came: usize,
    /// How many were due.
    pub due: usize,
    /// How far from its due time one comes, typically (median), in ns.
    pub wander_ns: f64,
    /// How often chance alone would make this, in such a run.
    pub false_alarm: f64,
}

/// The rhythms of `events` in a run of `length_ns`, strongest first, and for each event which of them explains it.
pub fn find(events: &[Event], length_ns: f64) -> (Vec<Period>, Vec<Option<usize>>) {
    let mut explained = vec![None; events.len()];
    let mut periods = Vec::new();
    // Indices of what is looked at and not explained, in order of time.
    let mut left = tallest(events, (0..events.len()).collect(), EVENTS_MAX);
    while periods.len() < PERIODS_MAX {
        let grain_ns: Vec<f64> = periods.iter().map(|period: &Period| period.period_ns).collect();
        let Some(comb) = best_comb(events, &left, length_ns, &grain_ns) else { break };
        let hits = nearest_tooth(&comb, events, &left);
        let period = describe(&comb, events, &hits);
        // What is far taller than the rest of its rhythm has a reason of its own, and perhaps a rhythm: a stall once a
        // second comes at the same time as every hundredth tick.
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

/// How far from its due time a tooth may be, and how wide it counts against chance.
#[derive(Debug, Clone, Copy)]
struct Reach {
    tolerance_ns: f64,
    grain_ns: f64,
}

/// What a kernel does, it does at ticks: once a tick has been found, other events may lie on it, and then not anywhere
/// between two ticks. A slower comb meets them as often as if its teeth were a tick wide.
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
    let (mut due_ns, forward) = walk(times, length_ns, start, period_ns, tolerance_ns);
    let (mut before, back) = walk(times, length_ns, start, -period_ns, tolerance_ns);
    let hits = forward + back + 1;
    before.reverse();
    before.push(start);
    before.append(&mut due_ns);
    let teeth = before.len();
    if teeth < TEETH_MIN || (hits as f64) < HIT_SHARE_MIN * teeth as f64 {
        return None;
    }
    // Two hits made the comb.
    let log_chance = log_binomial_tail(teeth - 2, hits.saturating_sub(2), chance_of_a_hit);
    let period_ns = (before[teeth - 1] - before[0]) / (teeth - 1) as f64;
    Some(Comb { period_ns, tolerance_ns, due_ns: before, hits, log_chance })
}

/// Due times of the teeth after the start, until the end of the run, and how many were hit. Each hit sets the time from
/// which the next is due, so that a small error of the period does not add up.
fn walk(times: &[f64], length_ns: f64, start: f64, step_ns: f64, tolerance_ns: f64) -> (Vec<f64>, usize) {
    let (mut due_ns, mut hits) = (Vec::new(), 0);
    let mut last = start;
    // The period, as the hits so far say: a first guess from two events has the error of both.
    let (mut step_ns, mut since_hit) = (step_ns, 1.0);
    let mut anchor = (start, 0.0);
    loop {
        let due = last + step_ns;
        if due < 0.0 || due > length_ns {
            return (due_ns, hits);
        }
        let found = nearest(times, due).filter(|at| (at - due).abs() <= tolerance_ns);
        anchor.1 += 1.0;
        if let Some(at) = found {
            hits += 1;
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
                return (due_ns, hits);
            }
        }
        due_ns.push(last);
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
        // Of several within reach the tallest: the small ones are noise beside it.
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
mod tests {
    use super::*;
    use crate::rng::Rng;

    const SECOND: f64 = 1e9;
    const MS: f64 = 1e6;

    fn uniform(rng: &mut Rng) -> f64 {
        rng.next_u64() as f64 / u64::MAX as f64
    }

    /// Events anywhere, heights of an exponential distribution.
    fn noise(rng: &mut Rng, n: usize, length_ns: f64, height: f64) -> Vec<Event> {
        (0..n)
            .map(|_| Event { at_ns: uniform(rng) * length_ns, height: -height * (1.0 - uniform(rng)).ln() })
            .collect()
    }

    /// A rhythm, some of it missing, each a little early or late.
    fn teeth(
        rng: &mut Rng,
        period_ns: f64,
        height: f64,
        length_ns: f64,
        missing: f64,
        wander: f64,
    ) -> Vec<Event> {
        let phase = uniform(rng) * period_ns;
        let mut events = Vec::new();
        let mut due = phase;
        while due < length_ns {
            if uniform(rng) >= missing {
                let at_ns = due + (uniform(rng) - 0.5) * 2.0 * wander;
                events.push(Event { at_ns, height: height * (0.9 + 0.2 * uniform(rng)) });
            }
            due += period_ns;
        }
        events
    }

    fn found(mut events: Vec<Event>, length_ns: f64) -> Vec<Period> {
        events.sort_by(|a, b| a.at_ns.total_cmp(&b.at_ns));
        find(&events, length_ns).0
    }

    fn assert_named(periods: &[Period], period_ns: f64, height_ns: f64) {
        let named = periods.iter().any(|p| {
            (p.period_ns / period_ns - 1.0).abs() < 0.01 && (p.height_ns / height_ns - 1.0).abs() < 0.15
        });
        assert!(named, "no {period_ns} ns of {height_ns} ns in {periods:#?}");
    }

    #[test]
    fn pure_noise_has_no_period() {
        let mut alarms = 0;
        for seed in 0..150 {
            let mut rng = Rng::new(seed);
            let n = [0, 3, 7, 20, 60, 200, 900][rng.below(7)];
            let events = noise(&mut rng, n, 5.0 * SECOND, 3000.0);
            alarms += usize::from(!found(events, 5.0 * SECOND).is_empty());
        }
        assert_eq!(alarms, 0);
    }

    #[test]
    fn noise_in_bursts_has_no_period() {
        for seed in 0..40 {
            let mut rng = Rng::new(1000 + seed);
            let mut events = Vec::new();
            for _ in 0..12 {
                let start = uniform(&mut rng) * 5.0 * SECOND;
                events.extend((0..15).map(|_| Event {
                    at_ns: start + uniform(&mut rng) * 20.0 * MS,
                    height: 1000.0 * (1.0 + uniform(&mut rng)),
                }));
            }
            let periods = found(events, 5.0 * SECOND + 20.0 * MS);
            assert!(periods.is_empty(), "seed {seed}: {periods:#?}");
        }
    }

    #[test]
    fn five_ms_each_second_in_noise() {
        for seed in 0..30 {
            let mut rng = Rng::new(seed);
            let length = 6.0 * SECOND;
            let mut events = noise(&mut rng, 700, length, 8000.0);
            events.extend(teeth(&mut rng, SECOND, 5.0 * MS, length, 0.0, 0.2 * MS));
            let periods = found(events, length);
            assert_named(&periods, SECOND, 5.0 * MS);
            assert_eq!(periods.len(), 1, "seed {seed}: {periods:#?}");
        }
    }

    #[test]
    fn seventy_us_each_ten_ms() {
        for seed in 0..20 {
            let mut rng = Rng::new(seed);
            let length = 3.0 * SECOND;
            let mut events = noise(&mut rng, 300, length, 8000.0);
            events.extend(teeth(&mut rng, 10.0 * MS, 70_000.0, length, 0.0, 5_000.0));
            let periods = found(events, length);
            assert_named(&periods, 10.0 * MS, 70_000.0);
            let ten = &periods[0];
            assert!(ten.due.abs_diff(300) <= 1 && ten.came >= 298 && ten.wander_ns < 10_000.0, "{ten:#?}");
        }
    }

    #[test]
    fn two_rhythms_overlaid() {
        for seed in 0..20 {
            let mut rng = Rng::new(seed);
            let length = 8.0 * SECOND;
            let mut events = noise(&mut rng, 400, length, 8000.0);
            events.extend(teeth(&mut rng, 10.0 * MS, 70_000.0, length, 0.0, 5_000.0));
            events.extend(teeth(&mut rng, SECOND, 5.0 * MS, length, 0.0, 0.2 * MS));
            let periods = found(events, length);
            assert_named(&periods, 10.0 * MS, 70_000.0);
            assert_named(&periods, SECOND, 5.0 * MS);
            assert_eq!(periods.len(), 2, "seed {seed}: {periods:#?}");
        }
    }

    #[test]
    fn two_rhythms_of_like_height() {
        let mut rng = Rng::new(5);
        let length = 3.0 * SECOND;
        let mut events = teeth(&mut rng, 10.0 * MS, 70_000.0, length, 0.0, 2_000.0);
        events.extend(teeth(&mut rng, 7.0 * MS, 60_000.0, length, 0.0, 2_000.0));
        let periods = found(events, length);
        assert_named(&periods, 10.0 * MS, 70_000.0);
        assert_named(&periods, 7.0 * MS, 60_000.0);
    }

    #[test]
    fn missing_teeth() {
        for seed in 0..20 {
            let mut rng = Rng::new(seed);
            let length = 3.0 * SECOND;
            let mut events = noise(&mut rng, 200, length, 8000.0);
            events.extend(teeth(&mut rng, 10.0 * MS, 70_000.0, length, 0.3, 5_000.0));
            let periods = found(events, length);
            assert_named(&periods, 10.0 * MS, 70_000.0);
            assert!(periods[0].came < periods[0].due * 8 / 10, "{periods:#?}");
        }
    }

    #[test]
    fn too_few_to_say() {
        let events = (0..3).map(|n| Event { at_ns: f64::from(n) * SECOND, height: 1.0 }).collect();
        assert!(found(events, 3.0 * SECOND).is_empty());
        assert!(found(Vec::new(), SECOND).is_empty());
        let at_once = vec![Event { at_ns: 5.0, height: 1.0 }; 50];
        assert!(found(at_once, SECOND).is_empty());
    }

    #[test]
    fn events_at_ticks_are_no_rhythm_by_that() {
        for seed in 0..20 {
            let mut rng = Rng::new(seed);
            let length = 6.0 * SECOND;
            let mut events = teeth(&mut rng, 4.0 * MS, 5_000.0, length, 0.0, 500.0);
            let tick = events[0].at_ns;
            // Now and then something longer, at a tick as well.
            for _ in 0..60 {
                let at_ns = tick + 4.0 * MS * rng.below(1490) as f64 + 500.0;
                events.push(Event { at_ns, height: 100_000.0 * (1.0 + uniform(&mut rng)) });
            }
            let periods = found(events, length);
            assert_named(&periods, 4.0 * MS, 5_000.0);
            assert!(periods.iter().all(|p| p.period_ns < 4.1 * MS), "seed {seed}: {periods:#?}");
        }
    }

    #[test]
    fn each_event_is_explained_once() {
        let mut rng = Rng::new(2);
        let length = 3.0 * SECOND;
        let mut events = noise(&mut rng, 50, length, 8000.0);
        events.extend(teeth(&mut rng, 10.0 * MS, 70_000.0, length, 0.0, 1_000.0));
        events.sort_by(|a, b| a.at_ns.total_cmp(&b.at_ns));
        let (periods, explained) = find(&events, length);
        let by_first = explained.iter().filter(|by| **by == Some(0)).count();
        assert!(by_first <= periods[0].came && by_first >= 298, "{by_first} of {}", periods[0].came);
        assert!(explained.iter().filter(|by| by.is_none()).count() >= 40);
    }

    #[test]
    fn tails() {
        // P(Bin(10, ½) ≥ 10) = 2⁻¹⁰, exactly.
        assert!((log_binomial_tail(10, 10, 0.5) + 10.0 * 2f64.ln()).abs() < 1e-9);
        assert_eq!(log_binomial_tail(10, 5, 0.5), 0.0);
        // Chernoff is above the true tail of 8 of 10 at 0.1 (3.7e-7).
        let bound = log_binomial_tail(10, 8, 0.1).exp();
        assert!(bound > 3.7e-7 && bound < 3.7e-5, "{bound}");
    }
}
