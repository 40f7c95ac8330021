//! The figures and their goals.

use crate::{
    error::{BenchError, Result},
    patterns::programs::{Load, twins::Twin},
    thresholds::ids::edits,
    verdict::Goal,
};

mod kinds;
#[cfg(test)]
mod tests;

pub use kinds::{Entry, Fabric, Fabrics, Kind, Needs, Sisci, Sockets};

const fn entry(id: &'static str, needs: Needs, what: &'static str, kind: Kind) -> Entry {
    Entry { id, needs, what, kind }
}

const fn sisci(id: &'static str, what: &'static str, sisci: Sisci) -> Entry {
    entry(id, Needs::Pair, what, Kind::Sisci(sisci))
}

const fn passthrough(id: &'static str, what: &'static str, order: &'static str, rounds: u32) -> Entry {
    let kind = Kind::Sockets(Sockets::Passthrough { order, rounds, goal: Goal::at_least(0.98) });
    entry(id, Needs::Nothing, what, kind)
}

/// A program of others with rings beside the kernel.
const fn beside(id: &'static str, what: &'static str, load: Load, goal: Goal) -> Entry {
    entry(id, Needs::Nothing, what, Kind::Sockets(Sockets::Beside { load, goal }))
}

const fn redis(id: &'static str, what: &'static str, [clients, pipeline]: [u32; 2], at_least: f64) -> Entry {
    beside(id, what, Load::Redis { clients, pipeline }, Goal::at_least(at_least))
}

const fn twin(id: &'static str, what: &'static str, twin: Twin) -> Entry {
    entry(id, Needs::Nothing, what, Kind::Sockets(Sockets::Twin(twin)))
}

const fn fabric(id: &'static str, what: &'static str, fabric: Fabric) -> Entry {
    entry(id, Needs::Nothing, what, Kind::Fabric(fabric))
}

const fn put(id: &'static str, mib: usize) -> Entry {
    let kind = Kind::Put { size_bytes: mib << 20, goal: Goal::at_least(0.97) };
    entry(id, Needs::Pair, "put of a block, bandwidth", kind)
}

const fn store(id: &'static str, size_bytes: usize) -> Entry {
    let kind = Kind::Store { size_bytes, goal: Goal::at_least(0.97) };
    entry(id, Needs::Pair, "streaming stores of a block, bandwidth", kind)
}

/// From 4 KiB on at least 0.97 of memcpy's bandwidth, so at most 1 / 0.97 of its time; below, memcpy + 10 ns.
const fn dma(id: &'static str, size_bytes: usize) -> Entry {
    let limit = if size_bytes < crate::patterns::dma_bench::LONG_BYTES { 1.0 } else { 1.0 / 0.97 };
    let kind = Kind::DmaTable { size_bytes, goal: Goal::at_most(limit) };
    entry(id, Needs::Pair, "vector of 256 blocks, or as many as make 64 MiB, time of one", kind)
}

/// Two polled lines have more than one rhythm (measured on one machine: 105, 120 or 137 ns, for minutes at a time), which
/// the floor and the messages do not always share. So this goal is wider than that of the single line.
const OWN_LINES_GOAL: Goal = Goal::at_most(1.25);

