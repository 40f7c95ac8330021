//! Graphs made odd on purpose, and every engine on them: no panic, no loop, nothing claimed that is not so.

#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use proptest::prelude::*;
use topology::routing::{Engine, Lids, NO_PATH, Request, RouteError, Tables, View, check, route, route_auto};
use topology::{Graph, GraphBuilder, Kind, LinkSpec, NodeIx, NodeSpec, quality};

/// Hosts without a switch, switches of one port and of 254, several cables between two nodes, from a switch
/// to itself and between hosts; hosts with many ports; nodes without any cable.
fn odd() -> impl Strategy<Value = Graph> {
    let switch = prop_oneof![4 => 3..12_u8, 1 => Just(1_u8), 1 => Just(254_u8)];
    let kind = prop_oneof![5 => Just(Kind::Host), 1 => Just(Kind::Router)];
    let switches = prop::collection::vec(switch, 0..9);
    let hosts = prop::collection::vec((kind, 1..5_u8), 0..12);
    let cables = prop::collection::vec((0..64_usize, any::<u8>(), 0..64_usize, any::<u8>()), 0..60);
    (switches, hosts, cables).prop_map(|(switches, hosts, cables)| {
        let mut builder = GraphBuilder::new();
        let mut guid = 0x2_c900_0000_0000;
        let mut add = |builder: &mut GraphBuilder, kind, ports| {
            guid += 0x100;
            let name = format!("n{guid:x}");
            builder.node(NodeSpec::new(kind, &name, ports).guid(guid)).unwrap()
        };
        let mut nodes: Vec<NodeIx> =
            switches.into_iter().map(|ports| add(&mut builder, Kind::Switch, ports)).collect();
        nodes.extend(hosts.into_iter().map(|(kind, ports)| add(&mut builder, kind, ports)));
        for (a, mine, b, theirs) in cables.into_iter().filter(|_| !nodes.is_empty()) {
            let end = |builder: &GraphBuilder, at: usize, number: u8| {
                let node = nodes[at % nodes.len()];
                (node, 1 + number % builder.port_count(node))
            };
            // What can't be wired is not.
            let (from, to) = (end(&builder, a, mine), end(&builder, b, theirs));
            let _ = builder.link(from, to, LinkSpec::EDR4X);
        }
        builder.finish()
    })
}

/// Follows each entry by itself: does it arrive? Says how many are empty though cables lead there.
fn followed(graph: &Graph, tables: &Tables) -> Result<usize, TestCaseError> {
    let view = View::of(graph);
    let components = view.components();
    let mut empty = 0;
    for (lid, end) in tables.lids().iter() {
        let Some((to, port)) = view.attachment(graph, end) else { continue };
        for from in 0..view.switch_count() {
            let (mut sw, mut hops) = (from, 0);
            while sw != to {
                let Some(port) = tables.port(view.switch(sw), lid) else { break };
                let next = view.beyond(sw, port);
                prop_assert!(next.is_some(), "{lid} from {from}: dead port {port} at {sw}");
                sw = next.unwrap().0;
                hops += 1;
                prop_assert!(hops <= view.switch_count(), "{lid} from {from}: a loop");
            }
            prop_assert!(sw == to || sw == from, "{lid} from {from}: ends at {sw}");
            empty += usize::from(sw != to && components[from] == components[to]);
        }
        prop_assert_eq!(tables.port(view.switch(to), lid).unwrap_or(NO_PATH), port);
    }
    Ok(empty)
}

fn sound(graph: &Graph, request: &Request<'_>, lmc: u8, auto: bool) -> Result<(), TestCaseError> {
    let lids = Arc::new(Lids::of_graph(graph, lmc).unwrap());
    let result = if auto { route_auto(graph, &lids, request) } else { route(graph, &lids, request) };
    let routing = match result {
        Ok(routing) => routing,
        Err(RouteError::FewVls { .. } | RouteError::NoShape(..)) => return Ok(()),
        Err(error) => return Err(TestCaseError::fail(error.to_string())),
    };
    let checked = check(graph, &routing.tables);
    prop_assert_eq!(checked.lost, 0, "{:?} {:?}", request.engine, checked);
    prop_assert!(checked.findings.is_empty(), "{:?} {:?}", request.engine, checked);
    prop_assert!(request.engine == Engine::MinHop || checked.credit_loop.is_empty(), "{:?}", checked);
    prop_assert!(checked.vls <= request.vls);
    let left = routing.notes.iter().filter(|note| note.contains("left empty"));
    let said: usize = left.map(|note| note.split(' ').next().unwrap().parse::<usize>().unwrap()).sum();
    prop_assert_eq!(followed(graph, &routing.tables)?, said, "{:?} {:?}", request.engine, routing.notes);
    let judged = quality::quality(graph, &routing.tables, 1);
    prop_assert_eq!(judged.checked, checked);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn every_engine_on_odd_graphs(graph in odd(), vls in 1_u8..4, lmc in 0_u8..2) {
        for engine in [Engine::MinHop, Engine::UpDown, Engine::FatTree, Engine::Layered, Engine::Grid, Engine::Dragonfly] {
            sound(&graph, &Request { vls, ..Request::by(engine) }, lmc, false)?;
        }
        sound(&graph, &Request { vls, ..Request::by(Engine::Layered) }, lmc, true)?;
        let roots: Vec<NodeIx> = graph.nodes_of(Kind::Switch).take(1).collect();
        for engine in [Engine::UpDown, Engine::FatTree, Engine::Layered] {
            sound(&graph, &Request { vls, roots: &roots, ..Request::by(engine) }, lmc, false)?;
        }
    }
}
