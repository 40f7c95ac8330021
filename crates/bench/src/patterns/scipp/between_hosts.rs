//! `scipp` between hosts: messages are puts, which arrive in the receiver's own memory.
//!
//! Memory of another host cannot be mapped, so nothing can be stored to it. A message is a `put` of its bytes
//! and a `put` of the 8-byte word that carries its number, up to 4 bytes that word alone; puts of one thread
//! become visible in their order. The receiver spins on the word in its own memory, as within a host. The
//! baseline is what libfabric's own messages of 8 bytes take between the same two processes.

use shm::{sync::AtomicU64, window::Window};
use tieline::RemoteSegment;

use super::{
    Mechanism, Options, Report, ServeOptions,
    far::{self, ROUNDS_MAX, Task, poll_word},
    near::{self, Pace, Reading},
    rows::{Ends, Ran, report, rows},
};
use crate::{
    baseline::{BLOCK_NS, Shape, settle},
    error::{BenchError, Result},
    patterns::{
        pio::{self, MESSAGE_BYTES_MAX, Messages, Placement, WORD_BYTES_MAX},
        provider::Provider,
        rendezvous::{self, Client, Order, Service, Tool, mailbox::MAILBOX_BYTES},
    },
    pinned_pair,
    poll::Poll,
    progress::Progress,
    stats::{Samples, order},
    timer::Timer,
};

/// The word of a message, and its bytes, in the receiver's segment: behind the mailbox.
const WORD_AT: usize = MAILBOX_BYTES;
const BYTES_AT: usize = MAILBOX_BYTES + 64;
/// Bytes behind the mailbox.
pub(crate) const MESSAGES_BYTES: usize = 64 + MESSAGE_BYTES_MAX;
/// Orders: reply, or reply and check every byte. Arguments: size and way of waiting, base, rounds.
const TASK_ECHO: u64 = 1;
const TASK_CHECKED: u64 = 2;
/// Spinning without a pause is not tried: libfabric's thread may need this very processor.
pub(crate) const POLLS: [Poll; 2] = [Poll::Paused, Poll::Yielding];
const TRIALS: usize = 3;
/// Round trips of a reading of the baseline.
const BASELINE_ROUNDS: std::ops::RangeInclusive<f64> = 10.0..=1000.0;

/// One side's messages of one size.
struct PutPort<'a> {
    out: &'a RemoteSegment,
    input: Window<'a>,
    word: &'a AtomicU64,
    size_bytes: usize,
}

impl<'a> PutPort<'a> {
    fn new(out: &'a RemoteSegment, input: Window<'a>, size_bytes: usize) -> Result<Self> {
        if size_bytes > MESSAGE_BYTES_MAX {
            let text = format!("a message of {size_bytes} bytes: scipp sends at most {MESSAGE_BYTES_MAX}");
            return Err(BenchError::Usage(text));
        }
        Ok(Self { out, input, word: input.atomic_u64(WORD_AT)?, size_bytes })
    }
}

impl Messages for PutPort<'_> {
    fn send(&self, number: u32, message: &[u8]) -> Result<()> {
        let mut word = u64::from(number) << 32;
        if self.size_bytes <= WORD_BYTES_MAX {
            word |= u64::from(pio::in_word(message));
        } else {
            self.out.put(BYTES_AT, message)?;
        }
        Ok(self.out.put(WORD_AT, &word.to_ne_bytes())?)
    }

    fn receive(&self, number: u32, into: &mut [u8], poll: Poll) -> Result<u64> {
        let (polls, word) = pio::arrival(self.word, number, poll)?;
        if self.size_bytes <= WORD_BYTES_MAX {
            pio::out_of_word(word as u32, into);
        } else {
            self.input.get(BYTES_AT, into)?;
        }
        Ok(polls)
    }
}

/// The two ends, as the client drives them.
struct BetweenHosts<'c> {
    client: &'c mut Client,
    provider: Provider,
    /// Number of the last message.
    base: u32,
    half_ns: f64,
}

impl BetweenHosts<'_> {
    /// Lets the server reply while `near` runs here with the port and the number of the last message.
    fn exchange<R>(
        &mut self,
        task: u64,
        pace: Pace,
        rounds: u64,
        near: impl Fn(&PutPort<'_>, u32) -> Result<R>,
    ) -> Result<R> {
        let base = self.base;
        let words = [pace.size_bytes as u64 | poll_word(pace.poll) << 32, u64::from(base), rounds];
        self.base = base.wrapping_add(2 * rounds as u32);
        let mut got = None;
        self.client.order_with(Order::new(task, words), &mut |mine, theirs| {
            got = Some(near(&PutPort::new(theirs, mine.window(), pace.size_bytes)?, base)?);
            Ok(())
        })?;
        got.ok_or_else(|| BenchError::Usage("scipp: nothing was run".to_owned()))
    }

    fn read(&mut self, timer: &Timer, pace: Pace, ticks: &mut Vec<u64>) -> Result<Reading> {
        let shared = std::cell::RefCell::new(std::mem::take(ticks));
        let retries = self.exchange(TASK_ECHO, pace, pace.shape.events(), |port, base| {
            near::timed(port, base, pace, &mut shared.borrow_mut())
        })?;
        *ticks = shared.into_inner();
        let half_ns = settle(timer, ticks, pace.shape.batch, 2.0, None);
        let Shape { samples, .. } = pace.shape;
        Ok(Reading { half_ns, retries, rounds: pace.shape.events(), samples: u64::from(samples) })
    }
}

