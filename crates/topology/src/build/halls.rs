//! One fabric of each kind that data centres have, to compare engines on: small ones, and large ones of the
//! same builders.

use super::{
    BuildError, FatTree, Island, Pgft, Planes, Rails, Trunks, fat_tree, pgft, planes, rails, trunks, uneven,
    with_aggregation, with_island,
};
use crate::graph::{Graph, LinkSpec};

/// How large the fabrics are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Size {
    /// Less than 700 channel adapters each.
    Small,
    /// Several thousand each.
    Large,
}

/// What each is called, and the fabric.
pub type Hall = (&'static str, Graph);

/// The fabrics of a size.
///
/// # Errors
/// None with these shapes, if their builders are right.
pub fn halls(size: Size) -> Result<Vec<Hall>, BuildError> {
    match size {
        Size::Small => small(),
        Size::Large => large(),
    }
}

fn small() -> Result<Vec<Hall>, BuildError> {
    let link = LinkSpec::EDR4X;
    let whole = |radix, levels| fat_tree(&FatTree::new(radix, levels));
    let flat = Island { tree: FatTree::new(24, 2).subtrees(16), leaves: 3, hosts_per_leaf: 16, up: 8 };
    let deep = Island { tree: FatTree::new(12, 3).subtrees(10), leaves: 4, hosts_per_leaf: 8, up: 12 };
    let two = Planes { planes: 2, leaves: 16, hosts_per_leaf: 16, spines: 12, joins: 4, link };
    let cables = vec![3, 2, 4];
    Ok(vec![
        ("two levels with aggregation nodes", with_aggregation(&whole(24, 2)?)?),
        ("three levels with aggregation nodes", with_aggregation(&whole(12, 3)?)?),
        ("two levels of uneven leaves", uneven(&whole(24, 2)?, &[12, 7, 3, 1, 10])?),
        ("three levels of uneven leaves", uneven(&whole(12, 3)?, &[6, 4, 1, 5, 2, 6, 3])?),
        ("two levels with an island", with_island(&flat)?),
        ("three levels with an island", with_island(&deep)?),
        ("rails", rails(&Rails { units: 4, servers: 16, rails: 8, spines: 8, cores: 12, link })?),
        ("planes", planes(&two)?),
        ("trunks", trunks(&Trunks { leaves: 20, hosts_per_leaf: 18, spines: 6, cables, link })?),
        ("trunks of four", fat_tree(&FatTree::new(16, 3).parallel(4))?),
    ])
}

fn large() -> Result<Vec<Hall>, BuildError> {
    let link = LinkSpec::EDR4X;
    let whole = |radix, levels| fat_tree(&FatTree::new(radix, levels));
    let flat = Island { tree: FatTree::new(80, 2).subtrees(64), leaves: 6, hosts_per_leaf: 40, up: 20 };
    let high = Island { tree: FatTree::new(24, 3).subtrees(22), leaves: 8, hosts_per_leaf: 16, up: 24 };
    let two = Planes { planes: 2, leaves: 64, hosts_per_leaf: 32, spines: 24, joins: 8, link };
    let cables = vec![3, 2, 4];
    Ok(vec![
        ("two levels with aggregation nodes", with_aggregation(&whole(80, 2)?)?),
        ("three levels with aggregation nodes", with_aggregation(&whole(24, 3)?)?),
        ("five levels with aggregation nodes", deep()?),
        ("two levels of uneven leaves", uneven(&whole(96, 2)?, &[48, 28, 12, 1, 40])?),
        ("three levels of uneven leaves", uneven(&whole(28, 3)?, &[14, 9, 2, 11, 5, 14, 7])?),
        ("two levels with an island", with_island(&flat)?),
        ("three levels with an island", with_island(&high)?),
        ("rails", rails(&Rails { units: 16, servers: 32, rails: 8, spines: 16, cores: 32, link })?),
        ("planes", planes(&two)?),
        ("trunks", trunks(&Trunks { leaves: 60, hosts_per_leaf: 54, spines: 18, cables, link })?),
        ("trunks of four", fat_tree(&FatTree::new(40, 3).parallel(4))?),
    ])
}

/// A tree of five levels that narrows towards its top, with 3,675 hosts on uneven leaves, and an aggregation
/// node at each of its 666 switches.
///
/// # Errors
/// None, if its builders are right.
pub fn deep() -> Result<Graph, BuildError> {
    let (children, parents) = (vec![11, 6, 5, 2, 6], vec![1, 3, 2, 1, 3]);
    let whole = pgft(&Pgft { children, parents, parallel: vec![1, 4, 3, 6, 2], link: LinkSpec::EDR4X })?;
    with_aggregation(&uneven(&whole, &[[11; 5].as_slice(), &[10; 19]].concat())?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::Kind;

    #[test]
    fn each_kind_is_small_and_large() {
        let named = |size| -> Vec<(&str, usize)> {
            let count = |graph: &Graph| -> usize {
                graph.nodes_of(Kind::Host).map(|host| usize::from(graph.port_count(host))).sum()
            };
            halls(size).unwrap().iter().map(|(name, graph)| (*name, count(graph))).collect()
        };
        let (small, large) = (named(Size::Small), named(Size::Large));
        assert!(small.iter().all(|(_, ports)| (150..700).contains(ports)), "{small:?}");
        assert!(large.iter().all(|(_, ports)| (2400..5000).contains(ports)), "{large:?}");
        assert!(small.iter().all(|(name, _)| large.iter().any(|(other, _)| other == name)), "{large:?}");
    }
}
