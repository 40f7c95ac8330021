//! The kinds of figures: what each kind needs, and how it is measured.

use std::time::Duration;

use crate::{
    patterns::{
        fleet, messages, ofi,
        programs::{Load, twins::Twin},
        pt2pt::Access,
        subnet,
    },
    verdict::Goal,
};

/// The resources that a figure needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Needs {
    /// Two processors.
    Nothing,
    /// Two nodes.
    Pair,
    /// Nine idle nodes: eight sessions each.
    Nine,
    /// Sixty-four nodes.
    SixtyFour,
    /// Four hosts, a node on each.
    FourHosts,
    /// Sixteen hosts, a node on each: fifteen TLS sessions each.
    SixteenHosts,
    /// Sixty-four hosts, a node on each.
    SixtyFourHosts,
}

/// One figure.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Entry {
    /// Name.
    pub id: &'static str,
    /// The resources that it needs.
    pub needs: Needs,
    /// A description.
    pub what: &'static str,
    /// The kind of measurement.
    pub kind: Kind,
}

impl Entry {
    /// Whether the reference is a part of this project, which may have become slower together with
    /// the figure.
    pub(crate) const fn is_beside_our_own(&self) -> bool {
        matches!(self.kind, Kind::Sisci(Sisci::PingPong { .. } | Sisci::Scale { .. }))
    }

    /// The time of one of many runs, for figures that take minutes otherwise; `None` for all
    /// others. A figure that is not a median of blocks cannot be shortened: the largest of fewer
    /// readings is another quantity.
    pub(crate) const fn short_run(&self) -> Option<Duration> {
        match self.kind {
            Kind::Sockets(Sockets::Twin(Twin::IdleTime { .. } | Twin::IdleMemory { .. })) => None,
            // A block starts the programs on both sides: of `nginx` it takes 13 s.
            Kind::Sockets(Sockets::Beside { .. } | Sockets::AboveBaseline { .. }) => {
                Some(Duration::from_secs(60))
            }
            Kind::Sockets(Sockets::Twin(_)) => Some(Duration::from_secs(25)),
            _ => None,
        }
    }
}

/// Figures of the C API.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Sisci {
    /// Half a round trip of 4 bytes through maps, at most this multiple of the Rust API's.
    PingPong {
        /// The limit, as a factor.
        at_most: f64,
    },
    /// 1 MiB by SCIMemCpy, or by a DMA queue, against memcpy: the ratio of bandwidths.
    Copy {
        /// Whether a DMA queue makes the copy.
        dma: bool,
        /// The goal of the ratio.
        goal: Goal,
    },
    /// SCIGetLocalSegmentSize, in ns at most.
    Call {
        /// The limit, in ns.
        at_most: f64,
    },
    /// Connect, map and take back, in µs at most.
    Connect {
        /// The limit, in µs.
        at_most: f64,
    },
    /// Create, connect and map in a process with many objects, at most this multiple of the time in
    /// a process with none.
    Scale {
        /// The limit, as a factor.
        at_most: f64,
    },
}

/// Figures of the link between hosts, compared with a bare loop of libfabric's calls.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ofi {
    /// What is measured.
    pub load: ofi::Load,
    /// The goal of the ratio.
    pub goal: Goal,
}

/// What message queues are compared with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Beside {
    /// One cache line there and back.
    Line,
    /// UCX's benchmark.
    Ucx,
    /// A program of ours over an MPI.
    Mpi(messages::Implementation),
    /// Open MPI with its own transport, beside Open MPI over our provider of libfabric.
    OpenMpiItself,
    /// Libfabric's provider `shm`, beside ours, both by a program of ours.
    Shm,
}

/// Figures of accesses to memory of another node, beside those of an MPI to memory of another rank.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Memory {
    /// What is measured.
    pub access: Access,
    /// Beside which MPI.
    pub mpi: messages::Implementation,
    /// The goal of the ratio.
    pub goal: Goal,
}

