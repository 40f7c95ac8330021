//! Figures of well-known programs with rings.

use std::time::Duration;

use shm::region::{Region, RegionOptions};

use super::super::{Context, Options, catalogue::Entry};
use crate::{
    baseline::exchange::{ExchangeProbe, SHARED_BYTES, Shape},
    cpus,
    error::Result,
    figure::{Figure, ReferenceKind, Spec},
    patterns::programs::{Load, Pair, share::Share, twins::RingLines},
    pinned_pair::{self, PinnedPair},
    run::{BlockPlan, Sides},
    timer::Timer,
    verdict::Goal,
};

const WHAT: &str = "a program at two processors";
/// Blocks that the time is enough for: some are disturbed.
const BLOCKS: f64 = 45.0;
/// How many times as long a run may take for the blocks of a verdict: where the kernel is slow, a reading
/// takes several times as long.
const PATIENCE: u32 = 3;
/// Readings take seconds, goals are far away: the interval may be wider than elsewhere.
const HALF_WIDTH: f64 = 0.03;

/// The plan for readings that take this number of seconds, with this number in a block. If the
/// caller gives figures more time, these get more too.
pub(super) fn plan(context: &Context<'_>, plan: BlockPlan, reading_seconds: f64, readings: f64) -> BlockPlan {
    let usual = Options::default().max_time.as_secs_f64();
    let wanted = BLOCKS * readings * reading_seconds;
    let max_time = context.options.max_time.mul_f64((wanted / usual).max(1.0));
    BlockPlan {
        min_time: Duration::ZERO,
        max_time,
        patience: PATIENCE,
        half_width: HALF_WIDTH,
        warm_up_blocks: 2,
        ..plan
    }
}

fn of_load(entry: &Entry, load: Load, goal: Goal, cpus: [usize; 2]) -> Spec {
    let mut spec = super::spec(entry, load.unit(), goal, cpus.to_vec());
    spec.path = "rings".to_owned();
    spec.size_bytes = load.size_bytes();
    spec.notes.push(load.note());
    spec
}

pub(super) fn beside(context: &mut Context<'_>, entry: &Entry, load: Load, goal: Goal) -> Result<Figure> {
    let cpus = cpus::pair(context.options.cpus, WHAT)?;
    let plan = plan(
        context,
        BlockPlan::against_rival(context.options.max_time, context.options.seed),
        load.reading_seconds(),
        3.0,
    );
    let pair = Pair::start(load, cpus, true, context.progress.waiter())?;
    let mut share = Share::default();
    let figure = context.paired(&plan, pair, 1, |pair| {
        share = pair.share();
        let mut spec = of_load(entry, load, goal, cpus);
        spec.reference = "the same programs on the plain kernel".to_owned();
        spec.argv = Pair::argv(load);
        spec.notes.extend(pair.notes());
        spec
    })?;
    Ok(figure.with_rings(share.part()))
}

/// The baseline of a figure: what two processors allow at this moment.
enum Baseline<'a, 'env> {
    /// For a time: half the round trip of the two cache lines of a ring. (Of one line for both
    /// directions it would be less, but no connection could use that: an end may not write what
    /// the other one's messages lie in.)
    Lines(RingLines),
    /// For a bandwidth: a stream with two copies.
    Exchange { pair: &'a mut PinnedPair<'env>, probe: ExchangeProbe<'env> },
}

/// A program with rings, and the baseline between the same processors.
struct AboveBaseline<'a, 'env> {
    pair: Pair,
    timer: &'a Timer,
    baseline: Baseline<'a, 'env>,
}

impl Sides for AboveBaseline<'_, '_> {
    fn next_block(&mut self, number: usize) -> Result<()> {
        match &mut self.baseline {
            Baseline::Lines(lines) => lines.next_block(number),
            Baseline::Exchange { .. } => Ok(()),
        }
    }

    fn ours(&mut self) -> Result<f64> {
        self.pair.ours()
    }

    fn reference(&mut self) -> Result<f64> {
        match &mut self.baseline {
            Baseline::Lines(lines) => lines.half_round_trip_ns(),
            Baseline::Exchange { pair, probe } => probe.gb_a_second(self.timer, pair),
        }
    }
}

impl AboveBaseline<'_, '_> {
    /// The name of the baseline, and its notes.
    fn described(&self) -> (&'static str, Option<String>) {
        match &self.baseline {
            Baseline::Lines(_) => ("half the round trip of a ring's two cache lines", None),
            Baseline::Exchange { probe, .. } => {
                let Shape { chunk_bytes, window_bytes } = probe.shape();
                let shape = format!(
                    "the baseline's chunks have {} KiB, with {} KiB on their way: the fastest of some",
                    chunk_bytes >> 10,
                    window_bytes >> 10
                );
                ("a copy into memory that both processors share and one out of it", Some(shape))
            }
        }
    }
}

pub(super) fn above_baseline(
    context: &mut Context<'_>,
    entry: &Entry,
    load: Load,
    goal: Goal,
) -> Result<Figure> {
    let cpus = cpus::pair(context.options.cpus, WHAT)?;
    let timer = context.timer;
    let plan = plan(
        context,
        BlockPlan::against_baseline(context.options.max_time, context.options.seed),
        load.reading_seconds(),
        1.0,
    );
    // Here, as a server ends with the thread that has started it.
    let pair = Pair::start(load, cpus, false, context.progress.waiter())?;
    let region = Region::create(&RegionOptions::new("exchange", SHARED_BYTES))?;
    pinned_pair::on(cpus, |threads| {
        let baseline = if load == Load::Stream {
            let probe = ExchangeProbe::new(&timer, threads, region.window(), region.window())?;
            Baseline::Exchange { pair: threads, probe }
        } else {
            Baseline::Lines(RingLines::start(cpus, context.progress.waiter())?)
        };
        let mut share = Share::default();
        let sides = AboveBaseline { pair, timer: &timer, baseline };
        let figure = context.paired(&plan, sides, 1, |sides| {
            share = sides.pair.share();
            let (reference, shape) = sides.described();
            let mut spec = of_load(entry, load, goal, cpus);
            spec.kind = ReferenceKind::Baseline;
            spec.reference = reference.to_owned();
            spec.argv.clear();
            spec.version.clear();
            spec.notes.extend(shape);
            spec.notes.extend(sides.pair.notes());
            spec
        })?;
        Ok(figure.with_rings(share.part()))
    })
}
