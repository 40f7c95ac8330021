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

use crate::blocking::BlockingClient;
use crate::connection::{Connection, Pending, SOCKET, Shared, State, WAKE, Waiter};
use crate::error::{ClientError, Result};
use crate::event::ClientEvent;
use crate::import::{ImportId, Place};
use crate::registry::{created, loss_of};
use crate::responsiveness::Responsiveness;
use crate::seqpacket::{Seqpacket, timespec};

/// First pause between two attempts to reach a restarted manager; doubles up to [`LONGEST_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_millis(10);
const LONGEST_PAUSE: Duration = Duration::from_millis(500);
/// Limit of one attempt.
const ATTEMPT_LIMIT: Duration = Duration::from_secs(5);
/// Pause before the resumption of an import is repeated whose node was not reachable.
const RESUME_PAUSE: Duration = Duration::from_millis(50);
/// How long after the manager's return an import's node may stay unreachable until the import counts as lost.
const RESUME_LIMIT: Duration = Duration::from_secs(10);
/// Imports that are resumed at one time, below a manager's usual limit of pending requests; beyond that limit
/// the manager refuses, and the request is repeated.
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
            // No program can cause this; without the epoll set the thread cannot listen.
            Err(_) => return shared.close(),
        }
        let ready = |key| events.iter().any(|event| event.data.u64() == key);
        if ready(WAKE) {
            shared.drain_wake();
        }
        if ready(SOCKET) {
            listen(shared);
        }
        deliver(shared);
        wait = match attend(shared, &mut pause) {
            Attended::Closed => return,
            Attended::Again(after) => after.map(timespec),
        };
    }
}

enum Attended {
    Closed,
    /// Attend again after this time, or at the next event.
    Again(Option<Duration>),
}

fn attend(shared: &Shared, pause: &mut Duration) -> Attended {
    let is_down = match shared.lock().connection {
        Connection::Closed => return Attended::Closed,
        Connection::Down { .. } => true,
        Connection::Up(_) => false,
    };
    if !is_down {
        *pause = FIRST_PAUSE;
        return Attended::Again(chores(shared));
    }
    match reattach(shared) {
        Ok(()) => Attended::Again(Some(Duration::ZERO)),
        Err(error) => {
            let again = *pause;
            *pause = (again * 2).min(LONGEST_PAUSE);
            if let Connection::Down { why } = &mut shared.lock().connection {
                *why = match error {
                    ClientError::ManagerGone { why, .. } => why,
                    other => other.to_string(),
                };
            }
            Attended::Again(Some(again))
        }
    }
}

/// Receives all pending messages, unless another thread listens by now.
fn listen(shared: &Shared) {
    let mut state = shared.lock();
    let Connection::Up(socket) = &state.connection else { return };
    let socket: Arc<Seqpacket> = socket.clone();
    let Some(mut buffer) = state.buffer.take() else { return };
    while matches!(state.connection, Connection::Up(_)) {
        match socket.receive(&mut buffer) {
            Err(Errno::AGAIN) => break,
            received => shared.act(&mut state, &buffer, received),
        }
    }
    shared.stop_listening(&mut state, Some(buffer));
}

/// Makes the callbacks, with no lock held.
fn deliver(shared: &Shared) {
    loop {
        let Some(event) = shared.lock().events.pop_front() else { return };
        // A callback that panics has printed so on standard error. The program still needs events and a
        // thread that re-attaches to its manager.
        let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| (shared.sink)(event)));
    }
}

/// Sends the requests that no thread waits for. Returns the time after which there is more to do.
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
        let Some(import) = state.registry.imports.get(&id) else { continue };
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

