//! Agents: starts and ends those that run here, and carries bytes between the machine and their local ends.

use std::io::ErrorKind;
use std::os::fd::AsFd;

use proto::manager::Input;
use proto::wire::agent::{AGENT_PIECE_BYTES, AgentNo};
use proto::wire::is_printable;
use proto::wire::program::Refusal;
use rustix::event::epoll::{self, EventFlags};

use super::{Daemon, Key, watch};
use crate::agent::{LocalAgent, Process, Taken, end_of};

impl Daemon {
    /// Answered in the follow-up, before anything else is heard.
    pub(super) fn start_agent(&mut self, agent: AgentNo) {
        let started = LocalAgent::start(&self.dir, self.node).and_then(|mut local| {
            let watched = local.process.as_ref().map_or(Ok(()), |process| {
                watch(&self.epoll, &process.pidfd, Key::AgentDeath(agent), EventFlags::IN)?;
                process.errors.as_ref().map_or(Ok(()), |errors| {
                    watch(&self.epoll, errors, Key::AgentErrors(agent), EventFlags::IN)
                })
            });
            if watched.is_err() {
                // Its end could not be noticed.
                local.process.iter_mut().for_each(Process::end);
            }
            Ok(watched.map(|()| local)?)
        });
        let result = match started {
            Ok(local) => {
                self.agents.insert(agent, local);
                Ok(None)
            }
            Err(error) => Err(self.no_agent(&error)),
        };
        self.follow_up.push(Input::AgentReady { agent, result });
    }

    fn no_agent(&mut self, error: &std::io::Error) -> Refusal {
        use rustix::io::Errno;
        let code = error.raw_os_error().map(Errno::from_raw_os_error);
        let refusal = if matches!(code, Some(Errno::MFILE | Errno::NFILE)) {
            Refusal::NoDescriptors { limit: Some(self.descriptor_limit) }
        } else if error.kind() == ErrorKind::NotFound {
            let text = "its program `tieline-commands` is not beside the manager's own: install it there";
            Refusal::Invalid(format!("node {} cannot start an agent: {text}", self.node))
        } else {
            Refusal::Invalid(format!(
                "node {} cannot start an agent: {error}: see the log of its manager",
                self.node
            ))
        };
        self.warn(format!("an agent cannot be started: {error}"));
        refusal
    }

    pub(super) fn open_agent(&mut self, agent: AgentNo) {
        let result = match LocalAgent::stream() {
            Ok((local, theirs)) => {
                self.agents.insert(agent, local);
                Ok(self.descriptors.admit(vec![theirs], self.own_uid).first().copied())
            }
            Err(error) => Err(self.no_agent(&error)),
        };
        self.follow_up.push(Input::AgentReady { agent, result });
        self.watch_agent(agent);
    }

    pub(super) fn pass_to_agent(&mut self, agent: AgentNo, bytes: &[u8]) {
        if let Some(local) = self.agents.get_mut(&agent) {
            local.queue(bytes);
            self.flush_agent(agent);
        }
    }

    pub(super) fn end_agent_input(&mut self, agent: AgentNo) {
        if let Some(local) = self.agents.get_mut(&agent) {
            local.end_input();
            self.flush_agent(agent);
        }
    }

    /// Writes what goes; the machine hears of it in the follow-up.
    fn flush_agent(&mut self, agent: AgentNo) {
        let Some(local) = self.agents.get_mut(&agent) else { return };
        let bytes = u32::try_from(local.flush()).unwrap_or(u32::MAX);
        if bytes > 0 {
            self.follow_up.push(Input::AgentWritten { agent, bytes });
        }
        // One that runs here is forgotten when it has been waited for, which its pidfd tells.
        if local.closing && local.is_flushed() && local.process.is_none() {
            return self.forget_agent(agent);
        }
        self.watch_agent(agent);
    }

    /// Tells epoll what is of interest now.
    pub(super) fn watch_agent(&mut self, agent: AgentNo) {
        let has_room = self.machine.agent_room(agent) > 0;
        let Some(local) = self.agents.get_mut(&agent) else { return };
        let wanted = local.wanted(has_room);
        if wanted == local.watched {
            return;
        }
        let data = epoll::EventData::new_u64(Key::Agent(agent).encode());
        let told = match (local.watched, wanted) {
            (None, Some(flags)) => epoll::add(&self.epoll, local.as_fd(), data, flags),
            (Some(_), Some(flags)) => epoll::modify(&self.epoll, local.as_fd(), data, flags),
            (_, None) => epoll::delete(&self.epoll, local.as_fd()),
        };
        match told {
            Ok(()) => local.watched = wanted,
            // It could not be served any more.
            Err(errno) => {
                self.warn(format!("agent {} is ended: it cannot be watched: {errno}", agent.0));
                self.close_agent(agent);
            }
        }
    }

