//! `pt2pt`: messages between processes, operations of groups, and operations on memory of another node, by
//! size, as the OSU micro-benchmarks measure them for MPI.
//!
//! Of messages and groups each process has a message queue of its own ([`super::messages::Members`]); memory
//! is a segment of one node that another one is connected to. Between hosts each queue has a thread of the
//! process of its host ([`client`], [`serve`]). A reading is the mean of as many messages, or
//! calls, as take some milliseconds; of several readings the median counts.

mod hosts;
mod memory;
mod report;
mod runs;
mod team;

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use runs::Running;
use tieline::messages::set_variables;

pub use hosts::{client, serve_hosts as serve};
pub use report::{Report, Row};

use super::{attach::Where, sizes};
use crate::{
    cpus,
    env::{self, Env},
    error::{BenchError, Result},
    layout::table::size as shown,
    progress::{Progress, Waiter},
    timer::Timer,
};

const WHAT: &str = "pt2pt";
/// Most pairs, and most members of a group: each is a process.
pub const PROCESSES_MAX: usize = 64;
/// Readings of a size, of which the median counts.
const READINGS: usize = 5;
/// Bytes of the messages of a window in all: of long messages fewer are under way.
const WINDOW_BYTES: usize = 16 << 20;
/// How long a reading is to take, in ns.
const READING_NS: f64 = 20e6;
/// Messages of the reading that finds out how long one takes, and of the longest reading.
const FIRST_COUNT: usize = 32;
/// The same of messages from this length on, of which groups send many a call.
const FIRST_COUNT_OF_LONG: usize = 4;
const LONG_BYTES: usize = 64 << 10;
/// What is added up by `allreduce`, and what atomic operations change.
const WORD_BYTES: usize = 8;
/// Most messages under way.
const WINDOW_MAX: usize = 1 << 16;
const COUNT_MAX: usize = 200_000;

/// What is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Test {
    /// Half a round trip.
    Latency,
    /// Messages in one direction.
    Bw,
    /// Messages in both directions at once.
    Bibw,
    /// Messages in one direction, between several pairs at once: bandwidth and rate.
    Mr,
    /// Half a round trip, between several pairs at once.
    MultiLat,
    /// All members have come.
    Barrier,
    /// The first member's bytes for all.
    Broadcast,
    /// A sum of all members' words for all.
    Allreduce,
    /// A block of each member for all.
    Allgather,
    /// A block of each member for each.
    Alltoall,
    /// A block into the memory of another node.
    Put,
    /// A block out of it.
    Get,
    /// Several blocks into it.
    PutBw,
    /// Several blocks out of it.
    GetBw,
    /// A word there is added to, and what it was comes back.
    FetchAdd,
    /// A word there is exchanged if it has a certain value.
    CompareSwap,
}

impl Test {
    /// All of them.
    pub const ALL: [Self; 16] = [
        Self::Latency,
        Self::Bw,
        Self::Bibw,
        Self::Mr,
        Self::MultiLat,
        Self::Barrier,
        Self::Broadcast,
        Self::Allreduce,
        Self::Allgather,
        Self::Alltoall,
        Self::Put,
        Self::Get,
        Self::PutBw,
        Self::GetBw,
        Self::FetchAdd,
        Self::CompareSwap,
    ];

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Latency => "latency",
            Self::Bw => "bw",
            Self::Bibw => "bibw",
            Self::Mr => "mr",
            Self::MultiLat => "multi-lat",
            Self::Barrier => "barrier",
            Self::Broadcast => "broadcast",
            Self::Allreduce => "allreduce",
            Self::Allgather => "allgather",
            Self::Alltoall => "alltoall",
            Self::Put => "put",
            Self::Get => "get",
            Self::PutBw => "put-bw",
            Self::GetBw => "get-bw",
            Self::FetchAdd => "fetch-add",
            Self::CompareSwap => "compare-swap",
        }
    }

    /// Whether a group carries it out.
    pub const fn is_of_group(self) -> bool {
        matches!(self, Self::Barrier | Self::Broadcast | Self::Allreduce | Self::Allgather | Self::Alltoall)
    }

    /// Whether memory of another node is used, which takes no part; else it is of a group or of pairs.
    pub const fn is_of_memory(self) -> bool {
        self.is_atomic() || matches!(self, Self::Put | Self::Get | Self::PutBw | Self::GetBw)
    }

    const fn is_atomic(self) -> bool {
        matches!(self, Self::FetchAdd | Self::CompareSwap)
    }

    /// Whether bytes a second are measured; else the time of one.
    pub const fn is_bandwidth(self) -> bool {
        matches!(self, Self::Bw | Self::Bibw | Self::Mr | Self::PutBw | Self::GetBw)
    }

    /// Whether the size is given: a barrier has none.
    const fn has_size(self) -> bool {
        !matches!(self, Self::Barrier)
    }

    /// The sizes that it is measured with, of those that are given.
    fn sizes(self, given: &[usize]) -> Vec<usize> {
        match self {
            Self::Barrier => vec![0],
            // It adds words.
            Self::Allreduce => {
                let mut sizes: Vec<_> =
                    given.iter().map(|size| (size / WORD_BYTES).max(1) * WORD_BYTES).collect();
                sizes.dedup();
                sizes
            }
            test if test.is_atomic() => vec![WORD_BYTES],
            _ => given.to_vec(),
        }
    }

    /// For people: the test of this size.
    fn of(self, size_bytes: usize) -> String {
        if self.has_size() {
            format!("{} of {}", self.name(), shown(size_bytes as u64))
        } else {
            self.name().to_owned()
        }
    }

    /// Members that carry it out, if it is not one of memory.
    const fn members(self, options: &Options) -> usize {
        if self.is_of_group() { options.members } else { 2 * self.pairs(options) }
    }

    /// Pairs that carry it out.
    const fn pairs(self, options: &Options) -> usize {
        if matches!(self, Self::Mr | Self::MultiLat) { options.pairs } else { 1 }
    }
}

