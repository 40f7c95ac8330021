//! How a read waits for bytes: whether it spins, on what, and for how long.

use libc::c_int;
use stream::{consent, park};

use super::is_empty;
use crate::rings::blocked::Limit;
use crate::rings::conn::parked::Entering;
use crate::rings::conn::{Conn, Known, state};
use crate::rings::header::Header;
use crate::rings::spin::{self, Spin};
use crate::rings::{kernel, leave};
use crate::sync::Ordering;

/// Looks at the ring without a pause between them, which would be as long as what a message takes.
const WITHOUT_PAUSE: u32 = 400;
/// Looks at a ring between two looks at the kernel.
const LOOKS_PER_CALL: u32 = 200;

/// Whether a spin may find something: the other end is on another processor, and nobody else sleeps.
#[inline(always)]
pub(super) fn may_spin(conn: &Conn, own: &Header, peer: &Header, flags: c_int) -> bool {
    if flags & libc::MSG_DONTWAIT != 0 || own.reader.0.asleep.load(Ordering::Relaxed) != 0 {
        return false;
    }
    if conn.pace.is_together() || own.reader.0.consent.load(Ordering::Relaxed) != consent::OPEN {
        return false;
    }
    let is_elsewhere = spin::is_elsewhere(own, peer, spin::clock().1);
    if !is_elsewhere {
        conn.pace.has_seen_together();
    }
    is_elsewhere
}

/// With both ends on one processor everything comes through the kernel: then this one goes on counting itself among those who sleep, as
/// it has since it found the ring empty. The program's next reads need not look there, nor at any other page.
pub(super) fn stays_asleep(conn: &Conn) -> bool {
    conn.pace.stays_together()
}

/// A read on a connection that is parked over an empty ring, unless it is time to see whether that is still for the best: the program's own call, with
/// no look at the ring. None: it is not such a one, or has ended; an end may have something left before it. Inlined into the interposer, as
/// [`write_quietly`](super::write_quietly) is.
#[inline(always)]
pub(crate) fn read_quietly(known: Known, flags: c_int, mut call: impl FnMut() -> isize) -> Option<isize> {
    let conn = known.conn;
    if !conn.is(state::READY) || flags & !super::read::USUAL != 0 || !conn.is_quiet() || leave::owes() {
        return None;
    }
    let result = park::read(&mut Entering::new(known), |_| {
        let result = call();
        conn.said(result);
        conn.owed.unacknowledged.store(1, Ordering::Relaxed);
        if result > 0 {
            // What a wait has told came this way.
            conn.told.promised.store(0, Ordering::Relaxed);
        }
        Ok(result)
    });
    result.ok().flatten().filter(|&result| result != 0)
}

/// Spins on the ring. Whether there is something in it.
#[inline(always)]
pub(super) fn finds(
    conn: &'static Conn,
    own: &Header,
    peer: &Header,
    fd: c_int,
    spin: &mut Option<Spin<'static>>,
) -> bool {
    let (start, _) = spin::clock();
    let spin = spin.insert(Spin::begin(&conn.pace.history, start, true, Limit::FOREVER));
    if spin.is_none() {
        return false;
    }
    let seen = peer.tail();
    let mut looks = 0_u32;
    loop {
        if peer.tail() != seen || !is_empty(own, peer) {
            spin.hit();
            return true;
        }
        looks += 1;
        if looks.is_multiple_of(LOOKS_PER_CALL) {
            if kernel::unread(fd) != Some(0) {
                spin.hit();
                return false;
            }
            let (_, here) = spin::clock();
            if !spin.goes_on() || !spin::is_elsewhere(own, peer, here) {
                return false;
            }
        }
        if looks > WITHOUT_PAUSE {
            spin::relax();
        }
    }
}
