//! Requests to other managers without a reply yet.

use std::time::Duration;

use super::descriptors::{interrupt_parts, missing, sealed_memory};
use super::far_status::status_in;
use super::imports::Shown;
use super::peer_protocol::shorten;
use super::questions::answer_in;
use super::{Descriptor, FdToken, Manager, ProgramConn, Timer};
use crate::ids::NodeId;
use crate::wire::peer::{PeerMessage, PeerReply, PeerRequest};
use crate::wire::program::{ConnectionId, ImportSlot, Imported, LossReason, Refusal, Reply, RequestId};
use crate::wire::status::SessionState;

/// One request.
#[derive(Debug)]
pub(super) struct Pending {
    pub(super) node: NodeId,
    pub(super) aim: Aim,
}

/// What a request is for.
#[derive(Debug, Clone, Copy)]
pub(super) enum Aim {
    /// A program connects.
    Connect { program: ProgramConn, id: RequestId, what: Imported },
    /// A re-attached program shows a connection again.
    Resume { program: ProgramConn, id: RequestId, shown: Shown },
    /// A program wants to know how the node is.
    Status { program: ProgramConn, id: RequestId },
    /// A program wants an agent there.
    Agent { program: ProgramConn, id: RequestId },
    /// A program asks the owner of an object there about the rails of a connection.
    Question { program: ProgramConn, id: RequestId },
    /// A way to the manager of this node.
    Relay { to: NodeId },
    /// A way to the end point of a program that connects to an object of this node.
    RelayImporter { program: ProgramConn, id: RequestId, what: Imported, to: NodeId },
    /// A way to the end point of the owner of this connection.
    RelayOwner { connection: ConnectionId },
    /// The session has returned, and the import may have ended meanwhile.
    Verify { slot: ImportSlot },
}

impl Aim {
    pub(super) fn program(&self) -> Option<ProgramConn> {
        match self {
            Self::Connect { program, .. }
            | Self::Resume { program, .. }
            | Self::Status { program, .. }
            | Self::Agent { program, .. }
            | Self::Question { program, .. }
            | Self::RelayImporter { program, .. } => Some(*program),
            Self::Verify { .. } | Self::Relay { .. } | Self::RelayOwner { .. } => None,
        }
    }
}

impl Manager {
    /// Sends a request; the session is valid.
    pub(super) fn ask(
        &mut self,
        node: NodeId,
        aim: Aim,
        body: PeerRequest,
        tokens: Vec<FdToken>,
    ) -> RequestId {
        let id = self.next_request;
        self.next_request += 1;
        if let Some(entry) = aim.program().and_then(|program| self.programs.get_mut(&program)) {
            entry.pending.insert(id);
            // A verification needs no timer: it ends with the reply, with the session, or with the import.
            self.timers.set(Timer::Pending(id), self.now + self.answer_limit());
        }
        self.peer_entry(node).pending.insert(id);
        self.pending.insert(id, Pending { node, aim });
        self.send_peer(node, PeerMessage::Request { id, body }, tokens);
        id
    }

    /// A living peer replies at once, or after its grace time when something is resumed.
    fn answer_limit(&self) -> Duration {
        self.config.heartbeat_limit + self.config.resume_grace * 2
    }

    /// Takes a request out of all tables.
    pub(super) fn forget_pending(&mut self, id: RequestId) -> Option<Pending> {
        let pending = self.pending.remove(&id)?;
        self.held_ends.forget(id);
        self.timers.clear(Timer::Pending(id));
        if let Some(peer) = self.peers.get_mut(&pending.node) {
            peer.pending.remove(&id);
        }
        if let Some(entry) = pending.aim.program().and_then(|program| self.programs.get_mut(&program)) {
            entry.pending.remove(&id);
        }
        if let Aim::Verify { slot } = pending.aim
            && let Some(import) = self.imports.by_slot.get_mut(&slot)
        {
            import.verify = None;
        }
        Some(pending)
    }