/// The options of the benchmark.
#[derive(Debug, Clone)]
pub struct Options {
    /// What is measured, in this order.
    pub tests: Vec<Test>,
    /// Sizes of a message or of a block.
    pub sizes_bytes: Vec<usize>,
    /// The nodes: of tests of memory ([`Test::is_of_memory`]), or of all tests between hosts.
    pub place: Option<Where>,
    /// Pairs of [`Test::Mr`] and [`Test::MultiLat`].
    pub pairs: usize,
    /// Members of groups.
    pub members: usize,
    /// Most messages under way.
    pub window: usize,
    /// Messages, or calls, of a reading; else as many as take some milliseconds.
    pub iterations: Option<usize>,
    /// Processors of the two ends of a pair; members take turns on them. None: two are chosen.
    pub cpus: Option<[usize; 2]>,
    /// Command line, for the record.
    pub argv: Vec<String>,
}

/// An access to memory of another node, or of another rank of an MPI.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Access {
    /// Whether bytes are put there, with a barrier or flush behind each put; else they are got.
    pub is_put: bool,
    /// How many.
    pub size_bytes: usize,
}

impl Access {
    /// Accesses of a reading.
    pub const fn count(self) -> usize {
        COUNT_MAX
    }

    /// What an MPI is told.
    pub(super) fn order(self) -> String {
        format!("{} {} {}", self.test().name(), self.size_bytes, self.count())
    }

    const fn test(self) -> Test {
        if self.is_put { Test::Put } else { Test::Get }
    }
}

/// Memory of one node that another one accesses.
pub struct Accessed {
    memory: memory::Memory,
    access: Access,
}

impl Accessed {
    /// On the nodes of `place`; bytes that are known were moved and compared.
    ///
    /// # Errors
    /// A node or a segment is missing, or other bytes arrive.
    pub fn new(place: &Where, access: Access, waiter: &Arc<dyn Waiter>) -> Result<Self> {
        let mut memory = memory::Memory::start(place, access.size_bytes, waiter)?;
        memory.prove(access.test(), access.size_bytes)?;
        Ok(Self { memory, access })
    }

    /// The mean time of an access, in ns.
    ///
    /// # Errors
    /// The memory is lost, or the run is to end.
    pub fn reading_ns(&mut self) -> Result<f64> {
        let Access { size_bytes, .. } = self.access;
        self.memory.reading(self.access.test(), size_bytes, self.access.count(), 1)
    }
}

/// From 1 byte to 4 MiB.
pub fn default_sizes() -> Vec<usize> {
    (0..=22).map(|log2| 1 << log2).collect()
}

