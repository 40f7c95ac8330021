//! Statistics: estimates, their confidence, and whether two series differ.
//!
//! Start with [`samples`] (one series), then [`paired`] (ours against a reference in alternating
//! blocks: what the verdicts rest on). [`shift`] and [`permutation`] compare two series without
//! assuming a distribution. Nothing here measures: all is arithmetic on given numbers, with a given
//! seed.

pub mod digits;
pub mod order;
pub mod paired;
pub mod permutation;
pub mod samples;
pub mod shift;

pub use order::{Interval, median, median_interval};
pub use paired::{Block, PairedRatio};
pub use samples::{Samples, Summary};
