//! A graph contains what its builder was given, and the builder refuses impossible graphs.

use super::*;

fn pair() -> (GraphBuilder, NodeIx, NodeIx) {
    let mut graph = GraphBuilder::new();
    let switch = graph.node(NodeSpec::new(Kind::Switch, "sw", 2).guid(0x10)).unwrap();
    let host = graph.node(NodeSpec::new(Kind::Host, "h", 1).guid(0x20)).unwrap();
    (graph, switch, host)
}

#[test]
fn a_graph_says_what_it_was_told() {
    let (mut builder, switch, host) = pair();
    builder.link((switch, 2), (host, 1), LinkSpec::EDR4X).unwrap();
    builder.lid(switch, 0, 7, 0);
    builder.external(switch, 2, 9);
    builder.external(switch, 2, 11);
    let graph = builder.finish();
    let port = graph.port(switch, 2).unwrap();
    assert_eq!((graph.number(port), graph.owner(port), graph.lid(port)), (2, switch, 7));
    assert_eq!((graph.port_guid(port), graph.external(port)), (0x10, Some(11)));
    assert_eq!(graph.neighbour(port), Some(host));
    assert_eq!(graph.link(port), Some(LinkSpec::EDR4X));
    assert_eq!(graph.port_guid(graph.peer(port).unwrap()), 0x21);
    assert_eq!((graph.name(switch), graph.name(host)), ("sw", "h"));
    assert_eq!((graph.port(switch, 3), graph.port_count(switch)), (None, 2));
    assert_eq!((graph.node_by_guid(0x20), graph.node_by_guid(0x21)), (Some(host), None));
    assert_eq!((graph.node_by_guid(0), graph.link_count()), (None, 1));
}

#[test]
fn what_can_t_be_is_refused_and_both_ends_are_named() {
    let (mut graph, switch, host) = pair();
    let spec = LinkSpec::default();
    let none = graph.link((switch, 3), (host, 1), spec).unwrap_err().to_string();
    assert!(none.contains("`sw`") && none.contains("`h`") && none.contains('3'), "{none}");
    assert!(graph.link((switch, 0), (host, 1), spec).is_err());
    assert!(graph.link((switch, 1), (switch, 1), spec).unwrap_err().to_string().contains("itself"));
    graph.link((switch, 1), (host, 1), spec).unwrap();
    let twice = graph.link((switch, 2), (host, 1), spec).unwrap_err().to_string();
    assert!(twice.contains("port 1 of `sw`") && twice.contains("port 2 of `sw`"), "{twice}");
    assert!(graph.node(NodeSpec::new(Kind::Host, "big", 255)).is_err());
    assert_eq!(graph.finish().link_count(), 1);
}

#[test]
fn without_keeps_indices() {
    let (mut builder, switch, host) = pair();
    builder.link((switch, 2), (host, 1), LinkSpec::EDR4X).unwrap();
    let graph = builder.finish();
    let port = graph.port(switch, 2).unwrap();
    for rest in [graph.without(&[port], &[]), graph.without(&[], &[host])] {
        assert_eq!((rest.node_count(), rest.link_count(), rest.peer(port)), (2, 0, None));
        assert_eq!(rest.link(port), None);
    }
    assert!(graph.without(&[], &[host]).is_dead(host));
    assert!(!graph.without(&[port], &[]).is_dead(host));
}

#[test]
fn switches_of_one_guid_are_found_among_those_that_are_there() {
    let mut builder = GraphBuilder::new();
    let mut node = |kind, guid| builder.node(NodeSpec::new(kind, "n", 2).guid(guid)).unwrap();
    let nodes = [
        node(Kind::Switch, 0),
        node(Kind::Switch, 7),
        node(Kind::Host, 9),
        node(Kind::Switch, 9),
        node(Kind::Switch, 0),
        node(Kind::Switch, 7),
    ];
    let graph = builder.finish();
    assert_eq!(graph.switches_of_one_guid(), Some((nodes[1], nodes[5])));
    assert_eq!(graph.without(&[], &[nodes[1]]).switches_of_one_guid(), None);
}

