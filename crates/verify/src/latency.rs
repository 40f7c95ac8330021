//! Request/response latency between one pair of nodes, beside the machine's floor.
use serde::Serialize;

use crate::target::Target;
use crate::verdict::Verdict;

/// Half round trip of one pair.
#[derive(Debug, Serialize)]
pub struct LatencyReport {
    /// What came of it.
    pub verdict: Verdict,
}

impl LatencyReport {
    /// In one line.
    pub fn summary(&self) -> String {
        String::new()
    }

    /// As a table.
    pub fn table(&self) -> String {
        String::new()
    }
}

/// Measures.
pub fn run(_target: &Target, _tell: &mut dyn FnMut(&str)) -> Result<LatencyReport, String> {
    Err("not yet".into())
}