    /// The program does not want the reply any more.
    pub(super) fn abandon(&mut self, id: RequestId) {
        // A connection that is granted late is given back when the reply comes.
        let Some(Pending { node, aim }) = self.forget_pending(id) else { return };
        if let Aim::Resume { shown, .. } = aim {
            self.tell_released(node, shown.connection, true, true);
        }
    }

    pub(super) fn pending_timed_out(&mut self, id: RequestId) {
        let Some(pending) = self.pending.get(&id) else { return };
        let (node, aim) = (pending.node, pending.aim);
        self.abandon(id);
        let why = format!("its manager did not respond within {} ms", self.answer_limit().as_millis());
        if let Aim::Connect { program, id, .. }
        | Aim::Resume { program, id, .. }
        | Aim::Status { program, id }
        | Aim::Agent { program, id }
        | Aim::Question { program, id }
        | Aim::RelayImporter { program, id, .. } = aim
        {
            self.reply(program, id, Err(Refusal::Unreachable { node, why }), Vec::new());
        }
    }

    /// The session is lost: connecting fails, resumed connections continue unverified.
    pub(super) fn fail_pending(&mut self, node: NodeId) {
        let Some(peer) = self.peers.get(&node) else { return };
        let stopped = peer.session.state() == SessionState::Stopped;
        for id in peer.pending.clone() {
            match self.forget_pending(id).map(|pending| pending.aim) {
                Some(
                    Aim::Connect { program, id, .. }
                    | Aim::Status { program, id }
                    | Aim::Agent { program, id }
                    | Aim::Question { program, id }
                    | Aim::RelayImporter { program, id, .. },
                ) => {
                    let refusal = self.check_reachable(node).err();
                    let why = "the session was lost".to_owned();
                    let refusal = refusal.unwrap_or(Refusal::Unreachable { node, why });
                    self.reply(program, id, Err(refusal), Vec::new());
                }
                Some(Aim::Resume { program, id, shown }) if stopped => {
                    let refusal = Refusal::NotFound { what: shown.what.to_string(), node };
                    self.reply(program, id, Err(refusal), Vec::new());
                }
                Some(Aim::Resume { program, id, shown }) => {
                    // The exporter may have read the request, and only its reply is late.
                    let result = self.resume_unverified(program, node, shown, true);
                    if result.is_err() && self.imports.find(node, shown.connection).is_none() {
                        self.tell_released(node, shown.connection, false, true);
                    }
                    self.reply(program, id, result, Vec::new());
                }
                Some(Aim::Relay { to }) => self.relay_answered(node, to, None),
                Some(Aim::RelayOwner { connection }) => self.relay_lost(connection, node),
                Some(Aim::Verify { .. }) | None => {}
            }
        }
    }

    /// A reply of a peer. The descriptors remain the caller's.
    pub(super) fn peer_reply(
        &mut self,
        node: NodeId,
        id: RequestId,
        result: Result<PeerReply, Refusal>,
        descriptors: &[Descriptor],
    ) {
        let result = result.map_err(shorten);
        let ours = self.pending.get(&id).is_some_and(|pending| pending.node == node);
        let held = self.held_ends.take(id, ours);
        let Some(pending) = ours.then(|| self.forget_pending(id)).flatten() else {
            return self.give_back(node, &result);
        };
        match pending.aim {
            Aim::Connect { program, id, what } => {
                let given = result.clone();
                match self.accept_connection(program, node, what, result, descriptors) {
                    Ok((reply, tokens)) => self.reply(program, id, Ok(reply), tokens),
                    Err(refusal) => {
                        self.give_back(node, &given);
                        self.reply(program, id, Err(refusal), Vec::new());
                    }
                }
            }
            Aim::Resume { program, id, shown } => {
                let resumed = result.and_then(|_| self.resume_granted(program, node, shown));
                self.reply(program, id, resumed, Vec::new());
            }
            Aim::Status { program, id } => {
                let result = result.and_then(|reply| status_in(reply, node));
                self.reply(program, id, result.map(|status| Reply::Status(Box::new(status))), Vec::new());
            }
            Aim::Agent { program, id } => self.agent_granted(program, id, node, result),
            Aim::Question { program, id } => {
                let answer = result.and_then(|reply| answer_in(reply, node));
                self.reply(program, id, answer, Vec::new());
            }
            Aim::Relay { to } => self.relay_answered(node, to, Some(result)),
            Aim::RelayImporter { program, id, what, to } => {
                self.importer_relayed(node, (program, id), (what, to), held, result);
            }
            Aim::RelayOwner { connection } => self.owner_relayed(node, connection, held, result),
            Aim::Verify { slot } => {
                if let Err(refusal) = result {
                    self.end_import(slot, loss_of(&refusal));
                }
            }
        }
    }

