//! Queues of other hosts: how they meet, and the lanes between them.
//!
//! Two queues that exchange messages have memory for each other ([`pair`]), a segment each, with a ring
//! ([`ring`]) and the words that the other one puts there ([`forms`]). They meet so: one makes its memory and
//! leaves a request in the memory of the other's port ([`mailbox`]). The other finds it in a call, makes its
//! own memory, connects to the first one's and puts the answer there; the first one finds that in a call, and
//! connects to the second one's. If both begin at once, the request of the lesser name counts.
//!
//! What may take a while (a segment, a connection, a request) is done by threads that end with it
//! ([`Job`]), a few at a time; the queue's own thread looks at what has come, and never waits. What it could
//! not put at once is put by another thread ([`pusher`]) if it makes no further call.
//!
//! A program of another host may leave requests of its choice, and write over all that it can reach: how many
//! are answered, and in whose name, is decided in [`table`] and [`workers`].
//!
//! Queues that never spoke cost each other nothing. Whether a queue is gone is known by the segment that this
//! one is connected to: its port until they have met, then its memory.

mod forms;
mod job;
mod mailbox;
mod pair;
mod pusher;
mod ring;
#[cfg(test)]
mod scribbled;
mod table;
mod workers;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use message_queue::Name;
use message_queue::meet::{Arrival, NotAsked};
use proto::ids::{NodeId, PortNo, SegmentKey};
use shm::process::SignalsBlocked;
use shm::region::Region;
use shm::sync::{AtomicBool, Ordering};

use crate::error::{Error, Result};
use crate::node::Node;
use crate::remote::RemoteSegment;
use job::Job;
use mailbox::Mailbox;
pub(crate) use mailbox::{PORT_BYTES, write_address};
pub(crate) use pair::{FarInlet, FarOutlet};
use pusher::Pusher;
use ring::Ring;
use table::{OtherOwner, Peer, Step, Table};
use workers::{Worker, Workers};

/// A ring to another host is so many times as long as one of this machine: it has to hold what is sent until
/// the receiver's word comes back.
const TIMES_AS_LONG: usize = 8;
const RING_MOST_BYTES: usize = 1 << 30;
/// If no thread can be started, none is tried before.
const WITHOUT_THREAD: Duration = Duration::from_millis(10);
/// Stack of such a thread, which opens the link if need be.
const STACK_BYTES: usize = 1 << 20;

/// What has become known of a queue of another host.
pub(crate) type FarArrival = Arrival<FarOutlet, FarInlet>;

/// What a queue knows of those of other hosts; shared by the queue, by who finds peers, and by threads.
#[derive(Debug)]
pub(crate) struct Directory {
    node: Node,
    name: Name,
    ring: Ring,
    peers_max: usize,
    state: Mutex<State>,
    pusher: Arc<Pusher>,
    /// Something in the table may be due, or has arrived.
    is_any: AtomicBool,
    /// The queue is gone.
    is_over: AtomicBool,
}

#[derive(Debug, Default)]
struct State {
    table: Table,
    arrivals: Vec<FarArrival>,
    workers: Workers,
}

impl State {
    /// A peer that was asked, or invited, is to be asked again.
    fn not_yet(&mut self, name: Name) {
        if self.table.get(&name).is_some_and(|peer| peer.is_asked) {
            self.arrivals.push(Arrival::NotYet { name, is_ring: true });
            self.arrivals.push(Arrival::NotYet { name, is_ring: false });
        }
    }
}

