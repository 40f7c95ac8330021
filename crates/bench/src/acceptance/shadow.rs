//! Figure of loads and stores between hosts, by a C program on each of two hosts in namespaces.

use super::{Context, catalogue::Entry, managers};
use crate::{
    cluster::Running,
    cpus,
    error::{BenchError, Result},
    figure::{Figure, ReferenceKind, Stat},
    patterns::sisci::Measurer,
    run::{BlockPlan, Sides},
};

/// Stores, or copies, of one reading.
const COUNT: u64 = 500;
/// Segment ids that people seldom choose.
const IDS_FROM: u32 = 0x5154_0000;

/// A store through a map, and a copy: both with a flush behind them, so that they are there.
struct StoreAndPut {
    measurer: Measurer,
    above_us: f64,
}

impl Sides for StoreAndPut {
    fn ours(&mut self) -> Result<f64> {
        Ok(self.measurer.near(&format!("store {COUNT}"))? / 1e3)
    }

    fn reference(&mut self) -> Result<f64> {
        Ok(self.measurer.near(&format!("put {COUNT}"))? / 1e3 + self.above_us)
    }
}

pub(super) fn measure(
    context: &mut Context<'_>,
    entry: &Entry,
    above_us: f64,
    running: &Running,
) -> Result<Figure> {
    let [near, far, ..] = running.nodes.as_slice() else {
        return Err(BenchError::Usage(format!("{} needs two hosts", entry.id)));
    };
    let cpus = cpus::pair(context.options.cpus, entry.id)?;
    let measurer = Measurer::start_on_hosts(&running.place, [near.get(), far.get()], cpus, IDS_FROM)?;
    let plan = BlockPlan::against_rival(context.options.max_time, context.options.seed);
    context.paired(&plan, StoreAndPut { measurer, above_us }, COUNT, |_| {
        let note = "two processes on two hosts in namespaces, TIELINE_SISCI_SHADOW=1".to_owned();
        let mut spec = managers::spec(entry, "us", Stat::P50, 1.0, note);
        spec.path = "ofi".to_owned();
        spec.cpus = cpus.to_vec();
        spec.kind = ReferenceKind::Rival;
        spec.reference = format!("SCIMemCpy of 64 bytes and a flush, and {above_us} us");
        spec
    })
}
