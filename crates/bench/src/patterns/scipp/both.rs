//! Runs `scipp` with both ends in this process, or with one of them.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use tieline::{NodeId, SegmentId, SegmentOptions};

use super::{
    Options, Report, Row, ServeOptions,
    duplex::Duplex,
    far::{self, AtPlace, Far, FarProcess, FarThread},
    near::Near,
};
use crate::{
    cpus,
    env::{self, Env},
    error::{BenchError, Result},
    patterns::{
        attach::path_of,
        pio::{End, PLACES, Placement},
        server::Server,
    },
    pinned_pair, poll,
    progress::Progress,
    rivals::load::Load,
    stats::{Block, Samples, order},
    timer::Timer,
};

/// A baseline that changed by more than this share between the probes before and after a reading
/// disturbs it.
const DISTURBED_ABOVE: f64 = 0.20;

/// Measures with both ends in this process.
pub fn run(options: &Options, progress: &mut dyn Progress) -> Result<Report> {
    let cpus = options.both_cpus()?;
    let nodes = options.place.both()?;
    let duplex = Duplex::new(&nodes)?;
    let (near, far) = duplex.ends(options.placement)?;
    let ids = [nodes[0].id().get(), nodes[1].id().get()];
    let waiter = progress.waiter();
    report(options, ids, cpus.to_vec(), path_of(&nodes[0]), |timer| {
        pinned_pair::on(cpus, |pair| {
            // A wait for a far side that has lost its processor may be long, so it can be ended
            // too.
            let _watched = poll::watched(move |_| match waiter.stop() {
                true => Err(BenchError::Stopped { what: "scipp" }),
                false => Ok(()),
            });
            let mut far = FarThread { pair, end: far };
            rows(options, timer, &Near::new(near)?, &mut far, progress)
        })
    })
}

fn report(
    options: &Options,
    nodes: [u32; 2],
    cpus: Vec<usize>,
    path: String,
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
    let placement = options.placement;
    Ok(Report { schema: Report::SCHEMA, env, nodes, cpus, path, placement, load_threads, partial, rows })
}

fn rows(
    options: &Options,
    timer: &Timer,
    near: &Near<'_>,
    far: &mut dyn Far,
    progress: &mut dyn Progress,
) -> Result<(Vec<Row>, bool)> {
    let mut rows = Vec::new();
    for (done, size_bytes) in options.sizes_bytes.iter().enumerate() {
        progress.tell(&format!("{size_bytes} bytes"), done as f64 / options.sizes_bytes.len() as f64);
        let checked = near.check(far, *size_bytes, options.checked);
        match checked.and_then(|()| row(options, timer, near, far, *size_bytes, progress)) {
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
    near: &Near<'_>,
    far: &mut dyn Far,
    size_bytes: usize,
    progress: &dyn Progress,
) -> Result<Option<Row>> {
    let pace = near.pace(timer, far, size_bytes)?;
    let mut line = near.line_probe(timer, far, 0)?;
    let mut all = Samples::new(false)?;
    let (mut ticks, mut baselines) = (Vec::new(), Vec::new());
    let (mut rounds, mut retries, mut disturbed) = (0, 0, 0);
    let mut pairs = Vec::new();
    for reading in 0..options.readings {
        if progress.stop() {
            return Ok(None);
        }
        let place = reading as usize % PLACES;
        line.move_to(near.words(place)?);
        let before = line.half_round_trip_ns(timer, &mut AtPlace { far, place }, None)?;
        let reading = near.round_trips(timer, far, place, pace, &mut ticks, Some(&mut all))?;
        let after = line.half_round_trip_ns(timer, &mut AtPlace { far, place }, None)?;
        baselines.extend([before, after]);
        if before.max(after) > before.min(after) * (1.0 + DISTURBED_ABOVE) {
            disturbed += 1;
        } else {
            pairs.push(Block { ours: reading.half_ns, reference: (before + after) / 2.0 });
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
        // Two places, both directions.
        checked: u64::from(options.checked) * 4,
        line_baseline_ns: order::median(&baselines).unwrap_or(f64::NAN),
        disturbed,
        readings: options.readings,
        pairs,
    }))
}

/// Segments of the two processes: numbered apart from each other and from what programs choose, by
/// the other's node.
fn segment_of_server(client: NodeId) -> SegmentId {
    SegmentId(0x5c00_0000 | client.get())
}

fn segment_of_client(server: NodeId) -> SegmentId {
    SegmentId(0x5d00_0000 | server.get())
}

/// Measures with the far end in another process that runs [`serve`] on node `place.far` (which must
/// be given).
pub fn client(options: &Options, progress: &mut dyn Progress) -> Result<Report> {
    let near_and_far = options.both_cpus()?;
    let cpu = near_and_far[0];
    let node = options.place.attach(options.place.near, "scipp client")?;
    let server = options.place.far.unwrap_or_else(|| node.id());
    let mine =
        node.create_segment_with(&SegmentOptions::new(far::SEGMENT_BYTES).id(segment_of_client(server)))?;
    mine.make_available()?;
    let theirs = Server::meet("scipp", &node, server, segment_of_server(node.id()), progress)?;
    let map = theirs.segment.map()?;
    let there = map.window()?;
    let placement = options.placement;
    let input = if placement == Placement::Shared { there } else { mine.window() };
    let near = Near::new(End { out: there, input, placement })?;
    let ids = [node.id().get(), server.get()];
    report(options, ids, vec![cpu], path_of(&node), |timer| {
        pinned_pair::pinned(cpu, || {
            if near_and_far[0] == near_and_far[1] {
                poll::share_processor();
            }
            let _watched = theirs.watch();
            let mut far = FarProcess::new(there, placement)?;
            let rows = rows(options, timer, &near, &mut far, progress);
            // The server may end in any case; if that fails too, the first error is returned.
            let stopped = far.stop();
            rows.and_then(|rows| stopped.map(|()| rows))
        })
    })
}

/// Serves one [`client`] until it is done or gone.
pub fn serve(options: &ServeOptions) -> Result<()> {
    let cpu = match options.cpu {
        Some(cpu) => cpu,
        None => cpus::pair(None, "scipp")?[1],
    };
    let node = options.place.attach(options.place.near, "scipp server")?;
    let mine = node.create_segment_with(
        &SegmentOptions::new(far::SEGMENT_BYTES).id(segment_of_server(options.client)),
    )?;
    mine.make_available()?;
    let theirs =
        Arc::new(node.connect_segment(options.client, segment_of_client(node.id()), options.wait)?);
    let map = theirs.map()?;
    let mut server = far::Server::new(mine.window(), map.window()?)?;
    pinned_pair::pinned(cpu, || {
        // Its program has ended, or its node is lost.
        let client = Arc::clone(&theirs);
        let _watched = poll::watched(move |_| Ok(client.check()?));
        server.run(&mut || poll::still_there(Duration::ZERO))
    })
}
