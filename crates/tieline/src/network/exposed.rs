//! The objects of this program that one connection of a peer uses, and its rails, which the peer may ask to
//! be closed and opened again.

use std::net::IpAddr;
use std::sync::Arc;

use ofi::provider::RANKS;
use ofi::{ANSWER_WORDS, Bell, Endpoint, EndpointCard, Exported, Opened, OwnerRails, Peer, Task};
use proto::ids::NodeId;
use proto::wire::network::{OwnerEnd, OwnerRail};
use proto::wire::program::{ConnectionId, Imported};

use super::ends::Role;
use super::jobs::Request;
use super::retired::Retired;
use super::{Doorbell, Network, name_of_rail};

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
    /// Over several rails: what the importer asks, by a doorbell at each end point.
    control: Option<Arc<OwnerRails>>,
    /// They are gone with the connection.
    bells: Vec<Option<Bell>>,
}

/// Of each connection, by the thread that serves peers.
pub(super) type AllExposed = std::collections::HashMap<ConnectionId, Exposed>;

fn in_words(error: impl std::fmt::Display) -> String {
    error.to_string()
}

impl Exposed {
    /// What the importer asks about rails; `None`: there is only one.
    pub(super) fn answer(&self, question: &[u8]) -> Option<[u64; ANSWER_WORDS]> {
        Some(self.control.as_ref()?.answer(question))
    }

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
        let roles = [0, 1].map(|rail| role_of(request.what, request.node, rail));
        let end_points = self.ends.of_rails(Some(provider), addresses, count, roles.into());
        let end_points = end_points.map_err(in_words)?;
        let mut peers = Vec::new();
        for (nth, (end_point, card)) in end_points.iter().zip(&cards).enumerate() {
            let (name, session) = (name_of_rail(request.node, nth), request.end.rails[nth].session);
            peers.push(Some(end_point.connect(&name, card, session).map_err(in_words)?));
        }
        let is_several = end_points.len() > 1;
        let control = if is_several { Some(self.control(request, &peers)?) } else { None };
        let (mut rails, mut bells) = (Vec::new(), Vec::new());
        for end_point in &end_points {
            let (key, bell) = self.key(request.what, end_point, control.as_ref())?;
            rails.push(OwnerRail { end_point: end_point.card().map_err(in_words)?.to_bytes(), key });
            bells.push(bell);
        }
        let exposed = Exposed {
            what: request.what,
            node: request.node,
            provider: provider.to_owned(),
            addresses: addresses.clone(),
            peers,
            control,
            bells,
        };
        Ok((OwnerEnd { rails }, exposed))
    }

    /// What opens the object over an end point, and the doorbell there, if it has one.
    fn key(
        &self,
        what: Imported,
        end_point: &Endpoint,
        control: Option<&Arc<OwnerRails>>,
    ) -> Result<(Vec<u8>, Option<Bell>), String> {
        let Some(control) = control else { return self.open(what, end_point) };
        let bell = end_point.bell_numbered(control).map_err(in_words)?;
        let key = match what {
            Imported::Segment(_) => {
                [self.open(what, end_point)?.0, bell.id().to_le_bytes().to_vec()].concat()
            }
            Imported::Interrupt(_) => {
                let message_bytes = self.triggered(what)?.message_bytes();
                Doorbell { id: bell.id(), message_bytes, is_numbered: true }.to_bytes()
            }
        };
        Ok((key, Some(bell)))
    }

    /// What the importer asks about rails; of an interrupt also what it sends.
    fn control(
        self: &Arc<Self>,
        request: &Request,
        peers: &[Option<Peer>],
    ) -> Result<Arc<OwnerRails>, String> {
        let (network, connection) = (Arc::downgrade(self), request.connection);
        let begin = move |task| {
            if let Some(network) = network.upgrade() {
                network.hand_on_task(connection, task);
            }
        };
        Ok(Arc::new(match request.what {
            Imported::Segment(_) => OwnerRails::new(peers.iter().flatten().map(Peer::fence).collect(), begin),
            Imported::Interrupt(_) => {
                OwnerRails::with_inbox(peers.len(), self.triggered(request.what)?.inbox(), begin)
            }
        }))
    }

    /// Carries out what an importer has asked for.
    pub(super) fn carry_out(
        &self,
        all: &mut AllExposed,
        retired: &mut Retired<Exported>,
        connection: ConnectionId,
        task: Task,
    ) {
        match task {
            Task::Close { rail } => {
                let peer = all.get(&connection).and_then(|exposed| exposed.peers.get(rail)?.as_ref());
                // If there is none, another importer has asked for the same.
                let Some(end_point) = peer.map(Peer::end_point) else { return };
                all.values_mut().for_each(|exposed| exposed.leave(&end_point));
                self.ends.remove(&end_point);
                self.withdraw_from(&end_point);
                retired.remove_if(|exported| exported.is_of(&end_point));
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
        let role = role_of(exposed.what, exposed.node, rail);
        let end_point = self.ends.again(&exposed.provider, address, role, None).map_err(in_words)?;
        let control = exposed.control.as_ref().ok_or_else(no_such)?;
        let bell = end_point.bell_numbered(control).map_err(in_words)?;
        let memory = match exposed.what {
            Imported::Segment(_) => {
                let (key, _) = self.open(exposed.what, &end_point)?;
                Some(ofi::MemoryCard::from_bytes(&key).map_err(in_words)?)
            }
            Imported::Interrupt(_) => None,
        };
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

/// Which end point leads to an object over a rail.
fn role_of(what: Imported, importer: NodeId, rail: usize) -> Role {
    match what {
        Imported::Interrupt(_) => Role::Both,
        Imported::Segment(_) if rail == 0 => Role::OwnerFor(importer),
        Imported::Segment(_) => Role::Owner,
    }
}
