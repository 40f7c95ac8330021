//! What Debian's `ibdmchk` says of tables, beside what our checker says: paths of all pairs, and credit loops
//! VL by VL. Without `ibdmchk` (package `ibutils`) each test says so and passes.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

use std::fs::File;
use std::io::BufWriter;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

use topology::build::{
    Dragonfly, FatTree, HyperX, Island, Torus, dragonfly, fat_tree, hypercube, hyperx, torus,
    with_aggregation, with_island,
};
use topology::routing::form::Line;
use topology::routing::referee::{write_fdbs, write_levels, write_subnet, write_vls};
use topology::routing::{Engine, Grid, Groups, Lids, Request, Tables, check, route};
use topology::{Graph, GraphBuilder, Kind, LinkSpec, NodeSpec, PortIx};

/// A folder that goes away with the test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("tieline-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn write(path: &Path, write: impl FnOnce(&mut BufWriter<File>) -> std::io::Result<()>) {
    let mut out = BufWriter::new(File::create(path).unwrap());
    write(&mut out).unwrap();
}

/// What `ibdmchk` says of tables; `None`, with the reason printed, where it is not installed.
fn ibdmchk(name: &str, graph: &Graph, tables: &Tables) -> Option<String> {
    if Command::new("ibdmchk").arg("-h").stdout(Stdio::null()).stderr(Stdio::null()).status().is_err() {
        println!("skipped: `ibdmchk` is not installed (package ibutils)");
        return None;
    }
    let folder = Folder::new(name);
    let file = |name: &str| folder.0.join(name);
    write(&file("subnet.lst"), |out| write_subnet(graph, tables, out));
    write(&file("fdbs"), |out| write_fdbs(graph, tables, out));
    write(&file("mcfdbs"), |_| Ok(()));
    write(&file("psl"), |out| write_levels(graph, tables, out));
    write(&file("slvl"), |out| write_vls(graph, tables, out));
    let lmc = tables.lids().lmc().to_string();
    let said = Command::new("timeout")
        .args(["120", "ibdmchk", "-s", "subnet.lst", "-f", "fdbs", "-m", "mcfdbs", "-c", "psl", "-d", "slvl"])
        .args(["-l", &lmc])
        .current_dir(&folder.0)
        .output()
        .unwrap();
    // Its exit status means nothing; what it prints does.
    Some(String::from_utf8_lossy(&said.stdout).into_owned())
}

/// No credit loop and no broken path, says it.
fn content(said: &str) -> bool {
    let bad = ["-E-", "Found credit loop", "Fail", "BAD"];
    said.contains("no credit loops found") && !bad.iter().any(|word| said.contains(word))
}

fn switches_and_hosts(count: u32, ports: u8, cables: &[(u32, u32)]) -> Graph {
    let mut builder = GraphBuilder::new();
    let mut next = vec![1_u8; count as usize];
    let mut port = |node: u32| {
        next[node as usize] += 1;
        next[node as usize] - 1
    };
    let switches: Vec<_> = (0..count)
        .map(|at| {
            let name = format!("s{at}");
            builder
                .node(NodeSpec::new(Kind::Switch, &name, ports).guid(0x0002_0000 + u64::from(at) * 16))
                .unwrap()
        })
        .collect();
    for at in 0..count {
        let name = format!("h{at}");
        let host =
            builder.node(NodeSpec::new(Kind::Host, &name, 1).guid(0x0010_0000 + u64::from(at) * 16)).unwrap();
        builder.link((host, 1), (switches[at as usize], port(at)), LinkSpec::EDR4X).unwrap();
    }
    for (a, b) in cables {
        let ends = ((switches[*a as usize], port(*a)), (switches[*b as usize], port(*b)));
        builder.link(ends.0, ends.1, LinkSpec::EDR4X).unwrap();
    }
    builder.finish()
}

fn ring(count: u32) -> Graph {
    let cables: Vec<(u32, u32)> = (0..count).map(|at| (at, (at + 1) % count)).collect();
    switches_and_hosts(count, 4, &cables)
}

fn tables(graph: &Graph, engine: Engine, lmc: u8) -> Tables {
    let lids = Arc::new(Lids::assign(graph, lmc, |_| None).unwrap());
    route(graph, &lids, &Request::by(engine)).unwrap().tables
}

