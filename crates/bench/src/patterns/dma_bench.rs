//! `dma`: vectors of block copies through a DMA queue, by size of a block; the classic table.
//!
//! Each line gathers, posts and waits for a vector of 256 blocks, or of as many as make 64 MiB.
//! Beside it, in alternating blocks of the same run, the same copies by memcpy (see
//! [`super::dma`]). The bytes of each line are checked once by the owner of the memory.

mod report;

use std::{cell::RefCell, time::Instant};

pub use report::{Report, Row};
use tieline::{Node, RemoteSegment, Segment, SegmentOptions};

use super::{
    arrival::{self, Arrival},
    attach::{Where, connected, map_of, path_of},
    dma::{Against, DmaSides, ENTRIES, Shape},
    rendezvous::{
        self, Client, ServeOptions, Tool,
        memory::{Other, serve_memory},
    },
    scibench2::table_plan,
    sizes,
};
use crate::{
    env::{self, Env},
    error::{BenchError, Result},
    layout::table::size as shown,
    pinned_pair,
    progress::Progress,
    rivals::load::Load,
    run,
    stats::{Block, paired::PairedRatio},
    timer::Timer,
};

/// Bytes of a vector at most, as in the classic table.
pub const TOTAL_BYTES_MAX: usize = 64 << 20;
/// From this size on an entry is compared with memcpy of the same memory, below it with memcpy +
/// [`ALLOWANCE_NS`].
pub const LONG_BYTES: usize = 4096;
/// The time that a short entry may take in addition to its copy.
pub const ALLOWANCE_NS: f64 = 10.0;

/// The sizes of the classic table: 64 B to 64 MiB.
pub const SIZES_BYTES: [usize; 21] = {
    let mut sizes = [64; 21];
    let mut at = 1;
    while at < 21 {
        sizes[at] = sizes[at - 1] * 2;
        at += 1;
    }
    sizes
};

/// The vector of a line: 256 entries, or as many as make [`TOTAL_BYTES_MAX`], at least one.
pub const fn shape(size_bytes: usize) -> Shape {
    let entries = match TOTAL_BYTES_MAX.checked_div(size_bytes) {
        Some(0) => 1,
        Some(fit) if fit <= ENTRIES => fit,
        _ => ENTRIES,
    };
    Shape { entries, size_bytes }
}

/// The options of the benchmark.
#[derive(Debug, Clone)]
pub struct Options {
    /// The nodes.
    pub place: Where,
    /// Processor of the end that copies; `None` for a choice.
    pub cpu: Option<usize>,
    /// Sizes of an entry.
    pub sizes_bytes: Vec<usize>,
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
            blocks: 11,
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

    /// Bytes of each segment.
    fn largest(&self) -> Result<usize> {
        let totals: Vec<usize> = self.sizes_bytes.iter().map(|size| shape(*size).total_bytes()).collect();
        // Both segments, the known bytes, and the copy that is checked.
        sizes::check("--sizes", &totals, 4)?;
        Ok(totals.into_iter().max().unwrap_or(1).max(arrival::BYTES))
    }
}

/// Measures with both ends in this process.
pub fn run(options: &Options, progress: &mut dyn Progress) -> Result<Report> {
    let largest = options.largest()?;
    let cpu = rendezvous::cpu_of(options.cpu, true)?;
    let nodes = options.place.both()?;
    let there = connected(&nodes[1], &nodes[0], largest)?;
    let other = Other::Here(Tool::Dma, &there.segment);
    let ran = Ran { node: &nodes[0], far: nodes[1].id().get(), cpu, path: path_of(&nodes[0]) };
    report(options, ran, &there.remote, largest, other, progress)
}

/// Measures with the far end in another process that runs [`serve`] on node `place.far` (which must
/// be given).
pub fn client(options: &Options, progress: &mut dyn Progress) -> Result<Report> {
    let largest = options.largest()?;
    let cpu = rendezvous::cpu_of(options.cpu, true)?;
    let mut client = Client::meet(&options.place, Tool::Dma, progress, |_| Ok(0))?;
    let remote = client.memory(largest)?;
    let (node, far) = (client.node.clone(), client.server.get());
    let ran = Ran { node: &node, far, cpu, path: client.path() };
    let report = report(options, ran, &remote, largest, Other::There(&mut client), progress);
    // The server may end in any case; if that fails too, the first error is returned.
    let stopped = client.stop();
    report.and_then(|report| stopped.map(|()| report))
}

/// Serves one [`client`] until it is done or gone.
pub fn serve(options: &ServeOptions) -> Result<()> {
    serve_memory(options, Tool::Dma)
}

/// Between whom, and where.
struct Ran<'a> {
    node: &'a Node,
    far: u32,
    cpu: usize,
    path: String,
}

