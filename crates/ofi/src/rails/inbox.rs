//! The owner's end of messages that have numbers: carries each out once, over whichever rail and however
//! often it comes.

use std::sync::{Mutex, PoisonError};

use super::numbers::{Counted, Once, WINDOW};
use crate::message::Delivery;

type Ring = dyn Fn(u32) + Send + Sync;
type Take = dyn Fn(&[u8]) -> Delivery + Send + Sync;

/// See the module. Of one connection; its doorbells at the end points of all rails share it.
pub struct Inbox(Mutex<Kind>);

enum Kind {
    Triggers { counted: Counted, ring: Box<Ring> },
    Messages { once: Once<Delivery>, take: Box<Take> },
}

impl std::fmt::Debug for Inbox {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Inbox").finish_non_exhaustive()
    }
}

impl Inbox {
    /// `ring` is called with the number of new triggers, on any thread that makes progress: it must neither
    /// wait nor use an end point.
    pub fn counting(ring: impl Fn(u32) + Send + Sync + 'static) -> Self {
        Self(Mutex::new(Kind::Triggers { counted: Counted::default(), ring: Box::new(ring) }))
    }

    /// `take` gets the data of each message, in the same way.
    pub fn taking(take: impl Fn(&[u8]) -> Delivery + Send + Sync + 'static) -> Self {
        Self(Mutex::new(Kind::Messages { once: Once::new(WINDOW), take: Box::new(take) }))
    }

    fn with<T>(&self, act: impl FnOnce(&mut Kind) -> T) -> T {
        act(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// So many triggers were made by now; 0: this one has no number. The last that was counted; `None`: it
    /// counts none.
    ///
    /// The program has them before the lock is given back: an answer is true when it is sent.
    pub(crate) fn count(&self, number: u64) -> Option<u64> {
        self.with(|kind| {
            let Kind::Triggers { counted, ring } = kind else { return None };
            let new = if number == 0 { Some(1) } else { counted.up_to(number) };
            if let Some(new) = new.filter(|new| *new > 0) {
                ring(new);
            }
            Some(counted.last())
        })
    }

    /// What became of a message, which is carried out if it is new; 0: it has no number. `None`: it takes
    /// none, or this one is too old.
    pub(crate) fn take(&self, number: u64, data: &[u8]) -> Option<Delivery> {
        self.with(|kind| match kind {
            Kind::Messages { take, .. } if number == 0 => Some(take(data)),
            Kind::Messages { once, take } => once.carry_out(number, || take(data)),
            Kind::Triggers { .. } => None,
        })
    }

    /// The answer to a sender that says how many triggers it has made.
    pub(super) fn last(&self, made: u64) -> u64 {
        if made == 0 { 0 } else { self.count(made).unwrap_or(0) }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use shm::sync::{AtomicU32, Ordering};

    use super::*;

    fn counter() -> (Arc<AtomicU32>, Arc<AtomicU32>) {
        let count = Arc::new(AtomicU32::new(0));
        (Arc::clone(&count), count)
    }

    #[test]
    fn triggers_are_counted_once_and_those_without_a_number_each_time() {
        let (count, into) = counter();
        let inbox = Inbox::counting(move |new| {
            into.fetch_add(new, Ordering::Relaxed);
        });
        assert_eq!([3, 1, 3].map(|number| inbox.count(number)), [Some(3); 3]);
        assert_eq!(([0, 0].map(|number| inbox.count(number)), inbox.last(0)), ([Some(3); 2], 0));
        assert_eq!((inbox.last(4), inbox.last(4)), (4, 4));
        assert_eq!(count.load(Ordering::Relaxed), 6);
        assert_eq!(inbox.take(1, b"data"), None);
    }

    #[test]
    fn a_message_that_comes_again_has_the_same_outcome_and_is_not_taken_again() {
        let (count, into) = counter();
        let inbox = Inbox::taking(move |_| match into.fetch_add(1, Ordering::Relaxed) {
            0 => Delivery::Taken,
            _ => Delivery::Full,
        });
        assert_eq!(
            (inbox.take(1, b"one"), inbox.take(2, b"two")),
            (Some(Delivery::Taken), Some(Delivery::Full))
        );
        assert_eq!(
            (inbox.take(1, b"one"), inbox.take(2, b"two")),
            (Some(Delivery::Taken), Some(Delivery::Full))
        );
        assert_eq!(count.load(Ordering::Relaxed), 2);
        assert_eq!(
            (inbox.take(0, b"no number"), inbox.take(0, b"no number")),
            (Some(Delivery::Full), Some(Delivery::Full))
        );
        assert_eq!((count.load(Ordering::Relaxed), inbox.count(1), inbox.last(1)), (4, None, 0));
    }
}
