//! Inputs of the manager: connections, messages, deaths, changes of the directory.

use std::os::fd::{AsFd, OwnedFd};

use proto::ids::NodeId;
use proto::manager::{Descriptor, DescriptorKind, Input, PeerConn, ProgramConn};
use proto::wire::peer::PeerMessage;
use proto::wire::program::{Refusal, Request, ToManager, ToProgram};
use proto::wire::{CodecError, MAX_DATAGRAM_BYTES, MAX_DESCRIPTORS, decode};
use rustix::event::epoll::EventFlags;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use serde::de::DeserializeOwned;

use node_client::seqpacket::{Datagram, Seqpacket};

use super::{Daemon, Key, ProgramEnd, watch};
use crate::connection::{Connection, Of};
use crate::listener::Accepted;
use crate::watch::Happened;

/// Messages taken from one connection before the others get their turn.
const MESSAGES_AT_ONCE: usize = 16;
/// Messages taken from a program that has died: those sent while it lived, no more than a socket holds. A
/// fork of it that continues sending is not listened to.
const LAST_MESSAGES: usize = 1024;
/// Connections accepted before others get their turn.
const ACCEPTS_AT_ONCE: usize = 16;

/// What one look at a socket gave.
enum Read {
    Nothing,
    End,
    Datagram(Datagram),
}

fn read(socket: &Seqpacket, buffer: &mut [u8]) -> Read {
    match socket.receive(buffer) {
        Ok(Some(datagram)) => Read::Datagram(datagram),
        Err(Errno::AGAIN) => Read::Nothing,
        Ok(None) | Err(_) => Read::End,
    }
}

fn message<T: DeserializeOwned>(buffer: &[u8], datagram: &Datagram) -> Result<T, CodecError> {
    if datagram.truncated {
        return Err(CodecError::TooLong(MAX_DATAGRAM_BYTES + 1));
    }
    if datagram.descriptors.len() > MAX_DESCRIPTORS {
        return Err(CodecError::Malformed(format!("more than {MAX_DESCRIPTORS} descriptors came along")));
    }
    // Descriptors that this process had no room for are simply not there: the machine refuses what needs
    // them.
    decode(buffer.get(..datagram.len).unwrap_or_default())
}

/// A pidfd of the process that has this number now.
fn by_number(pid: u32) -> Option<OwnedFd> {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw)?;
    pidfd_open(pid, PidfdFlags::NONBLOCK).ok()
}

impl ProgramEnd {
    /// A pidfd of its process for others; not a copy of the one that is watched. `None`: it is gone, or has
    /// no number here and the kernel does not tell either (before Linux 6.5).
    fn process(&self) -> Option<OwnedFd> {
        foreign::peer_process(self.connection.socket()).or_else(|| {
            // The process that had the number when it connected still has it, if it lives.
            let watched = self.pidfd.as_ref()?;
            let opened = by_number(self.pid)?;
            let exited = poll(&mut [PollFd::new(watched, PollFlags::IN)], Some(&Timespec::default()));
            (exited == Ok(0)).then_some(opened)
        })
    }
}

impl Daemon {
    pub(super) fn accept_programs(&mut self) {
        for _ in 0..ACCEPTS_AT_ONCE {
            match self.programs_listener.accept(&self.closer) {
                // In the queue since before that.
                Ok(accepted) if self.is_shut_out(accepted.credentials.uid) => {
                    if self.descriptors.is_over_the_line(accepted.socket.as_fd()) {
                        self.accept_later();
                    }
                    accepted.hang_up();
                }
                Ok(accepted) if self.descriptors.is_near_the_line(accepted.socket.as_fd()) => {
                    let refusal = self.no_descriptors();
                    self.warn(format!("a program was turned away: {refusal}"));
                    if self.descriptors.is_over_the_line(accepted.socket.as_fd()) {
                        self.accept_later();
                    }
                    accepted.refuse(&ToProgram::Rejected(refusal));
                }
                Ok(accepted) => self.add_program(accepted),
                Err(Errno::MFILE | Errno::NFILE) => {
                    let refusal = self.no_descriptors();
                    self.warn(format!("a program was turned away: {refusal}"));
                    let refusal = ToProgram::Rejected(refusal);
                    self.spare.turn_away(&self.programs_listener, &refusal, &self.closer);
                    return;
                }
                Err(Errno::INTR | Errno::CONNABORTED) => {}
                Err(_) => return,
            }
            if self.accepts_nothing {
                return;
            }
        }
    }

    fn no_descriptors(&self) -> Refusal {
        Refusal::NoDescriptors { limit: Some(self.descriptor_limit) }
    }

