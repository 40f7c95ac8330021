//! Round trips of interrupts: the responding side, and the timing.

use std::{sync::Arc, time::Duration};

use serde::{Deserialize, Serialize};
use shm::clock::now_ticks;

use crate::{
    baseline::{Shape, settle, wake::SETTLE_NS},
    error::Result,
    patterns::rendezvous::{Client, Order},
    pinned_pair::PinnedPair,
    poll::Poll,
    rivals::Link,
    stats::Samples,
    timer::Timer,
};

pub(super) const WHAT: &str = "intr";
/// Round trips of a reading in which both sides sleep.
const SLEEPING_ROUNDS: u32 = 25;
/// The longest pause before a reply that a server accepts.
pub(super) const PAUSE_NS_MAX: u64 = 10_000_000;
/// More than any reading needs; an order beyond it is a mistake or an attack.
pub(super) const ROUNDS_MAX: u64 = 1 << 32;

/// How both sides wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// Awake: both sides spin until the trigger arrives.
    Spinning,
    /// Asleep: each trigger is sent so long after the wait began that the other side sleeps.
    Sleeping,
}

impl Mode {
    /// Both modes.
    pub const ALL: [Self; 2] = [Self::Spinning, Self::Sleeping];
}

/// The side that replies to each trigger with a trigger.
pub(super) trait Echo<'env> {
    /// Lets the far side reply to this number of triggers, each after a pause, while `near` runs
    /// here. Numbers continue from `base`.
    fn echo(
        &mut self,
        pair: &mut PinnedPair<'env>,
        base: u64,
        rounds: u64,
        pause_ns: u64,
        near: &mut dyn FnMut() -> Result<()>,
    ) -> Result<()>;
}

/// Replies at this end, each time after a pause in which the other side falls asleep too. The pause
/// is subtracted from the round trip, which is exact to one reading of the clock.
pub(super) fn answer(end: &impl Link, base: u64, rounds: u64, pause: u64) -> Result<()> {
    for n in 1..=rounds {
        end.receive(base.wrapping_add(2 * n - 1))?;
        if pause > 0 {
            wait(pause)?;
        }
        end.send(base.wrapping_add(2 * n))?;
    }
    Ok(())
}

/// Spins for this number of ticks.
fn wait(ticks: u64) -> Result<()> {
    let since = now_ticks();
    Poll::Tight.until(WHAT, || now_ticks().saturating_sub(since) >= ticks).map(drop)
}

/// The far thread of this process.
#[derive(Debug)]
pub(super) struct Thread<L>(pub(super) Arc<L>, pub(super) Timer);

impl<'env, L: Link + 'env> Echo<'env> for Thread<L> {
    fn echo(
        &mut self,
        pair: &mut PinnedPair<'env>,
        base: u64,
        rounds: u64,
        pause_ns: u64,
        near: &mut dyn FnMut() -> Result<()>,
    ) -> Result<()> {
        let (far, pause) = (Arc::clone(&self.0), self.1.ticks(pause_ns));
        pair.both(WHAT, near, move || answer(&*far, base, rounds, pause)).map(drop)
    }
}

/// A server in another process.
#[derive(Debug)]
pub(super) struct Process<'a> {
    pub(super) client: &'a mut Client,
    pub(super) mode: Mode,
}

/// The order to reply: mode, rounds, pause.
pub(super) const TASK_ECHO: u64 = 1;

impl<'env> Echo<'env> for Process<'_> {
    fn echo(
        &mut self,
        _pair: &mut PinnedPair<'env>,
        _base: u64,
        rounds: u64,
        pause_ns: u64,
        near: &mut dyn FnMut() -> Result<()>,
    ) -> Result<()> {
        let order = Order::new(TASK_ECHO, [self.mode as u64, rounds, pause_ns]);
        self.client.order(order, near).map(drop)
    }
}

