//! Requests of programs: each gets exactly one reply, at once or when a peer has answered.

use super::imports::Shown;
use super::objects::{NewInterrupt, NewSegment, limit};
use super::pending::Aim;
use super::{Descriptor, FdToken, LogLevel, Manager, Output, ProgramConn};
use crate::ids::NodeId;
use crate::wire::peer::PeerRequest;
use crate::wire::program::{Imported, Refusal, Reply, Request, RequestId, ToProgram};
use crate::wire::status::SessionState;

/// A reply with its descriptors; `None`: a peer has to be asked first.
pub(super) type Answer = Result<Option<(Reply, Vec<FdToken>)>, Refusal>;

fn now(result: Result<Reply, Refusal>) -> Answer {
    result.map(|reply| Some((reply, Vec::new())))
}

/// How many descriptors belong to a request.
fn wanted(body: &Request) -> usize {
    match body {
        Request::CreateSegment { .. } => 1,
        // The driver's sockets included.
        Request::CreateInterrupt { pollable: true, again, .. } => {
            if *again {
                3
            } else {
                4
            }
        }
        Request::CreateInterrupt { pollable: false, .. } => 2,
        _ => 0,
    }
}

impl Manager {
    pub(super) fn request(
        &mut self,
        program: ProgramConn,
        id: RequestId,
        body: Request,
        descriptors: &[Descriptor],
    ) {
        self.counters.requests += 1;
        if descriptors.len() > wanted(&body) {
            self.close_tokens(descriptors);
            return self.violation(program, "it sent more descriptors than the request needs");
        }
        if descriptors.len() < wanted(&body) {
            self.counters.protocol_errors += 1;
        }
        if body == Request::Shutdown {
            return self.shutdown(program, id);
        }
        match self.answer(program, id, body, descriptors) {
            Ok(Some((reply, tokens))) => self.reply(program, id, Ok(reply), tokens),
            Ok(None) => {}
            Err(refusal) => {
                self.close_tokens(descriptors);
                self.reply(program, id, Err(refusal), Vec::new());
            }
        }
    }

    fn answer(
        &mut self,
        program: ProgramConn,
        id: RequestId,
        body: Request,
        descriptors: &[Descriptor],
    ) -> Answer {
        match body {
            Request::CreateSegment { key, size_bytes, access, incarnation, available, shared } => {
                let new = NewSegment { key, size_bytes, access, incarnation, available, shared };
                now(self.create_segment(program, new, descriptors))
            }
            Request::SetAvailable { key, available, disconnect } => {
                now(self.set_available(program, key, available, disconnect))
            }
            Request::RemoveSegment { key, force } => now(self.remove_segment(program, key, force)),
            Request::ConnectSegment { node, key } => self.connect(program, id, node, Imported::Segment(key)),
            Request::ShareSegment { key } => now(self.share_segment(program, key)),
            Request::AttachSegment { key } => self.attach_segment(program, key),
            Request::CreateInterrupt { number, kind, access, incarnation, pollable, again } => {
                let new = NewInterrupt { number, kind, access, incarnation, pollable, again };
                let (reply, sockets) = self.create_interrupt(program, new, descriptors)?;
                let receiver = sockets.get(1).copied();
                self.reply(program, id, Ok(reply), sockets);
                // Only its owner receives.
                receiver.into_iter().for_each(|token| self.close_token(token));
                Ok(None)
            }
            Request::RemoveInterrupt { number } => now(self.remove_interrupt(program, number)),
            Request::ConnectInterrupt { node, number } => {
                self.connect(program, id, node, Imported::Interrupt(number))
            }
            Request::ConnectByNetwork { node, what, end } => {
                self.connect_by_network(program, id, node, what, end)
            }
            Request::AnswerByNetwork { connection, end } => {
                now(self.answer_by_network(program, connection, end))
            }
            Request::Disconnect { import } => now(self.disconnect(program, import)),
            Request::ResumeImport { node, connection, incarnation, what } => {
                self.resume_import(program, id, node, Shown { connection, incarnation, what })
            }
            Request::ResumeExport { what, node, connection, importer } => {
                now(self.resume_export(program, what, (node, connection), importer))
            }
            Request::Probe { node } => now(Ok(Reply::Probed { reachable: self.reachable(node) })),
            Request::WatchGroup { group } => now(self.watch(program, group)),
            Request::UnwatchGroup { group } => {
                self.unwatch(program, group);
                now(Ok(Reply::Done))
            }
            Request::NodeInfo => now(Ok(Reply::Info(self.config.info.clone()))),
            Request::ChangeLink { peer, change } => now(self.change_link(program, peer, change)),
            Request::Status => now(Ok(Reply::Status(Box::new(self.status(self.now))))),
            Request::StatusOf { node } => self.status_of(program, id, node),
            Request::TellRails { import, down } => now(self.tell_rails(program, import, down)),
            Request::AskOwner { import, question } => self.ask_owner_of(program, id, import, question),
            Request::AnswerImporter { connection, number, answer } => {
                now(self.answer_importer(program, connection, number, answer))
            }
            Request::StartAgent { node } => self.ask_for_agent(program, id, node),
            Request::ClearCounters => {
                self.counters = Default::default();
                now(Ok(Reply::Done))
            }
            // Answered before, because the order matters there.
            Request::Shutdown => now(Ok(Reply::Done)),
        }
    }

