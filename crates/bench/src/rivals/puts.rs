//! Ours between hosts: puts into memory of the other end, each of which waits in its own.

use shm::{
    sync::{AtomicU64, Ordering},
    window::Window,
};
use tieline::RemoteSegment;

use super::{
    LARGE_BYTES, Link,
    ours::{SLOTS, Wait, at},
};
use crate::error::{BenchError, Result};

/// Name of ours by puts.
pub(super) const PUTS: &str = "tieline, puts";
/// Bytes of the near side's segment, which gets no blocks.
pub(super) const NEAR_BYTES: usize = at::BLOCKS;

/// One side. Puts of one thread become visible in their order, so a word announces the block before it.
pub(super) struct Puts<'a> {
    out: &'a RemoteSegment,
    small: &'a AtomicU64,
    /// In own memory: how many blocks the near side has sent, or the far side has taken.
    count: &'a AtomicU64,
    sends_blocks: bool,
    wait: Wait,
}

impl<'a> Puts<'a> {
    /// The side that sends blocks.
    pub(super) fn near(out: &'a RemoteSegment, own: Window<'a>, wait: Wait) -> Result<Self> {
        let (small, count) = (own.atomic_u64(at::SMALL)?, own.atomic_u64(at::CONSUMED)?);
        Ok(Self { out, small, count, sends_blocks: true, wait })
    }

    /// The side that takes them.
    pub(super) fn far(out: &'a RemoteSegment, own: Window<'a>, wait: Wait) -> Result<Self> {
        let (small, count) = (own.atomic_u64(at::SMALL)?, own.atomic_u64(at::PRODUCED)?);
        Ok(Self { out, small, count, sends_blocks: false, wait })
    }

    fn put_word(&self, offset: usize, value: u64) -> Result<()> {
        Ok(self.out.put(offset, &value.to_ne_bytes())?)
    }
}

impl Link for Puts<'_> {
    fn send(&self, number: u64) -> Result<()> {
        // The message is the low half, its number the high one.
        self.put_word(at::SMALL, number << 32 | (number & 0xffff_ffff))
    }

    fn receive(&self, number: u64) -> Result<()> {
        self.wait.until(|| self.small.load(Ordering::Acquire) >> 32 == number & 0xffff_ffff)
    }

    fn carries_blocks(&self) -> bool {
        true
    }

    fn send_block(&self, number: u64, block: &[u8]) -> Result<()> {
        if !self.sends_blocks {
            return Err(BenchError::Usage("blocks go one way".to_owned()));
        }
        // The slot's former message is done with.
        self.wait.until(|| self.count.load(Ordering::Acquire) + SLOTS >= number)?;
        self.out.put(at::BLOCKS + (number % SLOTS) as usize * LARGE_BYTES, block)?;
        self.put_word(at::PRODUCED, number)
    }

    fn receive_block(&self, number: u64, _into: &mut [u8]) -> Result<()> {
        // The block lies in this side's own memory: nothing to copy.
        self.wait.until(|| self.count.load(Ordering::Acquire) >= number)?;
        self.put_word(at::CONSUMED, number)
    }
}
