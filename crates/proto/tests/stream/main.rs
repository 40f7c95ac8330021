//! The cut-over of a stream between the kernel and a ring, in all interleavings of small cases and at random in large ones.
//!
//! Start with `world` (what there is), then `steps` (what can happen), then `cases`.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // What is not as expected ends the test.

mod acts;
mod cases;
mod mutants;
mod search;
mod steps;
mod world;
