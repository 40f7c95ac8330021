//! Two queues of different hosts that have met: each has memory for the other, and is connected to the
//! other's.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError, Weak};
use std::time::{Duration, Instant};

use link::LinkError;
use message_queue::lane::{Found, Inlet, LaneError, Outlet, RECORD_BYTES};
use proto::ids::{NodeId, SegmentId};
use shm::doorbell::Waiter;
use shm::sync::{AtomicBool, AtomicU64, Ordering};
use shm::window::Window;

use super::forms::{TAIL_AT, WELCOME_AT, Welcome, read, welcome};
use super::pusher::Pusher;
use super::ring::{Carrier, Gone, Incoming, Outgoing, Ring};
use crate::error::Error;
use crate::remote::RemoteSegment;
use crate::segment::{Segment, SegmentEvent};

/// A queue that is dropped waits at most so long for what it has sent to all its peers to arrive. One that is
/// closed has waited before.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// How often a peer is put something to see whether it is there. A link fails if it confirms nothing for ten
/// seconds.
const PROBE: Duration = Duration::from_secs(2);
/// How long a thread waits until a connection can be resumed. Then it tries again.
pub(super) const RESUME: Duration = Duration::from_secs(1);
/// How long a second connection of the peer's node may last until it is taken for that of another program.
const SETTLE: Duration = Duration::from_secs(2);
/// How long an answer to a request is tried.
const ANSWER: Duration = Duration::from_secs(20);

/// Memory of this queue for one peer.
#[derive(Debug)]
pub(super) struct Own {
    pub(super) segment: Segment,
    pub(super) ring: Ring,
    pub(super) key: u64,
}

/// The same of the peer, connected.
#[derive(Debug)]
pub(super) struct Its {
    pub(super) remote: RemoteSegment,
    pub(super) ring: Ring,
    pub(super) key: u64,
}

/// See the module. Both ends of the lanes hold it.
#[derive(Debug)]
pub(super) struct Pair {
    this: Weak<Self>,
    pusher: Arc<Pusher>,
    own: Segment,
    own_ring: Ring,
    own_key: u64,
    remote: RemoteSegment,
    outgoing: Mutex<Outgoing>,
    since: Instant,
    /// When something was last put to see whether the peer is there, from `since` on.
    probed_ms: AtomicU64,
    /// Something is to be put that could not be begun.
    is_behind: AtomicBool,
    /// A rail of the link has failed under a put: all is put again when the link is resumed.
    is_in_doubt: AtomicBool,
    /// Nothing goes to the peer any more. What it has sent can still be read: it is in memory of this
    /// program.
    is_gone: AtomicBool,
    /// A third program can write into the memory for the peer.
    is_open_to_others: AtomicBool,
}

/// Whether a failure of a put ends when the link is up again.
fn is_down(error: &Error) -> bool {
    matches!(error, Error::Link(LinkError::Down { .. }))
}

/// Whether a connection can be resumed after a failure.
pub(super) fn is_in_doubt(error: &Error) -> bool {
    matches!(error, Error::Link(LinkError::InDoubt { .. }))
}

/// Who has connected to the memory for a peer.
#[derive(Clone, Copy, Debug, Default)]
struct Connected {
    count: i64,
    /// A program of another node than the peer's has, perhaps no more.
    is_of_others: bool,
}

impl Connected {
    fn note(&mut self, peers: NodeId, event: SegmentEvent) {
        match event {
            SegmentEvent::Connected { node } => {
                self.count += 1;
                self.is_of_others |= node != peers;
            }
            SegmentEvent::Disconnected { .. } => self.count -= 1,
        }
    }

    fn has_others(self) -> bool {
        self.is_of_others || self.count > 1
    }
}

/// Whether what a segment was connected for is still there, as far as is known.
pub(super) fn is_usable(remote: &RemoteSegment) -> bool {
    let is_lost = remote.check().is_err_and(|error| !is_down(&error));
    !is_lost && remote.connection_failure().is_none_or(|error| is_in_doubt(&error))
}

