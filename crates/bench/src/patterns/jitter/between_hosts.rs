//! `jitter` between hosts: a round trip is a put there and a put back.
//!
//! Memory of another host cannot be mapped, so nothing can be stored to it. Each end puts an 8-byte word into
//! the other end's segment, and spins on the word in its own. What libfabric's own messages of 8 bytes do
//! between the same two processes is measured after the run: the threads that libfabric has for them would be
//! spikes of the run. Causes are looked for on this host alone.

use std::time::{Duration, Instant};

use shm::window::Window;
use tieline::RemoteSegment;

use super::{
    Head, Options, Ran, Report,
    apart::{answer_order, nothing_was_run},
    collect::{near_mean_ns, near_side},
    end::{End, Out},
    measure,
    report::Reference,
    trace::Trace,
};
use crate::{
    error::Result,
    noise::counters::{Watch, this_thread},
    patterns::{
        provider::Provider,
        rendezvous::{Client, mailbox::MAILBOX_BYTES},
        scipp::between_hosts::POLLS,
    },
    pinned_pair, poll,
    poll::Poll,
    progress::Progress,
    stats::Samples,
    timer::Timer,
};

/// The word of a round trip in the reader's segment: behind the mailbox.
const WORD_AT: usize = MAILBOX_BYTES;
/// Bytes behind the mailbox.
pub(crate) const WORD_BYTES: usize = 64;
/// Time of libfabric's own messages: as a share of the run's, and at most.
const REFERENCE_SHARE: f64 = 0.5;
const REFERENCE_MOST: Duration = Duration::from_secs(3);
/// Messages of the first reading of these, and the time of the others: as often a signal is looked for.
const FIRST_ROUNDS: u64 = 20;
const READING_NS: f64 = 20e6;
const ROUNDS: std::ops::RangeInclusive<f64> = 1.0..=10_000.0;

/// The word at the other end.
pub(super) struct Put<'a>(&'a RemoteSegment);

impl Out for Put<'_> {
    fn write(&self, value: u64) -> Result<()> {
        Ok(self.0.put(WORD_AT, &value.to_ne_bytes())?)
    }
}

pub(super) fn end<'a>(mine: Window<'a>, theirs: &'a RemoteSegment) -> Result<End<'a, Put<'a>>> {
    Ok(End { out: Put(theirs), input: mine.atomic_u64(WORD_AT)? })
}

/// Lets the server reply while `near` runs here; also returns how often the server lost its processor.
fn exchange<R>(
    client: &mut Client,
    poll: Poll,
    near: &mut dyn FnMut(&End<'_, Put<'_>>) -> Result<R>,
) -> Result<(R, u64)> {
    let mut got = None;
    let involuntary = client.order_with(answer_order(poll), &mut |mine, theirs| {
        got = Some(near(&end(mine.window(), theirs)?)?);
        Ok(())
    })?;
    Ok((got.ok_or_else(nothing_was_run)?, involuntary))
}

/// Measures with a server on another host.
pub(super) fn report(
    options: &Options,
    head: Head,
    cpus: [usize; 2],
    client: &mut Client,
    progress: &mut dyn Progress,
) -> Result<Report> {
    measure(options, head, &cpus[..1], progress, |timer, plan, tell| {
        pinned_pair::pinned(cpus[0], || {
            if cpus[0] == cpus[1] {
                poll::share_processor();
            }
            let _watched = client.watch();
            let poll = faster(timer, client)?;
            let watch = Watch::new(vec![this_thread()], vec![cpus[0]]);
            let mut near = |end: &End<'_, Put<'_>>| near_side(timer, end, poll, &watch, plan, tell);
            let (trace, involuntary): (Trace, u64) = exchange(client, poll, &mut near)?;
            let length = plan.length.mul_f64(REFERENCE_SHARE).min(REFERENCE_MOST);
            let reference = reference(client, length, &mut || tell(1.0))?;
            Ok(Ran { trace, poll, far_involuntary: Some(involuntary), reference })
        })
    })
}

/// The way of polling with which round trips are shorter on average.
fn faster(timer: &Timer, client: &mut Client) -> Result<Poll> {
    let mut best = (Poll::Yielding, f64::INFINITY);
    for poll in POLLS {
        let (ns, _) = exchange(client, poll, &mut |end| near_mean_ns(timer, end, poll))?;
        if ns < best.1 {
            best = (poll, ns);
        }
    }
    Ok(best.0)
}

/// Round trips of libfabric's own messages, for so long; none where the loops cannot be made.
fn reference(
    client: &mut Client,
    length: Duration,
    stop: &mut dyn FnMut() -> bool,
) -> Result<Option<Reference>> {
    if stop() {
        return Ok(None);
    }
    let mut provider = Provider::meet(client)?;
    let Some(name) = provider.messages_name() else { return Ok(None) };
    let (mut all, mut rounds, since) = (Samples::new(false)?, FIRST_ROUNDS, Instant::now());
    // A loop that has failed is no error: the link itself has not failed.
    while let Some(each_ns) = provider.each_rtt_ns(client, rounds)? {
        each_ns.iter().for_each(|ns| all.record_ns(*ns));
        if stop() || since.elapsed() >= length {
            break;
        }
        let mean_ns = each_ns.iter().sum::<f64>() / rounds as f64;
        rounds = (READING_NS / mean_ns.max(1.0)).clamp(*ROUNDS.start(), *ROUNDS.end()) as u64;
    }
    Ok(all.summary().map(|rtt| Reference { name, rtt }))
}
