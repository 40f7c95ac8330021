//! The management agents of a simulated fabric: their responses, and how datagrams reach them.
//!
//! The state is that of hardware: ports with their links, tables, counters. It changes when a manager sets
//! it, and when somebody pulls a cable ([`Agents::unlink`]). Datagrams are counted where they pass, as
//! traffic is.

use std::collections::HashMap;
use std::time::Duration;

use mad::header::CLASS_PORT_INFO;
use mad::sm::{NodeDescription, NodeInfo, PortInfo, SwitchInfo};
use mad::values::{Guid, PhysicalState, PortState};
use mad::{Lid, Mad};
use seeded_random::SplitMix64;
use topology::{Graph, Kind, NodeIx, PortIx};

mod bring_up;
mod harm;
mod make;
mod management;
mod performance;
mod port_info;
mod protect;
mod route;
pub mod sim_port;
#[cfg(test)]
mod tests;
pub mod traps;

pub use crate::counting::Counters;
pub use harm::{Harm, Obedience, Passed};
pub use route::Carried;
pub use traps::Trap;

/// Entries of a switch's linear table: all LIDs of one port.
pub(crate) const LINEAR_CAPACITY: u16 = Lid::LAST_UNICAST.0 + 1;
/// Entries of a switch's multicast table: all LIDs of groups.
pub(crate) const MULTICAST_CAPACITY: u16 = 0x3fff;
/// Partition keys of a port.
pub(crate) const PARTITION_CAPACITY: u16 = 128;
/// GUIDs of a port.
pub(crate) const GUID_CAPACITY: u8 = 128;
/// Entries of each table of priority.
pub(crate) const ARBITRATION_CAPACITY: u8 = 64;

/// What a switch has beside its ports.
#[derive(Debug, Clone, Default)]
pub(crate) struct SwitchState {
    pub(crate) info: SwitchInfo,
    /// As far as it was set; 255 beyond.
    pub(crate) linear: Vec<u8>,
    /// By position and block.
    pub(crate) multicast: HashMap<(u8, u16), [u8; 64]>,
}

/// What a port has.
#[derive(Debug, Clone)]
pub(crate) struct Port {
    pub(crate) info: PortInfo,
    pub(crate) counters: Counters,
    /// The cable was pulled.
    pub(crate) pulled: bool,
    /// Thousandths of what comes in that are lost.
    pub(crate) loses: u32,
    /// How often a manager asked its clients to register again.
    pub(crate) reregistered: u32,
    /// What happens to datagrams that come in, beside losses.
    pub(crate) harm: Harm,
}

/// Tables of a port that most never get: by attribute and the part of it.
type Tables = HashMap<(PortIx, u16, u32), [u8; 64]>;

/// A simulated fabric.
#[derive(Debug)]
pub struct Agents {
    pub(crate) graph: Graph,
    pub(crate) nodes: Vec<(NodeInfo, NodeDescription)>,
    pub(crate) ports: Vec<Port>,
    pub(crate) switches: HashMap<NodeIx, SwitchState>,
    pub(crate) tables: Tables,
    pub(crate) traps: Vec<Trap>,
    pub(crate) extended_errors: bool,
    pub(crate) obedience: HashMap<NodeIx, Obedience>,
    /// GUIDs that were changed.
    pub(crate) guids: HashMap<NodeIx, Guid>,
    pub(crate) passed: Passed,
    /// End ports that got a request with a wrong key, and when, if the right one did not come since.
    pub(crate) violated: HashMap<PortIx, Duration>,
    /// How late it is, as far as is known.
    pub(crate) clock: Duration,
    transaction: u64,
    random: SplitMix64,
}

impl Agents {
    /// The graph that it was made from. Cables that were pulled are still in it.
    #[must_use]
    pub fn graph(&self) -> &Graph {
        &self.graph
    }

    /// A node by its text or its GUID (`0x…`); the first of several with the same text.
    #[must_use]
    pub fn node(&self, named: &str) -> Option<NodeIx> {
        if let Some(guid) = named.strip_prefix("0x").and_then(|hex| u64::from_str_radix(hex, 16).ok()) {
            let has = |node: &NodeIx| {
                let own = self.nodes[node.index()].0.node_guid();
                self.guids.get(node).copied().unwrap_or(own) == Guid(guid)
            };
            return self.graph.nodes().find(has);
        }
        self.graph.nodes().find(|node| self.nodes[node.index()].1.to_text() == named)
    }

