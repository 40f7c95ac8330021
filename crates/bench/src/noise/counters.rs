//! Kernel counters during a measurement: context switches, interrupts, time taken by the host.

use std::{collections::BTreeMap, fs};

/// Readings of one moment.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Counters {
    /// Times that each watched thread had its processor taken away.
    pub involuntary: Vec<u64>,
    /// Time taken by the host from the watched processors, in hundredths of a second.
    pub steal_ticks: u64,
    /// Interrupts of the watched processors, by name.
    pub interrupts: BTreeMap<String, u64>,
}

/// The processes and processors that are watched.
#[derive(Debug, Clone)]
pub struct Watch {
    threads: Vec<i32>,
    cpus: Vec<usize>,
}

impl Watch {
    /// These threads (of this process, by kernel id) and processors.
    pub fn new(threads: Vec<i32>, cpus: Vec<usize>) -> Self {
        Self { threads, cpus }
    }

    /// Reads all counters. What cannot be read counts as 0.
    pub fn read(&self) -> Counters {
        let text = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let of_thread = |tid: &i32| involuntary(&text(&format!("/proc/self/task/{tid}/status")));
        Counters {
            involuntary: self.threads.iter().map(of_thread).collect(),
            steal_ticks: steal(&text("/proc/stat"), &self.cpus),
            interrupts: interrupts(&text("/proc/interrupts"), &self.cpus),
        }
    }
}

/// The calling thread's kernel id, for [`Watch::new`].
pub fn this_thread() -> i32 {
    rustix::thread::gettid().as_raw_nonzero().get()
}

impl Counters {
    /// The changes since `before`.
    pub fn since(&self, before: &Self) -> Self {
        let interrupts = self
            .interrupts
            .iter()
            .map(|(name, count)| {
                (name.clone(), count.saturating_sub(*before.interrupts.get(name).unwrap_or(&0)))
            })
            .filter(|(_, count)| *count > 0)
            .collect();
        Self {
            involuntary: self
                .involuntary
                .iter()
                .zip(&before.involuntary)
                .map(|(now, then)| now.saturating_sub(*then))
                .collect(),
            steal_ticks: self.steal_ticks.saturating_sub(before.steal_ticks),
            interrupts,
        }
    }

    /// All interrupts together.
    pub fn interrupts_total(&self) -> u64 {
        self.interrupts.values().sum()
    }

    /// All switches together.
    pub fn involuntary_total(&self) -> u64 {
        self.involuntary.iter().sum()
    }
}

fn involuntary(status: &str) -> u64 {
    status
        .lines()
        .find_map(|line| line.strip_prefix("nonvoluntary_ctxt_switches:"))
        .and_then(|count| count.trim().parse().ok())
        .unwrap_or(0)
}

fn steal(stat: &str, cpus: &[usize]) -> u64 {
    stat.lines()
        .filter_map(|line| {
            let mut words = line.split_whitespace();
            let cpu: usize = words.next()?.strip_prefix("cpu")?.parse().ok()?;
            cpus.contains(&cpu).then(|| words.nth(7)?.parse::<u64>().ok()).flatten()
        })
        .sum()
}

/// Lines are `24:  0  17  PCI-MSI … virtio0-input.0` or `LOC:  5  6  Local timer interrupts`, below
/// a line that names the processors of the columns.
fn interrupts(text: &str, cpus: &[usize]) -> BTreeMap<String, u64> {
    let mut lines = text.lines();
    let columns: Vec<Option<usize>> = lines
        .next()
        .unwrap_or_default()
        .split_whitespace()
        .map(|name| name.strip_prefix("CPU").and_then(|number| number.parse().ok()))
        .collect();
    let mut all = BTreeMap::new();
    for line in lines {
        let Some((key, rest)) = line.split_once(':') else { continue };
        let words: Vec<&str> = rest.split_whitespace().collect();
        let counts: Vec<u64> = words.iter().take(columns.len()).map_while(|word| word.parse().ok()).collect();
        let watched =
            counts.iter().zip(&columns).filter(|(_, cpu)| cpu.is_some_and(|cpu| cpus.contains(&cpu)));
        let sum: u64 = watched.map(|(count, _)| count).sum();
        let named = &words[counts.len()..];
        let key = key.trim();
        let name = if key.parse::<u32>().is_ok() {
            named.last().map_or_else(|| key.to_owned(), |last| (*last).to_owned())
        } else {
            named.join(" ")
        };
        let name = if name.is_empty() { key.to_owned() } else { name };
        *all.entry(name).or_insert(0) += sum;
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    const INTERRUPTS: &str = "           CPU0       CPU2
  0:         40          1   IO-APIC   2-edge      timer
 24:          0         17   PCI-MSIX-0000:00:03.0   1-edge      virtio0-input.0
LOC:       1000       2000   Local timer interrupts
ERR:          0
";

    #[test]
    fn parsed() {
        let of = |cpus: &[usize]| interrupts(INTERRUPTS, cpus);
        assert_eq!(of(&[2])["Local timer interrupts"], 2000);
        assert_eq!((of(&[0, 2])["virtio0-input.0"], of(&[0])["timer"]), (17, 40));
        assert_eq!(of(&[1]).values().sum::<u64>(), 0);
        assert_eq!(interrupts("", &[0]), BTreeMap::new());
        assert_eq!(involuntary("voluntary_ctxt_switches:\t7\nnonvoluntary_ctxt_switches:\t9\n"), 9);
        assert_eq!(involuntary(""), 0);
        let stat = "cpu  1 1 1 1 1 1 1 50 0\ncpu0 1 1 1 1 1 1 1 20 0 0\ncpu1 1 1 1 1 1 1 1 30 0 0\nintr 5\n";
        assert_eq!((steal(stat, &[0]), steal(stat, &[0, 1]), steal(stat, &[7])), (20, 50, 0));
    }

    #[test]
    fn differences() {
        let of = |loc: u64, switches: u64| Counters {
            involuntary: vec![switches, 5],
            steal_ticks: switches,
            interrupts: [("LOC".to_owned(), loc), ("idle".to_owned(), 3)].into(),
        };
        let since = of(30, 7).since(&of(10, 4));
        assert_eq!((since.involuntary_total(), since.steal_ticks, since.interrupts_total()), (3, 3, 20));
        assert_eq!(since.interrupts.len(), 1);
    }

    #[test]
    fn a_linux_machine_tells_something() {
        let watch = Watch::new(vec![this_thread(), -1], vec![0]);
        let counters = watch.read();
        assert_eq!(counters.involuntary.len(), 2);
        assert_eq!(counters.involuntary[1], 0);
    }
}
