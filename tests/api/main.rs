//! The Rust API between real node managers.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout)]

mod cancel;
mod dma;
mod fork;
mod group;
mod interrupt;
mod messages;
mod segment;
mod sequence;
mod sharing;

use tieline_tests::Cluster;

/// The helper program.
pub const PEER: &str = env!("CARGO_BIN_EXE_tieline-peer");

fn two_nodes() -> Cluster {
    Cluster::up(2).unwrap()
}
