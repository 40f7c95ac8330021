//! Connections between programs on different hosts: each learns the other's end of the link by way of their
//! managers.
//!
//! The importer's manager passes its program's end on. The owner's manager enters the connection as any
//! other, asks the owner for its end, and keeps the reply back until that has answered. Data does not pass
//! through either of them.

use std::time::Duration;

use super::exports::Grant;
use super::pending::Aim;
use super::requests::Answer;
use super::{Manager, ProgramConn, Timer};
use crate::ids::NodeId;
use crate::wire::network::{ImporterEnd, OwnerEnd};
use crate::wire::peer::{PeerMessage, PeerReply, PeerRequest, Requester};
use crate::wire::program::{ConnectionId, Event, Imported, Incarnation, Refusal, Reply, RequestId};

/// A reply that waits for the owner.
#[derive(Debug)]
pub(super) struct OwnerAsked {
    pub(super) importer: NodeId,
    /// The request of the importer's manager.
    id: RequestId,
    size_bytes: u64,
    incarnation: Incarnation,
}

impl Manager {
    /// Whether a node is on another host, as far as is known.
    pub(super) fn is_elsewhere(&self, node: NodeId) -> bool {
        self.peers.get(&node).is_some_and(|peer| peer.elsewhere)
    }

    /// A program of this node connects to an object on another host.
    pub(super) fn connect_by_network(
        &mut self,
        program: ProgramConn,
        id: RequestId,
        node: NodeId,
        what: Imported,
        end: ImporterEnd,
    ) -> Answer {
        self.check_import_limit(program)?;
        self.check_carrier(node)?;
        let node = self.at_the_end(node);
        self.check_not_revoked(node, what)?;
        if !end.is_bounded() {
            return Err(Refusal::Invalid("the address of the end point is too long".to_owned()));
        }
        if node == self.own || !self.is_elsewhere(node) && self.check_reachable(node).is_ok() {
            return Err(Refusal::Invalid(format!("node {node} is on this host: connect without a network")));
        }
        self.check_reachable(node)?;
        self.check_pending(program)?;
        match self.via(node) {
            Some(relay) => self.relay_importer(relay, (program, id), (what, node), end)?,
            None => self.ask_exporter(program, id, (what, node), end),
        }
        Ok(None)
    }

    pub(super) fn ask_exporter(
        &mut self,
        program: ProgramConn,
        id: RequestId,
        (what, node): (Imported, NodeId),
        end: ImporterEnd,
    ) {
        let requester = self.requester(program);
        let body = PeerRequest::ConnectByNetwork { what, requester, end };
        self.ask(node, Aim::Connect { program, id, what }, body, Vec::new());
    }

    /// A manager on another host asks for an object of this node: its owner is asked first.
    pub(super) fn wanted_by_network(
        &mut self,
        node: NodeId,
        id: RequestId,
        what: Imported,
        requester: &Requester,
        end: ImporterEnd,
    ) {
        let granted = self.check_network(node, &end).and_then(|()| self.grant(what, node, requester, None));
        let granted = granted.and_then(|grant| self.ask_owner(node, id, &grant, end));
        if let Err(refusal) = granted {
            self.send_peer(node, PeerMessage::Reply { id, result: Err(refusal) }, Vec::new());
        }
    }

    fn check_network(&self, node: NodeId, end: &ImporterEnd) -> Result<(), Refusal> {
        if !self.is_elsewhere(node) {
            return Err(Refusal::Invalid(format!(
                "node {node} is on the same host: connect without a network"
            )));
        }
        if !end.is_bounded() {
            return Err(Refusal::Invalid("the address of the end point is too long".to_owned()));
        }
        Ok(())
    }

    /// An object of this node that cannot be reached from another host.
    pub(super) fn no_data_link(&self, what: Imported, why: &str) -> Refusal {
        let (what, host, why) = (what.to_string(), self.config.info.host.clone(), why.to_owned());
        Refusal::NoDataLink { what, node: self.own, host, why }
    }

