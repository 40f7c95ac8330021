//! How a read waits for bytes: whether it looks, at what, and for how long; and what a connection needs on which looking does not pay.

use libc::c_int;
use stream::{consent, park};

use super::is_empty;
use crate::rings::blocked::Limit;
use crate::rings::conn::parked::Parking;
use crate::rings::conn::{Conn, counts_down};
use crate::rings::native::Native;
use crate::rings::spin::{self, Look};
use crate::rings::words::Words;
use crate::rings::{kernel, leave};
use crate::sync::Ordering;

/// Looks without a pause between them, which would be as long as what a message takes.
const EAGER: u32 = 400;
/// Cycles of looking before anything is asked, as long as that keeps paying: as long as an answer takes, also one that was held up a little. How many looks
/// that are depends on the processor.
const AT_ONCE_CYCLES: u64 = 10_000;
/// Looks between two at the clock.
const AT_ONCE: u32 = 250;
/// Looks at a ring between two looks at the kernel.
const LOOKS: u32 = 200;

/// Looks where a short look was enough the last time: nothing is asked before, not even whether the program wants to wait. One
/// look in vain is the last such for a while.
#[inline(always)]
pub(super) fn finds_at_once(conn: &Conn, own: &Words, peer: &Words, flags: c_int) -> bool {
    if conn.pace.at_once.load(Ordering::Relaxed) == 0 || flags & libc::MSG_DONTWAIT != 0 {
        return false;
    }
    let mut start = None;
    loop {
        for look in 0..AT_ONCE {
            if !is_empty(own, peer) {
                if look >= SOON || start.is_some() {
                    conn.pace.stream.store(0, Ordering::Relaxed);
                }
                return true;
            }
        }
        let (now, _) = spin::clock();
        if now.wrapping_sub(*start.get_or_insert(now)) > AT_ONCE_CYCLES {
            break;
        }
    }
    conn.pace.at_once.store(0, Ordering::Relaxed);
    conn.pace.stream.store(0, Ordering::Relaxed);
    false
}

/// Reads in a row that found something within [`SOON`] looks, and answered nothing, until they are taken for a stream.
const STREAM: u32 = 64;
const SOON: u32 = 100;
/// Fewer bytes than these are few.
const FEW: u64 = 512;
/// So long the writer of a stream may get ahead.
const PAUSES_OF_STREAM: u32 = 16;

/// A reader that keeps up with a stream of small messages lets the writer get ahead for some: who looks at each of them as soon as it is
/// written takes the line of the cache away from the writer each time, which costs both more than the messages.
#[inline(always)]
pub(super) fn lets_stream_go(conn: &Conn, own: &Words, peer: &Words) {
    let stream = conn.pace.stream.load(Ordering::Relaxed);
    if stream < STREAM {
        conn.pace.stream.store(stream + 1, Ordering::Relaxed);
    } else if peer.tail().wrapping_sub(own.head.0.load(Ordering::Relaxed)) < FEW {
        (0..PAUSES_OF_STREAM).for_each(|_| spin::relax());
    }
}

/// Whether a look may pay: the other end is on another processor, and nobody else sleeps.
#[inline(always)]
pub(super) fn may_look(conn: &Conn, own: &Words, peer: &Words, flags: c_int) -> bool {
    if flags & libc::MSG_DONTWAIT != 0 || own.will.0.asleep.load(Ordering::Relaxed) != 0 {
        return false;
    }
    if counts_down(&conn.pace.together) || own.will.0.consent.load(Ordering::Relaxed) != consent::OPEN {
        return false;
    }
    let is_elsewhere = spin::is_elsewhere(own, peer, spin::clock().1);
    if !is_elsewhere {
        conn.pace.together.store(TOGETHER, Ordering::Relaxed);
    }
    is_elsewhere
}

/// Reads for which two ends that were seen on one processor are taken to stay there.
const TOGETHER: u32 = 31;

/// With both ends on one processor everything comes through the kernel: then this one goes on counting itself among those who sleep, as
/// it has since it found the ring empty. The program's next reads need not look there, nor at any other page.
pub(super) fn stays_asleep(conn: &Conn) -> bool {
    conn.pace.together.load(Ordering::Relaxed) > 0
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