/// One pair of ends, measured in one mode.
pub(super) struct Course<'a, 'env, L> {
    pub(super) near: Arc<L>,
    pub(super) far: Box<dyn Echo<'env> + 'a>,
    mode: Mode,
    shape: Shape,
    base: u64,
    ticks: Vec<u64>,
    /// Every half round trip.
    pub(super) all: Samples,
    /// Round trips.
    pub(super) rounds: u64,
}

impl<'a, 'env, L: Link> Course<'a, 'env, L> {
    pub(super) fn new(
        timer: &Timer,
        pair: &mut PinnedPair<'env>,
        mode: Mode,
        near: Arc<L>,
        far: Box<dyn Echo<'env> + 'a>,
    ) -> Result<Self> {
        let (ticks, all) = (Vec::new(), Samples::new(false)?);
        let mut course = Self { near, far, mode, shape: Shape::trial(), base: 0, ticks, all, rounds: 0 };
        match mode {
            Mode::Spinning => {
                course.run(timer, pair)?;
                let trial_ns = settle(timer, &course.ticks, 1, 1.0, None);
                course.shape = Shape::for_event(timer, trial_ns);
            }
            Mode::Sleeping => course.shape = Shape { warm_up: 2, samples: SLEEPING_ROUNDS, batch: 1 },
        }
        Ok(course)
    }

    /// Round trips that share a sample.
    pub(super) const fn batch(&self) -> u32 {
        self.shape.batch
    }

    fn run(&mut self, timer: &Timer, pair: &mut PinnedPair<'env>) -> Result<()> {
        let shared = pair.cpus[0] == pair.cpus[1];
        let Self { near, far, mode, shape, base, ticks, .. } = self;
        let (from, shape) = (*base, *shape);
        let trip = |n: u64| {
            near.send(from + 2 * n - 1)?;
            near.receive(from + 2 * n)
        };
        let pause = timer.ticks(SETTLE_NS);
        let pause_ns = if *mode == Mode::Sleeping { SETTLE_NS } else { 0 };
        far.echo(pair, from, shape.events(), pause_ns, &mut || match mode {
            Mode::Spinning => shape.time(ticks, trip),
            Mode::Sleeping => {
                ticks.clear();
                for n in 1..=shape.events() {
                    // Until the other side sleeps, and its processor idles; if it needs this very
                    // one, it must be let.
                    if shared {
                        std::thread::sleep(Duration::from_nanos(pause_ns));
                    } else {
                        wait(pause)?;
                    }
                    let start = now_ticks();
                    trip(n)?;
                    ticks.push(now_ticks().saturating_sub(start).saturating_sub(pause));
                }
                Ok(())
            }
        })?;
        self.base += 2 * shape.events();
        self.rounds += shape.events();
        Ok(())
    }

    /// One reading: the median of half the round trip, in ns.
    pub(super) fn half_ns(&mut self, timer: &Timer, pair: &mut PinnedPair<'env>) -> Result<f64> {
        self.run(timer, pair)?;
        Ok(settle(timer, &self.ticks, self.shape.batch, 2.0, Some(&mut self.all)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rivals::wake;

    #[test]
    fn both_modes_count_their_round_trips() {
        let Ok(cpus) = crate::cpus::pair(None, "test") else {
            println!("skipped: needs two processors");
            return;
        };
        let timer = Timer::new().unwrap();
        crate::pinned_pair::on(cpus, |pair| {
            let [near, far] = wake::futex().ends();
            let far = Thread(far, timer);
            let mut course = Course::new(&timer, pair, Mode::Sleeping, near, Box::new(far))?;
            for _ in 0..2 {
                assert!(course.half_ns(&timer, pair)? > 0.0);
            }
            assert_eq!((course.all.len(), course.rounds), (54, 54));
            let [near, far] = wake::event_fd()?.ends();
            let mut course = Course::new(&timer, pair, Mode::Spinning, near, Box::new(Thread(far, timer)))?;
            assert!(course.half_ns(&timer, pair)? > 0.0);
            assert_eq!(course.all.len(), u64::from(course.shape.samples));
            Ok(())
        })
        .unwrap();
    }
}