fn report(
    options: &Options,
    ran: Ran<'_>,
    remote: &RemoteSegment,
    largest: usize,
    other: Other<'_>,
    progress: &mut dyn Progress,
) -> Result<Report> {
    let Ran { node, far, cpu, path } = ran;
    let timer = Timer::new()?;
    let (started, steal) = (Instant::now(), env::steal_ms());
    let mut env = Env::gather(timer.record(), options.argv.clone(), options.seed);
    let local = node.create_segment_with(&SegmentOptions::new(largest))?;
    let load = Load::start(options.load)?;
    let (rows, partial) =
        pinned_pair::pinned(cpu, || rows(options, &timer, node, &local, remote, other, progress))?;
    let load_threads = load.threads();
    drop(load);
    env.finish(started, steal);
    Ok(Report {
        schema: Report::SCHEMA.to_owned(),
        env,
        nodes: [node.id().get(), far],
        cpu,
        path,
        load_threads,
        partial,
        rows,
    })
}

/// Returns the rows by size, and whether the run was ended early.
fn rows(
    options: &Options,
    timer: &Timer,
    node: &Node,
    local: &Segment,
    remote: &RemoteSegment,
    mut other: Other<'_>,
    progress: &mut dyn Progress,
) -> Result<(Vec<Row>, bool)> {
    let mut rows = Vec::new();
    let provider = other.provider()?.map(RefCell::new);
    let ids = [node.id().get(), remote.node().get()];
    let mut look = |size: usize, seed| other.look(size, seed);
    let mut arrival = Arrival::new(Tool::Dma.name(), ids, remote, &mut look);
    arrival.probe()?;
    let map = map_of(remote)?;
    for (done, &size_bytes) in options.sizes_bytes.iter().enumerate() {
        if progress.stop() {
            break;
        }
        progress.tell(&shown(size_bytes as u64), done as f64 / options.sizes_bytes.len() as f64);
        let shape = shape(size_bytes);
        let mut sides = match (&provider, &map) {
            (Some(provider), _) => DmaSides::between_hosts(timer, node, local, remote, shape, provider)?,
            (None, Some(map)) if size_bytes >= LONG_BYTES => {
                DmaSides::new(timer, node, local, remote, shape, Against::Same(map.window()?))?
            }
            _ => {
                let against = Against::Private { extra_ns: ALLOWANCE_NS };
                DmaSides::new(timer, node, local, remote, shape, against)?
            }
        };
        arrival.look(shape.total_bytes(), shape.total_bytes() as u64)?;
        match row(options, &mut sides, shape, progress) {
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

fn row(options: &Options, sides: &mut DmaSides<'_>, shape: Shape, progress: &dyn Progress) -> Result<Row> {
    let plan = table_plan(options.blocks, options.seed);
    let run = run::run_until(&plan, sides, &mut |_, _| {}, &|| progress.stop())?;
    let mut blocks = run.blocks.clone();
    if blocks.is_empty() {
        // All blocks were disturbed: the table says so, and shows the medians of all of them.
        blocks = run.disturbed.iter().map(|d| Block { ours: d.ours, reference: d.reference }).collect();
    }
    let paired = PairedRatio::of(&blocks, plan.centre, 1000, plan.seed)
        .ok_or_else(|| BenchError::NoBlocks { id: format!("dma {}", shape.size_bytes) })?;
    Ok(Row {
        size_bytes: shape.size_bytes,
        total_bytes: shape.total_bytes(),
        entries: shape.entries,
        transfer_ns: paired.ours * shape.entries as f64,
        entry_ns: paired.ours,
        bandwidth_gb_s: shape.size_bytes as f64 / paired.ours,
        reference: sides.reference_name(),
        reference_ns: paired.reference,
        ratio: paired.ratio,
        ratio_ci95: paired.shown_ratio_ci95(),
        batch: sides.batch(),
        vectors: run.ours_readings * sides.vectors_per_reading(),
        blocks: run.blocks.len(),
        disturbed: run.disturbed.len(),
        pairs: run.blocks,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vectors_of_the_classic_table() {
        let lengths: Vec<usize> = SIZES_BYTES.iter().map(|size| shape(*size).entries).collect();
        assert_eq!(lengths[..13], [256; 13]);
        assert_eq!(lengths[13..], [128, 64, 32, 16, 8, 4, 2, 1]);
        assert_eq!((SIZES_BYTES[0], SIZES_BYTES[20]), (64, 64 << 20));
        assert_eq!(shape(128 << 20).entries, 1);
        assert!(shape(100_000).total_bytes() <= TOTAL_BYTES_MAX);
    }

    #[test]
    fn bad_sizes_are_refused_before_anything_is_started() {
        for sizes_bytes in [vec![], vec![0], vec![64, 0], vec![usize::MAX / 8]] {
            let options = Options { sizes_bytes, ..Options::default() };
            assert!(matches!(
                run(&options, &mut crate::progress::Quiet),
                Err(BenchError::Usage(text)) if text.starts_with("--sizes")
            ));
        }
    }
}
