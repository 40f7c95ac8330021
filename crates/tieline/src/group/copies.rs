//! The copies that a writer reaches, and the threads that connect those on other hosts.
//!
//! A member on another host whose program does not respond is connected, or given up, by the managers after
//! seconds. That happens beside the lock, so that the copies of all others are written meanwhile.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Condvar, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use node_client::OwnLock;
use proto::ids::NodeId;
use shm::process::SignalsBlocked;

use crate::remote::RemoteSegment;

/// How long a member that could not be reached is left alone: each attempt asks the manager, and a member
/// that lets every attempt fail would make each put cost that. Twice as long after each failure, up to the
/// second figure.
const TRY_AGAIN: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(64));

/// Attempts take one part of so many of the time, but for one attempt in the longest pause.
const SEARCH_PART: u32 = 8;
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// How long a write waits for a member that is being connected. A program that responds needs milliseconds,
/// or the second after which a rail that does not respond is left out.
const ARRIVAL_LIMIT: Duration = Duration::from_secs(2);

/// What the threads of a writer share.
#[derive(Debug)]
pub(super) struct Shared<C = RemoteSegment> {
    copies: OwnLock<Copies<C>>,
    /// A connection has been made, or has failed.
    arrived: Condvar,
    limit: Duration,
}

impl<C> Default for Shared<C> {
    fn default() -> Self {
        Self { copies: OwnLock::default(), arrived: Condvar::new(), limit: ARRIVAL_LIMIT }
    }
}

/// See the module.
#[derive(Debug)]
pub(super) struct Copies<C = RemoteSegment> {
    /// The version of the members that `connected` reflects.
    version: Option<u64>,
    connected: BTreeMap<NodeId, C>,
    /// Counts the changes of `connected`.
    generation: u64,
    /// Members that could not be reached.
    missed: Option<Missed>,
    /// Members for which a thread is waiting.
    connecting: BTreeSet<NodeId>,
    /// Members that did not respond in time when they were connected last: nobody waits for them.
    silent: BTreeSet<NodeId>,
}

impl<C> Default for Copies<C> {
    fn default() -> Self {
        Self {
            version: None,
            connected: BTreeMap::new(),
            generation: 0,
            missed: None,
            connecting: BTreeSet::new(),
            silent: BTreeSet::new(),
        }
    }
}

/// A search that did not reach all members.
#[derive(Debug, Clone, Copy)]
struct Missed {
    /// The version of the members at that time.
    version: u64,
    again_at: Instant,
    pause: Duration,
}

impl<C> Copies<C> {
    /// Whether it is time to search for members.
    pub(super) fn is_due(&self, version: u64) -> bool {
        // The clock is read only while a member is missing. A change of the members is always handled.
        self.version != Some(version)
            && self.missed.is_none_or(|missed| missed.version != version || Instant::now() >= missed.again_at)
    }

    /// Notes how a search for members of this version went, and how long it took.
    pub(super) fn searched(&mut self, version: u64, complete: bool, took: Duration) {
        self.version = complete.then_some(version);
        let pause = self.missed.map_or(TRY_AGAIN.0, |missed| (2 * missed.pause).min(TRY_AGAIN.1));
        // A member whose program does not respond keeps the managers waiting for seconds each time.
        let pause = pause.max((took * SEARCH_PART).min(LONGEST_PAUSE));
        let missed = || Some(Missed { version, again_at: Instant::now().checked_add(pause)?, pause });
        self.missed = if complete { None } else { missed() };
    }

    /// How long after the last search the next one is due, if not all members are reached.
    pub(super) fn pause(&self) -> Option<Duration> {
        self.missed.map(|missed| missed.pause)
    }

    /// Changes whenever [`Self::all`] does.
    pub(super) fn generation(&self) -> u64 {
        self.generation
    }

    /// All that are connected.
    pub(super) fn all(&self) -> impl Iterator<Item = (&NodeId, &C)> {
        self.connected.iter()
    }

    pub(super) fn has(&self, member: NodeId) -> bool {
        self.connected.contains_key(&member)
    }

    /// Whether a thread is connecting it.
    pub(super) fn is_connecting(&self, member: NodeId) -> bool {
        self.connecting.contains(&member)
    }

    /// Keeps those of these nodes that are alive.
    pub(super) fn keep(&mut self, nodes: &[NodeId], is_alive: impl Fn(&C) -> bool) {
        let before = self.connected.len();
        self.connected.retain(|node, copy| nodes.contains(node) && is_alive(copy));
        self.generation += u64::from(self.connected.len() != before);
        self.silent.retain(|node| nodes.contains(node));
    }

    /// A connection was made.
    pub(super) fn connected(&mut self, member: NodeId, copy: C) {
        self.connected.insert(member, copy);
        self.silent.remove(&member);
        self.generation += 1;
    }

    /// It is gone, or its connection has failed: it is looked for again with the next write.
    pub(super) fn lost(&mut self, member: NodeId) {
        if self.connected.remove(&member).is_some() {
            self.generation += 1;
            self.version = None;
        }
    }

    fn awaited(&self) -> impl Iterator<Item = NodeId> {
        self.connecting.difference(&self.silent).copied()
    }

    /// Whether members are being connected that may be expected to respond.
    pub(super) fn are_awaited(&self) -> bool {
        self.awaited().next().is_some()
    }
}

