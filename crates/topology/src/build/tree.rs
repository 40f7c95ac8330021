//! Builds fat trees of one kind of switch.

use super::{BuildError, Pgft, pgft};
use crate::counted;
use crate::graph::{Graph, LinkSpec};

const SHAPE: &str = "fat tree";

/// A fat tree of two or three levels of equal switches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FatTree {
    /// Ports of each switch.
    pub radix: u32,
    /// Levels of switches: 2 or 3.
    pub levels: u32,
    /// Hosts at each leaf; what is left of its ports leads up. Half the radix is a tree without
    /// oversubscription.
    pub hosts_per_leaf: u32,
    /// Parallel cables between a switch of the top level and each switch below it: more of them is a smaller
    /// tree.
    pub parallel: u32,
    /// How many subtrees hang from the top level (leaves of two levels, pods of three); nothing is as many as
    /// it has ports for.
    pub subtrees: Option<u32>,
    /// What each cable is rated at.
    pub link: LinkSpec,
}

impl FatTree {
    /// The largest tree of such switches that is not oversubscribed.
    #[must_use]
    pub fn new(radix: u32, levels: u32) -> Self {
        let link = LinkSpec::EDR4X;
        Self { radix, levels, hosts_per_leaf: radix / 2, parallel: 1, subtrees: None, link }
    }

    /// With so many hosts at each leaf.
    #[must_use]
    pub fn hosts_per_leaf(self, hosts_per_leaf: u32) -> Self {
        Self { hosts_per_leaf, ..self }
    }

    /// With so many cables between a switch of the top level and each below it.
    #[must_use]
    pub fn parallel(self, parallel: u32) -> Self {
        Self { parallel, ..self }
    }

    /// With so many leaves (of two levels) or pods (of three).
    #[must_use]
    pub fn subtrees(self, subtrees: u32) -> Self {
        Self { subtrees: Some(subtrees), ..self }
    }

    /// The same as a PGFT.
    ///
    /// # Errors
    /// Parameters that fit no tree.
    pub fn pgft(&self) -> Result<Pgft, BuildError> {
        let refuse = |why: String| Err(BuildError::parameter(SHAPE, why));
        let Self { radix, levels, hosts_per_leaf: hosts, parallel, .. } = *self;
        if !(2..=254).contains(&radix) {
            return refuse(format!("radix {radix}: give 2 to 254 ports per switch"));
        }
        if hosts == 0 || hosts >= radix {
            return refuse(format!(
                "{} at a leaf of radix {radix}: give 1 to {}, so that a port leads up",
                counted(hosts, "host"),
                radix - 1
            ));
        }
        let up = radix - hosts;
        let to_top = match levels {
            2 => up,
            3 if radix.is_multiple_of(2) => radix / 2,
            3 => {
                return refuse(format!("3 levels of radix {radix}: give an even radix"));
            }
            _ => {
                return refuse(format!(
                    "{}: give 2 or 3, or use the shape pgft, which may have more",
                    counted(levels, "level")
                ));
            }
        };
        if parallel == 0 || !to_top.is_multiple_of(parallel) || !radix.is_multiple_of(parallel) {
            return refuse(format!(
                "{parallel} parallel cables do not divide {} and {radix} ports: give a number that divides both",
                counted(to_top, "uplink")
            ));
        }
        let most = radix / parallel;
        let subtrees = self.subtrees.unwrap_or(most);
        if subtrees == 0 || subtrees > most {
            return refuse(format!(
                "{}: give 1 to {most}, as many as a top switch has ports for",
                counted(subtrees, "subtree")
            ));
        }
        let (children, parents, parallel) = if levels == 2 {
            (vec![hosts, subtrees], vec![1, up / parallel], vec![1, parallel])
        } else {
            (vec![hosts, radix / 2, subtrees], vec![1, up, to_top / parallel], vec![1, 1, parallel])
        };
        Ok(Pgft { children, parents, parallel, link: self.link })
    }
}

/// Builds it.
///
/// ```
/// use topology::build::{FatTree, fat_tree};
/// use topology::Kind;
/// let graph = fat_tree(&FatTree::new(36, 2).parallel(2))?;
/// assert_eq!((graph.count(Kind::Host), graph.count(Kind::Switch)), (324, 27));
/// # Ok::<(), topology::build::BuildError>(())
/// ```
///
/// # Errors
/// Parameters that fit no tree, or one larger than any fabric.
pub fn fat_tree(shape: &FatTree) -> Result<Graph, BuildError> {
    pgft(&shape.pgft()?)
}
