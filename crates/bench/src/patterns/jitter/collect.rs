//! Runs `jitter`: round trips of one word, one after the other, each of them kept.

use std::time::Duration;

use shm::{
    clock::{now_ticks, now_ticks_ordered},
    sync::{AtomicU64, Ordering},
};

use super::{
    Tell,
    end::{End, Out},
    trace::{Slice, Trace},
};
use crate::{
    error::Result,
    noise::counters::{Watch, this_thread},
    pinned_pair::PinnedPair,
    poll::Poll,
    rng::Rng,
    stats::order,
    timer::Timer,
};

const WHAT: &str = "jitter";
/// The value that ends the run at the far side.
const STOP: u64 = u64::MAX;
/// The length of a slice; it varies at random, so that reading the counters causes no periodic
/// spikes.
const SLICE_MS: [u64; 2] = [6, 14];
/// The round trips after each reading of the counters that are not stored: caches are cold, and the
/// other side may have slept. No more of them than take this long: those between hosts are longer.
const AGAIN: u64 = 64;
const AGAIN_NS: u64 = 500_000;
/// The round trips that are timed beforehand to estimate the pace, within this time if some are.
const TRIED: usize = 4096;
const TRIED_NS: u64 = 50_000_000;
const TRIED_MIN: usize = 16;

/// The length of the run, and its memory.
#[derive(Debug, Clone, Copy)]
pub(super) struct Plan {
    pub(super) length: Duration,
    pub(super) memory_bytes: usize,
    pub(super) seed: u64,
}

/// Replies to each odd value with the next even one, until the end of the run. Its word must be 0, and
/// is 0 again afterwards.
pub(super) fn answer(end: &End<'_, impl Out>, poll: Poll) -> Result<()> {
    let mut want = 1;
    loop {
        let mut seen = 0;
        poll.until(WHAT, || {
            seen = end.input.load(Ordering::Acquire);
            seen == want || seen == STOP
        })?;
        if seen == STOP {
            end.clear();
            return Ok(());
        }
        end.out.write(want + 1)?;
        want += 2;
    }
}

/// One round trip; `number` is even and becomes the next even one.
#[inline(always)]
fn trip(end: &End<'_, impl Out>, poll: Poll, number: &mut u64) -> Result<()> {
    end.out.write(*number + 1)?;
    *number += 2;
    poll.word(WHAT, end.input, *number).map(drop)
}

/// Runs it. `progress` gets the share that is done, and returns whether to end.
pub(super) fn collect<'env>(
    timer: &Timer,
    pair: &mut PinnedPair<'env>,
    near: End<'env, &'env AtomicU64>,
    far: End<'env, &'env AtomicU64>,
    poll: Poll,
    plan: Plan,
    progress: &mut Tell<'_>,
) -> Result<Trace> {
    let cpus = pair.cpus.to_vec();
    let ((), far_thread) = pair.both(WHAT, || Ok(()), || Ok(this_thread()))?;
    let watch = Watch::new(vec![this_thread(), far_thread], cpus);
    let here = || near_side(timer, &near, poll, &watch, plan, progress);
    let (trace, ()) = pair.both(WHAT, here, move || answer(&far, poll))?;
    Ok(trace)
}

/// Runs only the near side; at its end the far side is stopped, whatever the result.
pub(super) fn near_side(
    timer: &Timer,
    end: &End<'_, impl Out>,
    poll: Poll,
    watch: &Watch,
    plan: Plan,
    progress: &mut Tell<'_>,
) -> Result<Trace> {
    then_stop(end, || run(timer, end, poll, watch, plan, progress))
}

/// The mean time of round trips with the near side alone, in ns. Not the median: a way of polling that
/// delays some round trips a great deal is a bad one.
pub(super) fn near_mean_ns(timer: &Timer, end: &End<'_, impl Out>, poll: Poll) -> Result<f64> {
    then_stop(end, || {
        let (mut number, begun) = (0, now_ticks());
        pace_ns(timer, end, poll, &mut number)?;
        Ok(timer.ns(now_ticks().saturating_sub(begun)) / (number / 2).max(1) as f64)
    })
}

fn then_stop<R>(end: &End<'_, impl Out>, near: impl FnOnce() -> Result<R>) -> Result<R> {
    end.clear();
    let ran = near();
    let stopped = end.out.write(STOP);
    ran.and_then(|ran| stopped.map(|()| ran))
}

