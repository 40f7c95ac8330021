//! Connections to objects of this node.

use std::collections::{BTreeMap, BTreeSet};

use super::imports::Shown;
use super::objects::{Body, limit};
use super::programs::allowed;
use super::{FdToken, Manager};
use crate::ids::NodeId;
use crate::wire::peer::{PeerReply, Requester};
use crate::wire::program::{ConnectionId, Event, Imported, Importer, LossReason, Refusal};

/// Connections to all objects of this node, of all nodes.
const MAX_EXPORTS: usize = 1 << 18;
const SEQUENCE_MASK: u64 = (1 << 48) - 1;

/// All connections given out, and the numbers for new ones.
#[derive(Debug)]
pub(super) struct Exports {
    pub(super) by_id: BTreeMap<ConnectionId, Export>,
    /// Where the sequence of this manager's life starts.
    start: u64,
    issued: u64,
}

/// One connection.
#[derive(Debug)]
pub(super) struct Export {
    pub(super) what: Imported,
    /// Whose program connected; this node's own included.
    pub(super) importer: NodeId,
    /// The number that it holds at an interrupt.
    pub(super) producer: Option<u16>,
    /// The importer that it was made for: no other can resume it.
    pub(super) by: Importer,
}

/// A connection that was just given out.
#[derive(Debug)]
pub(super) struct Grant {
    pub(super) shown: Shown,
    pub(super) body: PeerReply,
    pub(super) tokens: Vec<FdToken>,
}

impl Exports {
    pub(super) fn new(drawn: u64) -> Self {
        Self { by_id: BTreeMap::new(), start: (drawn >> 16) & SEQUENCE_MASK, issued: 0 }
    }

    /// A number that was never used, neither in this life nor (as far as known) before.
    fn issue(&mut self, producer: u16) -> ConnectionId {
        loop {
            let sequence = self.start.wrapping_add(self.issued) & SEQUENCE_MASK;
            self.issued += 1;
            let id = ConnectionId(sequence << 16 | u64::from(producer));
            if !self.by_id.contains_key(&id) {
                return id;
            }
        }
    }

    /// Whether this manager gave the number out in its present life.
    pub(super) fn was_ours(&self, connection: ConnectionId) -> bool {
        (connection.0 >> 16).wrapping_sub(self.start) & SEQUENCE_MASK < self.issued
    }
}

/// The producer's number that a connection number carries; of a segment: whether it is attached to.
pub(super) fn producer_of(connection: ConnectionId) -> u16 {
    u16::try_from(connection.0 & 0xffff).unwrap_or(0)
}

impl Manager {
    /// Connects an importer to an object of this node, if that is permitted, and tells its owner.
    /// `pidfd` is the connecting program's; it remains the caller's.
    pub(super) fn grant(
        &mut self,
        what: Imported,
        importer: NodeId,
        requester: &Requester,
        pidfd: Option<FdToken>,
    ) -> Result<Grant, Refusal> {
        self.check_access(what, requester)?;
        self.check_export_limit(importer)?;
        let (in_grace, crowded) = (self.in_grace(), self.is_owner_crowded(what));
        let not_available = Refusal::NotAvailable { what: what.to_string(), node: self.own };
        let Some(object) = self.objects.get_mut(&what) else { return Err(not_available) };
        let settling = object.reattached && object.is_data_interrupt() && in_grace;
        if !object.available() || settling {
            return Err(not_available);
        }
        // Others decide how often they connect: what waits for a program that is stopped must not grow with
        // it.
        if crowded {
            return Err(Refusal::OwnerBusy { what: what.to_string(), node: self.own });
        }
        let producer = match &mut object.body {
            Body::Segment { .. } => None,
            Body::Interrupt { producers, next_producer, .. } => {
                let number = free_producer(producers, *next_producer)
                    .ok_or_else(|| limit(&format!("producers of {what}"), 1 << 16))?;
                producers.insert(number);
                *next_producer = number.wrapping_add(1);
                Some(number)
            }
        };
        self.hand_out(
            Export { what, importer, producer, by: requester.importer() },
            producer.unwrap_or(0),
            pidfd,
        )
    }

