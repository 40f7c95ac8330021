//! Measures the curves of one pair for the report, each as its own command would print it.

use bench::error::BenchError;
use bench::noise::others::Meter;
use bench::patterns::attach::Where;
use bench::patterns::{dma_bench, intr_bench, jitter, scibench2};
use bench::progress::Progress;
use serde::Serialize;
use serde_json::Value;
use tieline::NodeId;

use super::Control;
use super::depth::Curves;
use crate::late::is_only_late_there;
use crate::target::Target;

/// What there is of it.
#[derive(Debug, Default)]
pub(super) struct Measured {
    /// Documents, each in the form of its command.
    pub(super) documents: Vec<Value>,
    /// What could not be measured, and why.
    pub(super) missing: Vec<String>,
    /// Some of that contradicts the cluster, not only against what this machine can measure.
    pub(super) failed: bool,
    /// Some of that was not answered in time while others had the processors, for which no link or node is
    /// blamed.
    pub(super) unanswered: bool,
    /// What contradicts the link between the two.
    pub(super) bad_links: Vec<([NodeId; 2], String)>,
    link: Option<[NodeId; 2]>,
}

/// A few sizes: around the caches' and the kernels' limits.
const FEW_STORES: [usize; 7] = [64, 512, 4096, 32 << 10, 256 << 10, 1 << 20, 4 << 20];
const FEW_TRANSFERS: [usize; 5] = [64, 2048, 32 << 10, 512 << 10, 4 << 20];

/// Measures between the first two nodes.
pub(super) fn measure(target: &Target, curves: Curves, seed: u64, control: &mut Control<'_>) -> Measured {
    let place = Where {
        runtime_dir: target.runtime_dir.clone(),
        cluster: target.cluster.clone(),
        near: target.nodes.first().copied(),
        far: target.nodes.get(1).copied(),
    };
    let link = place.near.zip(place.far).map(|(near, far)| [near.min(far), near.max(far)]);
    let mut measured = Measured { link, ..Measured::default() };
    let sizes = |all: &[usize], few: &[usize]| if curves.all_sizes { all.to_vec() } else { few.to_vec() };
    let stores = scibench2::Options {
        place: place.clone(),
        sizes_bytes: sizes(&scibench2::SIZES_BYTES, &FEW_STORES),
        blocks: curves.blocks,
        seed,
        ..scibench2::Options::default()
    };
    measured.keep("scibench2", control, |progress| scibench2::run(&stores, progress));
    let transfers = dma_bench::Options {
        place: place.clone(),
        sizes_bytes: sizes(&dma_bench::SIZES_BYTES, &FEW_TRANSFERS),
        blocks: curves.blocks,
        seed,
        ..dma_bench::Options::default()
    };
    measured.keep("dma", control, |progress| dma_bench::run(&transfers, progress));
    let triggers = intr_bench::Options { place: place.clone(), ..intr_bench::Options::default() };
    measured.keep("intr", control, |progress| intr_bench::run(&triggers, progress));
    let round_trips = jitter::Options {
        place,
        seconds: curves.jitter_s,
        idle_seconds: curves.jitter_s / 4.0,
        seed,
        ..jitter::Options::default()
    };
    measured.keep("jitter", control, |progress| jitter::run(&round_trips, progress));
    measured
}

impl Measured {
    fn keep<R: Serialize>(
        &mut self,
        what: &str,
        control: &mut Control<'_>,
        run: impl FnOnce(&mut dyn Progress) -> Result<R, BenchError>,
    ) {
        if (control.stop)() {
            return;
        }
        (control.tell)(what);
        let meter = Meter::start();
        let outcome = run(&mut Telling { what, control });
        self.take(what, outcome, meter.read().reason());
    }

    /// `busy`: why no node is blamed for being late, if so.
    fn take<R: Serialize>(&mut self, what: &str, outcome: Result<R, BenchError>, busy: Option<String>) {
        match outcome.map(|report| serde_json::to_value(report)) {
            Ok(Ok(document)) => self.documents.push(document),
            Ok(Err(error)) => self.missing.push(format!("{what}: {error}")),
            Err(error) if let Some(reason) = busy.filter(|_| is_only_late_there(&error)) => {
                self.unanswered = true;
                self.missing.push(format!("{what}: {error}; {reason}"));
            }
            Err(error) => {
                self.failed |= !matches!(error, BenchError::TooFewCpus { .. });
                if let Some(link) = self.link.filter(|_| error.speaks_against_the_link()) {
                    self.bad_links.push((link, format!("{what}: {error}")));
                }
                self.missing.push(format!("{what}: {error}"));
            }
        }
    }
}

/// Passes a benchmark's progress on.
struct Telling<'a, 'b> {
    what: &'a str,
    control: &'a mut Control<'b>,
}

impl Progress for Telling<'_, '_> {
    fn tell(&mut self, what: &str, share: f64) {
        (self.control.tell)(&format!("{}: {:.0} %, {what}", self.what, 100.0 * share));
    }

    fn stop(&self) -> bool {
        (self.control.stop)()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What came of a benchmark that ended so, where others had the processors or not.
    fn of(error: BenchError, busy: Option<&str>) -> Measured {
        let link = Some([4, 8].map(|id| NodeId::new(id).unwrap()));
        let mut measured = Measured { link, ..Measured::default() };
        measured.take("dma", Err::<(), _>(error), busy.map(str::to_owned));
        measured
    }

    #[test]
    fn a_transfer_that_timed_out_blames_its_link_unless_the_machine_was_busy() {
        let late = || BenchError::Api(tieline::Error::TimedOut { what: "DMA transfer".into() });
        let busy = of(late(), Some("other work used 80 % of the 2 processors"));
        assert!(busy.unanswered && !busy.failed && busy.bad_links.is_empty(), "{busy:?}");
        assert!(busy.missing[0].contains("DMA transfer") && busy.missing[0].contains("80 %"), "{busy:?}");
        let quiet = of(late(), None);
        assert!(quiet.failed && quiet.bad_links.len() == 1, "{quiet:?}");
        let wrong = of(BenchError::WrongDataThere { what: "dma" }, Some("other work used 80 %"));
        assert!(wrong.failed && wrong.bad_links.len() == 1, "{wrong:?}");
    }
}
