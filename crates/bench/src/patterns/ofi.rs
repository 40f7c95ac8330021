//! The link between hosts (`ofi`), beside a bare loop of libfabric's calls, on two hosts of this machine.
//!
//! Each side is a pair of processes, one on each host: the program [`OURS`] uses crate `ofi` as programs do, [`BARE`] makes the calls of
//! libfabric itself and shares no code with it. Both carry out the same orders, on the same processors; each sleeps while the other is
//! measured.

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
}

impl Load {
    fn memory_bytes(self) -> u64 {
        match self {
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
        rails: usize,
        memory_bytes: u64,
        waiter: &Arc<dyn Waiter>,
    ) -> Result<Self> {
        let path = child_driver::find(program, WHAT)?;
        let start = |host: usize| {
            let mut command: Command = hosts.command(host, cpus[host], &path);
            let addresses: Vec<_> = (0..rails).map(|rail| address(host, rail)).collect();
            command.args([PROVIDER, &addresses.join(","), &memory_bytes.to_string()]);
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
        }
    }

    /// Whether the bytes arrive that were put: twice, with different ones.
    fn check(&mut self, load: Load) -> Result<()> {
        let (size_bytes, order) = match load {
            Load::Echo => return Ok(()),
            Load::Put => (8, "put"),
            Load::Stream { size_bytes } | Load::TwoRails { size_bytes } => (size_bytes, "stream"),
        };
        for seed in [1, 2] {
            self.near(&format!("fill {size_bytes} {seed}"))?;
            self.near(&format!("{order} {size_bytes} 3"))?;
            // It compares every byte; a difference is an error.
            self.far(&format!("check {size_bytes} {seed}"))?;
        }
        Ok(())
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
    /// Last: they vanish after what runs on them.
    _hosts: Arc<Hosts>,
}

impl Beside {
    /// Starts both pairs, and checks that bytes arrive.
    pub fn start(load: Load, cpus: [usize; 2], hosts: Arc<Hosts>, waiter: &Arc<dyn Waiter>) -> Result<Self> {
        let start = |program, rails| Ends::start(&hosts, program, cpus, rails, load.memory_bytes(), waiter);
        let (mut ours, mut bare) = match load {
            Load::TwoRails { .. } => (start(OURS, 2)?, start(OURS, 1)?),
            Load::Echo | Load::Put | Load::Stream { .. } => (start(OURS, 1)?, start(BARE, 1)?),
        };
        ours.check(load)?;
        bare.check(load)?;
        if load == Load::Echo {
            let port = bare.far(&format!("tcp-listen {}", ADDRESSES[1]))?;
            bare.near(&format!("tcp-connect {port}"))?;
        }
        Ok(Self { ours, bare, load, tcp_ns: Vec::new(), put_and_poll_ns: Vec::new(), _hosts: hosts })
    }

    /// libfabric's version.
    pub fn version(&mut self) -> Result<String> {
        self.bare.near("version")
    }

    /// The medians of what was measured beside, in ns: a TCP socket, and put and poll.
    pub fn beside_ns(&self) -> Option<[f64; 2]> {
        let median = |times: &[f64]| {
            let mut times = times.to_vec();
            times.sort_by(f64::total_cmp);
            times.get(times.len() / 2).copied()
        };
        Some([median(&self.tcp_ns)?, median(&self.put_and_poll_ns)?])
    }
}

impl Sides for Beside {
    fn ours(&mut self) -> Result<f64> {
        self.ours.reading(self.load)
    }

    fn reference(&mut self) -> Result<f64> {
        self.bare.reading(self.load)
    }

    fn next_block(&mut self, number: usize) -> Result<()> {
        if self.load == Load::Echo && number.is_multiple_of(BESIDE_EVERY) {
            self.tcp_ns.push(self.bare.half_round_trip_ns("tcp-", ROUNDS)?);
            self.put_and_poll_ns.push(self.ours.half_round_trip_ns("poll-", ROUNDS)?);
        }
        Ok(())
    }
}
