//! Programs: attach, requests, detach.

use std::collections::BTreeSet;
use std::time::Duration;

use super::admission::STRANGER_LIMIT;
use super::relay_needs::Need;
use super::{
    Credentials, Descriptor, DescriptorKind, FdToken, LogLevel, Manager, Output, ProgramConn, Timer,
};
use crate::ids::GroupId;
use crate::wire::agent::AgentNo;
use crate::wire::peer::Requester;
use crate::wire::program::{
    Access, Event, ImportSlot, Imported, LossReason, Refusal, RequestId, ToManager, ToProgram,
};
use crate::wire::{CodecError, MAX_NAME_BYTES, PROTOCOL_VERSION, is_printable};

/// A manager's connection that sends no hello for so long is closed.
pub(super) const HELLO_LIMIT: Duration = Duration::from_secs(30);
/// The most groups in a request to a peer; more would not fit into a datagram.
pub(super) const MAX_REQUESTER_GIDS: usize = 256;

/// One connection with a program.
#[derive(Debug)]
pub(super) struct Program {
    pub(super) credentials: Credentials,
    pub(super) name: String,
    /// Present once it is attached.
    pub(super) pidfd: Option<FdToken>,
    pub(super) reattached: bool,
    pub(super) objects: BTreeSet<Imported>,
    pub(super) imports: BTreeSet<ImportSlot>,
    /// Requests to peers on its behalf.
    pub(super) pending: BTreeSet<RequestId>,
    /// Its `ResumeImport`s of this node's objects that have yet to be there.
    pub(super) waiting: BTreeSet<(Imported, super::Asker)>,
    pub(super) watches: BTreeSet<GroupId>,
    /// Agents on other hosts that run for it.
    pub(super) agents: BTreeSet<AgentNo>,
    /// What relays forward for it.
    pub(super) relayed: BTreeSet<Need>,
    /// Much waits for it to be read.
    pub(super) crowded: bool,
}

impl Program {
    pub(super) fn new(credentials: Credentials) -> Self {
        Self {
            credentials,
            name: String::new(),
            pidfd: None,
            reattached: false,
            objects: BTreeSet::new(),
            imports: BTreeSet::new(),
            pending: BTreeSet::new(),
            waiting: BTreeSet::new(),
            watches: BTreeSet::new(),
            agents: BTreeSet::new(),
            relayed: BTreeSet::new(),
            crowded: false,
        }
    }

    pub(super) fn attached(&self) -> bool {
        self.pidfd.is_some()
    }

    fn owns_something(&self) -> bool {
        !self.objects.is_empty() || !self.imports.is_empty()
    }
}

impl Manager {
    pub(super) fn program_message(
        &mut self,
        program: ProgramConn,
        message: ToManager,
        descriptors: &[Descriptor],
    ) {
        self.adopt(descriptors);
        let Some(attached) = self.programs.get(&program).map(Program::attached) else {
            return self.close_tokens(descriptors);
        };
        match (attached, message) {
            (false, ToManager::Hello { name, reattach }) => {
                if let Err(refusal) = self.hello(program, &name, reattach, descriptors) {
                    self.close_tokens(descriptors);
                    self.reject(program, refusal);
                }
            }
            (true, ToManager::Request { id, body }) => self.request(program, id, body, descriptors),
            (true, ToManager::Hello { .. }) => {
                self.close_tokens(descriptors);
                self.violation(program, "it sent a second hello");
            }
            (false, ToManager::Request { .. }) => {
                self.close_tokens(descriptors);
                self.violation(program, "it did not send a hello first");
            }
        }
    }

    fn hello(
        &mut self,
        program: ProgramConn,
        name: &str,
        reattach: bool,
        descriptors: &[Descriptor],
    ) -> Result<(), Refusal> {
        let entry = self.programs.get(&program).ok_or(Refusal::Invalid("not connected".to_owned()))?;
        let credentials = &entry.credentials;
        if name.len() > MAX_NAME_BYTES {
            return Err(Refusal::Invalid(format!(
                "the program's name has {} bytes: use at most {MAX_NAME_BYTES}",
                name.len()
            )));
        }
        let pid = credentials.pid;
        let pidfd = match descriptors {
            [one] if one.kind == DescriptorKind::Pid(pid) => one.token,
            [one] if one.kind == DescriptorKind::Unseen => {
                return Err(Refusal::NoDescriptors { limit: None });
            }
            [_] => {
                return Err(Refusal::Invalid(format!(
                    "the descriptor of hello is not a pidfd of process {pid}"
                )));
            }
            other => return Err(super::descriptors::missing("hello", 1, other.len())),
        };
        self.take_share(program)?;
        self.timers.clear(Timer::ProgramHello(program));
        self.counters.attaches += 1;
        if let Some(entry) = self.programs.get_mut(&program) {
            entry.name = printable(name);
            entry.pidfd = Some(pidfd);
            entry.reattached = reattach;
        }
        let message = ToProgram::Welcome { info: self.config.info.clone() };
        self.out.push_back(Output::Welcome { program, message });
        Ok(())
    }

    /// Hello was not acceptable.
    pub(super) fn reject(&mut self, program: ProgramConn, refusal: Refusal) {
        let title = self.program_title(program);
        self.log(LogLevel::Warn, format!("{title} was rejected: {refusal}"));
        self.send_program(program, ToProgram::Rejected(refusal), Vec::new());
        self.out.push_back(Output::CloseProgram { program });
        self.forget_program(program);
    }