impl Carrier for Pair {
    fn try_put(&self, offset: usize, source: Window<'_>) -> Result<bool, Gone> {
        if self.is_gone() {
            return Err(Gone);
        }
        match self.remote.try_put_from(offset, source) {
            Ok(is_begun) => Ok(is_begun),
            Err(error) if is_down(&error) => Ok(false),
            Err(error) if is_in_doubt(&error) => {
                self.is_in_doubt.store(true, Ordering::Relaxed);
                Ok(false)
            }
            Err(_) => {
                self.is_gone.store(true, Ordering::Relaxed);
                Err(Gone)
            }
        }
    }
}

impl Pair {
    /// Both ends of a pair, and the two lanes.
    pub(super) fn new(
        own: Own,
        its: Its,
        pusher: &Arc<Pusher>,
    ) -> shm::Result<(Arc<Self>, FarOutlet, FarInlet)> {
        let outgoing = Mutex::new(Outgoing::new(its.ring, its.key, own.key)?);
        let [is_behind, is_in_doubt, is_gone, is_open_to_others] = [false; 4].map(AtomicBool::new);
        let incoming = Incoming::new(own.ring, own.key);
        let (own, own_ring, own_key, remote) = (own.segment, own.ring, own.key, its.remote);
        let pair = Arc::new_cyclic(|this| Self {
            this: Weak::clone(this),
            pusher: Arc::clone(pusher),
            own,
            own_ring,
            own_key,
            remote,
            outgoing,
            since: Instant::now(),
            probed_ms: AtomicU64::new(0),
            is_behind,
            is_in_doubt,
            is_gone,
            is_open_to_others,
        });
        // The first end of records tells the peer that this one is connected to it.
        pair.push_on(&mut pair.outgoing());
        Ok((
            Arc::clone(&pair),
            FarOutlet { pair: Arc::clone(&pair), promised: 0 },
            FarInlet { pair, incoming },
        ))
    }

    /// Only one thread at a time uses a queue, or has its lock: at most the pusher has it, for a few copies.
    fn outgoing(&self) -> MutexGuard<'_, Outgoing> {
        self.outgoing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[inline]
    fn is_gone(&self) -> bool {
        self.is_gone.load(Ordering::Relaxed)
    }

    /// Whether the peer is still there, as far as is known: asked again and again by who waits. Something is
    /// put now and then, so that a link that is cut is noticed by those, too, who only receive.
    pub(super) fn is_there(&self) -> bool {
        if self.is_gone() || !is_usable(&self.remote) {
            return false;
        }
        let age = self.since.elapsed();
        let probed = Duration::from_millis(self.probed_ms.load(Ordering::Relaxed));
        if age.saturating_sub(probed) >= PROBE {
            self.probed_ms.store(u64::try_from(age.as_millis()).unwrap_or(u64::MAX), Ordering::Relaxed);
            let mut outgoing = self.outgoing();
            outgoing.probe();
            self.push_on(&mut outgoing);
        }
        match self.remote.has_arrived() {
            Ok(_) => true,
            Err(error) => is_down(&error) || is_in_doubt(&error),
        }
    }

    /// Whether the peer has connected to this side's memory: then it has found its end of the lane, or will.
    pub(super) fn is_met(&self) -> bool {
        read::<1>(&self.own.window(), TAIL_AT, self.own_key).is_some()
    }

