//! Well-known shapes of any size.
//!
//! Names and GUIDs depend on the parameters alone: the same call makes the same graph. Switches come first,
//! those next to hosts before others, then the hosts in the order of their numbers.

use crate::counted;
use crate::graph::{Graph, GraphBuilder, GraphError, Kind, NodeIx, NodeSpec};

mod cluster;
mod dragonfly;
mod grid;
mod halls;
mod pgft;
#[cfg(test)]
mod tests;
mod tree;

pub use cluster::{
    Island, Planes, Rails, Trunks, planes, rails, trunks, uneven, with_aggregation, with_island,
};
pub use dragonfly::{Dragonfly, DragonflyPlus, dragonfly, dragonfly_plus};
pub use grid::{HyperX, Torus, hypercube, hyperx, torus};
pub use halls::{Hall, Size, deep, halls};
pub use pgft::{Pgft, pgft};
pub use tree::{FatTree, fat_tree};

/// Hosts that a shape may have: a few times what LIDs of a subnet allow.
const MOST_HOSTS: u64 = 1 << 18;
/// Switches that a shape may have.
const MOST_SWITCHES: u64 = 1 << 17;

/// Why a shape can't be built.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BuildError {
    /// A parameter makes no sense, alone or beside another.
    #[error("{shape}: {why}")]
    Parameter {
        /// The shape.
        shape: &'static str,
        /// The parameter, what is wrong with it, and what would be right.
        why: String,
    },
    /// It would be larger than any fabric.
    #[error("{shape}: it would have {count} {what}, and at most {most} are built: choose smaller sizes")]
    TooLarge {
        /// The shape.
        shape: &'static str,
        /// How many there would be; more than fits is shown as the largest number.
        count: u64,
        /// The resource that is limited.
        what: &'static str,
        /// How many there may be.
        most: u64,
    },
    /// The graph refused it.
    #[error(transparent)]
    Graph(#[from] GraphError),
}

impl BuildError {
    fn parameter(shape: &'static str, why: impl Into<String>) -> Self {
        Self::Parameter { shape, why: why.into() }
    }
}

/// Refuses what would be larger than any fabric.
fn sizes(shape: &'static str, hosts: u64, switches: u64) -> Result<(), BuildError> {
    for (count, what, most) in [(hosts, "hosts", MOST_HOSTS), (switches, "switches", MOST_SWITCHES)] {
        if count > most {
            return Err(BuildError::TooLarge { shape, count, what, most });
        }
    }
    Ok(())
}

/// A count of ports that a node may have.
fn ports(shape: &'static str, whose: &str, count: u64) -> Result<u8, BuildError> {
    u8::try_from(count).ok().filter(|count| (1..=254).contains(count)).ok_or_else(|| {
        let why = format!(
            "{whose} would need {}, and a node has 1 to 254: change the number of hosts or the sizes",
            counted(count, "port")
        );
        BuildError::parameter(shape, why)
    })
}

/// Names and GUIDs of what is built.
struct Maker {
    graph: GraphBuilder,
    switches: u64,
    hosts: u64,
}

/// GUIDs are in a range that is assigned to no manufacturer (the second bit of the first byte), and the same
/// every time.
const GUIDS: u64 = 0x0254_4c00_0000_0000;

impl Maker {
    fn new() -> Self {
        Self { graph: GraphBuilder::new(), switches: 0, hosts: 0 }
    }

    fn switch(&mut self, name: &str, ports: u8) -> Result<NodeIx, BuildError> {
        self.switches += 1;
        self.add(Kind::Switch, name, ports, GUIDS | 1 << 32 | self.switches << 8)
    }

    fn host(&mut self, ports: u8) -> Result<NodeIx, BuildError> {
        self.hosts += 1;
        let name = format!("host{:05}", self.hosts - 1);
        self.add(Kind::Host, &name, ports, GUIDS | 2 << 32 | self.hosts << 8)
    }

    fn add(&mut self, kind: Kind, name: &str, ports: u8, guid: u64) -> Result<NodeIx, BuildError> {
        let spec = NodeSpec::new(kind, name, ports).guid(guid);
        Ok(self.graph.node(spec)?)
    }

    fn finish(self) -> Graph {
        self.graph.finish()
    }
}
