//! Runs `scipp` with both ends in this process, or with one of them.

use std::{sync::Arc, time::Duration};

use tieline::{NodeId, SegmentId, SegmentOptions};

use super::{
    Options, Report, ServeOptions, between_hosts,
    duplex::Duplex,
    far::{self, AtPlace, Far, FarProcess, FarThread},
    near::{Near, Pace, Reading},
    rows::{Ends, Ran, report, rows},
};
use crate::{
    baseline::line::LineProbe,
    cpus,
    error::{BenchError, Result},
    patterns::{
        attach::{is_elsewhere, path_of},
        pio::{End, Placement},
        server::Server,
    },
    pinned_pair, poll,
    progress::Progress,
    stats::Samples,
    timer::Timer,
};

/// Measures with both ends in this process.
pub fn run(options: &Options, progress: &mut dyn Progress) -> Result<Report> {
    let cpus = options.both_cpus()?;
    let nodes = options.place.both()?;
    let duplex = Duplex::new(&nodes)?;
    let (near, far) = duplex.ends(options.placement)?;
    let ids = [nodes[0].id().get(), nodes[1].id().get()];
    let waiter = progress.waiter();
    let ran = Ran::within_host(options, ids, cpus.to_vec(), path_of(&nodes[0]));
    report(options, ran, |timer| {
        pinned_pair::on(cpus, |pair| {
            // A wait for a far side that has lost its processor may be long, so it can be ended
            // too.
            let _watched = poll::watched(move |_| match waiter.stop() {
                true => Err(BenchError::Stopped { what: "scipp" }),
                false => Ok(()),
            });
            let mut far = FarThread { pair, end: far };
            let ends = &mut WithinHost { near: &Near::new(near)?, far: &mut far, line: None };
            rows(options, timer, ends, progress)
        })
    })
}

/// The two ends on one host: stores into shared memory, and the line on the very words of the messages.
struct WithinHost<'a, 'f> {
    near: &'a Near<'a>,
    far: &'f mut dyn Far,
    line: Option<LineProbe<'a>>,
}

impl Ends for WithinHost<'_, '_> {
    fn check(&mut self, size_bytes: usize, rounds: u32) -> Result<()> {
        self.near.check(self.far, size_bytes, rounds)
    }

    fn pace(&mut self, timer: &Timer, size_bytes: usize) -> Result<Pace> {
        let pace = self.near.pace(timer, self.far, size_bytes)?;
        self.line = Some(self.near.line_probe(timer, self.far, 0)?);
        Ok(pace)
    }

    fn baseline_ns(&mut self, timer: &Timer, place: usize) -> Result<Option<f64>> {
        let Some(line) = &mut self.line else { return Ok(None) };
        line.move_to(self.near.words(place)?);
        line.half_round_trip_ns(timer, &mut AtPlace { far: self.far, place }, None).map(Some)
    }

    fn round_trips(
        &mut self,
        timer: &Timer,
        place: usize,
        pace: Pace,
        ticks: &mut Vec<u64>,
        all: &mut Samples,
    ) -> Result<Reading> {
        self.near.round_trips(timer, self.far, place, pace, ticks, Some(all))
    }
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
    if is_elsewhere(&node, server)? {
        drop(node);
        return between_hosts::client(options, cpu, progress);
    }
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
    report(options, Ran::within_host(options, ids, vec![cpu], path_of(&node)), |timer| {
        pinned_pair::pinned(cpu, || {
            if near_and_far[0] == near_and_far[1] {
                poll::share_processor();
            }
            let _watched = theirs.watch();
            let mut far = FarProcess::new(there, placement)?;
            let ends = &mut WithinHost { near: &near, far: &mut far, line: None };
            let rows = rows(options, timer, ends, progress);
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
    if is_elsewhere(&node, options.client)? {
        drop(node);
        return between_hosts::serve(options);
    }
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
