//! Finds links that stall now and then: small puts through all links in turn.
//!
//! One thread puts a word through each link in turn, again and again. A put that takes much longer than all
//! others was held up: by its link, or because the processor was taken away. The time without a processor is
//! known (wall clock less the thread's own processor time) and taken off; what remains must hit one link
//! repeatedly, with similar lengths, and do so again in a second pass.
//!
//! What the machine does (a host that takes the processor away, firmware) hits whatever is under way. So
//! stores to plain memory fill nearly all of the time, and the time that each link took is known: a link is
//! called bad when it was held up more often than its share of the time explains, counted among events of
//! that length.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use bench::noise::others::{Absence, Load};
use serde::{Deserialize, Serialize};
use shm::clock::{Clock, now_ticks};
use shm::window::Window;
use tieline::{NodeId, RemoteSegment};

use super::arena::{Arena, line_at};
use super::unordered;
use crate::verdict::Verdict;

/// Shorter stalls are no fault: a definition, thousands of times what a put takes on any machine.
const STALL_NS: f64 = 500_000.0;
/// Stalls of one link are alike within this factor.
/// (On a machine with other work the tester sees parts of some.)
const ALIKE: f64 = 2.5;
/// Fewer alike are chance.
const REPEATED: usize = 2;
/// So unlikely it must be that what the machine does hit one link that often.
const CHANCE: f64 = 0.001;
/// Stores to plain memory after a round of puts take so many times as long as the puts: what the machine does
/// mostly falls on them, so that even a few stalls of one link are no chance …
const MEMORY_TIMES: u64 = 100;
/// … but at most this share of a stall: the next put must come while the link is still stopped.
const STALL_SHARE: u64 = 10;
/// Rounds between two readings of the time that the tester had no processor.
const ROUNDS: usize = 16;

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

/// Each with the stalls of the opposite direction added: a link that stops holds up whichever put comes
/// first, so one direction alone may have hardly any.
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

    /// Whether it should be examined again: a single one is reason enough, and costs no more than time.
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

/// What stores of one kind met.
#[derive(Debug, Default, Clone)]
struct Held {
    stalls: Vec<Stall>,
    /// Time of stores that were not held up.
    spent_ticks: u64,
}

impl Held {
    /// A store took from `before` to `after`; `absence` was last asked before it.
    fn count(&mut self, before: u64, after: u64, course: &mut Course) {
        if after - before <= course.limit_ticks {
            self.spent_ticks += after - before;
            return;
        }
        let lasted_ns = course.clock.ns(after - before) - course.absence.of(course.clock).1;
        if lasted_ns > STALL_NS {
            self.stalls.push(Stall { at_ns: course.clock.ns(before - course.start_ticks), lasted_ns });
        }
        course.absence = Absence::since_now();
    }
}

/// The state of a watch.
struct Course<'a> {
    clock: &'a Clock,
    start_ticks: u64,
    limit_ticks: u64,
    /// Since when the time without a processor counts.
    absence: Absence,
}

/// What a watch has seen.
#[derive(Debug)]
pub(super) struct Watched {
    /// By ordered pair.
    pub(super) stalls: Vec<Stalls>,
    /// Share of the time that each was under way.
    shares: Vec<f64>,
    /// Stalls of plain memory: the machine's.
    memory: Vec<Stall>,
    waited_percent: f64,
}

impl Watched {
    /// What other work took from the watching thread.
    pub(super) fn load(&self) -> Load {
        Load { waited_percent: Some(self.waited_percent), ..Load::default() }
    }

    /// How likely it is that what the machine does hit this link, of all, as often as it stalled.
    fn chance_of(&self, link: [NodeId; 2], stalls: &Stalls) -> f64 {
        let alike = stalls.alike();
        let lengths = alike.iter().map(|stall| stall.lasted_ns);
        let (shortest, longest) =
            lengths.fold((f64::MAX, 0.0f64), |(low, high), ns| (low.min(ns), high.max(ns)));
        let all = self.stalls.iter().flat_map(|stalls| &stalls.stalls).chain(&self.memory);
        // What it was hit by may be a little shorter or longer than what it was not.
        let of_this_length = (shortest / ALIKE)..=(longest * ALIKE);
        let events = all.filter(|stall| of_this_length.contains(&stall.lasted_ns)).count();
        let shares = self.stalls.iter().zip(&self.shares);
        let of_link = shares.filter(|(stalls, _)| unordered(stalls.pair) == link);
        at_least(events, of_link.map(|(_, share)| share).sum(), alike.len())
    }
}

/// Puts through these pairs, and stores to plain memory, in turn for so long; returns which were held up.
pub(super) fn watch(
    arena: &Arena,
    clock: &Clock,
    pairs: &[(usize, usize)],
    duration: Duration,
    stop: &dyn Fn() -> bool,
) -> Watched {
    let links = links(arena, pairs);
    let memory = memory(arena);
    let (mut of_links, mut of_memory) = (vec![Held::default(); links.len()], Held::default());
    let limit_ticks = clock.ticks(STALL_NS as u64);
    let begin = Instant::now();
    let mut course = Course { clock, start_ticks: now_ticks(), limit_ticks, absence: Absence::since_now() };
    let (mut number, whole) = (0u64, Absence::since_now());
    while begin.elapsed() < duration && !stop() {
        course.absence = Absence::since_now();
        for _ in 0..ROUNDS {
            number += 1;
            let start = now_ticks();
            let mut before = start;
            for ((remote, at), held) in links.iter().zip(&mut of_links) {
                // What fails is another test's business.
                drop(remote.put(*at, &number.to_le_bytes()));
                held.count(before, now_ticks(), &mut course);
                before = now_ticks();
            }
            let until = before + ((before - start) * MEMORY_TIMES).min(limit_ticks / STALL_SHARE);
            for (window, at) in memory.iter().cycle() {
                let _ = window.put(*at, &number.to_le_bytes());
                let after = now_ticks();
                of_memory.count(before, after, &mut course);
                before = after;
                if after > until {
                    break;
                }
            }
        }
    }
    let all = of_links.iter().chain([&of_memory]).map(|held| held.spent_ticks).sum::<u64>().max(1);
    Watched {
        shares: of_links.iter().map(|held| held.spent_ticks as f64 / all as f64).collect(),
        stalls: pairs
            .iter()
            .zip(of_links)
            .map(|(pair, held)| Stalls { pair: arena.nodes_of(*pair), stalls: held.stalls })
            .collect(),
        memory: of_memory.stalls,
        waited_percent: whole.percent(clock),
    }
}

