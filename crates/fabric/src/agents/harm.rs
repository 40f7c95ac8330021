//! Faults that are planted: datagrams that come late, twice or changed, and nodes that do not do as they are
//! told.

use std::time::Duration;

use mad::sm::PortInfo;
use mad::values::{Guid, PhysicalState, PortState};
use mad::{Lid, Mad};
use topology::{Kind, NodeIx, PortIx};

use super::Agents;

/// What happens to datagrams that come in by a port.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Harm {
    /// Thousandths of them that come twice.
    pub doubles: u32,
    /// Thousandths of them of which a byte is changed.
    pub garbles: u32,
    /// How late they come.
    pub late: Duration,
}

/// How a node takes Sets of subnet management.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Obedience {
    /// It refuses them.
    Refuses,
    /// It does not respond to them, but to Gets: it is half-dead.
    Ignores,
    /// It takes them, but for an LMC: its ports have one LID each.
    OneLid,
}

/// What happened to the last datagram on its way, there and back.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Passed {
    /// It comes twice.
    pub doubled: bool,
    /// It comes so late.
    pub late: Duration,
    pub(crate) garbled: bool,
}

impl Agents {
    /// From now on this happens to what comes in by a port.
    pub fn harm(&mut self, port: PortIx, change: impl FnOnce(&mut Harm)) {
        change(&mut self.ports[port.index()].harm);
    }

    /// How a node takes Sets from now on; `None`: as it is to.
    pub fn set_obedience(&mut self, node: NodeIx, how: Option<Obedience>) {
        match how {
            Some(how) => drop(self.obedience.insert(node, how)),
            None => drop(self.obedience.remove(&node)),
        }
    }

    /// A port reports something else than it was set to.
    pub fn pretend(&mut self, port: PortIx, change: impl FnOnce(&mut PortInfo)) {
        change(&mut self.ports[port.index()].info);
    }

    /// What happened to the last datagram that was carried.
    pub fn take_passed(&mut self) -> Passed {
        std::mem::take(&mut self.passed)
    }

    /// A node starts anew: its tables are empty, it has no LIDs, and its links train.
    pub fn reboot(&mut self, node: NodeIx) {
        let ports: Vec<PortIx> = self.graph.ports(node).collect();
        for port in &ports {
            if let Some(peer) = self.peer(*port).filter(|_| self.is_up(*port)) {
                self.link_down(*port, peer);
            }
            self.forget_tables(*port);
            self.violated.remove(port);
            let info = &mut self.ports[port.index()].info;
            info.set_lid(Lid(0)).set_sm_lid(Lid(0)).set_mask_control(0);
            info.set_management_key(0).set_key_protection(0).set_key_lease(0);
        }
        self.traps.retain(|trap| !ports.contains(&trap.port));
        if let Some(switch) = self.switches.get_mut(&node) {
            switch.linear.clear();
            switch.multicast.clear();
            switch.info.set_linear_top(0).set_multicast_top(0);
        }
        for port in ports {
            let is_own = self.graph.kind(node) == Kind::Switch && self.graph.number(port) == 0;
            let Some(peer) = self.peer(port).filter(|_| !is_own) else { continue };
            let info = &mut self.ports[port.index()].info;
            info.set_physical_state(PhysicalState::POLLING).set_state(PortState::DOWN);
            self.train(port, peer);
        }
    }

    /// Another node takes the place of one: the same, with another GUID.
    pub fn replace(&mut self, node: NodeIx, guid: Guid) {
        self.guids.insert(node, guid);
        self.reboot(node);
    }

    pub(super) fn refuses(&self, port: PortIx) -> bool {
        self.obedience.get(&self.graph.owner(port)) == Some(&Obedience::Refuses)
    }

    pub(super) fn has_one_lid(&self, port: PortIx) -> bool {
        self.obedience.get(&self.graph.owner(port)) == Some(&Obedience::OneLid)
    }

    pub(super) fn ignores(&self, port: PortIx) -> bool {
        self.obedience.get(&self.graph.owner(port)) == Some(&Obedience::Ignores)
    }

    /// A datagram comes in by a port.
    pub(super) fn pass(&mut self, port: PortIx) {
        let harm = self.ports[port.index()].harm;
        if harm == Harm::default() {
            return;
        }
        self.passed.late += harm.late;
        self.passed.doubled |= harm.doubles > 0 && self.dice() % 1000 < u64::from(harm.doubles);
        self.passed.garbled |= harm.garbles > 0 && self.dice() % 1000 < u64::from(harm.garbles);
    }

    /// Changes a byte of a datagram, if it came in by a port that does that.
    pub(super) fn garble(&mut self, mad: &mut Mad) {
        if std::mem::take(&mut self.passed.garbled) {
            let dice = self.dice();
            let at = (dice >> 8) as usize % mad.0.len();
            if let Some(byte) = mad.0.get_mut(at) {
                *byte ^= (dice as u8).max(1);
            }
        }
    }
}
