//! `bench limits`: what this machine allows at this moment without our transports, and the rates of
//! rings that have no goal.
//!
//! Every other figure is read against these. They hold for the two processors named, now: on a
//! virtual machine they change by factors within seconds, which is why each figure probes its own
//! baseline again.

use std::time::Instant;

use serde::Serialize;

use crate::{
    baseline::{
        line::{FarThread, LineProbe, Lines, Words},
        memory::{CopyProbe, FreshProbe, Temperature},
        wake::WakeProbe,
    },
    cpus,
    env::{self, Env},
    error::Result,
    layout::table::{Align, Table, size, three_digits},
    patterns::ring_rates::{self, RingRate},
    pinned_pair,
    pinned_pair::PinnedPair,
    progress::Progress,
    stats::{Samples, Summary, digits},
    timer::Timer,
};

/// Name of the form.
pub const SCHEMA: &str = "tieline.limits/1";

/// The options of the measurement.
#[derive(Debug, Clone)]
pub struct Options {
    /// Processors, or `None` for a choice.
    pub cpus: Option<[usize; 2]>,
    /// Sizes of copies.
    pub sizes_bytes: Vec<usize>,
    /// The number of readings of each value, each of about a millisecond and a half.
    pub readings: u32,
    /// Command line, for the record.
    pub argv: Vec<String>,
}

impl Default for Options {
    fn default() -> Self {
        let sizes_bytes =
            vec![4, 64, 256, 1 << 10, 2 << 10, 8 << 10, 64 << 10, 1 << 20, 4 << 20, 16 << 20, 64 << 20];
        Self { cpus: None, sizes_bytes, readings: 7, argv: Vec::new() }
    }
}

/// The limits of the machine.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// [`SCHEMA`].
    pub schema: &'static str,
    /// Circumstances.
    pub env: Env,
    /// The two processors.
    pub cpus: [usize; 2],
    /// It was ended early: the limits were measured before that.
    pub partial: bool,
    /// Half the round trip of a cache line.
    pub lines: Vec<LineBaseline>,
    /// memcpy.
    pub copies: Vec<CopyBaseline>,
    /// Futex wake-up across the two processors, one way.
    pub wake: Option<Summary>,
    /// The rates of the rings.
    pub rings: Vec<RingRate>,
}

/// One form of the line.
#[derive(Debug, Clone, Serialize)]
pub struct LineBaseline {
    /// `one line` or `two lines`.
    pub form: &'static str,
    /// Half round trips.
    pub half_rtt: Option<Summary>,
    /// Round trips that share a sample.
    pub batch: u32,
}

/// memcpy of one size.
#[derive(Debug, Clone, Serialize)]
pub struct CopyBaseline {
    /// Bytes copied.
    pub size_bytes: usize,
    /// Where the bytes were: in a cache or in memory.
    pub temperature: Temperature,
    /// Time of a copy.
    pub time: Option<Summary>,
    /// Copies that share a sample.
    pub batch: u32,
}

/// Fresh bytes are measured up to this size; beyond it the other core's writing takes the time.
const FRESH_BYTES_MAX: usize = 1 << 20;

/// Measures.
pub fn run(options: &Options, progress: &mut dyn Progress) -> Result<Report> {
    let cpus = cpus::pair(options.cpus, "bench limits")?;
    let timer = Timer::new()?;
    let started = Instant::now();
    let steal = env::steal_ms();
    let mut env = Env::gather(timer.record(), options.argv.clone(), 0);
    let lines = Lines::new();
    let (lines, copies, wake, rings, partial) = pinned_pair::on(cpus, |pair| {
        progress.tell("cache line", 0.0);
        let baselines = [("one line", lines.one()), ("two lines", lines.two())];
        let lines = baselines.map(|(form, words)| line(form, words, &timer, pair, options.readings));
        progress.tell("wake-up", 0.1);
        let wake = wake(&timer, pair, options.readings)?;
        progress.tell("rings", 0.15);
        let rings = ring_rates::measure(&timer, pair, options.readings)?;
        let mut copies = Vec::new();
        for (done, bytes) in options.sizes_bytes.iter().enumerate() {
            if progress.stop() {
                break;
            }
            progress.tell(
                &format!("copy of {}", size(*bytes as u64)),
                0.2 + 0.8 * done as f64 / options.sizes_bytes.len() as f64,
            );
            copies.extend(copy(*bytes, &timer, pair, options.readings)?);
        }
        Ok((lines.into_iter().collect::<Result<Vec<_>>>()?, copies, wake, rings, progress.stop()))
    })?;
    env.finish(started, steal);
    Ok(Report { schema: SCHEMA, env, cpus, partial, lines, copies, wake, rings })
}

fn line<'env>(
    form: &'static str,
    words: Words<'env>,
    timer: &Timer,
    pair: &mut PinnedPair<'env>,
    readings: u32,
) -> Result<LineBaseline> {
    let mut far = FarThread { pair, words };
    let mut probe = LineProbe::new(timer, &mut far, words)?;
    let mut all = Samples::new(false)?;
    for _ in 0..readings {
        probe.half_round_trip_ns(timer, &mut far, Some(&mut all))?;
    }
    Ok(LineBaseline { form, half_rtt: all.summary(), batch: probe.batch() })
}

fn wake(timer: &Timer, pair: &mut PinnedPair<'_>, readings: u32) -> Result<Option<Summary>> {
    let mut probe = WakeProbe::new();
    let mut all = Samples::new(false)?;
    for _ in 0..readings.saturating_mul(2) {
        probe.one_way_ns(timer, pair, Some(&mut all))?;
    }
    Ok(all.summary())
}

