//! The table of `scipp`: each size checked, then read in turn with its baseline, whatever carries the
//! messages.

use std::time::Instant;

use super::{
    Mechanism, Options, Report, Row,
    near::{Pace, Reading},
};
use crate::{
    env::{self, Env},
    error::Result,
    patterns::pio::{PLACES, Placement},
    progress::Progress,
    rivals::load::Load,
    stats::{Block, Samples, order},
    timer::Timer,
};

/// A baseline that changed by more than this share between the probes before and after a reading
/// disturbs it.
const DISTURBED_ABOVE: f64 = 0.20;

/// Both ends, as the near one drives them.
pub(super) trait Ends {
    /// Exchanges so many messages with every byte checked at both ends.
    fn check(&mut self, size_bytes: usize, rounds: u32) -> Result<()>;

    /// Finds out how to take readings of this size.
    fn pace(&mut self, timer: &Timer, size_bytes: usize) -> Result<Pace>;

    /// Half a round trip of the baseline at a place, if there is one.
    fn baseline_ns(&mut self, timer: &Timer, place: usize) -> Result<Option<f64>>;

    /// One reading at a place.
    fn round_trips(
        &mut self,
        timer: &Timer,
        place: usize,
        pace: Pace,
        ticks: &mut Vec<u64>,
        all: &mut Samples,
    ) -> Result<Reading>;
}

/// Between whom, and by what.
pub(super) struct Ran {
    pub(super) nodes: [u32; 2],
    pub(super) cpus: Vec<usize>,
    pub(super) path: String,
    pub(super) mechanism: Mechanism,
    pub(super) baseline: String,
    pub(super) placement: Placement,
}

impl Ran {
    pub(super) fn within_host(options: &Options, nodes: [u32; 2], cpus: Vec<usize>, path: String) -> Self {
        let placement = options.placement;
        let lines = if placement == Placement::Shared { "one line" } else { "two lines" };
        Self { nodes, cpus, path, mechanism: Mechanism::Stores, baseline: lines.to_owned(), placement }
    }
}

pub(super) fn report(
    options: &Options,
    ran: Ran,
    measure: impl FnOnce(&Timer) -> Result<(Vec<Row>, bool)>,
) -> Result<Report> {
    let timer = Timer::new()?;
    let (started, steal) = (Instant::now(), env::steal_ms());
    let mut env = Env::gather(timer.record(), options.argv.clone(), 0);
    let load = Load::start(options.load)?;
    let (rows, partial) = measure(&timer)?;
    let load_threads = load.threads();
    drop(load);
    env.finish(started, steal);
    let Ran { nodes, cpus, path, mechanism, baseline, placement } = ran;
    Ok(Report {
        schema: Report::SCHEMA,
        env,
        nodes,
        cpus,
        path,
        mechanism,
        baseline,
        placement,
        load_threads,
        partial,
        rows,
    })
}

/// The rows by size, and whether the run was ended early.
pub(super) fn rows(
    options: &Options,
    timer: &Timer,
    ends: &mut dyn Ends,
    progress: &mut dyn Progress,
) -> Result<(Vec<Row>, bool)> {
    let mut rows = Vec::new();
    for (done, size_bytes) in options.sizes_bytes.iter().enumerate() {
        progress.tell(&format!("{size_bytes} bytes"), done as f64 / options.sizes_bytes.len() as f64);
        let checked = ends.check(*size_bytes, options.checked);
        match checked.and_then(|()| row(options, timer, ends, *size_bytes, progress)) {
            Ok(Some(row)) => rows.push(row),
            Ok(None) => return Ok((rows, true)),
            // The signal may have ended the managers too.
            Err(_) if progress.stop() => return Ok((rows, true)),
            Err(error) => return Err(error),
        }
    }
    Ok((rows, false))
}

/// One size; `None` if the run is to end.
fn row(
    options: &Options,
    timer: &Timer,
    ends: &mut dyn Ends,
    size_bytes: usize,
    progress: &dyn Progress,
) -> Result<Option<Row>> {
    let pace = ends.pace(timer, size_bytes)?;
    let mut all = Samples::new(false)?;
    let (mut ticks, mut baselines) = (Vec::new(), Vec::new());
    let (mut rounds, mut retries, mut disturbed) = (0, 0, 0);
    let mut pairs = Vec::new();
    for reading in 0..options.readings {
        if progress.stop() {
            return Ok(None);
        }
        let place = reading as usize % PLACES;
        let before = ends.baseline_ns(timer, place)?;
        let reading = ends.round_trips(timer, place, pace, &mut ticks, &mut all)?;
        let after = ends.baseline_ns(timer, place)?;
        if let (Some(before), Some(after)) = (before, after) {
            baselines.extend([before, after]);
            if before.max(after) > before.min(after) * (1.0 + DISTURBED_ABOVE) {
                disturbed += 1;
            } else {
                pairs.push(Block { ours: reading.half_ns, reference: (before + after) / 2.0 });
            }
        }
        rounds += reading.rounds;
        retries += reading.retries;
    }
    Ok(Some(Row {
        size_bytes,
        half_rtt: all.summary(),
        batch: pace.shape.batch,
        poll: pace.poll,
        rounds,
        retries,
        // Two passes, both directions.
        checked: u64::from(options.checked) * 4,
        line_baseline_ns: order::median(&baselines).unwrap_or(f64::NAN),
        disturbed,
        readings: options.readings,
        pairs,
    }))
}
