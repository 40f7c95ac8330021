//! The link between machines: remote memory and doorbells over any provider of libfabric.
//!
//! What it is for: an [`Endpoint`] reaches the memory of its peers by put and get, rings their doorbells by
//! messages, and carries out atomic operations that peers ask for. [`OfiMemory`] is remote memory as every
//! link has it. Which provider is used: [`provider`].
//!
//! What it must never do: wait without limit; let a stranger's message or a peer's death do more than end
//! what concerns that peer; need libfabric before a program opens an end point. It speaks no control
//! protocol: cards ([`card`]) and sessions come from outside, over a connection that knows its other end. On
//! the wire of a provider everything is plain text.
//!
//! Where to start reading: [`endpoint`], then `engine`; unsafe code is in `handles` and `port`.
#![deny(unsafe_code)]

mod atomic;
pub mod card;
mod counts;
pub mod endpoint;
mod engine;
mod error;
mod events;
mod handles;
mod lasting;
mod memory;
mod message;
pub mod peer;
mod port;
mod progress;
pub mod provider;
pub mod rails;
mod random;
mod replies;
mod slots;
mod spin;

pub use card::{EndpointCard, MEMORY_CARD_BYTES, MemoryCard};
pub use endpoint::{Bell, Endpoint, Exported, Settings};
pub use error::{OfiError, Result};
pub use memory::OfiMemory;
pub use message::{ANSWER_WORDS, DATA_BYTES_MAX, Delivery};
pub use peer::Peer;
pub use provider::{Offer, Wanted, offers};
pub use rails::{Fence, Inbox, Opened, Outbox, OwnerRails, Rails, Recover, Reduced, Task, Word};
pub use random::random_u64;

/// A long block goes over rails in chunks of so many bytes.
pub const CHUNK_BYTES: usize = port::SEND_SLOT_BYTES;
