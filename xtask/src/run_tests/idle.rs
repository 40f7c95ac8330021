//! How much of the machine's processors nobody used in the last seconds: whether another test binary may
//! start.

use std::time::{Duration, Instant};

/// Over how long a span is judged. A test that waits for a process needs no processor for some milliseconds
/// only.
const SPAN: Duration = Duration::from_secs(2);
/// Processors that must have been idle in the mean. Below one, because what starts will not compute all the
/// time either.
const ENOUGH_PROCESSORS: f64 = 0.5;

/// The machine's counters of time, in the kernel's ticks, as `/proc/stat` gives them for all processors
/// together (proc_stat(5)).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Ticks {
    idle: u64,
    all: u64,
}

/// Judges the span since the last question that was answered.
#[derive(Debug)]
pub(super) struct Idle {
    processors: f64,
    since: Instant,
    ticks: Option<Ticks>,
}

impl Idle {
    /// The first span begins now.
    pub(super) fn new(processors: usize) -> Self {
        Self { processors: processors as f64, since: Instant::now(), ticks: now() }
    }

    /// Whether half a processor was idle in the span that has just ended. No, as long as it has not.
    pub(super) fn is_enough(&mut self) -> bool {
        if self.since.elapsed() < SPAN {
            return false;
        }
        let (before, after) = (self.ticks, now());
        (self.since, self.ticks) = (Instant::now(), after);
        before
            .zip(after)
            .is_some_and(|(before, after)| idle_share(before, after) * self.processors >= ENOUGH_PROCESSORS)
    }
}

fn now() -> Option<Ticks> {
    parse(&std::fs::read_to_string("/proc/stat").ok()?)
}

fn parse(stat: &str) -> Option<Ticks> {
    let line = stat.lines().next()?.strip_prefix("cpu ")?;
    // user nice system idle iowait irq softirq steal; the guests' times behind them are in user and nice
    // already.
    let ticks: Vec<u64> = line.split_whitespace().take(8).map_while(|field| field.parse().ok()).collect();
    Some(Ticks { idle: ticks.get(3)? + ticks.get(4)?, all: ticks.iter().sum() })
}

fn idle_share(before: Ticks, after: Ticks) -> f64 {
    let all = after.all.saturating_sub(before.all);
    if all == 0 { 0.0 } else { after.idle.saturating_sub(before.idle) as f64 / all as f64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_share_is_that_of_idle_and_of_waiting_for_disks() {
        let before = parse("cpu  100 0 50 800 50 0 0 0 7 0\ncpu0 1 2 3 4\n").unwrap();
        assert_eq!(before, Ticks { idle: 850, all: 1000 });
        let after = parse("cpu  150 10 70 850 60 0 0 60 9 0\n").unwrap();
        assert!((idle_share(before, after) - 0.3).abs() < 1e-9);
        assert_eq!(idle_share(after, after), 0.0);
    }

    #[test]
    fn what_is_no_such_file_says_nothing() {
        assert_eq!(parse(""), None);
        assert_eq!(parse("cpu  1 2 3\n"), None);
        assert_eq!(parse("intr 1 2 3 4 5\n"), None);
    }
}
