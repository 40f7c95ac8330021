//! The library's thread: delivers events, reads the socket while no request waits, and re-attaches
//! to a restarted manager.

use std::collections::{BTreeMap, HashMap};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use link::page::PageReader;
use proto::wire::encode;
use proto::wire::program::{Imported, LossReason, Refusal, Reply, Request, ToManager};
use rustix::event::epoll;
use rustix::io::Errno;

use crate::book::{created, loss_of};
use crate::error::{ClientError, Result};
use crate::event::ClientEvent;
use crate::import::{ImportId, Place};
use crate::line::{Line, Pending, SOCKET, Shared, State, WAKE, Waiter};
use crate::patience::Patience;
use crate::seqpacket::{Seqpacket, timespec};
use crate::visit::Visit;

/// First pause between two attempts to reach a restarted manager; doubles up to [`LONGEST_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_millis(10);
const LONGEST_PAUSE: Duration = Duration::from_millis(500);
/// How long one attempt may take.
const ATTEMPT_LIMIT: Duration = Duration::from_secs(5);
/// Pause before an import is asked for again whose node was not reachable yet.
const RESUME_PAUSE: Duration = Duration::from_millis(50);
/// How long after the manager's return an import's node may stay unreachable until the import counts as lost.
const RESUME_LIMIT: Duration = Duration::from_secs(10);
/// Imports that are asked for at one time, below a manager's usual limit of pending requests; beyond that limit it refuses,
/// and they are asked for again.
const RESUMES_AT_ONCE: usize = 128;

/// Runs until the attachment is closed.
pub(crate) fn run(shared: &Shared) {
    let mut events = Vec::with_capacity(4);
    let mut pause = FIRST_PAUSE;
    let mut wait = None;
    loop {
        events.clear();
        match epoll::wait(&shared.epoll, rustix::buffer::spare_capacity(&mut events), wait.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            // Nothing that a program can cause; without the set there is nothing left to listen with.
            Err(_) => return shared.close(),
        }
        let ready = |key| events.iter().any(|event| event.data.u64() == key);
        if ready(WAKE) {
            shared.drain_wake();
        }
        if ready(SOCKET) {
            listen(shared);
        }
        tell(shared);
        wait = match attend(shared, &mut pause) {
            Attended::Closed => return,
            Attended::Look(after) => after.map(timespec),
        };
    }
}

enum Attended {
    Closed,
    /// Look again after this time, or when something happens.
    Look(Option<Duration>),
}

fn attend(shared: &Shared, pause: &mut Duration) -> Attended {
    let line_is_down = match shared.lock().line {
        Line::Closed => return Attended::Closed,
        Line::Down { .. } => true,
        Line::Up(_) => false,
    };
    if !line_is_down {
        *pause = FIRST_PAUSE;
        return Attended::Look(chores(shared));
    }
    match reattach(shared) {
        Ok(()) => Attended::Look(Some(Duration::ZERO)),
        Err(error) => {
            let again = *pause;
            *pause = (again * 2).min(LONGEST_PAUSE);
            if let Line::Down { why } = &mut shared.lock().line {
                *why = match error {
                    ClientError::ManagerGone { why, .. } => why,
                    other => other.to_string(),
                };
            }
            Attended::Look(Some(again))
        }
    }
}

/// Takes what lies in the socket, unless somebody else listens by now.
fn listen(shared: &Shared) {
    let mut state = shared.lock();
    let Line::Up(socket) = &state.line else { return };
    let socket: Arc<Seqpacket> = socket.clone();
    let Some(mut buffer) = state.buffer.take() else { return };
    while matches!(state.line, Line::Up(_)) {
        match socket.receive(&mut buffer) {
            Err(Errno::AGAIN) => break,
            received => shared.act(&mut state, &buffer, received),
        }
    }
    shared.stop_listening(&mut state, Some(buffer));
}

/// Makes the callbacks, with no lock held.
fn tell(shared: &Shared) {
    loop {
        let Some(event) = shared.lock().events.pop_front() else { return };
        // A callback that panics has said so on standard error; that is no reason to leave the program without events and
        // without a way back to its manager.
        let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| (shared.sink)(event)));
    }
}