    /// The port of programs that run on this node: a switch's port 0, a host's first port that has a cable,
    /// or else its first.
    #[must_use]
    pub fn place(&self, node: NodeIx) -> Option<PortIx> {
        if self.graph.kind(node) == Kind::Switch {
            return self.graph.port(node, 0);
        }
        let mut ports = self.graph.ports(node).skip(1);
        ports.find(|port| self.graph.peer(*port).is_some()).or_else(|| self.graph.port(node, 1))
    }

    /// A port as it would respond.
    #[must_use]
    pub fn port_info(&self, port: PortIx) -> &PortInfo {
        &self.ports[port.index()].info
    }

    /// What a node would respond that is asked by this port.
    #[must_use]
    pub fn node_info(&self, port: PortIx) -> NodeInfo {
        let node = self.graph.owner(port);
        let mut info = self.nodes[node.index()].0;
        info.set_local_port(self.graph.number(port));
        if let Some(guid) = self.guids.get(&node) {
            let own = if self.graph.kind(node) == Kind::Switch { 0 } else { self.graph.number(port).into() };
            info.set_node_guid(*guid).set_system_guid(*guid).set_port_guid(Guid(guid.0.wrapping_add(own)));
            return info;
        }
        if self.graph.kind(node) != Kind::Switch {
            info.set_port_guid(Guid(self.graph.port_guid(port)));
            if info.port_guid() == Guid(0) {
                info.set_port_guid(Guid(info.node_guid().0.wrapping_add(self.graph.number(port).into())));
            }
        }
        info
    }

    /// A node's text.
    #[must_use]
    pub fn description(&self, node: NodeIx) -> String {
        self.nodes[node.index()].1.to_text()
    }

    /// Changes the NodeDescription of a node, and notifies the subnet manager.
    pub fn describe(&mut self, node: NodeIx, text: &str) {
        self.nodes[node.index()].1 = NodeDescription::new(text);
        if let Some(port) = self.place(node) {
            self.trap_capability(port, true);
        }
    }

    /// The port by which a switch sends to a LID; `None` if it has no entry.
    #[must_use]
    pub fn linear_entry(&self, node: NodeIx, lid: u16) -> Option<u8> {
        let switch = self.switches.get(&node).filter(|switch| lid <= switch.info.linear_top())?;
        switch.linear.get(usize::from(lid)).copied().filter(|port| *port != u8::MAX)
    }