    fn add_program(&mut self, accepted: Accepted) {
        let Accepted { socket, credentials } = accepted;
        self.next_conn += 1;
        let program = ProgramConn(self.next_conn);
        let by_socket = foreign::peer_process(&*socket);
        let pidfd = by_socket.or_else(|| by_number(credentials.pid));
        let watched = watch(&self.epoll, &socket, Key::Program(program), EventFlags::IN);
        if watched.is_err() {
            return;
        }
        if let Some(pidfd) = &pidfd {
            // Without it, only a fork that keeps the socket open would hide this program's death.
            let _ = watch(&self.epoll, pidfd, Key::ProgramDeath(program), EventFlags::IN);
        }
        let end = ProgramEnd {
            connection: Connection::new(socket, Of::Program, &self.in_flight),
            pid: credentials.pid,
            pidfd,
        };
        self.programs.insert(program, end);
        self.tell(Input::ProgramConnected { program, credentials });
    }

    pub(super) fn accept_peers(&mut self) {
        for _ in 0..ACCEPTS_AT_ONCE {
            match self.peers_listener.accept(&self.closer) {
                Ok(accepted) => {
                    self.add_peer(accepted, None);
                }
                Err(Errno::MFILE | Errno::NFILE) => {
                    let refusal = self.no_descriptors();
                    self.warn(format!("another manager was turned away: {refusal}"));
                    let refusal = PeerMessage::Rejected(refusal);
                    self.spare.turn_away(&self.peers_listener, &refusal, &self.closer);
                    return;
                }
                Err(Errno::INTR | Errno::CONNABORTED) => {}
                Err(_) => return,
            }
        }
    }

    /// Takes a connection with another manager; why not, if it cannot be taken.
    pub(super) fn add_peer(&mut self, accepted: Accepted, dialled: Option<NodeId>) -> Option<String> {
        let Accepted { socket, credentials } = accepted;
        self.next_conn += 1;
        let peer = PeerConn(self.next_conn);
        if let Err(errno) = watch(&self.epoll, &socket, Key::Peer(peer), EventFlags::IN) {
            return Some(errno.to_string());
        }
        self.peers.insert(peer, Connection::new(socket, Of::Manager, &self.in_flight));
        let input = Input::PeerConnected { peer, dialled, credentials };
        // Dialling happens while the machine is being heard out.
        if dialled.is_some() {
            self.follow_up.push(input)
        } else {
            self.tell(input)
        }
        None
    }

    pub(super) fn read_program(&mut self, program: ProgramConn) {
        for _ in 0..MESSAGES_AT_ONCE {
            // Who does not read is not listened to: each request would be one more answer that waits.
            let is_quiet = self.programs.get(&program).is_some_and(|end| !end.connection.is_listened_to());
            if is_quiet || self.put_off(program) || !self.read_program_once(program) {
                return;
            }
        }
    }

    /// Takes one message; false: there is none.
    fn read_program_once(&mut self, program: ProgramConn) -> bool {
        let Some(end) = self.programs.get_mut(&program) else { return false };
        if end.connection.close_at.is_some() {
            self.read_closing(Key::Program(program));
            return false;
        }
        let uid = end.connection.uid();
        let datagram = match read(end.connection.socket(), &mut self.buffer) {
            Read::Datagram(datagram) => datagram,
            Read::Nothing => return false,
            Read::End => {
                self.drop_program(program);
                return false;
            }
        };
        let decoded = message(&self.buffer, &datagram);
        // The kernel reports the process; a descriptor in a hello is not examined if that can be avoided.
        let process = match &decoded {
            Ok(ToManager::Hello { .. }) => end.process(),
            _ => None,
        };
        let pid = end.pid;
        let mut descriptors = match process {
            Some(pidfd) => {
                datagram.descriptors.into_iter().for_each(|fd| self.closer.close(uid, fd));
                vec![self.descriptors.admit_process(pidfd, pid, uid)]
            }
            None => self.take_in(decoded.is_ok(), datagram.descriptors, uid),
        };
        if let Ok(ToManager::Request { body, .. }) = &decoded {
            self.add_interrupt_sockets(body, uid, &mut descriptors);
        }
        self.tell(match decoded {
            Ok(message) => Input::ProgramMessage { program, message, descriptors },
            Err(error) => Input::ProgramGarbage { program, error, descriptors },
        });
        true
    }

    /// What the machine is to have with a new pollable interrupt besides what its owner sent.
    fn add_interrupt_sockets(&mut self, body: &Request, uid: u32, descriptors: &mut Vec<Descriptor>) {
        let Request::CreateInterrupt { pollable: true, again, incarnation, .. } = body else { return };
        match self.interrupt_sockets.make(uid, *incarnation, *again) {
            Ok(made) => {
                descriptors.push(made.sender);
                descriptors.extend(self.descriptors.admit(made.receiver.into_iter().collect(), uid));
            }
            Err(failure) => {
                self.warn(failure.text);
                // Nothing to be held: the request is refused.
                let kind = if failure.few { DescriptorKind::Unseen } else { DescriptorKind::Other };
                descriptors.extend(self.interrupt_sockets.none(kind, 2 - usize::from(*again)));
            }
        }
    }

