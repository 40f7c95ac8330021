//! `intr` between hosts: a trigger is a message, so it is compared with libfabric's own messages.
//!
//! A cache line, futexes and eventfds do not lead to another host, and there is no one-way figure: the two
//! hosts have two clocks.

use std::sync::Arc;

use super::{
    Options,
    echo::{Course, Mode, Process},
    report::Figure,
};
use crate::{
    error::Result,
    patterns::{provider::Provider, rendezvous::Client},
    pinned_pair::PinnedPair,
    progress::Progress,
    rivals::ours::Bells,
    stats::Samples,
    timer::Timer,
};

/// Round trips of a reading of libfabric's own messages.
const ROUNDS: u64 = 20;

/// Readings of libfabric's own messages.
struct Messages {
    provider: Provider,
    readings: Vec<f64>,
    all: Samples,
}

impl Messages {
    fn read(&mut self, client: &mut Client, readings: u32, progress: &dyn Progress) -> Result<()> {
        for _ in 0..readings {
            if progress.stop() {
                break;
            }
            let Some(half_ns) = self.provider.half_rtt_ns(client, ROUNDS)? else { break };
            self.readings.push(half_ns);
            self.all.record_ns(half_ns);
        }
        Ok(())
    }
}

/// Both ends awake, with libfabric's own messages before and after it, then both asleep.
pub(super) fn figures<'env>(
    options: &Options,
    timer: &Timer,
    pair: &mut PinnedPair<'env>,
    near: &[Arc<Bells>; 2],
    client: &mut Client,
    progress: &mut dyn Progress,
) -> Result<Vec<Figure>> {
    progress.tell("both sides awake", 0.0);
    let provider = Provider::meet(client)?;
    let mut messages = Messages { provider, readings: Vec::new(), all: Samples::new(false)? };
    let half = options.readings.div_ceil(2);
    messages.read(client, half, progress)?;
    let mut figures = vec![course(options, timer, pair, &near[0], client, Mode::Spinning, progress)?];
    messages.read(client, options.readings - half, progress)?;
    if !messages.readings.is_empty() {
        let Messages { readings, all, .. } = &messages;
        let (mode, rounds) = (Mode::Spinning, ROUNDS * all.len());
        let name = "libfabric's own messages of 8 bytes";
        figures.push(Figure::half(name, mode, all, readings, ROUNDS as u32, rounds));
    }
    if !progress.stop() {
        progress.tell("both sides asleep", 0.5);
        figures.push(course(options, timer, pair, &near[1], client, Mode::Sleeping, progress)?);
    }
    Ok(figures)
}

fn course<'env>(
    options: &Options,
    timer: &Timer,
    pair: &mut PinnedPair<'env>,
    near: &Arc<Bells>,
    client: &mut Client,
    mode: Mode,
    progress: &dyn Progress,
) -> Result<Figure> {
    let mut course = Course::new(timer, pair, mode, Arc::clone(near), Box::new(Process { client, mode }))?;
    let mut readings = Vec::new();
    for reading in 0..options.readings {
        if reading > 0 && progress.stop() {
            break;
        }
        readings.push(course.half_ns(timer, pair)?);
    }
    let name = if mode == Mode::Spinning { Figure::SPINNING } else { Figure::SLEEPING };
    Ok(Figure::half(name, mode, &course.all, &readings, course.batch(), course.rounds))
}
