//! Agents: programs that run on this host for a program of another one, and those that run there for programs
//! of this node.
//!
//! A manager starts what it is asked for in the name of root or of its own user, and never more than it
//! wants. An agent ends with the session between the two managers, with the program that has asked for it,
//! and with either manager. What is said to and by it: [`agent_stream`](super::agent_stream).

use std::collections::{BTreeMap, BTreeSet};

use super::objects::limit;
use super::pending::Aim;
use super::requests::Answer;
use super::{Descriptor, DescriptorKind, LogLevel, Manager, Output, ProgramConn};
use crate::ids::NodeId;
use crate::wire::agent::{AGENT_WINDOW_BYTES, AgentEnd, AgentNo, FromAgent, ToAgent};
use crate::wire::is_printable;
use crate::wire::peer::{PeerMessage, PeerReply, PeerRequest, Requester};
use crate::wire::program::{Event, Refusal, Reply, RequestId};

/// Agents that run here at a time.
const MOST_RUNNING: usize = 16;
/// Of these, for one program.
const MOST_FOR_PROGRAM: usize = 4;
/// And so many for all programs of one node.
const MOST_FOR_NODE: usize = 8;
/// Agents on other hosts that programs of this node have at a time.
const MOST_ASKED: usize = 256;
/// The longest reason that is passed on, in characters.
const MOST_WHY: usize = 200;

/// Whose agent it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    /// It runs here, for this process (number and user) of the other node.
    Runs { pid: u32, uid: u32 },
    /// It runs on the other node, which calls it so, for a program of this one.
    Asked { program: ProgramConn, theirs: AgentNo },
}

/// How far it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    /// The driver has yet to start it, or to make the stream; then this request is answered.
    Opening(RequestId),
    Open,
    /// All is said; the driver has yet to close it.
    Ending,
}

/// One agent.
#[derive(Debug)]
pub(super) struct Agent {
    /// The other manager's.
    pub(super) node: NodeId,
    pub(super) side: Side,
    pub(super) state: State,
    /// Bytes that the other manager still takes.
    pub(super) may_send: u32,
    /// Bytes that it may still send.
    pub(super) may_receive: u32,
    /// Bytes that were passed on and for which it has not got new credit.
    pub(super) passed_on: u32,
    /// Its input has ended.
    pub(super) input_ended: bool,
}

/// All agents of a manager.
#[derive(Debug, Default)]
pub(super) struct Agents {
    last: u64,
    pub(super) by_no: BTreeMap<AgentNo, Agent>,
    /// Those on other hosts, by what they are called there, until they end.
    there: BTreeMap<(NodeId, AgentNo), AgentNo>,
}

impl Agents {
    fn add(&mut self, node: NodeId, side: Side, id: RequestId) -> AgentNo {
        self.last += 1;
        let no = AgentNo(self.last);
        let window = AGENT_WINDOW_BYTES;
        self.by_no.insert(
            no,
            Agent {
                node,
                side,
                state: State::Opening(id),
                may_send: window,
                may_receive: window,
                passed_on: 0,
                input_ended: false,
            },
        );
        if let Side::Asked { theirs, .. } = side {
            self.there.insert((node, theirs), no);
        }
        no
    }

    /// What another node calls so.
    pub(super) fn there(&self, node: NodeId, theirs: AgentNo) -> Option<AgentNo> {
        self.there.get(&(node, theirs)).copied()
    }

    fn numbers(&self, of: impl Fn(&Agent) -> bool) -> Vec<AgentNo> {
        self.by_no.iter().filter(|(_, agent)| of(agent)).map(|(no, _)| *no).collect()
    }

    /// For tests: who has asked for which.
    pub(super) fn of_programs(&self) -> impl Iterator<Item = (ProgramConn, AgentNo)> {
        self.by_no.iter().filter_map(|(no, agent)| match (agent.side, agent.state) {
            (Side::Asked { program, .. }, State::Open | State::Opening(_)) => Some((program, *no)),
            _ => None,
        })
    }

    /// For tests: the nodes of those that have not ended.
    pub(super) fn nodes(&self) -> impl Iterator<Item = NodeId> {
        self.by_no.values().filter(|agent| agent.state != State::Ending).map(|agent| agent.node)
    }

