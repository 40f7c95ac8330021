//! What is measured: each pattern knows how to make one reading of itself and of its reference.
//!
//! The engines ([`pio`], [`scipp::far`], [`ring`]) work on plain windows of memory, so that they can be tested without a
//! cluster; the rest attaches to nodes ([`attach`]) and hands them the windows of real segments.

pub mod attach;
pub mod connect;
pub mod dma;
pub mod interrupt;
pub mod manager;
pub mod pio;
pub mod put;
pub mod ring;
pub mod scipp;
