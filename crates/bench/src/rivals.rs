//! Comparison transports (rivals): the kernel's transports and a futex, measured with ours in
//! alternating blocks of one run.
//!
//! Every transport is a pair of [`Link`] ends. A small message is sent to the far end and back;
//! half a round trip is the figure. Large messages are sent to the far end, as many as take
//! milliseconds, and the receiver reports once that it has all of them. [`summary`] measures all
//! transports and makes the table of one-way times and bandwidths.

pub mod apart;
mod between_hosts;
mod carried;
pub mod kernel;
pub mod load;
pub mod ours;
mod own_calls;
pub mod placement;
mod puts;
mod report;
pub mod summary;
mod tcp_between_hosts;
pub mod wake;

use std::sync::Arc;

pub use carried::Carried;
pub use report::{LeftOut, Report, Row, SizeRow};

use crate::{
    baseline::{Shape, settle},
    error::Result,
    pinned_pair::PinnedPair,
    stats::Samples,
    timer::Timer,
};

/// Bytes of a small message.
pub const SMALL_BYTES: usize = 4;
/// Bytes of a large message.
pub const LARGE_BYTES: usize = 1 << 20;
/// Large messages of a reading.
const LARGE_MESSAGES: u64 = 8;
/// The time of a reading of small messages.
const READING_NS: f64 = 3_000_000.0;

/// One end of a transport. Messages are numbered from 1 in each direction; ends that cannot carry
/// the number count for themselves.
pub trait Link: Send + Sync {
    /// Sends a small message.
    fn send(&self, number: u64) -> Result<()>;
    /// Waits for it.
    fn receive(&self, number: u64) -> Result<()>;
    /// Whether it carries large messages.
    fn carries_blocks(&self) -> bool {
        false
    }
    /// Sends a large message.
    fn send_block(&self, _number: u64, _block: &[u8]) -> Result<()> {
        Ok(())
    }
    /// Waits until a large message is in memory of the receiving side.
    fn receive_block(&self, _number: u64, _into: &mut [u8]) -> Result<()> {
        Ok(())
    }
    /// Bytes both ways that the kernel has carried, if it counts them.
    fn kernel_bytes(&self) -> Option<u64> {
        None
    }
}

/// Anything whose small messages and blocks can be timed.
pub trait Transport<'env> {
    /// The name in reports.
    fn name(&self) -> &'static str;
    /// Takes one reading: the median of half the round trip of a small message, in ns. Every sample
    /// is added to `all`.
    fn half_round_trip_ns(
        &mut self,
        timer: &Timer,
        pair: &mut PinnedPair<'env>,
        all: Option<&mut Samples>,
    ) -> Result<f64>;
    /// One reading: 10⁹ bytes a second of large messages; `None` if it carries none.
    fn bandwidth_gb_s(&mut self, timer: &Timer, pair: &mut PinnedPair<'env>) -> Result<Option<f64>>;
    /// The ticks of this number of round trips of a message of some size each way; `None` if it
    /// does not carry such messages.
    fn sized(&mut self, _duo: &mut PinnedPair<'env>, _size_bytes: usize, _rounds: u64) -> Result<Vec<u64>> {
        Ok(Vec::new())
    }
    /// Round trips of all readings so far.
    fn rounds(&self) -> u64;
    /// The bytes of its messages that the kernel carried so far, if the kernel counts them.
    fn carried(&self) -> Option<Carried> {
        None
    }
}

/// The bytes of a reading of large messages, both directions: one message before the timed ones,
/// and two small replies.
const READING_BYTES: u64 = (LARGE_MESSAGES + 1) * LARGE_BYTES as u64 + 2 * SMALL_BYTES as u64;

/// The bytes of this number of messages of some size, both directions.
fn there_and_back(rounds: u64, size_bytes: usize) -> u64 {
    2 * rounds * size_bytes as u64
}

/// The near side of the round trips of a shape; leaves the ticks of its samples.
fn near_echo(near: &impl Link, shape: Shape, base: u64, ticks: &mut Vec<u64>) -> Result<()> {
    shape.time(ticks, |n| {
        near.send(base + 2 * n - 1)?;
        near.receive(base + 2 * n)
    })
}

