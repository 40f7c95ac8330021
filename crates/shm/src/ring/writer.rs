//! The writer's algorithm of a ring of lines, over any memory.
//!
//! Protocol, with `n` lines, numbered without end (line `i` lies at `i mod n`):
//!
//! 1. The writer may touch the lines below `limit` = lines that the reader has given back + `n`.
//! 2. To begin line `i` it makes sure that `i + 1` is below `limit` too and clears the control word of
//!    `i + 1`.
//! 3. It stores a record's payload, then the control word of `i` that has the record's field (Release).
//! 4. A line in which no further record will begin is closed, where possible by the store that announces its
//!    last record: a line is closed at once if another record of the same size would not fit, so that in a
//!    stream of equal records each is announced by exactly one line.

use super::control::{self, CLOSED, LINE_WORDS, PAYLOAD_WORDS, SHORT_MAX_BYTES, WRAP};
use super::words::Words;
use crate::sync::{AtomicU64, Ordering};

/// How many lines ahead the writer asks for ownership. Below 2 the clearing of the next control word waits
/// for the reader's cache on every line; measured best from 4 to 8.
const PREFETCH_LINES: u64 = 5;

/// Why a writer did not take a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refused {
    /// No room now.
    Full,
    /// The reader's word makes no sense.
    Corrupt,
}

/// The writing end.
#[derive(Debug)]
pub(super) struct LineWriter<D, C> {
    data: D,
    /// The words that the reader writes; word [`LineWriter::CONSUMED`] of them.
    reader: C,
    /// Number of lines, a power of two.
    lines: u64,
    /// The line that is being filled, or will be next.
    line: u64,
    /// Payload words of `line` that are taken; 0 means that the line has not been begun.
    used: u32,
    /// Control word of `line` so far; may be ahead of the stored one while a batch is being written.
    control: u64,
    /// The word of the next record of 8 bytes, if only such records lie in `line` and all were announced:
    /// then `used` and `control` lag behind, see [`LineWriter::settle`]. 0 if they do not, a multiple of
    /// [`LINE_WORDS`] if the line is full.
    next_word: usize,
    /// What the reader was last seen to have given back.
    consumed: u64,
    /// Lines below this one may be written. 0 once the reader's word was bad, so that every new line asks
    /// again.
    limit: u64,
    broken: bool,
}

impl<D: Words, C: Words> LineWriter<D, C> {
    /// Index of the reader's word that counts the lines it has given back.
    pub(super) const CONSUMED: usize = 0;

    /// A writer at the beginning of `lines` (a power of two, at least 4) zeroed lines.
    pub(super) fn new(data: D, reader: C, lines: u64) -> Self {
        debug_assert!(lines.is_power_of_two() && lines >= 4);
        Self {
            data,
            reader,
            lines,
            line: 0,
            used: 0,
            control: 0,
            next_word: 0,
            consumed: 0,
            limit: lines,
            broken: false,
        }
    }

    pub(super) fn data(&self) -> &D {
        &self.data
    }

    pub(super) fn reader(&self) -> &C {
        &self.reader
    }

    /// Longest record that always finds room in an empty ring: it may have to skip the lines up to the ring's
    /// end, and the line after it must be free, so half of the lines.
    pub(super) fn max_bytes(&self) -> usize {
        let bytes = self.lines / 2 * control::LINE_BYTES as u64 - 8;
        usize::try_from(bytes.min(u64::from(u32::MAX))).unwrap_or(usize::MAX)
    }

    /// Writes one record of 8 bytes and announces it.
    #[inline(always)]
    pub(super) fn push_word(&mut self, record: [u8; 8]) -> Result<(), Refused> {
        let index = self.next_word;
        let count = index % LINE_WORDS;
        if count == 0 {
            return self.push_word_settled(record);
        }
        self.data.on_payload(index, true);
        // Relaxed: the control word follows with Release.
        self.data.word(index).store(u64::from_ne_bytes(record), Ordering::Relaxed);
        // Release: pairs with the Acquire in LineReader::control_word, as in store_control: the payload, and
        // the cleared control word of the next line, happen before the reader sees this word.
        self.data.word(index - count).store(control::OF_WORDS[count], Ordering::Release);
        self.next_word = index + 1;
        Ok(())
    }

