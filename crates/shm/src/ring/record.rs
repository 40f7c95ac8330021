//! Messages with boundaries from one producer to one consumer, usually in two processes.
//!
//! Each side makes its own region ([`ProducerHalf`], [`ConsumerHalf`]), hands its descriptor to the other,
//! and is connected with the descriptor that it got. Either side can only read what the other one owns.
//!
//! A record of up to [`INLINE_BYTES`] lies in one cache line with the word that announces it: one line
//! transfer is the whole cost of a message, and a stream of small ones packs up to seven into each line.
//! Longer records lie in one piece, so both sides can work on them in place ([`Producer::reserve`],
//! [`Consumer::pop_with`]).
//!
//! Nothing here sleeps. A process that wants to sleep attaches a doorbell to the words that are provided for
//! it: [`Consumer::waiter`] with [`Consumer::is_empty`], and [`Producer::ringer`]; for room, the other way
//! round.
//!
//! ```
//! let (mut producer, mut consumer) = shm::ring::record::pair(4096)?;
//! producer.push(b"hello")?;
//! let mut buffer = [0; 64];
//! assert_eq!(consumer.pop_into(&mut buffer)?, Some(5));
//! assert_eq!(&buffer[..5], b"hello");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod consumer;
mod producer;

pub use consumer::{Consumer, ConsumerHalf};
pub use producer::{Claim, Producer, ProducerHalf};

use super::{control, ends};
use crate::Result;

/// Longest record that travels in one cache line with the word that announces it.
pub const INLINE_BYTES: usize = control::SHORT_MAX_BYTES;

/// Both ends in this process, for threads and for tests.
///
/// # Errors
/// As [`ProducerHalf::create`], [`ProducerHalf::connect`].
pub fn pair(capacity_bytes: usize) -> Result<(Producer, Consumer)> {
    let producer = ProducerHalf::create(capacity_bytes)?;
    let consumer = ConsumerHalf::create()?;
    let (for_producer, for_consumer) = (ends::duplicate(consumer.fd())?, ends::duplicate(producer.fd())?);
    Ok((producer.connect(for_producer)?, consumer.connect(for_consumer)?))
}
