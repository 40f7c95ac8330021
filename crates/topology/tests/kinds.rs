//! Fabrics as they are in halls: trees with aggregation nodes, leaves that are not full, islands of storage,
//! rails, planes and trunks, whole and with cables dead. Routed without being told how, each is as good as
//! the best engine makes it.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use topology::build::*;
use topology::quality::{Pattern, bandwidth, loads};
use topology::recognise::{Shape, recognise};
use topology::routing::{Engine, Lids, Measured, Request, Tables, check, choose, route, route_measured};
use topology::{Graph, GraphBuilder, Kind, LinkSpec, NodeSpec, PortIx};

/// So far tables may fall behind the best.
const BEHIND: f64 = 0.98;
const SEEDS: u64 = 5;

fn below(state: &mut u64, limit: usize) -> usize {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    ((*state >> 33) as usize) % limit
}

/// Without so many of a hundred cables between switches.
fn damaged(graph: &Graph, percent: usize, seed: u64) -> Graph {
    let is_switch = |port: PortIx| graph.kind(graph.owner(port)) == Kind::Switch;
    let mut links: Vec<PortIx> =
        graph.links().filter(|(a, b)| is_switch(*a) && is_switch(*b)).map(|(a, _)| a).collect();
    let mut state = seed.wrapping_add(0x5DEE_CE66);
    let count = (links.len() * percent).div_ceil(100);
    let dead: Vec<PortIx> = (0..count).map(|_| links.swap_remove(below(&mut state, links.len()))).collect();
    graph.without(&dead, &[])
}

fn lids(graph: &Graph) -> Arc<Lids> {
    Arc::new(Lids::assign(graph, 0, |_| None).unwrap())
}

fn routed(graph: &Graph) -> Measured {
    route_measured(graph, &lids(graph), &Request::by(Engine::Layered), &choose(graph)).unwrap()
}

/// What is left of the bandwidth in random pairs, and destinations of the fullest uplink.
fn values(graph: &Graph, tables: &Tables) -> (f64, f64) {
    let left = bandwidth(graph, tables, Pattern::Bisection { count: 100, seed: 9 }).mean;
    (left, f64::from(loads(graph, tables).up.most))
}

/// Routed without being told how it is good, and no worse than by any engine that makes no credit loop.
fn as_good_as_any(whole: &Graph, what: &str) {
    for (percent, seeds) in [(0, 1), (1, SEEDS), (5, SEEDS)] {
        for seed in 0..seeds {
            let graph = damaged(whole, percent, seed);
            let ours = routed(&graph);
            let context = format!("{what}, {percent} % dead, seed {seed}: {}", ours.why);
            assert!(ours.checked.is_good() && ours.checked.cut == 0, "{context}: {:?}", ours.checked);
            let (left, most) = values(&graph, &ours.routing.tables);
            for engine in [Engine::MinHop, Engine::UpDown, Engine::Balanced, Engine::Layered] {
                let other = route(&graph, &lids(&graph), &Request::by(engine)).unwrap();
                if check(&graph, &other.tables).is_good() {
                    let theirs = values(&graph, &other.tables);
                    assert!(left >= theirs.0 * BEHIND, "{context}: {engine:?} leaves {theirs:?}, not {left}");
                    assert!(most * BEHIND <= theirs.1, "{context}: {engine:?} has {theirs:?}, not {most}");
                }
            }
        }
    }
}

fn tree(radix: u32, levels: u32) -> Graph {
    fat_tree(&FatTree::new(radix, levels)).unwrap()
}

#[test]
fn aggregation_nodes() {
    as_good_as_any(&with_aggregation(&tree(16, 2)).unwrap(), "two levels with aggregation nodes");
    as_good_as_any(&with_aggregation(&tree(8, 3)).unwrap(), "three levels with aggregation nodes");
}

#[test]
fn uneven_leaves() {
    as_good_as_any(&uneven(&tree(24, 2), &[12, 7, 3, 1, 10]).unwrap(), "two levels, uneven");
    as_good_as_any(&uneven(&tree(12, 3), &[6, 4, 1, 5, 2, 6, 3]).unwrap(), "three levels, uneven");
}

#[test]
fn islands_of_storage() {
    let flat = Island { tree: FatTree::new(24, 2).subtrees(16), leaves: 3, hosts_per_leaf: 16, up: 8 };
    as_good_as_any(&with_island(&flat).unwrap(), "two levels with an island");
    let deep = Island { tree: FatTree::new(12, 3).subtrees(10), leaves: 4, hosts_per_leaf: 8, up: 12 };
    let deep = with_island(&deep).unwrap();
    // Cores that leaves of storage hang from are no lower for that.
    let seen = recognise(&deep);
    assert!(matches!(seen.shape, Shape::Tree { levels: 3, .. }) && seen.is_sure(), "{seen:?}");
    as_good_as_any(&deep, "three levels with an island");
}

