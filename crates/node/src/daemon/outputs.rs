//! Carries out what the state machine of crate `proto` requests.

use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use foreign::Foreign;
use link::page::ImportState;
use node_client::seqpacket::Seqpacket;
use proto::ids::NodeId;
use proto::manager::{FdToken, Input, LogLevel, Output};
use proto::wire::encode;
use proto::wire::program::{Event, ToProgram};
use rustix::event::epoll::{self, EventFlags};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use serde::Serialize;

use super::{Daemon, Key, clock};
use crate::connection::{Connection, Sent, Topic};
use crate::credentials;
use crate::listener::Accepted;

/// To count what is in flight anew takes a call for each program that was sent descriptors lately.
const COUNT_PAUSE: Duration = Duration::from_millis(1);

impl Daemon {
    /// Carries out the machine's outputs until there are no more.
    pub(super) fn carry_out(&mut self) {
        loop {
            while let Some(output) = self.machine.poll_output() {
                self.one(output);
            }
            if self.follow_up.is_empty() {
                return;
            }
            for input in std::mem::take(&mut self.follow_up) {
                self.machine.handle(clock(), input);
            }
        }
    }

    fn one(&mut self, output: Output) {
        match output {
            Output::ToProgram { program, message, descriptors } => {
                // Those who resume their connections to a program that is slow or stopped cannot be refused:
                // their pidfds must not be what cuts it off. It then has to do without the proof of their
                // death.
                let spare = matches!(message, ToProgram::Event(Event::Connected { .. }))
                    && self.programs.get(&program).is_some_and(|end| end.connection.is_heavy());
                let topic = Topic::of(&message);
                self.send(Key::Program(program), &message, if spare { &[] } else { &descriptors }, topic);
            }
            Output::ToPeer { peer, message, descriptors } => {
                if !self.send_to_host(peer, &message) {
                    self.send(Key::Peer(peer), &message, &descriptors, None);
                }
            }
            Output::Welcome { program, message } => self.welcome(Key::Program(program), &message),
            Output::CloseProgram { program } => self.close(Key::Program(program)),
            Output::ClosePeer { peer } => {
                if !self.close_host(peer) {
                    self.close(Key::Peer(peer));
                }
            }
            Output::Dial { node } => self.dial(node),
            Output::DialRelayed { node, relay, through, port } => {
                self.dial_relayed(node, relay, through, port);
            }
            Output::OpenForward { forward, from, to, at } => self.open_forward(forward, from, to, at),
            Output::RenewForward { forward } => self.renew_forward(forward),
            Output::DrainForward { forward } => self.drain_forward(forward),
            Output::CloseForward { forward } => self.close_forward(forward),
            Output::CheckProcess { pid } => {
                if certainly_gone(pid) {
                    self.follow_up.push(Input::ProcessGone { pid });
                }
            }
            Output::StartAgent { agent } => self.start_agent(agent),
            Output::OpenAgent { agent } => self.open_agent(agent),
            Output::ToAgent { agent, bytes } => self.pass_to_agent(agent, &bytes),
            Output::EndAgentInput { agent } => self.end_agent_input(agent),
            Output::ReadAgent { agent } => self.watch_agent(agent),
            Output::CloseAgent { agent } => self.close_agent(agent),
            Output::SetLink { node, up } => {
                if let Err(error) = self.page.set_link(node, up, clock().as_nanos()) {
                    self.warn(format!("state page: {error}"));
                }
            }
            Output::SetImport { import, ended } => {
                let state = ended.map_or(ImportState::Alive, ImportState::Ended);
                if let Err(error) = self.page.set_import(import, state) {
                    self.warn(format!("state page: {error}"));
                }
            }
            Output::SuspendImport { import, suspended } => {
                let state = if suspended { ImportState::Suspended } else { ImportState::Alive };
                if let Err(error) = self.page.set_import(import, state) {
                    self.warn(format!("state page: {error}"));
                }
            }
            Output::SetFaults { node, faults } => {
                if let Err(error) = self.page.set_faults(node, &faults) {
                    self.warn(format!("state page: {error}"));
                }
            }
            Output::CloseDescriptor { token } => {
                self.descriptors.close(token);
                self.interrupt_sockets.close(token, self.machine.has_stopped());
            }
            Output::Log { level: LogLevel::Info, text } => self.info(&text),
            Output::Log { level: LogLevel::Warn, text } => self.warn(text),
            Output::Exit => self.ended = true,
        }
    }

