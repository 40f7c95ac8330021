//! Our transports for the comparison: plain stores into remote memory while both sides spin, and
//! interrupts to a receiver that may sleep.

use std::time::{Duration, Instant};

use shm::{
    layout::CacheLine,
    sync::{AtomicU64, Ordering},
    window::Window,
};
use tieline::{Interrupt, InterruptOptions, Node, RemoteInterrupt, RemoteSegment};

use super::{LARGE_BYTES, Link, Pair};
use crate::{
    error::{BenchError, Result},
    patterns::attach::{CONNECT_TIMEOUT, Connected, connected},
    poll::{ANSWER_TIMEOUT, Poll, no_answer},
};

/// Name of ours by stores.
pub(super) const STORES: &str = "tieline, stores";
/// Name of ours by interrupts.
pub(super) const INTERRUPT: &str = "tieline, interrupt";
/// How often a sleeper checks that the other side still lives.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// Large messages in flight: one is written while the receiver has the other.
pub(super) const SLOTS: u64 = 2;

/// Offsets of the words, each on lines of its own; the blocks behind them.
pub(super) mod at {
    pub(in crate::rivals) const SMALL: usize = 0;
    pub(in crate::rivals) const PRODUCED: usize = 256;
    pub(in crate::rivals) const CONSUMED: usize = 512;
    pub(in crate::rivals) const BLOCKS: usize = 4096;
}

/// Bytes of the segment of [`Stores`].
pub(super) const SEGMENT_BYTES: usize = at::BLOCKS + SLOTS as usize * LARGE_BYTES;

/// The way of waiting for a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wait {
    /// The other side runs on another processor.
    Spin(Poll),
    /// It needs this very processor.
    Yield,
}

impl Wait {
    #[inline(always)]
    pub(super) fn until(self, mut ready: impl FnMut() -> bool) -> Result<()> {
        match self {
            Self::Spin(poll) => poll.until(STORES, ready).map(drop),
            Self::Yield => {
                let mut since = None;
                while !ready() {
                    std::thread::yield_now();
                    let waited = since.get_or_insert_with(Instant::now).elapsed();
                    crate::poll::still_there(waited)?;
                    if waited > ANSWER_TIMEOUT {
                        return Err(no_answer(STORES));
                    }
                }
                Ok(())
            }
        }
    }
}

/// One side of a segment of the far node.
#[derive(Debug)]
pub struct Stores<'a> {
    small: &'a AtomicU64,
    produced: &'a AtomicU64,
    consumed: &'a AtomicU64,
    /// The near side puts blocks there.
    remote: Option<&'a RemoteSegment>,
    wait: Wait,
}

impl<'a> Stores<'a> {
    /// The side that maps the other's segment.
    pub(super) fn near(window: Window<'a>, remote: &'a RemoteSegment, wait: Wait) -> Result<Self> {
        Self::new(window, Some(remote), wait)
    }

    /// The owner's side.
    pub(super) fn far(window: Window<'a>, wait: Wait) -> Result<Self> {
        Self::new(window, None, wait)
    }

    fn new(window: Window<'a>, remote: Option<&'a RemoteSegment>, wait: Wait) -> Result<Self> {
        Ok(Self {
            small: window.atomic_u64(at::SMALL)?,
            produced: window.atomic_u64(at::PRODUCED)?,
            consumed: window.atomic_u64(at::CONSUMED)?,
            remote,
            wait,
        })
    }
}