/// Where puts through the pairs go, in their order.
fn links<'a>(arena: &'a Arena, pairs: &[(usize, usize)]) -> Vec<(&'a RemoteSegment, usize)> {
    let of =
        |(from, to): &(usize, usize)| arena.remote(*from, *to).map(|remote| (remote, line_at(*from) + 64));
    pairs.iter().filter_map(of).collect()
}

/// Lines of the nodes' own memory that no peer writes.
fn memory(arena: &Arena) -> Vec<(Window<'_>, usize)> {
    arena.seats.iter().enumerate().map(|(at, seat)| (seat.segment.window(), line_at(at) + 64)).collect()
}

/// The result of a further watch of suspected links.
#[derive(Debug, Default)]
pub(super) struct Confirmed {
    links: Vec<([NodeId; 2], Verdict, String)>,
    pub(super) load: Load,
}

impl Confirmed {
    pub(super) fn of(&self, link: [NodeId; 2]) -> (Verdict, String) {
        let found = self.links.iter().find(|(known, ..)| *known == link);
        found.map_or_else(
            || (Verdict::Inconclusive, "stalls: the link could not be watched again".into()),
            |(_, verdict, problem)| (*verdict, problem.clone()),
        )
    }
}

/// Watches all pairs; returns which of these links stalled again, and more often than chance explains.
pub(super) fn beside_others(
    arena: &Arena,
    clock: &Clock,
    pairs: &[(usize, usize)],
    links: &BTreeSet<[NodeId; 2]>,
    duration: Duration,
    stop: &dyn Fn() -> bool,
) -> Confirmed {
    if links.is_empty() {
        return Confirmed::default();
    }
    let watched = watch(arena, clock, pairs, duration, stop);
    let of_links = of_links(&watched.stalls);
    let judged = links.iter().filter_map(|link| {
        let stalls = of_links.iter().find(|stalls| unordered(stalls.pair) == *link)?;
        let chance = watched.chance_of(*link, stalls) * links.len() as f64;
        Some((*link, verdict(stalls, chance), stalls.describe()))
    });
    Confirmed { links: judged.collect(), load: watched.load() }
}

fn verdict(stalls: &Stalls, chance: f64) -> Verdict {
    match (stalls.is_repeated(), chance < CHANCE) {
        (false, _) => Verdict::Pass,
        (true, true) => Verdict::Fail,
        (true, false) => Verdict::Inconclusive,
    }
}

/// How likely it is that of so many events at least `count` hit what is under way for this share of the time.
fn at_least(events: usize, share: f64, count: usize) -> f64 {
    let (mut below, mut term) = (0.0, (1.0 - share).powf(events as f64));
    for number in 0..count.min(events + 1) {
        below += term;
        term *= (events - number) as f64 / (number + 1) as f64 * share / (1.0 - share);
    }
    (1.0 - below).clamp(0.0, 1.0)
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
    fn chance_is_what_the_share_of_the_time_explains() {
        let close = |a: f64, b: f64| assert!((a - b).abs() < 1e-9, "{a} {b}");
        close(at_least(5, 0.1, 0), 1.0);
        close(at_least(5, 0.1, 5), 1e-5);
        close(at_least(2, 0.5, 1), 0.75);
        close(at_least(3, 0.5, 4), 0.0);
        let regular = stalls(&[(10.0, 5.0), (1010.0, 5.0), (2010.0, 5.0), (3010.0, 5.0)]);
        // Four of four on a link that is under way for a thirteenth of the time; four of forty on the same.
        assert_eq!(verdict(&regular, at_least(4, 1.0 / 13.0, 4)), Verdict::Fail);
        assert_eq!(verdict(&regular, at_least(40, 1.0 / 13.0, 4)), Verdict::Inconclusive);
        assert_eq!(verdict(&stalls(&[(10.0, 5.0)]), 0.0), Verdict::Pass);
    }

    /// A link that stood still twice, on a machine whose host takes the processor away now and then without
    /// saying so.
    #[test]
    fn what_the_machine_does_is_counted_where_it_is_as_long_as_what_hit_the_link() {
        let link = stalls(&[(100.0, 5.0), (1100.0, 4.9)]);
        let interrupts = |lasted_ms: f64| stalls(&vec![(50.0, lasted_ms); 40]).stalls;
        let watched = |memory, share| Watched {
            stalls: vec![link.clone()],
            shares: vec![share],
            memory,
            waited_percent: 0.0,
        };
        let verdict = |memory, share| verdict(&link, watched(memory, share).chance_of(link.pair, &link));
        assert_eq!(verdict(interrupts(1.2), 0.01), Verdict::Fail, "too short to be the same");
        assert_eq!(verdict(interrupts(4.0), 0.01), Verdict::Inconclusive, "two of 42 may be chance");
        assert_eq!(verdict(interrupts(4.0), 0.0005), Verdict::Fail, "two of 42 on so small a share are not");
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
