//! Which nodes of other hosts are dialled now, and which wait.
//!
//! Addresses come from any member of the cluster, so many may lead nowhere. Few attempts at once go to nodes
//! that never proved who they are. A node that has proved it is dialled at once.

use std::collections::{BTreeSet, VecDeque};

use proto::ids::NodeId;

/// Attempts at a time to nodes that never proved who they are.
pub(crate) const DIALS_MAX: usize = 32;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Dials {
    proved: BTreeSet<NodeId>,
    /// To nodes that have not proved who they are.
    under_way: BTreeSet<NodeId>,
    waiting: VecDeque<NodeId>,
}

impl Dials {
    /// Whether an attempt may begin; if not, it waits for its turn.
    pub(crate) fn begin(&mut self, node: NodeId) -> bool {
        // It may have been connected since, and lost again: it waits once.
        self.waiting.retain(|other| *other != node);
        if self.proved.contains(&node) {
            return true;
        }
        if self.under_way.len() >= DIALS_MAX {
            self.waiting.push_back(node);
            return false;
        }
        self.under_way.insert(node);
        true
    }

    /// An attempt has failed or is given up.
    pub(crate) fn ended(&mut self, node: NodeId) {
        self.under_way.remove(&node);
    }

    /// A node has proved who it is.
    pub(crate) fn proved(&mut self, node: NodeId) {
        self.under_way.remove(&node);
        self.proved.insert(node);
    }

    /// The next that has waited, if an attempt may begin.
    pub(crate) fn next(&mut self) -> Option<NodeId> {
        let is_proved = |node: &NodeId| self.proved.contains(node);
        if let Some(at) = self.waiting.iter().position(is_proved) {
            return self.waiting.remove(at);
        }
        if self.under_way.len() >= DIALS_MAX {
            return None;
        }
        let node = self.waiting.pop_front()?;
        self.under_way.insert(node);
        Some(node)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nodes(count: u32) -> Vec<NodeId> {
        (0..count as usize).map(|nth| NodeId::nth(nth).unwrap()).collect()
    }

    #[test]
    fn few_attempts_go_to_nodes_that_proved_nothing_and_all_get_their_turn() {
        let (mut dials, nodes) = (Dials::default(), nodes(1024));
        let begun = nodes.iter().filter(|node| dials.begin(**node)).count();
        assert_eq!(begun, DIALS_MAX);
        assert_eq!(dials.next(), None);
        let mut order = nodes[..DIALS_MAX].to_vec();
        for nth in 0..nodes.len() - DIALS_MAX {
            dials.ended(order[nth]);
            order.push(dials.next().unwrap());
            assert_eq!(dials.next(), None);
        }
        assert_eq!(order, nodes);
    }

    #[test]
    fn who_was_connected_before_waits_for_nobody() {
        let (mut dials, nodes) = (Dials::default(), nodes(100));
        let known = *nodes.last().unwrap();
        assert!(dials.begin(known));
        dials.proved(known);
        for node in &nodes[..99] {
            dials.begin(*node);
        }
        dials.ended(known);
        assert!(dials.begin(known));
        // One that waits and then proves who it is by a connection of its own.
        dials.proved(nodes[60]);
        assert_eq!((dials.next(), dials.next()), (Some(nodes[60]), None));
    }
}
