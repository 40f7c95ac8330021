//! Chooses an engine by the recognised shape and by measuring its result.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use super::form::Line;
use super::plan::usual_cables;
use super::{
    Checked, Engine, Grid, Groups, Lids, Ranks, Request, RouteError, Routing, Tables, View, check, route,
};
use crate::graph::{Graph, Kind};
use crate::quality::{Pattern, bandwidth, loads};
use crate::recognise::{self, Shape, recognise};

/// How much fuller than it must be the fullest uplink of a tree may be before other engines are tried: half
/// as full again is what faults make of a good plan.
const BEYOND: f64 = 1.5;
/// From this confidence on a shape is complete.
const WHOLE: f64 = 1.0 - 1e-9;
/// Flows by which tables are compared, about: enough for a difference of one in a hundred.
const FLOWS: usize = 40_000;

/// An engine, with what it needs to know.
#[derive(Debug, Clone)]
pub struct Choice {
    /// The engine.
    pub engine: Engine,
    /// Coordinates, if it is an engine for grids.
    pub grid: Option<Grid>,
    /// Groups, if it is one for dragonflies.
    pub groups: Option<Groups>,
    /// Why it was chosen.
    pub why: String,
    /// Nothing contradicts the shape: no cable, no switch is missing from it.
    pub is_whole: bool,
}

/// Chooses an engine: the shape's own if the shape is sure and the engine can be told where all switches
/// stand, otherwise the one for any graph.
#[must_use]
pub fn choose(graph: &Graph) -> Choice {
    let seen = recognise(graph);
    let name = seen.shape.name();
    let is_whole = seen.confidence >= WHOLE && seen.against.is_empty();
    let any = |why: String| Choice { engine: Engine::Layered, grid: None, groups: None, why, is_whole };
    if seen.shape == Shape::Unknown {
        return any("no known shape is recognised".to_owned());
    }
    if !seen.is_sure() {
        return any(format!(
            "no shape is recognised for sure (the closest is {name}, {:.0} % sure)",
            seen.confidence * 100.0
        ));
    }
    let why = format!("the fabric is a {name} ({:.0} % sure)", seen.confidence * 100.0);
    match seen.shape {
        Shape::Tree { .. } => Choice { engine: Engine::FatTree, grid: None, groups: None, why, is_whole },
        Shape::Grid { sizes, lines, coordinates } => {
            let lines: Vec<Line> = lines.into_iter().map(line).collect();
            let at = |node: crate::NodeIx| coordinates.iter().map(|axis| axis[node.index()]).collect();
            match Grid::new(graph, &sizes, &lines, at) {
                Ok(grid) => Choice { engine: Engine::Grid, grid: Some(grid), groups: None, why, is_whole },
                Err(error) => any(format!("{why}, but {error}")),
            }
        }
        Shape::Dragonfly { group, plus: false, .. } => {
            let of_switches = graph.nodes_of(Kind::Switch).map(|switch| group[switch.index()]);
            let groups = Groups(of_switches.collect());
            Choice { engine: Engine::Dragonfly, grid: None, groups: Some(groups), why, is_whole }
        }
        Shape::Dragonfly { .. } | Shape::Unknown => any(why),
    }
}

fn line(seen: recognise::Line) -> Line {
    match seen {
        recognise::Line::Ring => Line::Ring,
        recognise::Line::Open => Line::Open,
        recognise::Line::Complete => Line::Complete,
    }
}

/// What came of routing by the engine that fits.
#[derive(Debug, Clone)]
pub struct Measured {
    /// By which engine.
    pub engine: Engine,
    /// Why by that one.
    pub why: String,
    /// The tables.
    pub routing: Routing,
    /// The result of the checker.
    pub checked: Checked,
    /// Seconds for the tables, those of other engines that were tried beside too; and for checking and
    /// measuring.
    pub seconds: [f64; 2],
}

/// Tables with what counts of them.
struct Tried {
    engine: Engine,
    routing: Routing,
    checked: Checked,
    seconds: [f64; 2],
}

