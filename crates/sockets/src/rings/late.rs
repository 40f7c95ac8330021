//! Decides when the ends of a connection look for each other: late, so that short connections never
//! pay for it.
//!
//! To meet takes an end as long as some 20 calls on a connection: each is asked for by the kernel's diagnosis
//! and by `/proc`, and the memory is made, mapped and touched for the first time. A connection that ends
//! right after it has had none of that back. So each first has [`LATE`] uses, of which that is a fiftieth. A
//! use that moves much takes as long as several; and a reader of many small messages at once has fewer uses
//! than their writer, which has to wait for it.

use libc::c_int;

use super::tables;
use crate::sync::{AtomicU16, Ordering};
use crate::table::NUMBERS;

/// Uses before an end looks for the other.
const LATE: u16 = 1000;

/// Bytes that count as a use.
pub(crate) const USE_BYTES: u64 = 8192;

/// By number: 1 and its uses since it has a record; 0 if they are not counted.
pub(super) struct Uses([AtomicU16; NUMBERS]);

/// What a use of a connection without a ring is.
pub(crate) enum Use {
    /// Of one whose uses are not counted.
    Uncounted,
    /// One of many that come before.
    Early,
    /// The one at which it is due.
    Due,
}

fn uses(fd: c_int) -> Option<&'static AtomicU16> {
    tables::get()?.uses.0.get(usize::try_from(fd).ok()?)
}

/// The uses of a number are counted from here on, if they are not yet. Whether they are.
pub(crate) fn begins(fd: c_int) -> bool {
    let Some(uses) = uses(fd) else { return false };
    let _ = uses.compare_exchange(0, 1, Ordering::Relaxed, Ordering::Relaxed);
    true
}

/// The number has become something else.
pub(crate) fn ends(fd: c_int) {
    if let Some(uses) = uses(fd)
        && uses.load(Ordering::Relaxed) != 0
    {
        uses.store(0, Ordering::Relaxed);
    }
}

/// Counts a use that has moved so many bytes, if it is one of many that come before.
#[inline(always)]
pub(crate) fn is_early(fd: c_int, bytes: u64) -> bool {
    let Some(uses) = uses(fd) else { return false };
    let count = uses.load(Ordering::Relaxed);
    let is_early = (1..=LATE).contains(&count);
    if is_early {
        uses.store(count + weight(bytes), Ordering::Relaxed);
    }
    is_early
}

/// As how many uses one counts that has moved so many bytes.
#[inline(always)]
fn weight(bytes: u64) -> u16 {
    1 + (bytes / USE_BYTES).min(u64::from(LATE)) as u16
}

/// Counts a use that has moved so many bytes. (Of two threads that count at once one may not be counted.)
pub(crate) fn counts(fd: c_int, bytes: u64) -> Use {
    let Some(uses) = uses(fd) else { return Use::Uncounted };
    match uses.load(Ordering::Relaxed) {
        0 => Use::Uncounted,
        count if count <= LATE => {
            uses.store(count + weight(bytes), Ordering::Relaxed);
            Use::Early
        }
        _ => {
            uses.store(0, Ordering::Relaxed);
            Use::Due
        }
    }
}
