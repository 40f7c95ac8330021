//! The link between hosts (`ofi`), beside a bare loop of libfabric's calls, on two hosts of this machine.
//!
//! Each side is a pair of processes, one on each host: the program [`OURS`] uses crate `ofi` as programs do,
//! [`BARE`] makes the calls of libfabric itself and shares no code with it. Both carry out the same orders,
//! on the same processors; each sleeps while the other is measured.

use std::{process::Command, sync::Arc, time::Duration};

use crate::{
    error::{BenchError, Result},
    patterns::{
        child_driver::{self, ChildDriver},
        hosts::{ADDRESSES, Hosts, address},
    },
    progress::Waiter,
    run::Sides,
};

mod beside;
mod cut;
mod urgent;

pub use beside::Iperf;

/// The two programs.
pub const OURS: &str = "tieline-ofi-measure";
/// See [`OURS`].
pub const BARE: &str = "tieline-fabric-measure";
/// The provider of both, which needs no hardware.
pub const PROVIDER: &str = "tcp;ofi_rxm";
const WHAT: &str = "the link between hosts";
/// Longest that an order may take.
const ORDER: Duration = Duration::from_secs(60);
/// Messages, or puts of 8 bytes, of a reading.
const ROUNDS: u64 = 300;
/// Bytes of a reading of bandwidth, and puts at least.
const STREAM_BYTES: u64 = 64 << 20;
/// The same where a cable has a rate: a full bucket is less than a hundredth of it.
const RAILS_BYTES: u64 = 16 << 20;
const STREAM_PUTS: u64 = 3;
/// Memory of each end at least.
const MEMORY_BYTES: u64 = 4096;
/// Blocks between two readings of what stands beside.
const BESIDE_EVERY: usize = 5;

/// What is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Load {
    /// Messages of 8 bytes and their answers: doorbells, and `fi_tsend`. In ns for half of a round trip.
    Echo,
    /// Puts of 8 bytes, each with a barrier: `fi_write` and its completion. In ns.
    Put,
    /// Puts of this size one after the other, with a barrier at the end. In bytes per ns.
    Stream {
        /// The size of one.
        size_bytes: u64,
    },
    /// The same over two rails of 1 Gbit/s, beside one of them.
    TwoRails {
        /// The size of one.
        size_bytes: u64,
    },
    /// A long transfer over two such rails, the second of which is cut on the way: what arrives from a tenth
    /// of a second after that on, beside a link over one. In bytes per ns.
    Cut,
    /// Puts of 64 bytes and their answers while two such rails carry blocks: the time that 99 % of them do
    /// not exceed, beside that of one chunk of a block on one rail. In ns.
    Urgent,
}

impl Load {
    /// Over two rails with a rate.
    pub fn is_over_rails(self) -> bool {
        matches!(self, Self::TwoRails { .. } | Self::Cut | Self::Urgent)
    }

    fn memory_bytes(self) -> u64 {
        match self {
            Self::Cut => cut::LONG_BYTES,
            Self::Urgent => MEMORY_BYTES + urgent::BLOCK_BYTES,
            Self::Stream { size_bytes } | Self::TwoRails { size_bytes } => size_bytes.max(MEMORY_BYTES),
            Self::Echo | Self::Put => MEMORY_BYTES,
        }
    }

    /// Operations of a reading.
    pub fn count(self) -> u64 {
        match self {
            Self::Stream { size_bytes } => (STREAM_BYTES / size_bytes).max(STREAM_PUTS),
            Self::TwoRails { size_bytes } => (RAILS_BYTES / size_bytes).max(STREAM_PUTS),
            Self::Echo | Self::Put => ROUNDS,
            Self::Cut => cut::PUTS,
            Self::Urgent => urgent::ROUNDS,
        }
    }
}

/// Two processes of one program, one on each host.
struct Ends {
    near: ChildDriver,
    far: ChildDriver,
    waiter: Arc<dyn Waiter>,
}

