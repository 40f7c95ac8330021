//! The kinds of figures: what each kind needs, and how it is measured.

use std::time::Duration;

use crate::{
    patterns::programs::{Load, twins::Twin},
    verdict::Goal,
};

/// What a figure needs.
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
}

/// One figure.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Entry {
    /// Name.
    pub id: &'static str,
    /// What it needs.
    pub needs: Needs,
    /// What it is.
    pub what: &'static str,
    /// The kind of measurement.
    pub kind: Kind,
}

impl Entry {
    /// Whether what stands beside it is something of this project, which may have become slower together with it.
    pub(crate) const fn is_beside_our_own(&self) -> bool {
        matches!(self.kind, Kind::Sisci(Sisci::PingPong { .. } | Sisci::Scale { .. }))
    }

    /// How long one of many runs may take, of figures that are measured for minutes otherwise; `None` for all others. What is no
    /// median of blocks cannot be cut short: the largest of fewer readings is another figure.
    pub(crate) const fn short_run(&self) -> Option<Duration> {
        match self.kind {
            Kind::Sockets(Sockets::Twin(Twin::IdleTime { .. } | Twin::IdleMemory { .. })) => None,
            Kind::Sockets(
                Sockets::Beside { .. }
                | Sockets::AboveBaseline { .. }
                | Sockets::Reaches { .. }
                | Sockets::Twin(_),
            ) => Some(Duration::from_secs(25)),
            _ => None,
        }
    }
}

/// What of the C API.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Sisci {
    /// Half a round trip of 4 bytes through maps, at most so many times the Rust API's.
    PingPong {
        /// Times.
        at_most: f64,
    },
    /// 1 MiB by SCIMemCpy, or by a DMA queue, against memcpy: the ratio of bandwidths.
    Copy {
        /// By a DMA queue.
        dma: bool,
        /// Of the ratio.
        goal: Goal,
    },
    /// SCIGetLocalSegmentSize, in ns at most.
    Call {
        /// ns.
        at_most: f64,
    },
    /// Connect, map and take back, in µs at most.
    Connect {
        /// µs.
        at_most: f64,
    },
    /// Create, connect and map in a process that holds much, at most so many times one that holds nothing.
    Scale {
        /// Times.
        at_most: f64,
    },
}

/// What of unmodified programs on sockets.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Sockets {
    /// A program with the library in it beside the same without, all in the kernel: the ratio of rates.
    Passthrough {
        /// The program's arguments.
        order: &'static str,
        /// How often, for one reading.
        rounds: u32,
        /// Of the ratio.
        goal: Goal,
    },
    /// Time that the library and its launcher add to the start of a program, in ms at most.
    Start {
        /// ms.
        at_most: f64,
    },
    /// A program of others with rings, beside the same on the plain kernel.
    Beside {
        /// The load.
        load: Load,
        /// Of the ratio.
        goal: Goal,
    },
    /// A program of others with rings beside what its two processors allow: a time beside the one-line baseline, a bandwidth beside the
    /// exchange of bytes.
    AboveBaseline {
        /// The load.
        load: Load,
        /// Of the ratio.
        goal: Goal,
    },
    /// A program of others with rings, which is to do so much a second at least.
    Reaches {
        /// The load.
        load: Load,
        /// In the unit of its result.
        at_least: f64,
    },
    /// Our own program, in ways that are our own.
    Twin(Twin),
}

/// What of copies by the plan that was measured on the machine.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Copies {
    /// The size and temperature at which they are furthest below the C library's memcpy.
    Worst {
        /// Of the end of the interval that is nearest to it, of bandwidths.
        goal: Goal,
    },
    /// Measuring the plan, in s at most.
    TuneTime {
        /// Seconds.
        at_most: f64,
    },
    /// Two plans: where they differ most.
    TuneRepeat {
        /// Of the ratio of times.
        goal: Goal,
    },
}