/// The far side of this number of round trips.
fn far_echo(far: &(impl Link + ?Sized), base: u64, events: u64) -> Result<()> {
    for n in 1..=events {
        far.receive(base.wrapping_add(2 * n - 1))?;
        far.send(base.wrapping_add(2 * n))?;
    }
    Ok(())
}

/// The near side of a reading of large messages: ticks from the first timed message until the far
/// side has the last. One message is sent before, untimed, so that both sides are awake.
fn near_blocks(near: &impl Link, base: u64, number: u64, block: &[u8]) -> Result<u64> {
    let (ready, ack) = (number + 2, number + 4);
    near.send_block(base + 1, block)?;
    near.receive(ready)?;
    let start = shm::clock::now_ticks();
    for n in 2..=LARGE_MESSAGES + 1 {
        near.send_block(base + n, block)?;
    }
    near.receive(ack)?;
    Ok(shm::clock::now_ticks().saturating_sub(start))
}

/// The far side of it.
fn far_blocks(far: &(impl Link + ?Sized), base: u64, number: u64, into: &mut [u8]) -> Result<()> {
    let (ready, ack) = (number + 2, number + 4);
    far.receive_block(base + 1, into)?;
    far.send(ready)?;
    for n in 2..=LARGE_MESSAGES + 1 {
        far.receive_block(base + n, into)?;
    }
    far.send(ack)
}

/// The near side of round trips of messages of some size; the ticks of each.
fn near_sized(near: &impl Link, message: &mut [u8], rounds: u64) -> Result<Vec<u64>> {
    let mut ticks = Vec::with_capacity(rounds as usize);
    for n in 1..=rounds {
        let start = shm::clock::now_ticks();
        near.send_block(n, message)?;
        near.receive_block(n, message)?;
        ticks.push(shm::clock::now_ticks().saturating_sub(start));
    }
    Ok(ticks)
}

/// The far side of it.
fn far_sized(far: &(impl Link + ?Sized), message: &mut [u8], rounds: u64) -> Result<()> {
    for n in 1..=rounds {
        far.receive_block(n, message)?;
        far.send_block(n, message)?;
    }
    Ok(())
}

/// Two ends that belong together.
pub struct Pair<L> {
    name: &'static str,
    near: Arc<L>,
    far: Arc<L>,
    shape: Option<Shape>,
    ticks: Vec<u64>,
    /// Last numbers used.
    number: u64,
    block_number: u64,
    block: Vec<u8>,
    rounds: u64,
    /// Bytes of all messages, both ways.
    bytes: u64,
}

impl<L> std::fmt::Debug for Pair<L> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pair").field("name", &self.name).finish_non_exhaustive()
    }
}

impl<L: Link> Pair<L> {
    /// A transport of these ends.
    pub fn new(name: &'static str, near: L, far: L) -> Self {
        Self {
            name,
            near: Arc::new(near),
            far: Arc::new(far),
            shape: None,
            ticks: Vec::new(),
            number: 0,
            block_number: 0,
            block: Vec::new(),
            rounds: 0,
            bytes: 0,
        }
    }
}

impl<L> Pair<L> {
    /// Its ends, near and far.
    pub fn ends(&self) -> [Arc<L>; 2] {
        [Arc::clone(&self.near), Arc::clone(&self.far)]
    }
}

impl<'env, L: Link + 'env> Pair<L> {
    /// Runs the round trips of a shape and leaves the ticks of the samples.
    fn round_trips(&mut self, pair: &mut PinnedPair<'env>, shape: Shape) -> Result<()> {
        let (near, far, base) = (Arc::clone(&self.near), Arc::clone(&self.far), self.number);
        let ticks = &mut self.ticks;
        let events = shape.events();
        let near_side = || near_echo(&*near, shape, base, ticks);
        pair.both(self.name, near_side, move || far_echo(&*far, base, events))?;
        self.number += 2 * events;
        self.rounds += events;
        self.bytes += there_and_back(events, SMALL_BYTES);
        Ok(())
    }
}

