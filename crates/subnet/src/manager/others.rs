//! Other subnet managers: finds them, asks them at an interval, hands over to the one that goes first.

use std::time::Duration;

use fabric::sweep::Found;
use mad::notice::{CapabilityDetails, Notice, trap};
use mad::sm::{SmInfo, attribute, capability};
use mad::values::{Class, Method, SmState};
use mad::windowed::{Done, Limits, Outcome, Windowed};
use mad::{Address, Guid, Layout, Lid, Mad, MadTransport};
use topology::{Kind, NodeIx};

use super::{Event, ManageError, Manager};
use crate::front::Front;
use crate::model::own_port;
use crate::peer::{Peer, Way, control};

/// Between two looks whether to stop.
const TICK: Duration = Duration::from_millis(200);
/// The same while questions are under way, whose responses must not hold up what else comes.
const SHORT_TICK: Duration = Duration::from_millis(10);
/// Questions in a row without a response after which another manager is forgotten: minutes, as it may be
/// behind a cable that comes back.
const FORGOTTEN_AFTER: u32 = 600;

/// Whom a question was sent to.
#[derive(Debug, Clone, Copy)]
pub(super) enum Watched {
    /// A manager that is known.
    Peer(Guid),
    /// Somebody who asked, and may be one.
    Way(Way),
}

impl Manager {
    /// Asks a few, with the patience that managers have with each other.
    pub(super) fn ask_few<K, T: MadTransport + ?Sized>(
        &self,
        transport: &mut T,
        requests: impl Iterator<Item = (K, Address, Mad)>,
        stop: &dyn Fn() -> bool,
    ) -> Result<Vec<(K, Outcome)>, ManageError> {
        let retries = self.options.patience.saturating_sub(1);
        let mut client = Windowed::new(Limits { window: 0, timeout: self.options.poll, retries });
        requests.for_each(|(key, to, mad)| client.ask(to, mad, key));
        let (mut ended, mut done) = (Vec::new(), Vec::new());
        while client.open() > 0 {
            client.drive(transport, TICK, &mut done)?;
            ended.extend(done.drain(..).map(|Done { key, outcome }| (key, outcome)));
            if stop() {
                return Err(ManageError::Stopped);
            }
        }
        Ok(ended)
    }

    /// Asks every port that says that a manager is behind it. What does not fit is added to `notes`.
    pub(super) fn survey<T: MadTransport + ?Sized>(
        &mut self,
        transport: &mut T,
        found: &Found,
        home: NodeIx,
        notes: &mut Vec<String>,
        stop: &dyn Fn() -> bool,
    ) -> Result<Vec<Peer>, ManageError> {
        let (graph, gone) = (&found.graph, self.gone.take());
        let own = own_port(graph, &found.nodes, home);
        let ends = graph.nodes().flat_map(|node| graph.ports(node)).filter(|port| {
            let is_switch = graph.kind(graph.owner(*port)) == Kind::Switch;
            is_switch == (graph.number(*port) == 0) && Some(*port) != own
        });
        let says_so = ends.filter(|port| {
            let is_sm = found.port(*port).is_some_and(|it| it.capability_mask() & capability::IS_SM != 0);
            is_sm && gone.is_none_or(|gone| gone.0 != graph.port_guid(*port))
        });
        let requests = says_so.filter_map(|port| {
            let way = Way::Path(found.node(graph.owner(port))?.path);
            let (to, mad) = way.datagram(Method::GET, 0);
            Some(((port, way), to, mad))
        });
        let mut peers = Vec::new();
        for ((port, way), outcome) in self.ask_few(transport, requests, stop)? {
            let place = fabric::names::place(graph, port);
            let info: SmInfo = match outcome {
                Outcome::Answer(mad) => *mad.data(),
                Outcome::Refused(_, status) => {
                    notes.push(format!("{place} has a subnet manager that does not say its state: {status}"));
                    continue;
                }
                Outcome::Silent | Outcome::Unreachable => {
                    notes.push(format!("{place} has a subnet manager that does not respond to SMInfo"));
                    continue;
                }
            };
            if info.guid().0 != graph.port_guid(port) {
                notes.push(format!("{place} reports another port's subnet manager, {}", info.guid()));
                continue;
            }
            peers.push(Peer::new(&info, self.options.key, way, Lid(graph.lid(port)), place));
        }
        peers.iter().for_each(|peer| drop(self.peers.insert(peer.rank.guid, peer.clone())));
        Ok(peers)
    }

