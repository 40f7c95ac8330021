//! A seeded faulty network: it loses, duplicates, delays and corrupts datagrams.

use std::time::Duration;

use seeded_random::SplitMix64;

use crate::header::Mad;
use crate::in_process::Fabric;
use crate::transport::{Address, Received};
use crate::values::Lid;

/// The rates of faults, in thousandths of all datagrams, in each direction.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Harm {
    /// Lost.
    pub lose: u32,
    /// Comes twice.
    pub double: u32,
    /// Comes later, by up to [`late_by`](Self::late_by).
    pub delay: u32,
    /// Comes with bits that were turned over.
    pub garble: u32,
    /// Longest delay.
    pub late_by: Duration,
}

/// A fabric behind such a network.
#[derive(Debug)]
pub struct Injured<F> {
    /// The fabric.
    pub fabric: F,
    harm: Harm,
    random: SplitMix64,
    back: Vec<(Duration, Received)>,
}

impl<F: Fabric> Injured<F> {
    /// The fabric behind a network that does that much harm.
    pub fn new(fabric: F, harm: Harm, seed: u64) -> Self {
        Self { fabric, harm, random: SplitMix64::new(seed), back: Vec::new() }
    }

    fn dice(&mut self) -> u64 {
        self.random.next_u64()
    }

    fn happens(&mut self, thousandths: u32) -> bool {
        self.dice() % 1000 < u64::from(thousandths)
    }

    fn garble(&mut self, mad: &mut Mad) {
        for _ in 0..=self.dice() % 8 {
            let bit = self.dice() as usize % (mad.0.len() * 8);
            mad.0[bit / 8] ^= 1 << (bit % 8);
        }
    }
}

impl<F: Fabric> Fabric for Injured<F> {
    fn carry(&mut self, now: Duration, to: &Address, mad: &Mad, back: &mut Vec<(Duration, Received)>) {
        let times = 1 + u32::from(self.happens(self.harm.double));
        let mut answers = std::mem::take(&mut self.back);
        for _ in 0..times {
            if self.happens(self.harm.lose) {
                continue;
            }
            let mut mad = *mad;
            if self.happens(self.harm.garble) {
                self.garble(&mut mad);
            }
            self.fabric.carry(now, to, &mad, &mut answers);
        }
        for (after, mut received) in answers.drain(..) {
            if self.happens(self.harm.lose) {
                continue;
            }
            if self.happens(self.harm.garble) {
                self.garble(&mut received.mad);
            }
            for _ in 0..1 + u32::from(self.happens(self.harm.double)) {
                let late = if self.happens(self.harm.delay) && !self.harm.late_by.is_zero() {
                    Duration::from_nanos(self.dice() % self.harm.late_by.as_nanos() as u64)
                } else {
                    Duration::ZERO
                };
                back.push((after + late, received));
            }
        }
        self.back = answers;
    }

    fn lids(&self) -> (Lid, Lid) {
        self.fabric.lids()
    }
}
