//! Stores every round trip of a run in order of time, in a compact form.
//!
//! Round trips follow each other without a gap, so only the time between two readings of the clock
//! is stored: 4 bytes a round trip. If the memory is too small for the whole run, several
//! successive round trips share an entry, which then has their sum and the longest of them; the
//! report gives their number. Between two *slices* of the run the counters of the kernel are read;
//! that time belongs to no round trip.

use crate::{
    error::{BenchError, Result},
    noise::counters::Counters,
};

/// Bytes of an entry: one round trip, or several.
const SINGLE_BYTES: usize = 4;
const SHARED_BYTES: usize = 8;
/// With fewer entries there is nothing to compare.
const SHARED_MIN: usize = 16;
/// Room for a machine that gets faster than it was when it was tried.
const MARGIN: f64 = 1.3;

/// The part of the run between two readings of the counters.
#[derive(Debug, Clone)]
pub struct Slice {
    /// When it began, in ticks since the start of the run.
    pub start: u64,
    /// Its first entry.
    pub first: usize,
    /// One past its last.
    pub end: usize,
    /// The change of the kernel's counters.
    pub counted: Counters,
}

/// The memory.
#[derive(Debug)]
pub struct Trace {
    /// Round trips that share an entry.
    every: u32,
    /// Ticks of the round trips of an entry together.
    spans: Vec<u32>,
    /// The longest of them; empty if there is only one.
    worst: Vec<u32>,
    filled: usize,
    /// Entries longer than 32 bits hold, which then hold the largest number: a second and more.
    long: Vec<(usize, u64)>,
    /// The slices.
    pub slices: Vec<Slice>,
}

/// One entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry {
    /// When it began, in ticks since the start of the run.
    pub at: u64,
    /// Ticks of its round trips together.
    pub span: u64,
    /// Ticks of the longest of them.
    pub worst: u64,
}

/// Refuses memory that cannot hold a run.
pub fn check(memory_bytes: usize) -> Result<()> {
    if memory_bytes / SHARED_BYTES < SHARED_MIN {
        return Err(BenchError::Usage(format!(
            "--memory {memory_bytes}: too small: give at least 1K (64M or more is recommended)"
        )));
    }
    Ok(())
}

impl Trace {
    /// Memory for about `expected` round trips, of at most `memory_bytes`; it is touched here.
    pub fn new(expected: f64, memory_bytes: usize) -> Result<Self> {
        let wanted = (expected.max(1.0) * MARGIN).ceil();
        let singles = memory_bytes / SINGLE_BYTES;
        let shared = memory_bytes / SHARED_BYTES;
        check(memory_bytes)?;
        let (every, entries) = if wanted <= singles as f64 {
            (1, wanted as usize)
        } else {
            // The entries that are needed then, not all that there is room for.
            let every = (wanted / shared as f64).ceil();
            (every as u32, (wanted / every).ceil() as usize)
        };
        let mut spans = Vec::new();
        let mut worst = Vec::new();
        let room = |memory: &mut Vec<u32>| -> Result<()> {
            memory.try_reserve_exact(entries).map_err(|_| {
                BenchError::Usage(format!(
                    "no memory for {entries} entries of a run: give less time or less memory"
                ))
            })?;
            // Not 0, because zeroed memory would be touched only when it is written.
            memory.resize(entries, 1);
            Ok(())
        };
        room(&mut spans)?;
        if every > 1 {
            room(&mut worst)?;
        }
        Ok(Self { every, spans, worst, filled: 0, long: Vec::with_capacity(64), slices: Vec::new() })
    }

    /// Round trips that share an entry.
    pub const fn every(&self) -> u32 {
        self.every
    }

    /// Bytes of all entries.
    pub fn memory_bytes(&self) -> usize {
        (self.spans.len() + self.worst.len()) * size_of::<u32>()
    }

    /// Whether there is room.
    #[inline(always)]
    pub fn has_room(&self) -> bool {
        self.filled < self.spans.len()
    }

    /// Entries so far.
    pub const fn len(&self) -> usize {
        self.filled
    }

    /// No entries so far.
    pub const fn is_empty(&self) -> bool {
        self.filled == 0
    }

    /// Adds an entry; there must be room, else nothing is kept.
    #[inline(always)]
    pub fn push(&mut self, span: u64, worst: u64) {
        let at = self.filled;
        let Some(slot) = self.spans.get_mut(at) else { return };
        *slot = u32::try_from(span).unwrap_or(u32::MAX);
        if let Some(slot) = self.worst.get_mut(at) {
            *slot = u32::try_from(worst).unwrap_or(u32::MAX);
        }
        if span >= u64::from(u32::MAX) {
            self.keep_long(at, span);
        }
        self.filled = at + 1;
    }

    #[cold]
    fn keep_long(&mut self, at: usize, span: u64) {
        self.long.push((at, span));
    }

    /// All entries of a slice, with their times.
    pub fn entries(&self, slice: &Slice) -> impl Iterator<Item = Entry> + '_ {
        let mut at = slice.start;
        let first = slice.first;
        (first..slice.end.min(self.filled)).map(move |index| {
            let kept = u64::from(self.spans[index]);
            let span = if kept == u64::from(u32::MAX) { self.long_of(index, kept) } else { kept };
            // The longest round trip is nearly all of a long entry.
            let worst = match self.worst.get(index) {
                Some(worst) if *worst != u32::MAX => u64::from(*worst),
                _ => span,
            };
            let entry = Entry { at, span, worst };
            at += span;
            entry
        })
    }

    fn long_of(&self, index: usize, kept: u64) -> u64 {
        self.long.iter().find(|(at, _)| *at == index).map_or(kept, |(_, span)| *span)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slice(start: u64, first: usize, end: usize) -> Slice {
        Slice { start, first, end, counted: Counters::default() }
    }

    #[test]
    fn times_are_sums() {
        let mut trace = Trace::new(10.0, 1 << 20).unwrap();
        assert_eq!((trace.every(), trace.is_empty()), (1, true));
        let long = u64::from(u32::MAX) + 7;
        [100, 250, long, 50].into_iter().for_each(|span| trace.push(span, span));
        let entries: Vec<Entry> = trace.entries(&slice(1000, 0, 3)).collect();
        assert_eq!(entries.iter().map(|e| e.at).collect::<Vec<_>>(), [1000, 1100, 1350]);
        assert_eq!((entries[2].span, entries[2].worst), (long, long));
        let rest: Vec<Entry> = trace.entries(&slice(9000, 3, 99)).collect();
        assert_eq!(rest, [Entry { at: 9000, span: 50, worst: 50 }]);
    }

    #[test]
    fn memory_is_bounded_and_shared() {
        let mut trace = Trace::new(1e9, 1 << 16).unwrap();
        assert!(trace.memory_bytes() <= 1 << 16 && trace.every() > 100_000);
        while trace.has_room() {
            trace.push(900, 300);
        }
        let full = trace.len();
        trace.push(1, 1);
        assert_eq!(trace.len(), full);
        let first = trace.entries(&slice(0, 0, 2)).nth(1).unwrap();
        assert_eq!(first, Entry { at: 900, span: 900, worst: 300 });
        assert!(Trace::new(1e9, 64).is_err());
    }
}
