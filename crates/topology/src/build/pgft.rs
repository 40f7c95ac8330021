//! Parallel-ports generalised fat trees: PGFT(h; m; w; p), after E. Zahavi, "Fat-tree routing and node
//! ordering providing contention free traffic for MPI global collectives" (2012).

use super::{BuildError, Maker, ports, sizes};
use crate::counted;
use crate::graph::{Graph, LinkSpec, NodeIx};

const SHAPE: &str = "PGFT";

/// Parameters of a PGFT; its height is the length of the lists. Level 0 are the hosts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pgft {
    /// `m[l]`: children that a switch of level `l + 1` has.
    pub children: Vec<u32>,
    /// `w[l]`: parents that a node of level `l` has.
    pub parents: Vec<u32>,
    /// `p[l]`: parallel cables between a node of level `l` and each of its parents.
    pub parallel: Vec<u32>,
    /// What each cable is rated at.
    pub link: LinkSpec,
}

impl Pgft {
    fn height(&self) -> usize {
        self.children.len()
    }

    /// How many nodes a level has: m of the levels above, times w of those below.
    fn count(&self, level: usize) -> u64 {
        let above = self.children[level..].iter();
        let below = self.parents[..level].iter();
        above.chain(below).fold(1_u64, |product, digit| product.saturating_mul(u64::from(*digit)))
    }

    /// How many nodes of a level have the same nodes above level `level` as their ancestors' subtrees.
    fn within(&self, level: usize) -> u64 {
        self.parents[..level].iter().map(|digit| u64::from(*digit)).product()
    }

    fn up(&self, level: usize) -> u64 {
        if level == self.height() {
            0
        } else {
            u64::from(self.parents[level]) * u64::from(self.parallel[level])
        }
    }

    fn down(&self, level: usize) -> u64 {
        if level == 0 { 0 } else { u64::from(self.children[level - 1]) * u64::from(self.parallel[level - 1]) }
    }

    fn check(&self) -> Result<(), BuildError> {
        let height = self.height();
        if !(1..=8).contains(&height) {
            return Err(BuildError::parameter(SHAPE, format!("{}: give 1 to 8", counted(height, "level"))));
        }
        if self.parents.len() != height || self.parallel.len() != height {
            let why = format!(
                "the list of children (m) has {}, that of parents (w) {} and that of parallel cables (p) {}: give one number per level in each",
                counted(height, "number"),
                self.parents.len(),
                self.parallel.len()
            );
            return Err(BuildError::parameter(SHAPE, why));
        }
        for (name, list) in [("m", &self.children), ("w", &self.parents), ("p", &self.parallel)] {
            if let Some(level) = list.iter().position(|digit| *digit == 0) {
                return Err(BuildError::parameter(
                    SHAPE,
                    format!("{name}{} is 0: give 1 or more", level + 1),
                ));
            }
        }
        let switches = (1..=height).fold(0_u64, |sum, level| sum.saturating_add(self.count(level)));
        sizes(SHAPE, self.count(0), switches)
    }
}

/// Builds it. A switch's cables to its children are in its first ports, those to its parents follow; parallel
/// cables lie one turn apart, so that consecutive ports lead to different neighbours.
///
/// # Errors
/// Parameters that fit no tree, or one larger than any fabric.
pub fn pgft(shape: &Pgft) -> Result<Graph, BuildError> {
    shape.check()?;
    let mut maker = Maker::new();
    let mut levels: Vec<Vec<NodeIx>> = vec![Vec::new()];
    for level in 1..=shape.height() {
        levels.push(switches(shape, level, &mut maker)?);
    }
    let host_ports = ports(SHAPE, "a host", shape.up(0))?;
    for _ in 0..shape.count(0) {
        levels[0].push(maker.host(host_ports)?);
    }
    for level in 0..shape.height() {
        wire(shape, level, &levels, &mut maker)?;
    }
    Ok(maker.finish())
}

fn switches(shape: &Pgft, level: usize, maker: &mut Maker) -> Result<Vec<NodeIx>, BuildError> {
    let count = ports(SHAPE, "a switch", shape.down(level) + shape.up(level))?;
    let within = shape.within(level);
    let word = match (level, shape.height()) {
        (1, _) => "leaf".to_owned(),
        (top, height) if top == height => "spine".to_owned(),
        (2, 3) => "mid".to_owned(),
        (level, _) => format!("mid{level}_"),
    };
    let name = |index: u64| match within {
        1 => format!("{word}{index:03}"),
        _ if level == shape.height() => format!("{word}{index:03}"),
        _ => format!("{word}{:02}_{:02}", index / within, index % within),
    };
    (0..shape.count(level)).map(|index| maker.switch(&name(index), count)).collect()
}

/// All cables between a level and the next. A node's index in its level is its digits, the subtree's before
/// those within.
fn wire(shape: &Pgft, level: usize, levels: &[Vec<NodeIx>], maker: &mut Maker) -> Result<(), BuildError> {
    let within = shape.within(level);
    let (m, w) = (u64::from(shape.children[level]), u64::from(shape.parents[level]));
    for (index, node) in (0_u64..).zip(&levels[level]) {
        let (subtree, inner) = (index / within, index % within);
        let (upper, child) = (subtree / m, subtree % m);
        for cable in 0..w * u64::from(shape.parallel[level]) {
            let (parent, turn) = (cable % w, cable / w);
            let above = levels[level + 1][(upper * within * w + parent * within + inner) as usize];
            // Port counts were checked, so both fit.
            let mine = (shape.down(level) + cable + 1) as u8;
            let theirs = (turn * m + child + 1) as u8;
            maker.graph.link((*node, mine), (above, theirs), shape.link)?;
        }
    }
    Ok(())
}
