//! Delivers events from the library thread to waiting threads: bounded queues by subject.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Condvar, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use node_client::{ClientEvent, Import, ImportId, ImportState, OwnLock, Sender};
use proto::ids::{GroupId, NodeId};
use proto::wire::program::{ConnectionId, Imported};
use shm::sync::{AtomicBool, Ordering};

use crate::error::{Error, Result};
use crate::remote::{RemoteEvent, forked, lost};
use crate::segment::SegmentEvent;
use crate::senders::Senders;

/// The most events that are kept for a program that never reads them.
const KEPT: usize = 4096;

/// A bounded queue of events. The oldest is dropped, because the newest has the present state.
#[derive(Debug)]
pub(crate) struct Queue<T> {
    items: OwnLock<VecDeque<T>>,
    came: Condvar,
    /// No thread waits here any more.
    cancelled: AtomicBool,
}

impl<T> Default for Queue<T> {
    fn default() -> Self {
        Self { items: OwnLock::default(), came: Condvar::new(), cancelled: AtomicBool::new(false) }
    }
}

impl<T> Queue<T> {
    pub(crate) fn push(&self, item: T) {
        let Some(mut items) = self.items.lock() else { return };
        if items.len() == KEPT {
            items.pop_front();
        }
        items.push_back(item);
        self.came.notify_all();
    }

    /// Ends all waits, those of the future too.
    pub(crate) fn cancel(&self) {
        // Under the lock, so that no thread goes to sleep between its check and the call.
        let Some(_items) = self.items.lock() else { return };
        self.cancelled.store(true, Ordering::Relaxed);
        self.came.notify_all();
    }