/// Routes by an engine that was [chosen](choose), and measures what came of it. Where the checker does not
/// pass the tables those of the engine for any graph are taken. Where other engines may do better the tables
/// are put beside theirs, and the best are kept: where links of a tree have far more destinations than they
/// must have, where something is missing from another shape, and where there is no engine of the shape.
///
/// # Errors
/// As [`route`].
pub fn route_measured(
    graph: &Graph,
    lids: &Arc<Lids>,
    request: &Request<'_>,
    choice: &Choice,
) -> Result<Measured, RouteError> {
    let ask = |engine: Engine| {
        let (grid, groups) = (choice.grid.as_ref(), choice.groups.as_ref());
        let begun = Instant::now();
        let routing = route(graph, lids, &Request { engine, grid, groups, ..*request })?;
        let (took, begun) = (begun.elapsed().as_secs_f64(), Instant::now());
        let checked = check(graph, &routing.tables);
        Ok(Tried { engine, routing, checked, seconds: [took, begun.elapsed().as_secs_f64()] })
    };
    let own = choice.engine.word();
    let mut best = match ask(choice.engine) {
        Err(error) if choice.engine != Engine::Layered => {
            let why = format!("`layered` is taken, as the engine `{own}` refuses: {error}");
            return ask(Engine::Layered).map(|tried| tried.because(why));
        }
        tried => tried?,
    };
    if !best.checked.is_good() && choice.engine != Engine::Layered {
        let why = format!("`layered` is taken, as the tables of the engine `{own}` did not pass the check");
        return ask(Engine::Layered).map(|tried| tried.because(why));
    }
    let begun = Instant::now();
    let mut why = choice.why.clone();
    if let Some((reason, others)) = others(graph, choice, &best.routing.tables) {
        let mut all = vec![best];
        for engine in others {
            // An engine that refuses this fabric is none of those to choose from.
            all.extend(ask(*engine).ok());
        }
        let seconds =
            all.iter().fold([0.0; 2], |sum, one| [sum[0] + one.seconds[0], sum[1] + one.seconds[1]]);
        best = best_of(graph, all);
        best.seconds = [seconds[0], seconds[1].max(begun.elapsed().as_secs_f64() - seconds[0])];
        why = format!("{why}; {reason}, and of all engines `{}` does best", best.engine.word());
    }
    Ok(best.because(why))
}

/// Engines to put beside the one that was chosen, and why; `None` where that is sure to do well.
fn others(graph: &Graph, choice: &Choice, tables: &Tables) -> Option<(String, &'static [Engine])> {
    let own = choice.engine.word();
    match choice.engine {
        Engine::FatTree => crowded(graph, tables).map(|crowded| {
            let engines: &[Engine] = &[Engine::Balanced, Engine::MinHop, Engine::Layered];
            (format!("with the engine `{own}` {crowded}"), engines)
        }),
        Engine::Grid | Engine::Dragonfly if !choice.is_whole => {
            Some(("something is missing from it".to_owned(), &[Engine::Layered]))
        }
        Engine::Layered => {
            Some(("no engine is made for it".to_owned(), &[Engine::FatTree, Engine::Balanced]))
        }
        _ => None,
    }
}

impl Tried {
    fn because(self, why: String) -> Measured {
        let Self { engine, routing, checked, seconds } = self;
        Measured { engine, why, routing, checked, seconds }
    }
}

/// What trunks of a level may have more or fewer cables than most of them, of all cables, before they are
/// said to differ: twice what is missing from a fabric in which one cable of twenty is dead.
const DIFFER: f64 = 0.1;

/// Have trunks between a level and the next different numbers of cables? Then a plan by positions does not
/// know their shares.
fn trunks_differ(graph: &Graph) -> bool {
    let view = View::of(graph);
    let ranks = Ranks::of_leaves(&view);
    let mut trunks = vec![BTreeMap::<u32, usize>::new(); usize::from(ranks.top()) + 1];
    for sw in 0..view.switch_count() {
        for near in view.neighbours(sw).iter().filter(|near| ranks.is_up(sw, near.sw as usize)) {
            *trunks[usize::from(ranks.rank(sw))].entry(u32::from(near.cables)).or_default() += 1;
        }
    }
    trunks.iter().any(|of_level| {
        let usual = usual_cables(of_level).0;
        let sum = |each: &dyn Fn(u32) -> u32| -> usize {
            of_level.iter().map(|(cables, count)| each(*cables) as usize * count).sum()
        };
        sum(&|cables| cables.abs_diff(usual)) as f64 > DIFFER * sum(&|cables| cables) as f64
    })
}

