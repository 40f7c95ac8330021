//! The connection of an attached program with its manager: many threads send requests, one at a
//! time reads for all.
//!
//! Waking a thread on another processor costs more than all the rest of a request, so a reply should wake the
//! thread that waits for it and no other. A thread that sends a request while no other thread listens becomes
//! the **listener**: it takes the socket out of the library thread's epoll set, receives for all threads
//! until its own reply has come, and then passes the role to another waiting thread or back to the library's
//! thread. Only the library's thread makes callbacks: a caller may hold locks that they need.

use std::collections::{HashMap, VecDeque};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use link::page::PageReader;
use proto::ids::NodeId;
use proto::wire::encode;
use proto::wire::program::{Refusal, Reply, Request, RequestId, ToManager, ToProgram};
use proto::wire::status::NodeInfo;
use rustix::event::{EventfdFlags, epoll, eventfd};
use rustix::io::Errno;

use crate::blocking::{name_of, no_room, understand};
use crate::error::{ClientError, Result, io};
use crate::event::ClientEvent;
use crate::import::{Import, ImportId};
use crate::late_replies::{in_doubt, keep, lost_answer, undo};
use crate::registry::Registry;
use crate::responsiveness::Responsiveness;
use crate::runtime_dir::ClusterDir;
use crate::seqpacket::{Datagram, Seqpacket, Wanted};

/// Epoll key of the socket; [`WAKE`] is the eventfd's.
pub(crate) const SOCKET: u64 = 1;
pub(crate) const WAKE: u64 = 2;

/// The result of a request.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) reply: Reply,
    pub(crate) descriptors: Vec<OwnedFd>,
    pub(crate) import: Option<Import>,
}

/// The receiver of a reply.
#[derive(Debug)]
pub(crate) enum Waiter {
    /// A waiting thread; its condition is signalled when the reply is there or when the thread is to listen.
    Thread { turn: Arc<Condvar>, answer: Option<Box<Result<Answer>>>, listen: bool },
    /// The thread timed out. If the reply comes after all, the request must be undone.
    GaveUp,
    /// The library's thread resumes an import at a restarted manager.
    Resume(ImportId),
    /// The library's thread watches a group again.
    Rewatch,
    /// No receiver.
    Nobody,
}

#[derive(Debug)]
pub(crate) struct Pending {
    pub(crate) request: Request,
    kept: Arc<[OwnedFd]>,
    pub(crate) waiter: Waiter,
}

impl Pending {
    /// A request that no thread waits for.
    pub(crate) fn of_library(request: Request, waiter: Waiter) -> Self {
        Self { request, kept: Arc::new([]), waiter }
    }
}

/// The state of the connection.
#[derive(Debug)]
pub(crate) enum Connection {
    Up(Arc<Seqpacket>),
    Down { why: String },
    Closed,
}

#[derive(Debug)]
pub(crate) struct State {
    pub(crate) connection: Connection,
    pub(crate) responsiveness: Responsiveness,
    pub(crate) info: NodeInfo,
    pub(crate) page: Arc<PageReader>,
    pub(crate) next_id: RequestId,
    pub(crate) pending: HashMap<RequestId, Pending>,
    /// The receive buffer; taken by the listener.
    pub(crate) buffer: Option<Vec<u8>>,
    /// The library's thread has the socket in its epoll set.
    pub(crate) armed: bool,
    pub(crate) registry: Registry,
    /// For the library's thread: events to deliver, requests to send, imports to resume.
    pub(crate) events: VecDeque<ClientEvent>,
    pub(crate) chores: VecDeque<Request>,
    pub(crate) to_resume: VecDeque<ImportId>,
    /// Until when the resumption of an import is repeated while its node cannot be reached.
    pub(crate) resume_until: Option<Instant>,
}

/// Shared by all threads.
pub(crate) struct Shared {
    pub(crate) process: u32,
    pub(crate) dir: ClusterDir,
    pub(crate) node: NodeId,
    pub(crate) name: String,
    /// The facts at the attachment, the only ones for a forked child: it must not wait for the lock.
    first_info: NodeInfo,
    pub(crate) epoll: OwnedFd,
    wake: OwnedFd,
    state: Mutex<State>,
    /// Signalled when the connection is restored or closed.
    pub(crate) connection_changed: Condvar,
    pub(crate) sink: Box<dyn Fn(ClientEvent) + Send + Sync>,
}

