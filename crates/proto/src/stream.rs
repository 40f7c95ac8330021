//! One direction of a TCP connection of which some bytes go through a ring in shared memory.
//!
//! The whole protocol, with its reasons, is in `docs/stream-cut-over.md`. In short:
//!
//! - The stream is a merge of two sequences of bytes: those that the kernel carries (positions counted by the kernel
//!   itself: [`count`]) and those of the ring (positions from 0, never going back).
//! - The writer publishes one number, [`Word::Cut`]: the ring's bytes are due once the reader has taken that many bytes
//!   from the kernel. It moves only while the ring is empty, or when unread bytes are handed back to the kernel.
//! - The reader has one rule: *count what the kernel holds, then look at the ring; if nothing of the ring is due, what was
//!   counted may be read.* End of stream and errors of the kernel obey the same rule, so they come in TCP's place.
//!
//! Who writes a direction drives a [`writer::Writer`], who reads it a [`reader::Reader`]; a reader that is about to do
//! what the library cannot see drives a [`withdraw::Withdraw`] before. Each is a small `Copy` value that says what to [`Do`]
//! next and is told what was [`Saw`] then: no memory is allocated, nothing panics, no clock is read. How often to spin
//! before a [`Do::Sleep`] and when a timer ends it is the caller's.

pub mod count;
pub mod reader;
pub mod withdraw;
pub mod writer;

/// A word in shared memory. The first six lie in the region of the writing end, the others in that of the reading end;
/// each end's region is read-only to the other. Positions and numbers never go back, flags do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Word {
    /// Ring bytes that were published.
    Tail,
    /// Ring bytes that are not yet taken are due once the reader has taken so many bytes from the kernel.
    Cut,
    /// Ring bytes below this position went back to the kernel, as the last ones before [`Word::Cut`].
    Base,
    /// Which way the writer takes: a [`path`].
    Path,
    /// Not 0: the writer takes unread ring bytes back; readers leave the ring alone.
    Recall,
    /// The writers' lock: 0 if free.
    WriteLock,
    /// Ring bytes that were taken.
    Head,
    /// Whether the writer may use the ring: a [`consent`].
    Consent,
    /// How many readers sleep in the kernel, where only what goes through the kernel wakes them: not 0 means that the ring is not used.
    Asleep,
    /// The readers' lock: 0 if free.
    ReadLock,
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
    #[inline]
    #[must_use]
    pub const fn is_back(path: u64) -> bool {
        path == BACK || path == LAST
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
    /// Readers stay in the library, but wait in a way that it does not see: hand everything back. What cannot go back they find in the
    /// ring.
    pub const SEEN: u64 = 3;
}

/// What a machine waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Wait {
    /// The kernel has bytes, an end or an error to read. The readers have said that they sleep, so everything comes that way: the
    /// program's own blocking call does. Answer [`Saw::Moved`] if it took bytes, [`Saw::Broken`] if it took an error, else [`Saw::Woken`].
    Readable,
    /// The kernel takes bytes.
    Writable,
    /// Readers, who are awake, take bytes of the ring ([`Word::Head`] moves): a short while, spinning. [`Woken::Timer`] when it
    /// was long enough.
    Room,
    /// The writer, who is at work, hands bytes back, or the kernel delivers what comes before the ring's bytes: a short while,
    /// spinning or sleeping. Look at [`Word::Recall`] and [`Word::Path`] meanwhile, not at the machine again: a reader that takes
    /// its lock all the time starves the writer that waits for the lock. [`Woken::Timer`] when it was too long (readers take it as
    /// a reason to look).
    Return,
}

/// What a machine wants done next. Every load is an Acquire (or sequentially consistent) one, every store a Release one; an
/// addition is a sequentially consistent read-modify-write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Do {
    /// Take this lock with a sequentially consistent read-modify-write; the lock of a dead holder is free.
    Lock(Word),
    /// Release it.
    Unlock(Word),
    /// Load; answer [`Saw::Value`]. Of a lock: 0 if it is free or its holder is proven dead.
    Load(Word),
    /// Store a word of the own end.
    Store(Word, u64),
    /// Add 1 to a word of the own end.
    Increase(Word),
    /// Take 1 from a word of the own end.
    Decrease(Word),
    /// A full fence: stores before it are visible before loads after it look.
    Fence,
    /// Ask the kernel how many bytes this end has taken from it: [`count::taken`]. Answer [`Saw::Value`], or
    /// [`Saw::Unknown`].
    AskTaken,
    /// Ask the kernel how many bytes this end has given to it: [`count::written`]. Answer [`Saw::Value`], [`Saw::Unknown`] if that
    /// cannot be told now, or [`Saw::Broken`] if it takes no more: the connection is dead, or its writing half was shut down.
    AskWritten,
    /// Ask what the kernel holds for the reader, taking nothing, not even an error (`FIONREAD`; if that says nothing, `poll`, and
    /// `FIONREAD` again if it says readable; never `recv`, which takes the error also with `MSG_PEEK`). Answer [`Saw::Kernel`].
    Count,
    /// Copy ring bytes from this position to the caller's buffer.
    Take {
        /// Position in the ring's sequence.
        at: u64,
        /// How many.
        len: u64,
    },
    /// Copy bytes of the caller to this position of the ring.
    Put {
        /// Position in the ring's sequence.
        at: u64,
        /// How many.
        len: u64,
    },
    /// Read at most so many bytes from the kernel, without waiting. Answer [`Saw::Moved`] or [`Saw::WouldBlock`].
    Receive {
        /// The most that may be read.
        most: u64,
    },
    /// Give so many bytes of the caller to the kernel, without waiting. Answer [`Saw::Moved`], [`Saw::WouldBlock`] or
    /// [`Saw::Broken`].
    Send {
        /// How many are left.
        most: u64,
    },
    /// As [`Do::Send`], but bytes of the ring.
    SendRing {
        /// Position in the ring's sequence.
        at: u64,
        /// How many.
        len: u64,
    },
    /// Let a reader that is at work finish (a few microseconds); answer [`Saw::Woken`]: [`Woken::Timer`] if it must have been
    /// stopped over it.
    Pause,
    /// Wait; answer [`Saw::Woken`], if nothing else is said at [`Wait`].
    Sleep(Wait),
    /// The machine has ended.
    Done(Outcome),
}