impl<C: Send + 'static> Shared<C> {
    /// Nothing in a forked child.
    pub(super) fn lock(&self) -> Option<MutexGuard<'_, Copies<C>>> {
        self.copies.lock()
    }

    /// Has a thread connect a member of this version of the members. `wake` is called when it is connected.
    pub(super) fn connect(
        self: &Arc<Self>,
        copies: &mut Copies<C>,
        member: NodeId,
        version: u64,
        connect: impl FnOnce() -> Option<C> + Send + 'static,
        wake: impl FnOnce() + Send + 'static,
    ) {
        let weak = Arc::downgrade(self);
        let body = move || {
            let begin = Instant::now();
            let copy = connect();
            // The writer may be gone meanwhile: then the connection ends here.
            let Some(shared) = weak.upgrade() else { return };
            let Some(mut copies) = shared.lock() else { return };
            copies.connecting.remove(&member);
            match copy {
                Some(copy) => {
                    copies.connected(member, copy);
                    // The next search finds whether it is a member still.
                    copies.version = None;
                    wake();
                }
                None => copies.searched(version, false, begin.elapsed()),
            }
            shared.arrived.notify_all();
        };
        let _quiet = SignalsBlocked::here();
        // Without a thread it is tried again like one that could not be reached.
        if std::thread::Builder::new().name("tieline-group".to_owned()).spawn(body).is_ok() {
            copies.connecting.insert(member);
        }
    }

    /// Waits without the lock for members that are being connected, but for none that has not responded in
    /// time before.
    pub(super) fn wait_for_arrivals<'a>(
        &'a self,
        mut copies: MutexGuard<'a, Copies<C>>,
    ) -> MutexGuard<'a, Copies<C>> {
        let begin = Instant::now();
        while copies.are_awaited() {
            let left = self.limit.saturating_sub(begin.elapsed());
            if left.is_zero() {
                let silent: Vec<_> = copies.awaited().collect();
                copies.silent.extend(silent);
                break;
            }
            copies = self.arrived.wait_timeout(copies, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        copies
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    #[test]
    fn a_member_that_cannot_be_reached_is_not_asked_for_with_every_write() {
        let mut copies = Copies::<()>::default();
        assert!(copies.is_due(1));
        let mut pauses = Vec::new();
        for _ in 0..9 {
            copies.searched(1, false, Duration::ZERO);
            pauses.push(copies.missed.unwrap().pause.as_millis());
        }
        assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 64, 64, 64]);
        // One that takes long to be missed is asked for seldom.
        copies.searched(1, false, Duration::from_secs(2));
        assert_eq!(copies.missed.unwrap().pause, Duration::from_secs(16));
        copies.searched(1, false, Duration::from_secs(8));
        assert_eq!(copies.missed.unwrap().pause, LONGEST_PAUSE);
        copies.searched(1, false, Duration::ZERO);
        assert_eq!(copies.missed.unwrap().pause, TRY_AGAIN.1);
        let again = |seconds| Instant::now() + Duration::from_secs(seconds);
        copies.missed = Some(Missed { version: 1, again_at: again(3600), pause: TRY_AGAIN.1 });
        assert!(!copies.is_due(1));
        assert!(copies.is_due(2), "a change of the members is looked at");
        copies.missed = Some(Missed { version: 1, again_at: again(0), pause: TRY_AGAIN.1 });
        assert!(copies.is_due(1), "its time has come");
        copies.searched(1, true, Duration::ZERO);
        assert!(!copies.is_due(1) && copies.missed.is_none() && copies.is_due(2));
    }

    #[test]
    fn a_member_that_does_not_respond_keeps_nobody_waiting_but_once() {
        let [near, silent, quick] = [4, 8, 12].map(|id| NodeId::new(id).unwrap());
        let shared = Arc::new(Shared { limit: Duration::from_millis(20), ..Shared::<u32>::default() });
        let (respond, responds) = channel();
        let (woken, wakes) = channel();
        let mut copies = shared.lock().unwrap();
        copies.connected(near, 1);
        let wake = woken.clone();
        shared.connect(&mut copies, silent, 1, move || responds.recv().ok(), move || wake.send(()).unwrap());
        assert!(copies.is_connecting(silent) && copies.are_awaited());
        // The others are written to meanwhile; the wait for this one ends though it does not respond.
        assert_eq!(copies.all().count(), 1);
        copies = shared.wait_for_arrivals(copies);
        assert!(copies.is_connecting(silent) && !copies.are_awaited());
        // One that comes later is waited for, and nobody waits for the first one any more.
        shared.connect(&mut copies, quick, 2, || Some(3), move || woken.send(()).unwrap());
        assert!(copies.are_awaited());
        let generation = copies.generation();
        drop(copies);
        wakes.recv().unwrap();
        copies = shared.wait_for_arrivals(shared.lock().unwrap());
        assert!(copies.has(quick) && !copies.has(silent) && copies.generation() > generation);
        // When it responds it is a member like all others, which are looked at once more.
        copies.searched(2, true, Duration::ZERO);
        drop(copies);
        respond.send(2).unwrap();
        wakes.recv().unwrap();
        copies = shared.lock().unwrap();
        assert_eq!(copies.all().map(|(_, copy)| *copy).collect::<Vec<_>>(), [1, 2, 3]);
        assert!(!copies.is_connecting(silent) && copies.silent.is_empty() && copies.is_due(2));
    }

    #[test]
    fn a_connection_that_fails_is_tried_again_later() {
        let member = NodeId::new(8).unwrap();
        let shared = Arc::new(Shared::<u32>::default());
        let mut copies = shared.lock().unwrap();
        shared.connect(&mut copies, member, 1, || None, || unreachable!("it is not connected"));
        copies = shared.wait_for_arrivals(copies);
        assert!(!copies.has(member) && !copies.is_connecting(member));
        assert!(copies.missed.is_some_and(|missed| missed.version == 1));
    }
}