    /// As [`LineWriter::push_word`], into a new line or one that holds other records.
    fn push_word_settled(&mut self, record: [u8; 8]) -> Result<(), Refused> {
        let index = self.place_short(record.len())?;
        self.data.write_short(index, &record);
        if !self.add_short(record.len()) {
            self.announce();
            if self.control == control::OF_WORDS[self.used as usize % LINE_WORDS] {
                self.next_word = index + 1;
            }
        }
        Ok(())
    }

    /// Makes `line`, `used` and `control` what they are after the records that [`LineWriter::push_word`]
    /// wrote.
    #[inline]
    fn settle(&mut self) {
        if self.next_word != 0 {
            (self.line, self.used, self.control) = self.settled();
            self.next_word = 0;
        }
    }

    /// What `line`, `used` and `control` are.
    #[inline]
    fn settled(&self) -> (u64, u32, u64) {
        match self.next_word % LINE_WORDS {
            _ if self.next_word == 0 => (self.line, self.used, self.control),
            0 => (self.line + 1, 0, 0),
            count => (self.line, count as u32 - 1, control::OF_WORDS[count - 1]),
        }
    }

    /// Writes one record of at most [`SHORT_MAX_BYTES`] and announces it.
    #[inline]
    pub(super) fn push_short(&mut self, record: &[u8]) -> Result<(), Refused> {
        let word = self.place_short(record.len())?;
        self.data.write_short(word, record);
        if !self.add_short(record.len()) {
            self.announce();
        }
        Ok(())
    }

    /// As [`LineWriter::push_short`], but the record may stay unseen until [`LineWriter::announce`].
    #[inline]
    pub(super) fn push_short_later(&mut self, record: &[u8]) -> Result<(), Refused> {
        let word = self.place_short(record.len())?;
        self.data.write_short(word, record);
        self.add_short(record.len());
        Ok(())
    }

    /// Writes records of 8 bytes from the front of `records` into what is left of the current line, or into a
    /// new one, and returns their number: 0 if the first has another length. They may stay unseen as with
    /// [`LineWriter::push_short_later`].
    #[inline]
    pub(super) fn push_words_later<R: AsRef<[u8]>>(&mut self, records: &[R]) -> Result<usize, Refused> {
        let Some(first) = records.first() else { return Ok(0) };
        if first.as_ref().len() != 8 {
            return Ok(0);
        }
        self.settle();
        if self.used == 0 {
            self.begin_line()?;
        }
        let at = self.word_of(self.line);
        let Some(line) = self.data.line(at) else { return Ok(0) };
        // A whole line is the case that must be fast.
        let count = if self.used == 0
            && let Some(whole) = records.first_chunk::<{ PAYLOAD_WORDS as usize }>()
        {
            self.store_words(line, at, 0, whole)
        } else {
            self.store_words(line, at, self.used as usize, records)
        };
        self.control |= control::words(count, self.used);
        self.used += count;
        if self.used == PAYLOAD_WORDS {
            self.close();
        }
        Ok(count as usize)
    }

    /// Stores records of 8 bytes from payload word `used` of a line on, until one has another length.
    #[inline(always)]
    fn store_words<R: AsRef<[u8]>>(
        &self,
        line: &[AtomicU64; LINE_WORDS],
        at: usize,
        used: usize,
        records: &[R],
    ) -> u32 {
        let mut count = 0;
        for (i, (word, record)) in line.iter().skip(1 + used).zip(records).enumerate() {
            let Ok(bytes) = record.as_ref().try_into() else { break };
            self.data.on_payload(at + 1 + used + i, true);
            // Relaxed: the control word follows with Release.
            word.store(u64::from_ne_bytes(bytes), Ordering::Relaxed);
            count += 1;
        }
        count
    }

