//! Random programs of socket calls, each run plain and under a preloaded library, and compared.
//!
//! What it is for: whatever a library that stands between programs and the kernel changes for them (a value,
//! an error, a byte, who is woken, what is ready) is found here before a user finds it. Programs are made
//! from a seed, run by real processes and threads, and what differs is cut down to the few calls that it
//! takes.
//!
//! What it must never do: call a difference what is the kernel's own chance; hide one because it is rare;
//! leave a process behind; send anything but on loopback.
//!
//! Where to start reading: [`program`] (what a program is), [`control`] (how its calls are put in order),
//! [`executor`] (how they are made), [`compare`] and [`judge`] (what a difference is), [`generate`],
//! [`shrink`].
#![deny(unsafe_code)]

pub mod campaign;
pub mod compare;
pub mod control;
pub mod executor;
pub mod generate;
pub mod judge;
pub mod known;
pub mod program;
mod random;
pub mod share;
pub mod shared;
pub mod shrink;
#[allow(unsafe_code, reason = "calls C, which is its purpose")]
pub mod sys;
mod weight;
