//! The report of `dma`, and its text.

use ofi::OfiMemory;
use serde::{Deserialize, Serialize};

use crate::{
    env::Env,
    layout::{
        dma,
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
    /// The node that copies, and the owner of the memory.
    pub nodes: [u32; 2],
    /// Processor of the end that copies.
    pub cpu: usize,
    /// Link taken.
    pub path: String,
    /// Threads that competed for the processors.
    #[serde(default)]
    pub load_threads: usize,
    /// It was ended early: the rows were measured before that.
    #[serde(default)]
    pub partial: bool,
    /// By size.
    pub rows: Vec<Row>,
}

/// One vector.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Row {
    /// Bytes of an entry.
    pub size_bytes: usize,
    /// Bytes of the vector.
    pub total_bytes: usize,
    /// Entries.
    pub entries: usize,
    /// Time of the vector, median.
    pub transfer_ns: f64,
    /// Time of an entry.
    pub entry_ns: f64,
    /// The bandwidth in 10⁹ bytes a second.
    pub bandwidth_gb_s: f64,
    /// The reference of an entry.
    pub reference: String,
    /// Its time an entry, median.
    pub reference_ns: f64,
    /// Median of the blocks' ratios of times: above 1 is slower than the reference.
    pub ratio: f64,
    /// Its 95 % interval; none of a single block.
    pub ratio_ci95: Option<Interval>,
    /// Vectors that share a sample.
    pub batch: u32,
    /// Vectors behind the figure.
    pub vectors: u64,
    /// Undisturbed blocks.
    pub blocks: usize,
    /// Blocks in which the machine moved.
    pub disturbed: usize,
    /// `[ours, reference]` of each undisturbed block, in ns an entry.
    #[serde(default)]
    pub pairs: Vec<Block>,
}

impl Report {
    /// Name of the form.
    pub const SCHEMA: &'static str = "tieline.dma/1";

    /// The classic table.
    pub fn to_classic(&self) -> String {
        let rows: Vec<dma::Row> = self
            .rows
            .iter()
            .map(|row| dma::Row {
                size_bytes: row.size_bytes as u64,
                entries: row.entries as u64,
                transfer_us: row.transfer_ns / 1000.0,
                step_ns: self.env.clock.step_ns / f64::from(row.batch),
            })
            .collect();
        dma::render(&rows)
    }

    /// The full table.
    pub fn to_text(&self) -> String {
        let mut text = format!(
            "dma, node {} copies into memory of node {} over {}{}, processor {}{}; medians; a ratio above 1 is slower than the \
             reference\n",
            self.nodes[0],
            self.nodes[1],
            self.path,
            if self.path == OfiMemory::NAME { " by put (no stores between hosts)" } else { "" },
            self.cpu,
            described(self.load_threads)
        );
        let right = |name| (name, Align::Right);
        let mut table = Table::new([
            right("size"),
            right("vector"),
            right("transfer us"),
            right("ns an entry"),
            right("GB/s"),
            right("ratio"),
            ("95 % interval", Align::Left),
            right("disturbed"),
            ("against", Align::Left),
        ]);
        for row in &self.rows {
            let step_ns = self.env.clock.step_ns / f64::from(row.batch);
            table.row([
                size(row.size_bytes as u64),
                row.entries.to_string(),
                digits::show(row.transfer_ns / 1000.0, step_ns, 1000.0, 2),
                digits::show(row.entry_ns, step_ns / row.entries as f64, 1.0, 1),
                three_digits(row.bandwidth_gb_s),
                format!("{:.3}", row.ratio),
                interval(row.ratio_ci95),
                format!("{}/{}", row.disturbed, row.blocks + row.disturbed),
                row.reference.clone(),
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

    #[test]
    fn forms() {
        let row = Row {
            size_bytes: 64,
            total_bytes: 16384,
            entries: 256,
            transfer_ns: 5120.0,
            entry_ns: 20.0,
            bandwidth_gb_s: 3.2,
            reference: "memcpy of 64 bytes + 10 ns".into(),
            reference_ns: 25.0,
            ratio: 0.8,
            ratio_ci95: Some(Interval { low: 0.79, high: 0.81 }),
            batch: 1,
            vectors: 4000,
            blocks: 11,
            disturbed: 0,
            pairs: Vec::new(),
        };
        let env = Env { clock: ClockRecord { step_ns: 1.0, ..ClockRecord::default() }, ..Env::default() };
        let report = Report {
            schema: Report::SCHEMA.into(),
            env,
            nodes: [4, 8],
            cpu: 0,
            path: "shm".into(),
            load_threads: 0,
            partial: false,
            rows: vec![row],
        };
        let text = report.to_text();
        assert!(
            text.contains("64 B     256         5.12         20.0  3.20  0.800  0.790 … 0.810"),
            "{text}"
        );
        let classic = report.to_classic();
        let want = "     64      16384      256         5.12 us       0.02 us      3200.00 MBytes/s";
        assert_eq!(classic.lines().last(), Some(want));
        let json = serde_json::to_string(&report).unwrap();
        let back: Report = serde_json::from_str(&json).unwrap();
        assert_eq!(
            (back.rows[0].entries, back.rows[0].reference.as_str()),
            (256, "memcpy of 64 bytes + 10 ns")
        );
    }
}