impl Directory {
    pub(crate) fn new(node: &Node, name: Name, ring_bytes: usize, peers_max: u32) -> Result<Arc<Self>> {
        let bytes = ring_bytes.saturating_mul(TIMES_AS_LONG).min(RING_MOST_BYTES).next_power_of_two();
        let ring = Ring::new(bytes as u64);
        let ring =
            ring.ok_or_else(|| Error::Invalid(format!("ring_bytes {ring_bytes}: give 4096 or more")))?;
        let [is_any, is_over] = [false; 2].map(AtomicBool::new);
        let (node, state, pusher) = (node.clone(), Mutex::default(), Arc::default());
        let peers_max = peers_max as usize;
        Ok(Arc::new(Self { node, name, ring, peers_max, state, pusher, is_any, is_over }))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Remembers the queue at a port of another host, which a segment was connected for; `None`: it has been
    /// closed since.
    pub(crate) fn find(&self, node: NodeId, port: PortNo, contact: RemoteSegment) -> Result<Option<Name>> {
        let read = mailbox::read_address(&contact);
        if matches!(contact.check(), Err(Error::Lost { .. })) {
            return Ok(None);
        }
        let name = read?.ok_or_else(|| {
            let what = SegmentKey::Port(port).to_string();
            let detail =
                "its address is of another version of tieline, or of a host with another order of bytes";
            Error::Corrupt { what, node, detail: detail.into() }
        })?;
        let what = SegmentKey::Port(port);
        if name == self.name {
            return Err(taken_name(what, node, OtherOwner::Here));
        }
        // One that is known already is dropped, outside of the lock: the manager is told of it.
        let found = self.state().table.found(name, node, Arc::new(contact));
        drop(found.map_err(|owner| taken_name(what, node, owner))?);
        Ok(Some(name))
    }

    /// Remembers that a queue is on this host, as the manager of the node has said.
    pub(crate) fn found_here(&self, name: Name, node: NodeId, port: PortNo) -> Result<()> {
        let known = self.state().table.found_here(name);
        known.map_err(|owner| taken_name(SegmentKey::Port(port), node, owner))
    }

    /// A thread does something that takes a while; not if there are too many.
    fn begin(self: &Arc<Self>, state: &mut State, job: Job, worker: Worker) -> bool {
        if !state.workers.may_begin(worker) {
            return false;
        }
        let directory = Arc::clone(self);
        let _quiet = SignalsBlocked::here();
        let thread = std::thread::Builder::new().name("tieline-far".to_owned()).stack_size(STACK_BYTES);
        let is_begun = thread.spawn(move || directory.carry_out(job, worker)).is_ok();
        if is_begun {
            state.workers.begin(worker);
        }
        is_begun
    }

    /// Something has arrived, or is to be looked at. Under the lock.
    fn tell(&self, _state: &State) {
        // Release: pairs with the Acquire in `has_arrivals`; the lock of the state would suffice.
        self.is_any.store(true, Ordering::Release);
    }
}

/// A port tells the name of another queue as its own.
#[cold]
fn taken_name(what: SegmentKey, node: NodeId, owner: OtherOwner) -> Error {
    let of = match owner {
        OtherOwner::Here => "this host".to_owned(),
        OtherOwner::Node(node) => format!("node {node}"),
    };
    let detail = format!("its name is that of a queue of {of}: restart both programs");
    Error::Corrupt { what: what.to_string(), node, detail }
}

/// A queue's own end: it is asked at each turn.
#[derive(Debug)]
pub(crate) struct Far {
    directory: Arc<Directory>,
    mailbox: Mailbox,
}

impl Far {
    pub(crate) fn new(directory: Arc<Directory>, port: Arc<Region>) -> Self {
        let mailbox = Mailbox::new(port, directory.name);
        Self { directory, mailbox }
    }

    /// Whether a name is that of a queue of another host.
    pub(crate) fn knows(&self, name: &Name) -> bool {
        self.directory.state().table.get(name).is_some()
    }

    /// Whether it is that of a queue of this host that was found.
    pub(crate) fn knows_here(&self, name: &Name) -> bool {
        self.directory.state().table.is_here(name)
    }

    /// A queue of this host has made itself known.
    pub(crate) fn came_from_here(&self, name: Name) {
        // If a queue of another host has said that the name is its own, the first one stays.
        let _ = self.directory.state().table.found_here(name);
    }

