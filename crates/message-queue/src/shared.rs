//! A message queue that several threads use.
//!
//! Threads that wait for long sleep. One of them, the *watcher*, is woken by peers; it makes progress for
//! all, and whoever holds the lock wakes those of the others whose wait is over. When its own wait is over,
//! it wakes one that becomes the watcher. So a message wakes no more threads than it is for, and one.

use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use shm::doorbell::{SURE_AFTER_NS, Sleep};
use shm::sync::{AtomicU32, Ordering, futex};

use crate::alarm::{Alarm, Armed};
use crate::error::Error;
use crate::matching::{Envelope, Want};
use crate::meet::{Datagrams, Meeting};
use crate::queue::waiting::Waiting;
use crate::queue::{MessageQueue, Persistent};
use crate::requests::{Request, Status};

/// One message queue for several threads, each of which has a clone of this handle.
///
/// Calls that do not wait go through [`SharedQueue::with`], which holds a lock for as long as they take. A
/// wait takes the lock for a turn of progress at a time, so that all threads can wait at once; whichever has
/// the lock makes progress for all of them.
///
/// ```
/// use message_queue::{MessageQueue, Settings, SharedQueue, Want};
///
/// let queue = SharedQueue::new(MessageQueue::new(Settings::default())?);
/// let own = queue.with(|queue| { let name = queue.name(); queue.peer(name) });
/// std::thread::scope(|scope| {
///     for tag in 0..4 {
///         let queue = queue.clone();
///         scope.spawn(move || {
///             let receive = queue.with(|queue| queue.receive(Want::exactly(own, tag), vec![0; 8]));
///             queue.with(|queue| queue.send_bytes(own, tag, &tag.to_ne_bytes()))?;
///             let bytes = queue.wait(receive, None)?.buffers.into_owned();
///             assert_eq!(bytes.as_deref(), Some(tag.to_ne_bytes().as_slice()));
///             Ok::<(), message_queue::Error>(())
///         });
///     }
/// });
/// # Ok::<(), message_queue::Error>(())
/// ```
#[derive(Debug)]
pub struct SharedQueue<M: Meeting = Datagrams>(Arc<Mutex<Inner<M>>>);

impl<M: Meeting> Clone for SharedQueue<M> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

/// The queue, and who sleeps.
#[derive(Debug)]
struct Inner<M: Meeting> {
    queue: MessageQueue<M>,
    sleepers: Vec<Sleeper>,
    /// A thread is the watcher, asleep or not.
    is_watched: bool,
}

/// A thread that sleeps.
#[derive(Debug)]
struct Sleeper {
    /// 0 until it is woken.
    word: Arc<AtomicU32>,
    awaited: Awaited,
    /// Of the watcher: how many lanes there were when it was armed.
    lanes: Option<usize>,
}

/// What a thread waits for.
#[derive(Clone, Debug)]
enum Awaited {
    Any(Vec<Request>),
    All(Vec<Request>),
    Message(Want),
}

impl Awaited {
    /// Whether the wait would end now, with a result or an error.
    fn is_over<M: Meeting>(&self, queue: &mut MessageQueue<M>) -> bool {
        match self {
            Self::Any(requests) => requests.iter().any(|request| queue.has_ended(*request) != Ok(false)),
            Self::All(requests) => requests.iter().all(|request| queue.has_ended(*request) != Ok(false)),
            Self::Message(want) => queue.has_probed(want),
        }
    }
}

impl Sleeper {
    fn is_woken(&self) -> bool {
        // Relaxed: the lock orders it.
        self.word.load(Ordering::Relaxed) != 0
    }

    fn wake(&self) {
        // Relaxed: what it finds is behind the lock.
        self.word.store(1, Ordering::Relaxed);
        futex::wake(&self.word, u32::MAX >> 1);
    }
}

