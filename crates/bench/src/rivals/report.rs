//! The table of all transports.

use serde::{Deserialize, Serialize};

use super::{Carried, kernel, placement::Sharing, summary::compare};
use crate::{
    env::Env,
    layout::table::{Align, NOTHING, Table, size, three_digits},
    patterns::scipp::Mechanism,
    stats::{Interval, Summary, digits},
};

/// Result of a run.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Report {
    /// [`Report::SCHEMA`].
    pub schema: String,
    /// Circumstances.
    pub env: Env,
    /// Near and far node.
    pub nodes: [u32; 2],
    /// Processors of the near and the far end.
    pub cpus: [usize; 2],
    /// Processes of the two ends: 1 or 2.
    #[serde(default)]
    pub processes: u32,
    /// Processors that this process may use.
    pub allowed: Vec<usize>,
    /// Whether the ends share a processor.
    pub sharing: Sharing,
    /// Threads that competed for the processors.
    pub load_threads: usize,
    /// Link of ours.
    pub path: String,
    /// What carried our messages.
    #[serde(default)]
    pub mechanism: Mechanism,
    /// Bytes of a small message.
    pub small_bytes: usize,
    /// Bytes of a large message.
    pub large_bytes: usize,
    /// Readings of each transport.
    pub rounds: usize,
    /// It was ended early: the rows were measured before that.
    #[serde(default)]
    pub partial: bool,
    /// By transport, ours first.
    pub rows: Vec<Row>,
    /// Transports that cannot be measured between these ends.
    #[serde(default)]
    pub left_out: Vec<LeftOut>,
    /// Messages of many sizes by TCP, if requested.
    #[serde(default)]
    pub sizes: Vec<SizeRow>,
    /// The bytes of TCP that the kernel carried, by its own count; `None` if not known.
    #[serde(default)]
    pub tcp_carried: Option<Carried>,
}

/// A transport that is not measured.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeftOut {
    /// Its name.
    pub name: String,
    /// Why not.
    pub why: String,
}

impl LeftOut {
    pub(super) fn new(name: &str, why: &str) -> Self {
        Self { name: name.to_owned(), why: why.to_owned() }
    }
}

/// Messages of one size there and back.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct SizeRow {
    /// Bytes of a message.
    pub size_bytes: usize,
    /// Round trips.
    pub rounds: u64,
    /// Time of all of them.
    pub total_ns: f64,
    /// The shortest round trip.
    pub min_ns: f64,
}

/// One transport.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Row {
    /// The name.
    pub name: String,
    /// Half round trips of small messages, every sample.
    pub half_rtt: Option<Summary>,
    /// Median of the readings.
    pub half_rtt_ns: Option<f64>,
    /// Those readings, round by round.
    #[serde(default)]
    pub readings_ns: Vec<f64>,
    /// Its time by ours, median of the rounds: above 1 is slower than ours.
    pub latency_ratio: Option<f64>,
    /// The 95 % interval of that.
    pub latency_ratio_ci95: Option<Interval>,
    /// Large messages one way, 10⁹ bytes a second, median of the readings.
    pub bandwidth_gb_s: Option<f64>,
    /// Those readings, round by round.
    #[serde(default)]
    pub readings_gb_s: Vec<f64>,
    /// Its bandwidth by ours: below 1 is slower than ours.
    pub bandwidth_ratio: Option<f64>,
    /// The 95 % interval of that.
    pub bandwidth_ratio_ci95: Option<Interval>,
    /// Round trips behind the figure.
    pub round_trips: u64,
}

impl Row {
    /// memcpy between two buffers of one thread: no transport, but what a copy costs.
    pub(super) fn copy(median: Option<f64>, ours: Option<&[f64]>, copies: &[f64], seed: u64) -> Self {
        let paired = ours.and_then(|ours| compare(copies, ours, seed));
        Self {
            name: "memcpy, one thread".to_owned(),
            half_rtt: None,
            half_rtt_ns: None,
            readings_ns: Vec::new(),
            latency_ratio: None,
            latency_ratio_ci95: None,
            bandwidth_gb_s: median,
            readings_gb_s: copies.to_vec(),
            bandwidth_ratio: paired.map(|paired| paired.ratio),
            bandwidth_ratio_ci95: paired.and_then(|paired| paired.shown_ratio_ci95()),
            round_trips: 0,
        }
    }
}

impl Report {
    /// Name of the form.
    pub const SCHEMA: &'static str = "tieline.latency/1";

    /// The classic table of messages by size.
    pub fn to_classic(&self) -> String {
        let mut text = format!(
            "Testing PINGPONG transfers (back-and-forth)\n{}\n\
             #  Size    Total time (usec)    RTT (usec)      Latency (usec)\n",
            Carried::classic(
                self.tcp_carried,
                match self.mechanism {
                    Mechanism::Stores => "loopback",
                    Mechanism::Put => "between hosts",
                }
            )
        );
        let us = |ns: f64| digits::show(ns / 1000.0, self.env.clock.step_ns, 1000.0, 2);
        for row in &self.sizes {
            let rtt_ns = row.total_ns / row.rounds as f64;
            text.push_str(&format!(
                "{:>7} {:>14.0} {:>13} {:>15}    Min: {}\n",
                row.size_bytes,
                row.total_ns / 1000.0,
                us(rtt_ns),
                us(rtt_ns / 2.0),
                us(row.min_ns / 2.0),
            ));
        }
        if self.sizes.is_empty() {
            text.push_str(NOTHING);
        }
        text
    }

