//! Measures how good routes are, and the effect of a fault on them.
//!
//! All of it examines [`Tables`](crate::routing::Tables) of whatever origin: those that an engine made, or
//! those that were read from a fabric.

pub mod bandwidth;
pub mod compare;
pub mod loads;
mod paths;
pub mod single;
#[cfg(test)]
mod tests;
pub mod what_if;

pub use bandwidth::{Bandwidth, Pattern, bandwidth};
pub use compare::{Comparison, Quality, compare, quality};
pub use loads::{Loads, loads};
pub use single::{SinglePoints, single_points};
pub use what_if::{WhatIf, drain, without};