    pub(super) fn read_peer(&mut self, peer: PeerConn) {
        for _ in 0..MESSAGES_AT_ONCE {
            let Some(connection) = self.peers.get_mut(&peer) else { return };
            if connection.close_at.is_some() {
                return self.read_closing(Key::Peer(peer));
            }
            let datagram = match read(connection.socket(), &mut self.buffer) {
                Read::Datagram(datagram) => datagram,
                Read::Nothing => return,
                Read::End => return self.drop_peer(peer),
            };
            let uid = connection.uid();
            let decoded = message(&self.buffer, &datagram);
            let descriptors = self.take_in(decoded.is_ok(), datagram.descriptors, uid);
            self.tell(match decoded {
                Ok(message) => Input::PeerMessage { peer, message, descriptors },
                Err(error) => Input::PeerGarbage { peer, error, descriptors },
            });
        }
    }

    /// Keeps what came with a message. What came with no message (garbage, or more than a message may have)
    /// is not looked at.
    fn take_in(&mut self, is_message: bool, came: Vec<OwnedFd>, uid: u32) -> Vec<Descriptor> {
        if is_message {
            return self.descriptors.admit(came, uid);
        }
        came.into_iter().for_each(|fd| self.closer.close(uid, fd));
        Vec::new()
    }

    /// A process that is being refused may continue sending; its messages are not read.
    fn read_closing(&mut self, key: Key) {
        let mut buffer = std::mem::take(&mut self.buffer);
        for _ in 0..MESSAGES_AT_ONCE {
            if matches!(key, Key::Program(program) if self.put_off(program)) {
                break;
            }
            let Some(connection) = self.connection(key) else { break };
            let uid = connection.uid();
            match read(connection.socket(), &mut buffer) {
                Read::Datagram(datagram) => {
                    datagram.descriptors.into_iter().for_each(|fd| self.closer.close(uid, fd));
                }
                Read::Nothing => break,
                Read::End => self.forget(key),
            }
        }
        self.buffer = buffer;
    }

    /// The process is dead, even if another process still holds its socket. Its earlier messages count.
    pub(super) fn program_died(&mut self, program: ProgramConn) {
        for _ in 0..LAST_MESSAGES {
            if self.put_off(program) || !self.read_program_once(program) {
                break;
            }
        }
        if self.programs.contains_key(&program) {
            self.drop_program(program);
        }
    }

    pub(super) fn drop_program(&mut self, program: ProgramConn) {
        self.forget(Key::Program(program));
        self.tell(Input::ProgramGone { program });
    }

    pub(super) fn drop_peer(&mut self, peer: PeerConn) {
        self.forget(Key::Peer(peer));
        self.tell(Input::PeerGone { peer });
    }

    /// Ends a connection for the other side and for epoll; it is closed later.
    pub(super) fn forget(&mut self, key: Key) {
        match key {
            Key::Program(conn) => {
                self.put_off.remove(&conn);
                if let Some(ProgramEnd { connection, .. }) = self.programs.remove(&conn) {
                    self.hang_up(&connection);
                    connection.end();
                    if self.in_flight.keeps_any() {
                        self.look_at_users_soon();
                    }
                }
            }
            Key::Peer(conn) => {
                if let Some(connection) = self.peers.remove(&conn) {
                    self.hang_up(&connection);
                }
            }
            _ => {}
        }
    }

    /// Tells the machine of all managers whose sockets are in the directory.
    pub(super) fn look_for_peers(&mut self) {
        match self.dir.nodes_with("peer") {
            Ok(nodes) => {
                for node in nodes.into_iter().filter(|node| *node != self.node).collect::<Vec<_>>() {
                    self.tell(Input::PeerSeen { node });
                }
            }
            Err(error) => self.warn(error.to_string()),
        }
    }

    pub(super) fn directory_changed(&mut self) {
        let happened = self.watch.as_ref().map(crate::watch::Watch::read).unwrap_or_default();
        for one in happened {
            match one {
                Happened::PeerAppeared(node) if node != self.node => self.tell(Input::PeerSeen { node }),
                Happened::PeerAppeared(_) => {}
                Happened::KeyWritten(name) if name == trust::revocations::FILE => self.reload_list(),
                Happened::KeyWritten(_) => {}
                Happened::LookAgain => {
                    self.look_for_peers();
                    self.reload_list();
                }
                Happened::SomethingRemoved | Happened::DirectoryGone => {
                    // Without its files no process can reach this manager, and another one may take its
                    // place.
                    if self.stopping.is_none() && !self.files_are_in_place() {
                        self.watch = None;
                        self.stop("its files in the runtime directory were removed");
                    }
                }
            }
        }
    }

    fn files_are_in_place(&self) -> bool {
        let there = |path: node_client::runtime_dir::Result<std::path::PathBuf>| {
            path.is_ok_and(|path| path.symlink_metadata().is_ok())
        };
        self.lock.as_ref().is_some_and(crate::lock::NodeLock::is_in_place)
            && there(self.dir.socket(self.node))
            && there(self.dir.peer_socket(self.node))
    }
}
