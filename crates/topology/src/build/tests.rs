//! Built fabrics have as many parts as their formulas give.

use super::*;
use crate::graph::LinkSpec;

fn counts(graph: &Graph) -> (usize, usize, usize) {
    (graph.count(Kind::Host), graph.count(Kind::Switch), graph.link_count())
}

#[test]
fn trees_have_the_sizes_that_are_known() {
    let size = |shape: FatTree| counts(&fat_tree(&shape).unwrap());
    assert_eq!(size(FatTree::new(36, 2).parallel(2)), (324, 27, 648));
    assert_eq!(size(FatTree::new(36, 2)), (648, 54, 1296));
    assert_eq!(size(FatTree::new(24, 3)), (3456, 720, 3 * 3456));
    assert_eq!(size(FatTree::new(36, 3)), (11_664, 1_620, 3 * 11_664));
    assert_eq!(size(FatTree::new(40, 3)), (16_000, 2_000, 48_000));
    assert_eq!(size(FatTree::new(36, 2).hosts_per_leaf(24)), (36 * 24, 36 + 12, 36 * 36));
}

#[test]
fn a_tree_that_can_t_be_is_refused_with_the_reason() {
    let why = |shape: FatTree| fat_tree(&shape).unwrap_err().to_string();
    assert!(why(FatTree::new(36, 4)).contains("4 levels"));
    assert!(why(FatTree::new(35, 3)).contains("even"));
    assert!(why(FatTree::new(36, 2).parallel(5)).contains("5 parallel"));
    assert!(why(FatTree::new(36, 2).subtrees(37)).contains("37 subtrees"));
    assert!(why(FatTree::new(36, 2).hosts_per_leaf(36)).contains("36 hosts"));
    assert!(why(FatTree::new(254, 3)).contains("at most"));
    let tree = Pgft { children: vec![2], parents: vec![1, 1], parallel: vec![1], link: Default::default() };
    assert!(pgft(&tree).unwrap_err().to_string().contains("(w) 2"));
}

#[test]
fn grids_have_the_sizes_of_their_formulas() {
    for sizes in [&[4_u32, 3][..], &[2, 2, 2], &[5], &[1, 7], &[3, 4, 5], &[2, 3, 2, 3]] {
        let all: usize = sizes.iter().map(|size| *size as usize).product();
        let expect = |complete, wrap| (2 * all, all, 2 * all + grid::cables(sizes, complete, wrap) as usize);
        assert_eq!(counts(&torus(&Torus::new(sizes, 2)).unwrap()), expect(false, true));
        assert_eq!(counts(&torus(&Torus::new(sizes, 2).mesh()).unwrap()), expect(false, false));
        assert_eq!(counts(&hyperx(&HyperX::new(sizes, 2)).unwrap()), expect(true, true));
    }
    let graph = torus(&Torus { parallel: 3, ..Torus::new(&[4, 4, 4], 1) }).unwrap();
    assert_eq!(counts(&graph), (64, 64, 64 + 3 * 3 * 64));
    let cube = hypercube(6, 1, LinkSpec::EDR4X).unwrap();
    assert_eq!(counts(&cube), (64, 64, 64 + 6 * 32));
    assert!(cube.nodes_of(Kind::Switch).all(|node| cube.cabled(node).count() == 7));
}

#[test]
fn dragonflies_have_the_sizes_of_their_formulas() {
    for (groups, switches, hosts, global) in
        [(9, 4, 2, 2), (3, 4, 2, 2), (1, 5, 1, 0), (33, 8, 4, 4), (4, 3, 0, 1)]
    {
        let shape = Dragonfly { groups, switches, hosts_per_switch: hosts, global, link: LinkSpec::EDR4X };
        let pairs = |count: u32| count * (count - 1) / 2;
        let copies = (switches * global).checked_div(groups - 1).unwrap_or(0);
        let all = groups * switches;
        let cables = groups * pairs(switches) + pairs(groups) * copies + all * hosts;
        let expect = ((all * hosts) as usize, all as usize, cables as usize);
        assert_eq!(counts(&dragonfly(&shape).unwrap()), expect);
        let (leaves, spines) = (3, switches);
        let plus =
            DragonflyPlus { groups, leaves, spines, hosts_per_leaf: hosts, global, link: LinkSpec::EDR4X };
        let cables = groups * leaves * (spines + hosts) + pairs(groups) * copies;
        let expect = (groups * leaves * hosts, groups * (leaves + spines), cables);
        let found = counts(&dragonfly_plus(&plus).unwrap());
        assert_eq!(found, (expect.0 as usize, expect.1 as usize, expect.2 as usize));
    }
    let balanced = dragonfly(&Dragonfly::balanced(4)).unwrap();
    assert_eq!((balanced.count(Kind::Switch), balanced.count(Kind::Host)), (33 * 8, 33 * 32));
}

#[test]
fn grids_and_dragonflies_that_can_t_be_are_refused_with_the_reason() {
    let why = |made: Result<Graph, BuildError>| made.unwrap_err().to_string();
    assert!(why(torus(&Torus::new(&[], 1))).contains("0 dimensions"));
    assert!(why(torus(&Torus::new(&[4, 0], 1))).contains("dimension 2"));
    assert!(why(torus(&Torus::new(&[4; 20], 1))).contains("at most"));
    assert!(why(hyperx(&HyperX::new(&[300], 1))).contains("300 ports"));
    assert!(why(hypercube(0, 1, LinkSpec::EDR4X)).contains("0 dimensions"));
    assert!(why(torus(&Torus::new(&[4], u32::MAX))).contains("hosts"));
    assert!(why(dragonfly(&Dragonfly { groups: 10, ..Dragonfly::balanced(2) })).contains("at most 9 groups"));
    assert!(why(dragonfly(&Dragonfly::balanced(0))).contains("0 hosts per switch: give at least 1"));
    assert!(why(dragonfly(&Dragonfly::balanced(u32::MAX))).contains("dragonfly"));
}

#[test]
fn a_hypercube_that_is_too_large_is_told_the_limit() {
    for dimensions in [0, 18, 200] {
        let why = hypercube(dimensions, 1, LinkSpec::EDR4X).unwrap_err().to_string();
        assert!(why.contains(&format!("{dimensions} dimensions: give 1 to 17")), "{why}");
    }
}