    /// The next one, or nothing within the time-out. `what` is waited for.
    pub(crate) fn wait(&self, timeout: Duration, what: &dyn Fn() -> String) -> Result<Option<T>> {
        let deadline = Instant::now().checked_add(timeout);
        let mut items = self.items.lock().ok_or_else(|| forked("queue of events"))?;
        loop {
            if self.cancelled.load(Ordering::Relaxed) {
                return Err(Error::Cancelled { what: what() });
            }
            if let Some(item) = items.pop_front() {
                return Ok(Some(item));
            }
            let left =
                deadline.map_or(Duration::from_secs(60), |at| at.saturating_duration_since(Instant::now()));
            if left.is_zero() {
                return Ok(None);
            }
            items = self.came.wait_timeout(items, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

/// Nodes that hold a copy of a group, as known from events.
#[derive(Debug, Default)]
pub(crate) struct Members {
    nodes: OwnLock<BTreeSet<NodeId>>,
    version: shm::sync::AtomicU64,
    /// One for each change, for the one that waits.
    changes: Queue<()>,
}

impl Members {
    pub(crate) fn change(&self, node: NodeId, joined: bool) {
        let Some(mut nodes) = self.nodes.lock() else { return };
        if joined {
            nodes.insert(node);
        } else {
            nodes.remove(&node);
        }
        // Release: pairs with the Acquire in `version`.
        self.version.fetch_add(1, Ordering::Release);
        drop(nodes);
        self.changes.push(());
    }

    pub(crate) fn changes(&self) -> &Queue<()> {
        &self.changes
    }

    /// Changes whenever the members do: one load on the way of each put.
    pub(crate) fn version(&self) -> u64 {
        // Acquire: pairs with the Release in `change`.
        self.version.load(Ordering::Acquire)
    }

    pub(crate) fn nodes(&self) -> Vec<NodeId> {
        self.nodes.lock().map(|nodes| nodes.iter().copied().collect()).unwrap_or_default()
    }
}

#[derive(Debug, Default)]
struct Sinks {
    segments: BTreeMap<Imported, Weak<Queue<SegmentEvent>>>,
    senders: BTreeMap<Imported, Weak<Senders>>,
    imports: BTreeMap<ImportId, ImportSink>,
    groups: BTreeMap<GroupId, Vec<Weak<Members>>>,
    /// Producers that connected before the maker of the interrupt had its number back.
    unclaimed: VecDeque<Unclaimed>,
}

/// The threads that wait for events of an import.
#[derive(Debug)]
struct ImportSink {
    import: Import,
    queue: Weak<Queue<RemoteEvent>>,
    /// The last event: the link is up.
    operational: bool,
}

impl ImportSink {
    /// The event, if the link was taken down or up since the last time. A manager that is away reports
    /// nothing about the link, and the end of an import has an event of its own.
    fn change(&mut self) -> Option<RemoteEvent> {
        let operational = self.import.state() != ImportState::Suspended;
        let changed = std::mem::replace(&mut self.operational, operational) != operational;
        let ended = lost(&self.import).is_some();
        (changed && !ended).then_some(if operational {
            RemoteEvent::Operational
        } else {
            RemoteEvent::NotOperational
        })
    }
}

/// An arrival at an interrupt whose maker does not know its number yet.
#[derive(Debug)]
struct Unclaimed {
    what: Imported,
    producer: u16,
    connection: ConnectionId,
    sender: Sender,
}

/// More unclaimed arrivals than this are not kept: they can only be of interrupts that are gone again.
const UNCLAIMED: usize = 16;

/// The waiting threads, by import.
#[derive(Debug, Default)]
pub(crate) struct Registry {
    sinks: OwnLock<Sinks>,
}

/// Undone when dropped.
#[derive(Debug)]
pub(crate) struct Registration {
    registry: Weak<Registry>,
    what: Registered,
}

#[derive(Debug)]
enum Registered {
    Segment(Imported, Weak<Queue<SegmentEvent>>),
    Senders(Imported, Weak<Senders>),
    Import(ImportId),
}

impl Registry {
    /// Nothing in a forked child, which no event reaches: it has no library thread.
    fn lock(&self) -> Option<MutexGuard<'_, Sinks>> {
        self.sinks.lock()
    }

    fn registration(self: &Arc<Self>, what: Registered) -> Registration {
        Registration { registry: Arc::downgrade(self), what }
    }

    pub(crate) fn register_segment(
        self: &Arc<Self>,
        what: Imported,
        queue: &Arc<Queue<SegmentEvent>>,
    ) -> Registration {
        let queue = Arc::downgrade(queue);
        if let Some(mut sinks) = self.lock() {
            put_unless_taken(&mut sinks.segments, what, &queue);
        }
        self.registration(Registered::Segment(what, queue))
    }

    pub(crate) fn register_senders(self: &Arc<Self>, what: Imported, senders: &Arc<Senders>) -> Registration {
        if let Some(mut sinks) = self.lock() {
            let (early, rest): (Vec<_>, Vec<_>) =
                sinks.unclaimed.drain(..).partition(|arrival| arrival.what == what);
            sinks.unclaimed = VecDeque::from(rest);
            for arrival in early {
                senders.arrived(arrival.producer, arrival.connection, arrival.sender);
            }
            put_unless_taken(&mut sinks.senders, what, &Arc::downgrade(senders));
        }
        self.registration(Registered::Senders(what, Arc::downgrade(senders)))
    }

    pub(crate) fn register_import(
        self: &Arc<Self>,
        import: &Import,
        queue: &Arc<Queue<RemoteEvent>>,
    ) -> Registration {
        if let Some(mut sinks) = self.lock() {
            let (import, queue) = (import.clone(), Arc::downgrade(queue));
            sinks.imports.insert(import.id(), ImportSink { import, queue, operational: true });
        }
        // It may have ended between the manager's reply and this line; the state page shows it.
        if let Some(reason) = lost(import) {
            queue.push(RemoteEvent::Lost(reason));
        }
        self.registration(Registered::Import(import.id()))
    }

    pub(crate) fn register_group(&self, group: GroupId, members: &Arc<Members>) {
        let Some(mut sinks) = self.lock() else { return };
        let watchers = sinks.groups.entry(group).or_default();
        watchers.retain(|watcher| watcher.strong_count() > 0);
        watchers.push(Arc::downgrade(members));
    }

    /// True when no watch of the group is left.
    pub(crate) fn group_is_unwatched(&self, group: GroupId) -> bool {
        // A child leaves what its parent watches as it is.
        let Some(mut sinks) = self.lock() else { return false };
        let Some(watchers) = sinks.groups.get_mut(&group) else { return true };
        watchers.retain(|watcher| watcher.strong_count() > 0);
        watchers.is_empty()
    }

    /// Called by the library's thread.
    pub(crate) fn dispatch(&self, event: ClientEvent) {
        match event {
            ClientEvent::Connected { what, node, connection, producer, sender } => {
                self.to_segment(what, SegmentEvent::Connected { node });
                if let Some(sender) = sender {
                    self.arrived(Unclaimed { what, producer, connection, sender });
                }
            }
            ClientEvent::Disconnected { what, node, connection, died } => {
                let senders = self.lock().and_then(|sinks| sinks.senders.get(&what)?.upgrade());
                if let Some(senders) = senders {
                    senders.departed(connection, died);
                }
                self.to_segment(what, SegmentEvent::Disconnected { node, died });
            }
            ClientEvent::Lost { import, reason } => {
                let queue = self.lock().and_then(|sinks| sinks.imports.get(&import)?.queue.upgrade());
                if let Some(queue) = queue {
                    queue.push(RemoteEvent::Lost(reason));
                }
            }
            ClientEvent::Member { group, node, joined } => {
                let watchers =
                    self.lock().and_then(|sinks| sinks.groups.get(&group).cloned()).unwrap_or_default();
                for members in watchers.iter().filter_map(Weak::upgrade) {
                    members.change(node, joined);
                }
            }
            ClientEvent::Link { .. } | ClientEvent::ManagerBack { .. } => self.tell_of_links(),
            // Nothing waits for these: requests fail by themselves.
            ClientEvent::ManagerGone { .. } | ClientEvent::ExportRefused { .. } => {}
            // Dealt with by `network`.
            ClientEvent::WantedByNetwork { .. } | ClientEvent::Asked { .. } => {}
        }
    }

    /// A link may have been taken down or up; the state page shows the imports that it affects.
    fn tell_of_links(&self) {
        let Some(mut sinks) = self.lock() else { return };
        let changes =
            sinks.imports.values_mut().filter_map(|sink| Some((sink.change()?, sink.queue.upgrade()?)));
        let changes: Vec<_> = changes.collect();
        drop(sinks);
        changes.into_iter().for_each(|(event, queue)| queue.push(event));
    }

    fn arrived(&self, arrival: Unclaimed) {
        let Some(mut sinks) = self.lock() else { return };
        if let Some(senders) = sinks.senders.get(&arrival.what).and_then(Weak::upgrade) {
            senders.arrived(arrival.producer, arrival.connection, arrival.sender);
            return;
        }
        if sinks.unclaimed.len() == UNCLAIMED {
            sinks.unclaimed.pop_front();
        }
        sinks.unclaimed.push_back(arrival);
    }

    fn to_segment(&self, what: Imported, event: SegmentEvent) {
        let queue = self.lock().and_then(|sinks| sinks.segments.get(&what)?.upgrade());
        if let Some(queue) = queue {
            queue.push(event);
        }
    }
}

/// A second object of one name will be refused by the manager; until then the first one keeps its events.
fn put_unless_taken<T>(sinks: &mut BTreeMap<Imported, Weak<T>>, what: Imported, queue: &Weak<T>) {
    let taken = sinks.get(&what).is_some_and(|there| there.strong_count() > 0);
    if !taken {
        sinks.insert(what, Weak::clone(queue));
    }
}

fn remove_if_mine<T>(sinks: &mut BTreeMap<Imported, Weak<T>>, what: Imported, queue: &Weak<T>) {
    if sinks.get(&what).is_some_and(|there| Weak::ptr_eq(there, queue)) {
        sinks.remove(&what);
    }
}

impl Registration {
    /// The manager has given the name to this segment: whoever had it before has it no more, although its own
    /// place here may not be free yet.
    pub(crate) fn settle(&self) {
        let Some(registry) = self.registry.upgrade() else { return };
        let Some(mut sinks) = registry.lock() else { return };
        if let Registered::Segment(what, queue) = &self.what {
            sinks.segments.insert(*what, Weak::clone(queue));
        }
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        let Some(registry) = self.registry.upgrade() else { return };
        let Some(mut sinks) = registry.lock() else { return };
        match &self.what {
            Registered::Segment(what, queue) => remove_if_mine(&mut sinks.segments, *what, queue),
            Registered::Senders(what, senders) => remove_if_mine(&mut sinks.senders, *what, senders),
            Registered::Import(import) => drop(sinks.imports.remove(import)),
        }
    }
}
