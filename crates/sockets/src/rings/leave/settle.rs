//! What this process has written gets to the kernel before it sleeps there.

use libc::c_int;
use stream::path;
use stream::write::Occasion;

use super::visit;
use crate::rings::blocked::{self, Blocked, Goes};
use crate::rings::conn::{self, Conn};
use crate::rings::io::is_empty;
use crate::rings::{kernel, spin};
use crate::sync::{AtomicU32, Ordering};

/// Before this process sleeps nothing that it has written may be left in a ring. Whether that is so.
#[inline]
pub(crate) fn settle() -> bool {
    if !owes() {
        return true;
    }
    let mut all = true;
    conn::for_each_ready(|conn| {
        if conn.owed.owes.load(Ordering::Relaxed) != 0 && !is_given_up(conn) {
            let settles = |conn: &'static Conn| {
                if !is_settled(conn) {
                    visit(conn, conn.fd(), Occasion::Overdue);
                }
                is_settled(conn) || is_given_up(conn)
            };
            let settled = conn.known().and_then(|known| known.moving(settles));
            // Who has closed it sees to what it owes.
            all &= settled.unwrap_or(true);
        }
    });
    all
}

/// Whether any connection may have something to settle.
pub(super) static OWES: AtomicU32 = AtomicU32::new(0);

/// Something was written to the ring.
pub(crate) fn owe(conn: &Conn) {
    conn.owed.owes.store(1, Ordering::Relaxed);
    // Pairs with the Acquire of `owes`: who finds it set finds which connection it is.
    OWES.store(1, Ordering::Release);
}

/// Whether there is anything to settle.
#[inline]
pub(crate) fn owes() -> bool {
    OWES.load(Ordering::Acquire) != 0 && any_owes()
}

/// Whether readers find in rings what this process has written and they have not read, and there is some:
/// none of it is on its way back.
pub(crate) fn is_in_rings() -> bool {
    let (mut any, mut all) = (false, true);
    if owes() {
        conn::for_each_ready(|conn| {
            if conn.owed.owes.load(Ordering::Relaxed) != 0
                && let Some((own, peer)) = conn.headers()
                && !is_empty(peer, own)
            {
                any = true;
                let writer = &own.writer.0;
                all &= writer.path.load(Ordering::Acquire) == path::RING
                    && writer.revoke.load(Ordering::Acquire) == 0;
            }
        });
    }
    any && all
}

#[cold]
fn any_owes() -> bool {
    // Before the look: what another thread writes meanwhile sets it again.
    OWES.swap(0, Ordering::SeqCst);
    let mut any = false;
    conn::for_each_ready(|conn| any |= conn.owed.owes.load(Ordering::Relaxed) != 0);
    if any {
        OWES.store(1, Ordering::Relaxed);
    }
    any
}

/// Its reader was stopped at work, so nothing can be taken back from it now: it finds all when it goes on.
pub(super) fn is_given_up(conn: &Conn) -> bool {
    let rest = conn.owed.again.load(Ordering::Relaxed).wrapping_sub(spin::clock().0);
    conn.is_stuck() && rest.cast_signed() > 0
}

/// Whether the kernel has some of what was taken back, and takes no more now.
pub(crate) fn is_on_its_way_back(conn: &Conn) -> bool {
    conn.headers().is_some_and(|(own, _)| path::is_back(own.writer.0.path.load(Ordering::Acquire)))
}

/// Whether the other end has had all that was written to the ring.
pub(super) fn is_settled(conn: &Conn) -> bool {
    let Some((own, peer)) = conn.headers() else { return true };
    // Before the look: another thread that writes meanwhile finds it out.
    conn.owed.owes.swap(0, Ordering::SeqCst);
    // With the way over the kernel, what is still in the ring cannot go back: readers find it there.
    let is_settled = match own.writer.0.path.load(Ordering::Acquire) {
        path::RING => is_empty(peer, own),
        way => !path::is_back(way),
    };
    if is_settled {
        return true;
    }
    // Nothing can go back any more: that is nobody's business from here on.
    if !conn.asks(conn.fd(), kernel::takes_more) {
        return true;
    }
    owe(conn);
    false
}

/// As [`settle`], of the other end of a connection, if this process has it: others' bytes go back as well.
pub(crate) fn settle_other_end(conn: &Conn) {
    let other = conn.meeting.other.load(Ordering::Relaxed);
    // This process may have stopped to use its ring, and another one may not.
    if let Some(end) = conn::with_ring(other)
        && let Ok(known) = end.known()
    {
        let _ = known.moving(|end| visit(end, end.fd(), Occasion::Overdue));
    }
}

/// As [`settle`], or until there is something to read, or the program's read has waited for long enough.
pub(crate) fn settle_or_poll(fd: c_int) -> Goes {
    let mut wait = Blocked::new();
    while !settle() {
        let slept = blocked::part(fd);
        if kernel::polled(fd, libc::POLLIN | libc::POLLRDHUP, 0) != 0 {
            break;
        }
        match wait.moves(fd, libc::SO_RCVTIMEO, slept) {
            Goes::On => {}
            goes => return goes,
        }
    }
    Goes::On
}

/// Whether there are bytes in the ring that the other end does not return: it has ended, or this end has shut
/// down its reading half, after which nobody asks for them.
pub(crate) fn is_left(fd: c_int) -> bool {
    conn::ready(fd).and_then(Conn::headers).is_some_and(|(own, peer)| !is_empty(own, peer))
        && kernel::has_hung_up(fd)
}