/// Sends what nobody waits for. Gives the time after which there is more to do.
fn chores(shared: &Shared) -> Option<Duration> {
    let mut state = shared.lock();
    while let Some(request) = state.chores.pop_front() {
        if !post(&mut state, request.clone(), Waiter::Nobody) {
            state.chores.push_front(request);
            return Some(RESUME_PAUSE);
        }
    }
    let resuming = |state: &State| {
        state.pending.values().filter(|pending| matches!(pending.waiter, Waiter::Resume(_))).count()
    };
    while resuming(&state) < RESUMES_AT_ONCE {
        let id = state.to_resume.pop_front()?;
        let Some(import) = state.book.imports.get(&id) else { continue };
        let inner = &import.inner;
        let request = Request::ResumeImport {
            node: inner.node,
            connection: inner.connection,
            incarnation: inner.incarnation,
            what: inner.what,
        };
        if !post(&mut state, request, Waiter::Resume(id)) {
            state.to_resume.push_front(id);
            break;
        }
    }
    (!state.to_resume.is_empty()).then_some(RESUME_PAUSE)
}

/// Sends a request without waiting for room; false: there was none.
fn post(state: &mut State, request: Request, waiter: Waiter) -> bool {
    let Line::Up(socket) = &state.line else { return true };
    state.next_id += 1;
    let id = state.next_id;
    let Ok(bytes) = encode(&ToManager::Request { id, body: request.clone() }) else { return true };
    if socket.send(&bytes, &[]) == Err(Errno::AGAIN) {
        return false;
    }
    state.pending.insert(id, Pending::of_library(request, waiter));
    true
}

impl Shared {
    /// A restarted manager answered the question for an import.
    pub(crate) fn resumed(&self, state: &mut State, id: ImportId, result: Result<Reply>) {
        let known = state.book.imports.get(&id).cloned();
        let ended = match (known, result) {
            (Some(import), Ok(Reply::Resumed { import: slot })) => {
                import.move_to(Place::Page(state.page.clone(), slot));
                state.book.set_slot(slot, id);
                None
            }
            // Given up in the meantime.
            (None, Ok(Reply::Resumed { import: slot })) => {
                state.chores.push_back(Request::Disconnect { import: slot });
                None
            }
            (Some(import), Err(ClientError::Refused(refusal))) => {
                let later = matches!(
                    refusal,
                    Refusal::Unreachable { .. } | Refusal::Limit { .. } | Refusal::OwnerBusy { .. }
                );
                if later && state.resume_until.is_some_and(|until| Instant::now() < until) {
                    state.to_resume.push_back(id);
                    None
                } else {
                    Some((import, loss_of(&refusal)))
                }
            }
            (Some(import), _) => Some((import, LossReason::NodeLost)),
            (None, _) => None,
        };
        if let Some((import, reason)) = ended {
            import.move_to(Place::Ended(reason));
            state.events.push_back(ClientEvent::Lost { import: id, reason });
        }
        self.wake_library();
    }
}

/// One attempt to get back to the manager, with everything that this program has.
fn reattach(shared: &Shared) -> Result<()> {
    let mut visit = Visit::open(&shared.dir, shared.node, &shared.name, true, ATTEMPT_LIMIT)?;
    let page = PageReader::open(visit.take_page()?)
        .map_err(|source| ClientError::Page { node: shared.node, source })?;
    let mut told = BTreeMap::new();
    let mut meanwhile = Vec::new();
    // Other threads may remove things meanwhile: what was told and is gone again has to be taken back.
    loop {
        let (news, gone) = differences(&shared.lock(), &told);
        if news.is_empty() && gone.is_empty() {
            let mut state = shared.lock();
            let (news, gone) = differences(&state, &told);
            if news.is_empty() && gone.is_empty() {
                return publish(shared, &mut state, visit, page, meanwhile);
            }
            continue;
        }
        for number in gone {
            if let Some(request) = told.remove(&number).and_then(|request| removal(&request)) {
                accept(visit.ask(request, &[], ATTEMPT_LIMIT))?;
            }
        }
        for (number, export) in news {
            let fds: Vec<_> = export.descriptors.iter().map(AsFd::as_fd).collect();
            match visit.ask(export.request.clone(), &fds, ATTEMPT_LIMIT) {
                Ok(_) => {
                    if let Some(what) = created(&export.request) {
                        meanwhile.extend(resume_connections(shared, &mut visit, what)?);
                    }
                    told.insert(number, export.request);
                }
                Err(ClientError::Refused(refusal)) => {
                    let mut state = shared.lock();
                    state.book.exports.remove(&number);
                    if let Some(what) = created(&export.request) {
                        state.book.remove_export(what);
                    }
                    let event = |what| ClientEvent::ExportRefused { what, refusal };
                    meanwhile.extend(created(&export.request).map(event));
                }
                Err(error) => return Err(error),
            }
        }
    }
}

