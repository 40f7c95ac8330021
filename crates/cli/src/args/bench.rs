//! Options of `tieline bench`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};
use tieline::NodeId;

use super::bench_tools::{Dma, Intr, Jitter, Latency, Pt2pt, Scibench2};

/// `bench`.
#[derive(Debug, Subcommand)]
pub(crate) enum Bench {
    /// Measure half the round trip of a request and its response, by size; both are stores into
    /// remote memory, between hosts puts
    #[command(
        after_help = "Examples:\n  tieline bench scipp            # both ends; starts a temporary cluster if none runs\n  \
                            tieline bench scipp --size 4\n  \
                            tieline bench scipp --rn 8     # node 8 may be on another host\n  \
                            tieline bench scipp --server --node 4 --rn 8     # one end, and in another terminal\n  \
                            tieline bench scipp --client --node 8 --rn 4     # the other\n  \
                            tieline bench scipp -client -rn 4 -size 4        # classic options work too"
    )]
    Scipp(Scipp),
    /// Measure the limits of this machine at this moment: cache line, copies, wake-ups, clock
    #[command(after_help = "Examples:\n  tieline bench limits\n  tieline bench limits --cpus 0,1 --json")]
    Limits(Limits),
    /// Measure streaming stores into remote memory, between hosts puts: time and bandwidth by size,
    /// compared with the best memcpy or libfabric's own writes
    #[command(after_help = "Examples:\n  tieline bench scibench2 --sizes 64,4K,1M\n  \
                            tieline bench scibench2 --server --node 4 --rn 8     # one end, and in another terminal\n  \
                            tieline bench scibench2 --client --node 8 --rn 4     # the other")]
    Scibench2(Scibench2),
    /// Measure vectors of block copies by the DMA queue: time and bandwidth by size, compared with
    /// memcpy, between hosts with libfabric's own writes
    #[command(after_help = "Examples:\n  tieline bench dma --classic\n  \
                            tieline bench dma --server --node 4 --rn 8     # one end, and in another terminal\n  \
                            tieline bench dma --client --node 8 --rn 4     # the other")]
    Dma(Dma),
    /// Measure round trips of interrupts: both ends spinning, or both asleep, compared with futex
    /// and eventfd, between hosts with libfabric's own messages
    #[command(after_help = "Examples:\n  tieline bench intr --classic\n  \
                            tieline bench intr --server --node 4 --rn 8     # one end, and in another terminal\n  \
                            tieline bench intr --client --node 8 --rn 4     # the other")]
    Intr(Intr),
    /// Record every round trip of a run, between hosts of puts: latency spikes, their periods and
    /// possible causes
    #[command(
        after_help = "Examples:\n  tieline bench jitter\n  tieline bench jitter --seconds 20 --json\n  \
                            tieline bench jitter --server --node 4 --rn 8     # one end, and in another terminal\n  \
                            tieline bench jitter --client --node 8 --rn 4     # the other"
    )]
    Jitter(Jitter),
    /// Measure the one-way time of a small message and the bandwidth of 1 MiB, compared with TCP,
    /// UNIX sockets, pipes, futex, memcpy, between hosts with TCP and libfabric's own calls
    #[command(after_help = "Examples:\n  tieline bench latency\n  tieline bench latency --same-core\n  \
                            tieline bench latency --cpus 0,1 --load 2\n  \
                            tieline bench latency --server --node 4 --rn 8     # one end, and in another terminal\n  \
                            tieline bench latency --client --node 8 --rn 4     # the other")]
    Latency(Latency),
    /// Measure messages between processes, operations of groups, and puts, gets and atomic operations,
    /// by size, as the OSU micro-benchmarks do for MPI
    #[command(
        after_help = "Examples:\n  tieline bench pt2pt                              # latency, bw, bibw\n  \
                            tieline bench pt2pt latency --sizes 8,1K,64K\n  \
                            tieline bench pt2pt mr --pairs 4 --sizes 8\n  \
                            tieline bench pt2pt barrier allreduce --members 8\n  \
                            tieline bench pt2pt put get fetch-add --sizes 8,4K\n  \
                            tieline bench pt2pt bw --layout osu              # for scripts that read osu_bw\n  \
                            tieline bench pt2pt latency allreduce --rn 8     # node 8 is on another host"
    )]
    Pt2pt(Pt2pt),
    /// Measure links between hosts: half round trip and bandwidth of pairs of nodes on two hosts, and
    /// puts by size, compared with libfabric alone
    #[command(
        after_help = "Examples:\n  tieline bench hosts                     # all pairs, one after the other\n  \
                            tieline bench hosts --from 4 --to 8     # node 4 puts into memory of node 8\n  \
                            tieline bench hosts --sizes 64,4K,1M --json"
    )]
    Hosts(Hosts),
    /// Run the acceptance benchmarks: each figure and its reference in alternating blocks, judged
    /// by a goal
    #[command(after_help = "Examples:\n  tieline bench acceptance --list\n  \
                            tieline bench acceptance --only connect_map\n  \
                            tieline bench acceptance --only fabric\n  \
                            tieline bench acceptance --only redis --seconds 30    # narrower intervals\n  \
                            tieline bench acceptance --resume run.json    # the same command continues an interrupted run\n  \
                            tieline bench acceptance --only put up       # put.1MiB.hot, put.1MiB.cold, …, up.64.pss")]
    Acceptance(Acceptance),
    /// Compare two results of one command: which figures are worse, better or equal; a missing
    /// figure is a failure
    #[command(
        after_help = "Examples:\n  tieline bench acceptance --json >old.json    # and later the same into new.json\n  \
                            tieline bench compare old.json new.json\n  \
                            tieline bench compare old.json new.json --relative 10% --absolute 5ns --absolute 0.2GB/s"
    )]
    Compare(Compare),
    /// Measure the acceptance figures of two builds alternately, and name those that are worse;
    /// `./run compare` builds an earlier commit for it
    #[command(
        name = "compare-builds",
        after_help = "Examples:\n  tieline bench compare-builds old/target/release/tieline target/release/tieline\n  \
                            tieline bench compare-builds old/tieline new/tieline --only put sockets.echo\n  \
                            tieline bench compare-builds old/tieline new/tieline --only put --list    # what would be compared"
    )]
    CompareBuilds(CompareBuilds),
    /// Print the limits of the acceptance figures as a file for --thresholds
    #[command(
        after_help = "Examples:\n  tieline bench thresholds >mine.toml    # change some limits, delete the rest\n  \
                            tieline bench acceptance --thresholds mine.toml\n  tieline bench scipp --thresholds mine.toml"
    )]
    Thresholds,
}

