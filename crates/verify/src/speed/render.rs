//! The speed of links between hosts in words.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use bench::layout::table::{Align, Table, size, three_digits};
use bench::stats::median;
use tieline::NodeId;

use super::judge;
use super::{Baseline, Reading, SpeedPair, SpeedReport};
use crate::run::counted;

/// A matrix of more nodes does not fit a terminal; it is in the page and in the document.
const MOST_SHOWN: usize = 16;

impl SpeedReport {
    /// Matrices: rows measure and put, columns answer and own the memory. None if there are too many nodes,
    /// or no readings.
    pub fn tables(&self) -> Vec<String> {
        let of = |figure: fn(&dyn Speed) -> f64, decimals: usize| {
            let readings = self.pairs.iter().filter_map(|pair| Some((pair.pair, pair.reading?)));
            let cell = |reading: Reading| {
                let baseline = reading.provider.map(|baseline| format!("/{:.decimals$}", figure(&baseline)));
                format!("{:.decimals$}{}", figure(&reading), baseline.unwrap_or_default())
            };
            readings.map(|(pair, reading)| (pair, cell(reading))).collect::<BTreeMap<_, _>>()
        };
        let nodes: BTreeSet<NodeId> = self.pairs.iter().flat_map(|pair| pair.pair).collect();
        if nodes.len() > MOST_SHOWN || self.pairs.iter().all(|pair| pair.reading.is_none()) {
            return Vec::new();
        }
        let size = self.block_bytes >> 10;
        let beside = if self.providers.is_empty() { "" } else { " / libfabric alone" };
        let half_us = |speed: &dyn Speed| speed.half_rtt_ns() / 1e3;
        let rate = |speed: &dyn Speed| speed.bandwidth_bytes_per_s() / 1e9;
        vec![
            matrix(&format!("half round trip between hosts{beside}, in µs"), &nodes, &of(half_us, 1)),
            matrix(&format!("puts of {size} KiB between hosts{beside}, in GB/s"), &nodes, &of(rate, 2)),
        ]
    }

    /// Pair by pair, with a table of its sizes, and then in one line.
    pub fn by_pair(&self) -> String {
        let mut text = String::new();
        for pair in &self.pairs {
            text.push_str(&pair.line(self.block_bytes));
            text.push('\n');
            if !pair.puts.is_empty() {
                text.push_str(&pair.sizes());
            }
        }
        text + "hosts: " + &self.summary() + "\n"
    }

    /// In one line.
    pub fn summary(&self) -> String {
        let readings = || self.pairs.iter().filter_map(|pair| pair.reading);
        let of = |figure: fn(Reading) -> f64| median(&readings().map(figure).collect::<Vec<_>>());
        let mut text = match self.left_out {
            0 => counted(self.pairs.len(), "pair"),
            _ => format!("{} of {} pairs", self.pairs.len(), self.pairs_in_all),
        };
        if let Some(half_ns) = of(|reading| reading.half_rtt_ns) {
            text.push_str(&format!(", {:.1} µs half round trip", half_ns / 1e3));
        }
        if let Some(rate) = of(|reading| reading.bandwidth_bytes_per_s) {
            text.push_str(&format!(", {:.2} GB/s", rate / 1e9));
        }
        let baselines = || self.pairs.iter().filter_map(|pair| pair.reading?.provider);
        let median_of = |figure: fn(Baseline) -> f64| median(&baselines().map(figure).collect::<Vec<_>>());
        if let (Some(half_ns), Some(rate)) =
            (median_of(|baseline| baseline.half_rtt_ns), median_of(|baseline| baseline.bandwidth_bytes_per_s))
        {
            let (half_us, gb_s) = (half_ns / 1e3, rate / 1e9);
            text.push_str(&format!(
                " (libfabric alone, {}: {half_us:.1} µs, {gb_s:.2} GB/s)",
                self.providers.join(", ")
            ));
        }
        let mut failed = self.pairs.iter().filter(|pair| pair.reading.is_none());
        if let Some(first) = failed.next() {
            let [from, to] = first.pair;
            let why = first.error.as_deref().unwrap_or_default();
            text.push_str(&format!(
                ", {} not measured (from node {from} to node {to}: {why})",
                failed.count() + 1
            ));
        }
        if let Some((node, why)) = self.absent.first() {
            let number = counted(self.absent.len(), "node");
            text.push_str(&format!(", {number} took no part (node {node}: {why})"));
        }
        text + &self.judgement()
    }
}

