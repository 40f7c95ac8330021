//! The layout of the statistics file.
//!
//! The file is an array of little-endian words of 64 bits: a page that says which process has which slot,
//! then the slots, one for each process. A slot is a head of counters and a record for each connection. Only
//! the process that has a slot writes it, without locks; a reader sees the values of the moment. The file
//! holds numbers only, and no number is used as an address or an index.
//!
//! Counters of bytes only grow. Those of a record go on growing when another connection gets it, so nothing
//! is ever moved from one place to another while somebody counts there: what a process has moved is the sum
//! over its head and all its records, free ones too.

/// First word of the file: its kind and version.
pub const MAGIC: u64 = u64::from_le_bytes(*b"TLsocks5");
/// Bits of it that are the version.
pub const VERSION_BITS: u64 = 0xff << 56;

/// Bytes of the page that says who has which slot.
pub const HEAD_BYTES: usize = 4096;
/// Processes that can be distinguished.
pub const SLOTS: usize = 256;
/// First word of the owners, each a process's number or 0.
pub const OWNERS: usize = 16;
/// Bytes of a slot.
pub const SLOT_BYTES: usize = 32 << 10;
/// Words of a slot.
pub const SLOT_WORDS: usize = SLOT_BYTES / 8;
/// Bytes of the file.
pub const FILE_BYTES: usize = HEAD_BYTES + SLOTS * SLOT_BYTES;

/// First word of the records in a slot.
pub const RECORDS_AT: usize = 256;
/// Words of a record: a line of the cache for what comes, and one for what goes, as these may be two threads.
pub const RECORD_WORDS: usize = 16;
/// Connections of a process that are distinguished.
pub const RECORDS: usize = (SLOT_WORDS - RECORDS_AT) / RECORD_WORDS;

const _: () = assert!(OWNERS + SLOTS <= HEAD_BYTES / 8 && RECORDS == 240 && SLOT_BYTES.is_multiple_of(4096));

/// Words in the head of a slot.
pub mod head {
    /// Number of the process.
    pub const PID: usize = 0;
    /// Connections of TCP on which something was sent or received.
    pub const CONNECTIONS: usize = 1;
    /// Those of them that have no record of their own, because all were taken.
    pub const UNRECORDED: usize = 2;
    /// 1 if the process has executed another program, which has not used a connection yet.
    pub const LEFT: usize = 3;
    /// First of the counters by reason: those of the first reason, which every connection has at first, are
    /// in the line of the cache that the words before are in.
    pub const REASONS: usize = 4;
    /// Words of a reason.
    pub const REASON_WORDS: usize = 4;
    /// Of a reason: connections that are on TCP for it.
    pub const BECAUSE: usize = 0;
    /// Of a reason: bytes that came through the kernel, of connections that have no record, and of those that
    /// have one, up to when they were last on TCP for another reason.
    pub const KERNEL_IN: usize = 1;
    /// As [`KERNEL_IN`], of bytes that were sent.
    pub const KERNEL_OUT: usize = 2;
    /// First of the counters of notes.
    pub const NOTES: usize = 80;
    /// Bytes of connections without a record that were taken from rings.
    pub const MEMORY_IN: usize = 96;
    /// Bytes of connections without a record that were put into rings.
    pub const PUT: usize = 112;
    /// Bytes of connections without a record that were given from rings to the kernel.
    pub const RETURNED: usize = 113;
    /// Bytes of connections without a record that were given to the kernel beside a ring while their reader
    /// slept.
    pub const ASLEEP: usize = 114;

    /// A counter of a reason, by the reason's number.
    // Inlined: the library in the program is linked from its own code alone.
    #[inline]
    #[must_use]
    pub const fn of(reason: usize, counter: usize) -> usize {
        REASONS + reason * REASON_WORDS + counter
    }
}

/// Words of a record. The counters of bytes are of all connections that have had it.
pub mod record {
    /// The socket's cookie; 0 if the record is free.
    pub const COOKIE: usize = 0;
    /// The descriptor; above it, 32 bits on, the number of the [reason](super::Reason) why it is on TCP; and
    /// how it is counted.
    pub const DESCRIPTOR: usize = 1;
    /// What had come on earlier connections, less what had come on this one before it had the record.
    pub const BEFORE_IN: usize = 2;
    /// The same of what was sent.
    pub const BEFORE_OUT: usize = 3;
    /// Bytes that came through the kernel.
    pub const KERNEL_IN: usize = 4;
    /// Bytes that were taken from a ring.
    pub const MEMORY_IN: usize = 5;
    /// How many of [`KERNEL_IN`] stand with their reason in the head.
    pub const TOLD_IN: usize = 6;
    /// Bytes that were given to the kernel by the program's calls.
    pub const KERNEL_OUT: usize = 8;
    /// Bytes that were put into a ring.
    pub const PUT: usize = 9;
    /// Bytes that this process has given from a ring to the kernel, because their reader did not take them.
    pub const RETURNED: usize = 10;
    /// How many of [`KERNEL_OUT`] stand with their reason in the head.
    pub const TOLD_OUT: usize = 11;
    /// How many of [`KERNEL_OUT`] were given beside a ring, because their reader slept.
    pub const ASLEEP: usize = 12;