    /// For tests: the tables agree, and no limit is exceeded.
    pub(super) fn audit(&self) -> Result<(), String> {
        let there = self.by_no.iter().filter_map(|(no, agent)| match (agent.side, agent.state) {
            (Side::Asked { theirs, .. }, State::Open | State::Opening(_)) => {
                Some(((agent.node, theirs), *no))
            }
            _ => None,
        });
        let there: BTreeMap<_, _> = there.collect();
        if there != self.there {
            return Err(format!("agents elsewhere: {there:?} is not {:?}", self.there));
        }
        let running = self.by_no.values().filter(|agent| matches!(agent.side, Side::Runs { .. })).count();
        if running > MOST_RUNNING || self.by_no.len() - running > MOST_ASKED {
            return Err(format!("{running} of {} agents run here", self.by_no.len()));
        }
        let over = |agent: &&Agent| {
            agent.may_send > AGENT_WINDOW_BYTES || agent.may_receive + agent.passed_on > AGENT_WINDOW_BYTES
        };
        self.by_no.values().find(over).map_or(Ok(()), |agent| Err(format!("too much credit: {agent:?}")))
    }
}

impl Manager {
    /// A program wants an agent at a node.
    pub(super) fn ask_for_agent(&mut self, program: ProgramConn, id: RequestId, node: NodeId) -> Answer {
        if node == self.own || !self.is_elsewhere(node) && self.check_reachable(node).is_ok() {
            let text = format!("node {node} is on this host: it needs no agent");
            return Err(Refusal::Invalid(text));
        }
        self.check_reachable(node)?;
        self.check_pending(program)?;
        let asked = self.agents.numbers(|agent| matches!(agent.side, Side::Asked { .. })).len();
        if asked >= MOST_ASKED {
            return Err(limit("agents on other hosts of the programs of this node", MOST_ASKED as u64));
        }
        let requester = self.requester(program);
        self.ask(node, Aim::Agent { program, id }, PeerRequest::StartAgent { requester }, Vec::new());
        Ok(None)
    }

    /// The manager there has answered.
    pub(super) fn agent_granted(
        &mut self,
        program: ProgramConn,
        id: RequestId,
        node: NodeId,
        result: Result<PeerReply, Refusal>,
    ) {
        let refusal = match result {
            Ok(PeerReply::Agent { agent }) if self.agents.there(node, agent).is_none() => {
                let no = self.agents.add(node, Side::Asked { program, theirs: agent }, id);
                if let Some(entry) = self.programs.get_mut(&program) {
                    entry.agents.insert(no);
                }
                return self.out.push_back(Output::OpenAgent { agent: no });
            }
            Ok(_) => Refusal::Invalid(format!("the manager of node {node} sent a reply of another kind")),
            Err(refusal) => refusal,
        };
        self.reply(program, id, Err(refusal), Vec::new());
    }

    /// An agent was started for a program that does not want it any more.
    pub(super) fn give_agent_back(&mut self, node: NodeId, theirs: AgentNo) {
        if self.agents.there(node, theirs).is_none() {
            self.say_to_agent(node, theirs, ToAgent::Stop);
        }
    }

    /// Another manager wants an agent to run here.
    pub(super) fn agent_wanted(&mut self, node: NodeId, id: RequestId, requester: &Requester) {
        match self.check_requester(node, requester) {
            Ok(()) => {
                let side = Side::Runs { pid: requester.pid, uid: requester.uid };
                let agent = self.agents.add(node, side, id);
                let Requester { name, pid, uid, .. } = requester;
                let text = format!(
                    "agent {} is started for `{name}` (pid {pid}, user {uid}) of node {node}",
                    agent.0
                );
                self.log(LogLevel::Info, text);
                self.out.push_back(Output::StartAgent { agent });
            }
            Err(refusal) => self.send_peer(node, PeerMessage::Reply { id, result: Err(refusal) }, Vec::new()),
        }
    }