    /// This connection is not wanted (any more).
    fn give_back(&mut self, node: NodeId, result: &Result<PeerReply, Refusal>) {
        if let Ok(PeerReply::Agent { agent }) = result {
            self.give_agent_back(node, *agent);
        }
        if let Ok(
            PeerReply::Segment { connection, .. }
            | PeerReply::Interrupt { connection, .. }
            | PeerReply::ByNetwork { connection, .. },
        ) = result
            && self.imports.find(node, *connection).is_none()
        {
            self.tell_released(node, *connection, false, true);
        }
    }

    /// Checks what a peer gave, and gives it a slot.
    fn accept_connection(
        &mut self,
        program: ProgramConn,
        node: NodeId,
        what: Imported,
        result: Result<PeerReply, Refusal>,
        descriptors: &[Descriptor],
    ) -> Result<(Reply, Vec<FdToken>), Refusal> {
        let body = result?;
        let title = format!("{what} of node {node}");
        let (connection, incarnation, tokens) = match (&body, what) {
            (PeerReply::Segment { connection, size_bytes, incarnation }, Imported::Segment(_)) => {
                let [memory] = descriptors else { return Err(missing(&title, 1, descriptors.len())) };
                (*connection, *incarnation, vec![sealed_memory(memory, &title, *size_bytes, false)?])
            }
            (PeerReply::Interrupt { connection, incarnation, pollable, .. }, Imported::Interrupt(_)) => {
                let (trigger, waiter, event) = interrupt_parts(descriptors, &title, *pollable)?;
                let tokens = [Some(trigger), Some(waiter), event].into_iter().flatten().collect();
                (*connection, *incarnation, tokens)
            }
            (PeerReply::ByNetwork { connection, incarnation, end, .. }, _)
                if self.is_elsewhere(node) && end.is_bounded() =>
            {
                (*connection, *incarnation, Vec::new())
            }
            _ => {
                return Err(Refusal::Invalid(format!(
                    "the manager of node {node} sent a reply of another kind"
                )));
            }
        };
        let shown = Shown { connection, incarnation, what };
        self.check_new_import(program, node, shown)?;
        let import = self.add_import(program, node, shown, true);
        Ok((body.with_import(import), tokens))
    }

    /// There is a slot, and the connection has none yet.
    pub(super) fn check_new_import(
        &self,
        program: ProgramConn,
        node: NodeId,
        shown: Shown,
    ) -> Result<(), Refusal> {
        self.check_import_limit(program)?;
        match self.imports.find(node, shown.connection) {
            None => Ok(()),
            Some(_) => Err(Refusal::Invalid(format!(
                "this connection to {} of node {node} is held already",
                shown.what
            ))),
        }
    }
}

/// What an import ends with when its exporter does not resume it.
fn loss_of(refusal: &Refusal) -> LossReason {
    match refusal {
        Refusal::NotFound { .. } => LossReason::OwnerDied,
        Refusal::NotAvailable { .. } | Refusal::Denied { .. } => LossReason::Withdrawn,
        _ => LossReason::NodeLost,
    }
}