    fn send<T: Serialize>(&mut self, key: Key, message: &T, tokens: &[FdToken], topic: Option<Topic>) {
        let bytes = match encode(message) {
            Ok(bytes) => bytes,
            Err(error) => return self.warn(format!("a message could not be sent: {error}")),
        };
        let mut descriptors = Vec::with_capacity(tokens.len());
        for token in tokens {
            match self.interrupt_sockets.sender(*token) {
                Some(Ok(socket)) => descriptors.push(socket),
                // The receiver is told that a descriptor is missing.
                Some(Err(failure)) => self.warn(failure.text),
                None => descriptors.extend(self.descriptors.get(&[*token])),
            }
        }
        let connection = match key {
            Key::Program(conn) => self.programs.get_mut(&conn).map(|end| &mut end.connection),
            Key::Peer(conn) => self.peers.get_mut(&conn),
            _ => None,
        };
        let Some(connection) = connection else { return };
        let went_on = connection.retry_at.is_none();
        let sent = connection.send(bytes, descriptors, topic);
        let is_held = connection.retry_at.is_some();
        self.after_sending(key, sent);
        if went_on && is_held && self.count_in_flight() {
            self.flush(key);
        }
    }

    fn welcome(&mut self, key: Key, message: &ToProgram) {
        let Ok(bytes) = encode(message) else { return };
        let Key::Program(conn) = key else { return };
        let Some(end) = self.programs.get_mut(&conn) else { return };
        // From here on it may send what it has to.
        end.connection.let_descriptors_in();
        let sent = end.connection.send(bytes, vec![self.page_fd.clone()], None);
        let is_held = end.connection.retry_at.is_some();
        self.after_sending(key, sent);
        if is_held && self.count_in_flight() {
            self.flush(key);
        }
    }

    /// Looks at who has read the descriptors that were sent; false: that was a moment ago.
    fn count_in_flight(&mut self) -> bool {
        let now = Instant::now();
        if self.counted_at.is_some_and(|at| now.saturating_duration_since(at) < COUNT_PAUSE) {
            return false;
        }
        self.counted_at = Some(now);
        self.connections().for_each(Connection::see_what_was_read);
        self.in_flight.look_at_the_ended();
        true
    }

    fn after_sending(&mut self, key: Key, sent: Sent) {
        match sent {
            Sent::Fine => self.watch_for_room(key),
            Sent::Overflow => {
                self.warn(format!("{key:?} does not read what it is sent: cut off"));
                self.forget(key);
                match key {
                    Key::Program(program) => self.follow_up.push(Input::ProgramGone { program }),
                    Key::Peer(peer) => self.follow_up.push(Input::PeerGone { peer }),
                    _ => {}
                }
            }
        }
    }

    /// Tells epoll whether room is waited for, and notes who waits for a moment.
    pub(super) fn watch_for_room(&mut self, key: Key) {
        let put_off = matches!(key, Key::Program(program) if self.put_off.contains(&program));
        let Some(connection) = self.connection(key) else { return };
        let waits_for_a_moment = connection.retry_at.is_some() || connection.close_at.is_some();
        let crowded = connection.is_crowded();
        let news = crowded != connection.crowded;
        connection.crowded = crowded;
        let (wants_write, wants_read) =
            (connection.waits_for_room(), connection.is_listened_to() && !put_off);
        if (wants_write, wants_read) != (connection.wants_write, connection.wants_read) {
            (connection.wants_write, connection.wants_read) = (wants_write, wants_read);
            let mut flags = EventFlags::empty();
            flags.set(EventFlags::OUT, wants_write);
            flags.set(EventFlags::IN, wants_read);
            let data = epoll::EventData::new_u64(key.encode());
            let connection = match key {
                Key::Program(conn) => self.programs.get(&conn).map(|end| &end.connection),
                Key::Peer(conn) => self.peers.get(&conn),
                _ => None,
            };
            if let Some(connection) = connection {
                // It is in the set; if this fails all the same, the connection's own end is still seen.
                let _ = epoll::modify(&self.epoll, connection.as_fd(), data, flags);
            }
        }
        if waits_for_a_moment && !self.timed.contains(&key) {
            self.timed.push(key);
        }
        if let Key::Program(program) = key
            && news
        {
            self.follow_up.push(Input::ProgramCrowded { program, crowded });
        }
    }