    fn ask_owner(
        &mut self,
        importer: NodeId,
        id: RequestId,
        grant: &Grant,
        end: ImporterEnd,
    ) -> Result<(), Refusal> {
        let what = grant.shown.what;
        let connection = grant.shown.connection;
        let size_bytes = match grant.body {
            PeerReply::Segment { size_bytes, .. } => size_bytes,
            _ => 0,
        };
        let Some(owner) = self.objects.get(&what).map(|object| object.owner) else {
            return Err(Refusal::NotFound { what: what.to_string(), node: self.own });
        };
        let incarnation = grant.shown.incarnation;
        self.owners_asked.insert(connection, OwnerAsked { importer, id, size_bytes, incarnation });
        self.timers.set(Timer::OwnerAsked(connection), self.now + self.owner_limit());
        let addresses = self.config.info.rails.clone();
        self.event(
            owner,
            Event::WantedByNetwork { what, node: importer, connection, end, addresses },
            Vec::new(),
        );
        Ok(())
    }

    /// Shorter than the importer's manager waits.
    fn owner_limit(&self) -> Duration {
        self.config.heartbeat_limit + self.config.resume_grace
    }

    /// The owner says how it is reached, or that it is not.
    pub(super) fn answer_by_network(
        &mut self,
        program: ProgramConn,
        connection: ConnectionId,
        end: Result<OwnerEnd, String>,
    ) -> Result<Reply, Refusal> {
        let what = self.exports.by_id.get(&connection).map(|export| export.what);
        let object = what.and_then(|what| self.objects.get(&what));
        let is_its_own = object.is_some_and(|object| object.owner == program);
        let (Some(what), true, true) = (what, is_its_own, self.owners_asked.contains_key(&connection)) else {
            let what = format!("connection {} of another host", connection.0);
            return Err(Refusal::NotFound { what, node: self.own });
        };
        match end {
            Ok(end) if end.is_bounded() => {
                let importer = self.owners_asked.get(&connection).map(|asked| asked.importer);
                match importer.and_then(|importer| Some((importer, self.via(importer)?))) {
                    Some((importer, relay)) => self.relay_owner(relay, importer, connection, end),
                    None => self.tell_importer(connection, end),
                }
            }
            Ok(_) => self.not_reached(what, connection, "its owner has an address that is too long"),
            Err(why) => self.not_reached(what, connection, &format!("its owner has no link for data: {why}")),
        }
        Ok(Reply::Done)
    }

    /// The importer's manager learns how the owner is reached.
    pub(super) fn tell_importer(&mut self, connection: ConnectionId, end: OwnerEnd) {
        let Some(asked) = self.forget_asked(connection) else { return };
        let OwnerAsked { importer, id, size_bytes, incarnation } = asked;
        let result = Ok(PeerReply::ByNetwork { connection, size_bytes, incarnation, end });
        self.send_peer(importer, PeerMessage::Reply { id, result }, Vec::new());
    }

    /// Refuses what was entered, and tells the owner that it is over.
    pub(super) fn not_reached(&mut self, what: Imported, connection: ConnectionId, why: &str) {
        let refusal = self.no_data_link(what, why);
        self.refuse_asked(connection, refusal);
        self.drop_export(connection, false);
    }

    pub(super) fn owner_silent(&mut self, connection: ConnectionId) {
        let Some(what) = self.exports.by_id.get(&connection).map(|export| export.what) else { return };
        self.refuse_asked(connection, Refusal::OwnerBusy { what: what.to_string(), node: self.own });
        self.drop_export(connection, false);
    }

    fn forget_asked(&mut self, connection: ConnectionId) -> Option<OwnerAsked> {
        self.timers.clear(Timer::OwnerAsked(connection));
        self.owners_asked.remove(&connection)
    }

    /// The manager that has asked is another by now, or has given up: it does not resume the connection,
    /// which ends with that.
    pub(super) fn forget_asked_for(&mut self, node: NodeId) {
        let its = self.owners_asked.iter().filter(|(_, asked)| asked.importer == node);
        for connection in its.map(|(connection, _)| *connection).collect::<Vec<_>>() {
            self.forget_asked(connection);
        }
    }

    /// The connection ends before its owner has answered.
    pub(super) fn refuse_asked(&mut self, connection: ConnectionId, refusal: Refusal) {
        if let Some(asked) = self.forget_asked(connection) {
            let message = PeerMessage::Reply { id: asked.id, result: Err(refusal) };
            self.send_peer(asked.importer, message, Vec::new());
        }
    }
}