fn copy(
    size_bytes: usize,
    timer: &Timer,
    pair: &mut PinnedPair<'_>,
    readings: u32,
) -> Result<Vec<CopyBaseline>> {
    let mut baselines = Vec::new();
    for temperature in [Temperature::Hot, Temperature::Cold] {
        let mut probe = CopyProbe::new(timer, size_bytes, temperature)?;
        let mut all = Samples::new(false)?;
        for _ in 0..readings {
            probe.copy_ns(timer, Some(&mut all))?;
        }
        baselines.push(CopyBaseline { size_bytes, temperature, time: all.summary(), batch: probe.batch() });
    }
    if size_bytes <= FRESH_BYTES_MAX {
        // About as many bytes in each reading, within reason.
        let samples = ((4usize << 20) / size_bytes.max(1)).clamp(15, 1000) as u32;
        let mut probe = FreshProbe::new(size_bytes, samples);
        let mut all = Samples::new(false)?;
        for _ in 0..readings {
            probe.copy_ns(timer, pair, Some(&mut all))?;
        }
        baselines.push(CopyBaseline {
            size_bytes,
            temperature: Temperature::Fresh,
            time: all.summary(),
            batch: 1,
        });
    }
    Ok(baselines)
}

impl Report {
    /// The limits as text.
    pub fn to_text(&self) -> String {
        let clock = &self.env.clock;
        let mut text = format!(
            "processors {} and {}: {}\nclock {}: step {} ns, {} ns a reading, {}\n\n",
            self.cpus[0],
            self.cpus[1],
            self.env.cpu_model,
            clock.source,
            three_digits(clock.step_ns),
            three_digits(clock.cost_ns),
            if clock.invariant { "invariant" } else { "not declared invariant" },
        );
        text.push_str(&self.latencies());
        text.push('\n');
        text.push_str(&self.bandwidths());
        text.push('\n');
        text.push_str(&self.ring_rates());
        text
    }

    fn latencies(&self) -> String {
        let right = |name| (name, Align::Right);
        let mut table = Table::new([
            ("ns", Align::Left),
            right("min"),
            right("p50"),
            right("p90"),
            right("p99"),
            right("p99.9"),
            right("max"),
            right("n"),
        ]);
        let step = self.env.clock.step_ns;
        let mut row = |name: String, summary: &Option<Summary>, step_ns: f64| {
            let Some(s) = summary else { return };
            let show =
                |v: Option<f64>| v.map_or_else(|| "-".to_owned(), |v| digits::show(v, step_ns, 1.0, 1));
            let known = [Some(s.min_ns), s.p50_ns, s.p90_ns, s.p99_ns, s.p999_ns, Some(s.max_ns)].map(show);
            table.row([name].into_iter().chain(known).chain([s.n.to_string()]));
        };
        for baseline in &self.lines {
            row(
                format!("{}, half round trip", baseline.form),
                &baseline.half_rtt,
                step / f64::from(baseline.batch) / 2.0,
            );
        }
        row("futex wake-up, one way".to_owned(), &self.wake, step);
        table.render()
    }

    fn bandwidths(&self) -> String {
        let right = |name| (name, Align::Right);
        let mut table = Table::new([
            ("memcpy", Align::Right),
            ("", Align::Left),
            right("ns"),
            right("GB/s"),
            right("p99 ns"),
        ]);
        for copy in &self.copies {
            let Some(time) = &copy.time else { continue };
            let Some(p50) = time.p50_ns.or(Some(time.mean_ns)) else { continue };
            let step_ns = self.env.clock.step_ns / f64::from(copy.batch);
            let kind = match copy.temperature {
                Temperature::Hot => "hot",
                Temperature::Cold => "cold",
                Temperature::Fresh => "fresh from the other core",
            };
            table.row([
                size(copy.size_bytes as u64),
                kind.to_owned(),
                digits::show(p50, step_ns, 1.0, 1),
                three_digits(copy.size_bytes as f64 / p50),
                time.p99_ns.map_or_else(|| "-".to_owned(), |v| digits::show(v, step_ns, 1.0, 1)),
            ]);
        }
        table.render()
    }
}

impl Report {
    fn ring_rates(&self) -> String {
        let right = |name| (name, Align::Right);
        let mut table = Table::new([("ring", Align::Left), right("M/s"), right("GB/s"), ("", Align::Left)]);
        for ring in &self.rings {
            let (rate, bandwidth) = (three_digits(ring.millions_per_s), three_digits(ring.gb_per_s));
            table.row([ring.id.to_owned(), rate, bandwidth, ring.what.to_owned()]);
        }
        table.render()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_run() {
        let options = Options { sizes_bytes: vec![64, 4096], readings: 1, ..Options::default() };
        let mut steps = Vec::new();
        let report = match run(&options, &mut |what: &str, done: f64| steps.push((what.to_owned(), done))) {
            Err(crate::error::BenchError::TooFewCpus { .. }) => {
                println!("skipped: needs two processors");
                return;
            }
            report => report.unwrap(),
        };
        assert_eq!((report.lines.len(), report.copies.len()), (2, 6));
        let text = report.to_text();
        for word in
            ["one line", "two lines", "futex", "64 B", "4 KiB", "fresh", "GB/s", "step", "ring.byte.4KiB"]
        {
            assert!(text.contains(word), "{word}: {text}");
        }
        let json = serde_json::to_value(&report).unwrap();
        assert_eq!(json["schema"], SCHEMA);
        assert!(json["copies"][0]["time"]["min_ns"].as_f64().unwrap() > 0.0);
        assert!(
            steps.iter().any(|(what, _)| what.contains("4 KiB"))
                && steps.iter().all(|(_, done)| (0.0..=1.0).contains(done))
        );
    }
}
