//! The report of `scibench2`, and its text.

use ofi::OfiMemory;
use serde::{Deserialize, Serialize};

use super::Way;
use crate::{
    env::Env,
    layout::{
        scibench2,
        table::{Align, Table, interval, size, three_digits},
    },
    rivals::load::described,
    stats::{Block, Interval, digits},
};

/// Result of a run.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Report {
    /// [`Report::SCHEMA`].
    pub schema: String,
    /// Circumstances.
    pub env: Env,
    /// The node that stores, and the owner of the memory.
    pub nodes: [u32; 2],
    /// Processor of the end that stores.
    pub cpu: usize,
    /// Link taken.
    pub path: String,
    /// The way in which the bytes are stored.
    pub way: Way,
    /// Threads that competed for the processors.
    #[serde(default)]
    pub load_threads: usize,
    /// It was ended early: the rows were measured before that.
    #[serde(default)]
    pub partial: bool,
    /// By size.
    pub rows: Vec<Row>,
}

/// One size.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Row {
    /// Bytes of a block.
    pub size_bytes: usize,
    /// Median, in 10⁹ bytes a second.
    pub bandwidth_gb_s: f64,
    /// Time of a block at that bandwidth.
    pub time_ns: f64,
    /// The fastest copy of this size.
    pub rival: String,
    /// Its bandwidth, median.
    pub rival_gb_s: f64,
    /// Median of the blocks' ratios of bandwidths.
    pub ratio: f64,
    /// Its 95 % interval; none of a single block.
    pub ratio_ci95: Option<Interval>,
    /// Stores that share a sample.
    pub batch: u32,
    /// Stores behind the figure.
    pub stores: u64,
    /// Undisturbed blocks.
    pub blocks: usize,
    /// Blocks in which the machine moved.
    pub disturbed: usize,
    /// `[ours, best copy]` of each undisturbed block, in GB/s.
    #[serde(default)]
    pub pairs: Vec<Block>,
}

impl Report {
    /// Name of the form.
    pub const SCHEMA: &'static str = "tieline.scibench2/1";

    /// The classic table: only sizes, times and bandwidths.
    pub fn to_classic(&self) -> String {
        let rows: Vec<scibench2::Row> = self
            .rows
            .iter()
            .map(|row| scibench2::Row {
                size_bytes: row.size_bytes as u64,
                time_us: row.time_ns / 1000.0,
                step_ns: self.env.clock.step_ns / f64::from(row.batch),
            })
            .collect();
        scibench2::render(&rows)
    }

    /// The full table.
    pub fn to_text(&self) -> String {
        let way = match self.way {
            Way::Map => "through a map",
            Way::Put => "by put",
        };
        let is_between_hosts = self.path == OfiMemory::NAME;
        let mut text = format!(
            "scibench2, node {} {} memory of node {} over {} {way}{}, processor {}{}; medians\n",
            self.nodes[0],
            if is_between_hosts { "puts into" } else { "stores into" },
            self.nodes[1],
            self.path,
            if is_between_hosts { " with a barrier (no stores between hosts)" } else { "" },
            self.cpu,
            described(self.load_threads)
        );
        let right = |name| (name, Align::Right);
        let mut table = Table::new([
            right("size"),
            right("ns"),
            right("GB/s"),
            right(if is_between_hosts { "libfabric" } else { "best copy" }),
            right("ratio"),
            ("95 % interval", Align::Left),
            right("disturbed"),
            (if is_between_hosts { "compared with" } else { "best copy is" }, Align::Left),
        ]);
        for row in &self.rows {
            table.row([
                size(row.size_bytes as u64),
                digits::show(row.time_ns, self.env.clock.step_ns / f64::from(row.batch), 1.0, 1),
                three_digits(row.bandwidth_gb_s),
                three_digits(row.rival_gb_s),
                format!("{:.3}", row.ratio),
                interval(row.ratio_ci95),
                format!("{}/{}", row.disturbed, row.blocks + row.disturbed),
                row.rival.clone(),
            ]);
        }
        text.push_str(&table.render());
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::env::ClockRecord;

    fn report() -> Report {
        let row = |size_bytes: usize| Row {
            size_bytes,
            bandwidth_gb_s: 32.0,
            time_ns: size_bytes as f64 / 32.0,
            rival: "memcpy".into(),
            rival_gb_s: 33.0,
            ratio: 0.97,
            ratio_ci95: Some(Interval { low: 0.96, high: 0.98 }),
            batch: 100,
            stores: 12345,
            blocks: 30,
            disturbed: 1,
            pairs: Vec::new(),
        };
        let env = Env { clock: ClockRecord { step_ns: 1.0, ..ClockRecord::default() }, ..Env::default() };
        let rows = vec![row(64), row(1 << 20)];
        Report {
            schema: Report::SCHEMA.into(),
            env,
            nodes: [4, 8],
            cpu: 0,
            path: "shm".into(),
            way: Way::Map,
            load_threads: 0,
            partial: false,
            rows,
        }
    }

    #[test]
    fn forms() {
        let text = report().to_text();
        assert!(text.contains("node 4 stores into memory of node 8 over shm through a map"), "{text}");
        assert!(
            text.contains("64 B      2.0") && text.contains("1/31") && text.contains("0.960 … 0.980"),
            "{text}"
        );
        let classic = report().to_classic();
        assert!(classic.lines().last().unwrap().contains("32000.00 MBytes/s"), "{classic}");
        let json = serde_json::to_string(&report()).unwrap();
        let back: Report = serde_json::from_str(&json).unwrap();
        assert_eq!((back.rows.len(), back.rows[1].size_bytes, back.way), (2, 1 << 20, Way::Map));
        assert!(json.contains("\"way\":\"map\""));
    }
}
