//! Hands bytes back to the kernel for readers that have withdrawn, while this process does not sleep.

use stream::consent;
use stream::write::Occasion;

use super::settle::{OWES, is_given_up};
use super::visit;
use crate::interposer::{get_errno, set_errno};
use crate::rings::conn::{self, Conn};
use crate::rings::header::Header;
use crate::rings::spin;
use crate::sync::{AtomicU64, Ordering};

/// When this process has last looked for readers that want bytes back, by the processor's clock.
static VISITED: AtomicU64 = AtomicU64::new(0);
/// Cycles between two such looks: below a millisecond, as no processor's clock has less than one a
/// nanosecond.
const VISIT_CYCLES: u64 = 1 << 20;

/// For a process that waits without sleeping, again and again: readers may want back what it has written, and
/// have nobody else to return it.
#[inline]
pub(crate) fn visits() {
    // Pairs with the Release in `owe`, as in `owes`.
    if OWES.load(Ordering::Acquire) != 0 {
        visits_some();
    }
}

#[cold]
fn visits_some() {
    let now = spin::clock().0;
    if now.wrapping_sub(VISITED.load(Ordering::Relaxed)) < VISIT_CYCLES {
        return;
    }
    VISITED.store(now, Ordering::Relaxed);
    let errno = get_errno();
    let is_wanted = |conn: &Conn| {
        let withdrawn =
            |(_, peer): (_, &Header)| peer.reader.0.consent.load(Ordering::Acquire) != consent::OPEN;
        conn.owed.owes.load(Ordering::Relaxed) != 0
            && !is_given_up(conn)
            && conn.headers().is_some_and(withdrawn)
    };
    conn::for_each_ready(|conn| {
        if is_wanted(conn)
            && let Ok(known) = conn.known()
        {
            // Who has closed it sees to that.
            let _ = known.moving(|conn| visit(conn, conn.fd(), Occasion::Visit));
        }
    });
    set_errno(errno);
}
