//! The shared region of one end of a connection: its words and its ring, which it alone writes.
//!
//! The protocol is crate `stream`, described in `docs/stream-cut-over.md`. A region has the writer's words of
//! one direction and the reader's of the other. What one side changes with every message lies in one line of
//! the cache, apart from what it changes seldom.

use core::mem::offset_of;

use stream::Word;

use super::lock::Lock;
use crate::sync::{AtomicU32, AtomicU64, Ordering};

/// Bytes of a ring.
pub(crate) const CAPACITY: u64 = 256 << 10;
/// Bytes before the ring.
pub(crate) const HEADER_BYTES: usize = 4096;
/// Bytes of a region.
pub(crate) const REGION_BYTES: usize = HEADER_BYTES + CAPACITY as usize;
/// First word of a region: its kind and version.
pub(crate) const MAGIC: u64 = u64::from_le_bytes(*b"TLsring4");
/// Bytes of a message that has an inline copy: what is left of the line.
pub(crate) const INLINE_BYTES: usize = 40;

/// A line of the cache, and the one that the processor fetches with it.
#[repr(C, align(128))]
pub(crate) struct Line<T>(pub(crate) T);

/// What the writer changes with every message.
#[repr(C)]
pub(crate) struct Message {
    /// The position, and above it how often, modulo 256, a signal handler has written under a write that was
    /// putting bytes behind it.
    tail: AtomicU64,
    /// The inline copy of the last message, if it is small: where it begins, and its bytes
    /// (`stream::inline`).
    inline_at: AtomicU64,
    pub(crate) inline: [AtomicU64; INLINE_BYTES / 8],
    /// Left alone, so that a program can measure what this line costs where it is
    /// (`examples/sockets/ring_lines.h`).
    unused: AtomicU64,
}

/// What the writer changes seldom.
#[repr(C)]
pub(crate) struct WriterState {
    pub(crate) switch_over: AtomicU64,
    pub(crate) base: AtomicU64,
    pub(crate) path: AtomicU64,
    pub(crate) revoke: AtomicU64,
    /// Not 0: the ring is being opened; who writes to the kernel without the lock is to stay away.
    pub(crate) opening: AtomicU64,
    /// How many are writing to the kernel without the lock.
    pub(crate) plain: AtomicU64,
    /// While some bytes stay in the ring although this end may end, what the kernel was given, plus 1
    /// (`stream::given`).
    pub(crate) given: AtomicU64,
    /// What the kernel counts too many as acknowledged, plus 1; 0 is not known yet. Here, because each
    /// process that has this end, also one that had it before that was known, may have to hand back what it
    /// has found a ring for.
    pub(crate) extra: AtomicU64,
    /// Not 0: a process that has this end writes in a way that is not seen.
    pub(crate) sealed: AtomicU64,
    /// Not 0: the kernel may hold back the end of what it was last given, until it gets more (`MSG_MORE`).
    pub(crate) held: AtomicU64,
}

/// What a reader says of itself.
#[repr(C)]
pub(crate) struct ReaderState {
    pub(crate) consent: AtomicU64,
    pub(crate) asleep: AtomicU64,
    /// The processor on which this end was last seen waiting, plus 1.
    pub(crate) processor: AtomicU32,
    /// How many other processes have this end; not all that do are known.
    pub(crate) others: AtomicU32,
}

/// The first page of a region.
#[repr(C)]
pub(crate) struct Header {
    pub(crate) magic: AtomicU64,
    /// The cookies of the end whose region this is, and of the other one.
    pub(crate) cookie: AtomicU64,
    pub(crate) other: AtomicU64,
    /// Not 0: this end has mapped the other one's region.
    pub(crate) has_mapped: AtomicU64,
    pub(crate) message: Line<Message>,
    pub(crate) writer: Line<WriterState>,
    pub(crate) write_lock: Line<Lock>,
    pub(crate) reader: Line<ReaderState>,
    pub(crate) head: Line<AtomicU64>,
    pub(crate) read_lock: Line<Lock>,
}

const _: () = assert!(size_of::<Header>() <= HEADER_BYTES && size_of::<Message>() == 64);
// As `examples/sockets/ring_lines.h` has it.
const _: () = assert!(offset_of!(Header, message) == 128 && offset_of!(Message, unused) == 56);

/// A tail above its position: no stream is that long.
const POSITION: u64 = (1 << 56) - 1;
const ONE_INTERRUPTION: u64 = 1 << 56;

/// The position that a tail has.
#[inline(always)]
pub(crate) fn position(tail: u64) -> u64 {
    tail & POSITION
}

/// The tail at another position.
#[inline(always)]
pub(crate) fn moved(tail: u64, to: u64) -> u64 {
    tail & !POSITION | to & POSITION
}

impl Message {
    /// The tail as a whole. Acquire: what was written before it was stored is seen.
    #[inline(always)]
    pub(crate) fn whole_tail(&self) -> u64 {
        self.tail.load(Ordering::Acquire)
    }

    /// The tail, for the holder of the lock to change.
    #[inline(always)]
    pub(crate) fn tail_word(&self) -> &AtomicU64 {
        &self.tail
    }

    /// A signal handler has written under a write. It holds the lock, as what it interrupts does.
    pub(crate) fn interrupts(&self) {
        // The position is as it was: readers, who look with Acquire, see nothing new.
        self.tail.store(self.whole_tail().wrapping_add(ONE_INTERRUPTION), Ordering::Release);
    }
}

impl Header {
    /// The word of this region. Of the tail see [`position`].
    pub(crate) fn word(&self, word: Word) -> &AtomicU64 {
        match word {
            Word::Tail => &self.message.0.tail,
            Word::SwitchOver => &self.writer.0.switch_over,
            Word::Base => &self.writer.0.base,
            Word::Path => &self.writer.0.path,
            Word::Revoke => &self.writer.0.revoke,
            Word::Opening => &self.writer.0.opening,
            Word::Plain => &self.writer.0.plain,
            Word::Given => &self.writer.0.given,
            Word::InlineAt => &self.message.0.inline_at,
            Word::WriteLock => &self.write_lock.0.holder,
            Word::Head => &self.head.0,
            Word::Consent => &self.reader.0.consent,
            Word::Asleep => &self.reader.0.asleep,
            Word::ReadLock => &self.read_lock.0.holder,
        }
    }

    /// What the kernel counts too many as acknowledged, where that is known.
    pub(crate) fn extra(&self) -> Option<u64> {
        self.writer.0.extra.load(Ordering::Relaxed).checked_sub(1)
    }

    /// The ring behind the words.
    pub(crate) fn ring(&self) -> *mut u8 {
        // The region is one mapping of `REGION_BYTES`, which begins with the words.
        (&raw const *self).cast::<u8>().cast_mut().wrapping_add(HEADER_BYTES)
    }

    /// The position of the tail. Acquire: what was written before it was stored is seen.
    #[inline(always)]
    pub(crate) fn tail(&self) -> u64 {
        position(self.message.0.whole_tail())
    }

    /// One of its locks.
    #[inline(always)]
    pub(crate) fn lock(&self, lock: Word) -> &Lock {
        if lock == Word::WriteLock { &self.write_lock.0 } else { &self.read_lock.0 }
    }
}
