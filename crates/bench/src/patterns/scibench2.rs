//! Streaming stores into remote memory: bandwidth and time by size, against the fastest memcpy of
//! this machine.
//!
//! Three forms: both ends in this process ([`run`](fn@run)), or one end each in two ([`client`],
//! [`serve`]). The stores are those of a program: `put` through a map of the remote segment, or
//! `put` of the segment itself. Memory of another host has no map: there it is streams of puts, each with
//! its barrier, against libfabric's own writes (`puts`). Each size is first stored once with known bytes,
//! which the owner of the segment compares; then timed in alternating blocks with its rival.

mod puts;
mod report;
pub mod sides;

use std::time::{Duration, Instant};

use puts::PutStreams;
pub use report::{Report, Row};
use serde::{Deserialize, Serialize};
use shm::window::Window;
use sides::{StoreSides, Stores};
use tieline::RemoteSegment;

use super::{
    arrival::{self, Arrival},
    attach::{Where, connected, map_of, path_of},
    rendezvous::{
        self, Client, ServeOptions, Tool,
        memory::{Other, serve_memory},
    },
    sizes,
};
use crate::{
    env::{self, Env},
    error::{BenchError, Result},
    layout::table::size as shown,
    pinned_pair,
    progress::Progress,
    rivals::load::Load,
    run::{self, BlockPlan},
    stats::paired::PairedRatio,
    timer::Timer,
};

/// The sizes of the table.
pub const SIZES_BYTES: [usize; 15] = {
    let mut sizes = [64; 15];
    let mut at = 1;
    while at < 15 {
        sizes[at] = sizes[at - 1] * 2;
        at += 1;
    }
    sizes
};
const WHAT: &str = "scibench2";

/// The way in which the bytes are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Way {
    /// Through a map: bounds are checked, nothing else.
    Map,
    /// Through the segment: also whether its owner still lives.
    Put,
}

/// The options of the benchmark.
#[derive(Debug, Clone)]
pub struct Options {
    /// The nodes.
    pub place: Where,
    /// Processor of the end that stores; `None` for a choice.
    pub cpu: Option<usize>,
    /// Sizes.
    pub sizes_bytes: Vec<usize>,
    /// The method; `None`: through a map where there is one.
    pub way: Option<Way>,
    /// Blocks of each size.
    pub blocks: usize,
    /// The seed of the order of sides and of resampling.
    pub seed: u64,
    /// Threads of competing load.
    pub load: usize,
    /// Command line, for the record.
    pub argv: Vec<String>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            place: Where::default(),
            cpu: None,
            sizes_bytes: SIZES_BYTES.to_vec(),
            way: None,
            blocks: 31,
            seed: 1,
            load: 0,
            argv: Vec::new(),
        }
    }
}

impl Options {
    /// Checks what can be checked before anything is started.
    pub fn check(&self) -> Result<()> {
        Load::check(self.load)?;
        self.largest().map(drop)
    }

    /// Bytes of the segment.
    fn largest(&self) -> Result<usize> {
        // The segment, the source, and room for the machine.
        sizes::check("--sizes", &self.sizes_bytes, 3)?;
        Ok(self.sizes_bytes.iter().copied().max().unwrap_or(1).max(arrival::BYTES))
    }
}

/// Measures with both ends in this process.
pub fn run(options: &Options, progress: &mut dyn Progress) -> Result<Report> {
    let largest = options.largest()?;
    let cpu = rendezvous::cpu_of(options.cpu, true)?;
    let nodes = options.place.both()?;
    let there = connected(&nodes[1], &nodes[0], largest)?;
    let ids = [nodes[0].id().get(), nodes[1].id().get()];
    let target = Some(there.map.window()?);
    let other = Other::Here(Tool::Scibench2, &there.segment);
    let way = options.way.unwrap_or(Way::Map);
    let ran = Ran { nodes: ids, cpu, path: path_of(&nodes[0]), way };
    report(options, ran, |timer| rows(options, timer, &there.remote, target, ids, other, progress))
}

/// Measures with the far end in another process that runs [`serve`] on node `place.far` (which must
/// be given).
pub fn client(options: &Options, progress: &mut dyn Progress) -> Result<Report> {
    let largest = options.largest()?;
    let cpu = rendezvous::cpu_of(options.cpu, true)?;
    let mut client = Client::meet(&options.place, Tool::Scibench2, progress, |_| Ok(0))?;
    let remote = client.memory(largest)?;
    let map = map_of(&remote)?;
    let target = map.as_ref().map(|map| map.window()).transpose()?;
    let ids = [client.node.id().get(), client.server.get()];
    let way = match (options.way, target) {
        (Some(Way::Map), None) => {
            let text = "scibench2 --way map: memory of another host cannot be mapped: leave the option out, or give --way put";
            return Err(BenchError::Usage(text.to_owned()));
        }
        (way, Some(_)) => way.unwrap_or(Way::Map),
        (_, None) => Way::Put,
    };
    let ran = Ran { nodes: ids, cpu, path: client.path(), way };
    let other = Other::There(&mut client);
    let report = report(options, ran, |timer| rows(options, timer, &remote, target, ids, other, progress));
    // The server may end in any case; if that fails too, the first error is returned.
    let stopped = client.stop();
    report.and_then(|report| stopped.map(|()| report))
}

