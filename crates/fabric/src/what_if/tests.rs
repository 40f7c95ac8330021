//! What routes on paper say of the file that they are of.

use topology::build::{FatTree, Torus, fat_tree, torus};
use topology::{GraphBuilder, LinkSpec, NodeSpec, Speed, Width};

use super::*;
use crate::files;
use crate::report::{Report, Wanted};
use crate::snapshot::PortFacts;

/// Two leaves under two spines, with two hosts each; the cables of the second leaf have this rate, and the
/// last host this LID.
fn small(rate: LinkSpec, lid: u16) -> Graph {
    let mut builder = GraphBuilder::new();
    let mut node = |kind, name: &str, guid| builder.node(NodeSpec::new(kind, name, 4).guid(guid)).unwrap();
    let switches: Vec<NodeIx> = (0..4).map(|at| node(Kind::Switch, &format!("s{at}"), 0x10 + at)).collect();
    let hosts: Vec<NodeIx> = (0..4).map(|at| node(Kind::Host, "same name", 0x100 * (at + 1))).collect();
    for leaf in 0..2_usize {
        for other in 0..2_usize {
            let link = if leaf == 0 { LinkSpec::EDR4X } else { rate };
            let ends = ((switches[leaf], other as u8 + 1), (switches[2 + other], leaf as u8 + 1));
            builder.link(ends.0, ends.1, link).unwrap();
            let host = (hosts[leaf * 2 + other], 1);
            builder.link(host, (switches[leaf], other as u8 + 3), LinkSpec::EDR4X).unwrap();
        }
    }
    for (at, host) in hosts.iter().enumerate() {
        builder.lid(*host, 1, if at == 3 { lid } else { at as u16 + 1 }, 0);
    }
    builder.finish()
}

fn notes(graph: &Graph) -> Vec<String> {
    let lids = Arc::new(Lids::of_graph(graph, 0).unwrap());
    routed(graph, &lids, &RouteOptions::default()).unwrap().routing.notes
}

#[test]
fn lids_that_could_not_stay_and_speeds_that_differ_are_said() {
    let said = |graph: &Graph, words: &str| notes(graph).iter().filter(|one| one.contains(words)).count();
    let plain = small(LinkSpec::EDR4X, 4);
    assert_eq!((said(&plain, "LID"), said(&plain, "differ")), (0, 0));
    let twice = small(LinkSpec::EDR4X, 1);
    assert_eq!((said(&twice, "1 port gets a new LID"), said(&twice, "differ")), (1, 0));
    let slower = small(LinkSpec { width: Width::X4, speed: Speed::Ddr }, 4);
    assert_eq!(said(&slower, "cables between switches differ in rate (2 run at 4xDDR, 2 run at 4xEDR)"), 1);
    // Neither is what most have, and the report says so too.
    let report = |graph| Report::of(&files::bare(graph, "a test"), &Wanted::default()).unwrap();
    let slow: Vec<_> = report(slower).findings.into_iter().filter(|one| one.kind == "slow").collect();
    assert_eq!(slow.len(), 1);
    assert!(slow[0].text.starts_with("links between switches differ: 2 of"), "{}", slow[0].text);
    assert_eq!(report(plain).findings.len(), 0);
}

#[test]
fn nothing_is_not_routed() {
    let graph = small(LinkSpec::EDR4X, 4);
    let switches: Vec<NodeIx> = graph.nodes_of(Kind::Switch).collect();
    let none = graph.without(&[], &switches);
    let lids = Arc::new(Lids::of_graph(&none, 0).unwrap());
    for engine in [None, Some(Engine::MinHop)] {
        let why = routed(&none, &lids, &RouteOptions { engine, ..RouteOptions::default() })
            .unwrap_err()
            .to_string();
        assert!(why.contains("nothing to route: of 4 switches and 4 CAs"), "{why}");
    }
    let judged = Judged::of(&none, &check(&none, &Tables::empty(lids, &[])));
    assert!(!judged.good && text::judged(&judged).contains("nothing to check"));
}

/// Two leaves under two spines with two hosts each, and an aggregation node in every switch.
fn aggregating() -> Graph {
    let mut builder = GraphBuilder::new();
    let switches = ["leaf0", "leaf1", "spine0", "spine1"]
        .map(|name| builder.node(NodeSpec::new(Kind::Switch, name, 9)).unwrap());
    let at = |builder: &mut GraphBuilder, name: String, switch: usize, port| {
        let node = builder.node(NodeSpec::new(Kind::Host, &name, 1)).unwrap();
        builder.link((node, 1), (switches[switch], port), LinkSpec::EDR4X).unwrap();
    };
    for switch in 0..4 {
        at(&mut builder, format!("Aggregation Node {switch}"), switch, 9);
    }
    for leaf in 0..2_usize {
        for other in 0..2_usize {
            at(&mut builder, format!("host{}", leaf * 2 + other), leaf, other as u8 + 3);
            let ends = ((switches[leaf], other as u8 + 1), (switches[2 + other], leaf as u8 + 1));
            builder.link(ends.0, ends.1, LinkSpec::EDR4X).unwrap();
        }
    }
    builder.finish()
}

