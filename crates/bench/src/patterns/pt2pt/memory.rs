//! Operations on the memory of another node, which takes no part in them: put, get, atomic operations.
//!
//! Each is what a program calls on a connected segment; a put counts with the barrier after it, as
//! `osu_put_latency` counts the flush. Both ends are in this process.

use std::sync::Arc;

use shm::clock::now_ticks;
use tieline::Node;

use super::{Test, WORD_BYTES};
use crate::{
    error::{BenchError, Result},
    patterns::{
        attach::{Connected, Where, connected},
        rendezvous::{check, fill},
    },
    progress::Waiter,
    timer::Timer,
};

const WHAT: &str = "pt2pt";
/// Where atomic operations are.
const WORD_AT: usize = 0;
/// Bytes that are moved, and operations that are made, between two looks at whether the run is to end.
const LOOK_AFTER_BYTES: usize = 16 << 20;
const LOOK_AFTER: usize = 4096;

/// Memory of the far node, connected from the near one.
pub(super) struct Memory {
    there: Connected,
    /// Of the near end: what is put, and what was got.
    bytes: Vec<u8>,
    timer: Timer,
    waiter: Arc<dyn Waiter>,
    /// They own what is connected.
    _nodes: [Node; 2],
}

impl Memory {
    /// Of `size_bytes`, on the nodes of `place`.
    pub(super) fn start(place: &Where, size_bytes: usize, waiter: &Arc<dyn Waiter>) -> Result<Self> {
        let nodes = place.both()?;
        let size_bytes = size_bytes.max(WORD_BYTES);
        let there = connected(&nodes[1], &nodes[0], size_bytes)?;
        Ok(Self {
            there,
            bytes: vec![0; size_bytes],
            timer: Timer::new()?,
            waiter: Arc::clone(waiter),
            _nodes: nodes,
        })
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
                self.there.remote.barrier()?;
                self.there.segment.window().get(0, &mut known)?;
                check(WHAT, &known, seed)
            }
            Test::Get | Test::GetBw => {
                self.there.segment.window().put(0, &known)?;
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
        let word = self.there.segment.window();
        word.store_u64(WORD_AT, 0)?;
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
                self.there.remote.barrier()?;
            }
        }
        let ns = self.timer.ns(now_ticks() - began) / count as f64;
        let counted = self.there.segment.window().load_u64(WORD_AT)?;
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
            Test::Get | Test::GetBw => self.there.remote.get(at, bytes)?,
            _ => self.there.remote.put(at, bytes)?,
        }
        Ok(())
    }

    /// Raises the word from `from` by 1.
    #[inline]
    fn count_up(&mut self, test: Test, from: u64) -> Result<()> {
        let remote = &self.there.remote;
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