#[test]
fn rails_and_planes() {
    let link = LinkSpec::EDR4X;
    let shape = Rails { units: 4, servers: 16, rails: 8, spines: 8, cores: 12, link };
    as_good_as_any(&rails(&shape).unwrap(), "rails");
    let shape = Planes { planes: 2, leaves: 16, hosts_per_leaf: 16, spines: 12, joins: 4, link };
    as_good_as_any(&planes(&shape).unwrap(), "planes");
}

#[test]
fn what_is_missing_from_a_dragonfly_or_a_torus_crowds_no_cable() {
    let link = LinkSpec::EDR4X;
    let shape = Dragonfly { groups: 19, switches: 6, hosts_per_switch: 3, global: 3, link };
    let torus_shape = Torus { sizes: vec![5, 5, 5], hosts_per_switch: 1, wrap: true, parallel: 1, link };
    for whole in [dragonfly(&shape).unwrap(), torus(&torus_shape).unwrap()] {
        for (percent, seed) in [(1, 1), (1, 2), (5, 1)] {
            let graph = damaged(&whole, percent, seed);
            let ours = routed(&graph);
            assert!(ours.checked.is_good(), "{}: {:?}", ours.why, ours.checked);
            let layered = route(&graph, &lids(&graph), &Request::by(Engine::Layered)).unwrap();
            let value = |tables: &Tables| {
                let loads = loads(&graph, tables);
                (values(&graph, tables).0, f64::from(loads.up.most.max(loads.down.most)))
            };
            let ((left, most), (by_layered, most_by_layered)) =
                (value(&ours.routing.tables), value(&layered.tables));
            let share = |left: f64, most: f64| (left / by_layered).min(most_by_layered / most);
            assert!(
                share(left, most) >= BEHIND,
                "{}: {left} {most}, layered {by_layered} {most_by_layered}",
                ours.why
            );
        }
    }
}

#[test]
fn trunked_cables() {
    let link = LinkSpec::EDR4X;
    for cables in [vec![3, 2, 4], vec![4, 2], vec![3, 1]] {
        let what = format!("trunks of {cables:?}");
        let shape = Trunks { leaves: 20, hosts_per_leaf: 16, spines: 6, cables, link };
        as_good_as_any(&trunks(&shape).unwrap(), &what);
    }
    as_good_as_any(&fat_tree(&FatTree::new(16, 3).parallel(4)).unwrap(), "trunks of four");
}

/// Where trunks differ, routes that are chosen as a whole leave more than those chosen cable by cable, and no
/// uplink is fuller than it must be.
#[test]
fn ways_of_trunks_are_chosen_as_a_whole() {
    let shape =
        Trunks { leaves: 20, hosts_per_leaf: 18, spines: 6, cables: vec![3, 2, 4], link: LinkSpec::EDR4X };
    let whole = trunks(&shape).unwrap();
    for seed in 0..SEEDS {
        let graph = damaged(&whole, 5, seed);
        let by = |engine| values(&graph, &route(&graph, &lids(&graph), &Request::by(engine)).unwrap().tables);
        let (ours, any) = (by(Engine::Balanced), by(Engine::Layered));
        assert!(ours.0 >= 1.01 * any.0 && ours.1 <= any.1, "seed {seed}: {ours:?}, beside {any:?}");
    }
}

#[test]
fn planes_that_are_apart_are_each_routed() {
    let link = LinkSpec::EDR4X;
    let shape = Planes { planes: 2, leaves: 4, hosts_per_leaf: 4, spines: 4, joins: 0, link };
    let graph = planes(&shape).unwrap();
    let ours = routed(&graph);
    // Pairs of a leaf and a LID of the other plane: 2 × 4 × 16.
    assert_eq!((ours.checked.lost, ours.checked.cut), (0, 128));
    assert!(ours.checked.credit_loop.is_empty());
}

/// A tree of two levels with a plain host at the last port of each switch, as a dump shows aggregation nodes
/// that lost their names.
fn with_plain(whole: &Graph) -> Graph {
    let mut builder = GraphBuilder::new();
    for node in whole.nodes() {
        let more = u8::from(whole.kind(node) == Kind::Switch);
        let spec = NodeSpec::new(whole.kind(node), whole.name(node), whole.port_count(node) + more);
        builder.node(spec.guid(whole.node_guid(node))).unwrap();
    }
    for (a, b) in whole.links() {
        let end = |port: PortIx| (whole.owner(port), whole.number(port));
        builder.link(end(a), end(b), LinkSpec::EDR4X).unwrap();
    }
    for switch in whole.nodes_of(Kind::Switch) {
        let name = format!("an{}", switch.0);
        let node =
            builder.node(NodeSpec::new(Kind::Host, &name, 1).guid(0x77_0000 + u64::from(switch.0))).unwrap();
        builder.link((node, 1), (switch, whole.port_count(switch) + 1), LinkSpec::EDR4X).unwrap();
    }
    builder.finish()
}

