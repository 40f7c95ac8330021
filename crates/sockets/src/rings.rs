//! Connections within this machine whose bytes go through memory.
//!
//! The kernel's connection stays the descriptor, and whoever sleeps, sleeps there; while both ends are awake,
//! what one writes goes through a ring that the other one reads. How the stream changes between the two
//! without a byte lost or out of order is `stream`; how it is carried out is here:
//!
//! - [`late`]: when a connection is worth it; [`pair`]: how two ends find each other, and prove who they are;
//! - [`io`]: one read or write of the program; [`run`] where it is not the usual one;
//! - [`wait`] and [`epoll`]: waiting for many; [`spin`] and [`pace`]: how long they look before they sleep,
//!   and when not at all; [`blocked`]: waits on the other end's part;
//! - [`leave`]: before something that the library does not see; [`flight`]: writes that have begun before
//!   there was a ring;
//! - [`own`]: descriptors that the library opens for a moment; [`closing`]: numbers that the program is about
//!   to close;
//! - [`forced`]: a ring on each connection at once, for tests;
//! - [`tables`], [`conn`]: what is known, in memory that there is only with `--rings`.

pub(crate) mod blocked;
pub(crate) mod closing;
pub(crate) mod conn;
mod copy;
pub(crate) mod epoll;
pub(crate) mod flight;
pub(crate) mod forced;
mod header;
pub(crate) mod io;
mod kernel;
pub(crate) mod late;
pub(crate) mod leave;
mod lock;
mod maps;
mod native;
pub(crate) mod own;
mod pace;
pub(crate) mod pair;
mod proc;
pub(crate) mod reach;
mod run;
mod spin;
pub(crate) mod tables;
pub(crate) mod wait;

pub(crate) use copy::{Bytes, copy};
pub(crate) use native::Native;
pub(crate) use run::sleep;
pub(crate) use spin::clock;
