//! Builds fabrics whose switches are at the points of a grid: torus, mesh, HyperX, hypercube.

use super::{BuildError, MOST_SWITCHES, Maker, ports, sizes};
use crate::counted;
use crate::graph::{Graph, LinkSpec, NodeIx};

/// What the switches of one line of the grid are wired to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Line {
    /// To both neighbours, round about.
    Ring,
    /// To both neighbours; the ends are open.
    Open,
    /// Each to all others.
    Complete,
}

impl Line {
    /// Cables of one switch in a direction, and of the whole line, without parallel ones.
    fn cables(self, size: u64) -> (u64, u64) {
        match self {
            _ if size == 1 => (0, 0),
            Self::Complete => (size - 1, size * (size - 1) / 2),
            Self::Ring if size > 2 => (2, size),
            Self::Ring => (1, 1),
            Self::Open => (size.min(3) - 1, size - 1),
        }
    }
}

/// A torus or mesh: switches at the points of a grid, each wired to its neighbours in every direction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Torus {
    /// Switches in each direction.
    pub sizes: Vec<u32>,
    /// Hosts at each switch.
    pub hosts_per_switch: u32,
    /// Are the lines closed to rings (torus), or not (mesh)?
    pub wrap: bool,
    /// Parallel cables between neighbours.
    pub parallel: u32,
    /// What each cable is rated at.
    pub link: LinkSpec,
}

impl Torus {
    /// A torus of these sizes with single cables.
    #[must_use]
    pub fn new(sizes: &[u32], hosts_per_switch: u32) -> Self {
        Self { sizes: sizes.to_vec(), hosts_per_switch, wrap: true, parallel: 1, link: LinkSpec::EDR4X }
    }

    /// The same as a mesh.
    #[must_use]
    pub fn mesh(self) -> Self {
        Self { wrap: false, ..self }
    }
}

/// A HyperX: switches at the points of a grid, each wired to all others of its lines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HyperX {
    /// Switches in each direction.
    pub sizes: Vec<u32>,
    /// Hosts at each switch.
    pub hosts_per_switch: u32,
    /// Parallel cables between two switches.
    pub parallel: u32,
    /// What each cable is rated at.
    pub link: LinkSpec,
}

impl HyperX {
    /// A HyperX of these sizes with single cables.
    #[must_use]
    pub fn new(sizes: &[u32], hosts_per_switch: u32) -> Self {
        Self { sizes: sizes.to_vec(), hosts_per_switch, parallel: 1, link: LinkSpec::EDR4X }
    }
}

/// Builds a torus or mesh. In a direction of two switches a ring is one cable, not two.
///
/// # Errors
/// Parameters that fit none, or one larger than any fabric.
pub fn torus(shape: &Torus) -> Result<Graph, BuildError> {
    let line = if shape.wrap { Line::Ring } else { Line::Open };
    let grid = Grid { shape: "torus", sizes: &shape.sizes, line, parallel: shape.parallel };
    grid.build(shape.hosts_per_switch, shape.link)
}

/// Builds a HyperX.
///
/// # Errors
/// Parameters that fit none, or one larger than any fabric.
pub fn hyperx(shape: &HyperX) -> Result<Graph, BuildError> {
    let grid = Grid { shape: "HyperX", sizes: &shape.sizes, line: Line::Complete, parallel: shape.parallel };
    grid.build(shape.hosts_per_switch, shape.link)
}

/// Builds a hypercube of two to the power of `dimensions` switches.
///
/// # Errors
/// Parameters that fit none, or one larger than any fabric.
pub fn hypercube(dimensions: u32, hosts_per_switch: u32, link: LinkSpec) -> Result<Graph, BuildError> {
    let most = MOST_SWITCHES.ilog2();
    if !(1..=most).contains(&dimensions) {
        let why = format!(
            "{}: give 1 to {most} dimensions ({most} make {MOST_SWITCHES} switches)",
            counted(dimensions, "dimension")
        );
        return Err(BuildError::parameter("hypercube", why));
    }
    let sizes = vec![2; dimensions as usize];
    let grid = Grid { shape: "hypercube", sizes: &sizes, line: Line::Complete, parallel: 1 };
    grid.build(hosts_per_switch, link)
}