fn run(
    timer: &Timer,
    end: &End<'_, impl Out>,
    poll: Poll,
    watch: &Watch,
    plan: Plan,
    progress: &mut Tell<'_>,
) -> Result<Trace> {
    let mut number = 0;
    let pace_ns = pace_ns(timer, end, poll, &mut number)?;
    let mut trace = Trace::new(plan.length.as_nanos() as f64 / pace_ns, plan.memory_bytes)?;
    let mut rng = Rng::new(plan.seed);
    let length = timer.ticks(u64::try_from(plan.length.as_nanos()).unwrap_or(u64::MAX));
    let start = now_ticks();
    let mut before = watch.read();
    while now_ticks().saturating_sub(start) < length && trace.has_room() {
        let slice_ms = SLICE_MS[0] + rng.below((SLICE_MS[1] - SLICE_MS[0]) as usize) as u64;
        again(timer, end, poll, &mut number)?;
        let first = trace.len();
        let begun = now_ticks();
        let until = (begun + timer.ticks(slice_ms * 1_000_000)).min(start.saturating_add(length));
        if trace.every() == 1 {
            each(end, poll, &mut number, begun, until, &mut trace)?;
        } else {
            grouped(end, poll, &mut number, begun, until, &mut trace)?;
        }
        let now = watch.read();
        let counted = now.since(&before);
        let begun = begun.saturating_sub(start);
        trace.slices.push(Slice { start: begun, first, end: trace.len(), counted });
        before = now;
        if progress(begun as f64 / length.max(1) as f64) {
            break;
        }
    }
    Ok(trace)
}

/// Round trips that are not stored.
fn again(timer: &Timer, end: &End<'_, impl Out>, poll: Poll, number: &mut u64) -> Result<()> {
    let until = now_ticks() + timer.ticks(AGAIN_NS);
    for _ in 0..AGAIN {
        trip(end, poll, number)?;
        if now_ticks() > until {
            break;
        }
    }
    Ok(())
}

fn pace_ns(timer: &Timer, end: &End<'_, impl Out>, poll: Poll, number: &mut u64) -> Result<f64> {
    let mut ns = Vec::with_capacity(TRIED);
    let until = now_ticks() + timer.ticks(TRIED_NS);
    while ns.len() < TRIED && (ns.len() < TRIED_MIN || now_ticks() < until) {
        let begun = now_ticks();
        trip(end, poll, number)?;
        ns.push(timer.ns(now_ticks().saturating_sub(begun)));
    }
    Ok(order::median_of_scratch(&mut ns).unwrap_or(1000.0).max(1.0))
}

/// Every round trip has an entry.
fn each(
    end: &End<'_, impl Out>,
    poll: Poll,
    number: &mut u64,
    begun: u64,
    until: u64,
    trace: &mut Trace,
) -> Result<()> {
    let mut last = begun;
    while last < until && trace.has_room() {
        trip(end, poll, number)?;
        // Ordered: otherwise the processor could read its counter before the reply has arrived, by
        // speculation.
        let now = now_ticks_ordered();
        let span = now.saturating_sub(last);
        trace.push(span, span);
        last = now;
    }
    Ok(())
}

/// Several share one.
fn grouped(
    end: &End<'_, impl Out>,
    poll: Poll,
    number: &mut u64,
    begun: u64,
    until: u64,
    trace: &mut Trace,
) -> Result<()> {
    let mut last = begun;
    while last < until && trace.has_room() {
        let (from, mut worst) = (last, 0);
        for _ in 0..trace.every() {
            trip(end, poll, number)?;
            let now = now_ticks_ordered();
            worst = worst.max(now.saturating_sub(last));
            last = now;
        }
        trace.push(last.saturating_sub(from), worst);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::baseline::line::Lines;

    #[test]
    fn every_round_trip_of_a_short_run_is_kept() {
        let Ok(cpus) = crate::cpus::pair(None, "test") else {
            println!("skipped: needs two processors");
            return;
        };
        let timer = Timer::new().unwrap();
        let run = |length_ms: u64, memory_bytes| {
            let lines = Lines::new();
            let plan = Plan { length: Duration::from_millis(length_ms), memory_bytes, seed: 1 };
            crate::pinned_pair::on(cpus, |pair| {
                let word = lines.one().there;
                let end = End { out: word, input: word };
                collect(&timer, pair, end, end, Poll::usual(), plan, &mut |_| false)
            })
            .unwrap()
        };
        for memory_bytes in [64 << 20, 1024] {
            // A busy machine may let neither side run for longer than a short run is.
            let mut lengths_ms = [60, 600, 6_000].into_iter();
            let trace = lengths_ms.find_map(|ms| Some(run(ms, memory_bytes)).filter(|it| !it.is_empty()));
            let trace = trace.expect("no round trip within seconds");
            assert!(trace.memory_bytes() <= memory_bytes);
            assert_eq!(trace.every() == 1, memory_bytes > 1024);
            assert_eq!(trace.slices.last().unwrap().end, trace.len());
            // Slices follow each other in time and in memory.
            for pair in trace.slices.windows(2) {
                assert_eq!(pair[0].end, pair[1].first);
                let span: u64 = trace.entries(&pair[0]).map(|entry| entry.span).sum();
                assert!(pair[0].start + span <= pair[1].start);
            }
        }
    }
}
