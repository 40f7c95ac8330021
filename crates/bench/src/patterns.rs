//! The measured patterns: each makes one reading of itself and one of its reference.
//!
//! The engines ([`pio`], [`scipp::far`], [`ring`]) work on plain windows of memory, so that they
//! can be tested without a cluster; the rest attaches to nodes ([`attach`]) and hands them the
//! windows of real segments.

pub mod arrival;
pub mod attach;
pub mod child_driver;
pub mod connect;
pub mod copies;
pub mod dma;
pub mod dma_bench;
pub mod fleet;
pub mod hosts;
pub mod interrupt;
pub mod intr_bench;
pub mod jitter;
pub mod manager;
pub mod messages;
pub mod ofi;
pub mod overhead;
pub mod pace;
pub mod pio;
pub mod programs;
pub mod provider;
pub mod pt2pt;
pub mod put;
pub mod rendezvous;
pub mod ring;
pub mod ring_rates;
pub mod scibench2;
pub mod scipp;
pub(crate) mod server;
pub mod sisci;
pub mod sizes;
pub mod sockets;
pub mod subnet;
