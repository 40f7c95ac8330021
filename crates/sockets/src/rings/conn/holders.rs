//! Which processes hold an end, so that the last one that closes it does what the kernel does at
//! the end of a connection.

use libc::c_int;
use stream::consent;

use super::{Conn, for_each_ready};
use crate::sync::Ordering;

/// Among the others: processes of which nothing is known, and which may have it for good.
const UNKNOWN: u32 = 1 << 31;

/// This process is about to be copied: the child has all that there are. Before the call, or the child might
/// close one first.
pub(crate) fn forking() {
    for_each_ready(|conn| {
        if let Some((own, _)) = conn.headers() {
            own.reader.0.others.fetch_add(1, Ordering::SeqCst);
        }
    });
}

/// It was: others have what it has.
pub(crate) fn has_forked() {
    for_each_ready(|conn| conn.standing.shared.store(1, Ordering::Relaxed));
}

/// Somebody may have all that there are, whose calls are not seen.
pub(crate) fn shared() {
    has_forked();
    for_each_ready(|conn| {
        if let Some((own, _)) = conn.headers() {
            own.reader.0.others.fetch_or(UNKNOWN, Ordering::SeqCst);
        }
    });
}

/// A child that borrows this memory has made another number for what this one is here: perhaps for the
/// program that it is going to execute. Its parent sleeps, so nothing is taken back; what is written from
/// here on goes through the kernel.
pub(crate) fn copied_outside(fd: c_int) {
    if let Some((own, _)) = super::ready(fd).and_then(Conn::headers) {
        // Not as `leave::reading` says it, which the parent still has to, if need be. Whoever writes looks
        // with Acquire.
        let _ = own.reader.0.consent.compare_exchange(
            consent::OPEN,
            consent::SEEN,
            Ordering::SeqCst,
            Ordering::Relaxed,
        );
        own.writer.0.sealed.store(1, Ordering::SeqCst);
    }
}

impl Conn {
    /// This process has it no more; if nobody else has, it is shared no more either.
    pub(in crate::rings) fn lets_go(&self) {
        let Some((own, _)) = self.headers() else { return };
        let less = |others: u32| (others & UNKNOWN == 0).then(|| others.checked_sub(1)).flatten();
        let before = own.reader.0.others.fetch_update(Ordering::SeqCst, Ordering::SeqCst, less);
        if before == Err(0) {
            self.standing.shared.store(0, Ordering::Relaxed);
        }
    }

    /// Whether a holder writes in a way that is not seen: no holder opens the ring then, which could not be
    /// taken back behind that.
    pub(in crate::rings) fn is_sealed(&self) -> bool {
        self.standing.sealed.load(Ordering::Relaxed) != 0
            || self.headers().is_some_and(|(own, _)| own.writer.0.sealed.load(Ordering::Acquire) != 0)
    }
}
