//! Which processors an end may use: two ends with one and the same processor alone need no rings, through
//! which no byte would go.

use core::mem::MaybeUninit;

use crate::raw;

/// Processors that a kernel may have; with more it refuses this, and all of them count.
const MOST: usize = 8192;

/// The number of the only processor that the calling thread may run on; none if it may run on several. So it
/// is what its affinity, its control group and the machine leave (sched_getaffinity(2)).
pub(super) fn only() -> Option<u32> {
    let mut room = MaybeUninit::<[u64; MOST / 64]>::uninit();
    let arguments = [0, MOST / 8, room.as_mut_ptr() as usize, 0, 0, 0];
    // SAFETY: room of the length that is said.
    let length = unsafe { raw::call(libc::SYS_sched_getaffinity, arguments) };
    let words = usize::try_from(length).ok()?.min(MOST / 8) / size_of::<u64>();
    // SAFETY: so many words the kernel has written.
    single(unsafe { core::slice::from_raw_parts(room.as_ptr().cast(), words) })
}

/// The bit of these that alone is set.
fn single(words: &[u64]) -> Option<u32> {
    let mut found = None;
    for (at, word) in words.iter().enumerate() {
        match (word.count_ones(), found) {
            (0, _) => {}
            (1, None) => found = Some(at as u32 * u64::BITS + word.trailing_zeros()),
            _ => return None,
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_bit_that_is_alone_is_the_only_one() {
        assert_eq!(single(&[0, 0]), None);
        assert_eq!(single(&[1, 0]), Some(0));
        assert_eq!(single(&[0, 1 << 5]), Some(69));
        assert_eq!(single(&[3, 0]), None);
        assert_eq!(single(&[1, 1]), None);
        assert_eq!(single(&[u64::MAX, 0]), None);
    }
}
