//! Messages between two processes, through message queues and through rivals.
//!
//! Ours is a pair of processes that carry out orders, and sleep while a rival is measured. UCX is its own
//! benchmark ([`ucx`]), MPI a program of ours ([`mpi`]); they are started for each reading. All have the
//! same two processors.

use std::{process::Command, sync::Arc, time::Duration};

use crate::{
    baseline::line::{FarThread, LineProbe, Lines},
    error::{BenchError, Result},
    patterns::{
        child_driver::{self, ChildDriver},
        programs::on_cpu,
    },
    pinned_pair::PinnedPair,
    progress::Waiter,
    run::Sides,
    timer::Timer,
};

mod mpi;
mod ucx;

pub use mpi::{Implementation, Mpi};
pub use ucx::Ucx;

/// The program of either end.
pub const OURS: &str = "tieline-messages-measure";
const WHAT: &str = "messages";
/// Longest that an order may take.
const ORDER: Duration = Duration::from_secs(30);
/// Bytes that the messages of one reading have in all, about, and how many there are at least and at most.
const READING_BYTES: u64 = 512 << 20;
const COUNT_MIN: u64 = 100;
const COUNT_MAX: u64 = 1_000_000;
/// Round trips of a reading.
const ROUNDS: u64 = 100_000;
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
    /// Messages of 8 bytes in one direction, in millions a second.
    Rate,
    /// Messages of this size in one direction, from and to the same memory, in GB/s.
    Stream {
        /// The size of one.
        size_bytes: u64,
    },
}

impl Load {
    /// Bytes of a message.
    pub const fn size_bytes(self) -> u64 {
        match self {
            Self::Rate => 8,
            Self::Echo { size_bytes } | Self::Stream { size_bytes } => size_bytes,
        }
    }

    /// Unit of its readings.
    pub const fn unit(self) -> &'static str {
        match self {
            Self::Echo { .. } => "ns",
            Self::Rate => "M/s",
            Self::Stream { .. } => "GB/s",
        }
    }

    /// Messages, or round trips, of a reading.
    pub fn count(self) -> u64 {
        match self {
            Self::Echo { .. } => ROUNDS,
            Self::Rate => COUNT_MAX,
            Self::Stream { size_bytes } => (READING_BYTES / size_bytes).clamp(COUNT_MIN, COUNT_MAX),
        }
    }

    const fn is_long(self) -> bool {
        self.size_bytes() >= LONG_BYTES
    }

    /// Messages of an MPI that are under way in one direction.
    const fn window(self) -> u64 {
        if self.is_long() { WINDOW_OF_LONG } else { WINDOW_OF_SHORT }
    }

    /// What the near end of ours is ordered, and the far end.
    fn orders(self) -> [String; 2] {
        let (size_bytes, count) = (self.size_bytes(), self.count());
        match self {
            Self::Echo { .. } => {
                [format!("echo {size_bytes} {count}"), format!("answer {size_bytes} {count}")]
            }
            Self::Rate | Self::Stream { .. } => {
                let window = if self.is_long() { 1 } else { WINDOW_OF_SHORT };
                let shape = format!("{size_bytes} {count} {window} 1 {window}");
                [format!("send {shape}"), format!("receive {shape}")]
            }
        }
    }

    /// A reading, from what the near end reports.
    fn of_ns(self, ns: f64) -> f64 {
        match self {
            Self::Echo { .. } => ns,
            Self::Rate => self.count() as f64 / ns * 1e3,
            Self::Stream { size_bytes } => (self.count() * size_bytes) as f64 / ns,
        }
    }
}

/// Two processes with a message queue each.
pub struct Ours {
    near: ChildDriver,
    far: ChildDriver,
    waiter: Arc<dyn Waiter>,
}

impl Ours {
    /// Starts them, and checks that bytes arrive.
    pub fn start(load: Load, cpus: [usize; 2], waiter: &Arc<dyn Waiter>) -> Result<Self> {
        let path = child_driver::find(OURS, WHAT)?;
        let start = |cpu: usize| {
            on_cpu(cpu, || Ok(ChildDriver::start(Command::new(&path), OURS, WHAT)))
                .map_err(BenchError::io(OURS))?
        };
        let mut ours = Self { near: start(cpus[0])?, far: start(cpus[1])?, waiter: Arc::clone(waiter) };
        let names = [ours.near_line()?, ours.far_line()?];
        ours.near.say(&names[1])?;
        ours.far.say(&names[0])?;
        ours.near.ready()?;
        ours.far.ready()?;
        for seed in [1, 2] {
            let size_bytes = load.size_bytes();
            ours.both([&format!("check {size_bytes} {seed}"), &format!("expect {size_bytes} {seed}")])?;
        }
        Ok(ours)
    }

    fn near_line(&mut self) -> Result<String> {
        self.near.line_within(ORDER, &self.waiter)
    }

    fn far_line(&mut self) -> Result<String> {
        self.far.line_within(ORDER, &self.waiter)
    }

    /// What the near end reports of an order that both carry out together.
    fn both(&mut self, [near, far]: [&str; 2]) -> Result<String> {
        self.far.say(far)?;
        self.near.say(near)?;
        let said = self.near_line()?;
        self.far_line()?;
        Ok(said)
    }

    fn reading(&mut self, load: Load) -> Result<f64> {
        let [near, far] = load.orders();
        let said = self.both([&near, &far])?;
        let not_a_time = || BenchError::OtherEnd { what: WHAT, reason: format!("`{said}` is not a number") };
        said.parse().map(|ns| load.of_ns(ns)).map_err(|_| not_a_time())
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
