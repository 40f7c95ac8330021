//! `jitter` between two processes: a server that replies, a client that measures.

use shm::{sync::AtomicU64, window::Window};
use tieline::RemoteSegment;

use super::{
    Head, Options, Ran, Report, between_hosts,
    collect::{answer, near_side},
    end::{End, Out},
    measure,
};
use crate::{
    env::Env,
    error::{BenchError, Result},
    noise::counters::{Watch, this_thread},
    patterns::{
        rendezvous::{self, Client, Order, ServeOptions, Service, Tool, memory::Owner},
        scipp::Mechanism,
    },
    pinned_pair,
    poll::{self, Poll},
    progress::Progress,
};

/// Bytes of the server's segment: one word of it is used.
const SEGMENT_BYTES: usize = 4096;
/// The order to reply until the end of the run, with the way of polling.
const TASK_ANSWER: u64 = 3;

/// Both directions in one word.
fn end(window: Window<'_>) -> Result<End<'_, &AtomicU64>> {
    let word = window.atomic_u64(0)?;
    Ok(End { out: word, input: word })
}

/// The order that makes the server reply.
pub(super) fn answer_order(poll: Poll) -> Order {
    Order::new(TASK_ANSWER, [number_of(poll), 0, 0])
}

/// Measures with the far end in another process that runs [`serve`] on node `place.far` (which must
/// be given).
pub fn client(options: &Options, progress: &mut dyn Progress) -> Result<Report> {
    let cpus = options.check()?;
    let mut client = Client::meet(&options.place, Tool::Jitter, progress, |_| Ok(0))?;
    let is_between_hosts = client.is_between_hosts();
    let head = Head {
        env: Env::default(),
        nodes: [client.node.id().get(), client.server.get()],
        cpus: [cpus[0], usize::try_from(client.extra()).unwrap_or(usize::MAX)],
        processes: 2,
        path: client.path(),
        mechanism: if is_between_hosts { Mechanism::Put } else { Mechanism::Stores },
        load_threads: options.load,
        partial: false,
        asked_s: options.seconds,
    };
    let report = if is_between_hosts {
        between_hosts::report(options, head, cpus, &mut client, progress)
    } else {
        within_host(options, head, cpus, &mut client, progress)
    };
    // The server may end in any case; if that fails too, the first error is returned.
    let stopped = client.stop();
    report.and_then(|report| stopped.map(|()| report))
}

fn within_host(
    options: &Options,
    head: Head,
    cpus: [usize; 2],
    client: &mut Client,
    progress: &mut dyn Progress,
) -> Result<Report> {
    let remote = client.memory(SEGMENT_BYTES)?;
    let map = remote.map()?;
    let end = end(map.window()?)?;
    measure(options, head, &cpus[..1], progress, |timer, plan, tell| {
        pinned_pair::pinned(cpus[0], || {
            if cpus[0] == cpus[1] {
                poll::share_processor();
            }
            let _watched = client.watch();
            let (poll, mut trace) = (Poll::usual(), None);
            let watch = Watch::new(vec![this_thread()], vec![cpus[0]]);
            let involuntary = client.order(answer_order(poll), &mut || {
                trace = Some(near_side(timer, &end, poll, &watch, plan, tell)?);
                Ok(())
            })?;
            let trace = trace.ok_or_else(nothing_was_run)?;
            Ok(Ran { trace, poll, far_involuntary: Some(involuntary), reference: None })
        })
    })
}

pub(super) fn nothing_was_run() -> BenchError {
    BenchError::Usage("jitter: nothing was run".to_owned())
}

/// Serves one [`client`] until it is done or gone.
pub fn serve(options: &ServeOptions) -> Result<()> {
    let cpu = rendezvous::cpu_of(options.cpu, false)? as u64;
    rendezvous::serve(
        options,
        Tool::Jitter,
        |_| Ok(cpu),
        |node, _| Ok(Answerer(Owner::new(Tool::Jitter, node, options.most_bytes))),
    )
}

fn number_of(poll: Poll) -> u64 {
    Poll::ALL.into_iter().position(|known| known == poll).unwrap_or(0) as u64
}

/// The server's part.
struct Answerer(Owner);

/// Replies with one end until the end of a run, and returns how often this thread lost its processor.
fn replied(order: &Order, end: &End<'_, impl Out>) -> Result<u64> {
    let asked = usize::try_from(order.arguments[0]).ok().and_then(|number| Poll::ALL.get(number));
    let poll = asked.ok_or_else(no_such_order)?;
    let watch = Watch::new(vec![this_thread()], Vec::new());
    let before = watch.read();
    answer(end, *poll)?;
    Ok(watch.read().since(&before).involuntary_total())
}

fn no_such_order() -> BenchError {
    BenchError::Usage("no such order".to_owned())
}

impl Service for Answerer {
    fn follow(&mut self, order: &Order) -> Result<u64> {
        if order.task != TASK_ANSWER {
            return self.0.follow(order);
        }
        let segment = self.0.segment().ok_or_else(no_such_order)?;
        replied(order, &end(segment.window())?)
    }

    fn follow_between_hosts(
        &mut self,
        order: &Order,
        mine: Window<'_>,
        theirs: &RemoteSegment,
    ) -> Result<u64> {
        if order.task != TASK_ANSWER {
            return Err(no_such_order());
        }
        replied(order, &between_hosts::end(mine, theirs)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_way_of_polling_has_its_number() {
        for poll in Poll::ALL {
            assert_eq!(Poll::ALL[number_of(poll) as usize], poll);
        }
    }
}