    /// Writes one record of any size up to [`LineWriter::max_bytes`] and announces it, and all before it.
    pub(super) fn push_long(&mut self, record: &[u8]) -> Result<(), Refused> {
        let word = self.place_long(record.len())?;
        self.data.write_long(word, record);
        self.commit_long(record.len());
        Ok(())
    }

    /// Finds room for a short record: the index of its first word. Nothing is announced, so it may be given
    /// up.
    #[inline]
    pub(super) fn place_short(&mut self, len: usize) -> Result<usize, Refused> {
        debug_assert!(len <= SHORT_MAX_BYTES);
        self.settle();
        if self.used + control::short_words(len) > PAYLOAD_WORDS {
            self.close();
        }
        if self.used == 0 {
            self.begin_line()?;
        }
        Ok(self.word_of(self.line) + 1 + self.used as usize)
    }

    /// Adds a placed short record to the control word. Whether that closed the line, and so announced it.
    #[inline]
    fn add_short(&mut self, len: usize) -> bool {
        let words = control::short_words(len);
        self.control |= control::field(len, self.used);
        self.used += words;
        let another_fits = self.used + words <= PAYLOAD_WORDS;
        if !another_fits {
            self.close();
        }
        !another_fits
    }

    /// Announces a placed short record.
    #[inline]
    pub(super) fn commit_short(&mut self, len: usize) {
        if !self.add_short(len) {
            self.announce();
        }
    }

    /// Shows the reader all records so far.
    #[inline]
    pub(super) fn announce(&mut self) {
        self.settle();
        if self.used > 0 {
            self.store_control(self.line, self.control);
        }
    }

    /// Announces the records of the current line and goes on to the next; does nothing if the line was not
    /// begun.
    #[inline]
    fn close(&mut self) {
        self.settle();
        if self.used > 0 {
            self.store_control(self.line, self.control | CLOSED);
            self.go_to(self.line + 1);
        }
    }

    /// Finds room for a long record: the index of its first word. Of the record nothing is announced, so it
    /// may be given up.
    pub(super) fn place_long(&mut self, len: usize) -> Result<usize, Refused> {
        self.close();
        let needed = control::long_lines(len);
        let before_end = self.before_end(self.line);
        let skipped = if needed > before_end { before_end } else { 0 };
        self.make_room(skipped + needed)?;
        if skipped > 0 {
            self.clear_control(self.line + skipped);
            self.store_control(self.line, WRAP);
            self.go_to(self.line + skipped);
        }
        Ok(self.word_of(self.line) + 1)
    }

    /// Announces the first `len` bytes of a placed long record.
    pub(super) fn commit_long(&mut self, len: usize) {
        let next = self.line + control::long_lines(len);
        self.clear_control(next);
        // Lengths are limited by max_bytes, so they fit.
        self.store_control(self.line, control::long(len as u32));
        self.go_to(next);
    }

    /// Asks for ownership of the lines that a record of `len` bytes would be written to next, as far as they
    /// are known to be free: for a writer that has nothing better to do.
    pub(super) fn own_ahead(&self, len: usize) {
        let (line, used, _) = self.settled();
        let line = if used > 0 { line + 1 } else { line };
        let (needed, before_end) = (control::long_lines(len), self.before_end(line));
        let first = if needed > before_end { line + before_end } else { line };
        // The line behind the record, too: its control word is cleared.
        let end = (first + needed + 1).min(self.limit);
        for line in first..end {
            self.data.prefetch_for_write(self.word_of(line));
        }
    }