    /// Enters a new connection, whose number carries `low`, and tells the owner.
    pub(super) fn hand_out(
        &mut self,
        export: Export,
        low: u16,
        pidfd: Option<FdToken>,
    ) -> Result<Grant, Refusal> {
        let (what, producer) = (export.what, export.producer);
        let not_found = Refusal::NotFound { what: what.to_string(), node: self.own };
        let Some(object) = self.objects.get_mut(&what) else { return Err(not_found) };
        let connection = self.exports.issue(low);
        object.exports.insert(connection);
        let (incarnation, tokens) = (object.incarnation, object.tokens());
        let body = match object.body {
            Body::Segment { size_bytes, .. } => PeerReply::Segment { connection, size_bytes, incarnation },
            Body::Interrupt { kind, event, .. } => PeerReply::Interrupt {
                connection,
                incarnation,
                kind,
                producer: producer.unwrap_or(0),
                pollable: event.is_some(),
            },
        };
        self.insert_export(connection, export);
        self.counters.connections += 1;
        self.announce_connection(connection, pidfd);
        Ok(Grant { shown: Shown { connection, incarnation, what }, body, tokens })
    }

    /// Much waits for the owner of this object: others must not add to it.
    pub(super) fn is_owner_crowded(&self, what: Imported) -> bool {
        let owner = self.objects.get(&what).and_then(|object| self.programs.get(&object.owner));
        owner.is_some_and(|owner| owner.crowded)
    }

    /// Tells an owner which program has connected.
    pub(super) fn announce_connection(&mut self, connection: ConnectionId, pidfd: Option<FdToken>) {
        let Some(export) = self.exports.by_id.get(&connection) else { return };
        let Some(object) = self.objects.get(&export.what) else { return };
        let beside = pidfd.filter(|_| object.is_data_interrupt()).into_iter().collect();
        let event = Event::Connected {
            what: export.what,
            node: export.importer,
            connection,
            producer: producer_of(connection),
            importer: export.by,
        };
        self.event(object.owner, event, beside);
    }

    /// The object is there and the requester may have it.
    pub(super) fn check_access(&self, what: Imported, requester: &Requester) -> Result<(), Refusal> {
        let object = self.objects.get(&what);
        let object = object.ok_or_else(|| Refusal::NotFound { what: what.to_string(), node: self.own })?;
        let owner_uid = self.programs.get(&object.owner).map_or(0, |owner| owner.credentials.uid);
        // Not even root's: it would trust the owner with its life.
        let foreign_huge =
            matches!(object.body, Body::Segment { huge: true, .. }) && requester.uid != owner_uid;
        if !foreign_huge && allowed(&object.access, owner_uid, requester.uid, &requester.gids) {
            return Ok(());
        }
        Err(Refusal::Denied { what: format!("connect to {what} on node {}", self.own), uid: requester.uid })
    }

    /// One node does not take the places of all others, nor the memory of this one's programs.
    pub(super) fn check_export_limit(&self, importer: NodeId) -> Result<(), Refusal> {
        let of_node = self.peers.get(&importer).map_or(0, |peer| peer.exports.len() as u64);
        let most = self.config.limits.exports_of_node;
        if of_node >= most {
            let what = format!("connections of node {importer} to objects of node {}", self.own);
            return Err(limit(&what, most));
        }
        if self.exports.by_id.len() >= MAX_EXPORTS {
            let what = format!("connections to objects of node {}", self.own);
            return Err(limit(&what, MAX_EXPORTS as u64));
        }
        Ok(())
    }

    /// Enters a connection (its object's own entries are made by the caller).
    pub(super) fn insert_export(&mut self, connection: ConnectionId, export: Export) {
        if export.importer != self.own {
            let importer = export.importer;
            self.peer_entry(importer).exports.insert(connection);
        }
        self.exports.by_id.insert(connection, export);
    }

