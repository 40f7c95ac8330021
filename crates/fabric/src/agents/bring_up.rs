//! Brings a simulated fabric up as a subnet manager would, for users that only observe it.

use std::collections::VecDeque;

use mad::Lid;
use mad::values::PortState;
use topology::{Kind, NodeIx, PortIx};

use super::Agents;

impl Agents {
    /// Gives every port that has an address its LID (the graph's, or the next free one), fills the tables
    /// with shortest ways that are spread over equal ports by LID, and makes all links active. False: there
    /// are more ports than LIDs.
    pub fn bring_up(&mut self) -> bool {
        let Some(ends) = self.assign() else { return false };
        let top = ends.iter().map(|(_, lid)| *lid).max().unwrap_or(0);
        let mut at_switch: Vec<Vec<(u16, u8)>> = vec![Vec::new(); self.graph.node_count()];
        for (port, lid) in &ends {
            let node = self.graph.owner(*port);
            if self.graph.kind(node) == Kind::Switch {
                at_switch[node.index()].push((*lid, 0));
            } else if let Some(peer) = self.peer(*port) {
                at_switch[self.graph.owner(peer).index()].push((*lid, self.graph.number(peer)));
            }
        }
        for switch in self.switches.values_mut() {
            switch.linear = vec![u8::MAX; usize::from(top).div_ceil(64) * 64 + 64];
            switch.info.set_linear_top(top);
        }
        for node in self.graph.nodes_of(Kind::Switch).collect::<Vec<_>>() {
            self.lead_to(node, &at_switch[node.index()]);
        }
        let sm = ends.first().map_or(Lid(0), |(_, lid)| Lid(*lid));
        for port in 0..self.ports.len() {
            let up = self.is_up(PortIx(port as u32));
            let info = &mut self.ports[port].info;
            info.set_sm_lid(sm);
            if up {
                info.set_state(PortState::ACTIVE);
            }
        }
        true
    }

    fn assign(&mut self) -> Option<Vec<(PortIx, u16)>> {
        let mut ends = Vec::new();
        let mut taken = vec![false; usize::from(Lid::LAST_UNICAST.0) + 1];
        taken[0] = true;
        let all: Vec<PortIx> = self.graph.nodes().flat_map(|node| self.with_address(node)).collect();
        for &port in &all {
            let known = self.graph.lid(port);
            if Lid(known).is_unicast() && !taken[usize::from(known)] {
                taken[usize::from(known)] = true;
                ends.push((port, known));
            } else {
                ends.push((port, 0));
            }
        }
        let mut next = 1_u16;
        for (port, lid) in &mut ends {
            if *lid == 0 {
                while *taken.get(usize::from(next))? {
                    next += 1;
                }
                *lid = next;
                taken[usize::from(next)] = true;
            }
            self.ports[port.index()].info.set_lid(Lid(*lid)).set_mask_control(0);
        }
        Some(ends)
    }

    fn with_address(&self, node: NodeIx) -> Vec<PortIx> {
        if self.graph.kind(node) == Kind::Switch {
            return self.graph.port(node, 0).into_iter().collect();
        }
        self.graph.ports(node).skip(1).filter(|port| self.peer(*port).is_some()).collect()
    }

    /// Tables of all switches towards what hangs at one: breadth first from there.
    fn lead_to(&mut self, target: NodeIx, lids: &[(u16, u8)]) {
        let far = u32::MAX;
        let mut distance = vec![far; self.graph.node_count()];
        distance[target.index()] = 0;
        let mut next = VecDeque::from([target]);
        while let Some(node) = next.pop_front() {
            let mut closer = Vec::new();
            for port in self.graph.ports(node) {
                let Some(peer) = self.peer(port) else { continue };
                let other = self.graph.owner(peer);
                if self.graph.kind(other) != Kind::Switch {
                    continue;
                }
                if distance[other.index()] == far {
                    distance[other.index()] = distance[node.index()] + 1;
                    next.push_back(other);
                } else if distance[other.index()].checked_add(1) == Some(distance[node.index()]) {
                    closer.push(self.graph.number(port));
                }
            }
            let Some(switch) = self.switches.get_mut(&node) else { continue };
            for (lid, local) in lids {
                let out = if node == target {
                    Some(*local)
                } else {
                    closer.get(usize::from(*lid) % closer.len().max(1)).copied()
                };
                if let (Some(out), Some(slot)) = (out, switch.linear.get_mut(usize::from(*lid))) {
                    *slot = out;
                }
            }
        }
    }
}
