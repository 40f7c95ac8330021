//! Figures of unmodified programs on sockets: the cost of the library, and the gain with rings.

mod programs;
mod twins;

use super::{
    Context,
    catalogue::{Entry, Sockets},
    pair::alone,
};
use crate::{
    cpus,
    error::Result,
    figure::{Figure, ReferenceKind, Spec, Stat},
    patterns::sockets::{Starts, Twins},
    run::BlockPlan,
    verdict::Goal,
};

pub(super) fn measure(context: &mut Context<'_>, entry: &Entry, what: Sockets) -> Result<Figure> {
    match what {
        Sockets::Passthrough { order, rounds, goal } => passthrough(context, entry, (order, rounds), goal),
        Sockets::Start { at_most } => start(context, entry, at_most),
        Sockets::Beside { load, goal } => programs::beside(context, entry, load, goal),
        Sockets::AboveBaseline { load, goal } => programs::above_baseline(context, entry, load, goal),
        Sockets::Twin(twin) => twins::measure(context, entry, twin),
    }
}

fn spec(entry: &Entry, unit: &'static str, goal: Goal, cpus: Vec<usize>) -> Spec {
    Spec {
        id: entry.id.to_owned(),
        unit,
        stat: Stat::P50,
        size_bytes: None,
        cpus,
        path: "tcp".to_owned(),
        kind: ReferenceKind::Rival,
        reference: "the same program without the library".to_owned(),
        version: crate::env::libc_version().unwrap_or_default(),
        argv: alone(entry.id),
        goal,
        distribution: None,
        notes: vec![entry.what.to_owned()],
    }
}

fn passthrough(
    context: &mut Context<'_>,
    entry: &Entry,
    (order, rounds): (&'static str, u32),
    goal: Goal,
) -> Result<Figure> {
    let cpu = cpus::allowed()?.last().copied().unwrap_or(0);
    let plan = BlockPlan::against_rival(context.options.max_time, context.options.seed);
    let twins = Twins::start(cpu, order, rounds)?;
    let samples = twins.rounds();
    context.paired(&plan, twins, samples, |_| {
        let mut spec = spec(entry, "M/s", goal, vec![cpu]);
        spec.notes.push(
            "both ends on one processor, where no wake-up of another hides what a call costs".to_owned(),
        );
        spec.notes.push("0 % of the bytes went past the kernel: rings are off".to_owned());
        spec
    })
}

fn start(context: &mut Context<'_>, entry: &Entry, at_most: f64) -> Result<Figure> {
    let plan = BlockPlan::against_baseline(context.options.max_time, context.options.seed);
    let sides = Starts::new(at_most)?;
    context.paired(&plan, sides, Starts::starts(), |_| {
        let mut spec = spec(entry, "ms", Goal::at_most(1.0), Vec::new());
        spec.kind = ReferenceKind::Fixed;
        spec.reference = format!("at most {at_most} ms");
        spec.argv.clear();
        spec.path = "none".to_owned();
        spec.notes.push(
            "a reading is the median of 12 differences between a start under `tieline run` and a plain one"
                .to_owned(),
        );
        spec
    })
}
