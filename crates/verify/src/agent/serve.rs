//! The agent: does one job for a tool on another host, and ends.

use std::ffi::OsString;
use std::io::{Read, Write};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use node_client::runtime_dir::ClusterDir;
use rustix::process::{Signal, getppid, set_parent_process_death_signal};
use shm::sync::{AtomicBool, Ordering};
use tieline::NodeId;

use super::lines::{Lines, Look};
use super::{Begin, ConntestJob, DiagJob, Job, MOST_ORDER_BYTES, Order, SCHEMA, Said};
use crate::conntest::{self, Progress};
use crate::diag::{self, Expected, NodeDiag};
use crate::far_end;
use crate::speed;
use crate::target::Target;

/// The word by which a manager starts this program as an agent.
const WORD: &str = "agent";
/// Between two lines of progress.
const TELL: Duration = Duration::from_millis(500);

/// Whether these are the words by which a manager starts an agent; then it has run, and this is its exit
/// status.
pub fn is_agent(words: &[OsString]) -> Option<u8> {
    if words.get(1)? != WORD {
        return None;
    }
    let [parent, node, cluster, root] = words.get(2..)? else { return None };
    let parent: i32 = parent.to_str()?.parse().ok()?;
    let node: NodeId = node.to_str()?.parse().ok()?;
    let target = Target {
        runtime_dir: Some(PathBuf::from(root)),
        cluster: Some(cluster.to_str()?.to_owned()),
        nodes: vec![node],
    };
    // It ends with its manager, and must not begin after that.
    let is_tied = set_parent_process_death_signal(Some(Signal::KILL)).is_ok()
        && getppid().is_some_and(|now| now.as_raw_nonzero().get() == parent);
    Some(if is_tied {
        u8::from(serve(&target, node, std::io::stdin(), std::io::stdout()).is_err())
    } else {
        1
    })
}

/// Nobody listens any more.
#[derive(Debug)]
struct Unheard;

/// Says lines; several threads may.
struct Voice<W>(Mutex<W>);

impl<W: Write> Voice<W> {
    fn say(&self, said: &Said) -> Result<(), Unheard> {
        let mut line = serde_json::to_vec(said).map_err(|_| Unheard)?;
        line.push(b'\n');
        let mut out = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        out.write_all(&line).and_then(|()| out.flush()).map_err(|_| Unheard)
    }
}

/// Does what the input orders.
fn serve(
    target: &Target,
    node: NodeId,
    input: impl Read + Send + 'static,
    output: impl Write,
) -> Result<(), Unheard> {
    let voice = Voice(Mutex::new(output));
    voice.say(&Said::Ready { schema: SCHEMA.to_owned() })?;
    let mut lines = Lines::new(input, MOST_ORDER_BYTES);
    let order = loop {
        match lines.look() {
            Look::Line(line) => break understood(&line),
            Look::Nothing => {}
            // It was not wanted after all.
            Look::End => return Ok(()),
            Look::TooLong => break Err(format!("the job has more than {MOST_ORDER_BYTES} bytes")),
        }
    };
    let refused = |why| voice.say(&Said::Refused { why });
    match order {
        Ok(Job::Conntest(job)) => match job.options(node).and_then(|_| all_known(target, node, &job.nodes)) {
            Ok(()) => conntest(target, node, &job, Heard::from(lines), &voice),
            Err(why) => refused(why),
        },
        Ok(Job::Diag(job)) => diag(target, node, job, &voice),
        Ok(Job::Speed(job)) => match all_known(target, node, &job.nodes) {
            Ok(()) => {
                speed::serve(target, node, &job, &mut lines, &|said| voice.say(&Said::Speed(said)).is_ok());
                Ok(())
            }
            Err(why) => refused(why),
        },
        Ok(Job::Bench(job)) => match all_known(target, node, &[job.client]) {
            Ok(()) => {
                far_end::serve(target, node, &job, &|said| voice.say(&Said::Bench(said)).is_ok());
                Ok(())
            }
            Err(why) => refused(why),
        },
        Err(why) => refused(why),
    }
}

/// Whether its own manager knows all nodes of the job: a load test makes an inbox for each.
fn all_known(target: &Target, node: NodeId, nodes: &[NodeId]) -> Result<(), String> {
    let dir = ClusterDir::locate(target.runtime_dir.as_deref(), target.cluster.as_deref());
    let status = dir.ok().and_then(|dir| node::cluster::status(&dir, node).ok());
    // Without its manager it makes nothing, and its report says so.
    let Some(links) = status.map(|status| status.links) else { return Ok(()) };
    let known: Vec<NodeId> = links.iter().map(|link| link.peer).collect();
    match first_unknown(node, nodes, &known) {
        Some(other) => {
            Err(format!("the manager of node {node} knows no node {other}: see `tieline status` there"))
        }
        None => Ok(()),
    }
}

