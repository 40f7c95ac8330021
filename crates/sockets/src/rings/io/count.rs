//! How many bytes can be read now (`FIONREAD`): those of the kernel and those of the ring, each once,
//! although the writer may be returning some of the ring to the kernel.
//!
//! A program that is told of more waits for bytes that do not come, and one that is told of none behind a
//! wait that found some takes that for the end.

use libc::c_int;

use super::is_empty;
use super::told::waits_for_told;
use crate::rings::conn;
use crate::rings::header::{CAPACITY, Header};
use crate::rings::{kernel, run, spin};
use crate::sync::Ordering;

/// Looks at a writer that is returning bytes: some microseconds, and then a tenth of a millisecond each, a
/// hundredth of a second.
const LOOKS: u32 = 2000;
const LONG_LOOKS: u32 = 100;

/// What there is to read, of which the kernel has just counted so many bytes.
pub(crate) fn unread(fd: c_int, counted: c_int) -> c_int {
    let Some(conn) = conn::ready(fd) else { return counted };
    let Some((own, peer)) = conn.headers() else { return counted };
    let mut kernels = u64::try_from(counted).unwrap_or(0);
    let mut rings = rings_unread(own, peer);
    if rings.is_none() {
        (kernels, rings) = wait_for_writer(fd, own, peer);
    }
    // What the ring had at the first count may be in the kernel by now.
    if kernels == 0 && rings == Some(0) {
        kernels = kernel::unread(fd).unwrap_or(0);
        let is_told = kernels == 0 && conn.told.promised.load(Ordering::Relaxed) != 0;
        if is_told && waits_for_told(conn, own, peer, fd, true) {
            kernels = kernel::unread(fd).unwrap_or(0);
            rings = rings_unread(own, peer);
        }
    }
    // Of a writer that does not come to the end of its work the kernel's are sure. What only the ring has is
    // unread, wherever it goes.
    let rings = rings.unwrap_or_else(|| if kernels > 0 { 0 } else { all_unread(own, peer) });
    if rings > 0 {
        conn.told.promised.store(1, Ordering::Relaxed);
    }
    c_int::try_from(kernels + rings).unwrap_or(c_int::MAX)
}

/// What of the ring is unread, and is not in the kernel by any count that was made before. `None`: the writer
/// is at work.
fn rings_unread(own: &Header, peer: &Header) -> Option<u64> {
    if peer.writer.0.revoke.load(Ordering::Acquire) != 0 {
        return None;
    }
    Some(if is_empty(own, peer) { 0 } else { all_unread(own, peer) })
}

fn all_unread(own: &Header, peer: &Header) -> u64 {
    // What went back to the kernel is counted there.
    let from = own.head.0.load(Ordering::Acquire).max(peer.writer.0.base.load(Ordering::Acquire));
    peer.tail().saturating_sub(from).min(CAPACITY)
}

/// Both counts once the writer has returned what it is returning, unless that takes too long.
#[cold]
fn wait_for_writer(fd: c_int, own: &Header, peer: &Header) -> (u64, Option<u64>) {
    for look in 0..LOOKS + LONG_LOOKS {
        if peer.writer.0.revoke.load(Ordering::Acquire) == 0 {
            let kernels = kernel::unread(fd).unwrap_or(0);
            if let Some(rings) = rings_unread(own, peer) {
                return (kernels, Some(rings));
            }
        }
        if look < LOOKS {
            spin::relax();
        } else if kernel::has_hung_up(fd) {
            break;
        } else {
            run::sleep(100_000);
        }
    }
    (kernel::unread(fd).unwrap_or(0), None)
}
