//! Routes beside OpenSM's on the same damaged trees of 3,456 hosts.

use std::{
    collections::BTreeMap,
    sync::{Mutex, PoisonError},
};

use topology::quality::{Pattern, bandwidth, loads};

use super::*;

/// Radix of the tree of three levels with 3,456 hosts.
const RADIX: u32 = 24;
/// Shares of the cables between switches that are gone.
const FAULTS: [f64; 3] = [0.0, 0.01, 0.05];
/// Seeds of a long comparison.
const SEEDS: u64 = 20;
/// Engines of a short comparison: those that take seconds.
const QUICK: [&str; 3] = ["minhop", "updn", "ftree"];
/// Engines of a long one.
const ALL: [&str; 5] = ["minhop", "updn", "ftree", "dfsssp", "nue"];

/// What counts of one engine's tables on one tree.
#[derive(Clone, Copy)]
struct Values {
    /// Most destinations of a port.
    destinations: f64,
    /// What is left of the bandwidth in random pairs, of 1.
    bisection: f64,
}

/// OpenSM's values by share of faults in per mille, seed and engine: both figures ask for the same
/// tables, and the slowest engine takes half a minute for each.
static THEIRS: Mutex<BTreeMap<(u32, u64, &str), Values>> = Mutex::new(BTreeMap::new());

/// The worst of a rival and us.
pub(super) fn measure(
    context: &mut Context<'_>,
    entry: &Entry,
    bisection: bool,
    goal: Goal,
) -> Result<Figure> {
    let whole = tree(RADIX)?;
    let long = context.options.rivals;
    let (seeds, engines) = if long { (SEEDS, &ALL[..]) } else { (1, &QUICK[..]) };
    // The slowest engine needs minutes where little of a processor is free.
    let limit = Duration::from_secs(if long { 1200 } else { 120 });
    let all_trees = (1 + 2 * seeds) * engines.len() as u64;
    let mut done = 0_u64;
    let mut blocks = Vec::new();
    let mut notes = Vec::new();
    for share in FAULTS {
        // Without faults all seeds are the same.
        for seed in 0..if share > 0.0 { seeds } else { 1 } {
            let graph = damaged(&whole, share, seed);
            let lids = identifiers(&graph)?;
            let ours =
                values(&graph, &routed(&graph, &lids, &Request::by(Engine::FatTree))?.tables).of(bisection);
            let mut best: Option<(f64, &str)> = None;
            for engine in engines {
                if context.progress.stop() {
                    break;
                }
                let tree =
                    format!("{:.0} % of the cables gone, seed {seed}, OpenSM's {engine}", share * 100.0);
                context.progress.tell(&tree, done as f64 / all_trees as f64);
                done += 1;
                let key = ((share * 1000.0).round() as u32, seed, *engine);
                let known = THEIRS.lock().unwrap_or_else(PoisonError::into_inner).get(&key).copied();
                let stop = || context.progress.stop();
                let theirs = match known {
                    Some(values) => values,
                    None => match opensm::tables(&graph, engine, limit, &stop)? {
                        Some(tables) => values(&graph, &tables),
                        None if stop() => break,
                        None => {
                            notes.push(format!("{tree}: no tables within {} s", limit.as_secs()));
                            continue;
                        }
                    },
                };
                THEIRS.lock().unwrap_or_else(PoisonError::into_inner).insert(key, theirs);
                let theirs = theirs.of(bisection);
                let better = |old: f64| if bisection { theirs > old } else { theirs < old };
                if best.is_none_or(|(old, _)| better(old)) {
                    best = Some((theirs, engine));
                }
            }
            let Some((theirs, engine)) = best else { continue };
            notes.push(format!(
                "{:.0} % of the cables gone, seed {seed}: {ours:.3}, OpenSM's best, {engine}: {theirs:.3}",
                share * 100.0
            ));
            blocks.push(Block { ours, reference: theirs });
        }
    }
    notes.truncate(60);
    // The worst case counts: a single one, as each was computed and not drawn.
    let ratio =
        |block: &Block| if bisection { block.reference / block.ours } else { block.ours / block.reference };
    let worst = blocks.iter().copied().max_by(|a, b| ratio(a).total_cmp(&ratio(b)));
    let what =
        format!("the worst of {} damaged trees, seeds {seeds}, engines {}", blocks.len(), engines.join(", "));
    let mut all = Spec {
        path: "fabric".to_owned(),
        kind: ReferenceKind::Rival,
        reference: "OpenSM's best engine on the same tree".to_owned(),
        goal,
        ..spec(entry, if bisection { "of 1" } else { "destinations" }, Stat::Max, f64::NAN, what)
    };
    if !long {
        notes.push("left out: 19 further seeds, dfsssp and nue; `--rivals` runs them, for hours".to_owned());
    }
    all.notes.append(&mut notes);
    figure(all, worst.into_iter().collect(), context.options.seed)
}

impl Values {
    /// The one that a figure is of.
    fn of(self, bisection: bool) -> f64 {
        if bisection { self.bisection } else { self.destinations }
    }
}

/// Both values of tables.
fn values(graph: &Graph, tables: &Tables) -> Values {
    Values {
        destinations: f64::from(loads(graph, tables).most()),
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
