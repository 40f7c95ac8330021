//! 128 bits that tell a state from a few millions of others. A search takes one of each state that it meets:
//! the hash of the standard library, which keeps strangers from choosing what collides, took two fifths of
//! its time.

use std::hash::{Hash, Hasher};

use crate::world::World;

/// Two odd numbers with as many ones as zeros, and no pattern.
const FACTORS: [u64; 2] = [0x9e37_79b9_7f4a_7c15, 0xd6e8_feb8_6659_fd93];

/// Two halves that each take in every word, in another way: multiplied to twice its width and folded, so that
/// each bit changes all.
struct Halves([u64; 2]);

impl Halves {
    fn new() -> Self {
        Self([FACTORS[1], FACTORS[0]])
    }
}

fn folded(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    product as u64 ^ (product >> 64) as u64
}

impl Hasher for Halves {
    fn write(&mut self, bytes: &[u8]) {
        let mut words = bytes.chunks_exact(8);
        for word in &mut words {
            self.write_u64(u64::from_ne_bytes(word.try_into().unwrap()));
        }
        let rest = words.remainder();
        if !rest.is_empty() {
            let mut word = [0; 8];
            word[..rest.len()].copy_from_slice(rest);
            self.write_u64(u64::from_ne_bytes(word));
        }
    }

    #[inline]
    fn write_u64(&mut self, word: u64) {
        let [low, high] = self.0;
        self.0 = [folded(low ^ word, FACTORS[0]), folded(high.rotate_left(23) ^ word, FACTORS[1])];
    }

    #[inline]
    fn write_u8(&mut self, number: u8) {
        self.write_u64(u64::from(number));
    }

    #[inline]
    fn write_u32(&mut self, number: u32) {
        self.write_u64(u64::from(number));
    }

    #[inline]
    fn write_usize(&mut self, number: usize) {
        self.write_u64(number as u64);
    }

    #[inline]
    fn write_isize(&mut self, number: isize) {
        self.write_u64(number as u64);
    }

    fn finish(&self) -> u64 {
        self.0[0]
    }
}

/// Enough of a state to tell it from a few millions of others.
pub(crate) fn fingerprint(world: &World) -> u128 {
    let mut halves = Halves::new();
    world.hash(&mut halves);
    let [low, high] = halves.0;
    u128::from(low) | u128::from(high) << 64
}

/// The hash of what is one: its first half.
#[derive(Default)]
pub(crate) struct FirstHalf(u64);

impl Hasher for FirstHalf {
    fn write(&mut self, bytes: &[u8]) {
        self.0 = u64::from_ne_bytes(bytes[..8].try_into().unwrap());
    }

    fn write_u128(&mut self, fingerprint: u128) {
        self.0 = fingerprint as u64;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    /// Lists of few small numbers, which states are made of, in both halves by themselves.
    #[test]
    fn small_numbers_in_any_order_differ_in_either_half() {
        let (mut low, mut high, mut count) = (HashSet::new(), HashSet::new(), 0);
        for number in 0..1_u32 << 18 {
            let mut halves = Halves::new();
            let digits: [u64; 9] = core::array::from_fn(|at| u64::from(number >> (2 * at) & 3));
            digits.hash(&mut halves);
            low.insert(halves.0[0]);
            high.insert(halves.0[1]);
            count += 1;
        }
        assert_eq!((low.len(), high.len()), (count, count));
    }

    #[test]
    fn a_length_that_is_no_multiple_of_a_word_counts_whole() {
        let of = |bytes: &[u8]| {
            let mut halves = Halves::new();
            bytes.hash(&mut halves);
            halves.0
        };
        assert_ne!(of(&[1; 9]), of(&[1; 10]));
        assert_ne!(of(&[0; 9]), of(&[0; 10]));
        assert_ne!(of(b"123456789"), of(b"123456788"));
    }
}
