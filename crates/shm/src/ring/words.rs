//! The memory that a ring's algorithm runs on: a sequence of words.
//!
//! The algorithms are written once over this trait. Natively the words lie in a region; under loom they are
//! loom's atomics, so that the very same code is checked for every interleaving.

use super::control::LINE_WORDS;
use crate::sync::{AtomicU64, Ordering};

/// A row of 64-bit words that another thread or process may read or write at any time.
pub(super) trait Words {
    /// The word at `index`. An index past the end means the last word: there is no way to leave the row.
    fn word(&self, index: usize) -> &AtomicU64;

    /// The eight words from `index`, if all of them lie in the row: one check for a whole line.
    fn line(&self, index: usize) -> Option<&[AtomicU64; LINE_WORDS]>;

    /// The `count` words from `index`, or none if not all of them lie in the row.
    fn words(&self, index: usize, count: usize) -> &[AtomicU64];

    /// Copies `bytes` into the words from `index`. Nothing is written unless all of it fits.
    fn write_long(&self, index: usize, bytes: &[u8]);

    /// Copies out of the words from `index`, beginning `skip` bytes later. Nothing is read unless all of it
    /// lies in the row.
    fn read_long_from(&self, index: usize, skip: usize, bytes: &mut [u8]);

    /// Copies out of the words from `index`. Nothing is read unless all of it lies in the row.
    #[inline]
    fn read_long(&self, index: usize, bytes: &mut [u8]) {
        self.read_long_from(index, 0, bytes);
    }

    /// Asks for the line of `index` to be fetched for reading.
    fn prefetch(&self, index: usize);

    /// Asks for the line of `index` to be fetched for writing.
    fn prefetch_for_write(&self, index: usize);

    /// Told of every payload word that is written (`is_write`) or read, by the copies below: loom then checks
    /// that no two of these can happen at once. Natively nothing.
    #[inline(always)]
    fn on_payload(&self, _index: usize, _is_write: bool) {}

    /// Copies a few `bytes` into the words from `index`; the rest of the last word becomes zero.
    #[inline(always)]
    fn write_short(&self, index: usize, bytes: &[u8]) {
        // One word is the case that must be fast: a loop whose length is not known costs more than the rest
        // of a push.
        if let Ok(word) = bytes.try_into() {
            self.on_payload(index, true);
            return self.word(index).store(u64::from_ne_bytes(word), Ordering::Relaxed);
        }
        let (whole, rest) = bytes.as_chunks::<8>();
        for (i, word) in whole.iter().enumerate() {
            self.on_payload(index + i, true);
            // Relaxed, here and below: a control or state word is stored with Release after the payload.
            self.word(index + i).store(u64::from_ne_bytes(*word), Ordering::Relaxed);
        }
        if !rest.is_empty() {
            let mut last = [0; 8];
            last[..rest.len()].copy_from_slice(rest);
            self.on_payload(index + whole.len(), true);
            self.word(index + whole.len()).store(u64::from_ne_bytes(last), Ordering::Relaxed);
        }
    }

    /// Copies a few `bytes` out of the words from `index`.
    #[inline(always)]
    fn read_short(&self, index: usize, bytes: &mut [u8]) {
        if let Ok(word) = <&mut [u8; 8]>::try_from(&mut *bytes) {
            self.on_payload(index, false);
            *word = self.word(index).load(Ordering::Relaxed).to_ne_bytes();
            return;
        }
        let (whole, rest) = bytes.as_chunks_mut::<8>();
        let whole_words = whole.len();
        for (i, word) in whole.iter_mut().enumerate() {
            self.on_payload(index + i, false);
            // Relaxed, here and below: the control or state word was loaded with Acquire before the payload.
            *word = self.word(index + i).load(Ordering::Relaxed).to_ne_bytes();
        }
        if !rest.is_empty() {
            self.on_payload(index + whole_words, false);
            let last = self.word(index + whole_words).load(Ordering::Relaxed).to_ne_bytes();
            rest.copy_from_slice(&last[..rest.len()]);
        }
    }
}

/// Words on the heap, shared by threads of one process: for loom, and for tests of the algorithms alone.
#[cfg(any(test, loom))]
#[derive(Clone, Debug)]
pub(super) struct HeapWords {
    words: std::sync::Arc<Vec<AtomicU64>>,
    #[cfg(loom)]
    payload: std::sync::Arc<Vec<Watched>>,
}

/// Stands for the payload in a word. Nothing is in it; loom watches that nobody writes it while somebody else
/// reads or writes it. Without it loom would not notice a reader that gives room back before it has read: it
/// never lets a load see a store that comes later.
#[cfg(loom)]
#[derive(Debug)]
struct Watched(loom::cell::UnsafeCell<()>);

// SAFETY: there is no data in it to race for; loom reports the race that there would be.
#[cfg(loom)]
unsafe impl Sync for Watched {}
// SAFETY: as above.
#[cfg(loom)]
unsafe impl Send for Watched {}

#[cfg(any(test, loom))]
#[cfg_attr(not(test), allow(dead_code, reason = "only tests make them"))]
impl HeapWords {
    pub(super) fn new(words: usize) -> Self {
        Self {
            words: std::sync::Arc::new((0..words).map(|_| AtomicU64::new(0)).collect()),
            #[cfg(loom)]
            payload: std::sync::Arc::new(
                (0..words).map(|_| Watched(loom::cell::UnsafeCell::new(()))).collect(),
            ),
        }
    }
}

#[cfg(any(test, loom))]
impl Words for HeapWords {
    fn word(&self, index: usize) -> &AtomicU64 {
        &self.words[index.min(self.words.len() - 1)]
    }

    fn line(&self, index: usize) -> Option<&[AtomicU64; LINE_WORDS]> {
        self.words.get(index..)?.first_chunk()
    }

    fn words(&self, index: usize, count: usize) -> &[AtomicU64] {
        self.words.get(index..index + count).unwrap_or_default()
    }

    fn write_long(&self, index: usize, bytes: &[u8]) {
        assert!(index * 8 + bytes.len() <= self.words.len() * 8, "an algorithm left its memory");
        self.write_short(index, bytes);
    }

    fn read_long_from(&self, index: usize, skip: usize, bytes: &mut [u8]) {
        assert!(index * 8 + skip + bytes.len() <= self.words.len() * 8, "an algorithm left its memory");
        let mut all = vec![0; skip + bytes.len()];
        self.read_short(index, &mut all);
        bytes.copy_from_slice(&all[skip..]);
    }

    #[cfg(loom)]
    fn on_payload(&self, index: usize, is_write: bool) {
        let payload = &self.payload[index].0;
        if is_write { payload.with_mut(|_| ()) } else { payload.with(|_| ()) }
    }

    fn prefetch(&self, _index: usize) {}

    fn prefetch_for_write(&self, _index: usize) {}
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn short_copies_keep_every_length_apart_from_its_neighbours() {
        for len in 0..=56 {
            let words = HeapWords::new(10);
            for i in 0..10 {
                words.word(i).store(u64::MAX, Ordering::Relaxed);
            }
            let bytes: Vec<u8> = (1..=len).collect();
            words.write_short(1, &bytes);
            let mut back = vec![0; len as usize];
            words.read_short(1, &mut back);
            assert_eq!(back, bytes);
            assert_eq!(words.word(0).load(Ordering::Relaxed), u64::MAX);
            assert_eq!(words.word(1 + bytes.len().div_ceil(8)).load(Ordering::Relaxed), u64::MAX);
        }
    }
}
