//! Searches the protocol of a stream that changes between the kernel and a ring: all interleavings of small
//! cases, and random runs of large ones.
//!
//! Start with `world` (what there is), then `choices` (what can happen) and `steps` (what comes of it), then
//! `cases`.
// What is not as expected ends the test; how much was searched is printed.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

mod acts;
mod cases;
mod choices;
mod closed;
mod fingerprint;
mod handlers;
mod hostile;
mod mutant_cases;
mod mutants;
mod outcomes;
mod random;
mod replay;
mod resets;
mod search;
mod steps;
mod whole;
mod world;
