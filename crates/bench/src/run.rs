//! The paired runner: alternates ours and the reference in short blocks until the ratio is known
//! well enough.
//!
//! A block has three readings, the outer side before and after the inner one, so that a drift
//! cancels and a processor that moved is noticed: if the two outer readings differ by more than the
//! plan allows, the block is set apart and counted. That choice uses the outer side only. Against a
//! baseline the outer side is always the baseline; against a rival it is chosen at random, so that
//! neither side gains from being outside. Against a constant, which cannot change, a separate probe
//! watches the machine ([`Sides::watch`]).
//!
//! The run ends when the interval of the ratio is narrow, never because a verdict looks good:
//! stopping on the verdict would make a false one likely.

use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::{
    error::{BenchError, Result},
    rng::Rng,
    stats::paired::{Block, Centre, MIN_BLOCKS, PairedRatio},
};

/// Resamples of the interval that only decides about going on.
const QUICK_RESAMPLES: usize = 300;
/// The number of blocks between two computations of the interval.
const LOOK_EVERY: usize = 10;

/// The two sides. Each call measures for a block's time and returns one value of the same unit.
pub trait Sides {
    /// Takes one reading of ours.
    fn ours(&mut self) -> Result<f64>;
    /// Takes one reading of the reference.
    fn reference(&mut self) -> Result<f64>;
    /// Measures what the machine allows now, where the reference cannot show it.
    fn watch(&mut self) -> Result<Option<f64>> {
        Ok(None)
    }
    /// Called before each block with its number (0 also before the warm-up), for what must be equal
    /// within a block and differ between blocks, such as the place in memory.
    fn next_block(&mut self, _number: usize) -> Result<()> {
        Ok(())
    }
}

/// The order of the two sides within a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// The reference, always: it is the baseline, and shows whether the machine moved.
    ReferenceOutside,
    /// Drawn for each block.
    Shuffled,
}

/// The limits of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct BlockPlan {
    /// Undisturbed blocks at least; never below 30 for a verdict.
    pub min_blocks: usize,
    /// Blocks at most, disturbed ones included.
    pub max_blocks: usize,
    /// Time at least: a few hundred milliseconds would show one mood of the machine.
    pub min_time: Duration,
    /// Time at most.
    pub max_time: Duration,
    /// A run that has too few blocks for a verdict continues for this multiple of its time.
    pub patience: u32,
    /// Ends when half the width of the ratio's interval is below this share of the ratio.
    pub half_width: f64,
    /// A block is disturbed when the larger outer reading exceeds the smaller by more than this
    /// share.
    pub disturbed_above: f64,
    /// Blocks thrown away at the start, at most; fewer once two successive ones agree.
    pub warm_up_blocks: usize,
    /// Order of sides.
    pub order: Order,
    /// The statistic of the blocks.
    pub centre: Centre,
    /// The seed of the order and of resampling.
    pub seed: u64,
}

impl BlockPlan {
    /// A plan of at most `max_time`, and at least a sixth of it, against a baseline.
    pub fn against_baseline(max_time: Duration, seed: u64) -> Self {
        Self {
            min_blocks: MIN_BLOCKS,
            max_blocks: 2000,
            min_time: max_time / 6,
            max_time,
            patience: 1,
            half_width: 0.01,
            disturbed_above: 0.20,
            warm_up_blocks: 10,
            order: Order::ReferenceOutside,
            centre: Centre::Median,
            seed,
        }
    }

    /// The same against a rival.
    pub fn against_rival(max_time: Duration, seed: u64) -> Self {
        let plan = Self::against_baseline(max_time, seed);
        Self { order: Order::Shuffled, ..plan }
    }

    /// When a run with this number of undisturbed blocks ends at the latest.
    pub(crate) fn limit(&self, blocks: usize) -> Duration {
        if blocks < MIN_BLOCKS { self.max_time * self.patience } else { self.max_time }
    }
}

/// A block in which the machine moved; in JSON `[ours, reference, moved]`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(from = "[f64; 3]", into = "[f64; 3]")]
pub struct Disturbed {
    /// Ours (mean of two, if it was outside).
    pub ours: f64,
    /// Reference (mean of two, if it was outside).
    pub reference: f64,
    /// The larger outer reading by the smaller.
    pub moved: f64,
}