    /// There is room again.
    pub(super) fn flush(&mut self, key: Key) {
        let Some(connection) = self.connection(key) else { return };
        connection.flush();
        if connection.is_flushed() && connection.close_at.is_some() {
            return self.forget(key);
        }
        self.watch_for_room(key);
    }

    fn close(&mut self, key: Key) {
        let Some(connection) = self.connection(key) else { return };
        connection.flush();
        if connection.is_flushed() {
            return self.forget(key);
        }
        connection.close_soon();
        self.watch_for_room(key);
    }

    /// Connections whose moment has come: to try again, or to be closed.
    pub(super) fn attend_timed(&mut self) {
        let now = Instant::now();
        self.count_in_flight();
        for key in std::mem::take(&mut self.timed) {
            let Some(connection) = self.connection(key) else { continue };
            if let Some(why) = connection.why_held() {
                self.warn_of_waiting(key, &why);
            }
            let Some(connection) = self.connection(key) else { continue };
            if connection.close_at.is_some_and(|at| at <= now) {
                self.forget(key);
            } else if connection.retry_at.is_some_and(|at| at <= now) {
                self.flush(key);
            } else if connection.retry_at.is_some() || connection.close_at.is_some() {
                self.timed.push(key);
            }
        }
    }

    fn warn_of_waiting(&mut self, key: Key, why: &str) {
        let who = match key {
            Key::Program(conn) => format!("pid {}", self.programs.get(&conn).map_or(0, |end| end.pid)),
            _ => "another manager".to_owned(),
        };
        self.warn(format!("messages with descriptors for {who} wait: {why}"));
    }

    fn dial(&mut self, node: NodeId) {
        // What is on this host is reached without the network.
        let is_here = self.dir.peer_socket(node).is_ok_and(|path| path.exists());
        if !is_here && self.dial_host(node) {
            return;
        }
        let socket = match self.dir.peer_socket(node) {
            Ok(path) => Seqpacket::connect(&path).map_err(|errno| errno.to_string()),
            Err(error) => Err(error.to_string()),
        };
        let failed = match socket {
            Ok(socket) => match credentials::of_peer(&socket) {
                Ok(credentials) => {
                    let socket = Foreign::new(socket, credentials.uid, &self.closer);
                    self.add_peer(Accepted { socket, credentials }, Some(node))
                }
                Err(errno) => Some(errno.to_string()),
            },
            Err(why) => Some(why),
        };
        if let Some(why) = failed {
            self.follow_up.push(Input::DialFailed { node, why });
        }
    }

    pub(super) fn info(&mut self, text: &str) {
        if self.may_log() {
            tracing::info!("{text}");
        }
    }

    pub(super) fn warn(&mut self, text: String) {
        if self.may_log() {
            tracing::warn!("{text}");
        }
    }

    fn may_log(&mut self) -> bool {
        let (open, held_back) = self.gate.admit(Instant::now());
        if held_back > 0 {
            tracing::warn!("{held_back} lines were left out, there were too many");
        }
        open
    }
}

/// Whether a process of this pid namespace is not there any more. A number that is in use again is no proof,
/// nor is any other failure to look.
fn certainly_gone(pid: u32) -> bool {
    let Some(raw) = i32::try_from(pid).ok().and_then(Pid::from_raw) else { return false };
    match pidfd_open(raw, PidfdFlags::NONBLOCK) {
        Err(errno) => errno == Errno::SRCH,
        Ok(pidfd) => poll(&mut [PollFd::new(&pidfd, PollFlags::IN)], Some(&Timespec::default())) == Ok(1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_who_is_not_there_is_gone() {
        let mut child = std::process::Command::new("sleep").arg("1000").spawn().unwrap();
        assert!(!certainly_gone(child.id()));
        assert!(!certainly_gone(0));
        child.kill().unwrap();
        // Not yet waited for, and yet dead.
        let start = Instant::now();
        while !certainly_gone(child.id()) {
            assert!(start.elapsed().as_secs() < 30);
        }
        child.wait().unwrap();
    }
}
