//! Engines and checker on graphs of many shapes, whole and damaged.

use std::sync::Arc;

use proptest::prelude::*;

use super::check::Fault;
use super::form::Line;
use super::*;
use crate::build::{FatTree, Torus, fat_tree, torus};
use crate::{GraphBuilder, Kind, LinkSpec, NodeSpec, PortIx};

/// Cables between switches.
fn cables(graph: &Graph) -> Vec<PortIx> {
    let is_switch = |port: PortIx| graph.kind(graph.owner(port)) == Kind::Switch;
    graph.links().filter(|(a, b)| is_switch(*a) && is_switch(*b)).map(|(a, _)| a).collect()
}

fn lids(graph: &Graph, lmc: u8) -> Arc<Lids> {
    Arc::new(Lids::assign(graph, lmc, |_| None).unwrap())
}

fn routed(graph: &Graph, request: &Request<'_>) -> Routing {
    route(graph, &lids(graph, 0), request).unwrap()
}

/// Switches that are wired as given, with a number of hosts at each.
fn wired(hosts: &[u8], cables: &[(usize, usize)]) -> Graph {
    let mut builder = GraphBuilder::new();
    let mut next = vec![1_u8; hosts.len()];
    let mut port = |at: usize| {
        next[at] += 1;
        next[at] - 1
    };
    let switches: Vec<NodeIx> = (0..hosts.len())
        .map(|at| {
            builder.node(NodeSpec::new(Kind::Switch, &format!("s{at}"), 64).guid(0x100 + at as u64)).unwrap()
        })
        .collect();
    for (at, count) in hosts.iter().enumerate() {
        for host in 0..*count {
            let spec =
                NodeSpec::new(Kind::Host, "h", 2).guid(0x10_0000 + (at as u64) * 0x100 + u64::from(host) * 4);
            let node = builder.node(spec).unwrap();
            builder.link((node, 1), (switches[at], port(at)), LinkSpec::EDR4X).unwrap();
        }
    }
    for (a, b) in cables.iter().filter(|(a, b)| a != b) {
        builder.link((switches[*a], port(*a)), (switches[*b], port(*b)), LinkSpec::EDR4X).unwrap();
    }
    builder.finish()
}

const ALL: [Engine; 4] = [Engine::MinHop, Engine::UpDown, Engine::FatTree, Engine::Layered];

#[test]
fn a_cable_that_dies_changes_only_what_went_over_it() {
    let whole = fat_tree(&FatTree::new(8, 3)).unwrap();
    let first = routed(&whole, &Request::by(Engine::FatTree));
    for dead in cables(&whole) {
        let graph = whole.without(&[dead], &[]);
        let again =
            Request { plan: Some(&first.plan), prior: Some(&first.tables), ..Request::by(Engine::FatTree) };
        let after = route(&graph, first.tables.lids(), &again).unwrap();
        let view = View::of(&graph);
        let distances = Distances::up_down(&view, after.plan.ranks());
        let mut changes = 0;
        for change in first.tables.changes(&after.tables) {
            changes += 1;
            let sw = view.index_of(change.switch).unwrap();
            let (to, _) = view.attachment(&graph, after.tables.lids().port(change.lid).unwrap()).unwrap();
            let good = view
                .beyond(sw, change.before)
                .is_some_and(|(over, _)| distances.leads(after.plan.ranks(), sw, over, to));
            assert!(!good, "{change:?} of {} was still good", whole.name(change.switch));
        }
        assert!(changes > 0);
        let checked = check(&graph, &after.tables);
        assert!(checked.is_good() && checked.lost_switches == 0, "{checked:?} {:?}", after.notes);
        // Without former tables the same comes of it for all routes between hosts.
        let fresh = route(&graph, first.tables.lids(), &Request { prior: None, ..again }).unwrap();
        let is_host = |lid| graph.kind(graph.owner(first.tables.lids().port(lid).unwrap())) == Kind::Host;
        let carries = |switch| view.hosts(view.index_of(switch).unwrap()) > 0;
        assert_eq!(
            fresh.tables.changes(&after.tables).find(|one| is_host(one.lid) && carries(one.switch)),
            None
        );
    }
}

