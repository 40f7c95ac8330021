//! Writes a graph in several formats, also our own.
//!
//! Dead nodes are left out: what is written is the fabric as it is after the faults. The same graph is always
//! written the same.

use std::collections::HashSet;
use std::io::{self, Write};

use crate::graph::{Graph, Kind, LinkSpec, NodeIx, PortIx, Speed, Width};
use crate::text::is_hidden;

mod dot;
mod netdump;
mod own;
mod slurm;
mod subnet_list;
#[cfg(test)]
mod tests;

pub use dot::dot;
pub use netdump::{ibnetdiscover, ibsim};
pub use own::toml;
pub use slurm::{SlurmHosts, slurm_conf, slurm_yaml};
pub use subnet_list::subnet_list;

/// Nodes that are written.
fn living(graph: &Graph) -> impl Iterator<Item = NodeIx> + '_ {
    graph.nodes().filter(|node| !graph.is_dead(*node))
}

/// A name on one line, which does nothing to a terminal that shows it.
fn clean(name: &str) -> String {
    name.chars().map(|c| if is_hidden(c) { ' ' } else { c }).collect()
}