    /// The ports by which a switch sends on what comes for a multicast group, by the LID of the group.
    pub fn group_ports(&self, node: NodeIx, group: u16) -> impl Iterator<Item = u8> + '_ {
        let number = group.wrapping_sub(0xc000);
        let (block, at) = (number / 32, usize::from(number % 32) * 2);
        let switch = self.switches.get(&node);
        (0..=self.graph.port_count(node)).filter(move |port| {
            let held = switch.and_then(|switch| switch.multicast.get(&(port / 16, block)));
            held.is_some_and(|held| u16::from_be_bytes([held[at], held[at + 1]]) >> (port % 16) & 1 == 1)
        })
    }

    /// A port loses its tables of VLs, priorities and partitions, as when its node starts anew.
    pub fn forget_tables(&mut self, port: PortIx) {
        self.tables.retain(|(of, ..), _| *of != port);
    }

    /// How often a manager asked the clients of a port to register again (ClientReregister).
    #[must_use]
    pub fn reregistered(&self, port: PortIx) -> u32 {
        self.ports[port.index()].reregistered
    }

    /// Counters of a port.
    #[must_use]
    pub fn counters(&self, port: PortIx) -> &Counters {
        &self.ports[port.index()].counters
    }

    /// Counters of a port, to be changed.
    pub fn counters_mut(&mut self, port: PortIx) -> &mut Counters {
        &mut self.ports[port.index()].counters
    }

    /// Whether nodes report error counters of 64 bits. Off by default: the library by which stock programs
    /// talk to a simulator cuts the last 32 bytes of each datagram, where some of those counters are.
    pub fn announce_extended_errors(&mut self, announce: bool) {
        self.extended_errors = announce;
    }

    /// So many thousandths of what comes in by this port are lost from now on.
    pub fn lose(&mut self, port: PortIx, thousandths: u32) {
        self.ports[port.index()].loses = thousandths;
    }

    /// A subnet manager begins or ends behind a port.
    pub fn set_is_sm(&mut self, port: PortIx, is: bool) {
        let info = &mut self.ports[port.index()].info;
        let before = info.capability_mask();
        let bit = mad::sm::capability::IS_SM;
        let after = if is { before | bit } else { before & !bit };
        if before != after {
            info.set_capability_mask(after);
            self.trap_capability(port, false);
        }
    }

    /// The other end of a port's cable, if it has one that was not pulled.
    #[must_use]
    pub fn peer(&self, port: PortIx) -> Option<PortIx> {
        self.graph.peer(port).filter(|_| !self.ports[port.index()].pulled)
    }

    /// Is the link up, physically?
    #[must_use]
    pub fn is_up(&self, port: PortIx) -> bool {
        self.ports[port.index()].info.physical_state() == PhysicalState::LINK_UP
    }

    /// Pulls a cable. False: there is none, or it was pulled before.
    pub fn unlink(&mut self, port: PortIx) -> bool {
        let Some(peer) = self.peer(port) else { return false };
        self.ports[port.index()].pulled = true;
        self.ports[peer.index()].pulled = true;
        self.link_down(port, peer);
        true
    }

    /// Puts a cable back that was pulled. False: there is none, or it is not pulled.
    pub fn relink(&mut self, port: PortIx) -> bool {
        let Some(peer) = self.graph.peer(port).filter(|_| self.ports[port.index()].pulled) else {
            return false;
        };
        self.ports[port.index()].pulled = false;
        self.ports[peer.index()].pulled = false;
        self.train(port, peer);
        true
    }

    /// Both ends lose each other.
    pub(crate) fn link_down(&mut self, a: PortIx, b: PortIx) {
        for end in [a, b] {
            let port = &mut self.ports[end.index()];
            if port.info.physical_state() == PhysicalState::LINK_UP {
                port.info.set_physical_state(PhysicalState::POLLING);
                port.counters.link_downed += 1;
            }
            if port.info.state() != PortState::DOWN {
                port.info.set_state(PortState::DOWN);
                self.state_changed(end);
            }
        }
    }

    /// Both ends train, and the link comes up unless one of them is disabled.
    pub(crate) fn train(&mut self, a: PortIx, b: PortIx) {
        let looks = |port: PortIx| {
            matches!(
                self.ports[port.index()].info.physical_state(),
                PhysicalState::POLLING | PhysicalState::LINK_UP
            )
        };
        if !looks(a) || !looks(b) {
            return;
        }
        for end in [a, b] {
            let info = &mut self.ports[end.index()].info;
            let changed = info.state() != PortState::INITIALIZE;
            info.set_physical_state(PhysicalState::LINK_UP).set_state(PortState::INITIALIZE);
            if changed {
                self.state_changed(end);
            }
        }
    }

    /// A port changed its state: its switch records it, and notifies the subnet manager.
    pub(crate) fn state_changed(&mut self, port: PortIx) {
        let node = self.graph.owner(port);
        if let Some(switch) = self.switches.get_mut(&node) {
            switch.info.set_state_change(true);
            self.trap_link_state(node);
        }
    }

    /// The next random number, for losses.
    pub(crate) fn dice(&mut self) -> u64 {
        self.random.next_u64()
    }

    /// The port that has a node's address: a switch's port 0, a host's own.
    pub(crate) fn end_port(&self, port: PortIx) -> PortIx {
        let node = self.graph.owner(port);
        if self.graph.kind(node) == Kind::Switch { self.graph.port(node, 0).unwrap_or(port) } else { port }
    }
}

/// An attribute that all general classes have.
pub(crate) fn asks_class_port_info(mad: &Mad) -> bool {
    mad.header().attribute() == CLASS_PORT_INFO
}
