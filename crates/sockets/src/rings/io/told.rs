//! Bytes that a call has reported to the program as readable, and that the writer hands back to the kernel
//! before the program reads them.
//!
//! The kernel would have them: a look or a read that does not wait waits a moment for them.

use libc::c_int;
use stream::path;

use crate::rings::conn::{self, Conn};
use crate::rings::header::Header;
use crate::rings::{kernel, spin};
use crate::sync::Ordering;

/// Pauses for bytes that were told to come: some microseconds, and then a tenth of a millisecond each: a
/// hundredth of a second for what may be nowhere any more, and a second for what the writer is returning to
/// the kernel, for which it may have to get a processor first.
const PAUSES: u32 = 2000;
const LONG_PAUSES: u32 = 100;
const LONG_PAUSES_OF_A_RETURN: u32 = 10_000;
/// After so many misses in a row such bytes are not waited for any more; what came late counts as one.
const UNKEPT: u32 = 3;

/// Waits a moment, if the program was told of bytes, for those that are on their way; whether there are some.
/// Of a look that does not wait: what one has found, the next one does not expect to be gone.
pub(crate) fn comes_still(fd: c_int) -> bool {
    conn::ready(fd).is_some_and(|conn| {
        conn.told.promised.load(Ordering::Relaxed) != 0
            && conn.headers().is_some_and(|(own, peer)| waits_for_told(conn, own, peer, fd, true))
    })
}

/// Waits a moment for bytes that the program was told of, and that are on their way from the ring into the
/// kernel since: it need not expect to find none. They were in the ring when a wait `promised` them, or the
/// kernel has the first of them already.
#[cold]
pub(super) fn waits_for_told(conn: &Conn, own: &Header, peer: &Header, fd: c_int, promised: bool) -> bool {
    let is_revoked = || peer.writer.0.revoke.load(Ordering::Acquire) != 0;
    let is_on_its_way = || is_revoked() || path::is_back(peer.writer.0.path.load(Ordering::Acquire));
    // Another process has taken them.
    let is_taken = own.head.0.load(Ordering::Acquire) == peer.tail();
    let misses = if is_on_its_way() { &conn.told.unreturned } else { &conn.told.unkept };
    if is_taken
        || misses.load(Ordering::Relaxed) >= UNKEPT
        || !(promised || is_revoked() && kernel::unread(fd) != Some(0))
    {
        return false;
    }
    // The writer's kernel may hold them until it knows that the ones before have come.
    kernel::acknowledge(fd);
    own.reader.0.asleep.fetch_add(1, Ordering::SeqCst);
    // Of a connection that other processes have, these may have read them since.
    let is_shared = conn.standing.shared.load(Ordering::Relaxed) != 0;
    let long_pauses = if is_shared { 0 } else { LONG_PAUSES };
    // Of a writer that died in the middle of a return, nothing comes any more.
    let was_over = kernel::has_hung_up(fd);
    let is_coming = || is_on_its_way() && !was_over;
    let mut pauses = 0;
    let is_there = (0..PAUSES + LONG_PAUSES_OF_A_RETURN).find_map(|pause| {
        pauses = pause;
        let comes = match is_revoked() {
            true => pause >= PAUSES && !was_over && kernel::has_hung_up(fd),
            false => kernel::polled(fd, libc::POLLIN, 0) != 0,
        };
        if comes {
            return Some(true);
        }
        if pause < PAUSES {
            spin::relax();
        } else if pause < PAUSES + long_pauses || is_coming() {
            crate::rings::run::sleep(100_000);
        } else {
            return Some(false);
        }
        None
    });
    own.reader.0.asleep.fetch_sub(1, Ordering::SeqCst);
    // A writer that always takes long, and then returns some, would hold up everything else that this program
    // does.
    let is_late = is_there.is_none() || was_over || pauses >= PAUSES + LONG_PAUSES;
    let misses = if is_late { &conn.told.unreturned } else { &conn.told.unkept };
    let is_there = is_there.unwrap_or(false);
    let is_hit = is_there && !is_late;
    misses.store(if is_hit { 0 } else { misses.load(Ordering::Relaxed) + 1 }, Ordering::Relaxed);
    is_there
}
