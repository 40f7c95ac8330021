//! Multicast forwarding tables (MFTs): a spanning tree for each group, and what switches hold (InfiniBand
//! Architecture Specification, volume 1, 14.2.5.12).
//!
//! The root of a tree is a switch from which the farthest member is the nearest; in a fat tree that is a
//! switch above all members, so that packets go up to it and down from it. Each member's switch is connected
//! by a shortest path. Which of several equally good roots and cables is taken depends on the group and on
//! GUIDs alone: groups are spread over the fabric, and a change elsewhere moves none of them.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};

use seeded_random::SplitMix64;
use topology::{Graph, Kind, NodeIx, PortIx};

/// LIDs of groups.
pub const FIRST_GROUP: u16 = 0xc000;
/// The last of them.
pub const LAST_GROUP: u16 = 0xfffe;
/// Groups of a block of a table.
pub const GROUPS_PER_BLOCK: u16 = 32;
/// Ports of a block of a table.
const PORTS_PER_BLOCK: u8 = 16;
/// Not reached.
const FAR: u8 = u8::MAX;

/// A block of a multicast table: of 32 groups, which of 16 ports.
pub type MulticastBlock = [u16; GROUPS_PER_BLOCK as usize];

/// A set of a switch's ports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Ports([u16; 16]);

impl Ports {
    fn insert(&mut self, port: u8) {
        if let Some(part) = self.0.get_mut(usize::from(port / PORTS_PER_BLOCK)) {
            *part |= 1 << (port % PORTS_PER_BLOCK);
        }
    }

    /// The ports in it.
    pub fn iter(self) -> impl Iterator<Item = u8> {
        (0..=u8::MAX).filter(move |port| {
            self.0[usize::from(port / PORTS_PER_BLOCK)] >> (port % PORTS_PER_BLOCK) & 1 == 1
        })
    }

    fn and(self, other: Self) -> Self {
        Self(std::array::from_fn(|at| self.0[at] & other.0[at]))
    }
}

/// Positions of a switch's table: blocks of 16 ports, port 0 included.
pub(crate) fn positions(graph: &Graph, switch: NodeIx) -> u8 {
    graph.port_count(switch) / PORTS_PER_BLOCK + 1
}

/// The block of a group's LID, and its place in it.
pub(crate) fn place(group: u16) -> (u16, usize) {
    let number = group.saturating_sub(FIRST_GROUP);
    (number / GROUPS_PER_BLOCK, usize::from(number % GROUPS_PER_BLOCK))
}

/// A member as its switch sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Leaf {
    /// The switch.
    pub switch: NodeIx,
    /// Its port to the member, 0 if the switch itself is it.
    pub port: u8,
    /// Does it receive? Else it only sends.
    pub receives: bool,
}

impl Leaf {
    /// Of an end port; `None` if no cable leads to it.
    #[must_use]
    pub fn of(graph: &Graph, port: PortIx, receives: bool) -> Option<Self> {
        let node = graph.owner(port);
        if graph.kind(node) == Kind::Switch {
            return Some(Self { switch: node, port: 0, receives });
        }
        let far = graph.peer(port)?;
        let switch = graph.owner(far);
        (graph.kind(switch) == Kind::Switch).then(|| Self { switch, port: graph.number(far), receives })
    }
}

/// What a group's table entries are, by switch.
pub type Tree = BTreeMap<NodeIx, Ports>;

/// Computes trees of one graph, and keeps distances.
pub struct Planner<'a> {
    graph: &'a Graph,
    switches: Vec<NodeIx>,
    hops: HashMap<NodeIx, Vec<u8>>,
}

fn mixed(group: u16, guid: u64, port: u8) -> u64 {
    SplitMix64::new(guid ^ u64::from(group) << 48 ^ u64::from(port) << 40).next_u64()
}

impl<'a> Planner<'a> {
    /// Of the cables that are up.
    #[must_use]
    pub fn new(graph: &'a Graph) -> Self {
        Self { graph, switches: graph.nodes_of(Kind::Switch).collect(), hops: HashMap::new() }
    }

