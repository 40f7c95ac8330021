//! Messages with boundaries from many producers of one user to one consumer.
//!
//! The consumer makes two regions: the slots, which all producers may write, and its own words, which they
//! can only read. A message goes into a slot: a producer claims one ([`Producer::claim`]), fills it and
//! commits or discards it. Messages of one producer arrive in the order of its claims.
//!
//! **A producer that dies between claim and commit** leaves a slot in the way. The claim names its owner in
//! the same atomic step that takes the slot, so it is always known whose it is: the consumer is told
//! ([`Popped::Pending`]), asks that process's [`crate::process::PidFd`], and with the proof of its death
//! throws the claim away ([`Consumer::discard_claims`]). A slow producer is waited for, however long it
//! takes; nothing is ever guessed.
//!
//! **Trust.** All producers belong to one user and could scribble over each other's messages. What that can
//! do is lose or forge messages in this ring, or end it with a typed error; the consumer takes no index from
//! it.
//!
//! ```
//! use shm::ring::many::{self, Popped};
//!
//! let (mut consumer, first) = many::pair(64, 240)?;
//! let second = consumer.add_local(1)?;
//! first.send(b"from one")?;
//! second.send(b"from another")?;
//! let mut buffer = [0; 240];
//! assert_eq!(consumer.pop_into(&mut buffer)?, Popped::Taken { value: 8, producer: 0 });
//! assert_eq!(consumer.pop_into(&mut buffer)?, Popped::Taken { value: 12, producer: 1 });
//! assert_eq!(consumer.pop_into(&mut buffer)?, Popped::Empty);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub(super) mod slots;
pub(super) mod state;
pub(super) mod taker;

#[cfg(not(loom))]
mod consumer;
#[cfg(not(loom))]
mod producer;

#[cfg(not(loom))]
pub use consumer::{Consumer, pair};
#[cfg(not(loom))]
pub use producer::{Claim, Producer};

/// Which producer: given out by a process that introduces producers to the consumer. It may be given to
/// another process when the first one is proven dead and its claims have been discarded.
pub type ProducerId = u16;

/// What a consumer found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Popped<T> {
    /// A message.
    Taken {
        /// Its length in bytes, or what the caller made of it.
        value: T,
        /// The claimed sender.
        producer: ProducerId,
    },
    /// There is none.
    Empty,
    /// The next one is being written by this producer. If that lasts, ask its process descriptor whether it
    /// has died.
    Pending(ProducerId),
}

/// Why no slot was claimed, or a claim was not committed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ClaimError {
    /// No slot is free now (or the others were faster again and again).
    #[error("all slots are taken: try again when the consumer has taken some messages")]
    Full,
    /// The message does not fit a slot.
    #[error(
        "a message of {len_bytes} bytes does not fit a slot of {slot_bytes} bytes: send it in pieces, or make larger slots"
    )]
    TooLong {
        /// Size of the message.
        len_bytes: usize,
        /// Payload size of the slots.
        slot_bytes: usize,
    },
    /// The consumer discarded the claim, because it was told that this producer is dead; the message was not
    /// sent.
    #[error(
        "the claim was discarded by the consumer, which assumed that this producer had died: attach again with a new producer id"
    )]
    Lost,
    /// The slots hold values that no producer writes.
    #[error("the ring is corrupt: found {what}; close this connection")]
    Corrupt {
        /// What was found.
        what: &'static str,
    },
}
