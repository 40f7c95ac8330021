//! The side that runs programs: gives each actor its turn, sees which calls block, and writes down what came of all.

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
