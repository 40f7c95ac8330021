//! `latency`: the one-way time of a small message and the bandwidth of large ones, for every
//! transport, in one run.
//!
//! A round reads each transport once, in a random order. A rival is compared with ours round by
//! round, so that a change of the machine between rounds affects both.

use std::time::Instant;

use super::{
    Carried, LeftOut, Report, Row, SMALL_BYTES, SizeRow, Transport, kernel,
    load::Load,
    ours::{self, Wait},
    placement::{Placement, Sharing, sharing},
    wake,
};
use crate::{
    baseline::memory::{CopyProbe, Temperature},
    cpus,
    env::{self, Env},
    error::{BenchError, Result},
    patterns::{
        attach::{Where, path_of},
        scipp::Mechanism,
    },
    pinned_pair,
    pinned_pair::PinnedPair,
    poll::Poll,
    progress::Progress,
    rng::Rng,
    stats::{
        Block, Samples, order,
        paired::{Centre, PairedRatio},
    },
    timer::Timer,
};

/// The options of the benchmark.
#[derive(Debug, Clone)]
pub struct Options {
    /// The nodes.
    pub place: Where,
    /// The processors.
    pub placement: Placement,
    /// Threads of competing load.
    pub load: usize,
    /// Rounds; 30 or more for intervals that mean something.
    pub rounds: usize,
    /// The classic table too: messages of many sizes by TCP.
    pub by_size: bool,
    /// The seed of the order in a round and of resampling.
    pub seed: u64,
    /// Command line, for the record.
    pub argv: Vec<String>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            place: Where::default(),
            placement: Placement::default(),
            load: 0,
            rounds: 31,
            by_size: false,
            seed: 1,
            argv: Vec::new(),
        }
    }
}

impl Options {
    /// Checks what can be checked before anything is started, and returns the processors.
    pub fn check(&self) -> Result<[usize; 2]> {
        Load::check(self.load)?;
        if self.rounds == 0 {
            return Err(BenchError::Usage("latency: 0 rounds measure nothing".to_owned()));
        }
        self.placement.resolve("latency")
    }
}

/// The nodes and processors of the ends.
pub(super) struct Setting {
    pub(super) nodes: [u32; 2],
    pub(super) cpus: [usize; 2],
    pub(super) processes: u32,
    pub(super) path: String,
    pub(super) mechanism: Mechanism,
}

/// Measures all transports, with both ends in this process.
pub fn run(options: &Options, progress: &mut dyn Progress) -> Result<Report> {
    let cpus = options.check()?;
    let nodes = options.place.both()?;
    let same = sharing(cpus) == Sharing::SameCore;
    let memory = ours::memory(&nodes)?;
    let wait = if same { Wait::Yield } else { Wait::Spin(Poll::Paused) };
    let stores = ours::stores(&memory, wait)?;
    // Interrupts learn at their birth whether spinning can pay: not where both sides share a
    // processor.
    let bells = if same {
        pinned_pair::pinned(cpus[0], || ours::interrupts(&nodes))?
    } else {
        ours::interrupts(&nodes)?
    };
    let ids = nodes.each_ref().map(|node| node.id().get());
    let path = path_of(&nodes[0]);
    let setting = Setting { nodes: ids, cpus, processes: 1, path, mechanism: Mechanism::Stores };
    measure(options, setting, progress, |timer, progress| {
        pinned_pair::on(cpus, |pair| {
            let transports: Vec<Box<dyn Transport<'_> + '_>> = vec![
                Box::new(stores),
                Box::new(bells),
                Box::new(wake::futex()),
                Box::new(kernel::pipe()?),
                Box::new(kernel::unix()?),
                Box::new(kernel::tcp()?),
            ];
            rounds(options, timer, pair, transports, progress)
        })
    })
}

