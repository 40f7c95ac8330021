//! Routes compared with OpenSM's on the same damaged fabrics: the tree of 3,456 hosts, and small
//! and large fabrics of the kinds that data centres have.

use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use topology::{
    build::{Hall, Size, halls},
    quality::{Pattern, bandwidth, loads},
};

use super::*;

/// The time that any other engine may take for a tree.
const LIMIT: Duration = Duration::from_secs(300);
/// Radix of the tree of three levels with 3,456 hosts.
const RADIX: u32 = 24;
/// The shares of the cables between switches that are removed.
const FAULTS: [f64; 3] = [0.0, 0.01, 0.05];
/// Seeds of a long comparison.
const SEEDS: u64 = 20;
/// Engines of a short comparison: those that take seconds.
const QUICK: [&str; 3] = ["minhop", "updn", "ftree"];
/// The engines that only a long run adds.
const SLOW: [&str; 1] = ["dfsssp"];
/// Another one, for as many trees as [`BUDGET`] allows: it takes minutes for each.
const SLOWEST: &str = "nue";
/// Time for the slowest engine, all trees together.
const BUDGET: Duration = Duration::from_secs(150 * 60);
/// Seeds of a long comparison of the kinds.
const KIND_SEEDS: u64 = 5;
/// The tree of 3,456 hosts.
const TREE: &str = "tree";
/// The shares of a short comparison of large fabrics.
const SHORT_FAULTS: [f64; 1] = [0.01];
/// Our engine for any graph, and the one that fits.
const OURS: [&str; 2] = ["layered", "the engine that fits"];

/// The quality of one engine's tables on one tree.
#[derive(Clone, Copy)]
struct Values {
    /// Most destinations of a port; for the kinds of fabrics, of an uplink.
    destinations: f64,
    /// The share of the bandwidth that random pairs get.
    bisection: f64,
}

/// A damaged fabric of a group, and an engine: the share of faults in per mille.
type Key = (u8, &'static str, u32, u64, &'static str);

/// Results of engines, kept because both figures use the same tables.
struct Asked {
    /// None if an engine did not end in time, or made a credit loop.
    values: BTreeMap<Key, Option<Values>>,
    /// Time that the slowest engine has taken.
    slowest: Duration,
}

static ASKED: Mutex<Asked> = Mutex::new(Asked { values: BTreeMap::new(), slowest: Duration::ZERO });