/// Sends a request without waiting for room; false if there was none.
fn post(state: &mut State, request: Request, waiter: Waiter) -> bool {
    let Connection::Up(socket) = &state.connection else { return true };
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
    /// A restarted manager replied to the resumption of an import.
    pub(crate) fn resumed(&self, state: &mut State, id: ImportId, result: Result<Reply>) {
        let known = state.registry.imports.get(&id).cloned();
        let ended = match (known, result) {
            (Some(import), Ok(Reply::Resumed { import: slot })) => {
                import.move_to(Place::Page(state.page.clone(), slot));
                state.registry.set_slot(slot, id);
                None
            }
            // Removed in the meantime.
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

/// One attempt to re-attach to the manager, with all objects of this program.
fn reattach(shared: &Shared) -> Result<()> {
    let mut client = BlockingClient::open(&shared.dir, shared.node, &shared.name, true, ATTEMPT_LIMIT)?;
    let page = PageReader::open(client.take_page()?)
        .map_err(|source| ClientError::Page { node: shared.node, source })?;
    let mut announced = BTreeMap::new();
    let mut meanwhile = Vec::new();
    // Other threads may remove objects meanwhile: the removal of an announced object has to be sent, too.
    loop {
        let (new, gone) = differences(&shared.lock(), &announced);
        if new.is_empty() && gone.is_empty() {
            let mut state = shared.lock();
            let (new, gone) = differences(&state, &announced);
            if new.is_empty() && gone.is_empty() {
                return publish(shared, &mut state, client, page, meanwhile);
            }
            continue;
        }
        for number in gone {
            if let Some(request) = announced.remove(&number).and_then(|request| removal(&request)) {
                accept(client.ask(request, &[], ATTEMPT_LIMIT))?;
            }
        }
        for (number, export) in new {
            let fds: Vec<_> = export.descriptors.iter().map(AsFd::as_fd).collect();
            match client.ask(export.request.clone(), &fds, ATTEMPT_LIMIT) {
                Ok(_) => {
                    if let Some(what) = created(&export.request) {
                        meanwhile.extend(resume_connections(shared, &mut client, what)?);
                    }
                    announced.insert(number, export.request);
                }
                Err(ClientError::Refused(refusal)) => {
                    let mut state = shared.lock();
                    state.registry.exports.remove(&number);
                    if let Some(what) = created(&export.request) {
                        state.registry.remove_export(what);
                    }
                    let event = |what| ClientEvent::ExportRefused { what, refusal };
                    meanwhile.extend(created(&export.request).map(event));
                }
                Err(error) => return Err(error),
            }
        }
    }
}

/// Names the connections to an object, so that the death of an importer that goes unnoticed now is reported
/// too.
fn resume_connections(
    shared: &Shared,
    client: &mut BlockingClient,
    what: Imported,
) -> Result<Vec<ClientEvent>> {
    let mut over = Vec::new();
    let connections = shared.lock().registry.connections_to(what);
    for (connection, node, importer) in connections {
        let request = Request::ResumeExport { what, node, connection, importer };
        match client.ask(request, &[], ATTEMPT_LIMIT) {
            Ok(_) => {}
            Err(ClientError::Refused(_)) => {
                shared.lock().registry.connected.remove(&connection);
                over.push(ClientEvent::Disconnected { what, node, connection, died: true });
            }
            Err(error) => return Err(error),
        }
    }
    Ok(over)
}

type Numbered<T> = Vec<(u64, T)>;

fn differences(
    state: &State,
    announced: &BTreeMap<u64, Request>,
) -> (Numbered<crate::registry::Export>, Vec<u64>) {
    let exports = &state.registry.exports;
    let new = exports.iter().filter(|(number, _)| !announced.contains_key(number));
    let gone = announced.keys().filter(|number| !exports.contains_key(number));
    (new.map(|(number, export)| (*number, export.clone())).collect(), gone.copied().collect())
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

/// A refusal is a valid reply; only a broken connection ends the attempt.
fn accept<T>(result: Result<T>) -> Result<()> {
    match result {
        Ok(_) | Err(ClientError::Refused(_)) => Ok(()),
        Err(error) => Err(error),
    }
}

/// Replaces the lost connection by the new one.
fn publish(
    shared: &Shared,
    state: &mut State,
    client: BlockingClient,
    page: PageReader,
    meanwhile: Vec<ClientEvent>,
) -> Result<()> {
    if matches!(state.connection, Connection::Closed) {
        return Ok(());
    }
    let parts = client.into_parts();
    state.connection = Connection::Up(Arc::new(parts.socket));
    state.responsiveness = Responsiveness::default();
    state.info = parts.info.clone();
    state.page = Arc::new(page);
    state.next_id = state.next_id.max(parts.next_id);
    state.registry.set_slots(HashMap::new());
    state.resume_until = Some(Instant::now() + RESUME_LIMIT);
    state.to_resume =
        state.registry.imports.iter().filter(|(_, import)| !import.has_ended()).map(|(id, _)| *id).collect();
    state.events.extend(meanwhile);
    for (event, descriptors) in parts.events {
        state.events.extend(state.registry.translate(event, descriptors));
    }
    for group in state.registry.groups.keys().copied().collect::<Vec<_>>() {
        post(state, Request::WatchGroup { group }, Waiter::Rewatch);
    }
    state.events.push_back(ClientEvent::ManagerBack { info: parts.info });
    shared.connection_changed.notify_all();
    if state.buffer.is_some() {
        shared.arm(state);
    }
    Ok(())
}