    /// It broke a rule of the protocol: there is no telling what else it means.
    pub(super) fn violation(&mut self, program: ProgramConn, why: &str) {
        self.counters.protocol_errors += 1;
        self.reject(program, Refusal::Invalid(format!("the connection is closed, because {why}")));
    }

    pub(super) fn program_garbage(
        &mut self,
        program: ProgramConn,
        error: &CodecError,
        descriptors: &[Descriptor],
    ) {
        self.adopt(descriptors);
        self.close_tokens(descriptors);
        if !self.programs.contains_key(&program) {
            return;
        }
        match error {
            CodecError::OtherVersion { theirs } => {
                self.counters.protocol_errors += 1;
                self.reject(program, Refusal::Version { theirs: *theirs, ours: PROTOCOL_VERSION });
            }
            other => self.violation(program, &format!("it sent an invalid message: {other}")),
        }
    }

    pub(super) fn program_silent(&mut self, program: ProgramConn) {
        if self.programs.get(&program).is_some_and(|entry| !entry.attached()) {
            let seconds = STRANGER_LIMIT.as_secs();
            self.reject(program, Refusal::Invalid(format!("no hello came within {seconds} seconds")));
        }
    }

    pub(super) fn program_gone(&mut self, program: ProgramConn) {
        self.forget_program(program);
    }

    /// Everything of a program goes with it. It died if it still owned anything.
    fn forget_program(&mut self, program: ProgramConn) {
        let Some(entry) = self.programs.get(&program) else { return };
        let died = entry.owns_something();
        let (objects, imports) = (entry.objects.clone(), entry.imports.clone());
        let (pending, waiting) = (entry.pending.clone(), entry.waiting.clone());
        let (watches, pidfd) = (entry.watches.clone(), entry.pidfd);
        if died {
            self.counters.program_deaths += 1;
            let title = self.program_title(program);
            let text =
                format!("{title} went away with {} object(s) and {} import(s)", objects.len(), imports.len());
            self.log(LogLevel::Info, text);
        }
        for group in watches {
            self.unwatch(program, group);
        }
        self.stop_agents_of(program);
        for request in pending {
            self.abandon(request);
        }
        for key in waiting {
            self.waiting.remove(&key);
        }
        // No message is sent to it from here on.
        self.timers.clear(Timer::ProgramHello(program));
        if let Some(entry) = self.programs.get_mut(&program) {
            entry.pidfd = None;
        }
        for what in objects {
            self.remove_object(what, LossReason::OwnerDied);
        }
        for import in imports {
            self.release_import(import, true);
        }
        self.release_forwards_of(program);
        self.leave_share(program, pidfd.is_some());
        self.programs.remove(&program);
        if let Some(pidfd) = pidfd {
            self.close_token(pidfd);
        }
    }

    /// Sends to a program, if it is (still) there.
    pub(super) fn send_program(
        &mut self,
        program: ProgramConn,
        message: ToProgram,
        descriptors: Vec<FdToken>,
    ) {
        if self.programs.contains_key(&program) {
            self.out.push_back(Output::ToProgram { program, message, descriptors });
        }
    }

    /// Tells an attached program unasked.
    pub(super) fn event(&mut self, program: ProgramConn, event: Event, descriptors: Vec<FdToken>) {
        if self.programs.get(&program).is_some_and(Program::attached) {
            self.out.push_back(Output::ToProgram { program, message: ToProgram::Event(event), descriptors });
        }
    }

    /// Tells all attached programs.
    pub(super) fn event_to_all(&mut self, event: &Event) {
        let attached = self.programs.iter().filter(|(_, entry)| entry.attached());
        let programs: Vec<ProgramConn> = attached.map(|(&program, _)| program).collect();
        for program in programs {
            self.event(program, event.clone(), Vec::new());
        }
    }

    /// A program as people know it.
    pub(super) fn program_title(&self, program: ProgramConn) -> String {
        match self.programs.get(&program) {
            Some(entry) if entry.name.is_empty() => format!("program (pid {})", entry.credentials.pid),
            Some(entry) => format!("program `{}` (pid {})", entry.name, entry.credentials.pid),
            None => "a program".to_owned(),
        }
    }

    /// A program as a peer is told of it.
    pub(super) fn requester(&self, program: ProgramConn) -> Requester {
        match self.programs.get(&program) {
            Some(Program { credentials, name, .. }) => Requester {
                uid: credentials.uid,
                gids: credentials.gids.iter().copied().take(MAX_REQUESTER_GIDS).collect(),
                pid: credentials.pid,
                name: name.clone(),
            },
            None => Requester { uid: u32::MAX, gids: Vec::new(), pid: 0, name: String::new() },
        }
    }
}

/// Root, the owner's user, a listed user, or a member of the group.
pub(super) fn allowed(access: &Access, owner_uid: u32, uid: u32, gids: &[u32]) -> bool {
    uid == 0
        || uid == owner_uid
        || access.uids.contains(&uid)
        || access.gid.is_some_and(|gid| gids.contains(&gid))
}

/// A name that can go to a terminal and into a log: no control characters, not too long.
pub(super) fn printable(name: &str) -> String {
    let mut clean = String::with_capacity(name.len().min(MAX_NAME_BYTES));
    for c in name.chars().map(|c| if is_printable(c) { c } else { '?' }) {
        if clean.len() + c.len_utf8() > MAX_NAME_BYTES {
            break;
        }
        clean.push(c);
    }
    clean
}