/// The first of these nodes that is neither this one nor known.
pub(super) fn first_unknown(node: NodeId, nodes: &[NodeId], known: &[NodeId]) -> Option<NodeId> {
    nodes.iter().copied().find(|other| *other != node && !known.contains(other))
}

/// The job, if it is one that this agent knows.
fn understood(line: &[u8]) -> Result<Job, String> {
    let plain: serde_json::Value =
        serde_json::from_slice(line).map_err(|error| format!("the job is no JSON: {error}"))?;
    // Of another version the rest may mean anything.
    match plain.get("schema").and_then(serde_json::Value::as_str) {
        Some(SCHEMA) => {}
        Some(other) => return Err(format!("it speaks {SCHEMA} and the tool {other}")),
        None => return Err(format!("the job names no schema, such as {SCHEMA}")),
    }
    let order: Order =
        serde_json::from_value(plain).map_err(|error| format!("the job is unknown: {error}"))?;
    Ok(order.job)
}

/// What the tool says while a load test runs.
#[derive(Debug, Clone, Default)]
struct Heard {
    /// All instances are ready.
    begin: Arc<AtomicBool>,
    /// The input has ended.
    stop: Arc<AtomicBool>,
}

impl Heard {
    fn from(mut lines: Lines<impl Read + Send + 'static>) -> Self {
        let heard = Self::default();
        let (begin, stop) = (Arc::clone(&heard.begin), Arc::clone(&heard.stop));
        let watching = std::thread::Builder::new().name("input".into()).spawn(move || {
            loop {
                match lines.look() {
                    Look::Nothing => {}
                    Look::Line(line) if serde_json::from_slice::<Begin>(&line).is_ok() => {
                        begin.store(true, Ordering::Relaxed);
                    }
                    // Nothing else is to come but the end.
                    Look::Line(_) | Look::End | Look::TooLong => break,
                }
            }
            stop.store(true, Ordering::Relaxed);
        });
        if watching.is_err() {
            // An end could not be noticed.
            heard.stop.store(true, Ordering::Relaxed);
        }
        heard
    }
}

fn diag(target: &Target, node: NodeId, job: DiagJob, voice: &Voice<impl Write>) -> Result<(), Unheard> {
    let options = diag::Options { prod: job.prod, hosts: job.hosts };
    // What should be there is what runs on this host, as for a tool here.
    let dir = ClusterDir::locate(target.runtime_dir.as_deref(), target.cluster.as_deref());
    let here = dir.ok().and_then(|dir| node::cluster::list_nodes(&dir).ok()).unwrap_or_default();
    let mut nodes: Vec<NodeId> = here.into_iter().map(|entry| entry.node).collect();
    nodes.sort_unstable();
    let expected = Expected { nodes, silent: Vec::new() };
    let report = match diag::run_with(target, &expected, &options) {
        Ok(report) => report,
        Err(error) => return voice.say(&Said::Refused { why: error.to_string() }),
    };
    let failed = if job.clear { diag::clear_counters(target) } else { Vec::new() };
    let not_cleared = failed.into_iter().map(|(node, error)| (node, error.to_string())).collect();
    match report.nodes.into_iter().find(|diag| diag.node == node) {
        Some(node) => {
            let node = NodeDiag { system: Some(report.system), ..node };
            voice.say(&Said::Diag { node: Box::new(node), not_cleared })
        }
        None => Err(Unheard),
    }
}

fn conntest(
    target: &Target,
    node: NodeId,
    job: &ConntestJob,
    Heard { begin, stop }: Heard,
    voice: &Voice<impl Write>,
) -> Result<(), Unheard> {
    let Ok(mut options) = job.options(node) else { return Err(Unheard) };
    (options.stop, options.gate) = (Arc::clone(&stop), Some(begin));
    let mut told: Option<(Instant, bool)> = None;
    let report = conntest::run(target, &options, &mut |progress: Progress| {
        let is_ready = progress.ready > 0;
        if told.is_some_and(|(at, was_ready)| at.elapsed() < TELL && was_ready == is_ready) {
            return;
        }
        told = Some((Instant::now(), is_ready));
        let Progress { bytes_checked, failures, .. } = progress;
        if voice.say(&Said::Progress { bytes_checked, failures, ready: is_ready }).is_err() {
            stop.store(true, Ordering::Relaxed);
        }
    });
    match report.instances.into_iter().next() {
        Some(instance) => voice.say(&Said::Conntest(instance)),
        None => Err(Unheard),
    }
}

/// What an agent answers to these bytes; for tests.
#[cfg(test)]
pub(super) fn answers(target: &Target, node: NodeId, input: &[u8]) -> Vec<String> {
    let mut output = Vec::new();
    let input = std::io::Cursor::new(input.to_vec());
    assert!(serve(target, node, input, &mut output).is_ok());
    String::from_utf8(output).unwrap().lines().map(str::to_owned).collect()
}
