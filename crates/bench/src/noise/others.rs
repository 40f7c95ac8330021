//! The share of the processors that other work had during a measurement.
//!
//! The load average gives the length of the queue some time ago. This module measures the time that
//! was taken away during the measurement: the time of the processors that this process may use
//! which was neither idle nor its own; and, of a thread that never sleeps, the time in which it had
//! no processor. Both are shares, which are comparable between machines.

use std::fs;

use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};
use shm::clock::{Clock, now_ticks};

use crate::cpus;

/// From this share on, in percent, the machine counts as busy with other work. The daemons of a
/// quiet machine use 1 or 2.
const BUSY_PERCENT: f64 = 10.0;
/// The kernel counts time in samples of 10 ms: with fewer samples than this, no share is reported.
const TICKS_MIN: u64 = 20;
/// Length of such a sample for every reader of /proc/stat, whatever the kernel's own tick is.
const TICK_NS: f64 = 1e7;

/// The time that other work took away.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Load {
    /// Processors that this process may use.
    pub processors: usize,
    /// The share of processor time that other programs, the kernel and the host had, in percent;
    /// `None` if the kernel does not report it.
    pub others_percent: Option<f64>,
    /// Share of its time in which the measuring thread had no processor, in percent; `None` where
    /// that was not watched.
    pub waited_percent: Option<f64>,
}

impl Load {
    /// Whether that is too much for a judgement of speed.
    pub fn is_busy(&self) -> bool {
        self.others_are_busy() || self.kept_waiting()
    }

    /// Whether the measuring thread itself was preempted for so long that readings may be wrong.
    pub fn kept_waiting(&self) -> bool {
        self.waited_percent.is_some_and(|percent| percent >= BUSY_PERCENT)
    }

    fn others_are_busy(&self) -> bool {
        self.others_percent.is_some_and(|percent| percent >= BUSY_PERCENT)
    }

    /// `other work used 63 % of the 2 processors`, if the machine was busy.
    pub fn reason(&self) -> Option<String> {
        let mut reasons = Vec::new();
        if let Some(percent) = self.others_percent.filter(|_| self.others_are_busy()) {
            let of = match self.processors {
                1 => "processor".to_owned(),
                many => format!("{many} processors"),
            };
            reasons.push(format!("other work used {} of the {of}", share(percent)));
        }
        if let Some(percent) = self.waited_percent.filter(|_| self.kept_waiting()) {
            reasons.push(format!("the measuring thread was preempted for {} of its time", share(percent)));
        }
        (!reasons.is_empty()).then(|| reasons.join(", "))
    }

    /// The worse of two moments.
    #[must_use]
    pub fn or_worse(self, other: Self) -> Self {
        let worse = |a: Option<f64>, b: Option<f64>| match (a, b) {
            (Some(a), Some(b)) => Some(a.max(b)),
            (a, b) => a.or(b),
        };
        Self {
            processors: self.processors.max(other.processors),
            others_percent: worse(self.others_percent, other.others_percent),
            waited_percent: worse(self.waited_percent, other.waited_percent),
        }
    }
}

/// A share that is not all: a test that has given a result had some of the time, however little.
fn share(percent: f64) -> String {
    if percent >= 99.5 { "more than 99 %".to_owned() } else { format!("{percent:.0} %") }
}

/// Watches from its making on.
#[derive(Debug, Clone)]
pub struct Meter {
    cpus: Vec<usize>,
    before: Option<Counted>,
    own_ns: f64,
}

impl Meter {
    /// Starts the measurement.
    pub fn start() -> Self {
        let cpus = cpus::allowed().unwrap_or_default();
        let before = counted(&stat(), &cpus);
        Self { before, cpus, own_ns: cpu_ns(ClockId::ProcessCPUTime) }
    }

    /// Returns the load since the start.
    pub fn read(&self) -> Load {
        let own_ns = cpu_ns(ClockId::ProcessCPUTime) - self.own_ns;
        let others_percent = self
            .before
            .zip(counted(&stat(), &self.cpus))
            .and_then(|(before, now)| others_percent(before, now, own_ns));
        Load { processors: self.cpus.len(), others_percent, waited_percent: None }
    }
}

/// Time of processors so far, in ticks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Counted {
    busy: u64,
    idle: u64,
}

fn stat() -> String {
    fs::read_to_string("/proc/stat").unwrap_or_default()
}

/// Columns: user, nice, system, idle, iowait, irq, softirq, steal; guests' time is in user and nice
/// already.
fn counted(stat: &str, cpus: &[usize]) -> Option<Counted> {
    let mut sum = Counted { busy: 0, idle: 0 };
    let mut found = 0;
    for line in stat.lines() {
        let mut words = line.split_whitespace();
        let number = words.next().and_then(|word| word.strip_prefix("cpu")?.parse::<usize>().ok());
        if !number.is_some_and(|cpu| cpus.contains(&cpu)) {
            continue;
        }
        found += 1;
        for (column, word) in words.take(8).enumerate() {
            let ticks: u64 = word.parse().ok()?;
            if matches!(column, 3 | 4) { sum.idle += ticks } else { sum.busy += ticks }
        }
    }
    (found > 0).then_some(sum)
}