/// Serves one [`client`] until it is done or gone.
pub fn serve(options: &ServeOptions) -> Result<()> {
    serve_memory(options, Tool::Scibench2)
}

/// Between whom, and by what.
struct Ran {
    nodes: [u32; 2],
    cpu: usize,
    path: String,
    way: Way,
}

fn report(
    options: &Options,
    ran: Ran,
    measure: impl FnOnce(&Timer) -> Result<(Vec<Row>, bool)> + Send,
) -> Result<Report> {
    let timer = Timer::new()?;
    let (started, steal) = (Instant::now(), env::steal_ms());
    let mut env = Env::gather(timer.record(), options.argv.clone(), options.seed);
    let load = Load::start(options.load)?;
    let (rows, partial) = pinned_pair::pinned(ran.cpu, || measure(&timer))?;
    let load_threads = load.threads();
    drop(load);
    env.finish(started, steal);
    let Ran { nodes, cpu, path, way } = ran;
    Ok(Report { schema: Report::SCHEMA.to_owned(), env, nodes, cpu, path, way, load_threads, partial, rows })
}

/// Returns the rows by size, and whether the run was ended early.
fn rows(
    options: &Options,
    timer: &Timer,
    remote: &RemoteSegment,
    target: Option<Window<'_>>,
    ids: [u32; 2],
    mut other: Other<'_>,
    progress: &mut dyn Progress,
) -> Result<(Vec<Row>, bool)> {
    let mut rows = Vec::new();
    let mut provider = other.provider()?;
    let mut look = |size: usize, seed| other.look(size, seed);
    let mut arrival = Arrival::new(WHAT, ids, remote, &mut look);
    arrival.probe()?;
    for (done, &size_bytes) in options.sizes_bytes.iter().enumerate() {
        if progress.stop() {
            break;
        }
        progress.tell(&shown(size_bytes as u64), done as f64 / options.sizes_bytes.len() as f64);
        let mut sides: Box<dyn Stores + '_> = match (target, &mut provider) {
            (None, Some(provider)) => Box::new(PutStreams::new(timer, remote, provider, size_bytes)?),
            (Some(target), _) => {
                let way = options.way.unwrap_or(Way::Map);
                Box::new(StoreSides::new(timer, remote, target, way, size_bytes)?)
            }
            (None, None) => return Err(BenchError::Usage("scibench2: nothing to compare with".to_owned())),
        };
        sides.store_known(size_bytes as u64)?;
        arrival.look(size_bytes, size_bytes as u64)?;
        match row(options, &mut *sides, size_bytes, progress) {
            Ok(row) => rows.push(row),
            // The signal may have ended the managers too.
            Err(_) if progress.stop() => break,
            Err(error) => return Err(error),
        }
    }
    if !progress.stop() {
        arrival.probe()?;
    }
    Ok((rows, progress.stop()))
}

/// A short paired run: this is a table, not a verdict.
pub(crate) fn table_plan(blocks: usize, seed: u64) -> BlockPlan {
    BlockPlan {
        max_blocks: blocks.max(1),
        warm_up_blocks: 3,
        // Ends by the number of blocks; the interval is what it then is.
        half_width: 0.0,
        ..BlockPlan::against_rival(Duration::from_secs(20), seed)
    }
}

fn row(options: &Options, sides: &mut dyn Stores, size_bytes: usize, progress: &dyn Progress) -> Result<Row> {
    let plan = table_plan(options.blocks, options.seed);
    let run = run::run_until(&plan, sides, &mut |_, _| {}, &|| progress.stop())?;
    let mut blocks = run.blocks.clone();
    if blocks.is_empty() {
        // All blocks were disturbed: the table says so, and shows the medians of all of them.
        blocks = run
            .disturbed
            .iter()
            .map(|d| crate::stats::Block { ours: d.ours, reference: d.reference })
            .collect();
    }
    let paired = PairedRatio::of(&blocks, plan.centre, 1000, plan.seed)
        .ok_or_else(|| BenchError::NoBlocks { id: format!("{WHAT} {size_bytes}") })?;
    Ok(Row {
        size_bytes,
        bandwidth_gb_s: paired.ours,
        time_ns: size_bytes as f64 / paired.ours,
        rival: sides.rival(),
        rival_gb_s: paired.reference,
        ratio: paired.ratio,
        ratio_ci95: paired.shown_ratio_ci95(),
        batch: sides.batch(),
        stores: run.ours_readings * sides.per_reading(),
        blocks: run.blocks.len(),
        disturbed: run.disturbed.len(),
        pairs: run.blocks,
    })
}
