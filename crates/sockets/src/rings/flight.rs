//! Counts writes to the kernel that are in progress without a lock.
//!
//! A ring is opened at the byte that the kernel has got as its last. Whoever began to write before the
//! connection had a ring, or was even thought worth one, may still be at it, in another thread: as long as
//! somebody is, the ring is not opened.

use libc::c_int;

use super::conn::{self, Known, state};
use super::{closing, tables};
use crate::sync::{AtomicU32, Ordering};
use crate::table::NUMBERS;

/// By number of the descriptor: how many write.
pub(super) struct Flights([AtomicU32; NUMBERS]);

fn count(fd: c_int) -> Option<&'static AtomicU32> {
    tables::get()?.flights.0.get(usize::try_from(fd).ok()?)
}

/// One write that goes to the kernel, until this is landed. A thread that is cancelled in it never lands:
/// then no ring is opened.
pub(crate) struct Flight(Option<&'static AtomicU32>);

impl Flight {
    /// A write begins; none if the connection has got a ring by now.
    #[inline(always)]
    pub(crate) fn begin(fd: c_int) -> Result<Self, Known> {
        loop {
            let flight = Self::over(fd);
            // Who opens the ring either finds this write, or has made the connection ready before the look at
            // it: behind its own fence, in one order with the addition and these loads. (A fence here would
            // cost as much again as the addition.)
            if let Some(conn) = conn::known(fd).filter(|conn| conn.is(state::READY)) {
                flight.land();
                return Err(conn);
            }
            if !closing::is_closing(fd) {
                return Ok(flight);
            }
            flight.land();
            closing::waits(fd);
        }
    }

    /// A write of a connection that has had a ring: who gets the number after it gets none meanwhile.
    #[inline(always)]
    pub(crate) fn over(fd: c_int) -> Self {
        let count = count(fd);
        if let Some(count) = count {
            count.fetch_add(1, Ordering::SeqCst);
        }
        Self(count)
    }

    #[inline(always)]
    pub(crate) fn land(self) {
        if let Some(count) = self.0 {
            count.fetch_sub(1, Ordering::SeqCst);
        }
    }
}

/// Whether somebody writes, after a fence behind which everybody else finds the connection ready.
pub(super) fn is_any(fd: c_int) -> bool {
    count(fd).is_some_and(|count| count.load(Ordering::SeqCst) != 0)
}