impl Shared {
    /// Wraps the initial state of an attachment.
    pub(crate) fn new(
        (dir, node, name): (ClusterDir, NodeId, String),
        state: State,
        sink: Box<dyn Fn(ClientEvent) + Send + Sync>,
    ) -> Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(io("create an epoll set"))?;
        let wake =
            eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).map_err(io("create an eventfd"))?;
        epoll::add(&epoll, &wake, epoll::EventData::new_u64(WAKE), epoll::EventFlags::IN)
            .map_err(io("watch an eventfd"))?;
        let process = process_id();
        let first_info = state.info.clone();
        let (state, connection_changed) = (Mutex::new(state), Condvar::new());
        let shared =
            Self { process, dir, node, name, first_info, epoll, wake, state, connection_changed, sink };
        shared.arm(&mut shared.lock());
        Ok(shared)
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        // No code panics while it holds this lock; if it did, each single step leaves the state usable.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An attachment belongs to one process: a fork shares the socket, but has no library thread.
    pub(crate) fn check_process(&self) -> Result<()> {
        if process_id() == self.process { Ok(()) } else { Err(ClientError::Forked { parent: self.process }) }
    }

    /// The facts of the node; in a forked child, those at its parent's attachment.
    pub(crate) fn info(&self) -> NodeInfo {
        self.check_process().map_or_else(|_| self.first_info.clone(), |()| self.lock().info.clone())
    }

    /// The state page. None for a forked child.
    pub(crate) fn page(&self) -> Result<Arc<PageReader>> {
        self.check_process()?;
        Ok(self.lock().page.clone())
    }

    /// Whether the manager is there. Never for a forked child.
    pub(crate) fn is_attached(&self) -> bool {
        self.check_process().is_ok() && matches!(self.lock().connection, Connection::Up(_))
    }

    /// Wakes the library's thread, which then checks the state.
    pub(crate) fn wake_library(&self) {
        // The counter is full only if it was woken already.
        let _ = rustix::io::write(&self.wake, &1u64.to_ne_bytes());
    }

    pub(crate) fn drain_wake(&self) {
        let _ = rustix::io::read(&self.wake, &mut [0u8; 8]);
    }

    /// The library's thread listens from now on.
    pub(crate) fn arm(&self, state: &mut State) {
        if let Connection::Up(socket) = &state.connection
            && !state.armed
        {
            let key = epoll::EventData::new_u64(SOCKET);
            state.armed = epoll::add(&self.epoll, socket, key, epoll::EventFlags::IN).is_ok();
        }
    }

    /// Another thread listens from now on.
    pub(crate) fn disarm(&self, state: &mut State) {
        if let Connection::Up(socket) = &state.connection
            && state.armed
        {
            let _ = epoll::delete(&self.epoll, socket);
        }
        state.armed = false;
    }

    /// Sends a request, and waits for the reply until `limit` has passed. While the manager is gone: fails at
    /// once, or, if `patient`, waits for its return within the limit.
    pub(crate) fn call(
        &self,
        request: Request,
        descriptors: &[BorrowedFd<'_>],
        limit: Duration,
        patient: bool,
    ) -> Result<Answer> {
        self.check_process()?;
        let deadline = Instant::now() + limit.min(crate::LONGEST_LIMIT);
        let what = name_of(&request);
        let kept = keep(&request, descriptors)?;
        let turn = Arc::new(Condvar::new());
        let mut state = self.lock();
        let socket = loop {
            match &state.connection {
                Connection::Up(socket) => break socket.clone(),
                Connection::Closed => return Err(ClientError::Closed { node: self.node }),
                Connection::Down { why } => {
                    let left = deadline.saturating_duration_since(Instant::now());
                    if !patient || left.is_zero() {
                        return Err(ClientError::ManagerGone { node: self.node, why: why.clone() });
                    }
                    state = wait(&self.connection_changed, state, left);
                }
            }
        };
        state.next_id += 1;
        let id = state.next_id;
        let bytes = encode(&ToManager::Request { id, body: request.clone() })?;
        let waiter = Waiter::Thread { turn: turn.clone(), answer: None, listen: false };
        let waited = Waited { what, limit, deadline, heard_before: state.responsiveness.heard() };
        state.pending.insert(id, Pending { request, kept, waiter });
        // Taken before sending, so that the reply finds this thread listening and the library's thread
        // asleep.
        let mut buffer = state.buffer.take();
        if buffer.is_some() {
            self.disarm(&mut state);
        }
        drop(state);
        if let Err(error) = send(&socket, &bytes, descriptors, deadline) {
            let mut state = self.lock();
            state.pending.remove(&id);
            if matches!(error, ClientError::Io { errno: Errno::AGAIN, .. }) {
                state.responsiveness.time_out(limit, waited.heard_before);
            }
            self.stop_listening(&mut state, buffer.take());
            return Err(error);
        }
        self.await_answer(id, &socket, &turn, buffer, waited)
    }

    fn await_answer(
        &self,
        id: RequestId,
        socket: &Seqpacket,
        turn: &Condvar,
        mut buffer: Option<Vec<u8>>,
        waited: Waited,
    ) -> Result<Answer> {
        let mut state = self.lock();
        loop {
            let left = waited.deadline.saturating_duration_since(Instant::now());
            let done = match state.pending.get_mut(&id).map(|pending| &mut pending.waiter) {
                Some(Waiter::Thread { answer, listen, .. }) => {
                    let (answer, listen) = (answer.take(), std::mem::take(listen));
                    if listen && buffer.is_none() {
                        buffer = state.buffer.take();
                    }
                    answer
                }
                _ => Some(Box::new(Err(ClientError::Closed { node: self.node }))),
            };
            if let Some(answer) = done {
                state.pending.remove(&id);
                self.stop_listening(&mut state, buffer.take());
                return *answer;
            }
            if left.is_zero() {
                if let Some(pending) = state.pending.get_mut(&id) {
                    pending.waiter = Waiter::GaveUp;
                }
                state.responsiveness.time_out(waited.limit, waited.heard_before);
                self.stop_listening(&mut state, buffer.take());
                return Err(ClientError::TimedOut {
                    node: self.node,
                    what: waited.what,
                    limit: waited.limit,
                });
            }
            state = match &mut buffer {
                None => wait(turn, state, left),
                Some(buffer) => {
                    drop(state);
                    self.listen(socket, buffer, left);
                    self.lock()
                }
            };
        }
    }

    /// Waits for one datagram and handles it. Any error ends the connection, and with it all pending
    /// requests.
    fn listen(&self, socket: &Seqpacket, buffer: &mut [u8], limit: Duration) {
        match socket.receive(buffer) {
            Err(Errno::AGAIN) => {
                // A failure to wait shows at the next receive.
                let _ = socket.wait(Wanted::Read, Some(limit));
            }
            received => self.act(&mut self.lock(), buffer, received),
        }
    }

    /// Handles what was received.
    pub(crate) fn act(
        &self,
        state: &mut State,
        buffer: &[u8],
        received: std::result::Result<Option<Datagram>, Errno>,
    ) {
        let message = match received {
            Ok(Some(datagram)) => match lost_answer(buffer, &datagram) {
                Some((id, result)) => return self.descriptors_lost(state, id, result),
                None => understand(self.node, buffer, datagram),
            },
            Ok(None) | Err(Errno::CONNRESET) => {
                return self.connection_lost(state, "it closed the connection".into());
            }
            Err(errno) => return self.connection_lost(state, format!("receiving from it failed: {errno}")),
        };
        state.responsiveness.hear();
        match message {
            Ok((ToProgram::Reply { id, result }, descriptors)) => {
                self.answered(state, id, result.map_err(ClientError::Refused), descriptors);
            }
            Ok((ToProgram::Event(event), descriptors)) => {
                if let Some(event) = state.registry.translate(event, descriptors) {
                    state.events.push_back(event);
                    self.wake_library();
                }
            }
            Ok((ToProgram::Rejected(refusal), _)) => self.connection_lost(state, refusal.to_string()),
            Ok((ToProgram::Welcome { .. }, _)) => self.connection_lost(state, "a second welcome".into()),
            Err(error) => self.connection_lost(state, error.to_string()),
        }
    }

    /// This process has no room for the descriptors of a reply: that request alone fails, and what the
    /// manager did for it is undone.
    fn descriptors_lost(
        &self,
        state: &mut State,
        id: RequestId,
        result: std::result::Result<Reply, Refusal>,
    ) {
        state.responsiveness.hear();
        let request = state.pending.get(&id).map(|pending| &pending.request);
        let taken_back = request.zip(result.ok()).and_then(|(request, reply)| undo(request, &reply));
        state.chores.extend(taken_back);
        self.wake_library();
        self.answered(state, id, Err(no_room()), Vec::new());
    }

    fn answered(&self, state: &mut State, id: RequestId, result: Result<Reply>, descriptors: Vec<OwnedFd>) {
        let Some(pending) = state.pending.get_mut(&id) else { return };
        if let Waiter::Thread { turn, answer, .. } = &mut pending.waiter {
            *answer = Some(Box::new(result.map(|reply| {
                let kept = std::mem::replace(&mut pending.kept, Arc::new([]));
                let import = state.registry.note(self.node, &pending.request, &reply, kept, &state.page);
                Answer { reply, descriptors, import }
            })));
            turn.notify_one();
            return;
        }
        let Some(pending) = state.pending.remove(&id) else { return };
        match pending.waiter {
            Waiter::Resume(import) => self.resumed(state, import, result),
            Waiter::GaveUp => {
                if result.is_ok() {
                    state.registry.note_change(&pending.request);
                }
                state.chores.extend(result.ok().and_then(|reply| undo(&pending.request, &reply)));
                self.wake_library();
            }
            Waiter::Rewatch => {
                if let (Request::WatchGroup { group }, Ok(Reply::Members(members))) =
                    (&pending.request, result)
                {
                    let events = state.registry.members_now(*group, members.into_iter().collect());
                    state.events.extend(events);
                    self.wake_library();
                }
            }
            Waiter::Nobody | Waiter::Thread { .. } => {}
        }
    }

    /// Passes the role of the listener to another thread.
    pub(crate) fn stop_listening(&self, state: &mut State, buffer: Option<Vec<u8>>) {
        let Some(buffer) = buffer else { return };
        state.buffer = Some(buffer);
        for pending in state.pending.values_mut() {
            if let Waiter::Thread { turn, answer: None, listen } = &mut pending.waiter {
                *listen = true;
                turn.notify_one();
                return;
            }
        }
        self.arm(state);
    }

    /// The manager is gone: ends all pending requests, and lets the library's thread try to re-attach.
    pub(crate) fn connection_lost(&self, state: &mut State, why: String) {
        if !matches!(state.connection, Connection::Up(_)) {
            return;
        }
        self.disarm(state);
        state.connection = Connection::Down { why: why.clone() };
        for request in in_doubt(&state.pending) {
            state.registry.note_change(&request);
        }
        self.fail_pending(state, || ClientError::ManagerGone { node: self.node, why: why.clone() });
        state.chores.clear();
        state.to_resume.clear();
        state.events.push_back(ClientEvent::ManagerGone { node: self.node });
        self.wake_library();
    }

    fn fail_pending(&self, state: &mut State, error: impl Fn() -> ClientError) {
        state.pending.retain(|_, pending| match &mut pending.waiter {
            Waiter::Thread { turn, answer, .. } => {
                answer.get_or_insert_with(|| Box::new(Err(error())));
                turn.notify_one();
                true
            }
            _ => false,
        });
    }

    /// Ends the attachment: the manager sees it at once, the library's thread ends soon.
    pub(crate) fn close(&self) {
        let mut state = self.lock();
        self.disarm(&mut state);
        if let Connection::Up(socket) = &state.connection {
            let _ = rustix::net::shutdown(socket.as_fd(), rustix::net::Shutdown::Both);
        }
        state.connection = Connection::Closed;
        self.fail_pending(&mut state, || ClientError::Closed { node: self.node });
        self.connection_changed.notify_all();
        self.wake_library();
    }
}

