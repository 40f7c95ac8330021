//! `jitter`: every round trip of a run in order of time, its spikes, periodic spikes, and possible
//! causes.
//!
//! [`trace`] stores the run, [`series`] computes figures from it, [`period`] finds periodic spikes,
//! [`explain`] looks up possible causes in the kernel's counters of the run and in the noise of the
//! idle machine ([`crate::noise`], measured before the run on the same processors). [`Report`] has
//! the data of the plots.

mod apart;
pub(crate) mod between_hosts;
mod collect;
mod end;
pub mod explain;
pub mod period;
mod report;
pub mod series;
pub mod trace;

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

pub use apart::{client, serve};
use collect::{Plan, collect};
use end::End;
use explain::Evidence;
pub use report::{Kept, NamedPeriod, Reference, Report, Spike};
use series::Seen;

use super::{
    attach::{Where, path_of},
    pio::Placement as Lines,
    scipp::{Mechanism, duplex::Duplex},
};
use crate::{
    env::{self, Env},
    error::{BenchError, Result},
    noise, pinned_pair,
    poll::Poll,
    progress::Progress,
    rivals::{load::Load, placement::Placement},
    timer::Timer,
};

/// Longest run.
const SECONDS_MAX: f64 = 3600.0;
/// Most memory for a run.
const MEMORY_BYTES_MAX: usize = 16 << 30;

/// The options of the benchmark.
#[derive(Debug, Clone)]
pub struct Options {
    /// The nodes.
    pub place: Where,
    /// The processors.
    pub placement: Placement,
    /// Length of the run. A rhythm needs five beats to be named.
    pub seconds: f64,
    /// Length of the detour test on each processor before; 0 for none.
    pub idle_seconds: f64,
    /// Memory for the round trips.
    pub memory_bytes: usize,
    /// Threads of competing load.
    pub load: usize,
    /// The seed of the lengths of slices.
    pub seed: u64,
    /// Command line, for the record.
    pub argv: Vec<String>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            place: Where::default(),
            placement: Placement::default(),
            seconds: 6.0,
            idle_seconds: 2.0,
            memory_bytes: 256 << 20,
            load: 0,
            seed: 1,
            argv: Vec::new(),
        }
    }
}

impl Options {
    /// Checks what can be checked before anything is started, and returns the processors.
    pub fn check(&self) -> Result<[usize; 2]> {
        Load::check(self.load)?;
        let usage = |text: String| Err(BenchError::Usage(text));
        if !(self.seconds > 0.0 && self.seconds <= SECONDS_MAX) {
            return usage(format!("--seconds {}: give more than 0 and at most {SECONDS_MAX}", self.seconds));
        }
        if !(0.0..=SECONDS_MAX).contains(&self.idle_seconds) {
            return usage(format!("--idle-seconds {}: give 0 (none) to {SECONDS_MAX}", self.idle_seconds));
        }
        if self.memory_bytes > MEMORY_BYTES_MAX {
            return usage(format!("--memory {}: give at most {MEMORY_BYTES_MAX}", self.memory_bytes));
        }
        trace::check(self.memory_bytes)?;
        // The figures need as much again, for sorting.
        super::sizes::check("--memory", &[self.memory_bytes], 3)?;
        self.placement.resolve("jitter")
    }
}

/// Measures with both ends in this process.
pub fn run(options: &Options, progress: &mut dyn Progress) -> Result<Report> {
    let cpus = options.check()?;
    let nodes = options.place.both()?;
    let duplex = Duplex::new(&nodes)?;
    let (near, far) = duplex.ends(Lines::Shared)?;
    let (near_out, near_in) = near.words(0)?;
    let (far_out, far_in) = far.words(0)?;
    let head = Head {
        env: Env::default(),
        nodes: nodes.each_ref().map(|node| node.id().get()),
        cpus,
        processes: 1,
        path: path_of(&nodes[0]),
        mechanism: Mechanism::Stores,
        load_threads: options.load,
        partial: false,
        asked_s: options.seconds,
    };
    measure(options, head, &cpus, progress, |timer, plan, tell| {
        pinned_pair::on(cpus, |pair| {
            let near = End { out: near_out, input: near_in };
            let far = End { out: far_out, input: far_in };
            let poll = Poll::usual();
            let trace = collect(timer, pair, near, far, poll, plan, tell)?;
            Ok(Ran { trace, poll, far_involuntary: None, reference: None })
        })
    })
}

/// Gets a measurement's progress, and returns whether to end it.
type Tell<'a> = dyn FnMut(f64) -> bool + Send + 'a;

/// What a run leaves.
struct Ran {
    trace: trace::Trace,
    /// How both ends waited.
    poll: Poll,
    /// Of a far end in another process: how often its processor was taken away.
    far_involuntary: Option<u64>,
    reference: Option<Reference>,
}

