//! Assigns GUIDs to nodes without one, for formats that identify nodes by GUID.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::{Fixed, Graph, Kind, NodeIx};

/// The range of made-up GUIDs: assigned to no manufacturer, beside those of built shapes.
const MADE_UP: u64 = 0x0254_8000_0000_0000;
/// Bits of a name's hash that fit between that and the eight that ports count in.
const HASH: u64 = 0x7F_FFFF_FFFF;

impl Fixed {
    pub(super) fn sort_guids(&mut self) {
        self.by_guid = (0..self.kind.len() as u32).collect();
        self.by_guid.sort_by_key(|node| self.node_guid[*node as usize]);
    }
}

impl Graph {
    /// Two living switches that have the same GUID, if there are any: a form that names switches by GUIDs
    /// can't distinguish them.
    #[must_use]
    pub fn switches_of_one_guid(&self) -> Option<(NodeIx, NodeIx)> {
        let is_one = |node: &NodeIx| {
            self.kind(*node) == Kind::Switch && !self.is_dead(*node) && self.node_guid(*node) != 0
        };
        let mut switches = self.fixed.by_guid.iter().map(|node| NodeIx(*node)).filter(is_one);
        let mut last = switches.next()?;
        switches.find_map(|node| {
            let before = std::mem::replace(&mut last, node);
            (self.node_guid(before) == self.node_guid(node)).then_some((before, node))
        })
    }

    /// Living nodes that have no GUID, and those whose GUID another node before them has.
    #[must_use]
    pub fn without_guid(&self) -> Vec<NodeIx> {
        let mut seen = HashSet::new();
        let lacks = |node: &NodeIx| {
            let guid = self.node_guid(*node);
            !self.is_dead(*node) && (guid == 0 || !seen.insert(guid))
        };
        self.nodes().filter(lacks).collect()
    }

    /// This graph with a GUID for each of [`without_guid`](Self::without_guid). It depends on the node's
    /// name, and among nodes of one name on their order: the same file gives the same GUIDs, and a node more
    /// changes no other's.
    #[must_use]
    pub fn with_guids(&self) -> Self {
        let lacking = self.without_guid();
        if lacking.is_empty() {
            return self.clone();
        }
        let mut fixed = (*self.fixed).clone();
        let mut taken: HashSet<u64> = fixed.node_guid.iter().copied().collect();
        let mut turns: HashMap<&str, u64> = HashMap::new();
        for node in lacking {
            let turn = turns.entry(self.name(node)).or_default();
            let mut hash = hash(self.name(node).as_bytes(), *turn);
            *turn += 1;
            let mut guid = MADE_UP | (hash & HASH) << 8;
            while !taken.insert(guid) {
                hash += 1;
                guid = MADE_UP | (hash & HASH) << 8;
            }
            self.give(&mut fixed, node, guid);
        }
        fixed.sort_guids();
        Self { fixed: Arc::new(fixed), ..self.clone() }
    }

    /// Gives a node a GUID, and its ports those that follow, unless they had ones that did not come from the
    /// node's.
    fn give(&self, fixed: &mut Fixed, node: NodeIx, guid: u64) {
        let before = self.node_guid(node);
        fixed.node_guid[node.index()] = guid;
        if fixed.system_guid[node.index()] == before {
            fixed.system_guid[node.index()] = guid;
        }
        for port in self.ports(node) {
            let number = if self.kind(node) == Kind::Switch { 0 } else { u64::from(self.number(port)) };
            let own = &mut fixed.port_guid[port.index()];
            if *own == 0 || before != 0 && *own == before.wrapping_add(number) {
                *own = guid + number;
            }
        }
    }
}

/// FNV-1a of a name and a number (Fowler, Noll, Vo): the same on every machine and in every version.
fn hash(name: &[u8], turn: u64) -> u64 {
    let bytes = name.iter().copied().chain(turn.to_le_bytes());
    bytes
        .fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
}
