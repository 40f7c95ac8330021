//! The load test on all hosts: this program runs the instances of its host, and an agent on each other host
//! runs its own.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use node_client::runtime_dir::ClusterDir;
use shm::sync::{AtomicBool, AtomicU64, Ordering};
use tieline::NodeId;

use super::report::{ConntestReport, InstanceReport};
use super::{Options, Progress, did_not_run, run};
use crate::agent::{AgentError, Begin, ConntestJob, Elsewhere, Job, Said, Started, start_all};
use crate::target::Target;

/// How long an agent may take to report after the instances of this host have ended, before it is told to
/// end.
const LATE: Duration = Duration::from_secs(15);
/// How long it may take then.
const LAST_LIMIT: Duration = Duration::from_secs(15);

/// What all agents together have said.
#[derive(Debug, Default)]
struct Heard {
    ready: AtomicU64,
    /// Agents that are ready, or have ended before.
    settled: AtomicU64,
    /// All instances are ready: the exchange begins.
    gate: Arc<AtomicBool>,
    /// By agent: bytes and failures so far.
    counts: Mutex<Vec<(u64, u64)>>,
    /// The instances of this host have ended.
    over: AtomicBool,
}

impl Heard {
    fn totals(&self) -> (u64, u64) {
        let counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        counts
            .iter()
            .fold((0_u64, 0_u64), |sum, one| (sum.0.saturating_add(one.0), sum.1.saturating_add(one.1)))
    }
}

/// Runs it on this host, whose nodes `options` has, and on the others. A host that cannot take part is named
/// in the report, and not waited for.
pub fn run_everywhere(
    target: &Target,
    dir: &ClusterDir,
    elsewhere: Vec<Elsewhere>,
    options: &Options,
    tell: &mut dyn FnMut(Progress),
) -> ConntestReport {
    let (mut agents, mut absent) = (Vec::new(), Vec::new());
    for (one, started) in start_all(dir, elsewhere, "conntest") {
        match started {
            Ok(started) => agents.push((one, started)),
            Err(error) => absent.push(missing(&one, &error)),
        }
    }
    let mut options = Options { only_listed: true, ..options.clone() };
    options.nodes.extend(agents.iter().map(|(one, _)| one.node));
    options.nodes.sort_unstable();
    let job = ConntestJob::new(&options);
    let count = agents.len() as u64;
    let heard = Heard { counts: Mutex::new(vec![(0, 0); agents.len()]), ..Heard::default() };
    options.gate = Some(Arc::clone(&heard.gate));
    let (of, ours) = (options.nodes.len() as u64, options.instances.len() as u64);
    let (mut report, theirs) = std::thread::scope(|scope| {
        let threads: Vec<_> = agents
            .into_iter()
            .enumerate()
            .map(|(index, (one, started))| {
                let (job, heard, options) = (job.clone(), &heard, &options);
                let name = format!("agent-{}", one.node);
                let at = one.clone();
                let listen = move || listen(index, &at, started, job, heard, options);
                (one, std::thread::Builder::new().name(name).spawn_scoped(scope, listen))
            })
            .collect();
        let report = run(target, &options, &mut |progress: Progress| {
            let all_ready = progress.ready >= ours && heard.settled.load(Ordering::Relaxed) >= count;
            // Who has begun without the others, because their time was over, does not keep them back.
            if all_ready || !progress.elapsed.is_zero() {
                heard.gate.store(true, Ordering::Relaxed);
            }
            let (bytes, failures) = heard.totals();
            tell(Progress {
                bytes_checked: progress.bytes_checked.saturating_add(bytes),
                failures: progress.failures.saturating_add(failures),
                ready: progress.ready + heard.ready.load(Ordering::Relaxed),
                of,
                ..progress
            });
        });
        heard.over.store(true, Ordering::Relaxed);
        let theirs: Vec<InstanceReport> = threads
            .into_iter()
            .map(|(one, thread)| match thread {
                Ok(thread) => thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
                Err(error) => {
                    // It is not waited for: the exchange begins when the patience of the others is at an end.
                    let text = format!("no thread could be started: {error}");
                    InstanceReport { host: Some(one.host.clone()), ..did_not_run(one.node, text) }
                }
            })
            .collect();
        (report, theirs)
    });
    for instance in &mut report.instances {
        instance.host = host_of(dir, instance.node);
    }
    report.instances.extend(theirs);
    report.instances.extend(absent);
    report.instances.sort_by_key(|instance| instance.node);
    report.judge();
    report
}

