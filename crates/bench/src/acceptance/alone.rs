//! Figures that need no cluster: rings, unmodified programs, and the cost of measuring itself.

use super::{
    Context,
    catalogue::{Entry, Kind},
    sockets,
};
use crate::{
    baseline::line::Lines,
    cpus, duo,
    error::Result,
    figure::{Figure, ReferenceKind, Spec, Stat},
    patterns::{
        overhead::{OverheadSides, SAMPLES},
        ring::{BATCH, CAPACITY_BYTES, RECORDS, RingSides, Way},
    },
    run::BlockPlan,
    verdict::Goal,
};

pub(super) fn measure(context: &mut Context<'_>, entries: &[Entry]) {
    for entry in entries {
        if context.is_ended(entry.id) {
            continue;
        }
        let figure = match entry.kind {
            Kind::Ring { batched, at_least } => {
                context.tell(entry.id);
                ring(context, entry, batched, at_least)
            }
            Kind::Overhead { at_most } => {
                context.tell(entry.id);
                overhead(context, entry, at_most)
            }
            Kind::Sockets(what) => {
                context.tell(entry.id);
                sockets::measure(context, entry, what)
            }
            _ => continue,
        };
        context.keep(entry.id, figure);
    }
}

fn ring(context: &mut Context<'_>, entry: &Entry, batched: bool, at_least: f64) -> Result<Figure> {
    let cpus = cpus::pair(context.options.cpus, "the ring benchmark")?;
    let timer = context.timer;
    let plan = BlockPlan::against_baseline(context.options.max_time, context.options.seed);
    let way = if batched { Way::Batched } else { Way::Single };
    let lines = Lines::new();
    duo::on(cpus, |duo| {
        let sides = RingSides::new(&timer, duo, lines.two(), way, at_least)?;
        context.paired(&plan, sides, RECORDS, |sides| {
            let handed = if batched {
                format!("{BATCH} records a push, taken by draining")
            } else {
                "one record a push".to_owned()
            };
            Spec {
                id: entry.id.to_owned(),
                unit: "M/s",
                stat: Stat::P50,
                size_bytes: Some(8),
                cpus: cpus.to_vec(),
                path: "shm".to_owned(),
                kind: ReferenceKind::Fixed,
                reference: format!("at least {at_least} M/s"),
                version: String::new(),
                argv: Vec::new(),
                goal: Goal::at_least(1.0),
                distribution: None,
                notes: vec![
                    entry.what.to_owned(),
                    format!("{handed}; every payload compared; ring of {} KiB", CAPACITY_BYTES >> 10),
                    "timed by the consumer; blocks are disturbed when the two-line baseline moves".to_owned(),
                    format!("both sides wait {:?}, the faster way when tried", sides.poll()),
                ],
            }
        })
    })
}

fn overhead(context: &mut Context<'_>, entry: &Entry, at_most: f64) -> Result<Figure> {
    let cpu = cpus::allowed()?.first().copied().unwrap_or(0);
    let timer = context.timer;
    let plan = BlockPlan::against_baseline(context.options.max_time, context.options.seed);
    duo::pinned(cpu, || {
        let sides = OverheadSides::new(&timer, at_most);
        context.paired(&plan, sides, u64::from(SAMPLES), |sides| Spec {
            id: entry.id.to_owned(),
            unit: "ns",
            stat: Stat::P50,
            size_bytes: None,
            cpus: vec![cpu],
            path: "none".to_owned(),
            kind: ReferenceKind::Baseline,
            reference: format!("two clock readings + {at_most} ns"),
            version: String::new(),
            argv: ["tieline", "bench", "limits", "--json"].map(ToOwned::to_owned).to_vec(),
            goal: Goal::at_most(1.0),
            distribution: None,
            notes: vec![
                entry.what.to_owned(),
                format!("beyond its clock readings: {:.2} ns, median of all readings", sides.beyond_ns()),
                "the loop that times every benchmark, around an event that does nothing; statistics are made after it"
                    .to_owned(),
            ],
        })
    })
}