impl Ends for BetweenHosts<'_> {
    fn check(&mut self, size_bytes: usize, rounds: u32) -> Result<()> {
        let pace = Pace { size_bytes, shape: Shape::trial(), poll: Poll::Yielding };
        // As often as within a host, where there are two places.
        for _ in 0..2 {
            self.exchange(TASK_CHECKED, pace, u64::from(rounds), |port, base| {
                near::checked(port, base, size_bytes, rounds, pace.poll)
            })?;
        }
        Ok(())
    }

    fn pace(&mut self, timer: &Timer, size_bytes: usize) -> Result<Pace> {
        let (mut ticks, mut best) = (Vec::new(), (Poll::Yielding, f64::INFINITY));
        for poll in POLLS {
            let mut readings = Vec::with_capacity(TRIALS);
            for _ in 0..TRIALS {
                let pace = Pace { size_bytes, shape: Shape::trial(), poll };
                readings.push(self.read(timer, pace, &mut ticks)?.half_ns);
            }
            let half_ns = order::median(&readings).unwrap_or(f64::INFINITY);
            if half_ns < best.1 {
                best = (poll, half_ns);
            }
        }
        let (poll, half_ns) = best;
        self.half_ns = half_ns.max(1.0);
        Ok(Pace { size_bytes, shape: Shape::for_event(timer, 2.0 * half_ns), poll })
    }

    fn baseline_ns(&mut self, _timer: &Timer, _place: usize) -> Result<Option<f64>> {
        let fit = BLOCK_NS / (2.0 * self.half_ns);
        let rounds = fit.clamp(*BASELINE_ROUNDS.start(), *BASELINE_ROUNDS.end());
        self.provider.half_rtt_ns(self.client, rounds as u64)
    }

    fn round_trips(
        &mut self,
        timer: &Timer,
        _place: usize,
        pace: Pace,
        ticks: &mut Vec<u64>,
        all: &mut Samples,
    ) -> Result<Reading> {
        let reading = self.read(timer, pace, ticks)?;
        settle(timer, ticks, pace.shape.batch, 2.0, Some(all));
        Ok(reading)
    }
}

/// Measures with a server on another host.
pub(super) fn client(options: &Options, cpu: usize, progress: &mut dyn Progress) -> Result<Report> {
    let mut client = Client::meet(&options.place, Tool::Scipp, progress, |_| Ok(0))?;
    let ran = Ran {
        nodes: [client.node.id().get(), client.server.get()],
        cpus: vec![cpu],
        path: client.path(),
        mechanism: Mechanism::Put,
        baseline: "none".to_owned(),
        // Messages lie in memory of the end that reads them.
        placement: Placement::Own,
    };
    let mut baseline = None;
    let measured = report(options, ran, |timer| {
        pinned_pair::pinned(cpu, || {
            let _watched = client.watch();
            let provider = Provider::meet(&mut client)?;
            baseline = provider.messages_name();
            let mut ends = BetweenHosts { client: &mut client, provider, base: 0, half_ns: 1.0 };
            rows(options, timer, &mut ends, progress)
        })
    });
    // The server may end in any case; if that fails too, the first error is returned.
    let stopped = client.stop();
    let mut report = measured.and_then(|report| stopped.map(|()| report))?;
    report.baseline = baseline.unwrap_or(report.baseline);
    Ok(report)
}

/// Serves a client on another host until it is done or gone.
pub(super) fn serve(options: &ServeOptions) -> Result<()> {
    rendezvous::serve(options, Tool::Scipp, |_| Ok(0), |_, _| Ok(Answerer))
}

/// The server's part.
struct Answerer;

impl Service for Answerer {
    fn follow(&mut self, _order: &Order) -> Result<u64> {
        Err(BenchError::Usage("no such order".to_owned()))
    }

    fn follow_between_hosts(
        &mut self,
        order: &Order,
        mine: Window<'_>,
        theirs: &RemoteSegment,
    ) -> Result<u64> {
        let no_order = || BenchError::Usage("no such order".to_owned());
        let [how, base, rounds] = order.arguments;
        let task = match order.task {
            TASK_ECHO => Task::Echo,
            TASK_CHECKED => Task::Checked,
            _ => return Err(no_order()),
        };
        let poll = POLLS.into_iter().find(|poll| poll_word(*poll) == how >> 32).ok_or_else(no_order)?;
        if rounds >= ROUNDS_MAX {
            return Err(no_order());
        }
        let size_bytes = (how & 0xffff_ffff) as usize;
        let port = PutPort::new(theirs, mine, size_bytes)?;
        far::reply(&port, &far::Order { task, poll, place: 0, size_bytes, base, rounds })?;
        Ok(0)
    }
}
