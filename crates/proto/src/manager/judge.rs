//! Decides which program a connection from before a restart belongs to, and whether it continues.
//!
//! A connection belongs to the process that made it ([`Importer`]); its number alone is no proof, since
//! numbers can be guessed. While re-attaching programs are waited for, an owner that has come back names its
//! connections and their importers: until it has named one, whoever asks for that one waits. What it has not
//! named by the end of the grace (it may not have heard of it yet) is taken up for a process that may connect
//! at all.

use super::exports::{Export, producer_of};
use super::imports::Shown;
use super::objects::Body;
use super::sharing::is_attachment;
use super::{FdToken, Manager, Output, Peer, ProgramConn};
use crate::ids::NodeId;
use crate::wire::peer::Requester;
use crate::wire::program::{ConnectionId, Imported, Importer, InterruptKind, Refusal, Reply};
use crate::wire::status::SessionState;

/// Connections that were released in the gap and that their owner has yet to name.
const MAX_GONE_BEFORE: usize = 1 << 16;

/// What becomes of a resumption.
pub(super) enum Verdict {
    GoesOn,
    Over(Refusal),
    NotYet,
}

impl Manager {
    /// Whether a connection of an importing node continues; if so it is in the tables and confirmed.
    pub(super) fn judge(
        &mut self,
        importer: NodeId,
        shown: Shown,
        requester: &Requester,
        pidfd: Option<FdToken>,
    ) -> Verdict {
        let Shown { connection, incarnation, what } = shown;
        let not_found = Refusal::NotFound { what: what.to_string(), node: self.own };
        let object = self.objects.get(&what);
        let same = object.map(|object| object.incarnation == incarnation);
        let listing = object.is_some_and(|object| object.reattached && !object.severed) && self.in_grace();
        if let Some(export) = self.exports.by_id.get(&connection) {
            let the_same = export.importer == importer
                && export.what == what
                && export.by == requester.importer()
                && same == Some(true);
            if !the_same {
                return Verdict::Over(not_found);
            }
            if let Err(refusal) = self.check_access(what, requester) {
                return Verdict::Over(refusal);
            }
            self.confirm(importer, connection);
            return Verdict::GoesOn;
        }
        let earlier_life = !self.exports.was_ours(connection);
        match same {
            Some(true) if listing && earlier_life => Verdict::NotYet,
            // It would be announced; a process that resumes and gives up again and again adds as much as the
            // one that connects.
            Some(true) if self.is_owner_crowded(what) => {
                Verdict::Over(Refusal::OwnerBusy { what: what.to_string(), node: self.own })
            }
            Some(true) => match self.take_up(importer, shown, requester.importer(), Some(requester)) {
                Ok(()) => {
                    self.announce_connection(connection, pidfd);
                    Verdict::GoesOn
                }
                Err(refusal) => Verdict::Over(refusal),
            },
            None if self.in_grace() && earlier_life => Verdict::NotYet,
            Some(false) | None => Verdict::Over(not_found),
        }
    }

    fn confirm(&mut self, importer: NodeId, connection: ConnectionId) {
        if importer == self.own {
            self.local_unconfirmed.remove(&connection);
        } else if let Some(peer) = self.peers.get_mut(&importer) {
            peer.unconfirmed.remove(&connection);
        }
    }

    /// Enters a connection from before this manager's start. The object is there, and is the same.
    fn take_up(
        &mut self,
        importer: NodeId,
        shown: Shown,
        by: Importer,
        requester: Option<&Requester>,
    ) -> Result<(), Refusal> {
        let Shown { connection, what, .. } = shown;
        let not_available = Refusal::NotAvailable { what: what.to_string(), node: self.own };
        let attached = is_attachment(what, connection);
        if attached {
            self.check_attachable(what, importer, by.uid)
                .map_err(|_| Refusal::NotFound { what: what.to_string(), node: self.own })?;
        } else if let Some(requester) = requester {
            self.check_access(what, requester)?;
        }
        self.check_export_limit(importer)?;
        let ended_here = self.exports.was_ours(connection);
        let Some(object) = self.objects.get_mut(&what) else { return Err(not_available) };
        if ended_here || object.severed && !attached {
            return Err(not_available);
        }
        let producer = match &mut object.body {
            Body::Segment { .. } => None,
            Body::Interrupt { kind, producers, next_producer, .. } => {
                let number = producer_of(connection);
                let is_new = producers.insert(number);
                *next_producer = (*next_producer).max(number.wrapping_add(1));
                match (is_new, kind) {
                    (true, _) => Some(number),
                    // The number means nothing to a counter.
                    (false, InterruptKind::Plain) => None,
                    // Another producer writes under this number by now.
                    (false, InterruptKind::Data) => return Err(not_available),
                }
            }
        };
        object.exports.insert(connection);
        self.insert_export(connection, Export { what, importer, producer, by });
        Ok(())
    }

    /// An owner that outlived its manager names a connection: it is kept until its importer has had its time.
    pub(super) fn resume_export(
        &mut self,
        program: ProgramConn,
        what: Imported,
        (node, connection): (NodeId, ConnectionId),
        by: Importer,
    ) -> Result<Reply, Refusal> {
        let incarnation = self.own_object(program, what)?.incarnation;
        let gone = Refusal::NotFound { what: format!("connection {} of {what}", connection.0), node };
        if let Some(export) = self.exports.by_id.get(&connection) {
            let the_same = export.what == what && export.importer == node && export.by == by;
            return if the_same { Ok(Reply::Done) } else { Err(gone) };
        }
        let is_over = |peer: &Peer| peer.revoked || peer.session.state() == SessionState::Stopped;
        let is_over = self.peers.get(&node).is_some_and(is_over);
        if !self.in_grace() || is_over || self.gone_before.remove(&(node, connection)) {
            return Err(gone);
        }
        self.take_up(node, Shown { connection, incarnation, what }, by, None).map_err(|_| gone)?;
        if node == self.own {
            self.local_unconfirmed.insert(connection);
            if by.pid != 0 {
                // A process that died in the gap need not be waited for.
                self.out.push_back(Output::CheckProcess { pid: by.pid });
            }
        } else {
            self.peer_entry(node).unconfirmed.insert(connection);
        }
        self.answer_waiting_for(what, node, connection);
        Ok(Reply::Done)
    }

    /// A peer has released a connection that is not known here. Its owner may be about to name it.
    pub(super) fn note_gone_before(&mut self, node: NodeId, connection: ConnectionId) {
        let room = self.gone_before.len() < MAX_GONE_BEFORE;
        if self.in_grace() && room && !self.exports.was_ours(connection) {
            self.gone_before.insert((node, connection));
        }
    }

    /// A process certainly does not live: what it has not resumed is over.
    pub(super) fn process_gone(&mut self, pid: u32) {
        let of_it =
            |id: &&ConnectionId| self.exports.by_id.get(id).is_some_and(|export| export.by.pid == pid);
        let over: Vec<ConnectionId> = self.local_unconfirmed.iter().filter(of_it).copied().collect();
        for connection in over {
            self.drop_export(connection, true);
        }
    }
}