/// What came of a [`Do`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Saw {
    /// It is done (also the answer before the first step).
    Nothing,
    /// The value asked for.
    Value(u64),
    /// The kernel's counters do not say (see [`count::taken`]).
    Unknown,
    /// What the kernel holds.
    Kernel(Held),
    /// So many bytes were moved.
    Moved(u64),
    /// The kernel had nothing, or took nothing.
    WouldBlock,
    /// The kernel refused for good.
    Broken,
    /// Why the sleep ended.
    Woken(Woken),
}

/// What the kernel holds for a reader.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Held {
    /// Nothing yet.
    Nothing,
    /// So many bytes (not 0).
    Bytes(u64),
    /// No bytes, and the other end has finished.
    End,
    /// No bytes, and an error.
    Error,
}

/// Why a sleep ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Woken {
    /// What was waited for, or no reason.
    Look,
    /// The other end hung up.
    Hangup,
    /// The caller's timer: the machine does what it does then, and may sleep again.
    Timer,
    /// A signal handler ran, or the call's own time-out passed: the machine ends with [`Outcome::WouldBlock`].
    Stop,
}

/// How a machine ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// So many bytes were moved.
    Moved(u64),
    /// Nothing now: answer as the kernel does (`EAGAIN`, or why the wait was stopped).
    WouldBlock,
    /// Repeat the call on the kernel's descriptor and return its answer: end of stream, or an error.
    Kernel,
    /// Withdrawn: from now on everything comes through the kernel.
    Withdrawn,
    /// As [`Outcome::Withdrawn`], but the writer is still handing back; if it dies before it has, the rest is lost.
    Returning,
    /// Ring bytes are unread and will not come back in time: read them, or reset the connection. Of a writer: the kernel refuses them, so
    /// nothing may be written behind them.
    Unreturned,
    /// The other end's words make no sense, or not all of its bytes can be had: reset the connection.
    Corrupt,
}

/// The ring's positions, checked: what a reader may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Span {
    /// The first byte that is still valid.
    from: u64,
    /// Behind the last.
    to: u64,
}

/// Checks the three positions against each other, whoever wrote them. `None`: no honest end writes these.
#[inline]
fn span(head: u64, base: u64, tail: u64, capacity: u64) -> Option<Span> {
    let from = head.max(base);
    // Nobody publishes what has no room, nor takes what was not published; and no stream is that long.
    let is_sound = from <= tail && tail - from <= capacity && tail < u64::MAX - capacity;
    is_sound.then_some(Span { from, to: tail })
}

/// The kernel says that the other end has finished writing: was it closed with bytes unread, which TCP would call a reset?
///
/// `its_path` is [`Word::Path`] of the direction that ended; the three positions are of the opposite one, which this end
/// writes. An end that only shuts down its writing half says so in its path first, and may go on reading.
#[must_use]
#[inline]
pub fn is_reset(its_path: u64, head: u64, base: u64, tail: u64, capacity: u64) -> bool {
    !matches!(its_path, path::SHUT | path::LAST)
        && span(head, base, tail, capacity).is_none_or(|unread| unread.from < unread.to)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_end_is_a_reset_if_bytes_were_left_unread() {
        assert!(is_reset(path::TCP, 3, 0, 5, 4));
        assert!(!is_reset(path::TCP, 5, 0, 5, 4), "all read");
        assert!(!is_reset(path::RING, 3, 5, 5, 4), "all handed back, so the kernel knows");
        assert!(!is_reset(path::SHUT, 3, 0, 5, 4), "only half closed");
        assert!(!is_reset(path::LAST, 3, 0, 5, 4), "only half closed, with a full kernel");
        assert!(is_reset(path::RING, 6, 0, 5, 4), "words that make no sense");
    }

    #[test]
    fn positions_are_checked_against_each_other() {
        assert_eq!(span(3, 0, 5, 4), Some(Span { from: 3, to: 5 }));
        assert_eq!(span(3, 4, 5, 4), Some(Span { from: 4, to: 5 }));
        assert_eq!(span(0, 0, 5, 4), None, "more than the ring holds");
        assert_eq!(span(6, 0, 5, 4), None, "taken before it was published");
        assert_eq!(span(u64::MAX - 1, 0, u64::MAX, 4), None, "no stream is that long");
    }

    #[test]
    fn the_machines_are_small() {
        // One of each may live on the stack of a call that a program makes from a small stack.
        assert!(size_of::<writer::Writer>() <= 128 && size_of::<reader::Reader>() <= 160);
    }
}
