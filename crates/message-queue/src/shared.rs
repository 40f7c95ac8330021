//! A message queue that several threads use.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

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
pub struct SharedQueue<M: Meeting = Datagrams>(Arc<Mutex<MessageQueue<M>>>);

impl<M: Meeting> Clone for SharedQueue<M> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<M: Meeting> SharedQueue<M> {
    /// The first handle. When the last one is dropped, peers are told that the queue has ended, if there is
    /// room for that.
    #[must_use]
    pub fn new(queue: MessageQueue<M>) -> Self {
        Self(Arc::new(Mutex::new(queue)))
    }

    /// Makes calls that do not wait, one thread at a time. A wait inside keeps all other threads out.
    pub fn with<R>(&self, calls: impl FnOnce(&mut MessageQueue<M>) -> R) -> R {
        calls(&mut self.lock())
    }

    /// No call leaves the queue between two states, so it can be used after a panic of a caller's code in
    /// [`SharedQueue::with`].
    fn lock(&self) -> MutexGuard<'_, MessageQueue<M>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// As [`MessageQueue::wait`].
    ///
    /// # Errors
    /// As there; [`Error::NoSuchRequest`] also if another thread has been told of its end.
    pub fn wait(&self, request: Request, limit: Option<Duration>) -> Result<Status, Error> {
        self.until(limit, |queue| queue.test(request))
    }

    /// As [`MessageQueue::wait_any`].
    ///
    /// # Errors
    /// As there.
    pub fn wait_any(&self, requests: &[Request], limit: Option<Duration>) -> Result<(usize, Status), Error> {
        if requests.is_empty() {
            return Err(Error::NoSuchRequest);
        }
        self.until(limit, |queue| {
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
        self.until(limit, |queue| {
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
        self.until(limit, |queue| match queue.probe(want) {
            None => queue.hopeless(want).map_or(Ok(None), Err),
            found => Ok(found),
        })
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

    /// Waits until `look` finds something, which makes a turn of progress itself.
    fn until<R>(
        &self,
        limit: Option<Duration>,
        mut look: impl FnMut(&mut MessageQueue<M>) -> Result<Option<R>, Error>,
    ) -> Result<R, Error> {
        let mut waiting = Waiting::new(limit);
        let mut patience = self.lock().patience;
        loop {
            let mut queue = self.lock();
            if let Some(found) = look(&mut queue)? {
                waiting.went_on(&mut patience);
                queue.patience = patience;
                return Ok(found);
            }
            drop(queue);
            // Others may use the queue meanwhile: no peer is asked to wake this thread.
            if waiting.pause(&mut patience, |_| false)? {
                self.lock().watch();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::Settings;

    fn shared() -> SharedQueue {
        SharedQueue::new(MessageQueue::new(Settings::default()).unwrap())
    }

    /// Four threads of each end have a conversation of their own, with messages of all paths.
    #[test]
    fn threads_of_both_ends_talk_side_by_side() {
        const SIZES: [usize; 4] = [8, 900, 20_000, 300_000];
        let (a, b) = (shared(), shared());
        let to_b = a.with(|queue| queue.peer(b.with(|queue| queue.name())));
        let to_a = b.with(|queue| queue.peer(a.with(|queue| queue.name())));
        let talk = |queue: &SharedQueue, to, tag: u64, speaks_first: bool| {
            for round in 0..100 {
                let len = SIZES[(round + tag as usize) % SIZES.len()];
                let receive = queue.with(|queue| queue.receive(Want::exactly(to, tag), vec![0; len]));
                let message = vec![tag as u8 ^ round as u8; len];
                if speaks_first {
                    let send = queue.with(|queue| queue.send(to, tag, message.clone())).unwrap();
                    assert_eq!(queue.wait(send, None).unwrap().error, None);
                }
                let status = queue.wait(receive, None).unwrap();
                assert_eq!(status.error, None);
                assert!(status.buffers.into_owned().unwrap() == message, "tag {tag}, round {round}");
                if !speaks_first {
                    let send = queue.with(|queue| queue.send(to, tag, message)).unwrap();
                    assert_eq!(queue.wait(send, None).unwrap().error, None);
                }
            }
        };
        std::thread::scope(|scope| {
            for tag in 0..4 {
                let (a, b) = (a.clone(), b.clone());
                scope.spawn(move || talk(&a, to_b, tag, true));
                scope.spawn(move || talk(&b, to_a, tag, false));
            }
        });
    }

    #[test]
    fn waits_end_with_their_limit_and_are_told_once() {
        let queue = shared();
        let own = queue.with(|queue| queue.peer(queue.name()));
        let limit = Some(Duration::from_millis(1));
        let receive = queue.with(|queue| queue.receive(Want::exactly(own, 1), vec![0; 8]));
        assert_eq!(queue.wait(receive, limit).unwrap_err(), Error::TimedOut);
        assert_eq!(queue.wait_any(&[], limit).unwrap_err(), Error::NoSuchRequest);
        assert_eq!(queue.wait_probe(&Want::exactly(own, 2), limit).unwrap_err(), Error::TimedOut);
        queue.with(|queue| queue.send_bytes(own, 1, b"once")).unwrap();
        assert_eq!(queue.wait_any(&[receive], None).unwrap().0, 0);
        let receives =
            [3, 4].map(|tag| queue.with(|queue| queue.receive(Want::exactly(own, tag), vec![0; 8])));
        queue.with(|queue| queue.send_bytes(own, 3, b"first")).unwrap();
        assert_eq!(queue.wait_all(&receives, limit).unwrap_err(), Error::TimedOut);
        queue.with(|queue| queue.send_bytes(own, 4, b"last")).unwrap();
        let lengths = queue.wait_all(&receives, None).unwrap();
        let lengths = lengths.iter().map(|status| status.envelope.map(|envelope| envelope.len_bytes));
        assert_eq!(lengths.collect::<Vec<_>>(), [Some(5), Some(4)]);
        assert_eq!(queue.wait(receive, limit).unwrap_err(), Error::NoSuchRequest);
    }
}
