//! The traits through which a call reaches its connection: shared words, ring, kernel, the caller's
//! bytes.

use crate::Word;

/// The words that both ends share, one step at a time. In programs these are atomics; in tests also loom's
/// atomics, and a world in which every interleaving is tried.
///
/// Every load is an Acquire (or sequentially consistent) one, every store a Release one; counts are changed
/// by sequentially consistent read-modify-writes.
pub trait Shared {
    /// Why a step was not made: then the call ends at once with this, its locks as they are. Programs that
    /// carry out each step have [`core::convert::Infallible`] here.
    type Stop;

    /// Loads a word.
    fn load(&mut self, word: Word) -> Result<u64, Self::Stop>;

    /// Stores a word of the own end.
    fn store(&mut self, word: Word, value: u64) -> Result<(), Self::Stop>;

    /// Adds 1 to a count of the own end.
    fn increase(&mut self, count: Word) -> Result<(), Self::Stop>;

    /// Takes 1 from a count of the own end.
    fn decrease(&mut self, count: Word) -> Result<(), Self::Stop>;

    /// A full fence: stores before it are visible before loads after it look.
    fn fence(&mut self) -> Result<(), Self::Stop>;
}

/// What a reading process keeps for itself of being parked ([`crate::park`]). Each step is sequentially
/// consistent.
pub trait Process: Shared {
    /// Whether it counts as asleep for longer than a call; 0 if not.
    fn parked(&mut self) -> Result<u64, Self::Stop>;

    /// Changes that, if it is `from`. Whether it was.
    fn exchange_parked(&mut self, from: u64, to: u64) -> Result<bool, Self::Stop>;

    /// How many of its threads read from the kernel in trust of that.
    fn inside(&mut self) -> Result<u64, Self::Stop>;
}

/// One read of a thread in trust of its process being parked. Each step is sequentially consistent.
pub trait Entry {
    /// Why a step does not return: the call ends, and has not read.
    type Stop;

    /// One more is inside.
    fn enter(&mut self) -> Result<(), Self::Stop>;

    /// As [`Process::parked`].
    fn parked(&mut self) -> Result<u64, Self::Stop>;

    /// One less is inside.
    fn exit(&mut self) -> Result<(), Self::Stop>;
}

/// What else a call may do: take locks, copy bytes of the ring, ask the kernel, wait.
pub trait Memory: Shared {
    /// Takes a lock of the own end by a sequentially consistent read-modify-write; the lock of a holder that
    /// is proven dead is free.
    fn lock(&mut self, lock: Word) -> Result<Locked, Self::Stop>;

    /// From here on the interrupted call cannot [`advance`](Memory::advance) a position that it has loaded.
    /// Only with [`Locked::Nested`].
    fn interrupts(&mut self) -> Result<(), Self::Stop>;

    /// With the lock, what the caller keeps from call to call: of a write
    /// [`Write::head`](crate::write::Write::head), of a read [`Read::reached`](crate::read::Read::reached).
    /// `given` is what it was when the call was made. Asked before any byte is put or taken: if the stream
    /// has ended meanwhile, the call stops here.
    #[inline(always)]
    fn kept(&mut self, given: u64) -> Result<u64, Self::Stop> {
        Ok(given)
    }

    /// What comes next is rare: a memory for short calls alone stops here, and nothing behind this is
    /// compiled for it. No step.
    #[inline(always)]
    fn rare(&mut self) -> Result<(), Self::Stop> {
        Ok(())
    }

    /// Releases it.
    fn unlock(&mut self, lock: Word) -> Result<(), Self::Stop>;

    /// Waits until the other end's lock is free (or its holder proven dead): who holds it is at work, and
    /// through in a moment.
    fn wait_until_free(&mut self, lock: Word) -> Result<Free, Self::Stop>;

    /// Moves a position that only the holder of its lock moves: [`Word::Tail`] behind bytes that were put,
    /// [`Word::Head`] behind bytes that were taken. False: since it was loaded a call of a signal handler of
    /// this thread has moved it, or has said that it [`interrupts`](Memory::interrupts); nothing was stored.
    fn advance(&mut self, position: Word, from: u64, to: u64) -> Result<bool, Self::Stop>;

    /// Copies bytes of the caller to this position of the ring.
    fn put(&mut self, at: u64, len: u64) -> Result<(), Self::Stop>;

    /// Copies ring bytes from this position to the caller's buffer.
    fn take(&mut self, at: u64, len: u64) -> Result<(), Self::Stop>;

    /// Whether the call has an inline copy of so many bytes ([`crate::inline`]): it may be made or taken. No
    /// step.
    #[inline(always)]
    fn has_inline(&self, _len: u64) -> bool {
        false
    }

    /// Copies bytes of the caller to the inline copy's place.
    #[inline(always)]
    fn put_inline(&mut self, _len: u64) -> Result<(), Self::Stop> {
        Ok(())
    }

