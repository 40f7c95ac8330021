//! For tests: rings on each connection as soon as both of its ends exist, on any processors.
//!
//! As a rule a connection gets a ring after some uses, and only while its ends are on different processors,
//! so that a test, which often has both ends in one thread and few bytes, would never go through one. With
//! this each end looks for the other one as soon as it is made, waits a moment for it, and begins awake. What
//! is written while its reader sleeps goes through the kernel here, too.

use libc::c_int;

use super::blocked::Blocked;
use super::conn::{self, Conn, Known, state as stage};
use super::{epoll, pair};
use crate::sync::{AtomicU32, Ordering, fence};
use crate::table::{self, Kind};
use crate::{environment, raw, state};

/// Whether it is so.
#[inline(always)]
pub(crate) fn is_on() -> bool {
    environment::is_forced()
}

/// The connection of a number that has none yet, if it is one that may get a ring: it gets it, if the other
/// end is there.
#[cold]
pub(crate) fn begins(fd: c_int) -> Option<Known> {
    if !state::may_ask() || table::kind(fd) != Kind::Tcp || conn::of(fd).is_some() || !pair::is_connected(fd)
    {
        return None;
    }
    table::look_again(fd);
    let known = conn::known(fd)?;
    pair::step(known, fd);
    Some(known)
}

/// Uses of a connection up to which an end waits for one that has been accepted and says nothing yet, and for
/// one that has said something: two and some twenty milliseconds, or as many turns of the others where they
/// compute.
const USES_ALONE: u32 = 100;
const USES: u32 = 1600;

/// The longest that one call waits, where many others compute.
const MOST_MILLISECONDS: u32 = 200;

/// The program uses a connection whose ends have not met: it waits a moment for that. It does not sleep, so
/// that a call that may not wait is not taken for one that does.
#[cold]
pub(crate) fn meets(conn: Known, fd: c_int) {
    let mut waited = Blocked::new();
    loop {
        let before = conn.meeting.uses.load(Ordering::Relaxed);
        pair::step(conn, fd);
        let uses = conn.meeting.uses.load(Ordering::Relaxed);
        // Where none is counted somebody else takes the step: in a handler of a signal that may be what it
        // has interrupted.
        let waits = conn.is(stage::MEETING)
            && uses != before
            && uses < USES
            && waited.spent_milliseconds() < MOST_MILLISECONDS
            && (pair::is_proven(&conn) || uses < USES_ALONE && pair::is_accepted(&conn, fd));
        if !waits {
            return;
        }
        yields();
    }
}

/// Lets others have the processor.
pub(crate) fn yields() {
    // SAFETY: takes nothing.
    unsafe { raw::call(libc::SYS_sched_yield, [0; 6]) };
}

/// As [`meets`], of all, before the program waits for many.
fn all_meet() {
    conn::for_each_meeting(|conn| {
        if let Ok(known) = conn.known() {
            meets(known, conn.fd());
        }
    });
}

/// How many threads are in a call that may sleep, and that may not know of a ring that opens meanwhile.
static WAITS: AtomicU32 = AtomicU32::new(0);

/// Such a call. A thread that is cancelled in it never ends it: then connections begin asleep.
pub(crate) struct Wait(bool);

impl Wait {
    /// A read of a connection without a ring. After it, it must be looked whether it has got one.
    pub(crate) fn reads() -> Self {
        let is_on = is_on();
        if is_on {
            WAITS.fetch_add(1, Ordering::SeqCst);
            // Who opens a ring either finds this one, or is found by it.
            fence(Ordering::SeqCst);
        }
        Self(is_on)
    }

    /// A wait for many: what `wait` says.
    #[inline(always)]
    pub(crate) fn during(wait: impl FnOnce() -> c_int) -> c_int {
        if is_on() && !state::outside() {
            all_meet();
        }
        let own = Self::reads();
        let result = wait();
        own.end();
        result
    }

    /// It has come back. (No destructor: those are run for threads that are cancelled, too, by what this
    /// library goes without.)
    pub(crate) fn end(self) {
        if self.0 {
            WAITS.fetch_sub(1, Ordering::SeqCst);
        }
    }
}

/// The connection has got a ring. It begins awake, unless a thread may sleep over it.
pub(crate) fn opened(conn: &'static Conn) {
    fence(Ordering::SeqCst);
    if is_on()
        && WAITS.load(Ordering::SeqCst) == 0
        && let Some((own, _)) = conn.headers()
    {
        epoll::wakes(conn, own);
    }
}
