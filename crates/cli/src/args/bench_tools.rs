//! Options of the benchmarks between two nodes.

use std::path::PathBuf;

use bench::patterns::{intr_bench, pt2pt, scibench2, sizes};
use bench::rivals::placement;
use clap::Args;
use tieline::NodeId;

/// Options of the benchmarks that have a server and a client.
#[derive(Debug, Clone, Args)]
pub(crate) struct Ends {
    /// Run the server end; the client is on node --rn
    #[arg(long, conflicts_with = "client")]
    pub server: bool,
    /// Run the client end, which measures and prints
    #[arg(long)]
    pub client: bool,
    /// Node of the other end, which may be on another host
    #[arg(long, value_name = "ID")]
    pub rn: Option<NodeId>,
    /// Processors of this end and, if it is in this process, of the far end; one number for both
    /// [default: two are chosen]
    #[arg(long, value_name = "A,B", value_parser = cpus)]
    pub cpus: Option<[usize; 2]>,
    /// Run both ends on one processor
    #[arg(long, conflicts_with = "cpus")]
    pub same_core: bool,
    /// Number of competing busy threads, at most 4 per processor
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub load: usize,
    /// Also write the result as JSON to this file
    #[arg(long, value_name = "FILE")]
    pub json_file: Option<PathBuf>,
    /// Judge the result by this file; see `tieline bench thresholds`
    #[arg(long, value_name = "FILE")]
    pub thresholds: Option<PathBuf>,
}

/// `bench scibench2`.
#[derive(Debug, Args)]
pub(crate) struct Scibench2 {
    /// The ends.
    #[command(flatten)]
    pub ends: Ends,
    /// Print the classic layout
    #[arg(long)]
    pub classic: bool,
    /// Sizes of blocks, such as 64,4K,1M [default: 64 to 1M]
    #[arg(long, value_name = "SIZE", value_delimiter = ',', value_parser = size)]
    pub sizes: Vec<usize>,
    /// How the bytes are stored [default: map within a host, put between hosts]
    #[arg(long, value_enum)]
    pub way: Option<Way>,
    /// Blocks of measurement for each size
    #[arg(long, default_value_t = 31, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub blocks: u32,
}

/// How `scibench2` stores.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Way {
    /// Through a map of the segment, which checks bounds
    Map,
    /// By put, which checks bounds and that the segment's owner lives
    Put,
}

impl From<Way> for scibench2::Way {
    fn from(way: Way) -> Self {
        match way {
            Way::Map => Self::Map,
            Way::Put => Self::Put,
        }
    }
}

/// `bench dma`.
#[derive(Debug, Args)]
pub(crate) struct Dma {
    /// The ends.
    #[command(flatten)]
    pub ends: Ends,
    /// Print the classic layout
    #[arg(long)]
    pub classic: bool,
    /// Sizes of entries, such as 64,4K,1M [default: 64 to 64M]
    #[arg(long, value_name = "SIZE", value_delimiter = ',', value_parser = size)]
    pub sizes: Vec<usize>,
    /// Blocks of measurement for each size
    #[arg(long, default_value_t = 11, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub blocks: u32,
}

/// `bench intr`.
#[derive(Debug, Args)]
pub(crate) struct Intr {
    /// The ends.
    #[command(flatten)]
    pub ends: Ends,
    /// Print the classic layout
    #[arg(long)]
    pub classic: bool,
    /// Which of the two averages the classic layout prints
    #[arg(long, value_enum, default_value_t = Waiting::Awake)]
    pub waiting: Waiting,
    /// Samples per measurement
    #[arg(long, default_value_t = 31, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub readings: u32,
}

/// How both sides of `intr` wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Waiting {
    /// Both ends spin until the interrupt arrives
    Awake,
    /// Both ends sleep until the interrupt arrives
    Asleep,
}

impl From<Waiting> for intr_bench::Mode {
    fn from(waiting: Waiting) -> Self {
        match waiting {
            Waiting::Awake => Self::Spinning,
            Waiting::Asleep => Self::Sleeping,
        }
    }
}

