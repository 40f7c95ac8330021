//! The figures and their goals.

use crate::{
    patterns::{
        messages::Implementation,
        ofi,
        programs::{Load, twins::Twin},
    },
    verdict::Goal,
};

mod clusters;
mod fleet;
mod hosts;
mod kinds;
mod messages;
mod select;
mod subnet;
#[cfg(test)]
mod tests;

use hosts::between_hosts;
pub use kinds::{Beside, Copies, Entry, Fabric, Fabrics, Kind, Memory, Messages, Needs, Ofi, Sisci, Sockets};
use messages::{MPICH, OPEN_MPI, UCX, above_line, access, beside_rival, beside_shm, over_provider};
pub(crate) use select::is_within;
pub use select::select;

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

/// A third-party program with rings, compared with the same on the plain kernel.
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

/// The share of the best kernel's bandwidth that a copy must reach.
const OF_THE_BEST: Goal = Goal::at_least(0.98);
/// The same for times.
const OF_THE_BEST_TIME: Goal = Goal::at_most(1.0 / 0.98);

const fn put(id: &'static str, mib: usize, cold: bool) -> Entry {
    let kind = Kind::Put { size_bytes: mib << 20, cold, goal: OF_THE_BEST };
    let what = if cold {
        "bandwidth of put, no cache holds the bytes"
    } else {
        "bandwidth of put, the same bytes again"
    };
    entry(id, Needs::Pair, what, kind)
}

const fn store(id: &'static str, size_bytes: usize) -> Entry {
    let kind = Kind::Store { size_bytes, goal: OF_THE_BEST };
    entry(id, Needs::Pair, "bandwidth of streaming stores", kind)
}

/// From 4 KiB on, at least 0.98 of the best kernel's bandwidth is required; below 4 KiB, at most
/// its time + 8 ns.
const fn dma(id: &'static str, size_bytes: usize, cold: bool) -> Entry {
    let is_long = size_bytes >= crate::patterns::dma_bench::LONG_BYTES;
    let goal = if is_long { OF_THE_BEST_TIME } else { Goal::at_most(1.0) };
    let what = if cold {
        "DMA vector of 256 blocks, or of 64 MiB if that is less, no cache holds the bytes: time per block"
    } else {
        "DMA vector of 256 blocks, or of 64 MiB if that is less, the same bytes again: time per block"
    };
    entry(id, Needs::Pair, what, Kind::Dma { size_bytes, cold, goal })
}

/// Two polled lines have several stable round-trip times (measured on one machine: 105, 120 or 137
/// ns, for minutes at a time), and the baseline and the messages do not always have the same one.
/// So this goal is wider than that of the single line.
const OWN_LINES_GOAL: Goal = Goal::at_most(1.10);