#[test]
fn shortest_paths_around_a_ring_deadlock_and_vls_end_that() {
    let graph = ring(6);
    let minhop = tables(&graph, Engine::MinHop, 0);
    let checked = check(&graph, &minhop);
    assert_eq!((checked.lost, checked.credit_loop.is_empty()), (0, false), "{checked:?}");
    if let Some(said) = ibdmchk("ring-minhop", &graph, &minhop) {
        assert!(said.contains("Found credit loop") || said.contains("credit loops"), "{said}");
        assert!(!content(&said), "{said}");
    }
    for engine in [Engine::Layered, Engine::UpDown] {
        let tables = tables(&graph, engine, 0);
        let checked = check(&graph, &tables);
        assert!(checked.is_good(), "{engine:?} {checked:?}");
        if let Some(said) = ibdmchk(engine.word(), &graph, &tables) {
            assert!(content(&said), "{engine:?} {said}");
        }
    }
}

#[test]
fn a_damaged_tree_is_as_good_as_the_checker_says() {
    let whole = fat_tree(&FatTree::new(8, 3)).unwrap();
    let is_switch = |port: PortIx| whole.kind(whole.owner(port)) == Kind::Switch;
    let links: Vec<PortIx> =
        whole.links().filter(|(a, b)| is_switch(*a) && is_switch(*b)).map(|(a, _)| a).collect();
    let dead: Vec<PortIx> = links.iter().copied().step_by(17).collect();
    let graph = whole.without(&dead, &[]);
    for engine in [Engine::FatTree, Engine::Layered, Engine::MinHop] {
        let tables = tables(&graph, engine, 0);
        let checked = check(&graph, &tables);
        assert!(checked.is_good(), "{engine:?} {checked:?}");
        if let Some(said) = ibdmchk(&format!("tree-{}", engine.word()), &graph, &tables) {
            assert!(content(&said), "{engine:?} {said}");
        }
    }
}

/// Routes by a shape, and asks both checkers.
fn both_are_content(name: &str, graph: &Graph, request: &Request<'_>) -> Vec<String> {
    let lids = Arc::new(Lids::assign(graph, 0, |_| None).unwrap());
    let routing = route(graph, &lids, request).unwrap();
    let checked = check(graph, &routing.tables);
    assert!(checked.is_good(), "{name} {checked:?} {:?}", routing.notes);
    assert_eq!(checked.lost_switches, 0, "{name} {checked:?}");
    if let Some(said) = ibdmchk(name, graph, &routing.tables) {
        assert!(content(&said), "{name} {said}");
    }
    routing.notes
}

/// Every so-many-th cable between switches.
fn some_cables(graph: &Graph, first: usize, step: usize) -> Vec<PortIx> {
    let is_switch = |port: PortIx| graph.kind(graph.owner(port)) == Kind::Switch;
    let cables = graph.links().filter(|(a, b)| is_switch(*a) && is_switch(*b)).map(|(a, _)| a);
    cables.skip(first).step_by(step).collect()
}

#[test]
fn grids_go_dimension_by_dimension_and_survive_faults() {
    let shapes: [(&str, Graph, Vec<u32>, Line); 4] = [
        ("torus", torus(&Torus::new(&[5, 4, 3], 2)).unwrap(), vec![5, 4, 3], Line::Ring),
        ("mesh", torus(&Torus::new(&[4, 4], 2).mesh()).unwrap(), vec![4, 4], Line::Open),
        ("hyperx", hyperx(&HyperX::new(&[4, 3], 2)).unwrap(), vec![4, 3], Line::Complete),
        ("hypercube", hypercube(4, 2, LinkSpec::EDR4X).unwrap(), vec![2; 4], Line::Complete),
    ];
    for (name, graph, sizes, line) in shapes {
        let grid = Grid::in_order(&graph, &sizes, line).unwrap();
        let request = Request { grid: Some(&grid), ..Request::by(Engine::Grid) };
        assert_eq!(both_are_content(name, &graph, &request), [""; 0]);
        let damaged = graph.without(&some_cables(&graph, 3, 9), &[]);
        both_are_content(&format!("{name}-cables"), &damaged, &request);
        let switch = graph.nodes_of(Kind::Switch).nth(5).unwrap();
        both_are_content(&format!("{name}-switch"), &graph.without(&[], &[switch]), &request);
    }
}