    pub(super) fn reply(
        &mut self,
        program: ProgramConn,
        id: RequestId,
        result: Result<Reply, Refusal>,
        tokens: Vec<FdToken>,
    ) {
        if result.is_err() {
            self.counters.refusals += 1;
        }
        self.send_program(program, ToProgram::Reply { id, result }, tokens);
    }

    fn reachable(&self, node: NodeId) -> bool {
        let taken_down = self.is_taken_down(node);
        let node = self.at_the_end(node);
        node == self.own || !taken_down && self.peers.get(&node).is_some_and(|peer| peer.session.is_valid())
    }

    fn connect(&mut self, program: ProgramConn, id: RequestId, node: NodeId, what: Imported) -> Answer {
        self.check_import_limit(program)?;
        let requester = self.requester(program);
        self.check_carrier(node)?;
        let node = self.at_the_end(node);
        self.check_not_revoked(node, what)?;
        if node == self.own {
            let pidfd = self.programs.get(&program).and_then(|entry| entry.pidfd);
            let grant = self.grant(what, self.own, &requester, pidfd)?;
            let import = self.add_import(program, node, grant.shown, true);
            return Ok(Some((grant.body.with_import(import), grant.tokens)));
        }
        if self.is_elsewhere(node) {
            return Ok(Some((Reply::OnOtherHost { addresses: self.config.info.rails.clone() }, Vec::new())));
        }
        self.check_reachable(node)?;
        self.check_pending(program)?;
        let (request, tokens) = match what {
            Imported::Segment(key) => (PeerRequest::ConnectSegment { key, requester }, Vec::new()),
            Imported::Interrupt(number) => {
                let pidfd = self.programs.get(&program).and_then(|entry| entry.pidfd);
                (PeerRequest::ConnectInterrupt { number, requester }, pidfd.into_iter().collect())
            }
        };
        self.ask(node, Aim::Connect { program, id, what }, request, tokens);
        Ok(None)
    }

    /// The link to that node has not been taken down.
    pub(super) fn check_carrier(&self, node: NodeId) -> Result<(), Refusal> {
        if self.is_taken_down(node) {
            let own = self.config.info.node;
            let why = format!("its link was taken down; `tieline link up {own} {node}` brings it up");
            return Err(Refusal::Unreachable { node, why });
        }
        Ok(())
    }

    /// The session to that node is valid.
    pub(super) fn check_reachable(&self, node: NodeId) -> Result<(), Refusal> {
        let why = match self.peers.get(&node) {
            Some(peer) if peer.session.is_valid() => return Ok(()),
            Some(peer) if peer.seen => peer.session.reason().unwrap_or(match peer.session.state() {
                SessionState::Stopped => "its manager was stopped",
                _ => "there is no session with its manager yet",
            }),
            _ => "no manager of this node was seen in the cluster",
        };
        Err(Refusal::Unreachable { node, why: why.to_owned() })
    }

    pub(super) fn check_pending(&self, program: ProgramConn) -> Result<(), Refusal> {
        let most = self.config.limits.pending_per_program;
        let under_way =
            self.programs.get(&program).map_or(0, |entry| entry.pending.len() + entry.waiting.len());
        if under_way as u64 >= most {
            return Err(limit("requests of this program that wait for other nodes", most));
        }
        Ok(())
    }

    /// Ends the manager, if this program may.
    fn shutdown(&mut self, program: ProgramConn, id: RequestId) {
        let uid = self.programs.get(&program).map_or(u32::MAX, |entry| entry.credentials.uid);
        if uid != 0 && uid != self.config.uid {
            let what = format!("stop the manager of node {}", self.own);
            return self.reply(program, id, Err(Refusal::Denied { what, uid }), Vec::new());
        }
        let title = self.program_title(program);
        self.log(LogLevel::Info, format!("{title} stops this manager"));
        self.out.push_back(Output::ToProgram {
            program,
            message: ToProgram::Reply { id, result: Ok(Reply::Done) },
            descriptors: Vec::new(),
        });
        self.stop();
    }
}
