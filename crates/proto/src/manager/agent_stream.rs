//! The bytes to and from agents, and the credit for them. Whoever breaks a rule loses that agent, and nothing
//! else.

use super::agents::{Agent, Side, State};
use super::{LogLevel, Manager, Output};
use crate::ids::NodeId;
use crate::wire::agent::{AGENT_PIECE_BYTES, AGENT_WINDOW_BYTES, AgentNo, FromAgent, ToAgent};

impl Manager {
    /// How many bytes of an agent's local end are taken now: no more may be read.
    pub fn agent_room(&self, no: AgentNo) -> usize {
        let open = self.agents.by_no.get(&no).filter(|agent| agent.state == State::Open);
        let reads = open.filter(|agent| !(agent.input_ended && matches!(agent.side, Side::Asked { .. })));
        reads.map_or(0, |agent| (agent.may_send as usize).min(AGENT_PIECE_BYTES))
    }

    pub(super) fn agent_read(&mut self, no: AgentNo, bytes: Vec<u8>) {
        let count = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        let Some(agent) = self.agents.by_no.get_mut(&no).filter(|agent| agent.state == State::Open) else {
            return;
        };
        let Some(left) = agent.may_send.checked_sub(count).filter(|_| count > 0) else { return };
        agent.may_send = left;
        match (agent.node, agent.side) {
            (node, Side::Runs { .. }) => self.say_from_agent(node, no, FromAgent::Bytes(bytes)),
            (node, Side::Asked { theirs, .. }) => self.say_to_agent(node, theirs, ToAgent::Bytes(bytes)),
        }
    }

    pub(super) fn agent_read_end(&mut self, no: AgentNo) {
        let Some(agent) = self.agents.by_no.get_mut(&no).filter(|agent| agent.state == State::Open) else {
            return;
        };
        if let (node, Side::Asked { theirs, .. }, false) = (agent.node, agent.side, agent.input_ended) {
            agent.input_ended = true;
            self.say_to_agent(node, theirs, ToAgent::InputEnded);
        }
    }

    pub(super) fn agent_written(&mut self, no: AgentNo, bytes: u32) {
        let Some(agent) = self.agents.by_no.get_mut(&no).filter(|agent| agent.state == State::Open) else {
            return;
        };
        let outstanding = AGENT_WINDOW_BYTES - agent.may_receive;
        agent.passed_on = agent.passed_on.saturating_add(bytes).min(outstanding);
        if agent.passed_on < AGENT_WINDOW_BYTES / 2 {
            return;
        }
        let credit = std::mem::take(&mut agent.passed_on);
        agent.may_receive += credit;
        match (agent.node, agent.side) {
            (node, Side::Runs { .. }) => self.say_from_agent(node, no, FromAgent::Credit(credit)),
            (node, Side::Asked { theirs, .. }) => self.say_to_agent(node, theirs, ToAgent::Credit(credit)),
        }
    }

    /// A peer says something to an agent that runs here.
    pub(super) fn word_to_agent(&mut self, node: NodeId, no: AgentNo, word: ToAgent) {
        match self.agents.by_no.get(&no) {
            // It has ended meanwhile.
            None | Some(Agent { state: State::Ending, .. }) => return,
            Some(Agent { node: of, side: Side::Runs { .. }, .. }) if *of == node => {}
            Some(_) => {
                self.counters.protocol_errors += 1;
                let text = format!("node {node} claims agent {} of another node: ignored", no.0);
                return self.log(LogLevel::Warn, text);
            }
        }
        match word {
            ToAgent::Bytes(bytes) => self.pass_on(no, bytes),
            ToAgent::Credit(credit) => self.more_credit(no, credit),
            ToAgent::InputEnded => {
                if let Some(agent) = self.agents.by_no.get_mut(&no).filter(|agent| !agent.input_ended) {
                    agent.input_ended = true;
                    self.out.push_back(Output::EndAgentInput { agent: no });
                }
            }
            ToAgent::Stop => self.stop_agent(no),
        }
    }

    /// A peer says something of an agent that it runs.
    pub(super) fn word_from_agent(&mut self, node: NodeId, theirs: AgentNo, word: FromAgent) {
        // Where it is not known, it has been stopped here.
        let Some(no) = self.agents.there(node, theirs) else { return };
        match word {
            FromAgent::Bytes(bytes) => self.pass_on(no, bytes),
            FromAgent::Credit(credit) => self.more_credit(no, credit),
            FromAgent::Ended(end) => self.agent_ended(no, end),
        }
    }

    fn pass_on(&mut self, no: AgentNo, bytes: Vec<u8>) {
        let Some(agent) = self.agents.by_no.get_mut(&no) else { return };
        let count = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        let is_input = matches!(agent.side, Side::Runs { .. });
        let wrong = match agent.may_receive.checked_sub(count) {
            _ if bytes.is_empty() || bytes.len() > AGENT_PIECE_BYTES => {
                "it sent a piece of an impossible length"
            }
            _ if is_input && agent.input_ended => "it sent bytes after their end",
            _ if agent.state != State::Open => "it sent bytes before the agent was there",
            None => "it sent more bytes than it had credit for",
            Some(left) => {
                agent.may_receive = left;
                return self.out.push_back(Output::ToAgent { agent: no, bytes });
            }
        };
        self.broke_a_rule(no, wrong);
    }

    fn more_credit(&mut self, no: AgentNo, credit: u32) {
        let Some(agent) = self.agents.by_no.get_mut(&no) else { return };
        let sum = agent.may_send.checked_add(credit).filter(|sum| *sum <= AGENT_WINDOW_BYTES && credit > 0);
        match sum {
            Some(sum) => {
                agent.may_send = sum;
                self.out.push_back(Output::ReadAgent { agent: no });
            }
            None => self.broke_a_rule(no, "it gave credit for what was never sent"),
        }
    }

    fn broke_a_rule(&mut self, no: AgentNo, why: &str) {
        let Some(node) = self.agents.by_no.get(&no).map(|agent| agent.node) else { return };
        self.counters.protocol_errors += 1;
        self.log(
            LogLevel::Warn,
            format!("agent {} is ended: the manager of node {node} broke a rule: {why}", no.0),
        );
        self.end_agent(no, Some(&format!("the manager of node {node} broke a rule: {why}")));
    }
}
