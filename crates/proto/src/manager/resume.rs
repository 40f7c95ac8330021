//! Which connections continue after a restart or a lost session.

use std::time::Duration;

use super::imports::Shown;
use super::judge::Verdict;
use super::objects::limit;
use super::pending::Aim;
use super::requests::Answer;
use super::{FdToken, Manager, ProgramConn, Timer};
use crate::ids::NodeId;
use crate::session::Return;
use crate::wire::peer::{PeerMessage, PeerReply, PeerRequest, Requester};
use crate::wire::program::{ConnectionId, ImportSlot, Imported, LossReason, Refusal, Reply, RequestId};
use crate::wire::status::SessionState;

/// Resumptions that wait for objects of this node to be there again.
const MAX_WAITING: usize = 1 << 16;

/// The importer that resumes a connection to an object of this node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Asker {
    Program(ConnectionId, ProgramConn),
    /// With the process that it asks for: a program that guesses a number must not take the place of its
    /// owner.
    Peer(NodeId, ConnectionId, u32),
}

/// A resumption whose object is not there yet.
#[derive(Debug)]
pub(super) struct Waiting {
    shown: Shown,
    requester: Requester,
    /// The asker's request.
    id: RequestId,
    /// A peer's producer; it is kept until the reply.
    pub(super) pidfd: Option<FdToken>,
}

impl Manager {
    /// A program that outlived its manager shows an import.
    pub(super) fn resume_import(
        &mut self,
        program: ProgramConn,
        id: RequestId,
        node: NodeId,
        shown: Shown,
    ) -> Answer {
        self.check_undisputed(program, node, shown)?;
        self.check_new_import(program, node, shown)?;
        if node == self.own {
            self.check_pending(program)?;
            let requester = self.requester(program);
            let pidfd = self.programs.get(&program).and_then(|entry| entry.pidfd);
            return match self.judge(node, shown, &requester, pidfd) {
                Verdict::GoesOn => Ok(Some((self.resume_granted(program, node, shown)?, Vec::new()))),
                Verdict::Over(refusal) => Err(refusal),
                Verdict::NotYet => {
                    let asker = Asker::Program(shown.connection, program);
                    self.wait(asker, Waiting { shown, requester, id, pidfd: None })?;
                    Ok(None)
                }
            };
        }
        let peer = self.peers.get(&node);
        if peer.is_some_and(|peer| peer.revoked) {
            return Err(Refusal::NotFound { what: shown.what.to_string(), node });
        }
        let state = peer.map(|peer| peer.session.state());
        match state {
            Some(SessionState::Valid) => {
                self.check_pending(program)?;
                let (body, tokens) = self.resume_request(program, node, shown);
                self.ask(node, Aim::Resume { program, id, shown }, body, tokens);
                Ok(None)
            }
            // It ended in order in this manager's life: everything of it is over.
            Some(SessionState::Stopped) => Err(Refusal::NotFound { what: shown.what.to_string(), node }),
            _ => Ok(Some((self.resume_unverified(program, node, shown, false)?, Vec::new()))),
        }
    }

    /// While its node cannot tell the owner of a connection, the first program that shows it need not be the
    /// right one.
    fn check_undisputed(&self, program: ProgramConn, node: NodeId, shown: Shown) -> Result<(), Refusal> {
        let held = self.imports.find(node, shown.connection).and_then(|slot| self.imports.by_slot.get(&slot));
        let open = self.peers.get(&node).is_some_and(|peer| !peer.session.is_valid());
        match held {
            Some(held) if held.program != program && (open || held.verify.is_some()) => {
                let why =
                    "another program shows the same connection, and the node has yet to say whose it is";
                Err(Refusal::Unreachable { node, why: why.to_owned() })
            }
            _ => Ok(()),
        }
    }

    fn resume_request(
        &self,
        program: ProgramConn,
        node: NodeId,
        shown: Shown,
    ) -> (PeerRequest, Vec<FdToken>) {
        let Shown { connection, incarnation, what } = shown;
        let pidfd = self.programs.get(&program).and_then(|entry| entry.pidfd);
        let pidfd = pidfd.filter(|_| matches!(what, Imported::Interrupt(_)) && !self.is_elsewhere(node));
        let requester = self.requester(program);
        (PeerRequest::Resume { connection, incarnation, what, requester }, pidfd.into_iter().collect())
    }

    /// The exporter confirms that it continues.
    pub(super) fn resume_granted(
        &mut self,
        program: ProgramConn,
        node: NodeId,
        shown: Shown,
    ) -> Result<Reply, Refusal> {
        let checked = self.check_new_import(program, node, shown);
        if let Err(refusal) = checked {
            if self.imports.find(node, shown.connection).is_none() {
                // No slot is left: then it does not continue after all.
                if node == self.own {
                    self.drop_export(shown.connection, false);
                } else {
                    self.tell_released(node, shown.connection, false, true);
                }
            }
            return Err(refusal);
        }
        Ok(Reply::Resumed { import: self.add_import(program, node, shown, true) })
    }

