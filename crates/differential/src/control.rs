//! The controller: gives each actor its turn, detects calls that block, and records the results.

mod lane;
mod stage;
mod tasks;

pub use lane::{Lane, Side};

/// What came of one run.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Log {
    /// Of each step.
    pub results: Vec<String>,
    /// Each process's descriptors at the end, by the actor that it began with.
    pub tables: Vec<(u8, String)>,
    /// How processes ended that ended by themselves.
    pub ends: Vec<(u8, String)>,
}
