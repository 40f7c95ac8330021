//! The connection of an attached program with its manager: many threads send requests, one at a
//! time reads for all.
//!
//! Waking a thread on another processor costs more than all the rest of a request, so an answer should wake the thread
//! that waits for it and no other. Whoever asks while nobody listens becomes the **listener**: it takes the socket out of
//! the library thread's epoll set, receives for everybody until its own answer has come, and hands the part on to
//! another waiting thread or back to the library's thread. Callbacks are made by the library's thread alone: a
//! caller may hold locks that they want.

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

use crate::aftermath::{in_doubt, keep, lost_answer, undo};
use crate::book::Book;
use crate::error::{ClientError, Result, io};
use crate::event::ClientEvent;
use crate::import::{Import, ImportId};
use crate::patience::Patience;
use crate::runtime_dir::ClusterDir;
use crate::seqpacket::{Datagram, Seqpacket, Wanted};
use crate::visit::{name_of, no_room, understand};

/// Epoll key of the socket; [`WAKE`] is the eventfd's.
pub(crate) const SOCKET: u64 = 1;
pub(crate) const WAKE: u64 = 2;

/// What came back for a request.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) reply: Reply,
    pub(crate) descriptors: Vec<OwnedFd>,
    pub(crate) import: Option<Import>,
}

/// For whom an answer is.
#[derive(Debug)]
pub(crate) enum Waiter {
    /// A thread that waits; its turn is signalled when the answer is there or when it is to listen.
    Thread { turn: Arc<Condvar>, answer: Option<Box<Result<Answer>>>, listen: bool },
    /// It gave up. What was made must be undone when the answer comes after all.
    GaveUp,
    /// The library's thread wants an import back from a restarted manager.
    Resume(ImportId),
    /// The library's thread watches a group again.
    Rewatch,
    /// Nobody is interested.
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

/// The connection itself.
#[derive(Debug)]
pub(crate) enum Line {
    Up(Arc<Seqpacket>),
    Down { why: String },
    Closed,
}

#[derive(Debug)]
pub(crate) struct State {
    pub(crate) line: Line,
    pub(crate) patience: Patience,
    pub(crate) info: NodeInfo,
    pub(crate) page: Arc<PageReader>,
    pub(crate) next_id: RequestId,
    pub(crate) pending: HashMap<RequestId, Pending>,
    /// The receive buffer; taken by whoever listens.
    pub(crate) buffer: Option<Vec<u8>>,
    /// The library's thread has the socket in its epoll set.
    pub(crate) armed: bool,
    pub(crate) book: Book,
    /// For the library's thread: what to tell, what to send, which imports to get back.
    pub(crate) events: VecDeque<ClientEvent>,
    pub(crate) chores: VecDeque<Request>,
    pub(crate) to_resume: VecDeque<ImportId>,
    /// Until when an import whose node cannot be reached yet is asked for again.
    pub(crate) resume_until: Option<Instant>,
}

/// What all threads share.
pub(crate) struct Shared {
    pub(crate) process: u32,
    pub(crate) dir: ClusterDir,
    pub(crate) node: NodeId,
    pub(crate) name: String,
    /// What it was at the beginning, which is all that a forked child can know: it must not wait for the lock.
    first_info: NodeInfo,
    pub(crate) epoll: OwnedFd,
    wake: OwnedFd,
    state: Mutex<State>,
    /// Signalled when the line goes up or is closed.
    pub(crate) line_changed: Condvar,
    pub(crate) sink: Box<dyn Fn(ClientEvent) + Send + Sync>,
}

impl Shared {
    /// Wraps the state that an attachment begins with.
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
        let (state, line_changed) = (Mutex::new(state), Condvar::new());
        let shared = Self { process, dir, node, name, first_info, epoll, wake, state, line_changed, sink };
        shared.arm(&mut shared.lock());
        Ok(shared)
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing panics while it holds this lock; if it did, every single step leaves the state usable.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An attachment belongs to one process: a fork shares the socket, but has no library thread.
    pub(crate) fn check_process(&self) -> Result<()> {
        if process_id() == self.process { Ok(()) } else { Err(ClientError::Forked { parent: self.process }) }
    }

    /// What the manager said of its node; in a forked child, what it said when its parent attached.
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
        self.check_process().is_ok() && matches!(self.lock().line, Line::Up(_))
    }

    /// Makes the library's thread look at the state.
    pub(crate) fn wake_library(&self) {
        // The counter is full only if it was woken already.
        let _ = rustix::io::write(&self.wake, &1u64.to_ne_bytes());
    }

    pub(crate) fn drain_wake(&self) {
        let _ = rustix::io::read(&self.wake, &mut [0u8; 8]);
    }

    /// The library's thread listens from now on.
    pub(crate) fn arm(&self, state: &mut State) {
        if let Line::Up(socket) = &state.line
            && !state.armed
        {
            let key = epoll::EventData::new_u64(SOCKET);
            state.armed = epoll::add(&self.epoll, socket, key, epoll::EventFlags::IN).is_ok();
        }
    }

