//! The regions of a ring: their creation, their headers, their checks.
//!
//! Every region of a ring begins with a head of [`HEAD_BYTES`]: constants that say what it is, and one line
//! each for a count and the two words of a doorbell. What belongs to a side lies in that side's region, which
//! the other side can only read.

use super::mapped::Mapped;
use crate::doorbell::{Ringer, Waiter};
#[cfg(not(loom))]
use crate::region::PartialMapOptions;
use crate::region::{MapAccess, Region, RegionOptions};
use crate::sync::{Ordering, fence};
use crate::{Error, Result};
use rustix::fd::{BorrowedFd, OwnedFd};

/// Bytes of the head; the ring's data follows.
pub(super) const HEAD_BYTES: usize = 512;

/// Word indices in the head. Each of the last three has two cache lines to itself.
pub(super) mod word {
    /// What region of what ring, and the version of its layout.
    pub(in crate::ring) const WHAT: usize = 0;
    /// Its size: lines, or slots.
    pub(in crate::ring) const SIZE: usize = 1;
    /// A second size: payload bytes of a slot.
    pub(in crate::ring) const SLOT_BYTES: usize = 2;
    /// What the side that can write here has said of itself: see [`super::ENDS`].
    pub(in crate::ring) const SAID: usize = 3;
    /// Lines given back (consumer), or the next slot to be claimed.
    pub(in crate::ring) const COUNT: usize = 16;
    /// Doorbell: counts rings by the side that can write here.
    pub(in crate::ring) const SIGNAL: usize = 32;
    /// Doorbell: whether the side that can write here sleeps.
    pub(in crate::ring) const ARMED: usize = 48;
}

const _: () = assert!(word::ARMED * 8 + crate::layout::LINE_BYTES == HEAD_BYTES);
const _: () = assert!((word::SIGNAL - word::COUNT) * 8 == crate::layout::LINE_BYTES);
const _: () = assert!((word::ARMED - word::SIGNAL) * 8 == crate::layout::LINE_BYTES);
const _: () = assert!(word::COUNT * 8 == crate::layout::LINE_BYTES && word::SAID < word::COUNT);

/// A side has said that it ends.
const ENDS: u32 = 1;
/// It has said that it uses memory otherwise that the other side's process may read by itself.
const TAKES_BACK: u32 = 2;
/// It has said that it takes nothing more out of the ring, and leaves the memory as it is that the other
/// side's process may read by itself.
const STOPS: u32 = 4;

/// Which region this is: letters in memory order, the last one the version of the layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub(super) enum What {
    RecordProducer = u64::from_le_bytes(*b"tlrecp 1"),
    RecordConsumer = u64::from_le_bytes(*b"tlrecc 1"),
    ByteWriter = u64::from_le_bytes(*b"tlbytw 1"),
    ByteReader = u64::from_le_bytes(*b"tlbytr 1"),
    ManySlots = u64::from_le_bytes(*b"tlmans 1"),
    ManyConsumer = u64::from_le_bytes(*b"tlmanc 1"),
}

impl What {
    fn name(self) -> &'static str {
        match self {
            Self::RecordProducer => "ring-record-producer",
            Self::RecordConsumer => "ring-record-consumer",
            Self::ByteWriter => "ring-byte-writer",
            Self::ByteReader => "ring-byte-reader",
            Self::ManySlots => "ring-many-slots",
            Self::ManyConsumer => "ring-many-consumer",
        }
    }

    fn not_this(self) -> &'static str {
        match self {
            Self::RecordProducer => {
                "the region is not that of a record ring's producer, or of another version"
            }
            Self::RecordConsumer => {
                "the region is not that of a record ring's consumer, or of another version"
            }
            Self::ByteWriter => "the region is not that of a byte ring's writer, or of another version",
            Self::ByteReader => "the region is not that of a byte ring's reader, or of another version",
            Self::ManySlots => {
                "the region does not hold the slots of a ring for many producers, or another version"
            }
            Self::ManyConsumer => "the region is not that of the consumer of many, or of another version",
        }
    }
}

/// Makes this side's region: the head, then `data_bytes` of zeroes. Others will only be able to read it,
/// unless `shared`. A child of this process does not inherit the mapping: two writers would break the ring.
pub(super) fn create(
    what: What,
    size: u64,
    slot_bytes: u64,
    data_bytes: usize,
    shared: bool,
) -> Result<Region> {
    let size_bytes = HEAD_BYTES.checked_add(data_bytes).ok_or(Error::TooLarge {
        size_bytes: data_bytes,
        available_bytes: usize::MAX - HEAD_BYTES,
        limit: "the address space",
    })?;
    let options =
        RegionOptions { read_only_for_others: !shared, ..RegionOptions::new(what.name(), size_bytes) };
    let region = Region::create(&options)?;
    region.dont_fork()?;
    let window = region.window();
    for (index, value) in [(word::WHAT, what as u64), (word::SIZE, size), (word::SLOT_BYTES, slot_bytes)] {
        // Relaxed: a process that reads this got the descriptor through the kernel, which orders it.
        window.atomic_u64(index * 8)?.store(value, Ordering::Relaxed);
    }
    Ok(region)
}