/// `bench scipp`.
#[derive(Debug, Args)]
pub(crate) struct Scipp {
    /// Run the server end; the client is on node --rn
    #[arg(long, conflicts_with = "client")]
    pub server: bool,
    /// Run the client end, which measures and prints
    #[arg(long)]
    pub client: bool,
    /// Node of the other end; it may be on another host, where an agent then runs that end
    #[arg(long, value_name = "ID")]
    pub rn: Option<NodeId>,
    /// Only messages of this size, 0 to 8192 bytes [default: 13 sizes from 0 to 8192]
    #[arg(long, value_name = "BYTES", value_parser = message)]
    pub size: Option<u16>,
    /// Where the message buffers are: those of both directions in one segment, or each in the
    /// segment of the end that reads it
    #[arg(long, value_enum, default_value_t = Placement::Shared)]
    pub placement: Placement,
    /// Processors of this end and, if it is in this process, of the far end; one number for both
    /// [default: two are chosen]
    #[arg(long, value_name = "A,B", value_parser = super::bench_tools::cpus)]
    pub cpus: Option<[usize; 2]>,
    /// Run both ends on one processor
    #[arg(long, conflicts_with = "cpus")]
    pub same_core: bool,
    /// Number of competing busy threads, at most 4 per processor
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub load: usize,
    /// Print the classic table
    #[arg(long)]
    pub classic: bool,
    /// Also write the result as JSON to this file
    #[arg(long, value_name = "FILE")]
    pub json_file: Option<PathBuf>,
    /// Judge the result by this file; see `tieline bench thresholds`
    #[arg(long, value_name = "FILE")]
    pub thresholds: Option<PathBuf>,
}

/// `bench limits`.
#[derive(Debug, Args)]
pub(crate) struct Limits {
    /// Two different processors to measure on [default: two are chosen]
    #[arg(long, value_name = "A,B", value_parser = cpus)]
    pub cpus: Option<[usize; 2]>,
}

/// `bench hosts`.
#[derive(Debug, Args)]
pub(crate) struct Hosts {
    /// Only pairs in which this node puts [default: all nodes]
    #[arg(long, value_name = "ID")]
    pub from: Option<NodeId>,
    /// Only pairs in which this node owns the memory [default: all nodes]
    #[arg(long, value_name = "ID")]
    pub to: Option<NodeId>,
    /// Sizes of the blocks that are put, 1 byte to 16 MiB, at most 32
    #[arg(long, value_name = "SIZE,…", value_delimiter = ',', value_parser = super::bench_tools::size,
          default_value = "8,64,512,4K,32K,64K,256K,1M,4M")]
    pub sizes: Vec<usize>,
    /// Also write the result as JSON to this file
    #[arg(long, value_name = "FILE")]
    pub json_file: Option<PathBuf>,
}

/// Longest message of `scipp`, in bytes.
const LONGEST_MESSAGE: usize = 8192;

/// Bytes of a message.
fn message(text: &str) -> Result<u16, String> {
    let bytes = super::bench_tools::size(text)?;
    match u16::try_from(bytes) {
        Ok(short) if bytes <= LONGEST_MESSAGE => Ok(short),
        _ => Err(format!("give a message size of 0 to {LONGEST_MESSAGE} bytes, such as 4 or 4K")),
    }
}

/// Where messages of `scipp` lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Placement {
    /// Request and response in one segment; up to 56 bytes, both use the same cache line
    Shared,
    /// Each end writes into the other end's segment, as on adapters without coherent loads
    Own,
}