struct Waited {
    what: &'static str,
    limit: Duration,
    deadline: Instant,
    heard_before: u64,
}

fn wait<'a>(condition: &Condvar, state: MutexGuard<'a, State>, limit: Duration) -> MutexGuard<'a, State> {
    condition.wait_timeout(state, limit).unwrap_or_else(PoisonError::into_inner).0
}

/// Sends, waiting for room until the deadline. A closed connection is no error here: the listener detects it.
fn send(socket: &Seqpacket, bytes: &[u8], descriptors: &[BorrowedFd<'_>], deadline: Instant) -> Result<()> {
    loop {
        match socket.send(bytes, descriptors) {
            Ok(()) | Err(Errno::PIPE | Errno::CONNRESET) => return Ok(()),
            Err(Errno::AGAIN) => {}
            Err(errno) => return Err(ClientError::Io { what: "send to the node manager", errno }),
        }
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(ClientError::Io {
                what: "send to the node manager, which does not read",
                errno: Errno::AGAIN,
            });
        }
        socket.wait(Wanted::Write, Some(left)).map_err(io("wait for the node manager"))?;
    }
}

/// This process's id, asked each time: a fork keeps everything but that.
fn process_id() -> u32 {
    rustix::process::getpid().as_raw_pid().unsigned_abs()
}

#[cfg(test)]
mod tests;
