//! Interrupts one way: between two sides that spin, and to one that sleeps.

use std::{sync::Arc, time::Duration};

use shm::{layout::CacheLine, sync::Ordering};
use tieline::{Interrupt, InterruptOptions, Node, RemoteInterrupt};

use super::attach::CONNECT_TIMEOUT;
use crate::{
    baseline::{
        Shape,
        line::{FarThread, LineProbe, Lines},
        settle,
        wake::{WakeProbe, one_way_ns},
    },
    error::{BenchError, Result},
    pinned_pair::PinnedPair,
    run::Sides,
    stats::{Samples, order},
    timer::Timer,
};

const WHAT: &str = "interrupt";
/// As long as the watchdog of spinning waits.
const TIMEOUT: Option<Duration> = Some(crate::poll::ANSWER_TIMEOUT);

/// An interrupt and a side that can trigger it. Usually they live in two processes; here in two
/// threads, so each gets cache lines of its own, or the sides would disturb each other by
/// neighbourhood alone (measured: 200 ns).
#[derive(Debug)]
pub struct Wire {
    interrupt: CacheLine<Interrupt>,
    trigger: CacheLine<RemoteInterrupt>,
}

impl Wire {
    /// An interrupt of `owner` that `user` is connected to.
    ///
    /// Made by a thread that may use several processors: one made on a pinned thread would never
    /// spin.
    pub fn new(owner: &Node, user: &Node) -> Result<Self> {
        let interrupt = owner.create_interrupt(&InterruptOptions::default())?;
        let trigger = user.connect_interrupt(owner.id(), interrupt.number(), CONNECT_TIMEOUT)?;
        Ok(Self { interrupt: CacheLine(interrupt), trigger: CacheLine(trigger) })
    }

    /// Waits for one trigger, which must be the only one.
    fn wait(&self) -> Result<()> {
        match self.interrupt.0.wait(TIMEOUT)? {
            1 => Ok(()),
            count => Err(BenchError::OtherEnd {
                what: WHAT,
                reason: format!("{count} triggers came instead of 1"),
            }),
        }
    }
}

/// Both directions between two nodes.
#[derive(Debug)]
pub struct Wires {
    there: Wire,
    back: Wire,
}

impl Wires {
    /// An interrupt at each node.
    pub fn new([near, far]: &[Node; 2]) -> Result<Arc<Self>> {
        Ok(Arc::new(Self { there: Wire::new(far, near)?, back: Wire::new(near, far)? }))
    }
}

/// Pairs of lines for the baseline: successive blocks use successive ones.
pub const BASELINE_LINES: usize = 16;
/// Blocks between two readings of what stands beside.
const BESIDE_EVERY: usize = 5;

/// Two spinning sides against the one-line baseline.
pub struct SpinningSides<'a, 'env> {
    timer: &'a Timer,
    pair: &'a mut PinnedPair<'env>,
    wires: Arc<Wires>,
    lines: &'env [Arc<Lines>],
    line: LineProbe<'env>,
    at: usize,
    shape: Shape,
    ticks: Vec<u64>,
    /// Every one-way time.
    pub all: Samples,
    /// Readings of [`Self::counted_ns`].
    counted_ns: Vec<f64>,
}

impl std::fmt::Debug for SpinningSides<'_, '_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SpinningSides").field("shape", &self.shape).finish_non_exhaustive()
    }
}

impl<'a, 'env> SpinningSides<'a, 'env> {
    /// Over these wires; `lines` must not be empty.
    pub fn new(
        timer: &'a Timer,
        pair: &'a mut PinnedPair<'env>,
        wires: Arc<Wires>,
        lines: &'env [Arc<Lines>],
    ) -> Result<Self> {
        let Some(first) = lines.first() else {
            return Err(BenchError::Usage("no line for the baseline".to_owned()));
        };
        let line =
            LineProbe::new(timer, &mut FarThread { pair: &mut *pair, words: first.one() }, first.one())?;
        let (ticks, all) = (Vec::new(), Samples::new(false)?);
        let counted_ns = Vec::new();
        let mut sides =
            Self { timer, pair, wires, lines, line, at: 0, shape: Shape::trial(), ticks, all, counted_ns };
        let trial_ns = sides.half_round_trip_ns(false)?;
        sides.shape = Shape::for_event(timer, 2.0 * trial_ns);
        Ok(sides)
    }

