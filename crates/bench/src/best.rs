//! Compares one value with the best of several others, when it is not known beforehand which one is
//! best.
//!
//! Each block has a reading of ours and of each other. The best one of one half of the blocks is
//! compared with ours on the other half, and vice versa. If the best of each block were taken, or
//! the best of all blocks, noise would make it look better than any of them is.
//!
//! One of the others, drawn for each block, is read before and after the rest, so that a change of
//! the machine is noticed, as in [`crate::run`].

use std::time::{Duration, Instant};

use crate::{
    error::{BenchError, Result},
    rng::Rng,
    run::{BlockPlan, Disturbed, checked, moved},
    stats::{
        Block, order,
        paired::{MIN_BLOCKS, PairedRatio},
    },
};

/// Readings of each other before the run.
const TRIALS: usize = 5;
/// Others that take longer than the best by more than this factor are left out of the run.
const HOPELESS: f64 = 1.2;
/// The number of blocks between two computations of the interval.
const LOOK_EVERY: usize = 10;
/// Resamples of the interval that only decides about going on.
const QUICK_RESAMPLES: usize = 300;
/// A run that has too few blocks for a verdict continues for this multiple of its time.
const PATIENCE: u32 = 3;

/// Ours and several others that do the same work. All readings are times.
pub trait Field {
    /// The number of others.
    fn others(&self) -> usize;
    /// The name of one of them in reports.
    fn name(&self, other: usize) -> String;
    /// A reading of ours, in ns.
    fn ours_ns(&mut self) -> Result<f64>;
    /// A reading of one of the others, in ns.
    fn other_ns(&mut self, other: usize) -> Result<f64>;
}

/// A block: ours, and the others by their place in [`BestRun::ran`].
#[derive(Debug, Clone, PartialEq)]
struct Row {
    ours_ns: f64,
    others_ns: Vec<f64>,
}

/// The result of a run.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct BestRun {
    /// The others that were not hopeless before the run.
    pub ran: Vec<usize>,
    /// Times of the others before the run, in ns, fastest first.
    pub trials: Vec<(usize, f64)>,
    /// Readings of ours in undisturbed blocks.
    pub ours_readings: u64,
    rows: Vec<Row>,
    disturbed: Vec<(Row, f64)>,
}

impl BestRun {
    /// The best of each half of the blocks, of those that `ran`: of the even ones, and of the odd
    /// ones.
    pub fn best(&self) -> [usize; 2] {
        [0, 1].map(|half| self.ran.get(self.best_place(half)).copied().unwrap_or(0))
    }

    fn best_place(&self, half: usize) -> usize {
        // The ratios to the mean of the block are compared: between the blocks of a machine that
        // moves, times differ by more than the compared values.
        let typical = |place: usize| {
            let of_half = self.rows.iter().skip(half).step_by(2);
            let ratios: Vec<f64> = of_half
                .map(|row| {
                    row.others_ns[place] * row.others_ns.len() as f64 / row.others_ns.iter().sum::<f64>()
                })
                .collect();
            order::median(&ratios).unwrap_or(f64::INFINITY)
        };
        (0..self.ran.len()).min_by(|a, b| typical(*a).total_cmp(&typical(*b))).unwrap_or(0)
    }

    /// The blocks, each with the best of the other half as its reference; `value` turns a time into
    /// the unit of the figure.
    pub fn blocks(&self, value: impl Fn(f64) -> f64) -> Vec<Block> {
        let best = [1, 0].map(|other_half| self.best_place(other_half));
        let block = |(number, row): (usize, &Row)| Block {
            ours: value(row.ours_ns),
            reference: value(row.others_ns[best[number % 2]]),
        };
        self.rows.iter().enumerate().map(block).collect()
    }

    /// The blocks in which the machine moved, with the best of the even ones.
    pub fn disturbed(&self, value: impl Fn(f64) -> f64) -> Vec<Disturbed> {
        let best = self.best_place(0);
        let one = |(row, moved): &(Row, f64)| Disturbed {
            ours: value(row.ours_ns),
            reference: value(row.others_ns[best]),
            moved: *moved,
        };
        self.disturbed.iter().map(one).collect()
    }

    /// The names of the best ones.
    pub fn names(&self, field: &impl Field) -> String {
        let [even, odd] = self.best();
        if even == odd { field.name(even) } else { format!("{} / {}", field.name(even), field.name(odd)) }
    }
}

