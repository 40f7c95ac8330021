//! Operations on the memory of another node, which takes no part in them: put, get, atomic operations.
//!
//! Each is what a program calls on a connected segment; a put counts with the barrier after it, as
//! `osu_put_latency` counts the flush. Within a host both ends are in this process; memory of another host is
//! a server's, and looked at by gets.

use std::sync::Arc;

use shm::clock::now_ticks;
use tieline::{Node, RemoteSegment, Segment};

use super::{Test, WHAT, WORD_BYTES};
use crate::{
    error::{BenchError, Result},
    patterns::{
        attach::{Where, connected},
        rendezvous::{check, fill},
    },
    progress::Waiter,
    timer::Timer,
};

/// Where atomic operations are.
const WORD_AT: usize = 0;
/// Bytes that are moved, and operations that are made, between two looks at whether the run is to end.
const LOOK_AFTER_BYTES: usize = 16 << 20;
const LOOK_AFTER: usize = 4096;

/// Memory of the far node, connected from the near one.
pub(super) struct Memory {
    remote: RemoteSegment,
    /// The owner's, if it is in this process.
    owned: Option<Segment>,
    /// Of the near end: what is put, and what was got.
    bytes: Vec<u8>,
    timer: Timer,
    waiter: Arc<dyn Waiter>,
    /// Those of this host, which own what is connected.
    _nodes: Vec<Node>,
}

impl Memory {
    /// Of `size_bytes`, on the nodes of `place`.
    pub(super) fn start(place: &Where, size_bytes: usize, waiter: &Arc<dyn Waiter>) -> Result<Self> {
        let nodes = place.both()?;
        let there = connected(&nodes[1], &nodes[0], Self::segment_bytes(size_bytes))?;
        Self::of(there.remote, Some(there.segment), nodes.to_vec(), size_bytes, waiter)
    }

    /// Of as many bytes in a segment of another host.
    pub(super) fn there(
        remote: RemoteSegment,
        near: Node,
        size_bytes: usize,
        waiter: &Arc<dyn Waiter>,
    ) -> Result<Self> {
        Self::of(remote, None, vec![near], size_bytes, waiter)
    }

    /// Bytes of a segment for blocks of so many in all.
    pub(super) fn segment_bytes(size_bytes: usize) -> usize {
        size_bytes.max(WORD_BYTES)
    }

    fn of(
        remote: RemoteSegment,
        owned: Option<Segment>,
        nodes: Vec<Node>,
        size_bytes: usize,
        waiter: &Arc<dyn Waiter>,
    ) -> Result<Self> {
        let (bytes, waiter) = (vec![0; Self::segment_bytes(size_bytes)], Arc::clone(waiter));
        Ok(Self { remote, owned, bytes, timer: Timer::new()?, waiter, _nodes: nodes })
    }

    /// What the memory begins with, as its owner has it, or as it is got from another host.
    fn look(&self, into: &mut [u8]) -> Result<()> {
        match &self.owned {
            Some(owned) => Ok(owned.window().get(0, into)?),
            None => Ok(self.remote.get(0, into)?),
        }
    }

    /// Lays something at the beginning of the memory.
    fn lay(&self, bytes: &[u8]) -> Result<()> {
        if let Some(owned) = &self.owned {
            return Ok(owned.window().put(0, bytes)?);
        }
        self.remote.put(0, bytes)?;
        Ok(self.remote.barrier()?)
    }

    /// Carries out `test` once with bytes that are known, and compares what arrived.
    pub(super) fn prove(&mut self, test: Test, size_bytes: usize) -> Result<()> {
        let seed = size_bytes as u64;
        let mut known = vec![0; size_bytes];
        fill(&mut known, seed);
        match test {
            Test::Put | Test::PutBw => {
                self.bytes[..size_bytes].copy_from_slice(&known);
                self.operate(test, size_bytes, 0)?;
                self.remote.barrier()?;
                self.look(&mut known)?;
                check(WHAT, &known, seed)
            }
            Test::Get | Test::GetBw => {
                self.lay(&known)?;
                self.bytes[..size_bytes].fill(0);
                self.operate(test, size_bytes, 0)?;
                check(WHAT, &self.bytes[..size_bytes], seed)
            }
            // Their results are counted.
            _ => Ok(()),
        }
    }

    /// The mean time of one of `count` operations, of which `window` are made before one is waited for, in
    /// ns.
    pub(super) fn reading(
        &mut self,
        test: Test,
        size_bytes: usize,
        count: usize,
        window: usize,
    ) -> Result<f64> {
        self.lay(&[0; WORD_BYTES])?;
        let look_every = (LOOK_AFTER_BYTES / size_bytes.max(1)).clamp(1, LOOK_AFTER);
        let has_barrier = matches!(test, Test::Put | Test::PutBw);
        // A part of them warms up.
        let warm_up = count.div_ceil(16);
        let mut began = now_ticks();
        for round in 0..warm_up + count {
            if round == warm_up {
                began = now_ticks();
            }
            if round % look_every == look_every - 1 && self.waiter.stop() {
                return Err(BenchError::Stopped { what: WHAT });
            }
            if test.is_atomic() {
                self.count_up(test, round as u64)?;
                continue;
            }
            self.operate(test, size_bytes, round % window * size_bytes)?;
            let is_last = round % window == window - 1 || round == warm_up + count - 1;
            if has_barrier && is_last {
                self.remote.barrier()?;
            }
        }
        let ns = self.timer.ns(now_ticks() - began) / count as f64;
        let mut word = [0; WORD_BYTES];
        self.look(&mut word)?;
        let counted = u64::from_ne_bytes(word);
        if test.is_atomic() && counted != (warm_up + count) as u64 {
            let done = warm_up + count;
            return Err(wrong(format!(
                "the far node's word is {counted} after {done} operations that add 1"
            )));
        }
        Ok(ns)
    }

    #[inline]
    fn operate(&mut self, test: Test, size_bytes: usize, at: usize) -> Result<()> {
        let bytes = &mut self.bytes[..size_bytes];
        match test {
            Test::Get | Test::GetBw => self.remote.get(at, bytes)?,
            _ => self.remote.put(at, bytes)?,
        }
        Ok(())
    }

    /// Raises the word from `from` by 1.
    #[inline]
    fn count_up(&mut self, test: Test, from: u64) -> Result<()> {
        let remote = &self.remote;
        let before = match test {
            Test::FetchAdd => remote.fetch_add_u64(WORD_AT, 1)?,
            _ => remote.compare_swap_u64(WORD_AT, from, from + 1)?,
        };
        if before == from {
            return Ok(());
        }
        Err(wrong(format!("{} returned {before}, and {from} was there", test.name())))
    }
}

#[cold]
fn wrong(reason: String) -> BenchError {
    BenchError::OtherEnd { what: WHAT, reason }
}
