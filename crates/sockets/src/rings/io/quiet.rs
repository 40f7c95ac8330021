//! Calls on a connection of which everything comes through the kernel for now (see
//! [`Conn::is_quiet`]): the program's own call, with no look at the ring.
//!
//! Each has a begin and an end; the interposer makes the program's call in between. All of it is
//! inlined there: behind a system call many processors mispredict each return to a caller, as the
//! kernel has replaced what they had predicted, so the only one left is that to the program.

use libc::c_int;
use stream::{Entry, park, plain};

use super::plain::WithoutLock;
use super::{read, write};
use crate::page::{self, Direction};
use crate::rings::conn::parked::Entering;
use crate::rings::conn::{Conn, Known, Use, state};
use crate::rings::flight::Flight;
use crate::rings::header::Header;
use crate::rings::leave;
use crate::sync::Ordering;

/// Such a write, until its [`end`](Self::end).
#[must_use]
pub(crate) struct QuietWrite {
    conn: &'static Conn,
    user: Use,
    flight: Flight,
    own: &'static Header,
    /// Of the writer's state: the kernel held back the end of what it had.
    held: u64,
    is_slept_over: bool,
}

impl QuietWrite {
    /// None: the connection is not such a one, or not any more.
    #[inline(always)]
    pub(crate) fn begin(known: Known, fd: c_int, flags: c_int) -> Option<Self> {
        let conn = known.conn;
        if !conn.is(state::READY) || flags & !write::USUAL != 0 || !conn.is_quiet() {
            return None;
        }
        let (own, peer) = conn.headers()?;
        // As in `used_plainly`: begun before the look whose number it is.
        let flight = Flight::over(fd);
        if let Ok(user) = known.enter() {
            let Ok(begins) = plain::begin(&mut WithoutLock(own));
            if begins {
                let is_slept_over = peer.reader.0.asleep.load(Ordering::Relaxed) != 0;
                let held = own.writer.0.held.load(Ordering::Relaxed);
                return Some(Self { conn, user, flight, own, held, is_slept_over });
            }
            user.leave();
        }
        flight.land();
        None
    }

    /// The program's call has returned this. Hands it on.
    #[inline(always)]
    pub(crate) fn end(self, result: isize) -> isize {
        let Self { conn, user, flight, own, held, is_slept_over } = self;
        if result > 0 {
            // As long as this is a user, the place is this connection's.
            let record = conn.record();
            page::kernel(record, Direction::Out, result as u64);
            if is_slept_over {
                page::asleep(record, result as u64);
            }
        }
        super::plain::gave(own, held, result);
        conn.said(result);
        let Ok(()) = plain::end(&mut WithoutLock(own));
        user.leave();
        flight.land();
        result
    }
}

/// Such a read, until its [`end`](Self::end).
#[must_use]
pub(crate) struct QuietRead {
    conn: &'static Conn,
    entered: Entering,
}

impl QuietRead {
    /// None: the connection is not such a one, or it is time to see whether that is still for the best.
    #[inline(always)]
    pub(crate) fn begin(known: Known, flags: c_int) -> Option<Self> {
        let conn = known.conn;
        if !conn.is(state::READY) || flags & !read::USUAL != 0 || !conn.is_quiet() || leave::owes() {
            return None;
        }
        let mut entered = Entering::new(known);
        matches!(park::begin_read(&mut entered), Ok(true)).then_some(Self { conn, entered })
    }

    /// The program's call has returned this; it `takes` what it gets, or only looks at it. None: that was the
    /// end of the stream, before which a ring may have something left.
    #[inline(always)]
    pub(crate) fn end(mut self, result: isize, takes: bool) -> Option<isize> {
        let conn = self.conn;
        conn.said(result);
        conn.owed.unacknowledged.store(1, Ordering::Relaxed);
        if result > 0 {
            if takes {
                page::kernel(conn.record(), Direction::In, result as u64);
            }
            // What a wait has told came this way.
            conn.told.promised.store(0, Ordering::Relaxed);
        }
        let _ = self.entered.exit();
        (result != 0).then_some(result)
    }
}
