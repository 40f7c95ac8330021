//! The near side of `scipp`: times round trips, and checks data outside the timed part.

use std::hint::black_box;

use shm::sync::Ordering;

use super::far::{AtPlace, Far, Order, Task};
use crate::{
    baseline::{
        Shape,
        line::{self, LineProbe, Words},
        settle,
    },
    error::Result,
    patterns::pio::{self, End, Messages},
    poll::Poll,
    stats::Samples,
    timer::Timer,
};

/// The near end.
#[derive(Debug, Clone, Copy)]
pub struct Near<'a> {
    end: End<'a>,
}

/// The way in which readings of one message size are taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pace {
    /// Bytes of a message.
    pub size_bytes: usize,
    /// The division of a reading into samples.
    pub shape: Shape,
    /// The way in which both sides wait: the one that was faster in a trial.
    pub poll: Poll,
}

/// One reading.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Reading {
    /// Median of half the round trip.
    pub half_ns: f64,
    /// Polls of this side that found nothing, of all round trips.
    pub retries: u64,
    /// Round trips.
    pub rounds: u64,
    /// Samples.
    pub samples: u64,
}

impl<'a> Near<'a> {
    /// A near end; the memory must hold the whole layout.
    pub fn new(end: End<'a>) -> Result<Self> {
        end.port(0, pio::MESSAGE_BYTES_MAX)?;
        Ok(Self { end })
    }

    /// The end itself.
    pub const fn end(&self) -> &End<'a> {
        &self.end
    }

    /// The words of a place, as this side maps them.
    pub fn words(&self, place: usize) -> Result<Words<'a>> {
        let (there, back) = self.end.words(place)?;
        Ok(Words { there, back })
    }

    /// A baseline probe on the words of a place.
    pub fn line_probe(&self, timer: &Timer, far: &mut dyn Far, place: usize) -> Result<LineProbe<'a>> {
        LineProbe::new(timer, &mut AtPlace { far, place }, self.words(place)?)
    }

    /// Returns an even number that no word of the place has, and that no word will have before the
    /// numbers wrap around.
    fn base(&self, place: usize) -> Result<u32> {
        let words = self.words(place)?;
        let last = |word: &shm::sync::AtomicU64| (word.load(Ordering::Relaxed) >> 32) as u32;
        let ahead = last(words.there).wrapping_sub(last(words.back)) as i32;
        let newest = if ahead > 0 { last(words.there) } else { last(words.back) };
        Ok((newest.wrapping_add(3)) & !1)
    }

    /// Finds out how to make readings of this size: tries some round trips.
    pub fn pace(&self, timer: &Timer, far: &mut dyn Far, size_bytes: usize) -> Result<Pace> {
        let mut ticks = Vec::new();
        let mut pace = Pace { size_bytes, shape: Shape::trial(), poll: Poll::usual() };
        let trial = self.round_trips(timer, far, 0, pace, &mut ticks, None)?;
        pace.shape = Shape::lasting(timer, 2.0 * trial.half_ns, line::TRIAL_NS);
        let (poll, half_ns) = line::fastest(|poll| {
            let reading = self.round_trips(timer, far, 0, Pace { poll, ..pace }, &mut ticks, None)?;
            Ok(reading.half_ns)
        })?;
        Ok(Pace { size_bytes, shape: Shape::for_event(timer, 2.0 * half_ns), poll })
    }

    /// One reading at a place. Samples (of half round trips) are added to `all`.
    pub fn round_trips(
        &self,
        timer: &Timer,
        far: &mut dyn Far,
        place: usize,
        pace: Pace,
        ticks: &mut Vec<u64>,
        all: Option<&mut Samples>,
    ) -> Result<Reading> {
        let Pace { size_bytes, shape, poll } = pace;
        let port = self.end.port(place, size_bytes)?;
        let base = self.base(place)?;
        let mut retries = 0;
        let order = Order {
            task: Task::Echo,
            poll,
            place,
            size_bytes,
            base: u64::from(base),
            rounds: shape.events(),
        };
        far.with(order, &mut || {
            retries = timed(&port, base, pace, ticks)?;
            Ok(())
        })?;
        let half_ns = settle(timer, ticks, shape.batch, 2.0, all);
        Ok(Reading { half_ns, retries, rounds: shape.events(), samples: u64::from(shape.samples) })
    }

    /// Sends `rounds` messages there and back, each with other bytes, all checked on both sides.
    /// Not timed.
    pub fn check(&self, far: &mut dyn Far, size_bytes: usize, rounds: u32) -> Result<()> {
        for place in [0, pio::PLACES - 1] {
            let port = self.end.port(place, size_bytes)?;
            let base = self.base(place)?;
            let (base_word, poll) = (u64::from(base), Poll::usual());
            let order = Order {
                task: Task::Checked,
                poll,
                place,
                size_bytes,
                base: base_word,
                rounds: u64::from(rounds),
            };
            far.with(order, &mut || checked(&port, base, size_bytes, rounds, poll))?;
        }
        Ok(())
    }
}

/// Times round trips; returns the polls that found nothing.
#[inline(always)]
pub(super) fn timed(port: &impl Messages, base: u32, pace: Pace, ticks: &mut Vec<u64>) -> Result<u64> {
    let Pace { size_bytes, shape, poll } = pace;
    let message = vec![0x5a; size_bytes];
    let mut answer = vec![0; size_bytes];
    let mut retries = 0;
    shape.time(ticks, |n| {
        let n = 2 * n as u32;
        port.send(base.wrapping_add(n - 1), &message)?;
        retries += port.receive(base.wrapping_add(n), &mut answer, poll)?;
        black_box(&answer);
        Ok(())
    })?;
    Ok(retries)
}

/// Round trips with every byte checked.
pub(super) fn checked(
    port: &impl Messages,
    base: u32,
    size_bytes: usize,
    rounds: u32,
    poll: Poll,
) -> Result<()> {
    let (mut message, mut answer) = (vec![0; size_bytes], vec![0; size_bytes]);
    for n in 1..=rounds {
        let (ask, back) = (base.wrapping_add(2 * n - 1), base.wrapping_add(2 * n));
        pio::fill(&mut message, ask);
        port.send(ask, &message)?;
        port.receive(back, &mut answer, poll)?;
        pio::check(&answer, back)?;
    }
    Ok(())
}