#[test]
fn a_rate_fits_a_byte() {
    let all = |spec: LinkSpec| LinkSpec::unpack(spec.pack()) == Some(spec);
    for width in Width::ALL.into_iter().chain([Width::Unknown]) {
        for speed in Speed::ALL.into_iter().chain([Speed::Unknown]) {
            let spec = LinkSpec { width, speed };
            assert!(all(spec));
            assert_eq!(spec.to_string().parse(), Ok(spec));
        }
    }
}

/// Switches of these names and GUIDs in a chain, with a host at each.
fn chain(nodes: &[(&str, u64)], rate: LinkSpec) -> Graph {
    let mut builder = GraphBuilder::new();
    let mut last = None;
    for (name, guid) in nodes {
        let switch = builder.node(NodeSpec::new(Kind::Switch, name, 4).guid(*guid)).unwrap();
        if let Some(last) = last {
            builder.link((last, 2), (switch, 1), rate).unwrap();
        }
        last = Some(switch);
    }
    builder.finish()
}

const REAL: u64 = 0x2_c902_0040_0000;

#[test]
fn fabrics_without_guids_differ_by_names() {
    let four = LinkSpec { width: Width::X4, speed: Speed::Edr };
    let one = chain(&[("a", 0), ("b", 0), ("c", 0)], four);
    assert_eq!(one.differences(&one.clone(), 9), [""; 0]);
    let found = one.differences(&chain(&[("a", 0), ("b", 0), ("d", 0)], four), 9);
    let expect = [
        "node `c` (switch `c` of 4 ports) is missing",
        "node `d` (switch `d` of 4 ports) is additional",
        "cable `b` port 2 to `c` port 1 (4xEDR) is missing",
        "cable `b` port 2 to `d` port 1 (4xEDR) is additional",
    ];
    assert_eq!(found, expect);
    let slow = chain(&[("a", 0), ("b", 0), ("c", 0)], LinkSpec { speed: Speed::Hdr, ..four });
    assert_eq!(one.differences(&slow, 9).len(), 2);
    // GUIDs that a simulator counts up identify less than names.
    let counted = chain(&[("b", 0x20_0000), ("a", 0x20_0001)], four);
    let other = chain(&[("a", 0x20_0000), ("b", 0x20_0001)], four);
    let found = counted.differences(&other, 9);
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(found[0].contains("cable `a` port 1 to `b` port 2"), "{found:?}");
    // One side has GUIDs, the other none.
    assert_eq!(one.differences(&chain(&[("a", REAL), ("b", REAL + 1), ("c", REAL + 2)], four), 9), [""; 0]);
}

#[test]
fn guids_that_two_have_do_not_hide_a_difference() {
    let four = LinkSpec { width: Width::X4, speed: Speed::Edr };
    let one = chain(&[("a", REAL), ("b", REAL), ("c", REAL + 1)], four);
    let found = one.differences(&chain(&[("a", REAL), ("x", REAL), ("c", REAL + 1)], four), 9);
    assert!(found.iter().any(|line| line.contains("`x`")), "{found:?}");
    let renamed = one.differences(&chain(&[("a", REAL), ("b", REAL), ("z", REAL + 1)], four), 9);
    assert_eq!(renamed, ["node 0x0002c90200400001: switch `c` of 4 ports, now switch `z` of 4 ports"]);
}

#[test]
fn what_can_t_be_told_apart_is_said_and_is_a_difference() {
    let (four, two) =
        (LinkSpec { width: Width::X4, speed: Speed::Edr }, LinkSpec { width: Width::X2, speed: Speed::Edr });
    let found = chain(&[("x", 0), ("x", 0)], four).differences(&chain(&[("x", 0), ("x", 0)], two), 9);
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(
        found[0].contains("nodes `x`: 2, now 2") && found[1].contains("1 cable of such nodes, now 1"),
        "{found:?}"
    );
    // A known neighbour distinguishes them.
    let wired = |rate| chain(&[("a", REAL), ("x", 0), ("x", 0)], rate);
    let found = wired(four).differences(&wired(two), 9);
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(found.iter().all(|line| line.starts_with("cable ") && line.contains("now 2xEDR")), "{found:?}");
}

