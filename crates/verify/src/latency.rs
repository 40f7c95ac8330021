//! Request/response latency between one pair of nodes, beside the machine's floor of that moment.
//!
//! The verdict is about the ratio to the floor, not about nanoseconds: a processor that was moved changes both.

use bench::error::BenchError;
use bench::patterns::attach::Where;
use bench::patterns::scipp;
use serde::Serialize;
use tieline::NodeId;

use crate::target::Target;
use crate::verdict::Verdict;

/// Sizes that are shown.
const SIZES_BYTES: [usize; 6] = [0, 4, 64, 512, 4096, 8192];
/// The size that is judged.
const JUDGED_BYTES: usize = 4;
/// Half a round trip of a small message may take so many times the transfer of its line. Measured: 1.0 to 1.1; twice that
/// is something wrong with the program or the machine, not noise.
const LIMIT: f64 = 2.0;

/// Half round trips of one pair.
#[derive(Debug, Serialize)]
pub struct LatencyReport {
    /// What came of it.
    pub verdict: Verdict,
    /// Half a round trip of 4 bytes over that of the cache line that carries it.
    pub ratio_to_floor: Option<f64>,
    /// That ratio may be at most this.
    pub limit: f64,
    /// What was measured.
    pub scipp: scipp::Report,
}

impl LatencyReport {
    /// In one line.
    pub fn summary(&self) -> String {
        let nodes = self.scipp.nodes;
        match (self.judged(), self.ratio_to_floor) {
            (Some(row), Some(ratio)) => format!(
                "nodes {} and {}: {:.0} ns half round trip of 4 B, {ratio:.2} x the floor (limit {LIMIT:.1}), {} of {} readings disturbed",
                nodes[0],
                nodes[1],
                ratio * row.line_floor_ns,
                row.disturbed,
                row.readings,
            ),
            _ => format!("nodes {} and {}: too few samples", nodes[0], nodes[1]),
        }
    }

    /// The link, if it is too slow beside a machine that held still.
    pub fn bad_link(&self) -> Option<([NodeId; 2], String)> {
        let [a, b] = self.scipp.nodes.map(|node| NodeId::new(node).ok());
        let link = [a?.min(b?), a?.max(b?)];
        (self.verdict == Verdict::Fail).then(|| (link, format!("latency: {}", self.summary())))
    }

    /// As a table.
    pub fn table(&self) -> String {
        self.scipp.to_text()
    }

    fn judged(&self) -> Option<&scipp::Row> {
        self.scipp.rows.iter().find(|row| row.size_bytes == JUDGED_BYTES)
    }
}

/// Why there is no report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NotMeasured {
    /// This machine, as this process may use it, cannot measure it; that says nothing about the cluster.
    Impossible(String),
    /// It was tried and failed.
    Failed(String),
    /// It was tried and failed between these two nodes.
    Link([NodeId; 2], String),
}

impl NotMeasured {
    fn between(link: [NodeId; 2], error: BenchError) -> Self {
        match error {
            BenchError::TooFewCpus { allowed, .. } => Self::Impossible(format!(
                "latency is measured between two processors, and this process may use {allowed:?} only: \
                 run it with more (taskset, cpuset)"
            )),
            error if error.speaks_against_the_link() => Self::Link(link, error.to_string()),
            other => Self::Failed(other.to_string()),
        }
    }
}

/// Measures between the first two nodes.
pub fn run(target: &Target, tell: &mut dyn FnMut(&str)) -> Result<LatencyReport, NotMeasured> {
    let [near, far, ..] = target.nodes.as_slice() else {
        return Err(NotMeasured::Failed("two nodes are needed".into()));
    };
    let options = scipp::Options {
        place: Where {
            runtime_dir: target.runtime_dir.clone(),
            cluster: target.cluster.clone(),
            near: Some(*near),
            far: Some(*far),
        },
        sizes_bytes: SIZES_BYTES.to_vec(),
        ..scipp::Options::default()
    };
    tell(&format!("scipp: nodes {near} and {far}"));
    let link = [*near.min(far), *near.max(far)];
    let scipp = scipp::run(&options, &mut bench::progress::Quiet)
        .map_err(|error| NotMeasured::between(link, error))?;
    Ok(judge(scipp))
}

fn judge(scipp: scipp::Report) -> LatencyReport {
    let mut report =
        LatencyReport { verdict: Verdict::Inconclusive, ratio_to_floor: None, limit: LIMIT, scipp };
    let Some(row) = report.judged() else { return report };
    let calm = row.disturbed * 2 <= row.readings;
    let p50_ns = row.half_rtt.as_ref().map(|half| half.p50_ns.unwrap_or(half.mean_ns));
    let ratio = p50_ns.filter(|_| row.line_floor_ns > 0.0).map(|p50| p50 / row.line_floor_ns);
    report.verdict = match ratio {
        Some(ratio) if ratio <= LIMIT => Verdict::Pass,
        // Too slow while the machine itself held still.
        Some(_) if calm => Verdict::Fail,
        _ => Verdict::Inconclusive,
    };
    report.ratio_to_floor = ratio;
    report
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_processor_is_no_failure_of_the_cluster() {
        let link = [4, 8].map(|node| NodeId::new(node).unwrap());
        let lacking = NotMeasured::between(link, BenchError::TooFewCpus { what: "scipp", allowed: vec![0] });
        let NotMeasured::Impossible(why) = lacking else { panic!("{lacking:?}") };
        assert!(why.contains("two processors") && why.contains("[0]") && !why.contains("--cpus"), "{why}");
        let broken = NotMeasured::between(link, BenchError::Cluster("gone".into()));
        assert!(matches!(broken, NotMeasured::Failed(_)));
        let silent = NotMeasured::between(link, BenchError::NoAnswer { what: "scipp", seconds: 1 });
        assert!(matches!(silent, NotMeasured::Link(named, _) if named == link), "{silent:?}");
    }
}