/// However an aggregation node is known, or not known, the tree is as good as without.
#[test]
fn a_tree_is_no_worse_for_its_aggregation_nodes() {
    let plain = tree(16, 2);
    let (without, _) = values(&plain, &routed(&plain).routing.tables);
    for graph in [with_aggregation(&plain).unwrap(), with_plain(&plain)] {
        let ours = routed(&graph);
        assert_eq!(ours.engine, Engine::FatTree, "{}", ours.why);
        assert!(ours.checked.is_good() && ours.checked.lost_aggregation == 0, "{:?}", ours.checked);
        let (left, _) = values(&graph, &ours.routing.tables);
        assert!(left >= 0.55 && left >= without, "{left} with, {without} without");
        // With one VL too: then some pairs of aggregation nodes have none, which is said.
        let request = Request { vls: 1, ..Request::by(Engine::FatTree) };
        let one = route(&graph, &lids(&graph), &request).unwrap();
        let checked = check(&graph, &one.tables);
        assert!(checked.is_good() && checked.vls == 1, "{checked:?}");
    }
}

/// Of a perfect tree of three levels a leaf with one host: it is a leaf.
#[test]
fn a_leaf_of_one_host_changes_nothing_for_the_others() {
    let whole = tree(12, 3);
    let (full, _) = values(&whole, &routed(&whole).routing.tables);
    for hosts in [1, 2, 3] {
        let counts = [[hosts].as_slice(), &[6; 71]].concat();
        let graph = uneven(&whole, &counts).unwrap();
        let ours = routed(&graph);
        assert_eq!(
            (ours.engine, ours.routing.notes.iter().filter(|one| one.contains("new ranks")).count()),
            (Engine::FatTree, 0)
        );
        let (left, most) = values(&graph, &ours.routing.tables);
        assert!(left >= full * BEHIND && most <= 72.0, "{left} and {most}, {full} where all are full");
        let Shape::Tree { levels, level } = recognise(&graph).shape else { panic!("no tree") };
        let leaf = graph.nodes_of(Kind::Switch).next().unwrap();
        assert_eq!((levels, level[leaf.index()]), (3, 1));
    }
}

/// A deep tree that narrows towards its top, its leaves uneven and an aggregation node at each switch.
#[test]
fn a_large_deep_tree_is_recognised_and_filled_evenly() {
    let graph = deep().unwrap();
    assert_eq!((graph.count(Kind::Host), graph.count(Kind::Switch)), (3675 + 666, 666));
    let seen = recognise(&graph);
    assert!(matches!(seen.shape, Shape::Tree { levels: 5, .. }) && seen.is_sure(), "{seen:?}");
    let ours = routed(&graph);
    assert_eq!(ours.engine, Engine::FatTree, "{}", ours.why);
    assert!(ours.checked.is_good(), "{:?}", ours.checked);
    // Each uplink of a leaf needs 306; the top has 18 downlinks a destination less than twice what it must.
    let loads = loads(&graph, &ours.routing.tables);
    assert!(loads.up.most <= 312 && loads.down.most <= 20, "{} and {}", loads.up.most, loads.down.most);
}

/// Each switch of a deep tree has an aggregation node, and few of them have an up/down route to each other:
/// all reach each other.
#[test]
fn aggregation_nodes_of_a_deep_tree_reach_each_other() {
    for percent in [0, 5] {
        let graph = damaged(&deep().unwrap(), percent, 0);
        let routing = route(&graph, &lids(&graph), &Request::by(Engine::FatTree)).unwrap();
        let checked = check(&graph, &routing.tables);
        assert!(checked.is_good() && checked.lost_aggregation == 0, "{percent} %: {checked:?}");
        assert!(checked.vls <= 8, "{percent} %: {} VLs", checked.vls);
    }
}

#[test]
fn roots_that_do_not_serve_are_said_to_be_unused() {
    let graph = tree(8, 3);
    let leaf = graph.nodes_of(Kind::Switch).next().unwrap();
    let roots = [leaf];
    let request = Request { roots: &roots, vls: 1, ..Request::by(Engine::FatTree) };
    let routing = route(&graph, &lids(&graph), &request).unwrap();
    assert!(check(&graph, &routing.tables).is_good());
    let unused = routing.notes.iter().filter(|one| one.contains("given roots are not used"));
    let anew = routing.notes.iter().filter(|one| one.contains("new ranks"));
    assert!(unused.count() <= 1 && anew.count() <= 1, "{:?}", routing.notes);
}

#[test]
fn engines_have_the_names_of_opensm_too() {
    for engine in Engine::ALL {
        assert_eq!(Engine::of_word(engine.word()), Some(engine));
    }
    for (name, engine) in [
        ("updn", Engine::UpDown),
        ("ftree", Engine::FatTree),
        ("dfsssp", Engine::Layered),
        ("dor", Engine::Grid),
        ("torus-2qos", Engine::Grid),
    ] {
        assert_eq!(Engine::of_word(name), Some(engine), "{name}");
    }
    assert_eq!(Engine::of_word("lash"), None);
}
