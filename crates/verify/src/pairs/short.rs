//! A short reading of some pairs, for callers with limits of their own.

use bench::stats::{Interval, median, median_interval};
use shm::clock::Clock;
use tieline::NodeId;

use super::arena::{Arena, BLOCK_BYTES, Obstacle};
use super::{Limits, Plan, judge::Beside, read};
use crate::target::Target;

/// A median of readings and its 95 % interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Centre {
    pub(crate) median: f64,
    pub(crate) interval: Interval,
}

/// So few readings give no interval by their ranks.
const FEW: usize = 6;
/// And fewer than these nothing at all.
const TOO_FEW: usize = 3;
/// A few readings are believed up to this factor beyond the smallest and the largest.
const MARGIN: f64 = 4.0;

impl Centre {
    /// Of those that were read; `None` of too few.
    pub(crate) fn of(readings: &[f64]) -> Option<Self> {
        let finite: Vec<f64> = readings.iter().copied().filter(|reading| reading.is_finite()).collect();
        let median = median(&finite)?;
        let interval = match finite.len() {
            ..TOO_FEW => None,
            TOO_FEW..FEW => {
                let low = finite.iter().copied().fold(f64::INFINITY, f64::min);
                let high = finite.iter().copied().fold(0.0, f64::max);
                Some(Interval::between(low / MARGIN, high * MARGIN))
            }
            _ => median_interval(&finite),
        };
        Some(Self { median, interval: interval? })
    }
}

/// What was read of one ordered pair; `None`: too little.
#[derive(Debug, Clone)]
pub(crate) struct ShortReading {
    pub(crate) pair: [NodeId; 2],
    /// Half a round trip of 8 bytes, in nanoseconds. Only from the lower node to the higher: it takes both
    /// directions.
    pub(crate) half_rtt_ns: Option<Centre>,
    /// Time of a block, in nanoseconds.
    pub(crate) block_ns: Option<Centre>,
    /// By how much it exceeds that of the same copy without a link, to the same memory, at the same moment.
    pub(crate) block_to_copy: Option<Centre>,
}

/// Size of the blocks.
pub(crate) const fn block_bytes() -> usize {
    BLOCK_BYTES
}

/// Reads these ordered pairs so many times, each time beside each other and beside a plain copy. Pairs that
/// cannot be had are obstacles; an error is a node that cannot be attached to. `number` keeps two readings of
/// one process apart.
pub(crate) fn read_some(
    target: &Target,
    wanted: &[[NodeId; 2]],
    rounds: usize,
    number: u32,
    stop: &dyn Fn() -> bool,
) -> Result<(Vec<ShortReading>, Vec<Obstacle>), String> {
    let arena = Arena::set_up_for(target, number, &|pair| wanted.contains(&pair))?;
    let clock = Clock::global();
    let (mut obstacles, mut pairs, source) = (arena.obstacles.clone(), arena.pairs(), super::probe::source());
    pairs.retain(|pair| {
        let Some(ns) = super::probe::crawls(&arena, &clock, *pair, &source) else { return true };
        let why = format!("it hardly moves: 1024 bytes take {:.0} ms", ns / 1e6);
        obstacles.push(Obstacle::of(arena.nodes_of(*pair), why));
        false
    });
    let plan = Plan {
        rounds,
        watch: std::time::Duration::ZERO,
        limits: Limits::default(),
        seed: 1,
        most_pairs: usize::MAX,
    };
    let readings = read(&arena, &clock, &pairs, &plan, stop);
    let column = |of: &[Vec<Beside>], at: usize, value: fn(&Beside) -> f64| -> Vec<f64> {
        of.iter().filter_map(|round| round.get(at)).map(value).collect()
    };
    let short = pairs.iter().enumerate().map(|(at, pair)| ShortReading {
        pair: arena.nodes_of(*pair),
        half_rtt_ns: Centre::of(&column(&readings.latency, at, |reading| reading.ns)),
        block_ns: Centre::of(&column(&readings.block, at, |reading| reading.ns)),
        block_to_copy: Centre::of(&column(&readings.block, at, |reading| reading.ns / reading.baseline_ns)),
    });
    Ok((short.collect(), obstacles))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_readings_are_believed_with_a_wide_margin_and_fewer_not_at_all() {
        assert!(Centre::of(&[5.0, 6.0]).is_none() && Centre::of(&[f64::NAN; 9]).is_none());
        let few = Centre::of(&[8.0, 10.0, 9.0, f64::NAN]).unwrap();
        assert_eq!((few.median, few.interval.low, few.interval.high), (9.0, 2.0, 40.0));
        let many = Centre::of(&[9.0; 12]).unwrap();
        assert_eq!((many.interval.low, many.interval.high), (9.0, 9.0));
    }
}
