//! Checks before any measurement that each node ID leads to the node with that ID.

use bench::noise::others::{Load, Meter};
use serde::{Deserialize, Serialize};
use tieline::NodeId;

use super::arena::{Arena, Obstacle};
use super::{blame, hold_to, swapped};
use crate::suspect::Suspected;
use crate::target::Target;
use crate::verdict::Verdict;

/// Checks the names of nodes: quick, and first, because a test that waits for a node that has changed places
/// with another waits long.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct NamesReport {
    /// Ordered pairs of which the one that was called answered.
    pub right: usize,
    /// Pairs with a response of another node, or none.
    pub obstacles: Vec<Obstacle>,
    /// Nodes that answer for each other.
    pub swapped: Vec<[NodeId; 2]>,
    /// Why nothing could be asked.
    pub error: Option<String>,
    /// All right; in doubt if answers were only late while the machine was busy.
    pub verdict: Verdict,
    /// What other work took away meanwhile.
    #[serde(default)]
    pub load: Load,
}

/// Asks every node for its name, through every link.
pub fn names(target: &Target) -> NamesReport {
    let meter = Meter::start();
    let (right, obstacles, error) = match Arena::set_up(target, 2) {
        Ok(arena) => (arena.pairs().len(), arena.obstacles, None),
        Err(error) => (0, Vec::new(), Some(error)),
    };
    let swapped = swapped(&obstacles);
    let mut report = NamesReport { right, swapped, obstacles, error, ..NamesReport::of_nobody() };
    report.judge(meter.read());
    report
}

impl NamesReport {
    /// Where no name was requested.
    pub const fn of_nobody() -> Self {
        Self {
            right: 0,
            obstacles: Vec::new(),
            swapped: Vec::new(),
            error: None,
            verdict: Verdict::Inconclusive,
            load: Load { processors: 0, others_percent: None, waited_percent: None },
        }
    }

    fn judge(&mut self, load: Load) {
        self.load = load;
        hold_to(&mut self.obstacles, load);
        let wrong = self.error.is_some() || self.obstacles.iter().any(|obstacle| !obstacle.in_doubt);
        self.verdict = match (wrong, self.obstacles.is_empty()) {
            (true, _) => Verdict::Fail,
            (false, false) => Verdict::Inconclusive,
            (false, true) => Verdict::Pass,
        };
    }

    /// In one line.
    pub fn summary(&self) -> String {
        match &self.error {
            Some(error) => error.clone(),
            None => format!("{} pairs, {} with a wrong response or none", self.right, self.obstacles.len()),
        }
    }

    /// The suspects.
    pub fn suspects(&self, nodes: &[NodeId]) -> Vec<Suspected> {
        blame(nodes, nodes.len().saturating_sub(1), &self.obstacles, &self.swapped, Vec::new())
    }

    /// What keeps a pair from being tested, if anything surely does.
    pub fn obstacle(&self, from: NodeId, to: NodeId) -> Option<&Obstacle> {
        self.obstacles.iter().find(|obstacle| obstacle.pair == [from, to] && !obstacle.in_doubt)
    }
}