    /// The exporter cannot be asked now: data continues, and it is asked when its session returns.
    /// `told`: it was asked before, without a reply.
    pub(super) fn resume_unverified(
        &mut self,
        program: ProgramConn,
        node: NodeId,
        shown: Shown,
        told: bool,
    ) -> Result<Reply, Refusal> {
        self.check_new_import(program, node, shown)?;
        let owed = self.peer_entry(node).owed_released.remove(&shown.connection).is_some();
        Ok(Reply::Resumed { import: self.add_import(program, node, shown, told || owed) })
    }

    /// The session is valid again: every import from there is resumed.
    pub(super) fn resume_all(&mut self, node: NodeId) {
        let Some(peer) = self.peers.get(&node) else { return };
        for slot in peer.imports.clone() {
            self.verify(node, slot);
        }
    }

    fn verify(&mut self, node: NodeId, slot: ImportSlot) {
        let Some(import) = self.imports.by_slot.get(&slot) else { return };
        let (body, tokens) = self.resume_request(import.program, node, import.shown);
        let id = self.ask(node, Aim::Verify { slot }, body, tokens);
        if let Some(import) = self.imports.by_slot.get_mut(&slot) {
            import.verify = Some(id);
            import.told = true;
        }
    }

    /// A peer wants a connection to continue.
    pub(super) fn peer_resumes(
        &mut self,
        node: NodeId,
        id: RequestId,
        shown: Shown,
        requester: Requester,
        pidfd: Option<FdToken>,
    ) {
        let result = match self.judge(node, shown, &requester, pidfd) {
            Verdict::GoesOn => Ok(PeerReply::Resumed),
            Verdict::Over(refusal) => Err(refusal),
            Verdict::NotYet => {
                let asker = Asker::Peer(node, shown.connection, requester.pid);
                match self.wait(asker, Waiting { shown, requester, id, pidfd }) {
                    Ok(()) => return,
                    Err(refusal) => Err(refusal),
                }
            }
        };
        self.send_peer(node, PeerMessage::Reply { id, result }, Vec::new());
    }

    fn wait(&mut self, asker: Asker, waiting: Waiting) -> Result<(), Refusal> {
        if self.waiting.len() >= MAX_WAITING {
            return Err(limit("connections to be resumed", MAX_WAITING as u64));
        }
        let key = (waiting.shown.what, asker);
        match asker {
            Asker::Program(_, program) => {
                if self.waiting.contains_key(&key) {
                    return Err(Refusal::Invalid("this connection is being resumed already".to_owned()));
                }
                if let Some(entry) = self.programs.get_mut(&program) {
                    entry.waiting.insert(key);
                }
            }
            Asker::Peer(node, connection, pid) => {
                let before = self.peer_entry(node).waiting.insert((connection, pid), key.0);
                if let Some(other) = before {
                    self.drop_waiting((other, asker));
                    self.peer_entry(node).waiting.insert((connection, pid), key.0);
                }
            }
        }
        self.kept.extend(waiting.pidfd);
        self.waiting.insert(key, waiting);
        Ok(())
    }

    /// A resumption is not wanted any more.
    pub(super) fn drop_waiting(&mut self, key: (Imported, Asker)) {
        if let Some(pidfd) = self.forget_waiting(key).and_then(|waiting| waiting.pidfd) {
            self.close_token(pidfd);
        }
    }

    fn forget_waiting(&mut self, key: (Imported, Asker)) -> Option<Waiting> {
        match key.1 {
            Asker::Program(_, program) => {
                if let Some(entry) = self.programs.get_mut(&program) {
                    entry.waiting.remove(&key);
                }
            }
            Asker::Peer(node, connection, pid) => {
                if let Some(peer) = self.peers.get_mut(&node) {
                    peer.waiting.remove(&(connection, pid));
                }
            }
        }
        let waiting = self.waiting.remove(&key)?;
        if let Some(pidfd) = waiting.pidfd {
            self.kept.remove(&pidfd);
        }
        Some(waiting)
    }

    /// An object is there: what waited for it is answered.
    pub(super) fn answer_waiting(&mut self, what: Imported) {
        let first = (what, Asker::Program(ConnectionId(0), ProgramConn(0)));
        let keys: Vec<_> =
            self.waiting.range(first..).map(|(key, _)| *key).take_while(|key| key.0 == what).collect();
        for key in keys {
            self.answer_one(key);
        }
    }

    /// The owner has named a connection: a process that waits for just that is answered.
    pub(super) fn answer_waiting_for(&mut self, what: Imported, node: NodeId, connection: ConnectionId) {
        let (first, last) = if node == self.own {
            let program = |number| Asker::Program(connection, ProgramConn(number));
            (program(0), program(u64::MAX))
        } else {
            (Asker::Peer(node, connection, 0), Asker::Peer(node, connection, u32::MAX))
        };
        let keys: Vec<_> = self.waiting.range((what, first)..=(what, last)).map(|(key, _)| *key).collect();
        for key in keys {
            self.answer_one(key);
        }
    }

