//! The report of `intr`, and its text.

use serde::{Deserialize, Serialize};

use super::Mode;
use crate::{
    env::Env,
    layout::{
        intr,
        table::{Align, Table},
    },
    rivals::load::described,
    stats::{Samples, Summary, digits, order},
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
    /// Processors of the near and the far end (the server's is its own choice).
    pub cpus: [usize; 2],
    /// Processes of the two ends: 1 or 2.
    pub processes: u32,
    /// Link taken.
    pub path: String,
    /// Threads that competed for the processors.
    #[serde(default)]
    pub load_threads: usize,
    /// It was ended early: the rows were measured before that.
    #[serde(default)]
    pub partial: bool,
    /// Ours, each followed by its references.
    pub figures: Vec<Figure>,
}

/// One way of ringing.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Figure {
    /// The name.
    pub name: String,
    /// How both sides wait.
    pub mode: Mode,
    /// Timed one way by the counter that both processors share; otherwise half round trips.
    pub one_way: bool,
    /// Every sample, in ns.
    pub time: Option<Summary>,
    /// Median of the readings' medians, in ns.
    pub p50_ns: f64,
    /// Those medians, in order of time; readings of one mode were taken in turn.
    #[serde(default)]
    pub readings_ns: Vec<f64>,
    /// Round trips that share a sample.
    pub batch: u32,
    /// Round trips behind it.
    pub rounds: u64,
}

impl Figure {
    /// Name of ours with both sides awake.
    pub const SPINNING: &'static str = "interrupt, both awake";
    /// Name of ours with both sides asleep.
    pub const SLEEPING: &'static str = "interrupt, both asleep";
    /// Name of ours one way to a sleeper.
    pub const ONE_WAY: &'static str = "interrupt to a sleeper, one way";

    /// A row of half round trips.
    pub(super) fn half(
        name: &str,
        mode: Mode,
        all: &Samples,
        readings: &[f64],
        batch: u32,
        rounds: u64,
    ) -> Self {
        Self {
            name: name.to_owned(),
            mode,
            one_way: false,
            time: all.summary(),
            p50_ns: order::median(readings).unwrap_or(f64::NAN),
            readings_ns: readings.to_vec(),
            batch,
            rounds,
        }
    }

    fn step_ns(&self, clock_step_ns: f64) -> f64 {
        clock_step_ns / f64::from(self.batch) / if self.one_way { 1.0 } else { 2.0 }
    }
}

impl Report {
    /// Name of the form.
    pub const SCHEMA: &'static str = "tieline.intr/1";

    /// The classic two lines: means, of both sides awake, or asleep.
    pub fn to_classic(&self, mode: Mode) -> String {
        let name = if mode == Mode::Spinning { Figure::SPINNING } else { Figure::SLEEPING };
        let Some(figure) = self.figures.iter().find(|figure| figure.name == name) else {
            return String::new();
        };
        let mean_ns = figure.time.as_ref().map_or(figure.p50_ns, |time| time.mean_ns);
        // A mean of many samples has a finer resolution than the clock's step, but is not reliable
        // below it.
        let step_ns = 2.0 * figure.step_ns(self.env.clock.step_ns);
        intr::render(mean_ns / 1000.0, 2.0 * mean_ns / 1000.0, step_ns)
    }

    /// The full table.
    pub fn to_text(&self) -> String {
        let ends = if self.processes == 2 { "two processes" } else { "one process" };
        let mut text = format!(
            "intr, nodes {} and {} over {}, {ends}, processors {} and {}{}; half round trips in us, but where it says one way\n",
            self.nodes[0],
            self.nodes[1],
            self.path,
            self.cpus[0],
            self.cpus[1],
            described(self.load_threads),
        );
        let right = |name| (name, Align::Right);
        let mut table = Table::new([
            ("", Align::Left),
            right("min"),
            right("p50"),
            right("p90"),
            right("p99"),
            right("p99.9"),
            right("max"),
            right("mean"),
            right("n"),
        ]);
        for figure in &self.figures {
            let Some(time) = &figure.time else { continue };
            let step_ns = figure.step_ns(self.env.clock.step_ns);
            let us = |ns: Option<f64>| {
                ns.map_or_else(|| "-".to_owned(), |ns| digits::show(ns / 1000.0, step_ns, 1000.0, 3))
            };
            let values = [
                Some(time.min_ns),
                time.p50_ns,
                time.p90_ns,
                time.p99_ns,
                time.p999_ns,
                Some(time.max_ns),
                Some(time.mean_ns),
            ];
            table.row([figure.name.clone()].into_iter().chain(values.map(us)).chain([time.n.to_string()]));
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
        let mut all = Samples::new(false).unwrap();
        (0..1000).for_each(|_| all.record_ns(2515.0));
        let spinning = Figure::half(Figure::SPINNING, Mode::Spinning, &all, &[2515.0], 1, 1000);
        let one_way = Figure {
            one_way: true,
            ..Figure::half(Figure::ONE_WAY, Mode::Sleeping, &all, &[2515.0], 1, 1000)
        };
        let report = Report {
            load_threads: 0,
            partial: false,
            schema: Report::SCHEMA.into(),
            env: Env { clock: ClockRecord { step_ns: 1.0, ..ClockRecord::default() }, ..Env::default() },
            nodes: [4, 8],
            cpus: [0, 1],
            processes: 2,
            path: "shm".into(),
            figures: vec![spinning, one_way],
        };
        let want = "Average unidirectional interrupt time :        2.515 us.\n\
                    Average round trip     interrupt time :        5.030 us.\n";
        assert_eq!(report.to_classic(Mode::Spinning), want);
        assert_eq!(report.to_classic(Mode::Sleeping), "");
        let text = report.to_text();
        assert!(
            text.contains("two processes") && text.contains("interrupt to a sleeper, one way  2.515"),
            "{text}"
        );
        let json = serde_json::to_string(&report).unwrap();
        let back: Report = serde_json::from_str(&json).unwrap();
        assert!(back.figures[1].one_way && back.figures[0].time.as_ref().unwrap().n == 1000);
    }
}
