//! Measures on fabrics with known results.

use std::sync::Arc;

use super::*;
use crate::build::{FatTree, fat_tree};
use crate::routing::{Engine, Lids, Request, Routing, check, route};
use crate::{Graph, GraphBuilder, Kind, LinkSpec, NodeIx, NodeSpec};

fn routed(graph: &Graph, engine: Engine) -> Routing {
    let lids = Arc::new(Lids::assign(graph, 0, |_| None).unwrap());
    route(graph, &lids, &Request::by(engine)).unwrap()
}

#[test]
fn a_whole_tree_has_the_figures_that_are_known() {
    // 12 ports, three levels: 432 hosts, 36 in a pod, 6 at a leaf.
    let graph = fat_tree(&FatTree::new(12, 3)).unwrap();
    let tables = routed(&graph, Engine::FatTree).tables;
    let loads = loads(&graph, &tables);
    // Each leaf has 6 ways up for 426 destinations; each port down leads to one.
    assert_eq!((loads.up.most, loads.down.most, loads.lost), (71, 1, 0));
    let pairs = |cables: u32| loads.hops.iter().find(|(hops, _)| *hops == cables).map(|(_, pairs)| *pairs);
    assert_eq!(pairs(2), Some(432 * 5));
    assert_eq!(pairs(4), Some(432 * 30));
    assert_eq!(pairs(6), Some(432 * 396));
    // Shifts do not get into each other's way; random pairs do.
    let shifts = bandwidth(&graph, &tables, Pattern::Shifts { step: 1 });
    assert_eq!((shifts.mean, shifts.worst_pattern, shifts.lost, shifts.patterns), (1.0, 1.0, 0, 431));
    let random = bandwidth(&graph, &tables, Pattern::Bisection { count: 50, seed: 3 });
    assert!((0.4..0.7).contains(&random.mean), "{random:?}");
    assert!(random.worst_flow < 0.5 && random.worst_pair.is_some());
    assert_eq!(random, bandwidth(&graph, &tables, Pattern::Bisection { count: 50, seed: 3 }));
}

#[test]
fn two_spines_of_which_one_dies_leave_half() {
    // Four leaves with two hosts, two spines.
    let graph = fat_tree(&FatTree::new(4, 2)).unwrap();
    let routing = routed(&graph, Engine::FatTree);
    let spine = graph.nodes_of(Kind::Switch).last().unwrap();
    let request = Request::by(Engine::FatTree);
    let what_if = without(&graph, &routing, &request, &[], &[spine]).unwrap();
    assert!(what_if.comparison.after.checked.is_good());
    assert_eq!((what_if.comparison.before.loads.most(), what_if.comparison.after.loads.most()), (3, 6));
    assert_eq!(what_if.cut_off, []);
    let worst = what_if.comparison.after.shifts.worst_pattern;
    assert!((worst - 0.5).abs() < 1e-9, "{worst}");
    // Drained, it can still be reached, and carries no other traffic.
    let drained = drain(&graph, &routing, &request, spine).unwrap();
    let checked = check(&graph, &drained.routing.tables);
    assert!(checked.is_good() && checked.lost_switches == 0, "{checked:?}");
    assert_eq!(drained.comparison.after.loads.most(), 6);
    // A leaf takes its hosts along.
    let leaf = graph.nodes_of(Kind::Switch).next().unwrap();
    let gone = without(&graph, &routing, &request, &[], &[leaf]).unwrap();
    assert_eq!(gone.cut_off.len(), 2);
    assert_eq!(gone.comparison.after.checked.lost, 0);
}

#[test]
fn nothing_is_changed_where_nothing_is() {
    let graph = fat_tree(&FatTree::new(4, 2)).unwrap();
    let tables = routed(&graph, Engine::FatTree).tables;
    let comparison = compare((&graph, &tables), (&graph, &tables), 1);
    assert_eq!((comparison.changed, comparison.blocks), ((0, 0), 0));
    assert_eq!(comparison.before, comparison.after);
}

#[test]
fn the_order_of_hosts_in_a_file_changes_no_count() {
    // Two leaves with three hosts each, joined by one cable; the hosts come leaf by leaf, or in turns.
    let build = |leaves: [usize; 6]| {
        let mut builder = GraphBuilder::new();
        let mut switch = |name| builder.node(NodeSpec::new(Kind::Switch, name, 8)).unwrap();
        let switches = [switch("a"), switch("b")];
        builder.link((switches[0], 8), (switches[1], 8), LinkSpec::EDR4X).unwrap();
        for (at, leaf) in leaves.into_iter().enumerate() {
            let host = builder.node(NodeSpec::new(Kind::Host, &format!("h{at}"), 1)).unwrap();
            builder.link((host, 1), (switches[leaf], at as u8 + 1), LinkSpec::EDR4X).unwrap();
        }
        builder.finish()
    };
    for leaves in [[0, 0, 0, 1, 1, 1], [0, 1, 0, 1, 0, 1], [1, 0, 0, 1, 1, 0]] {
        let graph = build(leaves);
        let mut tables = routed(&graph, Engine::FatTree).tables;
        let found = loads(&graph, &tables);
        assert_eq!(
            (found.hops, found.lost, found.up.most.max(found.down.most)),
            (vec![(2, 12), (3, 18)], 0, 3)
        );
        // What does not arrive is counted once per pair too.
        let switches: Vec<NodeIx> = graph.nodes_of(Kind::Switch).collect();
        for (lid, end) in Arc::clone(tables.lids()).iter() {
            if graph.neighbour(end) == Some(switches[0]) {
                tables.set(switches[0], lid, crate::routing::NO_PATH);
            }
        }
        let found = loads(&graph, &tables);
        assert_eq!((found.hops, found.lost), (vec![(2, 6), (3, 9)], 15), "{leaves:?}");
    }
}

