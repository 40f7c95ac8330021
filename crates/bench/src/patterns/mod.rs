//! What is measured: each pattern knows how to make one reading of itself and of its reference.
//!
//! The engines ([`pio`], [`scipp::far`]) work on plain windows of memory, so that they can be tested without a cluster;
//! the rest attaches to nodes and hands them the windows of real segments.

pub mod attach;
pub mod pio;
pub mod scipp;
