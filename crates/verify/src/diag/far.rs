//! The static test on all hosts: this program tests the nodes of its host, and an agent on each other host
//! its own.

use std::time::{Duration, Instant};

use node_client::runtime_dir::ClusterDir;
use tieline::NodeId;

use super::{DiagReport, Expected, NodeDiag, Options, clear_counters, compare, look};
use crate::agent::{AgentError, DiagJob, Elsewhere, Job, Said, Started, start_all};
use crate::capacity::CouldNotRun;
use crate::target::Target;
use crate::verdict::Verdict;

/// How long an agent may take. Each of its tests ends by limits of its own long before that.
const LIMIT: Duration = Duration::from_secs(60);

/// Nodes that one node of another host may say that it sees.
const MOST_SEEN: usize = 1024;

/// A node whose counters could not be set to zero, and why.
pub type NotCleared = (NodeId, String);

/// What is tested elsewhere, and what happens afterwards.
#[derive(Debug)]
pub struct Everywhere<'a> {
    /// The cluster's directory.
    pub dir: &'a ClusterDir,
    /// The nodes of other hosts.
    pub nodes: Vec<Elsewhere>,
    /// Sets the counters of all managers to zero afterwards.
    pub clear: bool,
}

/// Tests the nodes of a target, and those elsewhere. A host that cannot take part is in the report, and is
/// not waited for. `stop` may ask for an early end: nodes that had not reported by then are in no report.
pub fn run_everywhere(
    target: &Target,
    expected: &Expected,
    everywhere: Everywhere<'_>,
    options: &Options,
    stop: &(dyn Fn() -> bool + Sync),
) -> Result<(DiagReport, Vec<NotCleared>), CouldNotRun> {
    let Everywhere { dir, nodes: elsewhere, clear } = everywhere;
    let job = DiagJob { prod: options.prod, hosts: options.hosts.clone(), clear };
    let theirs = || -> Vec<(NodeDiag, Vec<NotCleared>)> {
        let started = start_all(dir, elsewhere, "tieline-diag");
        std::thread::scope(|scope| {
            let threads: Vec<_> = started
                .into_iter()
                .map(|(one, started)| {
                    let job = job.clone();
                    let listen = move || match started {
                        Ok(started) => report_of(started, &job, one.node, stop),
                        Err(error) => Err(error),
                    };
                    let node = one.node;
                    (
                        node,
                        std::thread::Builder::new().name(format!("agent-{node}")).spawn_scoped(scope, listen),
                    )
                })
                .collect();
            let finished = threads.into_iter().filter_map(|(node, thread)| match thread {
                Ok(thread) => {
                    let outcome = thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
                    outcome.unwrap_or_else(|error| Some(absent(node, &error.to_string())))
                }
                Err(error) => Some(absent(node, &format!("no thread could be started: {error}"))),
            });
            finished.collect()
        })
    };
    let (ours, theirs) = std::thread::scope(|scope| {
        let theirs = scope.spawn(theirs);
        let ours = look(target, expected, options, stop);
        (ours, theirs.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    });
    let mut report = ours?;
    let mut not_cleared = Vec::new();
    if clear {
        let failed = clear_counters(target).into_iter().map(|(node, error)| (node, error.to_string()));
        not_cleared.extend(failed);
    }
    for (diag, failed) in theirs {
        report.nodes.push(diag);
        not_cleared.extend(failed);
    }
    report.conclude();
    Ok((report, not_cleared))
}

fn absent(node: NodeId, why: &str) -> (NodeDiag, Vec<NotCleared>) {
    (NodeDiag::silent(node, why), Vec::new())
}

/// Has one agent test its node; nothing if the end was asked for before it had.
fn report_of(
    mut started: Started,
    job: &DiagJob,
    node: NodeId,
    stop: &(dyn Fn() -> bool + Sync),
) -> Result<Option<(NodeDiag, Vec<NotCleared>)>, AgentError> {
    started.order(Job::Diag(job.clone()))?;
    let since = Instant::now();
    while since.elapsed() < LIMIT {
        if stop() {
            return Ok(None);
        }
        match started.said()? {
            Some(Said::Diag { node: mut diag, not_cleared }) if diag.node == node => {
                // All are compared with all: what another host says is cut.
                diag.nodes_seen.sort_unstable();
                diag.nodes_seen.dedup();
                diag.nodes_seen.truncate(MOST_SEEN);
                return Ok(Some((*diag, not_cleared)));
            }
            Some(Said::Diag { node: other, .. }) => {
                return Err(AgentError::Malformed { what: format!("the report of node {}", other.node) });
            }
            _ => {}
        }
    }
    Err(AgentError::Silent { limit_s: LIMIT.as_secs() })
}

impl DiagReport {
    /// The nodes of other hosts have come to it.
    fn conclude(&mut self) {
        self.nodes.sort_by_key(|node| node.node);
        let tested: Vec<_> = self.nodes.iter().filter(|node| node.info.is_some()).collect();
        self.disagreements = compare::compare(&tested);
        let agree = if self.disagreements.is_empty() { Verdict::Pass } else { Verdict::Fail };
        self.verdict = Verdict::worst(self.nodes.iter().map(|node| node.verdict).chain([agree]));
    }
}
