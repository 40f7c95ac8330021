//! Tests each link that is up, from each node to its peer and back.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use tieline::NodeId;

use super::NodeDiag;
use super::self_test::{SelfTest, between};
use crate::Target;
use crate::capacity::{self, CouldNotRun, is_own_lack};
use crate::status::carries;

/// One link, tested from one of its ends.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkTest {
    /// The node at the other end.
    pub peer: NodeId,
    /// What was tried.
    pub parts: Vec<SelfTest>,
    /// Why it was not tried.
    pub error: Option<String>,
}

impl LinkTest {
    /// Everything that was wrong, each with the name of what was tried, and whether it is in doubt.
    pub fn failures(&self) -> impl Iterator<Item = (String, bool)> {
        let parts = self
            .parts
            .iter()
            .filter_map(|part| Some((format!("{}: {}", part.name, part.error.as_ref()?), part.in_doubt)));
        parts.chain(self.error.clone().map(|error| (error, false)))
    }
}

/// Source and destination nodes.
type Pairs = BTreeSet<(NodeId, NodeId)>;
/// Results by source and destination node.
type Outcomes = BTreeMap<(NodeId, NodeId), LinkTest>;

/// Tests all links of these nodes that are up and lead to the right node, and adds the results to each node.
pub(super) fn run(
    target: &Target,
    nodes: &mut [NodeDiag],
    stop: &(dyn Fn() -> bool + Sync),
) -> Result<(), CouldNotRun> {
    let mut pairs = Pairs::new();
    for node in nodes.iter() {
        // Nobody here can attach to the node at the other end of a link to another host.
        let stand = node.links.iter().filter(|link| carries(link) && !link.other_host);
        pairs.extend(stand.map(|link| (node.node, link.peer)));
    }
    let mut near: Vec<NodeId> = pairs.iter().map(|(a, b)| *a.min(b)).collect();
    near.sort_unstable();
    near.dedup();
    if near.is_empty() {
        return Ok(());
    }
    // Each worker attaches to two nodes at a time.
    capacity::all_at_once(2)?;
    let workers = Target { nodes: near.clone(), ..target.clone() };
    let test = |at_a_time| -> Result<Outcomes, CouldNotRun> {
        let all = workers.on_nodes(at_a_time, |node| from(target, node, &pairs, stop));
        all.into_iter().try_fold(Outcomes::new(), |mut sum, one| {
            sum.append(&mut one?);
            Ok(sum)
        })
    };
    // One at a time may have enough descriptors.
    let mut outcomes = test(capacity::at_a_time(near.len() * 2)?.div_ceil(2)).or_else(|_| test(1))?;
    for node in nodes {
        let peers: Vec<NodeId> = node.links.iter().map(|link| link.peer).collect();
        node.link_tests.extend(peers.into_iter().filter_map(|peer| outcomes.remove(&(node.node, peer))));
    }
    Ok(())
}

/// Tests the links of a node to nodes of higher IDs, in the requested directions.
fn from(
    target: &Target,
    near: NodeId,
    pairs: &Pairs,
    stop: &(dyn Fn() -> bool + Sync),
) -> Result<Outcomes, CouldNotRun> {
    let attach = |node| match target.attach(node, "tieline-diag") {
        Err(tieline::Error::Client(error)) if is_own_lack(&error) => Err(CouldNotRun::from(error)),
        other => Ok(other.map_err(|error| format!("node {node}: {error}"))),
    };
    let near_end = attach(near)?;
    let mut outcomes = Outcomes::new();
    let far_ends: BTreeSet<NodeId> = pairs
        .iter()
        .filter_map(|(a, b)| if *a == near { Some(*b) } else { (*b == near).then_some(*a) })
        .filter(|far| *far > near)
        .collect();
    for far in far_ends {
        if stop() {
            break;
        }
        let far_end = attach(far)?;
        for (from, to) in [(near, far), (far, near)].into_iter().filter(|pair| pairs.contains(pair)) {
            let outcome = match (&near_end, &far_end) {
                (Ok(near_end), Ok(far_end)) if from == near => Ok(between(near_end, far_end)),
                (Ok(near_end), Ok(far_end)) => Ok(between(far_end, near_end)),
                (Err(error), _) | (_, Err(error)) => Err(format!("was not tested: {error}")),
            };
            let (parts, error) =
                outcome.map_or_else(|error| (Vec::new(), Some(error)), |parts| (parts, None));
            outcomes.insert((from, to), LinkTest { peer: to, parts, error });
        }
    }
    Ok(outcomes)
}
