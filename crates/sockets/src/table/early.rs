//! Uses of a connection before it has a record, counted in the place of its cookie.

use libc::c_int;

use super::{Entry, look_again};
use crate::sync::Ordering;
use crate::{page, rings};

/// Uses of a connection before the kernel is asked for its cookie: short ones, of a request and some
/// messages, never pay for it.
pub(crate) const EARLY_USES: u64 = 9;

/// A use of a connection that has no record yet. Until it has one, its uses and bytes stand in the place of
/// its cookie.
pub(super) fn counts(fd: c_int, entry: &Entry, direction: page::Direction, bytes: u64) {
    loop {
        let kept = entry.cookie.load(Ordering::Relaxed);
        let before = Early::unpack(kept);
        if kept != 0 && before.uses == 0 {
            // Another thread has just put the cookie there, and its record follows.
            return;
        }
        let stays = |after: &Early| after.is_short() && !crate::environment::is_forced();
        let Some(after) = before.and(direction, bytes).filter(stays) else { return look_again(fd) };
        let order = Ordering::Relaxed;
        if entry.cookie.compare_exchange(kept, after.pack(), order, order).is_ok() {
            if before.uses == 0 {
                page::first_use();
            }
            return;
        }
    }
}

/// What is counted of a connection before it has a record.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Early {
    pub(crate) uses: u64,
    pub(crate) bytes_in: u64,
    pub(crate) bytes_out: u64,
}

impl Early {
    /// Bits that a number of bytes has.
    const BITS: u32 = 28;
    /// More uses have no place.
    const MOST_USES: u64 = (1 << (u64::BITS - 2 * Self::BITS)) - 1;

    pub(crate) fn pack(self) -> u64 {
        self.uses << (2 * Self::BITS) | self.bytes_in << Self::BITS | self.bytes_out
    }

    pub(crate) fn unpack(packed: u64) -> Self {
        let mask = (1 << Self::BITS) - 1;
        Self {
            uses: packed >> (2 * Self::BITS),
            bytes_in: packed >> Self::BITS & mask,
            bytes_out: packed & mask,
        }
    }

    /// With another use; none if the numbers get too large for their places.
    pub(crate) fn and(mut self, direction: page::Direction, bytes: u64) -> Option<Self> {
        self.uses += 1;
        let sum = match direction {
            page::Direction::In => &mut self.bytes_in,
            page::Direction::Out => &mut self.bytes_out,
        };
        *sum = sum.checked_add(bytes)?;
        (*sum < 1 << Self::BITS && self.uses <= Self::MOST_USES).then_some(self)
    }

    /// Whether little was done so far: bytes count as they do in [`rings::late`].
    pub(crate) fn is_short(self) -> bool {
        self.uses + (self.bytes_in + self.bytes_out) / rings::late::USE_BYTES <= EARLY_USES
    }
}