/// Runs until the interval is as narrow as the plan requires, the time is over, or `stop` returns
/// true.
pub fn run_until(plan: &BlockPlan, field: &mut dyn Field, stop: &dyn Fn() -> bool) -> Result<BestRun> {
    let start = Instant::now();
    run_with_clock(plan, field, &mut || if stop() { Duration::MAX } else { start.elapsed() })
}

fn run_with_clock(
    plan: &BlockPlan,
    field: &mut dyn Field,
    elapsed: &mut dyn FnMut() -> Duration,
) -> Result<BestRun> {
    let plan = &BlockPlan { patience: PATIENCE, ..plan.clone() };
    let mut run = try_all(field)?;
    let mut rng = Rng::new(plan.seed);
    loop {
        match one_block(plan, field, &mut rng, &mut run) {
            // Ended within a reading: the blocks before it are whole.
            Err(BenchError::Stopped { .. }) if !run.rows.is_empty() => break,
            result => result?,
        }
        let (blocks, disturbed) = (run.rows.len(), run.disturbed.len());
        let (total, now) = (blocks + disturbed, elapsed());
        if total >= plan.max_blocks || now >= plan.limit(blocks) {
            break;
        }
        if !total.is_multiple_of(LOOK_EVERY)
            || blocks < plan.min_blocks.max(MIN_BLOCKS)
            || blocks <= disturbed
        {
            continue;
        }
        let width = PairedRatio::of(&run.blocks(|ns| ns), plan.centre, QUICK_RESAMPLES, plan.seed)
            .map(|ratio| ratio.ratio_ci95.relative_half_width(ratio.ratio));
        if now >= plan.min_time && width.is_some_and(|width| width <= plan.half_width) {
            break;
        }
    }
    Ok(run)
}

/// Reads all others a few times, and leaves out those far from the best. This is also the warm-up.
fn try_all(field: &mut dyn Field) -> Result<BestRun> {
    let mut times = vec![Vec::new(); field.others()];
    field.ours_ns()?;
    for _ in 0..TRIALS {
        for (other, times) in times.iter_mut().enumerate() {
            times.push(checked(field.other_ns(other)?)?);
        }
    }
    let mut trials: Vec<(usize, f64)> =
        times.iter().enumerate().filter_map(|(other, times)| Some((other, order::median(times)?))).collect();
    trials.sort_by(|a, b| a.1.total_cmp(&b.1));
    let Some(&(_, best_ns)) = trials.first() else {
        return Err(BenchError::Usage("there is nothing to compare with".to_owned()));
    };
    let ran = trials.iter().filter(|(_, ns)| *ns <= best_ns * HOPELESS).map(|(other, _)| *other).collect();
    Ok(BestRun { ran, trials, ..BestRun::default() })
}

