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

/// Spikes at random moments, of random heights, in a thousand runs: never a rhythm.
#[test]
fn a_thousand_runs_of_random_spikes_have_no_rhythm() {
    for seed in 0..1000 {
        let mut rng = Rng::new(50_000 + seed);
        let n = [5, 8, 12, 20, 35, 60, 110, 200][rng.below(8)];
        let length = [1.0, 2.0, 6.0][rng.below(3)] * SECOND;
        let height = [2000.0, 50_000.0, 5.0 * MS][rng.below(3)];
        let events = noise(&mut rng, n, length, height);
        let periods = found(events, length);
        assert!(periods.is_empty(), "seed {seed}, {n} spikes: {periods:#?}");
    }
}

/// Turns that follow each other at nearly equal distances, so much shorter or longer at most: from
/// one to the next it looks like a period, which no clock keeps. How many of 300 runs are called a
/// rhythm all the same.
fn named_among_turns(spread_ms: f64) -> usize {
    let named = (0..300).filter(|seed| {
        let mut rng = Rng::new(90_000 + seed);
        let (mut events, mut at) = (Vec::new(), 0.0);
        let length = 6.0 * SECOND;
        while at < length {
            at += (100.0 + spread_ms * (2.0 * uniform(&mut rng) - 1.0)) * MS;
            events.push(Event { at_ns: at.min(length), height: 100_000.0 * (1.0 + uniform(&mut rng)) });
        }
        !found(events, length).is_empty()
    });
    named.count()
}

/// Without the bound on early and late teeth 24 and 162 of these are called rhythms.
#[test]
fn turns_without_a_clock_are_no_rhythm() {
    assert_eq!(named_among_turns(12.0), 0);
    assert!(named_among_turns(8.0) <= 10);
}

#[test]
fn one_period_alone_is_named_with_nothing_else() {
    for seed in 0..50 {
        let mut rng = Rng::new(seed);
        let events = teeth(&mut rng, SECOND, 5.0 * MS, 6.0 * SECOND, 0.0, 0.2 * MS);
        let periods = found(events, 6.0 * SECOND);
        assert_named(&periods, SECOND, 5.0 * MS);
        assert_eq!(periods.len(), 1, "seed {seed}: {periods:#?}");
    }
}

/// A clock that is not this machine's: each period a little longer than the last.
#[test]
fn a_drifting_period_is_one_rhythm() {
    for seed in 0..20 {
        let mut rng = Rng::new(seed);
        let (mut at, mut step) = (uniform(&mut rng) * 10.0 * MS, 10.0 * MS);
        let length = 3.0 * SECOND;
        let mut events = noise(&mut rng, 100, length, 8000.0);
        while at < length {
            events.push(Event { at_ns: at, height: 70_000.0 });
            at += step;
            step *= 1.00005;
        }
        let periods = found(events, length);
        let ten = periods.iter().find(|p| (p.period_ns / (10.0 * MS) - 1.0).abs() < 0.02);
        assert!(ten.is_some_and(|ten| ten.came > 280), "seed {seed}: {periods:#?}");
        assert_eq!(periods.len(), 1, "seed {seed}: {periods:#?}");
    }
}

#[test]
fn who_comes_late_must_come_always() {
    assert_eq!(share_needed(0.0), HIT_SHARE_MIN);
    assert!(share_needed(WANDER_MAX) >= 1.0 && share_needed(1.5 * WANDER_MAX) > 1.0);
    assert!(share_needed(WANDER_MAX / 2.0) > 0.7);
}