    /// Asks those that were found and those that asked meanwhile once more, right before this one becomes
    /// master: two that start at once may not have seen each other before.
    pub(super) fn second_look<T: MadTransport + ?Sized>(
        &mut self,
        front: &mut Front<'_, T>,
        peers: &mut Vec<Peer>,
        stop: &dyn Fn() -> bool,
    ) -> Result<(), ManageError> {
        let askers = front.desk.take_askers();
        let mut ways: Vec<Way> = peers.iter().map(|peer| peer.way).collect();
        ways.extend(askers.into_iter().filter(|way| !peers.iter().any(|peer| peer.way == *way)));
        let requests = ways.into_iter().map(|way| {
            let (to, mad) = way.datagram(Method::GET, 0);
            (way, to, mad)
        });
        for (way, outcome) in self.ask_few(front, requests, stop)? {
            let Some(info) = outcome.answer().map(|mad| *mad.data::<SmInfo>()) else { continue };
            if info.guid() == front.desk.me.guid || info.guid() == Guid(0) {
                continue;
            }
            let before = peers.iter().position(|peer| peer.rank.guid == info.guid());
            let (lid, place) = before.map_or_else(
                || (Lid(0), info.guid().to_string()),
                |at| (peers[at].lid, peers[at].place.clone()),
            );
            let peer = Peer::new(&info, self.options.key, way, lid, place);
            match before {
                Some(at) => peers[at] = peer,
                None => peers.push(peer),
            }
        }
        Ok(())
    }

    /// As master: asks all that are known, and those that asked.
    pub(super) fn poll_peers<T: MadTransport + ?Sized>(&mut self, front: &mut Front<'_, T>) {
        self.peers.retain(|_, peer| peer.missed < FORGOTTEN_AFTER);
        for peer in self.peers.values() {
            let (to, mad) = peer.next_way().datagram(Method::GET, 0);
            self.watch.ask(to, mad, Watched::Peer(peer.rank.guid));
        }
        for way in front.desk.take_askers() {
            if !self.peers.values().any(|peer| peer.way == way) {
                let (to, mad) = way.datagram(Method::GET, 0);
                self.watch.ask(to, mad, Watched::Way(way));
            }
        }
    }

    /// Waits for at most so long for responses of other managers, or for what the desk keeps.
    pub(super) fn listen<T: MadTransport + ?Sized>(
        &mut self,
        front: &mut Front<'_, T>,
        wait: Duration,
    ) -> Result<Vec<Done<Watched>>, ManageError> {
        let mut done = Vec::new();
        if self.watch.open() > 0 {
            self.watch.drive(front, wait.min(SHORT_TICK), &mut done)?;
        } else {
            front.receive(wait.min(TICK))?;
        }
        Ok(done)
    }

    /// As master: another one responded, or did not.
    pub(super) fn learn_of<T: MadTransport + ?Sized>(
        &mut self,
        front: &mut Front<'_, T>,
        done: &Done<Watched>,
        event: &mut dyn FnMut(Event),
        stop: &dyn Fn() -> bool,
    ) -> Result<(), ManageError> {
        let info = done.outcome.answer().map(|mad| *mad.data::<SmInfo>());
        let guid = match (done.key, info) {
            (Watched::Peer(guid), Some(info)) if info.guid() == guid => guid,
            (Watched::Peer(guid), _) => {
                self.missed(guid);
                return Ok(());
            }
            (Watched::Way(_), Some(info)) => info.guid(),
            (Watched::Way(_), None) => return Ok(()),
        };
        let Some(info) = info.filter(|_| guid != front.desk.me.guid && guid != Guid(0)) else {
            return Ok(());
        };
        let known = self.peers.get(&guid);
        let way = match done.key {
            Watched::Way(way) => way,
            Watched::Peer(_) => known.map_or(Way::Lid(Lid(0)), |peer| peer.way),
        };
        let (place, lid) = match known {
            Some(peer) => (peer.place.clone(), peer.lid),
            None => self.place_of(guid),
        };
        let peer = Peer::new(&info, self.options.key, way, lid, place);
        self.peers.insert(guid, peer.clone());
        self.consider(front, peer, event, stop)
    }

    fn place_of(&self, guid: Guid) -> (String, Lid) {
        let model = self.subnet.as_ref().map(|subnet| &subnet.model);
        let port = model.and_then(|model| model.end_port(guid).map(|port| (model, port)));
        port.map_or_else(
            || (guid.to_string(), Lid(0)),
            |(model, port)| {
                let lid = Lid(model.lids.base(port).unwrap_or(0));
                (fabric::names::place(&model.whole, port), lid)
            },
        )
    }

    fn missed(&mut self, guid: Guid) {
        let Some(peer) = self.peers.get_mut(&guid) else { return };
        peer.missed = peer.missed.saturating_add(1);
        if self.waiting == Some(guid) && peer.missed >= self.options.patience {
            self.waiting = None;
            self.need.get_or_insert(format!("{}, which was to hand over, does not respond", peer.place));
        }
    }

