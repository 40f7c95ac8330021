//! The report of `jitter`, and its text.

use std::{collections::BTreeMap, fmt::Write as _};

use serde::{Deserialize, Serialize};

use super::{
    explain::{Cause, CauseCount},
    period::Period,
    series::{Bucket, Point},
};
use crate::{
    env::Env,
    layout::table::{Align, Table, three_digits},
    noise,
    patterns::scipp::Mechanism,
    poll::Poll,
    stats::{Summary, digits},
};

/// Spikes in a report, the tallest.
const SPIKES_SHOWN: usize = 200;
/// Two periods are the same if they differ by less than this share.
const SAME: f64 = 0.02;
/// Rates of a kernel's timer tick.
const TICKS_HZ: [f64; 5] = [100.0, 250.0, 300.0, 1000.0, 1024.0];

/// Result of a run. Times are in ns; `at_ns` counts from the start of the run.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Report {
    /// [`Report::SCHEMA`].
    pub schema: String,
    /// Circumstances.
    pub env: Env,
    /// Near and far node.
    pub nodes: [u32; 2],
    /// The processors of the near and the far end; a server reports its own.
    pub cpus: [usize; 2],
    /// Processes of the two ends: 1 or 2.
    #[serde(default)]
    pub processes: u32,
    /// Link taken.
    pub path: String,
    /// What carried the words.
    #[serde(default)]
    pub mechanism: Mechanism,
    /// How both ends waited.
    #[serde(default)]
    pub poll: Option<Poll>,
    /// Threads that competed for the processors.
    pub load_threads: usize,
    /// It was ended early: the round trips were measured before that.
    #[serde(default)]
    pub partial: bool,
    /// Length of the run.
    pub length_ns: f64,
    /// Time in round trips; the rest went into reading the kernel's counters.
    pub measured_ns: f64,
    /// What was stored of it.
    pub kept: Kept,
    /// Round trips, whole ones. If several share an entry: the longest of each.
    pub rtt: Option<Summary>,
    /// Between hosts: what they are compared with.
    #[serde(default)]
    pub reference: Option<Reference>,
    /// Their median, exact.
    pub median_ns: f64,
    /// A longer round trip is a spike.
    pub threshold_ns: f64,
    /// Round trips beyond it.
    pub beyond: u64,
    /// Spikes: such round trips, close ones counted as one.
    pub spikes_found: u64,
    /// The tallest, in order of time.
    pub spikes: Vec<Spike>,
    /// Rhythms among all of them, strongest first.
    pub periods: Vec<NamedPeriod>,
    /// The possible causes of all spikes.
    pub causes: Vec<CauseCount>,
    /// Times that the near and the far end had their processor taken away.
    pub involuntary: [u64; 2],
    /// Interrupts of both processors during the run, by name.
    pub interrupts: BTreeMap<String, u64>,
    /// The detour test of each processor, before the run.
    pub idle: Vec<noise::Report>,
    /// Shortest and longest round trip by time, 2,000 pieces at most.
    pub plot: Vec<Bucket>,
    /// Cumulative distribution of all round trips: `[ns, share]`.
    pub distribution: Vec<Point>,
}

/// The stored part of a run.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Kept {
    /// Round trips.
    pub round_trips: u64,
    /// Successive round trips that share an entry: 1 if every single one was kept.
    pub every: u32,
    /// Bytes of memory.
    pub memory_bytes: u64,
    /// The memory was full before the time was over.
    pub ended_early: bool,
}

/// Round trips of libfabric's own calls between the same two processes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Reference {
    /// The messages, and libfabric's provider.
    pub name: String,
    /// Each of them was timed, after the run.
    pub rtt: Summary,
}

/// A round trip that took far longer than usual.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Spike {
    /// The time at which it began.
    pub at_ns: f64,
    /// The time beyond the median.
    pub height_ns: f64,
    /// The rhythm that it belongs to, by its place in `periods`.
    pub period: Option<usize>,
    /// Its possible cause.
    pub cause: Cause,
}

impl Spike {
    /// The tallest spikes, as many as a report has, in order of time.
    pub(super) fn tallest(mut spikes: Vec<Self>) -> Vec<Self> {
        spikes.sort_by(|a, b| b.height_ns.total_cmp(&a.height_ns));
        spikes.truncate(SPIKES_SHOWN);
        spikes.sort_by(|a, b| a.at_ns.total_cmp(&b.at_ns));
        spikes
    }
}

/// A period with a name.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NamedPeriod {
    /// The period.
    #[serde(flatten)]
    pub period: Period,
    /// A description: height, frequency, and a likely cause of such a period.
    pub name: String,
    /// Whether the idle machine has it too: then it is not caused by the interconnect.
    pub idle_too: bool,
}

impl NamedPeriod {
    pub(super) fn of(period: Period, idle: &[noise::Report]) -> Self {
        let alike = |other: &Period| (other.period_ns / period.period_ns - 1.0).abs() < SAME;
        let idle_too = idle.iter().any(|report| report.periods.iter().any(alike));
        let mut name = format!("{} every {}", time(period.height_ns), time(period.period_ns));
        if let Some(likely) = likely(period.period_ns) {
            let _ = write!(name, ", {likely}");
        }
        if idle_too {
            name.push_str(", also on the idle machine");
        }
        Self { period, name, idle_too }
    }
}

/// The usual cause of such a period.
fn likely(period_ns: f64) -> Option<String> {
    let tick = TICKS_HZ.iter().find(|hz| (period_ns * **hz / 1e9 - 1.0).abs() < 0.005);
    if let Some(hz) = tick {
        return Some(format!("as a timer tick at {hz} Hz"));
    }
    let seconds = (period_ns / 1e9).round();
    let whole = seconds >= 1.0 && (period_ns / 1e9 / seconds - 1.0).abs() < 0.01;
    whole.then(|| "as a service that runs by the clock".to_owned())
}