#[test]
fn what_is_taken_out_on_purpose_is_not_disconnected() {
    let graph = aggregating();
    let lids = Arc::new(Lids::of_graph(&graph, 0).unwrap());
    for (part, gone, disconnected) in
        [("spine0", true, 0), ("host0", true, 0), ("leaf0", false, 2), ("leaf0/3", false, 1)]
    {
        let parts = [part.to_owned()];
        for drained in [false, true] {
            let (loss, _) = loss(&graph, &RouteOptions::default(), &parts, drained).unwrap();
            assert_eq!(loss.cut_off.len(), disconnected, "{part}: {:?}", loss.cut_off);
            // A leaf that is drained is still there for its hosts.
            let good = gone || drained && part == "leaf0";
            assert_eq!(
                (loss.judged.good, loss.judged.cut == 0),
                (good, good),
                "{part}: {}",
                text::loss(&loss)
            );
        }
        let rest = without(&graph, &parts).unwrap();
        let judged = Judged::of(&rest, &routed(&rest, &lids, &RouteOptions::default()).unwrap().checked);
        assert_eq!((judged.good, judged.cut == 0), (gone, gone), "{part}: {}", text::judged(&judged));
    }
}

#[test]
fn tables_use_no_more_vls_than_ports_between_switches_operate() {
    let mut snapshot = files::bare(torus(&Torus::new(&[5, 5], 1)).unwrap(), "a test");
    assert_eq!(snapshot.operational_vls(), None);
    let (sets, speeds) = ([2; 3], [0x20; 3]);
    let facts = |vls, state| PortFacts {
        state,
        physical: 5,
        width: sets,
        speed: speeds,
        mtu: [5; 2],
        sm_lid: 1,
        vls,
    };
    snapshot.ports = vec![Some(facts(4, 4)); snapshot.graph.port_total()];
    let host = snapshot.graph.nodes_of(Kind::Host).next().unwrap();
    let (end, switch) = snapshot.graph.cabled(host).next().unwrap();
    let is_switch = |port: PortIx| snapshot.graph.kind(snapshot.graph.owner(port)) == Kind::Switch;
    let cable = snapshot.graph.links().find(|(a, b)| is_switch(*a) && is_switch(*b)).unwrap();
    // Neither a host's link nor a port that no manager has set up says anything of the switches'.
    for (port, facts) in [(end, facts(1, 4)), (switch, facts(1, 4)), (cable.0, facts(1, 2))] {
        snapshot.ports[port.index()] = Some(facts);
    }
    assert_eq!(snapshot.operational_vls(), Some(4));
    snapshot.ports[cable.1.index()] = Some(facts(2, 4));
    assert_eq!(snapshot.operational_vls(), Some(2));
    // Rings need three.
    let graph = &snapshot.graph;
    let lids = Arc::new(Lids::of_graph(graph, 0).unwrap());
    let options = |vls, operational| RouteOptions {
        engine: Some(Engine::Grid),
        vls,
        operational,
        ..RouteOptions::default()
    };
    let vls = |options: &RouteOptions| routed(graph, &lids, options);
    assert!(vls(&options(0, 4)).is_ok());
    assert!(vls(&options(0, 2)).unwrap_err().to_string().contains("needs 3 VLs"));
    assert!(vls(&options(3, 2)).is_ok());
    assert!(options(3, 2).warning().unwrap().contains("3 VLs asked for"));
    assert_eq!(
        [options(3, 4), options(3, 0), options(0, 2)].map(|options| options.warning()),
        [None, None, None]
    );
}

#[test]
fn nodes_of_one_description_are_told_apart() {
    let graph = small(LinkSpec::EDR4X, 4);
    let host = graph.nodes_of(Kind::Host).next().unwrap();
    assert_eq!(names::label(&graph, host), "same name (0x0000000000000100)");
    let lids = Arc::new(Lids::of_graph(&graph, 0).unwrap());
    let tables = routed(&graph, &lids, &RouteOptions::default()).unwrap().routing.tables;
    let (from, to) = quality(&graph, &tables, 1).longest.unwrap();
    assert!(from != to && from.starts_with("same name (0x") && from.ends_with("/1"), "{from} {to}");
    let tree = fat_tree(&FatTree::new(4, 2)).unwrap();
    assert_eq!(names::label(&tree, NodeIx(0)), "leaf000");
}
