//! The protocol of one direction of a TCP connection within a machine, some of whose bytes go
//! through a ring in shared memory.
//!
//! What it is for: everything that decides where a byte goes and when it is due. The same functions run in
//! programs, on atomics in every interleaving that the memory model allows, and in a search through all
//! interleavings of small cases: they are generic over [`Memory`], through which each load, store and system
//! call goes.
//!
//! What it must never do: allocate, panic, read a clock, believe the other end's words. How long to spin
//! before a sleep, and when a timer ends one, is the caller's.
//!
//! The protocol, with its reasons, is in `docs/stream-cut-over.md`. In short:
//!
//! - The stream is a merge of two sequences of bytes: those that the kernel carries (positions counted by the
//!   kernel itself: [`count`]) and those of the ring (positions from 0, never going back).
//! - The writer publishes one number, [`Word::SwitchOver`]: the ring's bytes are due once the reader has
//!   taken that many bytes from the kernel. It moves only while the ring is empty, or when unread bytes are
//!   handed back to the kernel.
//! - The reader has one rule: *count what the kernel holds, then look at the ring; if nothing of the ring is
//!   due, what was counted may be read.* End of stream and errors of the kernel obey the same rule, so they
//!   come in TCP's place.
//!
//! Where to start reading: [`words`], then [`mod@write`], [`open`] and [`back`], then [`read`].
//! [`plain`] is a write that goes to the kernel; [`given`] tells an end from a reset; [`park`] is a
//! reader that counts as asleep for longer than a call; [`withdraw`] is for a reader that is about
//! to do what the library cannot see.
#![forbid(unsafe_code)]

pub mod back;
pub mod count;
pub mod given;
pub mod memory;
pub mod open;
pub mod park;
pub mod plain;
pub mod read;
pub mod withdraw;
pub mod words;
pub mod write;

pub use self::memory::{
    Entry, Free, Held, Locked, Memory, Process, Sent, Shared, Slept, Taken, Wait, Woken, Written,
};
pub use self::words::{Word, consent, inline, path};

/// How a call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// So many bytes were moved.
    Moved(u64),
    /// Nothing now: answer as the kernel does (`EAGAIN`, or why the wait was stopped).
    WouldBlock,
    /// Of a read: repeat the call on the kernel's descriptor and return its answer, which is the end of the
    /// stream or an error. Of a write: what is left to write goes through the kernel, by [`plain::write`].
    Kernel,
    /// Withdrawn: from now on everything comes through the kernel.
    Withdrawn,
    /// As [`Outcome::Withdrawn`], but the writer is still handing back; if it dies before it has, the rest is
    /// lost.
    Returning,
    /// Ring bytes are unread and will not come back in time: read them, or reset the connection. Of a writer:
    /// the kernel refuses them, so nothing may be written behind them.
    Unreturned,
    /// The other end's words make no sense, or not all of its bytes can be had: reset the connection.
    Corrupt,
}

/// What came of one attempt at a call. Attempts that end with [`Shared::Stop`] instead are errors of the
/// caller's, and may hold a lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Step {
    /// Attempt it again. What was seen is not believed any more, but for what the call keeps.
    Again,
    /// It has ended; no lock is held.
    Ends(Outcome),
}

impl Step {
    /// `Ends(Moved(count))`.
    #[inline(always)]
    fn moved(count: u64) -> Self {
        Self::Ends(Outcome::Moved(count))
    }
}