/// Measures, and makes the report.
pub(super) fn measure(
    options: &Options,
    setting: Setting,
    progress: &mut dyn Progress,
    go: impl FnOnce(&Timer, &mut dyn Progress) -> Result<Readings>,
) -> Result<Report> {
    let timer = Timer::new()?;
    let (started, steal) = (Instant::now(), env::steal_ms());
    let mut env = Env::gather(timer.record(), options.argv.clone(), options.seed);
    let load = Load::start(options.load)?;
    let Readings { copies, series, sizes, tcp_carried, left_out } = go(&timer, progress)?;
    drop(load);
    env.finish(started, steal);
    let partial = copies.len() < options.rounds;
    let mut rows: Vec<Row> = Vec::new();
    let ours: Option<(Vec<f64>, Vec<f64>)> =
        series.first().map(|first| (first.half_ns.clone(), first.gb_s.clone()));
    for one in &series {
        rows.push(row(one, ours.as_ref(), options.seed));
    }
    rows.push(Row::copy(
        order::median(&copies),
        ours.as_ref().map(|(_, rates)| rates.as_slice()),
        &copies,
        options.seed,
    ));
    Ok(Report {
        schema: Report::SCHEMA.to_owned(),
        env,
        nodes: setting.nodes,
        cpus: setting.cpus,
        processes: setting.processes,
        allowed: cpus::allowed()?,
        // Two hosts share no processor.
        sharing: match setting.mechanism {
            Mechanism::Stores => sharing(setting.cpus),
            Mechanism::Put => Sharing::TwoCores,
        },
        load_threads: options.load,
        path: setting.path,
        mechanism: setting.mechanism,
        left_out,
        small_bytes: SMALL_BYTES,
        large_bytes: super::LARGE_BYTES,
        rounds: copies.len(),
        partial,
        rows,
        sizes,
        tcp_carried,
    })
}

/// The readings.
pub(super) struct Readings {
    /// memcpy, in GB/s.
    copies: Vec<f64>,
    series: Vec<Series>,
    sizes: Vec<SizeRow>,
    tcp_carried: Option<Carried>,
    /// Transports that could not be measured.
    pub(super) left_out: Vec<LeftOut>,
}

/// The sizes of the classic table.
pub const SIZES_BYTES: [usize; 31] = [
    1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 24, 32, 48, 64, 96, 128, 256, 512, 1024, 2048,
    4096, 8192, 16384, 32768, 65536,
];
/// Round trips of each size that count, and some before them.
const SIZE_ROUNDS: u64 = 1000;
const SIZE_WARM_UP: u64 = 100;

/// The classic table, over TCP.
fn by_size<'env>(
    timer: &Timer,
    pair: &mut PinnedPair<'env>,
    transports: &mut [Box<dyn Transport<'env> + '_>],
    progress: &mut dyn Progress,
) -> Result<Vec<SizeRow>> {
    let mut rows = Vec::new();
    let is_tcp = |name| [kernel::TCP, kernel::TCP_BETWEEN_HOSTS].contains(&name);
    let Some(tcp) = transports.iter_mut().find(|transport| is_tcp(transport.name())) else {
        return Ok(rows);
    };
    for size_bytes in SIZES_BYTES {
        if progress.stop() {
            break;
        }
        progress.tell(&format!("{size_bytes} bytes by TCP"), 0.0);
        tcp.sized(pair, size_bytes, SIZE_WARM_UP)?;
        let ticks = tcp.sized(pair, size_bytes, SIZE_ROUNDS)?;
        let total_ns = ticks.iter().map(|ticks| timer.ns(*ticks)).sum();
        let min_ns = ticks.iter().min().map_or(0.0, |ticks| timer.ns(*ticks));
        rows.push(SizeRow { size_bytes, rounds: SIZE_ROUNDS, total_ns, min_ns });
    }
    Ok(rows)
}

/// The readings of one transport, round by round.
pub(super) struct Series {
    name: &'static str,
    half_ns: Vec<f64>,
    gb_s: Vec<f64>,
    all: Samples,
    rounds: u64,
}