/// Figures of message queues.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Messages {
    /// What is measured.
    pub load: messages::Load,
    /// What it is compared with.
    pub beside: Beside,
    /// The goal of the ratio.
    pub goal: Goal,
}

/// Figures of unmodified programs on sockets.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Sockets {
    /// A program with the library, compared with the same without, all bytes through the kernel:
    /// the ratio of rates.
    Passthrough {
        /// The program's arguments.
        order: &'static str,
        /// The number of repetitions for one reading.
        rounds: u32,
        /// The goal of the ratio.
        goal: Goal,
    },
    /// Time that the library and its launcher add to the start of a program, in ms at most.
    Start {
        /// The limit, in ms.
        at_most: f64,
    },
    /// A well-known program with rings, compared with the same on the plain kernel.
    Beside {
        /// The load.
        load: Load,
        /// The goal of the ratio.
        goal: Goal,
    },
    /// A well-known program with rings, compared with what its two processors allow: a time with the
    /// one-line baseline, a bandwidth with the exchange of bytes.
    AboveBaseline {
        /// The load.
        load: Load,
        /// The goal of the ratio.
        goal: Goal,
    },
    /// Our own program, in ways that are our own.
    Twin(Twin),
}

/// Figures of copies by the plan that was measured on the machine.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Copies {
    /// The size and temperature at which they are furthest below the C library's memcpy.
    Worst {
        /// The goal of the ratio of bandwidths; the end of the interval that is nearer to it
        /// decides.
        goal: Goal,
    },
    /// Measuring the plan, in s at most.
    TuneTime {
        /// The limit, in s.
        at_most: f64,
    },
    /// Two plans: where they differ most.
    TuneRepeat {
        /// The goal of the ratio of times.
        goal: Goal,
    },
}

/// Figures of switched fabrics. Trees have three levels.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Fabric {
    /// Tables of 11,664 hosts, made and checked, in s at most.
    Route {
        /// Whether the engine for any graph computes it; else the one for fat trees.
        layered: bool,
        /// The limit, in s.
        at_most: f64,
    },
    /// The same after the loss of one cable, in s at most; only entries of routes through it may
    /// change.
    Reroute {
        /// The limit, in s.
        at_most: f64,
    },
    /// The check of such tables, in s at most.
    Check {
        /// The limit, in s.
        at_most: f64,
    },
    /// Finding 11,664 hosts through ibsim, in s at most.
    Sweep {
        /// The limit, in s.
        at_most: f64,
    },
    /// Counters of all their and the switches' ports, in s at most.
    Counters {
        /// The limit, in s.
        at_most: f64,
    },
    /// Responses at ibsim's socket in millions a second, at least.
    Rate {
        /// The limit, in millions a second.
        at_least: f64,
    },
    /// Memory of a process that routes a tree of this radix, in MB at most.
    Memory {
        /// Ports of a switch.
        radix: u32,
        /// Whether the engine for any graph computes it.
        layered: bool,
        /// The limit, in MB.
        at_most: f64,
    },
    /// Seconds, at most, for choosing the engine, computing the tables and measuring them, of the
    /// tree of five levels with 3,675 hosts and an aggregation node at each switch.
    Fitting {
        /// The limit, in s.
        at_most: f64,
    },
    /// `tieline fabric manage` on a served tree of this radix.
    Subnet {
        /// What is measured.
        load: subnet::Load,
        /// Ports of a switch.
        radix: u32,
        /// The limit: in s at most, of memory in MB at most, of path records the least ratio to the
        /// transport's own rate.
        limit: f64,
    },
    /// Routes of fabrics with lost cables, compared with those of the best rival.
    Quality {
        /// The fabrics.
        of: Fabrics,
        /// Whether it is the bandwidth that is left for random pairs; else the most destinations of
        /// a port.
        bisection: bool,
        /// The goal of the ratio.
        goal: Goal,
    },
}