    /// How long a long record may be now without skipping lines, at most `want` bytes; 0 if there is no room
    /// at all.
    pub(super) fn room_for_part(&mut self, want: usize) -> Result<usize, Refused> {
        self.close();
        let before_end = self.before_end(self.line);
        let needed = control::long_lines(want).min(before_end);
        match self.make_room(needed) {
            Ok(()) | Err(Refused::Full) => {}
            Err(Refused::Corrupt) => return Err(Refused::Corrupt),
        }
        // One line must stay free for the next control word.
        let free = self.limit.saturating_sub(self.line + 1).min(needed);
        let bytes = (free * control::LINE_BYTES as u64).saturating_sub(8);
        Ok(usize::try_from(bytes).unwrap_or(usize::MAX).min(want))
    }

    /// Whether a record of `len` bytes would find room now. Looks at the reader's word and changes nothing.
    pub(super) fn has_room(&self, len: usize) -> bool {
        // Acquire: as in look_at_reader.
        let consumed = self.reader.word(Self::CONSUMED).load(Ordering::Acquire);
        let (line, used, _) = self.settled();
        if self.broken || consumed < self.consumed || consumed > line {
            // Let the next push report it.
            return true;
        }
        let fits_line = len <= SHORT_MAX_BYTES && used + control::short_words(len) <= PAYLOAD_WORDS;
        if used > 0 && fits_line {
            return true;
        }
        let line = if used > 0 { line + 1 } else { line };
        let before_end = self.before_end(line);
        let needed = if len <= SHORT_MAX_BYTES { 1 } else { control::long_lines(len) };
        let skipped = if needed > before_end { before_end } else { 0 };
        line + skipped + needed < consumed + self.lines
    }

    /// Begins the current line.
    #[inline]
    fn begin_line(&mut self) -> Result<(), Refused> {
        self.make_room(1)?;
        self.clear_control(self.line + 1);
        self.data.prefetch_for_write(self.word_of(self.line + PREFETCH_LINES));
        Ok(())
    }

    /// Makes sure that `count` lines from the current one, and the control word after them, may be written.
    #[inline]
    fn make_room(&mut self, count: u64) -> Result<(), Refused> {
        if self.line + count < self.limit { Ok(()) } else { self.look_at_reader(count) }
    }

    #[cold]
    fn look_at_reader(&mut self, count: u64) -> Result<(), Refused> {
        // Acquire: pairs with the Release in LineReader::give_back. What the reader did with the lines it
        // gave back happens before we write into them again.
        let consumed = self.reader.word(Self::CONSUMED).load(Ordering::Acquire);
        // It never goes back, and never beyond what was closed.
        if self.broken || consumed < self.consumed || consumed > self.line {
            self.broken = true;
            self.limit = 0;
            return Err(Refused::Corrupt);
        }
        self.consumed = consumed;
        self.limit = consumed + self.lines;
        if self.line + count < self.limit { Ok(()) } else { Err(Refused::Full) }
    }

    #[inline]
    fn go_to(&mut self, line: u64) {
        self.line = line;
        self.used = 0;
        self.control = 0;
    }

    #[inline]
    fn clear_control(&self, line: u64) {
        // Relaxed: the Release in store_control, which follows before the reader is told of this line, covers
        // it.
        self.data.word(self.word_of(line)).store(0, Ordering::Relaxed);
    }

    #[inline]
    fn store_control(&self, line: u64, control: u64) {
        // Release: pairs with the Acquire in LineReader::look. The payload of the announced records and the
        // cleared control word of the line after them happen before the reader sees this word.
        self.data.word(self.word_of(line)).store(control, Ordering::Release);
    }

    /// Lines from `line` to the end of the ring.
    #[inline]
    fn before_end(&self, line: u64) -> u64 {
        self.lines - (line & (self.lines - 1))
    }

    #[inline]
    fn word_of(&self, line: u64) -> usize {
        // Below 2^32 lines, so nothing is cut off.
        (line & (self.lines - 1)) as usize * LINE_WORDS
    }
}