impl Ends {
    fn start(
        hosts: &Hosts,
        program: &'static str,
        cpus: [usize; 2],
        (rails, goes_on): (usize, bool),
        memory_bytes: u64,
        waiter: &Arc<dyn Waiter>,
    ) -> Result<Self> {
        let path = child_driver::find(program, WHAT)?;
        let start = |host: usize| {
            let mut command: Command = hosts.command(host, cpus[host], &path);
            let addresses: Vec<_> = (0..rails).map(|rail| address(host, rail)).collect();
            command.args([PROVIDER, &addresses.join(","), &memory_bytes.to_string()]);
            if goes_on {
                command.arg(["importer", "owner"][host]);
            }
            ChildDriver::start(command, program, WHAT)
        };
        let mut ends = Self { near: start(0)?, far: start(1)?, waiter: Arc::clone(waiter) };
        let cards = [ends.near_line()?, ends.far_line()?];
        ends.near.say(&cards[1])?;
        ends.far.say(&cards[0])?;
        for said in [ends.near_line()?, ends.far_line()?] {
            if said != "ready" {
                return Err(BenchError::OtherEnd {
                    what: WHAT,
                    reason: format!("`{said}` instead of `ready`"),
                });
            }
        }
        Ok(ends)
    }

    fn near_line(&mut self) -> Result<String> {
        self.near.line_within(ORDER, &self.waiter)
    }

    fn far_line(&mut self) -> Result<String> {
        self.far.line_within(ORDER, &self.waiter)
    }

    fn near(&mut self, order: &str) -> Result<String> {
        self.near.say(order)?;
        self.near_line()
    }

    fn far(&mut self, order: &str) -> Result<String> {
        self.far.say(order)?;
        self.far_line()
    }

    /// The time that the near end reports.
    fn time(&mut self, order: &str) -> Result<f64> {
        let said = self.near(order)?;
        let not_a_time = || BenchError::OtherEnd { what: WHAT, reason: format!("`{said}` is not a number") };
        said.parse().map_err(|_| not_a_time())
    }

    /// Half the time of a round trip, in ns. `kind` comes before the orders' names.
    fn half_round_trip_ns(&mut self, kind: &str, rounds: u64) -> Result<f64> {
        self.far.say(&format!("{kind}answer {rounds}"))?;
        let half_ns = self.time(&format!("{kind}echo {rounds}"))?;
        self.far_line()?;
        Ok(half_ns)
    }

    fn reading(&mut self, load: Load) -> Result<f64> {
        let count = load.count();
        match load {
            Load::Echo => self.half_round_trip_ns("", count),
            Load::Put => self.time(&format!("put 8 {count}")),
            Load::Stream { size_bytes } | Load::TwoRails { size_bytes } => {
                Ok(size_bytes as f64 / self.time(&format!("stream {size_bytes} {count}"))?)
            }
            Load::Cut | Load::Urgent => Err(BenchError::Usage("it has readings of its own".to_owned())),
        }
    }

    /// Whether the bytes arrive that were put: twice, with different ones.
    fn check(&mut self, load: Load) -> Result<()> {
        let (size_bytes, order) = match load {
            // The former has nothing to compare, the latter two compare in each reading, or as a stream.
            Load::Echo | Load::Cut => return Ok(()),
            Load::Urgent => (urgent::BLOCK_BYTES, "stream"),
            Load::Put => (8, "put"),
            Load::Stream { size_bytes } | Load::TwoRails { size_bytes } => (size_bytes, "stream"),
        };
        (1..=2).try_for_each(|seed| self.check_order(order, size_bytes, seed))
    }

    /// Whether what an order puts arrives.
    fn check_order(&mut self, order: &str, size_bytes: u64, seed: u64) -> Result<()> {
        self.near(&format!("fill {size_bytes} {seed}"))?;
        self.near(&format!("{order} {size_bytes} 3"))?;
        // It compares every byte; a difference is an error.
        self.far(&format!("check {size_bytes} {seed}")).map(drop)
    }
}

/// Ours, compared with the bare loop; or over two rails, compared with ours over one.
pub struct Beside {
    ours: Ends,
    bare: Ends,
    load: Load,
    /// Half round trips of 8 bytes over a TCP socket, in ns, and by put and poll.
    tcp_ns: Vec<f64>,
    put_and_poll_ns: Vec<f64>,
    /// Bandwidths of a bare loop that copies each block first, in bytes per ns.
    copied: Vec<f64>,
    cpus: [usize; 2],
    /// Of the bytes of the next reading, where each has its own.
    seed: u64,
    /// Last: they vanish after what runs on them.
    hosts: Arc<Hosts>,
}

