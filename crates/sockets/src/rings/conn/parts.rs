//! The parts of a connection's data, by user; each can be reset for the next connection.

use crate::rings::pair::Offer;
use crate::sync::{AtomicU32, AtomicU64, Ordering};

/// While the ends look for each other.
pub(crate) struct Meeting {
    /// Somebody is at it.
    pub(crate) at_it: AtomicU32,
    pub(crate) uses: AtomicU32,
    /// What has been done.
    pub(crate) done: AtomicU32,
    /// The other end's cookie, if it is known.
    pub(crate) other: AtomicU64,
    pub(crate) offer: Offer,
    /// The other end's process, if its number means the same here.
    pub(crate) peer_pid: AtomicU32,
    /// The number of the only processor of this end at first, and 2; 1: it had several; 0: that was not asked
    /// yet.
    pub(crate) processor: AtomicU32,
}

impl Meeting {
    pub(super) fn reset(&self) {
        zero_all(&[&self.at_it, &self.uses, &self.done, &self.peer_pid, &self.processor]);
        self.other.store(0, Ordering::Relaxed);
    }
}

/// What the calls of crate `stream` keep from one to the next.
pub(crate) struct Kept {
    /// See `Read::reached`.
    pub(crate) reached: AtomicU64,
    /// See `Write::head`.
    pub(crate) head: AtomicU64,
    /// The most that may be unread in the ring: what the kernel surely takes at once, should it have to go
    /// back.
    pub(crate) room: AtomicU64,
    /// The switch-over offset around which a read has last put bytes of both ways together.
    pub(crate) told_switch_over: AtomicU64,
}

impl Kept {
    pub(super) fn reset(&self) {
        zero_all_long(&[&self.reached, &self.head, &self.told_switch_over]);
    }
}

/// Who of this process sleeps over it, or counts as asleep.
pub(crate) struct Sleep {
    /// See [`parked`](super::parked); 0 if it does not.
    pub(crate) parked: AtomicU64,
    /// Threads that wait for it in the kernel since before it had a ring. They may do so for longer than the
    /// connection lives.
    pub(crate) waiting: AtomicU32,
    /// Where the reader was when it woke, how often in a row it went to sleep there, and reads until it wakes
    /// again.
    pub(crate) woken_at: AtomicU64,
    pub(crate) futile: AtomicU32,
    pub(crate) stays: AtomicU32,
}

impl Sleep {
    pub(super) fn reset(&self) {
        zero_all(&[&self.futile, &self.stays]);
        zero_all_long(&[&self.parked, &self.woken_at]);
    }

    /// In the child of a fork nobody sleeps.
    pub(super) fn forked(&self) {
        zero_all(&[&self.waiting]);
        zero_all_long(&[&self.parked]);
    }
}

/// What the program was told.
pub(crate) struct Told {
    /// The tail that an edge was last told for.
    pub(crate) edge: AtomicU64,
    /// A wait has said that there are bytes, because they were in the ring, and the program has read none
    /// since.
    pub(crate) promised: AtomicU32,
    /// How often in a row bytes that were told of did not come in time.
    pub(crate) unkept: AtomicU32,
    /// The same of bytes that the writer was returning to the kernel all the time.
    pub(crate) unreturned: AtomicU32,
    /// That the connection was reset.
    pub(crate) reset: AtomicU32,
    /// Nothing yet: bytes went back from the ring when the other end had ended, unread.
    pub(crate) unread: AtomicU32,
}

impl Told {
    pub(super) fn reset(&self) {
        zero_all(&[&self.promised, &self.unkept, &self.unreturned, &self.reset, &self.unread]);
        self.edge.store(0, Ordering::Relaxed);
    }
}

/// What is still to be done for the other end.
pub(crate) struct Owed {
    /// Something was written to the ring since it was last looked whether it was read.
    pub(crate) owes: AtomicU32,
    /// Bytes came through the kernel, which counts on the answer to acknowledge them.
    pub(crate) unacknowledged: AtomicU32,
    /// Where the ring began for readers when such bytes were last acknowledged at once.
    pub(crate) acknowledged_base: AtomicU64,
    /// How often in a row a reader was at work for so long that it must have been stopped, and when to look
    /// for it again.
    pub(crate) stuck: AtomicU32,
    pub(crate) again: AtomicU64,
}

impl Owed {
    pub(super) fn reset(&self) {
        zero_all(&[&self.owes, &self.unacknowledged, &self.stuck]);
        self.acknowledged_base.store(0, Ordering::Relaxed);
    }
}

/// What it is kept from.
pub(crate) struct Standing {
    /// It gets no ring any more: somebody reads in a way that is not seen.
    pub(crate) sealed: AtomicU32,
    /// Another process has it, too.
    pub(crate) shared: AtomicU32,
}

impl Standing {
    pub(super) fn reset(&self) {
        zero_all(&[&self.sealed, &self.shared]);
    }
}

fn zero_all(words: &[&AtomicU32]) {
    words.iter().for_each(|word| word.store(0, Ordering::Relaxed));
}

fn zero_all_long(words: &[&AtomicU64]) {
    words.iter().for_each(|word| word.store(0, Ordering::Relaxed));
}
