//! `libtieline-sockets.so`: preloaded into an unmodified program, it wraps each call on a
//! descriptor, passes it to the next definition of the same name (another preloaded library's or
//! the C library's), and keeps a table of all descriptors.
//!
//! What it is for: unmodified programs over faster ways. Without `tieline run --rings` everything still ends
//! in the kernel; what the table knows is told by `tieline sockets status`.
//!
//! What it must never do: differ, for the program, from its own absence. So in an interposer there is no
//! allocation, no thread, no thread-local variable, no print, no panic, no change of errno that the next
//! definition did not make, and no lock but those of a ring, which a process that dies in them leaves behind
//! unharmed. Interposers run in signal handlers, between `vfork` and `exec`, before any constructor, and
//! after a seccomp filter was set. Where it still falls short is in `docs/sockets.md`.
//!
//! Where to start reading: [`interposer`], which says what an interposer is; [`seen`], what interposers tell;
//! [`table`], what is known; [`rings`], bytes that go through memory. The reasons are in
//! `docs/adr/0005-in-the-program.md`.
#![no_std]

// For its panic handler alone, which nothing reaches, and for tests. What is installed is linked without it
// (`build.sh`).
extern crate std;

mod cancel;
mod elf;
mod environment;
mod filter;
mod holder;
mod interposer;
mod interposers;
mod near;
mod page;
#[cfg(feature = "planted")]
mod planted;
mod raw;
mod rings;
mod seen;
mod state;
mod sync;
mod table;
#[cfg(test)]
mod tests;
