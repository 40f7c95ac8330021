//! Figures that need no cluster: the rings.

use super::{
    Context,
    catalogue::{Entry, Kind},
};
use crate::{
    cpus, duo,
    error::Result,
    figure::{Figure, ReferenceKind, Spec, Stat},
    floor::line::Lines,
    patterns::ring::{BATCH, CAPACITY_BYTES, RECORDS, RingSides, Way},
    run::BlockPlan,
    verdict::Goal,
};

pub(super) fn measure(context: &mut Context<'_>, entries: &[Entry]) {
    for entry in entries {
        if let Kind::Ring { batched, at_least } = entry.kind {
            context.tell(entry.id);
            let figure = ring(context, entry, batched, at_least);
            context.keep(entry.id, figure);
        }
    }
}

fn ring(context: &mut Context<'_>, entry: &Entry, batched: bool, at_least: f64) -> Result<Figure> {
    let cpus = cpus::pair(context.options.cpus, "the ring benchmark")?;
    let timer = context.timer;
    let plan = BlockPlan::against_floor(context.options.max_time, context.options.seed);
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
                    "timed by the consumer; blocks are disturbed when the two-line floor moves".to_owned(),
                    format!("both sides wait {:?}, the faster way when tried", sides.poll()),
                ],
            }
        })
    })
}
