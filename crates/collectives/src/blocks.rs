//! A row of things in one block for each member, as even as possible.

use std::ops::Range;

/// `len` things in `count` blocks; the first blocks have one more if they do not divide.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Blocks {
    len: usize,
    count: usize,
}

impl Blocks {
    pub(crate) fn new(len: usize, count: usize) -> Self {
        Self { len, count }
    }

    fn begin(&self, block: usize) -> usize {
        block * (self.len / self.count) + block.min(self.len % self.count)
    }

    /// The things of the blocks `from..to`.
    pub(crate) fn range(&self, from: usize, to: usize) -> Range<usize> {
        self.begin(from)..self.begin(to)
    }

    /// The things of one block.
    pub(crate) fn of(&self, block: usize) -> Range<usize> {
        self.range(block, block + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_cover_everything_once() {
        for (len, count) in [(0, 3), (1, 3), (10, 3), (12, 4), (5, 9)] {
            let blocks = Blocks::new(len, count);
            let all: Vec<usize> = (0..count).flat_map(|block| blocks.of(block)).collect();
            assert_eq!(all, (0..len).collect::<Vec<_>>());
            assert!((0..count).all(|block| blocks.of(block).len() <= len.div_ceil(count)));
        }
    }
}
