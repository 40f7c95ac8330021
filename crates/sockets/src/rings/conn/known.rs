//! A connection, the number it was found by, and whether that number is still its own.

use super::{CONNECTIONS, Conn};
use crate::sync::{AtomicU16, Ordering};

/// A connection, as it was found.
#[derive(Clone, Copy)]
pub(crate) struct Known {
    pub(crate) conn: &'static Conn,
    /// What says of which place the number is, by which it was found.
    by_fd: &'static AtomicU16,
}

impl core::ops::Deref for Known {
    type Target = Conn;

    #[inline(always)]
    fn deref(&self) -> &Conn {
        self.conn
    }
}

impl Known {
    /// The connection that a number is of.
    #[inline(always)]
    pub(super) fn by(by_fd: &'static AtomicU16, all: &'static [Conn; CONNECTIONS]) -> Option<Self> {
        // Pairs with the Release in `claim` and `copied`: the place is this connection's, or a later one's. SeqCst as in `Conn::is`.
        let place = usize::from(by_fd.load(Ordering::SeqCst));
        Some(Self { conn: all.get(place.checked_sub(1)?)?, by_fd })
    }

    /// Whether the number was not closed: with the lock, nobody else gets the place before that is free.
    #[inline(always)]
    pub(crate) fn is_still(self) -> bool {
        self.by_fd.load(Ordering::SeqCst) == self.conn.place.load(Ordering::Relaxed)
    }
}
