//! How a datagram travels from one port to another, and which agent responds to it.

use mad::header::MAX_HOPS;
use mad::sm::attribute;
use mad::values::{Class, Method, PortState, Status};
use mad::{Address, Lid, Mad};
use topology::{Kind, PortIx};

use super::{Agents, Passed};

/// Four-byte words of a datagram on the wire, with its headers.
const WORDS: u64 = 72;

/// What became of a datagram.
#[derive(Debug, Clone)]
pub enum Carried {
    /// An agent answered, and the response came back: from this LID.
    Answered(Lid, Box<Mad>),
    /// It arrived at a port where a program may want it: from this LID, as it arrived.
    Arrived(PortIx, Lid, Box<Mad>),
    /// It arrived at an agent that does not respond to it.
    Taken,
    /// It was lost.
    Lost,
}

impl Agents {
    /// Carries a datagram that a program at `from` sends.
    pub fn carry(&mut self, from: PortIx, to: &Address, mad: &Mad) -> Carried {
        let mut mad = *mad;
        self.passed = Passed::default();
        let source = self.ports[self.end_port(from).index()].info.lid();
        let arrived = match mad.header().class() {
            Class::DIRECTED => self.directed(from, to.lid, &mut mad),
            _ => self.by_lid(from, to.lid, mad.header().class() == Class::SUBNET),
        };
        let Some(port) = arrived else { return Carried::Lost };
        self.garble(&mut mad);
        let header = mad.header();
        let (class, method) = (header.class(), header.method());
        let management = matches!(class, Class::SUBNET | Class::DIRECTED);
        if management && method == Method::TRAP_REPRESS {
            self.repress(port, &mad);
            return Carried::Taken;
        }
        let question = matches!(method, Method::GET | Method::SET);
        let for_manager = header.attribute() == attribute::SM_INFO && self.is_sm(port);
        let ours = question && (management && !for_manager || class == Class::PERFORMANCE);
        if !ours {
            // Programs of a switch are behind its port 0, by whichever port the datagram came in.
            return Carried::Arrived(self.end_port(port), source, Box::new(mad));
        }
        if management && (method == Method::SET && self.ignores(port) || !self.admits(port, &mad)) {
            return Carried::Taken;
        }
        self.answer(port, &mut mad, management);
        let back = self.ports[self.end_port(port).index()].info.lid();
        // The response has to be routed, too.
        let returned = match class {
            Class::DIRECTED => self.returned(port, from, to.lid, &mad),
            _ => port == from || self.by_lid(port, source, class == Class::SUBNET).is_some(),
        };
        self.garble(&mut mad);
        if returned { Carried::Answered(back, Box::new(mad)) } else { Carried::Lost }
    }

    /// Carries what an agent sends of itself to a LID.
    pub fn carry_trap(&mut self, from: PortIx, to: Lid, mad: &Mad) -> Carried {
        let source = self.ports[from.index()].info.lid();
        match self.by_lid(from, to, true) {
            Some(port) => Carried::Arrived(port, source, Box::new(*mad)),
            None => Carried::Lost,
        }
    }

    fn is_sm(&self, port: PortIx) -> bool {
        let info = &self.ports[self.end_port(port).index()].info;
        info.capability_mask() & mad::sm::capability::IS_SM != 0
    }

    fn answer(&mut self, port: PortIx, mad: &mut Mad, management: bool) {
        let header = mad.header();
        let status = if header.base_version() != 1 || header.class_version() != 1 {
            Status::BAD_VERSION
        } else if management && header.method() == Method::SET && self.refuses(port) {
            Status::BAD_FIELD
        } else if management {
            self.manage(port, mad)
        } else {
            self.perform(port, mad)
        };
        let directed = mad.header().class() == Class::DIRECTED;
        mad.header_mut().set_method(Method::GET_RESPONSE).set_status(status);
        if directed {
            mad.smp_mut().header_mut().set_returning(true);
        }
    }

