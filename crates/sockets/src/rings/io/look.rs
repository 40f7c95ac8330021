//! How a read waits for bytes: whether it looks, at what, and for how long; and what a connection needs on which looking does not pay.

use libc::c_int;
use stream::{consent, park};

use super::is_empty;
use crate::rings::blocked::Limit;
use crate::rings::conn::Conn;
use crate::rings::conn::parked::Parking;
use crate::rings::native::Native;
use crate::rings::spin::{self, Look};
use crate::rings::words::Words;
use crate::rings::{kernel, leave};
use crate::sync::Ordering;

/// Looks without a pause between them, which would be as long as what a message takes.
const EAGER: u32 = 400;
/// Looks at a ring between two looks at the kernel.
const LOOKS: u32 = 200;

/// Whether a look may pay: the other end is on another processor, and nobody else sleeps.
#[inline(always)]
pub(super) fn may_look(conn: &Conn, own: &Words, peer: &Words, flags: c_int) -> bool {
    if flags & libc::MSG_DONTWAIT != 0 || own.will.0.asleep.load(Ordering::Relaxed) != 0 {
        return false;
    }
    if conn.pace.is_together() || own.will.0.consent.load(Ordering::Relaxed) != consent::OPEN {
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

/// A read on a connection that is known to have nothing in its ring, unless it is time to see whether that is still for the best. An
/// end may have something left before it. For users of it.
#[inline(always)]
pub(super) fn read_parked(conn: &Conn, own: &Words, peer: &Words, native: &mut Native<'_>) -> Option<isize> {
    if !conn.is_quiet() || leave::owes() {
        return None;
    }
    let Ok(result) = park::read(&mut Parking { conn, own, peer }, |_| Ok(native.call()));
    let result = result?;
    conn.said(result);
    conn.owed.unacknowledged.store(1, Ordering::Relaxed);
    if result > 0 {
        // What a wait has told came this way.
        conn.told.promised.store(0, Ordering::Relaxed);
    }
    (result != 0).then_some(result)
}

/// Looks at the ring for a while. Whether there is something in it.
#[inline(always)]
pub(super) fn finds(
    conn: &'static Conn,
    own: &Words,
    peer: &Words,
    fd: c_int,
    looked: &mut Option<Look<'static>>,
) -> bool {
    let (start, _) = spin::clock();
    let look = looked.insert(Look::begin(&conn.pace.spin, start, true, Limit::FOREVER));
    if look.is_none() {
        return false;
    }
    let seen = peer.tail();
    let mut looks = 0_u32;
    loop {
        if peer.tail() != seen || !is_empty(own, peer) {
            look.paid();
            return true;
        }
        looks += 1;
        if looks.is_multiple_of(LOOKS) {
            if kernel::unread(fd) != Some(0) {
                look.paid();
                return false;
            }
            let (_, here) = spin::clock();
            if !look.goes_on() || !spin::is_elsewhere(own, peer, here) {
                return false;
            }
        }
        if looks > EAGER {
            spin::relax();
        }
    }
}