    /// As master: what another one's state means.
    fn consider<T: MadTransport + ?Sized>(
        &mut self,
        front: &mut Front<'_, T>,
        peer: Peer,
        event: &mut dyn FnMut(Event),
        stop: &dyn Fn() -> bool,
    ) -> Result<(), ManageError> {
        let goes_first = peer.rank.outranks(&front.desk.me.rank());
        match peer.state {
            _ if !peer.trusted => {}
            SmState::MASTER | SmState::STANDBY if goes_first => {
                self.hand_over(front, peer, event, stop)?;
            }
            SmState::MASTER => self.wait_for(front, &peer, event)?,
            _ if self.waiting == Some(peer.rank.guid) => {
                self.waiting = None;
                self.need.get_or_insert(format!("{} is no longer master", peer.place));
            }
            _ => {}
        }
        Ok(())
    }

    /// Another master goes after this one, and is to hand over: until then nothing is set anew.
    pub(super) fn wait_for<T: MadTransport + ?Sized>(
        &mut self,
        front: &mut Front<'_, T>,
        peer: &Peer,
        event: &mut dyn FnMut(Event),
    ) -> Result<(), ManageError> {
        if self.waiting != Some(peer.rank.guid) {
            self.waiting = Some(peer.rank.guid);
            event(Event::Role {
                state: SmState::MASTER,
                why: format!("{} is master, too: it is to hand over", peer.words()),
            });
        }
        self.remind(front, peer)
    }

    /// Tells another master that there is one that goes first: by trap 144 with the mark that a priority
    /// changed (InfiniBand Architecture Specification, volume 1, 13.4.8).
    pub(super) fn remind<T: MadTransport + ?Sized>(
        &mut self,
        front: &mut Front<'_, T>,
        peer: &Peer,
    ) -> Result<(), ManageError> {
        let own = self.own_lid;
        if !own.is_unicast() || !peer.lid.is_unicast() {
            return Ok(());
        }
        let mut details = CapabilityDetails::default();
        details.set_lid(own).set_other_changes(true).set_priority_change(true);
        details.set_capability_mask(capability::IS_SM);
        let mut mad = Mad::new(Class::SUBNET, Method::TRAP, attribute::NOTICE, 0);
        mad.data_mut::<Notice>()
            .set_generic(true)
            .set_severity(4)
            .set_producer(1)
            .set_number(trap::CAPABILITY)
            .set_issuer(own)
            .set_details(&details_of(&details));
        mad.header_mut().set_transaction(front.now().as_nanos() as u32 as u64);
        Ok(front.send_soon(&Address::management(peer.lid), &mad)?)
    }

    /// Hands over to another manager. True: it accepted, and this one stands by.
    pub(super) fn hand_over<T: MadTransport + ?Sized>(
        &mut self,
        front: &mut Front<'_, T>,
        peer: Peer,
        event: &mut dyn FnMut(Event),
        stop: &dyn Fn() -> bool,
    ) -> Result<bool, ManageError> {
        let (to, mut mad) = peer.way.datagram(Method::SET, control::HANDOVER);
        *mad.data_mut() = front.desk.me.info();
        let outcomes = self.ask_few(front, std::iter::once(((), to, mad)), stop)?;
        if !outcomes.iter().any(|(_, outcome)| outcome.answer().is_some()) {
            self.missed(peer.rank.guid);
            return Ok(false);
        }
        let why = format!("handed over to {}", peer.words());
        self.become_standby(front, peer, why, event);
        Ok(true)
    }

    /// The one that handed over is told that this was heard. It does not wait for that.
    pub(super) fn acknowledge<T: MadTransport + ?Sized>(
        front: &mut Front<'_, T>,
        by: Option<Way>,
    ) -> Result<(), ManageError> {
        let Some(way) = by else { return Ok(()) };
        let (to, mut mad) = way.datagram(Method::SET, control::ACKNOWLEDGE);
        let mut info = front.desk.me.info();
        info.set_state(SmState::STANDBY);
        *mad.data_mut() = info;
        mad.header_mut().set_transaction(front.now().as_nanos() as u32 as u64);
        Ok(front.send_soon(&to, &mad)?)
    }
}

/// A structure's bytes, as the details of a notice.
fn details_of<D: Layout>(details: &D) -> [u8; 54] {
    let mut bytes = [0; 54];
    let own = details.as_bytes();
    let len = own.len().min(bytes.len());
    bytes[..len].copy_from_slice(&own[..len]);
    bytes
}
