//! Measures the rate of the processor's counter, and its uncertainty.

use super::{Clock, counter, monotonic_raw_ns, now_ticks};
use crate::cpu::Features;

const DURATION_MIN_NS: u64 = 1_000_000;
/// Points of the regression.
const POINTS: usize = 64;
/// Attempts to read both clocks without being interrupted in between, for each point.
const ATTEMPTS: usize = 5;
/// Readings for the step and the cost.
const READINGS: usize = 255;
/// Two halves of one calibration may differ by this much.
const STEADY_TO: f64 = 1e-3;

#[derive(Clone, Copy, Default)]
struct Point {
    ticks: f64,
    ns: f64,
}

/// Slope and root mean square residual of the line through some points.
struct Line {
    ticks_per_ns: f64,
    residual_ns: f64,
}

pub(super) fn calibrate(duration_ns: u64) -> Clock {
    let duration_ns = duration_ns.max(DURATION_MIN_NS);
    let (points, never_back) = take_points(duration_ns);
    let line = fit(&points);
    let (first, second) = points.split_at(POINTS / 2);
    let (first, second) = (fit(first).ticks_per_ns, fit(second).ticks_per_ns);
    let (step_ticks, cost_ticks) = step_and_cost();
    Clock {
        ticks_per_ns: line.ticks_per_ns,
        ns_per_tick: 1.0 / line.ticks_per_ns,
        residual_ns: line.residual_ns,
        calibrated_for_ns: duration_ns,
        step_ticks,
        cost_ticks,
        invariant: Features::get().invariant_tsc,
        steady: never_back && magnitude(first - second) <= STEADY_TO * line.ticks_per_ns,
        source: counter::SOURCE,
    }
}

/// Points at equal distances, relative to the first; and whether the counter always went forward.
fn take_points(duration_ns: u64) -> ([Point; POINTS], bool) {
    let mut points = [Point::default(); POINTS];
    let (origin_ticks, origin_ns) = read_both();
    let (mut last_ticks, mut never_back) = (origin_ticks, true);
    for (n, point) in (0_u64..).zip(&mut points) {
        let due_ns = origin_ns + duration_ns * n / POINTS as u64;
        let (ticks, ns) = loop {
            let (ticks, ns) = read_both();
            if ns >= due_ns {
                break (ticks, ns);
            }
            crate::cpu::pause();
        };
        never_back &= ticks >= last_ticks;
        last_ticks = ticks;
        *point =
            Point { ticks: ticks.wrapping_sub(origin_ticks) as f64, ns: ns.wrapping_sub(origin_ns) as f64 };
    }
    (points, never_back)
}

/// Both clocks at one moment: of some attempts the one during which least time passed.
fn read_both() -> (u64, u64) {
    let (mut best, mut best_took) = ((0, 0), u64::MAX);
    for _ in 0..ATTEMPTS {
        let before = now_ticks();
        let ns = monotonic_raw_ns();
        let took = now_ticks().wrapping_sub(before);
        if took < best_took {
            best_took = took;
            best = (before.wrapping_add(took / 2), ns);
        }
    }
    best
}

/// Least squares of ticks over nanoseconds.
fn fit(points: &[Point]) -> Line {
    let count = points.len() as f64;
    let (sum_ns, sum_ticks) = points.iter().fold((0.0, 0.0), |(ns, ticks), p| (ns + p.ns, ticks + p.ticks));
    let (mean_ns, mean_ticks) = (sum_ns / count, sum_ticks / count);
    let (mut square, mut product) = (0.0, 0.0);
    for point in points {
        let ns = point.ns - mean_ns;
        square += ns * ns;
        product += ns * (point.ticks - mean_ticks);
    }
    // A clock that stands still would give 0/0; one tick a nanosecond is then as good as anything.
    let ticks_per_ns = if square > 0.0 && product > 0.0 { product / square } else { 1.0 };
    let residuals: f64 = points
        .iter()
        .map(|point| {
            let ns = (point.ticks - mean_ticks) / ticks_per_ns - (point.ns - mean_ns);
            ns * ns
        })
        .sum();
    Line { ticks_per_ns, residual_ns: square_root(residuals / count) }
}

/// The smallest step between two readings and the median distance of two readings, in ticks.
fn step_and_cost() -> (u64, u64) {
    let mut distances = [0_u64; READINGS];
    let mut step = u64::MAX;
    let mut last = now_ticks();
    for distance in &mut distances {
        let now = now_ticks();
        *distance = now.wrapping_sub(last);
        last = now;
        if *distance > 0 {
            step = step.min(*distance);
        }
    }
    distances.sort_unstable();
    // The counter may also advance in steps larger than 1 that are smaller than the cost of reading it: the
    // greatest common divisor of all distances shows them.
    let common = distances.iter().fold(0, |common, &distance| greatest_common_divisor(common, distance));
    (if common > 0 { common } else { step.min(1) }, distances[READINGS / 2])
}

fn greatest_common_divisor(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

fn magnitude(value: f64) -> f64 {
    if value < 0.0 { -value } else { value }
}

/// Newton's method, because `core` has no square root.
fn square_root(value: f64) -> f64 {
    if value <= 0.0 {
        return 0.0;
    }
    let mut root = if value > 1.0 { value } else { 1.0 };
    for _ in 0..64 {
        root = 0.5 * (root + value / root);
    }
    root
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_found_in_spite_of_noise() {
        let points: Vec<Point> = (0..64)
            .map(|n| {
                let noise = if n % 2 == 0 { 5.0 } else { -5.0 };
                Point { ns: f64::from(n) * 1000.0, ticks: f64::from(n) * 2700.0 + noise * 2.7 }
            })
            .collect();
        let line = fit(&points);
        assert!((line.ticks_per_ns - 2.7).abs() < 1e-3, "{}", line.ticks_per_ns);
        assert!((line.residual_ns - 5.0).abs() < 0.1, "{}", line.residual_ns);
    }

    #[test]
    fn a_clock_that_stands_still_is_no_division_by_zero() {
        let line = fit(&[Point::default(); 4]);
        assert_eq!((line.ticks_per_ns, line.residual_ns), (1.0, 0.0));
    }

    #[test]
    fn square_roots() {
        for value in [0.0, 1e-12, 0.25, 2.0, 1e12_f64] {
            assert!((square_root(value) - value.sqrt()).abs() <= 1e-9 * value.sqrt(), "{value}");
        }
        assert_eq!(greatest_common_divisor(36, 54), 18);
        assert_eq!(greatest_common_divisor(0, 7), 7);
    }

    #[test]
    fn the_result_is_a_clock() {
        let clock = calibrate(0);
        assert_eq!(clock.calibrated_for_ns, DURATION_MIN_NS);
        assert!(clock.ticks_per_ns > 0.0 && clock.ns_per_tick > 0.0);
        assert!(clock.step_ticks >= 1 && clock.step_ticks <= clock.cost_ticks.max(1));
        let start = now_ticks();
        assert!(now_ticks() >= start);
    }
}
