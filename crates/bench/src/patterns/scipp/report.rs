//! The report of `scipp`, and its text.

use serde::Serialize;

use super::Mechanism;
use crate::{
    env::Env,
    layout::{
        csv, scipp,
        table::{Align, Table, size},
    },
    patterns::pio::Placement,
    poll::Poll,
    stats::{Block, Summary, digits},
};

/// Result of a run.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// [`Report::SCHEMA`].
    pub schema: &'static str,
    /// Circumstances.
    pub env: Env,
    /// Near and far node.
    pub nodes: [u32; 2],
    /// Processor of the near end and, if it is a thread of this process, of the far end.
    pub cpus: Vec<usize>,
    /// Link taken.
    pub path: String,
    /// What carried the messages.
    pub mechanism: Mechanism,
    /// What they are compared with.
    pub baseline: String,
    /// The place of messages.
    pub placement: Placement,
    /// Threads that competed for the processors.
    pub load_threads: usize,
    /// It was ended early: the rows were measured before that.
    pub partial: bool,
    /// By size.
    pub rows: Vec<Row>,
}

/// One message size.
#[derive(Debug, Clone, Serialize)]
pub struct Row {
    /// Bytes of a message.
    pub size_bytes: usize,
    /// Half round trips, in ns.
    pub half_rtt: Option<Summary>,
    /// Round trips that share a sample.
    pub batch: u32,
    /// The way in which both sides waited: the one that was faster in a trial.
    pub poll: Poll,
    /// Round trips in all.
    pub rounds: u64,
    /// Polls of the near side that found nothing, in all of them.
    pub retries: u64,
    /// The number of messages whose bytes were checked, both directions together.
    pub checked: u64,
    /// Half the round trip of the line(s) that the messages used, or between hosts of libfabric's own
    /// messages, in ns: median of the probes around the readings. Not a number if there is none.
    #[serde(rename = "line_floor_ns")]
    pub line_baseline_ns: f64,
    /// Readings during which the baseline moved by more than 20 %.
    pub disturbed: u32,
    /// Readings.
    pub readings: u32,
    /// `[half round trip, baseline]` of each reading during which the baseline did not change, in
    /// ns.
    pub pairs: Vec<Block>,
}

impl Row {
    fn p50_ns(&self) -> Option<f64> {
        self.half_rtt.as_ref().map(|s| s.p50_ns.unwrap_or(s.mean_ns))
    }

    /// None where there is no baseline.
    fn baseline_ns(&self) -> Option<f64> {
        Some(self.line_baseline_ns).filter(|ns| ns.is_finite())
    }

    fn half_step_ns(&self, clock_step_ns: f64) -> f64 {
        clock_step_ns / f64::from(self.batch) / 2.0
    }
}

impl Report {
    /// Name of the form.
    pub const SCHEMA: &'static str = "tieline.scipp/1";

    /// The classic table (medians).
    pub fn to_classic(&self) -> String {
        let rows: Vec<scipp::Row> = self
            .rows
            .iter()
            .filter_map(|row| {
                Some(scipp::Row {
                    size_bytes: row.size_bytes as u64,
                    retries: row.retries,
                    rtt_us: 2.0 * row.p50_ns()? / 1000.0,
                    step_ns: 2.0 * row.half_step_ns(self.env.clock.step_ns),
                })
            })
            .collect();
        scipp::render(&rows)
    }

    /// The full table, in ns of half a round trip.
    pub fn to_text(&self) -> String {
        let cpus: Vec<String> = self.cpus.iter().map(ToString::to_string).collect();
        let mut text = format!(
            "scipp, nodes {} and {} over {}{}, {} {}{}; half round trips in ns; baseline: {}\n",
            self.nodes[0],
            self.nodes[1],
            self.path,
            match self.mechanism {
                Mechanism::Stores => "",
                Mechanism::Put => " by put (no stores between hosts)",
            },
            if self.mechanism == Mechanism::Put { "processor" } else { "processors" },
            cpus.join(" and "),
            crate::rivals::load::described(self.load_threads),
            self.baseline,
        );
        let right = |name| (name, Align::Right);
        let columns =
            ["size", "min", "p50", "p90", "p99", "p99.9", "max", "baseline", "ratio", "retries", "disturbed"];
        let mut table = Table::new(columns.map(right));
        for row in &self.rows {
            let (Some(s), Some(p50)) = (&row.half_rtt, row.p50_ns()) else { continue };
            let step_ns = row.half_step_ns(self.env.clock.step_ns);
            let show =
                |v: Option<f64>| v.map_or_else(|| "-".to_owned(), |v| digits::show(v, step_ns, 1.0, 1));
            let values =
                [Some(s.min_ns), s.p50_ns, s.p90_ns, s.p99_ns, s.p999_ns, Some(s.max_ns), row.baseline_ns()];
            let disturbed = format!("{}/{}", row.disturbed, row.readings);
            let ratio = row.baseline_ns().map_or_else(|| "-".to_owned(), |ns| format!("{:.2}", p50 / ns));
            let rest = [ratio, row.retries.to_string(), disturbed];
            table.row([size(row.size_bytes as u64)].into_iter().chain(values.map(show)).chain(rest));
        }
        text.push_str(&table.render());
        text
    }

