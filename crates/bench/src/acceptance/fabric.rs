//! Figures of switched fabrics: the speed of routing, checking, repair, discovery and counters, and
//! the memory used. Memory is measured in a process of its own; the simulator `ibsim` is used where
//! a rival uses it too.

use std::sync::Arc;
use std::time::{Duration, Instant};

use topology::build::{FatTree, deep, fat_tree};
use topology::routing::{Engine, Lids, Request, Routing, Tables, check, choose, route, route_measured};
use topology::{Graph, Kind as NodeKind, PortIx};

use super::{
    Context,
    catalogue::{Entry, Fabric, Fabrics, Kind},
    managers::{figure, spec},
};
use crate::{
    error::{BenchError, Result},
    figure::{Figure, ReferenceKind, Spec, Stat},
    patterns::subnet::{unaffected, uplink},
    stats::paired::Block,
    verdict::Goal,
};

mod live;
mod memory;
mod opensm;
mod quality;
mod subnet;

/// Readings of a figure; the worst counts.
const READINGS: usize = 5;
/// The readings of a figure that takes seconds.
const LONG_READINGS: usize = 3;
/// Radix of the tree of three levels with 11,664 hosts and 1,620 switches.
const RADIX: u32 = 36;

pub(super) fn measure(context: &mut Context<'_>, entries: &[Entry]) {
    for entry in entries {
        let Kind::Fabric(what) = entry.kind else { continue };
        if context.is_ended(entry.id) {
            continue;
        }
        context.tell(entry.id);
        let figure = of(context, entry, what);
        context.keep(entry.id, figure);
    }
}

fn of(context: &mut Context<'_>, entry: &Entry, what: Fabric) -> Result<Figure> {
    match what {
        Fabric::Route { layered, at_most } => {
            let engine = if layered { Engine::Layered } else { Engine::FatTree };
            let known = if layered {
                "known of OpenSM 3.3.23: dfsssp 227 s, nue 218 s of processor time; not run here"
            } else {
                "known of OpenSM 3.3.23: minhop 12.9 s, ftree 15.0 s; not run here"
            };
            routes(context, entry, engine, at_most, known)
        }
        Fabric::Reroute { at_most } => reroute(context, entry, at_most),
        Fabric::Check { at_most } => checked(context, entry, at_most),
        Fabric::Sweep { at_most } => live::sweep(context, entry, at_most),
        Fabric::Counters { at_most } => live::counters(context, entry, at_most),
        Fabric::Rate { at_least } => live::rate(context, entry, at_least),
        Fabric::Memory { radix, layered, at_most } => {
            memory::measure(context, entry, radix, layered, at_most)
        }
        Fabric::Fitting { at_most } => fitting(context, entry, at_most),
        Fabric::Subnet { load, radix, limit } => subnet::measure(context, entry, load, radix, limit),
        Fabric::Quality { of, bisection, goal } => quality::measure(context, entry, of, bisection, goal),
    }
}

/// A tree of three levels.
fn tree(radix: u32) -> Result<Graph> {
    fat_tree(&FatTree::new(radix, 3)).map_err(|error| BenchError::Fabric(error.to_string()))
}

fn identifiers(graph: &Graph) -> Result<Arc<Lids>> {
    Lids::assign(graph, 0, |_| None).map(Arc::new).map_err(|error| BenchError::Fabric(error.to_string()))
}

fn routed(graph: &Graph, lids: &Arc<Lids>, request: &Request<'_>) -> Result<Routing> {
    route(graph, lids, request).map_err(|error| BenchError::Fabric(error.to_string()))
}

/// Readings of seconds until there are enough, or it is ended.
fn seconds(
    context: &Context<'_>,
    readings: usize,
    at_most: f64,
    mut reading: impl FnMut() -> Result<f64>,
) -> Result<Vec<Block>> {
    let mut blocks = Vec::with_capacity(readings);
    while blocks.len() < readings && (blocks.is_empty() || !context.progress.stop()) {
        blocks.push(Block { ours: reading()?, reference: at_most });
    }
    Ok(blocks)
}

fn of_seconds(
    context: &Context<'_>,
    entry: &Entry,
    at_most: f64,
    blocks: Vec<Block>,
    mut notes: Vec<String>,
) -> Result<Figure> {
    let note = format!("the longest of {}", blocks.len());
    let mut spec = Spec { path: "fabric".to_owned(), ..spec(entry, "s", Stat::Max, at_most, note) };
    spec.notes.append(&mut notes);
    figure(spec, blocks, context.options.seed)
}

