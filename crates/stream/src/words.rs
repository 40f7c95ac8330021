//! The words that both ends share, and the checks on them.

/// A word in shared memory. The first ten lie in the region of the writing end, the others in that of the
/// reading end; each end's region is read-only to the other. Positions and numbers never go back, flags do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Word {
    /// Ring bytes that were published.
    Tail,
    /// Ring bytes that are not yet taken are due once the reader has taken so many bytes from the kernel.
    SwitchOver,
    /// Ring bytes below this position went back to the kernel, as the last ones before [`Word::SwitchOver`].
    Base,
    /// Which path the writer takes: a [`path`].
    Path,
    /// Not 0: the writer takes unread ring bytes back; readers leave the ring alone.
    Revoke,
    /// Not 0: somebody is opening the ring, so writes to the kernel without the lock have to wait. Of the
    /// writing end alone.
    Opening,
    /// How many writes to the kernel without the lock are under way. Of the writing end alone.
    Plain,
    /// How many bytes the kernel was given in all, plus 1, while some stay in the ring although this end may
    /// end; else 0 ([`crate::given`]).
    Given,
    /// Where the message begins of which there is an inline copy ([`inline`]), or [`inline::NOTHING`].
    InlineAt,
    /// The writers' lock: 0 if free.
    WriteLock,
    /// Ring bytes that were taken.
    Head,
    /// Whether the writer may use the ring: a [`consent`].
    Consent,
    /// How many readers sleep in the kernel, where only what goes through the kernel wakes them: not 0 means
    /// that the ring is not used.
    Asleep,
    /// The readers' lock: 0 if free.
    ReadLock,
}

/// How many words there are.
pub const WORDS: usize = 14;

impl Word {
    /// Whether the writing end has it (else the reading end).
    #[inline(always)]
    #[must_use]
    pub const fn is_writers(self) -> bool {
        (self as u8) <= (Self::WriteLock as u8)
    }
}

/// Values of [`Word::InlineAt`], which is the sequence of a sequence lock around the inline copy: a copy of
/// the last message in the cache line of [`Word::Tail`], so that the reader of a small message waits for one
/// line instead of two.
///
/// Positions of published messages never come again, so one that was found before and after the bytes were
/// copied proves that they are that message's. The reader looks behind its look at the tail: at that moment
/// the message at this position was the last one, so all that it may take of the ring is in the copy.
///
/// H.-J. Boehm, "Can seqlocks get along with programming language memory models?", MSPC 2012, for the fences.
pub mod inline {
    /// No message has a copy. No position is that high.
    pub const NOTHING: u64 = u64::MAX;
}

/// Values of [`Word::Path`].
pub mod path {
    /// New bytes go through the kernel.
    pub const TCP: u64 = 0;
    /// New bytes go through the ring.
    pub const RING: u64 = 1;
    /// Unread ring bytes are being handed back to the kernel; new bytes follow them there.
    pub const BACK: u64 = 2;
    /// The writing half was shut down: new bytes go to the kernel, which refuses them.
    pub const SHUT: u64 = 3;
    /// As [`BACK`], and then [`SHUT`]: the writing half is being shut down.
    pub const LAST: u64 = 4;

    /// Whether ring bytes are being handed back.
    #[inline(always)]
    #[must_use]
    pub const fn is_back(path: u64) -> bool {
        path == BACK || path == LAST
    }

    /// Whether new bytes go to the kernel, with nothing left to hand back before them.
    #[inline(always)]
    #[must_use]
    pub const fn is_kernels(path: u64) -> bool {
        path == TCP || path == SHUT
    }
}

/// Values of [`Word::Consent`].
pub mod consent {
    /// No reader has been seen in the library yet: stay with the kernel.
    pub const NONE: u64 = 0;
    /// Readers look at the ring.
    pub const OPEN: u64 = 1;
    /// A reader is about to read in a way that the library does not see: hand everything back.
    pub const WITHDRAWN: u64 = 2;
    /// Readers stay in the library, but wait in a way that it does not see: hand everything back. What cannot
    /// go back they find in the ring.
    pub const SEEN: u64 = 3;
}

/// Ring bytes between two positions, which were checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Span {
    /// The first byte.
    pub(crate) from: u64,
    /// Behind the last.
    pub(crate) to: u64,
}

impl Span {
    #[inline(always)]
    pub(crate) fn is_empty(self) -> bool {
        self.from == self.to
    }

    #[inline(always)]
    pub(crate) fn len(self) -> u64 {
        self.to - self.from
    }
}

/// What is unread in the ring, by three positions, whoever wrote them. `None`: no honest end writes these.
#[inline(always)]
pub(crate) fn unread(head: u64, base: u64, tail: u64, capacity: u64) -> Option<Span> {
    let from = head.max(base);
    // Nobody publishes what has no room, nor takes what was not published; and no stream is that long.
    let is_sound = from <= tail && tail - from <= capacity && tail < u64::MAX - capacity;
    is_sound.then_some(Span { from, to: tail })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_are_checked_against_each_other() {
        assert_eq!(unread(3, 0, 5, 4), Some(Span { from: 3, to: 5 }));
        assert_eq!(unread(3, 4, 5, 4), Some(Span { from: 4, to: 5 }));
        assert_eq!(unread(0, 0, 5, 4), None, "more than the ring holds");
        assert_eq!(unread(6, 0, 5, 4), None, "taken before it was published");
        assert_eq!(unread(u64::MAX - 1, 0, u64::MAX, 4), None, "no stream is that long");
    }

    #[test]
    fn each_word_belongs_to_one_end() {
        let writers = [
            Word::Tail,
            Word::SwitchOver,
            Word::Base,
            Word::Path,
            Word::Revoke,
            Word::Opening,
            Word::Plain,
            Word::Given,
            Word::InlineAt,
        ];
        assert!(writers.iter().all(|word| word.is_writers()) && Word::WriteLock.is_writers());
        let readers = [Word::Head, Word::Consent, Word::Asleep, Word::ReadLock];
        assert!(readers.iter().all(|word| !word.is_writers()));
        assert_eq!(writers.len() + 1 + readers.len(), WORDS);
    }
}