    /// The report as text.
    pub fn to_text(&self) -> String {
        let [near, far] = self.cpus;
        let place = match (self.mechanism, self.sharing) {
            (Mechanism::Put, _) => format!("processor {near} here and {far} there"),
            (_, Sharing::TwoCores) => format!("processors {near} and {far}"),
            (_, Sharing::SameCore) => format!("both ends on processor {near}"),
        };
        let ends = match (self.mechanism, self.processes) {
            (Mechanism::Put, _) => " by put (no stores between hosts; memcpy within this one)",
            (_, 2) => ", two processes (futex, pipe and memcpy within one)",
            _ => "",
        };
        let load = super::load::described(self.load_threads);
        let mut text = format!(
            "one way: half the round trip of {} B; bandwidth: {} messages one way; nodes {} and {} over {}{ends}, {place}{load}\n",
            self.small_bytes,
            size(self.large_bytes as u64),
            self.nodes[0],
            self.nodes[1],
            self.path,
        );
        let right = |name| (name, Align::Right);
        let mut table = Table::new([
            ("transport", Align::Left),
            right("one way us"),
            right("p99"),
            right("times ours"),
            ("95 % interval", Align::Left),
            right("GB/s"),
            right("of ours"),
            ("95 % interval", Align::Left),
        ]);
        let none = || "-".to_owned();
        let interval = |ci: Option<Interval>| {
            ci.map_or_else(none, |ci| format!("{} … {}", three_digits(ci.low), three_digits(ci.high)))
        };
        let step_ns = self.env.clock.step_ns / 2.0;
        let us = |ns: Option<f64>| ns.map_or_else(none, |ns| digits::show(ns / 1000.0, step_ns, 1000.0, 3));
        for row in &self.rows {
            table.row([
                row.name.clone(),
                us(row.half_rtt_ns),
                us(row.half_rtt.as_ref().and_then(|all| all.p99_ns)),
                row.latency_ratio.map_or_else(none, three_digits),
                interval(row.latency_ratio_ci95),
                row.bandwidth_gb_s.map_or_else(none, three_digits),
                row.bandwidth_ratio.map_or_else(none, three_digits),
                interval(row.bandwidth_ratio_ci95),
            ]);
        }
        text.push_str(&table.render());
        for LeftOut { name, why } in &self.left_out {
            text.push_str(&format!("left out: {name}: {why}\n"));
        }
        // Then the name of the row would be wrong.
        if let Some(carried) = self.tcp_carried.filter(|it| it.past_kernel > 0) {
            text.push_str(&format!("{}: {}\n", kernel::TCP, carried.bypassed()));
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::env::ClockRecord;

    #[test]
    fn forms() {
        let row = |name: &str, ns: f64, ratio: f64| Row {
            name: name.into(),
            half_rtt_ns: Some(ns),
            latency_ratio: Some(ratio),
            latency_ratio_ci95: Some(Interval { low: ratio * 0.75, high: ratio * 1.25 }),
            ..Row::copy(Some(9.5), Some(&[10.0; 31]), &[9.5; 31], 1)
        };
        let report = Report {
            schema: Report::SCHEMA.into(),
            env: Env { clock: ClockRecord { step_ns: 2.0, ..ClockRecord::default() }, ..Env::default() },
            nodes: [4, 8],
            cpus: [1, 1],
            processes: 1,
            allowed: vec![0, 1],
            sharing: Sharing::SameCore,
            load_threads: 2,
            path: "shm".into(),
            mechanism: Mechanism::Stores,
            left_out: Vec::new(),
            small_bytes: 4,
            large_bytes: 1 << 20,
            rounds: 31,
            partial: false,
            rows: vec![
                row("ours", 62.0, 1.0),
                row("pipe", 6200.0, 100.0),
                Row::copy(Some(9.5), None, &[], 1),
            ],
            sizes: vec![SizeRow { size_bytes: 64, rounds: 1000, total_ns: 52e6, min_ns: 4160.0 }],
            tcp_carried: Carried::of(1000, Some(1000)),
        };
        let classic = report.to_classic();
        assert!(
            classic.ends_with("     64          52000         52.00           26.00    Min: 2.08\n"),
            "{classic}"
        );
        assert!(classic.contains("\nSocket transfers are made over kernel TCP, loopback.\n"), "{classic}");
        let by_rings = Report { tcp_carried: Carried::of(1000, Some(10)), ..report.clone() };
        let classic = by_rings.to_classic();
        assert!(classic.contains("990 of 1000 bytes (99.0 %) bypassed the kernel."), "{classic}");
        let text = by_rings.to_text();
        assert!(
            text.ends_with("\nTCP, loopback: 990 of 1000 bytes (99.0 %) bypassed the kernel\n"),
            "{text}"
        );
        let between_hosts = Report {
            mechanism: Mechanism::Put,
            left_out: vec![LeftOut::new("futex", "it reaches no other host")],
            cpus: [1, 0],
            ..report.clone()
        };
        let text = between_hosts.to_text();
        assert!(
            text.contains("by put (no stores between hosts") && text.contains("1 here and 0 there"),
            "{text}"
        );
        assert!(text.contains("\nleft out: futex: it reaches no other host\n"), "{text}");
        assert!(between_hosts.to_classic().contains("over kernel TCP, between hosts."));
        let text = report.to_text();
        assert!(text.contains("both ends on processor 1, 2 threads of competing load"), "{text}");
        assert!(text.contains("0.062") && text.contains("6.200") && text.contains("75.0 … 125"), "{text}");
        assert!(text.lines().last().unwrap().contains("memcpy, one thread           -"), "{text}");
        let json = serde_json::to_string(&report).unwrap();
        assert!(json.contains("\"sharing\":\"same_core\""));
        let back: Report = serde_json::from_str(&json).unwrap();
        assert_eq!((back.rows.len(), back.rows[1].name.as_str(), back.cpus), (3, "pipe", [1, 1]));
    }
}