impl From<[f64; 3]> for Disturbed {
    fn from([ours, reference, moved]: [f64; 3]) -> Self {
        Self { ours, reference, moved }
    }
}

impl From<Disturbed> for [f64; 3] {
    fn from(block: Disturbed) -> Self {
        [block.ours, block.reference, block.moved]
    }
}

/// The result of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct BlockRun {
    /// Undisturbed blocks in order of time.
    pub blocks: Vec<Block>,
    /// The disturbed blocks.
    pub disturbed: Vec<Disturbed>,
    /// Blocks thrown away as warm-up.
    pub warm_up: usize,
    /// Readings of ours in the undisturbed blocks (two where ours was outside).
    pub ours_readings: u64,
}

/// Runs the plan. `progress` gets (blocks so far, half width of the interval so far, if known).
pub fn run(
    plan: &BlockPlan,
    sides: &mut dyn Sides,
    progress: &mut dyn FnMut(usize, Option<f64>),
) -> Result<BlockRun> {
    run_until(plan, sides, progress, &|| false)
}

/// As [`run`], but ends after the block in which `stop` returns true.
pub fn run_until(
    plan: &BlockPlan,
    sides: &mut dyn Sides,
    progress: &mut dyn FnMut(usize, Option<f64>),
    stop: &dyn Fn() -> bool,
) -> Result<BlockRun> {
    let start = Instant::now();
    // If the time of the plan is over, the blocks so far are kept.
    run_with_clock(plan, sides, progress, &mut || if stop() { Duration::MAX } else { start.elapsed() })
}

fn run_with_clock(
    plan: &BlockPlan,
    sides: &mut dyn Sides,
    progress: &mut dyn FnMut(usize, Option<f64>),
    elapsed: &mut dyn FnMut() -> Duration,
) -> Result<BlockRun> {
    let mut rng = Rng::new(plan.seed);
    let warm_up = warm_up(plan, sides)?;
    let mut run = BlockRun { blocks: Vec::new(), disturbed: Vec::new(), warm_up, ours_readings: 0 };
    loop {
        sides.next_block(run.blocks.len() + run.disturbed.len())?;
        match one_block(plan, sides, &mut rng, &mut run) {
            // Ended within a reading: the blocks before it are whole.
            Err(BenchError::Stopped { .. }) if !run.blocks.is_empty() => break,
            result => result?,
        }
        let total = run.blocks.len() + run.disturbed.len();
        if total >= plan.max_blocks || elapsed() >= plan.limit(run.blocks.len()) {
            break;
        }
        if !total.is_multiple_of(LOOK_EVERY) {
            continue;
        }
        let width = PairedRatio::of(&run.blocks, plan.centre, QUICK_RESAMPLES, plan.seed)
            .map(|now| now.ratio_ci95.relative_half_width(now.ratio));
        progress(total, width);
        let enough =
            run.blocks.len() >= plan.min_blocks.max(MIN_BLOCKS) && run.blocks.len() > run.disturbed.len();
        if enough && elapsed() >= plan.min_time && width.is_some_and(|w| w <= plan.half_width) {
            break;
        }
    }
    Ok(run)
}

/// Discards blocks until two successive ones agree on both sides; returns their number.
fn warm_up(plan: &BlockPlan, sides: &mut dyn Sides) -> Result<usize> {
    let mut last: Option<(f64, f64)> = None;
    sides.next_block(0)?;
    for done in 0..plan.warm_up_blocks {
        let now = (checked(sides.ours()?)?, checked(sides.reference()?)?);
        if last.is_some_and(|was| moved(was.0, now.0) <= 1.05 && moved(was.1, now.1) <= 1.05) {
            return Ok(done + 1);
        }
        last = Some(now);
    }
    Ok(plan.warm_up_blocks)
}