/// A damaged fabric, and the best that was found for it.
struct Tree {
    of: Fabrics,
    name: &'static str,
    graph: Graph,
    share: f64,
    seed: u64,
    ours: f64,
    theirs: Option<(f64, &'static str)>,
}

/// The worst of a rival and us.
pub(super) fn measure(
    context: &mut Context<'_>,
    entry: &Entry,
    of: Fabrics,
    bisection: bool,
    goal: Goal,
) -> Result<Figure> {
    let long = context.options.rivals;
    let mut trees = fabrics_of(context, of, bisection)?;
    let mut notes = Vec::new();
    let engines = match of {
        // On small fabrics the slow ones are quick too.
        Fabrics::Kinds => [&QUICK[..], &SLOW[..]].concat(),
        Fabrics::Tree | Fabrics::Large if long => [&QUICK[..], &SLOW[..]].concat(),
        Fabrics::Tree => QUICK.to_vec(),
        Fabrics::Large => Vec::new(),
    };
    // Seed by seed, so that the slowest gets as far with each share of faults.
    trees.sort_by_key(|tree| tree.seed);
    for engine in &engines {
        ask(context, &mut trees, engine, bisection, &mut notes)?;
    }
    if context.progress.stop() {
        return Err(BenchError::Fabric("ended before each of OpenSM's engines had been asked".to_owned()));
    }
    let mut tried = engines.join(", ");
    match of {
        Fabrics::Tree if long => {
            let count = ask(context, &mut trees, SLOWEST, bisection, &mut notes)?;
            tried = format!("{tried}, and {SLOWEST} on {count} of them");
        }
        Fabrics::Tree => notes
            .push("left out: 19 further seeds, dfsssp and nue; `--rivals` runs them, for hours".to_owned()),
        Fabrics::Large if !long => {
            tried = "our layered one".to_owned();
            notes.push(format!(
                "left out: whole fabrics, those without 5 % of their cables, and OpenSM's {}; `--rivals` runs them, for an hour",
                [&QUICK[..], &SLOW[..]].concat().join(", ")
            ));
        }
        Fabrics::Kinds | Fabrics::Large => tried = format!("{tried}, and our layered one"),
    }
    let blocks = worst_first(&trees, bisection);
    let worst = blocks.first().map(|(block, _)| *block);
    notes.extend(blocks.iter().map(|(_, told)| told.clone()));
    notes.truncate(80);
    let what = format!("the worst of {} damaged fabrics, engines {tried}", blocks.len());
    let mut all = Spec {
        path: "fabric".to_owned(),
        kind: ReferenceKind::Rival,
        reference: "the best rival engine on the same fabric".to_owned(),
        goal,
        ..spec(entry, if bisection { "of 1" } else { "destinations" }, Stat::Max, f64::NAN, what)
    };
    all.notes.append(&mut notes);
    figure(all, worst.into_iter().collect(), context.options.seed)
}

/// The fabrics that are routed, damaged, with our values.
fn fabrics_of(context: &mut Context<'_>, of: Fabrics, bisection: bool) -> Result<Vec<Tree>> {
    let long = context.options.rivals;
    match of {
        Fabrics::Tree => trees(if long { SEEDS } else { 1 }, bisection),
        Fabrics::Kinds => {
            of_kinds(context, of, &all(Size::Small)?, &FAULTS, if long { KIND_SEEDS } else { 1 }, bisection)
        }
        Fabrics::Large => {
            let faults: &[f64] = if long { &FAULTS } else { &SHORT_FAULTS };
            of_kinds(context, of, &all(Size::Large)?, faults, 1, bisection)
        }
    }
}

/// A rival's value and ours on each fabric, and both in words: that on which we are worst first.
fn worst_first(trees: &[Tree], bisection: bool) -> Vec<(Block, String)> {
    // The worst case counts: a single one, as each was computed and not drawn. It is reported
    // first.
    let ratio =
        |block: &Block| if bisection { block.reference / block.ours } else { block.ours / block.reference };
    let mut blocks = Vec::new();
    for Tree { name, share, seed, ours, theirs, .. } in trees {
        let Some((theirs, engine)) = theirs else { continue };
        let share = share * 100.0;
        let told = format!(
            "{name}, {share:.0} % of the cables gone, seed {seed}: {ours:.3}, the best rival, {engine}: {theirs:.3}"
        );
        blocks.push((Block { ours: *ours, reference: *theirs }, told));
    }
    blocks.sort_by(|(a, _), (b, _)| ratio(b).total_cmp(&ratio(a)));
    blocks
}

/// The damaged trees with our values. Without faults all seeds are the same.
fn trees(seeds: u64, bisection: bool) -> Result<Vec<Tree>> {
    let whole = tree(RADIX)?;
    let mut trees = Vec::new();
    for share in FAULTS {
        for seed in 0..if share > 0.0 { seeds } else { 1 } {
            let graph = damaged(&whole, share, seed);
            let lids = identifiers(&graph)?;
            let routes = routed(&graph, &lids, &Request::by(Engine::FatTree))?;
            let ours = values(&graph, &routes.tables, TREE).of(bisection);
            trees.push(Tree { of: Fabrics::Tree, name: TREE, graph, share, seed, ours, theirs: None });
        }
    }
    Ok(trees)
}

fn all(size: Size) -> Result<Vec<Hall>> {
    halls(size).map_err(|error| BenchError::Fabric(error.to_string()))
}

/// Fabrics of all kinds, damaged, with our values and those of our engine for any graph. Without
/// faults all seeds are the same.
fn of_kinds(
    context: &mut Context<'_>,
    of: Fabrics,
    halls: &[Hall],
    shares: &[f64],
    seeds: u64,
    bisection: bool,
) -> Result<Vec<Tree>> {
    let mut trees = Vec::new();
    for (name, whole) in halls {
        for share in shares.iter().copied() {
            for seed in 0..if share > 0.0 { seeds } else { 1 } {
                if context.progress.stop() {
                    return Err(BenchError::Fabric("ended before all fabrics had been routed".to_owned()));
                }
                context.progress.tell(&format!("{name}, {:.0} % of the cables gone", share * 100.0), 0.0);
                let tree = Tree {
                    of,
                    name,
                    graph: damaged(whole, share, seed),
                    share,
                    seed,
                    ours: 0.0,
                    theirs: None,
                };
                let [any, ours] = own_values(&tree)?;
                let theirs = Some((any.of(bisection), OURS[0]));
                trees.push(Tree { ours: ours.of(bisection), theirs, ..tree });
            }
        }
    }
    Ok(trees)
}

/// Returns the values of our engine for any graph and of the one that fits, for a fabric; computed
/// once.
fn own_values(tree: &Tree) -> Result<[Values; 2]> {
    let value = |at: usize| known().values.get(&tree.key(OURS[at])).copied().flatten();
    if let (Some(any), Some(ours)) = (value(0), value(1)) {
        return Ok([any, ours]);
    }
    let (graph, name) = (&tree.graph, tree.name);
    let lids = identifiers(graph)?;
    let layered = Request::by(Engine::Layered);
    let ours = route_measured(graph, &lids, &layered, &choose(graph))
        .map_err(|error| BenchError::Fabric(error.to_string()))?;
    if !ours.checked.is_good() {
        return Err(BenchError::Fabric(format!("{name}: pairs are lost, or in a credit loop")));
    }
    let any = routed(graph, &lids, &layered)?;
    let both = [values(graph, &any.tables, name), values(graph, &ours.routing.tables, name)];
    known().values.extend(OURS.iter().zip(both).map(|(engine, values)| (tree.key(engine), Some(values))));
    Ok(both)
}

fn known() -> MutexGuard<'static, Asked> {
    ASKED.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Tree {
    fn key(&self, engine: &'static str) -> Key {
        (self.of as u8, self.name, (self.share * 1000.0).round() as u32, self.seed, engine)
    }
}

/// Runs one of OpenSM's engines on all trees, or on as many as its time allows; returns the number
/// of trees for which it had tables.
fn ask(
    context: &mut Context<'_>,
    trees: &mut [Tree],
    engine: &'static str,
    bisection: bool,
    notes: &mut Vec<String>,
) -> Result<usize> {
    let (mut had, mut had_none, all) = (0, 0, trees.len());
    let mut nearest = f64::INFINITY;
    for (at, tree) in trees.iter_mut().enumerate() {
        let what = format!(
            "{}, {:.0} % of the cables gone, seed {}, OpenSM's {engine}",
            tree.name,
            tree.share * 100.0,
            tree.seed
        );
        context.progress.tell(&what, at as f64 / all as f64);
        let stop = || context.progress.stop();
        match asked(tree, engine, &stop)? {
            Asks::Has(theirs) => {
                let theirs = theirs.of(bisection);
                had += 1;
                let ratio = if bisection { tree.ours / theirs } else { theirs / tree.ours };
                nearest = nearest.min(ratio);
                let better = |old: f64| if bisection { theirs > old } else { theirs < old };
                if tree.theirs.is_none_or(|(old, _)| better(old)) {
                    tree.theirs = Some((theirs, engine));
                }
            }
            Asks::HasNone => had_none += 1,
            Asks::Ends => break,
        }
    }
    let none =
        format!("on {had_none} fabrics no tables in time, or none without lost pairs and credit loops");
    if had > 0 {
        notes.push(format!(
            "OpenSM's {engine}, on {had} fabrics: at best {nearest:.3} times as bad as ours; {none}"
        ));
    } else if had_none > 0 {
        notes.push(format!("OpenSM's {engine}: {none}"));
    }
    Ok(had)
}

/// The result of one run of an engine.
enum Asks {
    Has(Values),
    /// It did not end in time.
    HasNone,
    /// No further runs: the time of the engine is over, or the measurement is to end.
    Ends,
}

/// Runs an engine on a tree, unless its result is known already.
fn asked(tree: &Tree, engine: &'static str, stop: &dyn Fn() -> bool) -> Result<Asks> {
    let key = tree.key(engine);
    let before = known().values.get(&key).copied();
    let answer = |values: Option<Values>| values.map_or(Asks::HasNone, Asks::Has);
    if let Some(values) = before {
        return Ok(answer(values));
    }
    let is_slowest = engine == SLOWEST;
    let limit = if is_slowest { BUDGET.saturating_sub(known().slowest) } else { LIMIT };
    if stop() || limit.is_zero() {
        return Ok(Asks::Ends);
    }
    let begun = Instant::now();
    let tables = opensm::tables(&tree.graph, engine, limit, stop)?;
    if is_slowest {
        known().slowest += begun.elapsed();
    }
    // A measurement that was stopped has not failed.
    if tables.is_none() && (stop() || is_slowest) {
        return Ok(Asks::Ends);
    }
    // An engine whose routes may deadlock is not a rival; the dump does not have the VLs of dfsssp.
    let halts = |tables: &Tables| {
        let checked = check(&tree.graph, tables);
        checked.lost > 0 || engine != "dfsssp" && !checked.credit_loop.is_empty()
    };
    let tables = tables.filter(|tables| tree.name == TREE || !halts(tables));
    let values = tables.map(|tables| values(&tree.graph, &tables, tree.name));
    known().values.insert(key, values);
    Ok(answer(values))
}

impl Values {
    /// The one that a figure is of.
    fn of(self, bisection: bool) -> f64 {
        if bisection { self.bisection } else { self.destinations }
    }
}

/// Both values of tables.
fn values(graph: &Graph, tables: &Tables, name: &str) -> Values {
    let loads = loads(graph, tables);
    Values {
        destinations: f64::from(if name == TREE { loads.most() } else { loads.up.most }),
        bisection: bandwidth(graph, tables, Pattern::Bisection { count: 100, seed: 1 }).mean,
    }
}

/// Without a share of the cables between switches.
fn damaged(graph: &Graph, share: f64, seed: u64) -> Graph {
    let is_switch = |port: PortIx| graph.kind(graph.owner(port)) == NodeKind::Switch;
    let mut links: Vec<PortIx> =
        graph.links().filter(|(a, b)| is_switch(*a) && is_switch(*b)).map(|(a, _)| a).collect();
    let count = (links.len() as f64 * share).round() as usize;
    let mut random = crate::rng::Rng::new(seed);
    let dead: Vec<PortIx> = (0..count).map(|_| links.swap_remove(random.below(links.len()))).collect();
    graph.without(&dead, &[])
}

#[cfg(test)]
mod tests {
    use super::*;
    use topology::build::with_aggregation;

    /// The values of both figures, by the way that large fabrics go.
    #[test]
    fn a_fabric_is_put_beside_our_engine_for_any_graph() {
        let whole = with_aggregation(&fat_tree(&FatTree::new(8, 3)).unwrap()).unwrap();
        let (name, mut best) = ("a small tree", Vec::new());
        for share in FAULTS {
            let tree = Tree {
                of: Fabrics::Large,
                name,
                graph: damaged(&whole, share, 0),
                share,
                seed: 0,
                ours: 0.0,
                theirs: None,
            };
            let [any, ours] = own_values(&tree).unwrap();
            assert!(ours.bisection > 0.3 && ours.bisection >= 0.98 * any.bisection, "{share}");
            assert!(ours.destinations >= 1.0 && ours.destinations <= 1.02 * any.destinations, "{share}");
            // The other figure uses the same tables.
            let [_, again] = own_values(&Tree { graph: damaged(&whole, 0.5, 1), ..tree }).unwrap();
            assert!(again.bisection.to_bits() == ours.bisection.to_bits(), "computed anew");
            best.push(ours.bisection);
        }
        assert!(best[0] > best[2], "5 % of the cables are gone, and nothing is lost: {best:?}");
    }
}
