//! `jitter` between two processes: a server that replies, a client that measures.

use shm::window::Window;

use super::{
    Head, Options, Report,
    collect::{answer, near_side, reset},
    measure,
};
use crate::{
    baseline::line::Words,
    env::Env,
    error::{BenchError, Result},
    noise::counters::{Watch, this_thread},
    patterns::{
        attach::path_of,
        rendezvous::{self, Client, Order, ServeOptions, Service, Tool, memory::Owner},
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
fn words(window: Window<'_>) -> Result<Words<'_>> {
    let word = window.atomic_u64(0)?;
    Ok(Words { there: word, back: word })
}

/// Measures with the far end in another process that runs [`serve`] on node `place.far` (which must
/// be given).
pub fn client(options: &Options, progress: &mut dyn Progress) -> Result<Report> {
    let cpus = options.check()?;
    let mut client = Client::meet(&options.place, Tool::Jitter, progress, |_| Ok(0))?;
    let remote = client.memory(SEGMENT_BYTES)?;
    let map = remote.map()?;
    let words = words(map.window()?)?;
    let head = Head {
        env: Env::default(),
        nodes: [client.node.id().get(), client.server.get()],
        cpus: [cpus[0], usize::try_from(client.extra()).unwrap_or(usize::MAX)],
        processes: 2,
        path: path_of(&client.node),
        load_threads: options.load,
        partial: false,
        asked_s: options.seconds,
    };
    let report = measure(options, head, &cpus[..1], progress, |timer, plan, tell| {
        pinned_pair::pinned(cpus[0], || {
            if cpus[0] == cpus[1] {
                poll::share_processor();
            }
            let _watched = client.watch();
            reset([words.there, words.back]);
            let (poll, mut trace) = (Poll::usual(), None);
            let watch = Watch::new(vec![this_thread()], vec![cpus[0]]);
            let order = Order::new(TASK_ANSWER, [number_of(poll), 0, 0]);
            let involuntary = client.order(order, &mut || {
                trace = Some(near_side(timer, &words, poll, &watch, plan, tell)?);
                Ok(())
            })?;
            let trace = trace.ok_or_else(|| BenchError::Usage("jitter: nothing was run".to_owned()))?;
            Ok((trace, Some(involuntary)))
        })
    });
    // The server may end in any case; if that fails too, the first error is returned.
    let stopped = client.stop();
    report.and_then(|report| stopped.map(|()| report))
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

impl Service for Answerer {
    fn follow(&mut self, order: &Order) -> Result<u64> {
        if order.task != TASK_ANSWER {
            return self.0.follow(order);
        }
        let asked = usize::try_from(order.arguments[0]).ok().and_then(|number| Poll::ALL.get(number));
        let (Some(poll), Some(segment)) = (asked, self.0.segment()) else {
            return Err(BenchError::Usage("no such order".to_owned()));
        };
        let watch = Watch::new(vec![this_thread()], Vec::new());
        let before = watch.read();
        answer(words(segment.window())?, *poll)?;
        Ok(watch.read().since(&before).involuntary_total())
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
