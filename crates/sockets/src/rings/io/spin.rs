//! How a read waits for bytes: whether it spins, on what, and for how long.

use libc::c_int;
use stream::consent;

use super::is_empty;
use crate::rings::blocked::Limit;
use crate::rings::conn::Conn;
use crate::rings::header::Header;
use crate::rings::kernel;
use crate::rings::spin::{self, Spin};
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
    conn.pace.has_seen(!is_elsewhere);
    is_elsewhere
}

/// With both ends on one processor everything comes through the kernel: then this one goes on counting itself
/// among those who sleep, as it has since it found the ring empty. The program's next reads need not look
/// there, nor at any other page.
pub(super) fn stays_asleep(conn: &Conn) -> bool {
    conn.pace.stays_together()
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