/// All figures.
pub const ALL: [Entry; 104] = [
    entry(
        "scipp.half_rtt.4B",
        Needs::Pair,
        "request and reply in one line, half a round trip",
        Kind::Scipp { size_bytes: 4, shared: true, goal: Goal::at_most(1.10) },
    ),
    entry(
        "scipp.half_rtt.4B.own",
        Needs::Pair,
        "each direction in the receiver's segment, half a round trip",
        Kind::Scipp { size_bytes: 4, shared: false, goal: OWN_LINES_GOAL },
    ),
    entry(
        "scipp.half_rtt.8KiB",
        Needs::Pair,
        "8 KiB there and back, half a round trip",
        Kind::Scipp { size_bytes: 8192, shared: true, goal: Goal::at_most(1.25) },
    ),
    entry(
        "ring.record.8B.single",
        Needs::Nothing,
        "records of 8 bytes one by one, payload read",
        Kind::Ring { batched: false, at_least: 60.0 },
    ),
    entry(
        "ring.record.8B.batch16",
        Needs::Nothing,
        "records of 8 bytes, 16 at a time, payload read",
        Kind::Ring { batched: true, at_least: 150.0 },
    ),
    put("put.1MiB", 1),
    put("put.4MiB", 4),
    put("put.16MiB", 16),
    put("put.64MiB", 64),
    entry(
        "dma.vec256.64B",
        Needs::Pair,
        "vector of 256 blocks of 64 bytes, time of one",
        Kind::Dma { size_bytes: 64, extra_ns: 10.0 },
    ),
    entry(
        "dma.vec256.2KiB",
        Needs::Pair,
        "vector of 256 blocks of 2 KiB, time of one",
        Kind::Dma { size_bytes: 2048, extra_ns: 10.0 },
    ),
    dma("dma.64B", 64),
    dma("dma.128B", 128),
    dma("dma.256B", 256),
    dma("dma.512B", 512),
    dma("dma.1KiB", 1 << 10),
    dma("dma.2KiB", 2 << 10),
    dma("dma.4KiB", 4 << 10),
    dma("dma.8KiB", 8 << 10),
    dma("dma.16KiB", 16 << 10),
    dma("dma.32KiB", 32 << 10),
    dma("dma.64KiB", 64 << 10),
    dma("dma.128KiB", 128 << 10),
    dma("dma.256KiB", 256 << 10),
    dma("dma.512KiB", 512 << 10),
    dma("dma.1MiB", 1 << 20),
    dma("dma.2MiB", 2 << 20),
    dma("dma.4MiB", 4 << 20),
    dma("dma.8MiB", 8 << 20),
    dma("dma.16MiB", 16 << 20),
    dma("dma.32MiB", 32 << 20),
    dma("dma.64MiB", 64 << 20),
    store("scibench2.64B", 64),
    store("scibench2.128B", 128),
    store("scibench2.256B", 256),
    store("scibench2.512B", 512),
    store("scibench2.1KiB", 1 << 10),
    store("scibench2.2KiB", 2 << 10),
    store("scibench2.4KiB", 4 << 10),
    store("scibench2.8KiB", 8 << 10),
    store("scibench2.16KiB", 16 << 10),
    store("scibench2.32KiB", 32 << 10),
    store("scibench2.64KiB", 64 << 10),
    store("scibench2.128KiB", 128 << 10),
    store("scibench2.256KiB", 256 << 10),
    store("scibench2.512KiB", 512 << 10),
    store("scibench2.1MiB", 1 << 20),
    entry(
        "intr.spinning",
        Needs::Pair,
        "interrupt one way, both spin",
        Kind::Spinning { goal: Goal::at_most(3.0) },
    ),
    entry(
        "intr.sleeping",
        Needs::Pair,
        "interrupt one way, asleep",
        Kind::Sleeping { goal: Goal::at_most(1.15) },
    ),
    entry("connect_map", Needs::Pair, "connect to a segment and map it", Kind::Connect { at_most: 200.0 }),
    sisci(
        "sisci.pingpong",
        "the C API: 4 bytes stored through maps, half a round trip",
        Sisci::PingPong { at_most: 1.05 },
    ),
    sisci(
        "sisci.memcpy.1MiB",
        "the C API: SCIMemCpy of 1 MiB, bandwidth",
        Sisci::Copy { dma: false, goal: Goal::at_least(0.97) },
    ),
    sisci(
        "sisci.dma.1MiB",
        "the C API: SCIStartDmaTransfer of 1 MiB, bandwidth",
        Sisci::Copy { dma: true, goal: Goal::at_least(0.97) },
    ),
    sisci("sisci.call", "the C API: SCIGetLocalSegmentSize", Sisci::Call { at_most: 30.0 }),
    sisci(
        "sisci.connect_map",
        "the C API: connect, map, unmap and disconnect",
        Sisci::Connect { at_most: 200.0 },
    ),
    sisci(
        "sisci.scale",
        "the C API: create, connect and map beside 1,000 segments, 10,000 maps and 256 DMA queues",
        Sisci::Scale { at_most: 1.5 },
    ),
    passthrough(
        "sockets.passthrough.echo",
        "64 bytes there and back over one connection, with the library in both ends",
        "echo",
        3000,
    ),
    passthrough(
        "sockets.passthrough.connect_close",
        "connect, wait for the other end to close, close, with the library in both ends",
        "connect",
        1000,
    ),
    passthrough(
        "sockets.passthrough.epoll",
        "a byte there and back over each of 64 connections, waited for with epoll, with the library in both ends",
        "epoll",
        80,
    ),
    entry(
        "sockets.start",
        Needs::Nothing,
        "time that `tieline run` adds to a program that does nothing",
        Kind::Sockets(Sockets::Start { at_most: 0.5 }),
    ),
    beside(
        "sockperf.pp.14B",
        "sockperf with rings: 14 bytes there and back, median of half a round trip",
        Load::PingPong,
        Goal::at_most(0.01),
    ),
    entry(
        "sockperf.pp.14B.floor",
        Needs::Nothing,
        "the same beside what telling another core anything costs",
        Kind::Sockets(Sockets::AboveFloor { load: Load::PingPong, goal: Goal::at_most(3.5) }),
    ),
    // The other goal, 0.7 of what sockperf reaches with a send that does nothing, is far higher: that was 236 million a second.
    entry(
        "sockperf.tp.14B",
        Needs::Nothing,
        "sockperf with rings: messages of 14 bytes one way",
        Kind::Sockets(Sockets::Reaches { load: Load::Throughput, at_least: 10.0 }),
    ),
    beside(
        "iperf3.1stream",
        "iperf3 with rings: one stream, written in pieces of 128 KiB",
        Load::Stream,
        Goal::at_least(4.5),
    ),
    redis("redis.get.c1", "redis-benchmark with rings: GET over one connection", [1, 1], 10.0),
    redis("redis.get.c50", "GET over 50 connections", [50, 1], 3.0),
    redis("redis.get.c50p16", "GET over 50 connections, 16 requests together", [50, 16], 1.6),
    beside(
        "nginx.keepalive64",
        "nginx and wrk with rings: a file of 1 KiB over 64 connections that stay open",
        Load::Http,
        Goal::at_least(1.8),
    ),
    twin(
        "sockets.echo.1B",
        "a byte there and back with rings, median of half a round trip beside the floor",
        Twin::Echo { size_bytes: 1, goal: Goal::at_most(2.2) },
    ),
    twin(
        "sockets.echo.1B.p999",
        "99.9 % of those beside the kernel's median",
        Twin::EchoTail { size_bytes: 1, goal: Goal::at_most(1.0) },
    ),
    twin(
        "sockets.echo.32B",
        "32 bytes there and back with rings, median of half a round trip beside the floor",
        Twin::Echo { size_bytes: 32, goal: Goal::at_most(2.2) },
    ),
    twin(
        "sockets.echo.32B.p999",
        "99.9 % of those beside the kernel's median",
        Twin::EchoTail { size_bytes: 32, goal: Goal::at_most(1.0) },
    ),
    twin(
        "sockets.onecore",
        "64 bytes there and back between two programs on one processor, with rings",
        Twin::OneCore { goal: Goal::at_least(0.98) },
    ),
    twin(
        "sockets.oversubscribed",
        "the same by two pairs at once on two processors, an end on each",
        Twin::Oversubscribed { goal: Goal::at_least(0.95) },
    ),
    twin(
        "sockets.connect_request_close",
        "connect, 64 bytes there and back, close, with rings",
        Twin::Request { goal: Goal::at_least(0.98) },
    ),
    twin(
        "sockets.short.8x500B",
        "connect, read 8 messages of 500 bytes up to the end, close, with rings",
        Twin::Short { messages: 8, size_bytes: 500, goal: Goal::at_least(0.98) },
    ),
    twin(
        "sockets.short.64x1000B",
        "connect, read 64 messages of 1,000 bytes up to the end, close, with rings",
        Twin::Short { messages: 64, size_bytes: 1000, goal: Goal::at_least(0.98) },
    ),
    twin(
        "sockets.idle10k",
        "processor time of both ends of 10,000 connections on which nothing happens, with rings",
        Twin::IdleTime { at_most: 3000.0 },
    ),
    twin(
        "sockets.idle10k.memory",
        "memory that an idle connection takes at both ends beyond the plain program",
        Twin::IdleMemory { at_most: 8.192 },
    ),
    entry(
        "harness.overhead",
        Needs::Nothing,
        "a sample of nothing, beyond its clock readings",
        Kind::Overhead { at_most: 5.0 },
    ),
    entry(
        "manager.idle",
        Needs::Nine,
        "processor time of a manager with 8 sessions, a minute",
        Kind::IdleCpu { at_most: 60.0 },
    ),
    entry(
        "manager.idle.pss",
        Needs::Nine,
        "memory of a manager with 8 sessions",
        Kind::IdlePss { at_most: 8.0 },
    ),
    entry(
        "conntest.9nodes",
        Needs::Nine,
        "data generated, moved and checked between nine nodes, against a cold copy",
        Kind::Load { goal: Goal::at_least(0.25) },
    ),
    entry(
        "verify.quick.9nodes",
        Needs::Nine,
        "verify --quick of nine nodes, which run already",
        Kind::Verify { quick: true, at_most: 60.0 },
    ),
    entry(
        "verify.health.9nodes",
        Needs::Nine,
        "verify --health of nine nodes",
        Kind::Verify { quick: false, at_most: 5.0 },
    ),
    entry("up.64", Needs::SixtyFour, "64 nodes up, all sessions valid", Kind::Up { at_most: 5.0 }),
    entry("up.64.pss", Needs::SixtyFour, "memory of 64 managers", Kind::UpPss { at_most: 512.0 }),
    fabric(
        "route.fattree.11664",
        "tables of a fat tree of 11,664 hosts, made and checked",
        Fabric::Route { layered: false, at_most: 0.5 },
    ),
    fabric(
        "route.any.11664",
        "the same by the engine that is free of deadlock on any graph",
        Fabric::Route { layered: true, at_most: 10.0 },
    ),
    fabric(
        "route.any.11664.memory",
        "memory of a process that does that",
        Fabric::Memory { radix: 36, layered: true, at_most: 400.0 },
    ),
    fabric(
        "reroute.onelink.11664",
        "the same tree without one cable of a leaf",
        Fabric::Reroute { at_most: 0.2 },
    ),
    fabric(
        "quality.3456.destinations",
        "most destinations of a port, 0, 1 and 5 % of the cables between switches gone",
        Fabric::Quality { of: Fabrics::Tree, bisection: false, goal: Goal::at_most(1.0) },
    ),
    fabric(
        "quality.3456.bisection",
        "effective bisection, 0, 1 and 5 % of the cables between switches gone",
        Fabric::Quality { of: Fabrics::Tree, bisection: true, goal: Goal::at_least(1.0) },
    ),
    fabric(
        "quality.kinds.destinations",
        "most destinations of an uplink of fabrics with aggregation nodes, uneven leaves, islands, rails, planes and trunks",
        Fabric::Quality { of: Fabrics::Kinds, bisection: false, goal: Goal::at_most(1.02) },
    ),
    fabric(
        "quality.kinds.bisection",
        "effective bisection of these",
        Fabric::Quality { of: Fabrics::Kinds, bisection: true, goal: Goal::at_least(0.98) },
    ),
    fabric(
        "quality.large.destinations",
        "most destinations of an uplink of large fabrics of these kinds",
        Fabric::Quality { of: Fabrics::Large, bisection: false, goal: Goal::at_most(1.02) },
    ),
    fabric(
        "quality.large.bisection",
        "effective bisection of these",
        Fabric::Quality { of: Fabrics::Large, bisection: true, goal: Goal::at_least(0.98) },
    ),
    fabric(
        "route.fitting.4341",
        "a tree of five levels with 3,675 hosts and 666 aggregation nodes: the engine, the tables, and what is measured of them",
        Fabric::Fitting { at_most: 3.0 },
    ),
    fabric(
        "check.11664",
        "the check of tables of 11,664 hosts: all pairs, and credit loops",
        Fabric::Check { at_most: 3.0 },
    ),
    fabric("sweep.11664", "finding 11,664 hosts and 1,620 switches on ibsim", Fabric::Sweep { at_most: 2.0 }),
    fabric("counters.11664", "counters of all ports of that fabric", Fabric::Counters { at_most: 2.0 }),
    fabric(
        "memory.11664",
        "memory of a process that routes 11,664 hosts",
        Fabric::Memory { radix: 36, layered: false, at_most: 150.0 },
    ),
    fabric(
        "memory.16000",
        "memory of a process that routes 16,000 hosts",
        Fabric::Memory { radix: 40, layered: false, at_most: 250.0 },
    ),
    fabric("mad.rate", "answers at ibsim's socket", Fabric::Rate { at_least: 0.09 }),
];