    /// How a reading is divided.
    pub const fn shape(&self) -> Shape {
        self.shape
    }

    fn half_round_trip_ns(&mut self, keep: bool) -> Result<f64> {
        let (shape, near, far) = (self.shape, Arc::clone(&self.wires), Arc::clone(&self.wires));
        let ticks = &mut self.ticks;
        let near = || {
            shape.time(ticks, |_| {
                near.there.trigger.0.trigger()?;
                near.back.wait()
            })
        };
        let far = move || {
            for _ in 0..shape.events() {
                far.there.wait()?;
                far.back.trigger.0.trigger()?;
            }
            Ok(())
        };
        self.pair.both(WHAT, near, far)?;
        Ok(settle(self.timer, &self.ticks, shape.batch, 2.0, keep.then_some(&mut self.all)))
    }

    /// Half a round trip of bare loops that do what triggers cannot do without: each end raises a count of
    /// the other end by an atomic addition, as there may be several that trigger, in a line of its own, as
    /// only who is connected to an interrupt may write there. In ns; the median of the readings so far.
    pub fn counted_ns(&self) -> Option<f64> {
        order::median(&self.counted_ns)
    }

    fn read_counted(&mut self) -> Result<()> {
        let (words, poll, shape) = (self.lines[self.at].two(), self.line.poll(), self.shape);
        let (there, back) = (words.there.load(Ordering::Relaxed), words.back.load(Ordering::Relaxed));
        let ticks = &mut self.ticks;
        let near = || {
            shape.time(ticks, |n| {
                words.there.fetch_add(1, Ordering::SeqCst);
                poll.word(WHAT, words.back, back.wrapping_add(n)).map(drop)
            })
        };
        let far = move || {
            for n in 1..=shape.events() {
                poll.word(WHAT, words.there, there.wrapping_add(n))?;
                words.back.fetch_add(1, Ordering::SeqCst);
            }
            Ok(())
        };
        self.pair.both(WHAT, near, far)?;
        self.counted_ns.push(settle(self.timer, &self.ticks, shape.batch, 2.0, None));
        Ok(())
    }
}

impl Sides for SpinningSides<'_, '_> {
    fn next_block(&mut self, number: usize) -> Result<()> {
        self.at = number % self.lines.len();
        self.line.move_to(self.lines[self.at].one());
        if number.is_multiple_of(BESIDE_EVERY) { self.read_counted() } else { Ok(()) }
    }

    fn ours(&mut self) -> Result<f64> {
        self.half_round_trip_ns(true)
    }

    fn reference(&mut self) -> Result<f64> {
        let mut far = FarThread { pair: &mut *self.pair, words: self.lines[self.at].one() };
        self.line.half_round_trip_ns(self.timer, &mut far, None)
    }
}

/// A sleeping side against the bare futex.
pub struct SleepingSides<'a, 'env> {
    timer: &'a Timer,
    pair: &'a mut PinnedPair<'env>,
    wires: Arc<Wires>,
    baseline: WakeProbe,
    /// Every one-way time.
    pub all: Samples,
}

impl std::fmt::Debug for SleepingSides<'_, '_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SleepingSides").field("baseline", &self.baseline).finish_non_exhaustive()
    }
}

impl<'a, 'env> SleepingSides<'a, 'env> {
    /// Creates the two sides over these wires.
    pub fn new(timer: &'a Timer, pair: &'a mut PinnedPair<'env>, wires: Arc<Wires>) -> Result<Self> {
        Ok(Self { timer, pair, wires, baseline: WakeProbe::new(), all: Samples::new(false)? })
    }
}

impl Sides for SleepingSides<'_, '_> {
    fn ours(&mut self) -> Result<f64> {
        let (near, far) = (Arc::clone(&self.wires), Arc::clone(&self.wires));
        let ring = move |_| Ok(near.there.trigger.0.trigger()?);
        let sleep = move |_| far.there.wait();
        one_way_ns(self.timer, self.pair, ring, sleep, Some(&mut self.all))
    }

    fn reference(&mut self) -> Result<f64> {
        self.baseline.one_way_ns(self.timer, self.pair, None)
    }
}
