//! The client of the node manager, in each attached program.
//!
//! What it is for: attaching to a node ([`Client`]), asking its manager for segments and interrupts of any node,
//! and staying attached when the manager is restarted: what the program has made is told to the new one, and
//! what it was connected to is taken up again. Not one byte of payload passes through here.
//!
//! What it must never do: start more than one thread per attachment, need an async runtime, call back while it holds a
//! lock, or let a manager's death reach what is already connected.
//!
//! Where to start reading: [`Client`], then `line` (who listens to the socket), then `library` (the return of a
//! manager). [`Visit`] is the simplest way to ask a manager something.
#![forbid(unsafe_code)]

mod aftermath;
mod book;
mod client;
pub mod copy_plan;
mod error;
mod event;
mod import;
mod interrupts;
mod library;
mod line;
mod options;
mod own_lock;
mod patience;
pub mod runtime_dir;
pub mod seqpacket;
mod share;
mod visit;

/// A limit longer than this is as good as none, and the clock could not show its end.
pub(crate) const LONGEST_LIMIT: std::time::Duration = std::time::Duration::from_secs(100 * 365 * 24 * 3600);

pub use client::Client;
pub use error::{ClientError, Result};
pub use event::{ClientEvent, Sender};
pub use import::{Import, ImportId};
pub use interrupts::{InterruptCreated, InterruptGrant, InterruptOffer, InterruptSockets};
pub use link::page::ImportState;
pub use options::AttachOptions;
pub use own_lock::OwnLock;
pub use visit::{DEFAULT_LIMIT, Visit};
