//! Recognises the shape of a fabric (tree, dragonfly, torus, …), also with missing cables and
//! switches, with a confidence.
//!
//! Each family has a judge, which examines the switches alone and returns the shape, its confidence, and what
//! contradicts it. The surest wins. Nothing of names is used.

use crate::graph::{Graph, NodeIx};
use crate::{counted, verb};

mod dragonfly;
mod grid;
mod switches;
#[cfg(test)]
mod tests;
mod tree;

use switches::Switches;

/// The least confidence of a reliable result.
pub const SURE: f64 = 0.75;

/// From here on no other judge is asked.
const BEYOND_DOUBT: f64 = 0.95;

/// A line of a grid: how its switches are wired.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Line {
    /// Each to the next, and the last to the first.
    Ring,
    /// Each to the next.
    Open,
    /// Each to all others. Of two or three switches that is the same as a ring.
    Complete,
}

/// What a fabric is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Shape {
    /// Hosts hang from leaves, and cables lead up and down only.
    Tree {
        /// Levels of switches.
        levels: u32,
        /// The level of each node: 0 for hosts and what is not part of it, 1 for leaves.
        level: Vec<u8>,
    },
    /// Groups of switches; each two groups are wired to each other.
    Dragonfly {
        /// How many groups.
        groups: u32,
        /// The group of each switch, and of each host that of its switch; `u32::MAX` is none.
        group: Vec<u32>,
        /// Is each group a tree of two levels (dragonfly+)?
        plus: bool,
    },
    /// Switches at the points of a grid: torus, mesh, HyperX, hypercube.
    Grid {
        /// Switches in each direction.
        sizes: Vec<u32>,
        /// How the switches of a direction are wired.
        lines: Vec<Line>,
        /// Where each node is in each direction, one row a direction; `u32::MAX` is nowhere.
        coordinates: Vec<Vec<u32>>,
    },
    /// None of these.
    Unknown,
}

impl Shape {
    /// Its name with its sizes, as in `torus 4x4x3`.
    #[must_use]
    pub fn name(&self) -> String {
        match self {
            Self::Tree { levels, .. } => format!("tree of {}", counted(*levels, "level")),
            Self::Dragonfly { groups, plus, .. } => {
                format!("dragonfly{} of {}", if *plus { "+" } else { "" }, counted(*groups, "group"))
            }
            Self::Grid { sizes, lines, .. } => grid_name(sizes, lines),
            Self::Unknown => "unknown".to_owned(),
        }
    }
}

fn grid_name(sizes: &[u32], lines: &[Line]) -> String {
    if sizes.iter().all(|size| *size == 2) {
        return format!("hypercube of {}", counted(sizes.len(), "dimension"));
    }
    let text = sizes.iter().map(ToString::to_string).collect::<Vec<_>>().join("x");
    let long = || sizes.iter().zip(lines).filter(|(size, _)| **size > 3).map(|(_, line)| *line);
    let word =
        if long().all(|line| line == Line::Complete) && lines.iter().all(|line| *line == Line::Complete) {
            "HyperX"
        } else if long().all(|line| line == Line::Ring) && lines.iter().all(|line| *line != Line::Open) {
            "torus"
        } else if lines.iter().zip(sizes).all(|(line, size)| *line == Line::Open || *size == 2) {
            "mesh"
        } else {
            "grid"
        };
    format!("{word} {text}")
}

/// What a fabric was recognised as.
#[derive(Debug, Clone)]
pub struct Recognition {
    /// The most similar shape; [`Shape::Unknown`] if there is none.
    pub shape: Shape,
    /// From 0 to 1.
    pub confidence: f64,
    /// What contradicts it, in words.
    pub against: Vec<String>,
    /// Other similar shapes with their confidence; surer ones first.
    pub rivals: Vec<(String, f64)>,
}

impl Recognition {
    /// May it be relied upon?
    #[must_use]
    pub fn is_sure(&self) -> bool {
        self.confidence >= SURE
    }
}

/// The result of a judge.
struct Opinion {
    shape: Shape,
    confidence: f64,
    against: Vec<String>,
}

/// Recognises a fabric.
#[must_use]
pub fn recognise(graph: &Graph) -> Recognition {
    let switches = Switches::of(graph);
    let mut opinions: Vec<Opinion> = Vec::new();
    let tree = tree::judge(&switches);
    // A tree beyond doubt is none of the other shapes, whose judges are slow.
    if tree.as_ref().is_none_or(|tree| tree.confidence < BEYOND_DOUBT) {
        opinions.extend(grid::judge(&switches));
        let judges = [dragonfly::judge, dragonfly::judge_plus];
        opinions.extend(judges.iter().filter_map(|judge| judge(&switches)));
    }
    opinions.extend(tree);
    // Judges of equal confidence keep their order: more specific shapes come first.
    opinions.sort_by(|a, b| b.confidence.total_cmp(&a.confidence));
    let mut opinions = opinions.into_iter().filter(|one| one.confidence > 0.05);
    let Some(mut first) = opinions.next() else {
        let against = vec!["it is neither a tree, nor a dragonfly, nor a grid".to_owned()];
        return Recognition { shape: Shape::Unknown, confidence: 0.0, against, rivals: Vec::new() };
    };
    if switches.left_out > 0 {
        first.confidence *= switches.nodes.len() as f64 / (switches.nodes.len() + switches.left_out) as f64;
        let why = format!(
            "{} in other components of the fabric {} not looked at",
            counted(switches.left_out, "switch"),
            verb(switches.left_out, "was", "were")
        );
        first.against.push(why);
    }
    let rivals = opinions.map(|one| (one.shape.name(), one.confidence)).collect();
    Recognition { shape: first.shape, confidence: first.confidence, against: first.against, rivals }
}

/// A value of each node from a value of each switch; hosts have that of their switch.
fn spread<T: Copy>(switches: &Switches<'_>, values: &[T], none: T, to_hosts: bool) -> Vec<T> {
    let graph = switches.graph;
    let mut all = vec![none; graph.node_count()];
    for (at, node) in switches.nodes.iter().enumerate() {
        all[node.index()] = values[at];
        if to_hosts {
            for (_, peer) in graph.cabled(*node) {
                let host: NodeIx = graph.owner(peer);
                if graph.kind(host) != crate::graph::Kind::Switch {
                    all[host.index()] = values[at];
                }
            }
        }
    }
    all
}
