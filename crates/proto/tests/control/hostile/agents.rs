//! The local ends of agents, which do whatever comes to their mind, within their credit.

use proptest::prelude::*;
use proto::manager::{DescriptorKind, Input, Output};
use proto::wire::agent::{AgentEnd, AgentNo};
use proto::wire::program::Refusal;

use super::Rig;

/// What the local end of an agent does.
#[derive(Debug, Clone)]
pub(super) enum Local {
    Reads(u16),
    ReadsEnd,
    Writes(u16),
    Goes,
}

pub(super) fn local() -> impl Strategy<Value = Local> {
    prop_oneof![
        4 => any::<u16>().prop_map(Local::Reads),
        1 => Just(Local::ReadsEnd),
        4 => any::<u16>().prop_map(Local::Writes),
        1 => Just(Local::Goes),
    ]
}

impl Rig {
    /// Now and then it cannot be had.
    pub(super) fn agent_ready(&mut self, agent: AgentNo, output: &Output) {
        let is_there = !agent.0.is_multiple_of(5);
        let result = if is_there {
            assert_eq!(self.agents.insert(agent, 0), None, "{agent:?} is given out twice");
            let is_stream = matches!(output, Output::OpenAgent { .. });
            let kind = if agent.0.is_multiple_of(7) { DescriptorKind::Unseen } else { DescriptorKind::Other };
            Ok(if is_stream { self.receive(&[kind]).first().copied() } else { None })
        } else {
            Err(Refusal::NoDescriptors { limit: None })
        };
        self.manager.handle(self.now, Input::AgentReady { agent, result });
    }

    pub(super) fn agent_does(&mut self, pick: u8, does: Local) {
        let picked = self.agents.iter_mut().nth(usize::from(pick) % 4);
        let Some((&agent, owed)) = picked else { return };
        let input = match does {
            Local::Reads(bytes) => {
                let room = self.manager.agent_room(agent);
                Input::AgentRead { agent, bytes: vec![1; usize::from(bytes).min(room)] }
            }
            Local::ReadsEnd => Input::AgentReadEnd { agent },
            Local::Writes(bytes) => {
                let bytes = u32::from(bytes).min(*owed);
                *owed -= bytes;
                Input::AgentWritten { agent, bytes }
            }
            Local::Goes => {
                self.agents.remove(&agent);
                Input::AgentGone { agent, end: Some(AgentEnd::Exited { status: 0 }) }
            }
        };
        self.input(input);
    }
}