    /// Over one link, counted at both ends. `None`: there is no link, it is not ready for this class, or the
    /// datagram is lost on it.
    fn hop(&mut self, out: PortIx, management: bool) -> Option<PortIx> {
        let peer = self.peer(out).filter(|_| self.is_up(out));
        let Some(peer) = peer.filter(|peer| {
            let (here, there) = (&self.ports[out.index()].info, &self.ports[peer.index()].info);
            management || here.state() == PortState::ACTIVE && there.state() >= PortState::ARMED
        }) else {
            self.ports[out.index()].counters.discards += 1;
            return None;
        };
        let sent = &mut self.ports[out.index()].counters;
        sent.transmit_packets += 1;
        sent.unicast_sent += 1;
        sent.transmit_data += WORDS;
        let loses = self.ports[peer.index()].loses;
        if loses > 0 && self.dice() % 1000 < u64::from(loses) {
            self.ports[peer.index()].counters.receive_errors += 1;
            return None;
        }
        self.pass(peer);
        let got = &mut self.ports[peer.index()].counters;
        got.receive_packets += 1;
        got.unicast_received += 1;
        got.receive_data += WORDS;
        Some(peer)
    }

    /// By the tables of the switches. The port that it arrives at is a host's, or a switch's number 0.
    fn by_lid(&mut self, from: PortIx, to: Lid, management: bool) -> Option<PortIx> {
        let mut at = from;
        if self.has_lid(self.end_port(at), to) {
            return Some(self.end_port(at));
        }
        if self.graph.kind(self.graph.owner(at)) != Kind::Switch {
            at = self.hop(at, management)?;
        }
        // Tables may lead in a loop: a packet ends after as many hops as a directed route has.
        for _ in 0..=MAX_HOPS {
            let end = self.end_port(at);
            if self.has_lid(end, to) {
                return Some(end);
            }
            let node = self.graph.owner(at);
            let switch = self.switches.get(&node)?;
            let out =
                (to.0 <= switch.info.linear_top()).then(|| switch.linear.get(usize::from(to.0)).copied());
            let Some(out) =
                out.flatten().and_then(|number| self.graph.port(node, number)).filter(|out| *out != end)
            else {
                self.ports[at.index()].counters.relay_errors += 1;
                return None;
            };
            at = self.hop(out, management)?;
        }
        None
    }

    fn has_lid(&self, port: PortIx, lid: Lid) -> bool {
        let info = &self.ports[port.index()].info;
        let first = u32::from(info.lid().0);
        let count = 1_u32 << info.mask_control();
        info.lid() != Lid(0) && (first..first + count).contains(&u32::from(lid.0))
    }

    /// By the ports that it carries; first by `lid`, if that is an address, and in the end by the directed
    /// destination, if that is one. The ports that it enters by are written into it.
    fn directed(&mut self, from: PortIx, lid: Lid, mad: &mut Mad) -> Option<PortIx> {
        let header = mad.smp().header();
        if header.hop_pointer() != 0 && !header.returning() {
            return None;
        }
        if header.returning() {
            return self.back(from, mad);
        }
        let path = mad.smp().initial_path()?.to_vec();
        let beyond = header.directed_destination();
        let mut at = from;
        if header.directed_source() != Lid::PERMISSIVE && lid != Lid::PERMISSIVE {
            at = self.by_lid(from, lid, true)?;
        }
        for (hop, out) in (1..).zip(path) {
            at = self.step(at, out, hop == 1)?;
            mad.smp_mut().set_return_port(hop, self.graph.number(at));
        }
        if beyond != Lid::PERMISSIVE { self.by_lid(at, beyond, true) } else { Some(at) }
    }

    /// One hop of a directed route. Only switches pass on what others sent.
    fn step(&mut self, at: PortIx, out: u8, first: bool) -> Option<PortIx> {
        let node = self.graph.owner(at);
        let out = self.graph.port(node, out)?;
        if self.graph.kind(node) != Kind::Switch && (!first || out != at) {
            return None;
        }
        self.hop(out, true)
    }

    /// Back along the ports that were entered by.
    fn back(&mut self, from: PortIx, mad: &Mad) -> Option<PortIx> {
        let path = mad.smp().return_path()?.to_vec();
        let mut at = from;
        for (index, out) in path.iter().rev().enumerate() {
            at = self.step(at, *out, index == 0)?;
        }
        let source = mad.smp().header().directed_source();
        if source != Lid::PERMISSIVE { self.by_lid(at, source, true) } else { Some(at) }
    }

    fn returned(&mut self, port: PortIx, to: PortIx, lid: Lid, mad: &Mad) -> bool {
        let header = mad.smp().header();
        if header.directed_destination() != Lid::PERMISSIVE || lid != Lid::PERMISSIVE {
            // Partly by LID: the path back depends on the tables, which may or may not know the requester's
            // LID.
            return header.directed_source() == Lid::PERMISSIVE
                || self.by_lid(port, header.directed_source(), true).is_some();
        }
        self.back(port, mad).is_some_and(|end| self.graph.owner(end) == self.graph.owner(to))
    }
}
