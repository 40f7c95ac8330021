//! The load test: every node sends checked data to every other, under load, and counts what goes wrong.
//!
//! Each instance (a thread per node, or a program per node in the classic form) has an inbox for each peer.
//! Blocks are pseudo-random, of varying length, numbered, and compared byte by byte by the receiver, which
//! answers each; so what is lost, changed, late or out of order is counted exactly, by the words that are
//! there and those that are missing.
//!
//! Where to start reading: `words` (what lies where), `outgoing` and `incoming` (the two halves), `instance`
//! (the loop).

mod far;
mod incoming;
mod instance;
mod ledger;
mod outgoing;
mod own_manager;
mod pattern;
mod peer;
mod report;
mod scan;
#[cfg(test)]
mod tests_pair;
mod words;

use shm::sync::{AtomicBool, Ordering};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bench::noise::others::{Load, Meter};
use tieline::NodeId;

pub use far::run_everywhere;
pub use ledger::Ledger;
pub use own_manager::ManagerOutage;
pub use report::{ConntestReport, InstanceReport, PeerReport, Presence, SCHEMA, Stopped};

use crate::target::Target;
use crate::verdict::Verdict;
use instance::{Instance, Shared};
pub(crate) use words::inbox_bytes;

/// Interval of progress reports.
const TELL: Duration = Duration::from_millis(100);
/// Longest block that may be asked for.
pub const MAX_BLOCK_BYTES: usize = 16 << 20;

/// What is done.
#[derive(Debug, Clone)]
pub struct Options {
    /// Nodes that must be found.
    pub nodes: Vec<NodeId>,
    /// Nodes whose instance runs in this program; the others' run elsewhere.
    pub instances: Vec<NodeId>,
    /// Exchange only with `nodes`, not with others that appear.
    pub only_listed: bool,
    /// Longest block, in bytes.
    pub block_bytes: usize,
    /// Shortest block, in bytes.
    pub min_bytes: usize,
    /// How long a loop takes.
    pub duration: Duration,
    /// How many loops.
    pub loops: u32,
    /// Most bytes that an instance sends in a second.
    pub throttle_bytes_per_s: Option<u64>,
    /// How long to wait for the others.
    pub meet_within: Duration,
    /// Seed of data and lengths; equal for all instances.
    pub seed: u64,
    /// Set to request an early end.
    pub stop: Arc<AtomicBool>,
    /// Set when the instances of other programs are ready, too: until then the exchange does not begin.
    /// `None`: nobody says so.
    pub gate: Option<Arc<AtomicBool>>,
}

impl Options {
    /// All nodes of a target, in this program.
    pub fn for_target(target: &Target, duration: Duration) -> Self {
        Self {
            nodes: target.nodes.clone(),
            instances: target.nodes.clone(),
            only_listed: false,
            block_bytes: 8192,
            min_bytes: 4,
            duration,
            loops: 1,
            throttle_bytes_per_s: None,
            meet_within: Duration::from_secs(30),
            seed: 1,
            stop: Arc::default(),
            gate: None,
        }
    }

    /// All instances have been started already, here or by agents: nobody is still to come.
    fn all_are_started(&self) -> bool {
        self.gate.is_some() || self.instances == self.nodes
    }

    /// The instances of other programs are ready, or nobody says whether they are.
    fn is_gate_open(&self) -> bool {
        // Relaxed: nothing is published with it.
        self.gate.as_ref().is_none_or(|gate| gate.load(Ordering::Relaxed))
    }

    /// Whether this can be done; the text names what to change.
    pub fn check(&self) -> Result<(), String> {
        let Self { min_bytes, block_bytes, .. } = *self;
        if block_bytes == 0 || block_bytes > MAX_BLOCK_BYTES {
            return Err(format!("--size {block_bytes}: give 1 to {MAX_BLOCK_BYTES} bytes"));
        }
        if min_bytes == 0 {
            return Err(format!("--min-size 0: give 1 to {block_bytes} bytes, the --size"));
        }
        if block_bytes < min_bytes {
            return Err(format!(
                "--min-size {min_bytes} is above --size {block_bytes}: give a larger --size, up to {MAX_BLOCK_BYTES}, or a smaller --min-size"
            ));
        }
        if self.loops == 0 {
            return Err("--loops 0: give at least 1".into());
        }
        if self.duration.is_zero() {
            return Err("--time 0: give more than 0 seconds".into());
        }
        if self.throttle_bytes_per_s == Some(0) {
            return Err("--throttle 0: give more than 0 MB/s, or leave it out".into());
        }
        Ok(())
    }
}