/// The name of all figures of switched fabrics together.
const GROUP: &str = "fabric";

/// The figures with these names, or of all switched fabrics by `fabric`; for what is no whole name, those whose names begin with it up to a dot; all, if no names
/// are given.
pub fn select(only: &[String]) -> Result<Vec<Entry>> {
    let meant = |entry: &Entry, name: &str| {
        if name == GROUP {
            return matches!(entry.kind, Kind::Fabric(_));
        }
        // A whole name means just that, also where it begins another.
        if ALL.iter().any(|known| known.id == name) {
            return entry.id == name;
        }
        is_within(entry.id, name)
    };
    for name in only {
        if !ALL.iter().any(|entry| meant(entry, name)) {
            return Err(BenchError::UnknownId { id: name.clone(), nearest: nearest(name) });
        }
    }
    let wanted = |entry: &&Entry| only.is_empty() || only.iter().any(|name| meant(entry, name));
    Ok(ALL.iter().filter(wanted).copied().collect())
}

/// Whether a figure has this name, or one that begins with it up to a dot.
pub(crate) fn is_within(id: &str, name: &str) -> bool {
    id.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

/// The figure whose name is most like this one.
fn nearest(name: &str) -> &'static str {
    ALL.iter().map(|entry| entry.id).min_by_key(|id| edits(name, id)).unwrap_or(GROUP)
}
