//! Connections of programs through a relay: each side has the end point of its own program forwarded, and
//! sends the relay's address in place of that of the end point. One rail is used.

use std::collections::BTreeMap;

use super::pending::Aim;
use super::relay_needs::Need;
use super::{Manager, ProgramConn};
use crate::ids::NodeId;
use crate::wire::network::{ImporterEnd, OwnerEnd};
use crate::wire::peer::{PeerReply, PeerRequest};
use crate::wire::program::{ConnectionId, Imported, Refusal, RequestId};
use crate::wire::relay::{Forward, address_of, with_address};

/// An end that waits for a relay's answer.
#[derive(Debug)]
pub(super) enum HeldEnd {
    Importer(ImporterEnd),
    Owner(OwnerEnd),
}

/// Those that wait, by the request to the relay.
#[derive(Debug, Default)]
pub(super) struct HeldEnds(BTreeMap<RequestId, HeldEnd>);

impl HeldEnds {
    pub(super) fn forget(&mut self, id: RequestId) {
        self.0.remove(&id);
    }

    pub(super) fn take(&mut self, id: RequestId, may: bool) -> Option<HeldEnd> {
        may.then(|| self.0.remove(&id)).flatten()
    }
}

/// A way from a node to this end point.
fn forward(from: NodeId, end_point: Option<&Vec<u8>>) -> Result<Forward, &'static str> {
    let at = address_of(end_point.map(Vec::as_slice).unwrap_or_default())?;
    Ok(Forward::EndPoint { from, at })
}

/// Where the relay listens, in place of the end point.
fn replace(
    relay: NodeId,
    end_point: Option<&mut Vec<u8>>,
    result: Result<PeerReply, Refusal>,
) -> Result<(), String> {
    let at = match result {
        Ok(PeerReply::Relay { at }) => at,
        Ok(_) => return Err("its manager sent a reply of another kind".to_owned()),
        Err(refusal) => return Err(refusal.to_string()),
    };
    let other = end_point.and_then(|card| Some((with_address(card, at)?, card)));
    let (other, card) = other.ok_or_else(|| {
        format!("node {relay} listens at {at}, an address of another family: give the hosts addresses of one")
    })?;
    *card = other;
    Ok(())
}

impl Manager {
    /// A program connects: first its own end point has to be reached from there.
    pub(super) fn relay_importer(
        &mut self,
        relay: NodeId,
        (program, id): (ProgramConn, RequestId),
        (what, to): (Imported, NodeId),
        mut end: ImporterEnd,
    ) -> Result<(), Refusal> {
        if let Err(refusal) = self.check_reachable(relay) {
            self.leave_silent_relay(relay, to);
            return Err(refusal);
        }
        end.rails.truncate(1);
        let forward = forward(to, end.rails.first().map(|rail| &rail.end_point));
        let forward = forward.map_err(|why| self.not_relayed(what, to, relay, why))?;
        self.need_forward(program, (relay, forward))?;
        let aim = Aim::RelayImporter { program, id, what, to };
        let id = self.ask(relay, aim, PeerRequest::Relay { forward }, Vec::new());
        self.held_ends.0.insert(id, HeldEnd::Importer(end));
        Ok(())
    }

    /// A refusal for a program of this node.
    fn not_relayed(&self, what: Imported, node: NodeId, relay: NodeId, why: &str) -> Refusal {
        let host = self.peers.get(&node).map(|peer| peer.session.host().to_owned()).unwrap_or_default();
        let why = format!("it is reached by way of node {relay}, which does not forward this: {why}");
        Refusal::NoDataLink { what: what.to_string(), node, host, why }
    }

    pub(super) fn importer_relayed(
        &mut self,
        relay: NodeId,
        (program, id): (ProgramConn, RequestId),
        (what, to): (Imported, NodeId),
        held: Option<HeldEnd>,
        result: Result<PeerReply, Refusal>,
    ) {
        let Some(HeldEnd::Importer(mut end)) = held else { return };
        let card = end.rails.first_mut().map(|rail| &mut rail.end_point);
        let replaced = replace(relay, card, result).map_err(|why| self.not_relayed(what, to, relay, &why));
        // The session may have gone meanwhile.
        match replaced.and_then(|()| self.check_reachable(to)) {
            Ok(()) => self.ask_exporter(program, id, (what, to), end),
            Err(refusal) => self.reply(program, id, Err(refusal), Vec::new()),
        }
    }

    /// An owner has answered: its end point has to be reached from the importer's node.
    pub(super) fn relay_owner(
        &mut self,
        relay: NodeId,
        importer: NodeId,
        connection: ConnectionId,
        mut end: OwnerEnd,
    ) {
        end.rails.truncate(1);
        let forward = forward(importer, end.rails.first().map(|rail| &rail.end_point));
        let forward = forward.map_err(str::to_owned).and_then(|forward| {
            let needed =
                self.check_reachable(relay).and_then(|()| self.owner_needs(connection, (relay, forward)));
            needed.map(|()| forward).map_err(|refusal| refusal.to_string())
        });
        match forward {
            Ok(forward) => {
                let body = PeerRequest::Relay { forward };
                let id = self.ask(relay, Aim::RelayOwner { connection }, body, Vec::new());
                self.held_ends.0.insert(id, HeldEnd::Owner(end));
            }
            Err(why) => self.owner_not_relayed(connection, relay, &why),
        }
    }

    fn owner_needs(&mut self, connection: ConnectionId, need: Need) -> Result<(), Refusal> {
        let what = self.exports.by_id.get(&connection).map(|export| export.what);
        match what.and_then(|what| self.objects.get(&what)).map(|object| object.owner) {
            Some(owner) => self.need_forward(owner, need),
            None => Ok(()),
        }
    }

    pub(super) fn owner_relayed(
        &mut self,
        relay: NodeId,
        connection: ConnectionId,
        held: Option<HeldEnd>,
        result: Result<PeerReply, Refusal>,
    ) {
        let Some(HeldEnd::Owner(mut end)) = held else { return };
        match replace(relay, end.rails.first_mut().map(|rail| &mut rail.end_point), result) {
            Ok(()) => self.tell_importer(connection, end),
            Err(why) => self.owner_not_relayed(connection, relay, &why),
        }
    }

    /// The session with the relay was lost.
    pub(super) fn relay_lost(&mut self, connection: ConnectionId, relay: NodeId) {
        self.owner_not_relayed(connection, relay, "the session with it was lost");
    }

    fn owner_not_relayed(&mut self, connection: ConnectionId, relay: NodeId, why: &str) {
        if let Some(what) = self.exports.by_id.get(&connection).map(|export| export.what)
            && self.owners_asked.contains_key(&connection)
        {
            let why = format!("it is reached by way of node {relay}, which does not forward this: {why}");
            self.not_reached(what, connection, &why);
        }
    }
}
