//! Rings: messages and streams through shared memory, without locks, system calls or extra copies.
//!
//! | ring | producers | keeps boundaries | for |
//! |---|---|---|---|
//! | [`record`] | one | yes | messages between two processes |
//! | [`byte`](mod@byte) | one | no | streams, as sockets carry them |
//! | [`many`] | many, of one user | yes | requests from anybody to one consumer |
//!
//! **Trust.** A peer may be wrong or hostile. Every index, length and state that it can write is checked once
//! and then used; a bad one is a typed error, and the ring is finished for the side that found it. With one
//! producer, each side has its own region, which the other can only read, so neither can do more than lie.
//!
//! **Waiting.** Nothing here waits. Each ring provides the words of a doorbell and a cheap look to be made
//! after arming it.
//!
//! **Where to start.** `control` describes how data lies in memory, `writer` and `reader` hold the protocol
//! of the one-producer rings, `many::state` that of the other. These run on any memory (`words`), so that
//! loom can check every interleaving of them; what is around them maps regions and gives types to errors.
#![cfg_attr(loom, allow(dead_code, reason = "under loom only the algorithms exist, not the regions"))]

mod control;
#[cfg(not(loom))]
mod ends;
#[cfg(not(loom))]
mod mapped;
mod reader;
mod words;
mod writer;

#[cfg(not(loom))]
pub mod byte;
pub mod many;
#[cfg(not(loom))]
pub mod record;

#[cfg(all(test, loom))]
mod tests_loom;

use reader::BadWriter;

/// Why a record was not written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PushError {
    /// There is no room now.
    #[error("the ring is full: try again when the consumer has taken some records")]
    Full,
    /// The ring never takes a record of that size.
    #[error(
        "a record of {len_bytes} bytes is longer than the {max_bytes} bytes that this ring takes: make a larger ring"
    )]
    TooLong {
        /// Size of the record.
        len_bytes: usize,
        /// Largest size that this ring takes.
        max_bytes: usize,
    },
    /// The other side is wrong or hostile.
    #[error("the ring is corrupt: {what} is invalid; close this connection")]
    Corrupt {
        /// What does not make sense.
        what: &'static str,
    },
}

/// Why a record was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PopError {
    /// The buffer is too small; the record is still there.
    #[error(
        "the next record has {record_bytes} bytes and the buffer {buffer_bytes}: take it with a larger buffer"
    )]
    TooSmall {
        /// Size of the record.
        record_bytes: usize,
        /// Size of the buffer.
        buffer_bytes: usize,
    },
    /// The other side is wrong or hostile.
    #[error("the ring is corrupt: found {what}; close this connection")]
    Corrupt {
        /// What was found.
        what: &'static str,
    },
}

/// Why bytes were not moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StreamError {
    /// The other side is wrong or hostile.
    #[error("the ring is corrupt: found {what}; close this connection")]
    Corrupt {
        /// What was found.
        what: &'static str,
    },
}

impl From<BadWriter> for PopError {
    fn from(BadWriter(what): BadWriter) -> Self {
        Self::Corrupt { what }
    }
}

impl From<BadWriter> for StreamError {
    fn from(BadWriter(what): BadWriter) -> Self {
        Self::Corrupt { what }
    }
}