/// Maps a region of the other side and checks that it is what it should be: the region, and its two sizes as
/// they stand there, unchecked.
pub(super) fn open(fd: OwnedFd, what: What, access: MapAccess) -> Result<(Region, u64, u64)> {
    let region = Region::open(fd, access)?;
    region.dont_fork()?;
    let window = region.window();
    let read = |index: usize| Ok(window.atomic_u64(index * 8)?.load(Ordering::Relaxed));
    // A region is at least a page, so a head.
    if read(word::WHAT)? != what as u64 {
        return Err(Error::Corrupt { what: what.not_this() });
    }
    let (size, slot_bytes) = (read(word::SIZE)?, read(word::SLOT_BYTES)?);
    Ok((region, size, slot_bytes))
}

/// A second descriptor of the same thing.
pub(super) fn duplicate(fd: BorrowedFd<'_>) -> Result<OwnedFd> {
    rustix::io::fcntl_dupfd_cloexec(fd, 0).map_err(|errno| Error::of_new_descriptor("a ring", errno))
}

/// The region of a side that is told how far the other got: its count is the one word of the row.
pub(super) fn count_row(region: Region) -> Result<Mapped> {
    Mapped::new(region, word::COUNT * 8, 1)
}

/// Wakes the side that sleeps in `theirs`; rung in `ours`.
#[inline]
pub(super) fn ringer<'a>(ours: &'a Mapped, theirs: &'a Mapped) -> Ringer<'a> {
    Ringer::new(ours.head_u32(word::SIGNAL), theirs.head_u32(word::ARMED))
}

/// Sleeps until the side of `theirs` rings; armed in `ours`.
#[inline]
pub(super) fn waiter<'a>(ours: &'a Mapped, theirs: &'a Mapped) -> Waiter<'a> {
    Waiter::new(theirs.head_u32(word::SIGNAL), ours.head_u32(word::ARMED))
}

/// Says to the other side that this one ends.
pub(super) fn close(ours: &Mapped) {
    say(ours, ENDS);
}

/// Says to the other side that it is to read no memory of this one's process by itself any more.
pub(super) fn take_back(ours: &Mapped) {
    say(ours, TAKES_BACK);
}

/// Says to the other side that this one takes nothing more, and leaves such memory as it is.
pub(super) fn stop(ours: &Mapped) {
    say(ours, STOPS);
}

fn say(ours: &Mapped, what: u32) {
    // Sequentially consistent, as a whole fence: whatever this side does with its other memory from now on,
    // who has seen that sees this, too.
    ours.head_u32(word::SAID).fetch_or(what, Ordering::SeqCst);
    fence(Ordering::SeqCst);
}

/// Whether the other side has said that it ends.
pub(super) fn is_closed(theirs: &Mapped) -> bool {
    has_said(theirs, ENDS)
}

/// Whether the other side has taken back what could be read of its process.
pub(super) fn has_taken_back(theirs: &Mapped) -> bool {
    has_said(theirs, TAKES_BACK)
}

/// Whether the other side has said that it takes nothing more.
pub(super) fn has_stopped(theirs: &Mapped) -> bool {
    has_said(theirs, STOPS)
}

fn has_said(theirs: &Mapped, what: u32) -> bool {
    // Pairs with the fence in `say`: what was read before this load may have been written after that was said
    // only if the load sees it.
    fence(Ordering::SeqCst);
    theirs.head_u32(word::SAID).load(Ordering::SeqCst) & what != 0
}

/// The word that the side of `theirs` changes when it rings.
#[cfg(not(loom))]
pub(super) fn signal(theirs: &Mapped) -> Result<crate::doorbell::Signal> {
    let (offset, access) = (word::SIGNAL * 8, MapAccess::ReadOnly);
    let options = PartialMapOptions { offset, len: size_of::<u32>(), address: None, access };
    theirs.region().map_part(&options).map(crate::doorbell::Signal::new)
}

/// Sizes of the rings made of lines, which only their writer's region says.
pub(super) mod lines {
    use super::super::control::LINE_BYTES;
    use super::{Error, HEAD_BYTES, Mapped, Region, Result};

    /// Fewer make no sense: half of the ring should hold more than a line.
    const MIN: u64 = 8;
    /// A ring of 4 GiB: lengths are 32 bits wide.
    const MAX: u64 = 1 << 26;

    /// How many lines hold `capacity_bytes`, control words included.
    pub(in crate::ring) fn for_capacity(capacity_bytes: usize) -> Result<u64> {
        let lines = capacity_bytes.div_ceil(LINE_BYTES) as u64;
        if lines > MAX {
            let available_bytes = (MAX as usize).saturating_mul(LINE_BYTES);
            return Err(Error::TooLarge {
                size_bytes: capacity_bytes,
                available_bytes,
                limit: "the size of a ring",
            });
        }
        Ok(lines.next_power_of_two().max(MIN))
    }

    /// Bytes that so many lines take.
    pub(in crate::ring) fn bytes(lines: u64) -> usize {
        // At most 4 GiB: `lines` was made or checked here. The project's targets have 64 bits.
        lines as usize * LINE_BYTES
    }

    /// The lines of a region as a row of words; `lines` is what the region's head says, not yet believed.
    pub(in crate::ring) fn row(region: Region, lines: u64) -> Result<Mapped> {
        if !lines.is_power_of_two() || !(MIN..=MAX).contains(&lines) {
            return Err(Error::Corrupt { what: "a ring of an impossible size" });
        }
        Mapped::new(region, HEAD_BYTES, bytes(lines) / 8)
            .map_err(|_| Error::Corrupt { what: "a ring that is larger than its region" })
    }
}