fn routes(context: &Context<'_>, entry: &Entry, engine: Engine, at_most: f64, known: &str) -> Result<Figure> {
    let graph = tree(RADIX)?;
    let lids = identifiers(&graph)?;
    let readings = if engine == Engine::Layered { LONG_READINGS } else { READINGS };
    let blocks = seconds(context, readings, at_most, || {
        let begun = Instant::now();
        let routing = routed(&graph, &lids, &Request::by(engine))?;
        let checked = check(&graph, &routing.tables);
        let took = begun.elapsed().as_secs_f64();
        if !checked.is_good() {
            return Err(BenchError::Fabric(format!("the engine `{}` made bad tables", engine.word())));
        }
        Ok(took)
    })?;
    let notes =
        vec!["tables of 1,620 switches for 13,284 identifiers, and their check".to_owned(), known.to_owned()];
    of_seconds(context, entry, at_most, blocks, notes)
}

/// Routes with the engine chosen automatically, as `tieline fabric route` does.
fn fitting(context: &Context<'_>, entry: &Entry, at_most: f64) -> Result<Figure> {
    let graph = deep().map_err(|error| BenchError::Fabric(error.to_string()))?;
    let lids = identifiers(&graph)?;
    let mut why = String::new();
    let blocks = seconds(context, READINGS, at_most, || {
        let begun = Instant::now();
        let ours = route_measured(&graph, &lids, &Request::by(Engine::Layered), &choose(&graph))
            .map_err(|error| BenchError::Fabric(error.to_string()))?;
        let took = begun.elapsed().as_secs_f64();
        if !ours.checked.is_good() {
            return Err(BenchError::Fabric(format!("the engine `{}` made bad tables", ours.engine.word())));
        }
        why = format!("the engine `{}`: {}", ours.engine.word(), ours.why);
        Ok(took)
    })?;
    of_seconds(context, entry, at_most, blocks, vec![why])
}

fn reroute(context: &Context<'_>, entry: &Entry, at_most: f64) -> Result<Figure> {
    let graph = tree(RADIX)?;
    let lids = identifiers(&graph)?;
    let before = routed(&graph, &lids, &Request::by(Engine::FatTree))?;
    let dead = uplink(&graph).ok_or_else(|| BenchError::Fabric("the tree has no uplink".to_owned()))?;
    let hurt = graph.without(&[dead], &[]);
    let request =
        Request { plan: Some(&before.plan), prior: Some(&before.tables), ..Request::by(Engine::FatTree) };
    let mut changed = (0, 0);
    let blocks = seconds(context, READINGS, at_most, || {
        let begun = Instant::now();
        let after = routed(&hurt, &lids, &request)?;
        let took = begun.elapsed().as_secs_f64();
        if !check(&hurt, &after.tables).is_good() {
            return Err(BenchError::Fabric("the repaired tables are bad".to_owned()));
        }
        changed = unaffected(&hurt, &before.tables, &after.tables);
        Ok(took)
    })?;
    if changed.1 > 0 {
        return Err(BenchError::Fabric(format!(
            "{} of {} changed entries belong to routes that the cable was not part of",
            changed.1, changed.0
        )));
    }
    let notes = vec![
        format!("{} entries changed, all of them of routes that the cable was part of", changed.0),
        "known of OpenSM 3.3.23: its ftree refuses the tree, and the whole tree is routed again in 16 to 22 s; not run here"
            .to_owned(),
    ];
    of_seconds(context, entry, at_most, blocks, notes)
}

fn checked(context: &Context<'_>, entry: &Entry, at_most: f64) -> Result<Figure> {
    let graph = tree(RADIX)?;
    let lids = identifiers(&graph)?;
    let routing = routed(&graph, &lids, &Request::by(Engine::FatTree))?;
    let mut pairs = 0;
    let blocks = seconds(context, READINGS, at_most, || {
        let begun = Instant::now();
        let checked = check(&graph, &routing.tables);
        let took = begun.elapsed().as_secs_f64();
        pairs = checked.pairs;
        if checked.is_good() {
            Ok(took)
        } else {
            Err(BenchError::Fabric("good tables were refused".to_owned()))
        }
    })?;
    let notes = vec![
        format!("{pairs} pairs of a switch with hosts and a host, and credit loops"),
        "ibdmchk, the independent checker, is not run at this size here".to_owned(),
    ];
    of_seconds(context, entry, at_most, blocks, notes)
}