#[test]
fn names_of_strangers_do_nothing_to_a_terminal() {
    let spec = LinkSpec::default();
    let found = chain(&[("\u{1b}[2J\u{202e}\u{2028}", REAL)], spec).differences(&chain(&[], spec), 9);
    assert_eq!(
        found,
        ["node 0x0002c90200400000 (switch `\\u{1b}[2J\\u{202e}\\u{2028}` of 4 ports) is missing"]
    );
}

#[test]
fn who_has_no_guid_gets_one_that_depends_on_the_name() {
    let spec = LinkSpec::default();
    let graph = chain(&[("a", 0), ("b", REAL), ("c", REAL), ("x", 0), ("x", 0)], spec);
    assert_eq!(graph.without_guid(), [0, 2, 3, 4].map(NodeIx));
    let whole = graph.with_guids();
    assert_eq!(whole.without_guid(), []);
    let guid = |graph: &Graph, name: &str| {
        let node = graph.nodes().find(|node| graph.name(*node) == name).unwrap();
        graph.node_guid(node)
    };
    assert_eq!(guid(&whole, "b"), REAL);
    assert_eq!(guid(&whole, "a"), guid(&chain(&[("n", 0), ("a", 0)], spec).with_guids(), "a"));
    for node in whole.nodes() {
        assert_eq!(whole.node_by_guid(whole.node_guid(node)), Some(node));
        assert_eq!(whole.port_guid(whole.port(node, 1).unwrap()), whole.node_guid(node));
    }
    assert_eq!(whole.links().collect::<Vec<_>>(), graph.links().collect::<Vec<_>>());
}

/// Leaves and spines with hosts at some ports: the aggregation nodes.
fn aggregation_nodes(at_spines: bool, more: bool, device: u32) -> usize {
    let mut builder = GraphBuilder::new();
    let switches: Vec<NodeIx> =
        (0..4).map(|_| builder.node(NodeSpec::new(Kind::Switch, "s", 8)).unwrap()).collect();
    let host = |builder: &mut GraphBuilder, at: usize, port: u8, device: u32| {
        let spec = NodeSpec { vendor: 0x2c9, device, ..NodeSpec::new(Kind::Host, "h", 1) };
        let node = builder.node(spec).unwrap();
        builder.link((node, 1), (switches[at], port), LinkSpec::EDR4X).unwrap();
    };
    for (leaf, spine) in [(0, 2), (0, 3), (1, 2), (1, 3)] {
        let (from, to) = ((switches[leaf], spine as u8 + 4), (switches[spine], leaf as u8 + 1));
        builder.link(from, to, LinkSpec::EDR4X).unwrap();
    }
    for at in 0..if at_spines { 4 } else { 2 } {
        host(&mut builder, at, 8, device);
    }
    for port in 1..=if more { 3 } else { 0 } {
        host(&mut builder, 0, port, 1);
        host(&mut builder, 1, port, 1);
    }
    let graph = builder.finish();
    graph.nodes().filter(|node| graph.is_aggregation(*node)).count()
}

#[test]
fn aggregation_nodes_are_known_by_model_or_by_place() {
    assert_eq!(aggregation_nodes(true, true, 0xcf09), 4);
    assert_eq!(aggregation_nodes(false, true, 0xcf09), 2);
    assert_eq!(aggregation_nodes(true, true, 1), 4);
    // Hosts of leaves alone, and hosts of a fabric that has no others.
    assert_eq!(aggregation_nodes(false, true, 1), 0);
    assert_eq!(aggregation_nodes(true, false, 1), 0);
}