#[test]
fn dragonflies_take_one_global_cable_and_survive_faults() {
    let shape = Dragonfly::balanced(2);
    let graph = dragonfly(&shape).unwrap();
    let groups = Groups((0..shape.groups * shape.switches).map(|row| row / shape.switches).collect());
    let request = Request { groups: Some(&groups), ..Request::by(Engine::Dragonfly) };
    assert_eq!(both_are_content("dragonfly", &graph, &request), [""; 0]);
    let damaged = graph.without(&some_cables(&graph, 3, 11), &[]);
    both_are_content("dragonfly-cables", &damaged, &request);
    let request = Request::by(Engine::Layered);
    both_are_content("dragonfly-layered", &damaged, &request);
}

/// Adapters at switches of the top reach each other on VLs of their own, and nothing there waits for itself.
#[test]
fn trees_with_adapters_at_their_top_are_whole() {
    let tree = |radix, levels| fat_tree(&FatTree::new(radix, levels)).unwrap();
    let storage = Island { tree: FatTree::new(8, 3).subtrees(6), leaves: 3, hosts_per_leaf: 4, up: 6 };
    for (name, graph) in [
        ("aggregation-flat", with_aggregation(&tree(8, 2)).unwrap()),
        ("aggregation-deep", with_aggregation(&tree(6, 3)).unwrap()),
        ("island", with_island(&storage).unwrap()),
    ] {
        for (name, graph) in [
            (name.to_owned(), graph.clone()),
            (format!("{name}-cables"), graph.without(&some_cables(&graph, 3, 23), &[])),
        ] {
            let lids = Arc::new(Lids::assign(&graph, 0, |_| None).unwrap());
            let request = Request { vls: 15, ..Request::by(Engine::FatTree) };
            let routing = route(&graph, &lids, &request).unwrap();
            let checked = check(&graph, &routing.tables);
            assert!(
                checked.is_good() && checked.lost_aggregation == 0,
                "{name} {checked:?} {:?}",
                routing.notes
            );
            if let Some(said) = ibdmchk(&name, &graph, &routing.tables) {
                assert!(content(&said), "{name} {said}");
            }
        }
    }
}

/// A dump says what OpenSM's says: whose system a node is of, who made it, how fast its links are, how many
/// cables a route has.
#[test]
fn a_dump_has_what_opensm_dumps() {
    let graph = with_aggregation(&fat_tree(&FatTree::new(4, 2)).unwrap()).unwrap();
    let tables = tables(&graph, Engine::FatTree, 0);
    let (mut list, mut routes) = (Vec::new(), Vec::new());
    write_subnet(&graph, &tables, &mut list).unwrap();
    write_fdbs(&graph, &tables, &mut routes).unwrap();
    let again = topology::read::read(&list, None).unwrap();
    assert!(again.anomalies.is_empty(), "{:?}", again.anomalies.iter().next());
    assert_eq!(again.graph.differences(&graph, 5), [""; 0]);
    let node = again.graph.nodes().find(|node| again.graph.is_aggregation(*node)).unwrap();
    assert_eq!((again.graph.vendor(node), again.graph.device(node)), (0x2c9, 0xcf09));
    // Of the first leaf: itself, its hosts, those of other leaves, spines.
    let routes = String::from_utf8(routes).unwrap();
    let first: Vec<&str> = routes.lines().skip(2).take_while(|line| line.starts_with("0x")).collect();
    let lids = tables.lids();
    let leaf = graph.nodes_of(Kind::Switch).next().unwrap();
    for line in first {
        let field = |at: usize| line.split(':').nth(at).unwrap().trim();
        let lid = u16::from_str_radix(&field(0)[2..], 16).unwrap();
        let end = graph.owner(lids.port(lid).unwrap());
        let beside = |a, b| graph.cabled(a).any(|(_, far)| graph.owner(far) == b);
        let far = match graph.kind(end) {
            Kind::Switch => {
                [0, 1, 2][usize::from(end != leaf) + usize::from(end != leaf && !beside(leaf, end))]
            }
            _ if beside(leaf, end) => 1,
            _ if graph.cabled(end).any(|(_, far)| beside(leaf, graph.owner(far))) => 2,
            _ => 3,
        };
        assert_eq!(field(2), format!("{far:02}"), "{line}");
    }
}