    fn answer_one(&mut self, key: (Imported, Asker)) {
        let Some(Waiting { shown, requester, id, pidfd }) = self.forget_waiting(key) else { return };
        match key.1 {
            Asker::Peer(node, ..) => {
                self.peer_resumes(node, id, shown, requester, pidfd);
                if let Some(pidfd) = pidfd.filter(|pidfd| !self.kept.contains(pidfd)) {
                    self.close_token(pidfd);
                }
            }
            Asker::Program(_, program) => match self.resume_import(program, id, self.own, shown) {
                Ok(Some((reply, tokens))) => self.reply(program, id, Ok(reply), tokens),
                Ok(None) => {}
                Err(refusal) => self.reply(program, id, Err(refusal), Vec::new()),
            },
        }
    }

    /// Re-attaching programs are not waited for any longer.
    pub(super) fn grace_over(&mut self) {
        self.gone_before.clear();
        let keys: Vec<_> = self.waiting.keys().copied().collect();
        for key in keys {
            self.answer_one(key);
        }
        for connection in std::mem::take(&mut self.local_unconfirmed) {
            self.drop_export(connection, true);
        }
        let nodes: Vec<NodeId> = self.peers.keys().copied().collect();
        for node in nodes {
            if !self.timers.contains(Timer::Sweep(node)) {
                self.sweep(node);
            }
        }
    }

    /// How long a restarted manager has to say what continues. If it hangs meanwhile, its session is lost
    /// before the time is over.
    fn settling_time(&self) -> Duration {
        self.config.resume_grace + self.config.heartbeat_limit
    }

    /// Notes what a returned peer has to say again, and until when.
    pub(super) fn expect_resumption(&mut self, node: NodeId, back: Return) {
        let (now, time) = (self.now, self.settling_time());
        let peer = self.peer_entry(node);
        peer.unconfirmed.clone_from(&peer.exports);
        peer.stale_groups.clone_from(&peer.groups);
        if back != Return::Reconnected {
            peer.settles_at = now + time;
        }
        let until = peer.settles_at;
        peer.listing = true;
        if until > now {
            self.timers.set(Timer::Sweep(node), until);
        }
    }

    /// The peer was silent before it had announced everything again: its programs were probably held up like
    /// itself.
    pub(super) fn expect_rest(&mut self, node: NodeId) {
        let until = self.now + self.settling_time();
        let peer = self.peer_entry(node);
        let complete = peer.unconfirmed.is_empty() && peer.stale_groups.is_empty();
        if !complete {
            peer.settles_at = until;
            self.timers.set(Timer::Sweep(node), until);
        }
    }

    /// The peer has announced everything that belongs at the start of the connection.
    pub(super) fn list_complete(&mut self, node: NodeId) {
        let listing = self.peers.get_mut(&node).is_some_and(|peer| std::mem::take(&mut peer.listing));
        if listing && !self.timers.contains(Timer::Sweep(node)) {
            self.sweep(node);
        }
    }

    /// Its time to re-attach is over: what a peer has not announced again is over too, unless it is
    /// announcing it just now.
    pub(super) fn sweep(&mut self, node: NodeId) {
        self.timers.clear(Timer::Sweep(node));
        let Some(peer) = self.peers.get_mut(&node) else { return };
        if !peer.session.is_valid() || peer.listing {
            return;
        }
        let (unconfirmed, stale) =
            (std::mem::take(&mut peer.unconfirmed), std::mem::take(&mut peer.stale_groups));
        for connection in unconfirmed {
            self.drop_export(connection, true);
        }
        for group in stale {
            self.peer_member(node, group, false);
        }
    }

    /// A node that a program named, and that has not appeared within the grace.
    pub(super) fn never_seen(&mut self, node: NodeId) {
        if self.peers.get(&node).is_some_and(|peer| !peer.seen) {
            self.end_everything_of(node, true);
            self.peers.remove(&node);
        }
    }

    /// Nothing of that node continues.
    pub(super) fn end_everything_of(&mut self, node: NodeId, died: bool) {
        self.close_forwards_of(node);
        self.forget_needs(node);
        let Some(peer) = self.peers.get_mut(&node) else { return };
        peer.owed_lost.clear();
        peer.owed_released.clear();
        let (imports, exports) = (peer.imports.clone(), peer.exports.clone());
        let (groups, waiting) = (peer.groups.clone(), peer.waiting.clone());
        for ((connection, pid), what) in waiting {
            self.drop_waiting((what, Asker::Peer(node, connection, pid)));
        }
        for slot in imports {
            self.end_import(slot, LossReason::NodeLost);
        }
        for connection in exports {
            self.drop_export(connection, died);
        }
        for group in groups {
            self.peer_member(node, group, false);
        }
    }
}
