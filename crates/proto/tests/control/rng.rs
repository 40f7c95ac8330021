//! Numbers that are the same for the same seed.

#[derive(Debug, Clone)]
pub struct Rng(seeded_random::SplitMix64);

impl Rng {
    pub fn new(seed: u64) -> Self {
        Self(seeded_random::SplitMix64::new(seed))
    }

    pub fn next(&mut self) -> u64 {
        self.0.next_u64()
    }

    pub fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound.max(1)
    }

    pub fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }
}