    /// The peer, a queue of that node, is connected: nobody else is to be from now on. Whoever is can write
    /// what it likes in the peer's name.
    pub(super) fn seal(&self, node: NodeId) {
        // Without a manager it is sealed as soon as that would be needed: nobody can connect.
        let _ = self.own.withdraw(false);
        let (mut connected, until) = (Connected::default(), Instant::now() + SETTLE);
        loop {
            while let Ok(event) = self.own.wait_event(Duration::ZERO) {
                connected.note(node, event);
            }
            // An attempt of the peer that has failed ends a moment later.
            if !connected.has_others() || connected.is_of_others || Instant::now() >= until {
                break;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        if connected.has_others() {
            self.is_open_to_others.store(true, Ordering::Relaxed);
        }
    }

    /// Tells the peer, which has asked, which segment this side has made for it.
    pub(super) fn answer(&self, segment: SegmentId) {
        let answer = welcome(Welcome::At(segment), self.outgoing().key());
        let put = || self.remote.put(WELCOME_AT, &answer).and_then(|()| self.remote.barrier());
        let (mut done, until) = (put(), Instant::now() + ANSWER);
        while done.as_ref().is_err_and(is_in_doubt) && Instant::now() < until && self.pusher.ended().is_none()
        {
            // In this order: records that are in doubt as well are put again by whoever finds this.
            self.is_in_doubt.store(true, Ordering::Relaxed);
            done = self.remote.resume(RESUME).and_then(|()| put());
        }
        if done.is_err() {
            self.is_gone.store(true, Ordering::Relaxed);
        }
    }

    /// Puts what is to be put, as far as that goes without a wait.
    fn push_on(&self, outgoing: &mut Outgoing) {
        let may_put = !self.is_in_doubt.load(Ordering::Relaxed) || self.is_resumed(outgoing);
        let is_done = may_put && outgoing.flush(self).unwrap_or(true);
        // The program may make no further call.
        if !self.is_behind.swap(!is_done, Ordering::Relaxed) && !is_done {
            self.pusher.add(Weak::clone(&self.this));
        }
    }

    /// For the pusher: whether something is still to be put.
    pub(super) fn is_still_behind(&self) -> bool {
        // Whoever has the lock puts as well, and may not be done.
        if let Ok(mut outgoing) = self.outgoing.try_lock() {
            self.push_on(&mut outgoing);
        }
        self.is_behind.load(Ordering::Relaxed)
    }

    #[cold]
    fn is_resumed(&self, outgoing: &mut Outgoing) -> bool {
        if self.is_gone() {
            return true;
        }
        match self.remote.resume(Duration::ZERO) {
            // Nothing of before arrives any more.
            Ok(()) => outgoing.put_again(),
            Err(error) if is_down(&error) || is_in_doubt(&error) => return false,
            Err(_) => self.is_gone.store(true, Ordering::Relaxed),
        }
        self.is_in_doubt.store(false, Ordering::Relaxed);
        true
    }

    /// Whether all that was sent is in the peer's memory, and the peer will look there.
    fn has_arrived(&self, outgoing: &mut Outgoing) -> bool {
        self.push_on(outgoing);
        if self.is_gone() {
            return true;
        }
        if self.is_behind.load(Ordering::Relaxed) || self.is_in_doubt.load(Ordering::Relaxed) {
            return !is_usable(&self.remote);
        }
        match self.remote.has_arrived() {
            Ok(has_arrived) => has_arrived && self.is_met(),
            Err(error) => !is_down(&error) && !is_in_doubt(&error),
        }
    }
}

impl Drop for Pair {
    fn drop(&mut self) {
        // Of a peer that is lost before, nothing is waited for: others would wait as well.
        let Some(ended) = self.pusher.ended() else { return };
        let until = ended + LAST_WORDS;
        // Without the lock: in a forked child another thread may have held it at the fork.
        let this = &*self;
        let mut outgoing = match this.outgoing.try_lock() {
            Ok(outgoing) => outgoing,
            Err(TryLockError::Poisoned(error)) => error.into_inner(),
            Err(TryLockError::WouldBlock) => return,
        };
        while !this.has_arrived(&mut outgoing) && Instant::now() < until {
            std::thread::yield_now();
        }
    }
}

/// The end of a lane to a queue of another host that sends.
#[derive(Debug)]
pub(crate) struct FarOutlet {
    pair: Arc<Pair>,
    /// Bytes of records for which room was found.
    promised: usize,
}

impl Outlet for FarOutlet {
    fn send(&mut self, len: usize, fill: impl FnOnce(&Window<'_>)) -> Result<(), LaneError> {
        let pair = &*self.pair;
        let left = self.promised.checked_sub(len + RECORD_BYTES);
        self.promised = left.unwrap_or(0);
        if pair.is_gone() && left.is_none() {
            // Whoever watches the peers finds it gone. What there was room for is composed all the same.
            return Err(LaneError::Full);
        }
        let mut outgoing = pair.outgoing();
        let sent = outgoing.send(&pair.own.window(), len, fill);
        // Also if there was no room: the peer is told.
        pair.push_on(&mut outgoing);
        sent
    }

    fn find_room(&mut self, bytes: usize) -> Result<(), LaneError> {
        let pair = &*self.pair;
        self.promised = 0;
        if pair.is_gone() {
            return Err(LaneError::Full);
        }
        let mut outgoing = pair.outgoing();
        let found = outgoing.find_room(&pair.own.window(), bytes);
        match found {
            Ok(()) => self.promised = bytes,
            Err(_) => pair.push_on(&mut outgoing),
        }
        found
    }

    fn max_record_bytes(&self) -> usize {
        self.pair.outgoing().ring().max_record_bytes()
    }

    fn memory_bytes(&self) -> usize {
        self.pair.outgoing().ring().bytes()
    }

    fn has_arrived(&mut self) -> bool {
        self.pair.has_arrived(&mut self.pair.outgoing())
    }
}

/// The end of a lane from a queue of another host that receives.
#[derive(Debug)]
pub(crate) struct FarInlet {
    pair: Arc<Pair>,
    incoming: Incoming,
}

impl Inlet for FarInlet {
    fn take_if<R>(&mut self, look: impl FnOnce(&Window<'_>) -> Option<R>) -> Result<Found<R>, LaneError> {
        let pair = &*self.pair;
        if pair.is_open_to_others.load(Ordering::Relaxed) {
            return Err(LaneError::Broken("it has let a third program write into the memory of both"));
        }
        let found = self.incoming.take_if(&pair.own.window(), look);
        let is_idle = !matches!(found, Ok(Found::Taken(_)));
        if let Some(taken) = self.incoming.due(is_idle) {
            let mut outgoing = pair.outgoing();
            outgoing.give_back(taken);
            pair.push_on(&mut outgoing);
        } else if is_idle && pair.is_behind.load(Ordering::Relaxed) {
            pair.push_on(&mut pair.outgoing());
        }
        found
    }

    fn knows_more(&self) -> bool {
        self.incoming.knows_more()
    }

    fn expects_more(&self) -> bool {
        // To look costs two loads.
        true
    }

    fn is_empty(&self) -> bool {
        self.incoming.is_empty(&self.pair.own.window())
    }

    fn waiter(&self) -> Option<Waiter<'_>> {
        // What is put here rings nothing.
        None
    }

    fn memory_bytes(&self) -> usize {
        self.pair.own_ring.bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_else_was_connected_before_the_memory_was_sealed_is_noticed() {
        let [four, eight] = [4, 8].map(|node| NodeId::new(node).unwrap());
        let connected = |node| SegmentEvent::Connected { node };
        let disconnected = |node| SegmentEvent::Disconnected { node, died: false };
        let has = |events: &[SegmentEvent]| {
            let mut all = Connected::default();
            events.iter().for_each(|event| all.note(eight, *event));
            all.has_others()
        };
        assert!(!has(&[]) && !has(&[connected(eight)]));
        // The peer has tried twice.
        assert!(!has(&[connected(eight), disconnected(eight), connected(eight)]));
        assert!(has(&[connected(eight), connected(eight)]), "another program of its node");
        assert!(has(&[connected(four), disconnected(four), connected(eight)]), "it may have written");
    }
}