/// Names the connections to an object, so that the death of an importer that goes unnoticed now is reported too.
fn resume_connections(shared: &Shared, visit: &mut Visit, what: Imported) -> Result<Vec<ClientEvent>> {
    let mut over = Vec::new();
    let connections = shared.lock().book.connections_to(what);
    for (connection, node, importer) in connections {
        let request = Request::ResumeExport { what, node, connection, importer };
        match visit.ask(request, &[], ATTEMPT_LIMIT) {
            Ok(_) => {}
            Err(ClientError::Refused(_)) => {
                shared.lock().book.connected.remove(&connection);
                over.push(ClientEvent::Disconnected { what, node, connection, died: true });
            }
            Err(error) => return Err(error),
        }
    }
    Ok(over)
}

type Numbered<T> = Vec<(u64, T)>;

fn differences(state: &State, told: &BTreeMap<u64, Request>) -> (Numbered<crate::book::Export>, Vec<u64>) {
    let exports = &state.book.exports;
    let news = exports.iter().filter(|(number, _)| !told.contains_key(number));
    let gone = told.keys().filter(|number| !exports.contains_key(number));
    (news.map(|(number, export)| (*number, export.clone())).collect(), gone.copied().collect())
}

fn removal(request: &Request) -> Option<Request> {
    match request {
        Request::CreateSegment { key, .. } => Some(Request::RemoveSegment { key: *key, force: true }),
        Request::CreateInterrupt { number: Some(number), .. } => {
            Some(Request::RemoveInterrupt { number: *number })
        }
        _ => None,
    }
}

/// A refusal is an answer too; only a broken connection ends the attempt.
fn accept<T>(result: Result<T>) -> Result<()> {
    match result {
        Ok(_) | Err(ClientError::Refused(_)) => Ok(()),
        Err(error) => Err(error),
    }
}

/// The new connection becomes the line.
fn publish(
    shared: &Shared,
    state: &mut State,
    visit: Visit,
    page: PageReader,
    meanwhile: Vec<ClientEvent>,
) -> Result<()> {
    if matches!(state.line, Line::Closed) {
        return Ok(());
    }
    let parts = visit.into_parts();
    state.line = Line::Up(Arc::new(parts.socket));
    state.patience = Patience::default();
    state.info = parts.info.clone();
    state.page = Arc::new(page);
    state.next_id = state.next_id.max(parts.next_id);
    state.book.set_slots(HashMap::new());
    state.resume_until = Some(Instant::now() + RESUME_LIMIT);
    state.to_resume =
        state.book.imports.iter().filter(|(_, import)| !import.has_ended()).map(|(id, _)| *id).collect();
    state.events.extend(meanwhile);
    for (event, descriptors) in parts.events {
        state.events.extend(state.book.translate(event, descriptors));
    }
    for group in state.book.groups.keys().copied().collect::<Vec<_>>() {
        post(state, Request::WatchGroup { group }, Waiter::Rewatch);
    }
    state.events.push_back(ClientEvent::ManagerBack { info: parts.info });
    shared.line_changed.notify_all();
    if state.buffer.is_some() {
        shared.arm(state);
    }
    Ok(())
}
