//! Figures of tests of a whole cluster: the data that they move, and their duration.

use std::time::Duration;

use super::{
    Context,
    catalogue::{Entry, Kind},
    control_error,
    managers::{figure, spec},
};
use crate::{
    baseline::memory::{COLD_SET_BYTES, CopyProbe, Temperature},
    cluster::{ClusterControl, ClusterTest},
    error::{BenchError, Result},
    figure::{Figure, ReferenceKind, Spec, Stat},
    stats::paired::{Block, MIN_BLOCKS},
    verdict::Goal,
};

/// Length of one load.
const LOAD: Duration = Duration::from_millis(250);
/// Bytes of one cold copy: a page of the segments that the load goes through.
const COPY_BYTES: usize = 64 << 10;
/// How often a verification is run. The worst counts.
const VERIFICATIONS: usize = 3;

pub(super) fn of(context: &Context<'_>, entry: &Entry, cluster: &mut dyn ClusterControl) -> Result<Figure> {
    match entry.kind {
        Kind::Load { goal } => load(context, entry, goal, cluster),
        Kind::Verify { quick, at_most } => verification(context, entry, quick, at_most, cluster),
        _ => Err(BenchError::Usage(format!("{} is no figure of a test", entry.id))),
    }
}

/// Alternates a load and a cold copy on the same machine.
fn load(
    context: &Context<'_>,
    entry: &Entry,
    goal: Goal,
    cluster: &mut dyn ClusterControl,
) -> Result<Figure> {
    let mut copy = CopyProbe::new(&context.timer, COPY_BYTES, Temperature::Cold)?;
    let mut blocks = Vec::with_capacity(MIN_BLOCKS);
    while blocks.len() < MIN_BLOCKS && !context.progress.stop() {
        let bytes_per_s = cluster.test(ClusterTest::Load(LOAD)).map_err(control_error)?;
        let copy_ns = copy.copy_ns(&context.timer, None)?;
        blocks.push(Block { ours: bytes_per_s / 1e9, reference: COPY_BYTES as f64 / copy_ns });
    }
    let note = format!("{} loads of {} ms, a cold copy after each", blocks.len(), LOAD.as_millis());
    let spec = Spec {
        kind: ReferenceKind::Baseline,
        reference: format!(
            "memcpy of {} KiB blocks out of and into {} MiB",
            COPY_BYTES >> 10,
            COLD_SET_BYTES >> 20
        ),
        goal,
        ..spec(entry, "GB/s", Stat::P50, f64::NAN, note)
    };
    figure(spec, blocks, context.options.seed)
}

fn verification(
    context: &Context<'_>,
    entry: &Entry,
    quick: bool,
    at_most: f64,
    cluster: &mut dyn ClusterControl,
) -> Result<Figure> {
    let test = if quick { ClusterTest::VerifyQuick } else { ClusterTest::Health };
    let mut blocks = Vec::with_capacity(VERIFICATIONS);
    while blocks.len() < VERIFICATIONS && !context.progress.stop() {
        let seconds = cluster.test(test).map_err(control_error)?;
        blocks.push(Block { ours: seconds, reference: at_most });
    }
    let note = format!("the longest of {}", blocks.len());
    figure(spec(entry, "s", Stat::Max, at_most, note), blocks, context.options.seed)
}
