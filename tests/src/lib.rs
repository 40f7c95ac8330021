//! Tests of the whole: real managers, real programs, real deaths.
//!
//! What it is for: the harness of the tests in this package. A [`Cluster`] is a set of node managers in
//! processes of their own, in a runtime directory of its own; a [`Peer`] is a program of its own that can be
//! talked to by lines and killed.
//!
//! What it must never do: touch a process that it did not start, or leave one behind.
//!
//! Where to start reading: [`Cluster::up`]; then the tests in `api/`, `crash/`, `hostile/`, `cli/`.
#![forbid(unsafe_code)]

pub mod cluster;
pub mod dispositions;
pub mod executable;
pub mod leftovers;
pub mod peer;
pub mod random;
pub mod watchdog;

pub use cluster::Cluster;
pub use peer::Peer;
pub use random::Random;
pub use watchdog::Watchdog;
