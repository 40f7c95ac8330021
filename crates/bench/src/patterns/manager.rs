//! Cost of idle node managers, and the time to start a cluster.

use std::{
    fs, thread,
    time::{Duration, Instant},
};

use crate::{
    error::{BenchError, Result},
    stats::paired::Block,
};

/// The processor time that a process has used: the kernel's own count, over all its threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct CpuTime {
    ns: u64,
}

fn cpu_time(pid: u32) -> Result<CpuTime> {
    let tasks = format!("/proc/{pid}/task");
    let mut ns = 0;
    for task in fs::read_dir(&tasks).map_err(BenchError::io(tasks.clone()))? {
        let path = task.map_err(BenchError::io(tasks.clone()))?.path().join("schedstat");
        // A thread that has just ended has its time in no other place; none of ours does that while
        // it idles.
        if let Ok(text) = fs::read_to_string(&path) {
            ns += on_cpu_ns(&text)
                .ok_or_else(|| BenchError::Cluster(format!("{} is not understood", path.display())))?;
        }
    }
    Ok(CpuTime { ns })
}

/// First number of a schedstat line: nanoseconds on a processor.
fn on_cpu_ns(schedstat: &str) -> Option<u64> {
    schedstat.split_whitespace().next()?.parse().ok()
}

/// Nanoseconds on a processor of all threads that a process has now.
pub(crate) fn cpu_time_ns(pid: u32) -> Result<u64> {
    cpu_time(pid).map(|time| time.ns)
}

/// Proportional share of memory (Pss) of a process, in bytes.
pub fn pss_bytes(pid: u32) -> Result<u64> {
    let path = format!("/proc/{pid}/smaps_rollup");
    let text = fs::read_to_string(&path).map_err(BenchError::io(path.clone()))?;
    pss_of(&text).ok_or_else(|| BenchError::Cluster(format!("{path} has no line `Pss`")))
}

fn pss_of(rollup: &str) -> Option<u64> {
    let line = rollup.lines().find_map(|line| line.strip_prefix("Pss:"))?;
    line.split_whitespace().next()?.parse::<u64>().ok()?.checked_mul(1024)
}

/// Measures the processor time of idle managers, in ms a minute, in windows: one block for each
/// manager and window, with the limit as reference. `tell` receives the share that is done.
pub fn idle_blocks(
    pids: &[u32],
    windows: u32,
    window: Duration,
    limit_ms: f64,
    tell: &mut dyn FnMut(f64),
) -> Result<Vec<Block>> {
    let all = || pids.iter().map(|pid| cpu_time(*pid)).collect::<Result<Vec<_>>>();
    let mut blocks = Vec::new();
    let (mut before, mut since) = (all()?, Instant::now());
    for number in 0..windows {
        thread::sleep(window);
        let (after, now) = (all()?, Instant::now());
        let minutes = now.duration_since(since).as_secs_f64() / 60.0;
        for (before, after) in before.iter().zip(&after) {
            let ms = after.ns.saturating_sub(before.ns) as f64 / 1e6;
            blocks.push(Block { ours: ms / minutes, reference: limit_ms });
        }
        (before, since) = (after, now);
        tell(f64::from(number + 1) / f64::from(windows));
    }
    Ok(blocks)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parsed() {
        assert_eq!(on_cpu_ns("123456 78 9\n"), Some(123_456));
        assert_eq!(on_cpu_ns(""), None);
        let rollup = "55d0-7ffc ---p 00000000 00:00 0 [rollup]\nRss:  4000 kB\nPss:                1234 kB\nPss_Dirty: 5 kB\n";
        assert_eq!(pss_of(rollup), Some(1234 * 1024));
        assert_eq!(pss_of("Rss: 5 kB"), None);
    }

    #[test]
    fn this_process_uses_time_and_memory() {
        let pid = std::process::id();
        let before = cpu_time(pid).unwrap();
        let mut x = 1u64;
        while cpu_time(pid).unwrap().ns == before.ns {
            x = std::hint::black_box(x.wrapping_mul(31));
        }
        assert!(pss_bytes(pid).unwrap() > 0);
    }

    #[test]
    fn a_block_for_each_manager_and_window() {
        let mut told = Vec::new();
        let pid = std::process::id();
        let blocks =
            idle_blocks(&[pid, pid], 3, Duration::from_millis(5), 60.0, &mut |share| told.push(share))
                .unwrap();
        assert_eq!((blocks.len(), told.len()), (6, 3));
        assert!(blocks.iter().all(|b| b.ours >= 0.0 && b.reference == 60.0));
        assert!(idle_blocks(&[u32::MAX], 1, Duration::ZERO, 60.0, &mut |_| {}).is_err());
    }
}