/// Which links carry more than [`BEYOND`] times the LIDs that the shape asks for, in words.
fn crowded(graph: &Graph, tables: &Tables) -> Option<String> {
    if trunks_differ(graph) {
        return Some("trunks with different numbers of cables are not balanced".to_owned());
    }
    let (loads, least) = (loads(graph, tables), least_loads(graph));
    if f64::from(loads.up.most) > BEYOND * f64::from(least.up) {
        return Some(format!("one uplink carries {} LIDs where {} would do", loads.up.most, least.up));
    }
    let mean = loads.down.mean;
    (mean > BEYOND * least.down)
        .then(|| format!("a downlink carries {mean:.1} LIDs on average where {:.1} would do", least.down))
}

/// What links of a tree have at least, by its shape.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Least {
    /// Destinations of the fullest uplink.
    pub up: u32,
    /// Destinations of a downlink in the mean.
    pub down: f64,
}

/// What links of a tree have at least. All hosts that are not in a part of the tree go by the cables that
/// lead up from it, and the fullest has no less than their mean; each host in it comes by one of these cables
/// at least. Parts are what hangs together up to each rank.
#[must_use]
pub fn least_loads(graph: &Graph) -> Least {
    let view = View::of(graph);
    let ranks = Ranks::of_leaves(&view);
    let whole = view.components();
    let hosts_of = |component: &[u32]| {
        let mut hosts = vec![0_u32; view.switch_count()];
        (0..view.switch_count()).for_each(|sw| hosts[component[sw] as usize] += view.programs(sw));
        hosts
    };
    let all = hosts_of(&whole);
    let (mut least, mut entered, mut cables) = (0, 0_u64, 0_u64);
    for top in 0..ranks.top() {
        let parts = view.components_of(|sw| ranks.rank(sw) <= top);
        let mut up = vec![0_u32; view.switch_count()];
        for sw in (0..view.switch_count()).filter(|sw| ranks.rank(*sw) <= top) {
            let above = view.neighbours(sw).iter().filter(|near| ranks.rank(near.sw as usize) > top);
            up[parts[sw] as usize] += above.map(|near| u32::from(near.cables)).sum::<u32>();
        }
        let inside = hosts_of(&parts);
        let of_part = |part: usize| {
            let outside = all[whole[part] as usize] - inside[part];
            if up[part] == 0 || inside[part] == 0 { 0 } else { outside.div_ceil(up[part]) }
        };
        least = least.max((0..view.switch_count()).map(of_part).max().unwrap_or(0));
        for part in (0..view.switch_count()).filter(|part| up[*part] > 0) {
            entered += u64::from(inside[part]);
            cables += u64::from(up[part]);
        }
    }
    Least { up: least, down: entered as f64 / cables.max(1) as f64 }
}

/// Of tables that are good (the first are) those that fall least behind the best of all: in the bandwidth
/// that is left, or in the fullest link, whichever is worse.
fn best_of(graph: &Graph, mut all: Vec<Tried>) -> Tried {
    let (mut first, ours) = (true, all[0].engine);
    all.retain(|one| std::mem::take(&mut first) || one.checked.is_good());
    let measured = |one: &Tried| {
        let tables = &one.routing.tables;
        let count = (FLOWS / tables.lids().iter().count().max(1)).clamp(4, 64) as u32;
        let left = bandwidth(graph, tables, Pattern::Bisection { count, seed: 1 }).mean;
        let loads = loads(graph, tables);
        // In a tree a link down has as many as it must have; in other shapes neither direction is special.
        let most = if ours == Engine::FatTree { loads.up.most } else { loads.up.most.max(loads.down.most) };
        (left, f64::from(most.max(1)))
    };
    let values: Vec<(f64, f64)> = all.iter().map(measured).collect();
    let most = values.iter().map(|value| value.0).fold(0.0, f64::max);
    let least = values.iter().map(|value| value.1).fold(f64::INFINITY, f64::min);
    let share = |at: usize| (values[at].0 / most).min(least / values[at].1);
    // Of equal ones the first.
    let best = (0..all.len()).rev().max_by(|a, b| share(*a).total_cmp(&share(*b))).unwrap_or(0);
    all.swap_remove(best)
}

/// Routes by the engine that [`choose`] names, and measures it as [`route_measured`] does; the first note
/// says why it was taken.
///
/// # Errors
/// As [`route`].
pub fn route_auto(graph: &Graph, lids: &Arc<Lids>, request: &Request<'_>) -> Result<Routing, RouteError> {
    let Measured { engine, why, mut routing, .. } = route_measured(graph, lids, request, &choose(graph))?;
    routing.notes.insert(0, format!("engine {}: {why}", engine.word()));
    Ok(routing)
}