impl Options {
    /// Checks what can be checked before anything is started.
    ///
    /// # Errors
    /// An option that cannot be measured.
    pub fn check(&self) -> Result<()> {
        let wrong = |what: String| Err(BenchError::Usage(what));
        if self.window == 0 || self.window > WINDOW_MAX {
            return wrong(format!(
                "--window {}: give the messages under way, from 1 to {WINDOW_MAX}",
                self.window
            ));
        }
        if self.pairs == 0 || self.pairs > PROCESSES_MAX {
            return wrong(format!("--pairs {}: give a number from 1 to {PROCESSES_MAX}", self.pairs));
        }
        if self.members < 2 || self.members > PROCESSES_MAX {
            return wrong(format!("--members {}: give a number from 2 to {PROCESSES_MAX}", self.members));
        }
        // Of each process two messages, or the blocks of all members twice; below, windows in both
        // directions.
        let pairs = self.tests.iter().map(|test| test.pairs(self)).max().unwrap_or(1);
        let has_group = self.tests.iter().any(|test| test.is_of_group());
        let of_group = if has_group { 2 * self.members * self.members } else { 0 };
        let copies = of_group.max(4 * pairs);
        sizes::check("--sizes", &self.sizes_bytes, copies)?;
        if self.tests.iter().any(|test| test.is_bandwidth()) {
            let windows = self.sizes_bytes.iter().map(|size| size.saturating_mul(self.window_of(*size)));
            sizes::check("--sizes, with all messages under way,", &windows.collect::<Vec<_>>(), 4 * pairs)?;
        }
        Ok(())
    }

    /// Messages of this size that are under way.
    pub(super) fn window_of(&self, size_bytes: usize) -> usize {
        self.window.min(WINDOW_BYTES / size_bytes.max(1)).max(1)
    }

    /// Memory that the blocks of the test take.
    fn memory_bytes(&self, test: Test) -> usize {
        let blocks = |size: usize| if test.is_bandwidth() { self.window_of(size) } else { 1 };
        test.sizes(&self.sizes_bytes).iter().map(|size| size * blocks(*size)).max().unwrap_or_default()
    }
}

/// Measures all of it.
///
/// # Errors
/// A wrong option, too few processors, or a process that fails.
pub fn run(options: &Options, progress: &mut dyn Progress) -> Result<Report> {
    options.check()?;
    let cpus = cpus::pair(options.cpus, WHAT)?;
    measured(options, &mut Place::Here(cpus), progress)
}

/// Where the ends are.
enum Place<'a> {
    /// Processes of this host, on these processors.
    Here([usize; 2]),
    Hosts(&'a mut hosts::Hosts),
}

/// Measures with ends that are there, or can be started.
fn measured(options: &Options, place: &mut Place<'_>, progress: &mut dyn Progress) -> Result<Report> {
    let (nodes, cpus, path) = match place {
        Place::Here(cpus) => (None, *cpus, None),
        Place::Hosts(hosts) => {
            let (nodes, cpus, path) = hosts.place();
            (Some(nodes.map(|node| node.get())), cpus, Some(path))
        }
    };
    let timer = Timer::new()?;
    let (started, steal) = (std::time::Instant::now(), env::steal_ms());
    let mut env = Env::gather(timer.record(), options.argv.clone(), 1);
    let mut rows = Vec::new();
    for (at, test) in options.tests.iter().enumerate() {
        let share = (at as f64, options.tests.len() as f64);
        match measure(*test, options, place, &mut rows, share, progress) {
            // What there is, is reported.
            Err(_) if progress.stop() => break,
            measured => measured?,
        }
    }
    env.finish(started, steal);
    Ok(Report {
        schema: Report::SCHEMA.to_owned(),
        env,
        environment: set_variables().into_iter().map(str::to_owned).collect(),
        nodes,
        path,
        cpus,
        pairs: options.pairs,
        members: options.members,
        window: options.window,
        partial: progress.stop(),
        rows,
    })
}

/// Adds the rows of one test, which is number `share.0` of `share.1`.
fn measure(
    test: Test,
    options: &Options,
    place: &mut Place<'_>,
    rows: &mut Vec<Row>,
    share: (f64, f64),
    progress: &mut dyn Progress,
) -> Result<()> {
    let sizes = test.sizes(&options.sizes_bytes);
    let mut running = Running::start(test, options, place, &progress.waiter())?;
    for (done, size) in sizes.iter().enumerate() {
        if progress.stop() {
            break;
        }
        let what = test.of(*size);
        progress.tell(&what, (share.0 + done as f64 / sizes.len() as f64) / share.1);
        rows.push(running.row(*size, options)?);
    }
    Ok(())
}