impl<M: Meeting> Inner<M> {
    /// Wakes those whose wait is over, and the watcher if peers would not wake it for what there is now.
    fn wake_others(&mut self) {
        let Self { queue, sleepers, .. } = self;
        for sleeper in sleepers.iter().filter(|sleeper| !sleeper.is_woken()) {
            let is_missed = sleeper.lanes.is_some_and(|lanes| !queue.may_sleep_on(lanes));
            if is_missed || sleeper.awaited.is_over(queue) {
                sleeper.wake();
            }
        }
    }
}

/// The lock. Who lets go of it wakes others.
struct Held<'a, M: Meeting>(MutexGuard<'a, Inner<M>>);

impl<M: Meeting> Deref for Held<'_, M> {
    type Target = Inner<M>;

    fn deref(&self) -> &Inner<M> {
        &self.0
    }
}

impl<M: Meeting> DerefMut for Held<'_, M> {
    fn deref_mut(&mut self) -> &mut Inner<M> {
        &mut self.0
    }
}

impl<M: Meeting> Drop for Held<'_, M> {
    fn drop(&mut self) {
        if !self.0.sleepers.is_empty() {
            self.0.wake_others();
        }
    }
}

/// A thread that waits.
struct Waiter<'a, M: Meeting> {
    shared: &'a SharedQueue<M>,
    is_watcher: bool,
}

impl<M: Meeting> Waiter<'_, M> {
    /// Sleeps until the wait may be over, for `limit` at most: whether it could, or need not.
    #[cold]
    fn sleep(&mut self, mut limit: Duration, awaited: Awaited) -> bool {
        let (word, sleep, mut alarm) = (Arc::new(AtomicU32::new(0)), Sleep::new(), Alarm::default());
        let mut inner = self.shared.lock();
        if awaited.is_over(&mut inner.queue) {
            return true;
        }
        let lanes = if self.is_watcher || !inner.is_watched {
            limit = limit.min(inner.queue.longest_sleep());
            let armed = inner.queue.arm(&mut alarm, &sleep);
            if armed != Armed::Asleep {
                inner.queue.disarm(&sleep);
                return armed == Armed::Awake;
            }
            (inner.is_watched, self.is_watcher) = (true, true);
            Some(inner.queue.lanes())
        } else {
            None
        };
        alarm.add(Arc::clone(&word), 0);
        inner.sleepers.push(Sleeper { word: Arc::clone(&word), awaited, lanes });
        drop(inner);
        // A peer may have missed who was armed in that very moment: the watcher looks once more.
        let first = if lanes.is_some() { limit.min(Duration::from_nanos(SURE_AFTER_NS)) } else { limit };
        let mut could = alarm.sleep(first);
        if could && first < limit && lanes.is_some_and(|lanes| self.shared.lock().queue.may_sleep_on(lanes)) {
            could = alarm.sleep(limit - first);
        }
        let mut inner = self.shared.lock();
        inner.sleepers.retain(|sleeper| !Arc::ptr_eq(&sleeper.word, &word));
        if lanes.is_some() {
            inner.queue.disarm(&sleep);
        }
        could
    }
}

impl<M: Meeting> Drop for Waiter<'_, M> {
    fn drop(&mut self) {
        if !self.is_watcher {
            return;
        }
        let mut inner = self.shared.lock();
        inner.is_watched = false;
        // Those that are woken already look by themselves, and one of them watches if it sleeps again.
        if let Some(next) = inner.sleepers.iter().find(|sleeper| !sleeper.is_woken()) {
            next.wake();
        }
    }
}

impl<M: Meeting> SharedQueue<M> {
    /// The first handle. When the last one is dropped, peers are told that the queue has ended, if there is
    /// room for that.
    #[must_use]
    pub fn new(queue: MessageQueue<M>) -> Self {
        Self(Arc::new(Mutex::new(Inner { queue, sleepers: Vec::new(), is_watched: false })))
    }

    /// Makes calls that do not wait, one thread at a time. A wait inside keeps all other threads out.
    pub fn with<R>(&self, calls: impl FnOnce(&mut MessageQueue<M>) -> R) -> R {
        calls(&mut self.lock().queue)
    }