    /// In the word of the descriptor: it was there at the fork that made this process, which has counted it
    /// when something was moved.
    pub const INHERITED: u64 = 1 << 62;
    /// In the word of the descriptor: another number of a connection that is counted elsewhere.
    pub const COPY: u64 = 1 << 63;

    /// The number of the reason in the word of the descriptor.
    // Inlined: the library in the program is linked from its own code alone.
    #[inline]
    #[must_use]
    pub const fn reason(descriptor: u64) -> usize {
        (descriptor >> 32) as usize & 0xff
    }
}

/// Why a connection is on TCP, if it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// It has been used too little.
    NotYet,
    /// It is not: it goes through memory.
    Memory,
    /// The other end is looked for.
    Alone,
    /// The other end has not come: it is not under the library, of another user, or elsewhere.
    NoOtherEnd,
    /// This process has not made it, or not alone: it was inherited or received, or has several numbers.
    Inherited,
    /// The program has used it in a way that only the kernel knows, or has it as standard input, output or
    /// error.
    Unseen,
    /// There are as many connections through memory as a process may have.
    TooMany,
    /// The program has done what no connection goes through memory beside: a filter of system calls, memory
    /// shared with a child, input and output that nobody sees.
    Confined,
    /// The program was started without rings, or has no memory for them.
    WithoutRings,
    /// Both ends may run on one and the same processor alone, where no byte would ever go through memory.
    OneProcessor,
}

impl Reason {
    /// All, in the order of their numbers.
    pub const ALL: [Self; 10] = [
        Self::NotYet,
        Self::Memory,
        Self::Alone,
        Self::NoOtherEnd,
        Self::Inherited,
        Self::Unseen,
        Self::TooMany,
        Self::Confined,
        Self::WithoutRings,
        Self::OneProcessor,
    ];

    /// In words.
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            Self::NotYet => "not yet",
            Self::Memory => "through memory",
            Self::Alone => "other end looked for",
            Self::NoOtherEnd => "other end did not come",
            Self::Inherited => "inherited or copied",
            Self::Unseen => "used unseen",
            Self::TooMany => "too many",
            Self::Confined => "program is confined",
            Self::WithoutRings => "started without --rings",
            Self::OneProcessor => "one processor",
        }
    }

    /// Why bytes of such a connection went through the kernel, in words.
    #[must_use]
    pub const fn of_bytes(self) -> &'static str {
        match self {
            Self::Memory => "beside its ring",
            other => other.text(),
        }
    }
}

/// What a program did that a faster way will have to know of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Note {
    /// Another number for a descriptor.
    Copied,
    /// Many descriptors were closed at once.
    ClosedInBulk,
    /// A child was made.
    Forked,
    /// A program was executed.
    Executed,
    /// Descriptors came from another process.
    Received,
    /// A stream of the C library was put on a descriptor.
    Streamed,
    /// The kernel was asked to move bytes by itself (sendfile, splice, asynchronous input and output).
    Moved,
    /// io_uring was used.
    Uring,
    /// The user, the root directory or a limit was changed.
    Confined,
    /// A filter of system calls was set.
    Filtered,
}

impl Note {
    /// All, in the order of their numbers.
    pub const ALL: [Self; 10] = [
        Self::Copied,
        Self::ClosedInBulk,
        Self::Forked,
        Self::Executed,
        Self::Received,
        Self::Streamed,
        Self::Moved,
        Self::Uring,
        Self::Confined,
        Self::Filtered,
    ];

    /// In words.
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            Self::Copied => "descriptor copied",
            Self::ClosedInBulk => "closed in bulk",
            Self::Forked => "child made",
            Self::Executed => "program executed",
            Self::Received => "descriptor received",
            Self::Streamed => "stream on a descriptor",
            Self::Moved => "moved by the kernel",
            Self::Uring => "io_uring",
            Self::Confined => "user, root or limit changed",
            Self::Filtered => "system calls filtered",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_places_in_the_lists() {
        assert!(Note::ALL.iter().enumerate().all(|(at, note)| *note as usize == at));
        assert!(Reason::ALL.iter().enumerate().all(|(at, reason)| *reason as usize == at));
        assert!(head::of(Reason::ALL.len(), 0) <= head::NOTES);
        assert!(head::NOTES + Note::ALL.len() <= head::MEMORY_IN);
        // All that is counted of a connection that is used a few times is in one line of the cache.
        assert!(head::CONNECTIONS < 8 && head::of(Reason::NotYet as usize, head::KERNEL_OUT) < 8);
        const { assert!(head::ASLEEP < RECORDS_AT && record::ASLEEP < RECORD_WORDS) };
    }
}