impl SpeedReport {
    /// What the comparison of the pairs has shown.
    fn judgement(&self) -> String {
        if let Some(suspected) = self.suspects.first() {
            let more = self.suspects.len() - 1;
            let more = if more == 0 { String::new() } else { format!(" (and {more} more)") };
            return format!("; slow: {suspected}{more}");
        }
        if self.unsure > 0 {
            let pairs = counted(self.unsure, "pair");
            return format!(
                "; {pairs} slow beside the others, with no time to measure often enough to be sure"
            );
        }
        if judge::is_possible(&self.pairs) {
            return "; no pair is slow beside the others".to_owned();
        }
        "; too few pairs to compare them with each other".to_owned()
    }
}

impl SpeedPair {
    fn line(&self, block_bytes: u64) -> String {
        let [from, to] = self.pair;
        let Some(reading) = self.reading else {
            let why = self.error.as_deref().unwrap_or_default();
            return format!("node {from} to node {to}: not measured: {why}");
        };
        let both = |speed: &dyn Speed| {
            let (half_us, mb_s) =
                (speed.half_rtt_ns() / 1e3, three_digits(speed.bandwidth_bytes_per_s() / 1e6));
            format!("{half_us:.1} µs half round trip, {mb_s} MB/s in blocks of {}", size(block_bytes))
        };
        let alone = reading.provider.map(|alone| format!(" (libfabric alone: {})", both(&alone)));
        format!("node {from} to node {to}: {}{}", both(&reading), alone.unwrap_or_default())
    }

    fn sizes(&self) -> String {
        let columns = ["size", "put + barrier, µs", "puts, MB/s"].map(|title| (title, Align::Right));
        let mut table = Table::new(columns);
        for put in &self.puts {
            table.row([
                size(put.size_bytes),
                three_digits(put.put_barrier_ns / 1e3),
                three_digits(put.bandwidth_bytes_per_s / 1e6),
            ]);
        }
        table.render()
    }
}

/// What both have.
trait Speed {
    fn half_rtt_ns(&self) -> f64;
    fn bandwidth_bytes_per_s(&self) -> f64;
}

impl Speed for Reading {
    fn half_rtt_ns(&self) -> f64 {
        self.half_rtt_ns
    }

    fn bandwidth_bytes_per_s(&self) -> f64 {
        self.bandwidth_bytes_per_s
    }
}

impl Speed for Baseline {
    fn half_rtt_ns(&self) -> f64 {
        self.half_rtt_ns
    }

    fn bandwidth_bytes_per_s(&self) -> f64 {
        self.bandwidth_bytes_per_s
    }
}