impl Link for Stores<'_> {
    #[inline(always)]
    fn send(&self, number: u64) -> Result<()> {
        // Release: pairs with the Acquire in `receive`. The message is the low half, its number the
        // high one.
        self.small.store(number << 32 | (number & 0xffff_ffff), Ordering::Release);
        Ok(())
    }

    #[inline(always)]
    fn receive(&self, number: u64) -> Result<()> {
        // Acquire: pairs with the Release in `send`.
        self.wait.until(|| self.small.load(Ordering::Acquire) >> 32 == number & 0xffff_ffff)
    }

    fn carries_blocks(&self) -> bool {
        true
    }

    fn send_block(&self, number: u64, block: &[u8]) -> Result<()> {
        // Acquire: pairs with the Release in `receive_block`; the slot's former message is done
        // with.
        self.wait.until(|| self.consumed.load(Ordering::Acquire) + SLOTS >= number)?;
        let Some(remote) = self.remote else {
            return Err(BenchError::Usage("blocks go one way".to_owned()));
        };
        remote.put(at::BLOCKS + (number % SLOTS) as usize * LARGE_BYTES, block)?;
        // Release: pairs with the Acquire in `receive_block`, publishes the block.
        self.produced.store(number, Ordering::Release);
        Ok(())
    }

    fn receive_block(&self, number: u64, _into: &mut [u8]) -> Result<()> {
        // Acquire: pairs with the Release in `send_block`. The block lies in this side's own
        // memory: nothing to copy.
        self.wait.until(|| self.produced.load(Ordering::Acquire) >= number)?;
        // Release: pairs with the Acquire in `send_block`.
        self.consumed.store(number, Ordering::Release);
        Ok(())
    }
}

/// The memory of [`stores`].
pub fn memory([near, far]: &[Node; 2]) -> Result<Connected> {
    connected(far, near, SEGMENT_BYTES)
}

/// Both ends of a segment made by [`memory`].
pub fn stores(memory: &Connected, wait: Wait) -> Result<Pair<Stores<'_>>> {
    let near = Stores::near(memory.map.window()?, &memory.remote, wait)?;
    let far = Stores::far(memory.segment.window(), wait)?;
    Ok(Pair::new(STORES, near, far))
}

/// One side's interrupt, and the other's to trigger. Usually they live in two processes; here in
/// two threads, so each gets cache lines of its own.
#[derive(Debug)]
pub struct Bells {
    input: CacheLine<Interrupt>,
    out: CacheLine<RemoteInterrupt>,
}

impl Bells {
    /// This side's interrupt, and the other side's.
    pub const fn new(input: Interrupt, out: RemoteInterrupt) -> Self {
        Self { input: CacheLine(input), out: CacheLine(out) }
    }
}

impl Link for Bells {
    fn send(&self, _number: u64) -> Result<()> {
        Ok(self.out.0.trigger()?)
    }

    fn receive(&self, _number: u64) -> Result<()> {
        let since = Instant::now();
        let came = loop {
            match self.input.0.wait(Some(LOOK_EVERY)) {
                Err(tieline::Error::TimedOut { .. }) if since.elapsed() < ANSWER_TIMEOUT => {
                    crate::poll::still_there(since.elapsed())?
                }
                came => break came?,
            }
        };
        match came {
            1 => Ok(()),
            count => Err(BenchError::OtherEnd {
                what: INTERRUPT,
                reason: format!("{count} triggers came instead of 1"),
            }),
        }
    }
}

/// An interrupt each way, near and far end. They spin before they sleep, unless made on a thread
/// that may use one processor only.
pub fn bells([near, far]: &[Node; 2]) -> Result<[Bells; 2]> {
    let at_near = near.create_interrupt(&InterruptOptions::default())?;
    let at_far = far.create_interrupt(&InterruptOptions::default())?;
    let to_near = far.connect_interrupt(near.id(), at_near.number(), CONNECT_TIMEOUT)?;
    let to_far = near.connect_interrupt(far.id(), at_far.number(), CONNECT_TIMEOUT)?;
    Ok([Bells::new(at_near, to_far), Bells::new(at_far, to_near)])
}

/// Both ends of [`bells`].
pub fn interrupts(nodes: &[Node; 2]) -> Result<Pair<Bells>> {
    let [near, far] = bells(nodes)?;
    Ok(Pair::new(INTERRUPT, near, far))
}
