//! What is written is read again, and is the same.

use proptest::prelude::*;

use super::*;
use crate::build::*;
use crate::graph::{GraphBuilder, NodeSpec};
use crate::read::{Format, read};

type Writer = fn(&Graph, &mut dyn Write) -> io::Result<()>;
const ALL: [(Format, Writer); 4] = [
    (Format::IbNetDiscover, ibnetdiscover),
    (Format::IbSim, ibsim),
    (Format::SubnetList, subnet_list),
    (Format::Toml, toml),
];

fn written(graph: &Graph, writer: Writer) -> Vec<u8> {
    let mut bytes = Vec::new();
    writer(graph, &mut bytes).unwrap();
    bytes
}

#[test]
fn all_shapes_come_back_from_all_formats() {
    let link = LinkSpec { width: Width::X2, speed: Speed::Xdr };
    let shapes = [
        fat_tree(&FatTree::new(8, 3)),
        fat_tree(&FatTree { link, ..FatTree::new(8, 2).parallel(2) }),
        torus(&Torus::new(&[3, 4, 2], 2)),
        torus(&Torus::new(&[5], 1).mesh()),
        hyperx(&HyperX::new(&[3, 3], 1)),
        hypercube(4, 1, link),
        dragonfly(&Dragonfly::balanced(2)),
        dragonfly_plus(&DragonflyPlus {
            groups: 4,
            leaves: 2,
            spines: 3,
            hosts_per_leaf: 2,
            global: 2,
            link,
        }),
    ];
    for graph in shapes.map(Result::unwrap) {
        for (format, writer) in ALL {
            let again = read(&written(&graph, writer), None).unwrap();
            assert_eq!(again.format, format);
            let anomalies: Vec<_> = again.anomalies.iter().collect();
            assert!(anomalies.is_empty(), "{anomalies:?}");
            assert!(again.graph == graph, "{format}");
        }
    }
}

/// Any graph that dumps can hold: names of any characters that fit a line, several cables between two nodes,
/// uncabled ports.
fn any_graph() -> impl Strategy<Value = Graph> {
    let kind = prop_oneof![Just(Kind::Host), Just(Kind::Switch), Just(Kind::Router)];
    let node = (
        kind,
        "[^\\p{Cc}\u{61c}\u{200b}\u{200e}\u{200f}\u{2028}-\u{202e}\u{2060}-\u{2069}\u{feff}]{0,12}",
        1..8_u8,
        any::<[u32; 2]>(),
        0..0xc000_u16,
        0..8_u8,
    );
    let cable = (any::<[u16; 2]>(), any::<[u8; 2]>(), 0..6_usize, 0..11_usize);
    (prop::collection::vec(node, 1..12), prop::collection::vec(cable, 0..30)).prop_map(|(nodes, cables)| {
        let mut graph = GraphBuilder::new();
        for (at, (kind, name, ports, ids, lid, lmc)) in nodes.iter().enumerate() {
            let guid = 0x0254_0000_0000_0000 | (at as u64) << 8;
            let spec =
                NodeSpec { vendor: ids[0], device: ids[1], ..NodeSpec::new(*kind, name, *ports).guid(guid) };
            let node = graph.node(NodeSpec { system_guid: guid ^ u64::from(ids[0]), ..spec }).unwrap();
            if *kind == Kind::Switch {
                graph.lid(node, 0, *lid, *lmc);
                graph.port_guid(node, 0, guid ^ 0xff);
            }
        }
        for (ends, numbers, width, speed) in cables {
            let end = |at: usize| {
                let node = NodeIx(u32::from(ends[at]) % nodes.len() as u32);
                (node, numbers[at] % graph.port_count(node) + 1)
            };
            let known = LinkSpec { width: Width::ALL[width], speed: Speed::ALL[speed] };
            let spec = if numbers[0] > 9 { known } else { LinkSpec::default() };
            let (a, b) = (end(0), end(1));
            if graph.link(a, b, spec).is_ok() && graph.kind(a.0) != Kind::Switch && known != spec {
                graph.lid(a.0, a.1, u16::from(numbers[1]), 1);
                graph.port_guid(a.0, a.1, 0x77);
                graph.external(a.0, a.1, ends[0]);
            }
        }
        graph.finish()
    })
}

proptest! {
    #[test]
    fn any_graph_comes_back(graph in any_graph()) {
        for (format, writer) in ALL {
            if format != Format::SubnetList {
                let again = read(&written(&graph, writer), Some(format)).unwrap();
                prop_assert!(again.graph == graph, "{format}: {}", String::from_utf8_lossy(&written(&graph, writer)));
            }
        }
    }

    /// It holds cables and their ends alone: the second time nothing is lost.
    #[test]
    fn a_subnet_list_comes_back(graph in any_graph()) {
        if let Ok(first) = read(&written(&graph, subnet_list), Some(Format::SubnetList)) {
            prop_assert_eq!(first.graph.link_count(), graph.link_count());
            let again = read(&written(&first.graph, subnet_list), None).unwrap();
            prop_assert_eq!(again.graph, first.graph);
        } else {
            prop_assert_eq!(graph.link_count(), 0);
        }
    }
}

#[test]
fn dead_nodes_are_left_out() {
    let graph = fat_tree(&FatTree::new(4, 2)).unwrap();
    let dead = graph.without(&[], &[NodeIx(0)]);
    for (format, writer) in ALL {
        let again = read(&written(&dead, writer), None).unwrap();
        assert_eq!(again.graph.link_count(), dead.link_count(), "{format}");
        assert_eq!(again.graph.node_by_guid(graph.node_guid(NodeIx(0))), None);
    }
}

/// Characters that would move a terminal's cursor or turn its text around are spaces where a format has no
/// escapes.
#[test]
fn hidden_characters_reach_no_terminal() {
    let name = "a\u{9b}31m\u{85}\u{202e}b\u{2066}c\\d\"e";
    let mut builder = GraphBuilder::new();
    let host = builder.node(NodeSpec::new(Kind::Host, name, 1).guid(0x10)).unwrap();
    let switch = builder.node(NodeSpec::new(Kind::Switch, "s", 1).guid(0x20)).unwrap();
    builder.link((host, 1), (switch, 1), LinkSpec::default()).unwrap();
    let graph = builder.finish();
    let writers = ALL.map(|(_, writer)| writer).into_iter().chain([dot as Writer, crate::draw::svg]);
    for writer in writers {
        let text = String::from_utf8(written(&graph, writer)).unwrap();
        assert!(!text.chars().any(|c| c != '\n' && c != '\t' && is_hidden(c)), "{text:?}");
        assert!(text.contains("31m"), "{text:?}");
    }
    let again = read(&written(&graph, toml), None).unwrap();
    assert!(again.graph == graph, "{:?}", String::from_utf8(written(&graph, toml)));
}