fn matrix(title: &str, nodes: &BTreeSet<NodeId>, cells: &BTreeMap<[NodeId; 2], String>) -> String {
    let mut text = format!("{title}\n{:>6}", "");
    for to in nodes {
        let _ = write!(text, " {:>11}", to.get());
    }
    text.push('\n');
    for from in nodes {
        let _ = write!(text, "{:>6}", from.get());
        for to in nodes {
            let missing = if from == to { "" } else { "-" };
            let cell = cells.get(&[*from, *to]).map_or(missing, String::as_str);
            let _ = write!(text, " {cell:>11}");
        }
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::speed::PutReading;
    use crate::verdict::Verdict;

    fn report(readings: &[(u32, u32, Option<f64>)]) -> SpeedReport {
        let node = |id| NodeId::new(id).unwrap();
        let reading = |ns: f64| Reading {
            half_rtt_ns: ns,
            least_half_rtt_ns: ns,
            round_trips: 20,
            bandwidth_bytes_per_s: 1.5e9,
            provider: Some(Baseline { half_rtt_ns: ns / 2.0, bandwidth_bytes_per_s: 2e9 }),
        };
        let pair = |&(from, to, ns): &(u32, u32, Option<f64>)| SpeedPair {
            pair: [node(from), node(to)],
            reading: ns.map(reading),
            puts: Vec::new(),
            error: ns.is_none().then(|| "interrupt 3 timed out".to_owned()),
        };
        let mut report = SpeedReport {
            pairs: readings.iter().map(pair).collect(),
            pairs_in_all: readings.len(),
            left_out: 0,
            providers: vec!["tcp;ofi_rxm".into()],
            block_bytes: 65_536,
            absent: Vec::new(),
            partial: false,
            suspects: Vec::new(),
            unsure: 0,
            verdict: Verdict::Fail,
        };
        report.judge(&[]);
        report
    }

    #[test]
    fn each_pair_has_a_line_and_a_table_of_its_sizes() {
        let mut report = report(&[(4, 8, Some(20_000.0)), (8, 4, None)]);
        let put =
            |size_bytes| PutReading { size_bytes, put_barrier_ns: 41_500.0, bandwidth_bytes_per_s: 0.25e9 };
        report.pairs[0].puts = vec![put(64), put(1 << 20)];
        let text = report.by_pair();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(
            lines[0],
            "node 4 to node 8: 20.0 µs half round trip, 1500 MB/s in blocks of 64 KiB (libfabric alone: 10.0 µs half round \
             trip, 2000 MB/s in blocks of 64 KiB)"
        );
        let is_row = |line: &&str, cells: &str| line.split_whitespace().eq(cells.split_whitespace());
        for cells in ["64 B 41.5 250", "1 MiB 41.5 250"] {
            assert!(lines.iter().any(|line| is_row(line, cells)), "{text}");
        }
        assert!(
            text.contains("\nnode 8 to node 4: not measured: interrupt 3 timed out\nhosts: 2 pairs"),
            "{text}"
        );
    }

    #[test]
    fn what_was_measured_is_shown_and_what_was_not_is_named() {
        let well = report(&[(4, 8, Some(20_000.0)), (8, 4, Some(30_000.0))]);
        assert_eq!(well.verdict, Verdict::Pass);
        assert_eq!(
            well.summary(),
            "2 pairs, 25.0 µs half round trip, 1.50 GB/s (libfabric alone, tcp;ofi_rxm: 12.5 µs, 2.00 GB/s); too few pairs to compare them with each other"
        );
        let tables = well.tables().concat();
        let rows: Vec<&str> = tables.lines().collect();
        assert!(rows[2].split_whitespace().eq(["4", "20.0/10.0"]), "{tables}");
        assert!(rows[3].split_whitespace().eq(["8", "30.0/15.0"]), "{tables}");
        let mut half = report(&[(4, 8, Some(20_000.0)), (8, 4, None)]);
        assert_eq!(half.verdict, Verdict::Inconclusive);
        let said = half.summary();
        assert!(said.contains("1 not measured (from node 8 to node 4: interrupt 3 timed out)"), "{said}");
        half.pairs_in_all = 6;
        half.left_out = 4;
        half.absent.push((NodeId::new(12).unwrap(), "no session".into()));
        let said = half.summary();
        assert!(
            said.starts_with("2 of 6 pairs") && said.contains("1 node took no part (node 12: no session)")
        );
        assert_eq!(report(&[]).verdict, Verdict::Inconclusive, "of nothing nothing is known");
        assert!(report(&[(4, 8, None)]).tables().is_empty());
    }
}