fn others_percent(before: Counted, now: Counted, own_ns: f64) -> Option<f64> {
    let (busy, idle) = (now.busy.saturating_sub(before.busy), now.idle.saturating_sub(before.idle));
    let all = busy + idle;
    if all < TICKS_MIN {
        return None;
    }
    Some(((busy as f64 - own_ns / TICK_NS) / all as f64 * 100.0).clamp(0.0, 100.0))
}

/// Processor time so far, in nanoseconds.
fn cpu_ns(clock: ClockId) -> f64 {
    let time = clock_gettime(clock);
    time.tv_sec as f64 * 1e9 + time.tv_nsec as f64
}

/// Measures the time that this thread has no processor. Useful for a thread that never sleeps.
#[derive(Debug, Clone, Copy)]
pub struct Absence {
    wall_ticks: u64,
    own_ns: f64,
}

impl Absence {
    /// Starts the measurement.
    pub fn since_now() -> Self {
        Self { wall_ticks: now_ticks(), own_ns: cpu_ns(ClockId::ThreadCPUTime) }
    }

    /// Until now, in nanoseconds: of how long, and how much of that without a processor.
    pub fn of(&self, clock: &Clock) -> (f64, f64) {
        let own_ns = cpu_ns(ClockId::ThreadCPUTime) - self.own_ns;
        let wall_ns = clock.ns(now_ticks() - self.wall_ticks);
        (wall_ns, (wall_ns - own_ns).max(0.0))
    }

    /// The share, in percent.
    pub fn percent(&self, clock: &Clock) -> f64 {
        let (wall_ns, absent_ns) = self.of(clock);
        if wall_ns > 0.0 { absent_ns / wall_ns * 100.0 } else { 0.0 }
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    const BEFORE: &str =
        "cpu  0 0 0 0\ncpu0 100 0 50 1000 10 0 0 5 7 0\ncpu1 10 0 5 100 1 0 0 0 0 0\nintr 5\n";
    const NOW: &str =
        "cpu  0 0 0 0\ncpu0 150 10 60 1020 20 0 0 15 9 0\ncpu1 99 0 5 100 1 0 0 0 0 0\nintr 5\n";

    #[test]
    fn what_is_neither_idle_nor_ours_is_other_work() {
        let (before, now) = (counted(BEFORE, &[0]).unwrap(), counted(NOW, &[0]).unwrap());
        assert_eq!((now.busy - before.busy, now.idle - before.idle), (80, 30));
        // 80 of 110 ticks were busy, 25 of them with this process.
        let percent = others_percent(before, now, 25.0 * TICK_NS).unwrap();
        assert!((percent - 50.0).abs() < 1e-9, "{percent}");
        assert_eq!(others_percent(before, now, 1e12), Some(0.0), "more than was counted is all of it");
        assert_eq!(others_percent(before, before, 0.0), None);
        assert_eq!((counted(BEFORE, &[7]), counted("", &[0])), (None, None));
    }

    #[test]
    fn a_share_makes_a_busy_machine_and_a_reason() {
        let of = |others, waited| Load { processors: 2, others_percent: others, waited_percent: waited };
        assert_eq!(of(Some(3.0), Some(2.0)).reason(), None);
        assert_eq!(of(None, None).reason(), None);
        assert_eq!(of(Some(63.4), None).reason().unwrap(), "other work used 63 % of the 2 processors");
        assert_eq!(
            of(Some(1.0), Some(40.0)).reason().unwrap(),
            "the measuring thread was preempted for 40 % of its time"
        );
        let all = of(Some(99.9), Some(99.7)).reason().unwrap();
        assert!(!all.contains("100 %") && all.matches("more than 99 %").count() == 2, "{all}");
        let one = Load { processors: 1, others_percent: Some(50.0), waited_percent: None };
        assert_eq!(one.reason().unwrap(), "other work used 50 % of the processor");
        assert!(of(Some(3.0), None).or_worse(of(Some(50.0), Some(1.0))).is_busy());
    }

    #[test]
    fn time_of_ones_own_is_no_other_work() {
        let meter = Meter::start();
        let own_ns = meter.own_ns;
        let start = Instant::now();
        while start.elapsed() < Duration::from_millis(300) {
            std::hint::black_box(start);
        }
        let load = meter.read();
        assert!(cpu_ns(ClockId::ProcessCPUTime) > own_ns && load.processors > 0, "{load:?}");
        assert!(load.others_percent.is_none_or(|percent| (0.0..=100.0).contains(&percent)), "{load:?}");
    }

    #[test]
    fn a_sleep_is_an_absence() {
        let clock = Clock::global();
        let absence = Absence::since_now();
        std::thread::sleep(Duration::from_millis(30));
        let (wall_ns, absent_ns) = absence.of(&clock);
        assert!(wall_ns >= 30e6 * 0.9 && absent_ns > wall_ns / 2.0, "{wall_ns} {absent_ns}");
    }
}