/// What of switched fabrics. Of trees of three levels.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Fabric {
    /// Tables of 11,664 hosts, made and checked, in s at most.
    Route {
        /// By the engine for any graph; else by that for fat trees.
        layered: bool,
        /// Seconds.
        at_most: f64,
    },
    /// The same after one cable is gone, in s at most; only entries of routes through it may change.
    Reroute {
        /// Seconds.
        at_most: f64,
    },
    /// The check of such tables, in s at most.
    Check {
        /// Seconds.
        at_most: f64,
    },
    /// Finding 11,664 hosts through ibsim, in s at most.
    Sweep {
        /// Seconds.
        at_most: f64,
    },
    /// Counters of all their and the switches' ports, in s at most.
    Counters {
        /// Seconds.
        at_most: f64,
    },
    /// Answers at ibsim's socket in millions a second, at least.
    Rate {
        /// Millions a second.
        at_least: f64,
    },
    /// Memory of a process that routes a tree of this radix, in MB at most.
    Memory {
        /// Ports of a switch.
        radix: u32,
        /// By the engine for any graph.
        layered: bool,
        /// MB.
        at_most: f64,
    },
    /// Seconds for the engine that fits, the tables and what is measured of them, of the tree of five levels with 3,675 hosts and an
    /// aggregation node at each switch, at most.
    Fitting {
        /// Seconds.
        at_most: f64,
    },
    /// Routes of fabrics with cables gone, beside the best of others.
    Quality {
        /// Of which fabrics.
        of: Fabrics,
        /// What is left of the bandwidth in random pairs; else the most destinations of a port.
        bisection: bool,
        /// Of the ratio.
        goal: Goal,
    },
}

/// Fabrics whose routes are put beside those of others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fabrics {
    /// The tree of 3,456 hosts.
    Tree,
    /// Small ones as they stand in halls, routed without being told how.
    Kinds,
    /// Large ones of the same kinds.
    Large,
}

/// How a figure is measured.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Kind {
    /// Half a round trip of messages of so many bytes, by this placement, against the baseline.
    Scipp {
        /// Message size.
        size_bytes: usize,
        /// One line for both directions, or two.
        shared: bool,
        /// Of the ratio to the baseline.
        goal: Goal,
    },
    /// Records of 8 bytes in millions a second, against the best ring of others.
    Ring {
        /// In batches of 16.
        batched: bool,
        /// Of the ratio of rates.
        goal: Goal,
    },
    /// Put of so many bytes against the best kernel.
    Put {
        /// Block size.
        size_bytes: usize,
        /// No cache holds the bytes.
        cold: bool,
        /// Of the ratio of bandwidths.
        goal: Goal,
    },
    /// A line of the classic DMA table: a vector of entries of this size, per entry, against the best kernel.
    Dma {
        /// Size of an entry.
        size_bytes: usize,
        /// No cache holds the bytes.
        cold: bool,
        /// Of the ratio of times.
        goal: Goal,
    },
    /// Copies by the plan, and the plan.
    Copies(Copies),
    /// Streaming stores of so many bytes against the fastest copy.
    Store {
        /// Block size.
        size_bytes: usize,
        /// Of the ratio of bandwidths.
        goal: Goal,
    },
    /// A sample of nothing, in ns beyond its clock readings, at most.
    Overhead {
        /// ns.
        at_most: f64,
    },
    /// Interrupt between two spinning sides, against the one-line baseline.
    Spinning {
        /// Of the ratio.
        goal: Goal,
    },
    /// Interrupt to a sleeping side, against the bare futex.
    Sleeping {
        /// Of the ratio.
        goal: Goal,
    },
    /// Checked bytes a second between all nodes, against a cold copy.
    Load {
        /// Of the ratio of bandwidths.
        goal: Goal,
    },
    /// A whole verification, in seconds at most.
    Verify {
        /// With measurements; else only a test of health.
        quick: bool,
        /// Seconds.
        at_most: f64,
    },
    /// Through the C API, by a C program.
    Sisci(Sisci),
    /// Unmodified programs on sockets.
    Sockets(Sockets),
    /// Switched fabrics.
    Fabric(Fabric),
    /// Connect and map, in µs at most.
    Connect {
        /// µs.
        at_most: f64,
    },
    /// Processor time of an idle manager, in ms a minute at most.
    IdleCpu {
        /// ms a minute.
        at_most: f64,
    },
    /// Memory of an idle manager, in MB at most.
    IdlePss {
        /// MB.
        at_most: f64,
    },
    /// Time until all sessions are valid, in s at most.
    Up {
        /// s.
        at_most: f64,
    },
    /// Memory of all managers, in MB at most.
    UpPss {
        /// MB.
        at_most: f64,
    },
}