    fn between(&self, node: NodeIx) -> impl Iterator<Item = (PortIx, PortIx)> + 'a {
        let graph = self.graph;
        graph.cabled(node).filter(move |(_, far)| graph.kind(graph.owner(*far)) == Kind::Switch)
    }

    /// Hops from a switch to all, by the index of the node.
    fn hops_from(&mut self, switch: NodeIx) -> &[u8] {
        if !self.hops.contains_key(&switch) {
            let mut hops = vec![FAR; self.graph.node_count()];
            let mut next = VecDeque::from([switch]);
            hops[switch.index()] = 0;
            while let Some(node) = next.pop_front() {
                let further = hops[node.index()].saturating_add(1);
                for (_, far) in self.between(node) {
                    let there = self.graph.owner(far);
                    if hops[there.index()] == FAR && further < FAR {
                        hops[there.index()] = further;
                        next.push_back(there);
                    }
                }
            }
            self.hops.insert(switch, hops);
        }
        self.hops.get(&switch).map_or(&[], Vec::as_slice)
    }

    /// The switch from which the farthest of these is the nearest, then all together.
    fn root(&mut self, group: u16, switches: &[NodeIx]) -> Option<NodeIx> {
        if let [one] = switches {
            return Some(*one);
        }
        let mut costs = vec![(0_u8, 0_u32); self.graph.node_count()];
        for switch in switches {
            for (cost, hops) in costs.iter_mut().zip(self.hops_from(*switch)) {
                *cost = (cost.0.max(*hops), cost.1 + u32::from(*hops));
            }
        }
        let cost = |node: &NodeIx| {
            let hash = mixed(group, self.graph.node_guid(*node), 0);
            (costs[node.index()], std::cmp::Reverse(hash), *node)
        };
        self.switches.iter().copied().min_by_key(cost)
    }

    /// The tree of a group. A member that no switch of the others reaches is left out.
    pub fn tree(&mut self, group: u16, leaves: &[Leaf]) -> Tree {
        let mut tree = Tree::new();
        let mut switches: Vec<NodeIx> = leaves.iter().map(|leaf| leaf.switch).collect();
        switches.sort_unstable();
        switches.dedup();
        let Some(root) = self.root(group, &switches) else { return tree };
        let graph = self.graph;
        let mut joined = HashSet::from([root]);
        for switch in &switches {
            let mut at = *switch;
            while joined.insert(at) {
                let near: Vec<(PortIx, PortIx)> = self.between(at).collect();
                let hops = self.hops_from(root);
                let own = hops[at.index()];
                let closer =
                    |far: &PortIx| own != FAR && hops[graph.owner(*far).index()].saturating_add(1) == own;
                let best = near.iter().filter(|(_, far)| closer(far)).max_by_key(|(port, far)| {
                    let there = graph.node_guid(graph.owner(*far));
                    (mixed(group, there, graph.number(*port)), *port)
                });
                let Some((port, far)) = best else { break };
                tree.entry(at).or_default().insert(graph.number(*port));
                at = graph.owner(*far);
                tree.entry(at).or_default().insert(graph.number(*far));
            }
        }
        for leaf in leaves.iter().filter(|leaf| leaf.receives) {
            tree.entry(leaf.switch).or_default().insert(leaf.port);
        }
        tree
    }
}

/// Can a packet go round while some switches hold the one tree's entries and others the other's?
#[must_use]
pub fn is_round(graph: &Graph, old: &Tree, new: &Tree) -> bool {
    let mut cables = HashSet::new();
    for (switch, ports) in old.iter().chain(new) {
        for number in ports.iter().filter(|number| *number > 0) {
            let Some(port) = graph.port(*switch, number) else { continue };
            let Some(far) = graph.peer(port).filter(|far| graph.kind(graph.owner(*far)) == Kind::Switch)
            else {
                continue;
            };
            cables.insert(port.min(far));
        }
    }
    // Each cable connects two parts that were not connected, or closes a circle.
    let mut above: HashMap<NodeIx, NodeIx> = HashMap::new();
    let top = |above: &HashMap<NodeIx, NodeIx>, mut node: NodeIx| {
        while let Some(next) = above.get(&node) {
            node = *next;
        }
        node
    };
    cables.into_iter().any(|port| {
        let Some(far) = graph.peer(port) else { return false };
        let (a, b) = (top(&above, graph.owner(port)), top(&above, graph.owner(far)));
        if a != b {
            above.insert(a, b);
        }
        a == b
    })
}