impl Beside {
    /// Starts both pairs, and checks that bytes arrive.
    pub fn start(load: Load, cpus: [usize; 2], hosts: Arc<Hosts>, waiter: &Arc<dyn Waiter>) -> Result<Self> {
        let start_as =
            |program, rails| Ends::start(&hosts, program, cpus, rails, load.memory_bytes(), waiter);
        let start = |program, rails| start_as(program, (rails, false));
        let (mut ours, mut bare) = match load {
            Load::TwoRails { .. } => (start(OURS, 2)?, start(OURS, 1)?),
            Load::Cut | Load::Urgent => (start_as(OURS, (2, true))?, start(OURS, 1)?),
            Load::Echo | Load::Put | Load::Stream { .. } => (start(OURS, 1)?, start(BARE, 1)?),
        };
        ours.check(load)?;
        bare.check(load)?;
        if let Load::Stream { size_bytes } = load {
            bare.check_order("stream-copied", size_bytes, 3)?;
        }
        if load == Load::Echo {
            let port = bare.far(&format!("tcp-listen {}", ADDRESSES[1]))?;
            bare.near(&format!("tcp-connect {port}"))?;
        }
        Ok(Self {
            ours,
            bare,
            load,
            cpus,
            seed: 0,
            tcp_ns: Vec::new(),
            put_and_poll_ns: Vec::new(),
            copied: Vec::new(),
            hosts,
        })
    }

    /// libfabric's version.
    pub fn version(&mut self) -> Result<String> {
        self.bare.near("version")
    }

    /// The medians of what was measured beside, in ns: a TCP socket, and put and poll.
    pub fn beside_ns(&self) -> Option<[f64; 2]> {
        Some([median(&self.tcp_ns)?, median(&self.put_and_poll_ns)?])
    }

    /// The median bandwidth of the bare loop that copies each block first, as a put must, in GB/s.
    pub fn copied_gb_s(&self) -> Option<f64> {
        median(&self.copied)
    }
}

fn median(readings: &[f64]) -> Option<f64> {
    let mut readings = readings.to_vec();
    readings.sort_by(f64::total_cmp);
    readings.get(readings.len() / 2).copied()
}

impl Sides for Beside {
    fn ours(&mut self) -> Result<f64> {
        self.seed += 1;
        match self.load {
            Load::Cut => {
                // A link that has lost a rail again and again waits longer and longer before it uses it
                // again: each reading has a new one.
                let waiter = Arc::clone(&self.ours.waiter);
                let bytes = self.load.memory_bytes();
                self.ours = Ends::start(&self.hosts, OURS, self.cpus, (2, true), bytes, &waiter)?;
                cut::reading(&mut self.ours, self.seed, Some(&self.hosts))
            }
            Load::Urgent => urgent::reading(&mut self.ours),
            load => self.ours.reading(load),
        }
    }

    fn reference(&mut self) -> Result<f64> {
        self.seed += 1;
        match self.load {
            Load::Cut => cut::reading(&mut self.bare, self.seed, None),
            Load::Urgent => urgent::chunk_ns(&mut self.bare),
            load => self.bare.reading(load),
        }
    }

    fn next_block(&mut self, number: usize) -> Result<()> {
        if !number.is_multiple_of(BESIDE_EVERY) {
            return Ok(());
        }
        if self.load == Load::Echo {
            self.tcp_ns.push(self.bare.half_round_trip_ns("tcp-", ROUNDS)?);
            self.put_and_poll_ns.push(self.ours.half_round_trip_ns("poll-", ROUNDS)?);
        } else if let Load::Stream { size_bytes } = self.load {
            let time_ns = self.bare.time(&format!("stream-copied {size_bytes} {}", self.load.count()))?;
            self.copied.push(size_bytes as f64 / time_ns);
        }
        Ok(())
    }
}