#[test]
fn a_longest_way_at_one_switch_does_not_end_where_it_begins() {
    let (graph, _) = wired(&[2], &[]);
    let (from, to) = loads(&graph, &routed(&graph, Engine::MinHop).tables).longest.unwrap();
    assert_ne!(from, to);
}

fn wired(hosts: &[u8], cables: &[(usize, usize)]) -> (Graph, Vec<NodeIx>) {
    let mut builder = GraphBuilder::new();
    let mut next = vec![1_u8; hosts.len()];
    let mut port = |at: usize| {
        next[at] += 1;
        next[at] - 1
    };
    let switches: Vec<NodeIx> =
        hosts.iter().map(|_| builder.node(NodeSpec::new(Kind::Switch, "s", 16)).unwrap()).collect();
    for (at, count) in hosts.iter().enumerate() {
        for _ in 0..*count {
            let node = builder.node(NodeSpec::new(Kind::Host, "h", 1)).unwrap();
            builder.link((node, 1), (switches[at], port(at)), LinkSpec::EDR4X).unwrap();
        }
    }
    for (a, b) in cables {
        builder.link((switches[*a], port(*a)), (switches[*b], port(*b)), LinkSpec::EDR4X).unwrap();
    }
    (builder.finish(), switches)
}

#[test]
fn single_points_are_found_and_what_is_doubled_is_none() {
    // A ring of three, a switch on one cable, and one on two cables.
    let (graph, switches) = wired(&[1, 1, 1, 2, 3], &[(0, 1), (1, 2), (2, 0), (2, 3), (1, 4), (1, 4)]);
    let found = single_points(&graph);
    assert_eq!(found.switches, [(switches[1], 3), (switches[2], 2)]);
    let cables: Vec<u32> = found.cables.iter().map(|(_, hosts)| *hosts).collect();
    assert_eq!(cables, [2]);
    assert_eq!(graph.owner(found.cables[0].0), switches[3]);
    assert_eq!(found.hosts_with_one_cable, 8);
    let tree = fat_tree(&FatTree::new(8, 3)).unwrap();
    let found = single_points(&tree);
    assert_eq!((found.switches.len(), found.cables.len()), (0, 0));
}

/// Slowly and plainly: what is parted when something is taken away.
#[test]
fn single_points_are_those_that_part_hosts_when_they_are_taken_away() {
    let mut random = seeded_random::SplitMix64::new(5);
    for _ in 0..60 {
        let count = 2 + random.below(8);
        let hosts: Vec<u8> = (0..count).map(|_| random.below(3) as u8).collect();
        let cables: Vec<(usize, usize)> = (0..random.below(14))
            .map(|_| (random.below(count), random.below(count)))
            .filter(|(a, b)| a != b)
            .collect();
        let (graph, switches) = wired(&hosts, &cables);
        let components_with_hosts = |graph: &Graph| {
            let view = crate::routing::View::of(graph);
            let components = view.components();
            let with: std::collections::BTreeSet<u32> =
                (0..view.switch_count()).filter(|sw| view.hosts(*sw) > 0).map(|sw| components[sw]).collect();
            with.len()
        };
        let found = single_points(&graph);
        for (at, switch) in switches.iter().enumerate() {
            let own = usize::from(hosts[at] > 0);
            let alone = graph.cabled(*switch).all(|(_, far)| graph.kind(graph.owner(far)) == Kind::Host);
            let parts = components_with_hosts(&graph.without(&[], &[*switch])) + own
                > components_with_hosts(&graph) + if alone { 0 } else { own };
            assert_eq!(
                found.switches.iter().any(|(node, _)| node == switch),
                parts,
                "{hosts:?} {cables:?} {at}"
            );
        }
        for (a, b) in graph.links().filter(|(a, b)| graph.owner(*a) != graph.owner(*b)) {
            if graph.kind(graph.owner(a)) == Kind::Host || graph.kind(graph.owner(b)) == Kind::Host {
                continue;
            }
            let parts = components_with_hosts(&graph.without(&[a], &[])) > components_with_hosts(&graph);
            let named = found.cables.iter().any(|(port, _)| *port == a || *port == b);
            assert_eq!(named, parts, "{hosts:?} {cables:?}");
        }
    }
}