/// How far it is.
#[derive(Debug, Clone, Copy)]
pub struct Progress {
    /// Since the exchange began.
    pub elapsed: Duration,
    /// Bytes compared so far.
    pub bytes_checked: u64,
    /// Failures so far.
    pub failures: u64,
    /// Instances that have met all their peers.
    pub ready: u64,
    /// Instances.
    pub of: u64,
}

/// Runs it. `tell` is called about every 100 ms.
pub fn run(target: &Target, options: &Options, tell: &mut dyn FnMut(Progress)) -> ConntestReport {
    let (shared, meter) = (Shared::default(), Meter::start());
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    let crowd = options.nodes.len().div_ceil(2 * cpus).max(1) as u64;
    let (instances, overseen) = std::thread::scope(|scope| {
        let threads: Vec<_> = options
            .instances
            .iter()
            .map(|node| {
                let shared = &shared;
                let thread = std::thread::Builder::new()
                    .name(format!("conntest-{node}"))
                    .spawn_scoped(scope, move || instance(target, options, *node, shared, crowd));
                (*node, thread)
            })
            .collect();
        let overseen = oversee(options, &shared, tell);
        let reports: Vec<InstanceReport> = threads
            .into_iter()
            .map(|(node, thread)| match thread {
                Ok(thread) => thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
                Err(error) => did_not_run(node, format!("no thread could be started: {error}")),
            })
            .collect();
        (reports, overseen)
    });
    let mut report = ConntestReport {
        schema: SCHEMA.to_owned(),
        verdict: Verdict::Fail,
        partial: overseen.cut_short,
        ended_while_meeting: overseen.ended_while_meeting,
        loops: options.loops,
        block_bytes: options.block_bytes as u64,
        min_bytes: options.min_bytes as u64,
        duration_s: overseen.exchange.as_secs_f64(),
        instances,
        stopped: Vec::new(),
        suspects: Vec::new(),
        // Instances in other programs are other work, too: only where all are here it says something.
        load: if options.instances == options.nodes { meter.read() } else { Load::default() },
    };
    report.judge();
    report
}

fn did_not_run(node: NodeId, error: String) -> InstanceReport {
    InstanceReport { node, host: None, peers: Vec::new(), manager_outages: Vec::new(), error: Some(error) }
}

fn instance(target: &Target, options: &Options, node: NodeId, shared: &Shared, crowd: u64) -> InstanceReport {
    match target.attach(node, "conntest") {
        Ok(local) => Instance::new(local, node, options, shared, crowd).run(),
        Err(error) => {
            // An instance that waits for all others must not wait for this one.
            shared.ready.fetch_add(1, Ordering::Relaxed);
            did_not_run(node, error.to_string())
        }
    }
}

/// How the exchange went as a whole.
struct Overseen {
    /// How long it took.
    exchange: Duration,
    /// Its end was asked for before its time was over.
    cut_short: bool,
    /// Its end was asked for before all were ready.
    ended_while_meeting: bool,
}

/// Starts the exchange when all are ready, ends it when the time is over.
fn oversee(options: &Options, shared: &Shared, tell: &mut dyn FnMut(Progress)) -> Overseen {
    let progress = |elapsed: Duration| Progress {
        elapsed,
        bytes_checked: shared.bytes.load(Ordering::Relaxed),
        failures: shared.failures.load(Ordering::Relaxed),
        ready: shared.ready.load(Ordering::Relaxed),
        of: options.instances.len() as u64,
    };
    let asked_to_stop = || options.stop.load(Ordering::Relaxed);
    let tick = Duration::from_millis(10);
    let arrival = Instant::now();
    // Twice: instances give up by themselves; this only ends a wait for one that cannot.
    let patience = 2 * options.meet_within + Duration::from_secs(5);
    let mut told = Duration::ZERO;
    let mut ended_while_meeting = false;
    while shared.ready.load(Ordering::Relaxed) < options.instances.len() as u64 || !options.is_gate_open() {
        ended_while_meeting = asked_to_stop();
        if ended_while_meeting || arrival.elapsed() > patience {
            break;
        }
        // Who is told may ask for an end, also while somebody is waited for.
        if arrival.elapsed() - told >= TELL {
            told = arrival.elapsed();
            tell(progress(Duration::ZERO));
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    tell(progress(Duration::ZERO));
    shared.go.store(true, Ordering::Relaxed);
    let start = Instant::now();
    let whole = options.duration * options.loops;
    let mut told = Duration::ZERO;
    while start.elapsed() < whole && !asked_to_stop() {
        std::thread::sleep(tick.min(whole.saturating_sub(start.elapsed())));
        if start.elapsed() - told >= TELL {
            told = start.elapsed();
            tell(progress(told));
        }
    }
    let took = start.elapsed();
    shared.stop.store(true, Ordering::Relaxed);
    Overseen { exchange: took, cut_short: took < whole, ended_while_meeting }
}
