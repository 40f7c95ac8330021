//! The reader's algorithm of a ring of lines, over any memory. The protocol is described in
//! `writer`.

use super::control::{self, CLOSED, Control, FIELD_BITS, LINE_WORDS, PAYLOAD_WORDS, WRAP};
use super::words::Words;
use crate::sync::{AtomicU64, Ordering};

/// How many lines ahead the reader fetches while the writer is ahead.
///
/// Measured with words sent one by one and in batches of 16, in millions a second: 0 gives 190 and 192, 2
/// gives 205 and 207, 4 gives 80 and 260. With more than 2 the reader of single words catches up with its
/// writer and then takes lines away that the writer is about to fill, and both are slow.
const PREFETCH_LINES: u64 = 2;
/// The reader gives lines back when it has used up this part of the ring (or finds nothing more).
const GIVE_BACK_PART: u64 = 8;

/// Why a reader is broken: what the writer did that no writer does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BadWriter(pub(super) &'static str);

/// Where a record lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Found {
    /// Index of its first word.
    pub(super) word: usize,
    /// Its length in bytes. The record lies within the ring.
    pub(super) len: usize,
    /// Whether it runs over several lines.
    pub(super) is_long: bool,
}

/// A record that is being taken out.
pub(super) enum Lies<'a, D> {
    /// A record of 8 bytes in this word.
    Word(&'a AtomicU64),
    /// Any other, in these data.
    Found(&'a D, Found),
}

/// Takes records out. A trait and no closure: its method can be inlined at every place that calls it.
pub(super) trait Take<D> {
    /// Called for each record, in order.
    fn take(&mut self, lies: Lies<'_, D>);
}

/// What a short look at the control words found.
enum Glance {
    /// Nothing new.
    Nothing,
    /// A short record.
    Short(Found),
    /// Only a longer look can tell.
    Unclear,
}

/// What a look at the control words found.
enum Look {
    /// Nothing new.
    Nothing,
    /// Short records: `fields` has them.
    Short,
    /// A long record.
    Long(Found),
}

/// The reading end.
#[derive(Debug)]
pub(super) struct LineReader<D, C> {
    data: D,
    /// This side's own words; word [`LineReader::CONSUMED`] of them.
    own: C,
    /// Number of lines, a power of two.
    lines: u64,
    /// The line that is being read, or will be next.
    line: u64,
    /// Payload words of `line` that are used up.
    used: u32,
    /// Fields of the records of `line` that were seen and are not used up, beginning with the one at `used`.
    fields: u64,
    /// The control word of `line` as last seen; 0 if nothing was seen.
    seen: u64,
    /// The count that the other side has last got.
    given_back: u64,
    /// After so many lines the count is published.
    quantum: u64,
    /// The records of 8 bytes that were seen and are not used up lie in the words from here ...
    next_word: usize,
    /// ... to before this one. `used` and `fields` have gone past them.
    end_word: usize,
    broken: Option<BadWriter>,
}

impl<D: Words, C: Words> LineReader<D, C> {
    /// Index of this side's word that counts the lines given back.
    pub(super) const CONSUMED: usize = 0;

    /// A reader at the beginning of `lines` (a power of two, at least 4) lines.
    pub(super) fn new(data: D, own: C, lines: u64) -> Self {
        debug_assert!(lines.is_power_of_two() && lines >= 4);
        let quantum = (lines / GIVE_BACK_PART).max(1);
        Self {
            data,
            own,
            lines,
            line: 0,
            used: 0,
            fields: 0,
            seen: 0,
            given_back: 0,
            quantum,
            next_word: 0,
            end_word: 0,
            broken: None,
        }
    }

    pub(super) fn data(&self) -> &D {
        &self.data
    }

    pub(super) fn own(&self) -> &C {
        &self.own
    }

    /// The next record, if there is one. It stays the next until [`LineReader::advance`].
    #[inline(always)]
    pub(super) fn next(&mut self) -> Result<Option<Found>, BadWriter> {
        if self.next_word != self.end_word {
            return Ok(Some(Found { word: self.next_word, len: 8, is_long: false }));
        }
        match self.glance() {
            Glance::Nothing => Ok(None),
            Glance::Short(found) => Ok(Some(found)),
            Glance::Unclear => self.next_other(),
        }
    }

    /// What [`LineReader::next_other`] would find, in a few steps, where that is a short record of another
    /// length than 8 in this line or in the next, or nothing since the last look.
    #[inline(always)]
    fn glance(&mut self) -> Glance {
        if control::first_field(self.fields) == 0 {
            let is_used_up = self.seen & CLOSED != 0;
            let (line, used, seen) =
                if is_used_up { (self.line + 1, 0, 0) } else { (self.line, self.used, self.seen) };
            let word = self.control_word(line);
            if word == seen && !is_used_up && self.given_back == line && self.broken.is_none() {
                return Glance::Nothing;
            }
            // `used` is at most 7, so the shift is below 64.
            let rest = control::fields(word) >> (FIELD_BITS * used);
            let first = control::first_field(rest);
            let is_simple = control::is_short(word) && first != 0 && first != control::field(8, 0);
            if word == seen || !is_simple || self.broken.is_some() {
                return Glance::Unclear;
            }
            if is_used_up {
                self.go_to(line);
            }
            if word & CLOSED != 0 && seen == 0 {
                // As in `look`.
                self.data.prefetch(self.word_of(line + PREFETCH_LINES));
            }
            self.seen = word;
            self.fields = rest;
        }
        let len = control::first_field(self.fields) as usize - 1;
        if self.used + control::short_words(len) > PAYLOAD_WORDS {
            return Glance::Unclear;
        }
        let word = self.word_of(self.line) + 1 + self.used as usize;
        Glance::Short(Found { word, len, is_long: false })
    }

    /// As [`LineReader::next`], when none of `next_word` is left.
    fn next_other(&mut self) -> Result<Option<Found>, BadWriter> {
        if control::first_field(self.fields) == 0 {
            match self.look()? {
                Look::Nothing => return Ok(None),
                Look::Long(found) => return Ok(Some(found)),
                Look::Short => {}
            }
        }
        if self.next_word != self.end_word {
            return Ok(Some(Found { word: self.next_word, len: 8, is_long: false }));
        }
        self.next_short().map(Some)
    }

    /// Whether another record is known to be there, without a look at what the writer has written.
    #[inline]
    pub(super) fn knows_more(&self) -> bool {
        self.next_word != self.end_word || control::first_field(self.fields) != 0
    }

    /// Whether all of a line was taken in which no further record will be: the next one is in another line.
    #[inline]
    pub(super) fn is_at_end_of_line(&self) -> bool {
        self.seen & CLOSED != 0 && !self.knows_more()
    }

    /// Goes past a record that [`LineReader::next`] returned last.
    #[inline]
    pub(super) fn advance(&mut self, found: Found) {
        if self.next_word != self.end_word {
            self.next_word += 1;
        } else if found.is_long {
            self.go_to(self.line + control::long_lines(found.len));
        } else {
            let words = control::short_words(found.len);
            self.used += words;
            self.fields >>= FIELD_BITS * words;
            if control::first_field(self.fields) == control::field(8, 0) {
                self.take_words();
            }
        }
    }

    /// Notes how many records of 8 bytes begin `fields`.
    #[inline]
    fn take_words(&mut self) {
        let count = control::leading_words(self.fields);
        self.next_word = self.word_of(self.line) + 1 + self.used as usize;
        self.end_word = self.next_word + count as usize;
        self.used += count;
        self.fields >>= FIELD_BITS * count;
    }

    /// Goes on to the next line, if this one was full of records of 8 bytes and used up, and that one is full
    /// of them, too. [`LineReader::look`] would do the same; in a stream of words a reader that is behind
    /// needs nothing else.
    #[inline(always)]
    fn next_line_of_words(&mut self) -> bool {
        const FULL: u64 = CLOSED | control::WORDS;
        // Of such a line `fields` has nothing left.
        if self.seen != FULL {
            return false;
        }
        let line = self.line + 1;
        let at = self.word_of(line);
        if self.control_word(line) != FULL {
            return false;
        }
        self.data.prefetch(self.word_of(line + PREFETCH_LINES));
        self.line = line;
        self.next_word = at + 1;
        self.end_word = at + LINE_WORDS;
        if line - self.given_back >= self.quantum {
            self.give_back();
        }
        true
    }

    /// Takes a record of 8 bytes, if the next one is known to be one. None also if only a look can tell.
    #[inline(always)]
    pub(super) fn take_word(&mut self) -> Option<u64> {
        if self.next_word == self.end_word && !self.next_line_of_words() {
            return None;
        }
        let index = self.next_word;
        self.next_word += 1;
        self.data.on_payload(index, false);
        // Relaxed: the control word was loaded with Acquire before the payload.
        Some(self.data.word(index).load(Ordering::Relaxed))
    }

    /// Hands up to `max` records to `take`, and returns their number.
    #[inline]
    pub(super) fn drain(&mut self, max: usize, take: &mut impl Take<D>) -> Result<usize, BadWriter> {
        let mut taken = 0;
        while taken < max {
            if self.next_word != self.end_word || self.next_line_of_words() {
                taken += self.drain_words(max - taken, take);
                continue;
            }
            match self.next_other() {
                // The record is one of those that the look has found.
                Ok(Some(_)) if self.next_word != self.end_word => {}
                Ok(Some(found)) => {
                    take.take(Lies::Found(&self.data, found));
                    self.advance(found);
                    taken += 1;
                }
                Ok(None) => break,
                Err(bad) if taken == 0 => return Err(bad),
                // It stays broken, so the next call says so.
                Err(_) => break,
            }
        }
        Ok(taken)
    }

    /// Hands up to `max` of the words from `next_word` to `take`, and returns their number.
    #[inline(always)]
    fn drain_words(&mut self, max: usize, take: &mut impl Take<D>) -> usize {
        let first = self.next_word;
        let count = (self.end_word - first).min(max);
        for at in first..first + count {
            self.data.on_payload(at, false);
        }
        let words = self.data.words(first, count);
        // Each counts as taken before it is handed over: `take` may unwind. A whole line has a loop of its
        // own, which the compiler unrolls.
        if let Ok(line) = <&[AtomicU64; PAYLOAD_WORDS as usize]>::try_from(words) {
            for (i, word) in line.iter().enumerate() {
                self.next_word = first + i + 1;
                take.take(Lies::Word(word));
            }
        } else {
            for (i, word) in words.iter().enumerate() {
                self.next_word = first + i + 1;
                take.take(Lies::Word(word));
            }
        }
        count
    }

    /// Whether there is nothing to read now. A bad writer counts as something, so that the next read reports
    /// it.
    pub(super) fn is_empty(&self) -> bool {
        if self.broken.is_some() || self.next_word != self.end_word || control::first_field(self.fields) != 0
        {
            return false;
        }
        if self.seen == 0 {
            return self.is_unwritten(self.line);
        }
        // Whatever else a bad writer makes of these words is not empty.
        let is_closed = self.seen & CLOSED != 0 || {
            let word = self.control_word(self.line);
            if word == self.seen {
                return true;
            }
            word == self.seen | CLOSED
        };
        is_closed && self.is_unwritten(self.line + 1)
    }

    /// Whether nothing was announced in this line, nor behind a wrap in it.
    fn is_unwritten(&self, line: u64) -> bool {
        let before_end = self.lines - (line & (self.lines - 1));
        match self.control_word(line) {
            0 => true,
            WRAP => before_end < self.lines && self.control_word(line + before_end) == 0,
            _ => false,
        }
    }

    /// Tells the writer which lines it may use again, if there is news.
    #[inline]
    pub(super) fn give_back(&mut self) {
        if self.given_back != self.line {
            self.given_back = self.line;
            // Release: pairs with the Acquire in LineWriter::look_at_reader. Our reads of these lines happen
            // before the writer's next stores into them.
            self.own.word(Self::CONSUMED).store(self.line, Ordering::Release);
        }
    }

    /// The record of the lowest field, which is not 0.
    #[inline]
    fn next_short(&mut self) -> Result<Found, BadWriter> {
        let len = control::first_field(self.fields) as usize - 1;
        if self.used + control::short_words(len) > PAYLOAD_WORDS {
            return Err(self.break_off("a short record that leaves its line"));
        }
        let word = self.word_of(self.line) + 1 + self.used as usize;
        Ok(Found { word, len, is_long: false })
    }

    /// Looks at the control word again: the seen records are used up.
    fn look(&mut self) -> Result<Look, BadWriter> {
        if let Some(reason) = self.broken {
            return Err(reason);
        }
        // Four turns at most: this line turns out to be closed, the next is a wrap, the first one is read.
        // Whatever else the words say is an error below.
        loop {
            if self.seen & CLOSED != 0 {
                self.go_to(self.line + 1);
            }
            let word = self.control_word(self.line);
            if word == self.seen {
                self.give_back();
                return Ok(Look::Nothing);
            }
            match control::decode(word) {
                Control::Short { fields, closed } => {
                    let rest = self.field_at_used(fields);
                    if rest == 0 && (self.used == 0 || !closed) {
                        return Err(self.break_off("a line without records"));
                    }
                    if closed && self.seen == 0 {
                        // The writer is ahead by a line at least, so it no longer owns what is fetched here.
                        self.data.prefetch(self.word_of(self.line + PREFETCH_LINES));
                    }
                    self.seen = word;
                    self.fields = rest;
                    if control::first_field(rest) != 0 {
                        self.take_words();
                        return Ok(Look::Short);
                    }
                    if rest != 0 {
                        return Err(self.break_off("a gap between records"));
                    }
                }
                Control::Long { len } => return self.long(len as usize).map(Look::Long),
                Control::Wrap => self.wrap()?,
                Control::Nonsense => return Err(self.break_off("a control word that means nothing")),
            }
        }
    }

    /// A long record of `len` bytes that begins in this line.
    fn long(&mut self, len: usize) -> Result<Found, BadWriter> {
        if self.used != 0 {
            return Err(self.break_off("a long record behind short ones"));
        }
        if self.offset() + control::long_lines(len) > self.lines {
            return Err(self.break_off("a long record that leaves the ring"));
        }
        // Nothing is noted: until advance, the control word is simply read again.
        Ok(Found { word: self.word_of(self.line) + 1, len, is_long: true })
    }

    fn wrap(&mut self) -> Result<(), BadWriter> {
        let offset = self.offset();
        // At the first line it would lead back to itself, forever.
        if self.used != 0 || offset == 0 {
            return Err(self.break_off("a wrap in the wrong place"));
        }
        self.go_to(self.line + self.lines - offset);
        Ok(())
    }

    #[inline]
    fn go_to(&mut self, line: u64) {
        self.line = line;
        self.used = 0;
        self.fields = 0;
        self.seen = 0;
        if line - self.given_back >= self.quantum {
            self.give_back();
        }
    }

    /// The fields from `used` on.
    #[inline]
    fn field_at_used(&self, fields: u64) -> u64 {
        // `used` is at most 7, so the shift is below 64.
        fields >> (FIELD_BITS * self.used)
    }

    /// Declares the writer broken; the first reason is kept.
    #[cold]
    pub(super) fn break_off(&mut self, why: &'static str) -> BadWriter {
        let reason = *self.broken.get_or_insert(BadWriter(why));
        // Nothing that was seen is to be taken any more.
        (self.fields, self.seen, self.end_word) = (0, 0, self.next_word);
        reason
    }

    #[inline]
    fn control_word(&self, line: u64) -> u64 {
        // Acquire: pairs with the Release in LineWriter::store_control.
        self.data.word(self.word_of(line)).load(Ordering::Acquire)
    }

    /// Where the line lies in the ring.
    #[inline]
    fn offset(&self) -> u64 {
        self.line & (self.lines - 1)
    }

    #[inline]
    fn word_of(&self, line: u64) -> usize {
        // Below 2^32 lines, so nothing is cut off.
        (line & (self.lines - 1)) as usize * LINE_WORDS
    }
}