#[test]
fn a_tree_that_is_healed_is_as_it_was() {
    let whole = fat_tree(&FatTree::new(8, 3)).unwrap();
    let first = routed(&whole, &Request::by(Engine::FatTree));
    let dead: Vec<PortIx> = cables(&whole).into_iter().step_by(5).collect();
    let request = |routing: &Routing| -> (Plan, Tables) { (routing.plan.clone(), routing.tables.clone()) };
    let (plan, tables) = request(&first);
    let again = Request { plan: Some(&plan), prior: Some(&tables), ..Request::by(Engine::FatTree) };
    let broken = route(&whole.without(&dead, &[]), first.tables.lids(), &again).unwrap();
    let (plan, tables) = request(&broken);
    let again = Request { plan: Some(&plan), prior: Some(&tables), ..again };
    let healed = route(&whole, first.tables.lids(), &again).unwrap();
    assert_eq!(first.tables.changes(&healed.tables).count(), 0);
}

#[test]
fn the_number_of_threads_changes_nothing() {
    let whole = fat_tree(&FatTree::new(8, 3)).unwrap();
    let graph = whole.without(&cables(&whole).into_iter().step_by(7).collect::<Vec<_>>(), &[]);
    for engine in ALL {
        let with = |threads| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| {
                let routing = routed(&graph, &Request::by(engine));
                (check(&graph, &routing.tables), routing.tables)
            })
        };
        let one = with(1);
        for threads in [2, 5] {
            assert!(with(threads) == one, "{engine:?} with {threads} threads");
        }
    }
}

#[test]
fn hosts_with_several_lids_are_reached_by_different_routes() {
    let graph = fat_tree(&FatTree::new(8, 2)).unwrap();
    let lids = lids(&graph, 2);
    let routing = route(&graph, &lids, &Request::by(Engine::FatTree)).unwrap();
    assert!(check(&graph, &routing.tables).is_good());
    let leaf = graph.nodes_of(Kind::Switch).next().unwrap();
    let far = graph.nodes_of(Kind::Host).last().unwrap();
    let base = lids.base(graph.port(far, 1).unwrap()).unwrap();
    let ports: std::collections::BTreeSet<_> =
        (base..base + 4).map(|lid| routing.tables.port(leaf, lid).unwrap()).collect();
    assert_eq!(ports.len(), 4);
}

#[test]
fn storage_on_its_own_is_spread_on_its_own() {
    let graph = fat_tree(&FatTree::new(8, 2)).unwrap();
    // One host of each leaf: without care all of them would go over the same spine.
    let apart: Vec<NodeIx> = graph.nodes_of(Kind::Host).step_by(4).collect();
    let routing = routed(&graph, &Request { apart: &apart, ..Request::by(Engine::FatTree) });
    let leaf = graph.nodes_of(Kind::Switch).next().unwrap();
    let mut ports = std::collections::BTreeMap::<u8, u32>::new();
    for node in apart.iter().skip(1) {
        let lid = routing.tables.lids().base(graph.port(*node, 1).unwrap()).unwrap();
        *ports.entry(routing.tables.port(leaf, lid).unwrap()).or_default() += 1;
    }
    assert!(ports.len() == 4 && ports.values().all(|count| *count <= 2), "{ports:?}");
}

#[test]
fn two_trees_joined_by_one_cable_reach_each_other() {
    // Leaves 0, 1 under spine 2; leaves 3, 4 under spine 5; a cable between leaves 1 and 3.
    let graph = wired(&[3, 3, 0, 3, 3, 0], &[(0, 2), (1, 2), (3, 5), (4, 5), (1, 3)]);
    for engine in ALL {
        let routing = routed(&graph, &Request::by(engine));
        let checked = check(&graph, &routing.tables);
        assert!(checked.is_good(), "{engine:?} {checked:?}");
    }
}

#[test]
fn what_is_cut_off_is_counted_and_nothing_else_suffers() {
    let graph = wired(&[2, 2, 2, 0], &[(0, 1)]);
    for engine in ALL {
        let routing = routed(&graph, &Request::by(engine));
        let checked = check(&graph, &routing.tables);
        // Switch 2 and switches 0, 1 are apart: 2 × 2 × 2 pairs of a switch and a host.
        assert_eq!((checked.lost, checked.cut, checked.pairs), (0, 8, 18), "{engine:?}");
        assert_eq!(checked.findings, []);
    }
}

