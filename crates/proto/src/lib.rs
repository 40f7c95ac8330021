//! The control plane without input and output: wire formats and state machines.
//!
//! What it is for: everything that a node manager decides (who may attach, which segment is meant, which
//! session is alive) is decided here, so that it can be tested in memory, with a virtual clock and an
//! adversarial network.
//!
//! What it must never do: read a clock, touch a descriptor, allocate without a bound that a peer cannot
//! move. Time is a parameter ([`time::Instant`]); descriptors are opaque tokens ([`manager::FdToken`]).
//!
//! Where to start reading: [`wire`] (the messages), then [`session`] (is the other manager alive), then
//! [`manager`] (the directory of a node).
#![forbid(unsafe_code)]

pub mod fault;
pub mod ids;
pub mod manager;
pub mod session;
pub mod time;
pub mod wire;