/// All figures.
pub static ALL: [Entry; 203] = [
    entry(
        "scipp.half_rtt.4B",
        Needs::Pair,
        "half round trip, request and response in one cache line",
        Kind::Scipp { size_bytes: 4, shared: true, goal: Goal::at_most(1.05) },
    ),
    entry(
        "scipp.half_rtt.4B.own",
        Needs::Pair,
        "half round trip, each direction in the receiver's segment",
        Kind::Scipp { size_bytes: 4, shared: false, goal: OWN_LINES_GOAL },
    ),
    entry(
        "scipp.half_rtt.8KiB",
        Needs::Pair,
        "half round trip of 8 KiB",
        Kind::Scipp { size_bytes: 8192, shared: true, goal: Goal::at_most(0.7) },
    ),
    entry(
        "ring.record.8B.single",
        Needs::Nothing,
        "ring: records of 8 bytes, one at a time, payload read",
        Kind::Ring { batched: false, goal: Goal::at_least(1.5) },
    ),
    entry(
        "ring.record.8B.batch16",
        Needs::Nothing,
        "ring: records of 8 bytes, 16 at a time, payload read",
        Kind::Ring { batched: true, goal: Goal::at_least(1.5) },
    ),
    put("put.1MiB.hot", 1, false),
    put("put.1MiB.cold", 1, true),
    put("put.4MiB.hot", 4, false),
    put("put.4MiB.cold", 4, true),
    put("put.16MiB.hot", 16, false),
    put("put.16MiB.cold", 16, true),
    put("put.64MiB.hot", 64, false),
    put("put.64MiB.cold", 64, true),
    dma("dma.64B.hot", 64, false),
    dma("dma.64B.cold", 64, true),
    dma("dma.128B.hot", 128, false),
    dma("dma.128B.cold", 128, true),
    dma("dma.256B.hot", 256, false),
    dma("dma.256B.cold", 256, true),
    dma("dma.512B.hot", 512, false),
    dma("dma.512B.cold", 512, true),
    dma("dma.1KiB.hot", 1 << 10, false),
    dma("dma.1KiB.cold", 1 << 10, true),
    dma("dma.2KiB.hot", 2 << 10, false),
    dma("dma.2KiB.cold", 2 << 10, true),
    dma("dma.4KiB.hot", 4 << 10, false),
    dma("dma.4KiB.cold", 4 << 10, true),
    dma("dma.8KiB.hot", 8 << 10, false),
    dma("dma.8KiB.cold", 8 << 10, true),
    dma("dma.16KiB.hot", 16 << 10, false),
    dma("dma.16KiB.cold", 16 << 10, true),
    dma("dma.32KiB.hot", 32 << 10, false),
    dma("dma.32KiB.cold", 32 << 10, true),
    dma("dma.64KiB.hot", 64 << 10, false),
    dma("dma.64KiB.cold", 64 << 10, true),
    dma("dma.128KiB.hot", 128 << 10, false),
    dma("dma.128KiB.cold", 128 << 10, true),
    dma("dma.256KiB.hot", 256 << 10, false),
    dma("dma.256KiB.cold", 256 << 10, true),
    dma("dma.512KiB.hot", 512 << 10, false),
    dma("dma.512KiB.cold", 512 << 10, true),
    dma("dma.1MiB.hot", 1 << 20, false),
    dma("dma.1MiB.cold", 1 << 20, true),
    dma("dma.2MiB.hot", 2 << 20, false),
    dma("dma.2MiB.cold", 2 << 20, true),
    dma("dma.4MiB.hot", 4 << 20, false),
    dma("dma.4MiB.cold", 4 << 20, true),
    dma("dma.8MiB.hot", 8 << 20, false),
    dma("dma.8MiB.cold", 8 << 20, true),
    dma("dma.16MiB.hot", 16 << 20, false),
    dma("dma.16MiB.cold", 16 << 20, true),
    dma("dma.32MiB.hot", 32 << 20, false),
    dma("dma.32MiB.cold", 32 << 20, true),
    dma("dma.64MiB.hot", 64 << 20, false),
    dma("dma.64MiB.cold", 64 << 20, true),
    entry(
        "copy.worst",
        Needs::Pair,
        "copies of 40 sizes at 4 temperatures: the one that is furthest below the C library's memcpy",
        Kind::Copies(Copies::Worst { goal: OF_THE_BEST }),
    ),
    entry(
        "tune.time",
        Needs::Nothing,
        "time that measuring the plan of copies takes",
        Kind::Copies(Copies::TuneTime { at_most: 0.5 }),
    ),
    entry(
        "tune.repeat",
        Needs::Nothing,
        "two plans that were measured one after the other: the size at which they differ most",
        Kind::Copies(Copies::TuneRepeat { goal: Goal::at_most(1.03) }),
    ),
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
        "interrupt, one way, both ends spinning",
        Kind::Spinning { goal: Goal::at_most(2.0) },
    ),
    entry(
        "intr.sleeping",
        Needs::Pair,
        "interrupt, one way, receiver asleep",
        Kind::Sleeping { goal: Goal::at_most(1.15) },
    ),
    entry(
        "connect_map",
        Needs::Pair,
        "connecting to a segment and mapping it",
        Kind::Connect { at_most: 200.0 },
    ),
    sisci(
        "sisci.pingpong",
        "C API: half round trip of 4 bytes stored through maps",
        Sisci::PingPong { at_most: 1.05 },
    ),
    sisci(
        "sisci.memcpy.1MiB",
        "C API: bandwidth of SCIMemCpy of 1 MiB",
        Sisci::Copy { dma: false, goal: OF_THE_BEST },
    ),
    sisci(
        "sisci.dma.1MiB",
        "C API: bandwidth of SCIStartDmaTransfer of 1 MiB",
        Sisci::Copy { dma: true, goal: OF_THE_BEST },
    ),
    sisci("sisci.call", "C API: time of SCIGetLocalSegmentSize", Sisci::Call { at_most: 30.0 }),
    sisci(
        "sisci.connect_map",
        "C API: time of connect, map, unmap and disconnect",
        Sisci::Connect { at_most: 200.0 },
    ),
    sisci(
        "sisci.scale",
        "C API: create, connect and map, in a process with 1,000 segments, 10,000 maps and 256 DMA queues",
        Sisci::Scale { at_most: 1.5 },
    ),
    passthrough(
        "sockets.passthrough.echo",
        "sockets library without rings: echo of 64 bytes over one connection",
        "echo",
        3000,
    ),
    passthrough(
        "sockets.passthrough.connect_close",
        "sockets library without rings: connect, wait for the other end's close, close",
        "connect",
        1000,
    ),
    passthrough(
        "sockets.passthrough.epoll",
        "sockets library without rings: echo of 1 byte over each of 64 connections, with epoll",
        "epoll",
        80,
    ),
    entry(
        "sockets.start",
        Needs::Nothing,
        "time that `tieline run` adds to the start of a program",
        Kind::Sockets(Sockets::Start { at_most: 0.5 }),
    ),
    beside(
        "sockperf.pp.14B",
        "sockperf with rings: median half round trip of 14 bytes, compared with the kernel",
        Load::PingPong,
        Goal::at_most(0.01),
    ),
    entry(
        "sockperf.pp.14B.floor",
        Needs::Nothing,
        "sockperf with rings: median half round trip of 14 bytes, compared with that of a ring's cache lines",
        Kind::Sockets(Sockets::AboveBaseline { load: Load::PingPong, goal: Goal::at_most(3.5) }),
    ),
    beside(
        "sockperf.tp.14B",
        "sockperf with rings: messages of 14 bytes per second, one way",
        Load::Throughput,
        Goal::at_least(20.0),
    ),
    beside(
        "iperf3.1stream",
        "iperf3 with rings: bandwidth of one stream, written in blocks of 128 KiB",
        Load::Stream,
        Goal::at_least(4.5),
    ),
    entry(
        "iperf3.1stream.exchange",
        Needs::Nothing,
        "iperf3 with rings: bandwidth of one stream, compared with what the two processors' exchange of bytes allows",
        Kind::Sockets(Sockets::AboveBaseline { load: Load::Stream, goal: Goal::at_least(0.9) }),
    ),
    redis("redis.get.c1", "redis-benchmark with rings: GET, one connection", [1, 1], 10.0),
    redis("redis.get.c50", "redis-benchmark with rings: GET, 50 connections", [50, 1], 3.0),
    redis(
        "redis.get.c50p16",
        "redis-benchmark with rings: GET, 50 connections, pipelines of 16 requests",
        [50, 16],
        1.6,
    ),
    beside(
        "nginx.keepalive64",
        "nginx and wrk with rings: a file of 1 KiB, 64 keep-alive connections",
        Load::Http,
        Goal::at_least(1.8),
    ),
    twin(
        "sockets.echo.1B",
        "rings: median half round trip of 1 byte, compared with that of the ring's own cache lines",
        Twin::Echo { size_bytes: 1, goal: Goal::at_most(2.2) },
    ),
    twin(
        "sockets.echo.1B.p999",
        "rings: 99.9 % half round trip of 1 byte, compared with the kernel's median",
        Twin::EchoTail { size_bytes: 1, goal: Goal::at_most(1.0) },
    ),
    twin(
        "sockets.echo.32B",
        "rings: median half round trip of 32 bytes, compared with that of the ring's own cache lines",
        Twin::Echo { size_bytes: 32, goal: Goal::at_most(2.2) },
    ),
    twin(
        "sockets.echo.32B.p999",
        "rings: 99.9 % half round trip of 32 bytes, compared with the kernel's median",
        Twin::EchoTail { size_bytes: 32, goal: Goal::at_most(1.0) },
    ),
    twin(
        "sockets.onecore",
        "rings: echo of 64 bytes between two programs on one processor",
        Twin::OneCore { goal: Goal::at_least(0.98) },
    ),
    twin(
        "sockets.oversubscribed",
        "rings: echo of 64 bytes by two pairs of programs on two processors, one end on each",
        Twin::Oversubscribed { goal: Goal::at_least(0.95) },
    ),
    twin(
        "sockets.connect_request_close",
        "rings: connect, echo of 64 bytes, close",
        Twin::Request { goal: Goal::at_least(0.98) },
    ),
    twin(
        "sockets.short.8x500B",
        "rings: connect, read 8 messages of 500 bytes to the end, close",
        Twin::Short { messages: 8, size_bytes: 500, goal: Goal::at_least(0.98) },
    ),
    twin(
        "sockets.short.64x1000B",
        "rings: connect, read 64 messages of 1,000 bytes to the end, close",
        Twin::Short { messages: 64, size_bytes: 1000, goal: Goal::at_least(0.98) },
    ),
    twin(
        "sockets.idle10k",
        "rings: processor time of both ends of 10,000 idle connections",
        Twin::IdleTime { at_most: 3000.0 },
    ),
    twin(
        "sockets.idle10k.memory",
        "rings: additional memory of an idle connection, both ends",
        Twin::IdleMemory { at_most: 8.192 },
    ),
    between_hosts("ofi.echo.8B", ofi::Load::Echo),
    between_hosts("ofi.put.8B", ofi::Load::Put),
    between_hosts("ofi.put.64KiB", ofi::Load::Stream { size_bytes: 64 << 10 }),
    between_hosts("ofi.put.1MiB", ofi::Load::Stream { size_bytes: 1 << 20 }),
    between_hosts("ofi.put.16MiB", ofi::Load::Stream { size_bytes: 16 << 20 }),
    between_hosts("rails.two", ofi::Load::TwoRails { size_bytes: 1 << 20 }),
    between_hosts("rails.cut", ofi::Load::Cut),
    between_hosts("rails.urgent.64B", ofi::Load::Urgent),
    beside_rival("mq.half_rtt.8B", UCX, messages::ECHO_8B, Goal::at_most(0.6)),
    above_line("mq.half_rtt.8B.line", 8, Goal::at_most(1.8)),
    beside_rival("mq.half_rtt.8B.openmpi", OPEN_MPI, messages::ECHO_8B, Goal::at_most(0.6)),
    beside_rival("mq.half_rtt.8B.mpich", MPICH, messages::ECHO_8B, Goal::at_most(0.6)),
    beside_rival("mq.half_rtt.1KiB", UCX, messages::ECHO_1KIB, Goal::at_most(0.7)),
    beside_rival("mq.half_rtt.1KiB.openmpi", OPEN_MPI, messages::ECHO_1KIB, Goal::at_most(0.7)),
    beside_rival("mq.half_rtt.1KiB.mpich", MPICH, messages::ECHO_1KIB, Goal::at_most(0.7)),
    beside_rival("mq.half_rtt.8KiB", UCX, messages::ECHO_8KIB, Goal::at_most(0.7)),
    beside_rival("mq.half_rtt.8KiB.openmpi", OPEN_MPI, messages::ECHO_8KIB, Goal::at_most(0.7)),
    beside_rival("mq.half_rtt.8KiB.mpich", MPICH, messages::ECHO_8KIB, Goal::at_most(0.7)),
    beside_rival("mq.rate.8B", UCX, messages::RATE, Goal::at_least(2.0)),
    beside_rival("mq.rate.8B.openmpi", OPEN_MPI, messages::RATE, Goal::at_least(2.0)),
    beside_rival("mq.rate.8B.mpich", MPICH, messages::RATE, Goal::at_least(2.0)),
    beside_rival("mq.rate.8B.1000tags.openmpi", OPEN_MPI, messages::RATE_1000_TAGS, Goal::at_least(1.5)),
    beside_rival("mq.rate.8B.1000tags.mpich", MPICH, messages::RATE_1000_TAGS, Goal::at_least(1.5)),
    beside_rival("mq.bw.64KiB.hot", UCX, messages::HOT_64KIB, Goal::at_least(1.2)),
    beside_rival("mq.bw.64KiB.hot.openmpi", OPEN_MPI, messages::HOT_64KIB, Goal::at_least(1.2)),
    beside_rival("mq.bw.64KiB.hot.mpich", MPICH, messages::HOT_64KIB, Goal::at_least(1.2)),
    beside_rival("mq.bw.1MiB.hot", UCX, messages::HOT_1MIB, Goal::at_least(1.2)),
    beside_rival("mq.bw.1MiB.hot.openmpi", OPEN_MPI, messages::HOT_1MIB, Goal::at_least(1.2)),
    beside_rival("mq.bw.1MiB.hot.mpich", MPICH, messages::HOT_1MIB, Goal::at_least(1.2)),
    beside_rival("mq.bw.4MiB.hot", UCX, messages::HOT_4MIB, Goal::at_least(1.2)),
    beside_rival("mq.bw.4MiB.hot.openmpi", OPEN_MPI, messages::HOT_4MIB, Goal::at_least(1.2)),
    beside_rival("mq.bw.4MiB.hot.mpich", MPICH, messages::HOT_4MIB, Goal::at_least(1.2)),
    beside_rival("mq.bw.64KiB.cold.openmpi", OPEN_MPI, messages::COLD_64KIB, Goal::at_least(1.2)),
    beside_rival("mq.bw.64KiB.cold.mpich", MPICH, messages::COLD_64KIB, Goal::at_least(1.2)),
    beside_rival("mq.bw.1MiB.cold.openmpi", OPEN_MPI, messages::COLD_1MIB, Goal::at_least(1.2)),
    beside_rival("mq.bw.1MiB.cold.mpich", MPICH, messages::COLD_1MIB, Goal::at_least(1.2)),
    beside_rival("mq.bw.4MiB.cold.openmpi", OPEN_MPI, messages::COLD_4MIB, Goal::at_least(1.2)),
    beside_rival("mq.bw.4MiB.cold.mpich", MPICH, messages::COLD_4MIB, Goal::at_least(1.2)),
    beside_rival("mq.allreduce.8B.2.openmpi", OPEN_MPI, messages::ALLREDUCE_2, Goal::at_most(0.7)),
    beside_rival("mq.allreduce.8B.2.mpich", MPICH, messages::ALLREDUCE_2, Goal::at_most(0.7)),
    beside_rival("mq.allreduce.8B.4.openmpi", OPEN_MPI, messages::ALLREDUCE_4, Goal::at_most(0.7)),
    beside_rival("mq.allreduce.8B.4.mpich", MPICH, messages::ALLREDUCE_4, Goal::at_most(0.7)),
    beside_rival("mq.allreduce.8B.8.openmpi", OPEN_MPI, messages::ALLREDUCE_8, Goal::at_most(0.7)),
    beside_rival("mq.allreduce.8B.8.mpich", MPICH, messages::ALLREDUCE_8, Goal::at_most(0.7)),
    beside_rival("mq.oversubscribed.openmpi", OPEN_MPI, messages::FOUR_PAIRS, Goal::at_most(1.0)),
    beside_rival("mq.oversubscribed.mpich", MPICH, messages::FOUR_PAIRS, Goal::at_most(1.0)),
    over_provider("ompi.half_rtt.8B", messages::ECHO_8B, Goal::at_most(1.0)),
    over_provider("ompi.bw.1MiB", messages::HOT_1MIB, Goal::at_least(1.1)),
    access("access.put.8B.openmpi", true, Implementation::OpenMpi, Goal::at_most(1.0)),
    access("access.get.8B.openmpi", false, Implementation::OpenMpi, Goal::at_most(1.0)),
    access("access.put.8B.mpich", true, Implementation::Mpich, Goal::at_most(1.0)),
    access("access.get.8B.mpich", false, Implementation::Mpich, Goal::at_most(1.0)),
    beside_shm("fi.half_rtt.8B", messages::ECHO_8B, Goal::at_most(0.6)),
    beside_shm("fi.bw.1MiB", messages::HOT_1MIB, Goal::at_least(1.2)),
    entry(
        "harness.overhead",
        Needs::Nothing,
        "cost of a sample, besides its clock readings",
        Kind::Overhead { at_most: 5.0 },
    ),
    clusters::MANAGER_IDLE,
    clusters::MANAGER_IDLE_PSS,
    clusters::CONNTEST,
    clusters::VERIFY_QUICK,
    clusters::VERIFY_HEALTH,
    clusters::UP,
    clusters::UP_PSS,
    clusters::HOSTS_VERIFY_4,
    clusters::SHADOW,
    clusters::HOSTS_IDLE,
    clusters::HOSTS_VERIFY_16,
    clusters::HOSTS_UP,
    clusters::HOSTS_UP_PSS,
    fleet::RUN,
    fleet::RUN_CLUSH,
    fleet::WARM,
    fleet::DEAD,
    fleet::COPY,
    fabric(
        "route.fattree.11664",
        "LFTs of a fat tree of 11,664 hosts, computed and checked",
        Fabric::Route { layered: false, at_most: 0.5 },
    ),
    fabric(
        "route.any.11664",
        "LFTs of the same tree by the engine `layered`, which is free of deadlock on any graph",
        Fabric::Route { layered: true, at_most: 10.0 },
    ),
    fabric(
        "route.any.11664.memory",
        "memory of a process that routes that tree by the engine `layered`",
        Fabric::Memory { radix: 36, layered: true, at_most: 400.0 },
    ),
    fabric(
        "reroute.onelink.11664",
        "LFTs of the same tree without one cable of a leaf",
        Fabric::Reroute { at_most: 0.2 },
    ),
    fabric(
        "quality.3456.destinations",
        "max LIDs routed per port, with 0, 1 and 5 % of the cables between switches missing",
        Fabric::Quality { of: Fabrics::Tree, bisection: false, goal: Goal::at_most(1.0) },
    ),
    fabric(
        "quality.3456.bisection",
        "effective bisection bandwidth, with 0, 1 and 5 % of the cables between switches missing",
        Fabric::Quality { of: Fabrics::Tree, bisection: true, goal: Goal::at_least(1.0) },
    ),
    fabric(
        "quality.kinds.destinations",
        "max LIDs routed per uplink: aggregation nodes, uneven leaves, islands, rails, planes and trunks",
        Fabric::Quality { of: Fabrics::Kinds, bisection: false, goal: Goal::at_most(1.02) },
    ),
    fabric(
        "quality.kinds.bisection",
        "effective bisection bandwidth of the fabrics of quality.kinds.destinations",
        Fabric::Quality { of: Fabrics::Kinds, bisection: true, goal: Goal::at_least(0.98) },
    ),
    fabric(
        "quality.large.destinations",
        "max LIDs routed per uplink of large fabrics of the kinds of quality.kinds.destinations",
        Fabric::Quality { of: Fabrics::Large, bisection: false, goal: Goal::at_most(1.02) },
    ),
    fabric(
        "quality.large.bisection",
        "effective bisection bandwidth of the fabrics of quality.large.destinations",
        Fabric::Quality { of: Fabrics::Large, bisection: true, goal: Goal::at_least(0.98) },
    ),
    fabric(
        "route.fitting.4341",
        "a tree of five levels with 3,675 hosts and 666 aggregation nodes: selection of the engine, LFTs, quality",
        Fabric::Fitting { at_most: 3.0 },
    ),
    fabric(
        "check.11664",
        "check of the LFTs of 11,664 hosts: all pairs, and credit loops",
        Fabric::Check { at_most: 3.0 },
    ),
    fabric(
        "sweep.11664",
        "sweep of 11,664 hosts and 1,620 switches on ibsim",
        Fabric::Sweep { at_most: 2.0 },
    ),
    fabric(
        "counters.11664",
        "reading the counters of all ports of that fabric",
        Fabric::Counters { at_most: 2.0 },
    ),
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
    subnet::BRING_UP,
    subnet::ONE_LINK,
    subnet::SWITCH,
    subnet::FAILOVER,
    subnet::FAILOVER_TUNED,
    subnet::MEMORY,
    subnet::PATHS,
    fabric("mad.rate", "MAD responses per second through ibsim's socket", Fabric::Rate { at_least: 0.09 }),
];