fn one_block(plan: &BlockPlan, field: &mut dyn Field, rng: &mut Rng, run: &mut BestRun) -> Result<()> {
    // The place after those that ran is ours.
    let ours = run.ran.len();
    let mut order: Vec<usize> = (0..=ours).collect();
    rng.shuffle(&mut order);
    let mut ns = vec![0.0; ours + 1];
    let ran = &run.ran;
    let mut read = |place: usize| {
        let reading = if place == ours { field.ours_ns() } else { field.other_ns(ran[place]) };
        reading.and_then(checked)
    };
    for place in &order {
        ns[*place] = read(*place)?;
    }
    let (before, after) = (ns[order[0]], read(order[0])?);
    ns[order[0]] = before + (after - before) / 2.0;
    let ours_ns = ns.pop().unwrap_or(f64::NAN);
    let row = Row { ours_ns, others_ns: ns };
    let moved = moved(before, after);
    if moved > 1.0 + plan.disturbed_above {
        run.disturbed.push((row, moved));
    } else {
        run.rows.push(row);
        run.ours_readings += if order[0] == ours { 2 } else { 1 };
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ours and others with fixed times, and noise of up to a share of them.
    struct Made {
        ours_ns: f64,
        others_ns: Vec<f64>,
        noise: f64,
        rng: Rng,
        read: Vec<u32>,
    }

    impl Made {
        fn new(ours_ns: f64, others_ns: &[f64], noise: f64) -> Self {
            let read = vec![0; others_ns.len()];
            Self { ours_ns, others_ns: others_ns.to_vec(), noise, rng: Rng::new(3), read }
        }

        fn noisy(&mut self, ns: f64) -> Result<f64> {
            Ok(ns * (1.0 + self.noise * self.rng.below(1000) as f64 / 1000.0))
        }
    }

    impl Field for Made {
        fn others(&self) -> usize {
            self.others_ns.len()
        }
        fn name(&self, other: usize) -> String {
            format!("number {other}")
        }
        fn ours_ns(&mut self) -> Result<f64> {
            self.noisy(self.ours_ns)
        }
        fn other_ns(&mut self, other: usize) -> Result<f64> {
            self.read[other] += 1;
            self.noisy(self.others_ns[other])
        }
    }

    fn plan() -> BlockPlan {
        BlockPlan { min_time: Duration::ZERO, ..BlockPlan::against_rival(Duration::from_secs(10), 1) }
    }

    fn go(plan: &BlockPlan, field: &mut Made) -> BestRun {
        run_with_clock(plan, field, &mut || Duration::ZERO).unwrap()
    }

    #[test]
    fn the_best_is_found_and_the_hopeless_is_left_out() {
        let mut field = Made::new(102.0, &[130.0, 100.0, 103.0], 0.0);
        let run = go(&plan(), &mut field);
        assert_eq!((run.best(), run.ran.clone()), ([1, 1], vec![1, 2]));
        assert_eq!((run.rows.len(), run.disturbed.len()), (30, 0));
        assert_eq!((field.read[0], run.trials[0], run.trials[2].0), (TRIALS as u32, (1, 100.0), 0));
        assert!(run.blocks(|ns| ns).iter().all(|block| (block.ratio().unwrap() - 1.02).abs() < 1e-9));
        assert_eq!(run.blocks(|ns| 1.0 / ns)[0].reference, 1.0 / 100.0);
        assert_eq!(run.names(&field), "number 1");
    }

    #[test]
    fn noise_does_not_make_the_best_of_equals_look_better_than_it_is() {
        // Eight others as fast as ours: the best of each block would be some percent faster.
        let mut ratios = Vec::new();
        for seed in 0..20 {
            let mut field = Made::new(100.0, &[100.0; 8], 0.1);
            field.rng = Rng::new(seed);
            let run = go(&BlockPlan { half_width: 0.0, max_blocks: 60, ..plan() }, &mut field);
            let ratio = PairedRatio::of(&run.blocks(|ns| ns), plan().centre, 100, 1).unwrap().ratio;
            ratios.push(ratio);
        }
        let mean = order::mean(&ratios).unwrap();
        assert!((0.995..=1.005).contains(&mean), "{mean}");
    }

    #[test]
    fn a_machine_that_moves_inside_a_block_is_set_apart() {
        struct Moves(u32);
        impl Field for Moves {
            fn others(&self) -> usize {
                2
            }
            fn name(&self, _: usize) -> String {
                String::new()
            }
            fn ours_ns(&mut self) -> Result<f64> {
                self.0 += 1;
                Ok(if self.0 % 50 < 25 { 100.0 } else { 150.0 })
            }
            fn other_ns(&mut self, other: usize) -> Result<f64> {
                Ok(self.ours_ns()? * (1.0 + other as f64 / 10.0))
            }
        }
        let run = run_with_clock(&plan(), &mut Moves(0), &mut || Duration::ZERO).unwrap();
        let moved = run.disturbed(|ns| ns);
        assert!(!moved.is_empty() && moved.iter().all(|block| (block.moved - 1.5).abs() < 1e-9), "{moved:?}");
        let centre = PairedRatio::of(&run.blocks(|ns| ns), plan().centre, 100, 1).unwrap();
        assert!((centre.ratio - 1.0).abs() < 1e-9, "{centre:?}");
    }

    #[test]
    fn too_few_blocks_get_more_time_but_not_for_ever() {
        let mut field = Made::new(100.0, &[100.0], 0.3);
        let mut seconds = 0;
        let run = run_with_clock(&plan(), &mut field, &mut || {
            seconds += 1;
            Duration::from_secs(seconds)
        });
        let run = run.unwrap();
        assert!((20..=30).contains(&(run.rows.len() + run.disturbed.len())), "{}", run.rows.len());
        let nothing = run_with_clock(&plan(), &mut Made::new(1.0, &[], 0.0), &mut || Duration::ZERO);
        assert!(nothing.is_err());
    }
}