impl From<Placement> for bench::patterns::pio::Placement {
    fn from(placement: Placement) -> Self {
        match placement {
            Placement::Shared => Self::Shared,
            Placement::Own => Self::Own,
        }
    }
}

/// `bench acceptance`.
#[derive(Debug, Args)]
pub(crate) struct Acceptance {
    /// Only these figures: whole names, or the part before a dot (`put` means put.1MiB.hot,
    /// put.1MiB.cold, …); `fabric` means all figures of switched fabrics
    #[arg(long, value_name = "ID", num_args = 1..)]
    pub only: Vec<String>,
    /// Two different processors to measure on [default: two are chosen]
    #[arg(long, value_name = "A,B", value_parser = cpus)]
    pub cpus: Option<[usize; 2]>,
    /// Time for the blocks of one figure at most, in seconds; a longer one narrows the interval where
    /// the machine is noisy. Figures of slow readings take a multiple of it
    #[arg(long, value_name = "S", default_value = "6", value_parser = seconds)]
    pub seconds: Duration,
    /// Also compare routes with all of OpenSM's engines, on twenty damaged trees and on large
    /// fabrics of each kind; takes hours instead of minutes (`--only quality.large` alone: an hour)
    #[arg(long)]
    pub rivals: bool,
    /// Save each finished figure in FILE; if FILE exists and is of this machine and build, measure
    /// only the missing figures
    #[arg(long, value_name = "FILE")]
    pub resume: Option<PathBuf>,
    /// Only list the figures
    #[arg(long)]
    pub list: bool,
    /// Judge by the limits of this file instead of the goals; `tieline bench thresholds` prints one
    #[arg(long, value_name = "FILE")]
    pub thresholds: Option<PathBuf>,
}

/// `bench compare`.
#[derive(Debug, Args)]
pub(crate) struct Compare {
    /// The earlier result: JSON of any benchmark, of acceptance, or of verify
    #[arg(value_name = "OLD.json")]
    pub old: PathBuf,
    /// The new result: JSON of the same command
    #[arg(value_name = "NEW.json")]
    pub new: PathBuf,
    /// Relative tolerance: a change must exceed both it and --absolute
    #[arg(long, value_name = "SHARE", default_value = "5%", value_parser = bench::quantity::share)]
    pub relative: f64,
    /// Absolute tolerance: a change must exceed both it and --relative; once per unit [default:
    /// 2ns, 0.1GB/s, 0.5M/s, 0.1MB, 1ms/min]
    #[arg(long, value_name = "QUANTITY", value_parser = bench::quantity::Quantity::parse)]
    pub absolute: Vec<bench::quantity::Quantity>,
    /// Do not count a figure that is missing in the new result as a failure
    #[arg(long)]
    pub missing_ok: bool,
    /// Seed of the bootstrap and the permutation test
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
}

/// `bench compare-builds`.
#[derive(Debug, Args)]
pub(crate) struct CompareBuilds {
    /// `tieline` of the old build, with its other files in the same folder
    #[arg(value_name = "OLD")]
    pub old: PathBuf,
    /// `tieline` of the new build
    #[arg(value_name = "NEW")]
    pub new: PathBuf,
    /// Only these figures, as for `bench acceptance`
    #[arg(long, value_name = "ID", num_args = 1..)]
    pub only: Vec<String>,
    /// Two different processors to measure on [default: each build chooses]
    #[arg(long, value_name = "A,B", value_parser = cpus)]
    pub cpus: Option<[usize; 2]>,
    /// Most runs of each build per figure; 6 suffice if they agree
    #[arg(long, value_name = "N", default_value_t = 12, value_parser = clap::value_parser!(u16).range(6..=1000))]
    pub rounds: u16,
    /// Do not count a figure that is missing in the new result as a failure
    #[arg(long)]
    pub missing_ok: bool,
    /// Label of the old build [default: its path]
    #[arg(long, value_name = "NAME")]
    pub old_name: Option<String>,
    /// Label of the new build [default: its path]
    #[arg(long, value_name = "NAME")]
    pub new_name: Option<String>,
    /// Only list the figures that would be compared
    #[arg(long)]
    pub list: bool,
}

/// A time for the blocks of one figure, in seconds.
fn seconds(text: &str) -> Result<Duration, String> {
    let wrong = || format!("`{text}`: give more than 0 and at most 3600 seconds, such as 20");
    let seconds: f64 = text.trim().parse().map_err(|_| wrong())?;
    if seconds > 0.0 && seconds <= 3600.0 { Ok(Duration::from_secs_f64(seconds)) } else { Err(wrong()) }
}

/// Two processors: `0,1`.
fn cpus(text: &str) -> Result<[usize; 2], String> {
    let wrong = || {
        format!(
            "`{text}`: give two different processors, such as 0,1: each side of the measurement needs its own"
        )
    };
    let (near, far) = text.split_once(',').ok_or_else(wrong)?;
    match (near.trim().parse(), far.trim().parse()) {
        (Ok(near), Ok(far)) if near != far => Ok([near, far]),
        _ => Err(wrong()),
    }
}
