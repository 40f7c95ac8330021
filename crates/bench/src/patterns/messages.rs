//! Messages between processes, through message queues and through rivals.
//!
//! Ours are processes that carry out orders, and sleep while a rival is measured. UCX is its own benchmark
//! ([`ucx`]), MPI a program of ours ([`mpi`]), as is libfabric ([`fi`]); they are started for each reading.
//! All have the same two processors.

use std::sync::Arc;

use crate::{
    baseline::line::{FarThread, LineProbe, Lines},
    error::Result,
    pinned_pair::PinnedPair,
    progress::Waiter,
    run::Sides,
    timer::Timer,
};

mod fi;
mod members;
mod mpi;
mod ucx;
pub mod ways;

pub use fi::{BesideShm, Fi, Provider};
pub use members::{Members, number};
pub use mpi::{Implementation, Mpi};
pub use ucx::Ucx;

const WHAT: &str = "messages";
/// Bytes that the messages of one reading have in all, about, and how many there are at least and at most.
const READING_BYTES: u64 = 512 << 20;
const COUNT_MIN: u64 = 100;
const COUNT_MAX: u64 = 1_000_000;
/// Round trips of a reading.
const ROUNDS: u64 = 100_000;
/// The same, and calls of a group, of more processes than processors: an MPI may take milliseconds for one.
const ROUNDS_OF_MANY: u64 = 1_000;
/// Memory of messages that no cache holds.
const COLD_BYTES: u64 = 256 << 20;
/// Messages under way. A message of ours has its memory to itself, and rivals send all from the same: so of
/// ours only one long message is under way, from and to the same memory, too.
const WINDOW_OF_SHORT: u64 = 64;
const WINDOW_OF_LONG: u64 = 4;
const LONG_BYTES: u64 = 16 << 10;

/// What is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Load {
    /// Messages of this size there and back: half the time of a round trip, in ns.
    Echo {
        /// The size of one.
        size_bytes: u64,
    },
    /// Messages of 8 bytes there and back between so many pairs at once, which share the two processors:
    /// half the time of a round trip, the mean of the pairs, in ns.
    Pairs {
        /// Their number.
        pairs: u64,
    },
    /// Messages of 8 bytes in one direction, in millions a second.
    Rate {
        /// Tags that are used in turn; a receive of each is posted.
        tags: u64,
    },
    /// Messages of this size in one direction, in GB/s.
    Stream {
        /// The size of one.
        size_bytes: u64,
        /// Whether they are from and to so much memory that no cache holds it; else from and to the same.
        is_cold: bool,
    },
    /// A sum of one word of each of so many processes, which share the two processors: the time of a call, in
    /// ns.
    Allreduce {
        /// The processes.
        members: u64,
    },
}

impl Load {
    /// Bytes of a message.
    pub const fn size_bytes(self) -> u64 {
        match self {
            Self::Rate { .. } | Self::Pairs { .. } | Self::Allreduce { .. } => 8,
            Self::Echo { size_bytes } | Self::Stream { size_bytes, .. } => size_bytes,
        }
    }

    /// Unit of its readings.
    pub const fn unit(self) -> &'static str {
        match self {
            Self::Echo { .. } | Self::Pairs { .. } | Self::Allreduce { .. } => "ns",
            Self::Rate { .. } => "M/s",
            Self::Stream { .. } => "GB/s",
        }
    }

    /// Messages, round trips or calls of a reading.
    pub fn count(self) -> u64 {
        match self {
            Self::Echo { .. } => ROUNDS,
            Self::Pairs { .. } | Self::Allreduce { .. } => ROUNDS_OF_MANY,
            Self::Rate { .. } => COUNT_MAX,
            Self::Stream { size_bytes, .. } => (READING_BYTES / size_bytes).clamp(COUNT_MIN, COUNT_MAX),
        }
    }

    /// Processes that carry it out.
    pub const fn processes(self) -> u64 {
        match self {
            Self::Allreduce { members } => members,
            Self::Pairs { pairs } => 2 * pairs,
            _ => 2,
        }
    }

    const fn is_long(self) -> bool {
        self.size_bytes() >= LONG_BYTES
    }

    /// Messages of an MPI that are under way in one direction.
    const fn window(self) -> u64 {
        match self {
            Self::Rate { tags } if tags > WINDOW_OF_SHORT => tags,
            _ if self.is_long() => WINDOW_OF_LONG,
            _ => WINDOW_OF_SHORT,
        }
    }

    const fn tags(self) -> u64 {
        match self {
            Self::Rate { tags } => tags,
            _ => 1,
        }
    }

    /// Messages that have memory of their own.
    const fn buffers(self) -> u64 {
        match self {
            Self::Stream { size_bytes, is_cold: true } => COLD_BYTES / size_bytes,
            _ => 1,
        }
    }

    /// What the near end of ours is ordered, and the far end. All members of a group have the same order.
    fn orders(self) -> [String; 2] {
        let (size_bytes, count) = (self.size_bytes(), self.count());
        match self {
            Self::Echo { .. } | Self::Pairs { .. } => {
                [format!("echo {size_bytes} {count}"), format!("answer {size_bytes} {count}")]
            }
            Self::Rate { .. } | Self::Stream { .. } => {
                let window = if self.is_long() { 1 } else { self.window() };
                let (tags, buffers) = (self.tags(), self.buffers().max(window));
                let shape = format!("{size_bytes} {count} {window} {tags} {buffers}");
                [format!("send {shape}"), format!("receive {shape}")]
            }
            Self::Allreduce { .. } => {
                let order = format!("allreduce {size_bytes} {count}");
                [order.clone(), order]
            }
        }
    }

    /// A reading, from what the near end reports.
    fn of_ns(self, ns: f64) -> f64 {
        match self {
            Self::Echo { .. } | Self::Pairs { .. } | Self::Allreduce { .. } => ns,
            Self::Rate { .. } => self.count() as f64 / ns * 1e3,
            Self::Stream { size_bytes, .. } => (self.count() * size_bytes) as f64 / ns,
        }
    }
}

