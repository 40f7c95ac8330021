//! Links that stand still now and then: small puts through all links in turn, and who was under way when time passed.
//!
//! One thread puts a word through each link in turn, again and again. A put that takes much longer than all others was
//! held up: by its link, or because the processor was taken away. The time without a processor is known (wall clock less
//! the thread's own processor time) and taken off; what remains must hit one link repeatedly, with similar lengths, and do
//! so again in a second pass beside a known-good link, before the link is called bad.

use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};
use shm::clock::{Clock, now_ticks};
use tieline::NodeId;

use super::arena::{Arena, line_at};

/// Shorter than this is nobody's complaint.
const STALL_NS: f64 = 500_000.0;
/// Stalls of one link are alike within this factor.
/// (On a machine with other work the tester sees parts of some.)
const ALIKE: f64 = 2.5;
/// So many alike are no chance.
const REPEATED: usize = 2;

/// A put that was held up.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Stall {
    /// Nanoseconds since the start of the pass.
    pub at_ns: f64,
    /// How long it took, without the time in which the tester had no processor.
    pub lasted_ns: f64,
}

/// Stalls of one ordered pair, or of both directions of a link.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Stalls {
    /// From which node to which.
    pub pair: [NodeId; 2],
    /// In order of time.
    pub stalls: Vec<Stall>,
}

/// Each with the stalls of the opposite direction added: a link that stands still holds up whichever put comes first, so
/// one direction alone may have hardly any.
pub(super) fn of_links(found: &[Stalls]) -> Vec<Stalls> {
    let merged = |[from, to]: [NodeId; 2]| {
        let of_link = |other: &&Stalls| other.pair == [from, to] || other.pair == [to, from];
        let mut stalls: Vec<Stall> =
            found.iter().filter(of_link).flat_map(|other| other.stalls.iter().copied()).collect();
        stalls.sort_by(|a, b| a.at_ns.total_cmp(&b.at_ns));
        Stalls { pair: [from, to], stalls }
    };
    found.iter().map(|stalls| merged(stalls.pair)).collect()
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

    /// Whether it should be looked at again: a single one is reason enough, and costs no more than time.
    pub fn is_suspect(&self) -> bool {
        !self.stalls.is_empty()
    }

    /// Whether it stalls repeatedly, for similar times.
    pub fn is_repeated(&self) -> bool {
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

/// How long this thread has been without a processor since some point in time.
#[derive(Debug, Clone, Copy)]
struct Absence {
    wall_ticks: u64,
    own_ns: f64,
}

impl Absence {
    fn since_now() -> Self {
        Self { wall_ticks: now_ticks(), own_ns: own_ns() }
    }

    fn ns(&self, clock: &Clock) -> f64 {
        let own_ns = own_ns() - self.own_ns;
        (clock.ns(now_ticks() - self.wall_ticks) - own_ns).max(0.0)
    }
}

/// Processor time that this thread has had.
fn own_ns() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 * 1e9 + time.tv_nsec as f64
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
    let mut number = 0u64;
    while begin.elapsed() < duration && !stop() {
        let mut absence = Absence::since_now();
        for _ in 0..64 {
            number += 1;
            let mut before = now_ticks();
            for (pair, stalls) in pairs.iter().zip(&mut found) {
                let Some(remote) = arena.remote(pair.0, pair.1) else { continue };
                // What fails is another test's business.
                let _ = remote.put(line_at(pair.0) + 64, &number.to_le_bytes());
                let after = now_ticks();
                if after - before > limit_ticks {
                    let lasted_ns = clock.ns(after - before) - absence.ns(clock);
                    if lasted_ns > STALL_NS {
                        stalls.stalls.push(Stall { at_ns: clock.ns(before - start_ticks), lasted_ns });
                    }
                    absence = Absence::since_now();
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
    fn both_directions_of_a_link_count_together() {
        let node = |id| NodeId::new(id).unwrap();
        let of = |from, to, at_ms: f64| Stalls {
            pair: [node(from), node(to)],
            stalls: vec![Stall { at_ns: at_ms * 1e6, lasted_ns: 5e6 }],
        };
        let found = [of(4, 8, 2000.0), of(8, 4, 1000.0), of(4, 12, 7.0)];
        let links = of_links(&found);
        assert!(!found[0].is_repeated() && links[0].is_repeated() && links[1].is_repeated());
        assert!(!links[2].is_repeated());
        assert_eq!(links[0].describe(), "2 stalls of about 5.0 ms, 1000 ms apart");
    }

    #[test]
    fn like_stalls_are_repeated_and_chance_is_not() {
        assert!(!stalls(&[]).is_suspect());
        assert!(stalls(&[(10.0, 5.0)]).is_suspect());
        assert!(!stalls(&[(10.0, 5.0)]).is_repeated());
        assert!(!stalls(&[(10.0, 0.6), (500.0, 3.0), (900.0, 14.0)]).is_repeated());
        let regular = stalls(&[(10.0, 5.0), (300.0, 1.0), (1010.0, 4.9), (2010.0, 5.1)]);
        assert!(regular.is_repeated());
        assert_eq!(regular.describe(), "3 stalls of about 5.0 ms, 1000 ms apart");
    }
}