/// A time with three digits and its unit.
pub(super) fn time(ns: f64) -> String {
    let (value, unit) = match ns {
        // A value that three digits would round up to a thousand is printed in the next unit.
        ns if ns >= 0.9995e9 => ((ns / 1e9).max(1.0), "s"),
        ns if ns >= 0.9995e6 => ((ns / 1e6).max(1.0), "ms"),
        ns if ns >= 0.9995e3 => ((ns / 1e3).max(1.0), "us"),
        ns => (ns, "ns"),
    };
    format!("{} {unit}", three_digits(value))
}

impl Report {
    /// Name of the form.
    pub const SCHEMA: &'static str = "tieline.jitter/1";

    /// The report as text.
    pub fn to_text(&self) -> String {
        let [near, far] = self.cpus;
        let mut text = format!(
            "jitter, nodes {} and {} over {}{}: {} round trips in {}\n",
            self.nodes[0],
            self.nodes[1],
            self.path,
            match self.mechanism {
                Mechanism::Stores => format!(", processors {near} and {far}"),
                Mechanism::Put =>
                    format!(" by put (no stores between hosts), processor {near} here and {far} there"),
            },
            self.kept.round_trips,
            time(self.length_ns),
        );
        // Writing to a String cannot fail.
        if self.load_threads > 0 {
            let _ = writeln!(text, "competing load: {} threads", self.load_threads);
        }
        if self.kept.every > 1 {
            let _ = writeln!(
                text,
                "the memory held no more than the longest of each {} round trips: percentiles are of those",
                self.kept.every
            );
        }
        if self.kept.ended_early {
            text.push_str(
                "the memory was full before the time was over: the run is shorter than asked for\n",
            );
        }
        text.push_str(&self.percentiles());
        text.push_str(&self.rhythms());
        text.push_str(&self.reasons());
        text
    }

    fn percentiles(&self) -> String {
        let Some(rtt) = &self.rtt else { return "no round trips\n".to_owned() };
        let ours = if self.mechanism == Mechanism::Put { "puts of 8 bytes" } else { "" };
        let reference = self.reference.iter().map(|one| (one.name.as_str(), &one.rtt));
        let right = |name| (name, Align::Right);
        let mut table = Table::new(
            [("round trip ns", Align::Left)]
                .into_iter()
                .chain(["min", "p50", "p90", "p99", "p99.9", "max", "mean"].map(right)),
        );
        let step_ns = self.env.clock.step_ns;
        let show =
            |ns: Option<f64>| ns.map_or_else(|| "-".to_owned(), |ns| digits::show(ns, step_ns, 1.0, 1));
        for (name, rtt) in [(ours, rtt)].into_iter().chain(reference) {
            let values = [
                Some(rtt.min_ns),
                rtt.p50_ns,
                rtt.p90_ns,
                rtt.p99_ns,
                rtt.p999_ns,
                Some(rtt.max_ns),
                Some(rtt.mean_ns),
            ];
            table.row([name.to_owned()].into_iter().chain(values.map(show)));
        }
        table.render()
    }

    fn rhythms(&self) -> String {
        let mut text = format!(
            "\nspikes (beyond {}): {} of {} round trips, in {} places\n",
            time(self.threshold_ns),
            self.beyond,
            self.kept.round_trips,
            self.spikes_found,
        );
        for named in &self.periods {
            let period = &named.period;
            let _ = writeln!(
                text,
                "  periodic: {}; {} of {} came, tallest {}, {} early or late",
                named.name,
                period.came,
                period.due,
                time(period.height_max_ns),
                time(period.wander_ns),
            );
        }
        if self.periods.is_empty() {
            text.push_str("  none of them periodic\n");
        }
        text
    }

    fn reasons(&self) -> String {
        let mut text = String::new();
        if self.mechanism == Mechanism::Put {
            // Writing to a String cannot fail.
            let _ = writeln!(
                text,
                "possible causes on processor {} of this host alone, not of the network or the other host:",
                self.cpus[0]
            );
        }
        for count in &self.causes {
            let _ = writeln!(
                text,
                "  {} with {} in all: {}",
                count.spikes,
                time(count.lost_ns),
                count.cause.name()
            );
        }
        for idle in &self.idle {
            let _ = writeln!(
                text,
                "idle processor {}: {} detours a second beyond {}, largest {}, {} % of the time lost",
                idle.cpu,
                three_digits(idle.rate_per_s),
                time(idle.threshold_ns),
                time(idle.largest_ns),
                three_digits(idle.loss_percent),
            );
            for period in &idle.periods {
                let _ =
                    writeln!(text, "  periodic: {} every {}", time(period.height_ns), time(period.period_ns));
            }
        }
        let mut interrupts: Vec<(&String, &u64)> = self.interrupts.iter().collect();
        interrupts.sort_by(|a, b| b.1.cmp(a.1));
        let shown: Vec<String> =
            interrupts.iter().take(4).map(|(name, count)| format!("{count} {name}")).collect();
        let [near, far] = self.involuntary;
        let lost = if self.poll == Some(Poll::Yielding) { "yielded or lost" } else { "lost" };
        let _ = writeln!(
            text,
            "the ends {lost} their processors {near} and {far} times; interrupts: {}",
            if shown.is_empty() { "unknown".to_owned() } else { shown.join(", ") }
        );
        text
    }
}