#[test]
fn a_host_on_two_switches_has_two_lids_and_both_are_reached() {
    let mut builder = GraphBuilder::new();
    let a = builder.node(NodeSpec::new(Kind::Switch, "a", 4).guid(1)).unwrap();
    let b = builder.node(NodeSpec::new(Kind::Switch, "b", 4).guid(2)).unwrap();
    let host = builder.node(NodeSpec::new(Kind::Host, "h", 2).guid(0x10)).unwrap();
    builder.link((a, 1), (b, 1), LinkSpec::EDR4X).unwrap();
    builder.link((host, 1), (a, 2), LinkSpec::EDR4X).unwrap();
    builder.link((host, 2), (b, 2), LinkSpec::EDR4X).unwrap();
    let graph = builder.finish();
    for engine in ALL {
        let checked = check(&graph, &routed(&graph, &Request::by(engine)).tables);
        assert!(checked.is_good() && checked.pairs == 4, "{engine:?} {checked:?}");
    }
}

#[test]
fn given_lids_are_kept_and_impossible_ones_named() {
    let graph = fat_tree(&FatTree::new(4, 2)).unwrap();
    let ends: Vec<PortIx> = graph.nodes_of(Kind::Host).map(|host| graph.port(host, 1).unwrap()).collect();
    let given = |port: PortIx| match ends.iter().position(|end| *end == port)? {
        0 => Some(100),
        1 => Some(100),
        2 => Some(7),
        3 => Some(0xC000),
        _ => None,
    };
    let lids = Lids::assign(&graph, 0, given).unwrap();
    assert_eq!((lids.base(ends[0]), lids.base(ends[2])), (Some(100), Some(7)));
    assert_eq!(lids.refused(), [ends[1], ends[3]]);
    assert!(lids.iter().all(|(lid, _)| lid != 0 && lid <= lids::TOP));
    assert_eq!(Lids::assign(&graph, 8, |_| None), Err(LidsError::Lmc(8)));
}

#[test]
fn engines_say_why_they_refuse() {
    let graph = torus(&Torus::new(&[4, 4], 1)).unwrap();
    let all = lids(&graph, 0);
    let why = |request: &Request<'_>| route(&graph, &all, request).unwrap_err().to_string();
    assert!(why(&Request::by(Engine::Grid)).contains("coordinates"));
    assert!(why(&Request::by(Engine::Dragonfly)).contains("groups"));
    let grid = Grid::in_order(&graph, &[4, 4], Line::Ring).unwrap();
    let few = Request { grid: Some(&grid), vls: 2, ..Request::by(Engine::Grid) };
    assert!(why(&few).contains("needs 3 VLs, and 2 are given"));
    assert!(why(&Request { vls: 0, ..Request::by(Engine::Layered) }).contains("0 VLs"));
    let wrong = Grid::in_order(&graph, &[2, 8], Line::Ring).unwrap_err();
    assert!(wrong.to_string().contains("are connected"), "{wrong}");
}

#[test]
fn what_is_recognised_gets_its_engine() {
    let tree = fat_tree(&FatTree::new(6, 3)).unwrap();
    let grid = torus(&Torus::new(&[5, 4], 1)).unwrap();
    let fly = crate::build::dragonfly(&crate::build::Dragonfly::balanced(2)).unwrap();
    let odd = wired(&[2, 0, 1, 3, 1], &[(0, 1), (1, 2), (2, 3), (3, 4), (4, 1), (0, 3), (3, 0)]);
    let shapes =
        [(tree, Engine::FatTree), (grid, Engine::Grid), (fly, Engine::Dragonfly), (odd, Engine::Layered)];
    for (graph, engine) in shapes {
        let choice = choose(&graph);
        assert_eq!(choice.engine, engine, "{}", choice.why);
        for vls in [1, 8] {
            let request = Request { vls, ..Request::by(Engine::Layered) };
            let routing = route_auto(&graph, &lids(&graph, 0), &request).unwrap();
            let checked = check(&graph, &routing.tables);
            assert!(checked.is_good(), "{checked:?}");
            assert!(routing.notes[0].starts_with("engine"), "{:?}", routing.notes);
        }
    }
}

/// Tables of a small tree, good as they are.
fn good() -> (Graph, Tables) {
    let graph = fat_tree(&FatTree::new(4, 3)).unwrap();
    let tables = routed(&graph, &Request::by(Engine::FatTree)).tables;
    assert!(check(&graph, &tables).is_good());
    (graph, tables)
}

