//! What is built has as many parts as its formula says.

use super::*;

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
    assert!(pgft(&tree).unwrap_err().to_string().contains("w 2"));
}
