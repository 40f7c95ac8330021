//! Figures of message queues, beside UCX and beside a cache line.

use super::{
    Context,
    catalogue::{Entry, Messages},
    pair::alone,
};
use crate::{
    baseline::line::Lines,
    cpus,
    error::Result,
    figure::{Figure, ReferenceKind, Spec, Stat},
    patterns::messages::{AboveLine, BesideUcx, Load, Ours, Ucx},
    pinned_pair,
    run::BlockPlan,
    verdict::Goal,
};

const WHAT: &str = "messages between two processes";
/// As many times as long as others a figure is measured whose readings start programs.
const UCX_TIMES: u32 = 10;

pub(super) fn measure(context: &mut Context<'_>, entry: &Entry, what: Messages) -> Result<Figure> {
    let Messages { load, above_line, goal } = what;
    let cpus = cpus::pair(context.options.cpus, WHAT)?;
    if above_line {
        over_line(context, entry, load, goal, cpus)
    } else {
        beside_ucx(context, entry, load, goal, cpus)
    }
}

fn beside_ucx(
    context: &mut Context<'_>,
    entry: &Entry,
    load: Load,
    goal: Goal,
    cpus: [usize; 2],
) -> Result<Figure> {
    let waiter = context.progress.waiter();
    let ucx = Ucx::new(cpus, &waiter)?;
    let ours = Ours::start(load, cpus, &waiter)?;
    let plan = BlockPlan::against_rival(context.options.max_time * UCX_TIMES, context.options.seed);
    context.paired(&plan, BesideUcx { ours, ucx, load }, load.count(), |_| {
        let mut spec = spec(entry, load, goal, cpus);
        spec.kind = ReferenceKind::Rival;
        spec.reference = "UCX by shared memory, ucx_perftest".to_owned();
        spec.version = Ucx::version();
        spec.argv = Ucx::argv(load);
        spec.notes.push(
            "UCX is started for each reading, and not counted while it starts; no MPI is beside it"
                .to_owned(),
        );
        spec
    })
}

fn over_line(
    context: &mut Context<'_>,
    entry: &Entry,
    load: Load,
    goal: Goal,
    cpus: [usize; 2],
) -> Result<Figure> {
    let timer = context.timer;
    let plan = BlockPlan::against_baseline(context.options.max_time, context.options.seed);
    let ours = Ours::start(load, cpus, &context.progress.waiter())?;
    let lines = Lines::new();
    pinned_pair::on(cpus, |pair| {
        let sides = AboveLine::new(ours, load, &timer, pair, &lines)?;
        context.paired(&plan, sides, load.count(), |_| {
            let mut spec = spec(entry, load, goal, cpus);
            spec.kind = ReferenceKind::Baseline;
            spec.reference = "half the round trip of one cache line".to_owned();
            spec
        })
    })
}

fn spec(entry: &Entry, load: Load, goal: Goal, cpus: [usize; 2]) -> Spec {
    Spec {
        id: entry.id.to_owned(),
        unit: load.unit(),
        stat: Stat::P50,
        size_bytes: Some(load.size_bytes()),
        cpus: cpus.to_vec(),
        path: "shm".to_owned(),
        kind: ReferenceKind::Rival,
        reference: String::new(),
        version: String::new(),
        argv: alone(entry.id),
        goal,
        distribution: None,
        notes: vec![
            entry.what.to_owned(),
            "two processes, each on one processor; a reading is the mean of all messages".to_owned(),
        ],
    }
}