    /// Sees to it that both ends of the lanes to a peer will arrive.
    pub(crate) fn ask(&mut self, name: &Name) -> std::result::Result<(), NotAsked> {
        let mut state = self.directory.state();
        let node = state.table.get(name).map(|peer| peer.node).ok_or(NotAsked::Nobody)?;
        let worker = Worker { node, answers: false };
        match state.table.may_ask(name, Instant::now()) {
            Ok(false) => Ok(()),
            Ok(true) if self.directory.begin(&mut state, Job::Ask(*name), worker) => {
                state.table.set(name, Step::AtWork);
                Ok(())
            }
            Ok(true) => Err(NotAsked::NotNow),
            Err(not_asked) => Err(not_asked),
        }
    }

    /// As far as is known.
    pub(crate) fn is_there(&self, name: &Name) -> bool {
        self.directory.state().table.get(name).is_some_and(Peer::is_there)
    }

    /// Asked at each turn: two loads, while nothing goes on.
    #[inline]
    pub(crate) fn has_arrivals(&self) -> bool {
        // Acquire: pairs with the Release in `tell`.
        self.mailbox.has_new()
            || self.directory.is_any.load(Ordering::Acquire) && self.directory.has_something_due()
    }

    /// Whether queues of other hosts are known, or make themselves known: they wake nobody.
    pub(crate) fn is_in_use(&self) -> bool {
        self.has_arrivals() || self.mailbox.has_left() || self.directory.state().table.has_any()
    }

    /// Takes what has arrived, and lets go on what can.
    pub(crate) fn arrivals(&mut self) -> Vec<FarArrival> {
        let now = Instant::now();
        let directory = &self.directory;
        let mut state = directory.state();
        if self.mailbox.has_new() || self.mailbox.has_left() {
            let State { table, .. } = &mut *state;
            self.mailbox.take(now, |hello| {
                if hello.to != directory.name || hello.from == directory.name {
                    return true;
                }
                let has_room = table.has_room_for(&hello.from);
                if has_room {
                    table.hello(&hello, &directory.name, directory.peers_max, now);
                }
                has_room
            });
        }
        loop {
            let State { table, workers, .. } = &mut *state;
            let Some((job, worker)) = table.next_due(now, workers) else { break };
            let name = job.name();
            let (is_met, is_lost) = (matches!(job, Job::Seal { .. }), matches!(job, Job::TurnAway(_)));
            if !directory.begin(&mut state, job, worker) {
                if is_met {
                    state.table.seal_later(name);
                    break;
                }
                if is_lost {
                    // It asks again.
                    state.table.set(&name, Step::Gone);
                    break;
                }
                state.table.put_off(&name, &directory.name, now, WITHOUT_THREAD);
                state.not_yet(name);
                break;
            }
        }
        let is_waiting = state.table.is_any_waiting();
        // Under the lock, under which it is set as well.
        directory.is_any.store(is_waiting, Ordering::Relaxed);
        std::mem::take(&mut state.arrivals)
    }
}

impl Directory {
    fn has_something_due(&self) -> bool {
        let state = self.state();
        if state.arrivals.is_empty() && !state.table.is_any_waiting() {
            // Relaxed: under the lock, under which it is set as well.
            self.is_any.store(false, Ordering::Relaxed);
            return false;
        }
        !state.arrivals.is_empty() || state.table.is_any_due(Instant::now(), &state.workers)
    }
}

impl Drop for Far {
    fn drop(&mut self) {
        self.directory.is_over.store(true, Ordering::Relaxed);
        self.directory.pusher.end();
        // What it has made for peers ends with it; outside of the lock, as the manager is told.
        let taken = {
            let mut state = self.directory.state();
            (std::mem::take(&mut state.table), std::mem::take(&mut state.arrivals))
        };
        drop(taken);
    }
}