struct Grid<'a> {
    shape: &'static str,
    sizes: &'a [u32],
    line: Line,
    parallel: u32,
}

impl Grid<'_> {
    fn build(&self, hosts: u32, link: LinkSpec) -> Result<Graph, BuildError> {
        let switches = self.check(hosts)?;
        let parallel = u64::from(self.parallel);
        let cables: u64 = self.sizes.iter().map(|size| self.line.cables(u64::from(*size)).0 * parallel).sum();
        let count = ports(self.shape, "a switch", u64::from(hosts).saturating_add(cables))?;
        let mut maker = Maker::new();
        let nodes: Vec<NodeIx> =
            (0..switches).map(|at| maker.switch(&self.name(at), count)).collect::<Result<_, _>>()?;
        // Hosts have the first ports; what follows is given out direction by direction.
        let mut next = vec![hosts; nodes.len()];
        let mut stride = 1;
        for size in self.sizes {
            self.wire(u64::from(*size), stride, &nodes, &mut next, link, &mut maker)?;
            stride *= u64::from(*size);
        }
        for node in &nodes {
            for number in 1..=hosts {
                let host = maker.host(1)?;
                maker.graph.link((host, 1), (*node, number as u8), link)?;
            }
        }
        Ok(maker.finish())
    }

    fn check(&self, hosts: u32) -> Result<u64, BuildError> {
        if self.sizes.is_empty() || self.sizes.len() > 20 {
            let why = format!("{}: give 1 to 20", counted(self.sizes.len(), "dimension"));
            return Err(BuildError::parameter(self.shape, why));
        }
        if let Some(at) = self.sizes.iter().position(|size| *size == 0) {
            let why = format!("dimension {} has 0 switches: give at least 1", at + 1);
            return Err(BuildError::parameter(self.shape, why));
        }
        if self.parallel == 0 {
            return Err(BuildError::parameter(self.shape, "0 parallel cables: give at least 1"));
        }
        let count = self.sizes.iter().fold(1_u64, |all, size| all.saturating_mul(u64::from(*size)));
        sizes(self.shape, count.saturating_mul(u64::from(hosts)), count)?;
        Ok(count)
    }

    fn name(&self, mut at: u64) -> String {
        let mut name = "sw".to_owned();
        for size in self.sizes {
            name.push_str(&format!("_{:02}", at % u64::from(*size)));
            at /= u64::from(*size);
        }
        name
    }

    fn wire(
        &self,
        size: u64,
        stride: u64,
        nodes: &[NodeIx],
        next: &mut [u32],
        link: LinkSpec,
        maker: &mut Maker,
    ) -> Result<(), BuildError> {
        for at in 0..nodes.len() as u64 {
            let here = at / stride % size;
            let others: Vec<u64> = match self.line {
                Line::Complete => (here + 1..size).collect(),
                _ if here + 1 < size => vec![here + 1],
                Line::Ring if size > 2 => vec![0],
                _ => Vec::new(),
            };
            for other in others {
                let there = (at - here * stride + other * stride) as usize;
                for _ in 0..self.parallel {
                    let (mine, theirs) = (next[at as usize] + 1, next[there] + 1);
                    (next[at as usize], next[there]) = (mine, theirs);
                    // Port counts were checked.
                    let ends = ((nodes[at as usize], mine as u8), (nodes[there], theirs as u8));
                    maker.graph.link(ends.0, ends.1, link)?;
                }
            }
        }
        Ok(())
    }
}

/// Cables that the formulas give for a shape, without those of hosts; for tests and planning.
#[cfg(test)]
pub(super) fn cables(sizes: &[u32], complete: bool, wrap: bool) -> u64 {
    let line = if complete {
        Line::Complete
    } else if wrap {
        Line::Ring
    } else {
        Line::Open
    };
    let all: u64 = sizes.iter().map(|size| u64::from(*size)).product();
    sizes.iter().map(|size| all / u64::from(*size) * line.cables(u64::from(*size)).1).sum()
}