    /// No call leaves the queue between two states, so it can be used after a panic of a caller's code in
    /// [`SharedQueue::with`].
    fn lock(&self) -> Held<'_, M> {
        Held(self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// As [`MessageQueue::wait`].
    ///
    /// # Errors
    /// As there; [`Error::NoSuchRequest`] also if another thread has been told of its end.
    pub fn wait(&self, request: Request, limit: Option<Duration>) -> Result<Status, Error> {
        self.until(limit, || Awaited::Any(vec![request]), |queue| queue.test(request))
    }

    /// As [`MessageQueue::wait_any`].
    ///
    /// # Errors
    /// As there.
    pub fn wait_any(&self, requests: &[Request], limit: Option<Duration>) -> Result<(usize, Status), Error> {
        if requests.is_empty() {
            return Err(Error::NoSuchRequest);
        }
        let awaited = || Awaited::Any(requests.to_vec());
        self.until(limit, awaited, |queue| {
            // One turn for all of them.
            queue.progress();
            for (at, request) in requests.iter().enumerate() {
                if let Some(status) = queue.take(*request)? {
                    return Ok(Some((at, status)));
                }
            }
            Ok(None)
        })
    }

    /// As [`MessageQueue::wait_all`].
    ///
    /// # Errors
    /// As there.
    pub fn wait_all(&self, requests: &[Request], limit: Option<Duration>) -> Result<Vec<Status>, Error> {
        let mut left = requests.len();
        let awaited = || Awaited::All(requests.to_vec());
        self.until(limit, awaited, |queue| {
            queue.progress();
            // Those behind have ended already.
            while let Some(request) = left.checked_sub(1).and_then(|last| requests.get(last)) {
                if !queue.has_ended(*request)? {
                    return Ok(None);
                }
                left -= 1;
            }
            queue.take_all(requests).map(Some)
        })
    }

    /// As [`MessageQueue::wait_probe`]. Another thread may receive the message before this one does: to keep
    /// it, claim it ([`MessageQueue::claim`]) and wait again if it is gone.
    ///
    /// # Errors
    /// [`Error::TimedOut`].
    pub fn wait_probe(&self, want: &Want, limit: Option<Duration>) -> Result<Envelope, Error> {
        self.until(
            limit,
            || Awaited::Message(*want),
            |queue| match queue.probe(want) {
                None => queue.hopeless(want).map_or(Ok(None), Err),
                found => Ok(found),
            },
        )
    }

    /// As [`MessageQueue::complete`].
    ///
    /// # Errors
    /// As there.
    pub fn complete(
        &self,
        persistent: &mut Persistent,
        limit: Option<Duration>,
    ) -> Result<Option<Envelope>, Error> {
        let request = persistent.request().ok_or(Error::NoSuchRequest)?;
        let status = self.wait(request, limit)?;
        persistent.ended(status)
    }

    /// Waits until `look` finds something, which makes a turn of progress itself. `awaited` is what it looks
    /// for.
    fn until<R>(
        &self,
        limit: Option<Duration>,
        awaited: impl Fn() -> Awaited,
        mut look: impl FnMut(&mut MessageQueue<M>) -> Result<Option<R>, Error>,
    ) -> Result<R, Error> {
        let mut waiter = Waiter { shared: self, is_watcher: false };
        let mut waiting = Waiting::new(limit);
        let mut patience = self.lock().queue.patience;
        loop {
            let mut inner = self.lock();
            if let Some(found) = look(&mut inner.queue)? {
                waiting.went_on(&mut patience);
                inner.queue.patience = patience;
                return Ok(found);
            }
            drop(inner);
            let watched = waiting.pause(&mut patience, |limit| waiter.sleep(limit, awaited()))?;
            if watched > 0 {
                let mut inner = self.lock();
                (0..watched).for_each(|_| inner.queue.watch());
            }
        }
    }
}

#[cfg(test)]
mod tests;