    /// Somebody else listens.
    pub(crate) fn disarm(&self, state: &mut State) {
        if let Line::Up(socket) = &state.line
            && state.armed
        {
            let _ = epoll::delete(&self.epoll, socket);
        }
        state.armed = false;
    }

    /// Asks, and waits for the answer until `limit` has passed. While the manager is gone: fails at once, or, if
    /// `patient`, waits for its return within the limit.
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
            match &state.line {
                Line::Up(socket) => break socket.clone(),
                Line::Closed => return Err(ClientError::Closed { node: self.node }),
                Line::Down { why } => {
                    let left = deadline.saturating_duration_since(Instant::now());
                    if !patient || left.is_zero() {
                        return Err(ClientError::ManagerGone { node: self.node, why: why.clone() });
                    }
                    state = wait(&self.line_changed, state, left);
                }
            }
        };
        state.next_id += 1;
        let id = state.next_id;
        let bytes = encode(&ToManager::Request { id, body: request.clone() })?;
        let waiter = Waiter::Thread { turn: turn.clone(), answer: None, listen: false };
        let waited = Waited { what, limit, deadline, heard_before: state.patience.heard() };
        state.pending.insert(id, Pending { request, kept, waiter });
        // Taken before sending, so that the answer finds this thread listening and the library's asleep.
        let mut buffer = state.buffer.take();
        if buffer.is_some() {
            self.disarm(&mut state);
        }
        drop(state);
        if let Err(error) = send(&socket, &bytes, descriptors, deadline) {
            let mut state = self.lock();
            state.pending.remove(&id);
            if matches!(error, ClientError::Io { errno: Errno::AGAIN, .. }) {
                state.patience.time_out(limit, waited.heard_before);
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
                state.patience.time_out(waited.limit, waited.heard_before);
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

    /// Waits for one datagram and acts on it. Whatever goes wrong takes the line down, which answers everybody.
    fn listen(&self, socket: &Seqpacket, buffer: &mut [u8], limit: Duration) {
        match socket.receive(buffer) {
            Err(Errno::AGAIN) => {
                // A failure to wait shows at the next receive.
                let _ = socket.wait(Wanted::Read, Some(limit));
            }
            received => self.act(&mut self.lock(), buffer, received),
        }
    }

    /// Acts on what was received.
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
                return self.line_down(state, "it closed the connection".into());
            }
            Err(errno) => return self.line_down(state, format!("receiving from it failed: {errno}")),
        };
        state.patience.hear();
        match message {
            Ok((ToProgram::Reply { id, result }, descriptors)) => {
                self.answered(state, id, result.map_err(ClientError::Refused), descriptors);
            }
            Ok((ToProgram::Event(event), descriptors)) => {
                if let Some(event) = state.book.translate(event, descriptors) {
                    state.events.push_back(event);
                    self.wake_library();
                }
            }
            Ok((ToProgram::Rejected(refusal), _)) => self.line_down(state, refusal.to_string()),
            Ok((ToProgram::Welcome { .. }, _)) => self.line_down(state, "a second welcome".into()),
            Err(error) => self.line_down(state, error.to_string()),
        }
    }

    /// This process has no room for the descriptors of an answer: that request alone has failed, and what the manager did for
    /// it is taken back.
    fn descriptors_lost(
        &self,
        state: &mut State,
        id: RequestId,
        result: std::result::Result<Reply, Refusal>,
    ) {
        state.patience.hear();
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
                let import = state.book.note(self.node, &pending.request, &reply, kept, &state.page);
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
                    state.book.note_change(&pending.request);
                }
                state.chores.extend(result.ok().and_then(|reply| undo(&pending.request, &reply)));
                self.wake_library();
            }
            Waiter::Rewatch => {
                if let (Request::WatchGroup { group }, Ok(Reply::Members(members))) =
                    (&pending.request, result)
                {
                    let events = state.book.members_now(*group, members.into_iter().collect());
                    state.events.extend(events);
                    self.wake_library();
                }
            }
            Waiter::Nobody | Waiter::Thread { .. } => {}
        }
    }

    /// Gives the part of the listener to somebody else.
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

    /// The manager is gone: answers everybody, and lets the library's thread look for it.
    pub(crate) fn line_down(&self, state: &mut State, why: String) {
        if !matches!(state.line, Line::Up(_)) {
            return;
        }
        self.disarm(state);
        state.line = Line::Down { why: why.clone() };
        for request in in_doubt(&state.pending) {
            state.book.note_change(&request);
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
        if let Line::Up(socket) = &state.line {
            let _ = rustix::net::shutdown(socket.as_fd(), rustix::net::Shutdown::Both);
        }
        state.line = Line::Closed;
        self.fail_pending(&mut state, || ClientError::Closed { node: self.node });
        self.line_changed.notify_all();
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

/// Sends, waiting for room until the deadline. A closed line is no error here: whoever listens finds out.
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