#[test]
fn the_checker_sees_every_planted_mistake() {
    let (graph, good) = good();
    let view = View::of(&graph);
    let hosts: Vec<(u16, PortIx)> =
        good.lids().iter().filter(|(_, end)| graph.kind(graph.owner(*end)) == Kind::Host).collect();
    for (lid, end) in hosts {
        let (home, _) = view.attachment(&graph, end).unwrap();
        for sw in (0..view.switch_count()).filter(|sw| view.hosts(*sw) > 0) {
            let switch = view.switch(sw);
            let found = |port: u8| {
                let mut bad = good.clone();
                bad.set(switch, lid, port);
                check(&graph, &bad)
            };
            let named = |checked: &Checked, fault: Fault| {
                checked.lost > 0
                    && checked
                        .findings
                        .iter()
                        .any(|found| (found.fault, found.switch, found.lid) == (fault, switch, lid))
            };
            assert!(named(&found(NO_PATH), Fault::NoEntry));
            assert!(named(&found(200), Fault::DeadPort));
            if sw == home {
                assert!(named(&found(0), Fault::WrongSwitch));
                continue;
            }
            assert!(named(&found(0), Fault::WrongSwitch));
            let other =
                graph.ports(switch).map(|port| graph.number(port)).find(|port| view.is_end(sw, *port));
            assert!(named(&found(other.unwrap()), Fault::WrongEnd));
            // The switch above sends it back.
            let (above, back) = view.beyond(sw, good.port(switch, lid).unwrap()).unwrap();
            let mut bad = good.clone();
            bad.set(view.switch(above), lid, back);
            let checked = check(&graph, &bad);
            assert!(checked.lost > 0 && checked.findings.iter().any(|found| found.fault == Fault::Loop));
        }
    }
}