/// Measures the detours of idle processors, then the run, and makes the report.
fn measure(
    options: &Options,
    mut head: Head,
    idle_cpus: &[usize],
    progress: &mut dyn Progress,
    go: impl FnOnce(&Timer, Plan, &mut Tell<'_>) -> Result<Ran>,
) -> Result<Report> {
    let timer = Timer::new()?;
    let (started, steal) = (Instant::now(), env::steal_ms());
    let mut env = Env::gather(timer.record(), options.argv.clone(), options.seed);
    let mut idle: Vec<noise::Report> = Vec::new();
    for &cpu in idle_cpus.iter().filter(|_| options.idle_seconds > 0.0) {
        if !progress.stop() && idle.iter().all(|done| done.cpu != cpu) {
            progress.tell(&format!("noise of idle processor {cpu}"), 0.0);
            // Borrowed as if it changed: it may be sent to the pinned thread, not shared with it.
            let asked: &mut dyn Progress = &mut *progress;
            let mut stop = move || asked.stop();
            idle.push(noise::watch(&timer, cpu, options.idle_seconds, &mut stop)?);
        }
    }
    let load = Load::start(options.load)?;
    let plan = Plan {
        length: Duration::from_secs_f64(options.seconds),
        memory_bytes: options.memory_bytes,
        seed: options.seed,
    };
    let Ran { trace, poll, far_involuntary, reference } = go(&timer, plan, &mut |share| {
        progress.tell("round trips", 0.3 + 0.6 * share);
        progress.stop()
    })?;
    head.partial = progress.stop();
    drop(load);
    progress.tell("looking for rhythms", 0.95);
    env.finish(started, steal);
    let seen = Seen::of(&timer, &trace)?;
    let mut report = judge(Head { env, ..head }, &timer, (&trace, poll), &seen, idle);
    report.involuntary[1] = far_involuntary.unwrap_or(report.involuntary[1]);
    report.reference = reference;
    Ok(report)
}

/// The first part of a report.
#[derive(Debug)]
struct Head {
    env: Env,
    nodes: [u32; 2],
    cpus: [usize; 2],
    processes: u32,
    path: String,
    mechanism: Mechanism,
    load_threads: usize,
    partial: bool,
    asked_s: f64,
}

fn judge(
    head: Head,
    timer: &Timer,
    (trace, poll): (&trace::Trace, Poll),
    seen: &Seen,
    idle: Vec<noise::Report>,
) -> Report {
    let (periods, explained) = period::find(&seen.spikes, seen.length_ns);
    let evidence = Evidence::new(timer, &trace.slices, &idle, poll);
    let mut interrupts: BTreeMap<String, u64> = BTreeMap::new();
    let mut involuntary = [0; 2];
    for slice in &trace.slices {
        for (name, count) in &slice.counted.interrupts {
            *interrupts.entry(name.clone()).or_default() += count;
        }
        for (sum, count) in involuntary.iter_mut().zip(&slice.counted.involuntary) {
            *sum += count;
        }
    }
    let spikes = seen
        .spikes
        .iter()
        .zip(&explained)
        .map(|(spike, period)| Spike {
            at_ns: spike.at_ns,
            height_ns: spike.height,
            period: *period,
            cause: evidence.cause(spike),
        })
        .collect();
    let asked_ns = head.asked_s * 1e9;
    Report {
        schema: Report::SCHEMA.to_owned(),
        env: head.env,
        nodes: head.nodes,
        cpus: head.cpus,
        processes: head.processes,
        path: head.path,
        mechanism: head.mechanism,
        poll: Some(poll),
        load_threads: head.load_threads,
        partial: head.partial,
        length_ns: seen.length_ns,
        measured_ns: seen.measured_ns,
        kept: Kept {
            round_trips: trace.len() as u64 * u64::from(trace.every()),
            every: trace.every(),
            memory_bytes: trace.memory_bytes() as u64,
            // The time for reading the counters, and the rest of the last slice, are not errors.
            ended_early: !trace.has_room() && seen.length_ns < 0.98 * asked_ns,
        },
        rtt: seen.all.summary(),
        reference: None,
        median_ns: seen.median_ns,
        threshold_ns: seen.threshold_ns,
        beyond: seen.beyond,
        spikes_found: seen.spikes.len() as u64,
        spikes: Spike::tallest(spikes),
        periods: periods.into_iter().map(|period| NamedPeriod::of(period, &idle)).collect(),
        causes: evidence.counts(&seen.spikes),
        involuntary,
        interrupts,
        idle,
        plot: seen.plot.clone(),
        distribution: seen.distribution.clone(),
    }
}

#[cfg(test)]
mod tests;