/// What is in both.
#[must_use]
pub fn common(old: &Tree, new: &Tree) -> Tree {
    old.iter().filter_map(|(switch, ports)| Some((*switch, ports.and(*new.get(switch)?)))).collect()
}

/// The blocks of multicast tables that switches hold, by the GUIDs of the switches, as far as they are known.
#[derive(Debug, Default)]
pub(crate) struct Held {
    blocks: HashMap<(u64, u8, u16), MulticastBlock>,
}

impl Held {
    /// Nothing is known any more.
    pub(crate) fn forget(&mut self) {
        self.blocks.clear();
    }

    pub(crate) fn get(&self, guid: u64, position: u8, block: u16) -> Option<&MulticastBlock> {
        self.blocks.get(&(guid, position, block))
    }

    /// A switch has reported a block, or not.
    pub(crate) fn confirm(&mut self, guid: u64, position: u8, block: u16, held: Option<MulticastBlock>) {
        match held {
            Some(held) => drop(self.blocks.insert((guid, position, block), held)),
            None => drop(self.blocks.remove(&(guid, position, block))),
        }
    }

    /// The entries of a group, as far as they are known.
    pub(crate) fn tree(&self, graph: &Graph, group: u16) -> Tree {
        let (block, at) = place(group);
        let mut tree = Tree::new();
        for switch in graph.nodes_of(Kind::Switch) {
            let mut ports = Ports::default();
            for position in 0..positions(graph, switch) {
                if let Some(held) = self.get(graph.node_guid(switch), position, block) {
                    ports.0[usize::from(position)] = held[at];
                }
            }
            if ports != Ports::default() {
                tree.insert(switch, ports);
            }
        }
        tree
    }

