//! Links that stand still now and then: small puts through all links in turn, and who was under way when time passed.
//!
//! One thread puts a word through each link in turn, again and again. A put that takes much longer than all others was
//! held up: by its link, or because the processor was taken away. The second is sorted out where the kernel counts a
//! switch of this thread; what remains must hit one link repeatedly, with similar lengths, and do so again in a second
//! pass beside a known-good link, before the link is called bad.

use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use shm::clock::{Clock, now_ticks};
use tieline::NodeId;

use super::arena::{Arena, line_at};

/// Shorter than this is nobody's complaint.
const STALL_NS: f64 = 500_000.0;
/// Stalls of one link are alike within this factor.
const ALIKE: f64 = 1.6;
/// So many alike make a suspect.
const REPEATED: usize = 2;

/// A put that was held up.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Stall {
    /// Nanoseconds since the start of the pass.
    pub at_ns: f64,
    /// How long it took.
    pub lasted_ns: f64,
}

/// Stalls of one ordered pair.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Stalls {
    /// From which node to which.
    pub pair: [NodeId; 2],
    /// In order of time.
    pub stalls: Vec<Stall>,
}

impl Stalls {
    /// Stalls that are alike: the largest group.
    pub fn alike(&self) -> Vec<Stall> {
        let mut lengths: Vec<Stall> = self.stalls.clone();
        lengths.sort_by(|a, b| a.lasted_ns.total_cmp(&b.lasted_ns));
        let mut best: &[Stall] = &[];
        for (start, shortest) in lengths.iter().enumerate() {
            let rest = &lengths[start..];
            let end = rest.partition_point(|stall| stall.lasted_ns <= shortest.lasted_ns * ALIKE);
            if end > best.len() {
                best = &rest[..end];
            }
        }
        let mut alike = best.to_vec();
        alike.sort_by(|a, b| a.at_ns.total_cmp(&b.at_ns));
        alike
    }

    /// Whether it should be looked at again.
    pub fn is_suspect(&self) -> bool {
        self.alike().len() >= REPEATED
    }

    /// In words: how many, how long, how far apart.
    pub fn describe(&self) -> String {
        let alike = self.alike();
        let mean_ms =
            alike.iter().map(|stall| stall.lasted_ns).sum::<f64>() / alike.len().max(1) as f64 / 1e6;
        let gaps: Vec<f64> = alike.windows(2).map(|pair| (pair[1].at_ns - pair[0].at_ns) / 1e6).collect();
        let apart = bench::stats::median(&gaps).map_or(String::new(), |gap| format!(", {gap:.0} ms apart"));
        format!("{} stalls of about {mean_ms:.1} ms{apart}", alike.len())
    }
}

/// How often this thread has given the processor away, or lost it. Read only after a long put, so it may cost a file.
fn switches() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/status").unwrap_or_default();
    text.lines()
        .filter(|line| line.contains("ctxt_switches:"))
        .filter_map(|line| line.split_whitespace().last()?.parse::<u64>().ok())
        .sum()
}

/// Puts through these pairs in turn for so long; says who was held up.
pub(super) fn watch(
    arena: &Arena,
    clock: &Clock,
    pairs: &[(usize, usize)],
    duration: Duration,
    stop: &dyn Fn() -> bool,
) -> Vec<Stalls> {
    let mut found: Vec<Stalls> =
        pairs.iter().map(|pair| Stalls { pair: arena.nodes_of(*pair), stalls: Vec::new() }).collect();
    let (begin, start_ticks) = (Instant::now(), now_ticks());
    let limit_ticks = clock.ticks(STALL_NS as u64);
    let mut switched = switches();
    let mut number = 0u64;
    while begin.elapsed() < duration && !stop() {
        for _ in 0..64 {
            number += 1;
            let mut before = now_ticks();
            for (pair, stalls) in pairs.iter().zip(&mut found) {
                let Some(remote) = arena.remote(pair.0, pair.1) else { continue };
                // What fails is another test's business.
                let _ = remote.put(line_at(pair.0) + 64, &number.to_le_bytes());
                let after = now_ticks();
                if after - before > limit_ticks {
                    let now_switched = switches();
                    if now_switched == switched {
                        let (at_ns, lasted_ns) = (clock.ns(before - start_ticks), clock.ns(after - before));
                        stalls.stalls.push(Stall { at_ns, lasted_ns });
                    }
                    switched = now_switched;
                    before = now_ticks();
                } else {
                    before = after;
                }
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stalls(lengths_ms: &[(f64, f64)]) -> Stalls {
        let stalls =
            lengths_ms.iter().map(|(at_ms, ms)| Stall { at_ns: at_ms * 1e6, lasted_ns: ms * 1e6 }).collect();
        Stalls { pair: [NodeId::new(4).unwrap(), NodeId::new(8).unwrap()], stalls }
    }

    #[test]
    fn like_stalls_make_a_suspect_and_chance_does_not() {
        assert!(!stalls(&[]).is_suspect());
        assert!(!stalls(&[(10.0, 5.0)]).is_suspect());
        assert!(!stalls(&[(10.0, 0.6), (500.0, 3.0), (900.0, 14.0)]).is_suspect());
        let regular = stalls(&[(10.0, 5.0), (300.0, 1.0), (1010.0, 4.9), (2010.0, 5.1)]);
        assert!(regular.is_suspect());
        assert_eq!(regular.describe(), "3 stalls of about 5.0 ms, 1000 ms apart");
    }
}
