//! Figures that need no cluster: rings, unmodified programs, the link between hosts, messages, and
//! the cost of measuring itself.

use super::{
    Context,
    catalogue::{Entry, Kind},
    copies, fleet, messages, ofi, sockets,
};
use crate::{
    cpus,
    error::Result,
    figure::{Figure, ReferenceKind, Spec, Stat},
    patterns::{
        overhead::{OverheadSides, SAMPLES},
        ring::{BATCH, CAPACITY_BYTES, RECORDS, RingField, Way},
    },
    pinned_pair,
    run::BlockPlan,
    verdict::Goal,
};

pub(super) fn measure(context: &mut Context<'_>, entries: &[Entry]) {
    for entry in entries {
        if context.is_ended(entry.id) {
            continue;
        }
        let figure = match entry.kind {
            Kind::Ring { batched, goal } => {
                context.tell(entry.id);
                ring(context, entry, batched, goal)
            }
            Kind::Copies(what) => {
                context.tell(entry.id);
                cpus::allowed().and_then(|allowed| {
                    copies::measure(context, entry, what, allowed.first().copied().unwrap_or(0))
                })
            }
            Kind::Overhead { at_most } => {
                context.tell(entry.id);
                overhead(context, entry, at_most)
            }
            Kind::Sockets(what) => {
                context.tell(entry.id);
                sockets::measure(context, entry, what)
            }
            Kind::Ofi(what) => {
                context.tell(entry.id);
                ofi::measure(context, entry, what)
            }
            Kind::Messages(what) => {
                context.tell(entry.id);
                messages::measure(context, entry, what)
            }
            Kind::Fleet { load, goal } => {
                context.tell(entry.id);
                fleet::measure(context, entry, load, goal)
            }
            _ => continue,
        };
        context.keep(entry.id, figure);
    }
}

fn ring(context: &mut Context<'_>, entry: &Entry, batched: bool, goal: Goal) -> Result<Figure> {
    let cpus = cpus::pair(context.options.cpus, "the ring benchmark")?;
    let timer = context.timer;
    let plan = BlockPlan::against_rival(context.options.max_time, context.options.seed);
    let way = if batched { Way::Batched } else { Way::Single };
    pinned_pair::on(cpus, |pair| {
        let field = RingField::new(&timer, pair, way)?;
        context.against_best(
            &plan,
            field,
            RECORDS,
            |ns| 1000.0 / ns,
            |field| {
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
                    kind: ReferenceKind::Rival,
                    reference: String::new(),
                    version: String::new(),
                    argv: Vec::new(),
                    goal,
                    distribution: None,
                    notes: vec![
                        entry.what.to_owned(),
                        format!("{handed}; every payload compared; ring of {} KiB", CAPACITY_BYTES >> 10),
                        "timed by the consumer".to_owned(),
                        format!(
                            "both ends wait {:?}, the faster of the ways that were tried; the rival's ends do so too",
                            field.poll()
                        ),
                    ],
                }
            },
        )
    })
}

fn overhead(context: &mut Context<'_>, entry: &Entry, at_most: f64) -> Result<Figure> {
    let cpu = cpus::allowed()?.first().copied().unwrap_or(0);
    let timer = context.timer;
    let plan = BlockPlan::against_baseline(context.options.max_time, context.options.seed);
    pinned_pair::pinned(cpu, || {
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