    /// Copies the inline copy to the caller's buffer. Its writer may be changing it: then anything is copied.
    #[inline(always)]
    fn take_inline(&mut self, _len: u64) -> Result<(), Self::Stop> {
        Ok(())
    }

    /// A release fence: what was stored before it is visible to whoever sees what is stored after it.
    #[inline(always)]
    fn order_stores(&mut self) -> Result<(), Self::Stop> {
        Ok(())
    }

    /// An acquire fence: loads before it are made before those after it.
    #[inline(always)]
    fn order_loads(&mut self) -> Result<(), Self::Stop> {
        Ok(())
    }

    /// Asks the kernel how many bytes this end has taken from it ([`crate::count::taken`]).
    fn taken(&mut self) -> Result<Taken, Self::Stop>;

    /// Asks the kernel how many bytes this end has given to it ([`crate::count::written`]).
    fn written(&mut self) -> Result<Written, Self::Stop>;

    /// Asks whether the kernel surely takes so many bytes at once, for as long as it is given nothing else.
    fn takes_all(&mut self, len: u64) -> Result<bool, Self::Stop>;

    /// Asks what the kernel holds for the reader, taking nothing, not even an error (`FIONREAD`; if that says
    /// nothing, `poll`, and `FIONREAD` again if it says readable; never `recv`, which takes the error also
    /// with `MSG_PEEK`).
    fn held(&mut self) -> Result<Held, Self::Stop>;

    /// Reads at most so many bytes from the kernel, without waiting; 0 if it had none.
    fn receive(&mut self, most: u64) -> Result<u64, Self::Stop>;

    /// Gives bytes of the ring to the kernel, without waiting.
    fn send_ring(&mut self, at: u64, len: u64) -> Result<Sent, Self::Stop>;

    /// Waits, holding no lock.
    fn sleep(&mut self, wait: Wait) -> Result<Slept, Self::Stop>;
}

/// How a call has got a lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Locked {
    /// It was free.
    Fresh,
    /// A call of the same thread holds it, which is interrupted by the signal handler that makes this one. It
    /// stays the holder.
    Nested,
}

/// What a wait for a lock of the other end came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Free {
    /// It is free.
    Free,
    /// Its holder must have been stopped over it, by a debugger, say.
    Stopped,
}

/// What was taken from the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Taken {
    /// So many bytes in all.
    Bytes(u64),
    /// Its counters do not say.
    Unknown,
    /// The connection is closed: nothing more comes. Its counters do not say whether a FIN is among the
    /// `received`.
    Closed {
        /// What has come, bytes and a FIN.
        received: u64,
        /// Bytes of it that nobody has taken yet.
        unread: u64,
        /// What was taken as far as the kernel's counters and its answers say.
        otherwise: Option<u64>,
    },
}

/// What the kernel was given.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Written {
    /// So many bytes in all.
    Bytes(u64),
    /// That cannot be told now.
    Unknown,
    /// It takes no more: the connection is dead, or its writing half was shut down.
    Broken,
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
    /// No bytes, and the connection is closed: by a reset, of which the kernel may have told somebody
    /// already, as it does once, or by both ends. What has come in all, bytes and a FIN, tells which
    /// ([`crate::given`]).
    Closed {
        /// Nothing more comes.
        received: u64,
    },
}

/// What the kernel took.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Sent {
    /// So many bytes (not 0).
    Bytes(u64),
    /// Nothing now.
    WouldBlock,
    /// Nothing, for good.
    Broken,
}

/// What a call waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Wait {
    /// The kernel has bytes, an end or an error to read. The readers have said that they sleep, so everything
    /// comes that way: the program's own blocking call does.
    Readable,
    /// The kernel takes bytes.
    Writable,
    /// Readers, who are awake, take bytes of the ring ([`Word::Head`] moves): a short while, spinning.
    /// [`Woken::Timer`] when it was long enough.
    Room,
    /// The writer, who is at work, hands bytes back, or the kernel delivers what comes before the ring's
    /// bytes: a short while, spinning or sleeping. Look at [`Word::Revoke`] and [`Word::Path`] meanwhile,
    /// without the lock: a reader that takes its lock all the time starves the writer that waits for it.
    /// [`Woken::Timer`] when it was too long (readers take it as a reason to look).
    Return,
}

/// What came of a wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Slept {
    /// It ended, for this reason.
    Woken(Woken),
    /// Only of [`Wait::Readable`]: the program's call took so many bytes.
    Moved(u64),
    /// Only of [`Wait::Readable`]: the program's call took an error.
    Broken,
}

/// Why a wait ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Woken {
    /// What was waited for, or no reason.
    Look,
    /// The other end hung up.
    Hangup,
    /// The caller's timer: the call does what it does then, and may sleep again.
    Timer,
    /// A signal handler ran, or the call's own time-out passed: the call ends with
    /// [`crate::Outcome::WouldBlock`].
    Stop,
}