    /// All rows as comma-separated values, unrounded.
    pub fn to_csv(&self) -> String {
        let rows: Vec<Vec<String>> = self
            .rows
            .iter()
            .filter_map(|row| {
                let s = row.half_rtt.as_ref()?;
                let known = |v: Option<f64>| v.map(|v| v.to_string()).unwrap_or_default();
                let values = [
                    Some(s.min_ns),
                    s.p50_ns,
                    s.p90_ns,
                    s.p99_ns,
                    s.p999_ns,
                    Some(s.max_ns),
                    row.baseline_ns(),
                ];
                let mut cells = vec![row.size_bytes.to_string(), s.n.to_string()];
                cells.extend(values.map(known));
                cells.extend([row.retries.to_string(), row.rounds.to_string(), row.batch.to_string()]);
                Some(cells)
            })
            .collect();
        let header = [
            "size_bytes",
            "n",
            "min_ns",
            "p50_ns",
            "p90_ns",
            "p99_ns",
            "p999_ns",
            "max_ns",
            "line_floor_ns",
            "retries",
            "rounds",
            "batch",
        ];
        csv::render(&header, rows.iter().map(|row| row.iter().map(String::as_str)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{env::ClockRecord, stats::Samples};

    fn report(step_ns: f64) -> Report {
        let mut samples = Samples::new(false).unwrap();
        (0..2000).for_each(|i| samples.record_ns(60.0 + f64::from(i % 11) / 10.0));
        let row = Row {
            size_bytes: 4,
            half_rtt: samples.summary(),
            batch: 4,
            poll: Poll::Paused,
            rounds: 8000,
            retries: 495,
            checked: 400,
            line_baseline_ns: 55.0,
            disturbed: 1,
            readings: 15,
            pairs: Vec::new(),
        };
        let env = Env { clock: ClockRecord { step_ns, ..ClockRecord::default() }, ..Env::default() };
        let rows = vec![row.clone(), Row { size_bytes: 8192, ..row }];
        Report {
            schema: Report::SCHEMA,
            env,
            nodes: [4, 8],
            cpus: vec![0, 1],
            path: "shm".into(),
            mechanism: Mechanism::Stores,
            baseline: "one line".into(),
            load_threads: 0,
            partial: false,
            placement: Placement::Shared,
            rows,
        }
    }

    #[test]
    fn classic() {
        let text = report(0.5).to_classic();
        assert!(
            text.contains("\n     4           495           0.121             0.060\n")
                || text.contains("0.061\n"),
            "{text}"
        );
        assert!(text.lines().nth(3).unwrap().starts_with("  8192"), "{text}");
        // A step of 80 ns in a batch of 4: 20 ns, so two decimals of a microsecond are one too
        // many.
        assert!(
            report(80.0).to_classic().contains("     4           495             0.1              0.06\n")
        );
    }

    #[test]
    fn full() {
        let text = report(0.1).to_text();
        assert!(
            text.contains("nodes 4 and 8 over shm, processors 0 and 1") && text.contains("one line"),
            "{text}"
        );
        let row = text.lines().nth(2).unwrap();
        assert!(
            row.contains(" 55.0 ") && row.contains("1.10") && row.ends_with("1/15") && row.contains(" - "),
            "{text}"
        );
    }

    #[test]
    fn comma_separated() {
        let text = report(0.1).to_csv();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 3);
        assert!(lines.iter().all(|line| line.split(',').count() == 12), "{text}");
        assert!(lines[1].starts_with("4,2000,60,"), "{text}");
    }

    #[test]
    fn json() {
        let json = serde_json::to_value(report(0.1)).unwrap();
        assert_eq!(
            (json["schema"].as_str(), json["placement"].as_str()),
            (Some(Report::SCHEMA), Some("shared"))
        );
        assert!(json["rows"][0]["half_rtt"]["p50_ns"].as_f64().unwrap() > 60.0);
    }
}