    fn check_requester(&self, node: NodeId, requester: &Requester) -> Result<(), Refusal> {
        let (own, uid) = (self.own, requester.uid);
        if !self.is_elsewhere(node) {
            return Err(Refusal::Invalid(format!("node {own} is on the same host: it needs no agent")));
        }
        if !self.config.agents {
            return Err(Refusal::NoAgents { node: own });
        }
        if uid != 0 && uid != self.config.uid {
            let what = format!("run an agent at node {own}, whose manager is of user {}", self.config.uid);
            return Err(Refusal::Denied { what, uid });
        }
        let runs = |agent: &Agent| matches!(agent.side, Side::Runs { .. });
        let of_it = Side::Runs { pid: requester.pid, uid };
        if self.agents.numbers(|agent| agent.node == node && agent.side == of_it).len() >= MOST_FOR_PROGRAM {
            let what = format!("agents of one program that run at node {own}");
            return Err(limit(&what, MOST_FOR_PROGRAM as u64));
        }
        // One host does not keep those of all others away.
        if self.agents.numbers(|agent| agent.node == node && runs(agent)).len() >= MOST_FOR_NODE {
            let what = format!("agents of node {node} that run at node {own}");
            return Err(limit(&what, MOST_FOR_NODE as u64));
        }
        if self.agents.numbers(runs).len() >= MOST_RUNNING {
            return Err(limit(&format!("agents that run at node {own}"), MOST_RUNNING as u64));
        }
        Ok(())
    }

    /// The driver has done its part, or could not.
    pub(super) fn agent_ready(&mut self, no: AgentNo, result: Result<Option<Descriptor>, Refusal>) {
        let descriptor = result.as_ref().ok().copied().flatten();
        if let Some(descriptor) = descriptor {
            self.adopt(&[descriptor]);
        }
        let is_there = result.is_ok();
        match self.agents.by_no.get_mut(&no) {
            Some(agent) => {
                let before = std::mem::replace(&mut agent.state, State::Open);
                let (node, side) = (agent.node, agent.side);
                match (before, side) {
                    (State::Opening(id), Side::Runs { .. }) => {
                        let result = result.map(|_| PeerReply::Agent { agent: no });
                        self.send_peer(node, PeerMessage::Reply { id, result }, Vec::new());
                        self.read_agent_if(is_there, no);
                    }
                    (State::Opening(id), Side::Asked { program, .. }) => {
                        self.agent_opened(no, (program, id), result);
                        let goes_on = self.agent_room(no) > 0;
                        self.read_agent_if(goes_on, no);
                    }
                    // The session was lost meanwhile.
                    (other, _) => {
                        agent_state(&mut self.agents, no, other);
                        if is_there {
                            self.out.push_back(Output::CloseAgent { agent: no });
                        }
                    }
                }
                if !is_there {
                    self.forget_agent(no);
                }
            }
            None if is_there => self.out.push_back(Output::CloseAgent { agent: no }),
            None => {}
        }
        if let Some(descriptor) = descriptor {
            self.close_token(descriptor.token);
        }
    }

    fn read_agent_if(&mut self, is_open: bool, no: AgentNo) {
        if is_open {
            self.out.push_back(Output::ReadAgent { agent: no });
        }
    }

    /// The stream to a program stands, or cannot be had.
    fn agent_opened(
        &mut self,
        no: AgentNo,
        (program, id): (ProgramConn, RequestId),
        result: Result<Option<Descriptor>, Refusal>,
    ) {
        if result.is_err() {
            // There is nothing to be closed.
            agent_state(&mut self.agents, no, State::Opening(id));
        }
        let refusal = match result {
            Ok(Some(Descriptor { token, kind })) if kind != DescriptorKind::Unseen => {
                return self.reply(program, id, Ok(Reply::Agent { agent: no }), vec![token]);
            }
            Ok(_) => Refusal::NoDescriptors { limit: None },
            Err(refusal) => refusal,
        };
        self.reply(program, id, Err(refusal), Vec::new());
        self.stop_agent(no);
    }

    /// Takes it out of all tables.
    fn forget_agent(&mut self, no: AgentNo) {
        self.unlink_agent(no);
        self.agents.by_no.remove(&no);
    }

    /// Nobody has a part in it any more.
    fn unlink_agent(&mut self, no: AgentNo) {
        let Some(agent) = self.agents.by_no.get_mut(&no) else { return };
        agent.state = State::Ending;
        if let (node, Side::Asked { program, theirs }) = (agent.node, agent.side) {
            // The number may be another agent's by now, if a manager gives it out again.
            if self.agents.there(node, theirs) == Some(no) {
                self.agents.there.remove(&(node, theirs));
            }
            if let Some(entry) = self.programs.get_mut(&program) {
                entry.agents.remove(&no);
            }
        }
    }

    /// It ends, because the program that has asked for it wants that.
    pub(super) fn stop_agent(&mut self, no: AgentNo) {
        self.end_agent(no, None);
    }

