//! Questions of importers on other hosts about the rails of their connections, which travel by way of both
//! managers when no rail carries them: the sessions of managers move to the rail that works by themselves.
//!
//! The questions and answers are the link's own, and nothing here looks into them.

use super::requests::Answer;
use super::{Manager, ProgramConn, Timer};
use crate::ids::NodeId;
use crate::manager::pending::Aim;
use crate::wire::network::{MAX_ANSWER_BYTES, MAX_QUESTION_BYTES};
use crate::wire::peer::{PeerMessage, PeerReply, PeerRequest};
use crate::wire::program::{ConnectionId, Event, ImportSlot, Refusal, Reply, RequestId};

/// A question that waits for the owner: one of each connection, so that an importer cannot heap them up.
#[derive(Debug)]
pub(super) struct Question {
    pub(super) importer: NodeId,
    /// The request of the importer's manager.
    id: RequestId,
    /// Tells an answer to an earlier question apart.
    number: u64,
}

impl Manager {
    /// A program of this node asks the owner of an object that it imports from another host.
    pub(super) fn ask_owner_of(
        &mut self,
        program: ProgramConn,
        id: RequestId,
        import: ImportSlot,
        question: Vec<u8>,
    ) -> Answer {
        let held = self.imports.by_slot.get(&import).filter(|held| held.program == program && held.alive);
        let Some((node, connection)) = held.map(|held| (held.node, held.shown.connection)) else {
            return Err(Refusal::Invalid(format!("this program does not hold import {}", import.0)));
        };
        if question.len() > MAX_QUESTION_BYTES {
            return Err(too_long(question.len(), MAX_QUESTION_BYTES));
        }
        if !self.is_elsewhere(node) {
            return Err(Refusal::Invalid(format!("node {node} is on this host: there are no rails to it")));
        }
        self.check_carrier(node)?;
        self.check_reachable(node)?;
        self.check_pending(program)?;
        let body = PeerRequest::AskOwner { connection, question };
        self.ask(node, Aim::Question { program, id }, body, Vec::new());
        Ok(None)
    }

    /// An importer on another host asks the owner of an object of this node.
    pub(super) fn importer_asks(
        &mut self,
        node: NodeId,
        id: RequestId,
        connection: ConnectionId,
        question: Vec<u8>,
    ) {
        if let Err(refusal) = self.pass_to_owner(node, id, connection, question) {
            self.send_peer(node, PeerMessage::Reply { id, result: Err(refusal) }, Vec::new());
        }
    }

    fn pass_to_owner(
        &mut self,
        node: NodeId,
        id: RequestId,
        connection: ConnectionId,
        question: Vec<u8>,
    ) -> Result<(), Refusal> {
        let what = self.exports.by_id.get(&connection).filter(|export| export.importer == node);
        let what = what.map(|export| export.what).filter(|_| self.is_elsewhere(node));
        let owner = what.and_then(|what| Some((what, self.objects.get(&what)?.owner)));
        // Before its owner has said how it is reached, nothing can be asked of it.
        let Some((what, owner)) = owner.filter(|_| !self.owners_asked.contains_key(&connection)) else {
            return Err(self.no_connection(connection));
        };
        if question.len() > MAX_QUESTION_BYTES {
            return Err(too_long(question.len(), MAX_QUESTION_BYTES));
        }
        if self.questions.contains_key(&connection) {
            return Err(Refusal::OwnerBusy { what: what.to_string(), node: self.own });
        }
        self.next_question += 1;
        let number = self.next_question;
        self.questions.insert(connection, Question { importer: node, id, number });
        // Shorter than the importer's manager waits.
        self.timers.set(Timer::Question(connection), self.now + self.config.heartbeat_limit);
        self.event(owner, Event::Asked { connection, number, question }, Vec::new());
        Ok(())
    }

    /// The owner answers.
    pub(super) fn answer_importer(
        &mut self,
        program: ProgramConn,
        connection: ConnectionId,
        number: u64,
        answer: Vec<u8>,
    ) -> Result<Reply, Refusal> {
        if answer.len() > MAX_ANSWER_BYTES {
            return Err(too_long(answer.len(), MAX_ANSWER_BYTES));
        }
        let object = self.exports.by_id.get(&connection).and_then(|export| self.objects.get(&export.what));
        let is_its_own = object.is_some_and(|object| object.owner == program);
        let is_asked = self.questions.get(&connection).is_some_and(|asked| asked.number == number);
        match self.forget_question(connection, is_its_own && is_asked) {
            Some(Question { importer, id, .. }) => {
                let result = Ok(PeerReply::Answer { answer });
                self.send_peer(importer, PeerMessage::Reply { id, result }, Vec::new());
                Ok(Reply::Done)
            }
            None => Err(self.no_connection(connection)),
        }
    }

    /// The owner has not answered, or the connection is over.
    pub(super) fn refuse_question(&mut self, connection: ConnectionId, is_over: bool) {
        let Some(asked) = self.forget_question(connection, true) else { return };
        let what = self.exports.by_id.get(&connection).map(|export| export.what.to_string());
        let refusal = match what {
            Some(what) if !is_over => Refusal::OwnerBusy { what, node: self.own },
            _ => self.no_connection(connection),
        };
        let message = PeerMessage::Reply { id: asked.id, result: Err(refusal) };
        self.send_peer(asked.importer, message, Vec::new());
    }

    /// The manager that has passed the questions on is another by now, or has given up.
    pub(super) fn forget_questions_of(&mut self, node: NodeId) {
        let its = self.questions.iter().filter(|(_, asked)| asked.importer == node);
        for connection in its.map(|(connection, _)| *connection).collect::<Vec<_>>() {
            self.forget_question(connection, true);
        }
    }

    fn forget_question(&mut self, connection: ConnectionId, is_it: bool) -> Option<Question> {
        if !is_it {
            return None;
        }
        self.timers.clear(Timer::Question(connection));
        self.questions.remove(&connection)
    }

    fn no_connection(&self, connection: ConnectionId) -> Refusal {
        Refusal::NotFound { what: format!("connection {} of another host", connection.0), node: self.own }
    }
}

/// What a peer says that an owner answers.
pub(super) fn answer_in(reply: PeerReply, node: NodeId) -> Result<Reply, Refusal> {
    match reply {
        PeerReply::Answer { answer } if answer.len() <= MAX_ANSWER_BYTES => Ok(Reply::Answer { answer }),
        _ => Err(Refusal::Invalid(format!("the manager of node {node} sent a reply of another kind"))),
    }
}

fn too_long(bytes: usize, most: usize) -> Refusal {
    Refusal::Invalid(format!("{bytes} bytes about a rail are more than {most}"))
}
