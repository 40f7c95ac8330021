//! Request/response latency between one pair of nodes, next to the machine's baseline at that
//! moment.
//!
//! The verdict is about the ratio to the baseline, not about nanoseconds: a processor that was moved changes
//! both.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bench::cpus::ranges;
use bench::error::BenchError;
use bench::noise::others::{Load, Meter};
use bench::patterns::attach::Where;
use bench::patterns::scipp;
use bench::progress::{Progress, Waiter};
use bench::stats::{Interval, median, median_interval};
use serde::Serialize;
use shm::sync::{AtomicBool, Ordering};
use tieline::NodeId;

use crate::agreement::settle;
use crate::late::is_only_late_there;
use crate::target::Target;
use crate::verdict::Verdict;

/// Sizes that are shown.
const SIZES_BYTES: [usize; 6] = [0, 4, 64, 512, 4096, 8192];
/// The size that is judged.
const JUDGED_BYTES: usize = 4;
/// Half a round trip of a small message may take so many times the transfer of its line: from then on it is
/// as if the line went over twice. That is a definition; what is chance is read off the readings.
const LIMIT: f64 = 2.0;
/// The excess must lie beyond so many standard deviations of the line's own transfer.
const SCATTERS: f64 = 5.0;
/// Readings of a further measurement of the judged size.
const READINGS_AGAIN: u32 = 31;
/// All measurements together take so long at most: many times what they take where nothing else is at work.
const LONGEST: Duration = Duration::from_secs(20);
/// How often an end is asked for while round trips are under way.
const LOOK: Duration = Duration::from_millis(20);

/// Half round trips of one pair.
#[derive(Debug, Serialize)]
pub struct LatencyReport {
    /// What came of it.
    pub verdict: Verdict,
    /// Half a round trip of 4 bytes over that of the cache line that carries it: median of the readings'
    /// ratios.
    #[serde(rename = "ratio_to_floor")]
    pub ratio_to_baseline: Option<f64>,
    /// The 95 % interval of that.
    pub ratio_ci95: Option<Interval>,
    /// That ratio may be at most this.
    pub limit: f64,
    /// The result of each measurement of the judged size; a first that passes is the only one.
    pub looks: Vec<Verdict>,
    /// What other work took away meanwhile.
    pub load: Load,
    /// What was measured.
    pub scipp: scipp::Report,
}

impl LatencyReport {
    /// In one line.
    pub fn summary(&self) -> String {
        let [near, far] = self.scipp.nodes;
        let mut text = match (self.judged(), self.ratio_to_baseline) {
            (Some(row), Some(ratio)) => {
                let interval = self
                    .ratio_ci95
                    .map_or(String::new(), |ci| format!("95 %: {:.2} to {:.2}, ", ci.low, ci.high));
                format!(
                    "nodes {near} and {far}: {:.0} ns half round trip of 4 B, {ratio:.2} x the baseline ({interval}limit {LIMIT:.1}), {} of {} readings disturbed",
                    ratio * row.line_baseline_ns,
                    row.disturbed,
                    row.readings,
                )
            }
            _ => format!(
                "nodes {near} and {far}: too few readings without an interruption (the machine is busy)"
            ),
        };
        if self.looks.len() > 1 {
            let looks: Vec<String> = self.looks.iter().map(ToString::to_string).collect();
            text.push_str(&format!(", measured {} times ({})", looks.len(), looks.join(", ")));
        }
        text
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
        judged_row(&self.scipp)
    }
}

fn judged_row(scipp: &scipp::Report) -> Option<&scipp::Row> {
    scipp.rows.iter().find(|row| row.size_bytes == JUDGED_BYTES)
}

/// Why there is no report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NotMeasured {
    /// This machine, as this process may use it, cannot measure it; that does not concern the cluster.
    Impossible(String),
    /// Other work kept it from being measured, as the text says.
    Busy(String),
    /// It was tried and failed.
    Failed(String),
    /// It was tried and failed between these two nodes.
    Link([NodeId; 2], String),
}

impl NotMeasured {
    fn between(link: [NodeId; 2], error: BenchError, load: Load) -> Self {
        match (error, load.reason()) {
            (BenchError::TooFewCpus { allowed, .. }, _) => Self::Impossible(format!(
                "latency is measured between two processors, and this process may use {} only: \
                 run it with more (taskset, cpuset)",
                ranges(&allowed)
            )),
            // A thread without a processor does not respond.
            (error, Some(reason))
                if is_only_late_there(&error) || matches!(error, BenchError::Stopped { .. }) =>
            {
                Self::Busy(format!("{error}; {reason}"))
            }
            (error, _) if error.speaks_against_the_link() => Self::Link(link, error.to_string()),
            (other, _) => Self::Failed(other.to_string()),
        }
    }
}