    /// The blocks to be written so that these groups have these entries, and all others what they have. Of a
    /// block that is not known, what it holds of others is taken as nothing.
    pub(crate) fn to_write(
        &self,
        graph: &Graph,
        wanted: &BTreeMap<u16, Tree>,
    ) -> Vec<(NodeIx, u8, u16, MulticastBlock)> {
        let mut by_block: BTreeMap<u16, Vec<(usize, &Tree)>> = BTreeMap::new();
        for (group, tree) in wanted {
            let (block, at) = place(*group);
            by_block.entry(block).or_default().push((at, tree));
        }
        let mut all = Vec::new();
        for (block, groups) in by_block {
            for switch in graph.nodes_of(Kind::Switch) {
                for position in 0..positions(graph, switch) {
                    let held = self.get(graph.node_guid(switch), position, block);
                    let mut to_be = held.copied().unwrap_or_default();
                    for (at, tree) in &groups {
                        to_be[*at] = tree.get(&switch).map_or(0, |ports| ports.0[usize::from(position)]);
                    }
                    if held != Some(&to_be) {
                        all.push((switch, position, block, to_be));
                    }
                }
            }
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::with_guids;
    use topology::build::{FatTree, Torus, fat_tree, torus};

    fn leaves(graph: &Graph, every: usize) -> Vec<Leaf> {
        let hosts = graph.nodes_of(Kind::Host).step_by(every);
        hosts.filter_map(|host| Leaf::of(graph, graph.port(host, 1)?, true)).collect()
    }

    /// The hosts that a packet comes to from a leaf, each as often as it does; more than `most` steps is a
    /// loop.
    fn received(graph: &Graph, tree: &Tree, from: Leaf) -> BTreeMap<NodeIx, usize> {
        let mut there = BTreeMap::new();
        let mut way = vec![(from.switch, from.port)];
        for _ in 0..10_000 {
            let Some((switch, came)) = way.pop() else { return there };
            for number in tree.get(&switch).copied().unwrap_or_default().iter().filter(|it| *it != came) {
                let far = graph.peer(graph.port(switch, number).unwrap()).unwrap();
                match graph.kind(graph.owner(far)) {
                    Kind::Switch => way.push((graph.owner(far), graph.number(far))),
                    _ => *there.entry(graph.owner(far)).or_default() += 1,
                }
            }
        }
        panic!("it goes round");
    }

    #[test]
    fn every_member_hears_every_other_one_once() {
        let graphs = [
            with_guids(&fat_tree(&FatTree::new(8, 3)).unwrap()),
            with_guids(&torus(&Torus::new(&[4, 4, 4], 2)).unwrap()),
        ];
        for graph in &graphs {
            let mut planner = Planner::new(graph);
            for (group, every) in [(0xc000, 1), (0xc001, 5), (0xd123, 17), (0xfffe, 1000)] {
                let leaves = leaves(graph, every);
                let tree = planner.tree(group, &leaves);
                assert!(!is_round(graph, &tree, &tree));
                for from in &leaves {
                    let there = received(graph, &tree, *from);
                    assert_eq!(there.len(), leaves.len() - 1, "{group:#x}");
                    assert!(there.values().all(|count| *count == 1));
                }
            }
        }
    }

    #[test]
    fn in_a_fat_tree_no_packet_turns_up_again() {
        let graph = with_guids(&fat_tree(&FatTree::new(8, 3)).unwrap());
        let level = |node: NodeIx| {
            let name = graph.name(node);
            ["leaf", "spine", "core"].iter().position(|word| name.starts_with(word)).unwrap_or(1)
        };
        let mut planner = Planner::new(&graph);
        let leaves = leaves(&graph, 7);
        for group in 0xc000..0xc020 {
            let tree = planner.tree(group, &leaves);
            // A switch of a tree has one cable up at most: then what comes from above goes down only.
            for (switch, ports) in &tree {
                let up = ports.iter().filter(|number| {
                    let far = graph.peer(graph.port(*switch, *number).unwrap()).unwrap();
                    let there = graph.owner(far);
                    graph.kind(there) == Kind::Switch && level(there) > level(*switch)
                });
                assert!(up.count() <= 1, "{}", graph.name(*switch));
            }
        }
    }

    #[test]
    fn a_sender_is_connected_and_hears_nothing() {
        let graph = with_guids(&fat_tree(&FatTree::new(4, 2)).unwrap());
        let mut all = leaves(&graph, 3);
        all[0].receives = false;
        let tree = Planner::new(&graph).tree(0xc005, &all);
        let heard = received(&graph, &tree, all[0]);
        assert_eq!(heard.len(), all.len() - 1);
        let heard = received(&graph, &tree, all[1]);
        assert_eq!(heard.len(), all.len() - 2);
    }

    #[test]
    fn a_dead_cable_moves_the_groups_that_use_it_and_no_others() {
        let graph = with_guids(&fat_tree(&FatTree::new(8, 3)).unwrap());
        let leaves = leaves(&graph, 9);
        let dead = graph.links().find(|(a, b)| {
            graph.kind(graph.owner(*a)) == Kind::Switch && graph.kind(graph.owner(*b)) == Kind::Switch
        });
        let dead = dead.unwrap().0;
        let hurt = graph.without(&[dead], &[]);
        let (mut before, mut after) = (Planner::new(&graph), Planner::new(&hurt));
        let mut moved = 0;
        for group in 0xc000..0xc080 {
            let (old, new) = (before.tree(group, &leaves), after.tree(group, &leaves));
            let uses =
                old.get(&graph.owner(dead)).is_some_and(|it| it.iter().any(|it| it == graph.number(dead)));
            assert_eq!(old != new, uses, "{group:#x}");
            moved += usize::from(uses);
            // What both hold has no circle with either.
            let both = common(&old, &new);
            assert!(!is_round(&graph, &both, &new) && !is_round(&graph, &old, &both));
        }
        assert!(moved > 0);
    }

    #[test]
    fn blocks_are_written_as_differences() {
        let graph = with_guids(&fat_tree(&FatTree::new(4, 2)).unwrap());
        let mut held = Held::default();
        let mut planner = Planner::new(&graph);
        let tree = planner.tree(0xc021, &leaves(&graph, 2));
        let wanted = BTreeMap::from([(0xc021, tree.clone())]);
        let first = held.to_write(&graph, &wanted);
        assert_eq!(first.len(), graph.count(Kind::Switch), "nothing was known");
        for (switch, position, block, entries) in &first {
            assert_eq!((*position, *block), (0, 1));
            held.confirm(graph.node_guid(*switch), *position, *block, Some(*entries));
        }
        assert_eq!(held.tree(&graph, 0xc021), tree);
        assert!(held.to_write(&graph, &wanted).is_empty());
        let further = BTreeMap::from([(0xc022, planner.tree(0xc022, &leaves(&graph, 4)))]);
        let switches = held.to_write(&graph, &further).len();
        assert_eq!(switches, further[&0xc022].len(), "only the switches of the tree");
    }
}