fn one_block(plan: &BlockPlan, sides: &mut dyn Sides, rng: &mut Rng, run: &mut BlockRun) -> Result<()> {
    let ours_outside = plan.order == Order::Shuffled && rng.coin();
    let outer = |sides: &mut dyn Sides| if ours_outside { sides.ours() } else { sides.reference() };
    let watched_before = sides.watch()?;
    let before = checked(outer(sides)?)?;
    let inner = checked(if ours_outside { sides.reference() } else { sides.ours() }?)?;
    let after = checked(outer(sides)?)?;
    let watched = watched_before.zip(sides.watch()?);
    let mean = before + (after - before) / 2.0;
    let (ours, reference) = if ours_outside { (mean, inner) } else { (inner, mean) };
    let moved = moved(before, after).max(watched.map_or(1.0, |(a, b)| moved(a, b)));
    if moved > 1.0 + plan.disturbed_above {
        run.disturbed.push(Disturbed { ours, reference, moved });
    } else {
        run.blocks.push(Block { ours, reference });
        run.ours_readings += if ours_outside { 2 } else { 1 };
    }
    Ok(())
}

/// A reading must be a positive number: anything else is a fault of the measurement, not a result.
pub(crate) fn checked(value: f64) -> Result<f64> {
    if value.is_finite() && value > 0.0 { Ok(value) } else { Err(BenchError::Reading { value }) }
}