/// `bench jitter`.
#[derive(Debug, Args)]
pub(crate) struct Jitter {
    /// The ends.
    #[command(flatten)]
    pub ends: Ends,
    /// Length of the run; a period is reported if it repeats five times
    #[arg(long, value_name = "S", default_value_t = 6.0)]
    pub seconds: f64,
    /// How long the noise of each idle processor is measured before the run; 0 for not at all
    #[arg(long, value_name = "S", default_value_t = 2.0)]
    pub idle_seconds: f64,
    /// Memory for the round trips; if it is too small, several round trips share an entry
    #[arg(long, value_name = "SIZE", default_value = "256M", value_parser = size)]
    pub memory: usize,
}

/// `bench latency`.
#[derive(Debug, Args)]
pub(crate) struct Latency {
    /// The ends.
    #[command(flatten)]
    pub ends: Ends,
    /// Print the classic table instead: messages of 1 to 65536 bytes by TCP
    #[arg(long)]
    pub classic: bool,
    /// Samples of each transport, in random order
    #[arg(long, default_value_t = 31, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub rounds: u32,
}

/// `bench pt2pt`.
#[derive(Debug, Args)]
pub(crate) struct Pt2pt {
    /// What to measure: latency (half a round trip), bw (one direction), bibw (both), mr and
    /// multi-lat (several pairs), barrier, broadcast, allreduce, allgather, alltoall (a group);
    /// put, get, put-bw, get-bw, fetch-add, compare-swap (memory of another node, on a cluster of
    /// its own, or of --rn) [default: latency bw bibw]
    #[arg(value_name = "TEST", value_parser = test)]
    pub tests: Vec<pt2pt::Test>,
    /// Measure between two hosts: node of the other one, on which an agent serves
    #[arg(long, value_name = "ID")]
    pub rn: Option<NodeId>,
    /// Run the end that serves; the one that measures is on node --rn, on another host
    #[arg(long, requires = "rn", conflicts_with = "client")]
    pub server: bool,
    /// Run the end that measures; one that serves was started on node --rn, on another host
    #[arg(long, requires = "rn")]
    pub client: bool,
    /// Sizes of a message or block, such as 8,4K,1M; of allreduce multiples of 8; fetch-add and
    /// compare-swap change 8 bytes [default: 1 to 4M]
    #[arg(long, value_name = "SIZE", value_delimiter = ',', value_parser = size)]
    pub sizes: Vec<usize>,
    /// Pairs of processes, for mr and multi-lat
    #[arg(long, value_name = "N", default_value_t = 2)]
    pub pairs: usize,
    /// Processes of a group
    #[arg(long, value_name = "N", default_value_t = 4)]
    pub members: usize,
    /// Messages under way, for bw, bibw, mr, put-bw and get-bw; of long messages fewer, 16 MiB in all
    #[arg(long, value_name = "N", default_value_t = 64)]
    pub window: usize,
    /// Messages, round trips or calls of a reading [default: as many as take about 20 ms]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    pub iterations: Option<u32>,
    /// Processors of the two ends of a pair; members of groups take turns on them; put, get and
    /// the like run on the first. With --rn: those of this host's ends, which take turns on them
    /// [default: two are chosen, with --rn all that may be used]
    #[arg(long, value_name = "A,B", value_parser = cpus)]
    pub cpus: Option<[usize; 2]>,
    /// How the result is printed: tables, or as the OSU micro-benchmarks 7.4 print it
    #[arg(long, value_enum, default_value_t = Layout::Table)]
    pub layout: Layout,
    /// Also write the result as JSON to this file
    #[arg(long, value_name = "FILE")]
    pub json_file: Option<PathBuf>,
    /// Judge the result by this file; see `tieline bench thresholds`
    #[arg(long, value_name = "FILE")]
    pub thresholds: Option<PathBuf>,
}

/// How `pt2pt` prints its result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Layout {
    /// Tables with the range of the readings
    Table,
    /// As osu_latency, osu_bw, osu_mbw_mr and so on
    Osu,
}

fn test(text: &str) -> Result<pt2pt::Test, String> {
    let all = pt2pt::Test::ALL;
    all.into_iter()
        .find(|test| test.name() == text)
        .ok_or_else(|| format!("`{text}` is no test: give {}", all.map(pt2pt::Test::name).join(", ")))
}

pub(crate) fn size(text: &str) -> Result<usize, String> {
    sizes::parse(text).map_err(|error| error.to_string())
}

pub(super) fn cpus(text: &str) -> Result<[usize; 2], String> {
    placement::parse(text).map_err(|error| error.to_string())
}