#[test]
fn the_checker_names_a_credit_loop_that_is_one() {
    let graph = wired(&[1; 6], &[(0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (5, 0)]);
    let tables = routed(&graph, &Request::by(Engine::MinHop)).tables;
    let checked = check(&graph, &tables);
    let cycle = &checked.credit_loop;
    assert!(cycle.len() >= 3, "{checked:?}");
    for (at, waiting) in cycle.iter().enumerate() {
        // Each ends at the switch where the next begins.
        let next = cycle[(at + 1) % cycle.len()];
        assert_eq!(graph.neighbour(waiting.port), Some(graph.owner(next.port)));
    }
    let layered = check(&graph, &routed(&graph, &Request::by(Engine::Layered)).tables);
    assert!(layered.is_good() && layered.vls == 2, "{layered:?}");
    // With one VL there is only up and down.
    let one = Request { vls: 1, ..Request::by(Engine::Layered) };
    let one = check(&graph, &routed(&graph, &one).tables);
    assert!(one.is_good() && one.vls == 1, "{one:?}");
}

#[test]
fn levels_and_vls_that_were_written_are_read_and_end_a_credit_loop() {
    use super::referee::{read_levels, read_vls, write_levels, write_vls};
    use super::vls::{Mapping, Service};
    let ring = wired(&[1; 6], &[(0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (5, 0)]);
    let torus = torus(&Torus::new(&[5, 5], 1)).unwrap();
    let grid = route_auto(&torus, &lids(&torus, 0), &Request::by(Engine::Layered)).unwrap().tables;
    assert!(matches!(grid.vls().mapping, Mapping::Ports { .. }));
    for (graph, good) in [(&ring, routed(&ring, &Request::by(Engine::Layered)).tables), (&torus, grid)] {
        let mut plain = good.clone();
        plain.set_vls(VlAssignment::default());
        let (mut levels, mut vls) = (Vec::new(), Vec::new());
        write_levels(graph, &good, &mut levels).unwrap();
        write_vls(graph, &good, &mut vls).unwrap();
        let (levels, vls) = (String::from_utf8(levels).unwrap(), String::from_utf8(vls).unwrap());
        assert!(!check(graph, &plain).credit_loop.is_empty());
        let service = read_levels(graph, &plain, &levels).unwrap();
        plain.set_vls(VlAssignment::of(service.clone(), read_vls(graph, &vls).unwrap()));
        let (read, known) = (check(graph, &plain), check(graph, &good));
        assert_eq!((read.lost, read.vls, &read.credit_loop), (0, known.vls, &known.credit_loop));
        // What is put on the VL of management goes nowhere.
        let dropped: String =
            vls.lines().map(|sw| format!("{} {}\n", &sw[..sw.len() - 40], "0xff ".repeat(8))).collect();
        plain.set_vls(VlAssignment::of(service, read_vls(graph, &dropped).unwrap()));
        assert!(check(graph, &plain).lost > 0);
        for bad in ["x", "0x1 1 1", "0x1 1 99", "0x1"] {
            let why = read_levels(graph, &plain, &format!("{levels}{bad}\n")).unwrap_err();
            assert_eq!(why.line, levels.lines().count() + 1, "{why}");
            assert!(read_vls(graph, &format!("{bad}\n")).is_err());
        }
        let first = levels.lines().next().unwrap();
        let (start, _) = first.rsplit_once(' ').unwrap();
        assert!(read_levels(graph, &plain, &format!("{start} 14\n{start} 13\n")).is_err());
    }
    assert!(matches!(VlAssignment::of(Service::One, Mapping::Same), VlAssignment { count: 1, .. }));
}

/// Entries that are empty though cables lead there.
fn empty(graph: &Graph, tables: &Tables) -> usize {
    let view = View::of(graph);
    let components = view.components();
    let mut empty = 0;
    for (lid, end) in tables.lids().iter() {
        let Some((to, _)) = view.attachment(graph, end) else { continue };
        let switches = (0..view.switch_count()).filter(|sw| components[*sw] == components[to]);
        empty += switches.filter(|sw| tables.port(view.switch(*sw), lid).is_none()).count();
    }
    empty
}

/// The numbers that notes name.
fn numbers_in_notes(routing: &Routing) -> usize {
    let left = routing.notes.iter().filter(|note| note.contains("left empty"));
    left.map(|note| note.split(' ').next().unwrap().parse::<usize>().unwrap()).sum()
}

#[test]
fn tables_are_whole_or_say_what_they_lack() {
    let mut broken = fat_tree(&FatTree::new(6, 3)).unwrap();
    let some: Vec<PortIx> = cables(&broken).into_iter().step_by(7).collect();
    broken = broken.without(&some, &[]);
    for graph in [fat_tree(&FatTree::new(8, 2)).unwrap(), fat_tree(&FatTree::new(4, 3)).unwrap(), broken] {
        for engine in [Engine::UpDown, Engine::Layered, Engine::MinHop, Engine::FatTree] {
            for vls in [1, 2, 8] {
                let routing = routed(&graph, &Request { vls, ..Request::by(engine) });
                assert_eq!(
                    empty(&graph, &routing.tables),
                    numbers_in_notes(&routing),
                    "{engine:?} {vls} {:?}",
                    routing.notes
                );
                let checked = check(&graph, &routing.tables);
                assert!(checked.lost == 0 && checked.findings.is_empty(), "{checked:?}");
            }
        }
    }
    let whole = fat_tree(&FatTree::new(8, 2)).unwrap();
    for engine in [Engine::UpDown, Engine::Layered] {
        let routing = routed(&whole, &Request { vls: 1, ..Request::by(engine) });
        assert_eq!((empty(&whole, &routing.tables), routing.notes.len()), (0, 0), "{engine:?}");
    }
}

#[test]
fn a_root_that_is_no_switch_is_refused_by_name() {
    let graph = fat_tree(&FatTree::new(4, 2)).unwrap();
    let host = graph.nodes_of(Kind::Host).next().unwrap();
    let spine = graph.nodes_of(Kind::Switch).last().unwrap();
    let asked = |graph: &Graph, root: NodeIx| {
        route(graph, &lids(graph, 0), &Request { roots: &[root], ..Request::by(Engine::UpDown) })
    };
    let why = asked(&graph, host).unwrap_err().to_string();
    assert!(why.contains(graph.name(host)) && why.contains("host"), "{why}");
    assert!(matches!(asked(&graph, NodeIx(9999)), Err(RouteError::ForeignRoot(9999))));
    assert_eq!(asked(&graph, spine).unwrap().notes, [""; 0]);
    let gone = asked(&graph.without(&[], &[spine]), spine).unwrap().notes;
    assert!(gone[0].contains(graph.name(spine)), "{gone:?}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    /// Whatever the graph: all that hang together reach each other, nothing waits for itself but by shortest
    /// routes alone, and nothing panics.
    #[test]
    fn any_graph(
        hosts in prop::collection::vec(0_u8..4, 1..14),
        ends in prop::collection::vec((0_usize..14, 0_usize..14), 0..30),
        vls in 1_u8..5,
    ) {
        let count = hosts.len();
        let ends: Vec<_> = ends.into_iter().map(|(a, b)| (a % count, b % count)).collect();
        let graph = wired(&hosts, &ends);
        for engine in ALL {
            let routing = routed(&graph, &Request { vls, ..Request::by(engine) });
            let checked = check(&graph, &routing.tables);
            prop_assert_eq!(checked.lost, 0, "{:?} {:?}", engine, checked);
            prop_assert!(engine == Engine::MinHop || checked.credit_loop.is_empty(), "{:?} {:?}", engine, checked);
            prop_assert!(checked.vls <= vls.max(1));
            prop_assert_eq!(empty(&graph, &routing.tables), numbers_in_notes(&routing), "{:?} {:?}", engine, routing.notes);
        }
    }

    /// Trees with any cables and switches missing.
    #[test]
    fn damaged_trees(radix in 2_u32..5, seed in any::<u64>(), share in 0_usize..40) {
        let whole = fat_tree(&FatTree::new(radix * 2, 3)).unwrap();
        let mut random = seeded_random::SplitMix64::new(seed);
        let dead: Vec<PortIx> = cables(&whole).into_iter().filter(|_| random.below(100) < share).collect();
        let nodes: Vec<NodeIx> = whole.nodes_of(Kind::Switch).filter(|_| random.below(200) < share).collect();
        let graph = whole.without(&dead, &nodes);
        let first = routed(&whole, &Request::by(Engine::FatTree));
        let again = Request { plan: Some(&first.plan), prior: Some(&first.tables), ..Request::by(Engine::FatTree) };
        for request in [Request::by(Engine::FatTree), again, Request::by(Engine::Layered)] {
            let routing = route(&graph, first.tables.lids(), &request).unwrap();
            let checked = check(&graph, &routing.tables);
            prop_assert!(checked.is_good(), "{:?} {:?}", checked, routing.notes);
        }
    }

    /// Faults and repairs of cables and switches, one after the other: what is routed again is good, the same
    /// for any number of threads, and no entry changes without need; what is whole again is as it was.
    #[test]
    fn faults_and_repairs(radix in 2_u32..5, seed in any::<u64>(), steps in 1_usize..8) {
        let whole = fat_tree(&FatTree::new(radix * 2, 3)).unwrap();
        let mut random = seeded_random::SplitMix64::new(seed);
        let (all, nodes) = (cables(&whole), whole.nodes_of(Kind::Switch).collect::<Vec<_>>());
        let (mut dead, mut down) = (std::collections::BTreeSet::new(), std::collections::BTreeSet::new());
        let first = routed(&whole, &Request::by(Engine::FatTree));
        let mut before = first.clone();
        let pools = [1, 2, 5].map(|count| rayon::ThreadPoolBuilder::new().num_threads(count).build().unwrap());
        for step in 0..=steps {
            if step == steps {
                dead.clear();
                down.clear();
            } else {
                for _ in 0..=random.below(3) {
                    let cable = all[random.below(all.len())];
                    let _ = dead.remove(&cable) || dead.insert(cable);
                }
                let node = nodes[random.below(nodes.len())];
                let _ = random.below(3) == 0 && (down.remove(&node) || down.insert(node));
            }
            let links: Vec<PortIx> = dead.iter().copied().collect();
            let graph = whole.without(&links, &down.iter().copied().collect::<Vec<_>>());
            let again = Request { plan: Some(&before.plan), prior: Some(&before.tables), ..Request::by(Engine::FatTree) };
            let route = || route(&graph, first.tables.lids(), &again).unwrap();
            let [after, two, five] = pools.each_ref().map(|pool| pool.install(route));
            prop_assert!(after.tables == two.tables && after.tables == five.tables);
            let checked = check(&graph, &after.tables);
            prop_assert!(checked.is_good(), "{:?} {:?}", checked, after.notes);
            let account = account(&graph, &before, &after);
            prop_assert_eq!(account.changes(), before.tables.changes(&after.tables).count());
            prop_assert!(account.free == 0 || before.plan != after.plan, "{:?} {:?}", account, after.notes);
            let kept = before.plan == after.plan && first.plan == after.plan;
            prop_assert!(step < steps || !kept || after.tables == first.tables);
            before = after;
        }
    }
}