pub(super) fn rounds<'env>(
    options: &Options,
    timer: &Timer,
    pair: &mut PinnedPair<'env>,
    mut transports: Vec<Box<dyn Transport<'env> + '_>>,
    progress: &mut dyn Progress,
) -> Result<Readings> {
    let mut rng = Rng::new(options.seed);
    let mut copy = CopyProbe::new(timer, super::LARGE_BYTES, Temperature::Hot)?;
    let mut copies = Vec::with_capacity(options.rounds);
    let mut series = Vec::new();
    for transport in &mut transports {
        progress.tell(&format!("warming up {}", transport.name()), 0.0);
        transport.half_round_trip_ns(timer, pair, None)?;
        transport.bandwidth_gb_s(timer, pair)?;
        series.push(Series {
            name: transport.name(),
            half_ns: Vec::new(),
            gb_s: Vec::new(),
            all: Samples::new(false)?,
            rounds: 0,
        });
    }
    let mut turn: Vec<usize> = (0..transports.len()).collect();
    for round in 0..options.rounds {
        if progress.stop() {
            break;
        }
        progress.tell(
            &format!("round {} of {}", round + 1, options.rounds),
            round as f64 / options.rounds as f64,
        );
        rng.shuffle(&mut turn);
        for &at in &turn {
            let (transport, series) = (&mut transports[at], &mut series[at]);
            series.half_ns.push(transport.half_round_trip_ns(timer, pair, Some(&mut series.all))?);
            series.gb_s.extend(transport.bandwidth_gb_s(timer, pair)?);
            series.rounds = transport.rounds();
        }
        copies.push(super::LARGE_BYTES as f64 / copy.copy_ns(timer, None)?);
    }
    let sizes = if options.by_size { by_size(timer, pair, &mut transports, progress)? } else { Vec::new() };
    let tcp_carried = transports.iter().find_map(|transport| transport.carried());
    Ok(Readings { copies, series, sizes, tcp_carried, left_out: Vec::new() })
}

/// Ratio of one series to another, round by round.
pub(super) fn compare(one: &[f64], other: &[f64], seed: u64) -> Option<PairedRatio> {
    let blocks: Vec<Block> =
        one.iter().zip(other).map(|(ours, reference)| Block { ours: *ours, reference: *reference }).collect();
    PairedRatio::of(&blocks, Centre::Median, 2000, seed)
}

fn row(series: &Series, ours: Option<&(Vec<f64>, Vec<f64>)>, seed: u64) -> Row {
    let latency = ours.and_then(|(half_ns, _)| compare(&series.half_ns, half_ns, seed));
    let bandwidth = ours.and_then(|(_, rates)| compare(&series.gb_s, rates, seed));
    Row {
        name: series.name.to_owned(),
        half_rtt: series.all.summary(),
        half_rtt_ns: order::median(&series.half_ns),
        readings_ns: series.half_ns.clone(),
        latency_ratio: latency.map(|paired| paired.ratio),
        latency_ratio_ci95: latency.and_then(|paired| paired.shown_ratio_ci95()),
        bandwidth_gb_s: order::median(&series.gb_s),
        readings_gb_s: series.gb_s.clone(),
        bandwidth_ratio: bandwidth.map(|paired| paired.ratio),
        bandwidth_ratio_ci95: bandwidth.and_then(|paired| paired.shown_ratio_ci95()),
        round_trips: series.rounds,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rival_is_compared_round_by_round() {
        // The machine is four times as slow in every third round: the ratio does not see it.
        let mood = |n: usize| if n.is_multiple_of(3) { 4.0 } else { 1.0 };
        let of = |ns: f64, rate: f64| Series {
            name: "x",
            half_ns: (0..31).map(|n| ns * mood(n)).collect(),
            gb_s: (0..31).map(|n| rate / mood(n)).collect(),
            all: Samples::new(false).unwrap(),
            rounds: 5,
        };
        let ours = of(60.0, 10.0);
        let row = row(&of(9000.0, 2.5), Some(&(ours.half_ns, ours.gb_s)), 1);
        assert!((row.latency_ratio.unwrap() - 150.0).abs() < 1e-9);
        assert!((row.bandwidth_ratio.unwrap() - 0.25).abs() < 1e-9);
        assert_eq!(row.half_rtt_ns, Some(9000.0));
        // One round has no interval; a single point would look certain.
        let once = |series: &Series| (series.half_ns[..1].to_vec(), series.gb_s[..1].to_vec());
        let (half_ns, gb_s) = once(&of(9000.0, 2.5));
        let single = super::row(&Series { half_ns, gb_s, ..of(1.0, 1.0) }, Some(&once(&of(60.0, 10.0))), 1);
        assert!((single.latency_ratio.unwrap() - 150.0).abs() < 1e-9);
        assert_eq!((single.latency_ratio_ci95, single.bandwidth_ratio_ci95), (None, None));
        assert!(row.latency_ratio_ci95.is_some() && row.bandwidth_ratio_ci95.is_some());
        let empty = Series { gb_s: Vec::new(), ..of(9000.0, 1.0) };
        assert_eq!(super::row(&empty, None, 1).bandwidth_gb_s, None);
    }

    #[test]
    fn no_rounds_are_refused() {
        let options = Options { rounds: 0, ..Options::default() };
        assert!(run(&options, &mut crate::progress::Quiet).is_err());
    }
}
