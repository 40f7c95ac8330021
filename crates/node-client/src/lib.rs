//! The client of the node manager, in each attached program.
//!
//! What it is for: attaching to a node ([`Client`]), requesting segments and interrupts of any node from its
//! manager, and staying attached when the manager is restarted: the client announces the program's objects to
//! the new manager and resumes the program's connections. No payload passes through this crate.
//!
//! What it must never do: start more than one thread per attachment, need an async runtime, call back while
//! it holds a lock, or let a manager's death affect existing connections.
//!
//! Where to start reading: [`Client`], then `connection` (which thread reads the socket), then `library`
//! (re-attachment to a restarted manager). [`BlockingClient`] is the simplest client: one request at a time.
#![forbid(unsafe_code)]

pub mod agent;
mod blocking;
mod client;
mod connection;
pub mod copy_plan;
mod error;
mod event;
mod import;
mod interrupts;
mod late_replies;
mod library;
mod network;
mod options;
mod own_lock;
mod registry;
mod responsiveness;
pub mod runtime_dir;
pub mod seqpacket;
mod share;

/// Longer limits are cut to this one: the clock could not represent their end.
pub(crate) const LONGEST_LIMIT: std::time::Duration = std::time::Duration::from_secs(100 * 365 * 24 * 3600);

pub use blocking::{BlockingClient, DEFAULT_LIMIT};
pub use client::Client;
pub use error::{ClientError, Result};
pub use event::{ClientEvent, Sender};
pub use import::{Import, ImportId};
pub use interrupts::{InterruptCreated, InterruptGrant, InterruptOffer, InterruptSockets};
pub use link::page::ImportState;
pub use network::{ByNetwork, Found, FoundInterrupt, WeakClient};
pub use options::AttachOptions;
pub use own_lock::OwnLock;