/// The larger by the smaller.
pub(crate) fn moved(a: f64, b: f64) -> f64 {
    a.max(b) / a.min(b)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A machine made of a script: baseline of each call, ours as a multiple of it.
    struct Script {
        baseline: Box<dyn FnMut() -> f64>,
        factor: f64,
        calls: Vec<char>,
    }

    impl Sides for Script {
        fn ours(&mut self) -> Result<f64> {
            self.calls.push('o');
            Ok((self.baseline)() * self.factor)
        }
        fn reference(&mut self) -> Result<f64> {
            self.calls.push('r');
            Ok((self.baseline)())
        }
    }

    fn script(baseline: impl FnMut() -> f64 + 'static) -> Script {
        Script { baseline: Box::new(baseline), factor: 1.05, calls: Vec::new() }
    }

    /// The plan of most tests, whose clock does not move.
    fn plan() -> BlockPlan {
        BlockPlan { min_time: Duration::ZERO, ..BlockPlan::against_baseline(Duration::from_secs(10), 1) }
    }

    fn go(plan: &BlockPlan, sides: &mut Script) -> BlockRun {
        run_with_clock(plan, sides, &mut |_, _| {}, &mut || Duration::ZERO).unwrap()
    }

    #[test]
    fn a_quiet_machine_needs_the_minimum() {
        let mut sides = script(|| 50.0);
        let run = go(&plan(), &mut sides);
        assert_eq!((run.blocks.len(), run.disturbed.len(), run.warm_up), (30, 0, 2));
        assert!(run.blocks.iter().all(|b| (b.ours - 52.5).abs() < 1e-9 && b.reference == 50.0));
        assert_eq!(sides.calls[..10], ['o', 'r', 'o', 'r', 'r', 'o', 'r', 'r', 'o', 'r']);
    }

    #[test]
    fn a_moving_processor_is_set_apart() {
        // The placement changes once in 64 readings: in the middle of some blocks, between others.
        let mut n = 0;
        let mut sides = script(move || {
            n += 1;
            if n / 64 % 2 == 0 { 40.0 } else { 160.0 }
        });
        let run = go(&plan(), &mut sides);
        assert!(
            !run.disturbed.is_empty() && run.disturbed.iter().all(|d| d.moved == 4.0),
            "{:?}",
            run.disturbed
        );
        assert!(run.blocks.iter().all(|b| (b.ours / b.reference - 1.05).abs() < 1e-9));
    }

    #[test]
    fn a_rival_changes_places() {
        let mut sides = script(|| 50.0);
        let run = go(&BlockPlan { order: Order::Shuffled, seed: 7, ..plan() }, &mut sides);
        let inner: Vec<char> = sides.calls[2 * run.warm_up..].chunks(3).map(|block| block[1]).collect();
        let ours_inside = inner.iter().filter(|c| **c == 'o').count();
        assert!((5..=25).contains(&ours_inside), "{inner:?}");
        assert_eq!(run.ours_readings, 60 - ours_inside as u64);
        assert!(run.blocks.iter().all(|b| (b.ours / b.reference - 1.05).abs() < 1e-9));
    }

    #[test]
    fn a_constant_is_watched() {
        struct Watched(u32);
        impl Sides for Watched {
            fn ours(&mut self) -> Result<f64> {
                Ok(70.0)
            }
            fn reference(&mut self) -> Result<f64> {
                Ok(60.0)
            }
            fn watch(&mut self) -> Result<Option<f64>> {
                self.0 += 1;
                Ok(Some(if self.0.is_multiple_of(5) { 90.0 } else { 60.0 }))
            }
        }
        let run = run(&BlockPlan { max_blocks: 50, ..plan() }, &mut Watched(0), &mut |_, _| {}).unwrap();
        assert!(
            !run.disturbed.is_empty() && run.disturbed.iter().all(|d| d.moved == 1.5 && d.reference == 60.0)
        );
        assert!(run.blocks.len() >= 30);
    }

    #[test]
    fn ended_within_a_reading_it_keeps_the_whole_blocks() {
        struct Ended(u32);
        impl Sides for Ended {
            fn ours(&mut self) -> Result<f64> {
                self.0 += 1;
                if self.0 > 8 { Err(BenchError::Stopped { what: "test" }) } else { Ok(50.0) }
            }
            fn reference(&mut self) -> Result<f64> {
                Ok(50.0)
            }
        }
        let whole = run(&plan(), &mut Ended(0), &mut |_, _| {}).unwrap();
        assert!((1..8).contains(&whole.blocks.len()), "{}", whole.blocks.len());
        let nothing = run(&plan(), &mut Ended(8), &mut |_, _| {});
        assert!(matches!(nothing, Err(BenchError::Stopped { .. })), "{nothing:?}");
    }

    #[test]
    fn ends_by_blocks_and_by_time() {
        let mut rng = Rng::new(5);
        let noisy = move || 50.0 + rng.below(9) as f64;
        let limits = BlockPlan { half_width: 0.0, max_blocks: 77, ..plan() };
        assert_eq!(go(&limits, &mut script(noisy.clone())).blocks.len(), 77);
        let mut ticks = 0;
        let run = run_with_clock(&limits, &mut script(noisy), &mut |_, _| {}, &mut || {
            ticks += 1;
            Duration::from_secs(ticks)
        });
        assert_eq!(run.unwrap().blocks.len(), 10);
    }

    #[test]
    fn a_patient_run_gets_the_blocks_of_a_verdict() {
        let ends_after = |patience, disturbs: bool| {
            let mut ticks = 0;
            let mut readings = 0;
            let mut sides = script(move || {
                readings += 1;
                if disturbs { 10.0 * f64::from(1 + readings % 3) } else { 50.0 }
            });
            let plan = BlockPlan { patience, half_width: 0.0, ..plan() };
            let run = run_with_clock(&plan, &mut sides, &mut |_, _| {}, &mut || {
                ticks += 1;
                Duration::from_millis(500 * ticks)
            });
            let run = run.unwrap();
            run.blocks.len() + run.disturbed.len()
        };
        // Its 10 s are enough for 20 blocks, and no more than three times as long is waited for 30.
        assert_eq!(ends_after(1, false), 20);
        assert_eq!(ends_after(3, false), 30);
        assert_eq!(ends_after(2, true), 40);
    }

    #[test]
    fn a_quiet_moment_is_not_enough() {
        let mut ms = 0;
        let least = BlockPlan { min_time: Duration::from_millis(900), ..plan() };
        let run = run_with_clock(&least, &mut script(|| 50.0), &mut |_, _| {}, &mut || {
            ms += 5;
            Duration::from_millis(ms)
        });
        assert!(run.unwrap().blocks.len() > 100);
    }

    #[test]
    fn noise_takes_longer_and_progress_is_told() {
        let mut rng = Rng::new(5);
        let mut sides = script(move || 50.0 + rng.below(9) as f64);
        let mut widths = Vec::new();
        let tight = BlockPlan { half_width: 0.005, ..plan() };
        let run = run_with_clock(&tight, &mut sides, &mut |n, w| widths.push((n, w)), &mut || Duration::ZERO)
            .unwrap();
        assert!(run.blocks.len() > 30 && run.blocks.len() < 2000, "{}", run.blocks.len());
        assert!(widths.last().unwrap().1.unwrap() <= 0.005);
    }

    #[test]
    fn a_broken_reading_ends_it() {
        for bad in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            let result = run(&plan(), &mut script(move || bad), &mut |_, _| {});
            assert!(matches!(result, Err(BenchError::Reading { .. })), "{bad}");
        }
    }
}
