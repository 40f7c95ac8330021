//! Uses of a connection before it has a record, counted in the place of its cookie.

use super::Entry;
use crate::sync::Ordering;
use crate::{page, rings};

/// Uses of a connection before the kernel is asked for its cookie: short ones, of a request and some
/// messages, never pay for it.
pub(crate) const EARLY_USES: u64 = 9;

/// Counts a use of a connection that has no record yet, if it has been used so little that it needs none;
/// whether that is so. Until it has one, its uses and bytes stand in the place of its cookie.
#[inline(always)]
pub(super) fn counts(entry: &Entry, direction: page::Direction, bytes: u64) -> bool {
    let mut kept = entry.cookie.load(Ordering::Relaxed);
    loop {
        if is_cookie(kept) {
            return false;
        }
        let before = Early::unpack(kept);
        let Some(after) = before.and(direction, bytes).filter(|after| after.is_short()) else { return false };
        let order = Ordering::Relaxed;
        match entry.cookie.compare_exchange(kept, after.pack(), order, order) {
            Ok(_) => {
                if before.uses == 0 {
                    page::first_use();
                }
                return true;
            }
            Err(now) => kept = now,
        }
    }
}

/// Whether another thread has just put the cookie there; the record follows.
pub(super) fn is_cookie(kept: u64) -> bool {
    kept != 0 && Early::unpack(kept).uses == 0
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