fn host_of(dir: &ClusterDir, node: NodeId) -> Option<String> {
    node::cluster::status(dir, node).ok().map(|status| status.info.host)
}

fn missing(one: &Elsewhere, error: &AgentError) -> InstanceReport {
    InstanceReport { host: Some(one.host.clone()), ..did_not_run(one.node, error.to_string()) }
}

/// Has one agent do its part, until it has reported.
fn listen(
    index: usize,
    one: &Elsewhere,
    mut started: Started,
    job: ConntestJob,
    heard: &Heard,
    options: &Options,
) -> InstanceReport {
    let mut was_ready = false;
    let outcome = started
        .order(Job::Conntest(job))
        .and_then(|()| report_of(index, &mut started, heard, options, &mut was_ready))
        .and_then(|report| checked(report, one, options));
    if !was_ready {
        // Nobody waits for it.
        heard.settled.fetch_add(1, Ordering::Relaxed);
    }
    match outcome {
        Ok(report) => report,
        Err(error) => missing(one, &error),
    }
}

fn report_of(
    index: usize,
    started: &mut Started,
    heard: &Heard,
    options: &Options,
    was_ready: &mut bool,
) -> Result<InstanceReport, AgentError> {
    let (mut over_since, mut told_to_begin, mut told_to_end) = (None, false, false);
    loop {
        if heard.gate.load(Ordering::Relaxed) && !std::mem::replace(&mut told_to_begin, true) {
            started.send(&Begin::Begin)?;
        }
        match started.said()? {
            Some(Said::Conntest(report)) => return Ok(report),
            Some(Said::Progress { bytes_checked, failures, ready }) => {
                let mut counts = heard.counts.lock().unwrap_or_else(PoisonError::into_inner);
                if let Some(count) = counts.get_mut(index) {
                    *count = (bytes_checked, failures);
                }
                if ready && !std::mem::replace(was_ready, true) {
                    heard.ready.fetch_add(1, Ordering::Relaxed);
                    heard.settled.fetch_add(1, Ordering::Relaxed);
                }
            }
            _ => {}
        }
        if heard.over.load(Ordering::Relaxed) {
            over_since.get_or_insert_with(Instant::now);
        }
        let late = over_since.map_or(Duration::ZERO, |since: Instant| since.elapsed());
        if !told_to_end && (options.stop.load(Ordering::Relaxed) || late > LATE) {
            told_to_end = true;
            started.end_early();
        }
        if late > LATE + LAST_LIMIT {
            return Err(AgentError::Silent { limit_s: (LATE + LAST_LIMIT).as_secs() });
        }
    }
}

/// What an agent reports is of its own node.
fn checked(
    mut report: InstanceReport,
    one: &Elsewhere,
    options: &Options,
) -> Result<InstanceReport, AgentError> {
    if report.node != one.node {
        return Err(AgentError::Malformed { what: format!("the report of node {}", report.node) });
    }
    // Of others than the nodes of the test, and twice of one, it can say nothing.
    let mut left: Vec<NodeId> = options.nodes.iter().copied().filter(|node| *node != one.node).collect();
    report.peers.retain(|peer| {
        let found = left.iter().position(|node| *node == peer.node);
        found.map(|index| left.swap_remove(index)).is_some()
    });
    report.host = Some(one.host.clone());
    Ok(report)
}
