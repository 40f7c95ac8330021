//! Memory that several processes share: regions, rings, doorbells, copy kernels and the clock that measures
//! them.
//!
//! **What it is for.** All unsafe memory code of the project lives here, behind types whose safe functions
//! cannot be made to read or write outside a region, whatever the other side of the region does.
//!
//! **What it must never do.** Trust a word that a peer can write: every index read from shared memory is
//! checked once and then used. It must not need `std` or an allocator, so that it can run inside a foreign
//! process; it must not make a system call, take a lock or divide between two messages; it must not give
//! anything a name in the file system.
//!
//! **Where to start reading.** [`region`] makes and opens memory, [`window`] reads and writes its bytes,
//! [`shareable`] names the types that may lie in it, [`doorbell`] wakes the other side, [`ring`] moves
//! messages. [`copy`](mod@copy) and [`clock`] are the base of all of them. Anything atomic comes from
//! [`sync`], which loom can replace.
//!
//! ```
//! use shm::region::{Region, RegionOptions};
//!
//! let region = Region::create(&RegionOptions::new("greeting", 4096))?;
//! region.window().put(128, b"hello")?;
//! let mut back = [0; 5];
//! region.window().get(128, &mut back)?;
//! assert_eq!(&back, b"hello");
//! # Ok::<(), shm::Error>(())
//! ```
#![cfg_attr(not(any(test, loom)), no_std)]

// So that `#[derive(Shareable)]`, which names `::shm`, also works inside this crate.
extern crate self as shm;

pub mod adopt;
pub mod clock;
pub mod copy;
pub mod cpu;
pub mod doorbell;
mod error;
pub mod layout;
pub mod lent;
pub mod origin;
pub mod packet;
mod proc_file;
pub mod process;
pub mod region;
pub mod ring;
pub mod shareable;
pub mod socket;
pub mod sync;
#[cfg(all(test, loom))]
mod tests_loom_stacks;
#[cfg(all(test, loom))]
mod tests_loom_stream;
pub mod window;

pub use error::{Error, Result};
pub use shareable::Shareable;
