//! The SISCI C API: `libsisci.so`.
//!
//! What it is for: existing C and C++ programs compile against `include/sisci`, link with
//! `-lsisci`, and run on nodes of tieline without a changed line.
//!
//! What it must never do: crash or hang because of a wrong argument, follow a handle, hold a lock
//! while it calls the program back, or let a panic out.
//!
//! Where to start reading: [`abi`], the functions themselves; [`handle`], what a program holds;
//! then [`local`] and [`remote`]. The guarantees of each function are in `docs/sisci.md`.
//!
//! Facts of the API (names, values, what programs rely on) come from the public headers of SISCI
//! 1.x and from public programs.

pub mod abi;
mod backing;
pub mod block;
pub mod callback;
pub mod channel;
pub mod code;
pub mod commands;
pub mod connection;
pub mod copy;
pub mod data_interrupt;
pub mod descriptor;
pub mod dma;
pub mod far;
pub mod flags;
pub mod group;
pub mod handle;
pub mod interrupt;
mod last_error;
pub mod library;
pub mod local;
pub mod map;
mod own;
pub mod query;
pub mod register;
pub mod remote;
pub mod sequence;
pub mod share;
mod signal;
mod standard;
pub mod time;
mod worker;
