//! Hostile programs: whatever they send or scribble, only they themselves suffer.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout)]

mod limits;
mod scribble;
mod socket;

/// The helper program.
pub const PEER: &str = env!("CARGO_BIN_EXE_tieline-peer");