impl<'env, L: Link + 'env> Transport<'env> for Pair<L> {
    fn name(&self) -> &'static str {
        self.name
    }

    fn half_round_trip_ns(
        &mut self,
        timer: &Timer,
        pair: &mut PinnedPair<'env>,
        all: Option<&mut Samples>,
    ) -> Result<f64> {
        let shape = match self.shape {
            Some(shape) => shape,
            None => {
                self.round_trips(pair, Shape::trial())?;
                let event_ns = settle(timer, &self.ticks, 1, 1.0, None);
                *self.shape.insert(Shape::lasting(timer, event_ns, READING_NS))
            }
        };
        self.round_trips(pair, shape)?;
        Ok(settle(timer, &self.ticks, shape.batch, 2.0, all))
    }

    fn bandwidth_gb_s(&mut self, timer: &Timer, pair: &mut PinnedPair<'env>) -> Result<Option<f64>> {
        if !self.near.carries_blocks() {
            return Ok(None);
        }
        // Not zeroed, and reused: neither a first touch nor a shared zero page may be measured.
        self.block.resize(LARGE_BYTES, 0x5a);
        let (near, far) = (Arc::clone(&self.near), Arc::clone(&self.far));
        let (base, number) = (self.block_number, self.number);
        let mut into = vec![0xa5; LARGE_BYTES];
        let block = &self.block;
        let near_side = || near_blocks(&*near, base, number, block);
        let far_side = move || far_blocks(&*far, base, number, &mut into);
        let (ticks, ()) = pair.both(self.name, near_side, far_side)?;
        self.block_number += LARGE_MESSAGES + 1;
        self.number += 4;
        self.bytes += READING_BYTES;
        Ok(Some((LARGE_MESSAGES * LARGE_BYTES as u64) as f64 / timer.ns(ticks)))
    }

    fn sized(&mut self, pair: &mut PinnedPair<'env>, size_bytes: usize, rounds: u64) -> Result<Vec<u64>> {
        let (near, far) = (Arc::clone(&self.near), Arc::clone(&self.far));
        let (mut there, mut back) = (vec![0x5a; size_bytes], vec![0x5a; size_bytes]);
        let near_side = || near_sized(&*near, &mut there, rounds);
        let far_side = move || far_sized(&*far, &mut back, rounds);
        let (ticks, ()) = pair.both(self.name, near_side, far_side)?;
        self.bytes += there_and_back(rounds, size_bytes);
        Ok(ticks)
    }

    fn rounds(&self) -> u64 {
        self.rounds
    }

    fn carried(&self) -> Option<Carried> {
        Carried::of(self.bytes, self.near.kernel_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pinned_pair;

    /// Every rival of the kernel carries its messages and blocks, on two processors and on one.
    #[test]
    fn rivals_work() {
        let timer = Timer::new().unwrap();
        let first = crate::cpus::allowed().unwrap()[0];
        let placements = [Some([first, first]), crate::cpus::pair(None, "test").ok()];
        for cpus in placements.into_iter().flatten() {
            pinned_pair::on(cpus, |pair| {
                let mut rivals: Vec<Box<dyn Transport<'_>>> = vec![
                    Box::new(kernel::tcp()?),
                    Box::new(kernel::unix()?),
                    Box::new(kernel::pipe()?),
                    Box::new(wake::futex()),
                    Box::new(wake::event_fd()?),
                ];
                for rival in &mut rivals {
                    let mut all = Samples::new(false)?;
                    for _ in 0..2 {
                        assert!(
                            rival.half_round_trip_ns(&timer, pair, Some(&mut all))? > 0.0,
                            "{}",
                            rival.name()
                        );
                        let blocks = rival.bandwidth_gb_s(&timer, pair)?;
                        let none = matches!(rival.name(), "futex" | "eventfd");
                        assert_eq!(blocks.is_none(), none, "{}", rival.name());
                        assert!(blocks.is_none_or(|rate| rate > 0.0));
                    }
                    assert!(!all.is_empty() && rival.rounds() >= all.len());
                    // TCP without anything between it and the kernel, to the byte; of the others
                    // the kernel keeps no count.
                    let is_tcp = rival.name() == kernel::TCP;
                    if is_tcp {
                        rival.sized(pair, 1000, 10)?;
                    }
                    let carried = rival.carried();
                    assert_eq!(carried.map(|it| it.past_kernel), is_tcp.then_some(0), "{carried:?}");
                    assert!(carried.is_none_or(|it| it.bytes > 2 * READING_BYTES));
                }
                Ok(())
            })
            .unwrap();
        }
    }
}