/// Processes with a message queue each: pairs, or a group.
pub struct Ours(Members);

impl Ours {
    /// Starts them, and checks that bytes arrive.
    pub fn start(load: Load, cpus: [usize; 2], waiter: &Arc<dyn Waiter>) -> Result<Self> {
        let all: Vec<usize> = (0..load.processes() as usize).map(|rank| cpus[rank % 2]).collect();
        let mut members = Members::start(&all, waiter)?;
        for seed in [1, 2] {
            let size_bytes = load.size_bytes();
            members
                .carry_out(&[format!("check {size_bytes} {seed}"), format!("expect {size_bytes} {seed}")])?;
        }
        Ok(Self(members))
    }

    fn reading(&mut self, load: Load) -> Result<f64> {
        let said = self.0.carry_out(&load.orders())?;
        // Of a group all report a time, of pairs the near ends.
        let every = if matches!(load, Load::Allreduce { .. }) { 1 } else { 2 };
        let times = said.iter().step_by(every).map(|said| number(said)).collect::<Result<Vec<f64>>>()?;
        Ok(load.of_ns(times.iter().sum::<f64>() / times.len().max(1) as f64))
    }
}

/// Another way to send messages.
pub enum Rival {
    /// UCX's benchmark.
    Ucx(Ucx),
    /// An MPI.
    Mpi(Mpi),
}

impl Rival {
    fn reading(&self, load: Load) -> Result<f64> {
        match self {
            Self::Ucx(ucx) => ucx.reading(load),
            Self::Mpi(mpi) => mpi.reading(load),
        }
    }
}

/// Ours, compared with a rival.
pub struct BesideRival {
    /// Ours.
    pub ours: Ours,
    /// The rival.
    pub rival: Rival,
    /// What both carry out.
    pub load: Load,
}

impl Sides for BesideRival {
    fn ours(&mut self) -> Result<f64> {
        self.ours.reading(self.load)
    }

    fn reference(&mut self) -> Result<f64> {
        self.rival.reading(self.load)
    }
}

/// Open MPI over tieline's provider, compared with Open MPI over the transport that it chooses.
pub struct OverProvider {
    /// Over the provider.
    pub ours: Mpi,
    /// With its own transport.
    pub own: Mpi,
    /// What both carry out.
    pub load: Load,
}

impl Sides for OverProvider {
    fn ours(&mut self) -> Result<f64> {
        self.ours.reading(self.load)
    }

    fn reference(&mut self) -> Result<f64> {
        self.own.reading(self.load)
    }
}

/// Ours, compared with one cache line there and back between the same processors.
pub struct AboveLine<'a, 'env> {
    ours: Ours,
    load: Load,
    timer: &'a Timer,
    pair: &'a mut PinnedPair<'env>,
    lines: &'env Lines,
    probe: LineProbe<'env>,
}

impl<'a, 'env> AboveLine<'a, 'env> {
    /// Prepares the baseline.
    pub fn new(
        ours: Ours,
        load: Load,
        timer: &'a Timer,
        pair: &'a mut PinnedPair<'env>,
        lines: &'env Lines,
    ) -> Result<Self> {
        let words = lines.one();
        let probe = LineProbe::new(timer, &mut FarThread { pair, words }, words)?;
        Ok(Self { ours, load, timer, pair, lines, probe })
    }
}

impl Sides for AboveLine<'_, '_> {
    fn ours(&mut self) -> Result<f64> {
        self.ours.reading(self.load)
    }

    fn reference(&mut self) -> Result<f64> {
        let words = self.lines.one();
        self.probe.half_round_trip_ns(self.timer, &mut FarThread { pair: self.pair, words }, None)
    }
}
