//! The far end of a benchmark between two nodes when that node is on another host: an agent there serves.
//!
//! The agent does what `tieline bench … --server` does, for one client, and ends with it. Figures come from
//! the client, which measures; what the agent says is why it could not serve.

use std::time::{Duration, Instant};

use bench::patterns::attach::Where;
use bench::patterns::rendezvous::ServeOptions;
use bench::patterns::{dma_bench, intr_bench, jitter, pt2pt, scibench2, scipp};
use bench::rivals::apart;
use node_client::runtime_dir::ClusterDir;
use serde::{Deserialize, Serialize};
use tieline::NodeId;

use crate::agent::{AgentError, Elsewhere, Job, Said, Started, start_all};
use crate::target::Target;

/// How long an agent waits for its client, which is there already.
const CLIENT_TIMEOUT: Duration = Duration::from_secs(30);
/// No client has an agent make a larger segment.
const MOST_BYTES: usize = 512 << 20;
/// How long it is waited for the word of an agent when the client has failed: a manager notices a host that
/// is gone by its heartbeats.
const LAST_WORD_LIMIT: Duration = Duration::from_secs(3);

/// The benchmarks that an agent serves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Benchmark {
    /// Requests and responses.
    Scipp,
    /// Streams of puts.
    Scibench2,
    /// Vectors of a DMA queue.
    Dma,
    /// Interrupts there and back.
    Intr,
    /// Every round trip of a run.
    Jitter,
    /// Beside other transports.
    Latency,
    /// Messages, groups and memory by size.
    Pt2pt,
}

/// What a tool asks of the far end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct BenchJob {
    pub(crate) benchmark: Benchmark,
    /// The node of the end that measures.
    pub(crate) client: NodeId,
}

/// What the far end says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum BenchSaid {
    /// From now on it waits for its client.
    Serving,
    /// Its client is done.
    Done,
    /// It could not serve.
    Failed {
        /// Why.
        why: String,
    },
}

/// Serves one client. `say` says false when nobody listens any more.
pub(crate) fn serve(target: &Target, node: NodeId, job: &BenchJob, say: &dyn Fn(BenchSaid) -> bool) {
    let place = Where {
        runtime_dir: target.runtime_dir.clone(),
        cluster: target.cluster.clone(),
        near: Some(node),
        far: None,
    };
    let options =
        ServeOptions { place, client: job.client, cpu: None, wait: CLIENT_TIMEOUT, most_bytes: MOST_BYTES };
    if !say(BenchSaid::Serving) {
        return;
    }
    let served = match job.benchmark {
        Benchmark::Scipp => scipp::serve(&options),
        Benchmark::Scibench2 => scibench2::serve(&options),
        Benchmark::Dma => dma_bench::serve(&options),
        Benchmark::Intr => intr_bench::serve(&options),
        Benchmark::Jitter => jitter::serve(&options),
        Benchmark::Latency => apart::serve(&options),
        Benchmark::Pt2pt => pt2pt::serve(&options),
    };
    // If nobody listens, nobody misses it.
    let _ = say(match served {
        Ok(()) => BenchSaid::Done,
        Err(error) => BenchSaid::Failed { why: error.to_string() },
    });
}

/// The far end, as the tool has it. It ends with this.
#[derive(Debug)]
pub struct FarEnd {
    started: Started,
    node: NodeId,
    host: String,
}

impl FarEnd {
    /// Starts it, for a client on this node.
    ///
    /// # Errors
    /// The host cannot be reached, or its manager starts no agent, or that is of another version.
    pub fn start(
        dir: &ClusterDir,
        there: Elsewhere,
        benchmark: Benchmark,
        client: NodeId,
    ) -> Result<Self, AgentError> {
        let (node, host) = (there.node, there.host.clone());
        let gone = || AgentError::Ended { how: "it was not started".to_owned() };
        let (_, started) = start_all(dir, vec![there], "tieline-bench").pop().ok_or_else(gone)?;
        let mut started = started?;
        started.order(Job::Bench(BenchJob { benchmark, client }))?;
        let since = Instant::now();
        while since.elapsed() < LAST_WORD_LIMIT {
            if let Some(Said::Bench(BenchSaid::Serving)) = started.said()? {
                return Ok(Self { started, node, host });
            }
        }
        Err(AgentError::Silent { limit_s: LAST_WORD_LIMIT.as_secs() })
    }

    /// Waits until it has removed what it had, so that the next client does not meet it.
    pub fn finish(&mut self) {
        let since = Instant::now();
        while since.elapsed() < LAST_WORD_LIMIT {
            match self.started.said() {
                Ok(Some(Said::Bench(BenchSaid::Done | BenchSaid::Failed { .. }))) | Err(_) => return,
                Ok(_) => {}
            }
        }
    }

    /// Why it has failed, if it says so, or is gone: its client sees only that it is not there any more.
    pub fn last_word(&mut self) -> Option<String> {
        let since = Instant::now();
        while since.elapsed() < LAST_WORD_LIMIT {
            let why = match self.started.said() {
                Ok(Some(Said::Bench(BenchSaid::Failed { why }))) => why,
                Ok(_) => continue,
                Err(error) => error.to_string(),
            };
            return Some(format!("the end on node {} of {} has failed: {why}", self.node, self.host));
        }
        None
    }
}
