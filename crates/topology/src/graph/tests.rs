//! A graph says what its builder was told, and the builder refuses what can't be.

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