/// Told and asked by the benchmark, on its own threads.
struct Heard<'a> {
    tell: &'a mut (dyn FnMut(&str) + Send),
    over: Arc<Over>,
}

/// The end is asked for, or the time is over.
#[derive(Default)]
struct Over(AtomicBool);

impl Waiter for Over {
    fn stop(&self) -> bool {
        // Relaxed: nothing is published with it.
        self.0.load(Ordering::Relaxed)
    }
}

impl Progress for Heard<'_> {
    fn tell(&mut self, what: &str, share: f64) {
        (self.tell)(&format!("scipp: {:.0} %, {what}", 100.0 * share));
    }

    fn stop(&self) -> bool {
        self.over.stop()
    }

    fn waiter(&self) -> Arc<dyn Waiter> {
        Arc::<Over>::clone(&self.over)
    }
}

/// Measures between the first two nodes; `stop` may ask for an early end.
pub fn run(
    target: &Target,
    tell: &mut (dyn FnMut(&str) + Send),
    stop: &(dyn Fn() -> bool + Sync),
) -> Result<LatencyReport, NotMeasured> {
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
    let (meter, over, until) = (Meter::start(), Arc::new(Over::default()), Instant::now() + LONGEST);
    let (done, mut heard) = (AtomicBool::new(false), Heard { tell, over: Arc::clone(&over) });
    std::thread::scope(|scope| {
        // The measuring threads spin for each other, and check only `over`.
        let watch = || {
            while !done.load(Ordering::Relaxed) {
                over.0.fetch_or(stop() || Instant::now() >= until, Ordering::Relaxed);
                std::thread::sleep(LOOK);
            }
        };
        // Without that thread it cannot be ended early, which is no reason not to measure.
        drop(std::thread::Builder::new().name("scipp-end".into()).spawn_scoped(scope, watch));
        let report = measure(&options, &mut heard, &meter, link);
        done.store(true, Ordering::Relaxed);
        report
    })
}

fn measure(
    options: &scipp::Options,
    heard: &mut Heard<'_>,
    meter: &Meter,
    link: [NodeId; 2],
) -> Result<LatencyReport, NotMeasured> {
    let first =
        scipp::run(options, heard).map_err(|error| NotMeasured::between(link, error, meter.read()))?;
    let (first_look, mut report) = (look(&first), report(first));
    report.looks.push(first_look.verdict);
    report.take(&first_look);
    let again = scipp::Options {
        sizes_bytes: vec![JUDGED_BYTES],
        readings: READINGS_AGAIN,
        argv: Vec::new(),
        ..options.clone()
    };
    let looks = &mut report.looks;
    let mut last = None;
    let mut verdict = settle(first_look.verdict, |_| {
        if heard.stop() {
            return None;
        }
        // A failure of this measurement is no reading; the first one is there.
        let look = look(&scipp::run(&again, heard).ok()?);
        looks.push(look.verdict);
        last = Some(look);
        last.as_ref().map(|look| look.verdict)
    });
    report.load = meter.read();
    if report.load.is_busy() {
        verdict = verdict.min(Verdict::Inconclusive);
    }
    // The deciding reading is reported.
    if let Some(look) = last {
        report.take(&look);
    }
    report.verdict = verdict;
    Ok(report)
}

fn report(scipp: scipp::Report) -> LatencyReport {
    LatencyReport {
        verdict: Verdict::Inconclusive,
        ratio_to_baseline: None,
        ratio_ci95: None,
        limit: LIMIT,
        looks: Vec::new(),
        load: Load::default(),
        scipp,
    }
}

impl LatencyReport {
    fn take(&mut self, look: &Look) {
        (self.ratio_to_baseline, self.ratio_ci95) = (look.ratio, look.ratio_ci95);
    }
}

/// The result of one measurement of the judged size.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Look {
    ratio: Option<f64>,
    ratio_ci95: Option<Interval>,
    verdict: Verdict,
}

fn look(scipp: &scipp::Report) -> Look {
    match judged_row(scipp) {
        Some(row) => {
            let pairs: Vec<[f64; 2]> = row.pairs.iter().map(|block| [block.ours, block.reference]).collect();
            look_at(&pairs, row.disturbed as usize)
        }
        None => Look { ratio: None, ratio_ci95: None, verdict: Verdict::Inconclusive },
    }
}