/// The fabrics of a comparison of routes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fabrics {
    /// The tree of 3,456 hosts.
    Tree,
    /// Small fabrics of the kinds that data centres have; the engine is chosen automatically.
    Kinds,
    /// Large ones of the same kinds.
    Large,
}

/// The way in which a figure is measured.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Kind {
    /// Half a round trip of messages of this size, in this placement, compared with the baseline.
    Scipp {
        /// Message size.
        size_bytes: usize,
        /// One line for both directions, or two.
        shared: bool,
        /// The goal of the ratio to the baseline.
        goal: Goal,
    },
    /// Records of 8 bytes in millions a second, against the best ring of others.
    Ring {
        /// In batches of 16.
        batched: bool,
        /// The goal of the ratio of rates.
        goal: Goal,
    },
    /// A put of this size, compared with the best kernel.
    Put {
        /// Block size.
        size_bytes: usize,
        /// No cache holds the bytes.
        cold: bool,
        /// The goal of the ratio of bandwidths.
        goal: Goal,
    },
    /// A line of the classic DMA table: a vector of entries of this size, per entry, against the
    /// best kernel.
    Dma {
        /// Size of an entry.
        size_bytes: usize,
        /// No cache holds the bytes.
        cold: bool,
        /// The goal of the ratio of times.
        goal: Goal,
    },
    /// Copies by the plan, and the plan.
    Copies(Copies),
    /// Streaming stores of this size, compared with the fastest copy.
    Store {
        /// Block size.
        size_bytes: usize,
        /// The goal of the ratio of bandwidths.
        goal: Goal,
    },
    /// A sample of nothing, in ns beyond its clock readings, at most.
    Overhead {
        /// The limit, in ns.
        at_most: f64,
    },
    /// Interrupt between two spinning sides, against the one-line baseline.
    Spinning {
        /// The goal of the ratio.
        goal: Goal,
    },
    /// Interrupt to a sleeping side, against the bare futex.
    Sleeping {
        /// The goal of the ratio.
        goal: Goal,
    },
    /// Checked bytes a second between all nodes, against a cold copy.
    Load {
        /// The goal of the ratio of bandwidths.
        goal: Goal,
    },
    /// A whole verification, in seconds at most.
    Verify {
        /// Whether speed is measured; else only the test of health runs.
        quick: bool,
        /// The limit, in s.
        at_most: f64,
    },
    /// Through the C API, by a C program.
    Sisci(Sisci),
    /// Unmodified programs on sockets.
    Sockets(Sockets),
    /// The link between hosts.
    Ofi(Ofi),
    /// Accesses to memory of another node.
    Memory(Memory),
    /// Message queues.
    Messages(Messages),
    /// Switched fabrics.
    Fabric(Fabric),
    /// Commands on many hosts.
    Fleet {
        /// What hosts do, and what it is compared with.
        load: fleet::Load,
        /// The goal of the ratio of times.
        goal: Goal,
    },
    /// Connect and map, in µs at most.
    Connect {
        /// The limit, in µs.
        at_most: f64,
    },
    /// Processor time of an idle manager, in ms a minute at most.
    IdleCpu {
        /// The limit, in ms a minute.
        at_most: f64,
    },
    /// Memory of an idle manager, in MB at most.
    IdlePss {
        /// The limit, in MB.
        at_most: f64,
    },
    /// Stores through a shadow map and a flush, at most so much slower than a copy and a flush.
    Shadow {
        /// The difference, in µs.
        above_us: f64,
    },
    /// Time until all sessions are valid, in s at most.
    Up {
        /// The limit, in s.
        at_most: f64,
    },
    /// Memory of the managers, in MB at most.
    UpPss {
        /// Of the largest; else of all together.
        each: bool,
        /// The limit, in MB.
        at_most: f64,
    },
}
