//! `scibench2` between hosts: streams of puts of one size, each with its barrier, against libfabric's own
//! writes of the same size and number between the same two processes.

use shm::clock::now_ticks;
use tieline::RemoteSegment;

use super::sides::Stores;
use crate::{
    error::Result,
    patterns::{provider::Provider, rendezvous},
    run::Sides,
    timer::Timer,
};

/// A stream takes at least about this long, or has this many puts.
const STREAM_NS: f64 = 2_000_000.0;
const MOST_PUTS: u32 = 4096;

/// Puts of one size against libfabric's own writes, in GB/s (10⁹ bytes a second).
pub(super) struct PutStreams<'a> {
    timer: &'a Timer,
    remote: &'a RemoteSegment,
    provider: &'a mut Provider,
    source: Vec<u8>,
    /// Puts of a stream.
    count: u32,
}

impl<'a> PutStreams<'a> {
    pub(super) fn new(
        timer: &'a Timer,
        remote: &'a RemoteSegment,
        provider: &'a mut Provider,
        size_bytes: usize,
    ) -> Result<Self> {
        let mut sides = Self { timer, remote, provider, source: vec![0x5a; size_bytes], count: 1 };
        while sides.count < MOST_PUTS && sides.stream_ns()? < STREAM_NS {
            sides.count *= 2;
        }
        Ok(sides)
    }

    /// Until the owner has all bytes.
    fn stream_ns(&self) -> Result<f64> {
        let start = now_ticks();
        for _ in 0..self.count {
            self.remote.put(0, &self.source)?;
        }
        self.remote.barrier()?;
        Ok(self.timer.ns(now_ticks().saturating_sub(start)))
    }
}

impl Sides for PutStreams<'_> {
    fn ours(&mut self) -> Result<f64> {
        Ok(self.source.len() as f64 * f64::from(self.count) / self.stream_ns()?)
    }

    fn reference(&mut self) -> Result<f64> {
        // An owner that is gone is the reason why writes to it fail.
        self.remote.check()?;
        let size_bytes = self.source.len();
        Ok(size_bytes as f64 / self.provider.write_ns(super::WHAT, size_bytes, self.count.into())?)
    }
}

impl Stores for PutStreams<'_> {
    fn store_known(&mut self, seed: u64) -> Result<()> {
        rendezvous::fill(&mut self.source, seed);
        self.remote.put(0, &self.source)?;
        Ok(self.remote.barrier()?)
    }

    fn rival(&self) -> String {
        self.provider.writes_name()
    }

    fn batch(&self) -> u32 {
        self.count
    }

    fn per_reading(&self) -> u64 {
        self.count.into()
    }
}