    /// The stream has something, or room, or has ended.
    pub(super) fn agent_ready(&mut self, agent: AgentNo, flags: EventFlags) {
        let Some(local) = self.agents.get_mut(&agent) else { return };
        let has_ended = flags.intersects(EventFlags::HUP | EventFlags::ERR);
        if has_ended && local.process.is_none() {
            // The program has closed it: nothing that it said last is of use, and nobody reads what was for
            // it.
            self.forget_agent(agent);
            return self.carry_out();
        }
        if flags.contains(EventFlags::OUT) || has_ended {
            self.flush_agent(agent);
            self.carry_out();
        }
        if flags.contains(EventFlags::IN) || has_ended {
            self.read_agent(agent);
        }
    }

    fn read_agent(&mut self, agent: AgentNo) {
        let room = self.machine.agent_room(agent).min(AGENT_PIECE_BYTES);
        let Some(local) = self.agents.get_mut(&agent) else { return };
        if room > 0 && !local.read_over {
            let mut piece = vec![0; room];
            match local.read(&mut piece) {
                Taken::Bytes(read) => {
                    piece.truncate(read);
                    self.tell(Input::AgentRead { agent, bytes: piece });
                }
                Taken::Nothing => {}
                Taken::End => self.agent_read_over(agent),
            }
        }
        self.watch_agent(agent);
    }

    fn agent_read_over(&mut self, agent: AgentNo) {
        let Some(local) = self.agents.get_mut(&agent) else { return };
        local.read_over = true;
        match &mut local.process {
            None => self.tell(Input::AgentReadEnd { agent }),
            Some(process) if process.exited.is_some() => {
                self.forget_agent(agent);
                self.carry_out();
            }
            // An agent that says no more has ended; as a rule it is about to exit, which this does not
            // change.
            Some(process) => process.kill(),
        }
    }

    /// Its process has ended. What it has said last is still to be read, as far as there is credit.
    pub(super) fn agent_died(&mut self, agent: AgentNo) {
        let Some(local) = self.agents.get_mut(&agent) else { return };
        let is_over = local.read_over || local.closing;
        let Some(process) = local.process.as_mut().filter(|process| process.exited.is_none()) else { return };
        if !process.reap() {
            return;
        }
        let _ = epoll::delete(&self.epoll, &process.pidfd);
        while self.agent_errors_once(agent) {}
        if is_over {
            self.forget_agent(agent);
            return self.carry_out();
        }
        self.read_agent(agent);
    }

    pub(super) fn agent_errors(&mut self, agent: AgentNo) {
        self.agent_errors_once(agent);
    }

    /// Logs what an agent prints, as far as it may; false: there is no more, or not now.
    fn agent_errors_once(&mut self, agent: AgentNo) -> bool {
        let Some(process) = self.agents.get_mut(&agent).and_then(|local| local.process.as_mut()) else {
            return false;
        };
        let pid = process.id();
        let Some(text) = process.printed() else { return false };
        for line in text.lines().filter(|line| !line.trim().is_empty()) {
            let line: String = line.chars().map(|c| if is_printable(c) { c } else { ' ' }).collect();
            self.warn(format!("agent {} (pid {pid}) says: {line}", agent.0));
        }
        true
    }

    /// Kills one that runs here; closes the stream of another one after what waits.
    pub(super) fn close_agent(&mut self, agent: AgentNo) {
        let Some(local) = self.agents.get_mut(&agent) else { return };
        local.closing = true;
        match &mut local.process {
            Some(process) => {
                process.kill();
                if process.exited.is_some() {
                    self.forget_agent(agent);
                }
            }
            None => self.flush_agent(agent),
        }
    }

    /// The end of the local end, which the machine hears of in the follow-up.
    fn forget_agent(&mut self, agent: AgentNo) {
        let Some(local) = self.agents.remove(&agent) else { return };
        let status = local.process.as_ref().and_then(|process| process.exited);
        self.follow_up.push(Input::AgentGone { agent, end: status.map(end_of) });
    }

    /// None outlives its manager.
    pub(super) fn end_agents(&mut self) {
        for local in self.agents.values_mut() {
            local.process.iter_mut().for_each(Process::end);
        }
        self.agents.clear();
    }
}
