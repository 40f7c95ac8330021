//! The speed of links between hosts: half round trip and bandwidth of pairs of nodes on two hosts, through
//! link `ofi`.
//!
//! Each node of the cluster has an end: an agent on another host, a thread on this one. The ends take turns,
//! one pair at a time, so that no measurement disturbs another. What is measured is what a program gets:
//! doorbells (8 bytes on the wire) and their answers, and puts of blocks with a barrier, of one size or, for
//! `tieline bench hosts`, of several (`puts`). Beside it stands what bare loops of libfabric's calls do
//! between the same processes.
//!
//! Where to start reading: [`EndSaid`] and [`Turn`] (what is said), `end` (the end of a node), `turns` (the
//! tool), `judge` (which pair is called slow).

mod end;
mod judge;
mod puts;
mod render;
mod turns;

use serde::{Deserialize, Serialize};
use tieline::NodeId;

pub(crate) use end::serve;
pub use turns::{Plan, run};

use crate::suspect::Suspected;
use crate::verdict::Verdict;

/// A block of the bandwidth: from here on a link is at full speed over TCP, and it goes over the first rail
/// alone.
pub(crate) const BLOCK_BYTES: usize = 64 << 10;

/// The form of a [`SpeedReport`] by itself.
pub const SCHEMA: &str = "tieline.hosts/1";
/// Longest block that is asked for, in bytes.
pub const MOST_BLOCK_BYTES: u64 = 16 << 20;
/// No turn has more sizes.
pub const MOST_SIZES: usize = 32;

/// What a tool asks of all ends: who takes part.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SpeedJob {
    /// Ascending.
    pub(crate) nodes: Vec<NodeId>,
    /// The longest block of a turn with sizes, in bytes; 0 if there are none. An end of an earlier version
    /// refuses it.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub(crate) longest_block_bytes: u64,
}

const fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// A further line of the tool: what an end is to do next, with the end of another node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Turn {
    /// Different in each turn; not 0.
    pub(crate) number: u64,
    /// Measure; otherwise answer.
    pub(crate) measures: bool,
    /// With which node.
    pub(crate) peer: NodeId,
    /// Its end's segment.
    pub(crate) segment: u32,
    /// Its end's interrupt.
    pub(crate) interrupt: u32,
    /// The card of its end for bare loops of libfabric's calls, if both ends can do these.
    pub(crate) bare: Option<String>,
    /// Blocks of these sizes are measured, too, in bytes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) sizes_bytes: Vec<u64>,
}

/// What an end says.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum EndSaid {
    /// It is there; the first word.
    Open {
        /// Its segment.
        segment: u32,
        /// Its interrupt.
        interrupt: u32,
        /// Its provider and card for bare loops of libfabric's calls, if it can do these.
        bare: Option<(String, String)>,
    },
    /// It answers from now on.
    Answers,
    /// The other end has said that it is done.
    Answered,
    /// What the sizes of the turn gave, before its figures.
    Puts(Vec<PutReading>),
    /// It has measured.
    Measured(Reading),
    /// Its turn has failed.
    Failed {
        /// Why.
        why: String,
    },
}

/// What a turn gave.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Reading {
    /// Half of a round trip: the median of short rows of them, in nanoseconds.
    pub half_rtt_ns: f64,
    /// That of the fastest row.
    pub least_half_rtt_ns: f64,
    /// Round trips.
    pub round_trips: usize,
    /// Bytes a second of blocks that are put one after the other, with a barrier at the end: the median of a
    /// few streams.
    pub bandwidth_bytes_per_s: f64,
    /// The provider's own figures, right after it.
    #[serde(default)]
    pub provider: Option<Baseline>,
}

/// What a bare loop of libfabric's calls does between the same two processes: messages of 8 bytes, and writes
/// of the same blocks.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Baseline {
    /// As [`Reading::half_rtt_ns`].
    pub half_rtt_ns: f64,
    /// As [`Reading::bandwidth_bytes_per_s`].
    pub bandwidth_bytes_per_s: f64,
}

/// Puts of one size.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct PutReading {
    /// Size of a block.
    pub size_bytes: u64,
    /// A put and the barrier behind it, until the owner has the bytes: the median, in nanoseconds.
    pub put_barrier_ns: f64,
    /// As [`Reading::bandwidth_bytes_per_s`], of blocks of this size.
    pub bandwidth_bytes_per_s: f64,
}

/// One ordered pair of nodes on two hosts.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct SpeedPair {
    /// From which node to which.
    pub pair: [NodeId; 2],
    /// What was measured.
    pub reading: Option<Reading>,
    /// Puts by size, if sizes were asked for: those for which there was time.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub puts: Vec<PutReading>,
    /// Why nothing was.
    pub error: Option<String>,
}

/// All that were tried.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct SpeedReport {
    /// By the first node, then by the second.
    pub pairs: Vec<SpeedPair>,
    /// Pairs of nodes on two hosts, measured or not.
    pub pairs_in_all: usize,
    /// Of these, the ones for which there was no time.
    pub left_out: usize,
    /// Providers of libfabric that the ends use, each once.
    #[serde(default)]
    pub providers: Vec<String>,
    /// Size of the blocks.
    pub block_bytes: u64,
    /// Nodes that took no part, and why.
    pub absent: Vec<(NodeId, String)>,
    /// Ended early, by request.
    pub partial: bool,
    /// Pairs that are slow beside the others have shown these.
    #[serde(default)]
    pub suspects: Vec<Suspected>,
    /// So many pairs were slow, and could not be measured often enough to be sure.
    #[serde(default)]
    pub unsure: usize,
    /// Failed where a pair is slow beside the others; in doubt where something could not be measured.
    pub verdict: Verdict,
}

impl SpeedReport {
    /// `sure`: the pairs that were slow each time that they were measured.
    fn judge(&mut self, sure: &[[NodeId; 2]]) {
        let is_whole = self.pairs.iter().all(|pair| pair.reading.is_some()) && self.absent.is_empty();
        let mut nodes: Vec<NodeId> = self.pairs.iter().flat_map(|pair| pair.pair).collect();
        nodes.sort_unstable();
        nodes.dedup();
        let (slow, unsure): (Vec<_>, Vec<_>) =
            judge::slow(&self.pairs).into_iter().partition(|(pair, _)| sure.contains(pair));
        self.suspects = judge::suspects(&nodes, &slow);
        self.unsure = unsure.len();
        let is_well = is_whole && !self.partial && !self.pairs.is_empty() && self.unsure == 0;
        self.verdict = match (self.suspects.is_empty(), is_well) {
            (false, _) => Verdict::Fail,
            (true, true) => Verdict::Pass,
            (true, false) => Verdict::Inconclusive,
        };
    }
}
