//! Agents: a tool runs its part on the other hosts of the cluster.
//!
//! The managers start an agent (this very program) on each host and carry lines of JSON between it and the
//! tool. An agent does the jobs that it knows, with options that it checks itself: it starts no program and
//! writes no file for anybody. The end of its input ends its job early, as Ctrl-C ends that of a tool; the
//! end of a benchmark does not look at its input while it serves, and is ended by its manager.
//!
//! Where to start reading: [`Job`] and [`Said`] (what is said), `serve` (the agent), `team` (the tool).

mod lines;
mod serve;
mod team;
#[cfg(test)]
mod tests;

use std::time::Duration;

use serde::{Deserialize, Serialize};
use tieline::NodeId;

use crate::conntest::{InstanceReport, Options, inbox_bytes};
use crate::diag::{HostFile, NodeDiag, NotCleared};
use crate::far_end::{BenchJob, BenchSaid};
use crate::speed::{EndSaid, SpeedJob};

pub(crate) use lines::{Lines, Look};
pub use serve::is_agent;
pub use team::{AgentError, Elsewhere, nodes_elsewhere, stopped_nodes};
pub(crate) use team::{LOOK, Started, elsewhere_among, start_all};

/// What an agent and a tool say to each other.
pub const SCHEMA: &str = "tieline-agent/1";
/// No line of a tool is longer.
pub(crate) const MOST_ORDER_BYTES: usize = 256 * 1024;
/// No line of an agent is longer.
const MOST_SAID_BYTES: usize = 8 * 1024 * 1024;
/// No job takes longer.
const LONGEST_JOB: Duration = Duration::from_secs(10_000_000);
/// No load test makes an agent's inboxes larger, all together.
const MOST_INBOX_BYTES: u64 = 512 << 20;
/// No more nodes take part.
const MOST_NODES: usize = 1024;

/// The first line of a tool; of most jobs the only one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Order {
    /// [`SCHEMA`].
    pub(crate) schema: String,
    /// What is to be done.
    pub(crate) job: Job,
}

/// What an agent can do.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) enum Job {
    /// The instance of its node in a load test.
    Conntest(ConntestJob),
    /// The static test of its node.
    Diag(DiagJob),
    /// The end of its node in a measurement of links between hosts; lines with turns follow.
    Speed(SpeedJob),
    /// The end of its node in a benchmark between two nodes.
    Bench(BenchJob),
}

/// A further line of the tool in a load test: all instances are ready.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Begin {
    /// The exchange begins.
    Begin,
}

/// Options of the static test.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct DiagJob {
    /// Move no data and trigger no interrupts.
    pub(crate) prod: bool,
    /// Which nodes should be there. No file is read: this is what the tool has read.
    pub(crate) hosts: Option<HostFile>,
    /// Set the manager's counters to zero afterwards.
    pub(crate) clear: bool,
}

/// [`Options`] of the load test, as far as they are the same for all.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ConntestJob {
    nodes: Vec<NodeId>,
    block_bytes: usize,
    min_bytes: usize,
    duration_ms: u64,
    loops: u32,
    throttle_bytes_per_s: Option<u64>,
    meet_within_ms: u64,
    seed: u64,
}

/// A line of an agent.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Said {
    /// The first line.
    Ready {
        /// [`SCHEMA`], as the agent has it.
        schema: String,
    },
    /// How far it is.
    Progress {
        /// Bytes compared so far.
        bytes_checked: u64,
        /// Failures so far.
        failures: u64,
        /// Its instance has met all its peers.
        ready: bool,
    },
    /// The load test is over.
    Conntest(InstanceReport),
    /// The static test is over.
    Diag {
        /// What was found.
        node: Box<NodeDiag>,
        /// If that was asked for: where the counters could not be set to zero.
        not_cleared: Vec<NotCleared>,
    },
    /// Of a measurement of links between hosts.
    Speed(EndSaid),
    /// Of a benchmark between two nodes.
    Bench(BenchSaid),
    /// The job is none for it. The last line.
    Refused {
        /// Why.
        why: String,
    },
}

impl ConntestJob {
    pub(crate) fn new(options: &Options) -> Self {
        let ms = |duration: Duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX).max(1);
        Self {
            nodes: options.nodes.clone(),
            block_bytes: options.block_bytes,
            min_bytes: options.min_bytes,
            duration_ms: ms(options.duration),
            loops: options.loops,
            throttle_bytes_per_s: options.throttle_bytes_per_s,
            meet_within_ms: ms(options.meet_within),
            seed: options.seed,
        }
    }

    /// For the instance of this node, if that is possible; the text says why not.
    fn options(&self, node: NodeId) -> Result<Options, String> {
        if !self.nodes.contains(&node) {
            return Err(format!("node {node} is not among the nodes of the test"));
        }
        if self.nodes.len() > MOST_NODES || !self.nodes.is_sorted_by(|first, second| first < second) {
            return Err(format!("the nodes must be at most {MOST_NODES}, in ascending order"));
        }
        let options = Options {
            nodes: self.nodes.clone(),
            instances: vec![node],
            only_listed: true,
            block_bytes: self.block_bytes,
            min_bytes: self.min_bytes,
            duration: Duration::from_millis(self.duration_ms),
            loops: self.loops,
            throttle_bytes_per_s: self.throttle_bytes_per_s,
            meet_within: Duration::from_millis(self.meet_within_ms),
            seed: self.seed,
            stop: std::sync::Arc::default(),
            gate: Some(std::sync::Arc::default()),
        };
        options.check()?;
        let most_bytes = (self.nodes.len() as u64).saturating_mul(inbox_bytes(self.block_bytes) as u64);
        if most_bytes > MOST_INBOX_BYTES {
            return Err(format!(
                "inboxes for blocks of {} bytes from {} nodes take more than {} MiB: choose shorter blocks",
                self.block_bytes,
                self.nodes.len(),
                MOST_INBOX_BYTES >> 20
            ));
        }
        let whole = options.duration.saturating_mul(options.loops);
        if whole > LONGEST_JOB || options.meet_within > LONGEST_JOB {
            return Err(format!("the test would take longer than {} s", LONGEST_JOB.as_secs()));
        }
        Ok(options)
    }
}
