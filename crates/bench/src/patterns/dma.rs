//! Vectors of block copies through a DMA queue, against plain memcpy of blocks of the same size in the same order.

use std::{hint::black_box, time::Duration};

use tieline::{Direction, DmaEntry, DmaQueue, DmaState, Node, RemoteSegment, Segment};

use crate::{
    error::{BenchError, Result},
    floor::{Shape, settle},
    run::Sides,
    timer::Timer,
};

/// Entries of a vector.
pub const ENTRIES: usize = 256;
/// A queue that takes longer than this has failed.
const TIMEOUT: Duration = Duration::from_secs(10);

/// A vector of 256 entries, gathered, posted and waited for, per entry; the reference is memcpy of an entry plus `extra_ns`.
pub struct DmaSides<'a> {
    timer: &'a Timer,
    queue: DmaQueue,
    local: &'a Segment,
    remote: &'a RemoteSegment,
    vector: Vec<DmaEntry>,
    size_bytes: usize,
    extra_ns: f64,
    source: Vec<u8>,
    target: Vec<u8>,
    ours: Shape,
    plain: Shape,
    ticks: Vec<u64>,
}

impl std::fmt::Debug for DmaSides<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DmaSides").field("size_bytes", &self.size_bytes).finish_non_exhaustive()
    }
}

impl<'a> DmaSides<'a> {
    /// Entries of `size_bytes`, one behind the other in both segments. The bytes are checked once.
    pub fn new(
        timer: &'a Timer,
        node: &Node,
        local: &'a Segment,
        remote: &'a RemoteSegment,
        size_bytes: usize,
        extra_ns: f64,
    ) -> Result<Self> {
        let vector = (0..ENTRIES)
            .map(|n| DmaEntry { size_bytes, local_offset: n * size_bytes, remote_offset: n * size_bytes })
            .collect();
        let total = ENTRIES * size_bytes;
        let mut sides = Self {
            timer,
            queue: node.dma_queue(ENTRIES)?,
            local,
            remote,
            vector,
            size_bytes,
            extra_ns,
            source: (0..total).map(|at| (at ^ (at >> 8)) as u8).collect(),
            target: vec![0; total],
            ours: Shape::trial(),
            plain: Shape::trial(),
            ticks: Vec::new(),
        };
        sides.check()?;
        let (ours_ns, plain_ns) = (sides.vector_ns()?, sides.copies_ns()?);
        sides.ours = Shape::for_event(timer, ours_ns);
        sides.plain = Shape::for_event(timer, plain_ns);
        Ok(sides)
    }

    /// Vectors of one reading.
    pub fn vectors_per_reading(&self) -> u64 {
        u64::from(self.ours.samples) * u64::from(self.ours.batch)
    }

    /// A vector with known bytes, compared on the other side.
    fn check(&mut self) -> Result<()> {
        self.local.window().put(0, &self.source)?;
        self.transfer()?;
        let mut back = vec![0; self.source.len()];
        self.remote.get(0, &mut back)?;
        match self.source.iter().zip(&back).position(|(want, got)| want != got) {
            None => Ok(()),
            Some(at) => Err(BenchError::WrongData {
                what: "dma",
                message: (at / self.size_bytes) as u64,
                size_bytes: self.size_bytes,
                at: at % self.size_bytes,
                want: self.source[at],
                got: back[at],
            }),
        }
    }

    fn transfer(&self) -> Result<()> {
        transfer(&self.queue, self.local, self.remote, &self.vector)
    }

    /// Median time of a vector.
    fn vector_ns(&mut self) -> Result<f64> {
        let Self { timer, queue, local, remote, vector, ours, ticks, .. } = self;
        ours.time(ticks, |_| transfer(queue, local, remote, vector))?;
        Ok(settle(timer, ticks, ours.batch, 1.0, None))
    }

    /// Median time of as many plain copies.
    fn copies_ns(&mut self) -> Result<f64> {
        let Self { timer, source, target, size_bytes, plain, ticks, .. } = self;
        // Through a black box: the size must not be known, or the copy would be a few inlined moves and no memcpy.
        let size = black_box(*size_bytes);
        plain.time(ticks, |_| {
            for (to, from) in target.chunks_exact_mut(size).zip(source.chunks_exact(size)) {
                to.copy_from_slice(black_box(from));
            }
            black_box(&target);
            Ok(())
        })?;
        Ok(settle(timer, ticks, plain.batch, 1.0, None))
    }
}

fn transfer(queue: &DmaQueue, local: &Segment, remote: &RemoteSegment, vector: &[DmaEntry]) -> Result<()> {
    queue.gather(local, remote, Direction::Push, vector)?;
    let mut state = queue.post()?;
    if state == DmaState::Posted {
        state = queue.wait(Some(TIMEOUT))?;
    }
    if state == DmaState::Done {
        return Ok(());
    }
    // The queue knows why.
    queue.wait(Some(TIMEOUT))?;
    Err(BenchError::OtherEnd { what: "dma", reason: format!("the queue ended as {state:?}") })
}

impl Sides for DmaSides<'_> {
    fn ours(&mut self) -> Result<f64> {
        Ok(self.vector_ns()? / ENTRIES as f64)
    }

    fn reference(&mut self) -> Result<f64> {
        Ok(self.copies_ns()? / ENTRIES as f64 + self.extra_ns)
    }
}