    /// It ends from this side. `why`: that program does not know yet.
    pub(super) fn end_agent(&mut self, no: AgentNo, why: Option<&str>) {
        let Some(agent) = self.agents.by_no.get(&no).filter(|agent| agent.state != State::Ending) else {
            return;
        };
        let (node, side, was) = (agent.node, agent.side, agent.state);
        self.unlink_agent(no);
        let why = why.map(str::to_owned);
        match (side, was, why) {
            (Side::Runs { .. }, _, Some(why)) => {
                self.say_from_agent(node, no, FromAgent::Ended(AgentEnd::Lost { why }));
            }
            (Side::Runs { .. }, _, None) => {}
            (Side::Asked { program, theirs }, was, why) => {
                self.say_to_agent(node, theirs, ToAgent::Stop);
                match (was, why) {
                    (State::Opening(id), Some(why)) => {
                        self.reply(program, id, Err(Refusal::Unreachable { node, why }), Vec::new());
                    }
                    (_, Some(why)) => self.tell_end(program, no, AgentEnd::Lost { why }),
                    (_, None) => {}
                }
            }
        }
        // One that is being opened is closed when that has been done.
        if was == State::Open {
            self.out.push_back(Output::CloseAgent { agent: no });
        }
    }

    /// The program that has asked for it learns how it ended.
    pub(super) fn tell_end(&mut self, program: ProgramConn, no: AgentNo, end: AgentEnd) {
        self.event(program, Event::AgentEnded { agent: no, end }, Vec::new());
    }

    /// Its local end is closed.
    pub(super) fn agent_gone(&mut self, no: AgentNo, end: Option<AgentEnd>) {
        let Some(Agent { node, side, state, .. }) = self.agents.by_no.get(&no) else { return };
        let (node, side, is_open) = (*node, *side, *state != State::Ending);
        self.forget_agent(no);
        match side {
            Side::Runs { .. } if is_open => {
                let end = end.unwrap_or(AgentEnd::Lost { why: "its process is gone".to_owned() });
                self.say_from_agent(node, no, FromAgent::Ended(end));
            }
            Side::Asked { theirs, .. } if is_open => self.say_to_agent(node, theirs, ToAgent::Stop),
            _ => {}
        }
    }

    /// The other manager says that it has ended, after all that it has said.
    pub(super) fn agent_ended(&mut self, no: AgentNo, end: AgentEnd) {
        let Some(Agent { side: Side::Asked { program, .. }, .. }) = self.agents.by_no.get(&no) else {
            return;
        };
        let program = *program;
        self.unlink_agent(no);
        self.tell_end(program, no, bounded(end));
        self.out.push_back(Output::CloseAgent { agent: no });
    }

    /// A program goes, and with it what runs for it.
    pub(super) fn stop_agents_of(&mut self, program: ProgramConn) {
        let agents: BTreeSet<AgentNo> =
            self.programs.get(&program).map(|entry| entry.agents.clone()).unwrap_or_default();
        for no in agents {
            self.stop_agent(no);
        }
    }

    /// The session to a node is lost.
    pub(super) fn lose_agents_of(&mut self, node: NodeId, why: &str) {
        for no in self.agents.numbers(|agent| agent.node == node) {
            self.end_agent(no, Some(&format!("the session with node {node} was lost: {why}")));
        }
    }

    /// This manager ends.
    pub(super) fn close_all_agents(&mut self) {
        for no in self.agents.numbers(|_| true) {
            self.end_agent(no, Some("the manager was stopped"));
        }
    }

    pub(super) fn say_to_agent(&mut self, node: NodeId, agent: AgentNo, word: ToAgent) {
        self.send_peer(node, PeerMessage::ToAgent { agent, word }, Vec::new());
    }

    pub(super) fn say_from_agent(&mut self, node: NodeId, agent: AgentNo, word: FromAgent) {
        self.send_peer(node, PeerMessage::FromAgent { agent, word }, Vec::new());
    }
}

fn agent_state(agents: &mut Agents, no: AgentNo, state: State) {
    if let Some(agent) = agents.by_no.get_mut(&no) {
        agent.state = state;
    }
}

/// An end that may be passed on: a peer decides neither how long it is nor what a terminal does.
fn bounded(end: AgentEnd) -> AgentEnd {
    match end {
        AgentEnd::Lost { why } => {
            let clean = why.chars().map(|c| if is_printable(c) { c } else { ' ' }).take(MOST_WHY).collect();
            AgentEnd::Lost { why: clean }
        }
        other => other,
    }
}
