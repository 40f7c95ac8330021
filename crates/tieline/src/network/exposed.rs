//! What one connection of a peer needs here, and its rails, which peers may ask to be closed and opened again.

use std::net::IpAddr;
use std::sync::{Arc, Weak};

use ofi::provider::RANKS;
use ofi::{Bell, Endpoint, EndpointCard, Opened, OwnerRails, Peer, Task};
use proto::ids::NodeId;
use proto::wire::network::{OwnerEnd, OwnerRail};
use proto::wire::program::{ConnectionId, Imported};

use super::ends::Role;
use super::jobs::Request;
use super::{Network, name_of_rail};

/// See the module.
#[derive(Debug)]
pub(super) struct Exposed {
    what: Imported,
    node: NodeId,
    provider: String,
    /// This host's, one of each rail.
    addresses: Vec<IpAddr>,
    /// `None`: the rail is closed.
    peers: Vec<Option<Peer>>,
    /// Of an interrupt: it is gone with the connection.
    _bell: Option<Bell>,
    /// Of a segment over several rails: what its importer asks, by a doorbell at each end point.
    control: Option<Arc<OwnerRails>>,
    bells: Vec<Option<Bell>>,
}

/// Of each connection, by the thread that serves peers.
pub(super) type AllExposed = std::collections::HashMap<ConnectionId, Exposed>;

fn in_words(error: impl std::fmt::Display) -> String {
    error.to_string()
}

impl Exposed {
    /// The end point of a rail is closed for this connection, too, if it uses it.
    fn leave(&mut self, end_point: &Endpoint) {
        for (nth, peer) in self.peers.iter_mut().enumerate() {
            if peer.as_ref().is_some_and(|peer| peer.is_of(end_point)) {
                *peer = None;
                if let Some(bell) = self.bells.get_mut(nth) {
                    *bell = None;
                }
            }
        }
    }
}

impl Network {
    /// This program's end, for one importer.
    pub(super) fn expose(self: &Arc<Self>, request: &Request) -> Result<(OwnerEnd, Exposed), String> {
        let cards = request.end.rails.iter().map(|rail| EndpointCard::from_bytes(&rail.end_point));
        let cards = cards.collect::<Result<Vec<_>, _>>().map_err(in_words)?;
        let provider = cards.first().map(|card| card.provider.as_str()).ok_or("no end point was named")?;
        // What others name is not opened unless it is one that could have been chosen here.
        if !RANKS.contains(&provider) {
            return Err(format!("provider `{}` is not one that tieline uses", provider.escape_debug()));
        }
        let (addresses, count) = (&request.addresses, cards.len());
        let roles = (Role::OwnerFor(request.node), Role::Owner);
        let end_points = self.ends.of_rails(Some(provider), addresses, count, roles).map_err(in_words)?;
        let (mut rails, mut peers, mut first_bell) = (Vec::new(), Vec::new(), None);
        for (nth, (end_point, card)) in end_points.iter().zip(&cards).enumerate() {
            let (key, bell) = self.open(request.what, end_point)?;
            first_bell = first_bell.or(bell);
            let (name, session) = (name_of_rail(request.node, nth), request.end.rails[nth].session);
            peers.push(Some(end_point.connect(&name, card, session).map_err(in_words)?));
            rails.push(OwnerRail { end_point: end_point.card().map_err(in_words)?.to_bytes(), key });
        }
        let mut exposed = Exposed {
            what: request.what,
            node: request.node,
            provider: provider.to_owned(),
            addresses: addresses.clone(),
            peers,
            _bell: first_bell,
            control: None,
            bells: Vec::new(),
        };
        if let (Imported::Segment(_), [_, _, ..]) = (request.what, &end_points[..]) {
            let control = self.control(request.connection, &exposed.peers);
            for (end_point, rail) in end_points.iter().zip(&mut rails) {
                let bell = answering(end_point, &control)?;
                rail.key.extend(bell.id().to_le_bytes());
                exposed.bells.push(Some(bell));
            }
            exposed.control = Some(control);
        }
        Ok((OwnerEnd { rails }, exposed))
    }

    /// What the importer asks about rails.
    fn control(self: &Arc<Self>, connection: ConnectionId, peers: &[Option<Peer>]) -> Arc<OwnerRails> {
        let fences = peers.iter().flatten().map(Peer::fence).collect();
        let network = Arc::downgrade(self);
        let begin = move |task| {
            if let Some(network) = network.upgrade() {
                network.hand_on_task(connection, task);
            }
        };
        Arc::new(OwnerRails::new(fences, begin))
    }

    /// Carries out what an importer has asked for.
    pub(super) fn carry_out(&self, all: &mut AllExposed, connection: ConnectionId, task: Task) {
        match task {
            Task::Close { rail } => {
                let peer = all.get(&connection).and_then(|exposed| exposed.peers.get(rail)?.as_ref());
                // If there is none, another importer has asked for the same.
                let Some(end_point) = peer.map(Peer::end_point) else { return };
                all.values_mut().for_each(|exposed| exposed.leave(&end_point));
                self.ends.remove(&end_point);
                self.withdraw_from(&end_point);
                // With its last user it is closed, which importers are told when it is done.
                drop(end_point);
            }
            Task::Open { rail, generation, session, end_point } => {
                let Some(exposed) = all.get_mut(&connection) else { return };
                let new = self.open_again(exposed, rail, session, &end_point);
                if let Some(control) = &exposed.control {
                    control.opened(rail, generation, new.ok());
                }
            }
        }
    }

    fn open_again(
        &self,
        exposed: &mut Exposed,
        rail: usize,
        session: u64,
        importer: &EndpointCard,
    ) -> Result<Opened, String> {
        let no_such = || "there is no such rail".to_owned();
        let address = *exposed.addresses.get(rail).ok_or_else(no_such)?;
        let place = exposed.peers.get_mut(rail).ok_or_else(no_such)?;
        let role = if rail == 0 { Role::OwnerFor(exposed.node) } else { Role::Owner };
        let end_point = self.ends.again(&exposed.provider, address, role, None).map_err(in_words)?;
        let control = exposed.control.as_ref().ok_or_else(no_such)?;
        let bell = answering(&end_point, control)?;
        let (key, _) = self.open(exposed.what, &end_point)?;
        let memory = ofi::MemoryCard::from_bytes(&key).map_err(in_words)?;
        let name = name_of_rail(exposed.node, rail);
        let peer = end_point.connect(&name, importer, session).map_err(in_words)?;
        let opened = Opened {
            end_point: end_point.card().map_err(in_words)?,
            memory,
            fence: peer.fence(),
            bell: bell.id(),
        };
        *place = Some(peer);
        if let Some(place) = exposed.bells.get_mut(rail) {
            *place = Some(bell);
        }
        Ok(opened)
    }
}

/// A doorbell that answers what the importer asks about rails.
fn answering(end_point: &Endpoint, control: &Arc<OwnerRails>) -> Result<Bell, String> {
    let asked: Weak<OwnerRails> = Arc::downgrade(control);
    // A connection that is just ending refuses.
    let answer = move |question: &[u8]| asked.upgrade().map_or([u64::MAX; 4], |rails| rails.answer(question));
    end_point.bell_answering(answer).map_err(in_words)
}