/// Of readings, each beside the line's own transfer at the same moment on the same line, and of how many
/// during which that moved. Medians of all readings and of all baselines would not do: where the processors
/// are moved, they are of different moments, and so the one may be twice the other.
fn look_at(readings: &[[f64; 2]], disturbed: usize) -> Look {
    let ratios: Vec<f64> = readings.iter().map(|[ours, baseline]| ours / baseline).collect();
    let excess: Vec<f64> = readings.iter().map(|[ours, baseline]| ours - baseline).collect();
    let baselines: Vec<f64> = readings.iter().map(|[_, baseline]| *baseline).collect();
    let (ratio, ratio_ci95) = (median(&ratios), median_interval(&ratios));
    let calm = disturbed <= readings.len();
    let verdict = match (ratio_ci95, median_interval(&excess)) {
        (Some(ci), _) if ci.high <= LIMIT => Verdict::Pass,
        (Some(ci), Some(excess)) if ci.low > LIMIT && calm && excess.low > SCATTERS * scatter(&baselines) => {
            Verdict::Fail
        }
        _ => Verdict::Inconclusive,
    };
    Look { ratio, ratio_ci95, verdict }
}

/// A robust standard deviation.
fn scatter(values: &[f64]) -> f64 {
    let middle = median(values).unwrap_or(0.0);
    let apart: Vec<f64> = values.iter().map(|value| (value - middle).abs()).collect();
    1.4826 * median(&apart).unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_processor_is_no_failure_of_the_cluster() {
        let link = [4, 8].map(|node| NodeId::new(node).unwrap());
        let between = |error, load| NotMeasured::between(link, error, load);
        let quiet = Load::default();
        let lacking = between(BenchError::TooFewCpus { what: "scipp", allowed: vec![0] }, quiet);
        let NotMeasured::Impossible(why) = lacking else { panic!("{lacking:?}") };
        assert!(
            why.contains("two processors") && why.contains("may use 0 only") && !why.contains("--cpus"),
            "{why}"
        );
        let broken = between(BenchError::Cluster("gone".into()), quiet);
        assert!(matches!(broken, NotMeasured::Failed(_)));
        let silent = |load| between(BenchError::NoAnswer { what: "scipp", seconds: 1 }, load);
        assert!(matches!(silent(quiet), NotMeasured::Link(named, _) if named == link));
        let load = Load { processors: 2, others_percent: Some(70.0), waited_percent: None };
        let NotMeasured::Busy(why) = silent(load) else { panic!("{:?}", silent(load)) };
        assert!(why.contains("other work used 70 % of the 2 processors"), "{why}");
    }

    /// Readings as one machine gave them whose line takes 25 ns or 55, as its processors are moved.
    #[test]
    fn a_line_that_changes_its_price_between_readings_is_no_slow_link() {
        let mut readings: Vec<[f64; 2]> = (0..6).map(|_| [58.0, 55.0]).collect();
        readings.extend([[28.0, 25.0]; 5]);
        let look = look_at(&readings, 4);
        assert_eq!(look.verdict, Verdict::Pass, "{look:?}");
    }

    #[test]
    fn jitter_of_a_fast_line_is_in_doubt_and_no_failure() {
        // 30 ns and 25 of jitter, on either side.
        let jittery: Vec<[f64; 2]> =
            (0..15).map(|n| [92.0 + f64::from(n % 3), 30.0 + f64::from(n % 5) * 6.0]).collect();
        assert_eq!(look_at(&jittery, 0).verdict, Verdict::Inconclusive);
        // The same ratio on a line of 70 ns that holds still is a fault, and is one where the line takes 30.
        for baseline in [30.0, 70.0] {
            let steady: Vec<[f64; 2]> =
                (0..15).map(|n| [2.4 * baseline + f64::from(n % 3), baseline + f64::from(n % 2)]).collect();
            assert_eq!(look_at(&steady, 0).verdict, Verdict::Fail, "{baseline}");
            assert_eq!(look_at(&steady, 16).verdict, Verdict::Inconclusive, "mostly disturbed");
            let slow: Vec<[f64; 2]> =
                (0..11).map(|n| [2000.0 + baseline, baseline + f64::from(n % 5) * 5.0]).collect();
            assert_eq!(look_at(&slow, 4).verdict, Verdict::Fail, "{baseline}");
        }
        assert_eq!(look_at(&[[200.0, 30.0]; 5], 0).verdict, Verdict::Inconclusive, "too few");
        assert_eq!(look_at(&[], 15).verdict, Verdict::Inconclusive);
    }
}
