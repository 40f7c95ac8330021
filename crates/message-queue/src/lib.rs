//! Messages between end points, matched by source and tag: the engine below the interfaces for programs.
//!
//! **What it is for.** An [`Endpoint`] sends to others and receives from them, by the rules of MPI and
//! libfabric. A short message goes into the receiver's ring in one cache line with the word that announces
//! it; a long one is fetched by its receiver. [`MessageQueue`] adds requests that can be tested and waited
//! for. An end point belongs to one thread at a time and takes no lock; [`SharedQueue`] puts one around it.
//!
//! **What it must never do.** Trust a word that a peer can write; wait inside a call that does not say so;
//! let one peer's death or silence keep another peer's messages from going on; allocate, hash for safety
//! or enter the kernel for a short message, but to wake a receiver that sleeps.
//!
//! **Not there yet.** Sleeps that are ended by a peer's end, or by room for a send that waits: a sleeper
//! looks for the former by itself, and does not sleep for long where it waits for the latter.
//!
//! **Where to start reading.** [`endpoint`] is the whole of it: `endpoint/send.rs` and `endpoint/arrive.rs`
//! are the two ends of a message, `endpoint/cut.rs` those of one in several records. [`matching`] decides
//! which receive gets which message, `wire` is what lies in the rings, [`lane`] what carries it, [`meet`] how
//! two end points find each other, `limits` how much is kept, `inboxes` who is listened to,
//! `paths` which way long messages come, `queue/waiting.rs` how a call waits.
#![forbid(unsafe_code)]

pub mod alarm;
pub mod buffers;
pub mod completion;
pub mod endpoint;
mod error;
mod inboxes;
mod keyed;
pub mod lane;
mod limits;
pub mod matching;
pub mod meet;
pub mod name;
mod order;
mod paths;
mod peer;
mod queue;
mod requests;
pub mod settings;
mod shared;
mod slab;
mod wire;

pub use alarm::{Alarm, Armed};
pub use buffers::Buffers;
pub use endpoint::Direct;
pub use endpoint::{Endpoint, Space};
pub use error::Error;
pub use matching::{Envelope, PeerId, Want};
pub use name::Name;
pub use queue::waiting::{Patience, Waiting};
pub use queue::{DIRECT_LOOKS, MessageQueue, Persistent};
pub use requests::{Request, Status};
pub use settings::{Fetch, Settings};
pub use shared::SharedQueue;