    /// Takes a connection out of all tables of the exporter's side.
    fn take_export(&mut self, connection: ConnectionId) -> Option<Export> {
        let export = self.exports.by_id.remove(&connection)?;
        let not_available = Refusal::NotAvailable { what: export.what.to_string(), node: self.own };
        self.refuse_asked(connection, not_available);
        self.refuse_question(connection, true);
        if let Some(object) = self.objects.get_mut(&export.what) {
            object.exports.remove(&connection);
            if let (Body::Interrupt { producers, .. }, Some(producer)) = (&mut object.body, export.producer) {
                producers.remove(&producer);
            }
        }
        if export.importer == self.own {
            self.local_unconfirmed.remove(&connection);
        } else if let Some(peer) = self.peers.get_mut(&export.importer) {
            peer.exports.remove(&connection);
            peer.unconfirmed.remove(&connection);
        }
        Some(export)
    }

    /// The exporter's side ends a connection: its importer is told, now or when its session returns.
    pub(super) fn end_export(&mut self, connection: ConnectionId, reason: LossReason) {
        let Some(export) = self.take_export(connection) else { return };
        if export.importer == self.own {
            if let Some(import) = self.imports.find(self.own, connection) {
                self.end_import(import, reason);
            }
        } else {
            self.tell_lost(export.importer, connection, reason);
        }
    }

    /// The importer's side ended a connection (or is gone): the owner is told.
    pub(super) fn drop_export(&mut self, connection: ConnectionId, died: bool) {
        let Some(export) = self.take_export(connection) else { return };
        let Some(object) = self.objects.get(&export.what) else { return };
        let event = Event::Disconnected { what: export.what, node: export.importer, connection, died };
        self.event(object.owner, event, Vec::new());
    }
}

/// The next free number from `next` on.
fn free_producer(taken: &BTreeSet<u16>, next: u16) -> Option<u16> {
    if taken.len() > usize::from(u16::MAX) {
        return None;
    }
    let mut number = next;
    while taken.contains(&number) {
        number = number.wrapping_add(1);
    }
    Some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_go_up_round_and_are_used_again_only_when_free() {
        let mut taken = BTreeSet::from([0, 1, 3]);
        assert_eq!(free_producer(&taken, 0), Some(2));
        assert_eq!(free_producer(&taken, 3), Some(4));
        assert_eq!(free_producer(&taken, u16::MAX), Some(u16::MAX));
        taken.insert(u16::MAX);
        assert_eq!(free_producer(&taken, u16::MAX), Some(2), "round the end");
        taken.extend(0..=u16::MAX);
        assert_eq!(free_producer(&taken, 7), None);
        taken.remove(&9);
        assert_eq!(free_producer(&taken, 10), Some(9));
    }

    #[test]
    fn connection_numbers_carry_the_producer_and_tell_this_life_from_others() {
        for drawn in [0, 1, u64::MAX, 0x1234_5678_9abc_def0] {
            let mut exports = Exports::new(drawn);
            let ids: Vec<ConnectionId> = (0..100).map(|producer| exports.issue(producer * 600)).collect();
            assert_eq!(ids.iter().collect::<BTreeSet<_>>().len(), 100);
            for (id, number) in ids.iter().zip(0u16..) {
                assert_eq!(producer_of(*id), number * 600);
                assert!(exports.was_ours(*id));
            }
            let next = ConnectionId(ids[99].0.wrapping_add(1 << 16));
            assert!(!exports.was_ours(next), "not yet");
            let before = ConnectionId(ids[0].0.wrapping_sub(1 << 16));
            assert!(!exports.was_ours(before));
        }
    }

    #[test]
    fn a_number_of_an_earlier_life_is_not_given_out() {
        let mut exports = Exports::new(5 << 16);
        let taken = ConnectionId(5 << 16 | 3);
        let what = Imported::Interrupt(crate::ids::InterruptNo(1));
        let importer = NodeId::new(4).unwrap();
        let by = Importer { uid: 1, pid: 2 };
        exports.by_id.insert(taken, Export { what, importer, producer: Some(3), by });
        assert_eq!(exports.issue(3), ConnectionId(6 << 16 | 3));
    }
}
