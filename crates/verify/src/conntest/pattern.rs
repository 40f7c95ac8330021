//! The data that is sent: pseudo-random, different for every block, made and compared faster than memory is
//! copied.
//!
//! Sixteen xorshift32 generators (Marsaglia, Journal of Statistical Software 8:14, 2003) side by side: their
//! steps are the same instruction on sixteen lanes, so the compiler makes vector code of them.

use seeded_random::mix;

const LANES: usize = 16;
/// Bytes that one step makes.
pub(super) const LINE_BYTES: usize = LANES * 4;

/// An endless stream of bytes, decided by its seed.
#[derive(Debug, Clone)]
pub(super) struct Pattern {
    lanes: [u32; LANES],
}

impl Pattern {
    pub(super) fn new(seed: u64) -> Self {
        let mut lanes = [0; LANES];
        for (number, lane) in lanes.iter_mut().enumerate() {
            // A generator of this kind must not start at zero.
            *lane = (mix(seed ^ (number as u64) << 56) >> 32) as u32 | 1;
        }
        Self { lanes }
    }

    #[inline(always)]
    fn step(&mut self) {
        for lane in &mut self.lanes {
            *lane ^= *lane << 13;
            *lane ^= *lane >> 17;
            *lane ^= *lane << 5;
        }
    }

    /// Writes the next bytes of the stream. Only the last piece may be no multiple of [`LINE_BYTES`].
    pub(super) fn fill(&mut self, bytes: &mut [u8]) {
        let mut lines = bytes.chunks_exact_mut(LINE_BYTES);
        for line in &mut lines {
            self.step();
            for (bytes, lane) in line.chunks_exact_mut(4).zip(self.lanes) {
                bytes.copy_from_slice(&lane.to_le_bytes());
            }
        }
        let rest = lines.into_remainder();
        if !rest.is_empty() {
            self.step();
            for (bytes, lane) in rest.chunks_mut(4).zip(self.lanes) {
                for (byte, of_lane) in bytes.iter_mut().zip(lane.to_le_bytes()) {
                    *byte = of_lane;
                }
            }
        }
    }

    /// Whether these are the next bytes of the stream.
    pub(super) fn matches(&mut self, bytes: &[u8]) -> bool {
        let mut difference = [0u32; LANES];
        let mut lines = bytes.chunks_exact(LINE_BYTES);
        for line in &mut lines {
            self.step();
            for ((bytes, lane), difference) in line.chunks_exact(4).zip(self.lanes).zip(&mut difference) {
                let mut word = [0; 4];
                word.copy_from_slice(bytes);
                *difference |= u32::from_le_bytes(word) ^ lane;
            }
        }
        let rest = lines.remainder();
        let mut expected = [0; LINE_BYTES];
        if !rest.is_empty() {
            self.fill(&mut expected);
        }
        difference.iter().all(|bits| *bits == 0) && rest.iter().zip(&expected).all(|(a, b)| a == b)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stream(seed: u64, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        Pattern::new(seed).fill(&mut bytes);
        bytes
    }

    #[test]
    fn a_stream_matches_itself_in_pieces_of_any_size() {
        for len in [0, 1, 4, 63, 64, 65, 1000, 4096, 8191] {
            let bytes = stream(7, len);
            assert!(Pattern::new(7).matches(&bytes), "{len}");
            let mut pattern = Pattern::new(7);
            let (first, rest) = bytes.split_at(len / LINE_BYTES * LINE_BYTES);
            assert!(pattern.matches(first) && pattern.matches(rest), "{len}");
        }
    }

    #[test]
    fn one_wrong_bit_anywhere_is_seen() {
        let good = stream(9, 200);
        for at in 0..good.len() {
            let mut bad = good.clone();
            bad[at] ^= 1 << (at % 8);
            assert!(!Pattern::new(9).matches(&bad), "byte {at}");
        }
    }

    #[test]
    fn seeds_give_different_streams_and_streams_do_not_repeat_soon() {
        assert_ne!(stream(1, 64), stream(2, 64));
        let bytes = stream(3, 64 * 1000);
        let lines: std::collections::HashSet<&[u8]> = bytes.chunks(64).collect();
        assert_eq!(lines.len(), 1000);
        let ones: u32 = bytes.iter().map(|byte| byte.count_ones()).sum();
        let share = f64::from(ones) / (bytes.len() * 8) as f64;
        assert!((0.495..0.505).contains(&share), "{share}");
    }
}
