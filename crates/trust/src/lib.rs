//! The cluster's own authority, and authenticated channels between the node managers of different hosts.
//!
//! What it is for: `tieline cluster init` makes an [`authority`]; a one-time [`token`] lets a node [`join`];
//! with its certificate the node has an [`identity`]; a [`channel`] carries records between two identities
//! over TLS 1.3. A [`revocation_list`] takes certificates back.
//!
//! What it must never do: open a socket, read the monotonic clock (time is a parameter), send without
//! encryption, accept a side that has not proved which node it is, or buffer more than a peer may send at
//! once.
//!
//! Where to start reading: [`channel`], then [`identity`] and [`authority`]; [`store`] says what lies where
//! on disk.
#![forbid(unsafe_code)]

pub mod authority;
pub mod channel;
mod error;
mod hex;
pub mod hosts;
pub mod identity;
mod issued;
pub mod join;
pub mod leave;
mod pinned;
pub mod renew;
pub mod revocation_list;
pub mod revocations;
pub mod revoke;
pub mod room;
pub mod store;
pub mod token;
mod unfinished;

pub use error::{Result, TrustError};
