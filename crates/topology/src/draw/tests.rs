//! A drawing shows each node, is XML, and is the same every time.

use super::*;
use crate::build::*;
use crate::graph::{GraphBuilder, LinkSpec, NodeSpec};

fn drawn(graph: &Graph) -> String {
    let mut bytes = Vec::new();
    svg(graph, &mut bytes).unwrap();
    String::from_utf8(bytes).unwrap()
}

/// Each node once; each element that begins ends; nothing from elsewhere; no two switches at one place.
fn judge(graph: &Graph) {
    let text = drawn(graph);
    assert_eq!(text, drawn(graph));
    assert_eq!(text.matches("<title>").count(), graph.node_count());
    for tag in ["svg", "g", "text", "title", "style"] {
        let begins = text.matches(&format!("<{tag}>")).count() + text.matches(&format!("<{tag} ")).count();
        assert_eq!(begins, text.matches(&format!("</{tag}>")).count(), "{tag}");
    }
    assert_eq!(text.matches("http").count(), 1, "only the name of the format");
    assert!(!text.contains("NaN") && !text.contains("inf"));
    let mut spots: Vec<_> =
        places(graph).values().map(|place| ((place.x * 10.0) as i64, (place.y * 10.0) as i64)).collect();
    let all = spots.len();
    spots.sort_unstable();
    spots.dedup();
    assert_eq!(spots.len(), all, "two stand at one place");
}

#[test]
fn all_shapes_are_drawn() {
    let link = LinkSpec::EDR4X;
    judge(&fat_tree(&FatTree::new(4, 2).subtrees(2)).unwrap());
    judge(&fat_tree(&FatTree::new(8, 3)).unwrap());
    judge(&torus(&Torus::new(&[4, 5, 3], 1)).unwrap());
    judge(&hypercube(5, 1, link).unwrap());
    judge(&hyperx(&HyperX::new(&[4, 4], 2)).unwrap());
    judge(&dragonfly(&Dragonfly::balanced(3)).unwrap());
    judge(
        &dragonfly_plus(&DragonflyPlus {
            groups: 5,
            leaves: 4,
            spines: 4,
            hosts_per_leaf: 4,
            global: 2,
            link,
        })
        .unwrap(),
    );
    let tree = fat_tree(&FatTree::new(8, 2)).unwrap();
    judge(&tree.without(&[], &[NodeIx(0), NodeIx(9)]));
    judge(&GraphBuilder::new().finish());
}

#[test]
fn a_large_tree_is_drawn_and_small_enough_to_open() {
    let graph = fat_tree(&FatTree::new(24, 3)).unwrap();
    judge(&graph);
    assert!(drawn(&graph).len() < 2_000_000);
}

#[test]
fn names_are_no_markup() {
    let mut graph = GraphBuilder::new();
    let odd = graph.node(NodeSpec::new(Kind::Switch, "<&\"'>\u{1}]]>", 2)).unwrap();
    let host = graph.node(NodeSpec::new(Kind::Host, "</svg>", 1)).unwrap();
    graph.link((odd, 1), (host, 1), LinkSpec::EDR4X).unwrap();
    judge(&graph.finish());
}
