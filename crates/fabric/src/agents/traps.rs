//! Traps that agents send to the subnet manager until it acknowledges them.

use std::time::Duration;

use mad::notice::{CapabilityDetails, LinkStateDetails, ManagementKeyDetails, Notice, trap};
use mad::sm::attribute;
use mad::values::{Class, Method};
use mad::{Layout, Lid, Mad};
use topology::{Kind, NodeIx, PortIx};

use super::Agents;

/// Until a trap without a repress is repeated.
pub const REPEAT_AFTER: Duration = Duration::from_secs(1);
/// How often it is sent at most.
pub const MOST_TIMES: u32 = 30;
/// Traps that are kept; further ones are lost, as in a switch.
const MOST: usize = 4096;

/// A trap that was not heard yet.
#[derive(Debug, Clone)]
pub struct Trap {
    /// From which port.
    pub port: PortIx,
    /// The datagram.
    pub mad: Mad,
    /// How often it was sent.
    pub sent: u32,
    /// When it was last sent.
    pub last: Duration,
}

impl Agents {
    /// Trap 128, of a switch.
    pub(crate) fn trap_link_state(&mut self, node: NodeIx) {
        let Some(port) = self.graph.port(node, 0) else { return };
        let mut details = LinkStateDetails::default();
        details.set_lid(self.ports[port.index()].info.lid());
        self.trap(port, trap::LINK_STATE, 1, details);
    }

    /// Trap 144: the capability mask or (if it is that) the description changed.
    pub(crate) fn trap_capability(&mut self, port: PortIx, description: bool) {
        let info = &self.ports[port.index()].info;
        let mut details = CapabilityDetails::default();
        details
            .set_lid(info.lid())
            .set_capability_mask(info.capability_mask())
            .set_other_changes(description)
            .set_description_change(description);
        self.trap(port, trap::CAPABILITY, 4, details);
    }

    /// Trap 256: a request with a wrong management key came to this port. The key itself is not told.
    pub(crate) fn trap_management_key(&mut self, port: PortIx, mad: &Mad) {
        let header = mad.header();
        let mut details = ManagementKeyDetails::default();
        details
            .set_lid(self.ports[port.index()].info.lid())
            .set_method(header.method().0)
            .set_attribute(header.attribute())
            .set_modifier(header.modifier())
            .set_directed(header.class() == Class::DIRECTED);
        self.trap(port, trap::MANAGEMENT_KEY, 2, details);
    }

    fn trap<D: Layout>(&mut self, port: PortIx, number: u16, severity: u8, details: D) {
        let info = &self.ports[port.index()].info;
        let lid = info.lid();
        // There is no subnet manager yet, or the same trap is pending already.
        let said = |trap: &&mut Trap| trap.port == port && trap.mad.data::<Notice>().number() == number;
        if lid == Lid(0) || info.sm_lid() == Lid(0) || self.traps.len() >= MOST {
            return;
        }
        let mut mad = Mad::new(Class::SUBNET, Method::TRAP, attribute::NOTICE, 0);
        mad.header_mut().set_transaction(self.next_transaction());
        let producer = match self.graph.kind(self.graph.owner(port)) {
            Kind::Host => 1,
            Kind::Switch => 2,
            Kind::Router => 3,
        };
        let mut bytes = [0; 54];
        bytes[..D::LEN].copy_from_slice(details.as_bytes());
        mad.data_mut::<Notice>()
            .set_generic(true)
            .set_severity(severity)
            .set_producer(producer)
            .set_number(number)
            .set_issuer(lid)
            .set_details(&bytes);
        let trap = Trap { port, mad, sent: 0, last: Duration::ZERO };
        match self.traps.iter_mut().find(said) {
            Some(there) => *there = trap,
            None => self.traps.push(trap),
        }
    }

    /// Traps that are to be sent now, each with the port that it comes from and where it goes. They stay
    /// until they are heard.
    pub fn due_traps(&mut self, now: Duration) -> Vec<(PortIx, Lid, Mad)> {
        self.pass_time(now);
        self.traps.retain(|trap| trap.sent < MOST_TIMES);
        let mut due = Vec::new();
        for trap in &mut self.traps {
            if trap.sent == 0 || now.saturating_sub(trap.last) >= REPEAT_AFTER {
                trap.sent += 1;
                trap.last = now;
                due.push((trap.port, self.ports[trap.port.index()].info.sm_lid(), trap.mad));
            }
        }
        due
    }

    /// Is there a trap that was not heard yet, or a lease that runs?
    #[must_use]
    pub fn has_traps(&self) -> bool {
        !self.traps.is_empty() || !self.violated.is_empty()
    }

    /// The manager represses a trap: its notice is the trap's.
    pub(crate) fn repress(&mut self, port: PortIx, mad: &Mad) {
        let (end, number) = (self.end_port(port), mad.data::<Notice>().number());
        self.traps.retain(|trap| {
            self.ports[trap.port.index()].info.lid() != self.ports[end.index()].info.lid()
                || trap.mad.data::<Notice>().number() != number
        });
    }
}
