//! The seeded random generator of this project: SplitMix64, the same numbers on every machine and in every
//! version.
//!
//! What it is for: faults on purpose, tests, samples and shuffles that a seed repeats exactly. A published
//! crate may change its numbers with a version; results that name a seed must not change.
//!
//! What it must never do: make secrets.
//!
//! Where to start reading: [`SplitMix64`].
#![no_std]
#![forbid(unsafe_code)]

/// The step between two states.
const GAMMA: u64 = 0x9e37_79b9_7f4a_7c15;

/// Spreads a number over all bits: the first number of the sequence that begins with it.
#[must_use]
pub const fn mix(value: u64) -> u64 {
    let mut z = value.wrapping_add(GAMMA);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// `SplitMix64` (Steele, Lea, Flood: "Fast splittable pseudorandom number generators", 2014). It passes the
/// usual batteries, needs one word of state, and is short enough to be repeated in another language.
#[derive(Debug, Clone)]
pub struct SplitMix64(u64);

impl SplitMix64 {
    /// Starts the sequence of this seed.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next 64 bits.
    pub const fn next_u64(&mut self) -> u64 {
        let drawn = mix(self.0);
        self.0 = self.0.wrapping_add(GAMMA);
        drawn
    }

    /// An index below `bound` (0 if `bound` is 0), by multiplication; the bias is below `bound / 2^64`.
    pub fn below(&mut self, bound: usize) -> usize {
        let wide = u128::from(self.next_u64()) * (bound as u128);
        (wide >> 64) as usize
    }

    /// A fair coin.
    pub const fn coin(&mut self) -> bool {
        self.next_u64() >> 63 == 1
    }

    /// Shuffles in place (Fisher and Yates).
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for i in (1..items.len()).rev() {
            items.swap(i, self.below(i + 1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_sequence() {
        // From the reference implementation, seed 1234567.
        let mut random = SplitMix64::new(1_234_567);
        let got = [random.next_u64(), random.next_u64(), random.next_u64()];
        assert_eq!(got, [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]);
        assert_eq!(mix(1_234_567), got[0]);
    }

    #[test]
    fn below_stays_below_and_reaches_everything() {
        let mut random = SplitMix64::new(7);
        let mut seen = [0u32; 5];
        for _ in 0..1000 {
            seen[random.below(5)] += 1;
        }
        assert!(seen.iter().all(|&n| n > 100), "{seen:?}");
        assert_eq!(random.below(0), 0);
    }

    #[test]
    fn shuffle_keeps_the_items() {
        let sorted: [u32; 50] = core::array::from_fn(|at| at as u32);
        let mut items = sorted;
        SplitMix64::new(3).shuffle(&mut items);
        assert_ne!(items, sorted);
        items.sort_unstable();
        assert_eq!(items, sorted);
    }
}
